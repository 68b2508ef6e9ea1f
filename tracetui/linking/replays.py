"""Graph replays: one launch that starts many kernels, replays of the same graph, captures, names given at capture.

A replay is the GPU activities of one `cudaGraphLaunch` (R3.38). Replays of the same kernels in the same order, with the
same graph id where one is recorded, are of one graph. The profiler may lose nodes, and conditional nodes repeat, so
replays of one real graph can differ and then count as several (R3.41). `graph_nodes` has what captured each node.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.trees import Stretches, lane_axis, lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import GraphScopes, whole_number
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, Strings, Table, coded, micros, numbers, texts
from tracetui.model.trace import Trace

GRAPH_LAUNCH = re.compile(r"GraphLaunch", re.IGNORECASE)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that its powers never vanish: the position of a kernel counts in the signature."""


@frozen
class Replays(Parallel):
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


@frozen
class Captures(Parallel):
    """The time ranges in which threads captured graphs: parallel arrays, times in ns."""

    lane: Int64
    start: Int64
    end: Int64
    row: Int64
    """The call that begins the capture, or the one that ends it where that was not recorded."""


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
    axis = lane_axis(trace)
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


# Names that a program gave to kernels when it captured them into a graph: torch's `cuda_graph_annotations` (R2.24).

STREAMS = ("annotated_stream", "original_stream")
KEYS = ("annotation", *STREAMS, "graph id", "graph node id", "name")
MARKED = "cudaGraphInlineAnnotated"
"""Key in the header of a trace whose kernels carry annotations."""
SAMPLED_STRETCHES, SAMPLED_NEIGHBOURS = 16, 8
"""Places in the trace, and kernels in a row at each, that are searched for annotations without a word in the header.

Neighbours stand in the same block of the file, which is read once for all of them.
"""


def mark_columns(trace: Trace, rows: Int64) -> Iterable[Column]:
    """Columns of the marks and streams of GPU activities; none in a trace without any."""
    if not has_graph_marks(trace):
        return
    annotation, annotated, original, graph, node, name = trace.args_of(rows, KEYS)
    (recorded,) = trace.args_of(rows, ["stream"])
    lane = lane_numbers(trace).stream[trace.slices.lane[rows]].tolist()
    # A .pftrace keeps the stream of the capture under its usual key.
    original = [
        moved if moved is not None or stream == number else stream
        for moved, stream, number in zip(original, recorded, lane, strict=True)
    ]
    marks = [
        mark_of(kept, title if is_node(each, number) else None)
        for kept, each, number, title in zip(annotation, graph, node, name, strict=True)
    ]
    if any(mark is not None for mark in marks):
        yield texts(col.GRAPH_MARK, marks)
    for column, values in ((col.MARKED_STREAM, annotated), (col.RAN_ON_STREAM, original)):
        streams = [whole_number(value) for value in values]
        known = np.array([NULL if stream is None else stream for stream in streams], np.int64)
        if (known != NULL).any():
            yield numbers(column, known)


@kept(on_disk=True)
def has_graph_marks(trace: Trace) -> bool:
    """True where kernels carry annotations: the header says so, or some of the kernels do."""
    if trace.metadata.get(MARKED) in (True, "true", 1):
        return True
    # Activities of all parts of the trace, and of those that no call launched alone: they may come from a graph.
    joined = links(trace)
    alone = np.isin(joined.launch[joined.gpu], joined.launches[joined.counts == 1])
    sample = np.union1d(_spread(joined.gpu), _spread(joined.gpu[~alone]))
    annotation, *streams, graph, node, name = trace.args_of(sample, KEYS)
    named = zip(graph, node, name, strict=True)
    return any(value is not None for values in (annotation, *streams) for value in values) or any(
        isinstance(title, str) and is_node(each, number) for each, number, title in named
    )


def _spread(rows: Int64) -> Int64:
    """Some rows of all parts of an array."""
    if len(rows) <= SAMPLED_STRETCHES * SAMPLED_NEIGHBOURS:
        return rows
    first = np.linspace(0, len(rows) - SAMPLED_NEIGHBOURS, SAMPLED_STRETCHES).astype(np.int64)
    return np.asarray(rows[(first[:, None] + np.arange(SAMPLED_NEIGHBOURS)).ravel()])


def is_node(graph: Any, node: Any) -> bool:
    """True where the ids of a graph and of a node are those of a node of a graph: one of them is not 0."""
    ids = str(graph), str(node)
    return any(text.isascii() and text.isdecimal() and text.strip("0") != "" for text in ids)


def mark_of(annotation: Any, name: Any) -> str | None:
    """The `name` among the args of a node of a graph, else the names in its `annotation`; None without any."""
    if isinstance(name, str) and name:
        return name
    entries = _entries(annotation)
    names = [str(entry["name"]) for entry in entries if isinstance(entry, dict) and entry.get("name")]
    return " / ".join(names) or None


def _entries(annotation: Any) -> list[Any]:
    if isinstance(annotation, str):
        try:
            parsed = json.loads(annotation)
        except (ValueError, RecursionError):
            parsed = None
        # A text that is no list and no object is the name.
        annotation = parsed if isinstance(parsed, list | dict) else {"name": annotation}
    return annotation if isinstance(annotation, list) else [annotation]


# Names that a program gave to nodes of graphs at capture: in the args of the replayed kernels, or in a file (R3.40).
#
# torch 2.15 writes them into the args of kernels, copies and fills
# (`export_chrome_trace(cuda_graph_annotations=...)`), and so does its tool for older traces; a file has them by graph
# node id, the innermost name last.

NODE_BITS = (1 << 32) - 1
"""The lower half of a graph node id is the node; the upper half is the graph, and may be left out."""


@frozen
class NodeNames:
    """The names of some GPU activities."""

    index: Int64
    """Index in `names` for each activity, -1 for none."""
    names: tuple[str, ...]
    named_by: Int64
    """Index in `labels` of the source of each of `names`."""
    labels: tuple[str, ...]
    """Files; an empty one is the trace itself."""


def scopes_of(trace: Trace, rows: Int64) -> NodeNames:
    """The names of replayed activities, those of the trace itself before those of files."""
    known: dict[tuple[str, str], int] = {}
    index = np.full(len(rows), -1, np.int64)
    # Looking for marks reads the file, and only replayed activities can have some.
    inline = len(rows) > 0 and has_graph_marks(trace)
    if len(rows) == 0 or not (inline or trace.graph_scopes):
        return NodeNames(index, (), np.empty(0, np.int64), ())
    given = trace.args_of(rows, ["graph id", "graph node id", "annotation", "name"])
    files = [(file, _by_lower_half(file)) for file in trace.graph_scopes]
    for place, (graph, node, annotation, name) in enumerate(zip(*given, strict=True)):
        own = mark_of(annotation, name) if inline and is_node(graph, node) else None
        match = ("", own) if own else _in_files(files, node_id(node))
        if match is not None:
            index[place] = known.setdefault(match, len(known))
    labels = tuple(dict.fromkeys(label for label, _ in known))
    named_by = np.array([labels.index(label) for label, _ in known], np.int64)
    return NodeNames(index, tuple(name for _, name in known), named_by, labels)


def node_id(value: object) -> int:
    """A graph node id as a number, whether it was written as a number or as text; 0 for none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 21 else 0


def _by_lower_half(file: GraphScopes) -> dict[int, str]:
    """The name by lower half of the ids of a file, where nodes of several graphs do not differ in it."""
    names: dict[int, str | None] = {}
    for node, name in file.names.items():
        lower = node & NODE_BITS
        names[lower] = name if names.get(lower, name) == name else None
    return {lower: name for lower, name in names.items() if name is not None}


def _in_files(files: list[tuple[GraphScopes, dict[int, str]]], number: int) -> tuple[str, str] | None:
    """The file that names a node, and its name: by the whole id, by its lower half where the trace has no more."""
    for file, by_lower_half in files if number else ():
        name = file.names.get(number) or (by_lower_half.get(number) if number <= NODE_BITS else None)
        if name:
            return file.label, name
    return None
