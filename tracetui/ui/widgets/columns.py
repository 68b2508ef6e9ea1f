"""How wide the columns of a pane are on screen, and what stands in their cells. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size

from tracetui.analysis.kernel_names import short_kernel
from tracetui.drawing.column_order import ordered
from tracetui.drawing.format import cell_at
from tracetui.drawing.name_cutting import cut_name
from tracetui.model.table import Column, ColumnSpec, Table, TextKind

GAP = 2
"""Cells between two columns."""
CARD_TITLE_GAP = " · "
"""Between the titles above cards."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


_KERNEL, _DECODED, _NAME = TextKind.KERNEL, TextKind.DECODED, TextKind.NAME
# Looking a member of an enumeration up takes as long as writing a short cell.


@dataclass(frozen=True)
class ShownColumn:
    """A column on the screen."""

    spec: ColumnSpec
    title: str
    """Its heading, marked where some of its numbers are doubtful."""
    width: int
    """Cells; for a column that grows, the least that it needs."""
    comfort: int = 0
    """Cells that a column that grows would like to have: as its values need, within reason."""

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.spec.name

    @property
    def grow(self) -> int:
        """Its share of the width that is left over."""
        return self.spec.grow


def layout_of(pane: str, table: Table, by: str | None = None) -> list[ShownColumn]:
    """The columns of a table that go on screen, as wide as their values; those without any value are left out."""
    layout = ordered(table, pane, by)
    filled = [column for column in layout if not column.nulls().all()]
    return [measured(column, table.heading(column.name)) for column in filled or layout]


def measured(column: Column, title: str) -> ShownColumn:
    """A column no wider than its title and its widest value; one that grows learns what it would like."""
    spec = column.spec
    needed = max(_widest(column), cell_len(title) + 1)
    if spec.grow:
        return ShownColumn(spec, title, spec.width, min(needed, 2 * spec.width))
    # Part of a number is a wrong number.
    return ShownColumn(spec, title, needed if column.is_number else min(spec.width, needed))


def _widest(column: Column) -> int:
    """Cells of the widest of the first texts, or of the largest numbers."""
    if len(column) == 0:
        return 0
    is_marked = False
    if column.is_text:
        rows = list(range(min(len(column), 500)))
    else:
        values = np.where(column.nulls(), 0, column.values)
        # A cell further down may have the mark `~` before it.
        is_marked = column.doubtful is not None and bool(column.doubtful.any())
        rows = [int(values.argmin()), int(values.argmax()), *range(min(len(column), 50))]
    return max(cell_len(cell_text(column, row)) for row in rows) + is_marked


def fitted(layout: list[ShownColumn], width: int) -> list[tuple[ShownColumn, int]]:
    """Columns with widths that together take `width` cells; the last are dropped until the rest fits.

    Beyond the first few, columns are dropped already where the growing ones could not have what they like.
    """
    chosen = list(layout)
    while len(chosen) > ESSENTIAL and sum(max(shown.width, shown.comfort) + GAP for shown in chosen) > width:
        chosen.pop()
    while len(chosen) > 1 and sum(shown.width + GAP for shown in chosen) > width:
        chosen.pop()
    spare = max(width - sum(shown.width + GAP for shown in chosen), 0)
    shares = sum(shown.grow for shown in chosen)
    widths = [shown.width + (spare * shown.grow // shares if shares else 0) for shown in chosen]
    return list(zip(chosen, widths, strict=True))


def scrolled(layout: list[ShownColumn], columns: int) -> list[ShownColumn]:
    """A layout without its first columns behind the names, which stay."""
    names = next((place for place, shown in enumerate(layout) if shown.grow), 0) + 1
    return layout[:names] + layout[names + columns :]


def placed(text: str, width: int, right: bool, middle: bool = False) -> str:
    """Text in exactly `width` cells, cut with `…`, at the end or in the middle, or padded on one side."""
    length = len(text) if text.isascii() else cell_len(text)
    if length > width and middle and width > 8 and text.isascii():
        tail = width // 3
        return f"{text[: width - tail - 1]}…{text[-tail:]}"
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


def cell_text(column: Column, row: int) -> str:
    """A cell as it is shown, not yet cut to a width."""
    text = cell_at(column, row)
    return short_kernel(text) if column.spec.text is _KERNEL else text


def row_text(table: Table, row: int, columns: list[tuple[ShownColumn, int]]) -> str:
    """One row of a table as the text of its columns."""
    parts = []
    for shown, width in columns:
        spec = shown.spec
        column = table[spec.name]
        in_middle = spec.text is _KERNEL or spec.text is _DECODED
        text = cell_text(column, row)
        if spec.text is _NAME and len(text) > width:
            text = cut_name(text, width)
        parts.append(placed(text, width, column.is_number, in_middle))
    return (" " * GAP).join(parts)


def header_text(table: Table, columns: list[tuple[ShownColumn, int]], sort: str | None, descending: bool) -> str:
    """The titles of the columns, with an arrow at the one that sorts."""
    parts = []
    for shown, width in columns:
        arrow = "" if shown.name != sort else ("▾" if descending else "▴")
        parts.append(placed(shown.title + arrow, width, table[shown.name].is_number))
    return (" " * GAP).join(parts)


def card_titles(columns: list[tuple[ShownColumn, int]], sort: str | None, descending: bool) -> str:
    """The titles of the columns of cards, one behind the other, with an arrow at the one that sorts."""
    arrow = "▾" if descending else "▴"
    return CARD_TITLE_GAP.join(f"{shown.title}{arrow if shown.name == sort else ''}" for shown, _ in columns)
