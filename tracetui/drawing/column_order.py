"""The order of columns by importance: a screen drops the last of them, a report has the same in the same order.

The order of a pane is part of its declaration, and those of the tables of ranks and comparisons stand beside these.
Text output has all columns of a table. `model/columns.py` declares the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tracetui.model.table import Column, Table
from tracetui.panes import PANES

Rank = tuple[bool, bool, int, int]
"""Columns in order of their importance, the lowest first."""

COLUMN_FILES = {
    "ranks": "ranks.rank_tables",
    **dict.fromkeys(("changed kernels", "changed ops", "totals"), "comparing.change_rows"),
}
"""The file that declares the columns of a table that is no pane, as `COLUMN_ORDERS`."""


def column_names(pane: str, by: str | None = None) -> tuple[str, ...]:
    """Names of the columns of a pane or another table in order of importance; empty where nothing says which."""
    if pane in PANES:
        return PANES[pane].columns_by(by)
    file = COLUMN_FILES.get(pane.partition(" by ")[0])
    if file is None:
        return ()
    # Imported when it is first asked for, as the file of a pane is: a list of one trace needs neither.
    orders = import_module(f"tracetui.{file}").COLUMN_ORDERS
    return tuple(orders.get(f"{pane} by {by}", orders.get(pane, "")).split())


def ordered(table: Table, pane: str, by: str | None = None) -> list[Column]:
    """The columns of a table that are read first; all of them where nothing says which.

    The step is left out where all rows are of one, and of the steps themselves what is 0 in every one or is known of a
    server's steps only.
    """
    columns = [table[name] for name in column_names(pane, by) if name in table] or list(table.columns)
    if pane == "steps":
        # There are more columns than fit: what is 0 in every step says little.
        columns = [column for column in columns if not column.spec.of_servers or not column.nulls().all()]
        return [column for column in columns if not _is_zero(column)]
    return [
        column
        for column in columns
        if column.name != "step" or (len(column) > 1 and bool((column.values != column.values[0]).any()))
    ]


def importance(pane: str, by: str | None = None) -> Callable[[Column], Rank]:
    """A sort key for the columns of a pane; the lowest comes first.

    What says what a row is comes before all others, then by how far a column is a detail, and by its place in the list;
    in panes that keep their order, whose columns are details elsewhere, by its place first. What is 0 in every step
    is last.
    """
    ranks = {name: rank for rank, name in enumerate(column_names(pane, by))}
    keeps_order = pane in PANES and PANES[pane].keeps_order

    def rank_of(column: Column) -> Rank:
        spec = column.spec
        is_zero = pane == "steps" and _is_zero(column)
        place = ranks.get(column.name, len(ranks))
        return is_zero, not spec.is_key, *((place, spec.detail) if keeps_order else (spec.detail, place))

    return rank_of


def _is_zero(column: Column) -> bool:
    """True where a number is known to be 0 in every row."""
    is_known = len(column) > 0 and not column.is_text and not column.nulls().any()
    return is_known and not column.values.any()
