"""Unions of intervals on several lanes at once: how much of any window they cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64, covered_within, union
from tracetui.model.native_nesting import insertion_index

WIDE = 1 << 45
"""Nanoseconds, ten hours, beyond which pauses are shortened: many lanes one after another would not fit 64 bits."""
PAUSE = 1 << 30
"""Nanoseconds that are left of a pause in which nothing happens on any lane."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Puts the lanes one after another on a single axis, so that one search serves all of them."""

    low: int
    """A moment before all others, in ns: what lies before them stays on its lane, and touches nothing there."""
    span: int
    """Length of each lane on the axis, in ns."""
    starts: Int64 | None = None
    """Where the stretches between pauses start, None where no pause is shortened."""
    room: Int64 | None = None
    """How long each of them is, with what is left of the pause behind it."""

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
        return lane.astype(np.int64) * self.span + self._offset(moment)

    def _offset(self, moment: Int64) -> Int64:
        if self.starts is None or self.room is None:
            return np.clip(moment - self.low, 0, self.span - 1)
        index = insertion_index(self.starts, moment, side="right") - 1
        known = np.maximum(index, 0)
        within = np.minimum(moment - self.starts[known], self.room[known])
        before = np.maximum(moment - self.starts[0], -PAUSE)
        offset: Int64 = PAUSE + np.where(index < 0, before, self._passed()[known] + within)
        return offset

    def moment(self, lane: NDArray[np.integer], position: Int64) -> Int64:
        """The moments that are at positions of lanes, in ns; within a pause that is shortened, some moment of it."""
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


@dataclass(frozen=True, eq=False)
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
        """How much of each window [low, high) of a lane is covered, in ns."""
        return covered_within(self.starts, self.ends, self.axis.position(lane, low), self.axis.position(lane, high))
