"""What of the GPU's work changed: one row per kernel, copy or fill of either side, or per fused kernel (R3.50).

The rows hold all work of the representative parts, each activity once. Times are those of a part: medians over all
parts of a side, so that a difference can be weighed against how much the parts differ themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.comparing.changes.change_bytes import ChangeBytes, change_bytes
from tracetui.analysis.comparing.changes.change_rows import JOINED, PAIRED, ChangeRows, change_rows
from tracetui.analysis.comparing.changes.marks import FUSED_INTO, GONE, NEW, SAME, SPLIT_INTO, UNTOLD, mark_of
from tracetui.analysis.comparing.changes.part_times import part_times
from tracetui.analysis.comparing.matching.classes import WorkClass, classes
from tracetui.analysis.comparing.matching.match import FUSED, HOWS, SPLIT, TAKEN_IN, match
from tracetui.analysis.comparing.sides.noise import Difference, difference
from tracetui.analysis.comparing.sides.representative import representative
from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.intervals import Int64
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Trace

MORE_CALLS, FEWER_CALLS, GENERATED = "more calls", "fewer calls", "same op, generated"
"""In place of how they were found: why one side has more of a kernel; that the compiler wrote a kernel for one op."""
_QUIET = {UNTOLD: 1, SAME: 2}
"""Marks of rows that stand below all others."""


@dataclass(frozen=True, eq=False)
class KernelChanges:
    """The table, and the work behind each of its rows."""

    table: Table
    rows_a: list[Int64]
    """For each table row the slices of A's representative part, in order of launch."""
    rows_b: list[Int64]
    part_a: int
    """The representative part; -1 of a side without parts."""
    part_b: int


def kernel_changes(a: Side, b: Side) -> KernelChanges:
    """The GPU work of the representative parts of two sides, what changes most on top; made once."""
    return a.trace.remember(("kernel changes", a.scope, b.trace, b.scope), lambda: _make(a, b))


def _make(a: Side, b: Side) -> KernelChanges:
    part_a, part_b = representative(a), representative(b)
    found = match(a, part_a, b, part_b)
    rows = change_rows(a.trace, b.trace, found)
    halves = _Half(a, found.rows_a, rows.row_a, len(rows)), _Half(b, found.rows_b, rows.row_b, len(rows))
    told = [difference(before, after) for before, after in zip(halves[0].times.T, halves[1].times.T, strict=True)]
    table = _table(rows, *halves, told, change_bytes(a.trace, b.trace, found, rows))
    order = _order(table)
    behind_a, behind_b = ([half.slices[place] for place in order.tolist()] for half in halves)
    return KernelChanges(table.take(order), behind_a, behind_b, part_a, part_b)


class _Half:
    """What one side has of the rows of the table."""

    def __init__(self, side: Side, rows: Int64, row: Int64, count: int) -> None:
        self.trace: Trace = side.trace
        order = np.argsort(row, kind="stable")
        self.calls = np.bincount(row, minlength=count)
        self.slices = np.split(rows[order], np.cumsum(self.calls)[:-1]) if count else []
        self.times = part_times(side, rows, row, count) / 1000

    def classes(self, place: int) -> list[WorkClass]:
        """The different classes in a row, in order of their first launch."""
        known = classes(self.trace)
        return [known.known[number] for number in dict.fromkeys(known.of(self.slices[place]).tolist())]


def _table(rows: ChangeRows, a: _Half, b: _Half, told: Sequence[Difference], moved: ChangeBytes) -> Table:
    kinds = [(a.classes(place), b.classes(place)) for place in range(len(rows))]
    marks = [_mark(rows, place, told[place], (int(a.calls[place]), int(b.calls[place]))) for place in range(len(rows))]
    before = np.array([each.a.median for each in told], np.float64)
    after = np.array([each.b.median for each in told], np.float64)
    noise = np.array([each.noise for each in told], np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(before > 0, 100 * (after - before) / before, np.nan)
    columns = (
        texts("mark", marks, "What became of it."),
        texts("short_name", [_short(*each) for each in kinds], "What it does, decoded from its name."),
        texts("family", [_family(*each) for each in kinds], "Sort of work, decoded from the name."),
        texts("op", [_ops(*each) for each in kinds], "The operators that launched it in A; in B of what is new."),
        texts("how", [_how(rows, place, a, b) for place in range(len(rows))], "By what both were found to be alike."),
        numbers("calls_a", a.calls, "", "Calls in the part of A that stands for the others."),
        numbers("calls_b", b.calls, "", "Calls in that of B."),
        numbers("a_us", before, "us", "GPU time of all these calls in a part of A, at the middle of all parts."),
        numbers("b_us", after, "us", "GPU time in a part of B."),
        numbers("saves_us", before - after, "us", "How much less that is in B."),
        numbers("change_pct", percent, "%", "How much more it is, of A."),
        numbers("noise_us", noise, "us", "By how much parts of one side differ: the larger of the two."),
        texts("change", [each.change.value for each in told], "Whether that is more than noise."),
        *moved.columns(),
        texts("name_a", [_names(each[0]) for each in kinds], "Name as recorded in A."),
        texts("name_b", [_names(each[1]) for each in kinds], "Name as recorded in B."),
    )
    return Table(columns, doubts=moved.doubts)


def _mark(rows: ChangeRows, place: int, told: Difference, calls: tuple[int, int]) -> str:
    if 0 in calls:
        return GONE if calls[0] else NEW
    if rows.many[place] != PAIRED and calls[0] != calls[1] and HOWS[rows.how[place]] in TAKEN_IN:
        return FUSED_INTO if rows.many[place] == JOINED else SPLIT_INTO
    return mark_of(told.change)


def _how(rows: ChangeRows, place: int, a: _Half, b: _Half) -> str | None:
    """What the partners share, or that there are more or fewer of them; None for what has none."""
    if rows.how[place] < 0:
        return None
    surplus, how = int(b.calls[place] - a.calls[place]), HOWS[rows.how[place]]
    if rows.many[place] != PAIRED:
        return GENERATED if surplus == 0 and how in (FUSED, SPLIT) else how
    return how if surplus == 0 else MORE_CALLS if surplus > 0 else FEWER_CALLS


def _short(a: list[WorkClass], b: list[WorkClass]) -> str:
    """The short names, both sides' where they differ."""
    sides = [", ".join(dict.fromkeys(each.decoded.short or each.plain for each in side)) for side in (a, b) if side]
    return " → ".join(dict.fromkeys(sides))


def _family(a: list[WorkClass], b: list[WorkClass]) -> str:
    """That of all of A, else of the first of B."""
    families = {each.decoded.family for each in a} or {each.decoded.family for each in b}
    return (families.pop() if len(families) == 1 else (b or a)[0].decoded.family).name.lower()


def _ops(a: list[WorkClass], b: list[WorkClass]) -> str | None:
    for side in (a, b):
        found = list(dict.fromkeys(each.op for each in side if each.op))
        if found:
            return ", ".join(found)
    return None


def _names(side: list[WorkClass]) -> str | None:
    return " + ".join(dict.fromkeys(each.name for each in side)) or None


def _order(table: Table) -> Int64:
    """What changed first, by how much; then what cannot be told; then what is the same, by its time."""
    marks = [str(mark) for mark in (table["mark"].cell(row) for row in range(len(table)))]
    saves = np.abs(np.asarray(table["saves_us"].values, np.float64))
    rank = np.array([_QUIET.get(mark, 0) for mark in marks], np.int64)
    size = np.where(rank == _QUIET[SAME], np.asarray(table["a_us"].values, np.float64), saves)
    return np.lexsort((-np.nan_to_num(size), rank))
