"""The forward op of each backward op, by sequence number, else by the profiler's arrows; and the parts of a step on the
CPU: forward, backward, optimizer, data loading, and which thread was in which when (R3.92).

The autograd engine gives each node of the backward pass the sequence number of the op that created it, and a small
number for the thread on which that op ran (R3.13-R3.17). Ops that created no node, `AccumulateGrad`, and traces
recorded without either have no link.

Annotations and operators name the parts: `Optimizer.step#Adam.step`, `autograd::engine::evaluate_function: ...`,
`enumerate(DataLoader)#...`. Forward is what the operators of a thread cover that is none of these.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import distinct
from tracetui.linking.links import latest_with_id, links, op_rows, row_of
from tracetui.linking.trees import forest, is_named, lane_numbers, nearest
from tracetui.model.intervals import Bool, Int64, covered_within, difference, union
from tracetui.model.results import kept
from tracetui.model.trace import Int32, Kind, LaneKind, Trace

ENGINE = "autograd::engine::evaluate_function"
"""Prefix of the engine's own slice around a node."""
BACKWARD = re.compile(rf"^{ENGINE}|Backward\d*$")
"""Pattern of the operators of a backward pass."""
_LEAF = "AccumulateGrad"
_MAX_SEQUENCE = 1 << 40
"""Sequence numbers from this on are invalid."""


@frozen
class Autograd:
    """Links from the backward to the forward pass."""

    nodes: Int64
    """Rows of the nodes of the backward pass, the engine's slices and those inside; ascending."""
    forward: Int32
    """The forward op of every slice that is a node, or an op, call or GPU activity of one; -1 elsewhere."""
    node: Int32
    """The innermost node around the same slices; a node itself."""
    home: Int64
    """The lane of the forward ops of the nodes of every lane; itself where it has no nodes."""

    def backward_of(self, row: int) -> int:
        """The first and outermost node of a forward op, -1 for none."""
        mine = self.nodes[self.forward[self.nodes] == row]
        return int(mine[0]) if len(mine) else -1


@kept(of_file=True)
def autograd(trace: Trace) -> Autograd:
    """The links of the backward pass."""
    slices = trace.slices
    forward, node = np.full((2, len(slices)), -1, np.int32)
    home = np.arange(len(trace.lanes))
    ops = _autograd_ops(trace)
    if not ops.node.any():
        return Autograd(np.empty(0, np.int64), forward, node, home)
    pairs = _arrows(trace, ops)
    indices = np.flatnonzero(ops.node)
    forward_lane = _forward_lane(trace, ops, pairs)[indices]
    created_by = np.full(len(ops.row), -1, np.int64)
    created_by[indices] = _by_sequence(trace, ops, indices, forward_lane)
    _by_arrow(ops, pairs, created_by)
    created_by[ops.leaf] = -1
    above = nearest(ops.parent, ops.node)
    source = np.where(ops.node, np.arange(len(ops.row)), above)
    forward[ops.row] = np.where(source >= 0, created_by[source], -1)
    node[ops.row] = row_of(ops.row, source)
    owner = links(trace).owner
    caused = np.flatnonzero(owner >= 0)
    forward[caused], node[caused] = forward[owner[caused]], node[owner[caused]]
    # The home of a lane is the one that most of its nodes came from.
    lane, known = slices.lane[ops.row[indices]], forward_lane >= 0
    for number in distinct(lane[known]).tolist():
        if trace.lanes[number].kind == LaneKind.CPU:
            home[number] = np.bincount(forward_lane[known & (lane == number)]).argmax()
    return Autograd(ops.row[indices], forward, node, home)


@frozen
class _Ops:
    """The ops of a trace, all arrays parallel."""

    row: Int64
    sequence: Int64
    thread: Int64
    """`Fwd thread id`: 0 on forward ops, the number of the forward thread on nodes."""
    parent: Int64
    """Index of the enclosing op, -1 for none."""
    node: Bool
    leaf: Bool


def _autograd_ops(trace: Trace) -> _Ops:
    slices, rows = trace.slices, op_rows(trace)
    name, event = slices.name[rows], slices.event[rows]
    used = {number: trace.names[number] for number in distinct(name).tolist()}
    thread = trace.op_args.number("Fwd thread id", event)
    engine = np.isin(name, [number for number, text in used.items() if text.startswith(ENGINE)])
    leaf = np.isin(name, [number for number, text in used.items() if _LEAF in text])
    node = engine | leaf | (thread > 0)
    parent = forest(trace, rows) if node.any() else np.full(len(rows), -1, np.int64)
    return _Ops(rows, trace.op_args.number("Sequence number", event), thread, parent, node, leaf)


def _by_sequence(trace: Trace, ops: _Ops, indices: Int64, lane: Int64) -> Int64:
    """The last forward op with the node's number and thread that began before the node (R3.15)."""
    slices = trace.slices
    able = (ops.thread <= 0) & (ops.sequence >= 0) & (ops.sequence < _MAX_SEQUENCE)
    rows, sequence = ops.row[able], ops.sequence[able]
    wanted = np.where((lane >= 0) & (ops.sequence[indices] < _MAX_SEQUENCE), ops.sequence[indices], -1)
    began = slices.start[ops.row[indices]]
    keys = slices.lane[rows].astype(np.int64) * _MAX_SEQUENCE + sequence
    op = row_of(rows, latest_with_id(keys, slices.start[rows], lane * _MAX_SEQUENCE + wanted, began - 1))
    return np.where((op >= 0) & (wanted >= 0) & (slices.start[op] < began), op, -1)


def _forward_lane(trace: Trace, ops: _Ops, pairs: tuple[Int64, Int64]) -> Int64:
    """The lane of the `Fwd thread id` of each op, -1 for none (R3.16).

    It is the lane from which most arrows come. Without arrows a process that has one thread number has it for the
    thread with most numbered forward ops; several numbers would be a guess and stay unresolved.
    """
    slices = trace.slices
    lane = slices.lane[ops.row].astype(np.int64)
    process = lane_numbers(trace).process[lane]
    result = np.full(len(ops.row), -1, np.int64)
    for number in distinct(process[ops.thread > 0]).tolist():
        mine = process == number
        threads = distinct(ops.thread[mine & (ops.thread > 0)])
        busiest = lane[mine & (ops.thread <= 0) & (ops.sequence >= 0)]
        for thread in threads.tolist():
            nodes = mine & (ops.thread == thread)
            voters = lane[pairs[0][nodes[pairs[1]]]]
            voters = voters if len(voters) or len(threads) > 1 else busiest
            if len(voters):
                result[nodes] = np.bincount(voters).argmax()
    return result


def _arrows(trace: Trace, ops: _Ops) -> tuple[Int64, Int64]:
    """Indices of the forward ops and the nodes that the profiler joined with an arrow (R3.17).

    Arrows to a device are launches: their whole family is left out.
    """
    flows = trace.flows
    on_thread = np.array([lane.kind == LaneKind.CPU for lane in trace.lanes], bool)
    sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for key in distinct(flows.key).tolist():
        family = flows.key == key
        if not on_thread[flows.lane[family]].all():
            continue
        starts = np.flatnonzero(family & (flows.phase == 0))
        ends = np.flatnonzero(family & (flows.phase == 2))
        ends = ends[np.isin(flows.id[ends], flows.id[starts])]
        index = latest_with_id(flows.id[starts], flows.time[starts], flows.id[ends], flows.time[ends])
        source = _innermost(trace, ops, flows.lane[starts[index]], flows.time[starts[index]])
        target = _innermost(trace, ops, flows.lane[ends], flows.time[ends])
        good = (source >= 0) & (target >= 0) & ops.node[target] & ~ops.node[source]
        sources.append(source[good])
        targets.append(target[good])
    return np.concatenate(sources), np.concatenate(targets)


def _innermost(trace: Trace, ops: _Ops, lane: Int32, moment: Int64) -> Int64:
    """Index of the op with the latest start that is open at each time on a lane, -1 for none."""
    start, end = trace.slices.start[ops.row], trace.slices.end[ops.row]
    bounds = np.searchsorted(trace.slices.lane[ops.row], np.arange(len(trace.lanes) + 1))
    innermost = np.full(len(moment), -1, np.int64)
    for number in distinct(lane).tolist():
        low, high = bounds[number], bounds[number + 1]
        here = lane == number
        index = low + np.searchsorted(start[low:high], moment[here], side="right") - 1
        innermost[here] = np.where(index >= low, index, -1)
    ended = innermost >= 0
    while ended.any():
        over = (end[innermost] <= moment) & (start[innermost] < moment)
        ended = (innermost >= 0) & over
        innermost[ended] = ops.parent[innermost[ended]]
    return innermost


def _by_arrow(ops: _Ops, pairs: tuple[Int64, Int64], created_by: Int64) -> None:
    """Fill in nodes without sequence number: those that arrows lead to, and the engine's slices around them."""
    source, target = pairs
    unknown = (created_by[target] < 0) & (ops.sequence[target] < 0)
    source, target = source[unknown], target[unknown]
    created_by[target] = ops.row[source]
    around = ops.parent[target]
    outer = (around >= 0) & ops.node[around] & (ops.sequence[around] < 0)
    created_by[around[outer]] = ops.row[source[outer]]


MAX_BESIDE_BACKWARD = 0.1
"""Maximum share of the operators of a thread that lies outside of backward, for a thread that has no forward."""


class Phase(IntEnum):
    """A part of a step; of several at one moment of a thread the last counts."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    DATA = 4


PHASE_WORDS = ("", "forward", "backward", "optimizer", "data")
"""Their names, by number."""
DATA_NAMES = re.compile(r"^enumerate\(DataLoader\)#|dataloader\.py\(\d+\): __next__$|^##.*\bdata\b.*##$", re.IGNORECASE)
PHASE_NAMES = {
    Phase.FORWARD: re.compile(r"^(?:## ?)?forward(?: ?##)?$|^forward[ _(]", re.IGNORECASE),
    Phase.BACKWARD: re.compile(
        r"^(?:## ?)?backward(?: ?##)?$|^backward[ _(]|^autograd::engine::evaluate_function", re.IGNORECASE
    ),
    Phase.OPTIMIZER: re.compile(r"^(?:## ?)?optimi[sz]er(?: ?##)?$|^Optimizer\.(?:step|zero_grad)#"),
    Phase.DATA: DATA_NAMES,
}
"""Names of the slices that are a part of a step."""


@frozen
class PhaseSpans(Parallel):
    """When each thread was in which phase: parallel arrays by lane and start, times in ns, disjoint on each lane."""

    lane: Int64
    start: Int64
    end: Int64
    phase: NDArray[np.int8]
    """A `Phase`."""

    def of(self, *phases: Phase) -> tuple[Int64, Int64]:
        """Start and end of the time in which some thread was in one of some phases, disjoint, in order."""
        mine = np.isin(self.phase, phases)
        return union(self.start[mine], self.end[mine])


@kept(on_disk=True)
def phase_spans(trace: Trace) -> PhaseSpans:
    """The phases of every thread that has some."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.PYTHON)
    # Few slices name a phase: each pattern is tried on these alone.
    rows = rows[is_named(trace, rows, lambda name: any(pattern.search(name) for pattern in PHASE_NAMES.values()))]
    named = {phase: rows[is_named(trace, rows, pattern.search)] for phase, pattern in PHASE_NAMES.items()}
    ops = slices.of_kind(Kind.CPU_OP)
    parts: list[tuple[int, Int64, Int64, int]] = []
    for lane in distinct(slices.lane[np.concatenate([ops, *named.values()])]).tolist():
        taken = (np.empty(0, np.int64), np.empty(0, np.int64))
        for phase in sorted(named, reverse=True):
            mine = named[phase][slices.lane[named[phase]] == lane]
            if phase is Phase.FORWARD:
                mine = np.concatenate([mine, _forward_ops(trace, ops[slices.lane[ops] == lane], *taken)])
            span = union(slices.start[mine], slices.end[mine])
            parts.extend((lane, *piece, int(phase)) for piece in [difference(*span, *taken)] if len(piece[0]))
            taken = union(np.concatenate([taken[0], span[0]]), np.concatenate([taken[1], span[1]]))
    if not parts:
        none = np.empty(0, np.int64)
        return PhaseSpans(none, none, none, np.empty(0, np.int8))
    lane = np.concatenate([np.full(len(low), lane, np.int64) for lane, low, _, _ in parts])
    start, end = (np.concatenate([part[index] for part in parts]) for index in (1, 2))
    numbers = np.concatenate([np.full(len(low), number, np.int8) for _, low, _, number in parts])
    order = np.lexsort((start, lane))
    return PhaseSpans(lane[order], start[order], end[order], numbers[order])


def _forward_ops(trace: Trace, ops: Int64, low: Int64, high: Int64) -> Int64:
    """The operators of a thread that are its forward; none of a thread that does little but backward."""
    slices = trace.slices
    start, end = union(slices.start[ops], slices.end[ops])
    other = int((end - start).sum()) - int(covered_within(low, high, start, end).sum())
    is_backward = len(low) > 0 and other <= MAX_BESIDE_BACKWARD * int((end - start).sum())
    return ops[:0] if is_backward else ops
