"""Navigation in a trace view: the first viewpoint, jumps and the way back, marks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.window import Window
from tracetui.idle.gap_context import gap_before
from tracetui.model.viewpoint import Viewpoint
from tracetui.ui.description.chain_lines import short_name
from tracetui.ui.trace.browsed_trace import BrowsedTrace
from tracetui.ui.trace.history import History, Mark, Marks
from tracetui.ui.trace.range_selection import RangeSelection
from tracetui.ui.trace.related_slices import (
    activities_of_step,
    busiest_stretch,
    first_step,
    has_gpu,
    kernel_from,
    longest_between,
)


class Navigator:
    """The viewpoints of one trace view."""

    def __init__(self, view: BrowsedTrace, marks: Marks | None = None) -> None:
        self.view = view
        self.history = History()
        self.marks = marks or Marks()
        self.ranges = RangeSelection(view)

    @property
    def here(self) -> Viewpoint:
        """Where the user is looking."""
        view = self.view
        event = int(view.trace.slices.event[view.selected]) if view.selected >= 0 else -1
        window = view.window
        ranges = self.ranges
        every = view.step is None and (bool(view.steps) or ranges.kept is not None)
        viewpoint = Viewpoint(
            None if ranges.is_listed else view.step,
            view.panes.pane,
            event,
            every_step=every and not ranges.is_listed,
            steps_by=view.trace.steps_by,
            is_gap=view.gap >= 0,
            time_range=ranges.kept,
        )
        if window is None:
            return viewpoint
        length = window.end_ns(view.lanes.cells) - window.start_ns
        return replace(viewpoint, start_ns=window.start_ns, length_ns=length)

    def leave(self, to_part: bool = False) -> None:
        """Remember this viewpoint before a jump, and the focus before one to another part of the screen."""
        part = self.view.focused_part()[1] if to_part else ""
        self.history.leave(replace(self.here, part=part))

    def back(self) -> bool:
        """Undo the last jump; False where none led away from here."""
        viewpoint = self.history.back(replace(self.here, part=self.view.focused_part()[1]))
        if viewpoint is not None:
            self.visit(viewpoint)
            if viewpoint.part:
                self.view.focus_part(viewpoint.part)
        return viewpoint is not None

    def visit(self, viewpoint: Viewpoint) -> None:
        """Go to a viewpoint; fields that it leaves open stay as they are."""
        view = self.view
        if viewpoint.pane is not None:
            view.panes.open_tab(viewpoint.pane)
        row = self._row_of(viewpoint)
        gap = gap_before(view.trace, row) if viewpoint.is_gap else -1
        if gap >= 0:
            view.select_gap(gap)
        elif row >= 0:
            view.select(row)
        if viewpoint.every_step:
            view.step = None
        elif viewpoint.step in view.steps and viewpoint.steps_by in ("", view.trace.steps_by):
            view.step = viewpoint.step
        self.ranges.visit(viewpoint.time_range, viewpoint.lists_range)
        if viewpoint.start_ns is not None:
            length = viewpoint.length_ns or (viewpoint.start_ns - view.window.start_ns if view.window else 1000.0)
            view.window = Window.over(viewpoint.start_ns, max(length, 1.0), view.lanes.cells)
        elif viewpoint.time_range is not None:
            self.ranges.fit()
        elif row >= 0 and gap < 0:
            view.lanes.reveal(row)

    def open(self, viewpoint: Viewpoint) -> None:
        """Show the first viewpoint: the requested one, in the middle step, or the busiest time range."""
        view = self.view
        number = viewpoint.step if viewpoint.step in view.steps else first_step(view.trace)
        if number is not None:
            view.show_step(number)
        else:
            start, end = busiest_stretch(view.trace)
            view.window = Window.fit(start, end, view.lanes.cells)
            kernel = kernel_from(view.trace, -1, 1, start)
            view.selected = kernel if kernel >= 0 else longest_between(view.trace, start, end)
            view.lanes.reveal(view.selected)
        if not has_gpu(view.trace):
            view.panes.open_tab("ops")
        self.visit(viewpoint)
        view.panes.start()
        if viewpoint.step is not None and viewpoint.step not in view.steps:
            known = (
                f"steps {view.steps[0]} to {view.steps[-1]}"
                if view.steps
                else "no recorded steps (B shows what can count as one)"
            )
            view.hints.notice(f"There is no step {viewpoint.step}: this trace has {known}.", warn=True)
        elif (viewpoint.event >= 0 or viewpoint.kernel > 0) and self._row_of(viewpoint) < 0:
            named = f"event {viewpoint.event}" if viewpoint.event >= 0 else f"kernel {viewpoint.kernel} in this step"
            view.hints.notice(f"There is no {named} in this trace: the view string is of another trace.", warn=True)
        elif viewpoint.is_gap and view.gap < 0:
            view.hints.notice(f"There is no gap before event {viewpoint.event}: the event itself is shown.", warn=True)

    def mark(self) -> None:
        """Mark this viewpoint, or remove its mark."""
        view = self.view
        name = shorten(short_name(view.trace, view.selected), 60) if view.selected >= 0 else "a time range"
        name = f"gap before {name}" if view.gap >= 0 else name
        was_set = self.marks.toggle(self.here, name)
        view.hints.notice(f"{'Marked' if was_set else 'No longer marked'}: {name}   (' lists the marks)")

    def go_to_mark(self, mark: Mark | None) -> None:
        """Visit a mark that was picked, None when the list was closed."""
        if mark is not None:
            self.leave()
            self.visit(mark.viewpoint)

    def _row_of(self, viewpoint: Viewpoint) -> int:
        """The slice that a viewpoint names, -1 for none."""
        trace = self.view.trace
        if viewpoint.event >= 0:
            rows = np.flatnonzero(trace.slices.event == viewpoint.event)
            return int(rows[0]) if len(rows) else -1
        if viewpoint.kernel > 0 and self.view.step is not None:
            activities = activities_of_step(trace, self.view.step)
            return int(activities[viewpoint.kernel - 1]) if viewpoint.kernel <= len(activities) else -1
        return -1
