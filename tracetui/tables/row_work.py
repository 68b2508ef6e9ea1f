"""The work behind the rows of a list: the time of each row in each step, and the family that most of it is.

Rows that stand for all slices of a name or another key are summed as their pane sums them, so that the step that is
listed has the value of its cell.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family, families
from tracetui.linking.links import links
from tracetui.linking.placement import step_index, step_labels
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.table import Table
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.costs import costs, named_ops
from tracetui.tables.kernels import group_keys

STEPS_COMPARED = (3, 60)
"""Least and most steps whose times stand side by side."""
UNGROUPED = "graph"
"""The grouping of kernels whose rows are no sums of kernels by one key."""


@frozen
class _Work:
    """Sums by key over the whole trace."""

    key: Int64
    """Ascending."""
    times: Float64
    """In µs, by key and by the index in `step_labels(trace)`."""
    family: Int64
    """The `Family` of most of the GPU time, -1 for none."""

    def index_of(self, keys: Int64) -> Int64:
        """The index of each key, -1 for one without work."""
        if len(self.key) == 0:
            return np.full(len(keys), -1, np.int64)
        place = np.minimum(np.searchsorted(self.key, keys), len(self.key) - 1)
        return np.where(self.key[place] == keys, place, -1)


def step_times(trace: Trace, pane: str, by: str | None, table: Table) -> Float64 | None:
    """Time in µs of each row in each of `step_labels(trace)`; None for panes whose rows are no sums by a key.

    None as well where there are fewer or more steps than `STEPS_COMPARED`.
    Of operators the time of the GPU activities that they launched themselves; without a GPU their own time on the CPU.
    """
    found = _work_of(trace, pane, by, table)
    if found is None or not STEPS_COMPARED[0] <= len(step_labels(trace)) <= STEPS_COMPARED[1]:
        return None
    work, index = found
    return np.where((index >= 0)[:, None], work.times[index], 0.0)


def row_families(trace: Trace, pane: str, by: str | None, table: Table) -> Int64 | None:
    """The `Family` of what each row ran on the GPU, where most of its time went; -1 for rows without.

    None for panes whose rows stand for nothing on the GPU.
    """
    if pane == "kernels" and by is None and table.slices is not None:
        return families(trace, table.slices)
    found = _work_of(trace, pane, by, table)
    if found is None:
        return None
    work, index = found
    return np.where(index >= 0, work.family[index], -1)


def _work_of(trace: Trace, pane: str, by: str | None, table: Table) -> tuple[_Work, Int64] | None:
    """The work of a pane, and the index in it of each row of its table; None where rows are no sums by a key."""
    if len(table) == 0:
        return None
    key = table.columns[0].values.astype(np.int64)
    if pane == "ops" and by is None:
        work, keys = _of_ops(trace), key * 2 + table["kind"].equal("annotation")
    elif pane == "kernels" and by not in (None, UNGROUPED):
        work, keys = _of_kernels(trace, str(by)), key
    else:
        return None
    return (work, work.index_of(keys)) if len(work.key) else None


@kept
def _of_ops(trace: Trace) -> _Work:
    """By name and whether it is that of an annotation: an operator and an annotation of one name are two rows."""
    cost, gpu = costs(trace), links(trace).gpu
    keys = cost.name * 2 + (trace.slices.kind[cost.row] == Kind.ANNOTATION)
    by_slice = np.full(len(trace.slices), -1, np.int64)
    by_slice[cost.row] = keys
    owner = named_ops(trace)[gpu]
    spent = cost.self_device if len(gpu) else cost.self_cpu
    return _summed(trace, (cost.row, keys, spent), (gpu, np.where(owner >= 0, by_slice[owner], -1)))


@kept
def _of_kernels(trace: Trace, by: str) -> _Work:
    gpu = links(trace).gpu
    keys = np.asarray(group_keys(trace, gpu, by)[0], np.int64)
    return _summed(trace, (gpu, keys, trace.slices.dur[gpu]), (gpu, keys))


def _summed(trace: Trace, spent: tuple[Int64, Int64, Int64], activities: tuple[Int64, Int64]) -> _Work:
    """Sums of slices with their keys and times, and the families of activities with theirs."""
    rows, keys, time = spent
    labels = {number: index for index, number in enumerate(step_labels(trace)[: STEPS_COMPARED[1]])}
    known = np.unique(keys)
    column = np.array([labels.get(number, -1) for number in steps(trace).number.tolist()], np.int64)
    step, shape = step_index(trace, rows), (len(known), len(labels))
    # Outside of all steps the index is -1, as that of a step that is one too many.
    at = np.append(column, -1)[step]
    cell = np.searchsorted(known, keys[at >= 0]) * len(labels) + at[at >= 0]
    times = np.bincount(cell, time[at >= 0], shape[0] * shape[1]).reshape(shape) / 1000
    work = _Work(known, times, np.full(len(known), -1, np.int64))
    gpu, owner = activities
    index = work.index_of(owner)
    gpu, index = gpu[index >= 0], index[index >= 0]
    sums = np.bincount(index * len(Family) + families(trace, gpu), trace.slices.dur[gpu], len(known) * len(Family))
    sums = sums.reshape(-1, len(Family))
    return replace(work, family=np.where(sums.any(axis=1), sums.argmax(axis=1), -1))
