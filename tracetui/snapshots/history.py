"""The history of one device: the curves, each allocation with its life, what was live at any moment, in which segments.

A moment is a number of events: moment k is when the first k events of the device have happened, 0 is before the first
and the number of events is the snapshot itself. The end is known (blocks); everything before is replayed backwards.
Sizes in events are as requested, those of blocks at the end are rounded up, so that a constant `rounding` remains.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import Action, MemorySnapshot

OLDER = -1
"""The start of what was allocated before the history began."""
ALIGNMENT = 512
"""The allocator rounds sizes up to a multiple of it."""


@frozen
class Allocations(Parallel):
    """Every allocation that the history or the end knows: one entry for each, by address and then by time."""

    address: Int64
    size: Int64
    """Bytes as the events have them; of a block that is only known from the end, rounded up."""
    occupied: Int64
    """Bytes with what the allocator rounds up."""
    start: Int64
    """The event that allocated it, `OLDER` for none."""
    requested: Int64
    """The event that asked to free it, or the number of events; `OLDER` where it had been asked before."""
    end: Int64
    """The event that freed it, or the number of events."""
    stack: NDArray[np.int32]
    context: NDArray[np.int32]
    metadata: NDArray[np.int32]
    stream: Int64


class DeviceHistory:
    """One device of a snapshot."""

    def __init__(self, snapshot: MemorySnapshot, device: int) -> None:
        self.snapshot, self.device = snapshot, device
        rows = snapshot.events_of(device)
        self.first_row = rows.start
        """Row of the first event in the snapshot's columns."""
        self.count = int(rows.stop - rows.start)
        """The number of events, which is also the last moment."""
        events = snapshot.events
        self.action, self.address, self.size = (each[rows] for each in (events.action, events.address, events.size))
        self.time_us, self.stream = events.time_us[rows], events.stream[rows]
        mine = snapshot.segments.device == device
        self.segments = np.flatnonzero(mine)
        """Rows of its segments."""
        self.blocks = np.flatnonzero(mine[snapshot.blocks.segment])
        self.active_blocks = self.blocks[snapshot.blocks.is_active[self.blocks]]

    # Curves: one value for each moment

    @cached_property
    def active(self) -> Int64:
        """Bytes in use or requested to be freed and not completed, at each moment."""
        end = int(self.snapshot.blocks.size[self.active_blocks].sum())
        return self._curve(end, (Action.ALLOC,), (Action.FREE_COMPLETED,))

    @cached_property
    def reserved(self) -> Int64:
        """Bytes that the allocator held of the device, at each moment."""
        end = int(self.snapshot.segments.size[self.segments].sum())
        grows, shrinks = (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP), (Action.SEGMENT_FREE, Action.SEGMENT_UNMAP)
        return self._curve(end, grows, shrinks)

    @cached_property
    def pending(self) -> Int64:
        """Bytes of what was requested to be freed and not completed, at each moment."""
        lives = self.allocations
        change = np.zeros(self.count + 2, np.int64)
        waits = lives.requested < np.minimum(lives.end, self.count)
        np.add.at(change, lives.requested[waits] + 1, lives.size[waits])
        np.add.at(change, lives.end[waits] + 1, -lives.size[waits])
        pending: Int64 = np.cumsum(change[: self.count + 1])
        return pending

    def _curve(self, end: int, grows: tuple[Action, ...], shrinks: tuple[Action, ...]) -> Int64:
        signs = np.zeros(len(Action), np.int64)
        signs[list(grows)], signs[list(shrinks)] = 1, -1
        sums = np.append(0, np.cumsum(signs[self.action] * self.size))
        curve: Int64 = sums + (end - sums[-1])
        return curve

    @cached_property
    def peak(self) -> int:
        """The first moment at which most was active."""
        return int(self.active.argmax())

    @cached_property
    def ooms(self) -> list[int]:
        """Moments after each event of an allocation that failed."""
        return [int(row) + 1 for row in np.flatnonzero(self.action == Action.OOM)]

    @cached_property
    def start_us(self) -> int:
        """Wall clock of the first event that has one, 0 for none."""
        timed = self.time_us[self.time_us > 0]
        return int(timed[0]) if len(timed) else 0

    def at_us(self, moment: int) -> int | None:
        """Microseconds from the first event to a moment, None where no clock was recorded."""
        time = int(self.time_us[max(moment - 1, 0)]) if self.count else 0
        return time - self.start_us if time > 0 else None

    # Lives of allocations

    @cached_property
    def allocations(self) -> Allocations:
        """Every allocation, with what is only known from the blocks at the end."""
        rows = np.flatnonzero(np.isin(self.action, (Action.ALLOC, Action.FREE_REQUESTED, Action.FREE_COMPLETED)))
        rows = rows[np.argsort(self.address[rows], kind="stable")]
        action, address = self.action[rows], self.address[rows]
        is_other = np.append(True, address[1:] != address[:-1])[: len(rows)]
        # A life begins where it is allocated, and where something is freed that the history did not see allocated.
        follows_end = np.append(False, action[:-1] == Action.FREE_COMPLETED)[: len(rows)]
        begins = is_other | follows_end | (action == Action.ALLOC)
        life = np.cumsum(begins) - 1
        head = np.flatnonzero(begins)
        start = np.where(action[head] == Action.ALLOC, rows[head], OLDER)
        requested = self._first_of(Action.FREE_REQUESTED, life, rows, action, len(head))
        end = self._first_of(Action.FREE_COMPLETED, life, rows, action, len(head))
        # Two cannot be at one address: the next ends one whose end is missing.
        is_followed = np.append(address[head][1:] == address[head][:-1], False)[: len(head)]
        next_row = np.append(rows[head][1:], self.count)[: len(head)]
        end = np.where(is_followed, np.minimum(end, next_row), end)
        return self._with_blocks(rows[head], start, np.minimum(requested, end), end)

    def _first_of(self, action: Action, life: Int64, rows: Int64, actions: NDArray[np.integer], lives: int) -> Int64:
        """The first event of a kind in each life, the number of events for none."""
        first = np.full(lives, self.count, np.int64)
        chosen = np.flatnonzero(actions == action)[::-1]
        first[life[chosen]] = rows[chosen]
        return first

    def _with_blocks(self, head: Int64, start: Int64, requested: Int64, end: Int64) -> Allocations:
        """The lives that the history has, with what the blocks at the end know, and those that only these know."""
        events, blocks = self.snapshot.events, self.snapshot.blocks
        address, size = self.address[head], self.size[head].copy()
        occupied = -(-size // ALIGNMENT) * ALIGNMENT
        rows = head + self.first_row
        was_made = start != OLDER
        stack, context, metadata = (
            np.where(was_made, each[rows], none).astype(np.int32)
            for each, none in ((events.stack, 0), (events.context, -1), (events.metadata, -1))
        )
        # The last life at the address of each block, where it has not ended.
        own = self.active_blocks
        index = np.searchsorted(address, blocks.address[own], side="right") - 1
        is_same = (index >= 0) & (len(address) > 0)
        is_same[is_same] = (address[index[is_same]] == blocks.address[own[is_same]]) & (
            end[index[is_same]] == self.count
        )
        live, block = index[is_same], own[is_same]
        size[live] = np.where(was_made[live], size[live], blocks.size[block])
        occupied[live] = blocks.size[block]
        stack[live] = np.where(stack[live] == 0, blocks.stack[block], stack[live])
        alone = own[~is_same]
        none = np.full(len(alone), self.count)
        streams = self.snapshot.segments.stream[blocks.segment[alone]]
        return _by_address(
            (address, blocks.address[alone]),
            (size, blocks.size[alone]),
            (occupied, blocks.size[alone]),
            (start, np.full(len(alone), OLDER)),
            (requested, np.where(blocks.is_pending[alone], OLDER, none)),
            (end, none),
            (stack, blocks.stack[alone]),
            (context, np.full(len(alone), -1, np.int32)),
            (metadata, np.full(len(alone), -1, np.int32)),
            (self.stream[head], streams),
        )

    @cached_property
    def rounding(self) -> int:
        """Bytes by which the blocks at the end are larger than what the events say of them."""
        lives = self.allocations
        return int(self.active[-1]) - int(lives.size[lives.end == self.count].sum())

    def live(self, moment: int) -> Int64:
        """Allocations that exist at a moment, by address: their sizes and `rounding` are the height of the curve."""
        lives = self.allocations
        return np.flatnonzero((lives.start < moment) & (lives.end >= moment))

    def unexplained(self, moment: int) -> int:
        """Bytes of the curve that are no allocation's: `rounding`, unless events contradict each other."""
        return int(self.active[moment]) - int(self.allocations.size[self.live(moment)].sum())


def _by_address(*columns: tuple[NDArray[np.generic], NDArray[np.generic]]) -> Allocations:
    joined = [np.concatenate(pair) for pair in columns]
    order = np.argsort(joined[0], kind="stable")
    return Allocations(*(column[order] for column in joined))


def history_of(snapshot: MemorySnapshot, device: int) -> DeviceHistory:
    """The history of a device, computed once for a snapshot."""
    key = "history", device
    if key not in snapshot.kept:
        snapshot.kept[key] = DeviceHistory(snapshot, device)
    kept = snapshot.kept[key]
    assert isinstance(kept, DeviceHistory)
    return kept


def fullest_device(snapshot: MemorySnapshot) -> int:
    """The device that is shown first: that of the first OOM, or the one with the highest peak."""
    oom = np.flatnonzero(snapshot.events.action == Action.OOM)
    if len(oom):
        return int(np.searchsorted(snapshot.events.first, oom[0], side="right")) - 1
    peaks = [int(history_of(snapshot, device).active.max()) for device in range(snapshot.device_count)]
    return int(np.argmax(peaks)) if peaks else 0


MAX_SLACK = 1 << 20
"""Bytes behind a block that a segment of large blocks does not split off."""
SMALL_SEGMENT = 2 << 20
"""Bytes of a segment of small blocks."""
_RESERVING = (Action.SEGMENT_ALLOC, Action.SEGMENT_FREE, Action.SEGMENT_MAP, Action.SEGMENT_UNMAP)


@frozen
class SegmentMap(Parallel):
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
