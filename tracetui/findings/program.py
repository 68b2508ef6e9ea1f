"""What the recorded program does already, read from the trace, so that no rule advises what is done."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.health.time_checks import stack_cost
from tracetui.kernel_names import decode
from tracetui.linking.captures import captures
from tracetui.linking.lanes import is_named
from tracetui.linking.links import calls_named, links
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.linking.stretches import Axis, Stretches
from tracetui.model.trace import Kind, Trace
from tracetui.operators.ops import has_allocations
from tracetui.operators.signatures import has_shapes

_COMPILED = re.compile(
    r"^Torch-Compiled Region|^## Call CompiledFxGraph|^TorchDynamo Cache Lookup|^AOTDispatcher Runtime Wrapper"
    r"|^Pregraph bytecode"
)
_IN_COMPILED = re.compile(r"^Torch-Compiled Region|^CompiledFunction|^## Call CompiledFxGraph")
_GENERATOR = "Inductor"
MIN_COMPILED_SHARE = 0.5
"""Minimum share of the kernels that compiled code launched, for the program to count as compiled as a whole."""
_SINGLE = re.compile(r"_SingleProcessDataLoaderIter")
_WORKERS = re.compile(r"_MultiProcessingDataLoaderIter")
BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")


@dataclass(frozen=True)
class Program:
    """What the recorded program does, and what was recorded of it; False where the trace does not show it."""

    compiled_share: float
    """Share (0 to 1) of the kernels that code made by `torch.compile` launched, or that it generated; 0 where none of
    its regions and kernels was recorded.
    """
    has_graphs: bool
    """CUDA graphs were replayed or captured."""
    has_workers: bool
    """A DataLoader with worker processes was read."""
    loads_in_process: bool
    """A DataLoader without worker processes was read."""
    has_backward: bool
    """Gradients were computed."""
    has_optimizer: bool
    has_frames: bool
    """So many Python frames were recorded that they slow the CPU down."""
    has_shapes: bool
    """Shapes of inputs were recorded."""
    has_memory: bool
    """Memory events were recorded."""

    @property
    def is_compiled(self) -> bool:
        """Whether code made by `torch.compile` ran, if only for a part of the program."""
        return self.compiled_share > 0

    @property
    def is_wholly_compiled(self) -> bool:
        """Whether most kernels come from code made by `torch.compile`."""
        return self.compiled_share >= MIN_COMPILED_SHARE


def program(trace: Trace) -> Program:
    """Facts about the program, found once."""
    return trace.remember("program", lambda: _read(trace))


def _read(trace: Trace) -> Program:
    frames = stack_cost(trace)
    host = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON)
    return Program(
        compiled_share=_compiled_share(trace),
        has_graphs=len(calls_named(trace, GRAPH_LAUNCH)) + len(captures(trace)) > 0,
        has_workers=_has(trace, host, _WORKERS),
        loads_in_process=_has(trace, host, _SINGLE),
        has_backward=_has(trace, (Kind.CPU_OP,), BACKWARD),
        has_optimizer=_has(trace, host, OPTIMIZER_STEP),
        has_frames=frames is not None and frames.count > 0,
        has_shapes=has_shapes(trace),
        has_memory=has_allocations(trace),
    )


def _compiled_share(trace: Trace) -> float:
    """Share of the kernels that are generated, or launched within a compiled region."""
    slices, kernels = trace.slices, trace.slices.of_kind(Kind.KERNEL)
    generated = is_named(trace, kernels, lambda name: decode(name, Kind.KERNEL).library == _GENERATOR)
    # Without such a region `CompiledFunction` may be of another compiler, or of none that makes kernels.
    if not (generated.any() or _has(trace, (Kind.CPU_OP, Kind.ANNOTATION), _COMPILED)):
        return 0.0
    regions = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    regions = regions[is_named(trace, regions, _IN_COMPILED.search)]
    axis = Axis.around(slices.start, slices.end)
    inside = Stretches.of(axis, slices.lane[regions], slices.start[regions], slices.end[regions])
    launch = links(trace).launch[kernels].astype(np.int64)
    called = slices.start[launch]
    held = (launch >= 0) & (inside.covered(slices.lane[launch], called, called + 1) > 0)
    # Regions without kernels (a CPU program) count as a trace of it.
    return max(float((generated | held).mean()), 1e-9) if len(kernels) else 1.0


def _has(trace: Trace, kinds: tuple[Kind, ...], pattern: re.Pattern[str]) -> bool:
    rows = trace.slices.of_kind(*kinds)
    return bool(is_named(trace, rows, pattern.search).any())
