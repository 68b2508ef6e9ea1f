"""Ranks grouped: a row per host or per stage of a pipeline, with medians and the rank that is waited for most."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from tracetui.model import columns as col
from tracetui.model.table import NULL, Cell, Column, Table, numbers, texts

HOST, STAGE = "host", "stage"
GROUPINGS = (HOST, STAGE)
"""The columns by which ranks can be grouped."""
_MEDIANS = ("step_us", "busy_us", "exposed_comm_us", "exposed_wait_us", "idle_us", "bubble_pct", "wait_suffered_us")


def grouped_ranks(table: Table, by: str) -> Table:
    """One row per value of a column of `rank_tables.ranks_table`, the group that others waited for most first."""
    rows: dict[Cell, list[int]] = defaultdict(list)
    for row in range(len(table)):
        rows[table[by].cell(row)].append(row)
    groups = [np.array(each, np.int64) for each in rows.values()]
    caused = np.nan_to_num(table["wait_caused_us"].values.astype(np.float64))
    worst = [int(each[np.argmax(caused[each])]) for each in groups]
    key = [None if value is None else str(value) for value in rows]
    first = (
        numbers(col.STAGE, [NULL if value is None else value for value in rows])
        if by == STAGE
        else texts(col.HOST.but(help="Host of the ranks."), key)
    )
    columns: list[Column] = [
        first,
        numbers(col.RANKS.but(help="Ranks of it that are here."), [len(each) for each in groups]),
        numbers(
            col.WAIT_CAUSED_US.but(help="Time that others waited for these ranks, summed over them."),
            [float(caused[each].sum()) for each in groups],
        ),
        numbers(col.WORST_RANK, table["rank"].values[worst]),
        table["cause"].take(np.array(worst, np.int64)),
    ]
    for name in _MEDIANS:
        column = table[name]
        spec = column.spec.but(help=f"Median of these ranks: {column.help[:1].lower()}{column.help[1:]}")
        columns.append(numbers(spec, [_median(column.values[each].astype(np.float64)) for each in groups]))
    grouped = Table(tuple(columns), note=table.note)
    waits = grouped["wait_caused_us"].values.astype(np.float64)
    return grouped.take(np.argsort(-waits, kind="stable"))


def _median(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan
