"""What a thread was doing at a moment: the slice that was open deepest, and the names on the way down to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.common.stretches import Axis
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, Trace

NAMES = 3
"""So many names of a chain are told, the deepest ones."""


def open_at(trace: Trace, lane: NDArray[np.integer], moment: Int64) -> Int64:
    """Row of the deepest slice of each lane that is open at each moment (ns), -1 for none."""
    slices = trace.slices
    row = np.full(len(moment), -1, np.int64)
    for number in np.unique(lane).tolist():
        first, last = trace.lanes[number].first, trace.lanes[number].last
        mine = np.flatnonzero(lane == number)
        place = np.searchsorted(slices.start[first:last], moment[mine], side="right") - 1
        row[mine] = np.where(place >= 0, first + place, -1)
    ended = np.flatnonzero((row >= 0) & (slices.end[row] <= moment)) if len(slices) else row
    while len(ended):
        row[ended] = slices.parent[row[ended]]
        ended = ended[row[ended] >= 0]
        ended = ended[slices.end[row[ended]] <= moment[ended]]
    return row


def longest(trace: Trace, rows: Int64, lane: NDArray[np.integer], low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """Start and end (ns) of what one of the slices `rows` of each lane takes of each window [low, high): the most.

    `rows` ascends, slices inside others do not count, one that overlaps an earlier one counts from where that ended,
    and every window must touch one.
    """
    if len(low) == 0:
        return low, high
    starts, ends, axis = _apart(trace, rows)
    order = np.argsort(axis.place(lane, low))
    first = np.searchsorted(ends, axis.place(lane, low)[order], "right")
    last = np.searchsorted(starts, axis.place(lane, high)[order]) - 1
    # All but the two at the edges lie wholly within the window, so that the longest of them is the best.
    width = np.append((ends - starts) * len(starts) + np.arange(len(starts)), 0)
    edges = np.stack([first + 1, np.maximum(last, first + 1)], axis=1).ravel()
    inner = np.maximum.reduceat(width, edges)[::2] % len(starts)
    tries = np.stack([first, np.where(last > first + 1, inner, first), last])
    begin = np.maximum(starts[tries], axis.place(lane, low)[order])
    end = np.minimum(ends[tries], axis.place(lane, high)[order])
    best = np.argmax(end - begin, axis=0), np.arange(len(order))
    back = axis.place(lane, np.zeros(len(low), np.int64))[order]
    found = np.empty((2, len(low)), np.int64)
    found[:, order] = begin[best] - back, end[best] - back
    return found[0], found[1]


def _apart(trace: Trace, rows: Int64) -> tuple[Int64, Int64, Axis]:
    """Start and end of what each of the slices takes that no earlier one has, on an axis of all lanes."""
    slices = trace.slices
    axis = Axis.around(slices.start, slices.end)
    starts = axis.place(slices.lane[rows], slices.start[rows])
    ends = axis.place(slices.lane[rows], slices.end[rows])
    starts[1:] = np.maximum(starts[1:], np.maximum.accumulate(ends)[:-1])
    kept = ends > starts
    return starts[kept], ends[kept], axis


def chain_texts(trace: Trace, rows: Int64) -> tuple[NDArray[np.int32], Strings]:
    """Ids and texts of the chain down to each slice, as `aten::linear > aten::addmm`; -1 where nothing was open.

    Ops, annotations and runtime calls are told, and Python frames where there are none of them. Steps are not.
    """
    kind = trace.slices.kind
    told = np.isin(kind, (Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OTHER))
    told[steps(trace).row] = False
    levels = _levels(trace, rows, told)
    frames = np.flatnonzero(levels[0] < 0)
    for level, names in zip(levels, _levels(trace, rows[frames], kind == Kind.PYTHON), strict=True):
        level[frames] = names
    return _joined(trace, levels)


def _levels(trace: Trace, rows: Int64, told: Bool) -> list[Int64]:
    """Name ids of the innermost `told` slice at or above each row, of the next, and so on; -1 for none."""
    parent, names = trace.slices.parent, trace.slices.name
    rows, levels = rows.copy(), []
    for _ in range(NAMES):
        hidden = np.flatnonzero(rows >= 0)
        hidden = hidden[~told[rows[hidden]]]
        while len(hidden):
            rows[hidden] = parent[rows[hidden]]
            hidden = hidden[rows[hidden] >= 0]
            hidden = hidden[~told[rows[hidden]]]
        levels.append(np.where(rows >= 0, names[rows], -1).astype(np.int64) if len(names) else rows)
        rows = np.where(rows >= 0, parent[rows], -1).astype(np.int64) if len(names) else rows
    return levels


def _joined(trace: Trace, levels: list[Int64]) -> tuple[NDArray[np.int32], Strings]:
    """One text for each different chain, outermost name first."""
    ids, chains = levels[0], [(name,) if name >= 0 else () for name in range(-1, len(trace.names))]
    ids = ids + 1
    for level in levels[1:]:
        pairs, ids = np.unique(ids * (len(trace.names) + 1) + level + 1, return_inverse=True)
        inner, outer = np.divmod(pairs, len(trace.names) + 1)
        chains = [
            chains[below] + ((above - 1,) if above else ())
            for below, above in zip(inner.tolist(), outer.tolist(), strict=True)
        ]
    texts = Strings()
    made = [
        texts.intern(" > ".join(trace.names[name] for name in reversed(chain))) if chain else -1 for chain in chains
    ]
    return np.array(made, np.int32)[ids], texts
