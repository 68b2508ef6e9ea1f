"""Which rows stand on which lines: how many a compact lane shows, what is scrolled out, where the devices begin."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace, op, python, step
from tests.support.traces import loaded
from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width
from tracetui.drawing.timeline.layout import Fold, Layout, idle_lanes
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Counter, Kind, LaneKind, Trace


def stack(depth: int, thread: int = 1) -> list[Event]:
    """So many ops of a thread, each within the one before."""
    return [op(f"op{i}", i, 1_000 - 2 * i, lane=("1", str(thread))) for i in range(depth)]


def streams(count: int) -> list[Event]:
    """A kernel on each of so many streams of one device."""
    return [kernel("k", 5 + i, 10, f"stream {i}") for i in range(count)]


def laid_out(trace: Trace, height: int, *full: int) -> Layout:
    """The layout at a height, some of its lanes unfolded."""
    layout = Layout(TimelineIndex(trace))
    for lane in full:
        layout.folds[lane] = Fold.FULL
    layout.resize(height)
    return layout


def shape(layout: Layout) -> list[int]:
    """The lane of each line, -2 for the rule."""
    return [-2 if line.is_rule else line.lane for line in layout.lines]


@pytest.mark.parametrize(
    ("threads", "height", "rows"),
    [
        # Of one thread beside a stream and its idle time: all of the height but two lines, if that is a step.
        (1, 6, 4),
        (1, 7, 5),
        (1, 8, 6),
        (1, 9, 6),
        (1, 10, 8),
        (1, 11, 8),
        (1, 12, 10),
        (1, 14, 12),
        (1, 18, 16),
        (1, 26, 24),
        (1, 34, 32),
        (1, 100, 32),
        # Four threads do not fit: each shows some in any case.
        (4, 9, 4),
        (4, 10, 5),
        (4, 23, 5),
        (4, 24, 8),
        # They fit: 4 x 12 and two.
        (4, 50, 12),
        (4, 49, 10),
    ],
)
def test_a_compact_lane_shows_as_many_rows_as_fit_for_all(threads, height, rows):
    events = [event for thread in range(threads) for event in stack(60, thread + 1)]
    assert shape(laid_out(make_trace([*events, *streams(1)]), height)).count(0) == rows


def test_a_counter_takes_a_line_from_the_rows():
    """Of 12 lines 9 are left beside the counter, the stream and its idle time, of which the lane takes 8."""
    counter = Counter("python", "queue", "size", np.array([0]), np.array([1.0]))
    layout = laid_out(make_trace([*stack(60), *streams(1)], counters=(counter,)), 12)
    timeline_index = layout._timeline_index
    assert shape(layout) == [0] * 8 + [-1, -1, 1]
    assert [line.track for line in layout.lines[8:10]] == [
        timeline_index.counter_track(0),
        timeline_index.idle_track(0),
    ]


def test_a_lane_says_on_its_last_line_which_rows_it_shows():
    layout = laid_out(make_trace([*stack(60), *streams(1)]), 12)
    assert [line.note for line in layout.lines[:10]] == [""] * 9 + ["rows 1–10 of 60"]
    assert [line.number for line in layout.lines[:10]] == list(range(10))
    assert [line.head for line in layout.lines] == [True] + [False] * 10 + [True]


def test_what_just_fits_has_no_rule():
    assert shape(laid_out(make_trace([*stack(4), *streams(1)]), 6, 0)) == [0, 0, 0, 0, -1, 1]


def test_a_rule_stands_between_from_six_lines_on():
    trace = make_trace([*stack(7), *streams(1)])
    layout = laid_out(trace, 6, 0)
    assert shape(layout) == [0, 0, 0, -2, -1, 1]
    assert layout.lines[3].note == "4 rows below"
    assert shape(laid_out(trace, 5, 0)) == [0, 0, 0, -1, 1]


@pytest.mark.parametrize(
    ("ops", "count", "height", "expected", "note"),
    [
        # Ten streams and their idle time are 11 lines: half of the screen is theirs, or what threads leave.
        (3, 10, 8, [0, 0, 0, -2, -1, 1, 2, 3], "devices: 7 rows hidden"),
        (3, 10, 10, [0, 0, 0, -2, -1, 1, 2, 3, 4, 5], "devices: 5 rows hidden"),
        (7, 10, 8, [0, 0, 0, -2, -1, 1, 2, 3], "4 rows below; devices: 7 rows hidden"),
        (7, 4, 8, [0, 0, 0, -2, -1, 1, 2, 3], "4 rows below; devices: 1 row hidden"),
        (7, 3, 8, [0, 0, 0, -2, -1, 1, 2, 3], "4 rows below"),
    ],
)
def test_threads_and_devices_share_the_screen(ops, count, height, expected, note):
    layout = laid_out(make_trace([*stack(ops), *streams(count)]), height, 0)
    assert shape(layout) == expected
    assert next(line.note for line in layout.lines if line.is_rule) == note


@pytest.mark.parametrize(
    ("line", "rows", "first", "device", "note"),
    [
        (2, 1, 1, -1, "1 row above, 3 below"),
        (3, 2, 2, -1, "2 rows above, 2 below"),  # the rule belongs to the threads
        (0, 100, 4, -1, "4 rows above"),
        (0, -1, 0, -1, "4 rows below"),
        (4, 1, 0, 1, "4 rows below"),
        (7, 100, 0, 7, "4 rows below"),
    ],
)
def test_each_part_scrolls_by_itself_and_not_beyond_its_end(line, rows, first, device, note):
    layout = laid_out(make_trace([*stack(7), *streams(10)]), 8, 0)
    layout.scroll(line, rows)
    assert (layout.lines[0].track, layout.lines[4].lane) == (first, device)
    assert next(line.note for line in layout.lines if line.is_rule).startswith(note)
    assert layout.lines[0].head and layout.lines[4].head == (device >= 0)
    layout.scroll(line, -1_000)
    assert (layout.lines[0].track, layout.lines[4].lane) == (0, -1)


def test_what_fits_again_is_no_longer_scrolled():
    layout = laid_out(make_trace([*stack(7), *streams(1)]), 6, 0)
    layout.scroll(0, 3)
    layout.resize(9)
    assert layout.lines[0].track == 0
    layout.resize(6)
    assert layout.lines[0].track == 0


def test_so_many_lines_are_wanted_as_there_are():
    layout = laid_out(make_trace([*stack(4), *streams(1)]), 50)
    assert (layout.wanted(20), layout.height) == (6, 6)
    assert (layout.wanted(5), layout.height) == (5, 5)


def test_lines_know_their_lane_and_slices_their_line():
    layout = laid_out(make_trace([*stack(7), *streams(1)]), 6, 0)
    assert [layout.lane_at(line) for line in range(-1, 7)] == [-1, 0, 0, 0, -1, -1, 1, -1]
    assert [layout.line_of(row) for row in (-1, 0, 2, 3, 7)] == [-1, 0, 2, -1, 5]


def test_a_compact_lane_moves_no_further_than_it_must():
    """Ten rows are shown of 60."""
    layout = laid_out(make_trace([*stack(60), *streams(1)]), 12)
    for row, line, note in ((40, 9, "rows 32–41 of 60"), (20, 0, "rows 21–30 of 60"), (59, 9, "rows 51–60 of 60")):
        assert layout.reveal(row)
        assert (layout.line_of(row), layout.lines[9].note) == (line, note)
        assert not layout.reveal(row)
    assert layout.folds[0] == Fold.COMPACT


def test_a_part_moves_no_further_than_it_must():
    """18 lines are left to the 200 rows of the thread, and 4 to the 11 of the devices."""
    layout = laid_out(make_trace([*stack(200), *streams(1)]), 21, 0)
    for row, line in ((100, 17), (50, 0), (199, 17), (0, 0)):
        assert layout.reveal(row)
        assert layout.line_of(row) == line
    layout = laid_out(make_trace([*stack(7), *streams(10)]), 8, 0)
    for row, line in ((16, 7), (8, 4), (0, -1)):
        assert layout.reveal(row) == (line >= 0)
        assert row == 0 or layout.line_of(row) == line


def framed() -> Trace:
    """Two frames around an op, whose lane is compact without them."""
    return make_trace([python("a.py(1): f", 0, 100), python("b.py(1): g", 1, 90), *stack(1), op("x", 20, 5)])


def test_frames_stand_only_on_the_rows_of_a_full_lane():
    trace = framed()
    layout = laid_out(trace, 20)
    timeline_index = layout._timeline_index
    compact, full = timeline_index.compact[0], timeline_index.full[0]
    assert [line.track for line in layout.lines] == list(compact)
    frame = next(row for row in range(len(trace.slices)) if trace.name_of(row) == "b.py(1): g")
    assert layout.line_of(frame) == -1
    assert not layout.reveal(frame, unfold=False) and layout.folds[0] == Fold.COMPACT
    assert (layout.reveal(frame), layout.folds[0]) == (True, Fold.FULL)
    assert [line.track for line in layout.lines] == list(full) and layout.line_of(frame) >= 0


def test_a_folded_lane_opens_for_what_is_revealed_or_turns_to_it():
    layout = laid_out(make_trace([*stack(5), *streams(1)]), 20)
    layout.folds[0] = Fold.FOLDED
    layout.resize(21)
    assert shape(layout) == [0, -1, 1] and layout.lines[0].note == "rows 1–1 of 5"
    assert layout.reveal(3, unfold=False)
    assert (layout.folds[0], layout.lines[0].track, layout.tracks) == (Fold.FOLDED, 3, [3, 5])
    assert layout.reveal(4) and layout.folds[0] == Fold.COMPACT
    assert shape(layout) == [0] * 5 + [-1, 1]


def test_a_lane_goes_through_its_states_and_skips_one_that_looks_the_same():
    layout = laid_out(make_trace([*stack(60), *streams(1)]), 12)
    assert [layout.fold(0) for _ in range(3)] == [Fold.FULL, Fold.FOLDED, Fold.COMPACT]
    layout = laid_out(make_trace([*stack(2), *streams(1)]), 12)
    assert [layout.fold(0) for _ in range(3)] == [Fold.FOLDED, Fold.COMPACT, Fold.FOLDED]
    layout = laid_out(framed(), 12)
    assert [layout.fold(0) for _ in range(3)] == [Fold.FULL, Fold.FOLDED, Fold.COMPACT]


def test_idle_time_stands_above_the_first_stream_of_each_device():
    other = [Event("x", 5, 10, Kind.KERNEL, ("1", f"stream {i}")) for i in (7, 8)]
    layout = laid_out(make_trace([*stack(1), *streams(2), *other]), 20)
    assert shape(layout) == [0, -1, 1, 2, -1, 3, 4]
    assert [line.track - layout._timeline_index.idle_track(0) for line in layout.lines if line.lane < 0] == [0, 1]
    assert layout.device_tracks == [1, 2, 3, 4]


def test_only_some_lanes_without_counters_and_idle_time():
    counter = Counter("python", "queue", "size", np.array([0]), np.array([1.0]))
    layout = Layout(TimelineIndex(make_trace([*stack(2), *streams(2)], counters=(counter,))), only=[0, 2])
    layout.resize(20)
    assert shape(layout) == [0, 0, 2]
    assert not layout.reveal(2)


def test_lanes_of_waits_stand_with_the_devices_folded_and_are_no_streams():
    trace = make_trace([*streams(1), op("Stream Sync", 0, 10, lane=("0", "9")), *stack(2)])
    lanes = (trace.lanes[0], replace(trace.lanes[1], kind=LaneKind.SYNC), trace.lanes[2])
    layout = laid_out(replace(trace, lanes=lanes, cache={}), 20)
    assert shape(layout) == [2, 2, -1, 0, 1]
    assert layout.folds == [Fold.COMPACT, Fold.FOLDED, Fold.COMPACT]
    assert layout.device_tracks == [layout._timeline_index.full[0].start]
    book = (replace(trace.lanes[0], kind=LaneKind.BOOKKEEPING), *trace.lanes[1:])
    assert 0 not in shape(laid_out(replace(trace, lanes=book, cache={}), 20))


def ops(count: int, thread: int, start: int = 0) -> list[Event]:
    """So many ops one after another on a thread, 10 ns each."""
    return [op("aten::t", start + 10 * i, 10, lane=("1", str(thread))) for i in range(count)]


@pytest.mark.parametrize(("most", "idle"), [(1_000, set()), (1_001, {1})])
def test_a_thread_with_less_than_a_thousandth_of_the_busiest_is_idle(most, idle):
    assert idle_lanes(make_trace([*ops(most, 1), *ops(1, 2)])) == idle


@pytest.mark.parametrize(
    ("start", "idle"),
    [
        (90, {1}),  # ends as the first step begins
        (91, set()),
        (250, set()),  # between the steps
        (399, set()),
        (400, {1}),  # begins as the last one ends
    ],
)
def test_a_thread_with_nothing_from_the_first_step_to_the_last_is_idle(start, idle):
    trace = make_trace([step(1, 100, 100), step(2, 300, 100), *ops(3, 1, 150), *ops(1, 2, start)])
    assert idle_lanes(trace) == idle


def test_the_span_of_a_step_on_a_device_is_no_step():
    mark = Event("ProfilerStep#1", 0, 10_000, Kind.GPU_ANNOTATION, ("0", "stream 7"))
    trace = make_trace([step(1, 0, 100), *ops(3, 1), *ops(3, 2, 5_000), mark])
    lanes = (*trace.lanes[:2], replace(trace.lanes[2], kind=LaneKind.GPU_ANNOTATION))
    assert idle_lanes(replace(trace, lanes=lanes, cache={})) == {1}


def test_frames_make_a_thread_busy_only_where_there_is_nothing_else():
    frames = [python("a.py(1): f", 10 * i, 10, lane=("1", "2")) for i in range(5)]
    assert idle_lanes(make_trace([*ops(2, 1), *frames])) == {1}
    assert idle_lanes(make_trace([*frames, python("b.py(1): f", 0, 10, lane=("1", "3"))])) == set()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_labels_beside_the_lanes_keep_their_numbers_and_units(width: int, shared_trace: Callable[[str], Path]) -> None:
    timeline_index = TimelineIndex(loaded(shared_trace("d01_v100_torch1.9_6steps_mem_occ.json.gz")))
    layout = Layout(timeline_index)
    left = label_width(width)
    window = Window.fit(0, 200_860_000, width - left)
    frame = TimelineGrid(timeline_index, layout).draw(View(window), width, 14, palette())
    labels = [frame.text(line)[:left].strip() for line in range(14)]
    assert any(re.fullmatch(r".*≤\d+\.\d GiB", label) for label in labels)
    assert re.fullmatch(r"\d+\.\d+ ms( wide)?", labels[0])
    deep = Layout(TimelineIndex(make_trace([*stack(60), *streams(1)])))
    frame = TimelineGrid(deep._timeline_index, deep).draw(View(Window(0, 1000 / (width - left))), width, 14, palette())
    assert any(re.fullmatch(r"(rows )?\d+–\d+ of \d+", frame.text(line)[:left].strip()) for line in range(14))
