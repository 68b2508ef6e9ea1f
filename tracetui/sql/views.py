"""The views of a trace: every pane, and below them slices, links, counters' samples and args.

A view is a table whose columns are lent to duckdb: numbers are read where they are, texts through their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracetui.model.table import NULL, Column, ColumnSpec, Table, numbers
from tracetui.model.trace import Trace
from tracetui.panes import PANE_FILES, PANES

EVENT_NUMBER = ColumnSpec("event", "event", "Number of the event in the file; `--at e1234` opens the app there.")
VIEWS = tuple(PANE_FILES)
"""The names of all views."""


@dataclass(frozen=True, eq=False)
class Registered:
    """A table that is lent to duckdb."""

    select: str
    """The query that makes the view of it."""


def build_view(trace: Trace, name: str) -> Table:
    """The table behind a view, of the whole trace.

    Raises: AnalysisFailed.
    """
    return with_events(trace, PANES[name].build(trace))


def with_events(trace: Trace, table: Table) -> Table:
    """The table with the number of the event of each row, where rows have slices."""
    if table.slices is None or EVENT_NUMBER.name in table or len(trace.slices) == 0:
        return table
    event = trace.slices.event[table.slices].astype(np.int64)
    column = numbers(EVENT_NUMBER, np.where(table.slices >= 0, event, NULL))
    return replace(table, columns=(*table.columns, column))


def register(connection: Any, name: str, table: Table) -> Registered:
    """Lend the columns of a table to a connection, under names that begin with `name`."""
    columns = {column.name: column for column in reversed(table.columns)}
    lent: dict[str, Any] = {}
    selected = []
    for index, column in enumerate(reversed(columns.values())):
        lent[f"c{index}"] = column.values
        selected.append(f"{_expression(connection, name, index, column)} as \"{column.name}\"")
    connection.register(name, lent)
    return Registered(f'select {", ".join(selected)} from "{name}"')


def _expression(connection: Any, name: str, index: int, column: Column) -> str:
    if column.strings is not None:
        texts = _texts(connection, f"{name}_{index}", column.strings)
        # A list in one row: a join with a table of texts would not keep the order of the rows.
        return f"(select t from {texts})[c{index} + 1]"
    if column.values.dtype.kind == "i" and column.nulls().any():
        return f"nullif(c{index}, {NULL})"
    return f"c{index}"


def _texts(connection: Any, name: str, strings: Sequence[str]) -> str:
    connection.register(f"{name}_texts", {"t": np.array([*strings, ""], object)})
    connection.execute(f'create table "{name}_list" as select list(t::varchar) as t from "{name}_texts"')
    connection.unregister(f"{name}_texts")
    return f'"{name}_list"'
