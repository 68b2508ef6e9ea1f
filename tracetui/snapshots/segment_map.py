"""Segments that the allocator had reserved at a moment, their blocks, and what lies between the free ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import Action
from tracetui.snapshots.history import DeviceHistory

MAX_SLACK = 1 << 20
"""Bytes behind a block that a segment of large blocks does not split off."""
SMALL_SEGMENT = 2 << 20
"""Bytes of a segment of small blocks."""
_RESERVING = (Action.SEGMENT_ALLOC, Action.SEGMENT_FREE, Action.SEGMENT_MAP, Action.SEGMENT_UNMAP)


@frozen
class SegmentMap:
    """The regions of reserved memory of a device at a moment, in order of address, and what lies in them."""

    address: Int64
    size: Int64
    stream: Int64
    is_large: NDArray[np.bool_]
    is_expandable: NDArray[np.bool_]
    lives: Int64
    """Allocations in the regions, by address."""
    region: Int64
    """The region of each."""
    gap_region: Int64
    gap_address: Int64
    gap_size: Int64
    """Free pieces, by address."""
    is_exact: bool
    """False before the end: what the allocator rounds up is not recorded, and is guessed."""

    def __len__(self) -> int:
        return len(self.address)

    @property
    def free(self) -> Int64:
        """Free bytes of each region."""
        return np.bincount(self.gap_region, self.gap_size, len(self)).astype(np.int64)

    @property
    def largest_gap(self) -> Int64:
        """Bytes of the largest free piece of each region, 0 for none."""
        largest = np.zeros(len(self), np.int64)
        np.maximum.at(largest, self.gap_region, self.gap_size)
        return largest


def segment_map(history: DeviceHistory, moment: int) -> SegmentMap:
    """The regions at a moment; those of one expandable segment that touch each other are one."""
    start, size, stream, large, expandable = _regions(history, moment)
    lives = history.live(moment)
    address, occupied = history.allocations.address[lives], history.allocations.occupied[lives]
    region = np.searchsorted(start, address, side="right") - 1
    inside = region >= 0
    inside[inside] = address[inside] < (start + size)[region[inside]]
    lives, region, address = lives[inside], region[inside], address[inside]
    block_end = np.minimum(address + occupied[inside], (start + size)[region])
    is_exact = moment == history.count
    # Gaps: from the start of each region or the end of each block to the next block or the end of the region.
    gap_start = np.concatenate([start, block_end])
    gap_region = np.concatenate([np.arange(len(start)), region])
    after_block = np.append(np.zeros(len(start), bool), np.ones(len(lives), bool))
    order = np.lexsort((after_block, gap_start, gap_region))
    gap_start, gap_region, after_block = gap_start[order], gap_region[order], after_block[order]
    gap_end = (start + size)[gap_region]
    is_last = np.append(gap_region[1:] != gap_region[:-1], True)[: len(gap_region)]
    # Behind the first entry of a region, its start, come its blocks in order.
    gap_end[np.flatnonzero(~is_last)] = address
    length = gap_end - gap_start
    is_slack = after_block & large[gap_region] & (length <= MAX_SLACK) & (not is_exact)
    kept = (length > 0) & ~is_slack
    return SegmentMap(
        start, size, stream, large, expandable, lives, region, gap_region[kept], gap_start[kept], length[kept], is_exact
    )


def _regions(history: DeviceHistory, moment: int) -> tuple[Int64, Int64, Int64, NDArray[np.bool_], NDArray[np.bool_]]:
    """Start, size, stream, and whether it is large and expandable, of each region that was reserved at a moment.

    Coverage is that of the end, less what was reserved since, and with what was given back since.
    """
    segments, rows = history.snapshot.segments, history.segments
    since = np.arange(moment, history.count)
    since = since[np.isin(history.action[since], _RESERVING)]
    action = history.action[since]
    is_gain = np.isin(action, (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP))
    is_mapped = np.isin(action, (Action.SEGMENT_MAP, Action.SEGMENT_UNMAP))
    low = np.concatenate([segments.address[rows], history.address[since]])
    size = np.concatenate([segments.size[rows], history.size[since]])
    sign = np.concatenate([np.ones(len(rows), np.int64), np.where(is_gain, -1, 1)])
    points = np.unique(np.concatenate([low, low + size]))
    change, begins = np.zeros(len(points) + 1, np.int64), np.zeros(len(points) + 1, np.int64)
    np.add.at(change, np.searchsorted(points, low), sign)
    np.add.at(change, np.searchsorted(points, low + size), -sign)
    # Segments that touch stay apart; mapped pieces of an expandable one do not.
    apart = np.concatenate([np.ones(len(rows), bool), ~is_mapped])
    np.add.at(begins, np.searchsorted(points, low[apart]), sign[apart])
    covered = np.cumsum(change)[:-1] > 0
    before = np.append(False, covered)[: len(covered)]
    is_start = covered & (~before | (begins[:-1] > 0))
    first = np.flatnonzero(is_start)
    edges = np.flatnonzero(is_start | (before & ~covered))
    starts = points[first]
    ends = points[edges[np.searchsorted(edges, first, side="right")]] if len(first) else starts
    # Of which segment or event each is.
    order = np.argsort(low, kind="stable")
    source = order[np.maximum(np.searchsorted(low[order], starts, side="right") - 1, 0)] if len(low) else order
    streams = np.concatenate([segments.stream[rows], history.stream[since]])
    large = np.concatenate([segments.is_large[rows], history.size[since] > SMALL_SEGMENT])
    expandable = np.concatenate([segments.is_expandable[rows], is_mapped])
    return starts, ends - starts, streams[source], large[source], expandable[source]


@frozen(eq=True)
class Hole:
    """Neighbouring allocations of one region without which a piece of some size would be free."""

    region: int
    first: int
    last: int
    """Indices in `SegmentMap.lives`, both included; `last` before `first` where the piece is free already."""
    size: int
    """Bytes of the piece that would be free."""
    bytes: int
    """Bytes that would have to be freed for it."""


def cheapest_hole(mapped: SegmentMap, history: DeviceHistory, wanted: int) -> Hole | None:
    """The place at which the fewest bytes stand in the way of so many in one piece; None where no region has them."""
    lives, best = history.allocations, None
    first = np.searchsorted(mapped.region, np.arange(len(mapped) + 1))
    for region in np.flatnonzero(mapped.size >= wanted).tolist():
        low, high = int(first[region]), int(first[region + 1])
        own = mapped.lives[low:high]
        begin, end = int(mapped.address[region]), int(mapped.address[region] + mapped.size[region])
        # Where a piece may begin: at the start or behind a block; where it may end: before a block or at the end.
        starts = np.append(begin, lives.address[own] + lives.occupied[own])
        ends = np.append(lives.address[own], end)
        cost = np.append(0, np.cumsum(lives.occupied[own]))
        until = np.searchsorted(ends, starts + wanted)
        fits = np.flatnonzero(until < len(ends))
        if not len(fits):
            continue
        until = np.maximum(until[fits], fits)
        costs = cost[until] - cost[fits]
        index = int(costs.argmin())
        if best is None or costs[index] < best.bytes:
            place, stop = int(fits[index]), int(until[index])
            hole = int(ends[stop] - starts[place])
            best = Hole(region, low + place, low + stop - 1, hole, int(costs[index]))
    return best
