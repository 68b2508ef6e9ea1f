"""Serving and layers on the screen: their tabs, the drawing beside batches, and dim tabs where there is no server."""

from __future__ import annotations

from dataclasses import replace

from tests.support.app import Shown, keys, shown, to_pane
from tests.support.build import Event, annotation, kernel, launch, step
from tests.support.build import make_trace as made
from tests.support.serving import decode, served
from tracetui.linking.placement import activities_of_step_number
from tracetui.model.recorded import Request, RequestLog
from tracetui.model.trace import Trace

LAYER = ["qkv", "attention", "out", "norm"]


def details(app: Shown) -> list[str]:
    return [str(line) for line in app.view.panes.details.lines]


def listed(app: Shown) -> list[object]:
    table = app.list.table
    assert table is not None
    return [table[table.columns[0].name].cell(int(row)) for row in app.list.order]


async def test_batches_of_a_server_are_drawn_in_the_details() -> None:
    trace = served([decode(index, busy=20 + 10 * index, requests=1 + index) for index in range(5)])
    async with shown(trace, (160, 45)) as (app, pilot):
        await keys(pilot, "S")
        assert app.view.panes.pane == "serving"
        assert listed(app) == ["decode"]
        assert not any("decode, ms" in line for line in details(app))
        await keys(pilot, "b")
        assert len(listed(app)) == 5
        assert any("decode, ms" in line for line in details(app))
        await keys(pilot, "b")
        assert not any("decode, ms" in line for line in details(app))


async def test_layers_follow_the_step_and_open_by_number() -> None:
    events: list[Event] = []
    for number in (1, 2):
        events.append(step(number, 2_000_000 * number, 1_000_000))
        for index, name in enumerate(["embedding", *LAYER * (2 + 2 * number), "logits"]):
            at, correlation = 2_000_000 * number + 1_000 + 2_000 * index, 1_000 * number + index
            events += [launch(at, 500, correlation), kernel(name, at + 100_000, 1_000, correlation=correlation)]
    async with shown(made(events), (120, 40), "s1") as (app, pilot):
        await keys(pilot, "L")
        assert app.view.panes.pane == "layers"
        # The layers of the listed step, which are one row.
        assert app.view.panes._count("layers") == "4"
        await keys(pilot, "b")
        first = len(listed(app))
        await keys(pilot, "right_square_bracket")
        assert {first, len(listed(app))} == {4, 6}


async def test_tabs_of_a_training_trace_without_layers_are_dim() -> None:
    trace = made([step(1, 0, 1_000_000), launch(1_000, 500, 1), kernel("gemm", 5_000, 1_000, correlation=1)])
    async with shown(trace, (200, 50)) as (app, pilot):
        await keys(pilot, *to_pane("serving"), *to_pane("layers"), *to_pane("kernels"))
        tabs = {tab.name: tab.is_empty for tab in app.view.panes._tabs()}
        assert (tabs["serving"], tabs["layers"], tabs["kernels"]) == (True, True, False)


async def test_going_into_a_step_shows_no_time_before_the_trace() -> None:
    trace = served([decode(index, busy=60) for index in range(20)])
    async with shown(trace, (120, 40)) as (app, pilot):
        await keys(pilot, "S", "enter")
        first, window = app.view.selected, app.view.window
        assert window is not None and int(trace.slices.start[first]) == trace.window[0]
        assert window.cell_of(trace.window[0]) == 0
        assert window.cell_of(int(trace.slices.end[first])) < app.view.lanes.cells
        # Away from both ends of the trace what was gone into is in sight.
        await keys(pilot, *["right_square_bracket"] * 9, *to_pane("kernels"))
        await keys(pilot, "home", "enter")
        row, window = app.view.selected, app.view.window
        assert window is not None
        assert window.cell_of(int(trace.slices.start[row])) >= 0
        assert window.cell_of(int(trace.slices.end[row])) <= app.view.lanes.cells


def _with_requests(count: int) -> Trace:
    """Decodes, the second of which names the second request."""
    trace = served([decode(index, period=1000) for index in range(5)], [annotation("batch req-bbbb", 1_010_000, 5_000)])
    names = ["req-aaaa", "req-bbbb", *(f"req-{n:04}" for n in range(count - 2))]
    log = RequestLog("server.log", "vLLM", tuple(map(Request, names)), ("1 of 9 lines were read as events.",))
    return replace(trace, request_log=log)


async def test_a_request_leads_to_its_first_step_or_says_why_there_is_none() -> None:
    async with shown(_with_requests(2), (160, 40)) as (app, pilot):
        before = app.view.step
        await keys(pilot, *to_pane("requests"), "home", "enter")
        assert "No annotation of a step has the id" in app.text("#hints")
        assert app.view.step == before != 2
        await keys(pilot, "j", "enter")
        assert app.view.step == 2
        assert app.view.selected == activities_of_step_number(app.trace, 2)[0]


async def test_the_note_of_a_list_is_below_its_rows_or_else_in_the_details() -> None:
    for count, is_below in ((2, True), (90, False)):
        async with shown(_with_requests(count), (160, 50)) as (app, pilot):
            await keys(pilot, *to_pane("requests"))
            lines = " ".join(strip.text.strip() for strip in app.list.render_lines(app.list.size.region))
            assert ("1 of 9 lines were read as events." in lines) == is_below
            assert ("about this list" in " ".join(details(app))) != is_below
            assert ("lines were" in " ".join(details(app))) != is_below
