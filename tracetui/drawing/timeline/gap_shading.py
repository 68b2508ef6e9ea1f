"""A selected gap on the timeline: the time in which a device ran nothing, shaded on its lanes and on the threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.outside_shading import Stretch
from tracetui.drawing.timeline.palette import GROUND, UNDERLINE, Palette
from tracetui.drawing.timeline.window import Window

DOT = ord("·")
"""Fills empty cells of the gap where there are too few colours for a shade."""


@dataclass(frozen=True)
class ShadedGap:
    """Where a gap is shaded."""

    on_device: Stretch
    on_threads: Stretch
    """The same time on the clock of the CPU."""
    lanes: frozenset[int]
    """The lanes of the device, and of the threads that the gap depends on."""
    idle_band: int
    """Number of the device's band of idle time, -1 for none."""
    launch_ns: int | None
    """When the activity after it was launched; None where that is not known."""


def shade(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Shade the cells of a row that a stretch of time touches, where no slice fills them."""
    width = frame.shape[1]
    begin = min(max(math.floor(window.position(stretch[0])), 0), width)
    end = min(max(math.ceil(window.position(stretch[1]) - 1e-6), begin), width)
    cells = np.arange(begin, end)
    free = cells[(frame.bg[row, begin:end] == GROUND) & ((frame.attributes[row, begin:end] & UNDERLINE) == 0)]
    if colours.veil != GROUND and not colours.mono:
        frame.bg[row, free] = colours.veil
        return
    empty = free[(frame.chars[row, free] == SPACE) & (frame.attributes[row, free] == 0)]
    frame.chars[row, empty] = DOT
    frame.fg[row, empty] = GROUND if colours.mono else colours.quiet
