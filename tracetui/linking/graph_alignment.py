"""Alignment of a replay with a captured graph: which captured launch each GPU activity came from (R3.40).

Both are lists of names as numbers, in order. At least nine tenths of the longer list must find an equal partner.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetui.model.intervals import Bool, Int64

MIN_EQUAL_SHARE = 0.9
"""Minimum share of equal names for a replay to be of a captured graph."""
ANY_KERNEL = -1
"""Stands for a captured kernel whose name is not recorded."""
COPY, FILL = -2, -3
"""Stand for copies and fills, whose names differ between call and activity."""
MAX_EDITS = 400
"""Maximum nodes without a partner, on either side, of lists that are aligned with one another."""


@dataclass(frozen=True, eq=False)
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
    best = _in_order(nodes, launches)
    if best.share == 1:
        return best
    shared = _shared(nodes, launches)
    best = replace(best, shared=shared)
    if shared < MIN_EQUAL_SHARE or bool((launches == ANY_KERNEL).any()):
        return best
    if len(np.unique(streams)) > 1:
        best = max(best, _merged(nodes, streams, launches), key=lambda each: each.share)
    if best.share < MIN_EQUAL_SHARE:
        best = max(best, _common(nodes, launches), key=lambda each: each.share)
    return replace(best, shared=shared)


def _in_order(nodes: Int64, launches: Int64) -> Alignment:
    """Node by node: lists of one length."""
    if len(nodes) != len(launches):
        return _alignment(nodes, launches, np.full(len(nodes), -1, np.int64))
    equal = (nodes == launches) | ((launches == ANY_KERNEL) & (nodes >= 0))
    return _alignment(nodes, launches, np.where(equal, np.arange(len(nodes)), -1))


def _merged(nodes: Int64, streams: Int64, launches: Int64) -> Alignment:
    """Launches in order, each taken by the first node of a stream that has its name: streams run side by side."""
    queues = [np.flatnonzero(streams == stream).tolist() for stream in np.unique(streams).tolist()]
    heads, found = [0] * len(queues), np.full(len(nodes), -1, np.int64)
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
            found[node] = index
            heads[which] += 1
    return _alignment(nodes, launches, found)


def _shared(nodes: Int64, launches: Int64) -> float:
    """Names in both lists as a share of the longer one; a launch without a name may be any kernel."""
    free = int((launches == ANY_KERNEL).sum())
    named = launches[launches != ANY_KERNEL]
    low = int(min(nodes.min(initial=0), named.min(initial=0)))
    size = int(max(nodes.max(initial=0), named.max(initial=0))) - low + 1
    count = np.bincount(nodes - low, minlength=size)
    common = np.minimum(count, np.bincount(named - low, minlength=size))
    left = int((count - common)[max(-low, 0) :].sum())
    return float(common.sum() + min(left, free)) / max(len(nodes), len(launches), 1)


def _common(nodes: Int64, launches: Int64) -> Alignment:
    """What both lists have in common in order: the profiler loses nodes, and conditional nodes repeat (R3.41).

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
                return _alignment(nodes, launches, _traced(history, len(a), len(b)))
    return _alignment(nodes, launches, np.full(len(nodes), -1, np.int64))


def _traced(history: list[dict[int, int]], x: int, y: int) -> Int64:
    """The partner of each node on the way back from the ends of both lists, -1 for none."""
    found = np.full(x, -1, np.int64)
    for edits in range(len(history) - 1, -1, -1):
        reach, diagonal = history[edits], x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        begin = reach[before]
        start = begin if down else begin + 1
        while x > max(start, 0) and y > 0:
            x, y = x - 1, y - 1
            found[x] = y
        x, y = begin, begin - before
    return found


def _alignment(nodes: Int64, launches: Int64, found: Int64) -> Alignment:
    equal = found >= 0
    share = float(equal.sum()) / max(len(nodes), len(launches), 1)
    unnamed = equal & (launches[found] == ANY_KERNEL) if len(launches) else equal
    return Alignment(found, unnamed, share, share)
