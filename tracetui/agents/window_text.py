"""A window of time as text: its lanes as letters, what these mean, and its longest slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width, lane_label
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.legend import legend_entries
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.errors import UsageError
from tracetui.idle.gaps import gap_before, idle_blocks
from tracetui.idle.scope_times import median_step, scope_windows
from tracetui.idle.waits import idleness
from tracetui.kernel_names.slice_names import explanation
from tracetui.linking.links import links
from tracetui.linking.placement import activities_of_step_number, chosen
from tracetui.model.intervals import Int64, TimeRange
from tracetui.model.trace import Kind, Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.panes import pane_named

CELLS, MAX_LINES = 120, 36
"""Width of a picture, names of lanes included, and its height at most."""
DEFAULT_NS = 1000
"""Length of a window of which only the start is given."""
AROUND = 1.5
"""Time around a single slice, at each side, by its duration."""


def window_of(trace: Trace, viewpoint: Viewpoint) -> tuple[TimeRange, int]:
    """The window that a viewpoint shows, in ns, and the row of its slice, -1 for none.

    Raises: UsageError for a step, an event or a gap that the trace does not have.
    """
    if viewpoint.step is not None:
        chosen(trace, viewpoint.step)
    row = row_of(trace, viewpoint)
    given = viewpoint.time_range
    if viewpoint.start_ns is not None:
        start = round(viewpoint.start_ns)
        given = TimeRange(start, start + max(round(viewpoint.length_ns or DEFAULT_NS), 1))
    if given is not None:
        # It says so where the range is outside of the trace.
        pane_named("range").asked_part(trace, range=given.text)
        return given, row
    if row >= 0:
        start, end = int(trace.slices.start[row]), int(trace.slices.end[row])
        if viewpoint.is_gap:
            start, end = int(idleness(trace).start[gap_before(trace, row)]), start
        margin = round(AROUND * max(end - start, 1))
        return TimeRange(start - margin, end + margin), row
    if viewpoint.step is None:
        return TimeRange(*trace.window), row
    low, high = scope_windows(trace, viewpoint.step)
    return TimeRange(int(low[0]), int(high[-1])), row


def row_of(trace: Trace, viewpoint: Viewpoint) -> int:
    """The slice that a viewpoint names, -1 for none.

    Raises: UsageError for an event, a kernel or a gap that the trace does not have.
    """
    if viewpoint.kernel > 0:
        number = median_step(trace) if viewpoint.step is None else viewpoint.step
        activities = links(trace).gpu if number is None else activities_of_step_number(trace, number)
        if viewpoint.kernel > len(activities):
            raise UsageError(f"There is no kernel {viewpoint.kernel} there: {len(activities):,} ran on the GPU.")
        return int(activities[viewpoint.kernel - 1])
    if viewpoint.event < 0:
        return -1
    rows = np.flatnonzero(trace.slices.event == viewpoint.event)
    if len(rows) == 0:
        raise UsageError(f"There is no slice of event {viewpoint.event}: the view string is of another trace.")
    row = int(rows[0])
    if viewpoint.is_gap and gap_before(trace, row) < 0:
        raise UsageError(f"There is no gap before event {viewpoint.event}.")
    return row


def picture(trace: Trace, window: TimeRange, row: int) -> tuple[list[str], dict[str, str]]:
    """The lines of a window, an axis of time above them and a slice marked, and the meaning of their letters."""
    index = TimelineIndex(trace)
    index.show_idle(idle_blocks(trace))
    grid, colours = TimelineGrid(index, Layout(index)), palette(0, is_plain=True)
    shown = Window.over(window.start, window.length, CELLS - label_width(CELLS))
    height = min(grid.layout.wanted(MAX_LINES), MAX_LINES) + grid.axis_lines
    frame = grid.draw(View(shown, row), CELLS, height, colours)
    lines = ["".join(map(chr, letters)).rstrip() for letters in frame.chars.tolist()]
    drawn = set("".join(lines)) - {" "}
    legend = {entry.sample[0]: entry.words for entry in legend_entries(colours) if entry.sample[0] in drawn}
    return list(filter(None, lines)), legend


def longest_in(trace: Trace, window: TimeRange) -> Int64:
    """The slices that begin or end in a window, the longest first."""
    start, end = trace.slices.start, trace.slices.end
    begins, ends = (start >= window.start) & (start < window.end), (end > window.start) & (end <= window.end)
    rows = np.flatnonzero((begins | ends) & (trace.slices.kind != Kind.BOOKKEEPING))
    return rows[np.argsort(-trace.slices.dur[rows], kind="stable")]


def explained(trace: Trace, row: int) -> str | None:
    """Three sentences on what a slice is."""
    entry = explanation(trace.name_of(row), Kind(int(trace.slices.kind[row])))
    return None if entry is None else entry.text


def described(trace: Trace, row: int) -> dict[str, Any]:
    """Facts of a slice: name, kind, lane, start and duration in microseconds, and the event of its launch."""
    slices = trace.slices
    launch = int(links(trace).launch[row])
    return {
        "name": trace.names[int(slices.name[row])],
        "kind": Kind(int(slices.kind[row])).name.lower(),
        "lane": lane_label(trace.lanes[int(slices.lane[row])]),
        "start_us": int(slices.start[row]) / 1000,
        "dur_us": int(slices.dur[row]) / 1000,
        **({"view_launch": f"e{int(slices.event[launch])}"} if launch >= 0 else {}),
    }
