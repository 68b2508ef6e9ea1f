"""The lanes of a trace as numbers, masks of slices by name, trees of the slices of a lane, and unions over lanes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.model import native
from tracetui.model.intervals import TOLERANCE, Bool, Int64, covered_within, index_in, nest, tree_depth, union
from tracetui.model.native import insertion_index
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Int32, LaneKind, Slices, Trace


def is_named(trace: Trace, rows: Int64, wanted: Callable[[str], object]) -> Bool:
    """Mask of the slices whose names satisfy `wanted`, such as the `search` of a pattern; each name is tested once."""
    name = trace.slices.name[rows]
    is_wanted = np.zeros(len(trace.names) + 1, bool)
    # There are few names and they are numbered from 0: marking finds the used ones faster than sorting.
    used = np.zeros(len(is_wanted), bool)
    used[name] = True
    is_wanted[[number for number in np.flatnonzero(used).tolist() if wanted(trace.names[number])]] = True
    mask: Bool = is_wanted[name]
    return mask


_NUMBER = re.compile(r"-?\d{1,18}")


@frozen
class LaneNumbers:
    """Parallel arrays, one entry per lane."""

    process: Int64
    """The process (or device) of the lane, numbered from 0 in the order of the lanes."""
    device: Int64
    """The number of the device whose lane this is; NULL for threads, and where the file gives no number."""
    stream: Int64
    """The number of the stream; NULL for threads, and where the file gives no number."""


@kept(of_file=True)
def lane_numbers(trace: Trace) -> LaneNumbers:
    """Process, device and stream of every lane; a lane of a device has the device's number as process id (R2.3)."""
    known = {pid: index for index, pid in enumerate(dict.fromkeys(lane.pid for lane in trace.lanes))}
    gpu = [lane.kind == LaneKind.GPU for lane in trace.lanes]
    return LaneNumbers(
        np.array([known[lane.pid] for lane in trace.lanes], np.int64),
        np.array([_number(lane.pid, is_gpu) for lane, is_gpu in zip(trace.lanes, gpu, strict=True)], np.int64),
        np.array([_number(lane.tid, is_gpu) for lane, is_gpu in zip(trace.lanes, gpu, strict=True)], np.int64),
    )


@kept(on_disk=True)
def active_streams(trace: Trace) -> list[int]:
    """Lanes on which a GPU activity ran, ascending; nodes of graphs that occupy nothing do not count (R2.13)."""
    streams: list[int] = np.unique(trace.slices.lane[trace.slices.of_kind(*GPU_WORK)]).tolist()
    return streams


def _number(text: str, wanted: bool) -> int:
    """The first number in a text such as `stream 7`."""
    match = _NUMBER.search(text) if wanted else None
    return int(match[0]) if match else NULL


# Unions of intervals on several lanes at once: how much of any window they cover.

WIDE = 1 << 45
"""Nanoseconds, ten hours, beyond which pauses are shortened: many lanes one after another would not fit 64 bits."""
PAUSE = 1 << 30
"""Nanoseconds that are left of a pause in which nothing happens on any lane."""


@frozen
class Axis:
    """Puts the lanes one after another on a single axis, so that one search serves all of them."""

    low: int
    """A time before all others, in ns; earlier times are put at the start of their lane and touch nothing."""
    span: int
    """Length of each lane on the axis, in ns."""
    starts: Int64 | None = None
    """Starts of the stretches between pauses, None where no pause is shortened."""
    room: Int64 | None = None
    """Length of each of them, with the shortened pause behind it."""

    @classmethod
    def around(cls, start: Int64, end: Int64) -> Axis:
        """An axis for all moments between the first start and the last end."""
        low = int(start.min(initial=0)) - 1
        span = int(end.max(initial=0)) - low + 2
        if span < WIDE:
            return cls(low, span)
        starts, ends = union(start, np.maximum(end, start + 1))
        room = ends - starts + PAUSE
        room[:-1] = np.minimum(room[:-1], np.diff(starts))
        return cls(low, PAUSE + int(room.sum()) + 2, starts, room)

    def position(self, lane: NDArray[np.integer], moment: Int64) -> Int64:
        """Positions on the axis of times of lanes, which are numbered from 0; times beyond the axis are at its ends."""
        first = lane.astype(np.int64) * self.span
        if self.starts is None or self.room is None:
            return first + np.clip(moment - self.low, 0, self.span - 1)
        index = insertion_index(self.starts, moment, side="right") - 1
        known = np.maximum(index, 0)
        within = np.minimum(moment - self.starts[known], self.room[known])
        before = np.maximum(moment - self.starts[0], -PAUSE)
        position: Int64 = first + PAUSE + np.where(index < 0, before, self._passed()[known] + within)
        return position

    def moment(self, lane: NDArray[np.integer], position: Int64) -> Int64:
        """Times (ns) at positions of lanes; within a pause that is shortened, some time of it."""
        offset = position - lane.astype(np.int64) * self.span
        if self.starts is None or self.room is None:
            return offset + self.low
        passed = self._passed()
        index = np.maximum(insertion_index(passed, offset - PAUSE, side="right") - 1, 0)
        return self.starts[index] + offset - PAUSE - passed[index]

    def _passed(self) -> Int64:
        """The room of all stretches before each."""
        assert self.room is not None
        passed: Int64 = np.cumsum(self.room) - self.room
        return passed


@kept
def lane_axis(trace: Trace) -> Axis:
    """The axis for all slices of a trace."""
    return Axis.around(trace.slices.start, trace.slices.end)


@frozen
class Stretches:
    """Disjoint, ascending intervals on an axis."""

    axis: Axis
    starts: Int64
    ends: Int64

    @classmethod
    def of(cls, axis: Axis, lane: NDArray[np.integer], start: Int64, end: Int64) -> Stretches:
        """The union of the intervals on each lane."""
        return cls(axis, *union(axis.position(lane, start), axis.position(lane, end)))

    def joined(self, other: Stretches) -> Stretches:
        """The union with others."""
        both = np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends])
        return Stretches(self.axis, *union(*both))

    def covered(self, lane: NDArray[np.integer], low: Int64, high: Int64) -> Int64:
        """The covered time of each window [low, high) of a lane, in ns."""
        return covered_within(self.starts, self.ends, self.axis.position(lane, low), self.axis.position(lane, high))


# Trees of some of the slices of a lane, and sums over subtrees.


def nearest(parent: NDArray[np.integer], wanted: Bool) -> Int64:
    """The closest proper ancestor of every node of a forest that is `wanted`, -1 for none."""
    ancestor = native.nearest(parent, wanted)
    return _climbed(parent, wanted) if ancestor is None else ancestor


def nearest_row(parent: Int32, wanted: Bool) -> Int32:
    """`nearest` for a parent in each row of the slices, with numbers of 32 bits."""
    around = native.nearest_row(parent, wanted)
    return _climbed(parent, wanted).astype(np.int32) if around is None else around


def _climbed(parent: NDArray[np.integer], wanted: Bool) -> Int64:
    """`nearest` in Python."""
    ancestor = parent.astype(np.int64)
    rows = np.flatnonzero(ancestor >= 0)
    rows = rows[~wanted[ancestor[rows]]]
    while len(rows):
        ancestor[rows] = ancestor[ancestor[rows]]
        rows = rows[ancestor[rows] >= 0]
        rows = rows[~wanted[ancestor[rows]]]
    return ancestor


def ancestors(slices: Slices, row: int) -> Iterator[int]:
    """The slices around one, innermost first."""
    while (row := int(slices.parent[row])) >= 0:
        yield row


FEW_SHARE = 1000
"""Slices for each row of a few: for these, climbing from parent to parent is faster than one look at all slices."""


def forest(trace: Trace, rows: Int64, tolerance: int = TOLERANCE) -> Int64:
    """The tree that the given slices of CPU lanes form among themselves: positions in `rows`, -1 for roots.

    `rows` ascends. Lanes with overlaps are nested again without the slices that do not take part; `tolerance`
    is the overhang in ns that a child may have there.
    """
    slices = trace.slices
    wanted = np.zeros(len(slices), bool)
    wanted[rows] = True
    few = len(rows) < len(slices) // FEW_SHARE
    parent = None if few else native.forest(slices.parent, wanted, len(rows))
    if parent is None:
        parent = _among_few(slices.parent, wanted, rows) if few else _among_themselves(slices.parent, wanted)
    again = np.flatnonzero(disorderly_lanes(trace)[slices.lane[rows]])
    if len(again):
        part = rows[again]
        inner = nest(slices.lane[part], slices.start[part], slices.end[part], tolerance).parent
        parent[again] = np.where(inner >= 0, again[inner], -1)
    return parent


def _among_few(parent: NDArray[np.integer], wanted: Bool, rows: Int64) -> Int64:
    """`forest` on lanes without overlaps, for few rows: no other row is looked at."""
    above = parent[rows].astype(np.int64)
    climbing = np.flatnonzero(above >= 0)
    while len(climbing := climbing[~wanted[above[climbing]]]):
        above[climbing] = parent[above[climbing]]
        climbing = climbing[above[climbing] >= 0]
    return index_in(rows, above)


def _among_themselves(parent: NDArray[np.integer], wanted: Bool) -> Int64:
    """The index of the closest wanted ancestor of each wanted row among the wanted ones, -1 for none; in Python."""
    above = _climbed(parent, wanted)[wanted]
    index = np.cumsum(wanted) - 1
    return np.where(above >= 0, index[above], -1)


def subtree_sums(parent: Int64, *values: NDArray[np.number]) -> list[NDArray[np.float64]]:
    """The value of every node plus those of everything below it, for each of the columns."""
    sums = [native.subtree_sums(parent, column) for column in values]
    complete = [column for column in sums if column is not None]
    return complete if len(complete) == len(sums) else _summed_up(parent, *values)


def _summed_up(parent: Int64, *values: NDArray[np.number]) -> list[NDArray[np.float64]]:
    """`subtree_sums` in Python."""
    totals = [np.array(column, np.float64) for column in values]
    depth = tree_depth(parent).astype(np.int16)  # numpy sorts 16 bits by radix
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 2))
    for first, last in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
        rows = order[first:last]
        # Sums into a few parents only: a column as long as all nodes, for every depth, would be mostly zeros.
        low = int(parent[rows].min())
        above = parent[rows] - low
        for total in totals:
            sums = np.bincount(above, total[rows])
            total[low : low + len(sums)] += sums
    return totals


def count_inside(trace: Trace, rows: Int64, marked: Int64) -> Int64:
    """Number of the `marked` slices, which ascend, that start within each of `rows`, on the same lane."""
    slices = trace.slices
    first, last = (first_from(trace, slices.lane[rows], moment[rows]) for moment in (slices.start, slices.end))
    counted: Int64 = np.searchsorted(marked, last) - np.searchsorted(marked, first)
    return counted


def first_from(trace: Trace, lane: NDArray[np.integer], moment: Int64) -> Int64:
    """The row of the first slice that starts at each time (ns) of a lane or later; where none does, the end of the
    rows of the lane.
    """
    rows = np.empty(len(moment), np.int64)
    for number in np.flatnonzero(np.bincount(lane)).tolist():
        here, mine = lane == number, trace.lanes[number]
        rows[here] = mine.first + np.searchsorted(trace.slices.start[mine.first : mine.last], moment[here])
    return rows


@kept(of_file=True)
def disorderly_lanes(trace: Trace) -> Bool:
    """Mask of the nesting lanes on which some slice ends after its parent."""
    slices = trace.slices
    mask = np.zeros(len(trace.lanes), bool)
    for number, lane in enumerate(trace.lanes):
        if lane.kind == LaneKind.CPU:
            rows = slice(lane.first, lane.last)
            parent = slices.parent[rows]
            outlasts = slices.end[rows] > slices.end[parent]
            outlasts &= parent >= 0
            mask[number] = outlasts.any() or (slices.row[rows] != slices.depth[rows]).any()
    return mask


def open_at(trace: Trace, lane: NDArray[np.integer], moment: Int64, rows: Int64 | None = None) -> Int64:
    """The deepest slice of each lane that is open at each time (ns), of all or of some that ascend; -1 for none."""
    slices = trace.slices
    start, end = slices.start, slices.end
    parent: NDArray[np.integer] = slices.parent
    if rows is not None:
        start, end, parent = start[rows], end[rows], forest(trace, rows)
    index = np.full(len(moment), -1, np.int64)
    for number in np.unique(lane).tolist():
        first, last = trace.lanes[number].first, trace.lanes[number].last
        if rows is not None:
            first, last = np.searchsorted(rows, (first, last)).tolist()
        mine = np.flatnonzero(lane == number)
        begun = np.searchsorted(start[first:last], moment[mine], side="right") - 1
        index[mine] = np.where(begun >= 0, first + begun, -1)
    ended = np.flatnonzero((index >= 0) & (end[index] <= moment)) if len(end) else index[:0]
    while len(ended):
        index[ended] = parent[index[ended]]
        ended = ended[index[ended] >= 0]
        ended = ended[end[index[ended]] <= moment[ended]]
    return index if rows is None or len(rows) == 0 else np.where(index >= 0, rows[index], -1)
