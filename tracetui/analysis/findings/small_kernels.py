"""Rule about runs of small elementwise kernels that one kernel could replace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.analysis.common.groups import Groups, group
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.findings.finding import Finding
from tracetui.analysis.findings.launches import alone, kernel_time
from tracetui.analysis.findings.optimizer import is_optimizer_loop, loop_of
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.names import LAYOUT_CONVERSION, Family, decode
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration

MAX_TINY_NS = 10_000
"""Maximum duration of a tiny kernel, which hardly takes longer than its launch."""
MIN_RUN_KERNELS = 3
"""Minimum tiny kernels in a row."""
_FUSIBLE = (Family.POINTWISE, Family.REDUCTION, Family.COPY)
_FUSIBLE_LIBRARIES = ("PyTorch", "Inductor")
_NOT_FUSIBLE = ("optimizer", "foreach", "sort", "select", "search", "sampling", "routing", LAYOUT_CONVERSION)
"""Operations that no compiler fuses with their neighbours, or that are for many tensors at once."""


def tiny_kernels(scope: Scope) -> Iterator[Finding]:
    """Small elementwise kernels in a row on a stream, which one kernel could replace."""
    rows, runs = _runs(scope)
    if len(rows) == 0:
        return
    start, dur, end = (getattr(scope.trace.slices, name)[rows] for name in ("start", "dur", "end"))
    # One kernel instead of a run takes at least as long as the shortest of them.
    kept = float(dur[runs.smallest(dur)].sum()) / float(dur.sum())
    spent = int((end[runs.largest(end)] - start[runs.smallest(start)]).sum())
    advice, action = _advice(scope)
    yield from scope.priced(
        "tiny-kernels",
        int(alone(scope, rows) * (1 - kept)),
        "Small kernels in a row could be fewer",
        f"{kernel_time(scope, rows)}, in {counted(len(runs), 'run')} of up to {int(runs.calls.max()):,}, median "
        f"{duration(float(np.median(dur)))}; {duration(spent)} from the first of each run to its last, gaps included",
        advice,
        int(rows[int(np.argmax(runs.calls[runs.member]))]),
        action=action,
    )


def _runs(scope: Scope) -> tuple[Int64, Groups]:
    """The tiny kernels in a row on a stream within a step, and the run of each."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.kernels
    rows = rows[np.lexsort((slices.start[rows], slices.lane[rows]))]
    good = (slices.dur[rows] < MAX_TINY_NS) & is_named(trace, rows, _is_fusible)
    if is_optimizer_loop(scope):
        good &= ~np.isin(rows, loop_of(scope).kernels)
    fresh = np.ones(len(rows), bool)
    for values in (good, slices.lane[rows], step_index(trace, rows)):
        fresh[1:] &= values[1:] == values[:-1]
    fresh[1:] = ~fresh[1:]
    run = np.cumsum(fresh)
    kept = good & (np.bincount(run)[run] >= MIN_RUN_KERNELS)
    return rows[kept], group(run[kept])


@cache
def _is_fusible(name: str) -> bool:
    """Whether a compiler could put the kernel into one with its neighbours; no transposes of libraries."""
    decoded = decode(name)
    plain = decoded.operation not in _NOT_FUSIBLE and "foreach" not in (*decoded.flags, decoded.operation)
    return plain and decoded.family in _FUSIBLE and decoded.library in _FUSIBLE_LIBRARIES


def _advice(scope: Scope) -> tuple[str, str]:
    if not scope.program.is_compiled:
        return (
            "Each kernel reads and writes memory and is launched on its own. torch.compile fuses them; by hand, write "
            "the expression as one kernel, batch the calls or use a fused op.",
            "compile them into fewer (torch.compile)",
        )
    return (
        "Part of the program is compiled: see what leaves the others out (graph breaks, TORCH_LOGS=graph_breaks), and "
        "batch calls that are equal, so that each kernel does more.",
        "batch equal calls and compile the rest",
    )
