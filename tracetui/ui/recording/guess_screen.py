"""Guess first, then look: one or two questions about the traces that were recorded, before they are opened.

Esc skips all of it, and an empty answer its question. Without a guess no answer is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input
from tracetui_workloads.api import Workload

from tracetui.errors import TracetuiError
from tracetui.importers.load import load
from tracetui.rank_folder import rank_candidates
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.recording.lesson_screen import LessonScreen, lesson_text, verified_workload
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.verification import MAX_QUESTIONS, Verification, recording_metadata


@dataclass(frozen=True)
class Question:
    """One question about one of the traces."""

    workload: Workload
    verification: Verification
    line: int
    """The line of the verification that answers it."""
    text: str


class GuessScreen(Overlay[None]):
    """The questions, each with a field; then the answers and the lesson."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "give_up", "Skip the questions", "", "skip"),
        command(keys.NEXT_PART, "field(1)", "Next question", "", "question"),
        command(keys.PREVIOUS_PART, "field(-1)", "Question before", "", "question"),
    ]
    DEFAULT_CSS = """
    GuessScreen {
        #questions { height: 1fr; padding: 1 2; }
        #questions Bar { height: 1; margin: 1 0 0 0; }
        Input { height: 1; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        #title, #hints { background: $panel; }
    }
    """

    class Asked(Message):
        """The traces were read, and these are the questions."""

        def __init__(self, questions: Sequence[Question]) -> None:
            super().__init__()
            self.questions = questions

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._questions: Sequence[Question] = ()

    def compose(self) -> ComposeResult:
        """A title, room for the questions, the keys."""
        yield Bar(id="title")
        yield Vertical(id="questions")
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Read the traces in a thread."""
        self.query_one("#title", Bar).parts = (BarPart("Guess first, then look", "strong"),)
        self.query_one("#hints", Bar).parts = (
            BarPart("enter", "key"),
            BarPart(" next   "),
            BarPart("esc", "key"),
            BarPart(" skip"),
        )
        self.read()

    @work(thread=True, exclusive=True)
    def read(self) -> None:
        """Read the traces and look their promises up."""
        try:
            self.post_message(self.Asked(questions_about(self._paths)))
        except TracetuiError:
            # Whoever opens the trace next says what is wrong with it.
            self.post_message(self.Asked(()))

    @on(Asked)
    def _show(self, message: Asked) -> None:
        self._questions = message.questions
        if not self._questions:
            self.dismiss()
            return
        room = self.query_one("#questions", Vertical)
        for index, question in enumerate(self._questions):
            bar, field = Bar(), Input(compact=True, id=f"guess-{index}")
            field.cursor_blink = False
            room.mount(bar, field)
            bar.parts = (BarPart(clean(question.text)),)
        self.call_after_refresh(self._focus_first)

    def _focus_first(self) -> None:
        if self.is_attached:
            self.query(Input).first().focus()

    @on(Input.Submitted)
    def _accept(self, message: Input.Submitted) -> None:
        if message.input is self.query(Input).last():
            self._answer()
        else:
            self.focus_next(Input)

    def _answer(self) -> None:
        """Show the answers where something was guessed, then close."""
        guesses = [field.value.strip() for field in self.query(Input)]
        lines: list[str] = []
        for index, (question, guess) in enumerate(zip(self._questions, guesses, strict=True)):
            if guess and all(question.verification is not each.verification for each in self._questions[:index]):
                same = [
                    (other, text)
                    for other, text in zip(self._questions, guesses, strict=True)
                    if other.verification is question.verification and text
                ]
                guessed = {other.line: text for other, text in same}
                lines += [question.text, "", *lesson_text(question.workload, question.verification, guessed), ""]
        if not lines:
            self.dismiss()
            return
        self.app.push_screen(LessonScreen("What the trace shows", lines), lambda _: self.action_give_up())

    def action_give_up(self) -> None:
        """Close, and show no answer."""
        self.dismiss()

    def action_field(self, by: int) -> None:
        """Go to another question."""
        if by > 0:
            self.focus_next(Input)
        else:
            self.focus_previous(Input)


def questions_about(paths: Sequence[str]) -> list[Question]:
    """The questions about a trace, or the first one about each of several.

    Raises: TraceError for a trace that cannot be read.
    """
    asked: list[Question] = []
    for path in paths:
        # Of a folder of ranks the trace of the first.
        trace = load(rank_candidates([path])[0])
        found = verified_workload(trace)
        if found is None:
            continue
        variant = recording_metadata(trace).get("variant")
        name = f"{variant}: " if len(paths) > 1 and variant else ""
        for line, text in list(found[1].questions.items())[: MAX_QUESTIONS if len(paths) == 1 else 1]:
            asked.append(Question(*found, line, f"{name}{text}"))
    return asked
