"""Rule about operators that take more than twice what their bytes and operations need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import MEMORY, roofline
from tracetui.findings.attention import gathered, unfused_attention
from tracetui.findings.gemm import batchable_rows, conversions, fp32_rows, misaligned_rows
from tracetui.findings.kernel_times import underfilled
from tracetui.findings.launches import calls_of
from tracetui.findings.scope import Finding, Scope
from tracetui.findings.training import loop_of
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import links, names_of
from tracetui.model.intervals import Int64, covered_within, union, without
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.trace import Float64, Trace

FAR_SHARE = 0.5
"""Share of the peak below which a call is far from the roofline."""
MIN_CALL_NS = 20_000
"""Minimum duration of a call that is compared with the roofline; a shorter one is held up by its launch."""
MAX_SHARED = 0.2
"""Maximum share of the time of a kernel with others beside it, which may have slowed it down."""
MAX_NAMED_OPS = 2
"""Maximum further operators named."""
MIN_NAMED_SHARE = 0.2
"""Minimum saving of a further operator, relative to the first."""
_MEMORY_ADVICE = (
    "Every byte is moved at that rate at best: read and write less. Fuse the op with its neighbours (torch.compile, or "
    "a fused form), use smaller types, keep inputs contiguous."
)
_COMPUTE_ADVICE = (
    "The Tensor Cores (Matrix Cores on AMD) could do more: see tile, alignment and blocks of its kernel, try "
    "max-autotune, larger or rounder shapes, or a lower precision."
)
_OWN_ADVICE = {
    "aten::_index_put_impl_": "Indexed stores write row by row and sort the indices where they accumulate: index_add_, "
    "index_copy_ or scatter_ of whole rows move more at once, and where each row has one source a gather by the "
    "inverse permutation needs no scatter at all.",
}
"""Advice for operators with a faster form."""


_PASSES = {"_norm_backward": 5 / 3, "batch_norm": 3 / 2, "group_norm": 3 / 2}
"""Reads and writes of operators that read their input twice, relative to reading it once."""


@dataclass(frozen=True, eq=False)
class FarCalls:
    """Calls that are far from the roofline; parallel arrays with one entry per call."""

    main: Int64
    """Row of the main kernel."""
    op: Int64
    """Id of the operator's name."""
    span: Float64
    """Time in ns of the kernels of the call that no other rule is about."""
    least: Float64
    """Roofline time in ns."""
    bound: Int64


def far_from_roofline(scope: Scope) -> Iterator[Finding]:
    """The operator that loses most time against the roofline (3(i))."""
    trace = scope.trace
    far = _far_calls(scope)
    if len(far.main) == 0:
        return
    ops = group(far.op)
    excess, span, least = (ops.sum(values) for values in (far.span - far.least, far.span, far.least))
    candidates = np.argsort(-excess)[: MAX_NAMED_OPS + 1].tolist()
    prices = {
        number: _price(scope, far.main[ops.member == number], least[number] / span[number]) for number in candidates
    }
    worst, *others = sorted(candidates, key=lambda number: -prices[number])
    mine = np.flatnonzero(ops.member == worst)
    at = int(mine[np.argmax(far.span[mine])])
    name = trace.names[int(ops.key[worst])]
    calls = calls_of(scope, far.main[[at]])
    like = [
        f"{trace.names[int(ops.key[number])]}, {duration(float(excess[number]))} above"
        for number in others
        if prices[number] > MIN_NAMED_SHARE * prices[worst]
    ]
    memory = far.bound[at] == MEMORY
    yield from scope.priced(
        "far-from-roofline",
        prices[worst],
        f"{name} is far below what the device can do",
        f"{scope.per_step(len(mine), 'call')}, {duration(float(span[worst]))}, at "
        f"{rounded_percent(100 * float(least[worst] / span[worst]))} of the {'bandwidth' if memory else 'peak rate'}, "
        f"{duration(float(excess[worst]))} above the roofline; the longest, {calls.known[int(calls.signature[0])].text}"
        + (f"; likewise {' and '.join(like)}" if like else ""),
        _OWN_ADVICE.get(name, _MEMORY_ADVICE if memory else _COMPUTE_ADVICE),
        int(far.main[at]),
        action=f"see why {name} is slow",
    )


def _far_calls(scope: Scope) -> FarCalls:
    """Calls of known shapes below half of the roofline that no other rule is about."""
    trace = scope.trace
    work, rooflines = kernel_work(trace), roofline(trace)
    own = without(distinct(scope.computing), _judged_elsewhere(scope))
    of_call = work.main[work.at(own)]
    dur = np.where(of_call >= 0, trace.slices.dur[own], 0)
    span: Float64 = np.bincount(np.maximum(of_call, 0), dur, len(work.rows)).astype(np.float64)
    at = work.at(own)
    op = names_of(trace, links(trace).owner[own])
    least = rooflines.roofline_ns[at] * _passes(trace, op)
    with np.errstate(invalid="ignore"):
        far = (work.group[at] >= 0) & (span[at] >= MIN_CALL_NS) & (least < FAR_SHARE * span[at])
    # What captured a replayed kernel is inferred, and ran only once.
    far &= ~work.captured[at]
    far &= np.isfinite(least) & (op >= 0) & (rooflines.share[at] <= 1) & (_shared(trace, own) <= MAX_SHARED)
    return FarCalls(own[far], op[far], span[at][far], least[far], rooflines.bound[at][far])


def _shared(trace: Trace, rows: Int64) -> Float64:
    """The share of the time of each kernel in which activities of other streams ran beside it."""
    slices, every = trace.slices, links(trace).gpu
    shared = np.zeros(len(rows))
    for lane in np.unique(slices.lane[rows]).tolist():
        mine = slices.lane[rows] == lane
        others = every[slices.lane[every] != lane]
        stretches = union(slices.start[others], slices.end[others])
        shared[mine] = covered_within(*stretches, slices.start[rows[mine]], slices.end[rows[mine]])
    share: Float64 = shared / np.maximum(slices.dur[rows], 1)
    return share


def _passes(trace: Trace, op: Int64) -> Float64:
    """By how much the least bytes of operators are exceeded by those that read their input twice."""
    factor = np.ones(len(trace.names) + 1)
    for number in np.unique(op[op >= 0]).tolist():
        name = trace.names[number]
        factor[number] = next((passes for part, passes in _PASSES.items() if part in name), 1.0)
    passes: Float64 = factor[op]
    return passes


def _judged_elsewhere(scope: Scope) -> Int64:
    """Kernels that a more exact rule is about."""
    rules = [unfused_attention(scope).rows, misaligned_rows(scope), gathered(scope), loop_of(scope).kernels]
    loops = [batchable_rows(scope), underfilled(scope).rows]
    return np.unique(np.concatenate([*rules, *loops, conversions(scope), fp32_rows(scope)]))


def _price(scope: Scope, main: Int64, least: float) -> int:
    """The part of the time of calls in ns that is above the roofline, as far as the GPU is the limit."""
    work = kernel_work(scope.trace)
    rows = np.setdiff1d(work.rows[np.isin(work.main, work.at(main))], conversions(scope))
    return int(scope.gpu_cost(rows) * (1 - least))
