"""A table to be heard or searched: `name: value`, one per line, a block of lines per row, and nothing else.

No colours, boxes, bars, alignment or shortened names: what a screen reader speaks, and what a terminal shows that can
do nothing. Columns are called what they are on the screen, and `--sort` takes
these words, so that what was heard can be typed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.drawing.format import cell
from tracetui.drawing.text.origin import WHOLE, Extent
from tracetui.drawing.text.readable_table import notes
from tracetui.drawing.text.summary_words import as_read
from tracetui.model.table import Cell, Column, Table
from tracetui.model.trace import Trace
from tracetui.safe_text import clean

UNKNOWN = "not known"
"""Stands where the trace holds no value: a dash is not spoken."""
DOUBTFUL = " (doubtful)"


def plain_text(table: Table, trace: Trace, pane: str, extent: Extent = WHOLE) -> str:
    """A pane in this form, its title, trace and number of rows first, with a line break at its end."""
    rows = len(table) if extent.rows is None else extent.rows
    lines = [f"{extent.words(pane)} of {clean(trace.label)}", f"rows: {rows}"]
    if len(table) != rows:
        lines.append(f"printed: {len(table)}")
    if table.headline:
        lines.append(f"headline: {clean(table.headline)}")
    is_summary = pane == "summary" and not extent.has_chosen_columns
    table = as_read(table, pane) if is_summary else table
    body = ["", *pairs(table)] if is_summary else blocks(table, is_chosen=extent.has_chosen_columns)
    return "\n".join([*lines, *body, *_said(table)]) + "\n"


def blocks(table: Table, title: str = "row", is_chosen: bool = False) -> list[str]:
    """Every row as its number and the values that it has, an empty line above each; of chosen columns all."""
    columns = [column for column in table.columns if is_chosen or not column.nulls().all()]
    labels = [column.spec.heading + DOUBTFUL * table.is_doubtful(column.name) for column in columns]
    lines = []
    for row in range(len(table)):
        values = (f"{spoken(column, column.cell(row))}{DOUBTFUL * column.is_doubtful(row)}" for column in columns)
        lines += ["", f"{title} {row + 1}", *map(": ".join, zip(labels, values, strict=True))]
    return lines


def pairs(table: Table) -> list[str]:
    """A table of facts, whose first two columns are a name and a value, as one line for each."""
    names, values = table.columns[:2]
    return [f"{spoken(names, names.cell(row))}: {spoken(values, values.cell(row))}" for row in range(len(table))]


def spoken(column: Column, value: Cell) -> str:
    """A cell in full."""
    return UNKNOWN if value is None else " ".join(cell(column, value).split())


def _said(table: Table) -> Sequence[str]:
    """Columns without a value, and what else must be known."""
    empty = [column.spec.heading for column in table.columns if len(table) and column.nulls().all()]
    said = [f"without a value: {', '.join(empty)}"] if empty else []
    said += notes(table)
    return ["", *said] if said else []
