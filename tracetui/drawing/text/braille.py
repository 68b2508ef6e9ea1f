"""Plots in braille: dots on two logarithmic axes with their numbers; two by four dots in a cell.

A dot that falls on another one shares its cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

BLANK = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""Bits of a braille letter, by row and column of the dot."""
MARGIN = 8
"""Cells for the numbers beside the vertical axis."""
MIN_WIDTH, MIN_HEIGHT = 24, 6
"""Minimum cells of a plot."""


@dataclass(frozen=True)
class Axis:
    """Decimal logarithms along a number of dots."""

    low: float
    high: float
    dots: int

    @classmethod
    def over(cls, values: Sequence[float], dots: int) -> Axis:
        """An axis with room around some values."""
        low, high = min(values), max(values)
        room = max((high - low) * 0.05, 0.15)
        return cls(low - room, high + room, dots)

    def indices(self, values: Float64) -> NDArray[np.int64]:
        """Number of the dot of each value; those outside of the axis are out of range."""
        found: NDArray[np.int64] = np.floor((values - self.low) / (self.high - self.low) * self.dots).astype(np.int64)
        return found

    def values(self) -> Float64:
        """The value in the middle of each dot."""
        return self.low + (np.arange(self.dots) + 0.5) * (self.high - self.low) / self.dots

    def labels(self, dots_per_cell: int) -> dict[int, str]:
        """Numbers at powers of ten, or at 1, 2 and 5 of each where there are few, by cell."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if self.high - self.low > 2 else (1, 2, 5)
        marks = [math.log10(step) + decade for decade in decades for step in steps]
        inside = [mark for mark in marks if self.low <= mark < self.high]
        return {int(self.indices(np.array([mark]))[0]) // dots_per_cell: f"{10**mark:g}" for mark in inside}


def framed(grid: NDArray[np.bool_], across: Axis, up: Axis, title: str, unit: str) -> list[str]:
    """Lines of a plot: the unit of the vertical axis, the dots, and the horizontal axis with its numbers and unit."""
    rows, columns = grid.shape[0] // 4, grid.shape[1] // 2
    labels = up.labels(4)
    body = [f"{labels.get(rows - 1 - row, ''):>{MARGIN}}┤{line}" for row, line in enumerate(_letters(grid))]
    return [
        f"{title:>{MARGIN}}",
        *body,
        f"{'':>{MARGIN}}└{'─' * columns}",
        _below(across.labels(2), columns, unit),
    ]


def ends(values: Float64) -> tuple[float, float]:
    """The least and the largest value."""
    return float(values.min()), float(values.max())


def put_dots(grid: NDArray[np.bool_], across: NDArray[np.int64], up: NDArray[np.int64]) -> None:
    """Set dots, counted from the lower left corner."""
    inside = (across >= 0) & (across < grid.shape[1]) & (up >= 0) & (up < grid.shape[0])
    grid[grid.shape[0] - 1 - up[inside], across[inside]] = True


def _letters(grid: NDArray[np.bool_]) -> list[str]:
    """Braille letters of a grid of dots."""
    rows, columns = grid.shape[0] // 4, grid.shape[1] // 2
    cells = grid.reshape(rows, 4, columns, 2).transpose(0, 2, 1, 3)
    codes = (cells * _DOTS).sum(axis=(2, 3), dtype=np.uint32) + BLANK
    # An empty braille letter is no space: some fonts draw a box for it.
    return ["".join(map(chr, row)).replace(chr(BLANK), " ") for row in codes.tolist()]


def _below(labels: dict[int, str], columns: int, unit: str) -> str:
    """The numbers under the horizontal axis, each centred below its dot, and what they count."""
    line = [" "] * columns
    line[columns - len(unit) :] = unit
    for place, text in sorted(labels.items()):
        first = max(place - len(text) // 2, 0)
        span = slice(max(first - 1, 0), first + len(text) + 1)
        if first + len(text) < columns - len(unit) and not "".join(line[span]).strip():
            line[first : first + len(text)] = text
    return " " * (MARGIN + 1) + "".join(line)
