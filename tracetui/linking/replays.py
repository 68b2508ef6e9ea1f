"""Graph replays: one launch call that starts many kernels, and which replays are of the same graph.

A replay is the GPU activities of one `cudaGraphLaunch` (R3.38). Replays of the same kernels in the same order, with the
same graph id where one is recorded, are of one graph. The profiler may lose nodes, and conditional nodes repeat, so
replays of one real graph can differ and then count as several (R3.41). `graph_nodes` has what captured each node.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import calls_named, links
from tracetui.linking.trees import Axis, Stretches
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.kept import kept
from tracetui.model.table import Column, Strings, Table, coded, micros, numbers, texts
from tracetui.model.trace import Trace

GRAPH_LAUNCH = re.compile(r"GraphLaunch", re.IGNORECASE)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that its powers never vanish: the position of a kernel counts in the signature."""


@dataclass(frozen=True, eq=False)
class Replays:
    """Parallel arrays, one entry per replay, in the order of the rows of their launches."""

    launch: Int64
    """Row of the launch call, ascending."""
    first: Int64
    """Row of the GPU activity that starts first."""
    nodes: Int64
    """GPU activities of the replay."""
    graph: Int64
    """Number of the graph, counted from 0 in the order of the first replay in time."""
    signature: NDArray[np.uint64]
    """A hash of the kernels' names in order of start, equal in every trace."""
    latency: Int64
    """Time from the start of the call to the start of the first node in ns; later nodes have none (R3.39)."""
    cost: NDArray[np.float64]
    """Duration of the call per node in ns."""

    def __len__(self) -> int:
        return len(self.launch)

    @property
    def times(self) -> Int64:
        """Number of replays of each replay's graph in the trace."""
        return np.bincount(self.graph)[self.graph]

    def of_launch(self, row: int) -> int:
        """Index of the replay that a call started, -1 for none."""
        index = int(np.searchsorted(self.launch, row))
        return index if index < len(self) and self.launch[index] == row else -1


@kept(of_file=True)
def replays(trace: Trace) -> Replays:
    """The graph replays of the trace; most traces have none."""
    slices, joined = trace.slices, links(trace)
    calls = np.union1d(calls_named(trace, GRAPH_LAUNCH), joined.launches[joined.counts > 1])
    index = np.flatnonzero(np.isin(joined.launches, calls))
    launch, first, nodes = joined.launches[index], joined.first[index], joined.counts[index]
    signature = _signatures(trace, index)
    start = slices.start[launch]
    return Replays(
        launch,
        first,
        nodes,
        _graph_numbers(signature, graph_ids(trace, first), start),
        signature,
        slices.start[first] - start,
        slices.dur[launch] / np.maximum(nodes, 1),
    )


def graph_column(trace: Trace, rows: Int64) -> Column:
    """The graph from which each GPU activity was replayed, null for others."""
    graph_replays = replays(trace)
    index = np.searchsorted(graph_replays.launch, links(trace).launch[rows])
    index = np.where(np.isin(links(trace).launch[rows], graph_replays.launch), index, -1)
    names = Strings(map(graph_name, range(int(graph_replays.graph.max(initial=-1)) + 1)))
    return coded(col.GRAPH, np.append(graph_replays.graph, -1)[index], names)


def graph_name(number: int) -> str:
    """The name of a graph: `graph 1` is the one that is replayed first."""
    return f"graph {number + 1}"


def by_graph(trace: Trace, rows: Int64, note: str = "") -> Table:
    """The replays among some GPU activities, one row per graph, with the longest replay as example."""
    graph_replays, slices, joined = replays(trace), trace.slices, links(trace)
    picked = np.flatnonzero(np.isin(graph_replays.launch, joined.launch[rows]))
    index = np.searchsorted(joined.launches, graph_replays.launch[picked])
    graphs = group(graph_replays.graph[picked])
    low, high = joined.bounds[index], joined.bounds[index + 1]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(slices.dur[joined.launched])])
    work, nodes = sums[high] - sums[low], graphs.sum(graph_replays.nodes[picked])
    longest = graphs.largest(work)
    cost = np.asarray(slices.dur[graph_replays.launch[picked]], np.float64)
    # The op around the launch of the example, else the annotation (R3.40).
    launch = graph_replays.launch[picked[longest]]
    cause = np.where(joined.owner[launch] >= 0, joined.owner[launch], joined.annotation[launch]).tolist()
    title = [graph_name(number) for number in graphs.key.tolist()]
    table = Table(
        (
            texts(
                col.GRAPH.but(help="Number of the graph: replays of the same kernels in the same order share it."),
                title,
            ),
            texts(
                col.OP.but(help="What replayed it."),
                [trace.name_of(row) if row >= 0 else None for row in cause],
            ),
            numbers(col.REPLAYS, graphs.calls),
            numbers(col.NODES, graph_replays.nodes[picked[longest]]),
            micros(col.TOTAL_US.but(help="Sum of the durations on the GPU."), graphs.sum(work)),
            micros(col.MEAN_US.but(help="Mean of that sum in a replay."), graphs.sum(work) / graphs.calls),
            micros(col.CALL_US, graphs.sum(cost) / graphs.calls),
            micros(col.CALL_PER_NODE_US, graphs.sum(cost) / nodes),
            micros(
                col.MEDIAN_DELAY_US.but(help="Median time from the start of the call to the start of the first node."),
                graphs.median(graph_replays.latency[picked]),
            ),
            texts(col.SIGNATURE, [f"{value:016x}" for value in graph_replays.signature[picked[longest]].tolist()]),
        ),
        graph_replays.first[picked[longest]],
        note or ("" if len(graph_replays) else "No graph was replayed in this trace."),
    )
    return table.take(table.order("total_us", descending=True))


def _signatures(trace: Trace, index: Int64) -> NDArray[np.uint64]:
    """A hash per launch: the sum over its activities of the name's hash times a power for the position."""
    joined = links(trace)
    if len(index) == 0:
        return np.empty(0, np.uint64)
    low, count = joined.bounds[index], joined.counts[index]
    heads = np.cumsum(count) - count
    ordinal = np.arange(int(count.sum())) - np.repeat(heads, count)
    name = trace.slices.name[joined.launched[np.repeat(low, count) + ordinal]]
    used, member = np.unique(name, return_inverse=True)
    digests = [hashlib.blake2b(trace.names[number].encode(), digest_size=8).digest() for number in used.tolist()]
    values = np.frombuffer(b"".join(digests), np.dtype("<u8"))[member]
    powers = np.cumprod(np.full(int(count.max()), _FACTOR, np.uint64))
    return np.add.reduceat(values * powers[ordinal], heads)


def graph_ids(trace: Trace, first: Int64) -> Int64:
    """Numbers for the graph ids of first nodes, 0 where the trace records none (before 2026)."""
    (given,) = trace.args_of(first, ["graph id"])
    known: dict[str, int] = {}
    return np.array([0 if each is None else known.setdefault(str(each), len(known) + 1) for each in given], np.int64)


def _graph_numbers(signature: NDArray[np.uint64], graph_id: Int64, start: Int64) -> Int64:
    """Number the distinct pairs in the order in which each first occurs."""
    if len(signature) == 0:
        return np.empty(0, np.int64)
    _, pair = np.unique(signature, return_inverse=True)
    key = pair.astype(np.int64) * (int(graph_id.max()) + 1) + graph_id
    used, member = np.unique(key, return_inverse=True)
    seen = np.full(len(used), np.iinfo(np.int64).max)
    np.minimum.at(seen, member, start)
    rank = np.empty(len(used), np.int64)
    rank[np.argsort(seen, kind="stable")] = np.arange(len(used))
    return rank[member]


# Captures of graphs: launches of a thread between the begin and the end of a capture are recorded and do not run.
#
# A capture that began before the trace, or ends after it, lasts from its first or to its last moment.

_BEGIN = re.compile(r"^(cu|cuda|hip)StreamBeginCapture")
_END = re.compile(r"^(cu|cuda|hip)StreamEndCapture")


@dataclass(frozen=True, eq=False)
class Captures:
    """The time ranges in which threads captured graphs: parallel arrays, times in ns."""

    lane: Int64
    start: Int64
    end: Int64
    row: Int64
    """The call that begins the capture, or the one that ends it where that was not recorded."""

    def __len__(self) -> int:
        return len(self.lane)


@kept(of_file=True)
def graph_captures(trace: Trace) -> Captures:
    """All captures of graphs, by thread and time."""
    slices = trace.slices
    begins, ends = calls_named(trace, _BEGIN), calls_named(trace, _END)
    captures: list[tuple[int, int, int, int]] = []
    for lane in distinct(slices.lane[np.concatenate([begins, ends])]).tolist():
        opened, closed = begins[slices.lane[begins] == lane], ends[slices.lane[ends] == lane]
        captures += _capture_ranges(
            trace, lane, opened[np.argsort(slices.start[opened])], closed[np.argsort(slices.end[closed])]
        )
    columns = np.array(captures, np.int64).reshape(-1, 4).T
    return Captures(columns[0], columns[1], columns[2], columns[3])


def in_capture(trace: Trace, rows: Int64) -> Bool:
    """Mask of the slices that began while a thread of their process captured a graph."""
    captures, slices = graph_captures(trace), trace.slices
    if len(captures) == 0:
        return np.zeros(len(rows), bool)
    # The backward pass of a step that is captured launches on a thread of its own.
    process = lane_numbers(trace).process
    axis = Axis.around(slices.start, slices.end)
    capturing = Stretches.of(axis, process[captures.lane], captures.start, captures.end)
    start = slices.start[rows]
    return np.asarray(capturing.covered(process[slices.lane[rows]], start, start + 1) > 0)


def _capture_ranges(trace: Trace, lane: int, opened: Int64, closed: Int64) -> list[tuple[int, int, int, int]]:
    """Lane, start, end and row of each capture of a thread; the window of the trace stands in for a missing call."""
    (low, high), starts, ends = trace.window, trace.slices.start[opened], trace.slices.end[closed]
    pairs = []
    if len(ends) and (len(starts) == 0 or ends[0] < starts[0]):
        pairs.append((lane, low, int(ends[0]), int(closed[0])))
    until = np.append(ends, high)[np.searchsorted(ends, starts)]
    until = np.minimum(until, np.append(starts[1:], high)[: len(starts)])
    return pairs + [(lane, *each) for each in zip(starts.tolist(), until.tolist(), opened.tolist(), strict=True)]
