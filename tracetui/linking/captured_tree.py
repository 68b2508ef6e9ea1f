"""The tree of modules with captured graphs: a replayed activity belongs to the module of its capture (R3.40)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.frames import BACKWARD_OF, MODULE, PATH_SEPARATOR, FrameTree, is_own, preorder
from tracetui.linking.graph_nodes import MIN_EQUAL_SHARE, GraphNodes, graph_nodes
from tracetui.linking.links import links
from tracetui.linking.replays import by_graph, graph_name, replays
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, tree_depth
from tracetui.model.quantities import rounded_percent
from tracetui.model.table import Table, texts
from tracetui.model.trace import Trace

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
