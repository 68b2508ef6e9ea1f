"""Slices as blocks to draw: those that would be too narrow to see are merged with their neighbours.

The file stays small however many slices a stretch of time holds, and nothing that ran is missing from it: a merged
block knows how many slices it stands for, and how much of its width they fill.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """The stretch of time that is drawn, and on how many units of length."""

    start_ns: int
    end_ns: int
    width: float

    @property
    def per_ns(self) -> float:
        """Units of length per ns."""
        return self.width / max(self.end_ns - self.start_ns, 1)

    def place(self, moments: Int64) -> Float64:
        """Where moments are drawn, those outside at the edges."""
        within = np.clip(moments, self.start_ns, self.end_ns) - self.start_ns
        return np.asarray(within * self.per_ns, np.float64)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Parallel arrays, one entry per block, in order of their start."""

    first: Int64
    """The first of the intervals that a block stands for, as a number within what was given."""
    last: Int64
    """The number after the last one."""
    left: Float64
    right: Float64
    share: Float64
    """How much of the block its intervals fill, from 0 to 1."""

    def __len__(self) -> int:
        return len(self.first)


def blocks(start: Int64, end: Int64, stretch: Stretch, finest: float) -> Blocks:
    """Intervals, sorted by start and free of overlap, as blocks that are at least `finest` wide."""
    left, right = stretch.place(start), stretch.place(end)
    if len(left) == 0:
        none = np.empty(0, np.int64)
        return Blocks(none, none, left, left, left)
    wide = right - left >= finest
    column = np.floor(left / finest)
    begins = np.ones(len(left), bool)
    begins[1:] = wide[1:] | wide[:-1] | (column[1:] != column[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(left))
    begin, stop = left[first], np.maximum.reduceat(right, first)
    filled = np.add.reduceat(right - left, first)
    narrow = ~wide[first]
    begin = np.where(narrow, column[first] * finest, begin)
    # A block at the right edge stays inside.
    begin = np.minimum(begin, max(stretch.width - finest, 0.0))
    stop = np.where(narrow, begin + finest, stop)
    return Blocks(first, last, begin, stop, np.clip(filled / np.maximum(stop - begin, 1e-9), 0.0, 1.0))
