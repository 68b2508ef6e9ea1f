"""The raster against a slow script that looks at every slice for every cell, and what a picture knows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace, op, python
from tracetui.drawing.timeline.cells import BLOCK, FROM_BOTTOM, FROM_LEFT, Frame
from tracetui.drawing.timeline.grid import SPACING, axis, tick_label, tick_step
from tracetui.drawing.timeline.palette import BOLD, GROUND, REVERSE, UNDERLINE, Labels, nearest_colour, palette
from tracetui.drawing.timeline.raster import MANY, Curve, TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.table import Strings
from tracetui.model.trace import Counter, Instants, Kind, Trace


def random_trace(seed: int, count: int = 400) -> Trace:
    """Slices of all sizes, zero included, that nest, touch, overlap and leave gaps."""
    random = np.random.default_rng(seed)
    kinds = [Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION]
    events = [
        Event(
            "some name",
            int(random.integers(0, 20_000)),
            int(random.choice([0, 1, 7, 60, 500, 4_000]) * random.random()),
            kinds[int(random.integers(3))],
            ("1", str(random.integers(2))),
        )
        for _ in range(count)
    ]
    moment = 0
    for _ in range(count):
        moment += int(random.choice([0, 0, 5, 90]))
        dur = int(random.integers(1, 60))
        events.append(kernel("gemm", moment, dur))
        moment += dur
    return make_trace(events)


@dataclass
class Piece:
    """What a slice has on its track."""

    row: int
    start: int
    end: int
    number: int
    family: int


def pieces_of(trace: Trace, track: int, timeline_index: TimelineIndex) -> list[Piece]:
    """The slices of a track, each cut where the next one starts."""
    slices = trace.slices
    rows = [row for row in range(len(slices)) if timeline_index.tracks_of(row)[0] == track]
    first = sum(timeline_index.tracks_of(row)[0] < track for row in range(len(slices)))
    ends = [*(int(slices.start[row]) for row in rows[1:]), 1 << 60]
    return [
        Piece(
            row,
            int(slices.start[row]),
            min(int(slices.end[row]), end),
            first + i,
            int(timeline_index.family(np.array([first + i]))[0]),
        )
        for i, (row, end) in enumerate(zip(rows, ends, strict=True))
    ]


def check_cell(frame: Frame, y: int, x: int, pieces: list[Piece], low: int, high: int) -> None:
    """One cell of a frame against the slices of its track."""
    colours = palette()
    here = [p for p in pieces if p.start < high and (p.end > low or p.start >= low)]
    char, fg, bg = int(frame.chars[y, x]), int(frame.fg[y, x]), int(frame.bg[y, x])
    if not here:
        assert (char, bg) == (ord(" "), GROUND)
        return
    shades = {p.row: int(colours.shades[p.family, p.number & 1]) for p in here}
    if len(here) > 2:
        busy = sum(min(p.end, high) - max(p.start, low) for p in here)
        level = min(max(-(-busy * 8 // (high - low)), 1), 8)
        base = [int(colours.shades[p.family, 0]) for p in here]
        if len(here) < BLOCK:
            longest = max(p.end - p.start for p in here)
            base = [c for c, p in zip(base, here, strict=True) if np.float32(p.end - p.start) == np.float32(longest)]
        assert (bg if level == 8 else fg) in base
        assert bg in base or char == FROM_BOTTOM[level]
        return
    edges = [(eighth(p.start, low, high, 7), eighth(p.end, low, high, 8)) for p in here]
    (a, b), (c, d) = edges[0], edges[-1]
    b, d = max(b, a + 1), max(d, c + 1)
    joined = len(here) == 2 and c - b <= 1
    if joined and a == 0 and d == 8:
        assert char in FROM_LEFT[1:8]
        assert (fg, bg) == (shades[here[0].row], shades[here[1].row])
        return
    if len(here) == 2 and d - c > b - a:
        chosen, a, b = here[1], (a if joined else c), d
    else:
        chosen, b = here[0], (d if joined else b)
    colour = shades[chosen.row]
    reverse = bool(frame.attributes[y, x] & REVERSE)
    if (a, b) == (0, 8):
        assert bg == colour
    elif a == 0:
        assert (char, fg, bg, reverse) == (FROM_LEFT[b], colour, GROUND, False)
    elif b == 8:
        assert (char, fg, bg, reverse) == (FROM_LEFT[a], colour, GROUND, True)
    else:
        assert chr(char) in "▏│▕▌▐"
        assert (fg, bg, reverse) == (colour, GROUND, False)


def eighth(moment: int, low: int, high: int, most: int) -> int:
    return round(min(max((moment - low) * (8 / (high - low)), 0), most))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("first", "ns_per_cell"), [(0, 333.3), (-5, 1700.0), (200, 41.7), (1000, 3.0)])
@pytest.mark.full
def test_every_cell_is_what_a_slow_look_says(seed: int, first: int, ns_per_cell: float) -> None:
    trace = random_trace(seed, 120)
    timeline_index = TimelineIndex(trace)
    window, width = Window(first, ns_per_cell), 40
    frame = timeline_index.frame(range(timeline_index.idle_track(0)), window, width)
    edges = window.edges(width).tolist()
    for track in range(timeline_index.idle_track(0)):
        pieces = pieces_of(trace, track, timeline_index)
        for x in range(width):
            check_cell(frame, track, x, pieces, edges[x], edges[x + 1])


def test_a_pan_leaves_cells_as_they_are() -> None:
    timeline_index = TimelineIndex(random_trace(1))
    window = Window(3, 97.3)
    tracks = range(timeline_index.tracks)
    before, after = timeline_index.frame(tracks, window, 60), timeline_index.frame(tracks, window.pan(20), 60)
    assert np.array_equal(before.bg[:, 20:], after.bg[:, :40])
    assert np.array_equal(axis(window, 60)[30:46], axis(window.pan(20), 60)[10:26])


def test_few_slices_longest_is_exact_and_blocks_hold_a_slice_of_the_range() -> None:
    trace = make_trace([kernel("k", 10 * i, 1 + (i * 37) % 9) for i in range(500)])
    index = TimelineIndex(trace).index
    weights = trace.slices.dur
    for first, last in [(0, 1), (3, 30), (5, 31), (0, 500), (17, 203), (32, 64), (31, 97)]:
        found = int(index.longest(np.array([first]), np.array([last]))[0])
        inner = range(-(-first // BLOCK) * BLOCK, last // BLOCK * BLOCK) or range(first, last)
        assert weights[found] == max(weights[i] for i in inner)


def test_labels_are_written_where_there_is_room_and_cannot_steer_a_terminal() -> None:
    trace = make_trace([op("aten::\x1b[31mlinear\n宽", 0, 1000), op("aten::relu", 1000, 60)])
    text = TimelineIndex(trace).frame([0], Window(0, 10.0), 120).text(0)
    assert "\x1b" not in text and "\n" not in text
    assert "linear" in text and "宽" not in text and len(text) == 120
    assert "relu" in text and "aten::relu" not in text


def test_a_python_frame_is_called_by_its_function() -> None:
    names = Strings(["/usr/lib/torch/nn/modules.py(12): forward"])
    assert Labels(names).text(0, Kind.PYTHON) == "forward (modules.py:12)"


def test_selected_and_lit_slices_stand_out_with_and_without_colour() -> None:
    trace = make_trace([op("one op", 0, 500), op("two op", 500, 500), op("three op", 1000, 500)])
    timeline_index, window = TimelineIndex(trace), Window(0, 10.0)
    for colours in (palette(), palette(16), palette(0)):
        frame = timeline_index.frame([0], window, 150, selected=1, highlighted=[2], colours=colours)
        attributes = frame.attributes[0]
        assert (attributes[50:100] & BOLD).all() and not (attributes[:50] & BOLD).any()
        assert (attributes[100:150] & UNDERLINE).all() and not (attributes[100:] & BOLD).any()
    assert (frame.fg == GROUND).all() and (frame.bg == GROUND).all()
    assert (attributes[:50] & REVERSE).all() and not (attributes[50:100] & REVERSE).any()


def test_a_selected_slice_is_seen_among_a_thousand_in_one_cell() -> None:
    trace = make_trace([kernel("k", 10 * i, 5) for i in range(1000)])
    frame = TimelineIndex(trace).frame([0], Window(0, 1000.0), 10, selected=777)
    assert np.flatnonzero(frame.bg[0] == palette().selected).tolist() == [7]


def test_a_marked_sliver_takes_its_whole_cell() -> None:
    frame = TimelineIndex(make_trace([kernel("k", 540, 20)])).frame([0], Window(0, 100.0), 10, selected=0)
    assert frame.bg[0].tolist() == [GROUND] * 5 + [palette().selected] + [GROUND] * 4


def test_backgrounds_keep_their_shade_among_256_colours() -> None:
    assert [nearest_colour(13, 17, 23), nearest_colour(255, 255, 255), nearest_colour(0, 95, 175)] == [233, 231, 25]


@pytest.mark.parametrize(("plain", "text"), [(False, "▏  ▏▒▒▏=="), (True, "▏##▏%%▏==")])
def test_textures_tell_families_and_lines_slices_where_colours_are_few(plain: bool, text: str) -> None:
    events = [kernel("gemm", 0, 30), kernel("nccl_all_reduce", 30, 30)]
    trace = make_trace([*events, Event("Memcpy HtoD", 60, 30, Kind.MEMCPY, ("0", "stream 7"))])
    frame = TimelineIndex(trace).frame([0], Window(0, 10.0), 9, colours=palette(16, is_plain=plain))
    assert frame.text(0) == text


def test_a_name_keeps_a_space_from_the_texture() -> None:
    trace = make_trace([kernel("nccl_all_reduce", 0, 200), kernel("nccl_all_reduce", 200, 70)])
    frame = TimelineIndex(trace).frame([0], Window(0, 10.0), 27, colours=palette(16))
    assert re.fullmatch("▏[^ ]+( [^ ]+)* ▒*▏NCCL.*", frame.text(0))


def test_python_frames_can_be_left_out() -> None:
    frames = [Event(f"a.py({i}): f", i, 1000 - 2 * i, Kind.PYTHON, ("1", "1")) for i in range(50)]
    trace = make_trace([*frames, op("aten::mm", 60, 500), op("aten::addmm", 70, 400)])
    timeline_index = TimelineIndex(trace)
    assert [len(tracks) for tracks in (timeline_index.full[0], timeline_index.compact[0])] == [52, 2]
    row = int(np.flatnonzero(trace.slices.kind == Kind.CPU_OP)[1])
    full, compact = timeline_index.tracks_of(row)
    assert timeline_index.slice_at(full, 100, 200) == timeline_index.slice_at(compact, 100, 200) == row
    assert len(timeline_index.tracks_of(0)) == 1


def test_neighbours() -> None:
    trace = make_trace(
        [op("a", 0, 100), op("b", 10, 20), op("a", 40, 20), op("b", 200, 10), kernel("k", 5, 50), kernel("k", 20, 9)]
    )
    timeline_index = TimelineIndex(trace)
    by_start = {(int(trace.slices.start[row]), trace.name_of(row)): row for row in range(len(trace.slices))}
    assert timeline_index.next_in_lane(by_start[10, "b"]) == by_start[40, "a"]
    assert timeline_index.next_in_lane(by_start[0, "a"]) == by_start[200, "b"]
    assert timeline_index.next_in_lane(by_start[0, "a"], -1) == -1
    assert timeline_index.next_in_lane(by_start[5, "k"]) == by_start[20, "k"]
    assert timeline_index.next_in_lane(by_start[20, "k"]) == -1
    assert timeline_index.next_of_name(by_start[0, "a"]) == by_start[40, "a"]
    assert timeline_index.next_of_name(by_start[200, "b"], -1) == by_start[10, "b"]
    assert timeline_index.nearest(timeline_index.tracks_of(by_start[200, "b"])[0], 160) == by_start[200, "b"]


def test_busy_share_joins_streams() -> None:
    trace = make_trace([kernel("k", 0, 50), kernel("k", 25, 50, stream="stream 8"), op("a", 0, 1000)])
    timeline_index = TimelineIndex(trace)
    assert timeline_index.gpu_busy(Window(0, 100.0), 2).tolist() == [0.75, 0.0]
    assert timeline_index.busy_share(0, 100) == 0.75
    assert TimelineIndex(make_trace([op("a", 0, 50)])).gpu_busy(Window(0, 100.0), 1).tolist() == [0.5]


def test_a_trace_without_slices_is_drawn_empty() -> None:
    timeline_index = TimelineIndex(make_trace([]))
    assert timeline_index.tracks == 0
    assert timeline_index.frame([-1], Window(0, 1.0), 5).text(0) == "     "
    assert timeline_index.gpu_busy(Window(0, 1.0), 3).tolist() == [0, 0, 0]


def test_instants_are_marked_where_their_row_is_empty() -> None:
    trace = make_trace([op("a", 0, 50)])
    names = trace.names
    texts = [names.intern("moment"), names.intern("moment"), names.intern("[memory]")]
    time = np.array([20, 70, 80])
    zero = np.zeros(3, np.int32)
    instants = Instants(time, np.array(texts, np.int32), zero.astype(np.int16), zero, zero.astype(np.uint8), zero)
    frame = TimelineIndex(replace(trace, instants=instants)).frame([0], Window(0, 10.0), 10)
    assert [x for x in range(10) if frame.text(0)[x] == "╵"] == [7]


def test_clocks_gone_wild_do_not_overflow() -> None:
    trace = make_trace([op("a", -(1 << 61), 1 << 40), op("b", 1 << 61, 1 << 40), kernel("k", 5, 5)])
    timeline_index = TimelineIndex(trace)
    frame = timeline_index.frame(range(timeline_index.tracks), Window.fit(*trace.window, 50), 50)
    assert (frame.bg >= 0).any() or (frame.chars != ord(" ")).any()


@pytest.mark.parametrize(("dark", "colours"), [(True, 256), (False, 256), (True, 16), (False, 16)])
def test_ink_can_be_read_on_every_shade(dark: bool, colours: int) -> None:
    table = palette(colours, dark)
    assert set(table.ink[table.shades].ravel().tolist()) <= {16, 231, 0, 15}
    assert table.ink[231] == 16 or colours == 16


def test_counter_values_hold_until_the_next_sample() -> None:
    curve = Curve(Counter("p", "queue", "", np.array([10, 20, 40]), np.array([1.0, 8.0, 4.0])))
    edges = np.array([0, 5, 15, 25, 35, 40, 50])
    assert curve.highest(edges).tolist()[1:] == [1, 8, 8, 8, 4]
    assert np.isnan(curve.highest(edges)[0])
    assert "".join(map(chr, curve.bars(edges))) == " ▁███▄"


def test_window_keeps_what_is_at_the_cell_that_it_zooms_about() -> None:
    window = Window.fit(1000, 5000, 100)
    assert window.start_ns <= 1000 and window.end_ns(100) >= 5000
    moment = (window.first + 30.5) * window.ns_per_cell
    assert abs(window.zoom(4, 30).cell_of(moment) - 30) <= 1
    assert window.zoom(1e12, 30).ns_per_cell == 1.0


def test_a_window_cannot_leave_the_trace() -> None:
    window = Window(10_000, 100.0).within(0, 5000, 50)
    assert window.start_ns < 5000
    assert Window(0, 1e9).within(0, 5000, 50).ns_per_cell <= 123


@pytest.mark.parametrize(
    ("moment", "step", "label"),
    [
        (0, 50_000, "0"),
        (50_000, 50_000, "50 µs"),
        (1_250_000, 50_000, "1.25 ms"),
        (2_000_000, 500_000, "2 ms"),
        (-100, 50, "-100 ns"),
    ],
)
def test_tick_labels(moment: int, step: int, label: str) -> None:
    assert tick_label(moment, step) == label


@pytest.mark.parametrize("scale", [1.0, 3.3, 71.0, 1e4, 1.7e9])
def test_ticks_are_round_and_far_enough_apart(scale: float) -> None:
    step = tick_step(scale)
    assert step >= scale * SPACING
    assert str(step).rstrip("0") in ("1", "2", "5")


def test_no_number_on_the_axis_is_cut() -> None:
    for first in range(60):
        text = "".join(map(chr, axis(Window(first, 1000.0), 40)))
        assert all(part.strip() == "" or part.split()[-1] in ("µs", "ns", "ms", "0") for part in text.split("│")[1:])


def test_many_lit_slices_are_found_as_few_are() -> None:
    events = [python("train.py(1): main", 0, 10_000)]
    events += [op(f"op{i % 3}", 100 + i * 50, 40) for i in range(120)]
    events += [kernel(f"k{i % 3}", 100 + i * 50, 45) for i in range(120)]
    timeline_index = TimelineIndex(make_trace(events))
    rows = list(range(0, len(timeline_index.trace.slices), 2))
    assert len(rows) > MANY
    one_by_one = sorted(place for row in rows for place in timeline_index._places([row]))
    assert timeline_index._places(rows) == one_by_one
    # The frame stands on the full track alone, the operators on both.
    assert len(one_by_one) > len(rows)


@pytest.mark.parametrize("origin_ns", [0, 130, 777])
def test_labels_of_the_axis_make_room_for_marks(origin_ns):
    window, width = Window(0, 10), 100

    def labels(marked: set[int]) -> list[tuple[int, str]]:
        text = "".join(map(chr, axis(window, width, origin_ns, "step 3", marked)))
        assert all(text[each] in " │" for each in marked)
        return [(match.start(), match[1]) for match in re.finditer(r"│ *([^│]*?) *(?=│|$)", text)]

    plain = labels(set())
    assert any(label for _, label in plain)
    for at in range(width):
        # Ticks stay where they are, and labels whole: where there is no space for one it is left out.
        for (tick, label), (before, whole) in zip(labels({at}), plain, strict=True):
            assert tick == before and label in (whole, "")
            assert label or not whole or tick < at <= tick + len(whole)
