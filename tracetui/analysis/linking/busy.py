"""How long the devices worked: unions of intervals, so that what runs side by side counts once."""

from __future__ import annotations

from tracetui.analysis.linking.links import links
from tracetui.model.intervals import Int64, covered, union
from tracetui.model.trace import Trace


def busy_stretches(trace: Trace) -> tuple[Int64, Int64]:
    """Starts and ends (ns) of the stretches in which any device ran something, ascending and disjoint."""

    def make() -> tuple[Int64, Int64]:
        gpu = links(trace).gpu
        return union(trace.slices.start[gpu], trace.slices.end[gpu])

    return trace.remember("busy stretches", make)


def busy_time(trace: Trace, rows: Int64) -> int:
    """How long (ns) at least one of the slices was running."""
    return covered(trace.slices.start[rows], trace.slices.end[rows])


def span(trace: Trace, rows: Int64) -> tuple[int, int]:
    """First start and last end (ns) of the slices; (0, 0) for none."""
    if len(rows) == 0:
        return 0, 0
    return int(trace.slices.start[rows].min()), int(trace.slices.end[rows].max())
