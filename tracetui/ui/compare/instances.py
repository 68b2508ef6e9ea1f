"""The slices behind the rows of a comparison, in the parts that are on screen. Pure."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.comparing.comparison import Comparison
from tracetui.analysis.comparing.sides.calls import calls
from tracetui.analysis.comparing.sides.op_names import loose_name
from tracetui.analysis.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.table import Table
from tracetui.model.trace import GPU_WORK
from tracetui.ui.compare.compare_list import KERNELS, OPS
from tracetui.ui.compare.partners import NONE
from tracetui.ui.compare.shown_part import ShownPart

Parts = tuple[ShownPart, ShownPart]


def instances_of(told: Comparison, tab: str, change: int, parts: Parts) -> tuple[Int64, Int64]:
    """The slices of A and of B that a row of the whole table of a tab stands for; none for totals."""
    if change < 0:
        return NONE, NONE
    if tab == KERNELS:
        found = told.kernel_changes
        return (
            parts[0].from_part(found.part_a, found.rows_a[change]),
            parts[1].from_part(found.part_b, found.rows_b[change]),
        )
    if tab == OPS:
        kind, name = str(told.ops["kind"].cell(change)), str(told.ops["name"].cell(change))
        mine, others = (part.calls_named(kind, name) for part in parts)
        return mine, others if len(others) else _work_of(parts[1], told.ops["fused_into"].cell(change))
    return NONE, NONE


def _work_of(part: ShownPart, name: object) -> Int64:
    """What runs under the name of a generated kernel: its call on a thread, or else its work on the GPU."""
    if not name:
        return NONE
    trace = part.side.trace
    alike = [number for number, each in enumerate(trace.names) if str(name) in (each, loose_name(each))]
    rows = np.flatnonzero(np.isin(trace.slices.name, alike))
    rows = rows[part.side.part_of(rows) == part.part]
    rows = np.take(rows, np.argsort(trace.slices.start[rows], kind="stable"))
    on_threads = rows[~np.isin(trace.slices.kind[rows], GPU_WORK)]
    return on_threads if len(on_threads) else rows


def change_of(told: Comparison, tab: str, side: int, row: int, parts: Parts) -> int:
    """The row of the whole table of a tab that a slice of a side belongs to, -1 for none."""
    trace = parts[side].side.trace
    if tab == KERNELS and int(trace.slices.kind[row]) in GPU_WORK:
        found = told.kernel_changes
        part, rows = (found.part_b, found.rows_b) if side else (found.part_a, found.rows_a)
        there = ShownPart(parts[side].side, part).from_part(parts[side].part, np.array([row]))
        return next((place for place, some in enumerate(rows) if np.isin(there, some).any()), -1)
    if tab == OPS:
        owner = links(trace).owner_of(row) if int(trace.slices.kind[row]) in GPU_WORK else row
        called = calls(parts[side].side)
        place = np.flatnonzero(called.row == owner)
        if len(place) == 0:
            return -1
        host = int(called.into[place[0]])
        key = called.keys[host if host >= 0 else int(called.key[place[0]])]
        return _row_named(told.ops, key.kind, (key.name, loose_name(key.name)))
    return -1


def _row_named(table: Table, kind: str, names: tuple[str, ...]) -> int:
    kinds, known = table["kind"], table["name"]
    rows = range(len(table))
    return next((row for row in rows if known.cell(row) in names and kinds.cell(row) == kind), -1)
