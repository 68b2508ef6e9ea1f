"""A form for one workload: its parameters and how it is recorded, with their defaults; enter records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from rich.segment import Segment
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from tracetui_workloads.api import Param, Value, Workload
from tracetui_workloads.recording.launcher import OPTIONS, BadRequest, Options, Request, plan, plan_variants
from tracetui_workloads.registry import Entry, entries

from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.recording.recording_screen import RecordingScreen
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

# How a recording is made, as fields of a form: what is asked each time, what is folded away, and the command for it.
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
    """What a form asks for: one recording, or one for each variant; parameters and options that differ, as texts.

    Raises: BadRequest for a bad value, or for options that contradict each other.
    """
    words = command_line(name, given, changed)
    options = {key: value for key, value in changed.items() if key != COMPARE.name}
    compared = [word.strip() for word in str(changed.get(COMPARE.name, "")).split(",") if word.strip()]
    if compared:
        return plan_variants(name, compared, given, values_of(workload, options), argv=words)
    return [plan(name, given, options_of(workload, options), argv=words)]


def options_of(workload: Workload, changed: Mapping[str, Value]) -> Options:
    """The options by those that differ from their defaults.

    Raises: BadRequest for a bad value, or for options that contradict each other.
    """
    return Options(**values_of(workload, changed))


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
        words += [_option(key)] if value == "yes" else [f"{_option(key)}={value}"]
    for key, value in given.items():
        # What has the name of an option would be taken for it.
        words += ["-p", f"{key}={value}"] if key in options else [f"{_option(key)}={value}"]
    return words


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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


class RecordingForm(Overlay["str | list[str] | tuple[str, ...]"]):
    """The fields of a recording; dismissed with the path of the trace, or those of several to compare, or None.

    More than two are a tuple.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ENTER, "record", "Record", "Runs it and opens the trace.", "record"),
        command(keys.NEXT_PART, "field(1)", "Next field", "", "field"),
        command(keys.DOWN, "field(1)", "Next field"),
        command(keys.PREVIOUS_PART, "field(-1)", "Previous field", "", "field"),
        command(keys.UP, "field(-1)", "Previous field"),
        command(keys.ESCAPE, "give_up", "Back to the list", "", "back"),
    ]
    DEFAULT_CSS = """
    RecordingForm {
        #fields { height: 1fr; overflow-y: auto; padding: 1 1; }
        #fields Horizontal { height: 1; }
        #fields .folded { display: none; }
        .name { width: 16; }
        .about { width: 1fr; }
        Input { width: 20; }
        Input { height: 1; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        #title, #hints { background: $panel; }
    }
    """

    def __init__(self, name: str, workload: Workload) -> None:
        super().__init__()
        self._called = name
        self._workload = workload
        self._hints = HintsBar()
        self._params = {f"param-{param.name}": param for param in workload.params}
        options = (*common(workload), COMPARE, *FOLDED)
        self._options = {f"option-{param.name}": param for param in options}

    def compose(self) -> ComposeResult:
        """A line for each parameter and each option, the rarer ones folded, and what would be typed in a shell."""
        yield Bar(id="title")
        with Vertical(id="fields"):
            for key, param in self._fields.items():
                with Horizontal(classes="folded" if param in FOLDED else ""):
                    yield Bar(classes="name", id=f"name-{key}")
                    yield field_of(param, key)
                    yield Bar(classes="about", id=f"about-{key}")
        yield Bar(id="command")
        yield Bar(id="trouble")
        yield self._hints

    def on_mount(self) -> None:
        """Fill in the words."""
        summary = f"  {clean(self._workload.summary)}"
        self.query_one("#title", Bar).parts = (BarPart(clean(self._called), "strong"), BarPart(summary))
        for key, param in self._fields.items():
            self.query_one(f"#name-{key}", Bar).parts = (BarPart(clean(param.name)),)
            self.query_one(f"#about-{key}", Bar).parts = (BarPart(clean(param.help), "dim"),)
        self.query(".field").first().focus()
        self._show_command()

    @property
    def given(self) -> dict[str, Value]:
        """The parameters that differ from their defaults, as texts."""
        return self._changed(self._params)

    @property
    def options(self) -> dict[str, Value]:
        """The options that differ from their defaults, as texts."""
        return self._changed(self._options)

    def action_record(self) -> None:
        """Record, or show why a value is refused."""
        try:
            asked = self.requests()
        except BadRequest as error:
            self._show_trouble(str(error))
            return
        self._show_trouble("")
        self.app.push_screen(RecordingScreen(asked), self._recorded)

    def requests(self) -> list[Request]:
        """What the form asks for: a recording, or several that are compared.

        Raises: BadRequest for a bad value.
        """
        return requests(self._called, self._workload, self.given, self.options)

    def action_field(self, by: int) -> None:
        """Go to another field."""
        if by > 0:
            self.focus_next(".field")
        else:
            self.focus_previous(".field")

    def action_give_up(self) -> None:
        """Record nothing."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _accept(self) -> None:
        self.action_record()

    @on(Input.Changed)
    @on(ChoiceField.Changed)
    def _show_command(self) -> None:
        words = command_line(self._called, self.given, self.options)
        self.query_one("#command", Bar).parts = (BarPart(clean(" ".join(words)), "dim"),)

    @on(ChoiceField.Changed, f"#field-{MORE.name}")
    def _unfold(self) -> None:
        is_open = self._text_of(MORE.name) == "yes"
        for row in self.query(".folded"):
            row.styles.display = "block" if is_open else "none"

    def on_descendant_focus(self) -> None:
        """The keys are those of the field."""
        self._hints.show_hints()

    def _recorded(self, paths: list[str] | None) -> None:
        if not paths:
            return
        self.dismiss(paths[0] if len(paths) == 1 else paths if len(paths) == 2 else tuple(paths))

    def _show_trouble(self, words: str) -> None:
        self.query_one("#trouble", Bar).parts = (BarPart(clean(words), "warn"),)

    @property
    def _fields(self) -> dict[str, Param]:
        """Every field in its order, by the end of its id."""
        folded = {key: param for key, param in self._options.items() if param in FOLDED}
        others = {key: param for key, param in self._options.items() if key not in folded}
        return {**self._params, **others, MORE.name: MORE, **folded}

    def _changed(self, fields: Mapping[str, Param]) -> dict[str, Value]:
        texts = {key: self._text_of(key) for key in fields}
        return {param.name: texts[key] for key, param in fields.items() if texts[key] != default_text(param)}

    def _text_of(self, key: str) -> str:
        field = self.query_one(f"#field-{key}")
        return field.value.strip() if isinstance(field, Input | ChoiceField) else ""


def field_of(param: Param, key: str) -> Widget:
    """The field of a parameter: a list of values where they are known, else a line to type in."""
    values = listed_values(param)
    field: Widget
    if values:
        field = ChoiceField(values, default_text(param), id=f"field-{key}")
        field.styles.width = max(MIN_FIELD_CELLS, max(map(len, values)) + len("‹  › "))
    else:
        field = Input(default_text(param), compact=True, id=f"field-{key}")
        field.cursor_blink = False
    return field.add_class("field")


def listed_values(param: Param) -> tuple[str, ...]:
    """Every value of a parameter as text; none where there are too many to list."""
    return YES_NO if isinstance(param.default, bool) else tuple(map(str, param.choices))


def default_text(param: Param) -> str:
    """The default as text."""
    return YES_NO[param.default] if isinstance(param.default, bool) else str(param.default)


# The list of what can be recorded here, with the reason where something cannot; the one that is chosen gets a form.

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
