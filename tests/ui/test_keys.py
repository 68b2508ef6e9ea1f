"""Every key has one meaning, which the code, the documents, the help and the palette agree on."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

import tracetui.ui
from tests.support.app import Shown, burst, keys, settle, shown, training
from tests.support.build import kernel, launch, make_trace, op
from tests.support.paths import ROOT
from tests.support.waiting import until
from tracetui.drawing.timeline.legend import legend_lines
from tracetui.drawing.timeline.window import Window
from tracetui.opening.trace_opening import SideName
from tracetui.ui.app import TraceApp
from tracetui.ui.base.keys import (
    DECLARED,
    EVERYWHERE,
    KEYS_BY_NAME,
    LISTS,
    TABS,
    TIMELINE,
    all_commands,
    where_it_works,
)
from tracetui.ui.trace.marks import MarkPicker
from tracetui.ui.trace.pane_parts import GROUP_COMMANDS, PANE_COMMANDS
from tracetui.ui.widgets import bar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.lanes import LanesView
from tracetui.ui.widgets.picker import HelpScreen, Picker, help_rows
from tracetui.ui.widgets.searchable_view import SizedScreen
from tracetui.ui.widgets.surface import Legend
from tracetui.ui.widgets.table_view import TableView

SIZES = [(200, 50), (80, 24)]

ACTIONS = {
    "0": "fit_trace",
    "a": "attach pan",
    "backspace": "back leave leave_below",
    "c": "compare",
    "comma": "hit kernel moment slice",
    "d": "pan",
    "e": "export",
    "end": "end_of_row go",
    "enter": "accept choose jump keep_range",
    "escape": "cancel clear close dismiss_none give_up leave stop stop_comparing stop_looking",
    "f": "fit_selection",
    "g": "follow open_rank open_slice",
    "h": "columns pan sideways turn",
    "home": "end_of_row go",
    "i": "details",
    "j": "field lane move",
    "m": "mark",
    "minus": "zoom",
    "o": "sort",
    "q": "close dismiss_none quit",
    "question_mark": "close help",
    "r": "record",
    "s": "tab",
    "shift+tab": "field part",
    "slash": "search",
    "space": "mark mark_part turn",
    "tab": "field part",
    "w": "zoom",
    "x": "measure",
    "z": "fold",
}
"""What the keys that a finger finds first are bound to, on all screens together."""


def bindings() -> list[Binding]:
    """Every command that a class of the screen declares."""
    found = []
    for module in pkgutil.walk_packages(tracetui.ui.__path__, "tracetui.ui."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name:
                found += [one for one in each.__dict__.get("BINDINGS", ()) if isinstance(one, Binding)]
    return found


def key_of(names: str) -> list[str]:
    """The declarations that keys belong to."""
    return sorted({KEYS_BY_NAME[name].names for name in names.split(",")})


def test_no_key_is_declared_twice():
    names = [name for key in DECLARED for name in key.names.split(",")]
    assert sorted(set(names)) == sorted(names)
    assert all(key.meaning and key.where for key in DECLARED)


def test_every_binding_is_of_one_declared_key_and_every_declared_key_is_bound():
    bound = bindings()
    assert [each.action for each in bound if len(key_of(each.key)) != 1] == []
    assert set(KEYS_BY_NAME) == {name for each in bound for name in each.key.split(",")}


def test_keys_do_what_they_mean_on_every_screen():
    actions = defaultdict(set)
    for each in bindings():
        for name in each.key.split(","):
            actions[name].add(each.action.partition("(")[0])
    assert {name: " ".join(sorted(actions[name])) for name in ACTIONS} == ACTIONS


def test_the_document_lists_the_declared_keys():
    told = re.findall(r"^\| (`.+?`) \| (.+) \|$", (ROOT / "docs" / "screen.md").read_text(), re.MULTILINE)
    panes = {row for row in told if row[0].strip("`") in TABS.names.split(",")}
    declared = [(" ".join(f"`{each}`" for each in key.shown), key.meaning) for key in DECLARED]
    assert [row for row in told if row not in panes] == declared


async def opened_with(words: list[SideName], pilot: Pilot[int]) -> None:
    await until(pilot, lambda: any(isinstance(each, LanesView) for each in pilot.app.screen.walk_children()))
    await settle(pilot)


@pytest.mark.parametrize("compares", [False, True], ids=["one trace", "two traces"])
@pytest.mark.full
async def test_help_and_palette_list_the_declared_keys(compares, eager, compiled):
    app = TraceApp([eager.path], sides=(eager, compiled) if compares else None)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened_with([eager], pilot)
        here = "in a comparison" if compares else "in a trace"
        wanted = {key for key in DECLARED if here in key.where or key.where in (EVERYWHERE, TIMELINE, LISTS)}
        wanted -= {key for key in wanted if compares and key.names in ("c", "space")}
        shown_keys = {each for key in wanted for each in key.shown}
        used = set("123") if compares else {each.key for each in (*GROUP_COMMANDS, *PANE_COMMANDS)}
        tabs = set(TABS.names.split(",")) - used
        palette = {each for command in all_commands(app.screen) for each in command.keys}
        assert palette == shown_keys - tabs
        in_help = set()
        assert isinstance(app.screen, SizedScreen)
        for part in app.screen.view.parts:
            app.screen.set_focus(part)
            await pilot.pause()
            in_help |= {each for row in help_rows(app.screen, None) for each in row[0].split()}
        assert in_help == shown_keys - tabs


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_tab_goes_to_list_timeline_details_and_escape_goes_back(size):
    async with shown(training(), size) as (app, pilot):
        order = ["OverviewList", "LanesView", "Details"] if size[0] > 100 else ["OverviewList", "LanesView"]
        seen = []
        for _ in order:
            seen.append(type(app.focused).__name__)
            await pilot.press("tab")
        assert seen == order and type(app.focused).__name__ == "OverviewList"
        await pilot.press("shift+tab")
        assert type(app.focused).__name__ == order[-1]
        await pilot.press("escape")
        assert type(app.focused).__name__ == "OverviewList"
        await pilot.press("escape")
        assert app.text("#hints") == "There is nothing to go back from: q quits."


@pytest.mark.parametrize("size", SIZES)
async def test_the_part_with_the_keys_is_marked_in_itself_and_no_other(size):
    async with shown(training(), size) as (app, pilot):
        await keys(pilot, *["i"] * (size == SIZES[1]))
        for focused in (part for part in app.view.parts if part.region.area):
            app.screen.set_focus(focused)
            await settle(pilot)
            lines = [strip.text for strip in app.screen._compositor.render_strips()]
            for part in (part for part in app.view.parts if part.region.area):
                assert (lines[part.region.y][part.region.x] == "▌") == (part is focused), (focused, part)


def window(app: Shown) -> Window:
    """What the timeline shows."""
    assert app.view.window is not None
    return app.view.window


@pytest.mark.full
async def test_the_timeline_is_moved_from_every_part():
    async with shown(training()) as (app, pilot):
        for part in (app.list, app.view.lanes, app.view.query_one(Details)):
            app.screen.set_focus(part)
            first = window(app)
            await pilot.press("w")
            assert window(app).ns_per_cell < first.ns_per_cell
            zoomed = window(app)
            await pilot.press("d")
            assert window(app).start_ns > zoomed.start_ns
            await pilot.press("a", "-")
            await pilot.press("f")
            assert window(app).end_ns(app.view.lanes.cells) - window(app).start_ns < 1_000_000
            await pilot.press("backspace")
            assert window(app).ns_per_cell > zoomed.ns_per_cell


async def test_the_link_is_followed_by_one_key_from_every_part():
    async with shown(training()) as (app, pilot):
        for part in (app.list, app.view.lanes, app.view.query_one(Details)):
            app.screen.set_focus(part)
            await pilot.press("g")
            assert app.selected == "cudaLaunchKernel"
            await pilot.press("G")
            assert app.selected == "gemm"


async def test_home_and_end_go_to_the_first_and_last_of_a_row():
    async with shown(training()) as (app, pilot):
        app.screen.set_focus(app.view.lanes)
        for key, number in (("end", 3), ("home", 1)):
            await pilot.press(key)
            await settle(pilot)
            assert (app.view.step, app.selected) == (number, "relu_kernel" if key == "end" else "gemm")


JUMPS = {
    "fit the trace": ("0",),
    "fit the selection": ("f",),
    "the next of the same name": ("greater_than_sign",),
    "a link": ("g",),
    "a step": ("right_square_bracket",),
    "a row": ("j", "enter"),
    "a search": ("slash", "r", "e", "l", "u", "enter"),
    "the next match": ("slash", "r", "e", "l", "u", "enter", "n"),
    "the last slice": ("tab", "end"),
}


@pytest.mark.parametrize("name", JUMPS)
@pytest.mark.full
async def test_backspace_undoes(name):
    async with shown(training()) as (app, pilot):
        view = app.view
        before = view.navigator.here
        await keys(pilot, *JUMPS[name])
        assert view.navigator.here != before
        for _ in JUMPS[name]:
            if view.navigator.history.viewpoints:
                await keys(pilot, "backspace")
        after = view.navigator.here
        assert after.start_ns == pytest.approx(before.start_ns)
        # A row was moved to before it was gone into.
        assert name == "a row" or (after.event, after.step) == (before.event, before.step)


async def test_backspace_undoes_a_jump_with_its_focus():
    async with shown(training()) as (app, pilot):
        before = app.view.navigator.here
        await keys(pilot, "enter")
        assert app.view.lanes.has_focus
        await keys(pilot, "backspace")
        assert app.list.has_focus and app.view.navigator.here.start_ns == pytest.approx(before.start_ns)
        await keys(pilot, "o")
        assert "works" not in app.text("#hints") and app.view.panes.arrangement.sort is not None
        # A jump that stays in its part leaves the focus where it was moved to since.
        await keys(pilot, "f", "tab", "backspace")
        assert app.view.lanes.has_focus
        # What fits already is left for the lanes alone.
        app.screen.set_focus(app.list)
        await keys(pilot, "enter", "tab", "shift+tab")
        app.screen.set_focus(app.list)
        await keys(pilot, "enter", "backspace")
        assert app.list.has_focus


async def test_a_key_that_does_nothing_here_says_where_it_does():
    async with shown(training()) as (app, pilot):
        for key, sentence in {
            "X": "X (swap A and B) works in a comparison.",
            "r": "r (record a new trace) works in the list of traces.",
            "backspace": "There is no jump to undo.",
            "n": "There is no search whose matches could be walked: / searches.",
            "i": "The details stand beside the list: tab goes there.",
            "J": "J does nothing: ? lists the keys.",
        }.items():
            await pilot.press(key)
            assert app.text("#hints") == sentence


@pytest.mark.full
async def test_a_key_of_other_parts_names_them_in_the_lanes():
    async with shown(training()) as (app, pilot):
        for key in ("ctrl+d", "pageup", "enter"):
            app.screen.set_focus(app.view.lanes)
            await pilot.press(key)
            assert app.text("#hints").endswith("works in the list and the details.")
            app.screen.set_focus(app.list)
            await pilot.press(key)
            assert "works" not in app.text("#hints")


async def test_backspace_after_a_jump_that_led_nowhere_says_that_there_is_none():
    async with shown(training()) as (app, pilot):
        await pilot.press("0", "backspace")
        await pilot.press("f", "f", "backspace", "backspace", "f5")
        assert app.text("#hints") == "F5 does nothing: ? lists the keys."
        app.screen.set_focus(app.view.query_one(Details))
        app.view.navigator.leave()
        await pilot.press("backspace")
        assert app.text("#hints") == "There is no jump to undo."


async def test_a_trace_without_steps_says_so_to_the_keys_of_steps():
    events = [op("aten::mm", 0, 1000), launch(10, 5, 1), kernel("gemm", 100, 500, correlation=1)]
    async with shown(make_trace(events)) as (app, pilot):
        await pilot.press("A")
        assert app.text("#hints") == "The profiler recorded no steps: B shows what can count as one."


@pytest.mark.full
async def test_what_a_burst_undoes_is_not_called_impossible():
    async with shown(training()) as (app, pilot):
        burst(app, "g", "backspace")
        await settle(pilot)
        assert app.selected == "gemm"
        assert "no jump" not in app.text("#hints")


async def test_a_notice_goes_with_the_next_key():
    async with shown(training()) as (app, pilot):
        await pilot.press("g")
        assert app.text("#hints").startswith("Now at cudaLaunchKernel")
        await pilot.press("full_stop")
        await until(pilot, lambda: "follow" in app.text("#hints"), "the notice stays")
        await pilot.press("g", "g")
        await pilot.pause(2 * bar.AFTER_KEY_SECONDS)
        assert app.text("#hints").startswith("Now at")


@pytest.mark.parametrize("name", ["X", "f1", "Q", "left", "ctrl+w"])
def test_where_a_key_works_is_a_sentence(name):
    sentence = where_it_works(name, name if len(name) == 1 else None)
    assert (
        sentence
        == {
            "X": "X (swap A and B) works in a comparison.",
            "f1": "F1 does nothing: ? lists the keys.",
            "ctrl+w": "",
            "Q": "Q does nothing: ? lists the keys.",
            "left": "← (left) has no use here.",
        }[name]
    )


@pytest.mark.parametrize(
    ("part", "first"),
    [
        ("lanes", "Row below, row above"),
        ("list", "Next row, previous row"),
        ("details", "Next link or line, previous link or line"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.full
async def test_the_help_begins_with_the_keys_of_the_focus_and_has_a_legend(part, first, size):
    async with shown(training(), size) as (app, pilot):
        if part == "details" and size[0] < 110:
            await pilot.press("i")
        app.screen.set_focus({"list": app.list, "lanes": app.view.lanes, "details": app.view.query_one(Details)}[part])
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        table = app.screen.query_one(TableView).table
        assert table is not None and table["does"].cell(0) == first
        legend = app.screen.query_one(Legend)
        assert legend.size.height == len(legend_lines(legend.colours, legend.size.width))
        assert app.screen.query_one(TableView).size.height >= 6


async def test_marks_are_listed_by_slice_step_and_index():
    async with shown(training()) as (app, pilot):
        await keys(pilot, "m", "full_stop", "m", "g", "m", "right_square_bracket", "m", "0", "apostrophe")
        assert isinstance(app.screen, MarkPicker)
        table = app.screen.query_one(TableView).table
        assert table is not None
        cells = [tuple(table[name].cell(i) for name in ("mark", "step", "index", "start")) for i in range(len(table))]
        assert cells == [
            ("gemm", "2", "1", "60.0 µs"),
            ("relu_kernel", "2", "2", "440.0 µs"),
            ("cudaLaunchKernel", "2", None, "410.0 µs"),
            ("gemm", "3", "1", "60.0 µs"),
        ]


@pytest.mark.parametrize("key", ["apostrophe", "c"])
@pytest.mark.full
async def test_a_picker_is_mounted_once(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual calls the handlers of base classes by itself."""
    titled: list[str] = []
    monkeypatch.setattr(Picker, "show_title", lambda picker, remark="": titled.append(picker.TITLE_TEXT))
    async with shown(training()) as (app, pilot):
        await keys(pilot, "m", key)
        assert isinstance(app.screen, Picker)
        assert titled == [app.screen.TITLE_TEXT]


async def test_two_tabs_in_one_burst_go_two_parts_on():
    async with shown(training()) as (app, pilot):
        burst(app, "tab", "tab")
        await settle(pilot)
        assert isinstance(app.focused, Details)
