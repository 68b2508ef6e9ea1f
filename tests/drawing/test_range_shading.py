"""A range of time behind the lanes, in every number of colours."""

from __future__ import annotations

import pytest

from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.grid import DOTS, END, range_cells, tint_range
from tracetui.drawing.timeline.palette import GROUND, codes, palette
from tracetui.drawing.timeline.window import Window

WINDOW = Window(0, 100.0)
"""A cell every 100 ns."""


def row_with_a_slice() -> Frame:
    """Twenty cells: a slice in 8 to 11, and the words `a b` from 3 on."""
    frame = Frame.blank(1, 20)
    frame.write(0, 3, codes("a b"))
    frame.bg[0, 8:12] = 33
    return frame


@pytest.mark.parametrize("dark", [True, False])
def test_a_tint_lies_behind_what_no_slice_fills(dark):
    frame, colours = row_with_a_slice(), palette(256, dark)
    tint_range(frame, 0, (250, 1_550), WINDOW, colours)
    assert colours.tint not in (GROUND, colours.veil)
    assert frame.bg[0].tolist() == [GROUND] * 2 + [colours.tint] * 6 + [33] * 4 + [colours.tint] * 4 + [GROUND] * 4
    assert [index for index, sign in enumerate(frame.chars[0]) if sign == END] == [1, 16]


@pytest.mark.parametrize("colours", [16, 0])
def test_with_few_colours_dots_fill_it_but_not_between_words(colours):
    frame = row_with_a_slice()
    tint_range(frame, 0, (250, 1_550), WINDOW, palette(colours))
    dotted = [index for index, sign in enumerate(frame.chars[0]) if sign == DOTS]
    assert dotted == [2, 6, 7, 12, 13, 14, 15]
    assert (frame.bg[0, 12:] == GROUND).all()


@pytest.mark.parametrize(
    ("stretch", "cells"), [((200, 300), (2, 3)), ((200, 301), (2, 4)), ((250, 251), (2, 3)), ((-50, 50), (-1, 1))]
)
def test_the_cells_that_a_range_touches(stretch, cells):
    assert range_cells(stretch, WINDOW) == cells


@pytest.mark.parametrize("stretch", [(-500, -100), (2_000, 2_500), (5_000, 9_000)])
def test_a_range_outside_of_the_window_leaves_the_row_as_it_is(stretch):
    frame = Frame.blank(1, 20)
    tint_range(frame, 0, stretch, WINDOW, palette())
    assert (frame.bg[0] == GROUND).all()
    assert (frame.chars[0, :19] == SPACE).all()


def test_a_range_over_everything_has_no_ends_on_screen():
    frame = Frame.blank(1, 20)
    tint_range(frame, 0, (-1_000, 9_000), WINDOW, palette())
    assert (frame.bg[0] == palette().tint).all() and (frame.chars[0] == SPACE).all()
