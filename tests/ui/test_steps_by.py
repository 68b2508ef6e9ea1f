"""Choosing in the app what counts as a step."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.app import Shown, keys, settle, shown, to_pane, training
from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tests.support.waiting import until
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.opening.trace_opening import OpenOptions
from tracetui.ui import app as app_module
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.widgets.bar import step_parts


def calls() -> Trace:
    """Three calls of `train`, with a module and a kernel in each, and too unlike to be steps unasked."""
    events = [Event("a.py(1): main", 0, 4_000_000, Kind.PYTHON)]
    for number in range(3):
        at = 1_000_000 * number + 1_000
        events += [
            Event("a.py(2): train", at, 800_000, Kind.PYTHON),
            Event("nn.Module: GPT_0", at + 10, 300_000, Kind.PYTHON),
            op(("aten::mm", "aten::bmm", "aten::addmm")[number], at + 20_000, 100_000),
            launch(at + 30_000, 5_000, number + 1),
            kernel("gemm", at + 200_000, 300_000, correlation=number + 1),
        ]
    return make_trace(events)


async def test_the_steps_pane_offers_what_repeats_and_enter_chooses() -> None:
    async with shown(calls()) as (app, pilot):
        assert app.view.step is None and "B shows what can count as a step" in app.text("#steps")
        await keys(pilot, "8")
        table = app.list.table
        assert table is not None
        assert [table["steps_by"].cell(row) for row in range(len(table))] == ["train", "GPT_0"]
        await keys(pilot, "enter")
        await until(pilot, lambda: bool(app.view.trace.steps_by), "no steps were chosen")
        await settle(pilot)
        assert app.view.steps == [1, 2, 3] and app.view.panes.pane == "steps"
        assert "by train" in app.text("#steps")
        listed = app.list.table
        assert listed is not None and listed["kernels"].values.tolist() == [1, 1, 1]
        await keys(pilot, "Y")
        assert app.clipboard.startswith("by=train/s")
        await keys(pilot, "right_square_bracket", *to_pane("kernels"))
        listed = app.list.table
        assert listed is not None and len(listed) == 1


def is_by(app: Shown, name: str) -> bool:
    return app.view.trace.steps_by == name


async def test_a_line_chooses_what_counts_as_a_step() -> None:
    async with shown(calls()) as (app, pilot):
        for typed, chosen in (("GPT_0", "GPT_0"), ("auto", ""), ("none", "none")):
            await keys(pilot, "colon", *f"steps-by {typed}", "enter")
            await until(pilot, partial(is_by, app, chosen), f"not by {typed}")
            await settle(pilot)
        await keys(pilot, "colon", *"steps-by nothing", "enter")
        await settle(pilot)
        assert app.view.trace.steps_by == "none"


async def test_what_counts_as_a_step_is_under_the_cursor_of_the_list() -> None:
    async with shown(calls()) as (app, pilot):
        await keys(pilot, "B", "j", "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "GPT_0", "no steps were chosen")
        await settle(pilot)
        await keys(pilot, *to_pane("kernels"), "right_square_bracket", "B")
        assert app.list.table is not None and app.list.table["steps_by"].cell(app.list.row) == "GPT_0"


async def test_a_key_lists_them_from_anywhere_and_other_steps_can_be_taken_back() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, *to_pane("ops"), "m", "B")
        assert app.view.panes.pane == "steps"
        table = app.list.table
        assert table is not None and table["steps_by"].cell(0) == "ProfilerStep#"
        await keys(pilot, "enter")
        await settle(pilot)
        assert app.view.trace.steps_by == "" and app.view.steps == [1, 2, 3]
        # A mark outlives the change.
        assert len(app.view.navigator.marks.marks) == 1


def decodes(outside: int = 0) -> Trace:
    """Two decode steps of a server, and launches outside of them."""
    events = []
    for number in range(2):
        at = 1_000_000 * number
        events += [
            Event("execute_context_0(0)_generation_4(8)", at, 800_000, Kind.ANNOTATION),
            op("aten::mm", at + 20_000, 100_000),
            launch(at + 30_000, 5_000, number + 1),
            kernel("gemm", at + 200_000, 300_000, correlation=number + 1),
        ]
    for number in range(outside):
        at = 2_000_000 + 1_000 * number
        events += [launch(at, 500, 10 + number), kernel("other", at + 600, 100, correlation=10 + number)]
    return make_trace(events)


async def test_the_steps_of_a_server_are_there_at_once_with_what_they_did() -> None:
    async with shown(decodes()) as (app, pilot):
        await settle(pilot)
        assert app.view.steps == [1, 2]
        said = app.text("#steps")
        assert "decode, 4 requests, 8 tokens" in said and "by execute_context_.. annotations" in said
        assert "covers" not in said
        await keys(pilot, "B")
        table = app.list.table
        assert table is not None and table["steps_by"].cell(0) == "execute_context"
        assert table["activities_pct"].cell(0) == 100
        await keys(pilot, "enter")
        await until(pilot, lambda: bool(app.view.trace.steps_by), "no steps were chosen")
        await settle(pilot)
        await keys(pilot, "Y")
        assert app.clipboard.startswith("by=execute_context/")


async def test_steps_that_cover_little_say_so() -> None:
    async with shown(decodes(outside=6)) as (app, pilot):
        await settle(pilot)
        assert "launches only 25 % of the GPU activities" in app.text("#steps")


async def test_a_view_string_takes_its_steps_from_the_trace() -> None:
    trace = with_steps(calls(), "GPT_0")
    async with shown(trace, at="by=GPT_0/s2/kernels") as (app, pilot):
        await settle(pilot)
        assert len(steps(app.view.trace)) == 3
        assert (app.view.step, app.view.panes.pane) == (2, "kernels")
        assert "by GPT_0" in app.text("#steps")


async def test_nothing_repeats_in_a_short_trace() -> None:
    async with shown(make_trace([op("aten::mm", 0, 100)])) as (app, pilot):
        await keys(pilot, "B", "enter", "j", "b", "enter")
        assert app.view.trace.steps_by == ""
        assert "prof.step()" in app.list.note


@pytest.mark.parametrize(("given", "taken"), [(None, "GPT_0"), ("train", "train")])
def test_the_command_line_opens_a_view_string_with_its_steps(
    monkeypatch: pytest.MonkeyPatch, given: str | None, taken: str
) -> None:
    opened: list[TraceApp] = []

    def keep(app: TraceApp) -> int:
        opened.append(app)
        return 0

    monkeypatch.setattr(app_module, "_run", keep)
    assert app_module.run(["t.json"], at="by=GPT_0/s2", options=OpenOptions(given)) == 0
    assert opened[0].options.steps_by == taken


@pytest.mark.full
async def test_chosen_steps_are_compared_and_the_command_says_what_they_are() -> None:
    async with shown(calls()) as (app, pilot):
        await keys(pilot, "8", "enter")
        await until(pilot, lambda: bool(app.view.trace.steps_by), "no steps were chosen")
        await settle(pilot)
        await keys(pilot, "home", "space", "j", "space", "c")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "nothing is compared")
        await settle(pilot)
        await keys(pilot, "Y")
        assert app.clipboard.endswith("'made.json#1' 'made.json#2' --steps-by train")


FRAME = "transformers/models/llama/modeling_llama.py(425): forward"
GUESS = "~ guessed: steps begin where the largest aten::embedding is read"


def steps_line(width: int, steps_by: str, remark: str = "") -> str:
    parts = step_parts(list(range(1, 17)), 12, ("1.88 ms",), width, steps_by, "decode", remark)
    return "".join(part.text for part in parts)


@pytest.mark.parametrize("width", [78, 100, 118])
def test_of_a_long_name_the_function_stays_on_the_line_of_the_steps(width: int) -> None:
    line = steps_line(width, FRAME)
    assert len(line) <= width and "forward   A all steps" in line


def test_what_counts_as_a_step_is_said_in_full_where_there_is_room() -> None:
    assert f"by {GUESS}   A all steps" in steps_line(198, GUESS)
    line = steps_line(118, GUESS, "covers only 40 %")
    assert len(line) <= 118 and "by ~ guessed: steps" in line and line.endswith("…   covers only 40 %   A all steps")


def test_numbers_of_steps_give_way_to_what_counts_as_one_on_a_short_line() -> None:
    assert "9 · 10 · 11 · [12] · 13 · 14 · 15" in steps_line(118, FRAME)
    assert "◂ 11 · [12] · 13 ▸" in steps_line(78, FRAME)
    assert "9 · 10 · 11 · [12] · 13 · 14 · 15" in steps_line(78, "")


def test_requests_and_tokens_give_way_to_the_key_on_a_short_line() -> None:
    def line(width: int) -> str:
        return "".join(part.text for part in step_parts([7, 8], 8, ("2.41 ms",), width, FRAME, "decode, 24 requests"))

    assert "decode, 24 requests   by …" in line(98) and line(98).endswith("forward   A all steps")
    assert len(line(78)) <= 78 and "decode   by …" in line(78) and line(78).endswith("forward   A all steps")


def test_no_key_is_cut_where_the_line_of_the_steps_is_short() -> None:
    for width in range(52, 100):
        parts = step_parts(
            [12, 13, 14], 14, ("period 10.88 ms",), width, "execute_context_0(0)_generation_32(32)", "decode"
        )
        line = "".join(part.text for part in parts)
        assert len(line) <= width and line.endswith("A all steps") and "10.88 ms decode" in line


async def test_the_line_of_the_steps_follows_the_width() -> None:
    async with shown(with_steps(calls(), "a.py(2): train"), (40, 24), "s1") as (app, pilot):
        assert "a.py(2): train" not in app.text("#steps")
        await pilot.resize_terminal(120, 24)
        await settle(pilot)
        assert "by a.py(2): train   A all steps" in app.text("#steps")


def loop() -> Trace:
    """Five iterations that are found unasked, with a module in each."""
    events: list[Event] = []
    for at in range(1_000_000, 6_000_000, 1_000_000):
        events += [
            op("aten::embedding", at, 100_000),
            Event("nn.Module: Net_0", at + 150_000, 300_000, Kind.PYTHON),
            op("aten::mm", at + 200_000, 200_000),
            annotation("Optimizer.step#SGD.step", at + 600_000, 100_000),
        ]
    return make_trace(events)


async def test_the_cursor_stays_where_it_was_moved_though_its_row_is_of_another_step() -> None:
    async with shown(loop()) as (app, pilot):
        await settle(pilot)
        assert app.view.step == 2
        await keys(pilot, "B")
        await settle(pilot)
        table = app.list.table
        assert table is not None and app.list.cursor == 0
        names = [str(table["steps_by"].cell(row)) for row in range(len(table))]
        assert names[:3] == ["optimizer", "none", "Net_0"]
        # The first run of the module is in step 1: the list of sources is the same for every step.
        for index in (1, 2):
            await keys(pilot, "down")
            await settle(pilot)
            assert app.list.cursor == index
        assert app.view.step == 1
        await keys(pilot, "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "Net_0", "other steps were taken")


async def test_steps_that_are_guessed_can_be_turned_off_and_found_again() -> None:
    async with shown(loop(), size=(120, 30)) as (app, pilot):
        await settle(pilot)
        assert "by ~ guessed: optimizer   A" in app.text("#steps")
        await keys(pilot, "B", "down", "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "none", "steps are not turned off")
        await settle(pilot)
        assert app.view.steps == [] and app.text("#steps").startswith("steps turned off: ")
        await keys(pilot, "B")
        await settle(pilot)
        table = app.list.table
        assert table is not None
        assert [table["steps_by"].cell(row) for row in range(2)] == ["optimizer", "auto"]
        await keys(pilot, "down", "enter")
        await until(pilot, lambda: app.view.trace.chosen_steps is None, "steps are not found again")
        await settle(pilot)
        assert app.view.steps == [1, 2, 3, 4, 5]


async def test_steps_turned_on_again_are_at_the_step_that_was_selected() -> None:
    async with shown(loop(), size=(120, 30)) as (app, pilot):
        await keys(pilot, "right_square_bracket", "right_square_bracket")
        assert app.view.step == 4
        await keys(pilot, "B", "down", "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "none", "steps are not turned off")
        await settle(pilot)
        assert app.view.reason("step").startswith("Steps are turned off")
        await keys(pilot, "8")
        assert "turned off: the row auto" in app.list.note
        await keys(pilot, "down", "down", "up", "enter")
        await until(pilot, lambda: app.view.trace.chosen_steps is None, "steps are not found again")
        await settle(pilot)
        assert app.view.step == 4
        await keys(pilot, "colon", *"steps-by none", "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "none", "steps are not turned off")
        await settle(pilot)
        await keys(pilot, "8", "enter")
        await until(pilot, lambda: app.view.trace.steps_by == "optimizer", "steps are not found again")
        await settle(pilot)
        assert app.view.step == 4


@pytest.mark.parametrize("width", [78, 118])
@pytest.mark.parametrize("name", ["optimizer", "operators", "modules", "kernels", "graphs"])
def test_that_steps_are_guessed_is_said_in_full_on_any_line(width: int, name: str) -> None:
    parts = step_parts(list(range(1, 128)), 112, ("112.88 ms",), width, f"~ guessed: {name}", "", "")
    line = "".join(part.text for part in parts)
    assert len(line) <= width and f"by ~ guessed: {name}   A all steps" in line
