"""Which tracks of a picture stand on which line of a figure: those on which anything happens in a stretch of time.

Slices as blocks to draw: those that would be too narrow to see are merged with their neighbours.

The file stays small however many slices a stretch of time holds, and nothing that ran is missing from it: a merged
block knows how many slices it stands for, and how much of its width they fill.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.timeline.layout import ON_DEVICE, Layout
from tracetui.drawing.timeline.raster import Picture
from tracetui.drawing.timeline.scene import lane_label
from tracetui.linking.lanes import lane_numbers
from tracetui.model.hardware_counters import Quantity, quantity_of
from tracetui.model.intervals import Int64
from tracetui.model.trace import Counter, LaneKind

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


MOST_LINES = 72
"""Lines of slices in a figure."""
MOST_ROWS = 14
"""Rows of one lane."""
MOST_CURVES = 4
LABEL = 21
"""Characters of the name of a lane."""


@dataclass(frozen=True)
class Row:
    """One line of slices."""

    track: int
    first: int
    """Place in the picture's index of the first slice that touches the stretch."""
    last: int
    """Place after the last one."""
    label: str = ""
    """The lane's name on its first row; what is hidden on its last."""
    begins: bool = False
    """Whether a lane begins here."""
    band: int = -1
    """Number of the picture's idle band that stands above this row, -1 for none."""


@dataclass(frozen=True)
class Arrangement:
    """The lines of a figure, from the top."""

    rows: tuple[Row, ...]
    curves: tuple[int, ...]
    """Numbers of the picture's curves, below the rows."""
    hidden: int
    """Lanes on which something happens and for which there is no room."""


def arrange(picture: Picture, stretch: Stretch) -> Arrangement:
    """Threads above, devices below, in the order of the screen, without what is idle all the time."""
    tracks = np.array(Layout(picture).tracks, np.int64)
    moments = np.array([stretch.start_ns, max(stretch.end_ns, stretch.start_ns + 1)], np.int64)
    touching = picture.index.touching(tracks, moments)
    first, last = touching.first[:, 0], touching.last[:, 0]
    by_lane: dict[int, list[int]] = {}
    for number, lane in enumerate(_lanes_of(picture, tracks).tolist()):
        by_lane.setdefault(lane, []).append(number)
    groups = []
    for lane, numbers in by_lane.items():
        used = [number for number in numbers if last[number] > first[number]]
        if used:
            groups.append((lane, [number for number in numbers if number <= used[-1]]))
    shown, hidden = _fitting(picture, groups)
    bands = _bands(picture)
    rows: list[Row] = []
    for lane, numbers in shown:
        band = bands.pop(_process(picture, lane), -1) if picture.trace.lanes[lane].kind == LaneKind.GPU else -1
        rows += _rows_of(picture, lane, numbers, (tracks, first, last), band)
    return Arrangement(tuple(rows), _chosen_curves(picture), hidden)


def _chosen_curves(picture: Picture) -> tuple[int, ...]:
    """The curves of a figure: how busy GPUs and their memory were, then the last of the others."""
    every = range(len(picture.curves))
    telling = [number for number in every if _tells_use(picture.curves[number].counter)][:MOST_CURVES]
    others = [number for number in every if number not in telling]
    return tuple(sorted([*telling, *others[len(others) - (MOST_CURVES - len(telling)) :]]))


def _tells_use(counter: Counter) -> bool:
    return counter.gpu >= 0 and quantity_of(counter.name) in (Quantity.SM_ACTIVE, Quantity.DRAM)


def _fitting(picture: Picture, groups: list[tuple[int, list[int]]]) -> tuple[list[tuple[int, list[int]]], int]:
    """The lanes that fit, devices having half of the lines if they need them, and how many do not."""
    lanes = picture.trace.lanes
    upper = [group for group in groups if lanes[group[0]].kind not in ON_DEVICE]
    lower = [group for group in groups if lanes[group[0]].kind in ON_DEVICE]
    needed = sum(min(len(numbers), MOST_ROWS) for _, numbers in lower)
    room = MOST_LINES - min(needed, MOST_LINES // 2)
    kept = []
    for part in (upper, lower):
        for lane, numbers in part:
            height = min(len(numbers), MOST_ROWS)
            if height <= room:
                kept.append((lane, numbers))
                room -= height
        room = MOST_LINES - sum(min(len(numbers), MOST_ROWS) for _, numbers in kept)
    return kept, len(groups) - len(kept)


def _rows_of(
    picture: Picture, lane: int, numbers: list[int], places: tuple[Int64, Int64, Int64], band: int
) -> list[Row]:
    tracks, first, last = places
    shown = numbers[:MOST_ROWS]
    rows = []
    for place, number in enumerate(shown):
        label = lane_label(picture.trace.lanes[lane], LABEL) if place == 0 else ""
        if place == len(shown) - 1 and len(numbers) > len(shown) > 1:
            label = f"+{len(numbers) - len(shown)} deeper rows"
        begins = place == 0
        rows.append(
            Row(int(tracks[number]), int(first[number]), int(last[number]), label, begins, band if begins else -1)
        )
    return rows


def _lanes_of(picture: Picture, tracks: Int64) -> Int64:
    """The lane of each track."""
    lanes = np.full(picture.tracks, -1, np.int64)
    for ranges in (picture.full, picture.compact):
        for lane, these in enumerate(ranges):
            lanes[these.start : these.stop] = lane
    return lanes[tracks]


def _bands(picture: Picture) -> dict[int, int]:
    """The idle band of each device by the device's number in `lane_numbers`."""
    return {band.process: number for number, band in enumerate(picture.idles)}


def _process(picture: Picture, lane: int) -> int:
    return int(lane_numbers(picture.trace).process[lane])
