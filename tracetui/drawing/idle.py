"""The stretches in which a device ran nothing, as one row of dashes that say why.

The dashes keep apart from slices, which have a background: here nothing ran. They are empty until the causes have
been worked out, which is done after a trace is on screen.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.idle.cause_words import WORDS, Cause
from tracetui.analysis.idle.gaps import IdleBlocks
from tracetui.drawing.cells import FROM_BOTTOM, Frame
from tracetui.drawing.labels import codes
from tracetui.drawing.palette import GROUND, Palette
from tracetui.model.intervals import Int64, covered_within

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
        self._key = (self._end - self._start) * _CAUSES + blocks.cause[mine]

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
            frame.fg[row, some] = colours.idle[_CLASS[cause]]
        self._letter(frame, row, edges)

    def _touching(self, edges: Int64) -> tuple[Int64, Int64]:
        """First and last gap (exclusive) that touch each cell."""
        return np.searchsorted(self._end, edges[:-1], side="right"), np.searchsorted(self._start, edges[1:])

    def _causes(self, first: Int64, last: Int64) -> Int64:
        """The cause of the longest of each range of gaps; the ranges are not empty."""
        padded = np.append(self._key, 0)
        bounds = np.stack([first, last], axis=1).ravel()
        longest: Int64 = np.maximum.reduceat(padded, bounds)[::2]
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
_CLASS = np.array([0 if cause < Cause.LAUNCH else 1 if cause < Cause.LATENCY else 2 for cause in Cause], np.int64)
"""Whether the CPU was late, the launch call took long, or the work waited."""
