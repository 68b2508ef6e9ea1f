"""How wide the columns of a pane are on screen, and what stands in their cells. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size

from tracetui.drawing.column_order import ordered
from tracetui.drawing.format import cell_at, cut_name
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.table import Column, ColumnSpec, Table, TextKind

GAP = 2
"""Cells between two columns."""
CARD_TITLE_GAP = " · "
"""Between the titles above cards."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


MIN_BESIDE_PROSE = 4
"""Minimum columns that stay where a verdict needs room."""

MAX_NAMES = 4
"""Maximum columns at the left that stay while the others are scrolled."""

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
    is_text: bool = False
    """Whether its values are texts rather than numbers."""

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
        return ShownColumn(spec, title, spec.width, min(needed, 2 * spec.width), column.is_text)
    # Part of a number is a wrong number.
    return ShownColumn(spec, title, needed if column.is_number else min(spec.width, needed), 0, column.is_text)


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


def fitted(layout: list[ShownColumn], width: int, names: int = 1) -> list[tuple[ShownColumn, int]]:
    """Columns with widths that together take `width` cells; the last are dropped until the rest fits.

    Beyond the first few, columns are dropped already where the growing ones could not have what they like. A verdict at
    the end is read in full before the number beside it is, unless that is the first behind the names: scrolling would
    pass over it.
    """
    chosen = list(layout)
    while len(chosen) > ESSENTIAL and sum(max(shown.width, shown.comfort) + GAP for shown in chosen) > width:
        chosen.pop()
    while len(chosen) > 1 and _cells(chosen) > width:
        chosen.pop()
    if len(chosen) > max(MIN_BESIDE_PROSE, names + 2) and _is_verdict(chosen[-1]):
        others = _cells(chosen[:-1])
        if others + chosen[-1].comfort + GAP > width:
            del chosen[-2]
    spare = max(width - _cells(chosen), 0)
    shares = sum(shown.grow for shown in chosen)
    widths = [shown.width + (spare * shown.grow // shares if shares else 0) for shown in chosen]
    return list(zip(chosen, widths, strict=True))


def _is_verdict(shown: ShownColumn) -> bool:
    """Whether a column holds sentences that say what a row is about."""
    return shown.spec.is_key and shown.spec.text is TextKind.PROSE and shown.grow > 0


def scrolled(layout: list[ShownColumn], columns: int, width: int) -> tuple[list[tuple[ShownColumn, int]], bool]:
    """The columns on screen without the first ones behind the names, and whether there are more to the right.

    The names stay for as long as the next column fits beside them, so that every column can be reached.
    """
    # One cell for the mark that says that there are more.
    room = width - 1
    names = _fitting(_names(layout), lambda count: layout[: count + 1], room)
    rest = layout[names + columns :]
    kept = names if not columns else _fitting(names, lambda count: [*layout[:count], *rest[:1]], room)
    remaining = [*layout[:kept], *rest]
    shown = fitted(remaining, width, kept)
    return (shown, False) if len(shown) == len(remaining) else (fitted(remaining, room, kept), True)


def _names(layout: list[ShownColumn]) -> int:
    """Number of columns at the left that say which row it is: up to a growing name, or else the texts at the start.

    A sentence is no name, and a name that stands behind many numbers leaves no room to scroll them.
    """
    start = layout[:MAX_NAMES]
    for index, shown in enumerate(start):
        if shown.grow and shown.spec.text is not TextKind.PROSE:
            return index + 1
    texts = next((index for index, shown in enumerate(start) if not shown.is_text), len(start))
    return max(texts, 1)


def _fitting(names: int, beside: Callable[[int], list[ShownColumn]], width: int) -> int:
    """The most of some names that fit together with the column beside so many."""
    return next((count for count in range(names, 0, -1) if _cells(beside(count)) <= width), 0)


def _cells(layout: list[ShownColumn]) -> int:
    """Cells that columns take at least, with the gaps behind them."""
    return sum(shown.width + GAP for shown in layout)


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
