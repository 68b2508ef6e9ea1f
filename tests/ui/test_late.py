"""Messages to what is no longer on the screen end nothing; a part that is missing on the screen is a defect."""

from __future__ import annotations

import asyncio

import pytest
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.widgets import LoadingIndicator
from textual.worker import WorkerFailed

from tests.support.app import Shown, settle, training
from tracetui.ui.base.crash_safe_app import is_for_removed_widget


def missing(screen, kind) -> NoMatches:
    """What asking a screen for a part that it does not have raises."""
    with pytest.raises(NoMatches) as told:
        screen.query_one(kind)
    return told.value


async def closed_palette(app, pilot) -> CommandPalette:
    """A palette that was on screen and is not any more."""
    await settle(pilot)
    await pilot.press("ctrl+p")
    await settle(pilot)
    palette = app.screen
    assert isinstance(palette, CommandPalette)
    assert palette.query_one(LoadingIndicator)
    await pilot.press("escape")
    await settle(pilot)
    return palette


async def test_what_a_closed_palette_is_told_ends_nothing():
    app = Shown(training())
    async with app.run_test(size=(80, 24)) as pilot:
        palette = await closed_palette(app, pilot)
        app._handle_exception(missing(palette, LoadingIndicator))
        app._handle_exception(WorkerFailed(missing(palette, LoadingIndicator)))
        assert app.crash == ""
        await pilot.press("]")
        await settle(pilot)
        assert app.is_running


async def test_a_part_that_is_missing_on_the_screen_is_a_defect():
    app = Shown(training())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert not is_for_removed_widget(missing(app.screen, LoadingIndicator))


async def test_what_else_goes_wrong_in_a_closed_screen_is_a_defect():
    app = Shown(training())
    async with app.run_test(size=(80, 24)) as pilot:
        palette = await closed_palette(app, pilot)
        with pytest.raises(TypeError) as told:
            palette.query_one()  # type: ignore[call-overload]
        assert not is_for_removed_widget(told.value)


async def test_who_asks_what_is_gone_is_not_left_deaf():
    class Asking(Shown):
        def ask(self, screen):
            screen.query_one(LoadingIndicator)

    app = Asking(training())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot)
        gone = app.screen
        await pilot.press("escape")
        await settle(pilot)
        with pytest.raises(NoMatches) as told:
            app.ask(gone)
        assert not is_for_removed_widget(told.value)


async def test_a_palette_that_is_taken_away_while_it_gathers_ends_nothing():
    app = Shown(training())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for wait in (0, 0.002, 0.005, 0.01, 0.02, 0.04):
            app.action_command_palette()
            await asyncio.sleep(wait)
            app.pop_screen()
            await settle(pilot)
        assert app.is_running and app.crash == ""
