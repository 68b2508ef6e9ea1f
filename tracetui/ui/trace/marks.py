"""The list of the marks of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from tracetui.comparing.side import side
from tracetui.comparing.variants import variants
from tracetui.drawing.format import cut_name
from tracetui.errors import UsageError
from tracetui.linking.frames import MODULE, function_of
from tracetui.linking.lines import SITES
from tracetui.linking.placement import activities_of_step_number, step_labels, stretch_of_step
from tracetui.linking.steps import steps
from tracetui.model.intervals import TimeRange
from tracetui.model.quantities import count, duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.tables.modules import SEPARATOR, path_of
from tracetui.text import clean
from tracetui.ui.trace.navigator import Mark
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.selection import step_of
from tracetui.ui.trace.slice_description import chain_of
from tracetui.ui.widgets.picker import Picker

_MARK = ColumnSpec("mark", "mark", width=20, grow=1)
_INDEX = ColumnSpec("index", "#", width=6, is_number_text=True)
_START = ColumnSpec("start", "start", width=12, is_number_text=True)


class MarkPicker(Picker[Mark]):
    """The marks of a trace."""

    TITLE_TEXT = "Marks"
    PANE = "marks"

    def __init__(self, trace: Trace, marks: Sequence[Mark]) -> None:
        super().__init__()
        self._trace, self._marks = trace, marks

    def on_mount(self) -> None:
        """List them; the handler of `Picker` runs by itself."""
        self.list_choices(self._marks, marks_table(self._trace, self._marks), "")


def marks_table(trace: Trace, marks: Sequence[Mark]) -> Table:
    """A row per mark: its slice, the step of that, its index among the GPU activities of the step, its start in it."""
    facts = [_facts(trace, mark) for mark in marks]
    steps, indices, starts = zip(*facts, strict=True) if facts else ((), (), ())
    return Table(
        (
            texts(_MARK, [mark.title for mark in marks]),
            texts("step", steps),
            texts(_INDEX, indices),
            texts(_START, starts),
            texts("pane", [mark.viewpoint.pane for mark in marks]),
        )
    )


def _facts(trace: Trace, mark: Mark) -> tuple[str | None, str | None, str | None]:
    """Step, index and start of the slice of a mark; of a mark of a time range, its step and its start."""
    viewpoint = mark.viewpoint
    rows = np.flatnonzero(trace.slices.event == viewpoint.event) if viewpoint.event >= 0 else np.empty(0, np.int64)
    if len(rows) == 0:
        step = None if viewpoint.step is None else str(viewpoint.step)
        return step, None, None if viewpoint.start_ns is None else duration(viewpoint.start_ns)
    row = int(rows[0])
    number, start = step_of(trace, row), int(trace.slices.start[row])
    if number is None:
        return None, None, duration(start)
    index = None
    if trace.slices.kind[row] in GPU_WORK:
        places = np.flatnonzero(activities_of_step_number(trace, number) == row)
        index = count(int(places[0]) + 1) if len(places) else None
    return str(number), index, duration(start - stretch_of_step(trace, number)[0])


# Which part of a trace the cursor stands for, to be compared with another part: a step, runs of a name, one run.

_COMPARABLE_KINDS = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)
_COMPARABLE_GROUPINGS = (*SITES, "annotation")
"""Groupings whose groups have the name of something that runs."""


class MarkedPart(NamedTuple):
    """A part of a trace that is to be compared."""

    scope: str
    """The text after the `#` of the trace."""
    runs: int
    """Number of its runs or steps."""

    @property
    def title(self) -> str:
        """The part in words."""
        if self.scope.isdecimal():
            return f"step {self.scope}"
        return self.scope if self.runs == 1 else f"{self.scope} ({self.runs:,} runs)"


def part_of_list(trace: Trace, panes: PaneList) -> MarkedPart | None:
    """The part that the current row of a list stands for, None where it can be compared with nothing."""
    table, row, by = panes.view.table, panes.view.row, panes.arrangement.by
    if table is None or row < 0:
        return None
    if panes.pane == "steps":
        return _part(trace, str(table["steps_by" if by == "source" else "step"].cell(row)))
    if panes.pane == "modules":
        return _of_tree_row(trace, table, row, by)
    if by in _COMPARABLE_GROUPINGS and panes.pane in ("kernels", "launches", "gaps"):
        name = table.columns[0].cell(row)
        if name is None:
            return None
        # The group has the name of a function, or of a module with those around it.
        path = str(name).removeprefix("backward of ")
        around, _, last = path.rpartition(SEPARATOR)
        return _part(trace, _shortest(trace, last, "/" + path.replace(SEPARATOR, "/")) if around else path)
    return part_of_slice(trace, panes.view.slice_row)


def part_of_slice(trace: Trace, row: int) -> MarkedPart | None:
    """One step, or one run of an annotation, a frame or an operator; None for anything else."""
    if row < 0 or int(trace.slices.kind[row]) not in _COMPARABLE_KINDS:
        return None
    trace_steps = steps(trace)
    if row in trace_steps.row:
        return _part(trace, str(trace_steps.number[np.flatnonzero(trace_steps.row == row)[0]]))
    name = trace.name_of(row)
    for short in (function_of(name), name):
        runs = _runs(trace, short.removeprefix(MODULE))
        index = np.flatnonzero(runs == row)
        if len(index):
            scope = short.removeprefix(MODULE)
            return MarkedPart(f"{scope}[{index[0] + 1}]" if len(runs) > 1 else scope, 1)
    return MarkedPart(f"e{trace.slices.event[row]}", 1)


def _of_tree_row(trace: Trace, table: Table, row: int, by: str | None) -> MarkedPart | None:
    frame = int(table.slices[row]) if table.slices is not None else -1
    if frame < 0 or int(trace.slices.kind[frame]) != Kind.PYTHON:
        return None
    if by == "call":
        return part_of_slice(trace, frame)
    return _part(trace, _shortest(trace, trace.name_of(frame).removeprefix(MODULE), path_of(trace, frame, by)))


def _shortest(trace: Trace, name: str, path: str) -> str:
    """The name where it has the calls of the path alone, else the path, which says which of its namesakes is meant."""
    calls = _runs(trace, path)
    return name if len(calls) == 0 or np.array_equal(_runs(trace, name), calls) else path


def _part(trace: Trace, scope: str) -> MarkedPart | None:
    # What compares is imported when something is to be compared.
    from tracetui.comparing.side import side

    try:
        return MarkedPart(scope, len(side(trace, scope)))
    except UsageError:
        return None


def _runs(trace: Trace, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    from tracetui.comparing.side import side

    try:
        return side(trace, name).row
    except UsageError:
        return np.empty(0, np.int64)


# With what a trace can be compared: its steps with each other, the runs of a name, another trace.

_COMPARISON = ColumnSpec("comparison", "compare", width=30, grow=1)

OTHER_TRACE = ("", "")
"""Stands for a trace that has still to be picked."""


class ComparableScopes(NamedTuple):
    """A row of the picker."""

    title: str
    scopes: tuple[str, ...]
    """The texts after the `#` of A and of B, and of further sides."""


class ComparePicker(Picker[tuple[str, ...]]):
    """Dismissed with the scopes of A, B and further sides, with `OTHER_TRACE`, or None."""

    TITLE_TEXT = "Compare"
    PANE = "comparisons"
    BINDINGS: ClassVar = []

    def __init__(self, choices: Sequence[ComparableScopes]) -> None:
        super().__init__()
        self._scopes = choices

    def on_mount(self) -> None:
        """List the comparisons; the handler of `Picker` runs by itself."""
        table = Table((texts(_COMPARISON, [choice.title for choice in self._scopes]),))
        self.list_choices([choice.scopes for choice in self._scopes], table, "")


def comparable_scopes(trace: Trace, step: int | None, selected: int) -> list[ComparableScopes]:
    """The comparisons offered at a step and selection, the likeliest first: with the step before.

    In a trace without steps the variants of one computation come first.
    """
    sets = []
    for each in variants(trace):
        names = ", ".join(cut_name(clean(name), 40) for name in each.names)
        sets.append(ComparableScopes(f"{names}: {len(each.scopes)} variants side by side", each.scopes))
    known = step_labels(trace)
    choices = [*([] if known else sets), ComparableScopes("this trace with another trace", OTHER_TRACE)]
    current = step if step is not None else step_of(trace, selected)
    if current in known and len(known) > 1:
        index = known.index(current)
        others = sorted((number for number in known if number != current), key=lambda n: (abs(n - current), n))
        before = [known[index - 1]] if index else []
        ordered = [*before, *(number for number in others if number not in before)]
        choices = [_steps(number, current) for number in ordered[:1]] + choices
        choices += [_steps(number, current) for number in ordered[1:]]
    return choices + (sets if known else []) + _adjacent_runs(trace, selected)


def scopes_beside_range(trace: Trace, time_range: TimeRange) -> list[ComparableScopes]:
    """The comparisons offered for a range of time: with the time before and behind it, where the trace has as much."""
    low, high = trace.window
    before = TimeRange(time_range.start - time_range.length, time_range.start)
    behind = TimeRange(time_range.end, time_range.end + time_range.length)
    own, choices = f"@{time_range.text}", []
    if before.start >= low:
        choices.append(ComparableScopes(f"as much time before the range with {own}", (f"@{before.text}", own)))
    if behind.end <= high:
        choices.append(ComparableScopes(f"{own} with as much time behind it", (own, f"@{behind.text}")))
    return choices


def _steps(number: int, current: int) -> ComparableScopes:
    first, second = sorted((number, current))
    return ComparableScopes(f"step {first} with step {second}", (str(first), str(second)))


def _adjacent_runs(trace: Trace, selected: int) -> list[ComparableScopes]:
    """The run before, or after, of each name around the selection that ran more than once."""
    choices = []
    for row in chain_of(trace, selected):
        if int(trace.slices.kind[row]) not in _COMPARABLE_KINDS or row in steps(trace).row:
            continue
        name = trace.name_of(row)
        try:
            runs = side(trace, name).row
        except UsageError:
            continue
        indices = np.flatnonzero(runs == row)
        if len(runs) > 1 and len(indices):
            first = max(int(indices[0]), 1)
            title = f"run {first} of {cut_name(clean(name), 60)} with run {first + 1}"
            choices.append(ComparableScopes(title, (f"{name}[{first}]", f"{name}[{first + 1}]")))
    return choices
