"""Bars of cells: all of them are used, none is lost, and colours keep apart what must not be confused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.drawing.hues import Hue, bar, label_in, sparkline, three_digits, whole_cells
from tracetui.drawing.timeline.palette import rgb

GROUNDS = {True: (16, 20, 24), False: (255, 255, 255)}


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=12), st.integers(0, 200))
def test_parts_of_a_bar_take_all_its_cells(parts, width):
    cells = whole_cells(parts, width)
    assert sum(cells) == (width if sum(parts) > 0 else 0)
    for part, count in zip(parts, cells, strict=True):
        assert abs(count - part / (sum(parts) or 1) * width) < 1 or sum(parts) == 0


@given(st.floats(0, 1), st.integers(1, 100), st.booleans())
def test_a_bar_fits_and_what_is_there_is_seen(share, width, plain):
    text = bar(share, width, plain)
    assert len(text) <= width
    assert bool(text) == (share > 0)


def test_bars_have_eighths():
    assert [bar(share, 2) for share in (0, 0.001, 0.5, 0.75, 1, 7)] == ["", "▏", "█", "█▌", "██", "██"]


def test_equal_steps_are_level_and_a_longer_one_stands_out():
    assert sparkline([5.0, 5.0, 10.0, None, 0.0]) == "▄▄█ ▁"
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (346e6, "346 ms"),
        (14.7e6, "14.7 ms"),
        (8000, "8.00 µs"),
        (999.6e3, "1.00 ms"),
        (0, "0.00 µs"),
        (2e12, "2,000 s"),
    ],
)
def test_times_of_three_digits(ns, text):
    assert three_digits(ns) == text


def test_the_longest_label_that_fits():
    labels = [label_in(width, "GEMM", "mm", 82.9e6, 346e6) for width in (19, 18, 11, 10, 6, 5, 4)]
    assert labels == ["GEMM 82.9 ms 24 %", "GEMM 24 %", "GEMM 24 %", "mm 24 %", "GEMM", "mm", "mm"]


def _contrast(one, other):
    def light(colour):
        parts = [part / 255 for part in colour]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("hue", list(Hue))
def test_words_in_a_hue_are_read_on_the_ground(hue, dark):
    assert _contrast(rgb(hue.colour(256, dark)), GROUNDS[dark]) >= 4.4


@pytest.mark.parametrize("dark", [True, False])
def test_idle_compute_and_communication_are_three_colours(dark):
    colours = [rgb(hue.colour(256, dark)) for hue in (Hue.GEMM, Hue.COMMUNICATION, Hue.IDLE)]
    for index, one in enumerate(colours):
        for other in colours[index + 1 :]:
            assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) >= 120
