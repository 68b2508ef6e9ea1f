"""Arithmetic of half-open intervals [start, end) in integer ns, over whole columns at once, without a trace.

Intervals come in *groups* (lanes): `group` ascends, and within a group rows are sorted by start, longest first,
then file order (R1.8), which is what `sorted_order` gives. Only where intervals of a group overlap without
containing each other are they walked one by one; everything else is done on whole columns. Where `nesting.c` was
compiled it walks all of them, with the same results.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model import native

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

TOLERANCE = 2_000
"""A child may outlast its parent by this many ns: rounding of integer-microsecond traces (R1.10a)."""

MIN_PASSED = 3
"""Minimum later activities of a stream that start within one whose duration is then wrong."""
MAX_DEPTH = np.iinfo(np.int16).max
"""Largest depth and row that slices have."""


@frozen(eq=True)
class Nesting:
    """The nesting of intervals; all arrays have one entry per interval."""

    parent: Int64
    """Index of the innermost interval that contains this one, -1 for none."""
    depth: Int64
    """Number of ancestors."""
    row: Int64
    """Row to draw on: the depth, or further down where something else is still open."""
    close: Int64
    """End for nesting: clipped to the parent's, or cut where a longer interval takes over."""
    cut_by: Int64
    """Index of the interval that started inside this one and outlasted it, -1 for none."""

    @property
    def overlaps(self) -> int:
        """Number of intervals that start inside another and outlast it by more than the tolerance."""
        return len(np.unique(self.cut_by[self.cut_by >= 0]))


def sorted_order(group: NDArray[np.integer], start: Int64, dur: Int64) -> Int64:
    """The permutation that sorts intervals by group, start, longest first, and position in the input (R1.8)."""
    if len(start) == 0:
        return np.empty(0, np.int64)
    low = int(start.min())
    span = int(start.max()) - low + 1
    if span * (int(group.max()) + 1) >= 1 << 62:
        return np.lexsort((-dur, start, group))
    key = group.astype(np.int64) * span + (start - low)
    order = np.argsort(key, kind="stable")
    key = key[order]
    equal = key[1:] == key[:-1]
    ties = np.zeros(len(key), bool)
    ties[1:] |= equal
    ties[:-1] |= equal
    rows = np.flatnonzero(ties)
    if len(rows):
        members = order[rows]
        order[rows] = members[np.lexsort((members, -dur[members], key[rows]))]
    return order


def nest(group: NDArray[np.integer], start: Int64, end: Int64, tolerance: int = TOLERANCE) -> Nesting:
    """Find the parent of every interval.

    The result is that of a stack per group. An interval closes every open one that has ended by its start (one
    of length zero ends just after its start) and every one that it outlasts by more than `tolerance` ns; what is
    then on top is its parent, and its own end is clipped to the parent's. Orderly stretches are solved by counting,
    all at once; a stretch in which anything outlasts its parent is walked.
    """
    columns = native.nest(*_stretches(group), start, end - start, tolerance)
    return _counted(group, start, end, tolerance) if columns is None else Nesting(*columns)


def _counted(group: NDArray[np.integer], start: Int64, end: Int64, tolerance: int) -> Nesting:
    """`nest` in Python."""
    close = end.copy()
    cut_by = np.full(len(start), -1, np.int64)
    if len(start) == 0:
        return Nesting(close, close, close, close, cut_by)
    opens, closes = _on_a_line(group, start, end)
    parent = _count_parents(opens, closes)
    for first, last in _disorderly(opens, closes, parent):
        _walk(first, last, start, end, parent, close, cut_by, tolerance)
    depth = _counted_depth(parent)
    row = depth
    cut = np.flatnonzero(cut_by >= 0)
    if len(cut):
        # An interval is drawn below its parent, or below the last interval that it cut, which lies deeper.
        above = parent.copy()
        np.maximum.at(above, cut_by[cut], cut)
        row = _counted_depth(above)
    return Nesting(parent, depth, row, close, cut_by)


@frozen(eq=True)
class NestedSlices:
    """The nesting of slices in the types of `Slices`; all arrays have one entry per slice."""

    parent: NDArray[np.int32]
    depth: NDArray[np.int16]
    row: NDArray[np.int16]
    """The depth and the row are at most `MAX_DEPTH`."""
    self_time: Int64
    overlaps: int
    """Number of them that start inside another and outlast it by more than the tolerance."""


def nest_slices(heads: Int64, tails: Int64, start: Int64, dur: Int64) -> NestedSlices:
    """Nest the rows of stretches [head, tail), which are apart and ascend; all other rows nest in nothing."""
    columns = native.nest_slices(heads, tails, start, dur, TOLERANCE)
    return _nest_slices(heads, tails, start, dur) if columns is None else NestedSlices(*columns)


def in_runs(first: Int64, counts: Int64) -> Int64:
    """The numbers of runs, one behind the other: `counts` from each `first` on."""
    numbers: Int64 = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return numbers


def _nest_slices(heads: Int64, tails: Int64, start: Int64, dur: Int64) -> NestedSlices:
    """`nest_slices` in Python."""
    count = len(start)
    parent, depth = np.full(count, -1, np.int32), np.zeros(count, np.int16)
    row, own = np.zeros(count, np.int16), dur.copy()
    sizes = tails - heads
    group = np.repeat(np.arange(len(heads)), sizes)
    rows = in_runs(heads, sizes)
    begin, end = start[rows], start[rows] + dur[rows]
    nesting = _counted(group, begin, end, TOLERANCE)
    if len(rows):
        parent[rows] = np.where(nesting.parent >= 0, rows[nesting.parent], -1)
    depth[rows] = np.minimum(nesting.depth, MAX_DEPTH)
    row[rows] = np.minimum(nesting.row, MAX_DEPTH)
    own[rows] = self_time(nesting, begin, end)
    return NestedSlices(parent, depth, row, own, nesting.overlaps)


def self_time(nesting: Nesting, start: Int64, end: Int64) -> Int64:
    """Duration of every interval less the time of its children, in ns; overlapping children count once."""
    parent, cut_by = nesting.parent, nesting.cut_by
    child = np.flatnonzero(parent >= 0)
    owner = parent[child]
    covered = nesting.close[child] - start[child]
    # Parent and child cut by the same newcomer: seen from the parent, the child was never cut.
    together = (cut_by[child] >= 0) & (cut_by[child] == cut_by[owner])
    whole = np.minimum(end[child], end[owner]) - start[child]
    covered = np.where(together, whole, covered)
    result: Int64 = end - start
    np.subtract.at(result, owner, covered)
    return np.maximum(result, 0, out=result)


def tree_depth(parent: Int64) -> Int64:
    """Number of ancestors of every node of a forest given by parent indices (-1 for roots)."""
    depth = native.depths(parent)
    return _counted_depth(parent) if depth is None else depth


def _counted_depth(parent: Int64) -> Int64:
    depth = (parent >= 0).astype(np.int64)
    jump = parent.copy()
    rows = np.flatnonzero(jump >= 0)
    while len(rows):
        target = jump[rows]
        depth[rows] += depth[target]
        jump[rows] = jump[target]
        rows = rows[jump[rows] >= 0]
    return depth


def pack(group: NDArray[np.integer], start: Int64, end: Int64) -> Int64:
    """Put every interval on the first row of its group that is free at its start (R1.10b)."""
    row = np.zeros(len(start), np.int64)
    if len(start) == 0:
        return row
    opens, closes = _on_a_line(group, start, end)
    reach = np.maximum.accumulate(closes)
    free = np.ones(len(start), bool)
    free[1:] = opens[1:] >= reach[:-1]
    heads = np.flatnonzero(free)
    tails = np.append(heads[1:], len(start))
    crowded = tails - heads > 1
    for head, tail in zip(heads[crowded].tolist(), tails[crowded].tolist(), strict=True):
        row[head:tail] = _pack_cluster(opens[head:tail].tolist(), closes[head:tail].tolist())
    return row


def count_passed(group: NDArray[np.integer], start: Int64, end: Int64) -> Int64:
    """Number of later intervals of the group that start within each; 0 where they are fewer than `MIN_PASSED`.

    The intervals are sorted by group and start. One that passes so many is no stage of a queue, and no overlap of two.
    """
    inside = np.zeros(len(start), np.int64)
    ahead = MIN_PASSED
    is_past = (group[ahead:] == group[:-ahead]) & (start[ahead:] < end[:-ahead])
    bad = np.flatnonzero(is_past)
    for number in np.unique(group[bad]).tolist():
        first, last = np.searchsorted(group, [number, number + 1])
        mine = bad[(bad >= first) & (bad < last)]
        inside[mine] = first + np.searchsorted(start[first:last], end[mine]) - mine - 1
    return inside


def union(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The disjoint stretches covered by any of the intervals, ascending; touching ones are joined."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    keep = end > start
    start, end = start[keep], end[keep]
    if len(start) == 0:
        return start, end
    reach = np.maximum.accumulate(end)
    fresh = np.ones(len(start), bool)
    fresh[1:] = start[1:] > reach[:-1]
    heads = np.flatnonzero(fresh)
    return start[heads], reach[np.append(heads[1:], len(start)) - 1]


def covered(start: Int64, end: Int64) -> int:
    """Total length of the union, in ns."""
    starts, ends = union(start, end)
    return int((ends - starts).sum())


def covered_within(starts: Int64, ends: Int64, low: Int64, high: Int64) -> Int64:
    """The time in ns of each window [low, high) that disjoint, ascending stretches cover."""
    if 0 < len(low) < len(starts) // 8:
        # Sums over what lies beside all windows would be most of the work.
        first, last = np.searchsorted(ends, np.min(low), "right"), np.searchsorted(starts, np.max(high))
        starts, ends = starts[first:last], ends[first:last]
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])

    def before(moment: Int64) -> Int64:
        index = native.insertion_index(starts, moment, side="right")
        last = np.maximum(index - 1, 0)
        if len(starts) == 0:
            return np.zeros(len(moment), np.int64)
        overshoot = np.where(index > 0, np.maximum(ends[last] - moment, 0), 0)
        return total[index] - overshoot

    return before(np.asarray(high, np.int64)) - before(np.asarray(low, np.int64))


def difference(start: Int64, end: Int64, low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """Disjoint intervals less other disjoint ones, both in order: what is left of them, in order."""
    if len(start) == 0 or len(low) == 0:
        return start, end
    edges = np.sort(np.concatenate([start, end, low, high]), kind="stable")
    edges = edges[run_starts(edges)]
    begin, stop = edges[:-1], edges[1:]
    left = (covered_within(start, end, begin, begin + 1) > 0) & (covered_within(low, high, begin, begin + 1) == 0)
    return union(begin[left], stop[left])


def _stretches(group: NDArray[np.integer]) -> tuple[Int64, Int64]:
    """First row of each group, and the row behind its last one."""
    heads = np.flatnonzero(run_starts(group))
    return heads, np.append(heads[1:], len(group))[: len(heads)]


def _on_a_line(group: NDArray[np.integer], start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Positions of starts and ends on one axis with the groups one after another, in half ns.

    An interval of length zero gets half a ns: it contains those that start with it, and none that start later (R1.9).
    """
    low, high = int(start.min()), int(end.max())
    span = 2 * (high - low) + 4
    if span * (int(group.max()) + 1) < 1 << 62:
        opens, closes = 2 * (start - low), 2 * (end - low)
    else:
        moments = np.unique(np.concatenate([start, end]))
        opens, closes = 2 * np.searchsorted(moments, start), 2 * np.searchsorted(moments, end)
        span = 2 * len(moments) + 4
    closes = np.where(closes > opens, closes, opens + 1)
    base = group.astype(np.int64) * span
    return base + opens, base + closes


def _count_parents(opens: Int64, closes: Int64) -> Int64:
    """Parent of every interval when they nest: the last one before it of one level less."""
    count = len(opens)
    index = np.arange(count)
    depth = index - np.searchsorted(np.sort(closes), opens, side="right")
    order = np.argsort(depth.astype(np.int32), kind="stable")
    ranked = depth[order] * count + order
    parent = np.full(count, -1, np.int64)
    wanted = order[depth[order] > 0]
    index_of_parent = np.searchsorted(ranked, (depth[wanted] - 1) * count + wanted) - 1
    parent[wanted] = order[np.maximum(index_of_parent, 0)]
    return parent


def _disorderly(opens: Int64, closes: Int64, parent: Int64) -> list[tuple[int, int]]:
    """Ranges of rows, ascending and apart, in which some interval outlasts its parent.

    A range begins with the outermost interval that is outlasted and reaches to where the one that outlasts it ends;
    before and behind it counting is right, and the parent of its first row contains all of it.
    """
    child = np.flatnonzero(parent >= 0)
    late = child[closes[child] > closes[parent[child]]]
    if len(late) == 0:
        return []
    first = parent[late]
    while True:
        above = parent[first]
        climb = (above >= 0) & (closes[late] > closes[above])
        if not climb.any():
            break
        first[climb] = above[climb]
    last = np.searchsorted(opens, closes[late])
    order = np.argsort(first, kind="stable")
    first, reach = first[order], np.maximum.accumulate(last[order])
    apart = np.ones(len(first), bool)
    apart[1:] = first[1:] >= reach[:-1]
    heads = np.flatnonzero(apart)
    return list(zip(first[heads].tolist(), reach[np.append(heads[1:], len(first)) - 1].tolist(), strict=True))


def _walk(
    first: int,
    last: int,
    start: Int64,
    end: Int64,
    parent: Int64,
    close: Int64,
    cut_by: Int64,
    tolerance: int,
) -> None:
    """Fill parents, ends and cuts of the rows [first, last) by a literal stack."""
    starts, ends = start[first:last].tolist(), end[first:last].tolist()
    closes, parents, cuts = list(ends), [int(parent[first])] * len(ends), [-1] * len(ends)
    stack: list[int] = []
    for row, (begin, stop) in enumerate(zip(starts, ends, strict=True)):
        while stack:
            top = stack[-1]
            reach = closes[top]
            if begin < reach or begin == starts[top]:
                if stop <= reach:
                    parents[row] = top + first
                    break
                if stop <= reach + tolerance:
                    parents[row], closes[row] = top + first, reach
                    break
                closes[top], cuts[top] = begin, row + first
            stack.pop()
        stack.append(row)
    parent[first:last], close[first:last], cut_by[first:last] = parents, closes, cuts


def _pack_cluster(opens: list[int], closes: list[int]) -> list[int]:
    """First free row for each of a few intervals that overlap."""
    rows: list[int] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for begin, stop in zip(opens, closes, strict=True):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            row = heappop(free)
        else:
            row, used = used, used + 1
        rows.append(row)
        heappush(busy, (stop, row))
    return rows


# A range of time of a trace, and its one notation: start and length, as in `12.5us+250us` (R3.58).
#
# It stands behind `#@` in the name of a side, behind `--range`, and behind `range=` in a view string.

UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
"""Units of time, in ns."""
TIME = r"(-?\d+(?:\.\d+)?)(ns|us|µs|ms|s)"
"""Pattern of a number with its unit."""
_RANGE = re.compile(rf"@?{TIME}\+{TIME}")
_MAX_NS = 1 << 62


@frozen(eq=True, slots=True)
class TimeRange:
    """The moments start <= t < end, in ns from the start of the trace."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Duration in ns."""
        return self.end - self.start

    @property
    def text(self) -> str:
        """Start and length in microseconds, which `read_time_range` reads back to the nanosecond."""
        return f"{microseconds(self.start)}us+{microseconds(self.length)}us"

    def touched(self, start: NDArray[np.integer], end: NDArray[np.integer]) -> Bool:
        """Mask of the intervals that run within it for some time; one of length 0 begins in it."""
        return np.asarray(
            (start < self.end) & ((end > self.start) | ((start == end) & (start >= self.start))), np.bool_
        )

    def covered(self, start: NDArray[np.integer], end: NDArray[np.integer]) -> Int64:
        """The time in ns for which each interval runs within it."""
        inside: Int64 = np.maximum(np.minimum(end, self.end) - np.maximum(start, self.start), 0).astype(np.int64)
        return inside


Part = int | TimeRange
"""A part of a trace: the step with a number, or a range of time."""


def read_time_range(text: str) -> TimeRange:
    """The range of `12.5us+250us`, with or without an `@` before it.

    Raises: UsageError when it is no start and length, or has no length.
    """
    match = _RANGE.fullmatch(text.strip())
    start, length = (float(match[1]) * UNITS[match[2]], float(match[3]) * UNITS[match[4]]) if match else (0.0, 0.0)
    if match is None or not round(length) > 0 or abs(start) + length > _MAX_NS:
        raise UsageError(f"{text.strip()!r} is no range of time: write its start and length, as in 12.5us+250us.")
    return TimeRange(round(start), round(start) + round(length))


def microseconds(nanoseconds: float) -> str:
    """Microseconds to the nanosecond, without needless zeros."""
    return f"{nanoseconds / 1000:.3f}".rstrip("0").rstrip(".")


# Membership of numbers in a column, and the index of each number there; by tables where that is faster than by sorting.
#
# Row numbers, kinds and the profiler's ids are small whole numbers that lie close together: a table that has an entry
# for each of them is filled and looked up in one pass.

_FEW = 4
"""Members that are compared one after the other."""
_MIN_ROOM = 1 << 16
"""Entries that a table may have, however short the columns are."""
_SPARSENESS = 8
"""Entries that a table may have for each number."""


def is_among(values: NDArray[np.integer], members: NDArray[np.integer] | list[int] | tuple[int, ...]) -> Bool:
    """Mask of the values that are among the members."""
    members = np.asarray(members)
    if len(members) <= _FEW:
        first, *more = members.tolist() or [None]
        mask: Bool = np.zeros(len(values), bool) if first is None else values == first
        for member in more:
            mask |= values == member
        return mask
    low, high = int(members.min()), int(members.max())
    if not _is_dense(low, high, len(values) + len(members)):
        return np.isin(values, members)
    # An entry below and one above stand for all that lies outside.
    table = np.zeros(high - low + 3, bool)
    table[np.subtract(members, low - 1, dtype=np.int64)] = True
    index = np.clip(values, low - 1, high + 1, dtype=np.int64)
    index -= low - 1
    return np.asarray(table[index])


def index_of(ids: NDArray[np.integer], wanted: NDArray[np.integer]) -> Int64 | None:
    """The index of each wanted id in `ids`, -1 where it is not among them.

    None where an id occurs twice, or the ids lie too far apart for a table.
    """
    if len(ids) == 0:
        return np.full(len(wanted), -1, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if not _is_dense(low, high, len(wanted) + len(ids)):
        return None
    table = np.full(high - low + 3, -1, np.int32 if len(ids) <= np.iinfo(np.int32).max else np.int64)
    table[np.subtract(ids, low - 1, dtype=np.int64)] = np.arange(len(ids), dtype=table.dtype)
    if np.count_nonzero(table != -1) < len(ids):
        return None
    index = np.clip(wanted, low - 1, high + 1, dtype=np.int64)
    index -= low - 1
    rows: Int64 = table[index].astype(np.int64)
    return rows


def index_in(ascending: NDArray[np.integer], wanted: NDArray[np.integer]) -> Int64:
    """The index of each wanted number in an ascending column, -1 where it is not there."""
    if len(ascending) == 0:
        return np.full(len(wanted), -1, np.int64)
    index = np.minimum(native.insertion_index(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[index] == wanted, index, -1)


def run_starts(values: NDArray[np.integer]) -> Bool:
    """Mask of the values that differ from the one before them; the first value is among them."""
    mask = np.ones(len(values), bool)
    mask[1:] = values[1:] != values[:-1]
    return mask


def without(rows: Int64, left_out: NDArray[np.integer]) -> Int64:
    """The rows that are not among `left_out`; they ascend without duplicates."""
    if len(left_out) == 0 or len(rows) == 0:
        return rows
    index = index_in(rows, left_out)
    kept = np.ones(len(rows), bool)
    kept[index[index >= 0]] = False
    return rows[kept]


def _is_dense(low: int, high: int, count: int) -> bool:
    """True where a table of all numbers from `low` to `high` is small; one entry beyond either still fits 64 bits."""
    limits = np.iinfo(np.int64)
    return high - low < max(_MIN_ROOM, _SPARSENESS * count) and low > limits.min and high < limits.max
