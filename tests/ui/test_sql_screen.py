"""Queries typed over a trace: rows that lead to slices, mistakes in words, stopping, exporting."""

from __future__ import annotations

import pytest

from tests.support.app import Shown, burst, settle, shown, training
from tests.support.waiting import until
from tracetui.ui.trace.sql_screen import SqlScreen

FOREVER = "select count(*) from range(100000000000)"


async def opened(app: Shown, pilot, line: str) -> SqlScreen:
    """The screen that a line behind `:` opens."""
    burst(app, "colon", *line, "enter")
    await until(pilot, lambda: isinstance(app.screen, SqlScreen))
    assert isinstance(app.screen, SqlScreen)
    return app.screen


@pytest.mark.full
async def test_a_row_with_an_event_leads_to_its_slice():
    async with shown(training()) as (app, pilot):
        screen = await opened(app, pilot, "sql select event, name from kernels where name = 'relu_kernel'")
        result = await until(pilot, lambda: screen.result)
        assert result is not None and result.table.slices is not None
        burst(app, "j", "enter")
        await until(pilot, lambda: app.screen is not screen)
        assert app.selected == "relu_kernel"
        assert app.view.selected == int(result.table.slices[1])


async def test_a_row_leads_from_the_overview_to_the_lanes_around_it():
    async with shown(training()) as (app, pilot):
        app.view.action_tab("overview")
        await until(pilot, lambda: app.view.lanes.size.width == 0)
        screen = await opened(app, pilot, "sql select event from kernels where name = 'relu_kernel'")
        await until(pilot, lambda: screen.result)
        burst(app, "j", "enter")
        await until(pilot, lambda: app.screen is not screen and app.view.lanes.size.width > 0)
        await settle(pilot)
        assert app.view.panes.pane == "kernels"
        assert app.selected == "relu_kernel"
        lanes = app.view.lanes
        drawn = [strip.text for strip in lanes.render_lines(lanes.size.region)]
        lanes.changed()
        await settle(pilot)
        assert drawn == [strip.text for strip in lanes.render_lines(lanes.size.region)]


@pytest.mark.full
async def test_a_query_is_typed_and_a_mistake_told():
    async with shown(training()) as (app, pilot):
        screen = await opened(app, pilot, "sql")
        await until(pilot, lambda: screen.search_line.is_open)
        burst(app, *"select count(*) from kern", "tab", "enter")
        result = await until(pilot, lambda: screen.result)
        assert result is not None
        assert [row["count_star()"] for row in result.table.rows()] == [6]
        burst(app, "enter")
        await until(pilot, lambda: "`event`" in screen.hints.text)
        burst(app, "colon", *"select nme from kernels", "enter")
        await until(pilot, lambda: screen.result is None and '"nme"' in screen.table.note)
        burst(app, "colon", "up", "up", "enter")
        await until(pilot, lambda: screen.result is not None)
        assert screen.asked[-1] == "select count(*) from kernels"


@pytest.mark.full
async def test_escape_stops_a_query_and_then_goes_back():
    async with shown(training()) as (app, pilot):
        screen = await opened(app, pilot, f"sql {FOREVER}")
        await until(pilot, lambda: screen._worker is not None)
        burst(app, "escape")
        await until(pilot, lambda: screen.table.note == "Stopped.")
        burst(app, "escape")
        await until(pilot, lambda: app.screen is not screen)


async def test_rows_are_exported():
    async with shown(training()) as (app, pilot):
        screen = await opened(app, pilot, "sql select name from kernels")
        await until(pilot, lambda: screen.result is not None)
        burst(app, "e")
        await until(pilot, lambda: "6 rows written" in screen.hints.text)
