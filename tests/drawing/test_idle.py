"""The row of a device's idle time: where there are dashes, what they say, and what lies behind them."""

from __future__ import annotations

import numpy as np

from tests.support.build import kernel, launch, make_trace, op
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.grid import TimelineGrid, View
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import GROUND, palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.idle.gaps import idle_blocks


def trace():
    """Kernels at 0-10, 50-60 and 62-70 µs; the CPU dispatches an op before the second."""
    return make_trace(
        [
            op("aten::mm", 9_000, 40_000),
            launch(0, 500, 1),
            launch(48_000, 500, 2),
            launch(49_000, 500, 3),
            kernel("a", 0, 10_000, correlation=1),
            kernel("b", 50_000, 10_000, correlation=2),
            kernel("c", 62_000, 8_000, correlation=3),
        ]
    )


def drawn(colours):
    """The idle row over 80 cells of 1 µs, and its colours."""
    timeline_index = TimelineIndex(made := trace())
    timeline_index.show_idle(idle_blocks(made))
    frame = timeline_index.frame([timeline_index.idle_track(0)], Window(0, 1000.0), 80, colours=colours)
    return timeline_index, frame


def test_what_is_idle_is_hatched_and_says_why_and_all_of_it_is_neutral():
    _, frame = drawn(palette())
    text = frame.text(0)
    assert text[:10] == " " * 10
    assert set(text[10:50].replace(" operators 40.0 µs ", "")) == {"╱"}
    assert text[60:62] == "╱╱"
    assert text[62:].strip() == ""
    assert set(frame.fg[0, 10:50].tolist()) == {palette().idle} == {int(frame.fg[0, 60])}
    assert set(frame.bg[0, 10:50].tolist()) == {palette().hatch}


def test_without_colours_the_words_are_left():
    _, frame = drawn(palette(0))
    assert " operators 40.0 µs " in frame.text(0)
    assert (frame.fg == GROUND).all()


def test_a_cell_that_is_idle_for_less_than_half_has_a_dot():
    timeline_index, _ = drawn(palette())
    frame = timeline_index.frame([timeline_index.idle_track(0)], Window(0, 40_000.0), 2)
    assert frame.text(0) == "╱·"
    assert frame.bg[0].tolist() == [palette().hatch, GROUND]


def test_a_cause_needs_eight_cells_and_gaps_next_to_each_other_are_named_together():
    timeline_index, _ = drawn(palette())
    frame = timeline_index.frame([timeline_index.idle_track(0)], Window(0, 6_000.0), 12)
    assert set(frame.text(0)) <= {"╱", "·", " "}
    events = [kernel("a", number * 1000, 100, correlation=number) for number in range(100)]
    events += [launch(number * 1000 - 50, 10, number) for number in range(1, 100)]
    many = TimelineIndex(made := make_trace([op("aten::mm", 0, 100_000), *events]))
    many.show_idle(idle_blocks(made))
    text = many.frame([many.idle_track(0)], Window(0, 1_000.0), 100).text(0)
    assert " ×96 86.4 µs " in text


def test_a_click_on_idle_time_finds_the_work_that_ended_it():
    timeline_index, _ = drawn(palette())
    track = timeline_index.idle_track(0)
    assert timeline_index.trace.name_of(timeline_index.slice_at(track, 20_000, 21_000)) == "b"
    assert timeline_index.trace.name_of(timeline_index.slice_at(track, 60_500, 61_000)) == "c"
    assert timeline_index.slice_at(track, 0, 5_000) == -1
    assert timeline_index.slice_at(track, 75_000, 76_000) == -1


def test_the_row_is_empty_until_the_causes_are_known_and_stands_above_the_first_stream():
    timeline_index = TimelineIndex(trace())
    layout = Layout(timeline_index)
    layout.resize(20)
    tracks = [line.track for line in layout.lines]
    idle = tracks.index(timeline_index.idle_track(0))
    assert tracks[idle + 1] == timeline_index.full[layout.lines[idle + 1].lane].start
    frame = TimelineGrid(timeline_index, layout).draw(View(Window(0, 1000.0)), 100, 20, palette())
    idle = [line.track for line in layout.lines].index(timeline_index.idle_track(0))
    assert "GPU 0 idle" in frame.text(idle + 1)
    assert frame.text(idle + 1)[20:].strip() == ""
    assert isinstance(frame, Frame)


def test_a_trace_without_a_gpu_has_no_such_row():
    timeline_index = TimelineIndex(make_trace([op("aten::mm", 0, 10)]))
    assert timeline_index.idles == []
    assert np.array_equal(timeline_index.frame([timeline_index.tracks - 1], Window(0, 1.0), 3).chars.shape, (1, 3))
