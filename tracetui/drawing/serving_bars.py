"""Stacked bars of the time of a server's steps by kind and batch, from the shares of their table.

A part is a stretch of its letter, on a screen of its hue with its letter in front. Purposes that run side by side have
the busy time in proportion to theirs (R3.85).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.drawing.hues import Hue, whole_cells
from tracetui.model.quantities import rounded_percent
from tracetui.model.table import Table


class _Kind(NamedTuple):
    column: str
    hue: Hue
    letter: str
    name: str


_KINDS = (
    _Kind("products_pct", Hue.GEMM, "g", "GEMM"),
    _Kind("attention_pct", Hue.ATTENTION, "a", "attention"),
    _Kind("comm_pct", Hue.COMMUNICATION, "c", "communication"),
    _Kind("routing_pct", Hue.REDUCTION, "r", "routing"),
    _Kind("quantise_pct", Hue.COPY, "q", "quantise"),
    _Kind("sampling_pct", Hue.DATA, "s", "sampling"),
)
_REST, _IDLE = _Kind("", Hue.ELEMENTWISE, "e", "rest"), _Kind("idle_pct", Hue.IDLE, "·", "idle")
NEEDED = frozenset({"kind", "idle_pct", *(each.column for each in _KINDS)})
"""Columns of a table whose rows have bars."""
MIN_CELLS = 40
"""Minimum cells of a drawing of bars."""
MIN_SHARE = 0.05
"""Minimum percent of a part that the legend names."""
LABEL_CELLS = 24
"""Maximum cells for what a bar is of."""


def parts(table: Table, row: int) -> list[tuple[_Kind, float]]:
    """The parts of a row in percent of its time, 100 together; empty for steps that ran nothing."""
    idle = float(table["idle_pct"].values[row])
    shares = [float(table[each.column].values[row]) for each in _KINDS]
    if np.isnan([idle, *shares]).any():
        return []
    busy = (100 - idle) / max(sum(shares), 100)
    served = [(each, share * busy) for each, share in zip(_KINDS, shares, strict=True)]
    rest = 100 - idle - sum(share for _, share in served)
    return [*served, (_REST, max(rest, 0.0)), (_IDLE, idle)]


def pieces(table: Table, row: int, width: int, plain: bool) -> list[tuple[str, Hue | None]]:
    """The bar of a row in `width` cells, for a list."""
    bars = parts(table, row)
    cells = whole_cells([share for _, share in bars], width)
    drawn: list[tuple[str, Hue | None]] = []
    for (kind, _), count in zip(bars, cells, strict=True):
        fill = kind.letter if plain or kind is _IDLE else "█"
        drawn += [(kind.letter[:count], kind.hue), (fill * (count - 1), kind.hue)]
    return [(text, hue) for text, hue in drawn if text]


def share_lines(table: Table, width: int, height: int) -> list[str]:
    """A bar of each row, the first of them where there are more than fit, and what the letters stand for."""
    if not set(table.column_names) >= NEEDED or width < MIN_CELLS or height < 2:
        return []
    rows = [(row, bars) for row in range(len(table)) if (bars := parts(table, row))][: height - 1]
    labels = [_label(table, row) for row, _ in rows]
    room = min(max(map(len, labels), default=0), LABEL_CELLS)
    lines = []
    for label, (_, bars) in zip(labels, rows, strict=True):
        cells = whole_cells([share for _, share in bars], width - room - 1)
        bar = ""
        for (kind, share), count in zip(bars, cells, strict=True):
            # The name and the share where they fit between two letters.
            texts = (f" {kind.name} {rounded_percent(share)} ", f" {rounded_percent(share)} ", "")
            bar += next(text for text in texts if len(text) <= max(count - 2, 0)).center(count, kind.letter)
        lines.append(f"{label[:room]:<{room}} {bar}")
    drawn = {kind for _, bars in rows for kind, share in bars if share >= MIN_SHARE}
    legend = "  ".join(f"{kind.letter} {kind.name}" for kind in (*_KINDS, _REST, _IDLE) if kind in drawn)
    return [*lines, legend] if lines else []


def _label(table: Table, row: int) -> str:
    label = str(table["kind"].cell(row))
    if "batch" in table and table["batch"].cell(row) is not None:
        label += f" {table['batch'].cell(row)} {table['batch_unit'].cell(row)}"
    elif "batch" in table and table["kernels"].cell(row) is not None:
        label += f" {table['kernels'].cell(row):,.0f} kernels"
    return label
