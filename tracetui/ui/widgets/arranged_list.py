"""What every list over tables can do: sort by the columns on screen, turn the order round, and be searched.

Which table is listed, and what a new arrangement entails, is the matter of the subclasses.

How a person arranged a list: sorted by which column, filtered by which text, grouped by what.

Pure: a table and an arrangement give an array of row numbers. The arrangement outlives the table, so another
step's kernels come up sorted and filtered as the last ones were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual import on
from textual.binding import BindingType
from textual.widget import Widget

from tracetui.drawing.format import short_kernel
from tracetui.model.table import Table
from tracetui.ui.base.commands import command
from tracetui.ui.widgets.table_view import TableView

KERNEL_NAMES = ("name", "kernel")
"""Columns that are shown without namespaces and parameters, and so sorted."""


@dataclass(frozen=True)
class Arrangement:
    """Sort column, direction, filter text and grouping of one list."""

    sort: str | None = None
    """Name of the column; None for the order of the analysis."""
    descending: bool = False
    filter: str = ""
    """Only rows in which some text column contains this are listed."""
    by: str | None = None
    """What rows are grouped by, in the analysis's words; None for single rows."""

    def sorted_by(self, name: str, table: Table) -> Arrangement:
        """Sort by a column, numbers from the largest, texts from A; by the same again, the other way."""
        if self.sort == name:
            return replace(self, descending=not self.descending)
        return replace(self, sort=name, descending=not table[name].is_text)


def arrange(table: Table, arrangement: Arrangement) -> NDArray[np.int64]:
    """The rows of a table to list, in order."""
    if arrangement.sort is not None and arrangement.sort in table:
        names_kernels = arrangement.sort in KERNEL_NAMES
        order = table.order(arrangement.sort, arrangement.descending, short_kernel if names_kernels else None)
    else:
        order = np.arange(len(table))
    if arrangement.filter:
        order = order[table.matching(arrangement.filter)[order]]
    return order


class ArrangedList(Widget):
    """Base of widgets that list a table under tabs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command("s", "sort(1)", "Sort by the next column", "Numbers largest first; an arrow shows which.", "sort"),
        command("S", "reverse", "Turn the sort order round", "", "sort"),
        command(
            "b",
            "group",
            "Group the rows",
            "One row per name, then per what else there is, then single rows again.",
            "group",
        ),
    ]

    @property
    def view(self) -> TableView:
        """The list."""
        return self.query_one(TableView)

    @property
    def table(self) -> Table | None:
        """The whole table that is listed, None while there is none."""
        raise NotImplementedError

    @property
    def arrangement(self) -> Arrangement:
        """How it is sorted, filtered and grouped."""
        raise NotImplementedError

    def arrange_by(self, arrangement: Arrangement, tell: bool = False) -> None:
        """Sort, filter or group anew; `tell` selects the first row once it is listed."""
        raise NotImplementedError

    def open_tab(self, name: str) -> None:
        """Show a tab by its name."""
        raise NotImplementedError

    def matches(self, text: str) -> NDArray[np.int64]:
        """Places in the list whose row contains a text."""
        table = self.table
        if table is None or not text:
            return np.empty(0, np.int64)
        return np.flatnonzero(table.matching(text)[self.view.order])

    def action_sort(self, direction: int) -> None:
        """Sort by the next of the columns on screen, and after the last by none."""
        if self.table is None:
            return
        names = [None, *(name for name in self.view.shown_columns if name != "index")]
        current = self.arrangement.sort
        place = names.index(current) if current in names else 0
        name = names[(place + direction) % len(names)]
        plain = replace(self.arrangement, sort=None, descending=False)
        self.arrange_by(plain if name is None else plain.sorted_by(name, self.table))

    def action_reverse(self) -> None:
        """Turn the order round."""
        name = self.arrangement.sort or next(iter(self.view.shown_columns), None)
        if self.table is not None and name is not None:
            self.arrange_by(replace(self.arrangement, sort=name, descending=not self.arrangement.descending))

    @on(TableView.HeaderClicked)
    def _sort_by_title(self, message: TableView.HeaderClicked) -> None:
        message.stop()
        if self.table is not None:
            self.arrange_by(self.arrangement.sorted_by(message.name, self.table))
