"""The GPU activities of a region (an annotation, a Python frame, an op), and busy time as unions of intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.model.intervals import Bool, Int64, covered, union
from tracetui.model.trace import Trace


def busy_stretches(trace: Trace) -> tuple[Int64, Int64]:
    """Starts and ends (ns) of the intervals in which any device ran something, ascending and disjoint."""

    def make() -> tuple[Int64, Int64]:
        gpu = links(trace).gpu
        return union(trace.slices.start[gpu], trace.slices.end[gpu])

    return trace.remember("busy stretches", make)


def busy_time(trace: Trace, rows: Int64) -> int:
    """Time (ns) in which at least one of the slices was running."""
    return covered(trace.slices.start[rows], trace.slices.end[rows])


def span(trace: Trace, rows: Int64) -> tuple[int, int]:
    """First start and last end (ns) of the slices; (0, 0) for none."""
    if len(rows) == 0:
        return 0, 0
    return int(trace.slices.start[rows].min()), int(trace.slices.end[rows].max())


@dataclass(frozen=True, eq=False)
class Region:
    """The GPU activities of a region."""

    rows: Int64
    """Kernels, copies and fills in order of their start."""
    inferred: Bool
    """Mask of activities without launch record, placed by their own start."""
    start: int
    """First start in ns."""
    end: int
    """Last end in ns."""
    busy: int
    """Time in ns in which at least one of them ran."""

    @property
    def span(self) -> int:
        """From the first start to the last end in ns; 0 without activities."""
        return self.end - self.start


def region(trace: Trace, row: int) -> Region:
    """The GPU activities of the window of a CPU slice.

    An activity belongs to the window in which it was launched, by any thread of the process. An activity without launch
    record is placed by its own start, which is a guess and marked (R3.3).
    """
    slices, trace_links = trace.slices, links(trace)
    moment, work = trace.remember("work by cause", lambda: _by_cause(trace))
    first, last = np.searchsorted(moment, [slices.start[row], slices.end[row]])
    rows = np.sort(work[first:last])
    launch = trace_links.launch[rows].astype(np.int64)
    process = lane_numbers(trace).process
    source = np.where(launch >= 0, launch, rows)
    held = (launch < 0) | (process[slices.lane[source]] == process[slices.lane[row]])
    rows, launch = rows[held], launch[held]
    order = np.argsort(slices.start[rows], kind="stable")
    rows, launch = rows[order], launch[order]
    begin, end = span(trace, rows)
    return Region(rows, launch < 0, begin, end, busy_time(trace, rows))


def _by_cause(trace: Trace) -> tuple[Int64, Int64]:
    """The launch time of each GPU activity, or its start where the launch is unknown, ascending; and the activities."""
    trace_links, start = links(trace), trace.slices.start
    launch = trace_links.launch[trace_links.gpu].astype(np.int64)
    moment = start[np.where(launch >= 0, launch, trace_links.gpu)]
    order = np.argsort(moment, kind="stable")
    return moment[order], trace_links.gpu[order]
