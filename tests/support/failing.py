"""Analyses that fail as a defect would make them: what is said of it, and the report that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tracetui import crash_report
from tracetui.idle import idle_parts

REPORT = re.compile(r"The traceback is in (\S+\.txt)")


class Defect(Exception):
    """What nobody expected."""


def fail(*_: object, **__: object) -> None:
    """Stands in the place of an analysis."""
    raise Defect("of [bold]\x1b]0;OWNED\x07 nothing")


def break_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the causes of idle time fail inside of the analysis, as they did where a gap had no part."""
    monkeypatch.setattr(idle_parts, "_with_holes", fail)


def check_sentence(text: str) -> Path:
    """A sentence about the failure is in a text, with nothing that steers a terminal; returns the report."""
    plain = " ".join(text.split())
    assert "could not be made: it failed with Defect: of [bold]" in plain
    assert "\x1b" not in text
    match = REPORT.search(plain)
    assert match is not None
    path = Path(match[1])
    assert "Traceback" in path.read_text() and "Defect" in path.read_text()
    return path


def reports() -> list[Path]:
    """The reports that were written."""
    folder = crash_report.reports_folder()
    return sorted(folder.glob("*.txt")) if folder.exists() else []


Breaks = Callable[[str], None]
"""Has a function fail, by its module and name: `tracetui.tables.ops.ops`."""
