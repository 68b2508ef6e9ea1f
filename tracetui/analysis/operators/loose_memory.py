"""Allocator events outside of every op and call, which are rows of torch's table though they take no time (3(d).2)."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.operators.costs import Costs
from tracetui.model.intervals import Int64, union
from tracetui.model.trace import Trace

ALLOCATION = "[memory]"
FAILURE = "[OutOfMemory]"
"""This one counts inside of ops as well."""


def loose_memory(trace: Trace, cost: Costs) -> dict[str, Int64]:
    """Moments in ns of the allocator events that torch counts beside the slices of `cost`, ascending, by name."""
    instants = trace.instants
    found = {}
    for name in (ALLOCATION, FAILURE):
        moment = np.sort(instants.time[instants.name == trace.names.find(name)])
        if name == ALLOCATION and len(moment):
            start = trace.slices.start[cost.row]
            starts, ends = union(start, start + cost.cpu + 1)  # the end belongs to the slice
            place = np.searchsorted(starts, moment, side="right") - 1
            held = (place >= 0) & (moment < np.append(ends, 0)[place])
            moment = moment[~held]
        if len(moment):
            found[name] = moment
    return found
