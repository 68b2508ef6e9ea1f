"""How two timelines look: what is lit in every terminal, what lies beside the part, and lines that are cut."""

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tracetui.comparing.side import side
from tracetui.drawing.format import cell
from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import BOLD, DIM, GROUND, REVERSE, UNDERLINE, palette, stippled
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.quantities import duration, percent
from tracetui.model.table import numbers
from tracetui.model.trace import Kind, Trace
from tracetui.ui.base.overlay import cut_line, fitting_line
from tracetui.ui.compare.shown_part import ShownPart, neighbour

WIDTH = 120


def two_steps() -> Trace:
    """Two steps after each other, each of an operator that launches a kernel."""
    events = []
    for number in range(2):
        at = number * 100_000
        events += [step(number + 1, at, 90_000), op("aten::linear", at + 10_000, 60_000)]
        events += [launch(at + 20_000, 5_000, number + 1)]
        events += [kernel("gemm", at + 40_000, 30_000, correlation=number + 1)]
    return make_trace(events)


def line_of(grid: TimelineGrid, row: int) -> int:
    return grid.layout.line_of(row) + grid.axis_lines


@pytest.mark.parametrize("dark", [True, False])
@pytest.mark.parametrize("colours", [256, 16, 0])
def test_lit_slices_carry_a_pattern_in_every_terminal(colours: int, dark: bool) -> None:
    trace = two_steps()
    rows = trace.slices.of_kind(Kind.KERNEL).tolist()
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    window = Window.fit(0, 200_000, WIDTH - label_width(WIDTH))
    view = View(window, selected=rows[0], highlighted=frozenset(rows))
    frame = grid.draw(view, WIDTH, 12, stippled(colours, dark))
    text = frame.text(line_of(grid, rows[0]))
    assert "▒" in text and "░" in text and text.index("▒") < text.index("░")
    plain = grid.draw(View(window), WIDTH, 12, stippled(colours, dark))
    assert not set("▒░") & set(plain.text(line_of(grid, rows[0])))


def test_short_lit_slices_have_whole_cells() -> None:
    trace = make_trace([kernel("gemm", 100_300, 400), kernel("relu", 100_700, 600), kernel("late", 190_000, 10_000)])
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    window = Window(100, 1_000.0)
    row = int(np.flatnonzero(trace.slices.name == trace.names.find("gemm"))[0])
    view = View(window, highlighted=frozenset([row]))
    x = label_width(WIDTH)
    assert chr(int(grid.draw(view, WIDTH, 12, stippled(256)).chars[line_of(grid, row), x])) == "░"
    assert chr(int(grid.draw(view, WIDTH, 12, palette()).chars[line_of(grid, row), x])) != "░"


def test_the_pattern_frames_the_name_of_a_lit_slice() -> None:
    trace = two_steps()
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    found = np.flatnonzero(trace.slices.name == trace.names.find("aten::linear")).tolist()
    window = Window.fit(0, 100_000, WIDTH - label_width(WIDTH))
    frame = grid.draw(View(window, highlighted=frozenset(found[:1])), WIDTH, 12, stippled(256))
    assert "░aten::linear░" in frame.text(line_of(grid, found[0]))


@pytest.mark.parametrize("colours", [256, 16, 0])
def test_what_lies_beside_the_part_is_pale(colours: int) -> None:
    trace = two_steps()
    part = ShownPart(side(trace), 0)
    assert part.stretches == ((0, 90_000), (40_000, 70_000))
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    left = label_width(WIDTH)
    window = Window.fit(0, 200_000, WIDTH - left)
    theme = palette(colours)
    plain = grid.draw(View(window), WIDTH, 12, theme)
    frame = grid.draw(View(window, inside=part.stretches), WIDTH, 12, theme)
    first, second = trace.slices.of_kind(Kind.KERNEL).tolist()
    y = line_of(grid, first)
    here, there = (left + window.cell_of(float(trace.slices.start[row]) + 15_000) for row in (first, second))
    assert frame.bg[y, here] == plain.bg[y, here] and frame.attributes[y, here] == plain.attributes[y, here]
    if colours == 256:
        assert plain.bg[y, there] != GROUND and frame.bg[y, there] == theme.veil != plain.bg[y, there]
    else:
        assert frame.attributes[y, there] & DIM and not frame.attributes[y, there] & REVERSE
        assert frame.bg[y, there] == GROUND
    end = left + window.cell_of(70_000) + 1
    assert chr(int(frame.chars[y, end])) == "╎" and chr(int(plain.chars[y, end])) == " "


def test_an_end_before_the_window_has_no_mark() -> None:
    trace = two_steps()
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    window = Window.fit(75_000, 85_000, WIDTH - label_width(WIDTH))
    frame = grid.draw(View(window, inside=ShownPart(side(trace), 0).stretches), WIDTH, 12, palette())
    assert all("╎" not in frame.text(y) for y in range(12))


def test_marked_slices_beside_the_part_keep_their_look() -> None:
    trace = two_steps()
    part = ShownPart(side(trace), 0)
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    window = Window.fit(0, 200_000, WIDTH - label_width(WIDTH))
    second = trace.slices.of_kind(Kind.KERNEL).tolist()[1]
    view = View(window, selected=second, inside=part.stretches)
    frame = grid.draw(view, WIDTH, 12, stippled(256))
    x = label_width(WIDTH) + window.cell_of(float(trace.slices.start[second]) + 15_000)
    y = line_of(grid, second)
    assert frame.attributes[y, x] & (BOLD | UNDERLINE) and frame.bg[y, x] == stippled(256).selected


def test_the_arrow_to_what_lies_before_the_window_eats_no_letter() -> None:
    trace = make_trace([op("aten::mm", 0, 1_000), op("aten::gelu", 50_000, 50_000)])
    timeline_index = TimelineIndex(trace)
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    window = Window.fit(60_000, 90_000, WIDTH - label_width(WIDTH))
    frame = grid.draw(View(window, highlighted=frozenset([0])), WIDTH, 12, palette())
    text = frame.text(line_of(grid, 0))
    assert text[label_width(WIDTH) - 1 :].startswith("◀aten::gelu")


def test_neighbours_of_parts() -> None:
    trace = two_steps()
    both, first = side(trace), side(trace, "1")
    assert [part.number for part in (neighbour(ShownPart(both, 0), 1), neighbour(ShownPart(first, 0), 1)) if part] == [
        2,
        2,
    ]
    assert neighbour(ShownPart(both, 1), 1) is None and neighbour(ShownPart(first, 0), -1) is None
    assert neighbour(ShownPart(side(trace, "all"), 0), 1) is None


def test_what_a_part_holds() -> None:
    trace = two_steps()
    part = ShownPart(side(trace, "2"), 0)
    held = [row for row in range(len(trace.slices)) if part.holds(row)]
    assert held == [row for row in range(len(trace.slices)) if trace.slices.start[row] >= 100_000]


@pytest.mark.parametrize("width", range(1, 60))
def test_a_cut_line_holds_no_part_of_a_number(width: int) -> None:
    text = "unfused 3.67 ms · 4,458 on the GPU · busy 188.0 µs, -12.5 %"
    cut = cut_line(text, width)
    assert len(cut) <= width
    if cut != text:
        kept = cut.removesuffix("…")
        assert cut.endswith("…") and text.startswith(kept)
        behind = text[len(kept) : len(kept) + 1]
        assert not (kept and (kept[-1].isdigit() or kept[-1] in ".,-") and (behind.isdigit() or behind in ".,"))
        assert not kept.endswith(("3.67", "188.0", "-12.5"))


def test_a_cut_line_ends_with_a_whole_word() -> None:
    text = "launch latency 1.75 ms (5 %) · Python 506 µs (1 %) · operators"
    assert cut_line(text, 58) == "launch latency 1.75 ms (5 %) · Python 506 µs (1 %)…"


def test_of_a_path_the_folders_give_way() -> None:
    text = "Picture of the screen written to ~/.local/share/tracetui/exports/fusion_mwe_trace-2.svg"
    assert fitting_line(text, 200) == text
    cut = fitting_line(text, 78)
    assert len(cut) <= 78 and cut.endswith("…/fusion_mwe_trace-2.svg") and cut.startswith("Picture of the screen")
    assert fitting_line("no path in this line", 12) == "no path in…"


def test_nothing_is_less_than_zero_and_large_shares_have_no_decimals() -> None:
    assert duration(-0.0) == "0 ns" and duration(-0.1) == "0 ns" and duration(-100) == "-100 ns"
    assert percent(-0.01) == "0.0 %" and percent(-12.34) == "-12.3 %"
    assert percent(1066564.9) == "1,066,565 %"
    column = numbers("change_pct", np.array([-0.04, 1066564.9]), "%", "")
    assert [cell(column, column.cell(row)) for row in range(2)] == ["0.0", "1,066,565"]
