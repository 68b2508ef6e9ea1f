"""Slices sorted by track and start, so that the whole screen is found with one search.

A *track* is one row of a lane. The work per frame depends on the number of cells and hardly on that of
slices: one `searchsorted` over all tracks and cell edges, prefix sums for how busy a cell is, and a table of
the longest slice of 1, 2, 4, ... blocks for what a cell is busy with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.trace import Slices

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

BLOCK = 32
"""Slices per block of the table of longest slices."""


@dataclass(frozen=True, eq=False)
class Touching:
    """Which slices touch which cells; all arrays have the shape (tracks, cells)."""

    first: Int64
    """Place of the first slice that touches the cell."""
    last: Int64
    """Place after the last one; equal to `first` where the cell is empty."""
    busy: Int64
    """How many ns of the cell are covered."""
    crossing: Int64
    """Place of the slice that goes on beyond the cell's right edge, else -1."""


IndexColumns = tuple[Int32, Int64, Int64, NDArray[np.float32], Int64, list[Int32], int, int, int]
"""What `index_columns` makes of slices: in the order of the attributes of a `SliceIndex`."""


def index_columns(slices: Slices, rows: Int64, tracks: NDArray[np.integer], count: int) -> IndexColumns:
    """The columns of an index of the slices `rows`, each on its track; rows of one track come sorted by start."""
    narrow = tracks.astype(np.uint16) if count <= 1 << 16 else tracks
    order = np.argsort(narrow, kind="stable")
    row: Int32 = rows[order].astype(np.int32)
    track = tracks[order]
    heads: Int64 = np.searchsorted(track, np.arange(count + 1))
    start = slices.start[row]
    dur = slices.dur[row]
    room = np.append(np.diff(start), np.iinfo(np.int64).max)
    room[heads[1:-1][(heads[1:-1] > 0)] - 1] = np.iinfo(np.int64).max
    dur = np.maximum(np.minimum(dur, room), 0)
    total: Int64 = np.concatenate([np.zeros(1, np.int64), np.cumsum(dur)])
    weight = dur.astype(np.float32)
    low = int(start.min()) if len(start) else 0
    length = int(start.max()) - low + 2 if len(start) else 2
    # A clock gone wild must not overflow the key; then moments are only found to within 2**shift ns.
    shift = max(0, (length * max(count, 1)).bit_length() - 62)
    span = (length >> shift) + 2
    key = track.astype(np.int64)
    key *= span
    key += (start - low) >> shift
    return row, heads, total, weight, key, _longest_of_blocks(weight), low, shift, span


class SliceIndex:
    """Slices in the order (track, start); a number in this order is called a *place*.

    A slice is cut where the next one of its track starts, so nothing is ever drawn over. The same slice may
    stand on two tracks.
    """

    def __init__(self, slices: Slices, columns: IndexColumns) -> None:
        """The index that `index_columns` made of the slices."""
        self.rows: Int32
        """Row of the slice at each place."""
        self.heads: Int64
        """Place of each track's first slice, and the number of places."""
        self._slices = slices
        self._sum: Int64
        self._weight: NDArray[np.float32]
        self._key: Int64
        self._longest: list[Int32]
        self.rows, self.heads, self._sum, self._weight, self._key, self._longest = columns[:6]
        self._low, self._shift, self._span = columns[6:]

    def __len__(self) -> int:
        return len(self.rows)

    def start(self, places: Int64) -> Int64:
        """Starts in ns."""
        return self._slices.start[self.rows[places]]

    def end(self, places: Int64) -> Int64:
        """Ends in ns, cut where the next slice of the track starts."""
        return self.start(places) + self._sum[places + 1] - self._sum[places]

    def before(self, tracks: Int64, moments: Int64) -> Int64:
        """How many places come before the first slice of a track that starts at a moment or later."""
        within = np.clip((moments - self._low) >> self._shift, 0, self._span - 1)
        places: Int64 = np.searchsorted(self._key, tracks * self._span + within)
        return places

    def touching(self, tracks: Int64, edges: Int64) -> Touching:
        """What touches the cells between consecutive edges, on each of the tracks."""
        shape = (len(tracks), len(edges) - 1)
        if len(self) == 0:
            nothing = np.zeros(shape, np.int64)
            return Touching(nothing, nothing, nothing, nothing - 1)
        heads = self.heads[tracks][:, None]
        after = self.before(tracks[:, None], edges[None, :])
        started = after > heads
        latest = np.where(started, after - 1, np.minimum(heads, len(self) - 1))
        overshoot = np.where(started, np.maximum(self.end(latest) - edges, 0), 0)
        busy = np.diff(self._sum[after] - overshoot, axis=1)
        opened = overshoot > 0
        first = np.where(opened[:, :-1], latest[:, :-1], after[:, :-1])
        return Touching(first, after[:, 1:], busy, np.where(opened[:, 1:], latest[:, 1:], -1))

    def longest(self, first: Int64, last: Int64) -> Int64:
        """The place of the longest slice of each non-empty range [first, last).

        Of a range that holds whole blocks only these are looked at, so a slice at its rims may be missed.
        """
        result = np.empty(len(first), np.int64)
        low, high = -(-first // BLOCK), last // BLOCK
        blocks = high > low
        if blocks.any():
            result[blocks] = self._longest_block(low[blocks], high[blocks])
        few = ~blocks
        if few.any():
            result[few] = self._longest_few(first[few], last[few])
        return result

    def place(self, track: int, row: int) -> int:
        """The place of a slice on a track, -1 when it is not there."""
        moment = self._slices.start[row : row + 1]
        begin = int(self.before(np.array([track]), moment)[0])
        end = int(self.before(np.array([track]), moment + (1 << self._shift))[0])
        hits = np.flatnonzero(self.rows[begin:end] == row)
        return begin + int(hits[0]) if len(hits) else -1

    def nearest(self, track: int, moment: float) -> int:
        """The place of the slice of a track that covers a moment or lies nearest to it, -1 for none."""
        head, tail = int(self.heads[track]), int(self.heads[track + 1])
        if head == tail:
            return -1
        after = int(self.before(np.array([track]), np.array([int(moment) + 1]))[0])
        around = np.arange(max(after - 1, head), min(after + 1, tail))
        distance = np.maximum(self.start(around) - moment, moment - self.end(around))
        return int(around[np.argmin(distance)])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        columns = self.rows.nbytes + self._sum.nbytes + self._weight.nbytes + self._key.nbytes
        return columns + sum(array.nbytes for array in self._longest)

    def _longest_block(self, low: Int64, high: Int64) -> Int64:
        """Longest of the blocks [low, high): the better of two runs of blocks that overlap."""
        result = np.empty(len(low), np.int64)
        level = np.frexp((high - low).astype(np.float64))[1] - 1
        for number in np.flatnonzero(np.bincount(level)).tolist():
            mine = level == number
            table = self._longest[number]
            left, right = table[low[mine]], table[high[mine] - (1 << number)]
            result[mine] = np.where(self._weight[left] >= self._weight[right], left, right)
        return result

    def _longest_few(self, first: Int64, last: Int64) -> Int64:
        """Longest of ranges shorter than two blocks, by looking at every slice."""
        counts = last - first
        heads = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(first - heads, counts)
        weight = self._weight[places]
        best = np.maximum.reduceat(weight, heads)
        hits = np.flatnonzero(weight == np.repeat(best, counts))
        owner = np.searchsorted(heads, hits, side="right") - 1
        result = np.empty(len(first), np.int64)
        result[owner[::-1]] = places[hits[::-1]]
        return result


def _longest_of_blocks(weight: NDArray[np.float32]) -> list[Int32]:
    """For 1, 2, 4, ... consecutive blocks, from every block on, the place of the longest slice."""
    blocks = len(weight) // BLOCK
    if blocks == 0:
        return []
    places = weight[: blocks * BLOCK].reshape(blocks, BLOCK).argmax(axis=1)
    levels: list[Int32] = [(places + np.arange(blocks) * BLOCK).astype(np.int32)]
    step = 1
    while 2 * step <= blocks:
        left, right = levels[-1][:-step], levels[-1][step:]
        levels.append(np.where(weight[left] >= weight[right], left, right))
        step *= 2
    return levels
