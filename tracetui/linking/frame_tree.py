"""Calls of modules and functions as a tree: a node is a name below the node that called it, or each call (R3.56)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.trees import subtree_sums
from tracetui.model.intervals import Int64, tree_depth
from tracetui.model.trace import Int32, Trace


@dataclass(frozen=True, eq=False)
class FrameTree:
    """Parallel arrays, one entry per node, a node before what it calls and siblings in order of their first call."""

    parent: Int64
    """Index of the caller's node, -1 for none."""
    depth: Int64
    """How many nodes are above it."""
    name: Int64
    """Id of the name of its frames; ids beyond those of the trace are of `more_names`."""
    first: Int64
    """The frame of its first call."""
    frames: Int64
    """Every frame of the tree, ascending; not one entry per node."""
    node: Int64
    """The node of each of `frames`."""
    more_names: tuple[str, ...] = ()
    """Names of nodes without frames, which captured what is replayed."""
    activities: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """The replayed GPU activities whose capture is known, ascending."""
    activity_node: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    """The node of each of `activities`."""

    def __len__(self) -> int:
        return len(self.parent)

    def of_frames(self, rows: NDArray[np.integer]) -> Int64:
        """The node of each frame, -1 for a row of -1 and for frames that are not in the tree."""
        if len(self.frames) == 0:
            return np.full(len(rows), -1, np.int64)
        index = np.minimum(np.searchsorted(self.frames, rows), len(self.frames) - 1)
        return np.where(self.frames[index] == rows, self.node[index], -1)

    def of_activities(self, rows: NDArray[np.integer]) -> Int64:
        """The node that captured each GPU activity, -1 for none."""
        if len(self.activities) == 0:
            return np.full(len(rows), -1, np.int64)
        index = np.minimum(np.searchsorted(self.activities, rows), len(self.activities) - 1)
        return np.where(self.activities[index] == rows, self.activity_node[index], -1)

    def name_of(self, trace: Trace, number: int) -> str:
        """The text of a name of a node."""
        return trace.names[number] if number < len(trace.names) else self.more_names[number - len(trace.names)]


def frame_tree(trace: Trace, rows: Int64, around: Int32, each_call: bool = False) -> FrameTree:
    """The tree of some frames, ascending; `around` has for every slice the frame of the tree around it, -1 for none.

    With `each_call` every call is a node of its own; else calls of one name below the same node share one.
    """
    index = np.full(len(trace.slices) + 1, -1, np.int64)
    index[rows] = np.arange(len(rows))
    above = index[around[rows]]
    node, parent = (np.arange(len(rows)), above) if each_call else _merged(trace.slices.name[rows], above)
    start = trace.slices.start[rows]
    order = np.lexsort((rows, start, node))
    heads = order[np.flatnonzero(np.diff(node[order], prepend=-1))]
    rank = _preorder(parent, start[heads])
    inverse = np.empty(len(rank), np.int64)
    inverse[rank] = np.arange(len(rank))
    placed = np.append(rank, -1)
    sorted_parent = placed[parent[inverse]]
    first = rows[heads[inverse]]
    return FrameTree(
        sorted_parent, tree_depth(sorted_parent), trace.slices.name[first].astype(np.int64), first, rows, rank[node]
    )


def _merged(name: NDArray[np.integer], above: Int64) -> tuple[Int64, Int64]:
    """The node of each frame and the parent of each node, level by level: equal names below a node share a node."""
    node = np.full(len(name) + 1, -1, np.int64)
    parents = [np.empty(0, np.int64)]
    count, level, rest = 0, np.flatnonzero(above < 0), np.flatnonzero(above >= 0)
    while len(level):
        pairs = np.stack([node[above[level]], name[level].astype(np.int64)])
        used, member = np.unique(pairs, axis=1, return_inverse=True)
        node[level] = count + member.ravel()
        parents.append(used[0])
        count += used.shape[1]
        ready = node[above[rest]] >= 0
        level, rest = rest[ready], rest[~ready]
    return node[:-1], np.concatenate(parents)


def _preorder(parent: Int64, start: Int64) -> Int64:
    """The position of each node when every node comes before what is below it, siblings in order of start."""
    if len(parent) == 0:
        return np.empty(0, np.int64)
    (size,) = subtree_sums(parent, np.ones(len(parent)))
    depth, position = tree_depth(parent), np.zeros(len(parent) + 1, np.int64)
    position[-1] = -1
    for level in range(int(depth.max()) + 1):
        mine = np.flatnonzero(depth == level)
        mine = mine[np.lexsort((start[mine], parent[mine]))]
        taken = np.cumsum(size[mine]) - size[mine]
        fresh = np.ones(len(mine), bool)
        fresh[1:] = parent[mine][1:] != parent[mine][:-1]
        before = taken - np.repeat(taken[fresh], np.diff(np.append(np.flatnonzero(fresh), len(mine))))
        position[mine] = position[parent[mine]] + 1 + before.astype(np.int64)
    return position[:-1]
