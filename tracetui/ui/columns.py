"""Which columns of a pane are on screen, under which short titles, and how wide: text output has all of them.

Pure. The listing order is the order of importance: what does not fit is dropped from the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len, set_cell_size

from tracetui.drawing.format import cell, short_kernel
from tracetui.model.table import Column, Table

GAP = 2
"""Cells between two columns."""

LARGE = 6
"""By so many cells a column of numbers may be wider than planned."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


@dataclass(frozen=True)
class Shown:
    """A column on screen."""

    name: str
    title: str
    width: int
    """Cells; for a column that grows, the least that it needs."""
    grow: int = 0
    """Share of the space that is left over."""
    kernels: bool = False
    """Whether the texts are names of kernels, to be shown without namespaces and parameters."""
    comfort: int = 0
    """Cells that a column that grows would like to have: as its values need, within reason."""


_KERNEL = Shown("short_name", "kernel", 24, 3)
_OP = Shown("op", "op", 12, 1)
_STEP = Shown("step", "step", 6)
"""Only where rows of several steps are listed."""

LAYOUTS: dict[str, tuple[Shown, ...]] = {
    "kernels": (
        _STEP,
        Shown("index", "#", 5),
        _KERNEL,
        Shown("dur_us", "µs", 9),
        Shown("launch_delay_us", "delay", 9),
        Shown("gap_before_us", "gap", 9),
        _OP,
        Shown("occupancy_pct", "occ %", 6),
        Shown("grid", "grid", 12),
        Shown("block", "block", 10),
        Shown("registers", "regs", 5),
        Shown("stream", "stream", 6),
        Shown("start_us", "start µs", 13),
    ),
    "kernels by name": (
        Shown("name", "kernel", 18, 1, kernels=True),
        Shown("calls", "calls", 7),
        Shown("total_us", "total µs", 12),
        Shown("pct", "%", 6),
        Shown("mean_us", "mean", 10),
        Shown("median_us", "median", 10),
        Shown("min_us", "min", 10),
        Shown("max_us", "max", 10),
    ),
    "ops": (
        Shown("name", "op", 18, 1),
        Shown("calls", "calls", 7),
        Shown("kernels", "kernels", 8),
        Shown("self_cpu_us", "self CPU µs", 12),
        Shown("cpu_total_us", "CPU µs", 12),
        Shown("device_total_us", "GPU µs", 12),
        Shown("self_device_us", "self GPU µs", 12),
    ),
    "views": (
        Shown("name", "op", 18, 1),
        Shown("metadata_only", "view", 5),
        Shown("calls", "calls", 7),
        Shown("self_cpu_us", "self CPU µs", 12),
        Shown("cpu_total_us", "CPU µs", 12),
        Shown("per_step", "per step", 9),
        Shown("pct_of_step_cpu", "% of step", 9),
        Shown("launched", "launched", 9),
    ),
    "occupancy": (
        _STEP,
        Shown("index", "#", 5),
        Shown("name", "query", 14, 1),
        Shown("dur_us", "µs", 9),
        _OP,
        Shown("kernel", "for kernel", 20, 3, kernels=True),
        Shown("occupancy_pct", "occ %", 6),
        Shown("block", "block", 10),
        Shown("registers", "regs", 5),
        Shown("start_us", "start µs", 13),
    ),
    "launches": (
        _STEP,
        Shown("index", "#", 5),
        Shown("api", "call", 16, 1),
        Shown("dur_us", "µs", 9),
        Shown("delay_us", "delay", 9),
        Shown("kernel", "kernel", 14, 3, kernels=True),
        _OP,
        Shown("queue_depth", "queue", 6),
        Shown("kernels", "kernels", 8),
        Shown("thread", "thread", 12),
        Shown("start_us", "start µs", 13),
    ),
    "steps": (
        Shown("step", "step", 6),
        Shown("dur_us", "µs", 12),
        Shown("kernels", "kernels", 8),
        Shown("gpu_busy_us", "GPU busy", 12),
        Shown("gpu_idle_us", "GPU idle", 12),
        Shown("verdict", "verdict", 14, 1),
        Shown("launches", "launches", 9),
        Shown("view_ops", "views", 7),
        Shown("occupancy_queries", "occ. queries", 12),
        Shown("cpu_ops", "ops", 7),
        Shown("launch_delay_us", "delay", 9),
        Shown("sync_us", "sync µs", 11),
        Shown("copies", "copies", 7),
        Shown("fingerprint", "fingerprint", 12),
        Shown("start_us", "start µs", 13),
    ),
    "launches by name": (
        Shown("api", "call", 18, 1),
        Shown("calls", "calls", 7),
        Shown("kernels", "kernels", 8),
        Shown("total_us", "total µs", 12),
        Shown("mean_us", "mean", 10),
        Shown("median_us", "median", 10),
        Shown("max_us", "max", 10),
    ),
    "occupancy by op": (
        Shown("op", "op", 18, 1),
        Shown("kernel", "for kernel", 18, 1, kernels=True),
        Shown("queries", "queries", 8),
        Shown("launches", "launches", 9),
        Shown("total_us", "total µs", 12),
        Shown("us_per_launch", "µs per launch", 14),
    ),
    "summary": (Shown("key", "what", 20), Shown("value", "value", 20, 1), Shown("unit", "unit", 8)),
    "traces": (Shown("trace", "trace", 30, 1), Shown("size", "size", 10), Shown("changed", "changed", 14)),
    "workloads": (Shown("workload", "workload", 14), Shown("here", "here", 20, 1), Shown("summary", "what", 20, 2)),
    "marks": (
        Shown("mark", "mark", 20, 1),
        Shown("step", "step", 8),
        Shown("from", "from", 12),
        Shown("pane", "pane", 10),
    ),
    "help": (
        Shown("keys", "keys", 16),
        Shown("does", "does", 30),
        Shown("help", "", 24, 1),
        Shown("where", "where", 11),
    ),
}


def layout_of(pane: str, table: Table) -> list[Shown]:
    """The columns of a table that go on screen, as wide as their values; those without any value are left out."""
    known = pane
    if pane in ("kernels", "launches") and "calls" in table:
        known = f"{pane} by name"
    elif "queries" in table:
        known = f"{pane} by op"
    layout = [shown for shown in LAYOUTS.get(known, ()) if shown.name in table]
    if not layout:
        layout = [Shown(c.name, c.name, 20 if c.is_text else 12, int(c.is_text)) for c in table.columns]
    if pane != "steps":
        layout = [shown for shown in layout if shown.name != "step" or _varies(table["step"])]
    filled = [shown for shown in layout if not table[shown.name].nulls().all()]
    return [measured(shown, table[shown.name]) for shown in filled or layout]


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
