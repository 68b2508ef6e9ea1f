"""Calls in which the CPU waits for the GPU, and the one wait that is the profiler's own."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.linking.links import calls_named, links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

SYNC_NAME = re.compile(r"^(cu|cuda|hip)(Device|Stream|Event|Ctx)Synchronize")
"""Calls in which the CPU waits for the GPU."""


def sync_calls(trace: Trace) -> Int64:
    """Rows of the calls that wait for the GPU, without the profiler's own at the end of the capture (R3.31)."""
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
