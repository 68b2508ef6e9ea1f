"""The gaps of devices, and what the activity after each gap was waiting for: the CPU, its launch call, or something
else.

Every gap is split exactly into three parts by the launch of the activity that ends it (3(g)): before the call was made
(the CPU was late), inside the call, and after it returned. Without a launch record nothing is known.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import Groups, combinations, distinct, group
from tracetui.linking.links import links
from tracetui.linking.replays import graph_ids, replays
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Bool, Int64, run_starts
from tracetui.model.results import kept
from tracetui.model.trace import Trace

MIN_GAP_NS = 30
"""Minimum length of a gap in ns; shorter ones are the GPU changing from one kernel to the next."""


@frozen
class Idleness(Parallel):
    """The gaps of all devices in order of start; parallel arrays, times in ns."""

    start: Int64
    end: Int64
    device: Int64
    """Number of the device's process in `lane_numbers`; not the number that the device has in the file."""
    before: Int64
    """The GPU activity whose end began the gap."""
    after: Int64
    """The activity that ended the gap; of several that started together the one launched last."""
    launch: Int64
    """The call that launched it, -1 for none."""
    cpu_late: Int64
    """Part A: until the call began. All three parts are 0 where the launch is unknown."""
    in_launch: Int64
    """Part B: inside the call."""
    waiting: Int64
    """Part C: after the call had returned."""

    @cached_property
    def dur(self) -> Int64:
        """Length of each gap; the sum of its parts where the launch is known."""
        return self.end - self.start

    @cached_property
    def known(self) -> Bool:
        """Mask of the gaps with a launch and therefore parts."""
        return self.launch >= 0


@frozen
class DeviceOrder:
    """All GPU activities by device, then start; parallel arrays, times in ns."""

    row: Int64
    device: Int64
    """Number of the device's process in `lane_numbers`."""
    gap: Int64
    """Idle time of the device before it; 0 for the first of a device and for gaps that are too short."""
    fresh: Int64
    """Part of its duration in which no earlier activity ran."""
    before: Int64
    """The earlier activity of the device that ended last, -1 for the first."""

    @cached_property
    def devices(self) -> int:
        """Number of devices that ran anything."""
        return int(np.count_nonzero(run_starts(self.device)))


@kept(on_disk=True)
def device_order(trace: Trace) -> DeviceOrder:
    """Every GPU activity with the gap before it and the time that it adds to the device's busy time."""
    trace_links, slices = links(trace), trace.slices
    rows = trace_links.gpu
    device = lane_numbers(trace).process[slices.lane[rows]]
    launch = trace_links.launch[rows]
    launched = np.where(launch >= 0, slices.start[launch], np.iinfo(np.int64).min + 1)
    order = np.lexsort((-launched, slices.start[rows], device))
    rows, device = rows[order], device[order]
    gap, fresh, before = (np.zeros(len(rows), np.int64) for _ in range(3))
    for number in distinct(device):
        first, last = np.searchsorted(device, [number, number + 1])
        mine = rows[first:last]
        gap[first:last], fresh[first:last], before[first:last] = _along(slices.start[mine], slices.end[mine], mine)
    return DeviceOrder(rows, device, gap, fresh, before)


@kept(on_disk=True)
def idleness(trace: Trace) -> Idleness:
    """The gaps of every device, split into three parts."""
    order, slices = device_order(trace), trace.slices
    index = np.flatnonzero(order.gap)
    index = index[np.argsort(slices.start[order.row[index]] - order.gap[index], kind="stable")]
    after, dur = order.row[index], order.gap[index]
    end = slices.start[after]
    start = end - dur
    launch = links(trace).launch[after].astype(np.int64)
    called, returned, known = slices.start[launch], slices.end[launch], launch >= 0
    late = np.clip(np.minimum(called, end) - start, 0, None)
    inside = np.clip(np.minimum(returned, end) - np.maximum(called, start), 0, None)
    waiting = end - np.maximum(start, np.minimum(returned, end))
    parts = late * known, inside * known, waiting * known
    return Idleness(start, end, order.device[index], order.before[index], after, launch, *parts)


def _along(start: Int64, end: Int64, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Gap, fresh time and previous activity of the activities of one device, in order."""
    reach = np.maximum.accumulate(end)
    furthest = np.ones(len(end), bool)
    furthest[1:] = end[1:] > reach[:-1]
    leader = np.maximum.accumulate(np.where(furthest, np.arange(len(end)), 0))
    gap, fresh = np.zeros(len(end), np.int64), np.array(end - start)
    gap[1:] = np.maximum(start[1:] - reach[:-1], 0)
    gap[gap < MIN_GAP_NS] = 0
    fresh[1:] = np.maximum(end[1:] - np.maximum(start[1:], reach[:-1]), 0)
    before = np.full(len(end), -1, np.int64)
    before[1:] = rows[leader[:-1]]
    return gap, fresh, before


# Holes in graph replays that nodes fill which the profiler did not record (R3.64).
#
# Replays of one graph run the same nodes in the same order, and a hole that is as long in every replay before the same
# node is no idle time: something ran there. So is a hole in a replay that has fewer nodes than another one of its
# graph. Where only a few replays were recorded, or their holes differ, nothing is known.

MIN_REPLAYS = 3
"""Minimum replays of a graph that tell a hole from chance."""
MAX_HOLE_SPREAD = 0.05
"""Maximum range of equal holes, from the first to the last decile, relative to their median."""
MIN_HOLE_NS = 10_000
"""Minimum ns between two nodes of a graph that is no ordinary hand-over."""
MIN_FIRST_HOLE_NS = 50_000
"""Minimum ns from the end of the launch call to the first node that is no ordinary start of a graph."""


@frozen
class UnrecordedHoles:
    """Gaps in which nodes of graphs probably ran; parallel arrays."""

    gap: Int64
    """Index in `idleness(trace)`, ascending."""
    start: Int64
    """Start of the hole in ns; before a first node the time at which the launch call returned."""
    replays: int
    """Number of replays that have such holes."""


@kept
def unrecorded_holes(trace: Trace) -> UnrecordedHoles:
    """The gaps of graph replays in which work is missing."""
    idle, graphs, joined = idleness(trace), replays(trace), links(trace)
    none = np.empty(0, np.int64)
    if len(graphs) == 0 or len(idle) == 0:
        return UnrecordedHoles(none, none, 0)
    replay = np.searchsorted(graphs.launch, idle.launch)
    replay = np.where(np.append(graphs.launch, -1)[replay] == idle.launch, replay, -1)
    gap = np.flatnonzero(replay >= 0)
    replay = replay[gap]
    position = np.empty(len(trace.slices), np.int64)
    position[joined.launched] = np.arange(len(joined.launched))
    # Index of the activity among those of its launch.
    node = position[idle.after[gap]] - joined.bounds[np.searchsorted(joined.launches, idle.launch[gap])]
    hole = np.where(node == 0, idle.waiting[gap], idle.dur[gap])
    long = hole >= np.where(node == 0, MIN_FIRST_HOLE_NS, MIN_HOLE_NS)
    identical = _identical(graphs.graph[replay], node, hole, graphs.times[replay])
    # Replays with fewer nodes than another one of the same recorded graph.
    known = group(graph_ids(trace, graphs.first))
    most = np.zeros(len(known), np.int64)
    np.maximum.at(most, known.member, graphs.nodes)
    shorter = (known.key[known.member] > 0) & (graphs.nodes < most[known.member])
    missing = long & (identical | shorter[replay])
    held = np.flatnonzero(missing)
    start = np.where(node[held] == 0, idle.end[gap[held]] - hole[held], idle.start[gap[held]])
    return UnrecordedHoles(gap[held], start, len(np.unique(replay[held])))


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
