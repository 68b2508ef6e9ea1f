"""Processes that can be attached to, as they ask: one, several or all of them are chosen, and their traces taken."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any, ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message

from tracetui.errors import TracetuiError
from tracetui.model.quantities import duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.opening.jobs import Job, by_rank, job_of, still_runs, torch_jobs
from tracetui.opening.listener import Listener, socket_folder
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.recording.attach_form import AttachForm
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

_MARK = ColumnSpec("mark", "", width=1)
_PID = ColumnSpec("pid", "pid", is_number_text=True)
_RANK = ColumnSpec("rank", "rank", is_number_text=True)
_RUNNING = ColumnSpec("running", "running", is_number_text=True)
_COMMAND = ColumnSpec("command", "command", width=30, grow=1)

TURN_SECONDS = 0.5
"""Longest time until a listener notices that it is to end."""
HOW = (
    "Listening: a process that was started with KINETO_USE_DAEMON=1 asks every five seconds, and is listed then. "
    "Start a job as in `KINETO_USE_DAEMON=1 torchrun train.py`."
)


class AttachPicker(Picker[Any]):
    """The user's processes that ask; dismissed with the path of a trace, or of the folder of several, or None."""

    TITLE_TEXT = "Attach to which job?"
    PANE = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.SPACE, "mark", "Mark the process", "Those that are marked are recorded together.", "mark"),
    ]

    class Asked(Message):
        """A process has asked."""

        def __init__(self, job: Job) -> None:
            super().__init__()
            self.job = job

    class Others(Message):
        """Processes with PyTorch that may never ask."""

        def __init__(self, jobs: list[Job]) -> None:
            super().__init__()
            self.jobs = jobs

    class Refused(Message):
        """Nobody can be listened to."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.why = why

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[int, Job] = {}
        self._marked: set[int] = set()
        self._note = HOW
        self._stop = Event()

    def on_mount(self) -> None:
        """Say what to wait for."""
        super().on_mount()
        self._show_rows()

    def on_screen_resume(self) -> None:
        """Listen while this screen is on top."""
        super().on_screen_resume()
        # A screen may be told more than once that it is on top.
        self._stop.set()
        self._stop = Event()
        self.listen(self._stop)

    def on_screen_suspend(self) -> None:
        """Leave the socket to whoever takes a trace."""
        self._stop.set()

    def on_unmount(self) -> None:
        """Nobody listens any more."""
        self._stop.set()

    @work(thread=True, group="listen")
    def listen(self, stop: Event) -> None:
        """Answer those that ask that nothing is wanted, until told to stop."""
        self.post_message(self.Others([job for job in torch_jobs() if not job.is_switched_on]))
        try:
            with Listener(socket_folder()) as listener:
                while not stop.is_set():
                    call = listener.receive(TURN_SECONDS)
                    if call is None:
                        continue
                    call.answer()
                    job = job_of(call.pid)
                    if job is not None:
                        self.post_message(self.Asked(job))
        except TracetuiError as error:
            self.post_message(self.Refused(str(error)))

    def action_mark(self) -> None:
        """Mark the current process, or unmark it."""
        row = self.query_one(TableView).row
        if row >= 0:
            self._marked ^= {self.choices[row].pid}
            self._show_rows()

    def take(self, choice: Job) -> None:
        """Ask what is to be recorded of the marked processes, or of the current one."""
        chosen = [job for job in self.choices if job.pid in self._marked] or [choice]
        self.app.push_screen(AttachForm(chosen), self._taken)

    def _taken(self, path: str | None) -> None:
        if path is not None:
            self.dismiss(path)

    @on(Asked)
    def _list(self, message: Asked) -> None:
        self._jobs[message.job.pid] = message.job
        self._show_rows()

    @on(Others)
    def _explain(self, message: Others) -> None:
        if message.jobs:
            others = ", ".join(f"{job.pid} ({job.command[:60]})" for job in message.jobs[:3])
            self._note = f"{HOW} Started without it, and so not to be attached to: {others}."
            self._show_rows()

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.query_one("#title", Bar).parts = (
            BarPart(self.TITLE_TEXT, "strong"),
            BarPart(f"   {message.why}", "warn"),
        )

    def _show_rows(self) -> None:
        """List those that have asked and still run, by rank, the cursor on the process where it was."""
        view = self.query_one(TableView)
        current = self.choices[view.row].pid if 0 <= view.row < len(self.choices) else None
        self._jobs = {pid: job for pid, job in self._jobs.items() if still_runs(job)}
        self.choices = by_rank(self._jobs.values())
        cursor = next((row for row, job in enumerate(self.choices) if job.pid == current), 0)
        view.show(
            self.PANE, jobs_table(self.choices, self._marked), np.arange(len(self.choices)), cursor, note=self._note
        )


def jobs_table(jobs: Sequence[Job], marked: set[int]) -> Table:
    """What each process is."""
    unmarked = "" if marked else None
    return Table(
        (
            texts(_MARK, ["•" if job.pid in marked else unmarked for job in jobs]),
            texts(_PID, [str(job.pid) for job in jobs]),
            texts(_RANK, [None if job.rank is None else str(job.rank) for job in jobs]),
            texts(_RUNNING, [duration(1e9 * round(job.seconds)) for job in jobs]),
            texts(_COMMAND, [job.command for job in jobs]),
        )
    )
