"""Recordings of captured graphs: the launches between the begin and the end of each capture, in order, and how the
nodes of a replay align with them (R3.40).

Launches before and behind a capture warm up and do not count. ROCm records the name of each captured kernel, CUDA does
not; a launch inside an operator of a Triton kernel has the operator's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.frames import frames, module_paths
from tracetui.linking.links import calls_named, links
from tracetui.linking.replays import Captures, graph_captures, replays
from tracetui.linking.step_names import step_name
from tracetui.linking.trees import ancestors, lane_numbers
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import GraphRecording
from tracetui.model.table import Strings
from tracetui.model.trace import Kind, Trace

_LAUNCH = re.compile(r"Launch\w*Kernel|Memcpy|Memset")
"""Calls that put a node on the GPU; `cudaLaunchHostFunc` puts one on the CPU."""
_COPY, _FILL = re.compile(r"Memcpy"), re.compile(r"Memset")
_BATCH = re.compile(r"capture_(?:graph_bs_)?(\d{1,9})(?:_\w+)?$|\bbs[_=](\d{1,9})")
"""Batch size in the annotation of a capture: `capture_32_FULL` of vLLM, `capture_graph_bs_32` of SGLang."""
_GENERATED = "triton_"
"""Prefix of operators that are named after their kernel."""


def recorded_graphs(trace: Trace, label: str = "") -> GraphRecording:
    """The graphs that were captured while a trace was recorded, without captures that launched nothing.

    Where other threads of the process launched during a capture, as a backward pass does, the graph is listed twice:
    with the launches of its own thread, and with all.
    """
    captures, calls = graph_captures(trace), calls_named(trace, _LAUNCH)
    graphs, batches = [], []
    for index in np.argsort(captures.start, kind="stable").tolist():
        for rows in _launches(trace, captures, calls, index):
            graphs.append(rows)
            batches.append(_batch(trace, int(captures.row[index])))
    rows = np.concatenate([np.empty(0, np.int64), *graphs])
    bounds = np.cumsum([0, *map(len, graphs)]).astype(np.int64)
    return _recording(trace, label, rows, bounds, np.array(batches, np.int64))


def _launches(trace: Trace, captures: Captures, calls: Int64, index: int) -> list[Int64]:
    """The launches of a capture in order of start: those of its thread, and those of its process if these are more."""
    start, lane = trace.slices.start[calls], trace.slices.lane[calls].astype(np.int64)
    process = lane_numbers(trace).process
    within = (start >= captures.start[index]) & (start < captures.end[index])
    own = calls[within & (lane == captures.lane[index])]
    whole = calls[within & (process[lane] == process[captures.lane[index]])]
    graphs = [own] if len(whole) == len(own) else [own, whole]
    return [rows[np.argsort(trace.slices.start[rows], kind="stable")] for rows in graphs if len(rows)]


def _batch(trace: Trace, row: int) -> int:
    """The batch size in the name of the innermost annotation around a capture that has one, -1 for none."""
    for around in ancestors(trace.slices, row):
        if trace.slices.kind[around] == Kind.ANNOTATION and (match := _BATCH.search(trace.name_of(around))):
            return int(match[1] or match[2])
    return -1


def batch_in_name(name: str) -> int:
    """The batch size in a file's name, `bs_32_rank0.json.gz`; -1 for none."""
    match = re.search(r"(?:^|[_\-.])bs[_=]?(\d{1,9})(?=[_\-.])", name)
    return int(match[1]) if match else -1


def _recording(trace: Trace, label: str, rows: Int64, bounds: Int64, batch: Int64) -> GraphRecording:
    texts = Strings()
    ops = links(trace).owner[rows].astype(np.int64)
    op = _name_ids(trace, texts, ops)
    paths = module_paths(trace) if len(rows) else None
    module = np.array([texts.intern(path) if (path := paths.of(row)) else -1 for row in rows.tolist()] if paths else [])
    stack, stacks = _stacks(trace, texts, rows)
    # An operator is numbered by its first launch in its graph, so that equal graphs have equal numbers.
    op_call = np.full(len(ops), -1, np.int32)
    for low, high in pairwise(bounds.tolist()):
        _, first, member = np.unique(ops[low:high], return_index=True, return_inverse=True)
        op_call[low:high] = np.where(ops[low:high] >= 0, first[member], -1)
    calls = map(trace.name_of, rows.tolist())
    kind = np.array(
        [Kind.MEMCPY if _COPY.search(call) else Kind.MEMSET if _FILL.search(call) else Kind.KERNEL for call in calls],
        np.uint8,
    )
    return GraphRecording(
        label,
        texts,
        bounds,
        kind,
        _kernels(trace, texts, rows, ops, kind),
        op,
        _name_ids(trace, texts, frames(trace).user[rows].astype(np.int64)),
        module.astype(np.int32),
        _recorded_texts(trace, texts, ops, "Input Dims"),
        _recorded_texts(trace, texts, ops, "Input type"),
        _values(trace, texts, ops),
        op_call,
        stack,
        stacks,
        rows,
        batch,
    )


def _name_ids(trace: Trace, texts: Strings, rows: Int64) -> np.ndarray:
    """The names of some slices as ids of the recording's texts, -1 for a row of -1."""
    return np.array([texts.intern(trace.name_of(row)) if row >= 0 else -1 for row in rows.tolist()], np.int32)


def _kernels(trace: Trace, texts: Strings, rows: Int64, ops: Int64, kind: np.ndarray) -> np.ndarray:
    """The kernel of each launch: the one named in the args of the call, else by an operator named after its kernel."""
    (given,) = trace.args_of(rows, ["kernel"])
    kernel = np.full(len(rows), -1, np.int32)
    for index, (name, op) in enumerate(zip(given, ops.tolist(), strict=True)):
        if kind[index] != Kind.KERNEL:
            continue
        if isinstance(name, str) and name:
            kernel[index] = texts.intern(name)
        elif op >= 0 and trace.name_of(op).startswith(_GENERATED):
            kernel[index] = texts.intern(trace.name_of(op))
    return kernel


def _recorded_texts(trace: Trace, texts: Strings, ops: Int64, key: str) -> np.ndarray:
    """The recorded value of `key` of each operator, as ids of the recording's texts."""
    known = trace.op_args.text(key, trace.slices.event[np.maximum(ops, 0)]) if len(trace.slices) else ops
    return np.array(
        [
            texts.intern(str(trace.op_args.strings[number])) if op >= 0 and number >= 0 else -1
            for op, number in zip(ops.tolist(), known.tolist(), strict=True)
        ],
        np.int32,
    )


def _values(trace: Trace, texts: Strings, ops: Int64) -> np.ndarray:
    """The argument values of each operator as ids of texts, read from the file: the trace has no column for them."""
    values = np.full(len(ops), -1, np.int32)
    known = np.flatnonzero(ops >= 0)
    used, index = np.unique(ops[known], return_inverse=True)
    (given,) = trace.args_of(used, ["Concrete Inputs"]) if len(used) else ([],)
    ids = [texts.intern(json.dumps(each)) if isinstance(each, list) else -1 for each in given]
    if ids:
        values[known] = np.array(ids, np.int32)[index]
    return values


def _stacks(trace: Trace, texts: Strings, rows: Int64) -> tuple[Int64, tuple[tuple[int, ...], ...]]:
    """The slices around each launch, as an index into the distinct stacks; and these, as ids of texts."""
    known, index = dict[tuple[int, ...], int](), []
    for row in rows.tolist():
        names = [texts.intern(trace.name_of(each)) for each in (row, *ancestors(trace.slices, row))]
        index.append(known.setdefault(tuple(reversed(names)), len(known)))
    return np.array(index, np.int64), tuple(known)


# Which of several captured graphs with the same names each replay is of: by batch size, then by order (R3.40).
#
# vLLM captures a graph for each batch size and, piecewise, one for each part of the model; the middle layers have the
# same names. Parts are replayed in the order of their capture, so that one part of a unique name identifies the others.

_BY_TOKENS = ("execute_context", "execute_new")
"""Families of steps whose graphs are captured for a number of tokens."""


class Captured(NamedTuple):
    """A captured graph."""

    recording: int
    """Index of its recording."""
    graph: int
    """Index in its recording, in order of capture."""
    first: int
    """Index of its first launch among those of all recordings."""
    batch: int
    """Batch size, -1 for unknown."""


class Choice(NamedTuple):
    """The captured graphs that a replay may be of."""

    first: tuple[int, ...]
    """The first launch of each."""
    is_sized: bool
    """True where their shapes are those of the replay: the step put no more into it than they were captured for."""


def choose(trace: Trace, fitting: Mapping[int, Sequence[Captured]]) -> dict[int, Choice]:
    """The captured graphs that each replay may be of, by index of the replay.

    `fitting` has the captured graphs that fit each graph that is replayed.
    """
    graph_replays = replays(trace)
    picked = {
        replay: _of_batch_size(trace, int(graph_replays.launch[replay]), fitting[graph])
        for replay, graph in enumerate(graph_replays.graph.tolist())
        if graph in fitting
    }
    ends: dict[_Series, tuple[int, int]] = {}
    for each in (captured for members in fitting.values() for captured in members):
        low, high = ends.get((each.recording, each.batch), (each.graph, each.graph))
        ends[each.recording, each.batch] = min(low, each.graph), max(high, each.graph)
    chosen: dict[int, Choice] = {}
    lanes = trace.slices.lane[graph_replays.launch]
    for lane in np.unique(lanes).tolist():
        # In order of launch: rows of a lane are.
        mine = np.flatnonzero(lanes == lane).tolist()
        for replay, members in zip(
            mine, _consistent_in_order([picked.get(replay, []) for replay in mine], ends), strict=True
        ):
            if members:
                sizes = [each.batch for each in members if each.batch >= 0]
                is_sized = not sizes or min(sizes) >= requests_of(trace, int(graph_replays.launch[replay]))
                chosen[replay] = Choice(tuple(each.first for each in members), is_sized)
    return chosen


def _of_batch_size(trace: Trace, launch: int, members: Sequence[Captured]) -> list[Captured]:
    """The graphs of the least batch size that holds the requests of the step around a launch; all if it is unknown."""
    if len({each.batch for each in members}) < 2:
        return list(members)
    requests = requests_of(trace, launch)
    sizes = [each.batch for each in members if each.batch >= requests]
    if requests < 0 or not sizes:
        return list(members)
    return [each for each in members if each.batch == min(sizes)]


def requests_of(trace: Trace, row: int) -> int:
    """The tokens or requests of the innermost step around a slice, by its name; -1 where it has none.

    vLLM counts the tokens of the batch, others its requests.
    """
    for each in (row, *ancestors(trace.slices, row)) if row >= 0 else ():
        step = step_name(trace.name_of(each)) if trace.slices.kind[each] in (Kind.ANNOTATION, Kind.CPU_OP) else None
        if step is not None:
            count = step.tokens if step.family in _BY_TOKENS and step.tokens is not None else step.requests
            if count is not None:
                return count
    return -1


_Series = tuple[int, int]
"""A recording and a batch size: the graphs that one run of the model replays, one behind the other."""


def _consistent_in_order(
    replayed: Sequence[Sequence[Captured]], ends: Mapping[_Series, tuple[int, int]]
) -> list[Sequence[Captured]]:
    """The candidates of replays in order of launch, less those that their order rules out.

    `ends` has the first and the last graph of each series. The replay after one with a single candidate is of the graph
    that was captured next, and the replay before it of the graph captured before, until there is no such candidate.
    """
    result = list(replayed)
    for step in (1, -1):
        at: Captured | None = None
        for index in range(len(result))[::step]:
            members = result[index]
            if at is not None and len(members) > 1:
                at = _neighbour(members, at, step, ends[at.recording, at.batch])
                result[index] = (at,) if at is not None else members
            else:
                at = members[0] if len(members) == 1 else None
    return result


def _neighbour(members: Sequence[Captured], at: Captured, step: int, ends: tuple[int, int]) -> Captured | None:
    """The candidate that was captured right behind a graph, or before it; at the end of a series its other end.

    None where no candidate was, or where the next run of the model may be of another batch size.
    """
    low, high = ends
    wanted = at.graph + step
    if not low <= wanted <= high:
        if len({each.batch for each in members}) > 1:
            return None
        wanted = low if step > 0 else high
    return next((each for each in members if each == (at.recording, wanted, each.first, at.batch)), None)


# Alignment of a replay with a captured graph: which captured launch each GPU activity came from (R3.40).
#
# Both are lists of names as numbers, in order. At least nine tenths of the longer list must find an equal partner.

MIN_EQUAL_SHARE = 0.9
"""Minimum share of equal names for a replay to be of a captured graph."""
ANY_KERNEL = -1
"""Stands for a captured kernel whose name is not recorded."""
COPY, FILL = -2, -3
"""Stand for copies and fills, whose names differ between call and activity."""
MAX_EDITS = 400
"""Maximum nodes without a partner, on either side, of lists that are aligned with one another."""


@frozen
class Alignment:
    """The launch of each node of a replay in its captured graph."""

    launch: Int64
    """Index of the captured launch, -1 for a node without an equal one."""
    by_position: Bool
    """Mask of the nodes whose launch has no name: they are equal in position only."""
    share: float
    """Equal nodes as a share of the longer list."""
    shared: float
    """Names that occur in both lists, wherever they stand, as a share of the longer list: as many could be equal."""


def align(nodes: Int64, streams: Int64, launches: Int64) -> Alignment:
    """Align the nodes of a replay, by start and each on a stream, with captured launches."""
    by_index = np.full(len(nodes), -1, np.int64)
    if len(nodes) == len(launches):
        equal = (nodes == launches) | ((launches == ANY_KERNEL) & (nodes >= 0))
        by_index = np.where(equal, np.arange(len(nodes)), -1)
    best = _alignment(nodes, launches, by_index)
    if best.share == 1:
        return best
    shared = _shared_names(nodes, launches)
    best = replace(best, shared=shared)
    if shared < MIN_EQUAL_SHARE or bool((launches == ANY_KERNEL).any()):
        return best
    if len(np.unique(streams)) > 1:
        best = max(best, _merged_streams(nodes, streams, launches), key=lambda each: each.share)
    if best.share < MIN_EQUAL_SHARE:
        best = max(best, _common_subsequence(nodes, launches), key=lambda each: each.share)
    return replace(best, shared=shared)


def _merged_streams(nodes: Int64, streams: Int64, launches: Int64) -> Alignment:
    """Launches in order, each taken by the first node of a stream that has its name: streams run side by side."""
    queues = [np.flatnonzero(streams == stream).tolist() for stream in np.unique(streams).tolist()]
    heads, partner = [0] * len(queues), np.full(len(nodes), -1, np.int64)
    names = nodes.tolist()
    for index, name in enumerate(launches.tolist()):
        waiting = [
            (queue[head], which)
            for which, (queue, head) in enumerate(zip(queues, heads, strict=True))
            if head < len(queue)
        ]
        fitting = [each for each in waiting if names[each[0]] == name or (name == ANY_KERNEL and names[each[0]] >= 0)]
        if fitting:
            node, which = min(fitting)
            partner[node] = index
            heads[which] += 1
    return _alignment(nodes, launches, partner)


def _shared_names(nodes: Int64, launches: Int64) -> float:
    """Names in both lists as a share of the longer one; a launch without a name may be any kernel."""
    free = int((launches == ANY_KERNEL).sum())
    named = launches[launches != ANY_KERNEL]
    low = int(min(nodes.min(initial=0), named.min(initial=0)))
    size = int(max(nodes.max(initial=0), named.max(initial=0))) - low + 1
    count = np.bincount(nodes - low, minlength=size)
    common = np.minimum(count, np.bincount(named - low, minlength=size))
    left = int((count - common)[max(-low, 0) :].sum())
    return float(common.sum() + min(left, free)) / max(len(nodes), len(launches), 1)


def _common_subsequence(nodes: Int64, launches: Int64) -> Alignment:
    """The longest common subsequence: the profiler loses nodes, and conditional nodes repeat (R3.41).

    Myers' algorithm: the fewest nodes of either list are left out, at most a fifth of the longer, and `MAX_EDITS`.
    """
    a, b = nodes.tolist(), launches.tolist()
    reach, history = {1: 0}, []
    for edits in range(min(MAX_EDITS, round(2 * (1 - MIN_EQUAL_SHARE) * max(len(a), len(b)))) + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            while x < len(a) and 0 <= x - diagonal < len(b) and a[x] == b[x - diagonal]:
                x += 1
            reach[diagonal] = x
            if x >= len(a) and x - diagonal >= len(b):
                return _alignment(nodes, launches, _backtracked(history, len(a), len(b)))
    return _alignment(nodes, launches, np.full(len(nodes), -1, np.int64))


def _backtracked(history: list[dict[int, int]], x: int, y: int) -> Int64:
    """The partner of each node on the way back from the ends of both lists, -1 for none."""
    partner = np.full(x, -1, np.int64)
    for edits in range(len(history) - 1, -1, -1):
        reach, diagonal = history[edits], x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        begin = reach[before]
        start = begin if down else begin + 1
        while x > max(start, 0) and y > 0:
            x, y = x - 1, y - 1
            partner[x] = y
        x, y = begin, begin - before
    return partner


def _alignment(nodes: Int64, launches: Int64, partner: Int64) -> Alignment:
    equal = partner >= 0
    share = float(equal.sum()) / max(len(nodes), len(launches), 1)
    unnamed = equal & (launches[partner] == ANY_KERNEL) if len(launches) else equal
    return Alignment(partner, unnamed, share, share)
