"""The flame view: going in and out, what its width stands for, search, the timeline, exports."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.support.app import Shown, keys, shown, training
from tests.support.build import make_trace, op, python
from tests.support.waiting import until
from tracetui.ui.trace.flame_screen import FlameScreen
from tracetui.ui.widgets.bar import Bar


async def open_flame(app: Shown, pilot: Pilot[int], *more: str) -> FlameScreen:
    await keys(pilot, "P")
    await until(pilot, lambda: isinstance(app.screen, FlameScreen) and app.screen.flame.icicle is not None)
    await keys(pilot, *more)
    assert isinstance(app.screen, FlameScreen)
    return app.screen


def current(screen: FlameScreen) -> str:
    assert screen.flame.icicle is not None
    return screen.flame.icicle.bare_name(screen.flame.look.cursor)


def whole(screen: FlameScreen) -> str:
    """The row that has the whole width."""
    assert screen.flame.icicle is not None
    return screen.flame.icicle.bare_name(screen.flame.look.top)


def text(screen: FlameScreen, bar: str) -> str:
    return screen.query_one(bar, Bar).text


async def test_arrows_move_enter_goes_in_and_escape_out_to_the_lists() -> None:
    async with shown(training()) as (app, pilot):
        screen = await open_flame(app, pilot)
        assert (current(screen), whole(screen)) == ("step 2", "step 2")
        await keys(pilot, "j", "l")
        assert current(screen) == "aten::relu"
        await keys(pilot, "h", "enter")
        assert (current(screen), whole(screen)) == ("aten::linear", "aten::linear")
        assert "200 µs of GPU time, 80 %" in text(screen, "#row")
        await keys(pilot, "down", "up", "escape")
        assert whole(screen) == "step 2"
        await keys(pilot, "escape")
        assert app.screen is not screen


async def test_one_key_goes_through_gpu_cpu_and_idle_time_and_another_through_rows() -> None:
    async with shown(training(), (80, 24)) as (app, pilot):
        screen = await open_flame(app, pilot, "P")
        await until(pilot, lambda: screen.table is not None and "cpu_us" in screen.table)
        assert "CPU time" in text(screen, "#title")
        await keys(pilot, "P")
        await until(pilot, lambda: screen.table is not None and "idle_us" in screen.table)
        await keys(pilot, "b")
        assert screen.place.rows == "op"
        await keys(pilot, "P", "right_square_bracket")
        await until(pilot, lambda: whole(screen) == "step 3")
        await keys(pilot, "A")
        await until(pilot, lambda: whole(screen) == "whole trace")


async def test_it_opens_where_it_was_left() -> None:
    async with shown(training()) as (app, pilot):
        await open_flame(app, pilot, "P", "j", "enter")
        await keys(pilot, "q")
        screen = await open_flame(app, pilot)
        assert (whole(screen), screen.place.measure) == ("aten::linear", "cpu")


async def test_the_longest_slice_is_gone_to_in_the_timeline_and_backspace_comes_back() -> None:
    async with shown(training()) as (app, pilot):
        before = app.selected
        await open_flame(app, pilot, "j", "l", "enter")
        await keys(pilot, "enter")
        assert app.selected == "relu_kernel" and app.view.lanes.has_focus
        await keys(pilot, "backspace")
        assert app.selected == before


async def test_idle_time_leads_to_its_gap() -> None:
    async with shown(training()) as (app, pilot):
        await open_flame(app, pilot, "P", "P")
        await keys(pilot, "g")
        assert app.view.gap >= 0


async def test_a_search_marks_names_says_their_share_and_is_left_first() -> None:
    async with shown(training()) as (app, pilot):
        screen = await open_flame(app, pilot, "slash", *"relu", "enter")
        assert len(screen.flame.look.hits) == 2 and "'relu': 2 rows, 20 % of all" in text(screen, "#row")
        assert current(screen) == "aten::relu"
        await keys(pilot, "full_stop")
        assert current(screen) == "relu_kernel"
        await keys(pilot, "n")
        assert current(screen) == "aten::relu"
        await keys(pilot, "escape")
        assert not screen.flame.look.hits and app.screen is screen


async def test_what_it_exports_is_said_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with shown(training(), (200, 50)) as (app, pilot):
        screen = await open_flame(app, pilot, "e")
        (path,) = tmp_path.rglob("*.folded")
        assert "step 2;aten::linear;gemm 200000\n" in path.read_text()
        assert path.name in text(screen, "#hints") and list(tmp_path.rglob("*.speedscope.json"))


async def test_a_trace_without_a_gpu_has_cpu_time_alone() -> None:
    trace = make_trace([op("aten::mm", 0, 900), op("aten::t", 10, 100), python("nn.Module: Net_0", 2_000, 50)])
    async with shown(trace) as (app, pilot):
        screen = await open_flame(app, pilot, "P")
        assert screen.table is not None and "cpu_us" in screen.table
        assert "CPU time alone" in text(screen, "#hints")


async def test_a_part_without_any_time_says_so() -> None:
    async with shown(make_trace([op("aten::mm", 0, 0)])) as (app, pilot):
        await keys(pilot, "P")
        await until(pilot, lambda: isinstance(app.screen, FlameScreen) and app.screen.has_class("-empty"))
        assert "There is no CPU time in the whole trace." in app.screen.query_one("#note", Bar).text


async def test_a_tree_that_fails_costs_the_view_alone(breaks) -> None:
    breaks("tracetui.tables.flame._merged")
    async with shown(training()) as (app, pilot):
        await keys(pilot, "P")
        await until(pilot, lambda: isinstance(app.screen, FlameScreen) and app.screen.has_class("-empty"))
        assert "The pane flame" in app.screen.query_one("#note", Bar).text
        await keys(pilot, "escape")
        assert not isinstance(app.screen, FlameScreen)
