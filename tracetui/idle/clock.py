"""How far the clock of the GPUs runs ahead of that of the CPU, from the least delays of launches (R3.63).

A kernel cannot start before its launch, and on an idle stream it starts some microseconds after. Where the floor over
hundreds of launches is far from that, the clocks disagree: by how much is known to a few microseconds. No launch of
the trace may contradict it: a clock that is ahead is ahead by less than the smallest delay of all.
"""

from __future__ import annotations

import numpy as np

from tracetui.idle.idleness import idleness
from tracetui.idle.waits import queueing
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

MIN_LAUNCHES = 100
"""Minimum launches of one call for one stream, made while the stream was idle, that show a floor."""
FLOOR_PERCENT = 1.0
"""Percent of these that may lie below the floor: single records may be wrong."""
MIN_FLOOR_NS, MAX_FLOOR_NS = 0, 10_000
"""Range of floors that need no skew, in ns."""
MAX_GAP_FLOOR_NS = 20_000
"""Maximum floor of activities behind gaps that needs no skew, in ns, where no stream was idle at a launch."""
TRUE_FLOOR_NS = 5_000
"""Floor of most machines, in ns: what lies beyond it is put down to the clocks."""


MIN_PAUSE_NS = 5_000
"""Minimum ns for which a device did nothing before an activity that had been launched: queued ones follow sooner."""


def clock_skew(trace: Trace) -> int:
    """Time in ns by which GPU times are ahead of CPU times; negative where they are behind, 0 where nothing shows."""

    def find() -> int:
        floor, most = _floor(trace, *_on_idle_streams(trace)), MAX_FLOOR_NS
        if floor is not None and floor < MIN_FLOOR_NS:
            return floor - TRUE_FLOOR_NS
        if floor is None:
            floor, most = _floor(trace, *_behind_gaps(trace)), MAX_GAP_FLOOR_NS
        if floor is None:
            return 0
        # A clock that is ahead delays every start: what one launch did not wait for is no clock.
        floor = min(floor, int(queueing(trace).latency.min()))
        return floor - TRUE_FLOOR_NS if floor > most else 0

    return trace.remember("clock skew", find)


def _on_idle_streams(trace: Trace) -> tuple[Int64, Int64]:
    """First activities of launches that were made while their stream was idle, and the time from the call to each."""
    queue = queueing(trace)
    free = np.flatnonzero(queue.stream_wait == 0)
    return np.asarray(links(trace).first[free]), queue.latency[free]


def _behind_gaps(trace: Trace) -> tuple[Int64, Int64]:
    """First activities of launches that the device and their own stream did nothing before, and the time from the call.

    Where the clock of the GPU is ahead, they look queued behind an activity that had ended long before they started.
    """
    slices, idle, calls = trace.slices, idleness(trace), links(trace)
    after = idle.after
    # Graphs take longer to start.
    kept = (idle.dur >= MIN_PAUSE_NS) & (idle.launch >= 0) & np.isin(after, calls.first[calls.counts == 1])
    kept &= (idle.before >= 0) & (slices.lane[idle.before] == slices.lane[after])
    return after[kept], slices.start[after[kept]] - slices.start[idle.launch[kept]]


def _floor(trace: Trace, rows: Int64, latency: Int64) -> int | None:
    """The least of the floors of all streams and calls, in ns; None where there are too few launches."""
    slices = trace.slices
    if len(rows) < MIN_LAUNCHES:
        return None
    key = slices.lane[rows].astype(np.int64) * len(trace.names) + slices.name[links(trace).launch[rows]]
    _, member, counts = np.unique(key, return_inverse=True, return_counts=True)
    enough = np.flatnonzero(counts >= MIN_LAUNCHES)
    floors = [np.percentile(latency[member == number], FLOOR_PERCENT) for number in enough.tolist()]
    return int(min(floors)) if floors else None
