"""Bars of several parts: cells, labels and textures; and the lines of a comparison at first sight."""

from __future__ import annotations

import pytest

from tracetui.comparing.noise import Change
from tracetui.comparing.statement import SPAN, Headline, Ratio, SideTimes, Spent
from tracetui.drawing.hues import HATCH, Hue
from tracetui.drawing.stacked_bars import BarPart, Piece, in_ascii, stacked, style_of, text_of
from tracetui.drawing.text.headline_text import headline_line, headline_lines, side_lines

PARTS = [
    BarPart(Hue.GEMM, "compute", "comp", 133e6),
    BarPart(Hue.COMMUNICATION, "sends", "send", 305e6),
    BarPart(Hue.IDLE, "idle", "idle", 168e6),
]


@pytest.mark.parametrize("cells", [1, 7, 40, 113])
@pytest.mark.parametrize("textured", [False, True])
def test_a_bar_has_the_cells_that_it_is_given(cells: int, textured: bool) -> None:
    assert len(text_of(stacked(PARTS, cells, 606e6, textured))) == cells


def test_idle_time_is_told_without_any_hue() -> None:
    textures = [piece.text[0] for piece in stacked(PARTS, 60, 606e6, textured=True)]
    assert len(set(textures)) == 3
    (*_, idle) = stacked(PARTS, 60, 606e6)
    assert idle.text.startswith(HATCH) and "idle 28 %" in idle.text


def test_parts_are_told_apart_in_ascii() -> None:
    waits = BarPart(Hue.OPTIMIZER, "waits", "wait", 100e6, "░")
    line = in_ascii(stacked([*PARTS, waits], 70, 706e6, textured=True))
    assert text_of(line).isascii() and len({piece.text[0] for piece in line}) == 4


@pytest.mark.parametrize("dark", [False, True])
def test_a_fill_without_colours_is_no_style_but_its_texture(dark: bool) -> None:
    for piece in stacked(PARTS, 60, 606e6, textured=True):
        assert style_of(piece, 0, dark).color is None
    assert style_of(Piece("x"), 256, dark).bgcolor is None


def of_four() -> Headline:
    names = ("unfused", "fused", "unfused, compiled", "fused, compiled")
    times, busy = (1613.0, 191.0, 634.0, 157.0), (188.0, 66.0, 95.0, 26.0)
    sides = tuple(
        SideTimes(name, time, ((Spent.COMPUTE, own), (Spent.IDLE, time - own)), own, 5)
        for name, time, own in zip(names, times, busy, strict=True)
    )
    ratios = tuple(Ratio(words, Change.LESS) for words in ("8.45x faster", "2.54x faster", "10.27x faster"))
    return Headline(SPAN, True, "", sides, ratios, "", ("fused → fused, compiled 1.22x faster",) * 3)


@pytest.mark.parametrize("width", [60, 78, 118, 198])
def test_lines_fit_and_the_longest_bar_is_that_of_the_slowest(width: int) -> None:
    lines = headline_lines(of_four(), width, textured=True, labelled=False)
    assert all(len(text_of(line)) <= width for line in lines)
    bars = [sum(len(piece.text) for piece in line if piece.hue in (Hue.GEMM, Hue.IDLE)) for line in lines[1:5]]
    assert bars == sorted(bars, reverse=True)[:1] + bars[1:] and bars[0] > 2 * bars[2] > 2 * bars[3] > 0


def test_the_facts_that_matter_least_give_way_first() -> None:
    four = of_four()
    two = Headline(SPAN, True, "", four.sides[:2], four.ratios[:1], "noise unknown")
    wide, narrow = (text_of(headline_line(two, width)) for width in (120, 80))
    assert wide.startswith("unfused → fused") and "8.45x faster" in wide
    assert wide.endswith("GPU span 1,613 → 191 µs · kernels 5 · busy 188 → 66.0 µs · noise unknown")
    assert "noise unknown" in narrow and "busy" not in narrow and len(narrow) <= 80


def test_text_of_others_is_harmless() -> None:
    sides = tuple(SideTimes("\x1b[31m[b]x", 1.0, ((Spent.CPU, 1.0),), 1.0, 1) for _ in range(2))
    lines = side_lines(Headline(SPAN, True, "", sides, (Ratio("", Change.UNKNOWN),), ""), 80)
    assert "\x1b" not in "".join(map(text_of, lines)) and "[b]x" in text_of(lines[0])


@pytest.mark.parametrize(("us", "unit"), [(1887.0, "µs"), (70_200.0, "ms")])
def test_all_times_of_a_line_are_in_one_unit(us: float, unit: str) -> None:
    sides = tuple(SideTimes(name, us, ((Spent.CPU, us),), us - 3, 1) for name in "ab")
    for line in side_lines(Headline(SPAN, True, "", sides, (Ratio("=", Change.SAME),), ""), 160):
        text = text_of(line)
        assert text.count(f" {unit}") == 3
        assert not any(f" {other}" in text for other in {"µs", "ms"} - {unit})
