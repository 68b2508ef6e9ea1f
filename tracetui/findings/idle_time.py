"""Times that several rules share: idle time by cause, and GPU time that nothing else hides.

Each rule takes the parts of the gaps that have its own causes, so that no time is counted twice. Times are means over
the devices of the trace: what several devices wait for is waited for once. The time before the first GPU activity is
in no gap: its causes are those of the thread of the first launch, and it is reported apart.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tracetui.findings.scope import Scope
from tracetui.idle.gpu_spans import communicates
from tracetui.idle.idle_parts import IdleParts, clock_skew, late_gaps
from tracetui.idle.idleness import idleness
from tracetui.idle.waits import OVERHEAD, Cause
from tracetui.linking.frames import frames, is_own
from tracetui.linking.groups import group
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named, open_at
from tracetui.model.intervals import Int64, covered, without
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.trace import Kind, Trace

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


def longest_part(scope: Scope, parts: IdleParts) -> int:
    """The GPU activity after the longest part, -1 for none."""
    if len(parts) == 0:
        return -1
    return int(idleness(scope.trace).after[parts.gap[np.argmax(parts.dur)]])


def causes_before_first_kernel(scope: Scope) -> Counter[Cause]:
    """Time in ns before the first GPU activity in scope, by what the thread that launched it was doing."""
    return scope.lead_causes


def places(trace: Trace, parts: IdleParts) -> str:
    """The few places in which the CPU was longest during some parts, each with its time: lines of Python, or names.

    Empty where the place of most of the time is not known.
    """
    row = _innermost(trace, parts)
    known = np.flatnonzero(row >= 0)
    if len(known) == 0 or 2 * parts.dur[known].sum() < parts.dur.sum():
        return ""
    rows = row[known]
    if len(trace.slices.of_kind(Kind.PYTHON)):
        # The line of the user's code is named rather than what it called.
        user = frames(trace).user[rows].astype(np.int64)
        is_line = trace.slices.kind[rows] == Kind.PYTHON
        is_line[is_line] = is_named(trace, rows[is_line], is_own)
        rows = np.where((user >= 0) & ~is_line, user, rows)
    names = group(trace.slices.name[rows])
    sums = names.sum(parts.dur[known])
    order = np.argsort(-sums, kind="stable")[:MAX_NAMED_PLACES].tolist()
    spent = [(trace.names[int(names.key[index])], int(sums[index])) for index in order]
    return ", ".join(f"{name} {duration(time)}" for name, time in spent if time)


def _innermost(trace: Trace, parts: IdleParts) -> Int64:
    """The innermost slice of the thread in the middle of each part, -1 for none."""
    row = np.full(len(parts), -1, np.int64)
    on_thread = np.flatnonzero(parts.lane >= 0)
    middle = (parts.start[on_thread] + parts.end[on_thread]) // 2 - clock_skew(trace)
    row[on_thread] = open_at(trace, parts.lane[on_thread], middle)
    row[np.isin(row, steps(trace).row)] = -1
    return row


def alone(scope: Scope, rows: Int64) -> int:
    """Time in ns in which some of the kernels ran and no other kernel that computes (R3.30)."""
    slices = scope.trace.slices
    start, end = slices.start, slices.end
    if len(rows) == 0:
        return 0
    # What ran before the first of them or after the last hides none of them.
    near = slices.of_kind(Kind.KERNEL)
    near = near[(start[near] < end[rows].max()) & (end[near] > start[rows].min())]
    others = without(near, rows)
    others = others[~communicates(scope.trace)[others]]
    together = np.concatenate([others, rows])
    return covered(start[together], end[together]) - covered(start[others], end[others])


def kernel_time(scope: Scope, rows: Int64, thing: str = "kernel") -> str:
    """Number, GPU time and share of the GPU time of some kernels: `234 kernels (39 a step), 37.6 ms, 7.5 % of ...`."""
    slices = scope.trace.slices
    spent, total = int(slices.dur[rows].sum()), max(int(slices.dur[scope.activities].sum()), 1)
    share = rounded_percent(100 * spent / total)
    return f"{scope.per_step(len(rows), thing)}, {duration(spent)}, {share} of the GPU time"
