"""The palette of commands: keys that come before its list has a place on screen do nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from rich.style import Style
from textual.command import CommandList, CommandPalette
from textual.events import Click

from tests.support.app import Shown, burst, settle, shown, training


@asynccontextmanager
async def palette(size=(80, 24)):
    """The app with its palette open."""
    async with shown(training(), size) as (app, pilot):
        await pilot.press("ctrl+p")
        await settle(pilot)
        assert isinstance(app.screen, CommandPalette)
        yield app, pilot


MOVES = ("pagedown", "pageup", "down", "up", "shift+end", "shift+home")


@pytest.mark.parametrize("key", MOVES)
@pytest.mark.full
async def test_a_key_does_nothing_where_the_list_has_no_line(key):
    async with palette((80, 3)) as (app, pilot):
        await pilot.press(key)
        await pilot.press("escape")
        assert not isinstance(app.screen, CommandPalette)


@pytest.mark.parametrize("seconds", [0, 0.004, 0.008, 0.012, 0.016, 0.02, 0.03])
@pytest.mark.full
async def test_a_key_right_behind_the_one_that_opens_it_is_taken(seconds):
    app = Shown(training())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key in ("ctrl+p", "pagedown", "pageup"):
            burst(app, key)
            await asyncio.sleep(seconds)
        await settle(pilot)
        assert isinstance(app.screen, CommandPalette)


async def test_a_page_of_commands_is_a_page():
    async with palette() as (app, pilot):
        found = app.screen.query_one(CommandList)
        assert found.highlighted == 0
        await pilot.press("pagedown")
        assert found.highlighted is not None and found.highlighted > 3
        await pilot.press("pageup")
        assert found.highlighted == 0


async def test_a_click_on_what_is_not_listed_any_more_does_nothing():
    async with palette() as (app, pilot):
        found = app.screen.query_one(CommandList)
        style = Style.from_meta({"option": found.option_count})
        found.post_message(Click(found, 1, 1, 0, 0, 1, False, False, False, 1, 1, style))
        await settle(pilot)
        assert isinstance(app.screen, CommandPalette)
        await pilot.press("escape")
        await settle(pilot)
        assert not isinstance(app.screen, CommandPalette)


@pytest.mark.full
async def test_a_click_runs_a_command():
    async with palette((120, 40)) as (app, pilot):
        await pilot.press(*"pane ops")
        await settle(pilot)
        await pilot.click(CommandList, offset=(4, 1))
        await settle(pilot)
        assert not isinstance(app.screen, CommandPalette)
        assert app.view.panes.pane == "ops"
