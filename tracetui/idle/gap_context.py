"""What stands around one gap: the activities before and after it, its causes, and what the CPU did meanwhile.

CPU times are those of the trace; the gap is moved to the clock of the CPU where the two clocks disagree (3(g)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.cause_words import Cause
from tracetui.idle.clock import clock_skew
from tracetui.idle.gaps import open_at
from tracetui.idle.idle_parts import idle_contents
from tracetui.idle.idleness import idleness
from tracetui.linking.groups import distinct, group
from tracetui.model.intervals import Int64
from tracetui.model.trace import LaneKind, Trace

MAX_SLICES_OF_GAP = 400
"""Maximum slices of the CPU named with a gap, the longest ones."""


@dataclass(frozen=True)
class GapPart:
    """A cause of a gap, and its time in ns."""

    cause: Cause
    time: int


@dataclass(frozen=True)
class CpuName:
    """A name that the CPU spent time of a gap in: itself, without what it called."""

    row: int
    """The slice of that name with the most of it."""
    time: int
    """Self time within the gap, in ns."""
    slices: int
    """Slices of the name that had some."""


def gap_before(trace: Trace, row: int) -> int:
    """The index in `idleness(trace)` of the gap that a GPU activity ended, -1 for none."""

    def make() -> Int64:
        index = np.full(len(trace.slices), -1, np.int64)
        index[idleness(trace).after] = np.arange(len(idleness(trace)))
        return index

    return int(trace.remember("gaps by activity", make)[row]) if row >= 0 else -1


def on_cpu(trace: Trace, gap: int) -> tuple[int, int]:
    """Start and end of a gap in ns on the clock of the CPU."""
    idle, skew = idleness(trace), clock_skew(trace)
    return int(idle.start[gap]) - skew, int(idle.end[gap]) - skew


def gap_causes_of(trace: Trace, gap: int) -> list[GapPart]:
    """The causes of a gap, those with most time first; they add up to the gap."""
    parts = idle_contents(trace)
    first, last = np.searchsorted(parts.gap, [gap, gap + 1])
    causes = group(parts.cause[first:last])
    sums = causes.sum(parts.dur[first:last])
    order = np.argsort(-sums, kind="stable").tolist()
    return [GapPart(Cause(int(causes.key[i])), int(sums[i])) for i in order]


def gap_threads(trace: Trace, gap: int) -> Int64:
    """The lanes that tell why there was a gap: the launching thread, and those on which causes were seen."""
    idle, parts = idleness(trace), idle_contents(trace)
    first, last = np.searchsorted(parts.gap, [gap, gap + 1])
    lanes = parts.lane[first:last].astype(np.int64)
    launch = int(idle.launch[gap])
    if launch >= 0:
        lanes = np.append(lanes, int(trace.slices.lane[launch]))
    lanes = distinct(lanes[lanes >= 0])
    on_thread = np.array([lane.kind == LaneKind.CPU for lane in trace.lanes], bool)
    return np.asarray(lanes[on_thread[lanes]])


def cpu_slices_of(trace: Trace, gap: int) -> Int64:
    """The slices of the threads of a gap that lie in it with at least half of their time, ascending."""
    begin, end = on_cpu(trace, gap)
    slices = trace.slices
    rows = _touching(trace, gap, begin, end)
    inside = np.minimum(slices.end[rows], end) - np.maximum(slices.start[rows], begin)
    kept = rows[2 * inside >= slices.dur[rows]]
    if len(kept) > MAX_SLICES_OF_GAP:
        kept = np.sort(kept[np.argsort(-slices.dur[kept], kind="stable")[:MAX_SLICES_OF_GAP]])
    return np.asarray(kept)


def cpu_names_of(trace: Trace, gap: int, most: int) -> list[CpuName]:
    """The names in which the threads of a gap spent most of it, without what they called.

    Every moment of a thread counts once, for the innermost slice that was open.
    """
    begin, end = on_cpu(trace, gap)
    slices = trace.slices
    rows = _touching(trace, gap, begin, end)
    inner, spent = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for lane in distinct(slices.lane[rows].astype(np.int64)).tolist():
        mine = rows[slices.lane[rows] == lane]
        edges = np.unique(np.clip(np.concatenate([slices.start[mine], slices.end[mine]]), begin, end))
        inner.append(open_at(trace, np.full(len(edges) - 1, lane), edges[:-1]))
        spent.append(np.diff(edges))
    row, time = np.concatenate(inner), np.concatenate(spent)
    each = group(row[row >= 0])
    own, names = each.sum(time[row >= 0]).astype(np.int64), group(slices.name[each.key])
    sums, largest = names.sum(own), names.largest(own)
    order = np.argsort(-sums, kind="stable")[:most].tolist()
    return [CpuName(int(each.key[largest[i]]), int(sums[i]), int(names.calls[i])) for i in order]


def _touching(trace: Trace, gap: int, begin: int, end: int) -> Int64:
    """The slices of the threads of a gap that overlap [begin, end) ns, ascending."""
    slices, found = trace.slices, [np.empty(0, np.int64)]
    for number in gap_threads(trace, gap).tolist():
        lane = trace.lanes[number]
        last = lane.first + int(np.searchsorted(slices.start[lane.first : lane.last], end))
        found.append(lane.first + np.flatnonzero(slices.end[lane.first : last] > begin))
    return np.sort(np.concatenate(found))
