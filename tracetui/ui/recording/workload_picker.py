"""The list of what can be recorded here, with the reason where something cannot; the one that is chosen gets a form."""

from __future__ import annotations

from typing import Any

import numpy as np
from textual import on, work
from textual.message import Message
from tracetui_workloads.registry import Entry, entries

from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.safe_text import clean
from tracetui.ui.recording.recording_form import RecordingForm
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

_WORKLOAD = ColumnSpec("workload", "workload", width=20, grow=1)
_HERE = ColumnSpec("here", "here", width=20, grow=1)
_SUMMARY = ColumnSpec("summary", "what", width=20, grow=2)

HERE = "runs here"


class WorkloadPicker(Picker[Any]):
    """Workloads to record; dismissed with the path of the trace, or those of several to compare, or None."""

    TITLE_TEXT = "Record which workload?"
    PANE = "workloads"

    class Listed(Message):
        """The workloads are known."""

        def __init__(self, rows: list[Entry]) -> None:
            super().__init__()
            self.rows = rows

    def on_mount(self) -> None:
        """Ask this machine and other packages in a thread."""
        super().on_mount()
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for workloads …")
        self.look()

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Find the workloads."""
        self.post_message(self.Listed(entries()))

    @on(Listed)
    def _list(self, message: Listed) -> None:
        self.offer(message.rows, workloads_table(message.rows), "There are no workloads.")

    def take(self, choice: Entry) -> None:
        """Show the form of a workload, or say why it cannot run here."""
        if choice.workload is None or choice.reason:
            remark = BarPart(f"   {clean(choice.name)} cannot run: {clean(choice.reason)}", "warn")
            self.query_one("#title", Bar).parts = (BarPart(self.TITLE_TEXT, "strong"), remark)
            return
        self.app.push_screen(RecordingForm(choice.name, choice.workload), self._recorded)

    def _recorded(self, recorded: str | list[str] | tuple[str, ...] | None) -> None:
        if recorded is not None:
            self.dismiss(recorded)


def workloads_table(rows: list[Entry]) -> Table:
    """Name, whether it runs here, and what it is."""
    return Table(
        (
            texts(_WORKLOAD, [clean(row.name) for row in rows]),
            texts(_HERE, [clean(row.reason) or HERE for row in rows]),
            texts(_SUMMARY, [clean(row.workload.summary if row.workload else row.source) for row in rows]),
        )
    )
