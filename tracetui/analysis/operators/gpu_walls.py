"""For how long the GPU worked on what each call launched: a union, so that what ran side by side counts once.

Work belongs to a call when its launch was made inside of it, on the same thread; ids of the profiler decide nothing.
Work without a launch record belongs to nobody. Work of the backward pass belongs to the forward op as well.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.common.trees import forest
from tracetui.analysis.linking.autograd import forward_of
from tracetui.analysis.linking.links import links
from tracetui.analysis.operators.costs import counted_rows
from tracetui.model.intervals import Int64, tree_depth
from tracetui.model.trace import Trace


def gpu_walls(trace: Trace) -> Int64:
    """For every slice of a thread the time in ns in which work launched inside of it ran; 0 for all others."""
    found = links(trace)
    return trace.remember("gpu walls", lambda: _walls(trace, found.work, np.repeat(found.launches, found.counts)))


def backward_walls(trace: Trace) -> Int64 | None:
    """The same for work of the backward pass of an op and of what it called; None when nothing links the two passes."""

    def make() -> Int64 | None:
        gpu = links(trace).gpu
        forward = forward_of(trace)[gpu]
        known = forward >= 0
        return _walls(trace, gpu[known], forward[known].astype(np.int64)) if known.any() else None

    return trace.remember("backward walls", make)


def _walls(trace: Trace, work: Int64, holder: Int64) -> Int64:
    """For every slice the union in ns of the work that it or a slice below it holds; one `holder` for each work.

    Goes up level by level, the work of all slices of one depth at once.
    """
    slices, rows = trace.slices, counted_rows(trace)
    walls = np.zeros(len(slices), np.int64)
    place = np.full(len(slices), -1, np.int64)
    place[rows] = np.arange(len(rows))
    node = place[holder]
    start, end, node = slices.start[work][node >= 0], slices.end[work][node >= 0], node[node >= 0]
    if len(node) == 0:
        return walls
    moments = distinct(np.concatenate([start, end]))
    opens, closes = np.searchsorted(moments, start), np.searchsorted(moments, end)
    parent = forest(trace, rows)
    level = tree_depth(parent)[node]
    for depth in range(int(level.max()), -1, -1):
        here = np.flatnonzero(level == depth)
        known, total = _unions(node[here], opens[here], closes[here], moments)
        walls[rows[known]] = total
        node[here] = parent[node[here]]
        level[here] -= 1
    return walls


def _unions(holder: Int64, opens: Int64, closes: Int64, moments: Int64) -> tuple[Int64, Int64]:
    """The different holders, and the length of the union of the intervals of each.

    Intervals are given as places in `moments`; holders mostly ascend, and starts within them, which sorts fast.
    """
    order = np.argsort(holder * len(moments) + opens, kind="stable")
    holder, opens, closes = holder[order], opens[order], closes[order]
    fresh = np.ones(len(holder), bool)
    fresh[1:] = holder[1:] != holder[:-1]
    group = np.cumsum(fresh) - 1
    reach = np.maximum.accumulate(group * len(moments) + closes) - group * len(moments)
    seen = np.zeros(len(holder), np.int64)
    seen[1:] = np.where(fresh[1:], 0, reach[:-1])
    new = np.maximum(moments[closes] - moments[np.maximum(opens, seen)], 0)
    return holder[fresh], np.bincount(group, new).astype(np.int64)
