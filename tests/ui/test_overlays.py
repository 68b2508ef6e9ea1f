"""What lies over a screen closes once, and what arrives meanwhile waits: keys come in bursts, traces take a while."""

from __future__ import annotations

import shutil
import threading

import pytest
from textual.command import CommandPalette

from tests.support.app import Shown, burst, settle, to_pane, training
from tests.support.paths import SAMPLES
from tests.support.waiting import POLL_SECONDS, until
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.model.table import Table
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.trace_opening import SideName
from tracetui.reading import load as importer
from tracetui.ui.app import TraceApp
from tracetui.ui.base.keys import commands_of
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.trace.trace_view import TraceView
from tracetui.ui.widgets.picker import HelpScreen

NAMES = ("linear_eager_cpu.json.gz", "mlp_eager_cpu.json.gz")


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        shutil.copy(SAMPLES / name, tmp_path)
    return tmp_path


@pytest.fixture
def gate(monkeypatch):
    """Loads that wait until it is opened."""
    event = threading.Event()

    def load(path, options, progress, cancelled):
        event.wait(POLL_SECONDS)
        return importer.load(path, progress=progress, cancelled=cancelled)

    monkeypatch.setattr("tracetui.ui.opening.loading_screen.open_trace", load)
    yield event
    event.set()


def kinds(app):
    """The screens above the blank one."""
    return [type(screen) for screen in app.screen_stack[1:]]


async def come_to(pilot, kind):
    """Wait for a screen, whatever is still being read for it; a list of traces has to have some."""

    def is_there():
        screen = pilot.app.screen
        return isinstance(screen, kind) and (not isinstance(screen, TracePicker) or screen.choices)

    await until(pilot, is_there, f"no {kind}")


async def reach(pilot, kind):
    await come_to(pilot, kind)
    await settle(pilot)


async def test_enter_pressed_often_opens_a_trace_once(folder):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        burst(app, "enter", "enter", "enter")
        await reach(pilot, TraceScreen)
        assert kinds(app) == [TraceScreen]


@pytest.mark.full
async def test_what_lies_over_a_trace_closes_once():
    app = Shown(training())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for part in (
            what_was_closed_takes_nothing_along,
            what_is_done_with_closes_when_it_is_on_top_again,
            the_list_of_traces_is_opened_once,
            a_row_that_was_chosen_before_another_pane_was_opened_is_of_neither,
            a_command_for_a_screen_that_is_gone_by_now_does_nothing,
            a_command_of_the_palette_that_is_chosen_twice_runs_once,
        ):
            assert kinds(app) == [TraceScreen], f"before {part.__name__}"
            await part(app, pilot)


async def what_was_closed_takes_nothing_along(app, pilot):
    await pilot.press("question_mark")
    help_screen = app.screen
    help_screen.dismiss()
    help_screen.dismiss()
    await settle(pilot)
    assert kinds(app) == [TraceScreen]


async def what_is_done_with_closes_when_it_is_on_top_again(app, pilot):
    await pilot.press("t")
    await settle(pilot)
    below = app.screen
    await pilot.press("question_mark")
    below.dismiss(None)
    await settle(pilot)
    assert kinds(app) == [TraceScreen, TracePicker, HelpScreen]
    await pilot.press("escape")
    await settle(pilot)
    assert kinds(app) == [TraceScreen]


async def the_list_of_traces_is_opened_once(app, pilot):
    burst(app, "t", "t", "t")
    await settle(pilot)
    await pilot.press("t", "question_mark", "t")
    assert kinds(app) == [TraceScreen, TracePicker, HelpScreen]
    await pilot.press("escape", "escape")
    await settle(pilot)


async def a_row_that_was_chosen_before_another_pane_was_opened_is_of_neither(app, pilot):
    await pilot.press(*to_pane("views"), *to_pane("ops"), "end")
    await settle(pilot)
    panes = app.view.panes
    few = panes._tables["views", panes.step, None]
    assert isinstance(few, Table) and app.list.row >= len(few)
    app.list.action_choose()
    panes.open_tab("views")
    await settle(pilot)
    assert panes.pane == "views" and app.is_running


async def a_command_for_a_screen_that_is_gone_by_now_does_nothing(app, pilot):
    app.push_screen(TraceScreen(app.trace, TimelineIndex(app.trace), Viewpoint()))
    await settle(pilot)
    view = app.screen.query_one(TraceView)
    found = next(each for each in commands_of(view) if each.binding.action == "search")
    app.pop_screen()
    await settle(pilot)
    await found.run()
    assert not app.view.finder.line.is_open


async def a_command_of_the_palette_that_is_chosen_twice_runs_once(app, pilot):
    await pilot.press("ctrl+p")
    await settle(pilot)
    palette = app.screen
    assert isinstance(palette, CommandPalette)
    palette._action_command_list("select")
    palette._action_command_list("select")
    await settle(pilot)
    assert kinds(app)[0] is TraceScreen


@pytest.mark.parametrize(
    ("keys", "over"),
    [(["slash", "l", "i", "n"], TraceScreen), (["question_mark"], HelpScreen), (["t"], TracePicker)],
    ids=["search", "help", "picker"],
)
@pytest.mark.full
async def test_ctrl_c_leaves_the_app_from(keys, over):
    app = Shown(training())
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press(*keys)
        await settle(pilot)
        assert kinds(app)[-1] is over and app.view.finder.line.is_open == (keys[0] == "slash")
        await pilot.press("ctrl+c")
        assert app.return_code == 0 and not app.is_running
    assert app.clipboard == ""


@pytest.mark.parametrize("key", ["ctrl+p", "t"])
@pytest.mark.full
async def test_a_trace_that_was_read_waits_until_nothing_lies_over_its_screen(folder, gate, key):
    app = TraceApp([str(folder / NAMES[0])])
    async with app.run_test(size=(100, 30)) as pilot:
        await come_to(pilot, LoadingScreen)
        await pilot.press(key)
        await pilot.pause(0.1)
        over = app.screen
        gate.set()
        await settle(pilot)
        assert app.screen is over and kinds(app)[0] is LoadingScreen
        await pilot.press("escape")
        await reach(pilot, TraceScreen)
        assert kinds(app) == [TraceScreen]


async def test_another_trace_can_be_picked_while_one_is_read(folder, gate):
    app = TraceApp([str(folder)])
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TracePicker)
        chosen = [str(path) for path in app.screen.choices]
        await pilot.press("enter")
        await come_to(pilot, LoadingScreen)
        await pilot.press("t")
        await come_to(pilot, TracePicker)
        gate.set()
        await settle(pilot)
        await pilot.press("j", "enter")
        await reach(pilot, TraceScreen)
        assert kinds(app) == [TraceScreen]
        assert isinstance(app.screen, TraceScreen) and app.screen.path == chosen[1]


@pytest.mark.full
async def test_a_comparison_is_given_up_for_a_trace(folder, gate):
    one, other = (str(folder / name) for name in NAMES)
    app = TraceApp([one, other], sides=(SideName(one), SideName(other)))
    async with app.run_test(size=(100, 30)) as pilot:
        await come_to(pilot, LoadingScreen)
        await pilot.press("t")
        await come_to(pilot, TracePicker)
        await pilot.press("j", "enter")
        gate.set()
        await reach(pilot, TraceScreen | CompareScreen)
        assert kinds(app) == [TraceScreen]
