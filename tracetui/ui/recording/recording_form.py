"""Recording a workload: a form of its parameters and of how it is recorded, and the screen while that is made.

A form has fields declared as `Param`, one on each line, with their defaults, of which enter takes what they say; escape
gives up. The recording runs in a process of its own. It is stopped and waited for before its screen goes, however it
goes, so that neither a process nor a partial file is left behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.segment import Segment
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static
from tracetui_workloads.api import Param, Value, Workload
from tracetui_workloads.recording.launcher import (
    OPTIONS,
    STAGES,
    BadRequest,
    Event,
    Failure,
    LogLine,
    Note,
    Options,
    Outcome,
    Progress,
    Request,
    Stage,
    StageDone,
    keep_times,
    plan,
    plan_variants,
    record,
    time_variants,
)
from tracetui_workloads.registry import Entry, entries

from tracetui.model.quantities import duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay, OverlayResult
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

MIN_FIELD_CELLS = 20
"""Cells of a field; one with longer values takes more."""
YES_NO = ("no", "yes")


class ChoiceField(Widget, can_focus=True):
    """One of a few values, on one line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.RIGHT, "turn(1)", "Next value", "", "value"),
        command(keys.SPACE, "turn(1)", "Next value"),
        command(keys.LEFT, "turn(-1)", "Previous value", "", "value"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choice--value"}
    DEFAULT_CSS = """
    ChoiceField {
        height: 1;
        .choice--value { background: $panel; color: $foreground; }
        &:focus .choice--value { background: $primary; color: $background; text-style: bold; }
    }
    """

    value: reactive[str] = reactive("")

    class Changed(Message):
        """Another value was taken."""

        def __init__(self, choice: ChoiceField) -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> ChoiceField:
            """The field, for `@on` selectors."""
            return self.choice

    def __init__(self, values: Sequence[str], value: str, *, id: str) -> None:
        super().__init__(id=id)
        self.values = tuple(values)
        self.set_reactive(ChoiceField.value, value)

    def action_turn(self, by: int) -> None:
        """Take the next value, going round at the ends."""
        self.value = self.values[(self.values.index(self.value) + by) % len(self.values)]
        self.post_message(self.Changed(self))

    def on_click(self, event: Click) -> None:
        """A click takes the next one, too."""
        event.stop()
        self.action_turn(1)

    def render_line(self, y: int) -> Strip:
        """The value between arrows."""
        style = self.get_component_rich_style("choice--value")
        return Strip([Segment(f"‹ {self.value} ›", style)]).adjust_cell_length(self.size.width, self.rich_style)


def form_commands(accept: Binding, give_up: Binding) -> list[BindingType]:
    """The commands of a form, in the order of its key hints."""
    return [
        accept,
        command(keys.NEXT_PART, "field(1)", "Next field", "", "field"),
        command(keys.DOWN, "field(1)", "Next field"),
        command(keys.PREVIOUS_PART, "field(-1)", "Previous field", "", "field"),
        command(keys.UP, "field(-1)", "Previous field"),
        give_up,
    ]


def default_text(param: Param) -> str:
    """The default as text."""
    return YES_NO[param.default] if isinstance(param.default, bool) else str(param.default)


class Form(Overlay[OverlayResult]):
    """Base of forms: a title, the fields, a line about all of them, what is wrong with a value, and the key hints."""

    DEFAULT_CSS = """
    Form {
        #fields { height: 1fr; overflow-y: auto; padding: 1 1; }
        #fields Horizontal { height: 1; }
        #fields .folded { display: none; }
        .about { width: 1fr; }
        Input { width: 20; height: 1; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        #title, #hints { background: $panel; }
    }
    """
    NAME_CELLS: ClassVar[int] = 16
    """Cells for the names of the fields."""
    LINE_ID: ClassVar[str] = "about"
    """The id of the line about all fields."""

    def __init__(self, title: tuple[BarPart, ...], fields: Mapping[str, Param], folded: Sequence[Param] = ()) -> None:
        """`fields` by the end of their ids; those that are `folded` are not shown at first."""
        super().__init__()
        self._title, self._fields, self._folded = title, fields, folded
        self._hints = HintsBar()

    def compose(self) -> ComposeResult:
        """A line for each field; a list of values where they are known, else a line to type in."""
        yield Bar(id="title")
        with Vertical(id="fields"):
            for key, param in self._fields.items():
                with Horizontal(classes="folded" if param in self._folded else ""):
                    name = Bar(classes="name", id=f"name-{key}")
                    name.styles.width = self.NAME_CELLS
                    yield name
                    values = YES_NO if isinstance(param.default, bool) else tuple(map(str, param.choices))
                    if values:
                        choice = ChoiceField(values, default_text(param), id=f"field-{key}")
                        choice.styles.width = max(MIN_FIELD_CELLS, max(map(len, values)) + len("‹  › "))
                        yield choice.add_class("field")
                    else:
                        line = Input(default_text(param), compact=True, id=f"field-{key}")
                        line.cursor_blink = False
                        yield line.add_class("field")
                    yield Bar(classes="about", id=f"about-{key}")
        yield Bar(id=self.LINE_ID)
        yield Bar(id="trouble")
        yield self._hints

    def on_mount(self) -> None:
        """Fill in the words."""
        self.query_one("#title", Bar).parts = self._title
        for key, param in self._fields.items():
            self.query_one(f"#name-{key}", Bar).parts = (BarPart(clean(param.name)),)
            self.query_one(f"#about-{key}", Bar).parts = (BarPart(clean(param.help), "dim"),)
        self.query(".field").first().focus()

    def on_descendant_focus(self) -> None:
        """The keys are those of the field."""
        self._hints.show_hints()

    def action_accept(self) -> None:
        """Do what the form is for, or show why a value is refused."""
        raise NotImplementedError

    @on(Input.Submitted)
    def _accept_typed(self) -> None:
        self.action_accept()

    def action_field(self, by: int) -> None:
        """Go to another field."""
        if by > 0:
            self.focus_next(".field")
        else:
            self.focus_previous(".field")

    def text_of(self, key: str) -> str:
        """The text of a field."""
        field = self.query_one(f"#field-{key}")
        return field.value.strip() if isinstance(field, Input | ChoiceField) else ""

    def show_line(self, *parts: BarPart) -> None:
        """Show the line about all fields."""
        self.query_one(f"#{self.LINE_ID}", Bar).parts = parts

    def show_trouble(self, sentence: str) -> None:
        """Show what is wrong with a value; nothing for an empty sentence."""
        self.query_one("#trouble", Bar).parts = (BarPart(clean(sentence), "warn"),)


CLOCK_SECONDS = 0.25
"""Seconds between two paintings of the clock."""


class RecordingScreen(ModalScreen[list[str]], Overlay[list[str]]):
    """Progress of one recording, or of variants one after the other; dismissed with the paths of the traces, or None.

    A variant that fails does not keep the others from being recorded; it is reported once they are. Fewer than two
    traces cannot be compared.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "cancel", "Cancel the recording", "Leaves no process and no file.", "cancel"),
        command(keys.QUIT, "quit", "Cancel and quit", "", "quit"),
    ]
    DEFAULT_CSS = """
    RecordingScreen {
        align: center middle;
        background: $background;
        & > Vertical { width: 78; max-width: 100%; height: auto; max-height: 100%; }
        Static { width: 100%; height: auto; padding: 0 1; }
        #notes { color: $warning; margin: 1 0; }
    }
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        super().__init__()
        self._requests = requests
        self._index = 0
        """Index of the request that is being recorded."""
        self._paths: list[str] = []
        self._recorded: list[tuple[Request, Outcome]] = []
        self._is_timing = False
        """True once the variants were recorded, and are timed in turns."""
        self._failures: list[Failure] = []
        self._cancel = asyncio.Event()
        self._recording: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._stages: list[tuple[str, float]] = []
        """Stages that are over, with their seconds."""
        self._stage, self._since = STAGES[0], self._began
        self._parts = ""
        self._notes: list[str] = []
        self._log = ""
        self._is_over = self._quits = False

    def compose(self) -> ComposeResult:
        """The workload, the stages, remarks, the last line that was printed, the keys."""
        with Vertical():
            yield Bar(id="what")
            yield Static(id="stages", markup=False)
            yield Static(id="notes", markup=False)
            yield Bar(id="log")
            yield Bar(id="keys")

    def on_mount(self) -> None:
        """Say what is recorded, then start."""
        self.set_interval(CLOCK_SECONDS, self._paint)
        self._recording = asyncio.create_task(self._record())
        self.follow(self._recording)
        self._paint()

    async def on_unmount(self) -> None:
        """Nobody waits for the trace any more: stop the process, and wait until it is gone."""
        self._cancel.set()
        if self._recording is not None:
            await asyncio.wait({self._recording})

    @work
    async def follow(self, recording: asyncio.Task[None]) -> None:
        """Wait for the end and act on it."""
        # The worker may be cancelled, the recording only stopped.
        await asyncio.shield(recording)
        self._is_over = True
        is_cancelled = any(failure.kind == "cancelled" for failure in self._failures)
        if self._quits:
            self.app.exit()
        elif is_cancelled or (self._cancel.is_set() and len(self._paths) < len(self._requests)):
            self.dismiss(None)
        elif len(self._paths) >= min(len(self._requests), 2):
            for failure in self._failures:
                self.app.notify(clean(str(failure)), severity="warning", markup=False)
            self.dismiss(self._paths)
        else:
            self._notes += [str(failure) for failure in self._failures]
            self._show_keys("back")
            self._paint()

    async def _record(self) -> None:
        """Make the recordings, until one is cancelled or fails as the others would."""
        for index, request in enumerate(self._requests):
            self._index = index
            self._stages.clear()
            self._take_event(Stage(STAGES[0]))
            self._show_keys("cancel")
            outcome = await record(request, self._take_event, self._cancel)
            if outcome.path is not None:
                # Of several ranks all are opened, or those of number 0 compared.
                is_alone = len(self._requests) == 1
                self._paths.append(str(outcome.path if is_alone else outcome.traces[0]))
                self._recorded.append((request, outcome))
            elif outcome.failure is not None:
                self._failures.append(outcome.failure)
            if self._cancel.is_set() or (outcome.failure and outcome.failure.ends_all):
                return
        await self._time_in_turns()

    async def _time_in_turns(self) -> None:
        """Time the variants without the profiler, one beside the other; without success they keep their own times."""
        timed = [each for each in self._recorded if isinstance(each[1].metadata.get("unprofiled"), Mapping)]
        if len(timed) < 2:
            return
        self._stages.clear()
        self._is_timing = True
        outcomes = await time_variants([request for request, _ in timed], self._take_event, self._cancel)
        for (_, recorded), outcome in zip(timed, outcomes, strict=True):
            with suppress(OSError):
                keep_times(recorded, outcome)

    def action_cancel(self) -> None:
        """Stop the recording; after one that failed go back."""
        if self._is_over:
            self.dismiss(None)
        else:
            self._stop()

    async def action_quit(self) -> None:
        """Leave the app once the recording has stopped."""
        if self._is_over:
            self.app.exit()
        self._quits = True
        self._stop()

    def _stop(self) -> None:
        self._cancel.set()
        self._notes.append("Stopping …")
        self._paint()

    def _take_event(self, event: Event) -> None:
        match event:
            case Stage(name):
                self._stage, self._since, self._parts, self._log = name, time.monotonic(), "", ""
            case StageDone(name, seconds):
                self._stages.append((name, seconds))
            case Progress(_, done, total):
                self._parts = f"{done}/{total}"
            case Note(_, text) if text not in self._notes:
                self._notes.append(text)
            case LogLine(text):
                self._log = text

    def _paint(self) -> None:
        now = time.monotonic()
        if not self._is_over:
            elapsed = duration(1e9 * (now - self._began))
            title = (BarPart("recording "), BarPart(clean(self._what), "strong"), BarPart(f"  {elapsed}"))
            self.query_one("#what", Bar).parts = title
        lines = [f"  {name:<24}{duration(1e9 * seconds):>12}" for name, seconds in self._stages]
        if not self._stages or self._stages[-1][0] != self._stage:
            lines.append(f"▸ {self._stage:<24}{duration(1e9 * (now - self._since)):>12}  {self._parts}")
        self.query_one("#stages", Static).update(Text("\n".join(map(clean, lines))))
        self.query_one("#notes", Static).update(Text("\n".join(map(clean, self._notes[-4:]))))
        self.query_one("#log", Bar).parts = (BarPart(clean(self._log), "dim"),)

    def _show_keys(self, escape: str) -> None:
        known = (BarPart("esc", "key"), BarPart(f" {escape}   "), BarPart(str(keys.QUIT), "key"), BarPart(" quit"))
        name = Path(self._requests[self._index].out).name
        self.query_one("#keys", Bar).parts = (*known, BarPart(f"   {clean(name)}", "dim"))

    @property
    def _what(self) -> str:
        """The workload, and the number of the recording of how many."""
        request, count = self._requests[self._index], len(self._requests)
        if self._is_timing:
            return f"{request.workload} without the profiler, {count} variants in turns"
        return f"{request.workload} {request.variant} {self._index + 1}/{count}" if count > 1 else request.workload


# The fields of a recording: those asked each time and those folded away, and the command that they make.
#
# `--device cuda:1`, `--python`, `--timeout` and where the trace goes are left to the command line.

COMPARE = Param("compare", "", "record variants, as in eager,compile")
"""The field that asks for variants; empty for one recording."""

MORE = Param("more", False, "compiler, schedule, seed, stacks, memory")
"""The field that unfolds the others."""

_FIELDS = {name: replace(option, choices=option.choices or option.suggestions) for name, option in OPTIONS.items()}
FOLDED = tuple(option for option in _FIELDS.values() if option.is_folded)
"""Options that are rarely changed."""


def common(workload: Workload) -> tuple[Param, ...]:
    """Options that are asked each time; the data type only where it makes a difference."""
    fields = {**_FIELDS, "dtype": replace(_FIELDS["dtype"], default=workload.dtype)}
    return tuple(each for each in fields.values() if not each.is_folded and (each.name != "dtype" or workload.dtype))


def requests(name: str, workload: Workload, given: Mapping[str, Value], changed: Mapping[str, Value]) -> list[Request]:
    """The requests of a form: one recording, or one for each variant, by parameters and options that differ, as texts.

    Raises: BadRequest for a bad value, or for options that contradict each other.
    """
    words = command_line(name, given, changed)
    options = {key: value for key, value in changed.items() if key != COMPARE.name}
    compared = [word.strip() for word in str(changed.get(COMPARE.name, "")).split(",") if word.strip()]
    if compared:
        return plan_variants(name, compared, given, values_of(workload, options), argv=words)
    return [plan(name, given, Options(**values_of(workload, options)), argv=words)]


def values_of(workload: Workload, changed: Mapping[str, Value]) -> dict[str, Any]:
    """The options that differ from their defaults, each in its type.

    Raises: BadRequest for a bad value.
    """
    fields = {param.name: param for param in (*common(workload), *FOLDED)}
    return {name: fields[name].read(value) for name, value in changed.items()}


def command_line(name: str, given: Mapping[str, Value], changed: Mapping[str, Value]) -> list[str]:
    """The same recording as a command, of parameters and options that differ from their defaults, as texts."""
    options = {*OPTIONS, COMPARE.name}
    words = ["tracetui", "run", name]
    for key, value in changed.items():
        words.append(f"--{key.replace('_', '-')}{'' if value == 'yes' else f'={value}'}")
    for key, value in given.items():
        # What has the name of an option would be taken for it.
        words += ["-p", f"{key}={value}"] if key in options else [f"--{key.replace('_', '-')}={value}"]
    return words


class RecordingForm(Form["str | list[str] | tuple[str, ...]"]):
    """The fields of a recording; dismissed with the path of the trace, or those of several to compare, or None.

    More than two are a tuple. The options that are rarely changed are folded away, and the last line is what would be
    typed in a shell.
    """

    BINDINGS: ClassVar[list[BindingType]] = form_commands(
        command(keys.ENTER, "accept", "Record", "Runs it and opens the trace.", "record"),
        command(keys.ESCAPE, "give_up", "Back to the list", "", "back"),
    )
    LINE_ID = "command"

    def __init__(self, name: str, workload: Workload) -> None:
        self._called, self._workload = name, workload
        self._params = {f"param-{param.name}": param for param in workload.params}
        asked = {f"option-{param.name}": param for param in (*common(workload), COMPARE)}
        folded = {f"option-{param.name}": param for param in FOLDED}
        self._options = {**asked, **folded}
        title = BarPart(clean(name), "strong"), BarPart(f"  {clean(workload.summary)}")
        super().__init__(title, {**self._params, **asked, MORE.name: MORE, **folded}, FOLDED)

    def on_mount(self) -> None:
        """Show the command."""
        self._show_command()

    def action_accept(self) -> None:
        """Record, or show why a value is refused."""
        given, options = self._changed(self._params), self._changed(self._options)
        try:
            asked = requests(self._called, self._workload, given, options)
        except BadRequest as error:
            self.show_trouble(str(error))
            return
        self.show_trouble("")
        self.app.push_screen(RecordingScreen(asked), self._recorded)

    def action_give_up(self) -> None:
        """Record nothing."""
        self.dismiss(None)

    @on(Input.Changed)
    @on(ChoiceField.Changed)
    def _show_command(self) -> None:
        words = command_line(self._called, self._changed(self._params), self._changed(self._options))
        self.show_line(BarPart(clean(" ".join(words)), "dim"))

    @on(ChoiceField.Changed, f"#field-{MORE.name}")
    def _unfold(self) -> None:
        is_open = self.text_of(MORE.name) == "yes"
        for row in self.query(".folded"):
            row.styles.display = "block" if is_open else "none"

    def _recorded(self, paths: list[str] | None) -> None:
        if paths:
            self.dismiss(paths[0] if len(paths) == 1 else paths if len(paths) == 2 else tuple(paths))

    def _changed(self, fields: Mapping[str, Param]) -> dict[str, Value]:
        """The fields that differ from their defaults, as texts by name."""
        texts = {key: self.text_of(key) for key in fields}
        return {param.name: texts[key] for key, param in fields.items() if texts[key] != default_text(param)}


# The list of what can be recorded here, with the reason where something cannot; the one that is chosen gets a form.

_WORKLOAD = ColumnSpec("workload", "workload", width=20, grow=1)
_HERE = ColumnSpec("here", "here", width=20, grow=1)
_SUMMARY = ColumnSpec("summary", "what", width=20, grow=2)

HERE = "runs here"


class WorkloadPicker(Picker[Any]):
    """Workloads to record; dismissed with the path of the trace, or those of several to compare, or None."""

    TITLE_TEXT = "Record which workload?"
    PANE = "workloads"

    @dataclass
    class Listed(Message):
        """The workloads are known."""

        rows: list[Entry]

    def on_mount(self) -> None:
        """Ask this machine and other packages in a thread."""
        self.query_one(TableView).show(self.PANE, None, np.empty(0, np.int64), note="Looking for workloads …")
        self.look()

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Find the workloads."""
        self.post_message(self.Listed(entries()))

    @on(Listed)
    def _list(self, message: Listed) -> None:
        self.list_choices(message.rows, workloads_table(message.rows), "There are no workloads.")

    def take(self, choice: Entry) -> None:
        """Show the form of a workload, or say why it cannot run here."""
        if choice.workload is None or choice.reason:
            self.show_title(f"{choice.name} cannot run: {choice.reason}")
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
