"""The list of traces: those of a folder, or those that were given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message

from tracetui.model.quantities import size
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.exports import home_path
from tracetui.ui.opening.trace_files import TraceFile, find_traces, trace_file
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

_TRACE = ColumnSpec("trace", "trace", width=30, grow=1)
_SIZE = ColumnSpec("size", "size", is_number_text=True)


class TracePicker(Picker["str | list[str]"]):
    """Traces to open, newest first: those given on the command line, or those found in a folder.

    Dismissed with the path of one, or with those of two that are to be compared.
    """

    TITLE_TEXT = "Which trace?"
    PANE = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.SPACE, "mark", "Mark the trace", "As A, to be compared with another one.", "mark"),
        command(keys.COMPARE, "compare", "Compare", "The marked trace, A, with the current one, B.", "compare"),
        command(keys.RECORD, "record", "Record a new trace", "Of a workload, on this machine.", "record"),
    ]

    class Listed(Message):
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
        self._show_remark(self.trouble)
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for traces …")
        self.look()

    def action_mark(self) -> None:
        """Mark the current trace, in place of the one that was; or unmark it."""
        row = self.query_one(TableView).row
        if row >= 0:
            path = str(self.choices[row])
            self.marked = "" if path == self.marked else path
            self._show_remark(
                f"A: {home_path(Path(self.marked))}   c compares it with another one" if self.marked else ""
            )

    def action_compare(self) -> None:
        """Compare the marked trace with the current one."""
        row = self.query_one(TableView).row
        if not self.marked or row < 0 or str(self.choices[row]) == self.marked:
            self._show_remark("Mark one trace with space, then press c on another one.")
        else:
            self.dismiss([self.marked, str(self.choices[row])])

    def _show_remark(self, words: str) -> None:
        """Say something beside the title."""
        remark = (BarPart(f"   {clean(words)}", "warn"),) if words else ()
        self.query_one("#title", Bar).parts = (BarPart(self._title, "strong"), *remark)

    def action_record(self) -> None:
        """Choose a workload, and take the trace of it."""
        # Workloads are needed only once one is to be recorded.
        from tracetui.ui.recording.workload_picker import WorkloadPicker

        self.app.push_screen(WorkloadPicker(), self._recorded)

    def _recorded(self, recorded: str | list[str] | None) -> None:
        if recorded is not None:
            self.dismiss(recorded)

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Find the traces."""
        files: list[TraceFile] = []
        for path in map(Path, self.paths):
            listed = find_traces(path) if path.is_dir() else [trace_file(path)]
            files += [file for file in listed if file is not None]
        self.post_message(self.Listed(sorted(files, key=lambda file: -file.modified)))

    @on(Listed)
    def _list(self, message: Listed) -> None:
        where = ", ".join(home_path(Path(path).absolute()) for path in self.paths[:3])
        note = (
            f"There is no trace in {where} or below. A trace is a .json, .json.gz or .json.zst file. "
            "Press r to record one."
        )
        self.offer([str(file.path) for file in message.files], files_table(message.files), note)


def files_table(files: Sequence[TraceFile]) -> Table:
    """Name, size and age of files."""
    now = time.time()
    return Table(
        (
            texts(_TRACE, [clean(home_path(file.path)) for file in files]),
            texts(_SIZE, [size(file.bytes) for file in files]),
            texts("changed", [age(now - file.modified) for file in files]),
        )
    )


def age(seconds: float) -> str:
    """For example `5 min ago`."""
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / scale:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"
