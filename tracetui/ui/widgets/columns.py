"""The columns of a pane on screen: which there is room for, and how wide they are. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len

from tracetui.drawing.column_order import ordered
from tracetui.drawing.format import cell_at
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.table import Column, ColumnSpec, Table, TextKind

GAP = 2
"""Cells between two columns."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


MIN_BESIDE_PROSE = 4
"""Minimum columns that stay where a verdict needs room."""

MAX_NAMES = 4
"""Maximum columns at the left that stay while the others are scrolled."""


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
    """True where its values are texts rather than numbers."""


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
    while len(chosen) > ESSENTIAL and sum(max(column.width, column.comfort) + GAP for column in chosen) > width:
        chosen.pop()
    while len(chosen) > 1 and _cells(chosen) > width:
        chosen.pop()
    last = chosen[-1].spec if chosen else None
    is_verdict = last is not None and last.is_key and last.text is TextKind.PROSE and last.grow > 0
    if len(chosen) > max(MIN_BESIDE_PROSE, names + 2) and is_verdict:
        others = _cells(chosen[:-1])
        if others + chosen[-1].comfort + GAP > width:
            del chosen[-2]
    spare = max(width - _cells(chosen), 0)
    shares = sum(column.spec.grow for column in chosen)
    widths = [column.width + (spare * column.spec.grow // shares if shares else 0) for column in chosen]
    return list(zip(chosen, widths, strict=True))


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
    fitting = fitted(remaining, width, kept)
    return (fitting, False) if len(fitting) == len(remaining) else (fitted(remaining, room, kept), True)


def _names(layout: list[ShownColumn]) -> int:
    """Number of columns at the left that say which row it is: up to a growing name, or else the texts at the start.

    A sentence is no name, and a name that stands behind many numbers leaves no room to scroll them.
    """
    start = layout[:MAX_NAMES]
    for index, column in enumerate(start):
        if column.spec.grow and column.spec.text is not TextKind.PROSE:
            return index + 1
    texts = next((index for index, column in enumerate(start) if not column.is_text), len(start))
    return max(texts, 1)


def _fitting(names: int, beside: Callable[[int], list[ShownColumn]], width: int) -> int:
    """The most of some names that fit together with the column beside so many."""
    return next((count for count in range(names, 0, -1) if _cells(beside(count)) <= width), 0)


def _cells(layout: list[ShownColumn]) -> int:
    """Cells that columns take at least, with the gaps behind them."""
    return sum(column.width + GAP for column in layout)


def cell_text(column: Column, row: int) -> str:
    """A cell as it stands in a list, not yet cut to a width."""
    text = cell_at(column, row)
    return short_kernel(text) if column.spec.text is TextKind.KERNEL else text
