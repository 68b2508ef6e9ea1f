"""One part on the whole screen, a split that is moved by keys and the mouse, and lanes pinned at the top."""

from __future__ import annotations

import pytest

from tests.support.app import Shown, burst, keys, settle, shown, training
from tests.support.build import kernel, launch, make_trace, op
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.model.trace import Trace
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.widgets.bar import SplitBar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.searchable_view import MIN_PART_CELLS, MIN_PART_LINES

SIZES = [(200, 50), (80, 24)]


def heights(app: Shown) -> tuple[int, int, int]:
    """Lines of the timeline, the list and the details that are on screen."""
    parts = (app.view.lanes, app.list, app.view.query_one(Details))
    on_screen = [all(node.display for node in part.ancestors_with_self[:-2]) for part in parts]
    first, second, third = (part.size.height if seen else 0 for part, seen in zip(parts, on_screen, strict=True))
    return first, second, third


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_the_part_with_the_focus_has_the_whole_screen_until_escape(size):
    async with shown(training(), size) as (app, pilot):
        before = heights(app)
        for part, index in (("list", 1), ("lanes", 0)):
            app.screen.set_focus(app.list if part == "list" else app.view.lanes)
            await keys(pilot, "Z")
            alone = heights(app)
            assert alone[index] > max(before[index], size[1] // 2)
            assert [height for i, height in enumerate(alone) if i != index] == [0, 0]
            await keys(pilot, "escape")
            assert heights(app) == before
            await keys(pilot, "Z", "Z")
            assert heights(app) == before


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_details_have_the_whole_screen(size):
    async with shown(training(), size) as (app, pilot):
        if size[0] < 110:
            await keys(pilot, "i")
        app.screen.set_focus(app.view.query_one(Details))
        await keys(pilot, "Z")
        lanes, listed, details = heights(app)
        assert (lanes, listed) == (0, 0) and details > size[1] // 2
        assert app.view.query_one(Details).size.width > size[0] - 6
        await keys(pilot, "escape")
        assert heights(app)[0] > 0


@pytest.mark.parametrize(("key", "part"), [("2", "list"), ("enter", "lanes")])
@pytest.mark.full
async def test_a_key_that_goes_elsewhere_brings_the_parts_back(key, part):
    async with shown(training()) as (app, pilot):
        app.screen.set_focus(app.view.lanes if part == "list" else app.list)
        await keys(pilot, "Z", key)
        assert app.view.maximised == ""
        assert app.focused is (app.list if part == "list" else app.view.lanes)
        assert min(heights(app)) > 0


async def test_tab_stays_with_the_part_that_has_the_screen():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "Z", "tab")
        assert app.focused is app.list


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES)
async def test_the_split_is_moved_by_keys_within_bounds(size):
    async with shown(training(), size) as (app, pilot):
        before = heights(app)
        await keys(pilot, "ctrl+down")
        after = heights(app)
        assert (after[0] - before[0], after[1] - before[1]) == (2, -2)
        await keys(pilot, *["ctrl+down"] * 40)
        assert heights(app)[1] >= MIN_PART_LINES - 2
        await keys(pilot, *["ctrl+up"] * 60)
        assert heights(app)[0] == MIN_PART_LINES
        assert sum(heights(app)[:2]) == sum(before[:2])


async def test_the_split_is_dragged_and_the_drag_picks_no_tab():
    async with shown(training()) as (app, pilot):
        before, pane = heights(app), app.view.panes.pane
        bar = app.view.query_one(PaneList).query_one(SplitBar)
        await pilot.mouse_down(bar, offset=(30, 0))
        await pilot.hover(bar, offset=(30, 4))
        await settle(pilot)
        await pilot.mouse_up(bar, offset=(30, 0))
        await settle(pilot)
        assert heights(app)[0] == before[0] + 4
        assert app.view.panes.pane == pane
        await pilot.click(bar, offset=(14, 0))
        await settle(pilot)
        assert app.view.panes.pane == "ops"


async def test_details_are_made_wider_and_narrower():
    async with shown(training()) as (app, pilot):
        details = app.view.query_one(Details)
        before = details.outer_size.width
        await keys(pilot, "ctrl+left")
        assert details.outer_size.width == before + 4
        await keys(pilot, *["ctrl+right"] * 30)
        assert details.outer_size.width == MIN_PART_CELLS


async def test_sizes_are_kept_for_the_next_trace():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "ctrl+down", "ctrl+left")
        assert app.part_sizes.timeline is not None and app.part_sizes.details is not None
        wanted = heights(app)
        app.start()
        await settle(pilot)
        assert heights(app) == wanted


async def test_a_narrow_screen_says_where_the_details_are():
    async with shown(training(), (80, 24)) as (app, pilot):
        await keys(pilot, "ctrl+left")
        assert "110 columns" in app.text("#hints")


def threads(number: int = 12) -> Trace:
    """Threads with a few rows each, and a stream."""
    events = []
    for thread in range(number):
        events += [
            op(f"op{thread}_{depth}", depth * 100, 100_000 - depth * 200, lane=("1", str(100 + thread)))
            for depth in range(4)
        ]
    events += [launch(1_000, 100, 1), kernel("gemm", 5_000, 50_000, correlation=1)]
    return make_trace(events)


@pytest.mark.parametrize("height", [6, 12, 30, 80])
def test_a_pinned_lane_stays_at_the_top(height):
    trace = threads()
    layout = Layout(TimelineIndex(trace))
    layout.resize(height)
    before = list(layout.lines)
    row = next(i for i in range(len(trace.slices)) if trace.name_of(i) == "gemm")
    lane = int(trace.slices.lane[row])
    layout.pin(lane)
    assert layout.lines[0].lane == lane and layout.lines[0].is_pinned
    assert len(layout.lines) <= height
    assert all(line.is_pinned for line in layout.lines if line.lane == lane)
    for other in range(len(trace.slices)):
        layout.reveal(other)
        assert layout.line_of(other) >= 0
        assert layout.lines[0].lane == lane
    layout.pin(lane)
    assert not any(line.is_pinned for line in layout.lines)
    assert len(layout.lines) == len(before)


async def test_the_lane_of_the_selection_is_pinned_by_a_key():
    async with shown(threads()) as (app, pilot):
        await keys(pilot, "p")
        grid = app.view.lanes._grid
        assert grid is not None and grid.layout.lines[0].is_pinned
        assert "▪GPU 0" in app.view.lanes.render_lines(app.view.lanes.size.region)[1].text
        await keys(pilot, "p")
        assert not grid.layout.lines[0].is_pinned


async def test_deep_stacks_have_the_lines_that_a_short_list_leaves():
    events = [op(f"frame{depth}", depth * 10, 100_000 - depth * 20) for depth in range(40)]
    events += [launch(1_000, 100, 1), kernel("gemm", 5_000, 50_000, correlation=1)]
    async with shown(make_trace(events), (120, 60)) as (app, pilot):
        await settle(pilot)
        lanes, listed, _ = heights(app)
        assert lanes > 60 // 2
        assert listed >= 10


@pytest.mark.full
async def test_keys_of_one_burst_leave_a_whole_screen():
    async with shown(training()) as (app, pilot):
        burst(app, "Z", "tab", "Z", "2", "Z", "escape", "ctrl+down", "Z", "6", "escape")
        await settle(pilot)
        assert app.view.maximised == "" and min(heights(app)) > 0
