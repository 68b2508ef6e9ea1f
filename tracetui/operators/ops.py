"""The ops pane: calls and times by name, as torch's `key_averages()` sums them (3(d)).

Rows are the slices of threads; `by="event"` adds the rows of the device, and so is torch's table row by row.
Besides torch's sums, which add concurrent activities, there is the wall time on the GPU: the union of the activities
launched inside a call on its thread. Activities without launch record belong to no call; those of the backward pass
belong to the forward op as well. Allocator events outside of every op and call are rows of torch's table though they
take no time (3(d).2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tracetui.linking.autograd import autograd
from tracetui.linking.graph_nodes import GraphNodes, capture_counts, graph_nodes
from tracetui.linking.groups import Groups, combinations, distinct, group
from tracetui.linking.lines import SITES, site_column, site_groupings
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import positions_of_step, time_within, within
from tracetui.linking.replays import replays
from tracetui.linking.trees import forest
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange, index_in, run_starts, tree_depth, union
from tracetui.model.native import insertion_index
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, Strings, Table, coded, micros, numbers
from tracetui.model.trace import WITH_NVTX, Kind, Slices, Trace
from tracetui.operators.costs import (
    Costs,
    costs,
    costs_of_step,
    costs_within,
    counted_near,
    counted_rows,
    device_costs,
    device_costs_within,
    named_ops,
)
from tracetui.operators.key_averages import (
    KIND_WORDS,
    Averages,
    averages,
    grouped,
    has_shapes,
    signatures,
    some_member,
)

# Operators that were captured into graphs, as rows below those of torch's table: GPU time of the replays (R3.40).
#
# They did not run while the trace was recorded, so that they have no calls and no CPU time; their time is inferred.

CAPTURED_OP = "captured op"
"""Kind of the rows."""
_FIELDS = {"name": "op", "function": "function", "module": "module", "input_shapes": "shapes"}
"""Columns that have texts of the capture, and the fields of `GraphNodes`."""


def with_captured_ops(trace: Trace, table: Table, part: Part | None) -> Table:
    """A table of operators with a row for each operator that was captured, by the texts that the table has."""
    nodes = graph_nodes(trace)
    rows = within(trace, nodes.rows[nodes.op >= 0], part)
    if len(rows) == 0:
        return table
    entry = nodes.index_of(rows)
    keys = [getattr(nodes, field)[entry] for name, field in _FIELDS.items() if name in table]
    alike = combinations(*keys)
    dur = trace.slices.dur[rows]
    if isinstance(part, TimeRange):
        dur = part.covered(trace.slices.start[rows], trace.slices.end[rows])
    total = np.bincount(alike.member, dur, len(alike.first))
    longest = rows[np.lexsort((-dur, alike.member))[np.unique(np.sort(alike.member), return_index=True)[1]]]
    numbers = {
        "self_device_us": total / 1000,
        "device_total_us": total / 1000,
        "kernels": np.bincount(alike.member, minlength=len(alike.first)),
    }
    columns = tuple(_more(column, nodes, entry[alike.first], numbers) for column in table.columns)
    slices = None if table.slices is None else np.concatenate([table.slices, longest])
    note = (
        f"{table.note} A {CAPTURED_OP} put its kernels into a graph at capture and did not run here: its GPU time (~) "
        f"is that of the replays ({capture_counts(trace).words})."
    )
    return replace(table, columns=columns, slices=slices, note=note.strip())


def _more(column: Column, nodes: GraphNodes, entry: Int64, numbers: dict[str, np.ndarray]) -> Column:
    """A column with the values of the captured operators below its own; a number of them is inferred."""
    count, inferred = len(entry), column.name in numbers
    if column.strings is not None:
        joined = Strings(column.strings)
        if column.name == "kind":
            added = np.full(count, joined.intern(CAPTURED_OP), np.int32)
        elif column.name in _FIELDS:
            ids = getattr(nodes, _FIELDS[column.name])[entry].tolist()
            added = np.array([joined.intern(nodes.texts[each]) if each >= 0 else -1 for each in ids], np.int32)
        else:
            added = np.full(count, -1, np.int32)
        return replace(column, values=np.concatenate([column.values, added]), strings=joined, doubtful=None)
    own = np.zeros(len(column), bool) if column.doubtful is None else column.doubtful
    null = NULL if column.values.dtype.kind == "i" else np.nan
    added = numbers[column.name].astype(column.values.dtype) if inferred else np.full(count, null, column.values.dtype)
    return replace(
        column,
        values=np.concatenate([column.values, added]),
        doubtful=np.concatenate([own, np.full(count, inferred)]),
    )


Times = TypeVar("Times", Int64, Int64 | None)


def gpu_union_times(trace: Trace, part: Part | None = None) -> Int64:
    """The time in ns in which activities launched inside each slice of a thread ran; 0 for all other slices.

    For a range of time that within it, and for a step only slices near it have theirs.
    """

    def make(near: Int64 | None) -> Int64:
        trace_links = links(trace)
        holder = np.repeat(trace_links.launches, trace_links.counts)
        return _union_times(trace, trace_links.launched, holder, part if isinstance(part, TimeRange) else None, near)

    return _kept_or_near(trace, "gpu union times", part, make)


def backward_union_times(trace: Trace, part: Part | None = None) -> Int64 | None:
    """`gpu_union_times` of the backward pass of an op and its callees; None where nothing links the two passes."""

    def make(near: Int64 | None) -> Int64 | None:
        gpu = links(trace).gpu
        forward = autograd(trace).forward[gpu]
        known = forward >= 0
        if not known.any():
            return None
        holder, time_range = forward[known].astype(np.int64), part if isinstance(part, TimeRange) else None
        return _union_times(trace, gpu[known], holder, time_range, near)

    return _kept_or_near(trace, "backward union times", part, make)


def _kept_or_near(trace: Trace, key: str, part: Part | None, make: Callable[[Int64 | None], Times]) -> Times:
    """The times of the whole trace, which are kept; those of a range of time, or of the slices near a step, are not."""
    if isinstance(part, TimeRange):
        return make(None)
    near = None if part is None or key in trace.cache else counted_near(trace, part)
    return trace.keep(key, lambda: make(None)) if near is None else make(near)


def _union_times(
    trace: Trace, work: Int64, holder: Int64, time_range: TimeRange | None = None, rows: Int64 | None = None
) -> Int64:
    """The union in ns of the activities that every slice, or each of `rows`, or a descendant holds; one `holder` per
    activity.

    Goes up level by level, the activities of all slices of one depth at once.
    """
    slices, is_all = trace.slices, rows is None
    rows = counted_rows(trace) if rows is None else rows
    union_times = np.zeros(len(slices), np.int64)
    if len(rows) == 0:
        return union_times
    node = index_in(rows, holder.astype(np.int64))
    start, end, node = slices.start[work][node >= 0], slices.end[work][node >= 0], node[node >= 0]
    if time_range is not None:
        ran = time_range.touched(start, end)
        start, end, node = start[ran].clip(time_range.start), end[ran].clip(max=time_range.end), node[ran]
    if len(node) == 0:
        return union_times
    moments = distinct(np.concatenate([start, end]))
    opens, closes = insertion_index(moments, start), insertion_index(moments, end)
    parent, level = _counted_tree(trace) if is_all else _tree_of(trace, rows)
    level = level[node]
    for depth in range(int(level.max()), -1, -1):
        here = np.flatnonzero(level == depth)
        known, total = _unions(node[here], opens[here], closes[here], moments)
        union_times[rows[known]] = total
        node[here] = parent[node[here]]
        level[here] -= 1
    return union_times


@kept
def _counted_tree(trace: Trace) -> tuple[Int64, Int64]:
    """The parent and the depth of each of `counted_rows(trace)`."""
    return _tree_of(trace, counted_rows(trace))


def _tree_of(trace: Trace, rows: Int64) -> tuple[Int64, Int64]:
    parent = forest(trace, rows)
    return parent, tree_depth(parent)


def _unions(holder: Int64, opens: Int64, closes: Int64, moments: Int64) -> tuple[Int64, Int64]:
    """The distinct holders, and the length of the union of the intervals of each.

    Intervals are indices in `moments`; holders mostly ascend, and starts within them, which sorts fast.
    """
    order = np.argsort(holder * len(moments) + opens, kind="stable")
    holder, opens, closes = holder[order], opens[order], closes[order]
    fresh = run_starts(holder)
    group = np.cumsum(fresh) - 1
    reach = np.maximum.accumulate(group * len(moments) + closes) - group * len(moments)
    seen = np.zeros(len(holder), np.int64)
    seen[1:] = np.where(fresh[1:], 0, reach[:-1])
    new = np.maximum(moments[closes] - moments[np.maximum(opens, seen)], 0)
    return holder[fresh], np.bincount(group, new).astype(np.int64)


ALLOCATION = "[memory]"
"""Name of allocations and frees, recorded with `profile_memory=True`."""
FAILURE = "[OutOfMemory]"
"""Name of failed allocations, which count inside of ops as well."""


def has_allocations(trace: Trace) -> bool:
    """True where events of the allocator were recorded."""
    return bool((trace.instants.name == trace.names.find(ALLOCATION)).any())


def memory_outside_ops(trace: Trace, cost: Costs) -> dict[str, Int64]:
    """Times in ns of the allocator events that torch counts outside the slices of `cost`, ascending, by name."""
    instants = trace.instants
    moments = {}
    for name in (ALLOCATION, FAILURE):
        moment = np.sort(instants.time[instants.name == trace.names.find(name)])
        if name == ALLOCATION and len(moment):
            start = trace.slices.start[cost.row]
            starts, ends = union(start, start + cost.cpu + 1)  # the end belongs to the slice
            index = insertion_index(starts, moment, side="right") - 1
            in_slice = (index >= 0) & (moment < np.append(ends, 0)[index])
            moment = moment[~in_slice]
        if len(moment):
            moments[name] = moment
    return moments


FRAMES_SINCE = (2, 12)
"""First torch version whose `key_averages()` has Python frames in its tree, so that they take from self times."""
FRAMES_LISTED_UNTIL = (2, 13)
"""Last torch version that lists these as rows unless asked."""


def ops(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Calls and times by name; an op and an annotation of the same name are two rows.

    A step holds the slices that began in it and the activities launched in it. A range of time holds calls that were
    open in it, with what of their CPU time and of the activities they launched is in it (R3.58).
    """
    version = _torch_version(trace) if by == "event" else (0, 0)
    frames = by == "frame" or version >= FRAMES_SINCE
    if isinstance(step, TimeRange):
        cost, device = costs_within(trace, step, frames), device_costs_within(trace, step)
    elif step is None:
        cost, device = costs(trace, frames), device_costs(trace)
    else:
        cost, device = costs_of_step(trace, step, frames), device_costs(trace)
        device = device.take(positions_of_step(trace, device.row, step))
    if version > FRAMES_LISTED_UNTIL:
        cost = cost.take(np.flatnonzero(trace.slices.kind[cost.row] != Kind.PYTHON))
    note = " ".join((*_totals(trace, cost, device), *_remarks(trace, step, by, frames)))
    if by in ("event", "frame"):
        return _as_torch(trace, cost, device, note, step)
    part = _shapes(trace, cost.row) if by == "shape" else site_column(trace, cost.row, by) if by in SITES else None
    names = grouped(trace.slices, cost, None if part is None else part.values.astype(np.int64))
    sums = _open_calls(trace.slices, averages(trace.slices, cost, names), cost, names, step)
    columns = _torch_columns(trace, cost.texts, sums)
    if part is not None:
        columns = (columns[0], part.take(some_member(names)), *columns[1:])
    table = Table(
        (*columns, *_wall_columns(trace, cost, names, step)), sums.longest, note if len(cost.row) else no_gpu(trace)
    )
    table = with_captured_ops(trace, table, step)
    table = table.take(table.order("cpu_total_us", descending=True))
    return table.take(table.order("device_total_us", descending=True))


PANE = Pane(
    "ops",
    "Ops",
    help=(
        "One row is an operator name, as in key_averages(); by event there is every row of torch's table, by frame "
        "with Python frames, which torch 2.12 and 2.13 list."
    ),
    table=ops,
    columns=(
        "name input_shapes line function module calls self_device_us self_cpu_us device_total_us cpu_total_us "
        "kernels gpu_wall_us backward_gpu_us"
    ),
    groupings=(
        Grouping("shape"),
        Grouping("event"),
        Grouping("frame"),
        *site_groupings(),
    ),
    bars="self_device_us self_cpu_us",
    is_of_names=True,
)


def _open_calls(slices: Slices, sums: Averages, cost: Costs, names: Groups, part: Part | None) -> Averages:
    """The sums with the calls that are open in a range of time; other calls only have activities within it."""
    if not isinstance(part, TimeRange):
        return sums
    is_open = part.touched(slices.start[cost.row], slices.end[cost.row])
    return replace(sums, calls=names.sum(is_open).astype(np.int64))


def _as_torch(trace: Trace, cost: Costs, device: Costs, note: str, step: Part | None) -> Table:
    """The rows of torch's table and no others, in its order; allocator rows only for the whole trace."""
    both = cost.joined(device)
    names = grouped(trace.slices, both)
    sums = _open_calls(trace.slices, averages(trace.slices, both, names), both, names, step)
    if step is None:
        sums = sums.with_instants(trace, memory_outside_ops(trace, cost))
    table = Table(_torch_columns(trace, cost.texts, sums), sums.longest, note if len(sums.name) else no_gpu(trace))
    return table.take(sums.in_order())


def _torch_columns(trace: Trace, texts: Strings, sums: Averages) -> tuple[Column, ...]:
    absent = np.full(len(sums.name), len(links(trace).gpu) == 0)
    return (
        coded(col.OP_NAME, sums.name, texts),
        numbers(col.CALLS, sums.calls),
        micros(col.SELF_CPU_US, sums.self_cpu, doubtful=sums.is_doubtful),
        micros(col.CPU_TOTAL_US, sums.cpu),
        micros(col.SELF_DEVICE_US, sums.self_device, null=absent),
        micros(col.DEVICE_TOTAL_US, sums.device, null=absent),
        numbers(
            col.KERNELS.but(help="GPU activities that it and what it called launched."),
            np.where(absent, NULL, sums.kernels),
        ),
        coded(
            col.KIND.but(
                help="Op, annotation, runtime call, overhead or what ran on a GPU; slice in traces of other programs."
            ),
            sums.kind,
            KIND_WORDS,
        ),
    )


def _wall_columns(trace: Trace, cost: Costs, names: Groups, part: Part | None) -> tuple[Column, Column]:
    """Wall time on the GPU, which torch's tables do not have."""
    backward = backward_union_times(trace, part)
    later = np.zeros(len(names)) if backward is None else names.sum(backward[cost.row])
    return (
        micros(
            col.GPU_WALL_US,
            names.sum(gpu_union_times(trace, part)[cost.row]),
            null=np.full(len(names), len(links(trace).launches) == 0),
        ),
        micros(col.BACKWARD_GPU_US, later, null=np.full(len(names), backward is None)),
    )


def _shapes(trace: Trace, rows: Int64) -> Column:
    """The input shapes of each row as in torch's key: lists of tensors as `[]` (3(d).10)."""
    recorded = trace.op_args.text("Input Dims", trace.slices.event[rows])
    dims = group(recorded)
    examples = signatures(trace, rows[some_member(dims)])
    known = Strings()
    ids = []
    for signature in examples.known:
        sizes = [() if any(isinstance(size, tuple) for size in dims) else dims for dims in signature.dims]
        ids.append(known.intern(json.dumps(sizes)))
    ids.append(known.intern("[]") if _records_shapes(trace) else -1)
    values = np.array(ids, np.int32)[examples.id][dims.member]
    return coded(col.INPUT_SHAPES, values, known)


def _records_shapes(trace: Trace) -> bool:
    """True where shapes were recorded: the file says so, or has some."""
    return trace.metadata.get("record_shapes") == 1 or has_shapes(trace)


def _totals(trace: Trace, cost: Costs, device: Costs) -> tuple[str, ...]:
    """The lines below torch's table (3(d).11)."""
    if not trace.is_torch:
        return ()
    lines = (f"Self CPU time total: {torch_time(cost.self_cpu.sum())}.",)
    counts = trace.slices.kind[device.row] != Kind.GPU_ANNOTATION
    total = int(device.self_device[counts].sum())
    if total == 0 and not cost.self_device.any():
        return lines
    name = "XPU" if any(category.startswith("xpu") for category in trace.categories) else "CUDA"
    return (*lines, f"Self {name} time total: {torch_time(total)}.")


def torch_time(nanoseconds: int) -> str:
    """A duration as torch's tables print it (3(d).14): `12.340us`, `1.234ms`, `1.000s`."""
    time = int(nanoseconds) / 1000
    for least, unit in ((1e6, "s"), (1e3, "ms")):
        if time >= least:
            return f"{time / least:.3f}{unit}"
    return f"{time:.3f}us"


def _remarks(trace: Trace, part: Part | None, by: str | None, frames: bool) -> tuple[str, ...]:
    """Sentences below the table: what it lacks, and how to record it."""
    missing = (no_gpu(trace),) if no_gpu(trace) else ()
    replayed = _replayed_apart(trace, part) if by not in ("event", "frame") else 0
    if replayed:
        words = f"{duration(replayed)} of kernels of replayed graphs are in GPU wall alone: total GPU leaves them out"
        missing = (*missing, f"{words}, as torch does.")
    if by == "shape" and not _records_shapes(trace):
        return (
            *missing,
            f"The trace holds no input shapes: {trace.to_record('record with record_shapes=True', WITH_NVTX)}.",
        )
    if by == "event" and not frames and len(trace.slices.of_kind(Kind.PYTHON)):
        return (*missing, "Without Python frames, which torch 2.12 and 2.13 list: --by frame.")
    return missing


def _replayed_apart(trace: Trace, part: Part | None) -> int:
    """Time in ns of replayed kernels that count for no operator: their ids name none, and no capture is known."""
    if len(replays(trace)) == 0:
        return 0
    gpu, nodes = links(trace).gpu, graph_nodes(trace)
    rows = gpu[np.isin(links(trace).launch[gpu], replays(trace).launch)]
    rows = rows[(named_ops(trace)[rows] < 0) & ~np.isin(rows, nodes.rows[nodes.op >= 0])]
    return int(time_within(trace, within(trace, rows, part), part).sum())


def _torch_version(trace: Trace) -> tuple[int, int]:
    """The version of torch that recorded this, (0, 0) where it is not known: only our own recordings name it."""
    version = trace.own_metadata.get("torch")
    match = re.match(r"(\d{1,4})\.(\d{1,4})", version) if isinstance(version, str) else None
    return (int(match[1]), int(match[2])) if match else (0, 0)
