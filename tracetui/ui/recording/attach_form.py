"""A form for a trace of processes that run: how long, and with what; enter takes it, with the progress below."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any, ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from tracetui.errors import TracetuiError, UsageError
from tracetui.model.quantities import duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.opening.attach_listener import Job, Listener, by_rank, job_of, socket_folder, still_runs, torch_jobs
from tracetui.opening.attached_capture import Capture, PrivateFolders, State, TraceRequest, least_timeout
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.recording.recording_form import YES_NO, ChoiceField
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView
from tracetui.writing.output import destinations, keep, kept_words

SECONDS, ITERATIONS = "seconds", "iterations"
ABOUT = {
    "length": "how many of them are recorded",
    "unit": "iterations are calls of an optimizer's step, in programs that import torch.profiler",
    "shapes": "shapes of inputs: what rooflines and operations per second need",
    "stack": "the Python stack; slows the job down meanwhile",
    "memory": "allocations, which torch up to 2.15 leaves out",
}
"""The fields by name, with what they are about."""


class AttachForm(Overlay[str]):
    """Dismissed with the path of the trace, or with the folder of several, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ENTER, "take", "Take the trace", "It opens once it is there.", "take the trace"),
        command(keys.NEXT_PART, "field(1)", "Next field", "", "field"),
        command(keys.DOWN, "field(1)", "Next field"),
        command(keys.PREVIOUS_PART, "field(-1)", "Previous field", "", "field"),
        command(keys.UP, "field(-1)", "Previous field"),
        command(keys.ESCAPE, "give_up", "Give up", "The job goes on; no file is left.", "back"),
    ]
    DEFAULT_CSS = """
    AttachForm {
        #fields { height: 1fr; padding: 1 1; }
        #fields Horizontal { height: 1; }
        .name { width: 12; }
        .about { width: 1fr; }
        ChoiceField { width: 20; }
        Input { width: 20; height: 1; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        #title, #hints { background: $panel; }
    }
    """

    class Turn(Message):
        """How far each process is."""

        def __init__(self, states: str) -> None:
            super().__init__()
            self.states = states

    class Ended(Message):
        """All is over: the path of what was kept, and what went wrong."""

        def __init__(self, path: str | None, trouble: str) -> None:
            super().__init__()
            self.path, self.trouble = path, trouble

    def __init__(self, jobs: list[Job]) -> None:
        super().__init__()
        self._jobs = jobs
        self._hints = HintsBar()
        self._stop: Event | None = None
        """Set to give up what is being taken; None while nothing is."""
        self._is_left = False

    def compose(self) -> ComposeResult:
        """A line per field, then how far it is."""
        yield Bar(id="title")
        with Vertical(id="fields"):
            for name in ABOUT:
                with Horizontal():
                    yield Bar(classes="name", id=f"name-{name}")
                    yield self._field(name)
                    yield Bar(classes="about", id=f"about-{name}")
        yield Bar(id="progress")
        yield Bar(id="trouble")
        yield self._hints

    def on_mount(self) -> None:
        """Fill in the words."""
        which = ", ".join(str(job.pid) if job.rank is None else f"rank {job.rank}" for job in self._jobs[:8])
        more = f" and {len(self._jobs) - 8} more" if len(self._jobs) > 8 else ""
        command_line = f"   {self._jobs[0].command}"
        self.query_one("#title", Bar).parts = (BarPart(f"Attach to {which}{more}", "strong"), BarPart(command_line))
        for name, about in ABOUT.items():
            self.query_one(f"#name-{name}", Bar).parts = (BarPart(name),)
            self.query_one(f"#about-{name}", Bar).parts = (BarPart(about, "dim"),)
        self.query(".field").first().focus()

    def on_unmount(self) -> None:
        """Whoever closes this gives up."""
        if self._stop is not None:
            self._stop.set()

    def on_descendant_focus(self) -> None:
        """The keys are those of the field."""
        self._hints.show_hints()

    @property
    def request(self) -> TraceRequest:
        """What the form asks for.

        Raises: UsageError for a length that makes no trace.
        """
        try:
            length = float(self._text("length"))
        except ValueError:
            raise UsageError("The length is a number.") from None
        flags = {name: self._text(name) == YES_NO[1] for name in ("shapes", "stack", "memory")}
        if self._text("unit") == SECONDS:
            return TraceRequest(length, **flags)
        if length != round(length) or length < 1:
            raise UsageError("Iterations are a whole number, 1 or more.")
        return TraceRequest(iterations=round(length), **flags)

    def action_take(self) -> None:
        """Ask the processes, or show why a value is refused."""
        if self._stop is not None:
            return
        try:
            request = self.request
        except UsageError as error:
            self._show_trouble(str(error))
            return
        self._show_trouble("")
        self._stop = Event()
        self.take(request, self._stop)

    def action_field(self, by: int) -> None:
        """Go to another field."""
        if by > 0:
            self.focus_next(".field")
        else:
            self.focus_previous(".field")

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
        self.query_one("#progress", Bar).parts = (BarPart(message.states, "strong"), BarPart("   esc gives up"))

    @on(Ended)
    def _end(self, message: Ended) -> None:
        self._stop = None
        self.query_one("#progress", Bar).parts = ()
        if self._is_left:
            self.dismiss(None)
        elif message.path is not None:
            if message.trouble:
                self.app.notify(clean(message.trouble), severity="warning", markup=False)
            self.dismiss(message.path)
        else:
            self._show_trouble(message.trouble or "No trace was taken.")

    @on(Input.Submitted)
    def _accept(self) -> None:
        self.action_take()

    def _field(self, name: str) -> ChoiceField | Input:
        """A line to type the length in; for everything else the values that there are."""
        if name != "length":
            values = (SECONDS, ITERATIONS) if name == "unit" else YES_NO
            return ChoiceField(values, values[0], id=f"field-{name}").add_class("field")
        field = Input("2", compact=True, id=f"field-{name}").add_class("field")
        field.cursor_blink = False
        return field

    def _text(self, name: str) -> str:
        field = self.query_one(f"#field-{name}")
        return field.value.strip() if isinstance(field, Input | ChoiceField) else ""

    def _show_trouble(self, words: str) -> None:
        self.query_one("#trouble", Bar).parts = (BarPart(clean(words), "warn"),)


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
