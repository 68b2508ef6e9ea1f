"""Counters as one row of bars: the highest value that a counter has in each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.cells import FROM_BOTTOM, SPACE
from tracetui.drawing.format import size
from tracetui.model.trace import Counter

Int64 = NDArray[np.int64]


class Curve:
    """A counter made ready to draw: sorted by time, with the range of its values."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        order = np.argsort(counter.time, kind="stable")
        self._time: Int64 = counter.time[order]
        self._value = np.nan_to_num(counter.value[order])
        self.low = min(0.0, float(self._value.min(initial=0.0)))
        """Drawn as an empty cell; 0 unless the counter goes below it."""
        self.high = float(self._value.max(initial=0.0))

    @property
    def name(self) -> str:
        """The counter's and the series' name."""
        counter = self.counter
        return counter.name if counter.series in ("", counter.name) else f"{counter.name} {counter.series}"

    @property
    def limit(self) -> str:
        """The highest value, as text."""
        return size(self.high) if self.counter.unit == "bytes" else f"{self.high:.4g}"

    def highest(self, edges: Int64) -> NDArray[np.float64]:
        """The largest value that holds anywhere in each cell, NaN before the first sample."""
        after = np.searchsorted(self._time, edges)
        first, last = np.maximum(after[:-1] - 1, 0), after[1:]
        # A sample exactly at the left edge replaces the value that held before it.
        begins = np.minimum(after[:-1], max(len(self._time) - 1, 0))
        if len(self._time) == 0:
            return np.full(len(edges) - 1, np.nan)
        first = np.where(self._time[begins] == edges[:-1], begins, first)
        known = last > 0
        bounds = np.stack([first, np.maximum(last, first + 1)], axis=1).ravel()
        padded = np.append(self._value, -np.inf)
        peaks: NDArray[np.float64] = np.where(known, np.maximum.reduceat(padded, bounds)[::2], np.nan)
        return peaks

    def bars(self, edges: Int64) -> NDArray[np.uint32]:
        """The values as code points of bars."""
        values = self.highest(edges)
        known = ~np.isnan(values)
        share = (np.where(known, values, self.low) - self.low) / max(self.high - self.low, 1e-300)
        level = np.clip(np.ceil(share * 8), 0, 8).astype(np.int64)
        return np.where(known, FROM_BOTTOM[level], np.uint32(SPACE))
