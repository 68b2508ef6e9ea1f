"""The tables of a comparison for the screen: marks with a sign, measures as words, numbers with units. Pure.

Signs are those of a diff: `+` is what B has more of, `-` what it has less of or what is gone. Text output and exports
have the plain words.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.format import cell
from tracetui.drawing.text.comparison_text import is_unchanged
from tracetui.drawing.text.summary_words import words
from tracetui.model import columns as col
from tracetui.model.quantities import quantity
from tracetui.model.table import Column, Table, coded, numbers, texts

SIGNS = {"faster": "-", "slower": "+", "gone": "-", "new": "+", "same": "=", "cannot tell": "?"}
SHORT = {"fused into": "fused", "split into": "split", "cannot tell": "noise"}
"""Marks in a word, for a narrow column."""


def readable_changes(table: Table) -> Table:
    """Kernels or operators with the sign before their mark, which is one word."""
    mark, saves = table["mark"], table["saves_us"]
    marks = [signed(str(mark.cell(row)), saves.cell(row)) for row in range(len(table))]
    made = _with(
        table,
        texts(replace(mark.spec, is_signed=True), [f"{each[:2]}{SHORT.get(each[2:], each[2:])}" for each in marks]),
    )
    return with_calls(made) if "calls_a" in table else made


def rows_without_change(table: Table) -> NDArray[np.bool_]:
    """Mask of the rows that took the same time to the nanosecond, and of measures that are 0 on both sides."""
    if "saves_us" in table:
        return is_unchanged(table)
    zero = [table[name].equal(0) for name in ("a", "b")]
    return np.asarray(zero[0] & zero[1])


def with_calls(table: Table) -> Table:
    """The table with the calls of both sides in the column of A's: `16 → 1`, or one number where they are as many."""
    before, after = table["calls_a"], table["calls_b"]
    words = []
    for row in range(len(table)):
        counts = [cell(column, column.cell(row)) for column in (before, after)]
        words.append(counts[0] if counts[0] == counts[1] else " → ".join(counts))
    both = replace(
        before.spec, heading="calls", help="Calls in a part of A, and of B where they differ.", is_number_text=True
    )
    return _with(table, texts(both, words))


def signed(mark: str, saves: object) -> str:
    """A mark with its sign; that of a fused or split kernel follows from what it saves."""
    sign = SIGNS.get(mark, "")
    if not sign:
        sign = "=" if not isinstance(saves, int | float) or saves == 0 else "-" if saves > 0 else "+"
    return f"{sign} {mark}"


def readable_totals(table: Table) -> Table:
    """Measures in words, every number in the unit of its row."""
    rows = list(table.rows())
    columns = [texts(table["measure"].spec, [words(str(row["measure"])) for row in rows])]
    for column in table.columns[1:]:
        if column.name in ("a", "a_scatter", "b", "b_scatter", "difference"):
            amounts = [_amount(row[column.name], str(row["unit"] or "")) for row in rows]
            columns.append(texts(replace(column.spec, is_number_text=True), amounts))
        elif column.name == "change":
            amounts = [None if row["change"] == "unknown" else str(row["change"]) for row in rows]
            columns.append(texts(column.spec, amounts))
        elif column.name != "unit":
            columns.append(column)
    return replace(table, columns=tuple(columns))


def _amount(value: object, unit: str) -> str | None:
    if not isinstance(value, int | float):
        return None
    return quantity(value, unit)


def _with(table: Table, column: Column) -> Table:
    """The table with a column in place of that of its name."""
    return replace(table, columns=tuple(column if each.name == column.name else each for each in table.columns))


def grouped(table: Table, by: str) -> Table:
    """One row per value of a text column: calls and times added up, what saves most on top.

    Medians are added, so that the sum of a family is what its kernels have at the middle, and not a median itself.
    """
    key = table[by]
    used, member = np.unique(key.values, return_inverse=True)
    columns = [coded(key.spec, used, key.strings or ())]
    for name in ("calls_a", "calls_b", "a_us", "b_us", "self_cpu_a_us", "self_cpu_b_us", "saves_us"):
        if name in table:
            column = table[name]
            values = np.where(column.nulls(), 0, column.values).astype(np.float64)
            columns.append(replace(column, values=np.bincount(member, values, len(used))))
    made = Table((*columns, *_percents(columns)), None, table.note)
    return made.take(np.lexsort((-np.abs(made["saves_us"].values.astype(np.float64)),)))


def _percents(columns: list[Column]) -> list[Column]:
    """How much more B takes, of A."""
    values = {column.name: column.values.astype(np.float64) for column in columns if not column.is_text}
    before = values.get("a_us", values.get("self_cpu_a_us"))
    if before is None:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(before > 0, -100 * values["saves_us"] / before, np.nan)
    return [numbers(col.CHANGE_PCT, more)]
