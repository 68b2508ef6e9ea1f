"""A form for a trace of processes that run: how long, and with what; enter takes it, with the progress below."""

from __future__ import annotations

from threading import Event
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from tracetui.errors import TracetuiError, UsageError
from tracetui.opening.capture import Capture, PrivateFolders, State, least_timeout
from tracetui.opening.jobs import Job
from tracetui.opening.listener import Listener, socket_folder
from tracetui.opening.trace_request import TraceRequest
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.recording.recording_form import YES_NO, ChoiceField
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.hints_bar import HintsBar
from tracetui.writing.attached_traces import destinations, keep, kept_words

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
