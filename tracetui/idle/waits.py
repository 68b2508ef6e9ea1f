"""Waits: calls in which the CPU waits for the GPU, and what every launch waited for before it started.

The profiler's own wait at the end of the capture is recognised. Queueing is about the first activity of a launch, since
the later nodes of a graph wait for the graph (R3.39).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import calls_named, links
from tracetui.model.intervals import Bool, Int64
from tracetui.model.native_nesting import insertion_index
from tracetui.model.trace import Trace

MIN_FULL_QUEUE = 1000
"""Launches in flight from which the driver makes the CPU wait (R3.28)."""


@dataclass(frozen=True, eq=False)
class Queueing:
    """Parallel arrays in ns, one entry for each of `links(trace).launches`."""

    latency: Int64
    """From the start of the call to the start on the GPU; negative only where clocks disagree."""
    delay: Int64
    """From the end of the call to the start on the GPU; 0 where the activity began before the call returned."""
    stream_wait: Int64
    """Part of the delay in which the stream was busy with earlier activities."""
    dispatch: Int64
    """Rest of the delay."""


def queueing(trace: Trace) -> Queueing:
    """The waiting times of every launch."""

    def make() -> Queueing:
        trace_links, slices = links(trace), trace.slices
        called, returned = slices.start[trace_links.launches], slices.end[trace_links.launches]
        began = slices.start[trace_links.first]
        delay = np.maximum(began - returned, 0)
        # In one stream work may overlap (PDL): what outlasts the start did not hold it up.
        free = np.minimum(_stream_free(trace, trace_links.first), began)
        wait = np.clip(free - returned, 0, None)
        return Queueing(began - called, delay, wait, delay - wait)

    return trace.remember("queueing", make)


def queue_depth(trace: Trace) -> Int64:
    """For each of `links(trace).launches`: launches begun minus those whose first activity has started, itself
    included.
    """

    def make() -> Int64:
        trace_links, slices = links(trace), trace.slices
        device = lane_numbers(trace).process[slices.lane[trace_links.first]]
        depth = np.zeros(len(trace_links.launches), np.int64)
        for number in distinct(device):
            mine = np.flatnonzero(device == number)
            begun = slices.start[trace_links.launches[mine]]
            started = np.sort(slices.start[trace_links.first[mine]])
            made = insertion_index(np.sort(begun), begun, side="right")
            depth[mine] = made - insertion_index(started, begun, side="right")
        return np.maximum(depth, 0)

    return trace.remember("queue depth", make)


def later_nodes(trace: Trace, rows: Int64) -> Bool:
    """Mask of the GPU activities that a graph launch started after its first one."""
    trace_links = links(trace)
    return np.asarray((trace_links.launch[rows] >= 0) & ~np.isin(rows, trace_links.first))


def _stream_free(trace: Trace, rows: Int64) -> Int64:
    """When (ns) the stream of each activity had finished what began before it; the trace's start for the first."""
    slices, gpu = trace.slices, np.sort(links(trace).gpu)
    free = np.empty(len(slices), np.int64)
    bounds = np.flatnonzero(np.diff(slices.lane[gpu], prepend=-1, append=-1)).tolist() if len(gpu) else []
    for first, last in pairwise(bounds):
        mine = gpu[first:last]
        free[mine[0]] = slices.start.min()
        free[mine[1:]] = np.maximum.accumulate(slices.end[mine])[:-1]
    return free[rows]


SYNC_NAME = re.compile(r"^(cu|cuda|hip)(Device|Stream|Event|Ctx)Synchronize")
"""Names of calls in which the CPU waits for the GPU."""


def sync_calls(trace: Trace) -> Int64:
    """Calls that wait for the GPU, without the profiler's own at the end of the capture (R3.31)."""
    return np.setdiff1d(calls_named(trace, SYNC_NAME), flush(trace), assume_unique=True)


def flush(trace: Trace) -> Int64:
    """The wait for the whole device with which the profiler ends the capture, as one row or none (R3.31)."""

    def find() -> Int64:
        rows = calls_named(trace, SYNC_NAME)
        launches = links(trace).launches
        if len(rows) == 0 or len(launches) == 0:
            return rows[:0]
        start = trace.slices.start
        last = rows[[np.argmax(start[rows])]]
        its_own = "Device" in trace.name_of(int(last[0])) and start[last[0]] > start[launches].max()
        return last if its_own else last[:0]

    return trace.remember("flush", find)
