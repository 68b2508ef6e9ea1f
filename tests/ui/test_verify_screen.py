"""`:verify` in a trace: what it says without a process, and that leaving stops the process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tracetui_workloads.recording.launcher import Outcome, Stage

from tests.support.app import burst, shown
from tests.support.build import make_trace, op, step
from tests.support.waiting import until
from tracetui.ui.trace import verify_screen
from tracetui.ui.trace.verify_screen import VerifyScreen

MACHINE = {"name": "a CPU", "torch": "2", "threads": 1}
ANSWER = {"why": None, "notes": ["odd \x1b[31m"], "children": "same", "kernels": None}
ANSWER |= {"refused": None, "times": []}


INPUTS = {"Input Dims": [[4, 4], []], "Input type": ["float", "Scalar"], "Input Strides": [[4, 1], []]}
CALL = op("aten::add", 0, 100, args={**INPUTS, "Concrete Inputs": ["", "1"]})


async def opened(app, pilot, line):
    burst(app, "colon", *"op add", "enter")
    burst(app, "colon", *line, "enter")
    await until(pilot, lambda: isinstance(app.screen, VerifyScreen))
    return app.screen


@pytest.mark.full
async def test_the_answer_stands_there_and_escape_goes_back(monkeypatch):
    asked = []

    async def record(request, hear, cancel):
        asked.append(request.operators)
        hear(Stage("timing"))
        return Outcome(None, None, metadata={"operators": [ANSWER], "machine": MACHINE})

    monkeypatch.setattr(verify_screen, "record", record)
    async with shown(make_trace([CALL])) as (app, pilot):
        screen = await opened(app, pilot, "verify bf16")
        await until(pilot, lambda: any("operators: same" in line for line in screen.lines), str(screen.lines))
        assert asked and screen.alternatives == ["bf16"] and not any("\x1b" in line for line in screen.lines)
        burst(app, "escape")
        await until(pilot, lambda: app.screen is not screen)


@pytest.mark.full
async def test_leaving_stops_the_process(monkeypatch):
    ended = asyncio.Event()

    async def record(request, hear, cancel):
        await cancel.wait()
        ended.set()
        return Outcome(None, None, metadata={"operators": [ANSWER], "machine": MACHINE})

    monkeypatch.setattr(verify_screen, "record", record)
    async with shown(make_trace([CALL])) as (app, pilot):
        screen = await opened(app, pilot, "verify")
        burst(app, "escape")
        await until(pilot, lambda: app.screen is not screen and ended.is_set())


async def test_of_a_selected_step_the_longest_operator_is_taken_and_noise_names_no_option_of_a_command(monkeypatch):
    asked = []

    async def record(request, hear, cancel):
        asked.append(json.loads(Path(request.operators).read_text())["operators"][0]["name"])
        return Outcome(None, None, metadata={"operators": [ANSWER | {"refused": "Too noisy."}], "machine": MACHINE})

    monkeypatch.setattr(verify_screen, "record", record)
    args = {**INPUTS, "Concrete Inputs": ["", "1"]}
    events = [step(1, 0, 100), op("aten::mul", 10, 20, args=args), op("aten::mm", 40, 50, args=args)]
    async with shown(make_trace([*events, step(2, 200, 100), op("aten::add", 210, 80, args=args)])) as (app, pilot):
        burst(app, "colon", *"step 1", "enter")
        burst(app, "colon", *"verify", "enter")
        await until(pilot, lambda: isinstance(app.screen, VerifyScreen) and asked == ["aten::mm"])
        screen = app.screen
        assert isinstance(screen, VerifyScreen)
        await until(pilot, lambda: any("Too noisy" in line for line in screen.lines), "nothing is said of noise")
        assert not any("--" in line for line in screen.lines)


async def test_without_shapes_it_says_how_to_record_them_and_starts_nothing(monkeypatch):
    monkeypatch.setattr(verify_screen, "record", None)
    async with shown(make_trace([op("aten::add", 0, 100)])) as (app, pilot):
        screen = await opened(app, pilot, "verify")
        await until(pilot, lambda: any("record_shapes=True" in line for line in screen.lines), str(screen.lines))
        assert not any("--script" in line for line in screen.lines)


@pytest.mark.full
async def test_what_cannot_be_built_says_so_and_starts_nothing(monkeypatch):
    monkeypatch.setattr(verify_screen, "record", None)
    async with shown(make_trace([op("mine::add", 0, 100)])) as (app, pilot):
        screen = await opened(app, pilot, "verify")
        await until(pilot, lambda: any("cannot be built again" in line for line in screen.lines))
