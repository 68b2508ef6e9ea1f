"""A defect of the app: the terminal is given back, two sentences say what happened, a file has the rest."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.terminal.raw import GIVEN_BACK, Raw
from tracetui import crash_report as crash
from tracetui.cli.main import main

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
PROGRAM = """
import sys
from tracetui.ui.base import terminal_driver
from tracetui.ui.opening import loading_screen
from tracetui.ui.trace import trace_view
from tracetui.cli.main import main

def fail(*arguments, **named):
    secret = "a value that is " + "nobody's business"
    raise ValueError("of \\x1b]0;OWNED\\x07\\u202e" + "x" * 5000)

{place} = fail
sys.exit(main())
"""
PLACES = {
    "a key": ("trace_view.TraceView.action_mark", "m"),
    "mounting": ("trace_view.TraceView.on_mount", ""),
    "composing": ("trace_view.TraceView.compose", ""),
    "a thread": ("loading_screen.TimelineIndex", ""),
    "leaving": ("trace_view.TraceView.on_unmount", "q"),
    "reading keys": ("terminal_driver.TerminalDriver.process_message", "j"),
}
"""What fails, and the key that brings it about."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
def test_a_crash_leaves_two_sentences_and_a_file(tmp_path, cache, place):
    name, key = PLACES[place]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(place=name))
    raw = Raw(sys.executable, str(program), EAGER, PYTHONPATH=str(ROOT), COLUMNS="80")
    try:
        if key:
            raw.wait_for("Kernels", "aten::linear")
            raw.send(key)
        assert raw.exit_code() == 1
        assert not raw.is_raw()
        assert all(sequence in raw.written for sequence in GIVEN_BACK)
        told = raw.written.rpartition(GIVEN_BACK[4])[2].decode()
    finally:
        raw.close()
    told = re.sub(r"^(\x1b\[\?\d+l)*", "", told)
    assert re.match(r"tracetui \S+ failed with ValueError: of \S+.*\(.+, line \d+, in \w+\)\.\s", told)
    assert len(told) < 600
    assert "\x1b" not in told and "\x07" not in told and "\u202e" not in told
    (report,) = (cache / "tracetui" / "crashes").iterdir()
    assert str(report) in told.replace("\r\n", "")
    text = report.read_text()
    assert "Traceback" in text and "in fail" in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "nobody's business" not in text.replace('"nobody\'s business"', "")


def failing_main(monkeypatch, error, *words):
    """The exit code of a text command in which something nobody expected fails."""

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", fail)
    return main(["show", "ops", EAGER, *words])


def test_a_text_command_crashes_alike(monkeypatch, capsys, cache):
    assert failing_main(monkeypatch, KeyError("aten::mm\x1b[2J")) == 1
    said = capsys.readouterr().err
    assert "failed with KeyError" in said
    assert "Traceback" not in said
    assert len(list(cache.rglob("*.txt"))) == 1


def test_too_little_memory_is_no_defect(monkeypatch, capsys, cache):
    assert failing_main(monkeypatch, MemoryError()) == 1
    assert capsys.readouterr().err == "tracetui: There is not enough memory for this.\n"
    assert not cache.exists()


def test_a_report_that_cannot_be_written_is_said(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert failing_main(monkeypatch, RuntimeError("no")) == 1
    assert "could not be written" in capsys.readouterr().err


def test_reports_do_not_pile_up(cache, monkeypatch):
    monkeypatch.setattr(crash, "KEPT", 3)
    for number in range(5):
        crash.write_report(f"{number}\n")
    kept = sorted(crash.reports_folder().iterdir())
    assert [path.read_text() for path in kept] == ["2\n", "3\n", "4\n"]
    assert os.path.commonpath([cache, *kept]) == str(cache)
