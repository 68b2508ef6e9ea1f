"""GPU work in the order in which it was launched, which is the program's own order."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace


def in_order(trace: Trace, rows: Int64) -> Int64:
    """GPU activities by launch, those of one launch by start.

    A stream runs what it is given in order: work without a launch record comes after what its stream ran before it.
    """
    slices = trace.slices
    launch = links(trace).launch[rows].astype(np.int64)
    by_stream = np.lexsort((slices.start[rows], slices.lane[rows]))
    lane = slices.lane[rows[by_stream]]
    fresh = np.flatnonzero(np.diff(lane, prepend=-1))
    moment = np.where(launch >= 0, slices.start[launch], np.iinfo(np.int64).min)[by_stream]
    if (launch < 0).any():
        for low, high in zip(fresh, np.append(fresh[1:], len(lane)), strict=True):
            moment[low:high] = np.maximum.accumulate(moment[low:high])
    launched = np.empty_like(moment)
    launched[by_stream] = moment
    return rows[np.lexsort((slices.start[rows], launched))]
