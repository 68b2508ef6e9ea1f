"""Cells of tables as text."""

from __future__ import annotations

from tracetui.model.quantities import ABSENT, count, duration, moment, operations, share, size
from tracetui.model.table import DOUBTFUL, Cell, Column
from tracetui.safe_text import clean


def shorten(text: str, width: int) -> str:
    """Text cut to `width` characters, its end replaced by `…` where something is missing."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def cell(column: Column, value: Cell) -> str:
    """A table cell as text, `–` for a value that the trace does not hold.

    Times, bytes and operations have their unit behind them; the unit of everything else stands in the heading.
    """
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(column, value)


def cell_at(column: Column, row: int) -> str:
    """The cell of a row as text, with the mark `~` before it where it is doubtful."""
    text = cell(column, column.cell(row))
    return f"{DOUBTFUL}{text}" if column.is_doubtful(row) else text


def _number(column: Column, value: float) -> str:
    spec = column.spec
    unit = spec.unit
    if unit == "us":
        return moment(value) if spec.is_moment else duration(1000 * value)
    if unit == "bytes":
        return size(value)
    if unit == "flop":
        return operations(value)
    if unit == "%":
        return share(value)
    if isinstance(value, float):
        return count(value) if value.is_integer() else f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
    # Identifiers, such as a step's number or a correlation, are copied more than they are compared.
    return count(value) if unit or spec.name.endswith(("s", "count", "_total")) else str(value)
