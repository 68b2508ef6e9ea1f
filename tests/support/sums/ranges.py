"""What the pane of a range must say, and what ranges that follow each other must add up to, the slow way (R3.58)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.support.sums.rows import Row, ns
from tests.support.sums.slices import Slice, SlowTrace, busy, by_device
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Kind, LaneKind
from tracetui.panes import PANES

IN_CALLS = (Kind.CPU_OP, Kind.RUNTIME, Kind.OTHER)


def rows_in(slow: SlowTrace, pane: str, part: TimeRange, by: str | None = None) -> list[Row]:
    """The rows of a pane, of a range."""
    return list(PANES[pane].build(slow.trace, step=part, by=by).rows())


def runs_in(each: Slice, part: TimeRange) -> bool:
    """Whether some moment of a slice is in the range; a slice of no length has one moment."""
    return each.start < part.end and part.start < max(each.end, each.start + 1)


def clipped(slices: Iterable[Slice], part: TimeRange) -> list[Slice]:
    """The slices that run in a range, as far as they do."""
    found = []
    for each in slices:
        if runs_in(each, part):
            start, end = max(each.start, part.start), min(each.end, part.end)
            found.append(Slice(each.row, each.event, each.name, each.kind, each.lane, each.pid, start, end, -1, -1))
    return found


def check_range(slow: SlowTrace, part: TimeRange) -> None:
    """Counts and times of the pane are those of the slices, cut at both ends."""
    found = defaultdict(list)
    for row in rows_in(slow, "range", part):
        found[row["what"]].append((row["name"], row["count"], ns(row["total_us"])))
    assert found["range"] == [(part.text, None, part.length)]
    lanes, work = slow.trace.lanes, clipped(slow.work, part)
    spent = {lanes[mine[0].lane].process: busy(clipped(mine, part)) for mine in by_device(slow.work)}
    assert sorted(found["GPU busy"]) == sorted((name, None, time) for name, time in spent.items())
    assert sorted(found["GPU idle"]) == sorted((name, None, part.length - time) for name, time in spent.items())
    idle = sum(time for _, _, time in found["GPU idle"])
    assert sum(time for _, _, time in found["idle"]) == idle
    if slow.work:
        kernels = [each for each in work if each.kind == Kind.KERNEL]
        copies = [each for each in work if each.kind != Kind.KERNEL]
        assert found["kernels"] == [(None, len(kernels), sum(each.dur for each in kernels))]
        assert found["copies and fills"] == [(None, len(copies), sum(each.dur for each in copies))]
        calls = clipped(slow.launched, part)
        assert found["launch calls"] == [(None, len(calls), sum(each.dur for each in calls))]
        assert sum(count for _, count, _ in found["kernel"]) == len(work)
    else:
        assert not any(found[word] for word in ("GPU busy", "GPU idle", "kernels", "gaps", "launch calls"))
    assert found["operators"][0][1] == len(clipped(slow.ops, part))
    threads, steps = defaultdict(list), {step.row for step in slow.steps}
    for each in clipped(slow.of_kind(*IN_CALLS), part):
        if lanes[each.lane].kind == LaneKind.CPU and each.row not in steps:
            threads[each.lane].append(each)
    told = sorted((lanes[lane].name, len(mine), busy(mine)) for lane, mine in threads.items())
    assert sorted(found["thread"]) == told


ADDED = (
    ("kernels", "name", ("total_us",)),
    ("kernels", "stream", ("total_us",)),
    ("launches", "name", ("total_us",)),
    ("gaps", "cause", ("total_us", "cpu_late_us", "in_launch_us", "waiting_us")),
    ("gaps", "line", ("total_us", "cpu_late_us", "in_launch_us", "waiting_us")),
    ("ops", None, ("self_cpu_us", "cpu_total_us", "self_device_us", "device_total_us")),
    ("ops", "event", ("self_cpu_us", "self_device_us")),
    ("views", None, ("self_cpu_us", "cpu_total_us")),
    ("occupancy", "op", ("total_us",)),
    ("modules", None, ("own_gpu_us", "own_cpu_us")),
    ("memory", "copy", ("total_us",)),
)
"""Panes whose sums are those of the time within a range: grouping and columns."""


def check_partition(slow: SlowTrace, parts: list[TimeRange]) -> None:
    """Ranges that follow each other have the times of the range that they make together, and those that hold
    everything the times of the trace.
    """
    whole = TimeRange(parts[0].start, parts[-1].end)
    for what in ("GPU busy", "GPU idle", "idle", "kernels", "gaps", "thread", "launch calls", "operators"):
        assert sum(_time(slow, what, part) for part in parts) == _time(slow, what, whole), what
    for pane, by, columns in ADDED:
        for column in columns:
            sums = [_total(rows_in(slow, pane, part, by), column) for part in parts]
            assert sum(sums) == _total(rows_in(slow, pane, whole, by), column), (pane, by, column)


def check_whole(slow: SlowTrace, whole: TimeRange) -> None:
    """A range that holds everything has the rows and the sums of the trace."""
    for pane, by, columns in ADDED:
        table = list(PANES[pane].build(slow.trace, by=by).rows())
        for column in columns:
            assert _total(rows_in(slow, pane, whole, by), column) == _total(table, column), (pane, by, column)
    for pane in ("kernels", "launches", "gaps", "occupancy", "memory", "steps"):
        assert rows_in(slow, pane, whole) == list(PANES[pane].build(slow.trace).rows()), pane


def _time(slow: SlowTrace, what: str, part: TimeRange) -> int:
    return sum(ns(row["total_us"]) for row in rows_in(slow, "range", part) if row["what"] == what)


def _total(rows: list[Row], column: str) -> int:
    return sum(ns(row[column]) for row in rows)
