"""Which part of a trace the cursor stands for, to be compared with another part: a step, runs of a name, one run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.errors import UsageError
from tracetui.linking.frames import MODULE, function_of
from tracetui.linking.steps import steps
from tracetui.model.groupings import SITES
from tracetui.model.table import Table
from tracetui.model.trace import Kind, Trace
from tracetui.tables.modules import SEPARATOR, path_of
from tracetui.ui.trace.pane_list import PaneList

_NAMED = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)
_NAMED_GROUPS = (*SITES, "annotation")
"""Groupings whose groups have the name of something that runs."""


class MarkedPart(NamedTuple):
    """A part of a trace that is to be compared."""

    scope: str
    """What stands behind the `#` of the trace."""
    runs: int
    """How many runs or steps it has."""

    @property
    def title(self) -> str:
        """The part in words."""
        if self.scope.isdecimal():
            return f"step {self.scope}"
        return self.scope if self.runs == 1 else f"{self.scope} ({self.runs:,} runs)"


def part_of_list(trace: Trace, panes: PaneList) -> MarkedPart | None:
    """What the current row of a list stands for, None where that can be compared with nothing."""
    table, row, by = panes.view.table, panes.view.row, panes.arrangement.by
    if table is None or row < 0:
        return None
    if panes.pane == "steps":
        return _part(trace, str(table["steps_by" if by == "source" else "step"].cell(row)))
    if panes.pane == "modules":
        return _of_tree_row(trace, table, row, by)
    if by in _NAMED_GROUPS and panes.pane in ("kernels", "launches", "gaps"):
        name = table.columns[0].cell(row)
        return None if name is None else _of_path(trace, str(name).removeprefix("backward of "))
    return part_of_slice(trace, panes.view.slice_row)


def part_of_slice(trace: Trace, row: int) -> MarkedPart | None:
    """One step, or one run of an annotation, a frame or an operator; None for anything else."""
    if row < 0 or int(trace.slices.kind[row]) not in _NAMED:
        return None
    every = steps(trace)
    if row in every.row:
        return _part(trace, str(every.number[np.flatnonzero(every.row == row)[0]]))
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


def _of_path(trace: Trace, path: str) -> MarkedPart | None:
    """The part of a group that is named by a function, or by a module with those around it."""
    if SEPARATOR not in path:
        return _part(trace, path)
    return _part(trace, _shortest(trace, path.rsplit(SEPARATOR, 1)[-1], "/" + path.replace(SEPARATOR, "/")))


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
