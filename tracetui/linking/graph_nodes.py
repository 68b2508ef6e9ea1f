"""The operator, line and module behind each replayed kernel, from recordings of the capture of its graph, and the tree
of modules with them (R3.40).

A replay is of the captured graph whose launches have the names of its kernels in order. Everything here is inferred,
but for names that the program gave to nodes itself (`graph_scopes`), which stand for the module where none is known.
Where several captured graphs have the same names, the batch size decides, then the order in which graphs follow each
other; what still differs among them stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.text import plain
from tracetui.linking.frames import BACKWARD_OF, MODULE, PATH_SEPARATOR, FrameTree, is_own, preorder
from tracetui.linking.graph_recordings import (
    ANY_KERNEL,
    COPY,
    FILL,
    MIN_EQUAL_SHARE,
    Alignment,
    Captured,
    Choice,
    align,
    choose,
    recorded_graphs,
)
from tracetui.linking.links import links, names_of
from tracetui.linking.replays import NODE_BITS, by_graph, graph_captures, graph_name, node_id, replays, scopes_of
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, index_in, tree_depth
from tracetui.model.quantities import rounded_percent
from tracetui.model.recorded import GraphRecording
from tracetui.model.results import kept
from tracetui.model.table import Strings, Table, texts
from tracetui.model.trace import Int32, Kind, Trace

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


_Path = tuple[str, ...]
"""Names of frames, outermost first."""


def with_captured_nodes(trace: Trace, tree: FrameTree, functions: bool) -> FrameTree:
    """The tree with the modules, or the functions and modules, in which replayed activities were captured."""
    nodes = graph_nodes(trace)
    if len(nodes) == 0:
        return tree
    entries: dict[_Path, list[Int64]] = {}
    for path, some in _paths(nodes, functions):
        if path:
            entries.setdefault(path, []).append(some)
    if not entries:
        return tree
    return _with_paths(trace, tree, {path: nodes.rows[np.concatenate(some)] for path, some in entries.items()})


def _paths(nodes: GraphNodes, functions: bool) -> list[tuple[_Path, Int64]]:
    """The path of each group of entries."""
    if not functions:
        paths = []
        for number in np.unique(nodes.module[nodes.module >= 0]).tolist():
            words = nodes.texts[number].removeprefix(BACKWARD_OF).split(PATH_SEPARATOR)
            paths.append((tuple(f"{MODULE}{word}" for word in words), np.flatnonzero(nodes.module == number)))
        return paths
    paths = []
    for number in np.unique(nodes.recording[nodes.recording >= 0]).tolist():
        recording = nodes.recordings[number]
        mine = np.flatnonzero((nodes.recording == number) & (nodes.launch >= 0))
        stack = recording.stack[nodes.launch[mine]]
        for index in np.unique(stack).tolist():
            names = map(recording.text, recording.stacks[index][:-1])
            # Operators and annotations are on the stack too; a Python frame is named `file.py(12): function`.
            path = tuple(name for name in names if (name.startswith(MODULE) or "): " in name) and is_own(name))
            paths.append((path, mine[stack == index]))
    return paths


def _with_paths(trace: Trace, tree: FrameTree, activities: Mapping[_Path, Int64]) -> FrameTree:
    """The tree with a node for each path, behind the others of its caller, and the activities of each."""
    parents, names = tree.parent.tolist(), [trace.names[number] for number in tree.name.tolist()]
    first = tree.first.tolist()
    known = {(parent, name): node for node, (parent, name) in enumerate(zip(parents, names, strict=True))}
    ends = {}
    for path, rows in activities.items():
        node = -1
        for name in path:
            above, node = node, known.get((node, name), -1)
            if node < 0:
                node = known[above, name] = len(parents)
                parents.append(above)
                names.append(name)
                first.append(int(rows[0]))
        ends[path] = node
    parent = np.array(parents, np.int64)
    rank = np.append(preorder(parent, np.arange(len(parent))), -1)
    order = np.argsort(rank[:-1])
    parent = rank[parent[order]]
    more = tuple(dict.fromkeys(name for name in names if trace.names.find(name) < 0))
    number = {name: len(trace.names) + index for index, name in enumerate(more)}
    rows = np.concatenate(list(activities.values()))
    node_of = np.concatenate([np.full(len(some), ends[path]) for path, some in activities.items()])
    by_row = np.argsort(rows)
    return replace(
        tree,
        parent=parent,
        depth=tree_depth(parent),
        name=np.array([number.get(names[node], trace.names.find(names[node])) for node in order.tolist()], np.int64),
        first=np.array(first, np.int64)[order],
        node=rank[tree.node],
        more_names=more,
        activities=rows[by_row],
        activity_node=rank[node_of[by_row]],
    )


# Kernels inside graphs in words: the number tied to the operator that captured them, the file that ties them, and the
# reasons why others are not tied (R3.40).

OWN_CAPTURE = "the capture in this trace"
"""Label of the recording that is the trace itself."""
OWN_NAMES = "names in this trace"
"""Label of the names of nodes in the args of kernels."""
UNKNOWN = "recorded once at capture"
"""The reason why the operator of a replayed kernel is unknown."""
MAX_NAMED_REFUSALS = 3
"""Maximum graphs named of which no captured graph has the names."""


@frozen(eq=True)
class CaptureCounts:
    """GPU activities in replayed graphs, and those tied to the operator that captured them."""

    activities: int
    tied: int
    by_position: int
    """Tied activities that were matched without a name."""
    labels: tuple[str, ...]
    """Names of the recordings that they are tied by."""

    @property
    def words(self) -> str | None:
        """`421 of 421 by i01c.json.gz`; None where nothing is tied."""
        if not self.tied:
            return None
        unnamed = f", {self.by_position:,} by position only" if self.by_position else ""
        return f"{self.tied:,} of {self.activities:,} by {', '.join(self.labels)}{unnamed}"


def capture_counts(trace: Trace) -> CaptureCounts:
    """Count the GPU activities in graphs that are tied to their capture, and name the recordings that tie them."""
    nodes = graph_nodes(trace)
    used = np.unique(nodes.recording[nodes.recording >= 0]).tolist()
    labels = [nodes.recordings[number].label or OWN_CAPTURE for number in used]
    only_named = np.unique(nodes.named_by[(nodes.recording < 0) & (nodes.named_by >= 0)]).tolist()
    labels += [nodes.naming[number] or OWN_NAMES for number in only_named]
    return CaptureCounts(int(replays(trace).nodes.sum()), len(nodes), int(nodes.by_position.sum()), tuple(labels))


def refusals(trace: Trace) -> list[str]:
    """A sentence for each graph that has nearly the names of a captured graph and not enough of them."""
    nodes = graph_nodes(trace)
    refused = [match for match in nodes.matches if not match.equal]
    sentences = []
    for match in refused[:MAX_NAMED_REFUSALS]:
        label = match.label or OWN_CAPTURE
        least = rounded_percent(100 * MIN_EQUAL_SHARE)
        sentences.append(
            f"The operators of {graph_name(match.graph)} ({match.nodes:,} nodes) stay unknown: no graph of {label} has "
            f"{least} of its names in order; the nearest shares {rounded_percent(100 * match.shared)} of them."
        )
    more = len(refused) - MAX_NAMED_REFUSALS
    return [*sentences, f"Nor are those of {more:,} more graphs."] if more > 0 else sentences


def by_captured_graph(trace: Trace, rows: Int64, note: str = "") -> Table:
    """The replays among some GPU activities, one row per graph, with its capture where any capture is known."""
    table, matches = by_graph(trace, rows, note), graph_nodes(trace).matches
    if not matches:
        return table
    captured_by = {}
    for match in matches:
        label, unnamed = match.label or OWN_CAPTURE, ", by position only" if match.by_position else ""
        captured_by[graph_name(match.graph)] = (
            f"{match.equal:,} of {match.nodes:,} by {label}{unnamed}"
            if match.equal
            else f"unknown: {label} shares {rounded_percent(100 * match.shared)} of its names"
        )
    names = [captured_by.get(str(table["graph"].cell(row))) for row in range(len(table))]
    return replace(table, columns=(*table.columns, texts(col.CAPTURED_BY, names)))


def unknown_node(trace: Trace, launch: int) -> str:
    """The reason why the operator of the nodes of a replay is not known."""
    kind = "HIP" if trace.name_of(launch).startswith("hip") else "CUDA"
    count = len(links(trace).kernels_of(launch))
    return f"inside a {kind} graph: {count:,} nodes, {UNKNOWN}"
