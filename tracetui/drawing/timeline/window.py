"""The stretch of time on screen.

Cell edges are multiples of `ns_per_cell` from the origin, so what one cell shows does not change when the window
pans: a terminal is then only sent what is new. Two traces share an axis when their windows differ in the origin alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen

FINEST = 1.0
"""Nanoseconds per cell beyond which nothing more can be told apart."""
COARSEST = 1e16


@frozen(eq=True, slots=True)
class Window:
    """Cell i of the screen covers [(first + i) * ns_per_cell, (first + i + 1) * ns_per_cell) after the origin."""

    first: int
    """Number of the leftmost cell of the endless grid."""
    ns_per_cell: float
    origin: int = 0
    """The moment in ns at which the grid's cell 0 begins."""

    @classmethod
    def fit(cls, start_ns: float, end_ns: float, width: int, margin: float = 0.02, origin: int = 0) -> Window:
        """A window of `width` cells around [start_ns, end_ns), with a share of it as margin on each side."""
        span = max(float(end_ns - start_ns), 1.0)
        scale = _limit(span * (1 + 2 * margin) / max(width - 1, 1))
        middle = ((start_ns + end_ns) / 2 - origin) / scale
        return cls(math.floor(middle - width / 2 + 0.5), scale, origin)

    @classmethod
    def over(cls, start_ns: float, length_ns: float, width: int) -> Window:
        """A window of `width` cells over a stretch of time, from its start to within half a cell."""
        scale = _limit(length_ns / max(width, 1))
        return cls(round(start_ns / scale), scale)

    @property
    def start_ns(self) -> float:
        """Left edge of the first cell."""
        return self.origin + self.first * self.ns_per_cell

    def end_ns(self, width: int) -> float:
        """Right edge of the last of `width` cells."""
        return self.origin + (self.first + width) * self.ns_per_cell

    def edges(self, width: int) -> NDArray[np.int64]:
        """The `width` + 1 edges in whole ns; cell i holds the moments edges[i] <= moment < edges[i + 1]."""
        cells = np.arange(self.first, self.first + width + 1)
        edges: NDArray[np.int64] = np.ceil(cells * self.ns_per_cell).astype(np.int64) + self.origin
        return edges

    def cell_of(self, moment: float) -> int:
        """The cell that holds a moment; below 0 or beyond the width when it is not on screen."""
        return math.floor((moment - self.origin) / self.ns_per_cell) - self.first

    def position(self, moment: float) -> float:
        """The position of a moment in cells from the left edge; 0.5 is the middle of the first cell."""
        return (moment - self.origin) / self.ns_per_cell - self.first

    def moment_at(self, cell: float) -> float:
        """The moment in the middle of a cell."""
        return self.origin + (self.first + cell + 0.5) * self.ns_per_cell

    def pan(self, cells: int) -> Window:
        """The window moved to later moments by a number of cells."""
        return replace(self, first=self.first + cells)

    def zoom(self, factor: float, about_cell: float) -> Window:
        """The window magnified about a cell, whose moment stays in place."""
        scale = _limit(self.ns_per_cell / factor)
        moment = (self.first + about_cell + 0.5) * self.ns_per_cell
        return replace(self, first=round(moment / scale - about_cell - 0.5), ns_per_cell=scale)

    def stretched(self, before: int, after: int) -> Window:
        """The window that shows on `after` cells what this one shows on `before`."""
        scale = _limit(self.ns_per_cell * before / after)
        return replace(self, first=round(self.first * self.ns_per_cell / scale), ns_per_cell=scale)

    def within(self, start_ns: float, end_ns: float, width: int) -> Window:
        """The nearest window that is at most a fifth longer than [start_ns, end_ns) and shows some of it."""
        widest = Window.fit(start_ns, end_ns, width, 0.1, self.origin)
        window = self if self.ns_per_cell <= widest.ns_per_cell else widest
        low = math.floor((start_ns - self.origin) / window.ns_per_cell - width * 0.9)
        high = math.ceil((end_ns - self.origin) / window.ns_per_cell - width * 0.1)
        return replace(window, first=min(max(window.first, low), high))

    def showing(self, begin: int, end: int, width: int, zoom: bool = False) -> Window:
        """The window, moved when a slice is not in it, and then so far that the next steps need not move it.

        With `zoom`, also magnified when the slice is narrower than half a cell.
        """
        left, right = self.start_ns, self.end_ns(width)
        if zoom and end - begin < self.ns_per_cell / 2:
            return Window.fit(begin, end, width, 10, self.origin)
        if begin >= left and end <= right:
            return self
        if end - begin > 0.9 * (right - left):
            covered = min(end, right) - max(begin, left)
            return self if covered > 0.5 * (right - left) else Window.fit(begin, end, width, 0.1, self.origin)
        size = (end - begin) / self.ns_per_cell
        ahead = min(width / 5, (width - size) / 2)
        if begin < left:
            return self.pan(int(self.cell_of(end) - width + ahead))
        return self.pan(int(self.cell_of(begin) - ahead))

    def without_void(self, start_ns: float, end_ns: float, width: int) -> Window:
        """The window moved so that it shows nothing before or behind [start_ns, end_ns), where it is no longer."""
        low, high = (self.cell_of(moment) for moment in (start_ns, end_ns))
        if high - low < width:
            return self
        return self.pan(int(max(low, 0) or min(high - width, 0)))

    def moved_to(self, origin: int) -> Window:
        """The same offset and scale on a grid with another origin."""
        return replace(self, origin=origin)


def _limit(scale: float) -> float:
    return min(max(scale, FINEST), COARSEST)
