"""Where cells cannot be written by themselves, Textual writes the screen, and the app says why."""

from __future__ import annotations

import curses
import importlib.metadata
from typing import Any

import pytest

from tests.support.app import Shown, training
from tracetui.ui.base import differ_switch
from tracetui.ui.base.terminal_driver import FrameWriter, erases_in_colour


def test_the_versions_that_are_known_are_those_that_are_installed(monkeypatch):
    monkeypatch.delenv(differ_switch.VARIABLE, raising=False)
    assert differ_switch.why_off() == ""


@pytest.mark.parametrize(("version", "known"), [("8.1.9", 0), ("8.2.0", 1), ("8.10.1", 1), ("9.0.0", 0), ("9.0rc1", 0)])
def test_another_version_of_textual(monkeypatch, version, known):
    monkeypatch.delenv(differ_switch.VARIABLE, raising=False)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    assert differ_switch.why_off() == ("" if known else f"Textual {version} is not one of the versions that are known")


@pytest.mark.parametrize(("value", "is_off"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_the_variable(monkeypatch, value, is_off):
    monkeypatch.setenv(differ_switch.VARIABLE, value)
    assert bool(differ_switch.why_off()) == is_off


@pytest.mark.parametrize(("flag", "erases"), [(1, True), (0, False), (-1, False)])
def test_what_the_description_of_a_terminal_says_of_erasing(monkeypatch, flag, erases):
    monkeypatch.setattr(curses, "setupterm", lambda *_: None)
    monkeypatch.setattr(curses, "tigetflag", {"bce": flag}.__getitem__)
    assert erases_in_colour({}) == erases


def test_nothing_is_known_of_a_terminal_without_a_description(monkeypatch):
    def fail(*_):
        raise curses.error("setupterm: could not find terminal")

    monkeypatch.setattr(curses, "setupterm", fail)
    assert not erases_in_colour({"TERM": "nothing"})


class Driver:
    """Enough of a driver for a writer to write to."""

    takeovers = 1

    def __init__(self):
        self.written = []

    def is_ready(self):
        return True

    def write(self, text):
        self.written.append(text)

    def flush(self):
        pass


async def test_a_failure_leaves_the_writing_to_textual(monkeypatch):
    app = Shown(training())
    async with app.run_test() as pilot:
        driver: Any = Driver()
        app._writer = FrameWriter(app, driver, app.resume_writing)

        def fail(*_):
            raise AttributeError("spans")

        monkeypatch.setattr(app._writer._differ, "apply", fail)
        app.refresh(layout=True)
        await pilot.pause()
        assert app._writer is None and not app._has_writer
        await pilot.press("j")
        assert not app.crash
