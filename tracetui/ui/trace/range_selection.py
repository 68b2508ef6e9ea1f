"""A range of time in the trace view: drawn from the cursor, kept, listed by the panes, dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracetui.drawing.timeline.window import Window
from tracetui.idle.idleness import idleness
from tracetui.model.quantities import duration
from tracetui.model.time_range import TimeRange
from tracetui.ui.trace.browsed_trace import BrowsedTrace

MIN_SHOWN_SHARE = 0.1
"""Minimum share of the window that a range takes which is kept without being fitted."""
NO_RANGE = "There is no range of time: v begins one at the selection, and shift with the mouse draws one."


@dataclass(frozen=True)
class OpenRange:
    """A range that is being drawn: it holds what it began with, and where the cursor is."""

    start: TimeRange
    """The slice, gap or cell at which it began."""
    end: TimeRange
    """The one where the cursor is, before or behind that."""

    @property
    def time_range(self) -> TimeRange:
        """From the earlier start to the later end."""
        return TimeRange(min(self.start.start, self.end.start), max(self.start.end, self.end.end))

    def moved(self, by: int, limits: tuple[int, int]) -> OpenRange:
        """The range whose end on the side of the cursor is moved by a time in ns, as far as the trace goes."""
        edge = self.end.start if self.end.start < self.start.start else self.end.end
        moment = min(max(edge + by, limits[0]), limits[1])
        return replace(self, end=TimeRange(min(moment, self.start.end), max(moment, self.start.start)))


class RangeSelection:
    """The range of time of one trace view."""

    def __init__(self, view: BrowsedTrace) -> None:
        self.view = view
        self.open_range: OpenRange | None = None
        """The range that is being drawn."""
        self.kept: TimeRange | None = None
        """The range that was kept."""
        self.is_listed = False
        """Whether the panes list only what ran in the range."""

    @property
    def marked(self) -> TimeRange | None:
        """The range that is on screen."""
        return self.open_range.time_range if self.open_range is not None else self.kept

    @property
    def sentence(self) -> str:
        """What stands at the top of the screen about the range, empty where other things do."""
        if self.open_range is not None:
            marked = self.open_range.time_range
            keys = "moving extends it, v or enter keeps it, esc drops it"
            return f"Range of {duration(marked.length)}, {marked.text}: {keys}."
        if self.kept is None or not self.is_listed:
            return ""
        told = self.view.panes.range_headline
        words = f" {told}" if told else ""
        return f"Lists hold what ran in {self.kept.text}; W lists everything.{words}"

    def begin(self) -> None:
        """Begin a range at the selected slice or gap, or in the middle of the window."""
        self.view.lanes.take_range_moves()
        here = self._cursor()
        self._set(OpenRange(here, here))

    def follow_selection(self) -> None:
        """Extend an open range to the selected slice or gap."""
        if self.open_range is not None:
            self._set(replace(self.open_range, end=self._cursor()))

    def move_end(self) -> None:
        """Move the end of an open range as far as the timeline was panned."""
        by = self.view.lanes.take_range_moves()
        if self.open_range is not None and by:
            self._set(self.open_range.moved(by, self.view.lanes.reach))

    def draw(self, start: TimeRange | None, end: TimeRange) -> None:
        """Draw a range with the mouse, from a cell or from where one began already."""
        if start is not None:
            self._set(OpenRange(start, end))
        elif self.open_range is not None:
            self._set(replace(self.open_range, end=end))

    def keep(self) -> None:
        """Keep the open range, and list what ran in it."""
        # In a burst of keys what the timeline did may not have been heard of yet.
        self.move_end()
        if self.view.lanes.selected != self.view.selected:
            self.follow_selection()
        if self.open_range is not None:
            self.kept, self.is_listed = self.open_range.time_range, True
            self._set(None)
            self._bring_on_screen(self.kept)

    def visit(self, time_range: TimeRange | None, is_listed: bool) -> None:
        """Mark a range, or none but what is marked, and list what ran in it or everything."""
        self.kept = self.kept if time_range is None else time_range
        self.is_listed = is_listed and self.kept is not None
        self._set(None)

    def list_range(self, is_listed: bool) -> None:
        """List only what ran in the range, or everything."""
        self.is_listed = is_listed
        self._show()

    def drop(self) -> bool:
        """Drop the open range, else the kept one; False where there is none."""
        if self.marked is None:
            return False
        if self.open_range is None:
            self.kept, self.is_listed = None, False
        self._set(None)
        return True

    def fit(self) -> None:
        """Show all of the range."""
        if self.marked is not None:
            self.view.window = Window.fit(self.marked.start, self.marked.end, self.view.lanes.cells, 0.1)

    def _bring_on_screen(self, kept: TimeRange) -> None:
        """Fit a range that is partly outside of the window, or too narrow to be seen."""
        window, cells = self.view.window, self.view.lanes.cells
        if window is None:
            return
        is_inside = window.start_ns <= kept.start and kept.end <= window.end_ns(cells)
        if not is_inside or kept.length < MIN_SHOWN_SHARE * cells * window.ns_per_cell:
            self.fit()

    def _set(self, open_range: OpenRange | None) -> None:
        self.open_range = open_range
        self._show()

    def _show(self) -> None:
        view = self.view
        view.lanes.time_range, view.lanes.is_range_open = self.marked, self.open_range is not None
        view.panes.list_range(self.kept, self.is_listed)
        view.show_sentence()

    def _cursor(self) -> TimeRange:
        """The time of the selected gap or slice, else of the middle of the window."""
        view, row = self.view, self.view.lanes.selected
        if view.gap >= 0 and row == view.selected:
            idle = idleness(view.trace)
            return TimeRange(int(idle.start[view.gap]), int(idle.end[view.gap]))
        if row >= 0:
            start, end = int(view.trace.slices.start[row]), int(view.trace.slices.end[row])
            return TimeRange(start, max(end, start + 1))
        middle = round(view.window.moment_at(view.lanes.cells // 2)) if view.window is not None else 0
        return TimeRange(middle, middle + 1)
