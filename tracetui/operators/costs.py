"""The cost of each slice of a thread, by the tree that torch builds for its tables (3(d).1 to 3(d).9).

The tree holds ops, annotations, runtime calls and the profiler's overhead, and Python frames on request. A child that
outlasts its parent is no child, and an op whose only child has the same name is counted once. The rules are those of
torch 2.13, whatever torch recorded the trace.

Runtime calls that belong to an op count on the op's thread (3(d).6). All other calls and the profiler's overhead get
the thread that stops the profiler, which the trace does not name. It is taken to be the one with the steps, else the
main thread, else the one with most ops: a guess.

Asynchronous slices have a duration and no position in the tree (3(d).5). The file does not mark them. Known are the
annotations of collectives, which may end on another thread, and slices still open when the profiler stopped: the file
writes these with `finished: false` and the time it took to write the file, and torch ends them with what encloses them,
or with the recording.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.links import latest_with_id, links, row_of
from tracetui.linking.placement import chosen, positions_of_step, time_within, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, is_named, lane_numbers, nearest, subtree_sums
from tracetui.model import native
from tracetui.model.intervals import (
    TOLERANCE,
    Bool,
    Int64,
    Part,
    TimeRange,
    index_in,
    is_among,
    nest,
    sorted_order,
    without,
)
from tracetui.model.native import insertion_index
from tracetui.model.results import is_kept, kept
from tracetui.model.table import Strings
from tracetui.model.trace import GPU_WORK, Kind, LaneKind, Slices, Trace

COLLECTIVE = re.compile(r"(nccl|gloo|mpi|ucc|xccl):")
"""Prefix of annotations by a process group; other libraries may use such names, too."""


@kept(on_disk=True)
def asynchronous_slices(trace: Trace) -> tuple[Int64, Int64]:
    """Rows of the asynchronous slices, ascending, and the times in ns at which torch ends them."""
    slices = trace.slices
    collectives = slices.of_kind(Kind.ANNOTATION)
    collectives = collectives[is_named(trace, collectives, COLLECTIVE.match)]
    open_rows, ends = _unfinished(trace)
    rows = np.union1d(collectives, open_rows)
    moments = slices.end[rows]
    moments[np.searchsorted(rows, open_rows)] = ends
    return rows, moments


def _unfinished(trace: Trace) -> tuple[Int64, Int64]:
    """Slices that never ended, and the times (ns) at which torch ends them: with the first of the slices before on the
    thread that ends after their start, else with the recording.

    Only those that outlast the recording are candidates, so few events are read.
    """
    slices = trace.slices
    stops = slices.end[slices.of_kind(Kind.BOOKKEEPING)]
    if len(stops) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stop = int(stops.max())
    late = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    late = late[slices.end[late] > stop]
    (finished,) = trace.args_of(late, ["finished"])
    rows = late[np.array([value is False for value in finished], bool)]
    moments = []
    for row in rows.tolist():
        lane, start = trace.lanes[slices.lane[row]], int(slices.start[row])
        ends = slices.end[np.setdiff1d(np.arange(lane.first, row), rows, assume_unique=True)]
        moments.append(max(int(ends[ends > start].min(initial=stop)), start))
    return rows, np.array(moments, np.int64)


def threads(trace: Trace, rows: Int64, named: Int64) -> Int64:
    """The lane on which torch counts each of the rows; `named` holds the op of every slice of the trace, or -1."""
    slices = trace.slices
    lane = slices.lane[rows].astype(np.int64)
    kind = slices.kind[rows]
    homes = _stopping_lanes(trace)
    calls = np.flatnonzero(kind == Kind.RUNTIME)
    op = named[rows[calls]]
    strays = np.concatenate([calls[op < 0], np.flatnonzero(kind == Kind.OVERHEAD)])
    home = homes[lane[strays]]
    lane[strays[home >= 0]] = home[home >= 0]
    lane[calls[op >= 0]] = slices.lane[op[op >= 0]]
    return lane


def _stopping_lanes(trace: Trace) -> Int64:
    """The lane of the thread that stopped the profiler of the process of every lane, -1 where unknown.

    Lanes of processes without ops, such as that of the overhead, belong to the process with most ops.
    """
    slices, process = trace.slices, lane_numbers(trace).process
    ops = np.bincount(slices.lane[slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)], minlength=len(trace.lanes))
    stepped = np.bincount(steps(trace).lane, minlength=len(trace.lanes))
    is_main = np.array([lane.kind == LaneKind.CPU and lane.pid == lane.tid for lane in trace.lanes], bool)
    rank = np.lexsort((ops, is_main & (ops > 0), stepped))
    rank = rank[ops[rank] > 0]
    homes = np.full(len(trace.lanes), -1, np.int64)
    if len(rank) == 0 or not trace.is_torch:
        return homes
    totals = np.bincount(process, ops)
    busiest = int(totals.argmax())
    for number in np.unique(process).tolist():
        candidates = rank[process[rank] == (number if totals[number] else busiest)]
        homes[process == number] = candidates[-1]
    return homes


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
"""Names that torch leaves out of the tree; their time stays with the parent (3(d).2)."""

STEPS = "ProfilerStep*"
"""The common name of all steps (3(d).3)."""

_KINDS = (Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD)
_ON_DEVICE = (*GPU_WORK, Kind.GPU_ANNOTATION, Kind.SYNC)
_NAMED = (Kind.CPU_OP, Kind.ANNOTATION)
"""Kinds that an `External id` may name."""


@frozen
class Costs:
    """Costs of slices; parallel arrays, one entry per slice that counts, `row` ascending."""

    row: Int64
    name: Int64
    """Id in `texts`."""
    texts: Strings
    """The trace's names with all steps under one name."""
    cpu: Int64
    """Duration in ns; 0 on a device."""
    self_cpu: Int64
    """Duration minus that of the direct children, in ns; negative where children overlap (`is_overlapped`)."""
    device: Int64
    """Sum in ns of the durations of GPU activities that it and its descendants own."""
    self_device: Int64
    """Sum in ns of the durations of GPU activities that it owns."""
    kernels: Int64
    """GPU activities that it and its descendants own; those that it launched for a runtime call."""

    def take(self, indices: Int64) -> Costs:
        """The costs of some of the slices."""
        columns = (column[indices] for column in self._times)
        return Costs(self.row[indices], self.name[indices], self.texts, *columns)

    def joined(self, other: Costs) -> Costs:
        """The slices of both; they share their texts."""
        row, name = np.concatenate([self.row, other.row]), np.concatenate([self.name, other.name])
        columns = (np.concatenate(pair) for pair in zip(self._times, other._times, strict=True))
        return Costs(row, name, self.texts, *columns)

    @property
    def _times(self) -> tuple[Int64, ...]:
        return self.cpu, self.self_cpu, self.device, self.self_device, self.kernels


def is_overlapped(self_time: Int64) -> Bool:
    """Mask of the self times in ns that measure nothing: children that overlap took more time than their parent.

    Self times within the rounding of traces in whole microseconds are not among them (R1.10a).
    """
    return np.asarray(self_time < -TOLERANCE)


@kept
def costs(trace: Trace, frames: bool = False) -> Costs:
    """Costs of every CPU slice as torch counts them; with Python frames as torch counts since 2.12."""
    return _count(trace, frames)


def costs_of_step(trace: Trace, step: int, frames: bool = False) -> Costs:
    """The costs of the slices of a step, as `costs` has them; where these are not known, of the slices near it alone.

    Raises: UsageError when no step has the number.
    """
    near = None if is_kept(trace, costs, frames) else counted_near(trace, step, frames)
    cost = costs(trace, frames) if near is None else _count(trace, frames, rows=near)
    return cost.take(positions_of_step(trace, cost.row, step))


MAX_NEAR_SHARE = 0.1
"""Maximum share of the slices that are near a step, for their costs to be worth counting apart."""


@kept
def counted_near(trace: Trace, step: int, frames: bool = False) -> Int64 | None:
    """The `counted_rows` in a stretch of time around a step whose edges none of them crosses: their tree is a part of
    the tree of all. None where that is much of the trace, and for every step but the first that is asked for: whoever
    goes from step to step is served better by the costs of all.

    Raises: UsageError when no step has the number.
    """
    slices, rows, all_steps, wanted = trace.slices, counted_rows(trace, frames), steps(trace), chosen(trace, step)
    if trace.keep("step counted alone", lambda: step) != step:
        return None
    low, high = int(all_steps.start[wanted].min()), int(all_steps.end[wanted].max())
    start = slices.start[rows]
    end = start + slices.dur[rows]
    while True:
        inside = (end > low) & (start < high)
        if np.count_nonzero(inside) > MAX_NEAR_SHARE * len(rows):
            return None
        wider = min(low, int(start[inside].min(initial=low))), max(high, int(end[inside].max(initial=high)))
        if wider == (low, high):
            near: Int64 = rows[(start >= low) & (start < high)]
            return near
        low, high = wider


@kept
def costs_within(trace: Trace, time_range: TimeRange, frames: bool = False) -> Costs:
    """The costs of every CPU slice, cut to a range of time: CPU time, and that of the launched activities (R3.58).

    Slices without either are left out.
    """
    cost = _count(trace, frames, time_range)
    touched = time_range.touched(trace.slices.start[cost.row], trace.slices.end[cost.row])
    return cost.take(np.flatnonzero(touched | (cost.kernels > 0) | (cost.device > 0)))


def device_costs_within(trace: Trace, time_range: TimeRange) -> Costs:
    """Costs of the slices on a device that run within a range of time, as far as they do."""
    cost = device_costs(trace)
    # An annotation is recorded 1 ns too long at either end (3(d).4).
    start = trace.slices.start[cost.row] + (trace.slices.dur[cost.row] - cost.device) // 2
    inside = np.flatnonzero(time_range.touched(start, start + cost.device))
    spent = time_range.covered(start, start + cost.device)[inside]
    return replace(cost.take(inside), device=spent, self_device=spent)


@kept
def device_costs(trace: Trace) -> Costs:
    """Costs of slices on a device: activities, annotations and waits; each owns itself."""
    rows = trace.slices.of_kind(*_ON_DEVICE)
    texts, name = _merged_steps(trace, rows)
    none = np.zeros(len(rows), np.int64)
    # The profiler adds 2 ns to annotations (3(d).4).
    dur = np.maximum(trace.slices.dur[rows] - np.where(trace.slices.kind[rows] == Kind.GPU_ANNOTATION, 2, 0), 0)
    work = np.isin(trace.slices.kind[rows], GPU_WORK).astype(np.int64)
    return Costs(rows, name, texts, none, none, dur, dur, work)


@kept
def counted_rows(trace: Trace, frames: bool = False) -> Int64:
    """The slices in torch's tree, ascending; all slices of a trace that torch did not write."""
    slices = trace.slices
    extra = ((Kind.PYTHON,) if frames else ()) + (() if trace.is_torch else (Kind.OTHER,))
    rows = slices.of_kind(*_KINDS, *extra)
    on_thread = np.array([lane.kind in (LaneKind.CPU, LaneKind.OVERHEAD) for lane in trace.lanes], bool)
    rows = rows[on_thread[slices.lane[rows]]]
    dropped = [number for number in map(trace.names.find, DROPPED) if number >= 0]
    counted: Int64 = rows[~is_among(slices.name[rows], dropped)] if dropped else rows
    return counted


def self_times(trace: Trace, part: Part | None = None) -> Int64:
    """Self CPU time in ns of every slice of the trace by the same tree, before names that repeat are merged.

    Slices stay on the thread on which they were recorded, and are cut to a range of time.
    """
    if isinstance(part, TimeRange):
        return _self_times(trace, part)
    return trace.keep("self times", lambda: _self_times(trace, None))


def _self_times(trace: Trace, time_range: TimeRange | None) -> Int64:
    rows = without(counted_rows(trace), asynchronous_slices(trace)[0])
    if time_range is not None:
        # The slices around a slice of the range run within it as well: the tree of these is that of all.
        rows = within(trace, rows, time_range)
    self_time = np.zeros(len(trace.slices), np.int64)
    parent = _tree(trace, rows, trace.slices.lane[rows].astype(np.int64))
    self_time[rows] = _self_cpu(parent, time_within(trace, rows, time_range))
    return self_time


class SelfCpuSum(NamedTuple):
    """The self CPU times of all slices together."""

    total: int
    """Their sum in ns."""
    is_overlapped: bool
    """True where some of them are below 0 and measure nothing."""


@kept(on_disk=True)
def self_cpu_sum(trace: Trace) -> SelfCpuSum:
    """Sum of the self CPU times of all slices, which takes a quarter of the time that `costs` does.

    Merging names that repeat moves time between slices and does not change the sum.
    """
    if is_kept(trace, costs):
        own = costs(trace).self_cpu
        return SelfCpuSum(int(own.sum()), bool(is_overlapped(own).any()))
    rows = without(counted_rows(trace), asynchronous_slices(trace)[0])
    parent = _tree(trace, rows, threads(trace, rows, named_ops(trace)))
    own = _self_cpu(parent, trace.slices.dur[rows])
    # Merged with the name that it repeats, a slice may be overlapped no more.
    overlapped = bool(is_overlapped(own).any()) and bool(is_overlapped(costs(trace).self_cpu).any())
    return SelfCpuSum(int(own.sum()), overlapped)


def _count(trace: Trace, frames: bool, time_range: TimeRange | None = None, rows: Int64 | None = None) -> Costs:
    """The costs of all slices, or of some that have a tree of their own, cut to a range of time if one is given."""
    slices, trace_links = trace.slices, links(trace)
    rows = counted_rows(trace, frames) if rows is None else rows
    texts, name = _merged_steps(trace, rows)
    named = named_ops(trace)
    # Asynchronous slices have a duration and nothing else (3(d).5).
    asynchronous, ends = asynchronous_slices(trace)
    alone = index_in(rows, asynchronous)
    alone, ends = alone[alone >= 0], ends[alone >= 0]
    parent = _tree_without(trace, rows, alone, named)
    own_time, own_count = _own_work(trace, rows, named, time_range)
    own_time[alone] = own_count[alone] = 0
    keep, parent, source = _without_repeats(slices, rows, parent, name)
    own_time, own_count = own_time[source], own_count[source]
    alone = np.searchsorted(keep, alone)
    device, kernels = subtree_sums(parent, own_time, own_count)
    rows = rows[keep]
    launched = insertion_index(rows, trace_links.launches)
    # Launches outside of threads are in no tree.
    is_counted = np.append(rows, -1)[launched] == trace_links.launches
    kernels[launched[is_counted]] = _launch_counts(trace, time_range)[is_counted]
    dur = slices.dur[rows] if time_range is None else time_range.covered(slices.start[rows], slices.end[rows])
    own = _self_cpu(parent, dur)
    start = slices.start[rows[alone]]
    own[alone] = 0
    dur[alone] = ends - start if time_range is None else time_range.covered(start, ends)
    return Costs(rows, name[keep], texts, dur, own, device.astype(np.int64), own_time, kernels.astype(np.int64))


def _launch_counts(trace: Trace, time_range: TimeRange | None) -> Int64:
    """Number of GPU activities of each launch, of those that ran in a range of time."""
    trace_links, slices = links(trace), trace.slices
    if time_range is None:
        return trace_links.counts
    ran = time_range.touched(slices.start[trace_links.launched], slices.end[trace_links.launched])
    return np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(ran)])[trace_links.bounds])


def _tree_without(trace: Trace, rows: Int64, alone: Int64, named: Int64) -> Int64:
    """The parent of each row where some of them, given by position, are in no tree."""
    if len(alone) == 0:
        return _tree(trace, rows, threads(trace, rows, named))
    inside = without(np.arange(len(rows)), alone)
    inner = _tree(trace, rows[inside], threads(trace, rows[inside], named))
    parent = np.full(len(rows), -1, np.int64)
    parent[inside] = np.where(inner >= 0, inside[inner], -1)
    return parent


def named_ops(trace: Trace) -> Int64:
    """The op or annotation that the `External id` of every slice names; its owner where ids cannot be trusted."""
    slices, trace_links = trace.slices, links(trace)
    if not trace_links.trusted:
        return trace_links.owner.astype(np.int64)
    named = np.full(len(slices), -1, np.int64)
    rows = slices.of_kind(Kind.RUNTIME, Kind.SYNC, *GPU_WORK)
    rows = rows[slices.external[rows] > 0]
    launch = trace_links.launch[rows]
    moment = slices.start[np.where(launch >= 0, launch, rows)]
    named[rows] = _with_id(slices, slices.external[rows], moment)
    return named


def _with_id(slices: Slices, wanted: Int64, moment: Int64) -> Int64:
    """The op or annotation with each id, -1 for none; of several the last that began by the time."""
    rows = slices.of_kind(*_NAMED)
    rows = rows[slices.external[rows] > 0]
    return row_of(rows, latest_with_id(slices.external[rows], slices.start[rows], wanted, moment))


def _own_work(trace: Trace, rows: Int64, named: Int64, time_range: TimeRange | None) -> tuple[Int64, Int64]:
    """Time in ns and number of the device's slices that each row owns (3(d).6), within a range of time if given."""
    slices, trace_links = trace.slices, links(trace)
    work = within(trace, slices.of_kind(Kind.SYNC, *GPU_WORK), time_range)
    owner = named[work]
    work, owner = work[owner >= 0], owner[owner >= 0]
    is_work = np.isin(slices.kind[work], GPU_WORK).astype(np.float64)
    spent = time_within(trace, work, time_range).astype(np.float64)
    time = np.bincount(owner, spent, len(slices)).astype(np.int64)
    count = np.bincount(owner, is_work, len(slices)).astype(np.int64)
    if trace_links.trusted:
        call, op = substitute_ops(trace, named)
        time[call], count[call] = time[op], count[op]
    return time[rows], count[rows]


def substitute_ops(trace: Trace, named: Int64) -> tuple[Int64, Int64]:
    """Runtime calls without an op, and for each the op that torch takes for it.

    It is the op with the call's own id, whose activities torch adds to the call. `named` is `named_ops(trace)`.
    """
    slices = trace.slices
    calls = slices.of_kind(Kind.RUNTIME)
    calls = calls[(named[calls] < 0) & (slices.correlation[calls] > 0)]
    op = _with_id(slices, slices.correlation[calls], slices.start[calls])
    return calls[op >= 0], op[op >= 0]


def _tree(trace: Trace, rows: Int64, thread: Int64) -> Int64:
    """The parent of each row in torch's tree: nothing outlasts its parent, and parents have a duration (3(d).7).

    `thread` is the lane on which each row counts.
    """
    slices = trace.slices
    lane = slices.lane[rows]
    parent = forest(trace, rows, 0)
    moved = np.flatnonzero(thread != lane)
    # `forest` looks for overlaps on threads only: slices on the profiler's own lane are nested again as well.
    touched = np.array([lane.kind == LaneKind.OVERHEAD for lane in trace.lanes], bool)
    touched[thread[moved]] = touched[lane[moved]] = True
    again = np.flatnonzero(touched[thread])
    if len(again):
        again = again[np.argsort(slices.event[rows[again]])]  # which decides between slices of one start and length
        part = rows[again]
        order = sorted_order(thread[again], slices.start[part], slices.dur[part])
        again, part = again[order], part[order]
        inner = nest(thread[again], slices.start[part], slices.end[part], 0).parent
        parent[again] = np.where(inner >= 0, again[inner], -1)
    return nearest(parent, slices.dur[rows] > 0)


def _self_cpu(parent: Int64, dur: Int64) -> Int64:
    """Duration of every node minus that of its direct children."""
    own = native.self_times(parent, dur)
    return _without_children(parent, dur) if own is None else own


def _without_children(parent: Int64, dur: Int64) -> Int64:
    """`_self_cpu` in Python."""
    child = np.flatnonzero(parent >= 0)
    own = dur.copy()
    np.subtract.at(own, parent[child], dur[child])
    return own


def _merged_steps(trace: Trace, rows: Int64) -> tuple[Strings, Int64]:
    """Names with all steps under one, and the id of each row."""
    texts = _names_with_one_step(trace)
    name = trace.slices.name[rows].astype(np.int64)
    name[_step_name_mask(trace)[name]] = texts.find(STEPS)
    return texts, name


@kept(on_disk=True)
def _names_with_one_step(trace: Trace) -> Strings:
    texts = Strings(trace.names)
    texts.intern(STEPS)
    return texts


@kept(on_disk=True)
def _step_name_mask(trace: Trace) -> Bool:
    """Mask of the names that torch shortens to the common name of steps."""
    return np.array([name.startswith("ProfilerStep#") for name in trace.names], bool)


def slices_listed_as(trace: Trace, name: str) -> Int64:
    """Slices, in order of their start, that torch's table lists under a name: for that of all steps every step."""
    is_meant = np.zeros(len(trace.names), bool)
    if name == STEPS:
        is_meant |= _step_name_mask(trace)
    if (known := trace.names.find(name)) >= 0:
        is_meant[known] = True
    rows = np.flatnonzero(is_meant[trace.slices.name] & (trace.slices.kind != Kind.BOOKKEEPING))
    return rows[np.argsort(trace.slices.start[rows], kind="stable")]


def _without_repeats(slices: Slices, rows: Int64, parent: Int64, name: Int64) -> tuple[Int64, Int64, Int64]:
    """Leave out every node that is the only child of a node of the same name (3(d).8).

    Returns the nodes that stay, their parents, and the node from which each takes its kernels: the last of the chain,
    for torch replaces the list of the parent instead of adding to it.
    """
    nodes = np.arange(len(parent))
    repeat = native.repeats(parent, name)
    repeat = _repeating(parent, name) if repeat is None else repeat
    inner = np.flatnonzero(repeat)
    if len(inner) == 0:
        return nodes, parent, nodes
    top = nodes.copy()
    top[inner] = parent[inner]
    deep = inner[repeat[top[inner]]]
    while len(deep):
        top[deep] = top[top[deep]]
        deep = deep[repeat[top[deep]]]
    dur, start = slices.dur[rows[inner]], slices.start[rows[inner]]
    inner = inner[np.lexsort((inner, -dur, start))]
    source = nodes
    source[top[inner]] = inner  # children follow their parents, so the last of a chain remains
    keep = np.flatnonzero(~repeat)
    index = np.cumsum(~repeat, dtype=np.int32)
    above = parent[keep]
    moved = np.flatnonzero(repeat[above] & (above >= 0))
    above[moved] = top[above[moved]]
    around = index[above].astype(np.int64)
    around -= 1
    around[above < 0] = -1
    return keep, around, source[keep]


def _repeating(parent: Int64, name: Int64) -> Bool:
    """Mask of the nodes that are the only child of a node of the same name, in Python."""
    children = np.bincount(parent + 1, minlength=len(parent) + 1)[1:]
    mask: Bool = (parent >= 0) & (name == name[parent]) & (children[parent] == 1)
    return mask
