"""How wide the columns of a pane are on screen, and what stands in their cells. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.cells import cell_len, set_cell_size

from tracetui.analysis.kernel_names import short_kernel
from tracetui.drawing.format import cell
from tracetui.model.table import Column, Table
from tracetui.ui.widgets.layouts import LAYOUTS, Shown

GAP = 2
"""Cells between two columns."""

LARGE = 6
"""By so many cells a column of numbers may be wider than planned."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


def layout_of(pane: str, table: Table, by: str | None = None) -> list[Shown]:
    """The columns of a table that go on screen, as wide as their values; those without any value are left out."""
    layout = [shown for shown in _wanted(pane, by) if shown.name in table]
    if not layout:
        layout = [Shown(c.name, c.name, 20 if c.is_text else 12, int(c.is_text)) for c in table.columns]
    if pane != "steps":
        layout = [shown for shown in layout if shown.name != "step" or _varies(table["step"])]
    layout = [replace(shown, title=table.titled(shown.name).replace(shown.name, shown.title)) for shown in layout]
    filled = [shown for shown in layout if not table[shown.name].nulls().all()]
    if pane == "steps":
        # There are more columns than fit: what is 0 in every step says little.
        filled = [shown for shown in filled if table[shown.name].is_text or table[shown.name].values.any()]
    return [measured(shown, table[shown.name]) for shown in filled or layout]


def titles_of(pane: str, by: str | None) -> dict[str, str]:
    """The titles on screen of the columns of a pane, by name."""
    return {shown.name: shown.title for shown in _wanted(pane, by)}


def _wanted(pane: str, by: str | None) -> tuple[Shown, ...]:
    return LAYOUTS.get(f"{pane} by {by}", LAYOUTS.get(pane, ()))


def _varies(column: Column) -> bool:
    return len(column) > 1 and bool((column.values != column.values[0]).any())


def measured(shown: Shown, column: Column) -> Shown:
    """A column no wider than its title and its widest value; one that grows learns what it would like."""
    if len(column) == 0:
        return shown
    if column.is_text:
        rows = list(range(min(len(column), 500)))
    else:
        values = np.where(column.nulls(), 0, column.values)
        rows = [int(values.argmin()), int(values.argmax()), *range(min(len(column), 50))]
    widest = max(cell_len(cell_text(shown, column, row)) for row in rows)
    needed = max(widest, cell_len(shown.title) + 1)
    if shown.grow:
        return replace(shown, comfort=min(needed, 2 * shown.width))
    if column.is_text:
        return replace(shown, width=min(shown.width, needed))
    # Part of a number is a wrong number.
    return replace(shown, width=min(shown.width + LARGE, needed))


def fitted(layout: list[Shown], width: int) -> list[tuple[Shown, int]]:
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


def scrolled(layout: list[Shown], columns: int) -> list[Shown]:
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


def cell_text(shown: Shown, column: Column, row: int) -> str:
    """A cell as it is shown, not yet cut to a width."""
    text = cell(column, column.cell(row))
    return short_kernel(text) if shown.kernels else text


def row_text(table: Table, row: int, columns: list[tuple[Shown, int]]) -> str:
    """One row of a table as the text of its columns."""
    parts = []
    for shown, width in columns:
        column = table[shown.name]
        names_kernel = shown.kernels or shown.name == "short_name"
        parts.append(placed(cell_text(shown, column, row), width, not column.is_text, names_kernel))
    return (" " * GAP).join(parts)


def header_text(table: Table, columns: list[tuple[Shown, int]], sort: str | None, descending: bool) -> str:
    """The titles of the columns, with an arrow at the one that sorts."""
    parts = []
    for shown, width in columns:
        arrow = "" if shown.name != sort else ("▾" if descending else "▴")
        parts.append(placed(shown.title + arrow, width, not table[shown.name].is_text))
    return (" " * GAP).join(parts)
