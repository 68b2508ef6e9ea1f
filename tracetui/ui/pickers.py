"""Lists to pick one thing from: the traces of a folder, the traces that were given, the marks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from tracetui.drawing.format import clean, duration, size
from tracetui.model.table import Table, texts
from tracetui.ui.bar import Bar, Part
from tracetui.ui.clipboard import home_path
from tracetui.ui.commands import command, commands_in_focus
from tracetui.ui.headline import hint_parts
from tracetui.ui.history import Mark
from tracetui.ui.overlay import Overlay
from tracetui.ui.table_view import TableView
from tracetui.ui.trace_files import TraceFile, find_traces, trace_file

Choice = TypeVar("Choice")


class Picker(Overlay[Choice | None]):
    """A titled list; enter takes the row under the cursor, escape none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command("escape", "dismiss_none", "Close", "", "close"),
        command("q", "dismiss_none", "Close"),
        command("question_mark", "help", "Help", "Keys of this list.", "help"),
    ]

    TITLE_TEXT = ""
    PANE = ""

    def __init__(self) -> None:
        super().__init__()
        self.choices: Sequence[Choice] = ()

    def compose(self) -> ComposeResult:
        """A title, the list and the key hints."""
        yield Bar(id="title")
        yield TableView()
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Show what there is."""
        self.query_one("#title", Bar).parts = (Part(self.TITLE_TEXT, "strong"),)
        view = self.query_one(TableView)
        view.focus()
        self.call_after_refresh(self._show_hints)

    def offer(self, choices: Sequence[Choice], table: Table, note: str) -> None:
        """List choices, one per row of the table."""
        self.choices = choices
        self.query_one(TableView).show(self.PANE, table, np.arange(len(table)), note=note)

    def action_help(self) -> None:
        """Show what the keys do."""
        # The help is needed only once it is asked for.
        from tracetui.ui.help import HelpScreen, help_rows

        self.app.push_screen(HelpScreen(help_rows(self, None, {}), "Help: keys"))

    def action_dismiss_none(self) -> None:
        """Pick nothing."""
        self.dismiss(None)

    def take(self, choice: Choice) -> None:
        """Act on the choice: this screen closes with it."""
        self.dismiss(choice)

    @on(TableView.RowChosen)
    def _pick(self, message: TableView.RowChosen) -> None:
        # A second enter in the same burst comes when the choice has been made.
        if self.is_active:
            self.take(self.choices[message.row])

    def _show_hints(self) -> None:
        commands = [found for _, group in commands_in_focus(self) for found in group]
        self.query_one("#hints", Bar).parts = hint_parts(commands, self.size.width - 2)


class MarkPicker(Picker[Mark]):
    """The marks of a trace."""

    TITLE_TEXT = "Marks"
    PANE = "marks"

    def __init__(self, marks: Sequence[Mark]) -> None:
        super().__init__()
        self._marks = marks

    def on_mount(self) -> None:
        """List them."""
        super().on_mount()
        self.offer(self._marks, marks_table(self._marks), "")


class TracePicker(Picker["str | list[str]"]):
    """Traces to open, newest first: those given on the command line, or those found in a folder.

    Dismissed with the path of one, or with those of two that are to be compared.
    """

    TITLE_TEXT = "Which trace?"
    PANE = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [
        command("space", "mark", "Mark the trace", "As A, to be compared with another one.", "mark"),
        command("c", "compare", "Compare", "The marked trace, A, with the current one, B.", "compare"),
        command("r", "record", "Record a new trace", "Of a workload, on this machine.", "record"),
    ]

    class Found(Message):
        """The folders have been looked through."""

        def __init__(self, files: list[TraceFile]) -> None:
            super().__init__()
            self.files = files

    def __init__(self, paths: Sequence[str], trouble: str = "", title: str = "") -> None:
        super().__init__()
        self.paths = paths
        """Files and folders."""
        self.marked = ""
        """The path that is marked to be compared, empty for none."""
        self._title = title or self.TITLE_TEXT
        self.trouble = trouble
        """What went wrong with the last one that was picked."""

    def on_mount(self) -> None:
        """Look through the folders in a thread."""
        super().on_mount()
        self._say(self.trouble)
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for traces …")
        self.look()

    def action_mark(self) -> None:
        """Mark the current trace, in place of the one that was; or unmark it."""
        place = self.query_one(TableView).row
        if place >= 0:
            path = str(self.choices[place])
            self.marked = "" if path == self.marked else path
            self._say(f"A: {home_path(Path(self.marked))}   c compares it with another one" if self.marked else "")

    def action_compare(self) -> None:
        """Compare the marked trace with the current one."""
        place = self.query_one(TableView).row
        if not self.marked or place < 0 or str(self.choices[place]) == self.marked:
            self._say("Mark one trace with space, then press c on another one.")
        else:
            self.dismiss([self.marked, str(self.choices[place])])

    def _say(self, words: str) -> None:
        """Say something beside the title."""
        said = (Part(f"   {clean(words)}", "warn"),) if words else ()
        self.query_one("#title", Bar).parts = (Part(self._title, "strong"), *said)

    def action_record(self) -> None:
        """Choose a workload, and take the trace of it."""
        # Workloads are needed only once one is to be recorded.
        from tracetui.ui.workload_picker import WorkloadPicker

        self.app.push_screen(WorkloadPicker(), self._recorded)

    def _recorded(self, recorded: str | list[str] | None) -> None:
        if recorded is not None:
            self.dismiss(recorded)

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Find the traces."""
        files: list[TraceFile] = []
        for path in map(Path, self.paths):
            found = find_traces(path) if path.is_dir() else [trace_file(path)]
            files += [file for file in found if file is not None]
        self.post_message(self.Found(sorted(files, key=lambda file: -file.modified)))

    @on(Found)
    def _list(self, message: Found) -> None:
        where = ", ".join(home_path(Path(path).absolute()) for path in self.paths[:3])
        note = (
            f"There is no trace in {where} or below. A trace is a .json, .json.gz or .json.zst file. "
            "Press r to record one."
        )
        self.offer([str(file.path) for file in message.files], files_table(message.files), note)


def marks_table(marks: Sequence[Mark]) -> Table:
    """Where each mark is and what it marks."""
    starts = [duration(mark.place.start_ns) if mark.place.start_ns is not None else None for mark in marks]
    steps = [None if mark.place.step is None else str(mark.place.step) for mark in marks]
    return Table(
        (
            texts("mark", [mark.title for mark in marks]),
            texts("step", steps),
            texts("from", starts),
            texts("pane", [mark.place.pane for mark in marks]),
        )
    )


def files_table(files: Sequence[TraceFile]) -> Table:
    """Name, size and age of files."""
    now = time.time()
    return Table(
        (
            texts("trace", [clean(home_path(file.path)) for file in files]),
            texts("size", [size(file.bytes) for file in files]),
            texts("changed", [age(now - file.modified) for file in files]),
        )
    )


def age(seconds: float) -> str:
    """For example `5 min ago`."""
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / scale:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"
