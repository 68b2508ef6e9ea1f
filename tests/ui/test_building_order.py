"""What is on screen is built first, its group while no key is pressed, then the steps beside; nothing ends the app."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

from tests.support.app import Shown, burst, settle, shown, to_pane, training
from tests.support.waiting import POLL_SECONDS, until
from tracetui.model.table import Table
from tracetui.panes import PANES
from tracetui.ui.trace import pane_list, selection
from tracetui.ui.widgets.details import WAITING_NOTE


@pytest.fixture
def built(monkeypatch):
    """The pane and step of every table, in the order in which they are asked for."""
    order: list[tuple[str, object]] = []
    build = type(PANES["kernels"]).build

    def noted(self, trace, step=None, by=None):
        order.append((self.name, step))
        return build(self, trace, step, by)

    monkeypatch.setattr(type(PANES["kernels"]), "build", noted)
    return order


async def test_the_pane_that_was_asked_for_is_built_first(built):
    async with shown(training(), at="s3/memory"):
        assert built[0] == ("memory", 3)
        assert {name for name, _ in built[1:4]} == {"findings", "summary", "health"}
        assert {step for _, step in built} == {3, None}


@pytest.mark.full
async def test_a_tab_that_is_opened_comes_before_the_others(built, monkeypatch):
    gate = threading.Event()
    findings = PANES["findings"]
    slow = replace(findings, table=lambda *asked: (gate.wait(POLL_SECONDS), findings.table(*asked))[1])
    monkeypatch.setitem(PANES, "findings", slow)
    app = Shown(training())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: ("findings", 2) in built, "the findings are not begun")
        await pilot.press(*to_pane("views"))
        await pilot.pause()
        gate.set()
        await until(pilot, lambda: app.view.panes.table is not None, "the pane is not built")
        assert built[built.index(("findings", 2)) + 1] == ("views", 2)
        await settle(pilot)


async def test_steps_beside_are_there_before_they_are_asked_for(built, monkeypatch):
    monkeypatch.setattr(pane_list, "STEPS_AHEAD", (1, -1))
    async with shown(training()) as (app, pilot):
        assert list(dict.fromkeys(step for name, step in built if name == "kernels")) == [2, 3, 1]
        built.clear()
        await pilot.press("]")
        await settle(pilot)
        assert app.view.step == 3
        assert app.view.panes.table is PANES["kernels"].build(app.trace, 3)
        assert set(built) == {("kernels", 3), ("findings", 3)}


async def test_other_panes_are_built_when_they_are_opened(built, monkeypatch):
    monkeypatch.setattr(pane_list, "STEPS_AHEAD", (1, -1))
    async with shown(training()) as (app, pilot):
        assert {name for name, _ in built} == {"kernels", "findings", "summary", "health"}
        assert {name for name, step in built if step == 3} == {"kernels"}
        await pilot.press("]", *to_pane("memory"))
        await settle(pilot)
        assert ("memory", 3) in built and isinstance(app.view.panes.table, Table)


async def test_the_key_of_a_group_goes_on_from_a_pane_that_lists_nothing(monkeypatch):
    nothing = replace(PANES["gaps"], table=lambda *asked: gaps(*asked).take(np.empty(0, np.int64)))
    gaps = PANES["gaps"].table
    async with shown(training()) as (app, pilot):
        monkeypatch.setitem(PANES, "gaps", nothing)
        for key, pane, has_rows in (("3", "findings", True), ("4", "modules", False), ("4", "layers", False)):
            await pilot.press(key)
            await settle(pilot)
            assert (app.view.panes.pane, len(app.list.order) > 0) == (pane, has_rows)


async def test_the_sentence_about_another_step_goes_where_the_next_takes_its_time(monkeypatch):
    gate, findings = threading.Event(), PANES["findings"]
    slow = replace(
        findings, table=lambda *asked: (asked[1] == 3 and gate.wait(POLL_SECONDS), findings.table(*asked))[1]
    )
    async with shown(training()) as (app, pilot):
        monkeypatch.setitem(PANES, "findings", slow)
        assert app.view.headline.sentence
        await pilot.press("]")
        await until(pilot, lambda: app.view.headline.sentence == WAITING_NOTE, "the sentence stays")
        gate.set()
        await until(pilot, lambda: app.view.headline.sentence == app.view.panes.headline != "", "no sentence comes")


async def test_a_choice_in_a_pane_that_is_being_built_is_made_once_it_is_there():
    async with shown(training()) as (app, pilot):
        burst(app, *to_pane("gaps"), "enter")
        await settle(pilot)
        assert app.view.panes.pane == "gaps" and app.view.gap >= 0


@pytest.mark.usefixtures("breaks")
@pytest.mark.full
async def test_a_defect_of_an_analysis_is_a_sentence_in_its_pane(monkeypatch):
    def fail(*_: object):
        raise ZeroDivisionError("of [bold]\x1b[0mnothing")

    monkeypatch.setitem(PANES, "ops", replace(PANES["ops"], table=fail))
    async with shown(training()) as (app, pilot):
        assert len(app.list.order)
        await pilot.press(*to_pane("ops"))
        await settle(pilot)
        assert "failed with ZeroDivisionError" in app.list.note and "\x1b" not in app.list.note
        await pilot.press(*to_pane("kernels"))
        await settle(pilot)
        assert len(app.list.order) and app.crash == ""
        assert app.view.panes.headline


async def test_quitting_does_not_wait_for_an_analysis(monkeypatch):
    """It asks for its parts as all do, and ends at the next one."""
    begun, ended = threading.Event(), threading.Event()

    def endless(trace, *_: object):
        begun.set()
        try:
            for number in itertools.count():
                trace.keep(f"part {number}", lambda: time.sleep(0.01))
        finally:
            ended.set()

    monkeypatch.setitem(PANES, "findings", replace(PANES["findings"], table=endless))
    app = Shown(training())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, begun.is_set, "the findings are not begun")
        await pilot.press("q")
    assert ended.wait(POLL_SECONDS)
    assert app.crash == "" and app.return_code == 0


async def test_details_say_that_they_are_being_computed(monkeypatch):
    gate = threading.Event()
    prepare = selection.prepare_descriptions

    @wraps(prepare)
    def late(trace):
        gate.wait(POLL_SECONDS)
        prepare(trace)

    monkeypatch.setattr(pane_list, "prepare_descriptions", late)
    app = Shown(training())
    async with app.run_test(size=(200, 50)) as pilot:
        await until(pilot, lambda: len(app.list.order), "no kernels are listed")
        assert [line.text for line in app.view.panes.details.lines] == [WAITING_NOTE]
        await pilot.press(".", "]")
        assert [line.text for line in app.view.panes.details.lines] == [WAITING_NOTE]
        gate.set()
        await settle(pilot)
        assert app.view.panes.details.lines[0].text == "gemm"
