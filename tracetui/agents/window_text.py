"""A window of time as text: its lanes as letters, what these mean, and its longest slices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracetui.drawing.timeline.grid import TimelineGrid, View, lane_label
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.legend import legend_entries
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.errors import UsageError
from tracetui.idle.gaps import gap_before, idle_blocks
from tracetui.idle.idleness import idleness
from tracetui.idle.scope_times import median_step, scope_windows
from tracetui.linking.links import links
from tracetui.linking.placement import activities_of_step_number, chosen
from tracetui.model.intervals import Int64, TimeRange
from tracetui.model.trace import Kind, Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.panes import part_named

CELLS, MAX_LINES = 120, 36
"""Width of a picture, names of lanes included, and its height at most."""
MAX_SLICES = 12
"""Slices that are listed of a window, the longest."""
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
    row = _row_of(trace, viewpoint)
    given = viewpoint.time_range
    if viewpoint.start_ns is not None:
        start = round(viewpoint.start_ns)
        given = TimeRange(start, start + max(round(viewpoint.length_ns or DEFAULT_NS), 1))
    if given is not None:
        # It says so where the range is outside of the trace.
        part_named(trace, None, given.text)
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


def _row_of(trace: Trace, viewpoint: Viewpoint) -> int:
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


@dataclass(frozen=True)
class WindowText:
    """What ran in a window."""

    trace: Trace
    window: TimeRange
    row: int = -1
    """The slice that is marked, -1 for none."""

    @cached_property
    def lines(self) -> list[str]:
        """The picture, an axis of time above it; no line stands for a lane on which nothing ran."""
        index = TimelineIndex(self.trace)
        index.show_idle(idle_blocks(self.trace))
        layout = Layout(index)
        grid, colours = TimelineGrid(index, layout), palette(0, is_plain=True)
        # From the axis on, which a label beside it would be taken for.
        window = Window.over(self.window.start, self.window.length, CELLS - 16)
        height = min(layout.wanted(MAX_LINES), MAX_LINES) + grid.axis_lines
        frame = grid.draw(View(window, self.row), CELLS, height, colours)
        lines = ["".join(map(chr, letters)).rstrip() for letters in frame.chars.tolist()]
        return [line for line in lines if line]

    @cached_property
    def legend(self) -> dict[str, str]:
        """Meaning of the letters that stand for slices."""
        drawn = set("".join(self.lines))
        every = {entry.sample[0]: entry.words for entry in legend_entries(palette(0, is_plain=True))}
        return {sign: words for sign, words in every.items() if sign in drawn and sign.strip()}

    @cached_property
    def _inside(self) -> Int64:
        """The slices that begin or end in the window, the longest first."""
        slices, window = self.trace.slices, self.window
        begins = (slices.start >= window.start) & (slices.start < window.end)
        ends = (slices.end > window.start) & (slices.end <= window.end)
        rows = np.flatnonzero((begins | ends) & (slices.kind != Kind.BOOKKEEPING))
        return rows[np.argsort(-slices.dur[rows], kind="stable")]

    @property
    def slices(self) -> int:
        """The number of slices that begin or end in the window."""
        return len(self._inside)

    @property
    def longest(self) -> list[int]:
        """The longest of these."""
        return [int(row) for row in self._inside[:MAX_SLICES]]

    def described(self, row: int) -> dict[str, Any]:
        """What a slice is: name, kind, lane, start and duration in microseconds, and the event of its launch."""
        slices = self.trace.slices
        launch = int(links(self.trace).launch[row])
        return {
            "name": self.trace.names[int(slices.name[row])],
            "kind": Kind(int(slices.kind[row])).name.lower(),
            "lane": lane_label(self.trace.lanes[int(slices.lane[row])]),
            "start_us": int(slices.start[row]) / 1000,
            "dur_us": int(slices.dur[row]) / 1000,
            **({"view_launch": f"e{int(slices.event[launch])}"} if launch >= 0 else {}),
        }
