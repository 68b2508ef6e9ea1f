"""The list of traces: those of a folder, or those that were given."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message

from tracetui.model.quantities import count, rounded_percent, size
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.exports import home_path
from tracetui.ui.opening.trace_facts import FactsCache, TraceFacts, is_cheap, read_facts
from tracetui.ui.opening.trace_files import TraceFile, find_traces, trace_file
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

_MARK = ColumnSpec("mark", "", width=1)
_TRACE = ColumnSpec("trace", "trace", width=24, grow=2)
_VERDICT = ColumnSpec("verdict", "verdict", width=24)
_BUSY = ColumnSpec("busy", "busy", is_number_text=True)
_CHANGED = ColumnSpec("changed", "changed", width=12)
_GPU = ColumnSpec("gpu", "GPU", width=16)
_KERNELS = ColumnSpec("kernels", "kernels", is_number_text=True)
_STEPS = ColumnSpec("steps", "steps", is_number_text=True)
_SIZE = ColumnSpec("size", "size", is_number_text=True)
SORTED_COLUMNS = ("changed", "trace", "verdict", "busy", "gpu", "kernels", "steps", "size")
"""The columns that the list can be sorted by, in the order in which a key goes through them."""
_NUMBERS = ("changed", "steps", "kernels", "busy", "size")


class TracePicker(Picker["str | list[str]"]):
    """Traces to open, newest first: those given on the command line, or those found in a folder.

    Dismissed with the path of one, or with those of two that are to be compared.
    """

    TITLE_TEXT = "Which trace?"
    PANE = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.SPACE, "mark", "Mark the trace", "As A, B, C ...: A is compared with the others.", "mark"),
        command(keys.COMPARE, "compare", "Compare", "A, the first that was marked, with the current one.", "compare"),
        command(keys.RECORD, "record", "Record a new trace", "Of a workload, on this machine.", "record"),
        command(keys.SORT, "sort", "Sort by the next column", "Numbers from the largest, the newest first.", "sort"),
        command(keys.REVERSE, "reverse", "Reverse the sort order"),
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
        self._files: list[TraceFile] = []
        self._facts: dict[str, TraceFacts] = {}
        self._sort, self._is_descending = "changed", True
        self._note = ""
        self._title = title or self.TITLE_TEXT
        self.trouble = trouble
        """What went wrong with the last one that was picked."""

    def on_mount(self) -> None:
        """Look through the folders in a thread."""
        super().on_mount()
        self._show_remark(self.trouble)
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for traces …")
        self.look()

    @property
    def marked(self) -> list[str]:
        """The paths that are marked, A first; they stay marked until the app ends."""
        marked = getattr(self.app, "marked_traces", None)
        return marked if isinstance(marked, list) else []

    def action_mark(self) -> None:
        """Mark the current trace, or unmark it."""
        row = self.query_one(TableView).row
        if row < 0:
            return
        path, marked = str(self.choices[row]), self.marked
        if path in marked:
            marked.remove(path)
        elif len(marked) < len(ascii_uppercase):
            marked.append(path)
        self._show_marks()
        self._show_rows()

    def action_compare(self) -> None:
        """Compare A, the first that was marked, with the current trace; on A itself with the second."""
        row = self.query_one(TableView).row
        marked = self.marked
        others = marked[1:2] if row >= 0 and marked[:1] == [str(self.choices[row])] else []
        other = others or ([str(self.choices[row])] if row >= 0 and str(self.choices[row]) not in marked[:1] else [])
        if not marked or not other:
            self._show_remark("Mark one trace with space, then press c on another one.")
        else:
            self.dismiss([marked[0], other[0]])

    def action_sort(self) -> None:
        """Sort by the next column."""
        names = SORTED_COLUMNS
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self._is_descending = self._sort in _NUMBERS
        self._show_rows()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._is_descending = not self._is_descending
        self._show_rows()

    @on(TableView.HeaderClicked)
    def _sort_by_title(self, message: TableView.HeaderClicked) -> None:
        if message.name == self._sort:
            self.action_reverse()
        elif message.name in SORTED_COLUMNS:
            self._sort, self._is_descending = message.name, message.name in _NUMBERS
            self._show_rows()

    def _show_marks(self) -> None:
        named = [
            f"{letter}: {home_path(Path(path))}" for letter, path in zip(ascii_uppercase, self.marked, strict=False)
        ]
        how = "c compares it with another one" if len(named) == 1 else "c compares A with the row under the cursor"
        self._show_remark(f"{', '.join(named)}   {how}" if named else "")

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
        self._files, self._note = message.files, note
        self.choices = [str(file.path) for file in message.files]
        cache = FactsCache()
        self._facts = {str(file.path): facts for file in self._files if (facts := cache.get(file)) is not None}
        self._show_rows()
        if self.marked:
            self._show_marks()
        self.read_facts(cache)

    @work(exclusive=True, group="facts")
    async def read_facts(self, cache: FactsCache) -> None:
        """Read what is not known yet, the newest first; the list is answered meanwhile."""
        for file in self._files:
            if str(file.path) in self._facts or not is_cheap(file):
                continue
            try:
                facts = await read_facts(file.path)
            except OSError:
                return
            cache.put(file, facts)
            self._facts[str(file.path)] = facts
            self._show_rows()

    def _show_rows(self) -> None:
        """List what is known, the cursor on the trace where it was."""
        view = self.query_one(TableView)
        row = view.row if view.table is not None else -1
        table = files_table(self._files, self._facts, self.marked)
        order = sorted_rows(self._files, self._facts, self._sort, self._is_descending)
        cursor = order.index(row) if row in order else 0
        view.show(
            self.PANE, table, np.array(order, np.int64), cursor, (self._sort, self._is_descending), note=self._note
        )


def files_table(files: Sequence[TraceFile], facts: Mapping[str, TraceFacts], marked: Sequence[str]) -> Table:
    """What each trace is, as far as it is known, with its size and age."""
    now = time.time()
    known = [facts.get(str(file.path), TraceFacts()) for file in files]
    letters = dict(zip(marked, ascii_uppercase, strict=False))
    return Table(
        (
            texts(_MARK, [letters.get(str(file.path)) for file in files]),
            texts(_TRACE, [clean(each) for each in names_of(files)]),
            texts(_VERDICT, [None if each.verdict is None else clean(each.verdict) for each in known]),
            texts(_BUSY, [None if each.busy_pct is None else rounded_percent(each.busy_pct) for each in known]),
            texts(_CHANGED, [age(now - file.modified) for file in files]),
            texts(_GPU, [None if each.gpu is None else clean(each.gpu) for each in known]),
            texts(_KERNELS, [None if each.kernels is None else count(each.kernels) for each in known]),
            texts(_STEPS, [None if each.steps is None else count(each.steps) for each in known]),
            texts(_SIZE, [size(file.bytes) for file in files]),
        )
    )


def names_of(files: Sequence[TraceFile]) -> list[str]:
    """What files are called below the folder that all of them are in; one alone by its whole path."""
    parents = {str(file.path.absolute().parent) for file in files}
    if len(files) < 2:
        return [home_path(file.path) for file in files]
    common = os.path.commonpath(parents)
    return [os.path.relpath(file.path.absolute(), common) for file in files]


def sorted_rows(
    files: Sequence[TraceFile], facts: Mapping[str, TraceFacts], name: str, is_descending: bool
) -> list[int]:
    """The indices of files in the order of a column; what is not known comes last."""

    def value(file: TraceFile) -> float | str | None:
        known = facts.get(str(file.path), TraceFacts())
        values: dict[str, float | str | None] = {
            "changed": file.modified,
            "size": file.bytes,
            "trace": home_path(file.path).casefold(),
            "gpu": known.gpu,
            "steps": known.steps,
            "kernels": known.kernels,
            "busy": known.busy_pct,
            "verdict": known.verdict,
        }
        return values[name]

    values = [value(file) for file in files]
    rows = [row for row, each in enumerate(values) if each is not None]
    rows.sort(key=lambda row: values[row] or 0 if name in _NUMBERS else str(values[row]), reverse=is_descending)
    return rows + [row for row, each in enumerate(values) if each is None]


def age(seconds: float) -> str:
    """For example `5 min ago`."""
    for limit, scale, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / scale:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"
