"""What lies beside the stretch of time that a timeline is about: still there, but pale, with a line at its end."""

from __future__ import annotations

import math

import numpy as np

from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.palette import DIM, GROUND, REVERSE, UNDERLINE, Palette
from tracetui.drawing.timeline.window import Window

END = ord("╎")
"""Stands in the empty cells of the first column behind the end."""

Stretch = tuple[int, int]
"""Begin and end in ns."""


def veil(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Make the cells of a row that hold nothing of a stretch pale; what is marked keeps its look."""
    width = frame.shape[1]
    begin = min(max(math.floor(window.position(stretch[0])), 0), width)
    # A cell of which only the edge is touched belongs to what comes behind.
    end = min(max(math.ceil(window.position(stretch[1]) - 1e-6), begin), width)
    outside = np.ones(width, bool)
    outside[begin:end] = False
    outside &= (frame.attributes[row] & UNDERLINE) == 0
    # Without colours a whole cell is a letter in reverse, and so is the part of one that a slice leaves empty.
    reversed_letter = ((frame.attributes[row] & REVERSE) > 0) & (frame.chars[row] < 128)
    filled = outside & ((frame.bg[row] != GROUND) | reversed_letter)
    plain = outside & ~filled & (frame.chars[row] != SPACE)
    frame.bg[row, filled] = colours.veil
    frame.fg[row, filled] = GROUND if colours.mono else colours.quiet
    frame.fg[row, plain] = GROUND if colours.mono else colours.veil if colours.veil != GROUND else colours.quiet
    if colours.veil == GROUND:
        # Without shades to choose from, what is pale is what no longer fills its cells.
        frame.attributes[row, filled] = DIM
        frame.attributes[row, plain] |= DIM
    on_screen = window.position(stretch[1]) >= 0 and end < width
    if on_screen and frame.chars[row, end] == SPACE and frame.bg[row, end] == GROUND:
        frame.chars[row, end] = END
        frame.fg[row, end] = GROUND if colours.mono else colours.quiet
