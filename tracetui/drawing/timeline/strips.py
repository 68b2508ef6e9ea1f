"""The stretches in which a device ran nothing, as one row of dashes that say why.

The dashes keep apart from slices, which have a background: here nothing ran. They are empty until the causes have
been worked out, which is done after a trace is on screen.

Counters as one row of bars: the highest value that a counter has in each cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.timeline.cells import FROM_BOTTOM, SPACE, Frame
from tracetui.drawing.timeline.idle_classes import IDLE_CLASS
from tracetui.drawing.timeline.labels import codes
from tracetui.drawing.timeline.palette import GROUND, Palette
from tracetui.idle.cause_words import WORDS, Cause
from tracetui.idle.gaps import IdleBlocks
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.intervals import Int64, covered_within
from tracetui.model.quantities import significant, size
from tracetui.model.trace import Counter


class Curve:
    """A counter made ready to draw: sorted by time, with the range of its values."""

    def __init__(self, counter: Counter, held: Int64 | None = None, owner: str = "") -> None:
        """`held` says for how long each of the counter's values holds, in ns and in order of time; None until the next.

        With it every value is finite. `owner` is what the name begins with.
        """
        self.counter = counter
        self._owner = owner
        order = np.argsort(counter.time, kind="stable")
        self._time: Int64 = counter.time[order]
        self._value = np.nan_to_num(counter.value[order])
        self.low = min(0.0, float(self._value.min(initial=0.0)))
        """Drawn as an empty cell; 0 unless the counter goes below it."""
        self.high = self._highest = float(self._value.max(initial=0.0))
        """Drawn as a full cell: the highest value, or of a share the whole."""
        if counter.gpu >= 0 and counter.unit == "%":
            # A share is drawn as one: half a row is half of the peak.
            self.high = max(self.high, 100.0)
        if held is not None:
            self._add_ends(held)

    def _add_ends(self, held: Int64) -> None:
        """Put an unknown value where one ends before the next begins."""
        end = self._time + held
        open_ends = np.flatnonzero(np.append(end[:-1] < self._time[1:], True)) if len(end) else np.empty(0, np.int64)
        self._time = np.insert(self._time, open_ends + 1, end[open_ends])
        self._value = np.insert(self._value, open_ends + 1, np.nan)

    @property
    def name(self) -> str:
        """The counter's and the series' name; of a GPU's counter without the unit, which stands behind its value."""
        counter = self.counter
        if counter.gpu >= 0:
            return f"{self._owner}{short_counter(counter.name)}"
        return counter.name if counter.series in ("", counter.name) else f"{counter.name} {counter.series}"

    @property
    def limit(self) -> str:
        """The highest value, as text."""
        return self.text(self._highest)

    def text(self, value: float) -> str:
        """A value with its unit."""
        if self.counter.unit == "bytes":
            return size(value)
        return with_unit(value, self.counter.unit) if self.counter.gpu >= 0 else significant(value)

    def value_at(self, moment: int) -> float:
        """The value that holds at a time in ns, NaN where none does."""
        index = int(np.searchsorted(self._time, moment, side="right")) - 1
        return float(self._value[index]) if index >= 0 else float("nan")

    def highest(self, edges: Int64) -> NDArray[np.float64]:
        """The largest value that holds anywhere in each cell, NaN where none does."""
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
        # Where a value holds in part of a cell, it is the cell's.
        peaks: NDArray[np.float64] = np.where(known, np.fmax.reduceat(padded, bounds)[::2], np.nan)
        return peaks

    def bars(self, edges: Int64) -> NDArray[np.uint32]:
        """The values as code points of bars."""
        values = self.highest(edges)
        known = ~np.isnan(values)
        # By halves, whose differences are numbers whatever the values.
        half = self.low / 2
        share = (np.where(known, values, self.low) / 2 - half) / max(self.high / 2 - half, 1e-300)
        level = np.clip(np.ceil(share * 8), 0, 8).astype(np.int64)
        return np.where(known, FROM_BOTTOM[level], np.uint32(SPACE))


DASH = ord("╌")
_FULL = 0.995
"""A cell in which the device ran nothing for this share of the time gets a dash, another one a bar."""
_CAUSES = len(Cause)


class IdleBand:
    """The idle time of one device, ready to draw."""

    def __init__(self, process: int, device: str) -> None:
        self.process = process
        """Number of the device in `lane_numbers`."""
        self.device = device
        """What the device is called."""
        none = np.empty(0, np.int64)
        self._start, self._end, self._after, self._key = none, none, none, none

    def fill(self, blocks: IdleBlocks) -> None:
        """Take the blocks of this device."""
        mine = blocks.process == self.process
        self._start, self._end = blocks.start[mine], blocks.end[mine]
        self._after = blocks.after[mine]
        # One more at the end, for `reduceat` takes no bound beyond the last.
        self._key = np.append((self._end - self._start) * _CAUSES + blocks.cause[mine], 0)

    def work_after(self, start_ns: int, end_ns: int) -> int:
        """The GPU activity that ends the longest gap in [start_ns, end_ns), -1 where there is none."""
        first, last = self._touching(np.array([start_ns, max(end_ns, start_ns + 1)]))
        if first[0] >= last[0]:
            return -1
        return int(self._after[first[0] + np.argmax(self._key[first[0] : last[0]])])

    def draw(self, frame: Frame, row: int, edges: Int64, colours: Palette) -> None:
        """Draw the band on a row of a grid."""
        if len(self._start) == 0:
            return
        share = covered_within(self._start, self._end, edges[:-1], edges[1:]) / np.diff(edges)
        first, last = self._touching(edges)
        some = np.flatnonzero((last > first) & (share > 0))
        if len(some) == 0:
            return
        level = np.clip(np.ceil(share[some] * 8), 1, 7).astype(np.int64)
        frame.chars[row, some] = np.where(share[some] >= _FULL, DASH, FROM_BOTTOM[level])
        cause = self._causes(first[some], last[some])
        if not colours.mono:
            frame.fg[row, some] = colours.idle[IDLE_CLASS[cause]]
        self._letter(frame, row, edges)

    def _touching(self, edges: Int64) -> tuple[Int64, Int64]:
        """First and last gap (exclusive) that touch each cell."""
        return np.searchsorted(self._end, edges[:-1], side="right"), np.searchsorted(self._start, edges[1:])

    def _causes(self, first: Int64, last: Int64) -> Int64:
        """The cause of the longest of each range of gaps; the ranges are not empty."""
        bounds = np.stack([first, last], axis=1).ravel()
        longest: Int64 = np.maximum.reduceat(self._key, bounds)[::2]
        return longest % _CAUSES

    def _letter(self, frame: Frame, row: int, edges: Int64) -> None:
        """Write the cause into every gap that has room for it."""
        low, high = np.searchsorted(self._end, edges[0], side="right"), np.searchsorted(self._start, edges[-1])
        left = np.searchsorted(edges, self._start[low:high])
        right = np.searchsorted(edges, self._end[low:high], side="right") - 1
        for gap in np.flatnonzero(right - left >= _SHORTEST).tolist():
            text = WORDS[int(self._key[low + gap]) % _CAUSES]
            room = int(right[gap] - left[gap])
            if len(text) + 2 <= room:
                at = int(left[gap]) + (room - len(text)) // 2
                ink = int(frame.fg[row, at])
                frame.write(row, at - 1, codes(f" {text} "), ink if ink != GROUND else GROUND)


_SHORTEST = min(map(len, WORDS)) + 2
