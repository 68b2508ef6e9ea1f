"""Operators by name, with the times that torch's `key_averages()` prints (semantics 3(d)).

The tree holds ops, annotations, runtime calls and the profiler's overhead on each thread, without Python frames. A
child that outlasts its parent is no child, and an op whose only child has its own name is counted once. Rows of
kernels are in the kernels pane; runtime calls stay on their own thread, and the device's annotations are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.groups import group
from tracetui.analysis.links import links, no_gpu
from tracetui.analysis.placement import within
from tracetui.analysis.steps import steps
from tracetui.analysis.trees import forest, nearest, subtree_sums
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.table import NULL, Table, coded, micros, numbers
from tracetui.model.trace import Kind, LaneKind, Trace

DROPPED = (
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)
"""Names that torch leaves out before it builds the tree; their time stays with the parent."""

_KINDS = {Kind.CPU_OP: "op", Kind.ANNOTATION: "annotation", Kind.RUNTIME: "runtime", Kind.OVERHEAD: "overhead"}
_LABELS = _KINDS | {Kind.OTHER: "slice"}
"""What the rows are called; slices of unknown category count in traces that torch did not write."""


@dataclass(frozen=True, eq=False)
class Costs:
    """What each CPU slice costs; parallel arrays, one entry per slice that counts."""

    row: Int64
    name: Int64
    """Id in `texts`."""
    texts: Strings
    """The trace's names with all steps under one."""
    cpu: Int64
    """Duration in ns."""
    self_cpu: Int64
    """Duration less that of the direct children, in ns."""
    device: Int64
    """Sum in ns of the durations of the GPU work that it and all below it own."""
    self_device: Int64
    """Sum in ns of the durations of the GPU work that it owns."""
    kernels: Int64
    """GPU activities that it and all below it own; of a runtime call those that it launched."""


def costs(trace: Trace) -> Costs:
    """Costs of every CPU slice as torch counts them."""
    return trace.remember("costs", lambda: _count(trace))


def self_times(trace: Trace) -> Int64:
    """Self CPU time in ns of every slice of the trace by the same tree, before names that repeat are merged."""

    def make() -> Int64:
        rows = _rows(trace)
        found = np.zeros(len(trace.slices), np.int64)
        found[rows] = _self_cpu(_tree(trace, rows), trace.slices.dur[rows])
        return found

    return trace.remember("self times", make)


def ops(trace: Trace, step: int | None = None, by: str | None = None) -> Table:
    """Calls and times by name, as `key_averages()`; an op and an annotation of one name are two rows."""
    cost = costs(trace)
    rows = cost.row
    if step is not None:
        mask = np.isin(rows, within(trace, rows, step), assume_unique=True)
        cost = Costs(cost.row[mask], cost.name[mask], cost.texts, *(column[mask] for column in _numbers(cost)))
    kind = trace.slices.kind[cost.row]
    names = group(cost.name * 256 + kind)
    sums = [names.sum(column) for column in _numbers(cost)]
    labels = Strings(_LABELS.values())
    kind_ids = [labels.find(_LABELS[Kind(key)]) for key in (names.key % 256).tolist()]
    cpu, self_cpu, device, self_device, kernels = sums
    absent = np.full(len(names), len(links(trace).gpu) == 0)
    table = Table(
        (
            coded("name", names.key // 256, cost.texts, "Name; all steps are one."),
            numbers("calls", names.calls, "", "How often it was called."),
            micros("self_cpu_us", self_cpu, "CPU time outside of what it called."),
            micros("cpu_total_us", cpu, "CPU time with what it called; an op inside an op of its name counts twice."),
            micros("self_device_us", self_device, "Time of the GPU work that it launched itself.", absent),
            micros("device_total_us", device, "Time of the GPU work that it and what it called launched.", absent),
            numbers(
                "kernels",
                np.where(absent, NULL, kernels.astype(np.int64)),
                "",
                "GPU activities that it and what it called launched.",
            ),
            coded(
                "kind",
                np.array(kind_ids, np.int32),
                labels,
                "Op, annotation, runtime call or overhead; slice in traces of other programs.",
            ),
        ),
        cost.row[names.largest(cost.cpu)],
        no_gpu(trace),
    )
    table = table.take(table.order("cpu_total_us", descending=True))
    return table.take(table.order("device_total_us", descending=True))


def _numbers(cost: Costs) -> tuple[Int64, ...]:
    return cost.cpu, cost.self_cpu, cost.device, cost.self_device, cost.kernels


def _rows(trace: Trace) -> Int64:
    """The slices that torch puts into its tree; all of a trace that torch did not write."""
    slices = trace.slices
    rows = slices.of_kind(*(_KINDS if trace.is_torch else _LABELS))
    on_thread = np.array([lane.kind in (LaneKind.CPU, LaneKind.OVERHEAD) for lane in trace.lanes], bool)
    rows = rows[on_thread[slices.lane[rows]]]
    dropped = [trace.names.find(name) for name in DROPPED]
    kept: Int64 = rows[~np.isin(slices.name[rows], dropped)]
    return kept


def _count(trace: Trace) -> Costs:
    slices, found = trace.slices, links(trace)
    rows = _rows(trace)
    texts, name = _merged_steps(trace, rows)
    parent = _tree(trace, rows)
    place = np.full(len(slices), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owned = found.gpu[found.owner[found.gpu] >= 0]
    owner = place[found.owner[owned]]
    owned, owner = owned[owner >= 0], owner[owner >= 0]
    own_time = np.bincount(owner, slices.dur[owned].astype(np.float64), len(rows))
    own_count = np.bincount(owner, minlength=len(rows))
    keep, parent, source = _without_repeats(parent, name)
    own_time, own_count = own_time[source], own_count[source]
    device, kernels = subtree_sums(parent, own_time), subtree_sums(parent, own_count)
    rows = rows[keep]
    launched = np.searchsorted(rows, found.launches)
    there = rows[np.minimum(launched, len(rows) - 1)] == found.launches if len(rows) else launched >= 0
    kernels[launched[there]] = found.counts[there]
    dur = slices.dur[rows]
    return Costs(
        rows,
        name[keep],
        texts,
        dur,
        _self_cpu(parent, dur),
        device.astype(np.int64),
        own_time.astype(np.int64),
        kernels.astype(np.int64),
    )


def _tree(trace: Trace, rows: Int64) -> Int64:
    """The parent of each row as torch's stack finds it: nothing may outlast it, and it lasts some time itself."""
    return nearest(forest(trace, rows, 0), trace.slices.dur[rows] > 0)


def _self_cpu(parent: Int64, dur: Int64) -> Int64:
    child = np.flatnonzero(parent >= 0)
    below: Int64 = np.bincount(parent[child], dur[child], len(dur)).astype(np.int64)
    return np.subtract(dur, below)


def _merged_steps(trace: Trace, rows: Int64) -> tuple[Strings, Int64]:
    """Names with all steps called `ProfilerStep*`, and the id of each row."""
    texts = Strings(trace.names)
    name = trace.slices.name[rows].astype(np.int64)
    name[np.isin(rows, steps(trace).row)] = texts.intern("ProfilerStep*")
    return texts, name


def _without_repeats(parent: Int64, name: Int64) -> tuple[Int64, Int64, Int64]:
    """Leave out every node that is the only child of a node of its name (rule 8).

    Returns which nodes stay, their parents, and from which node each takes its kernels: the last of the
    chain, for torch replaces the list of the parent instead of adding to it.
    """
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    repeat: Bool = (parent >= 0) & (name == name[parent]) & (children[parent] == 1)
    top = np.where(repeat, parent, np.arange(len(parent)))
    while (repeat[top]).any():
        top = top[top]
    source = np.arange(len(parent))
    source[top[repeat]] = np.flatnonzero(repeat)  # children follow their parents, so the last of a chain remains
    keep = np.flatnonzero(~repeat)
    place = np.cumsum(~repeat) - 1
    above = parent[keep]
    return keep, np.where(above >= 0, place[top[above]], -1), source[keep]
