"""The work behind the rows of a list: the time of each row in each step, and the family that most of it is.

Rows that stand for all slices of a name or another key are summed as their pane sums them, so that the step that is
listed has the value of its cell.
"""

from __future__ import annotations

import numpy as np

from tracetui.kernel_names.slice_names import Family, families
from tracetui.linking.links import links
from tracetui.linking.placement import step_index, step_labels
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.table import Table
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.costs import costs, named_ops
from tracetui.tables.kernels import group_keys

UNGROUPED = "graph"
"""The grouping of kernels whose rows are no sums of kernels by one key."""


def step_times(trace: Trace, pane: str, by: str | None, table: Table) -> Float64 | None:
    """Time in µs of each row in each of `step_labels(trace)`; None for panes whose rows are no sums by a name.

    Of operators the time of the GPU activities that they launched themselves; without a GPU their own time on the CPU.
    """
    numbers = steps(trace).number
    labels = step_labels(trace)
    column = np.searchsorted(labels, numbers) if labels == sorted(labels) else _places(labels, numbers)
    if pane == "ops" and by is None and len(table):
        cost = costs(trace)
        spent = cost.self_device if len(links(trace).gpu) else cost.self_cpu
        return _by_step(trace, cost.row, _op_keys(trace, cost.row, cost.name), spent, _row_keys(table), column)
    if pane == "kernels" and by not in (None, UNGROUPED) and len(table):
        gpu = links(trace).gpu
        rows = table.columns[0].values.astype(np.int64)
        return _by_step(trace, gpu, group_keys(trace, gpu, str(by)), trace.slices.dur[gpu], rows, column)
    return None


def row_families(trace: Trace, pane: str, by: str | None, table: Table) -> Int64 | None:
    """The `Family` of what each row ran on the GPU, where most of its time went; -1 for rows without.

    None for panes whose rows stand for nothing on the GPU.
    """
    gpu = links(trace).gpu
    if pane == "kernels" and by is None and table.slices is not None:
        return families(trace, table.slices)
    if pane == "kernels" and by not in (None, UNGROUPED):
        rows = table.columns[0].values.astype(np.int64)
        return _main_family(trace, gpu, group_keys(trace, gpu, str(by)), rows)
    if pane == "ops" and by is None and len(gpu):
        cost, owner = costs(trace), named_ops(trace)[gpu]
        names = np.full(len(trace.slices), -1, np.int64)
        names[cost.row] = _op_keys(trace, cost.row, cost.name)
        return _main_family(trace, gpu, np.where(owner >= 0, names[owner], -1), _row_keys(table))
    return None


def _places(labels: list[int], numbers: Int64) -> Int64:
    return np.array([labels.index(number) for number in numbers.tolist()], np.int64)


def _op_keys(trace: Trace, rows: Int64, names: Int64) -> Int64:
    """A name and whether it is that of an annotation: an operator and an annotation of one name are two rows."""
    return np.asarray(names * 2 + (trace.slices.kind[rows] == Kind.ANNOTATION))


def _row_keys(table: Table) -> Int64:
    return np.asarray(table.columns[0].values.astype(np.int64) * 2 + table["kind"].equal("annotation"))


def _by_step(trace: Trace, rows: Int64, keys: Int64, spent: Int64, wanted: Int64, column: Int64) -> Float64:
    """The sums of some slices by key and step, for the wanted keys."""
    count = int(column.max(initial=-1)) + 1
    row_of = _index_of(wanted, keys)
    step = step_index(trace, rows)
    known = (row_of >= 0) & (step >= 0)
    cell = row_of[known] * count + column[step[known]]
    return np.bincount(cell, spent[known], len(wanted) * count).reshape(len(wanted), count) / 1000


def _main_family(trace: Trace, rows: Int64, keys: Int64, wanted: Int64) -> Int64:
    row_of = _index_of(wanted, keys)
    known = row_of >= 0
    cell = row_of[known] * len(Family) + families(trace, rows[known])
    sums = np.bincount(cell, trace.slices.dur[rows[known]], len(wanted) * len(Family)).reshape(-1, len(Family))
    return np.where(sums.any(axis=1), sums.argmax(axis=1), -1)


def _index_of(wanted: Int64, keys: Int64) -> Int64:
    """The first index among the wanted keys of each key, -1 for one that is not wanted."""
    if len(wanted) == 0:
        return np.full(len(keys), -1, np.int64)
    order = np.argsort(wanted, kind="stable")
    place = np.minimum(np.searchsorted(wanted[order], keys), len(wanted) - 1)
    return np.where(wanted[order][place] == keys, order[place], -1)
