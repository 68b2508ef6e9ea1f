"""The operator, line and module behind each replayed kernel, from recordings of the capture of its graph (R3.40).

A replay is of the captured graph whose launches have the names of its kernels in order. Everything here is inferred,
but for names that the program gave to nodes itself (`graph_scopes`), which stand for the module where none is known.
Where several captured graphs have the same names, the batch size decides, then the order in which graphs follow each
other; what still differs among them stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.text import plain
from tracetui.linking.graph_recordings import Captured, Choice, choose, recorded_graphs
from tracetui.linking.links import links, names_of
from tracetui.linking.replays import NODE_BITS, graph_captures, node_id, replays, scopes_of
from tracetui.model.intervals import Bool, Int64, index_in
from tracetui.model.recorded import GraphRecording
from tracetui.model.results import kept
from tracetui.model.table import Strings
from tracetui.model.trace import Int32, Kind, Trace

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


_GEMM_OPS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"})
_ELEMENTWISE_OPS = frozenset(
    {"aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::relu", "aten::gelu", "aten::silu"}
)
"""Operators of which the family of their kernels is certain; a match by position must not contradict them."""


@frozen
class GraphMatch:
    """The capture of one graph as far as it is known."""

    graph: int
    """Number of the graph in `replays`."""
    nodes: int
    """GPU activities of one replay."""
    equal: int
    """Those of them with an equal captured launch, 0 where no captured graph fits."""
    label: str
    """The recording with the captured graph that fits best, empty for the trace itself; None where none fits at all."""
    shared: float
    """Names in both as a share of the longer list, wherever they stand."""
    by_position: int
    """Nodes whose launch has no recorded name."""


@frozen
class GraphNodes(Parallel):
    """The replayed GPU activities of which the capture is known; ids are those in `texts`, -1 for none."""

    rows: Int64
    """Slices, ascending."""
    op: Int32
    function: Int32
    module: Int32
    shapes: Int32
    types: Int32
    values: Int32
    """Types and values of the operator's inputs, as recorded."""
    op_call: Int32
    """Number of the call of the operator within its graph; no id of a text."""
    by_position: Bool
    """Mask of those that were matched without a name."""
    recording: Int32
    """Index in `recordings`, -1 where only a name is known that the program gave."""
    launch: Int64
    """Index of the captured launch in its recording, -1 where several are possible."""
    named_by: Int32
    """Index in `naming` of the source of the node's name, -1 for none."""
    texts: Strings
    recordings: tuple[GraphRecording, ...]
    matches: tuple[GraphMatch, ...]
    """One entry per graph."""
    naming: tuple[str, ...] = ()
    """Files with names of nodes; an empty one is the trace itself."""

    def index_of(self, rows: Int64) -> Int64:
        """The entry of each GPU activity, -1 for those without a known capture."""
        return index_in(self.rows, rows)


@kept(on_disk=True)
def graph_nodes(trace: Trace) -> GraphNodes:
    """The operator, function and module of the replayed GPU activities whose capture is known."""
    own = (recorded_graphs(trace),) if len(graph_captures(trace)) else ()
    recordings = tuple(each for each in (*own, *trace.graph_recordings) if len(each))
    return _with_scopes(trace, _captured_nodes(trace, recordings))


def with_captured_texts(
    trace: Trace, rows: Int64, ids: Int64, texts: Sequence[str], field: str
) -> tuple[Int64, Sequence[str], Bool | None]:
    """Texts of some slices with those of the capture for replayed GPU activities, and the mask of the latter.

    `ids` are those in `texts` of each row, `field` is one of `GraphNodes`; no mask where no capture is known.
    """
    nodes = graph_nodes(trace)
    if len(nodes) == 0:
        return ids, texts, None

    def join() -> tuple[Strings, Int64]:
        both = Strings(texts)
        return both, np.array([both.intern(text) for text in nodes.texts], np.int64)

    joined, own = trace.keep(("texts with captured", field), join)
    entry = nodes.index_of(rows)
    captured = np.where(entry >= 0, getattr(nodes, field)[entry], -1)
    known = captured >= 0
    return np.where(known, own[captured], ids), joined, known


def op_names(trace: Trace, rows: Int64) -> tuple[Int64, Sequence[str], Bool | None]:
    """The operator behind each GPU activity as an id, -1 for none, the texts of the ids, and where it is inferred.

    That of a replayed activity is the operator that captured it, where that is known, else the one around the launch.
    """
    return with_captured_texts(trace, rows, names_of(trace, links(trace).owner[rows]), trace.names, "op")


def _captured_nodes(trace: Trace, recordings: tuple[GraphRecording, ...]) -> GraphNodes:
    graph_replays = replays(trace)
    if not recordings or len(graph_replays) == 0:
        return _no_nodes(recordings)
    known = _KnownGraphs(trace, recordings)
    aligned = {graph: known.best(trace, graph) for graph in np.unique(graph_replays.graph).tolist()}
    fitting = {graph: each for graph, each in aligned.items() if each.fits}
    chosen = choose(trace, {graph: each.captured for graph, each in fitting.items()})
    parts: list[_Nodes] = []
    templates: dict[tuple[int, Choice], _Nodes] = {}
    joined = links(trace)
    for replay, choice in chosen.items():
        key = int(graph_replays.graph[replay]), choice
        template = templates.get(key) or templates.setdefault(key, known.nodes(fitting[key[0]], choice))
        # A replay of the same graph has as many activities.
        rows = joined.kernels_of(int(graph_replays.launch[replay]))
        parts.append(replace(template, rows=rows[template.ordinal]))
    matches = tuple(each.match(graph, graph in fitting) for graph, each in aligned.items())
    return known.collected(parts, matches)


_SHAPES = 3
"""Index of the shapes among the fields."""


@frozen
class _Nodes:
    """Nodes of one replay with an equal captured launch."""

    ordinal: Int64
    """Index of the node in the replay, by start."""
    fields: Int64
    """A row per field: op, function, module, shapes, types, values, call of the op, recording, launch."""
    by_position: Bool
    rows: Int64


@frozen
class _Aligned:
    """The captured graphs that fit the replays of a graph best; all of them have the same names in order."""

    alignment: Alignment
    captured: tuple[Captured, ...]
    label: str
    nodes: int
    contradicted: bool

    @property
    def fits(self) -> bool:
        return self.alignment.share >= MIN_EQUAL_SHARE and not self.contradicted

    def match(self, graph: int, fits: bool) -> GraphMatch:
        equal = int((self.alignment.launch >= 0).sum())
        unnamed = int(self.alignment.by_position.sum())
        shared = 0.0 if self.contradicted else self.alignment.shared
        return GraphMatch(graph, self.nodes, equal if fits else 0, self.label, shared, unnamed if fits else 0)


class _KnownGraphs:
    """The captured graphs of all recordings with common texts; graphs with the same names in order are one class."""

    def __init__(self, trace: Trace, recordings: tuple[GraphRecording, ...]) -> None:
        self.recordings = recordings
        self.texts = Strings()
        self._vocabulary = Strings()
        self._classes: dict[bytes, list[Captured]] = {}
        fields, first = [], 0
        for number, each in enumerate(recordings):
            keys = self._keys(each)
            for graph in range(len(each)):
                low, high = int(each.bounds[graph]), int(each.bounds[graph + 1])
                captured = Captured(number, graph, first + low, int(each.batch[graph]))
                self._classes.setdefault(keys[low:high].tobytes(), []).append(captured)
            fields.append(self._fields(number, each))
            first += len(each.kind)
        self.fields = np.concatenate(fields, axis=1)

    def _keys(self, recording: GraphRecording) -> Int64:
        """The name of each launch as a number."""
        used = [each for each in np.unique(recording.kernel).tolist() if each >= 0]
        number = {each: self._vocabulary.intern(plain(recording.text(each))) for each in used}
        named = np.array([number.get(each, ANY_KERNEL) for each in recording.kernel.tolist()], np.int64)
        return np.select([recording.kind == Kind.MEMCPY, recording.kind == Kind.MEMSET], [COPY, FILL], named)

    def _fields(self, number: int, recording: GraphRecording) -> Int64:
        """A row per field with the texts of all recordings."""
        to = np.array([*(self.texts.intern(text) for text in recording.texts), -1], np.int64)
        count = len(recording.kind)
        return np.stack(
            [
                to[recording.op],
                to[recording.line],
                to[recording.module],
                to[recording.shapes],
                to[recording.types],
                to[recording.values],
                recording.op_call.astype(np.int64),
                np.full(count, number),
                np.arange(count),
            ]
        )

    def best(self, trace: Trace, graph: int) -> _Aligned:
        """The captured graphs that fit a graph best, the first recording before others."""
        graph_replays = replays(trace)
        example = int(graph_replays.launch[np.flatnonzero(graph_replays.graph == graph)[0]])
        rows = links(trace).kernels_of(example)
        nodes = self._names(trace, rows)
        orders = [np.arange(len(rows))]
        (given,) = trace.args_of(rows, ["graph node id"])
        ids = [node_id(each) & NODE_BITS for each in given]
        if len(set(ids)) == len(ids) and all(ids):
            orders.append(np.argsort(np.array(ids), kind="stable"))
        best: Alignment | None = None
        fitting: list[Captured] = []
        for key, captured in self._classes.items():
            if best is not None and best.share == 1:
                break
            launches = np.frombuffer(key, np.int64)
            for order in reversed(orders):
                streams = trace.slices.lane[rows[order]].astype(np.int64)
                alignment = align(nodes[order], streams, launches)
                if best is None or (alignment.share, alignment.shared) > (best.share, best.shared):
                    launch, unnamed = np.empty_like(alignment.launch), np.empty_like(alignment.by_position)
                    launch[order], unnamed[order] = alignment.launch, alignment.by_position
                    best, fitting = replace(alignment, launch=launch, by_position=unnamed), captured
        if best is None:
            raise ValueError("a recording without graphs")
        label = self.recordings[fitting[0].recording].label
        contradicted = self._contradicts(trace, rows, best, fitting[0].first)
        return _Aligned(best, tuple(fitting), label, len(rows), contradicted)

    def _names(self, trace: Trace, rows: Int64) -> Int64:
        """The names of GPU activities as numbers; a copy that ROCm runs as a kernel is a copy."""
        numbers: dict[tuple[int, int], int] = {}
        pairs = list(zip(trace.slices.name[rows].tolist(), trace.slices.kind[rows].tolist(), strict=True))
        for name, kind in set(pairs):
            operation = decode(trace.names[name], Kind(kind)).operation
            numbers[name, kind] = {"memcpy": COPY, "memset": FILL}.get(operation, -1)
            if numbers[name, kind] == -1:
                numbers[name, kind] = self._vocabulary.intern(plain(trace.names[name]))
        return np.array([numbers[pair] for pair in pairs], np.int64)

    def _contradicts(self, trace: Trace, rows: Int64, alignment: Alignment, head: int) -> bool:
        """True where a match by position gives more than a tenth of the known operators a kernel of another family.

        `head` is the first launch of the captured graph.
        """
        compared, wrong = 0, 0
        for node in np.flatnonzero(alignment.by_position).tolist():
            number = int(self.fields[0, head + int(alignment.launch[node])])
            op = self.texts[number] if number >= 0 else ""
            if op in _GEMM_OPS or op in _ELEMENTWISE_OPS:
                is_gemm = decode(trace.name_of(int(rows[node]))).family == Family.GEMM
                compared += 1
                wrong += is_gemm != (op in _GEMM_OPS)
        return compared - wrong < MIN_EQUAL_SHARE * compared

    def nodes(self, aligned: _Aligned, choice: Choice) -> _Nodes:
        """The nodes with the fields on which all captured graphs of a choice agree."""
        ordinal = np.flatnonzero(aligned.alignment.launch >= 0)
        launch = aligned.alignment.launch[ordinal]
        each = np.stack([self.fields[:, head + launch] for head in choice.first])
        fields = np.where((each == each[0]).all(axis=0), each[0], -1)
        if not choice.is_sized:
            fields[_SHAPES] = -1
        return _Nodes(ordinal, fields, aligned.alignment.by_position[ordinal], ordinal)

    def collected(self, parts: Sequence[_Nodes], matches: tuple[GraphMatch, ...]) -> GraphNodes:
        """All nodes by row."""
        if not parts:
            return replace(_no_nodes(self.recordings), matches=matches)
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows)
        fields = np.concatenate([part.fields for part in parts], axis=1)[:, order]
        op, function, module, shapes, types, values, op_call, recording = fields[:8].astype(np.int32)
        unnamed = np.concatenate([part.by_position for part in parts])[order]
        return GraphNodes(
            rows[order],
            op,
            function,
            module,
            shapes,
            types,
            values,
            op_call,
            unnamed,
            recording,
            fields[8],
            np.full(len(rows), -1, np.int32),
            self.texts,
            self.recordings,
            matches,
        )


def _with_scopes(trace: Trace, nodes: GraphNodes) -> GraphNodes:
    """Add the names that the program gave to nodes: the module, where none is known."""
    joined = links(trace)
    replayed = np.sort(joined.launched[np.isin(joined.launch[joined.launched], replays(trace).launch)])
    names = scopes_of(trace, replayed)
    if not names.names:
        return nodes
    entry = nodes.index_of(replayed)
    kept = np.flatnonzero((entry >= 0) | (names.index >= 0))
    entry, index = entry[kept], names.index[kept]
    texts = Strings(nodes.texts)
    number = np.array([*(texts.intern(name) for name in names.names), -1], np.int32)[index]

    def spread(values: Int32) -> Int32:
        return np.append(values, -1)[entry].astype(np.int32)

    module = spread(nodes.module)
    return GraphNodes(
        replayed[kept],
        spread(nodes.op),
        spread(nodes.function),
        np.where(module >= 0, module, number).astype(np.int32),
        spread(nodes.shapes),
        spread(nodes.types),
        spread(nodes.values),
        spread(nodes.op_call),
        np.append(nodes.by_position, False)[entry],
        spread(nodes.recording),
        np.append(nodes.launch, -1)[entry],
        np.append(names.named_by, -1)[index].astype(np.int32),
        texts,
        nodes.recordings,
        nodes.matches,
        names.labels,
    )


def _no_nodes(recordings: tuple[GraphRecording, ...]) -> GraphNodes:
    none, rows = np.empty(0, np.int32), np.empty(0, np.int64)
    unnamed = np.empty(0, bool)
    return GraphNodes(
        rows, none, none, none, none, none, none, none, unnamed, none, rows, none, Strings(), recordings, ()
    )
