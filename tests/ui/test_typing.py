"""What is typed into the line at the bottom, and what is typed after it, when all of it arrives at once."""

from contextlib import asynccontextmanager

import pytest
from textual.events import Key

from tests.support.app import burst, settle, shown, to_pane, training
from tests.support.waiting import until
from tracetui.ui.widgets.list_finder import TypedText

SIZE = (120, 40)
# The second of three steps is on screen first, and its find is the first one gone to.
FIRST = 1


@asynccontextmanager
async def lanes_shown():
    """The app with the keys in its lanes."""
    async with shown(training(), SIZE) as (app, pilot):
        app.screen.set_focus(app.view.lanes)
        await settle(pilot)
        yield app, pilot


@pytest.mark.parametrize(
    ("after", "index"), [((), FIRST), (("n",), 2), (("n", "n"), 0), (("n", "n", "N"), 2), (("n", "down"), 2)]
)
@pytest.mark.full
async def test_what_follows_enter_is_for_what_was_searched(after, index):
    async with lanes_shown() as (app, pilot):
        view = app.view
        burst(app, "slash", *"linear", "enter", *after)
        await settle(pilot)
        assert (view.finder.search.text, len(view.finder.search.hits)) == ("linear", 3)
        assert view.finder.search.index == index
        assert not view.finder.line.is_open
        assert app.screen.focused is view.lanes


async def test_what_follows_escape_is_a_command():
    async with shown(training(), SIZE) as (app, pilot):
        view = app.view
        burst(app, "slash", *"linear", "escape", *to_pane("ops"))
        await settle(pilot)
        assert (view.finder.search.text, view.panes.pane) == ("", "ops")


@pytest.mark.full
async def test_a_second_search_takes_letters_again():
    async with lanes_shown() as (app, pilot):
        view = app.view
        burst(app, "slash", *"linear", "enter", "n")
        await settle(pilot)
        burst(app, "slash", *"view", "enter", "n", "n")
        await settle(pilot)
        assert (view.finder.search.text, view.finder.search.index) == ("view", 1)


async def test_a_key_that_reaches_the_line_after_it_has_closed_is_not_lost():
    async with shown(training(), SIZE) as (app, pilot):
        burst(app, "F", *"gemm", "enter")
        await settle(pilot)
        assert app.view.panes.arrangement.filter == "gemm"
        # It was on its way when the keys went back to the list.
        app.screen.query_one(TypedText).post_message(Key("escape", None))
        await until(pilot, lambda: app.view.panes.arrangement.filter == "")


async def test_an_escape_right_behind_enter_clears_what_enter_accepted():
    async with shown(training()) as (app, pilot):
        burst(app, "F", *"gemm", "enter", "escape")
        await settle(pilot)
        assert not app.view.is_searched
        assert app.focused is app.list
