"""Rows of a list: those of a tree of which some are open, and the row that stands for a selection. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.model.table import Table, coded
from tracetui.model.trace import Trace
from tracetui.tables.modules import holders
from tracetui.ui.trace.selection import step_of
from tracetui.ui.widgets.table_view import CLOSED, LEAF, OPEN

MAX_ROWS_AT_FIRST = 24
"""Maximum rows that are listed before any is opened by hand."""
_MARKS = {LEAF: "  ", CLOSED: "▸ ", OPEN: "▾ "}


@dataclass(eq=False)
class RowTree:
    """The rows of a table in which every row comes before those below it; its first column is their names."""

    table: Table
    depth: NDArray[np.int64]
    end: NDArray[np.int64]
    """Index behind the last row below each row."""
    opened: NDArray[np.bool_]
    """Mask of the rows that are open."""

    @classmethod
    def of(cls, table: Table, before: RowTree | None = None) -> RowTree:
        """The tree of a table with a column `depth`, open where another one is; without that, as many levels as fit."""
        depth = table["depth"].values.astype(np.int64)
        tree = cls(table, depth, _ends(depth), np.zeros(len(table), bool))
        if before is None:
            # The levels of which all rows fit on the screen together with those above.
            rows = np.cumsum(np.bincount(depth)) if len(depth) else np.zeros(1, np.int64)
            tree.opened = depth < max(int(np.searchsorted(rows, MAX_ROWS_AT_FIRST, side="right")) - 1, 0)
        else:
            paths = before.table["path"]
            wanted = {str(paths.cell(row)) for row in np.flatnonzero(before.opened).tolist()}
            tree.opened = table["path"].matching(lambda path: path in wanted)
        return tree

    @property
    def states(self) -> NDArray[np.int64]:
        """State of each row."""
        return np.where(self.end > np.arange(len(self.end)) + 1, np.where(self.opened, OPEN, CLOSED), LEAF)

    def listed(self) -> NDArray[np.int64]:
        """The rows of which everything above is open, in order."""
        closed = np.flatnonzero(self.states == CLOSED)
        change = np.zeros(len(self.depth) + 1, np.int64)
        np.add.at(change, closed + 1, 1)
        np.add.at(change, self.end[closed], -1)
        return np.flatnonzero(np.cumsum(change[:-1]) == 0)

    def readable(self) -> Table:
        """The table with a mark before each name that says whether the row is open."""
        key = self.table.columns[0]
        values = key.values.astype(np.int64) + self.states * len(key.strings or ())
        return Table(
            (coded(key.spec, values, self._marked_names), *self.table.columns[1:]),
            self.table.slices,
            self.table.note,
            self.table.doubts,
        )

    @cached_property
    def _marked_names(self) -> list[str]:
        """Every name of the table in each state."""
        texts = self.table.columns[0].strings or ()
        return [
            f"{' ' * (len(text) - len(text.lstrip(' ')))}{mark}{text.lstrip(' ')}"
            for mark in _MARKS.values()
            for text in texts
        ]


def _ends(depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the index of the next one that is not below it."""
    end = np.full(len(depth), len(depth), np.int64)
    for level in range(int(depth.max(initial=-1)) + 1):
        mine, stops = np.flatnonzero(depth == level), np.flatnonzero(depth <= level)
        index = np.searchsorted(stops, mine, side="right")
        end[mine] = np.append(stops, len(depth))[index]
    return end


# The index in a list of the row that stands for the selection, -1 where the cursor stays, and whether it does.


def place_in_tree(
    trace: Trace, table: Table, order: NDArray[np.int64], current: int, selected: int, by: str | None
) -> tuple[int, bool]:
    """The innermost listed row of a tree of modules that holds a slice; `current` is the row of the cursor."""
    for frame, path in holders(trace, selected, by):
        if by == "call":
            rows = np.flatnonzero(table.slices == frame) if table.slices is not None else np.empty(0, np.int64)
        else:
            rows = np.flatnonzero(table["path"].equal(path or None))
        if frame < 0:
            # What lies in nothing is no reason to leave the top for the row of all the rest.
            return -1, current in rows
        indices = np.flatnonzero(np.isin(order, rows))
        if len(indices):
            return int(indices[0]), True
    return -1, False


def place_on_step(
    trace: Trace, table: Table, order: NDArray[np.int64], selected: Sequence[int], step: int | None
) -> tuple[int, bool]:
    """The step that is listed, or else that of the first selected slice.

    A step owns what it launched, also where that runs after the step: the time of a GPU activity says nothing.
    """
    own = step_of(trace, next(iter(selected), -1))
    number = own if step is None else step
    if number is None:
        return -1, False
    indices = np.flatnonzero(table["step"].values[order] == number)
    if len(indices) == 0:
        return -1, False
    # Of steps of one number on several threads that of the selection.
    slices = table.slices if table.slices is not None else np.full(len(table), -1)
    of_selection = indices[np.isin(slices[order[indices]], selected)]
    return int((of_selection if len(of_selection) else indices)[0]), own == number
