"""A folder for what the app writes, recordings that are told how to end, and two traces to compare."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from tracetui_workloads import registry
from tracetui_workloads.recording.launcher import LogLine, Note, Outcome, Progress, Stage, StageDone
from tracetui_workloads.recording.protocol import Failure
from tracetui_workloads.registry import Entry

from tests.support.comparing import tutorial
from tests.support.comparing.recording import write
from tests.support.waiting import POLL_SECONDS
from tracetui.opening.trace_opening import SideName
from tracetui.ui.opening import trace_picker
from tracetui.ui.recording import recording_form
from tracetui.ui.trace import pane_list
from tracetui.ui.widgets import bar

_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple, list[RuleSet]] = {}


def _parse_rules_once(sheet: Stylesheet, css: str, **source: Any) -> list[RuleSet]:
    """Parse a style sheet once for all apps that a process of tests starts, a tenth of what a start costs."""
    key = (css, *source.items(), *sheet._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, **source)
    return _parsed[key]


@pytest.fixture(autouse=True, scope="package")
def _style_sheets_parsed_once() -> Iterator[None]:
    with mock.patch.object(Stylesheet, "_parse_rules", _parse_rules_once):
        yield


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder without traces to work in, and three workloads of which one cannot run."""
    monkeypatch.chdir(tmp_path)
    rows = [
        Entry("linear", registry.built_in("linear"), "", ""),
        Entry("attention", registry.built_in("attention"), "", ""),
        Entry("big", registry.built_in("mlp"), "", "needs a GPU"),
    ]
    monkeypatch.setattr(recording_form, "entries", lambda: rows)
    return tmp_path


@pytest.fixture
def recordings(monkeypatch, folder):
    """Recordings that wait until they are told how to end; what was asked for, and the way to end it."""
    asked: list = []
    ending: asyncio.Queue = asyncio.Queue()

    async def record(request, on_event, cancel):
        asked.append(request)
        for event in (
            Stage("importing torch"),
            StageDone("importing torch", 1.5),
            Stage("recording", 5),
            Progress("recording", 2, 5),
            Note("info", "No GPU [red]here\x1b[0m"),
            LogLine("[bold]hello"),
        ):
            on_event(event)
        tasks = {asyncio.create_task(cancel.wait()), asyncio.create_task(ending.get())}
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        result = done.pop().result()
        return Outcome(None, Failure("cancelled", "Cancelled.")) if result is True else result

    monkeypatch.setattr(recording_form, "record", record)
    return asked, ending


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports go to a folder of the test, and no trace is read for a list, and what the last line says stays."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(trace_picker, "is_cheap", lambda file: False)
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr(bar, "NOTICE_SECONDS", 10 * POLL_SECONDS)
    # Tests wait until every table is there: each step would take as long as three.
    monkeypatch.setattr(pane_list, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(pane_list, "STEPS_AHEAD", ())


@pytest.fixture
def eager(tmp_path: Path) -> SideName:
    return SideName(str(write(tutorial.mlp_events(tutorial.EAGER), tmp_path / "eager.json")))


@pytest.fixture
def compiled(tmp_path: Path) -> SideName:
    return SideName(str(write(tutorial.mlp_events(tutorial.COMPILED), tmp_path / "compiled.json")))
