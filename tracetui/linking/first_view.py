"""The part of a trace to show first: the middle step, or the busiest part."""

from __future__ import annotations

import numpy as np

from tracetui.linking import placement
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

MAX_SHOWN_ACTIVITIES = 200
"""Maximum GPU activities shown at once where there are no steps."""
MAX_WINDOW_GROWTH = 4
"""Maximum growth of a window to include the GPU activities that were launched in it."""


def numbers(trace: Trace) -> list[int]:
    """The distinct numbers of the steps, in order."""
    return list(dict.fromkeys(steps(trace).number.tolist()))


def activities_of_step(trace: Trace, number: int) -> Int64:
    """The GPU activities launched in a step, in order of start."""
    return placement.activities_of_step(trace, int(steps(trace).labelled(number)[0]))


def stretch_of_step(trace: Trace, number: int) -> tuple[int, int]:
    """Start and end in ns of a step together with the GPU activities that it launched."""
    trace_steps = steps(trace)
    index = int(trace_steps.labelled(number)[0])
    start, end = int(trace_steps.start[index]), int(trace_steps.end[index])
    work = activities_of_step(trace, number)
    return start, max(end, int(trace.slices.end[work].max())) if len(work) else end


def first_step(trace: Trace) -> int | None:
    """The number of the middle step, since the first is often cold; None without steps."""
    all_numbers = numbers(trace)
    return all_numbers[len(all_numbers) // 2] if all_numbers else None


def busiest_stretch(trace: Trace) -> tuple[int, int]:
    """The fiftieth of the trace in which most GPU activities are launched, until they end; start and end in ns.

    Without launches the one in which most activities start.
    """
    low, high = trace.window
    slices, trace_links = trace.slices, links(trace)
    rows = trace_links.gpu
    if len(rows) == 0:
        rows = np.flatnonzero((slices.kind != Kind.BOOKKEEPING) & (slices.dur > 0))
    if len(rows) == 0 or high <= low:
        return low, max(high, low + 1)
    launch = trace_links.launch[rows]
    cause = np.where(launch >= 0, launch, rows)
    moments = slices.start[cause]
    if len(rows) <= MAX_SHOWN_ACTIVITIES:
        return int(moments.min()), int(slices.end[rows].max())
    edges = np.linspace(low, high, 51)
    most = int(np.argmax(np.histogram(moments, edges)[0]))
    start, end = int(edges[most]), int(edges[most + 1])
    work = rows[(moments >= start) & (moments < end)]
    reach = int(slices.end[work].max()) if len(trace_links.gpu) else end
    return start, min(max(end, reach), start + MAX_WINDOW_GROWTH * (end - start))
