"""Lists: what happened in the parts of a side, a row each, with the columns of the pane of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tracetui.analysis.checking.holdings import NO_SHAPES, lacks_calls, lacks_gpu, lacks_ops, whole_or_step
from tracetui.analysis.checking.measured import measured
from tracetui.analysis.checking.op_sums import op_list
from tracetui.analysis.checking.values import Rows, Value, of_column
from tracetui.analysis.comparing.sides.side import CAPTURE, RUN, STEP, Side
from tracetui.analysis.memory.memory_table import NO_MEMORY
from tracetui.analysis.panes import PANES
from tracetui.analysis.step_table import NO_STEPS
from tracetui.model.intervals import Bool
from tracetui.model.table import Column, Table, numbers


@dataclass(frozen=True, eq=False)
class Listing:
    """Rows with named columns."""

    rows: Rows
    columns: Mapping[str, Column]
    _made: dict[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        """A column as values, the same ones each time.

        Raises: KeyError for a column that there is not.
        """
        if name not in self._made:
            self._made[name] = of_column(self.columns[name], self.rows)
        return self._made[name]


@dataclass(frozen=True)
class ListKind:
    """A list that can be asked of every side."""

    help: str
    """What a row is."""
    make: Callable[[Side], Table]
    """The rows of the parts."""
    lacks: Callable[[Side, Table], str]
    """Why it is not known what happened, as a sentence; empty where it is."""


def listing(side: Side, name: str) -> tuple[Table, str]:
    """A list of a side as a table, made once, and why it is not known what happened; that is empty where it is.

    Raises: KeyError for a name that is not in `LISTS`.
    """
    kind = LISTS[name]

    def make() -> tuple[Table, str]:
        table = kind.make(side)
        return table, kind.lacks(side, table)

    return side.trace.remember(("list to check", name, side.scope), make)


def _steps(side: Side) -> Table:
    """The steps of a side with every measure and the columns of the steps pane."""
    pane = PANES["steps"].build(side.trace)
    every = measured_columns(side)
    taken = {column.name for column in every}
    rows = np.empty(0, np.int64) if pane.slices is None else pane.slices
    mine = pane.take(np.flatnonzero(np.isin(rows, side.row)))
    if side.sort != STEP:
        every = [column.take(np.empty(0, np.int64)) for column in every]
    return Table((*every, *(column for column in mine.columns if column.name not in taken)))


def _runs(side: Side) -> Table:
    """The runs of a name with every measure."""
    return Table((numbers("run", side.number, "", "Number of the run, from 1."), *measured_columns(side)))


def measured_columns(side: Side) -> list[Column]:
    """Every measure of the parts of a side as a column."""
    return [numbers(each.name, each.values, each.unit, each.help) for each in measured(side).values()]


def _rows_of(pane: str, kinds: tuple[str, ...] = ()) -> Callable[[Side], Table]:
    """The rows of a pane whose slices belong to the parts, of some kinds where they are given."""

    def make(side: Side) -> Table:
        table = PANES[pane].build(side.trace)
        rows = np.empty(0, np.int64) if table.slices is None else table.slices
        held = side.part_of(rows) >= 0
        if kinds:
            held &= _is_one_of(table["kind"], kinds)
        return table.take(np.flatnonzero(held))

    return make


def _is_one_of(column: Column, texts: tuple[str, ...]) -> Bool:
    strings = column.strings or ()
    return np.isin(column.values, [number for number, text in enumerate(strings) if text in texts])


def _memory(side: Side) -> Table:
    """What the allocators did while a part ran, whoever asked for it."""
    table = PANES["memory"].build(side.trace)
    if side.sort == CAPTURE or len(side) == 0:
        return table
    moment = np.round(table["start_us"].values.astype(np.float64) * 1000).astype(np.int64)
    order = np.argsort(side.start, kind="stable")
    reach = np.maximum.accumulate(side.end[order])
    place = np.searchsorted(side.start[order], moment, side="right") - 1
    return table.take(np.flatnonzero((place >= 0) & (moment < reach[place])))


def _pane(name: str) -> Callable[[Side], Table]:
    """A pane of the whole trace, or of the one step that the side is."""

    def make(side: Side) -> Table:
        step, why = whole_or_step(side)
        table = PANES[name].build(side.trace, step=step)
        return table.take(np.empty(0, np.int64)) if why else table

    return make


def _known(side: Side, _: Table) -> str:
    return ""


def _no_steps(side: Side, _: Table) -> str:
    if side.sort == STEP:
        return "" if len(side) else "No step was recorded whole."
    return NO_STEPS if side.scope == "" else f"#{side.scope} is no step."


def _no_runs(side: Side, _: Table) -> str:
    return "" if side.sort == RUN else "Runs are those of a name: TRACE#NAME."


def _gpu(side: Side, _: Table) -> str:
    return lacks_gpu(side)


def _calls(side: Side, _: Table) -> str:
    return lacks_calls(side)


def _ops(side: Side, _: Table) -> str:
    return lacks_ops(side)


def _allocations(side: Side, _: Table) -> str:
    return NO_MEMORY if len(PANES["memory"].build(side.trace)) == 0 else ""


def _whole(side: Side, _: Table) -> str:
    return whole_or_step(side)[1]


def _shaped(side: Side, table: Table) -> str:
    return whole_or_step(side)[1] or lacks_gpu(side) or ("" if len(table) else NO_SHAPES)


LISTS: dict[str, ListKind] = {
    "steps": ListKind("Complete steps: the names above, one number each.", _steps, _no_steps),
    "runs": ListKind("The same where TRACE#NAME says whose runs are looked at.", _runs, _no_runs),
    "kernels": ListKind("Kernels of the steps, by start.", _rows_of("kernels", ("kernel",)), _gpu),
    "copies": ListKind("Copies and fills of the steps.", _rows_of("kernels", ("memcpy", "memset")), _gpu),
    "launches": ListKind("Calls of the steps that put work on the GPU.", _rows_of("launches"), _gpu),
    "gaps": ListKind("Stretches in which a device ran nothing, before work of the steps.", _rows_of("gaps"), _gpu),
    "ops": ListKind("Operators by name; the numbers are of one step.", op_list, _ops),
    "occupancy": ListKind("Occupancy queries of the steps.", _rows_of("occupancy"), _calls),
    "memory": ListKind("What the allocators did during the steps.", _memory, _allocations),
    "roofline": ListKind("Operators by shapes, of the whole trace.", _pane("roofline"), _shaped),
    "findings": ListKind("What the rules find in the whole trace.", _pane("findings"), _whole),
    "health": ListKind("Checks of the trace itself.", lambda side: PANES["health"].build(side.trace), _known),
}
"""All lists by name."""
