"""The lesson of a workload beside what its trace shows: a text that scrolls."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static
from tracetui_workloads.api import Workload
from tracetui_workloads.registry import with_name

from tracetui.model.trace import Trace
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.verification import Verification, found_text, recording_metadata, verify

MAX_CELLS = 100
"""Maximum width of the text."""


class LessonScreen(Overlay[None]):
    """A title, the text, and how to leave."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "close", "Close the lesson", "", "close"),
        command(keys.QUIT, "close", "Close the lesson"),
    ]
    DEFAULT_CSS = """
    LessonScreen {
        #lesson { height: 1fr; padding: 1 2; }
        #title, #hints { background: $panel; }
    }
    """

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="title")
        with VerticalScroll(id="lesson"):
            yield Static(Text("\n".join(map(clean, self._lines))), markup=False, id="text")
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Fill in the words, and let the keys scroll."""
        self.query_one("#title", Bar).parts = (BarPart(clean(self._title), "strong"),)
        self.query_one("#hints", Bar).parts = (BarPart("esc", "key"), BarPart(" close"))
        self.query_one("#lesson", VerticalScroll).focus()

    def action_close(self) -> None:
        """Back to what lies below."""
        self.dismiss()


def verified_workload(trace: Trace) -> tuple[Workload, Verification] | None:
    """The workload of which a trace is a recording, and what it promises of it; None for any other trace."""
    metadata = recording_metadata(trace)
    workload = with_name(str(metadata.get("workload", "")))
    return (workload, verify(workload, metadata, trace)) if workload else None


def lesson_text(
    workload: Workload, verification: Verification | None = None, guesses: Mapping[int, str] | None = None
) -> list[str]:
    """The lesson, then each promise with the guess, what was wanted and found, and why; and the sources."""
    lines = textwrap.wrap(" ".join(workload.lesson.split()), MAX_CELLS)
    for line, row in enumerate(verification.table.rows() if verification else ()):
        lines += ["", f"{row['expectation']}"]
        if guesses and line in guesses:
            lines.append(f"  guess     {guesses[line]}")
        lines += [f"  expected  {row['wanted']}", f"  found     {found_text(row)}"]
        remark = str(row["why"] or "") if row["holds"] else "This is not as expected."
        lines += textwrap.wrap(remark, MAX_CELLS, initial_indent="  ", subsequent_indent="  ")
    for text, reason in dict.fromkeys(verification.skipped if verification else ()):
        lines += ["", text, f"  {reason}"]
    return [*lines, *(["", "sources"] if workload.see else []), *(f"  {source}" for source in workload.see)]
