"""A range of time on the timeline: a tint behind all lanes, and a line at both ends."""

from __future__ import annotations

import math

import numpy as np

from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.outside_shading import END, Stretch
from tracetui.drawing.timeline.palette import GROUND, UNDERLINE, Palette
from tracetui.drawing.timeline.window import Window
from tracetui.model.intervals import Bool

DOTS = ord(":")
"""Fills empty cells of the range where there are too few colours for a tint."""
BEGIN_SIGN, END_SIGN = "[", "]"
"""Stand on the axis at the first and the last cell of the range."""


def range_cells(stretch: Stretch, window: Window) -> tuple[int, int]:
    """The first cell that a range touches, and the one behind its last; not limited to those on screen."""
    begin = math.floor(window.position(stretch[0]))
    return begin, max(math.ceil(window.position(stretch[1]) - 1e-6), begin + 1)


def tint_range(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Tint the cells of a row that a range touches and no slice fills, and draw its ends."""
    width = frame.shape[1]
    begin, end = range_cells(stretch, window)
    inside = slice(min(max(begin, 0), width), min(max(end, 0), width))
    free = (frame.bg[row] == GROUND) & ((frame.attributes[row] & UNDERLINE) == 0)
    empty = free & (frame.chars[row] == SPACE) & (frame.attributes[row] == 0)
    if colours.tint != GROUND and not colours.mono:
        frame.bg[row, inside][free[inside]] = colours.tint
    else:
        dotted = empty & ~_between_words(frame, row)
        frame.chars[row, inside][dotted[inside]] = DOTS
        frame.fg[row, inside][dotted[inside]] = GROUND if colours.mono else colours.quiet
    for edge in (begin - 1, end):
        if 0 <= edge < width and empty[edge]:
            frame.chars[row, edge] = END
            frame.fg[row, edge] = GROUND if colours.mono else colours.quiet


def _between_words(frame: Frame, row: int) -> Bool:
    """Mask of the cells of a row with something on both sides, as the spaces of a label have."""
    filled = np.pad(frame.chars[row] != SPACE, 1)
    return np.asarray(filled[:-2] & filled[2:], np.bool_)
