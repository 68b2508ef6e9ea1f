"""Rows of the ranks as the screen shows them: the time of the run as a bar, the clock with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetui.model.quantities import duration
from tracetui.model.table import DOUBTFUL, Column, Table, texts

COMPUTE, TRANSFER, WAIT, IDLE = "█", "▒", "░", " "
"""Glyphs of the bar, which tell the parts apart without any colour."""
BAR_LEGEND = f"{COMPUTE} busy  {TRANSFER} exposed transfer  {WAIT} exposed waiting"
"""What the glyphs mean."""
BAR_CELLS = ((170, 28), (110, 16), (0, 8))
"""Cells of the bar by the width of the screen from which it has them."""


def bar_cells(width: int) -> int:
    """Cells of the bar on a screen of a width."""
    return next(cells for least, cells in BAR_CELLS if width >= least)


def bar(parts: Sequence[float], whole: float, cells: int) -> str:
    """Parts of a whole as glyphs: busy, exposed transfer, exposed waiting, and blank for the rest."""
    if not whole > 0:
        return " " * cells
    edges = [round(cells * min(sum(parts[: index + 1]) / whole, 1.0)) for index in range(len(parts))]
    drawn = "".join(
        glyph * (edge - before)
        for glyph, before, edge in zip((COMPUTE, TRANSFER, WAIT), [0, *edges], edges, strict=False)
    )
    return drawn.ljust(cells)


def readable_ranks(table: Table, cells: int) -> Table:
    """The table of ranks with a bar beside the busy time, clocks with their error, and `last` of how many."""
    if "clock_shift_us" not in table:
        return table
    shown = {"busy_us": _busy(table, cells), "clock_shift_us": _clock(table), "came_last": _last(table)}
    columns = (shown.get(column.name, column) for column in table.columns if column.name != "clock_error_us")
    return replace(table, columns=tuple(_marked(table, column) for column in columns))


def bar_parts(table: Table) -> tuple[list[tuple[float, float, float]], float]:
    """Busy, exposed transfer and exposed waiting of each rank, and the longest run, in microseconds."""
    busy, exposed, waiting, idle = (
        np.nan_to_num(table[name].values.astype(np.float64))
        for name in ("busy_us", "exposed_comm_us", "exposed_wait_us", "idle_us")
    )
    whole = float((busy + exposed + idle).max(initial=0))
    return list(zip(busy.tolist(), (exposed - waiting).tolist(), waiting.tolist(), strict=True)), whole


def _busy(table: Table, cells: int) -> Column:
    parts, whole = bar_parts(table)
    words = [duration(1000 * busy) for busy, _, _ in parts]
    width = max(map(len, words), default=0)
    spec = replace(table["busy_us"].spec, width=width + 1 + cells, unit="")
    return texts(
        spec,
        [f"{word:>{width}} {bar(each, whole, cells)}" for word, each in zip(words, parts, strict=True)],
    )


def _clock(table: Table) -> Column:
    shift, error = table["clock_shift_us"], table["clock_error_us"]
    spec = replace(shift.spec, unit="", width=24, is_number_text=True)
    return texts(spec, [_clock_words(shift.cell(row), error.cell(row)) for row in range(len(table))])


def _clock_words(shift: object, error: object) -> str | None:
    if not isinstance(shift, float):
        return None
    if not shift and not error:
        return "0"
    sign = "+" if shift > 0 else ""
    spread = f" ±{duration(1000 * error)}" if isinstance(error, float) and error else ""
    return f"{sign}{duration(1000 * shift)}{spread}"


def _last(table: Table) -> Column:
    last, of = table["came_last"], table["collectives"]
    spec = replace(last.spec, width=12, is_number_text=True)
    return texts(spec, [f"{last.cell(row)}/{of.cell(row)}" for row in range(len(table))])


def _marked(table: Table, column: Column) -> Column:
    """The rank with `~` where its clock is a guess, also when the clock does not fit on the screen."""
    doubtful = table["clock_shift_us"].doubtful
    if column.name != "rank" or doubtful is None or not doubtful.any():
        return column
    spec = replace(column.spec, is_number_text=True)
    marks = [
        f"{DOUBTFUL}{rank}" if doubt else str(rank)
        for rank, doubt in zip(column.values.tolist(), doubtful, strict=True)
    ]
    return texts(spec, marks)
