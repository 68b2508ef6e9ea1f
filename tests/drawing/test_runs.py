"""What the lanes say where slices are too narrow for names: runs, phases, and the lines that this takes or saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace, op, step
from tracetui.drawing.hues import is_plain
from tracetui.drawing.timeline.grid import TimelineGrid, View
from tracetui.drawing.timeline.layout import Layout, Shows
from tracetui.drawing.timeline.palette import FIRST_PHASE, GROUND, palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window, runs_in
from tracetui.model.trace import Kind, LaneKind, Trace

WIDTH, HEIGHT = 136, 12
"""120 cells beside the names of lanes."""


def drawn(trace: Trace, window: Window, height: int = HEIGHT, colours: int = 256) -> tuple[Layout, list[str]]:
    """The layout, and the lines below the axis."""
    grid = TimelineGrid(timeline_index := TimelineIndex(trace), Layout(timeline_index))
    frame = grid.draw(View(window), WIDTH, height, palette(colours))
    return grid.layout, [frame.text(line + 1) for line in range(len(grid.layout.lines))]


def training() -> Trace:
    """Many operators and kernels: forward for 64 µs, backward for 36, each an operator a µs that lasts half of it."""
    events = [op("aten::addmm", at * 1000, 500) for at in range(64)]
    node = "autograd::engine::evaluate_function: AddmmBackward"
    events += [op(node, at * 1000, 500) for at in range(64, 100)]
    events += [kernel("gemm", at * 1000, 250) for at in range(70)]
    events += [kernel("ncclDevKernel_AllReduce", at * 1000, 800) for at in range(80, 110)]
    return make_trace(events)


def test_a_run_covers_its_slices_and_belongs_to_what_has_most_of_eight_cells():
    start = np.arange(0, 320, 4)
    sort = np.where(start % 16 == 0, 7, 3)
    (run,) = runs_in(start, start + 2, sort, Window(0, 10.0), 32)
    assert (run.begin, run.end, run.sort, run.count, run.busy_ns) == (0, 32, 3, 60, 120)
    assert run.words("mm") == ("mm ×60 0.12 µs", "mm ×60", "mm")


def test_nothing_is_said_of_an_empty_stretch_between_two_runs():
    start = np.concatenate([np.arange(0, 80, 4), np.arange(400, 480, 4)])
    found = runs_in(start, start + 2, np.zeros(len(start), np.int64), Window(0, 10.0), 80)
    assert [(run.begin, run.end, run.count) for run in found] == [(0, 8, 20), (40, 48, 20)]


def test_wide_slices_have_names_of_their_own_and_are_in_no_run():
    start = np.array([0, 100, 200])
    assert runs_in(start, start + 90, np.zeros(3, np.int64), Window(0, 10.0), 40) == []


def test_a_pan_changes_no_run_but_those_at_the_edges():
    start = np.arange(0, 4000, 4)
    sort = start // 800
    window = Window(0, 10.0)
    runs = runs_in(start, start + 2, sort, window, 300)
    panned = runs_in(start, start + 2, sort, window.pan(37), 300)
    assert [(run.begin - 37, run.sort, run.busy_ns) for run in runs[1:3]] == [
        (run.begin, run.sort, run.busy_ns) for run in panned[1:3]
    ]


def test_threads_say_their_phases_and_operators_and_streams_their_families():
    layout, lines = drawn(training(), Window(0, 1000.0))
    text = "\n".join(lines)
    assert [line.shows for line in layout.lines[:2]] == [Shows.PHASES, Shows.RUNS]
    assert "forward 32.0 µs" in lines[0] and "backward 18.0 µs" in lines[0]
    assert "addmm ×64 32.0 µs" in lines[1] and "AddmmBackward ×36" in lines[1]
    assert "╰GEMM ×70 17.5 µs" in text and "╰communication ×30 24.0 µs" in text


def test_operators_have_the_colour_of_their_phase():
    timeline_index = TimelineIndex(training())
    frame = timeline_index.frame([0], Window(0, 100.0), 1000)
    shades = palette().shades
    assert frame.bg[0, 2] in shades[FIRST_PHASE] and frame.bg[0, 702] in shades[FIRST_PHASE + 1]


def test_without_lines_to_spare_streams_have_bars_alone():
    layout, lines = drawn(training(), Window(0, 1000.0), height=5)
    assert all(line.shows != Shows.WORDS and line.part == (0, 1) for line in layout.lines)
    assert not any("╰" in line for line in lines)


def test_a_stream_has_no_line_for_words_without_room_and_none_above_its_bars():
    """A short stream, whose few kernels stand at the edge, and one whose bars are low."""
    short = [kernel("ncclDevKernel_AllReduce", 112_000 + at * 1000, 800, "stream 20") for at in range(3)]
    low = [kernel("gemm", at * 250, 50) for at in range(400)]
    layout, lines = drawn(make_trace([*low, *short]), Window(0, 1000.0), height=16)
    shown = [(line.lane, line.shows, line.part) for line in layout.lines if line.track >= 0 or line.lane >= 0]
    assert [(lane, shows) for lane, shows, _ in shown].count((1, Shows.WORDS)) == 0
    assert {part for _, _, part in shown} == {(0, 1)}
    assert sum("╰GEMM ×400" in line for line in lines) == 1


def test_rows_that_cannot_be_read_are_one_and_come_back_with_the_scale():
    events = [
        op(f"aten::level{depth}", at + depth, 900 - 2 * depth) for at in range(0, 90_000, 1000) for depth in range(6)
    ]
    trace = make_trace([*events, kernel("k", 0, 90_000)])
    layout, _ = drawn(trace, Window(0, 1000.0), height=8)
    assert [line.shows for line in layout.lines if line.lane == 0][:2] == [Shows.PHASES, Shows.RUNS]
    layout, _ = drawn(trace, Window(0, 10.0))
    assert [line.track for line in layout.lines if line.lane == 0] == list(range(6))


def test_a_lane_without_anything_in_the_window_takes_no_line():
    other = [op("aten::mm", 500_000 + 1000 * at, 900, lane=("1", "2")) for at in range(20)]
    trace = make_trace([op("aten::addmm", 0, 100_000), *other])
    layout, _ = drawn(trace, Window(0, 1000.0))
    assert {line.lane for line in layout.lines} == {0}
    assert layout.hold([1])
    layout.see(Window(0, 999.0), 120)
    assert {line.lane for line in layout.lines} == {0, 1}


def test_quiet_lanes_are_one_line_until_it_is_unfolded():
    trace = make_trace(
        [
            step(1, 0, 100_000),
            *[op("aten::mm", 1000 * at, 900) for at in range(90)],
            op("overhead", 0, 100, lane=("1", "7")),
            kernel("k", 0, 90_000),
            Event("ProfilerStep#1", 0, 90_000, Kind.GPU_ANNOTATION, ("0", "annotations")),
        ]
    )
    kinds = {"7": LaneKind.OVERHEAD, "annotations": LaneKind.GPU_ANNOTATION}
    lanes = tuple(replace(lane, kind=kinds.get(lane.tid, lane.kind)) for lane in trace.lanes)
    trace = replace(trace, lanes=lanes, cache={})
    layout, lines = drawn(trace, Window(0, 1000.0))
    quiet = [number for number, line in enumerate(layout.lines) if line.shows == Shows.QUIET]
    assert len(quiet) == 1 and lines[quiet[0]].startswith("▸2 quiet lanes: ")
    assert not {line.lane for line in layout.lines} & set(layout.quiet)
    layout.toggle_quiet()
    assert set(layout.quiet) <= {line.lane for line in layout.lines}


@pytest.mark.parametrize("colours", [16, 0])
def test_idle_and_busy_differ_in_letters_where_colours_are_few(colours):
    _, lines = drawn(training(), Window(0, 1000.0), colours=colours)
    assert not any(letter in line for line in lines for letter in "╱·")


def test_ascii_stands_for_every_letter_of_the_lanes():
    timeline_index = TimelineIndex(training())
    grid = TimelineGrid(timeline_index, Layout(timeline_index))
    frame = grid.draw(View(Window(0, 1000.0)), WIDTH, HEIGHT, palette(16, is_plain=True)).in_ascii()
    assert int(frame.chars.max()) < 127 and ord("?") not in frame.chars
    assert "`GEMM x70 17.5 us" in "\n".join(frame.text(line) for line in range(HEIGHT))
    assert (frame.bg != GROUND).any()


@pytest.mark.parametrize(
    ("environment", "plain"),
    [
        ({}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "en_US.ISO-8859-1"}, True),
    ],
)
def test_a_locale_without_utf_8_is_plain(environment, plain):
    assert is_plain(environment) is plain
