"""The lanes as a person uses them: keys, mouse, folding, and what is and is not sent to the terminal."""

from __future__ import annotations

import numpy as np
import pytest
from textual.app import App, ComposeResult
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Region

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.drawing.timeline.grid import TimelineGrid, label_width, lane_label
from tracetui.drawing.timeline.layout import Fold, Layout, idle_lanes
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Kind, Lane, LaneKind, Trace
from tracetui.ui.widgets.lanes import LanesView

SIZES = [(200, 50), (80, 24)]


def small_trace() -> Trace:
    """Two steps on a thread, each of two ops that launch a kernel, and two streams."""
    events: list[Event] = []
    for number in range(2):
        at = number * 100_000
        events += [step(number, at, 90_000), op("aten::linear", at + 1000, 60_000)]
        events += [op("aten::addmm", at + 2000, 50_000), launch(at + 20_000, 5000, number)]
        events += [kernel("gemm", at + 40_000, 30_000), kernel("nccl", at + 50_000, 9000, stream="stream 8")]
    return make_trace(events)


class Demo(App[None]):
    """Nothing but lanes."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        self.heard: list[object] = []

    def compose(self) -> ComposeResult:
        yield LanesView()

    def on_mount(self) -> None:
        index = TimelineIndex(self.trace)
        self.lanes.show_grid(TimelineGrid(index, Layout(index)))
        self.lanes.focus()

    @property
    def lanes(self) -> LanesView:
        return self.query_one(LanesView)

    @property
    def window(self) -> Window:
        assert self.lanes.window is not None
        return self.lanes.window

    @property
    def arrangement(self) -> Layout:
        assert self.lanes._grid is not None
        return self.lanes._grid.layout

    def on_lanes_view_selected(self, message: LanesView.Selected) -> None:
        self.heard.append(message.row)

    def on_lanes_view_panned(self, message: LanesView.Panned) -> None:
        self.heard.append(message.window)

    def screen_text(self) -> list[str]:
        return [strip.text for strip in self.lanes.render_lines(self.lanes.size.region)]


def row_of(trace: Trace, name: str, which: int = 0) -> int:
    rows = [row for row in range(len(trace.slices)) if trace.name_of(row) == name]
    return rows[which]


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_fills_the_screen_and_no_more(size: tuple[int, int]) -> None:
    app = Demo(small_trace())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        text = app.screen_text()
        assert [len(line) for line in text] == [size[0]] * size[1]
        assert ("wide" in text[0] or size[0] < 100) and "│0" in text[0]
        assert any("ProfilerStep#1" in line for line in text)
        assert any(line.startswith(" GPU 0 s") for line in text)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_keys_move_the_window_and_tell_the_parent(size: tuple[int, int]) -> None:
    app = Demo(small_trace())
    async with app.run_test(size=size) as pilot:
        lanes = app.lanes
        lanes.window = Window.fit(20_000, 60_000, lanes.cells)
        start = app.window
        await pilot.press("l")
        assert app.window.start_ns > start.start_ns and app.heard[-1] == lanes.window
        await pilot.press("h")
        assert lanes.window == start
        await pilot.press("plus")
        assert app.window.ns_per_cell < start.ns_per_cell
        await pilot.press("minus", "0")
        assert app.window.start_ns <= 0 and app.window.end_ns(lanes.cells) >= 190_000
        for _ in range(60):
            await pilot.press("minus")
        assert app.window.ns_per_cell < 10_000
        for _ in range(30):
            await pilot.press("left")
        assert app.window.end_ns(lanes.cells) > 0


async def test_keys_walk_along_and_across_lanes() -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        lanes = app.lanes
        await pilot.press("full_stop")
        assert trace.name_of(lanes.selected) == "gemm"
        lanes.selected = row_of(trace, "gemm")
        await pilot.press("full_stop")
        assert lanes.selected == row_of(trace, "gemm", 1) and app.heard[-1] == lanes.selected
        await pilot.press("full_stop")
        assert lanes.selected == row_of(trace, "gemm", 1)
        await pilot.press("less_than_sign")
        assert lanes.selected == row_of(trace, "gemm")
        await pilot.press("j")
        assert lanes.selected == row_of(trace, "nccl")
        await pilot.press("k", "k")
        assert trace.name_of(lanes.selected) == "cudaLaunchKernel"
        await pilot.press("k", "k", "k", "k")
        assert trace.name_of(lanes.selected) == "ProfilerStep#0"
        await pilot.press("greater_than_sign")
        assert trace.name_of(lanes.selected) == "ProfilerStep#0"
        await pilot.press("f")
        assert 60 < 90_000 / app.window.ns_per_cell < 120


async def test_a_measuring_point_shows_the_distance() -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        app.lanes.selected = row_of(trace, "cudaLaunchKernel")
        await pilot.press("x")
        app.lanes.selected = row_of(trace, "gemm")
        await pilot.pause()
        assert app.screen_text()[0].startswith("▌Δ +20.0 µs")
        assert any("┊" in line for line in app.screen_text())
        await pilot.press("x", "x")
        assert app.lanes.mark_ns is None


async def test_the_mouse_selects_pans_zooms_and_folds() -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        lanes = app.lanes
        left = label_width(200)
        await pilot.press("0")
        window = app.window
        layout = app.arrangement
        line = next(
            i
            for i, shown in enumerate(layout.lines)
            if shown.track == TimelineIndex(trace).tracks_of(row_of(trace, "gemm"))[0]
        )
        await pilot.click(LanesView, offset=(left + window.cell_of(150_000), line + 1))
        assert lanes.selected == row_of(trace, "gemm", 1)
        await pilot.mouse_down(LanesView, offset=(100, 5))
        await pilot.hover(LanesView, offset=(80, 5))
        await pilot.mouse_up(LanesView, offset=(80, 5))
        assert app.window.first == window.first + 20
        assert lanes.selected == row_of(trace, "gemm", 1)
        await pilot.click(LanesView, offset=(2, 1))
        assert len(layout.lines) == 4
        await pilot.click(LanesView, offset=(2, 1))
        assert len(layout.lines) == 8


async def test_the_wheel_scrolls_and_with_ctrl_zooms_about_the_pointer() -> None:
    deep = [op(f"op{i}", i, 100_000 - 2 * i) for i in range(60)]
    app = Demo(make_trace(deep))
    async with app.run_test(size=(120, 12)) as pilot:
        lanes, layout = app.lanes, app.arrangement
        await pilot.press("0", "z")
        window, lines = app.window, layout.lines[:]
        cell = 40
        moment = window.moment_at(cell)

        def turn(kind: type[MouseScrollDown | MouseScrollUp], *, ctrl: bool = False, shift: bool = False) -> None:
            lanes.post_message(kind(lanes, cell + label_width(120), 4, 0, 1, 0, shift, False, ctrl))

        turn(MouseScrollDown)
        await pilot.pause()
        assert layout.lines != lines and app.window == window
        turn(MouseScrollUp)
        await pilot.pause()
        assert [line.track for line in layout.lines] == [line.track for line in lines]
        turn(MouseScrollUp, ctrl=True)
        await pilot.pause()
        assert app.window.ns_per_cell < window.ns_per_cell and app.window.cell_of(round(moment)) == cell
        turn(MouseScrollDown, shift=True)
        await pilot.pause()
        assert app.window.start_ns > window.start_ns and app.window.cell_of(round(moment)) < cell


async def test_a_double_click_on_a_slice_fits_it_as_f_does_and_one_beside_it_nothing() -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("0")
        whole = app.window
        track = TimelineIndex(trace).tracks_of(row_of(trace, "gemm"))[0]
        line = 1 + next(i for i, shown in enumerate(app.arrangement.lines) if shown.track == track)
        left = label_width(200)
        await pilot.double_click(LanesView, offset=(left + whole.cell_of(150_000), line))
        clicked = app.window
        await pilot.press("0", "f")
        assert clicked == app.window != whole
        await pilot.press("0")
        await pilot.double_click(LanesView, offset=(left + whole.cell_of(90_000), line))
        assert app.window == whole


async def test_reveal_scrolls_pans_and_unfolds() -> None:
    frames = [Event(f"m.py({i}): f{i}", i, 10**6 - 2 * i, Kind.PYTHON, ("1", "1")) for i in range(90)]
    trace = make_trace([*frames, op("aten::mm", 1000, 50), kernel("k", 900_000, 50)])
    app = Demo(trace)
    async with app.run_test(size=(80, 24)) as pilot:
        lanes = app.lanes
        await pilot.pause()
        assert not any("f0 (m.py" in line for line in app.screen_text())
        lanes.window = Window(0, 10.0)
        lanes.selected = row_of(trace, "k")
        lanes.reveal(lanes.selected)
        assert app.window.start_ns <= 900_000 and app.window.end_ns(lanes.cells) >= 900_050
        lanes.reveal(row_of(trace, "m.py(80): f80"))
        await pilot.pause()
        assert any("f80" in line for line in app.screen_text())
        assert any("GPU 0" in line for line in app.screen_text())
        assert app.arrangement.folds[0] == Fold.FULL


async def test_a_step_sends_only_the_lines_of_the_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        lanes = app.lanes
        lanes.selected = row_of(trace, "gemm")
        await pilot.press("0")
        regions: list[Region] = []
        refresh = lanes.refresh

        def record(*changed: Region, **more: bool) -> LanesView:
            regions.extend(changed)
            return refresh(*changed, **more)

        monkeypatch.setattr(lanes, "refresh", record)
        strips = lanes.render_lines(lanes.size.region)
        await pilot.press("full_stop")
        # The axis points at the selection.
        assert {region.y for region in regions} == {0, 7}
        kept = [a is b for a, b in zip(strips, lanes.render_lines(lanes.size.region), strict=True)]
        assert kept.count(False) == 2


async def test_lit_slices_outside_the_window_are_pointed_at() -> None:
    trace = small_trace()
    app = Demo(trace)
    async with app.run_test(size=(200, 50)) as pilot:
        app.lanes.window = Window.fit(135_000, 180_000, app.lanes.cells)
        app.lanes.highlighted = frozenset([row_of(trace, "cudaLaunchKernel")])
        await pilot.pause()
        assert sum("◀" in line for line in app.screen_text()) == 1


async def test_idle_lanes_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Demo(small_trace())
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        lanes = app.lanes
        calls: list[object] = []
        monkeypatch.setattr(lanes, "draw", calls.append)
        await pilot.pause(0.2)
        assert not calls and not lanes.auto_refresh


async def test_lanes_without_a_trace_are_blank() -> None:
    class Empty(App[None]):
        def compose(self) -> ComposeResult:
            yield LanesView()

    async with Empty().run_test(size=(80, 24)) as pilot:
        pilot.app.query_one(LanesView).focus()
        await pilot.press("l", "plus", "full_stop", "j", "f", "0", "x", "z", "greater_than_sign")
        assert pilot.app.query_one(LanesView).selected == -1


def test_devices_stay_in_sight_below_deep_stacks() -> None:
    deep = [op(f"op{i}", i, 1000 - 2 * i) for i in range(200)]
    layout = Layout(TimelineIndex(make_trace([*deep, kernel("k", 5, 10)])))
    layout.resize(20)
    layout.folds[0] = Fold.FULL
    layout.resize(21)
    assert [line.lane for line in layout.lines] == [0] * 18 + [-1, -1, 1]
    assert layout.lines[18].note == "182 rows below"
    layout.scroll(3, 50)
    assert layout.lines[0].track == 50 and layout.lines[0].head


def test_compact_lanes_show_the_rows_around_what_is_revealed() -> None:
    deep = [op(f"op{i}", i, 1000 - 2 * i) for i in range(60)]
    trace = make_trace([*deep, kernel("k", 5, 10)])
    layout = Layout(TimelineIndex(trace))
    layout.resize(12)
    assert [line.track for line in layout.lines[:5]] == [0, 1, 2, 3, 4]
    assert layout.reveal(40, unfold=False)
    assert layout.line_of(40) >= 0 and layout.line_of(60) >= 0
    assert any("of 60" in line.note for line in layout.lines)


def test_folding_goes_round_and_skips_states_that_look_alike() -> None:
    layout = Layout(TimelineIndex(make_trace([op("a", 0, 100), op("b", 10, 20), kernel("k", 0, 5)])))
    layout.resize(20)
    assert layout.fold(0) == Fold.FOLDED and len(layout.lines) == 3
    layout.fold(0)
    assert len(layout.lines) == 4


def test_threads_with_next_to_nothing_are_idle() -> None:
    busy = [op("a", i * 10, 5) for i in range(3000)]
    events = [*busy, op("late", 0, 5, lane=("1", "2")), op("x", 90_000, 5, lane=("1", "3")), step(1, 0, 50_000)]
    assert idle_lanes(make_trace(events)) == {1, 2}


def test_a_slice_that_fits_is_brought_in_with_room_ahead() -> None:
    window = Window(0, 10.0)
    assert window.showing(100, 200, 100) == window
    moved = window.showing(1050, 1060, 100)
    assert 0 <= moved.cell_of(1050) < 30
    back = Window(500, 10.0).showing(1050, 1060, 100)
    assert 70 < back.cell_of(1060) < 100
    assert window.showing(5000, 50_000, 100).ns_per_cell > 10


def test_a_window_that_is_moved_shows_nothing_beside_the_trace() -> None:
    before, behind = Window(-40, 10.0), Window(80, 10.0)
    assert before.without_void(0, 1500, 100) == Window(0, 10.0)
    assert behind.without_void(0, 1500, 100) == Window(50, 10.0)
    for window in (Window(20, 10.0), Window(-40, 20.0)):
        # It lies within, or is longer than all there is.
        assert window.without_void(0, 1500, 100) == window
    assert window.showing(-5000, 50_000, 100) == window
    assert Window(0, 1e4).showing(5000, 5010, 100, True).ns_per_cell < 10


@pytest.mark.parametrize(
    ("name", "tid", "label"),
    [
        ("thread 42 (python3.11)", "42", "main thread"),
        ("thread 43 (python3)", "43", "thread 43"),
        ("thread 44 (pt_autograd_0)", "44", "pt_autograd_0"),
        ("CrBrowser\x1bMain", "9", "CrBrowser\N{REPLACEMENT CHARACTER}Main"),
    ],
)
def test_lane_labels(name: str, tid: str, label: str) -> None:
    assert lane_label(Lane("42", tid, LaneKind.CPU, name, "python 42", 0, 1, 1)) == label


def test_stream_labels_are_shortened_where_they_must() -> None:
    lane = Lane("0", "7", LaneKind.GPU, "stream 7", "GPU 0", 0, 1, 1)
    assert [lane_label(lane), lane_label(lane, 10)] == ["GPU 0 stream 7", "GPU 0 s7"]


def test_window_of_numpy_numbers_is_plain() -> None:
    window = Window.fit(np.int64(5), np.int64(500), 50)  # type: ignore[arg-type]
    assert type(window.ns_per_cell) is float and type(window.first) is int


async def test_another_width_shows_the_same_stretch_of_time() -> None:
    app = Demo(small_trace())
    async with app.run_test(size=(200, 50)) as pilot:
        lanes = app.lanes
        lanes.window = Window.fit(20_000, 60_000, lanes.cells)
        before = lanes.window.start_ns, lanes.window.end_ns(lanes.cells)
        await pilot.resize_terminal(90, 30)
        await pilot.pause()
        after = app.window.start_ns, app.window.end_ns(lanes.cells)
        assert lanes.window == app.window
        assert after == pytest.approx(before, abs=2 * app.window.ns_per_cell)
