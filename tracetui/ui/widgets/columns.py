"""The columns of a pane on screen: which there is room for, and how wide they are. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.cells import cell_len

from tracetui.config import config
from tracetui.drawing.column_order import ordered
from tracetui.drawing.drawn_columns import DrawnColumn
from tracetui.drawing.format import cell_at
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.step_kinds import UNKNOWN
from tracetui.model.table import Column, ColumnSpec, Table, TextKind
from tracetui.panes import PANES

GAP = 2
"""Cells between two columns."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


MIN_BESIDE_PROSE = 4
"""Minimum columns that stay where a verdict needs room."""

REPEATED = {"gpu_wall_us": "device_total_us"}
"""Columns that tell nothing where they equal another one wherever that has a time: torch counts none for calls."""
MIN_ROWS_ALIKE = 4
"""Minimum rows that are alike by more than chance."""

MAX_NAMES = 4
"""Maximum columns at the left that stay while the others are scrolled."""


@frozen(eq=True)
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
    direction: int = 0
    """1 where its values ascend from row to row of the table, -1 where they descend, 0 where they do neither."""
    drawn: DrawnColumn | None = None
    """The drawing that takes the place of cells."""


def layout_of(pane: str, table: Table, by: str | None = None) -> list[ShownColumn]:
    """The columns of a table that go on screen, as wide as their values; those without any value are left out.

    Columns that the settings name are all there, in their order.
    """
    if chosen := [table[name] for name in config().columns_of(pane, by) if name in table]:
        return [measured(column, table.heading(column.name)) for column in chosen]
    layout = ordered(table, pane, by)
    filled = [column for column in layout if not column.nulls().all()]
    if pane in PANES and len(table) >= MIN_ROWS_ALIKE:
        filled = _telling(filled)
    return [measured(column, table.heading(column.name)) for column in filled or layout]


def _telling(columns: list[Column]) -> list[Column]:
    """The columns without those that tell nothing: equal to one before in every row, 0 or unknown in every row."""
    kept: list[Column] = []
    for column in columns:
        is_repeated = any(_are_equal(column, other) for other in kept)
        if column.spec.is_key or not (is_repeated or _is_empty(column)):
            kept.append(column)
    return kept


def _are_equal(column: Column, other: Column) -> bool:
    """True for two columns of times that have the same value in every row."""
    if column.unit != "us" or other.unit != "us" or column.spec.is_moment or other.spec.is_moment:
        return False
    if REPEATED.get(column.name) == other.name:
        has_time = np.nan_to_num(other.values) != 0
        return bool(np.array_equal(column.values[has_time], other.values[has_time], equal_nan=True))
    return bool(np.array_equal(column.values, other.values, equal_nan=True))


def _is_empty(column: Column) -> bool:
    """True where no row has a time, or a kind that is known."""
    if column.is_text:
        return bool((column.nulls() | column.equal(UNKNOWN)).all())
    return column.unit == "us" and not column.spec.is_moment and not np.nan_to_num(column.values).any()


def _direction(column: Column) -> int:
    """1 where the numbers of a column ascend from row to row, -1 where they descend, else 0; nulls may stand last."""
    values = column.values[~column.nulls()] if not column.is_text else column.values[:0]
    if len(values) < 2 or values[0] == values[-1] or column.nulls()[: len(values)].any():
        return 0
    steps = np.diff(values)
    return 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0


def sorting_column(layout: list[ShownColumn], main: tuple[str, ...]) -> tuple[str | None, bool]:
    """The column that the rows of a table come sorted by, and whether descending: one of `main`, the largest first.

    Any other column may be in order by chance.
    """
    ordering = [column.spec.name for column in layout if column.direction < 0 and column.spec.name in main]
    return (ordering[0], True) if ordering else (None, False)


def measured(column: Column, title: str) -> ShownColumn:
    """A column no wider than its title and its widest value; one that grows learns what it would like."""
    spec = column.spec
    needed = max(_widest(column), cell_len(title) + 1)
    if spec.grow:
        return ShownColumn(spec, title, spec.width, min(needed, 2 * spec.width), column.is_text)
    # Part of a number is a wrong number.
    width = needed if column.is_number else min(spec.width, needed)
    return ShownColumn(spec, title, width, 0, column.is_text, _direction(column))


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


def with_drawn(
    layout: list[ShownColumn], drawn: list[DrawnColumn], skipped: int, width: int
) -> tuple[list[tuple[ShownColumn, int]], bool]:
    """As `scrolled`, with as many of some drawn columns as leave room for the first others."""
    for count in range(len(drawn), -1, -1):
        chosen = drawn[:count]
        room = width - sum(each.width + GAP for each in chosen)
        beside = max((each.beside for each in chosen), default=0)
        if count and room < _cells(layout[:beside]):
            continue
        columns, has_more = scrolled(layout, skipped, room)
        names = [column.spec.name for column, _ in columns]
        if all(not each.after or each.after in names for each in chosen):
            return _placed(columns, chosen), has_more
    return scrolled(layout, skipped, width)


def _placed(columns: list[tuple[ShownColumn, int]], drawn: list[DrawnColumn]) -> list[tuple[ShownColumn, int]]:
    """Columns with the drawn ones behind those that they belong to, or at the end."""
    placed: list[tuple[ShownColumn, int]] = []
    for column, width in columns:
        placed.append((column, width))
        placed += [(_shown(each), each.width) for each in drawn if each.after == column.spec.name]
    return [*placed, *((_shown(each), each.width) for each in drawn if not each.after)]


def _shown(drawn: DrawnColumn) -> ShownColumn:
    return ShownColumn(ColumnSpec("", drawn.title), drawn.title, drawn.width, drawn=drawn)


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
