"""The idle time that the rules share out: each takes the parts of its own causes, so that none is told twice.

Times are means over the devices of the trace: what several devices wait for is waited for once. The time before the
first GPU activity is in no gap; what passes there is looked up on the thread of the first launch and said apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.findings.scope import Scope
from tracetui.idle.gaps import open_at
from tracetui.idle.idle_parts import IdleParts, clock_skew, idle_parts, late_gaps
from tracetui.idle.idleness import idleness
from tracetui.idle.thread_causes import thread_causes
from tracetui.idle.waits import OVERHEAD, Cause
from tracetui.linking.frames import frames, is_own
from tracetui.linking.groups import group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration
from tracetui.model.trace import Kind, Trace

MAX_NAMED_PLACES = 3
"""Maximum places named in a sentence, the longest first."""
LAUNCHING = (*OVERHEAD, Cause.SLOW_LAUNCH)
"""Causes that the CPU's way to a launch has."""


def parts_of(scope: Scope, *causes: Cause) -> IdleParts:
    """The parts of the gaps in scope that have one of the causes."""
    parts = _parts_in_scope(scope)
    return parts.take(np.isin(parts.cause, causes))


def _parts_in_scope(scope: Scope) -> IdleParts:
    """The parts of the gaps in scope, of which nearly every rule asks some."""

    def find() -> IdleParts:
        parts = idle_parts(scope.trace)
        if len(scope.gaps) == len(idleness(scope.trace)):
            return parts
        held = np.zeros(len(idleness(scope.trace)), bool)
        held[scope.gaps] = True
        return parts.take(held[parts.gap])

    return scope.trace.keep(("idle parts in scope", scope.step), find)


def launching_parts(scope: Scope) -> IdleParts:
    """The parts that are launch overhead, with the launch latency of what was launched late."""
    parts = parts_of(scope, *LAUNCHING, Cause.LATENCY)
    return parts.take((parts.cause != Cause.LATENCY) | late_gaps(scope.trace)[parts.gap])


def idle_cost(scope: Scope, parts: IdleParts) -> int:
    """Time in ns of some parts, in the mean over the devices."""
    return int(parts.dur.sum()) // scope.devices


def longest_part(scope: Scope, parts: IdleParts) -> int:
    """The GPU activity after the longest part, -1 for none."""
    if len(parts) == 0:
        return -1
    return int(idleness(scope.trace).after[parts.gap[np.argmax(parts.dur)]])


@dataclass(frozen=True)
class TimeToFirstKernel:
    """What passed before the first GPU activity in scope, in ns."""

    total: int
    by_cause: dict[Cause, int]

    def of(self, *causes: Cause) -> int:
        """Time of some causes."""
        return sum(self.by_cause.get(cause, 0) for cause in causes)


def time_to_first_kernel(scope: Scope) -> TimeToFirstKernel:
    """The time before the first GPU activity by what the thread that launched it was doing."""

    def find() -> TimeToFirstKernel:
        trace, (begin, end) = scope.trace, scope.lead_window
        if scope.time_to_first_kernel == 0 or end <= begin:
            return TimeToFirstKernel(0, {})
        lane = _first_thread(scope)
        window = np.array([begin], np.int64), np.array([end], np.int64)
        threads = thread_causes(trace, np.array([lane], np.int64), *window)
        _, start, stop, cause = threads.within(np.array([lane], np.int64), *window)
        sums = np.bincount(cause, stop - start, len(Cause)).astype(np.int64)
        # What ran on a GPU meanwhile had been launched before the capture.
        share = scope.time_to_first_kernel / max(int(sums.sum()), 1)
        return TimeToFirstKernel(
            scope.time_to_first_kernel, {each: int(sums[each] * min(share, 1.0)) for each in Cause if sums[each]}
        )

    return scope.trace.keep(("lead-in", scope.step), find)


def _first_thread(scope: Scope) -> int:
    """The lane of the thread that launched the first activity in scope, or that of the first step."""
    trace = scope.trace
    launch = int(links(trace).launch[scope.activities[0]])
    if launch >= 0:
        return int(trace.slices.lane[launch])
    if len(steps(trace)):
        return int(steps(trace).lane[0])
    rows = trace.slices.of_kind(Kind.RUNTIME, Kind.CPU_OP)
    return int(trace.slices.lane[rows[np.argmin(trace.slices.start[rows])]]) if len(rows) else 0


def places(trace: Trace, parts: IdleParts) -> str:
    """The longest few places in which the CPU was during some parts: lines of Python, or names.

    Empty where nothing is known of most of the time.
    """
    row = rows_of(trace, parts)
    known = np.flatnonzero(row >= 0)
    if len(known) == 0:
        return ""
    if 2 * parts.dur[known].sum() < parts.dur.sum():
        return ""
    names = group(trace.slices.name[_told(trace, row[known])])
    sums = names.sum(parts.dur[known])
    order = np.argsort(-sums, kind="stable")[:MAX_NAMED_PLACES]
    return _listed([(trace.names[int(names.key[index])], int(sums[index])) for index in order.tolist()])


def rows_of(trace: Trace, parts: IdleParts) -> Int64:
    """The innermost slice of the thread in the middle of each part, -1 for none."""
    row = np.full(len(parts), -1, np.int64)
    seen = np.flatnonzero(parts.lane >= 0)
    middle = (parts.start[seen] + parts.end[seen]) // 2 - clock_skew(trace)
    row[seen] = open_at(trace, parts.lane[seen], middle)
    row[np.isin(row, steps(trace).row)] = -1
    return row


def _told(trace: Trace, rows: Int64) -> Int64:
    """The slices to name: the frames of the user's own code where they were recorded."""
    user = frames(trace).user[rows].astype(np.int64)
    python = trace.slices.kind[rows] == Kind.PYTHON
    python[python] = is_named(trace, rows[python], is_own)
    return np.where((user >= 0) & ~python, user, rows)


def _listed(named: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {duration(spent)}" for name, spent in named if spent)
