"""The order of columns by importance: a screen drops the last of them, a report has the same in the same order.

The order of a pane is part of its declaration; here are those of the tables of ranks and comparisons. Text output has
all columns of a table. `model/columns.py` declares the columns.
"""

from __future__ import annotations

from collections.abc import Callable

from tracetui.model.columns import RANK_MEDIANS
from tracetui.model.table import Column, Table
from tracetui.panes import PANES

Rank = tuple[bool, bool, int, int]
"""Columns in order of their importance, the lowest first."""

_MEDIANS = " ".join(RANK_MEDIANS)
_CHANGES = "family op kind mark saves_us calls_a a_us b_us self_cpu_a_us self_cpu_b_us change_pct"
OTHER_ORDERS: dict[str, str] = {
    "ranks": (
        "mark rank wait_caused_us cause wait_suffered_us step_us busy_us exposed_comm_us clock_shift_us "
        "clock_error_us came_last host late_steps phase cause_note clock_drift_ppm exposed_wait_us idle_us "
        "bubble_pct steps stage collectives causes file"
    ),
    "ranks by host": f"host ranks wait_caused_us worst_rank cause {_MEDIANS}",
    "ranks by stage": f"stage ranks wait_caused_us worst_rank cause {_MEDIANS}",
    "ranks by files": "rank file why",
    "ranks by collectives": (
        "step name group skew_us last transfer_us busbw_gbps ranks of bytes mismatch partial seq start_us"
    ),
    "ranks by matrix": "rank late_rank wait_us collectives wait_error_us",
    "ranks by groups": "group ranks of collectives wait_us transfer_us busbw_gbps imbalance_pct",
    "ranks by steps": "step ranks step_us slowest_us wait_us late_rank wait_caused_us",
    "changed kernels": "mark short_name saves_us calls_a a_us b_us change_pct noise_us op how saved_bytes",
    "changed ops": (
        "mark name saves_us calls_a self_cpu_a_us self_cpu_b_us change_pct noise_us fused_into folded_change "
        "kind cpu_a_us cpu_b_us"
    ),
    "totals": "measure a b difference ratio change a_scatter b_scatter about",
    "changed kernels by family": _CHANGES,
    "changed kernels by op": _CHANGES,
    "changed kernels by mark": _CHANGES,
    "changed ops by kind": _CHANGES,
    "changed ops by mark": _CHANGES,
}
"""Names of columns by table, or by table and grouping as in `ranks by host`."""


def column_names(pane: str, by: str | None = None) -> tuple[str, ...]:
    """Names of the columns of a pane or another table in order of importance; empty where nothing says which."""
    if pane in PANES:
        return PANES[pane].columns_by(by)
    return tuple(OTHER_ORDERS.get(f"{pane} by {by}", OTHER_ORDERS.get(pane, "")).split())


def ordered(table: Table, pane: str, by: str | None = None) -> list[Column]:
    """The columns of a table that are read first; all of them where nothing says which.

    The step is left out where all rows are of one, and of the steps themselves what is 0 in every one or is known of a
    server's steps only.
    """
    columns = [table[name] for name in column_names(pane, by) if name in table] or list(table.columns)
    if pane == "steps":
        # There are more columns than fit: what is 0 in every step says little.
        columns = [column for column in columns if not column.spec.of_servers or not column.nulls().all()]
        return [column for column in columns if not _is_zero(column)]
    return [
        column
        for column in columns
        if column.name != "step" or (len(column) > 1 and bool((column.values != column.values[0]).any()))
    ]


def importance(pane: str, by: str | None = None) -> Callable[[Column], Rank]:
    """A function for the rank of a column of a pane, the lowest for what is read first.

    What says what a row is comes before all others, then by how far a column is a detail, and by its place in the list;
    in panes that keep their order, whose columns are details elsewhere, by its place first. What is 0 in every step
    is last.
    """
    ranks = {name: rank for rank, name in enumerate(column_names(pane, by))}
    keeps_order = pane in PANES and PANES[pane].keeps_order

    def rank_of(column: Column) -> Rank:
        spec = column.spec
        is_zero = pane == "steps" and _is_zero(column)
        place = ranks.get(column.name, len(ranks))
        return is_zero, not spec.is_key, *((place, spec.detail) if keeps_order else (spec.detail, place))

    return rank_of


def _is_zero(column: Column) -> bool:
    """True where a number is known to be 0 in every row."""
    is_known = len(column) > 0 and not column.is_text and not column.nulls().any()
    return is_known and not column.values.any()
