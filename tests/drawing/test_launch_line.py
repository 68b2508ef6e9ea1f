"""The window that frames operator, launch and kernel, and the line that is drawn between the last two."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width
from tracetui.drawing.timeline.launch_line import RULE, LaunchLine, following, framed, framed_next
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import GROUND, palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Trace

CELLS, WIDTH, HEIGHT = 120, 140, 16


def launched(*kernels: tuple[int, int], before: int = 20_000) -> Trace:
    """An operator, a launch some time into it and a kernel, for each start and length (ns) of a kernel after the start.

    Another thread stands between the launches and the kernels.
    """
    events: list[Event] = []
    for number, (start, length) in enumerate(kernels):
        at = number * 1_000_000
        events += [op("aten::mm", at, before + 30_000), launch(at + before, 5_000, number + 1)]
        events.append(op("aten::add", at, 1_000, lane=("1", "2")))
        events.append(kernel(f"k{number}", at + start, length, correlation=number + 1))
    return make_trace(events)


def row_of(trace: Trace, name: str) -> int:
    return next(row for row in range(len(trace.slices)) if trace.name_of(row) == name)


def shares(window: Window, *moments: int) -> list[float]:
    return [window.position(moment) / CELLS for moment in moments]


def test_a_frame_is_from_the_operator_to_the_end_of_the_kernel_with_a_twelfth_at_each_side():
    trace = launched((60_000, 10_000))
    assert shares(framed(trace, row_of(trace, "k0"), CELLS), 0, 70_000) == pytest.approx([1 / 12, 11 / 12], abs=0.01)


@pytest.mark.parametrize(
    ("before", "start", "begin"), [(9_000_000, 9_040_000, 9_000_000), (20_000, 30_000_000, 30_000_000)]
)
def test_what_would_leave_the_kernel_too_narrow_is_not_framed(before, start, begin):
    trace = launched((start, 10_000), before=before)
    window = framed(trace, row_of(trace, "k0"), CELLS)
    assert window.start_ns < begin < start + 10_000 < window.end_ns(CELLS)
    assert 10_000 / window.ns_per_cell >= 3 and window.start_ns > begin - 20_000


def test_the_scale_stays_while_the_kernel_has_a_cell_and_its_launch_stays_in_sight():
    trace = launched((60_000, 10_000), (40_000, 1_000), (40_000, 300))
    first, second, third = (row_of(trace, f"k{number}") for number in range(3))
    window = following(trace, first, Window.fit(0, 3_000_000, CELLS), CELLS)
    moved = following(trace, second, window, CELLS)
    assert moved.ns_per_cell == window.ns_per_cell
    assert moved.start_ns <= 1_000_000 and moved.end_ns(CELLS) >= 1_041_000
    assert following(trace, second, moved, CELLS) == moved
    assert following(trace, third, moved, CELLS).ns_per_cell < moved.ns_per_cell
    back = following(trace, first, moved, CELLS)
    assert back.start_ns <= 0 and back.end_ns(CELLS) >= 70_000 and back.ns_per_cell == window.ns_per_cell


def test_for_a_launch_out_of_reach_only_a_scale_that_nobody_chose_is_given_up():
    trace = launched((60_000, 10_000), (300_000, 30_000))
    narrow = framed(trace, row_of(trace, "k0"), CELLS)
    second = row_of(trace, "k1")
    kept, chosen = (following(trace, second, narrow, CELLS, keeps_scale) for keeps_scale in (True, False))
    assert kept.ns_per_cell == narrow.ns_per_cell and kept.start_ns > 1_020_000
    assert chosen.start_ns <= 1_020_000 and chosen.end_ns(CELLS) >= 1_330_000


def test_fitting_again_shows_the_kernel_alone_and_then_all_three():
    trace = launched((60_000, 10_000))
    row = row_of(trace, "k0")
    three = framed_next(trace, row, Window.fit(0, 9_000_000, CELLS), CELLS)
    alone = framed_next(trace, row, three, CELLS)
    assert 10_000 / alone.ns_per_cell == pytest.approx(CELLS / 2, abs=2)
    assert framed_next(trace, row, alone, CELLS) == three


def drawn(trace: Trace, window: Window, colours: int = 256) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The lines of a grid with the line of the last kernel, their colours, and the mask of cells that it changed."""
    index = TimelineIndex(trace)
    grid, selected = TimelineGrid(index, Layout(index)), row_of(trace, "k0")
    view = View(window, selected, frozenset([row_of(trace, "cudaLaunchKernel")]))
    frame = grid.draw(view, WIDTH, HEIGHT, palette(colours))
    before = frame.copy()
    grid.draw_launch_line(frame, view, palette(colours))
    left = label_width(WIDTH)
    # Slices are on a background of their own, or letters and blocks on none: all that is covered is blank here.
    changed = frame.differing(before)
    assert (before.bg[changed] == GROUND).all() and (before.chars[changed] == ord(" ")).all()
    return [frame.text(row)[left:] for row in range(HEIGHT)], frame.fg, changed


def test_the_line_runs_from_the_end_of_the_call_to_the_start_of_the_kernel():
    trace = launched((60_000, 10_000))
    window = Window.fit(0, 80_000, CELLS)
    texts, _, _ = drawn(trace, window)
    along = next(text for text in texts if "╰" in text)
    assert (along.index("╰"), along.index("╮")) == (window.cell_of(25_000), window.cell_of(60_000))
    assert "launch → start 40.0 µs" in along
    assert sum(text[window.cell_of(60_000)] == "▼" for text in texts[1:]) == 1


def test_a_line_whose_launch_is_out_of_sight_comes_from_the_edge():
    trace = launched((900_000, 10_000))
    texts, _, _ = drawn(trace, Window.fit(890_000, 920_000, CELLS))
    along = next(text for text in texts if "┄┄" in text)
    assert along.startswith("┄┄") and "launch → start 880.0 µs" in along


def test_the_line_needs_no_colour_where_there_is_none():
    trace = launched((60_000, 10_000))
    texts, colours, changed = drawn(trace, Window.fit(0, 80_000, CELLS), colours=0)
    assert any("╰" in text for text in texts) and (colours[changed] == GROUND).all()


def test_a_kernel_that_starts_within_its_call_has_a_line_straight_down():
    trace = launched((22_000, 10_000))
    texts, _, _ = drawn(trace, Window.fit(0, 50_000, CELLS))
    assert not any(sign in text for text in texts for sign in "╰╮┄") and any("┊" in text for text in texts)


@pytest.mark.parametrize("start", [22_000, 60_000])
def test_the_words_do_not_stand_on_the_rule_between_threads_and_devices(start):
    frame = Frame.blank(3, CELLS)
    frame.chars[1] = RULE
    line = LaunchLine(range(3), 0, 20_000, start, start - 15_000)
    line.draw(frame, Window.fit(0, 80_000, CELLS), (), palette(256))
    words = [row for row in range(3) if "launch → start" in frame.text(row)]
    assert words in ([0], [2]) and int((frame.chars[1] == RULE).sum()) == CELLS - 1
