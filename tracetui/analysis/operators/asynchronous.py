"""Slices that torch takes for asynchronous: they have a duration, but no place in the tree (3(d).5).

The file does not mark them. Known are the annotations of collectives, which may end on another thread, and what was
still open when the profiler stopped: the file writes that as long as it took to write the file, with
`finished: false`, and torch lets it end with what encloses it, or with the recording.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.common.lanes import is_named
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

COLLECTIVE = re.compile(r"(nccl|gloo|mpi|ucc|xccl):")
"""How annotations begin that a process group made; other libraries may write names like these, too."""


def asynchronous(trace: Trace) -> tuple[Int64, Int64]:
    """Rows of the asynchronous slices, ascending, and the moments in ns at which they end for torch."""
    return trace.remember("asynchronous", lambda: _find(trace))


def _find(trace: Trace) -> tuple[Int64, Int64]:
    slices = trace.slices
    notes = slices.of_kind(Kind.ANNOTATION)
    collectives = notes[is_named(trace, notes, COLLECTIVE.match)]
    open_rows, ends = _unfinished(trace)
    rows = np.union1d(collectives, open_rows)
    moments = slices.end[rows]
    moments[np.searchsorted(rows, open_rows)] = ends
    return rows, moments


def _unfinished(trace: Trace) -> tuple[Int64, Int64]:
    """What never ended; only what outlasts the recording can be that, so that few events are read again."""
    slices = trace.slices
    stops = slices.end[slices.of_kind(Kind.BOOKKEEPING)]
    if len(stops) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    stop = int(stops.max())
    late = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    late = late[slices.end[late] > stop]
    (finished,) = trace.args_of(late, ["finished"])
    rows = late[np.array([value is False for value in finished], bool)]
    return rows, np.array([_end(trace, row, rows, stop) for row in rows.tolist()], np.int64)


def _end(trace: Trace, row: int, open_rows: Int64, stop: int) -> int:
    """The first end among the finished slices of the thread in which a slice began, else that of the recording."""
    slices = trace.slices
    lane = trace.lanes[slices.lane[row]]
    before = np.setdiff1d(np.arange(lane.first, row), open_rows, assume_unique=True)
    ends = slices.end[before]
    return max(int(ends[ends > slices.start[row]].min(initial=stop)), int(slices.start[row]))
