"""Nodes of CUDA graphs that depend on each other, and the launch of those that are no GPU activity (R2.13).

The arrows of dependencies run from the end of a node to the start of one that waited for it. They link nodes and are
never launches: those are joined by correlation id.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.linking.joining import join_launches
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, LaneKind, Trace

FIRST_DEPENDENCY_ID = 1 << 40
"""Ids of arrows from here on are dependencies between nodes."""
_START, _END = 0, 2


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Pairs of nodes as rows of slices: parallel arrays, in the order of the arrows in the file."""

    before: Int64
    """The node that had to end first."""
    after: Int64
    """The node that waited for it."""

    def __len__(self) -> int:
        return len(self.before)

    def needed_by(self, row: int) -> Int64:
        """The nodes that a node waited for, ascending."""
        return np.unique(self.before[self.after == row])

    def waiting_for(self, row: int) -> Int64:
        """The nodes that waited for a node, ascending."""
        return np.unique(self.after[self.before == row])


def dependencies(trace: Trace) -> Dependencies:
    """The dependencies between nodes of graphs; an arrow with an end that fits several slices or none is left out."""
    return trace.remember("graph dependencies", lambda: _find(trace))


def node_launches(trace: Trace) -> tuple[Int64, Int64]:
    """Rows of the event and host nodes, ascending, and of the calls that launched them; -1 where that is not known."""

    def make() -> tuple[Int64, Int64]:
        rows = trace.slices.of_kind(*GRAPH_NODES)
        return rows, join_launches(trace, trace.slices.of_kind(Kind.RUNTIME), rows)

    return trace.remember("launches of graph nodes", make)


def launch_of_node(trace: Trace, row: int) -> int:
    """The call that launched an event or host node, -1 for none and for any other slice."""
    rows, launch = node_launches(trace)
    index = int(np.searchsorted(rows, row))
    return int(launch[index]) if index < len(rows) and rows[index] == row else -1


def _find(trace: Trace) -> Dependencies:
    flows = trace.flows
    on_device = np.array([lane.kind == LaneKind.GPU for lane in trace.lanes] or [False], bool)
    mine = (flows.id >= FIRST_DEPENDENCY_ID) & on_device[flows.lane] if len(flows) else np.empty(0, bool)
    starts, ends = np.flatnonzero(mine & (flows.phase == _START)), np.flatnonzero(mine & (flows.phase == _END))
    nothing = np.empty(0, np.int64)
    if len(starts) == 0 or len(ends) == 0:
        return Dependencies(nothing, nothing)
    rows = trace.slices.of_kind(*GPU_WORK, *GRAPH_NODES)
    lane = trace.slices.lane[rows].astype(np.int64)
    before = _only(rows, lane, trace.slices.end[rows], flows.lane[starts].astype(np.int64), flows.time[starts])
    after = _only(rows, lane, trace.slices.start[rows], flows.lane[ends].astype(np.int64), flows.time[ends])
    starts, before = starts[before >= 0], before[before >= 0]
    ends, after = ends[after >= 0], after[after >= 0]
    # An arrow has one start; where an id is used twice nothing tells which is meant.
    once = _occur_once(flows.id[starts])
    starts, before = starts[once], before[once]
    order = np.argsort(flows.id[starts])
    index = np.searchsorted(flows.id[starts[order]], flows.id[ends])
    hit = index < len(starts)
    hit[hit] = flows.id[starts[order[index[hit]]]] == flows.id[ends[hit]]
    return Dependencies(before[order[index[hit]]], after[hit])


def _occur_once(ids: Int64) -> Bool:
    _, member, times = np.unique(ids, return_inverse=True, return_counts=True)
    return np.asarray(times[member] == 1)


def _only(rows: Int64, lane: Int64, moment: Int64, wanted_lane: Int64, wanted: Int64) -> Int64:
    """The one row on each wanted lane with a wanted moment, -1 for none or several."""
    ticks = np.unique(np.concatenate([moment, wanted]))
    key = lane * len(ticks) + np.searchsorted(ticks, moment)
    order = np.argsort(key, kind="stable")
    sought = wanted_lane * len(ticks) + np.searchsorted(ticks, wanted)
    first, last = (np.searchsorted(key[order], sought, side=side) for side in ("left", "right"))
    single = last - first == 1
    return np.where(single, np.append(rows[order], -1)[np.where(single, first, len(rows))], -1)
