"""Rule about runs of small elementwise kernels that one kernel could replace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.findings.finding import Finding
from tracetui.findings.launches import alone, kernel_time
from tracetui.findings.optimizer import is_optimizer_loop, loop_of
from tracetui.findings.scope import Scope
from tracetui.kernel_names import LAYOUT_CONVERSION, Family, decode
from tracetui.linking.groups import Groups, group
from tracetui.linking.lanes import is_named
from tracetui.linking.placement import step_index
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration

MAX_TINY_NS = 10_000
"""Maximum duration of a tiny kernel, which hardly takes longer than its launch."""
MIN_RUN_KERNELS = 3
"""Minimum tiny kernels in a row."""
_FUSIBLE = (Family.POINTWISE, Family.REDUCTION, Family.COPY)
_NOT_FUSIBLE = (
    "optimizer",
    "foreach",
    "sort",
    "select",
    "search",
    "sampling",
    "routing",
    "histogram",
    LAYOUT_CONVERSION,
)
"""Operations that no compiler fuses with their neighbours, or that are for many tensors at once."""


def tiny_kernels(scope: Scope) -> Iterator[Finding]:
    """Small elementwise kernels in a row on a stream, which one kernel could replace."""
    rows, runs = _runs(scope)
    if len(rows) == 0:
        return
    start, dur, end = (getattr(scope.trace.slices, name)[rows] for name in ("start", "dur", "end"))
    total = float(dur.sum())
    if total == 0:
        # Recorded with less than a clock tick each: there is nothing to save.
        return
    # One kernel instead of a run takes at least as long as the shortest of them.
    kept = float(dur[runs.smallest(dur)].sum()) / total
    spent = int((end[runs.largest(end)] - start[runs.smallest(start)]).sum())
    advice, action = _advice(scope, rows)
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
    good = (slices.dur[rows] < MAX_TINY_NS) & _could_be_fewer(scope, rows)
    if is_optimizer_loop(scope):
        good &= ~np.isin(rows, loop_of(scope).kernels)
    fresh = np.ones(len(rows), bool)
    for values in (good, slices.lane[rows], step_index(trace, rows)):
        fresh[1:] &= values[1:] == values[:-1]
    fresh[1:] = ~fresh[1:]
    run = np.cumsum(fresh)
    kept = good & (np.bincount(run)[run] >= MIN_RUN_KERNELS)
    return rows[kept], group(run[kept])


def _could_be_fewer(scope: Scope, rows: Int64) -> Bool:
    """Mask of the kernels that a compiler could fuse, and of generated ones that are called several times in a row."""
    trace = scope.trace
    name, lane = trace.slices.name[rows], trace.slices.lane[rows]
    again = np.zeros(len(rows), bool)
    same = (name[1:] == name[:-1]) & (lane[1:] == lane[:-1])
    again[1:] |= same
    again[:-1] |= same
    return is_named(trace, rows, _is_fusible) | (again & is_named(trace, rows, _is_generated))


def _read_between(scope: Scope, rows: Int64) -> bool:
    """Whether the CPU reads a value between most of the kernels, so that no compiler can join them."""
    slices = scope.trace.slices
    copies = scope.copies_to_host
    order = np.lexsort((slices.start[rows], slices.lane[rows]))
    first, last = rows[order][:-1], rows[order][1:]
    read = np.searchsorted(slices.start[copies], slices.start[last]) > np.searchsorted(
        slices.start[copies], slices.start[first]
    )
    return bool(read.sum() > len(rows) / 2)


@cache
def _is_fusible(name: str) -> bool:
    """Whether a compiler could put the kernel into one with its neighbours; no transposes of libraries."""
    decoded = decode(name)
    plain = decoded.operation not in _NOT_FUSIBLE and "foreach" not in (*decoded.flags, decoded.operation)
    return plain and decoded.family in _FUSIBLE and decoded.library == "PyTorch"


@cache
def _is_generated(name: str) -> bool:
    """Whether a compiler made the kernel from operators that its name tells."""
    decoded = decode(name)
    return decoded.library == "Inductor" and bool(decoded.fused_ops)


def _advice(scope: Scope, rows: Int64) -> tuple[str, str]:
    if _read_between(scope, rows):
        return (
            "The CPU reads a value after most of them: vectorise the loop, so that one operation on a whole tensor "
            "replaces those on its elements, and read the result once.",
            "vectorise the loop",
        )
    if not scope.program.is_compiled:
        return (
            "Each kernel reads and writes memory and is launched on its own. torch.compile fuses them; by hand, write "
            "the expression as one kernel, batch the calls or use a fused op.",
            "compile them into fewer (torch.compile)",
        )
    if scope.program.is_wholly_compiled:
        return (
            "Compiled code launches most kernels already: batch calls that are equal (stack their inputs), so that "
            "each kernel does more.",
            "batch equal calls",
        )
    return (
        "Part of the program is compiled: see what leaves the others out (graph breaks, TORCH_LOGS=graph_breaks), and "
        "batch calls that are equal, so that each kernel does more.",
        "batch equal calls and compile the rest",
    )
