"""A form for a trace of processes that run: how long, and with what; enter takes it, with the progress below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message
from tracetui_workloads.api import Param

from tracetui.errors import TracetuiError, UsageError
from tracetui.model.quantities import duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.opening.attach_listener import Job, Listener, by_rank, job_of, socket_folder, still_runs, torch_jobs
from tracetui.opening.attached_capture import Capture, PrivateFolders, State, TraceRequest, least_timeout
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.recording.recording_form import YES_NO, Form, form_commands
from tracetui.ui.widgets.bar import BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView
from tracetui.writing.output import destinations, keep, kept_words

SECONDS, ITERATIONS = "seconds", "iterations"
FIELDS = (
    Param("length", 2, "how many of them are recorded"),
    Param(
        "unit",
        SECONDS,
        "iterations are calls of an optimizer's step, in programs that import torch.profiler",
        (SECONDS, ITERATIONS),
    ),
    Param("shapes", False, "shapes of inputs: what rooflines and operations per second need"),
    Param("stack", False, "the Python stack; slows the job down meanwhile"),
    Param("memory", False, "allocations, which torch up to 2.15 leaves out"),
)
MAX_NAMED_JOBS = 8
"""Maximum processes that the title names."""


class AttachForm(Form[str]):
    """Dismissed with the path of the trace, or with the folder of several, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = form_commands(
        command(keys.ENTER, "accept", "Take the trace", "It opens once it is there.", "take the trace"),
        command(keys.ESCAPE, "give_up", "Give up", "The job goes on; no file is left.", "back"),
    )
    NAME_CELLS = 12
    LINE_ID = "progress"

    @dataclass
    class Turn(Message):
        """The state of each process, in words."""

        states: str

    @dataclass
    class Ended(Message):
        """All is over: the path of what was kept, and what went wrong."""

        path: str | None
        trouble: str

    def __init__(self, jobs: list[Job]) -> None:
        names = [str(job.pid) if job.rank is None else f"rank {job.rank}" for job in jobs[:MAX_NAMED_JOBS]]
        more = f" and {len(jobs) - MAX_NAMED_JOBS} more" if len(jobs) > MAX_NAMED_JOBS else ""
        title = BarPart(f"Attach to {', '.join(names)}{more}", "strong"), BarPart(f"   {jobs[0].command}")
        super().__init__(title, {field.name: field for field in FIELDS})
        self._jobs = jobs
        self._stop: Event | None = None
        """Set to give up what is being taken; None while nothing is."""
        self._is_left = False

    def on_unmount(self) -> None:
        """Give up what is being taken, whoever closes this."""
        if self._stop is not None:
            self._stop.set()

    @property
    def request(self) -> TraceRequest:
        """The trace that the form asks for.

        Raises: UsageError for a length that makes no trace.
        """
        try:
            length = float(self.text_of("length"))
        except ValueError:
            raise UsageError("The length is a number.") from None
        flags = {name: self.text_of(name) == YES_NO[1] for name in ("shapes", "stack", "memory")}
        if self.text_of("unit") == SECONDS:
            return TraceRequest(length, **flags)
        if length != round(length) or length < 1:
            raise UsageError("Iterations are a whole number, 1 or more.")
        return TraceRequest(iterations=round(length), **flags)

    def action_accept(self) -> None:
        """Ask the processes, or show why a value is refused."""
        if self._stop is not None:
            return
        try:
            request = self.request
        except UsageError as error:
            self.show_trouble(str(error))
            return
        self.show_trouble("")
        self._stop = Event()
        self.take(request, self._stop)

    def action_give_up(self) -> None:
        """Give up what is being taken, and go back."""
        if self._stop is None:
            self.dismiss(None)
        else:
            self._is_left = True
            self._stop.set()

    @work(thread=True, group="attach")
    def take(self, request: TraceRequest, stop: Event) -> None:
        """Answer the processes until all traces are there, none will come, or it is given up."""
        try:
            paths = destinations(self._jobs, None)
            with Listener(socket_folder()) as listener, PrivateFolders() as folders:
                capture = Capture(self._jobs, request, folders.of, least_timeout(request))
                while not (capture.is_over or stop.is_set()):
                    capture.turn(listener)
                    self.post_message(self.Turn(capture.words))
                kept = {}
                for pid, target in capture.targets.items():
                    if target.state is State.DONE and target.file is not None and not stop.is_set():
                        keep(target.file, paths[pid])
                        kept[pid] = paths[pid]
            troubles = [
                f"{target.job.pid}: {words}"
                for target in capture.targets.values()
                if (words := target.why or target.lacks)
            ]
            self.post_message(self.Ended(kept_words(kept) if kept else None, "; ".join(troubles)))
        except TracetuiError as error:
            self.post_message(self.Ended(None, str(error)))

    @on(Turn)
    def _show_states(self, message: Turn) -> None:
        self.show_line(BarPart(message.states, "strong"), BarPart("   esc gives up"))

    @on(Ended)
    def _end(self, message: Ended) -> None:
        self._stop = None
        self.show_line()
        if self._is_left:
            self.dismiss(None)
        elif message.path is not None:
            if message.trouble:
                self.app.notify(clean(message.trouble), severity="warning", markup=False)
            self.dismiss(message.path)
        else:
            self.show_trouble(message.trouble or "No trace was taken.")


# Processes that can be attached to, as they ask: one, several or all of them are chosen, and their traces taken.

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

    @dataclass
    class Asked(Message):
        """A process has asked."""

        job: Job

    @dataclass
    class Others(Message):
        """Processes with PyTorch that may never ask."""

        jobs: list[Job]

    @dataclass
    class Refused(Message):
        """The socket cannot be opened."""

        why: str

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[int, Job] = {}
        self._marked: set[int] = set()
        self._note = HOW
        self._stop = Event()

    def on_mount(self) -> None:
        """Say what to wait for."""
        self._show_rows()

    def on_screen_resume(self) -> None:
        """Listen while this screen is on top."""
        # The message that a screen is on top may come more than once.
        self._stop.set()
        self._stop = Event()
        self.listen(self._stop)

    def on_screen_suspend(self) -> None:
        """Stop listening: the socket is for whoever takes a trace."""
        self._stop.set()

    def on_unmount(self) -> None:
        """Stop listening."""
        self._stop.set()

    @work(thread=True, group="listen")
    def listen(self, stop: Event) -> None:
        """Answer those that ask that nothing is wanted, until it is to stop."""
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
        self.show_title(message.why)

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
    """Pid, rank, age and command of each process."""
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
