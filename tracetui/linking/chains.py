"""The dispatch chain of a slice: its causes and its effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.linking.autograd import autograd
from tracetui.linking.links import join_launches, links
from tracetui.linking.steps import steps
from tracetui.linking.trees import ancestors
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, LaneKind, Trace

# Nodes of CUDA graphs that depend on each other, and the launch of those that are no GPU activity (R2.13).
#
# The arrows of dependencies run from the end of a node to the start of one that waited for it. They link nodes and are
# never launches: those are joined by correlation id.

FIRST_DEPENDENCY_ID = 1 << 40
"""Ids of arrows from here on are dependencies between nodes."""
_START, _END = 0, 2


@frozen
class Dependencies(Parallel):
    """Pairs of nodes as rows of slices: parallel arrays, in the order of the arrows in the file."""

    before: Int64
    """The node that had to end first."""
    after: Int64
    """The node that waited for it."""

    def needed_by(self, row: int) -> Int64:
        """The nodes that a node waited for, ascending."""
        return np.unique(self.before[self.after == row])

    def waiting_for(self, row: int) -> Int64:
        """The nodes that waited for a node, ascending."""
        return np.unique(self.after[self.before == row])


@kept(on_disk=True)
def graph_dependencies(trace: Trace) -> Dependencies:
    """The dependencies between nodes of graphs; an arrow with an end that fits several slices or none is left out."""
    flows = trace.flows
    on_device = np.array([lane.kind == LaneKind.GPU for lane in trace.lanes] or [False], bool)
    mine = (flows.id >= FIRST_DEPENDENCY_ID) & on_device[flows.lane] if len(flows) else np.empty(0, bool)
    starts, ends = np.flatnonzero(mine & (flows.phase == _START)), np.flatnonzero(mine & (flows.phase == _END))
    nothing = np.empty(0, np.int64)
    if len(starts) == 0 or len(ends) == 0:
        return Dependencies(nothing, nothing)
    rows = trace.slices.of_kind(*GPU_WORK, *GRAPH_NODES)
    lane = trace.slices.lane[rows].astype(np.int64)
    before = _single_match(rows, lane, trace.slices.end[rows], flows.lane[starts].astype(np.int64), flows.time[starts])
    after = _single_match(rows, lane, trace.slices.start[rows], flows.lane[ends].astype(np.int64), flows.time[ends])
    starts, before = starts[before >= 0], before[before >= 0]
    ends, after = ends[after >= 0], after[after >= 0]
    # An arrow has one start: an id with two starts is ambiguous.
    _, member, times = np.unique(flows.id[starts], return_inverse=True, return_counts=True)
    starts, before = starts[times[member] == 1], before[times[member] == 1]
    order = np.argsort(flows.id[starts])
    index = np.searchsorted(flows.id[starts[order]], flows.id[ends])
    has_start = index < len(starts)
    has_start[has_start] = flows.id[starts[order[index[has_start]]]] == flows.id[ends[has_start]]
    return Dependencies(before[order[index[has_start]]], after[has_start])


@kept
def node_launches(trace: Trace) -> tuple[Int64, Int64]:
    """Rows of the event and host nodes, ascending, and of the calls that launched them; -1 where that is not known."""
    rows = trace.slices.of_kind(*GRAPH_NODES)
    return rows, join_launches(trace, trace.slices.of_kind(Kind.RUNTIME), rows)


def launch_of_node(trace: Trace, row: int) -> int:
    """The call that launched an event or host node, -1 for none and for any other slice."""
    rows, launch = node_launches(trace)
    index = int(np.searchsorted(rows, row))
    return int(launch[index]) if index < len(rows) and rows[index] == row else -1


def _single_match(rows: Int64, lane: Int64, moment: Int64, wanted_lane: Int64, wanted: Int64) -> Int64:
    """The only row on each wanted lane with the wanted time, -1 for none or several."""
    ticks = np.unique(np.concatenate([moment, wanted]))
    key = lane * len(ticks) + np.searchsorted(ticks, moment)
    order = np.argsort(key, kind="stable")
    sought = wanted_lane * len(ticks) + np.searchsorted(ticks, wanted)
    first, last = (np.searchsorted(key[order], sought, side=side) for side in ("left", "right"))
    single = last - first == 1
    return np.where(single, np.append(rows[order], -1)[np.where(single, first, len(rows))], -1)


@frozen(eq=True, slots=True)
class DispatchCost:
    """CPU cost of a launch in ns (3(b))."""

    op: int
    """Row of the outermost op around the call, -1 for none."""
    before: int
    """Time from the start of that op to the call; 0 without an op."""
    call: int
    """The duration of the call."""


def chain(trace: Trace, row: int) -> list[int]:
    """The slices that led to a slice, outermost first and itself last; a launch is followed by its first activity."""
    trace_links = links(trace)
    tail = [row]
    if row >= 0 and trace.slices.kind[row] in GPU_WORK:
        above = int(trace_links.launch[row])
        above = above if above >= 0 else int(trace_links.owner[row])
        tail = [above, row] if above >= 0 else [row]
    elif row >= 0 and trace.slices.kind[row] in GRAPH_NODES:
        tail = [above, row] if (above := launch_of_node(trace, row)) >= 0 else [row]
    else:
        tail += trace_links.kernels_of(row)[:1].tolist()
    return [*reversed(list(ancestors(trace.slices, tail[0]))), *tail]


def outermost_op(trace: Trace, chain: Sequence[int]) -> int:
    """The first op of a dispatch chain, -1 for none; steps of old traces look like ops and do not count."""
    ops = (row for row in chain if trace.slices.kind[row] == Kind.CPU_OP)
    return next((row for row in ops if row not in steps(trace).slices), -1)


def dispatch_cost(trace: Trace, row: int) -> DispatchCost | None:
    """The cost of launching a GPU activity, or of a call that launched some; None for anything else."""
    trace_links, slices = links(trace), trace.slices
    launch = int(trace_links.launch[row])
    launch = launch if launch >= 0 else row if len(trace_links.kernels_of(row)) else -1
    if launch < 0:
        return None
    op = outermost_op(trace, chain(trace, launch))
    before = int(slices.start[launch] - slices.start[op]) if op >= 0 else 0
    return DispatchCost(op, before, int(slices.dur[launch]))


def follow(trace: Trace, row: int) -> int:
    """The next slice on the way from kernel to launch to op; -1 at the end.

    An op of the backward pass leads to its forward op. Any other op, an annotation or a Python frame leads back to the
    first GPU activity launched inside it.
    """
    trace_links = links(trace)
    kind = trace.slices.kind[row]
    if kind in GPU_WORK:
        launch = int(trace_links.launch[row])
        return launch if launch >= 0 else int(trace_links.owner[row])
    if kind in GRAPH_NODES:
        return launch_of_node(trace, row)
    work = trace_links.kernels_of(row)
    if kind == Kind.RUNTIME:
        owner = int(trace_links.owner[row])
        return owner if owner >= 0 or len(work) == 0 else int(work[0])
    forward = int(autograd(trace).forward[row])
    return forward if forward >= 0 else first_activity(trace, row)


def follow_back(trace: Trace, row: int) -> int:
    """The next slice in the opposite direction: launch to kernel, forward op to backward, any other op to kernel.

    A GPU activity leads to the backward pass of the op that caused it; -1 at the end.
    """
    trace_links = links(trace)
    if trace.slices.kind[row] in GPU_WORK:
        return _backward_of(trace, int(trace_links.owner[row]))
    work = trace_links.kernels_of(row)
    if len(work):
        return int(work[0])
    backward = _backward_of(trace, row) if trace.slices.kind[row] == Kind.CPU_OP else -1
    return backward if backward >= 0 else first_activity(trace, row)


def first_activity(trace: Trace, row: int) -> int:
    """The first GPU activity launched inside a slice on its thread, else the first that it owns; or -1."""
    trace_links, slices = links(trace), trace.slices
    last = row + int(np.searchsorted(slices.start[row : trace.lanes[slices.lane[row]].last], slices.end[row]))
    low, high = np.searchsorted(trace_links.launches, [row, max(last, row + 1)])
    work = trace_links.launched[trace_links.bounds[low] : trace_links.bounds[high]]
    if len(work) == 0:
        work = trace_links.gpu[trace_links.owner[trace_links.gpu] == row]
    return int(work[np.argmin(slices.start[work])]) if len(work) else -1


def _backward_of(trace: Trace, op: int) -> int:
    """The backward node of an op, or of the innermost enclosing op that has one; -1 for none."""
    if not len(autograd(trace).nodes):
        return -1
    around = (op, *ancestors(trace.slices, op)) if op >= 0 else ()
    return next((node for each in around if (node := autograd(trace).backward_of(each)) >= 0), -1)
