"""Rows of the lanes that are no slices: counters, and the idle time of a device with its causes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.hues import HATCH, Hue
from tracetui.drawing.timeline.cells import FROM_BOTTOM, SPACE, Frame
from tracetui.drawing.timeline.palette import GROUND, Palette, codes
from tracetui.drawing.timeline.runs import BLOCK_CELLS, Run, runs_in
from tracetui.drawing.timeline.window import Window
from tracetui.idle.gaps import IdleBlocks
from tracetui.idle.waits import WORDS
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.intervals import covered_within
from tracetui.model.quantities import significant, size
from tracetui.model.trace import Counter

Int64 = NDArray[np.int64]

# Counters as one row of bars: the highest value that a counter has in each cell.

FLAT_SHARE = 0.5
"""A counter of a GPU whose lowest value is above this share of its highest is drawn from the lowest on."""


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
        elif counter.gpu >= 0 and len(self._value) and float(self._value.min()) > FLAT_SHARE * self.high:
            # A temperature or a clock would fill its row.
            self.low = float(self._value.min())
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
        """The highest value as text, with the lowest where the bars begin there: `≤3 W`, `290–310 W`, `5 W`."""
        highest = self.text(self._highest)
        return (
            f"≤{highest}"
            if self.low <= 0
            else highest
            if self.low == self._highest
            else f"{significant(self.low)}–{highest}"
        )

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
        # The last of the stretches ends where these values do, not with the trace.
        begin = int(bounds.min())
        padded = np.append(self._value[begin : int(bounds.max())], -np.inf)
        # Where a value holds in part of a cell, it is the cell's.
        peaks: NDArray[np.float64] = np.where(known, np.fmax.reduceat(padded, bounds - begin)[::2], np.nan)
        return peaks

    def bars(self, edges: Int64) -> NDArray[np.uint32]:
        """The values as code points of bars."""
        values = self.highest(edges)
        known = ~np.isnan(values)
        # By halves, whose differences are numbers whatever the values.
        half = self.low / 2
        share = (np.where(known, values, self.low) / 2 - half) / max(self.high / 2 - half, 1e-300)
        # Where the lowest is no zero it is no empty cell either.
        level = np.clip(np.ceil(share * 8), int(self.low > 0), 8).astype(np.int64)
        return np.where(known, FROM_BOTTOM[level], np.uint32(SPACE))


# The stretches in which a device ran nothing, as one row that is hatched and says why.
#
# They are empty until the causes have been worked out, which is done after a trace is on screen.

_HATCH = np.uint32(ord(HATCH))
_MOSTLY = 0.5
"""A cell in which the device ran nothing for this share of the time is hatched."""
_SOME = 0.1
"""A cell in which it did for this share has a dot."""
_DOT = np.uint32(ord(Hue.IDLE.value.texture))
_MAX_GAPS = 200_000
"""Where a window holds more gaps, only those with room for a label get one."""


class IdleBand:
    """The idle time of one device, ready to draw."""

    def __init__(self, process: int, device: str) -> None:
        self.process = process
        """Number of the device in `lane_numbers`."""
        self.device = device
        """Name of the device."""
        none = np.empty(0, np.int64)
        self._start, self._end, self._after, self._cause = none, none, none, none

    def fill(self, blocks: IdleBlocks) -> None:
        """Take the blocks of this device."""
        mine = blocks.process == self.process
        self._start, self._end = blocks.start[mine], blocks.end[mine]
        self._after, self._cause = blocks.after[mine], blocks.cause[mine].astype(np.int64)

    def work_after(self, start_ns: int, end_ns: int) -> int:
        """The GPU activity that ends the longest gap in [start_ns, end_ns), -1 where there is none."""
        first, last = self._touching(start_ns, max(end_ns, start_ns + 1))
        if first >= last:
            return -1
        return int(self._after[first + np.argmax((self._end - self._start)[first:last])])

    def draw(self, frame: Frame, row: int, window: Window, colours: Palette) -> None:
        """Draw the band on a row of a grid, in a neutral colour, with the causes in words."""
        width = frame.shape[1]
        edges = window.edges(width)
        first, last = self._touching(int(edges[0]), int(edges[-1]))
        if first >= last:
            return
        start, end = self._start[first:last], self._end[first:last]
        share = covered_within(start, end, edges[:-1], edges[1:]) / np.diff(edges)
        hatched = share >= _MOSTLY
        frame.chars[row] = np.where(hatched, _HATCH, np.where(share >= _SOME, _DOT, np.uint32(SPACE)))
        if not colours.mono:
            frame.fg[row, share >= _SOME] = colours.idle
            frame.bg[row, hatched] = colours.hatch
        self._letter(frame, row, window, slice(first, last))

    def _touching(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """First and last gap (exclusive) that touch a stretch of time."""
        return int(np.searchsorted(self._end, start_ns, side="right")), int(np.searchsorted(self._start, end_ns))

    def _letter(self, frame: Frame, row: int, window: Window, some: slice) -> None:
        """Write the cause into every gap that has room for it, and into runs of gaps that have none."""
        start, end, cause = self._start[some], self._end[some], self._cause[some]
        wide = np.flatnonzero(end - start >= BLOCK_CELLS * window.ns_per_cell)
        labels = [
            Run(window.cell_of(low - 1) + 1, window.cell_of(high), why, 1, high - low, -1)
            for low, high, why in zip(*(column[wide].tolist() for column in (start, end, cause)), strict=True)
        ]
        if len(start) <= _MAX_GAPS:
            labels += runs_in(start, end, cause, window, frame.shape[1], narrow=BLOCK_CELLS, least=_MOSTLY)
        is_free = np.ones(frame.shape[1], bool)
        for each in labels:
            left, right = max(each.begin, 0), min(each.end, frame.shape[1])
            room = right - left
            text = next((text for text in each.words(WORDS[each.sort]) if len(text) + 2 <= room), "")
            at = left + (room - len(text)) // 2
            if text and room >= BLOCK_CELLS and is_free[at - 1 : at + len(text) + 1].all():
                is_free[at - 1 : at + len(text) + 1] = False
                # The colours of hatched cells stay: where the run has a cell that is not, the word has no ground.
                frame.chars[row, at - 1 : at + len(text) + 1] = codes(f" {text} ")
                frame.fg[row, at - 1 : at + len(text) + 1] = frame.fg[row, left] if room else GROUND
