"""What is typed into the line at the bottom, and what is typed after it, when all of it arrives at once."""

import pytest
from textual.events import Key

from tests.test_app import Shown, settle, training
from tracetui.ui.trace_view import TraceView

SIZE = (120, 40)
# The second of three steps is on screen first, and its find is the first one gone to.
FIRST = 1


def typed(app, text, *after):
    """A text and the keys after it, all there before the first is looked at."""
    for letter in text:
        app._driver.process_message(Key("slash" if letter == "/" else letter, letter))
    for key in after:
        app._driver.process_message(Key(key, key if len(key) == 1 else None))


@pytest.mark.parametrize(
    ("after", "index"), [((), FIRST), (("n",), 2), (("n", "n"), 0), (("n", "n", "N"), 2), (("n", "down"), 2)]
)
async def test_what_follows_enter_is_for_what_was_searched(after, index):
    app = Shown(training())
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        view = app.screen.query_one(TraceView)
        app.screen.set_focus(view.lanes)
        await settle(pilot)
        typed(app, "/linear", "enter", *after)
        await settle(pilot)
        assert (view.finder.search.text, len(view.finder.search.hits)) == ("linear", 3)
        assert view.finder.search.index == index
        assert not view.finder.line.is_open
        assert app.screen.focused is view.lanes


async def test_what_follows_escape_is_a_command():
    app = Shown(training())
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        view = app.screen.query_one(TraceView)
        typed(app, "/linear", "escape", "2")
        await settle(pilot)
        assert (view.finder.search.text, view.panes.pane) == ("", "ops")


async def test_a_second_search_takes_letters_again():
    app = Shown(training())
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        view = app.screen.query_one(TraceView)
        app.screen.set_focus(view.lanes)
        await settle(pilot)
        typed(app, "/linear", "enter", "n")
        await settle(pilot)
        typed(app, "/view", "enter", "n", "n")
        await settle(pilot)
        assert (view.finder.search.text, view.finder.search.index) == ("view", 1)
