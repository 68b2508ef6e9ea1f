"""Which ends of arrows belong to the slices that are kept: both of an arrow, or none."""

from __future__ import annotations

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.joining import latest
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Trace

_START = 0


def wanted_flows(trace: Trace, kept: Bool) -> Bool:
    """Mask of the ends that stand at kept slices, `kept` having an entry for every slice.

    An end that has no start in the file, of which the profiler writes many, goes with its own slice.
    """
    flows = trace.flows
    if kept.all():
        return np.ones(len(flows), bool)
    row = _rows_at(trace, flows.lane.astype(np.int64), flows.time)
    wanted = np.where(row >= 0, kept[row], False) if len(kept) else np.zeros(len(flows), bool)
    starts, others = np.flatnonzero(flows.phase == _START), np.flatnonzero(flows.phase != _START)
    _, family = np.unique(np.stack([flows.key, flows.id]), axis=1, return_inverse=True) if len(flows) else (0, row)
    start = latest(family[starts], flows.time[starts], family[others], flows.time[others])
    arrow = np.full(len(flows), -1, np.int64)
    arrow[starts] = np.arange(len(starts))
    arrow[others] = start
    whole = np.ones(len(starts) + 1, bool)
    torn = arrow[~wanted]
    whole[torn[torn >= 0]] = False
    return np.asarray(wanted & whole[arrow])


def _rows_at(trace: Trace, lane: Int64, moment: Int64) -> Int64:
    """The innermost slice of each lane that is open at each moment or ends there, -1 for none."""
    slices = trace.slices
    row = np.full(len(moment), -1, np.int64)
    for number in distinct(lane).tolist():
        first, last = trace.lanes[number].first, trace.lanes[number].last
        mine = np.flatnonzero(lane == number)
        index = np.searchsorted(slices.start[first:last], moment[mine], side="right") - 1
        row[mine] = np.where(index >= 0, first + index, -1)
    over = np.flatnonzero(row >= 0)
    while len(over):
        over = over[slices.end[row[over]] < moment[over]]
        row[over] = slices.parent[row[over]]
        over = over[row[over] >= 0]
    return row
