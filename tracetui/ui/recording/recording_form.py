"""A form for one workload: its parameters and how it is recorded, with their defaults; enter records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input
from tracetui_workloads.api import Param, Value, Workload
from tracetui_workloads.recording.launcher import OPTIONS, BadRequest, Options, Request, plan, plan_variants
from tracetui_workloads.registry import Entry, entries

from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.recording.form import ChoiceField, Form, default_text, form_commands
from tracetui.ui.recording.recording_screen import RecordingScreen
from tracetui.ui.widgets.bar import BarPart
from tracetui.ui.widgets.picker import Picker
from tracetui.ui.widgets.table_view import TableView

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
