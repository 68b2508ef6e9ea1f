"""Times that several rules share: idle time by cause, and GPU time that nothing else hides.

Each rule takes the parts of the gaps that have its own causes, so that no time is counted twice. Times are means over
the devices of the trace: what several devices wait for is waited for once. The time before the first GPU activity is
in no gap: its causes are those of the thread of the first launch, and it is reported apart.
"""

from __future__ import annotations

import numpy as np

from tracetui.findings.scope import Scope
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import communicates
from tracetui.idle.idle_parts import IdleParts, clock_skew, late_gaps
from tracetui.idle.waits import OVERHEAD, Cause, idleness
from tracetui.linking.frames import MODULE, is_own
from tracetui.linking.groups import group
from tracetui.linking.links import activities_between, op_rows
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, forest, is_named, lane_axis, nearest
from tracetui.model.intervals import Int64, covered, index_in, without
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Slices, Trace

MAX_NAMED_PLACES = 3
"""Maximum places named in a sentence, the longest first."""
LAUNCHING = (*OVERHEAD, Cause.SLOW_LAUNCH)
"""Causes of idle time on the CPU's way to a launch."""


def parts_of(scope: Scope, *causes: Cause) -> IdleParts:
    """The parts of the gaps in scope that have one of the causes."""
    return scope.idle_parts.take(np.isin(scope.idle_parts.cause, causes))


def launching_parts(scope: Scope) -> IdleParts:
    """The parts that are launch overhead, and the launch latency of what was launched late."""
    parts = parts_of(scope, *LAUNCHING, Cause.LATENCY)
    return parts.take((parts.cause != Cause.LATENCY) | late_gaps(scope.trace)[parts.gap])


def idle_cost(scope: Scope, parts: IdleParts) -> int:
    """Time in ns of some parts, in the mean over the devices."""
    return int(parts.dur.sum()) // scope.devices


def launching_idle(scope: Scope, rows: Int64) -> int:
    """Time in ns of launch overhead in which its thread was in one of the slices, in the mean over the devices."""
    slices, parts, skew = scope.trace.slices, launching_parts(scope), clock_skew(scope.trace)
    parts = parts.take(parts.lane >= 0)
    axis = lane_axis(scope.trace)
    inside = Stretches.of(axis, slices.lane[rows], slices.start[rows], slices.end[rows])
    return int(inside.covered(parts.lane, parts.start - skew, parts.end - skew).sum()) // scope.devices


def longest_part(scope: Scope, parts: IdleParts) -> int:
    """The GPU activity after the longest part, -1 for none."""
    if len(parts) == 0:
        return -1
    return int(idleness(scope.trace).after[parts.gap[np.argmax(parts.dur)]])


def places(trace: Trace, parts: IdleParts) -> str:
    """The few places in which the CPU was longest during some parts, each with its time in them.

    Empty where the place of most of the time is not known.
    """
    spent, inside = place_times(trace, parts), _inside(trace, parts)
    total = int(parts.dur[parts.lane < 0].sum()) + int((inside.ends - inside.starts).sum())
    if 2 * sum(spent.values()) < total:
        return ""
    longest_first = sorted(spent.items(), key=lambda each: -each[1])[:MAX_NAMED_PLACES]
    return ", ".join(f"{name} {duration(time)}" for name, time in longest_first)


def place_times(trace: Trace, parts: IdleParts) -> dict[str, int]:
    """For each place in which the CPU was during some parts the time in ns for which it was there.

    Places are frames of the user's own code where there are any, else outermost operators, else annotations. Time in a
    frame that calls another one is that of the other one. What several devices wait for counts once.
    """
    if len(parts) == 0:
        return {}
    slices, inside, named = trace.slices, _inside(trace, parts), _named_slices(trace)
    low, high = parts.start.min() - clock_skew(trace), parts.end.max() - clock_skew(trace)
    near = np.flatnonzero((named.start < high) & (named.end > low))
    rows = named.rows[near]
    time = inside.covered(slices.lane[rows], slices.start[rows], slices.end[rows])
    parent = index_in(near, named.parent[near])
    inner = np.flatnonzero(parent >= 0)
    own = np.maximum(time - np.bincount(parent[inner], time[inner], len(rows)).astype(np.int64), 0)
    names = group(slices.name[rows])
    sums = names.sum(own).astype(np.int64).tolist()
    return {trace.names[key]: spent for key, spent in zip(names.key.tolist(), sums, strict=True) if spent}


def _inside(trace: Trace, parts: IdleParts) -> Stretches:
    """The time of the parts on their threads, on the clock of the CPU."""
    on_thread, skew = parts.take(parts.lane >= 0), clock_skew(trace)
    axis = lane_axis(trace)
    return Stretches.of(axis, on_thread.lane, on_thread.start - skew, on_thread.end - skew)


@frozen
class _NamedSlices:
    """The slices that places are named by, ascending."""

    rows: Int64
    parent: Int64
    """Index of the one around it, -1 for none."""
    start: Int64
    end: Int64


@kept
def _named_slices(trace: Trace) -> _NamedSlices:
    slices, ops = trace.slices, op_rows(trace)
    python = slices.of_kind(Kind.PYTHON)
    own = python[is_named(trace, python, lambda name: is_own(name) and not name.startswith(MODULE))]
    notes = without(slices.of_kind(Kind.ANNOTATION), np.sort(steps(trace).slices))
    rows = own
    for more in (ops[forest(trace, ops) < 0], notes):
        # What lies in what is named already is no place of its own.
        both = np.sort(np.concatenate([rows, more]))
        is_named_already = np.isin(both, rows)
        lies_within = nearest(forest(trace, both), is_named_already) >= 0
        rows = both[is_named_already | ~lies_within]
    return _NamedSlices(rows, forest(trace, rows), slices.start[rows], slices.end[rows])


def alone(scope: Scope, rows: Int64) -> int:
    """Time in ns in which some of the kernels ran and no other kernel that computes (R3.30)."""
    slices = scope.trace.slices
    start, end = slices.start, slices.end
    if len(rows) == 0:
        return 0
    # What ran before the first of them or after the last hides none of them.
    near = activities_between(scope.trace, int(start[rows].min()), int(end[rows].max()))
    others = without(np.sort(near[slices.kind[near] == Kind.KERNEL]), rows)
    return exposed_ns(slices, rows, others[~communicates(scope.trace)[others]])


def exposed_ns(slices: Slices, rows: Int64, others: Int64) -> int:
    """Time in ns in which some slices ran and none of the others."""
    start, end, both = slices.start, slices.end, np.concatenate([rows, others])
    return covered(start[both], end[both]) - covered(start[others], end[others])


def kernel_time(scope: Scope, rows: Int64, thing: str = "kernel") -> str:
    """Number, GPU time and share of the GPU time of some kernels: `234 kernels (39 a step), 37.6 ms, 7.5 % of ...`."""
    slices = scope.trace.slices
    spent, total = int(slices.dur[rows].sum()), max(int(slices.dur[scope.activities].sum()), 1)
    share = rounded_percent(100 * spent / total)
    return f"{scope.per_step(len(rows), thing)}, {duration(spent)}, {share} of the GPU time"
