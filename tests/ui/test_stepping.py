"""Stepping through kernels: each press is seen, with what launched the kernel, and leads to its queries and back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.app import Shown, keys, shown, to_pane
from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.model.trace import Trace
from tracetui.tables.occupancy import occupancy
from tracetui.ui.trace.slice_description import chain_of, describe

QUERY = "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
SIZES = [(200, 50), (120, 40), (80, 24)]
GEMM = {"grid": [12, 8, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 49152}


def many() -> Trace:
    """A step of 100 ms with operators of 60 µs; each puts a fill and, after two queries, a product on the stream."""
    events: list[Event] = [step(1, 0, 100_000_000)]
    for number in range(40):
        at, key = 1_000 + number * 2_000_000, 2 * number + 1
        events += [
            op("aten::mm", at, 60_000),
            launch(at + 5_000, 4_000, key),
            launch(at + 15_000, 1_000, 0, QUERY),
            launch(at + 17_000, 1_000, 0, QUERY),
            launch(at + 30_000, 5_000, key + 1),
            kernel("fill", at + 20_000, 3_000, correlation=key),
            kernel("gemm", at + 50_000, 20_000 + 300 * number, correlation=key + 1, args=GEMM),
        ]
    return make_trace(events)


def lanes_of(app: Shown) -> list[str]:
    lanes = app.view.lanes
    return [strip.text for strip in lanes.render_lines(lanes.size.region)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_each_step_is_seen_in_the_lanes_with_the_launch(size: tuple[int, int]) -> None:
    async with shown(many(), size) as (app, pilot):
        await keys(pilot, "full_stop")
        before, start = lanes_of(app), app.trace.slices.start
        for key in [*["full_stop"] * 12, *["comma"] * 6, *["j"] * 3]:
            await keys(pilot, key)
            after, window = lanes_of(app), app.view.window
            assert window is not None and after[1:] != before[1:]
            assert any("▼" in line for line in after[1:])
            for row in (app.view.selected, *app.view.lanes.highlighted):
                assert window.start_ns <= start[row] <= window.end_ns(app.view.lanes.cells)
            before = after


async def test_nothing_of_the_last_line_stays_behind() -> None:
    async with shown(many(), (120, 40)) as (app, pilot):
        await keys(pilot, "full_stop")
        for _ in range(8):
            await keys(pilot, "full_stop")
            partly = lanes_of(app)
            app.view.lanes.changed()
            await pilot.pause()
            assert lanes_of(app) == partly


async def test_the_scale_of_the_user_stays() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, "full_stop", "plus", "plus")
        assert app.view.window is not None
        scale = app.view.window.ns_per_cell
        await keys(pilot, *["full_stop"] * 5)
        assert app.view.window.ns_per_cell == scale


async def test_f_shows_the_three_and_then_the_kernel_alone() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, "full_stop", "f")
        windows = []
        for _ in range(4):
            await keys(pilot, "f")
            windows.append(app.view.window)
        assert windows[0] == windows[2] != windows[1] == windows[3]


async def test_queries_of_a_kernel_are_listed_alone_and_lead_back() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, *["full_stop"] * 5)
        panes, selected = app.view.panes, app.view.selected
        assert app.selected == "gemm"
        await keys(pilot, "u")
        table = panes.table
        assert panes.pane == "occupancy" and app.list.has_focus and table is not None and table.slices is not None
        assert app.list.located and app.list.slice_row == app.view.selected
        wanted = [row for row in app.view.lanes.highlighted if app.trace.name_of(row) in ("gemm", "aten::mm")]
        assert selected in wanted and len(app.list.order) == 2
        assert all(app.trace.name_of(row) == QUERY for row in table.slices[app.list.order])
        assert "Queries for gemm: 2." in app.text("#hints")
        await keys(pilot, "j", "backspace")
        assert (app.view.selected, panes.pane) == (selected, "kernels")
        # Whoever opens the pane by itself finds all of it.
        await keys(pilot, *to_pane("occupancy"))
        assert len(app.list.order) == len(occupancy(app.trace, 1)) == 80


async def test_from_a_query_its_kernel_is_selected_and_esc_lists_all_queries() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, "full_stop", "u")
        kernel_row = app.view.navigator.history.viewpoints[-1].event
        query = app.view.selected
        await keys(pilot, "escape")
        assert len(app.list.order) == 80 and app.list.slice_row == query
        await keys(pilot, "u")
        assert app.trace.slices.event[app.view.selected] == kernel_row


async def test_a_kernel_without_queries_says_so() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, "u")
        assert app.text("#hints") == "No occupancy query was made for fill."
        assert app.view.panes.pane == "kernels"


async def test_the_list_stays_at_the_kernel_whose_operator_is_gone_to() -> None:
    async with shown(many()) as (app, pilot):
        await keys(pilot, *["full_stop"] * 3)
        at = app.list.cursor
        assert app.selected == "gemm"
        await keys(pilot, "g", "g")
        assert app.selected == "aten::mm" and app.list.cursor == at


async def test_a_search_that_is_given_up_leaves_the_window_as_it_was() -> None:
    async with shown(many()) as (app, pilot):
        before = app.view.navigator.here
        await keys(pilot, "slash", "g", "e", "m")
        searched = app.view.navigator.here
        assert searched.length_ns is not None and before.length_ns is not None
        assert searched.length_ns < before.length_ns / 100
        await keys(pilot, "escape")
        after = app.view.navigator.here
        assert after.event == before.event and after.length_ns == pytest.approx(before.length_ns)
        assert after.start_ns == pytest.approx(before.start_ns, abs=1_000_000)


def test_what_is_asked_first_about_a_kernel_stands_first() -> None:
    trace = many()
    row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == "gemm")
    labels = [line.text[:18].strip() for line in describe(trace, row, chain_of(trace, row), 36)]
    assert labels[:7] == ["gemm", "in step 1", "duration", "launch → start", "operator", "source line", "queries"]
    assert labels.index("in words") < 15


async def test_a_kernel_that_is_stepped_to_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[int] = []

    def counting(trace: Trace, row: int, chain: Sequence[int], width: int) -> object:
        described.append(row)
        return describe(trace, row, chain, width)

    monkeypatch.setattr("tracetui.ui.trace.trace_view.describe", counting)
    async with shown(many()) as (app, pilot):
        await keys(pilot, *to_pane("kernels"))
        await keys(pilot, "full_stop")
        described.clear()
        await keys(pilot, *["full_stop"] * 3)
        assert len(described) == len(set(described)) == 3 and described[-1] == app.view.selected
