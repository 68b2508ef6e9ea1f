"""What is selected, and what launched it, is seen: lanes in sight, marks on the axis and beside lanes, patterns."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.app import Shown, keys, shown
from tests.support.build import kernel, launch, make_trace, op
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.grid import label_width
from tracetui.drawing.timeline.palette import GROUND, UNDERLINE, codes, palette
from tracetui.kernel_names.slice_names import Family
from tracetui.model.trace import Trace

SIZES = [(200, 50), (80, 24)]


def deep(streams: int = 1, name: str = "copy_kernel") -> Trace:
    """An operator ten rows deep that launches one kernel per stream, with a long queue."""
    events = [op(f"aten::level{depth}", 1_000 + depth * 100, 900_000 - depth * 200) for depth in range(10)]
    for number in range(streams):
        at = 10_000 + number * 20_000
        events += [
            launch(at, 5_000, number + 1),
            kernel(name, at + 400_000, 60_000, stream=str(number + 7), correlation=number + 1),
        ]
    return make_trace(events)


def frame(app: Shown) -> Frame:
    lanes = app.view.lanes
    lanes.render_lines(lanes.size.region)
    assert lanes._frame is not None
    return lanes._frame


def cell_of(app: Shown, row: int) -> int:
    window = app.view.window
    assert window is not None
    return label_width(app.view.lanes.size.width) + window.cell_of(int(app.trace.slices.start[row]))


def line_of(app: Shown, row: int) -> int:
    grid = app.view.lanes._grid
    assert grid is not None
    line = grid.layout.line_of(row)
    return line if line < 0 else line + grid.axis_lines


def launch_of(app: Shown) -> int:
    return next(row for row in app.view.lanes.highlighted if app.trace.name_of(row) == "cudaLaunchKernel")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("streams", [1, 12])
@pytest.mark.full
async def test_lanes_of_the_selection_are_in_sight_from_the_first_view_on(size, streams):
    async with shown(deep(streams), size) as (app, pilot):
        for key in ("", "full_stop", "full_stop", "g"):
            if key:
                await keys(pilot, key)
            height = app.view.lanes.size.height
            assert 0 < line_of(app, app.view.selected) < height
            if key != "g":
                assert 0 < line_of(app, launch_of(app)) < height
            window = app.view.window
            assert window is not None
            begins = int(app.trace.slices.start[app.view.selected])
            assert window.start_ns <= begins < window.end_ns(app.view.lanes.cells)


@pytest.mark.parametrize("size", SIZES)
async def test_the_axis_and_the_lanes_point_at_the_kernel_and_its_launch(size):
    async with shown(deep(), size) as (app, _):
        drawn = frame(app)
        selected, partner = app.view.selected, launch_of(app)
        assert drawn.text(0)[cell_of(app, selected)] == "▼"
        assert drawn.text(0)[cell_of(app, partner)] == "▽"
        beside = label_width(app.view.lanes.size.width) - 1
        assert drawn.text(line_of(app, selected))[beside] == "▐"
        assert drawn.text(line_of(app, partner))[beside] == "▕"
        assert drawn.text(0).count("▼") == drawn.text(0).count("▽") == 1


async def test_marks_and_colours_move_with_a_followed_link():
    async with shown(deep()) as (app, pilot):
        kernel_row, partner = app.view.selected, launch_of(app)
        frame(app)
        await keys(pilot, "g")
        assert app.view.selected == partner
        followed = frame(app)
        beside = label_width(app.view.lanes.size.width) - 1
        assert followed.text(line_of(app, partner))[beside] == "▐"
        assert followed.text(line_of(app, kernel_row))[beside] == "▕"
        app.view.lanes.changed()
        await pilot.pause()
        anew = frame(app)
        assert not followed.differing(anew).any()


@pytest.mark.parametrize(("colours", "dark"), [(256, True), (256, False), (16, True), (16, False)])
def test_a_pattern_tells_a_marked_slice_from_a_family_of_nearly_its_colour(colours, dark):
    used = palette(colours, dark)
    assert used.alike.shape == (len(used.shades), 3)
    assert not used.alike[:, 0].any()
    for family in Family:
        if used.highlighted in used.shades[family]:
            assert used.alike[family, 1]
        if used.selected in used.shades[family]:
            assert used.alike[family, 2]


async def test_the_pattern_is_drawn_where_colours_are_near(monkeypatch):
    for name, patterned in (("Memcpy DtoD (Device -> Device)", True), ("gemm", False)):
        trace = deep(name=name)
        async with shown(trace, (120, 40), "") as (app, pilot):
            monkeypatch.setattr(type(app.view.lanes), "colours", palette(256, True))
            await keys(pilot, "g", "0")
            line = line_of(app, int(np.flatnonzero(trace.slices.name == trace.names.find(name))[0]))
            drawn = frame(app)
            marked = (drawn.bg[line] != GROUND) & ((drawn.attributes[line] & UNDERLINE) > 0)
            assert marked.any()
            assert (codes("░")[0] in drawn.chars[line][marked].tolist()) is patterned
