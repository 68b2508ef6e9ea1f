"""Stretches of time on several lanes at once: how much of any window they cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64, covered_within, union


@dataclass(frozen=True, eq=False)
class Axis:
    """Puts the lanes one after another on a single axis, so that one search serves them all."""

    low: int
    """Earliest moment in ns."""
    span: int
    """Room that each lane has, in ns."""

    @classmethod
    def around(cls, start: Int64, end: Int64) -> Axis:
        """An axis for all moments between the first start and the last end."""
        low = int(start.min(initial=0))
        return cls(low, int(end.max(initial=0)) - low + 2)

    def position(self, lane: NDArray[np.integer], moment: Int64) -> Int64:
        """Where moments of lanes, numbered from 0, are on the axis."""
        return lane.astype(np.int64) * self.span + (moment - self.low)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Disjoint, ascending stretches on an axis."""

    axis: Axis
    starts: Int64
    ends: Int64

    @classmethod
    def of(cls, axis: Axis, lane: NDArray[np.integer], start: Int64, end: Int64) -> Stretches:
        """The union of the intervals on each lane."""
        return cls(axis, *union(axis.position(lane, start), axis.position(lane, end)))

    def joined(self, other: Stretches) -> Stretches:
        """What either covers."""
        both = np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends])
        return Stretches(self.axis, *union(*both))

    def covered(self, lane: NDArray[np.integer], low: Int64, high: Int64) -> Int64:
        """How much of each window [low, high) of a lane is covered, in ns."""
        return covered_within(self.starts, self.ends, self.axis.position(lane, low), self.axis.position(lane, high))
