"""The range pane: what ran between two moments, in sums of what lies between them (R3.58, R3.59).

Slices count as far as they run within the range, on the GPU by their own time and not by that of their launch. So the
times of ranges that follow each other add up to those of the range that they make together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tracetui.idle.idle_parts import idle_parts
from tracetui.idle.scope_times import scope_windows
from tracetui.idle.waits import SYNC_NAME, WORDS, Cause, device_order, idleness
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links, no_gpu
from tracetui.linking.placement import chosen, ops_within, within
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange, covered
from tracetui.model.pane import Pane
from tracetui.model.quantities import count, counted, duration, rounded_percent, stretch
from tracetui.model.results import kept
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.operators.costs import is_overlapped, self_times

MAX_NAMED_KERNELS = 10
"""Maximum kernels listed by name."""
MAX_NAMED_OPS = 10
"""Maximum operators listed by name."""
IN_NO_GAP = "in no gap"
"""Stands for the cause of idle time before the first activity of a device, behind its last, and too short for a gap."""


class RangeFact(NamedTuple):
    """A row of the pane; what is None is not known, or means nothing here."""

    what: str
    name: str | None
    number: int | None
    time: int | None
    """In ns, within the range."""
    row: int = -1
    """The slice to jump to."""
    is_doubtful: bool = False
    """True where the time contains self times that measure nothing."""


def range_of(trace: Trace, part: Part | None) -> TimeRange:
    """The range of time of a part: itself, the period of a step, or the whole trace.

    Raises: UsageError when no step has the number.
    """
    if isinstance(part, TimeRange):
        return part
    if part is None:
        return TimeRange(*trace.window)
    low, high = scope_windows(trace, part)
    return TimeRange(int(low[0]), int(high[-1]))


def range_table(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Counts and times of what ran in a range of time, in the period of a step, or in the whole trace."""
    part = range_of(trace, step)
    facts = [*_extent(trace, part, step), *(fact for make in _TOPICS for fact in make(trace, part))]
    # The idle time of many devices together may not fit 64 bits.
    times = np.array([0 if fact.time is None else fact.time for fact in facts], np.float64)
    unknown = np.array([fact.time is None for fact in facts], bool)
    doubtful = np.array([fact.is_doubtful for fact in facts], bool)
    share = np.where(unknown | doubtful, np.nan, 100 * times / max(part.length, 1))
    return Table(
        (
            texts(col.WHAT, [fact.what for fact in facts]),
            texts(col.NAME.but(help="Of which device, cause, kernel, operator or thread."), [f.name for f in facts]),
            numbers(
                col.COUNT.but(help="How many ran in it, those that began before or ended after it included."),
                [NULL if fact.number is None else fact.number for fact in facts],
            ),
            micros(
                col.TOTAL_US.but(heading="time", help="Time within the range; what ran side by side is added."),
                times,
                null=unknown,
                doubtful=doubtful,
            ),
            numbers(col.PCT.but(help="Share of the length of the range."), share),
        ),
        np.array([fact.row for fact in facts], np.int64),
        no_gpu(trace),
        headline=_headline(trace, part, facts),
    )


PANE = Pane(
    "range",
    "Range",
    key="T",
    help="What ran in a range of time: one row is a count with its time within it.",
    table=range_table,
    columns="what name count total_us pct",
    bars="total_us",
    is_in_time_order=False,
)


def _extent(trace: Trace, part: TimeRange, step: Part | None) -> Iterator[RangeFact]:
    yield RangeFact("range", part.text, None, part.length)
    every, picked = steps(trace), chosen(trace, part if step is None else step)
    if len(picked):
        number = distinct(every.number[picked])
        name = str(number[0]) if len(number) == 1 else f"{number[0]} to {number[-1]}"
        yield RangeFact("steps", name, len(picked), None, int(every.row[picked[0]]))


def _busy(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    """Busy and idle time of every device of the trace, which make the length of the range together (R3.59)."""
    order, slices = device_order(trace), trace.slices
    for device in distinct(order.device).tolist():
        rows = order.row[order.device == device]
        name = trace.lanes[int(slices.lane[rows[0]])].process
        inside = within(trace, rows, part)
        busy = _union(trace, part, inside)
        yield RangeFact("GPU busy", name, None, busy, int(inside[0]) if len(inside) else -1)
        yield RangeFact("GPU idle", name, None, part.length - busy)


def _activities(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    rows = within(trace, links(trace).gpu, part)
    if len(links(trace).gpu):
        is_kernel = trace.slices.kind[rows] == Kind.KERNEL
        yield _sum(trace, part, "kernels", rows[is_kernel])
        yield _sum(trace, part, "copies and fills", rows[~is_kernel])
        idle = idleness(trace)
        lies = np.flatnonzero(part.touched(idle.start, idle.end))
        dur = part.covered(idle.start[lies], idle.end[lies])
        longest = int(idle.after[lies[np.argmax(dur)]]) if len(lies) else -1
        yield RangeFact("gaps", None, len(lies), _total(dur), longest)
        yield _sum(trace, part, "launch calls", within(trace, links(trace).launches, part))


def _ops(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    rows, own = _op_times_in_range(trace, part)
    longest = int(rows[np.argmax(own)]) if len(rows) else -1
    yield RangeFact("operators", None, len(rows), int(own.sum()), longest, bool(is_overlapped(own).any()))


def _threads(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    """Time in operators and calls of each thread, and of it the waits for the GPU."""
    slices = trace.slices
    on_thread = np.array([lane.kind == LaneKind.CPU for lane in trace.lanes], bool)
    rows = within(trace, slices.of_kind(Kind.CPU_OP, Kind.RUNTIME, Kind.OTHER), part)
    rows = rows[on_thread[slices.lane[rows]] & ~np.isin(rows, steps(trace).slices)]
    waits = calls_named(trace, SYNC_NAME)
    found = []
    for lane in distinct(slices.lane[rows]).tolist():
        mine = rows[slices.lane[rows] == lane]
        waiting = mine[np.isin(mine, waits)]
        found.append((_union(trace, part, mine), lane, mine, waiting))
    for busy, lane, mine, waiting in sorted(found, key=lambda each: -each[0]):
        yield RangeFact("thread", trace.lanes[lane].name, len(mine), busy, int(mine[0]))
        if len(waiting):
            name = f"{trace.lanes[lane].name}: for the GPU"
            yield RangeFact("waiting", name, len(waiting), _union(trace, part, waiting), int(waiting[0]))


def _total(times: Int64) -> int:
    """The sum of times in ns, which may be above 64 bits; exact below 100 days."""
    return int(times.sum(dtype=np.float64))


def _union(trace: Trace, part: TimeRange, rows: Int64) -> int:
    return covered(trace.slices.start[rows].clip(part.start), trace.slices.end[rows].clip(max=part.end))


def _causes(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    """Idle time by cause, the longest first, and what of it lies in no gap."""
    idle, parts = idleness(trace), idle_parts(trace)
    parts = parts.take(part.touched(parts.start, parts.end))
    spent = part.covered(parts.start, parts.end)
    causes = group(parts.cause)
    total, longest = causes.sum(spent), causes.largest(spent)
    for index in np.argsort(-total, kind="stable").tolist():
        row = int(idle.after[parts.gap[longest[index]]])
        yield RangeFact("idle", WORDS[causes.key[index]], int(causes.calls[index]), int(total[index]), row)
    rest = sum(fact.time or 0 for fact in _busy(trace, part) if fact.what == "GPU idle") - _total(spent)
    if rest > 0:
        yield RangeFact("idle", IN_NO_GAP, None, rest)


def _kernel_names(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    rows = within(trace, links(trace).gpu, part)
    spent = part.covered(trace.slices.start[rows], trace.slices.end[rows])
    yield from _names(trace, "kernel", rows, spent, MAX_NAMED_KERNELS)


def _op_names(trace: Trace, part: TimeRange) -> Iterator[RangeFact]:
    yield from _names(trace, "operator", *_op_times_in_range(trace, part), MAX_NAMED_OPS)


@kept
def _op_times_in_range(trace: Trace, part: TimeRange) -> tuple[Int64, Int64]:
    """The operators that run within a range, and the self time in ns of each there."""
    rows = ops_within(trace, part)
    return rows, self_times(trace, part)[rows]


def _names(trace: Trace, what: str, rows: Int64, spent: Int64, limit: int) -> Iterator[RangeFact]:
    """The names that took most time, and in a row all others."""
    names = group(trace.slices.name[rows])
    total, longest = names.sum(spent).astype(np.int64), names.largest(spent)
    doubtful = names.sum(is_overlapped(spent)) > 0
    order = np.argsort(-total, kind="stable")
    for index in order[:limit].tolist():
        name = trace.names[int(names.key[index])]
        name = short_kernel(name) if what == "kernel" else name
        row, calls = int(rows[longest[index]]), int(names.calls[index])
        yield RangeFact(what, name, calls, int(total[index]), row, bool(doubtful[index]))
    others = order[limit:]
    if len(others):
        more = counted(len(others), "other name")
        calls, time = int(names.calls[others].sum()), int(total[others].sum())
        yield RangeFact(what, more, calls, time, -1, bool(doubtful[others].any()))


_TOPICS = (_busy, _activities, _ops, _threads, _causes, _kernel_names, _op_names)
"""In the order of the rows: sums first, then what they are made of."""


def _sum(trace: Trace, part: TimeRange, what: str, rows: Int64) -> RangeFact:
    spent = part.covered(trace.slices.start[rows], trace.slices.end[rows])
    return RangeFact(what, None, len(rows), int(spent.sum()), int(rows[np.argmax(spent)]) if len(rows) else -1)


def _headline(trace: Trace, part: TimeRange, facts: list[RangeFact]) -> str:
    """A sentence: counts of what ran, and how busy the GPU was."""
    by_what = {fact.what: fact for fact in reversed(facts)}
    parts = [
        counted(fact.number or 0, thing) for what, thing in _COUNTED if (fact := by_what.get(what)) and fact.number
    ]
    ran = ", ".join(parts) or "no kernel, copy or operator"
    busy = [fact.time or 0 for fact in facts if fact.what == "GPU busy"]
    which_range = f"Range {stretch(part.start, part.end)} ({duration(part.length)})"
    if not busy:
        return f"{which_range}: {ran}."
    share = 100 * sum(busy) / max(part.length * len(busy), 1)
    which = "GPU" if len(busy) == 1 else f"{count(len(busy))} GPUs on average"
    idle = max((fact for fact in facts if fact.what == "idle"), key=lambda fact: fact.time or 0, default=None)
    is_explained = idle is not None and idle.name != IN_NO_GAP
    why = f", idle mostly {_WHILE.get(idle.name or '', f'by {idle.name}')}" if idle is not None and is_explained else ""
    return f"{which_range}: {ran}; {which} busy {rounded_percent(share)}{why}."


_WHILE = {
    WORDS[Cause.OPERATORS]: "while the CPU is inside operators",
    WORDS[Cause.CALLS]: "while the CPU is inside runtime calls",
    WORDS[Cause.PYTHON]: "while the CPU runs Python",
    WORDS[Cause.LONG_GAP]: "while the CPU is outside PyTorch",
}
"""Causes that say what the CPU is in, as clauses."""


_COUNTED = (("kernels", "kernel"), ("copies and fills", "copy"), ("operators", "operator"))
"""The things that the sentence counts, by the name of the row."""
