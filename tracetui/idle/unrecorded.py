"""Holes in graph replays that nodes fill which the profiler did not record (R3.64).

Replays of one graph run the same nodes in the same order, and a hole that is as long in every replay before the same
node is no idle time: something ran there. So is a hole in a replay that has fewer nodes than another one of its graph.
Where only a few replays were recorded, or their holes differ, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.idleness import idleness
from tracetui.linking.groups import Groups, combinations, group
from tracetui.linking.links import links
from tracetui.linking.replays import graph_ids, replays
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Trace

MIN_REPLAYS = 3
"""Minimum replays of a graph that tell a hole from chance."""
MAX_HOLE_SPREAD = 0.05
"""Maximum range of equal holes, from the first to the last decile, relative to their median."""
MIN_HOLE_NS = 10_000
"""Minimum ns between two nodes of a graph that is no ordinary hand-over."""
MIN_FIRST_HOLE_NS = 50_000
"""Minimum ns from the end of the launch call to the first node that is no ordinary start of a graph."""


@dataclass(frozen=True, eq=False)
class UnrecordedHoles:
    """Gaps in which nodes of graphs probably ran; parallel arrays."""

    gap: Int64
    """Index in `idleness(trace)`, ascending."""
    start: Int64
    """Where the hole begins, in ns: before a first node that is where the launch call returned."""
    replays: int
    """Number of replays that have such holes."""


def unrecorded_holes(trace: Trace) -> UnrecordedHoles:
    """The gaps of graph replays in which work is missing."""
    return trace.remember("unrecorded holes", lambda: _find(trace))


def _find(trace: Trace) -> UnrecordedHoles:
    idle, graphs = idleness(trace), replays(trace)
    none = np.empty(0, np.int64)
    if len(graphs) == 0 or len(idle) == 0:
        return UnrecordedHoles(none, none, 0)
    replay = np.searchsorted(graphs.launch, idle.launch)
    replay = np.where(np.append(graphs.launch, -1)[replay] == idle.launch, replay, -1)
    gap = np.flatnonzero(replay >= 0)
    replay = replay[gap]
    node = _ordinals(trace, idle.after[gap])
    hole = np.where(node == 0, idle.waiting[gap], idle.dur[gap])
    long = hole >= np.where(node == 0, MIN_FIRST_HOLE_NS, MIN_HOLE_NS)
    missing = long & (_identical(graphs.graph[replay], node, hole, graphs.times[replay]) | _shorter(trace)[replay])
    held = np.flatnonzero(missing)
    start = np.where(node[held] == 0, idle.end[gap[held]] - hole[held], idle.start[gap[held]])
    return UnrecordedHoles(gap[held], start, len(np.unique(replay[held])))


def _ordinals(trace: Trace, rows: Int64) -> Int64:
    """The position of each GPU activity among those of its launch, 0 for the first."""
    trace_links = links(trace)
    index = np.empty(len(trace.slices), np.int64)
    index[trace_links.launched] = np.arange(len(trace_links.launched))
    call = np.searchsorted(trace_links.launches, trace_links.launch[rows])
    return np.asarray(index[rows] - trace_links.bounds[call])


def _identical(graph: Int64, node: Int64, hole: Int64, times: Int64) -> Bool:
    """Mask of the holes that every replay of the graph has before the same node, as long in all of them."""
    if len(hole) == 0:
        return np.zeros(0, bool)
    places = combinations(graph, node)
    groups = Groups(np.arange(len(places)), places.member)
    low, high = _decile(groups, hole, 0.1), _decile(groups, hole, 0.9)
    median = np.maximum(groups.median(hole), 1)
    same = (high - low <= MAX_HOLE_SPREAD * median) & (groups.calls >= MIN_REPLAYS)
    # The first activity of a device is behind no gap.
    every = groups.calls[groups.member] >= times - (node == 0)
    return np.asarray(same[groups.member] & every)


def _decile(groups: Groups, values: Int64, share: float) -> Int64:
    """The value at a share of each group, counted upwards."""
    ranked = values[np.lexsort((values, groups.member))]
    first = np.cumsum(groups.calls) - groups.calls
    return np.asarray(ranked[first + np.rint(share * (groups.calls - 1)).astype(np.int64)])


def _shorter(trace: Trace) -> Bool:
    """Mask of the replays that have fewer nodes than another replay with the same recorded graph id."""
    graphs = replays(trace)
    known = group(graph_ids(trace, graphs.first))
    most = np.zeros(len(known), np.int64)
    np.maximum.at(most, known.member, graphs.nodes)
    return np.asarray((known.key[known.member] > 0) & (graphs.nodes < most[known.member]))
