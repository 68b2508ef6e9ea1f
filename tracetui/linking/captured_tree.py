"""The tree of modules with those of captured graphs: a replayed activity belongs where it was captured (R3.40)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tracetui.linking.frame_tree import FrameTree
from tracetui.linking.frames import BACKWARD_OF, MODULE, PATH_SEPARATOR, is_own
from tracetui.linking.graph_nodes import GraphNodes, graph_nodes
from tracetui.model.intervals import Int64, tree_depth
from tracetui.model.trace import Trace

_Path = tuple[str, ...]
"""Names of frames, outermost first."""


def with_captured(trace: Trace, tree: FrameTree, functions: bool) -> FrameTree:
    """The tree with nodes for what captured the replayed activities: of modules, or of functions and modules."""
    nodes = graph_nodes(trace)
    if len(nodes) == 0:
        return tree
    entries: dict[_Path, list[Int64]] = {}
    for path, some in _paths(nodes, functions):
        if path:
            entries.setdefault(path, []).append(some)
    if not entries:
        return tree
    return _grown(trace, tree, {path: nodes.rows[np.concatenate(some)] for path, some in entries.items()})


def _paths(nodes: GraphNodes, functions: bool) -> list[tuple[_Path, Int64]]:
    """The path of each group of entries."""
    if not functions:
        return [(_of_module(nodes, number), np.flatnonzero(nodes.module == number)) for number in _used(nodes.module)]
    found = []
    for number in _used(nodes.recording):
        recording = nodes.recordings[number]
        mine = np.flatnonzero((nodes.recording == number) & (nodes.launch >= 0))
        stack = recording.stack[nodes.launch[mine]]
        for index in np.unique(stack).tolist():
            names = map(recording.text, recording.stacks[index][:-1])
            path = tuple(name for name in names if _is_frame(name) and is_own(name))
            found.append((path, mine[stack == index]))
    return found


def _used(numbers: np.ndarray) -> list[int]:
    return [number for number in np.unique(numbers).tolist() if number >= 0]


def _of_module(nodes: GraphNodes, number: int) -> _Path:
    words = nodes.texts[number].removeprefix(BACKWARD_OF).split(PATH_SEPARATOR)
    return tuple(f"{MODULE}{word}" for word in words)


def _is_frame(name: str) -> bool:
    """Whether a name is that of a Python frame or a module, and not of an operator or an annotation."""
    return name.startswith(MODULE) or "): " in name


def _grown(trace: Trace, tree: FrameTree, activities: Mapping[_Path, Int64]) -> FrameTree:
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
    order = _preorder(parents)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    parent = rank[np.array(parents, np.int64)[order]]
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


def _preorder(parents: list[int]) -> Int64:
    """The nodes with each before what is below it; siblings keep their order."""
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        below.setdefault(parent, []).append(node)
    order, waiting = [], below.get(-1, [])[::-1]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += below.get(node, [])[::-1]
    return np.array(order, np.int64)
