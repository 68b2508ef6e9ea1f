"""A gap is selected like a slice: shown with its neighbours, shaded, described, walked along, named, and left again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.app import Shown, keys, shown, to_pane
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.waiting import until
from tracetui.drawing.timeline.grid import DOT, label_width
from tracetui.drawing.timeline.palette import palette
from tracetui.idle.gaps import gap_causes_of
from tracetui.idle.waits import WORDS, idleness
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import read_view_string
from tracetui.reading.load import load
from tracetui.ui.trace.selection import describe_gap
from tracetui.ui.widgets.lanes import LanesView

US = 1_000
SIZES = [(200, 50), (80, 24)]


def with_gaps() -> Trace:
    """Gaps of 30, 300 and 3 us between four kernels; the CPU is in a loader during the longest."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return make_trace(
        [
            step(1, 0, 600 * US),
            op("aten::first", 1 * US, 10 * US),
            launch(2 * US, 5 * US, 1),
            kernel("a", 10 * US, 20 * US, correlation=1),
            op("aten::second", 31 * US, 20 * US),
            launch(50 * US, 5 * US, 2),
            kernel("b", 60 * US, 20 * US, correlation=2),
            op(loader, 81 * US, 250 * US),
            launch(370 * US, 5 * US, 3),
            kernel("c", 380 * US, 20 * US, correlation=3),
            launch(385 * US, 5 * US, 4),
            kernel("d", 403 * US, 20 * US, correlation=4),
        ]
    )


def shown_stretch(app: Shown) -> tuple[float, float]:
    window = app.view.window
    assert window is not None
    return window.start_ns, window.end_ns(app.view.lanes.cells)


def details(app: Shown) -> str:
    return "\n".join(line.text for line in app.view.panes.details.lines)


def gap_of(app: Shown) -> tuple[int, int] | None:
    idle, gap = idleness(app.trace), app.view.gap
    return None if gap < 0 else (int(idle.start[gap]) // US, int(idle.end[gap]) // US)


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_the_longest_gap_fits_it_with_its_neighbours_and_says_what_the_cpu_did(size):
    async with shown(with_gaps(), size) as (app, pilot):
        await keys(pilot, "6", "enter")
        assert gap_of(app) == (80, 380)
        start, end = shown_stretch(app)
        assert start <= 60 * US and end >= 400 * US
        assert end - start < 400 * US
        assert app.focused is app.view.lanes
        if size[0] < 100:
            await keys(pilot, "i")
        text = " ".join(details(app).split())
        for words in ("Gap of 300.0 µs: GPU 0 ran nothing", "data loading", "ran before", "ran after", "launch"):
            assert words in text
        assert "290.0 µs into the gap" in text
        assert "the CPU meanwhile" in text
        highlighted = {app.trace.name_of(row) for row in app.view.lanes.highlighted}
        assert {"b", "c", "cudaLaunchKernel"} < highlighted
        assert any(name.startswith("enumerate(DataLoader)") for name in highlighted)
        assert "aten::first" not in highlighted


async def test_gaps_come_longest_first_and_are_walked_in_that_order_from_every_part():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "6")
        assert app.view.gap == -1
        await keys(pilot, "full_stop")
        assert gap_of(app) == (80, 380)
        await keys(pilot, "full_stop")
        assert gap_of(app) == (30, 60)
        await keys(pilot, "tab", "full_stop")
        assert isinstance(app.focused, LanesView)
        assert gap_of(app) == (400, 403)
        await keys(pilot, "full_stop")
        assert gap_of(app) == (400, 403)
        assert "no gap in that direction" in app.view.hints.text
        await keys(pilot, "comma", "comma")
        assert gap_of(app) == (80, 380)


async def test_on_another_tab_the_timeline_walks_the_gaps_of_the_device_in_time():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "6", "enter", *to_pane("kernels"), "tab", "comma")
        assert gap_of(app) == (30, 60)
        await keys(pilot, "full_stop", "full_stop")
        assert gap_of(app) == (400, 403)


async def test_backspace_goes_back_and_a_slice_takes_the_place_of_the_gap():
    async with shown(with_gaps()) as (app, pilot):
        before = app.view.selected, shown_stretch(app)
        await keys(pilot, "6", "enter")
        assert app.view.lanes.gap is not None
        await keys(pilot, "backspace")
        assert (app.view.selected, shown_stretch(app)) == before
        assert app.view.gap == -1 and app.view.lanes.gap is None
        await keys(pilot, "6", "enter", "g")
        assert app.selected == "cudaLaunchKernel" and app.view.gap == -1
        await keys(pilot, "backspace")
        assert gap_of(app) == (80, 380)


@pytest.mark.full
async def test_a_view_string_names_a_gap_and_leads_back_to_it():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "6", "enter", "Y")
        text = app.clipboard
        where = shown_stretch(app)
    viewpoint = read_view_string(text)
    assert viewpoint.is_gap and viewpoint.pane == "gaps"
    async with shown(with_gaps(), (120, 40), text) as (app, pilot):
        assert gap_of(app) == (80, 380)
        assert shown_stretch(app) == pytest.approx(where)
        assert "data loading" in details(app)
    event = viewpoint.event
    async with shown(with_gaps(), (120, 40), f"g{event}") as (app, pilot):
        assert gap_of(app) == (80, 380)
        assert shown_stretch(app) == pytest.approx(where)
    async with shown(with_gaps(), (120, 40), "g1") as (app, pilot):
        assert gap_of(app) is None
        assert "no gap before event 1" in app.view.hints.text


async def test_a_finding_about_idle_time_goes_to_its_gap():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "7")
        table = app.list.table
        assert table is not None
        titles = [str(row["title"]) for row in table.rows()]
        assert "data loader" in titles[0] and app.list.cursor == 0
        await keys(pilot, "enter")
        assert gap_of(app) == (80, 380)
        assert shown_stretch(app)[1] >= 400 * US


@pytest.mark.parametrize("colours", [256, 16, 0])
@pytest.mark.full
async def test_the_gap_is_shaded_on_its_device_and_on_the_launching_thread(colours, monkeypatch):
    async with shown(with_gaps()) as (app, pilot):
        used = palette(colours)
        monkeypatch.setattr(type(app.view.lanes), "colours", used)
        await keys(pilot, "6", "enter", "minus")
        lanes, window = app.view.lanes, app.view.window
        assert window is not None and lanes._grid is not None
        lanes.changed()
        lanes.render_lines(lanes.size.region)
        frame = lanes._frame
        assert frame is not None
        stream = next(row for row in range(len(app.trace.slices)) if app.trace.name_of(row) == "c")
        line = lanes._grid.layout.line_of(stream) + lanes._grid.axis_lines
        left = label_width(lanes.size.width)
        inside, outside = (left + window.cell_of(moment * US) for moment in (200, 410))
        if colours == 256:
            assert frame.bg[line, inside] == used.veil != frame.bg[line, outside]
        else:
            assert frame.chars[line, inside] == DOT != frame.chars[line, outside]
        band = next(
            i
            for i, each in enumerate(lanes._grid.layout.lines)
            if each.track == lanes._grid.timeline_index.idle_track(0)
        )
        assert " data loading " in frame.text(band + lanes._grid.axis_lines)
        assert frame.text(0)[left + window.cell_of(80 * US)] == "▼"
        assert frame.text(0)[left + window.cell_of(370 * US)] == "▽"


async def test_keys_about_the_selection_mean_the_gap():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "6", "enter", "x")
        assert app.view.lanes.mark_ns == 80 * US
        await keys(pilot, "0", "f")
        start, end = shown_stretch(app)
        assert start < 80 * US and end > 380 * US and end - start < 700 * US
        await keys(pilot, "m", "apostrophe")
        assert "gap before c" in str(app.screen.query_one("TableView").table["mark"].cell(0))  # type: ignore[attr-defined]


async def test_a_click_on_idle_time_selects_the_gap():
    async with shown(with_gaps(), (120, 40)) as (app, pilot):
        lanes = app.view.lanes
        assert lanes._grid is not None and app.view.window is not None
        await keys(pilot, "6", "0")
        timeline_index = lanes._grid.timeline_index
        lines = lanes._grid.layout.lines
        line = next(i for i, each in enumerate(lines) if each.track == timeline_index.idle_track(0))
        x = label_width(lanes.size.width) + app.view.window.cell_of(200 * US)
        await pilot.click(LanesView, offset=(x, line + lanes._grid.axis_lines))
        assert gap_of(app) == (80, 380)


async def test_streams_in_the_gaps_pane_and_a_trace_without_gpu_have_no_gap_to_select():
    async with shown(with_gaps()) as (app, pilot):
        await keys(pilot, "6")
        app.view.panes.arrange_by(type(app.view.panes.arrangement)(by="stream"))
        await keys(pilot, "enter", "j", "full_stop")
        assert app.view.gap == -1
    async with shown(make_trace([op("aten::mm", 0, 10 * US), op("aten::add", 20 * US, 5 * US)])) as (app, pilot):
        await keys(pilot, "6", "enter", "full_stop", "comma", "j")
        assert app.view.gap == -1


async def test_the_list_of_steps_follows_a_gap():
    events = []
    for number in (1, 2, 3):
        at, key = 1_000 * US * number, 10 * number
        events += [
            step(number, at, 900 * US),
            launch(at + 10 * US, 5 * US, key),
            launch(at + 390 * US, 5 * US, key + 1),
        ]
        events += [kernel("a", at + 20 * US, 20 * US, correlation=key)]
        events += [kernel("b", at + (400 + number) * US, 20 * US, correlation=key + 1)]
    async with shown(make_trace(events), (120, 40)) as (app, pilot):
        await keys(pilot, "A", "6")
        await keys(pilot, "home", "end")
        await keys(pilot, "8")
        view = app.view.panes.view
        await until(pilot, lambda: view.located and view.table is not None and "step" in view.table)
        assert view.table is not None
        assert view.table["step"].cell(view.row) == int(idleness(app.trace).start[app.view.gap]) // (1_000 * US)


async def test_causes_are_named_in_full_where_they_fit(shared_trace):
    trace = load(str(shared_trace("d03_v100_2rank_5steps_mem_occ_nccl.json.gz")))
    longest = np.argsort(-idleness(trace).dur)[:40].tolist()
    gap = next(gap for gap in longest if "Python or unknown" in [WORDS[p.cause] for p in gap_causes_of(trace, gap)[:5]])
    for width in (35, 60):
        lines = [line.text for line in describe_gap(trace, gap, True, width)]
        shares = [line for line in lines if line.startswith("  ") and line.endswith(" %")]
        assert len(shares) > 1 and {len(line) for line in shares} == {width}
        assert any("Python or unknown " in line for line in shares)
