"""Keys of one burst do what the same keys do one by one, whatever gets the focus on the way."""

from __future__ import annotations

import random

import pytest
from textual.app import App
from textual.events import Key, Paste
from textual.screen import Screen
from textual.widgets import Input

from tests.support.app import burst, keys, settle, shown
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.waiting import until
from tracetui.ui.base import crash_safe_app
from tracetui.ui.base.crash_safe_app import Climbed, KeyOrder

KEYS = (
    "full_stop", "comma", "j", "k", "a", "d", "w", "s", "plus", "minus", "f", "0", "tab", "shift+tab", "1", "2", "3",
    "4", "5", "6", "o", "O", "g", "G", "backspace", "enter", "escape", "slash", "l", "n", "F", "question_mark",
)  # fmt: skip
"""Without a range of time: its rows come from a thread, which no key waits for."""


def one_step():
    """A step of four ops with a kernel each; the rows of another step would come from a thread."""
    events = [step(1, 0, 4_000_000)]
    for number, name in enumerate(["alpha", "beta", "gamma", "delta"]):
        at = 1_000_000 * number
        events += [op("aten::linear", at + 10_000, 300_000), launch(at + 20_000, 5_000, number)]
        events.append(kernel(name, at + 60_000, 200_000, correlation=number))
    return make_trace(events)


def state(app):
    """What is on screen, as far as keys decide it."""
    view, focused = app.view, app.focused
    window = view.window and (view.window.first, view.window.ns_per_cell)
    arrangement = view.panes.arrangement
    shown = view.selected, view.gap, window, view.panes.pane, view.step, arrangement.sort, arrangement.filter
    return *shown, type(app.screen).__name__, type(focused).__name__, getattr(focused, "value", None)


async def state_after(names, in_a_burst):
    async with shown(one_step()) as (app, pilot):
        if in_a_burst:
            burst(app, *names)
            await until(pilot, lambda: not app._key_order.holds, "keys are held for ever")
            await settle(pilot)
        else:
            for name in names:
                await keys(pilot, name)
        return state(app)


def chosen(seed, count):
    source = random.Random(seed)
    return [source.choice(KEYS) for _ in range(count)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.full
async def test_a_burst_does_what_single_keys_do(seed):
    names = chosen(seed, 14)
    assert await state_after(names, True) == await state_after(names, False), names


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 108))
async def test_longer_bursts_do_what_single_keys_do(seed):
    names = chosen(seed, 30)
    assert await state_after(names, True) == await state_after(names, False), names


async def test_what_is_pasted_behind_a_key_goes_where_the_key_led():
    async with shown(one_step()) as (app, pilot):
        burst(app, "slash")
        assert app._driver is not None
        app._driver.process_message(Paste("gamma"))
        burst(app, "enter")
        await until(pilot, lambda: app.selected == "gamma" and not isinstance(app.focused, Input))


@pytest.mark.full
async def test_keys_go_on_when_the_one_before_removed_the_widget_it_went_to():
    class Passing(Screen):
        BINDINGS = [("q", "leave")]

        def compose(self):
            yield Input(id="typed")

        def key_ctrl_o(self):
            self.query_one(Input).remove()

    async with shown(one_step()) as (app, pilot):
        await app.push_screen(Passing())
        burst(app, "ctrl+o", "x", "y", "escape")
        await until(pilot, lambda: not app._key_order.holds, "keys are held for ever")


@pytest.mark.full
async def test_a_marker_that_is_lost_holds_no_key_for_long(monkeypatch):
    async with shown(one_step()) as (app, pilot):
        post = app.list.post_message
        monkeypatch.setattr(app.list, "post_message", lambda message: isinstance(message, Climbed) or post(message))
        monkeypatch.setattr(crash_safe_app, "LOOK_SECONDS", 0.01)
        burst(app, "j", "6")
        await until(pilot, lambda: app.view.panes.pane == "gaps")


async def test_keys_that_are_left_when_the_last_screen_is_gone_are_dropped():
    handled = []

    async def handle(event):
        handled.append(event)

    order = KeyOrder(App(), handle)
    await order.take(Key("j", "j"))
    assert not handled and not order.holds
