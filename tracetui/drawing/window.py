"""The stretch of time on screen, laid out on a grid that never moves.

Cell edges are multiples of `ns_per_cell`, so what one cell shows does not change when the window pans: a
terminal is then only sent what is new.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FINEST = 1.0
"""Nanoseconds per cell beyond which nothing more can be told apart."""
COARSEST = 1e16


@dataclass(frozen=True, slots=True)
class Window:
    """Cell i of the screen covers [(first + i) * ns_per_cell, (first + i + 1) * ns_per_cell)."""

    first: int
    """Number of the leftmost cell of the endless grid."""
    ns_per_cell: float

    @classmethod
    def fit(cls, start_ns: float, end_ns: float, width: int, margin: float = 0.02) -> Window:
        """A window of `width` cells around [start_ns, end_ns), with a share of it as margin on each side."""
        span = max(float(end_ns - start_ns), 1.0)
        scale = _limit(span * (1 + 2 * margin) / max(width - 1, 1))
        middle = (start_ns + end_ns) / 2 / scale
        return cls(math.floor(middle - width / 2 + 0.5), scale)

    @property
    def start_ns(self) -> float:
        """Left edge of the first cell."""
        return self.first * self.ns_per_cell

    def end_ns(self, width: int) -> float:
        """Right edge of the last of `width` cells."""
        return (self.first + width) * self.ns_per_cell

    def edges(self, width: int) -> NDArray[np.int64]:
        """The `width` + 1 edges in whole ns; cell i holds the moments edges[i] <= moment < edges[i + 1]."""
        cells = np.arange(self.first, self.first + width + 1)
        edges: NDArray[np.int64] = np.ceil(cells * self.ns_per_cell).astype(np.int64)
        return edges

    def cell_of(self, moment: float) -> int:
        """The cell that holds a moment; below 0 or beyond the width when it is not on screen."""
        return math.floor(moment / self.ns_per_cell) - self.first

    def pan(self, cells: int) -> Window:
        """The window moved to later moments by a number of cells."""
        return Window(self.first + cells, self.ns_per_cell)

    def zoom(self, factor: float, about_cell: float) -> Window:
        """The window magnified, with what is at a cell staying there."""
        scale = _limit(self.ns_per_cell / factor)
        moment = (self.first + about_cell + 0.5) * self.ns_per_cell
        return Window(round(moment / scale - about_cell - 0.5), scale)

    def stretched(self, before: int, after: int) -> Window:
        """The window that shows on `after` cells what this one shows on `before`."""
        scale = _limit(self.ns_per_cell * before / after)
        return Window(round(self.start_ns / scale), scale)

    def within(self, start_ns: float, end_ns: float, width: int) -> Window:
        """The nearest window that is at most a fifth longer than [start_ns, end_ns) and shows some of it."""
        widest = Window.fit(start_ns, end_ns, width, 0.1)
        window = self if self.ns_per_cell <= widest.ns_per_cell else widest
        low = math.floor(start_ns / window.ns_per_cell - width * 0.9)
        high = math.ceil(end_ns / window.ns_per_cell - width * 0.1)
        return Window(min(max(window.first, low), high), window.ns_per_cell)


def _limit(scale: float) -> float:
    return min(max(scale, FINEST), COARSEST)
