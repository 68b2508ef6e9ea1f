"""How a person arranged a list: sorted by which column, filtered by which text, grouped by what.

Pure: a table and an arrangement give an array of row numbers. The arrangement outlives the table, so another
step's kernels come up sorted and filtered as the last ones were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.format import short_kernel
from tracetui.model.table import Table

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
