"""How far the clock of the GPUs runs ahead of that of the CPU, from the least delays of launches (R3.63).

A kernel cannot start before its launch, and on an idle stream it starts some microseconds after. Where the floor over
hundreds of launches is far from that, the clocks disagree: by how much is known to a few microseconds.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.idle.waits import queueing
from tracetui.analysis.linking.links import links
from tracetui.model.trace import Trace

MIN_LAUNCHES = 100
"""Minimum launches of one call for one stream, made while the stream was idle, that show a floor."""
FLOOR_PERCENT = 1.0
"""Percent of these that may lie below the floor: single records may be wrong."""
MIN_FLOOR_NS, MAX_FLOOR_NS = 0, 10_000
"""Range of floors that need no skew, in ns."""
TRUE_FLOOR_NS = 5_000
"""Floor of most machines, in ns: what lies beyond it is put down to the clocks."""


def clock_skew(trace: Trace) -> int:
    """Time in ns by which GPU times are ahead of CPU times; negative where they are behind, 0 where nothing shows."""

    def find() -> int:
        floor = _floor(trace)
        return 0 if floor is None or MIN_FLOOR_NS <= floor <= MAX_FLOOR_NS else floor - TRUE_FLOOR_NS

    return trace.remember("clock skew", find)


def _floor(trace: Trace) -> int | None:
    """The least of the floors of all streams and calls, in ns; None where there are too few launches."""
    trace_links, queue, slices = links(trace), queueing(trace), trace.slices
    free = np.flatnonzero(queue.stream_wait == 0)
    if len(free) < MIN_LAUNCHES:
        return None
    key = slices.lane[trace_links.first[free]].astype(np.int64) * len(trace.names)
    key += slices.name[trace_links.launches[free]]
    _, member, counts = np.unique(key, return_inverse=True, return_counts=True)
    enough = np.flatnonzero(counts >= MIN_LAUNCHES)
    floors = [np.percentile(queue.latency[free[member == number]], FLOOR_PERCENT) for number in enough.tolist()]
    return int(min(floors)) if floors else None
