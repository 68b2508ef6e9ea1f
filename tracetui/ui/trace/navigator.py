"""Navigation in a trace view: the first viewpoint, jumps and the way back, marks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from textual import on, work
from textual.widget import Widget

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.launch_line import launched_with
from tracetui.drawing.timeline.window import Window
from tracetui.errors import TracetuiError
from tracetui.files import numbered
from tracetui.frozen import frozen
from tracetui.idle.gaps import gap_before
from tracetui.idle.scope_times import median_step
from tracetui.idle.waits import idleness
from tracetui.linking.placement import activities_of_step_number, busiest_stretch
from tracetui.linking.steps import steps
from tracetui.model.intervals import TimeRange
from tracetui.model.quantities import count, duration, stretch
from tracetui.model.trace import LaneKind, Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.operators.costs import slices_listed_as
from tracetui.tables.occupancy import queries_for
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import ExportNotice, export_path, home_path, not_written, stem
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.selection import kernel_from, slices_named
from tracetui.ui.trace.slice_description import short_name
from tracetui.ui.widgets.bar import FocusedPart, HintsBar
from tracetui.ui.widgets.lanes import LanesView
from tracetui.ui.widgets.list_finder import ListFinder, Search, SearchLine
from tracetui.ui.widgets.searchable_view import SearchableView

# The interface of the trace view for navigation and search: selection, window, step, and the widgets.


class BrowsedTrace(Protocol):
    """A trace on screen."""

    trace: Trace
    has_gpu: bool
    """True where anything ran on a device."""
    steps: list[int]
    """Numbers of the steps, in order."""
    lanes: LanesView
    panes: PaneList
    search_line: SearchLine
    hints: HintsBar
    selected: int
    """Row of the selected slice, -1 for none."""
    gap: int
    """Index in `idleness(trace)` of the selected gap, -1 where a slice is selected."""
    window: Window | None
    """The stretch of time that the lanes show."""
    step: int | None
    """Number of the step that the panes list, None for all of them."""

    def show_sentence(self) -> None:
        """Show at the top the sentence about the range of time, or else the headline of the findings."""

    def select(self, row: int, jump: bool = False) -> None:
        """Select a slice; a jump can be undone."""

    def select_gap(self, gap: int, jump: bool = False) -> None:
        """Select a gap and fit it with its neighbours in the window; a jump can be undone."""

    def show_step(self, number: int) -> None:
        """List a step, fit it in the window and select what it launched first."""

    def focused_part(self) -> FocusedPart:
        """The part of the screen that has the focus, and its name."""

    def focus_part(self, name: str) -> None:
        """Give the focus to the part of a name."""


# A range of time in the trace view: drawn from the cursor, kept, listed by the panes, dropped.

MIN_SHOWN_SHARE = 0.1
"""Minimum share of the window that a range takes which is kept without being fitted."""
NO_RANGE = "There is no range of time: v begins one at the selection, and shift with the mouse draws one."


@frozen(eq=True)
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
        """True while the panes list only what ran in the range."""

    @property
    def marked(self) -> TimeRange | None:
        """The range that is on screen."""
        return self.open_range.time_range if self.open_range is not None else self.kept

    @property
    def sentence(self) -> str:
        """The sentence at the top of the screen about the range, empty where other things stand there."""
        if self.open_range is not None:
            marked = self.open_range.time_range
            how = f"moving extends it, {keys.RANGE} or {keys.ENTER} keeps it, esc drops it"
            return f"Range {stretch(marked.start, marked.end)} ({duration(marked.length)}): {how}."
        if self.kept is None or not self.is_listed:
            return ""
        words = f"Range {stretch(self.kept.start, self.kept.end)} ({duration(self.kept.length)})."
        return f"{self.view.panes.range_headline or words} {keys.IN_RANGE} lists everything."

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


# Viewpoints to return to: those left by jumps, and marked ones. Pure data, without a screen.

MAX_JUMPS = 200
"""Maximum jumps that can be undone."""


@dataclass
class History:
    """A stack of viewpoints to go back to; the oldest are dropped."""

    viewpoints: list[Viewpoint] = field(default_factory=list)

    def leave(self, viewpoint: Viewpoint) -> None:
        """Keep a viewpoint before jumping away; the same one twice in a row counts once."""
        last = self.viewpoints[-1] if self.viewpoints else None
        if last is None or viewpoint not in (last, replace(last, part="")):
            self.viewpoints.append(viewpoint)
            del self.viewpoints[:-MAX_JUMPS]

    def back(self, current: Viewpoint) -> Viewpoint | None:
        """Drop and return the last viewpoint that differs from the current one, None when there is none.

        The part with the focus counts where the jump led to another part.
        """
        while self.viewpoints:
            viewpoint = self.viewpoints.pop()
            if viewpoint != (current if viewpoint.part else replace(current, part="")):
                return viewpoint
        return None


@frozen(eq=True)
class Mark:
    """A viewpoint with a title that names the selection."""

    viewpoint: Viewpoint
    title: str


@dataclass
class Marks:
    """Marked viewpoints, in the order in which they were set."""

    marks: list[Mark] = field(default_factory=list)

    def without_steps(self) -> Marks:
        """The same marks where other steps count: their numbers mean something else there."""
        return Marks([replace(mark, viewpoint=replace(mark.viewpoint, step=None, steps_by="")) for mark in self.marks])

    def toggle(self, viewpoint: Viewpoint, title: str) -> bool:
        """Mark a viewpoint, or remove the mark of the same event (without one: the same viewpoint); True when set."""
        for index, mark in enumerate(self.marks):
            marked = mark.viewpoint
            is_of_same_event = marked.event == viewpoint.event >= 0 and marked.is_gap == viewpoint.is_gap
            if marked == viewpoint or is_of_same_event:
                del self.marks[index]
                return False
        self.marks.append(Mark(viewpoint, title))
        return True


class Navigator:
    """The viewpoints of one trace view."""

    def __init__(self, view: BrowsedTrace, marks: Marks | None = None) -> None:
        self.view = view
        self.history = History()
        self.marks = marks or Marks()
        self.ranges = RangeSelection(view)

    @property
    def here(self) -> Viewpoint:
        """The viewpoint of the user."""
        view = self.view
        event = int(view.trace.slices.event[view.selected]) if view.selected >= 0 else -1
        window = view.window
        ranges = self.ranges
        lists_all_steps = view.step is None and (bool(view.steps) or ranges.kept is not None)
        viewpoint = Viewpoint(
            None if ranges.is_listed else view.step,
            view.panes.pane,
            event,
            every_step=lists_all_steps and not ranges.is_listed,
            steps_by=view.trace.steps_by,
            is_gap=view.gap >= 0,
            time_range=ranges.kept,
        )
        if window is None:
            return viewpoint
        length = window.end_ns(view.lanes.cells) - window.start_ns
        return replace(viewpoint, start_ns=window.start_ns, length_ns=length)

    def leave(self, to_part: bool = False) -> None:
        """Keep this viewpoint before a jump, and the focus before one to another part of the screen."""
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
        """Show the first viewpoint: the requested one, the median step, or all of a trace without steps."""
        view = self.view
        number = viewpoint.step if viewpoint.step in view.steps else median_step(view.trace)
        if number is not None:
            view.show_step(number)
        else:
            start, end = busiest_stretch(view.trace)
            view.window = Window.fit(*view.trace.window, view.lanes.cells)
            view.selected = kernel_from(view.trace, -1, 1, start)
            if view.selected < 0:
                # The longest slice of a thread that starts in the stretch.
                slices = view.trace.slices
                on_thread = np.array([lane.kind == LaneKind.CPU for lane in view.trace.lanes], bool)
                rows = np.flatnonzero((slices.start >= start) & (slices.start < end) & on_thread[slices.lane])
                view.selected = int(rows[np.argmax(slices.dur[rows])]) if len(rows) else -1
            view.lanes.reveal(view.selected)
        if viewpoint.pane is None and (viewpoint.event >= 0 or viewpoint.kernel > 0 or viewpoint.length_ns):
            # A slice is asked for: it is read in the timeline.
            view.panes.open_tab("kernels" if view.has_gpu else "ops")
        self.visit(viewpoint)
        view.panes.start()
        if viewpoint.step is not None and viewpoint.step not in view.steps:
            known = (
                f"steps {view.steps[0]} to {view.steps[-1]}"
                if view.steps
                else f"no recorded steps ({keys.STEPS_BY} shows what can count as one)"
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

    def list_queries(self) -> None:
        """List the occupancy queries of the selected kernel and no others, or go from one of them to its kernel."""
        view = self.view
        kernel = launched_with(view.trace, view.selected).activity
        made = queries_for(view.trace, kernel).tolist() if kernel >= 0 else []
        name = shorten(short_name(view.trace, kernel), 40) if kernel >= 0 else ""
        if view.selected in made:
            view.select(kernel, jump=True)
        elif not made:
            view.hints.notice(f"No occupancy query was made for {name}." if name else "No kernel is selected.")
        else:
            self.leave(to_part=True)
            self.ranges.list_range(False)
            view.select(made[0])
            view.panes.list_only("occupancy", name, made)
            view.focus_part("list")
            view.hints.notice(f"Queries for {name}: {len(made)}. {keys.BACK} goes back, esc lists all queries.")

    def _row_of(self, viewpoint: Viewpoint) -> int:
        """The slice that a viewpoint names, -1 for none."""
        trace = self.view.trace
        if viewpoint.event >= 0:
            rows = np.flatnonzero(trace.slices.event == viewpoint.event)
            return int(rows[0]) if len(rows) else -1
        if viewpoint.kernel > 0 and self.view.step is not None:
            activities = activities_of_step_number(trace, self.view.step)
            return int(activities[viewpoint.kernel - 1]) if viewpoint.kernel <= len(activities) else -1
        return -1


# Searching in a trace view, where not only the list but also the lanes can be searched.


class TraceFinder(ListFinder):
    """The search of one trace view: of the lanes when they have the focus, else of the list."""

    panes: PaneList

    def __init__(self, view: BrowsedTrace, navigator: Navigator) -> None:
        super().__init__(view.panes, view.search_line, view.hints)
        self.view, self.navigator = view, navigator
        self._before = Viewpoint()
        """The viewpoint from which a search began."""

    def go_into(self, name: str) -> bool:
        """Show the slices behind a row that groups by name, in the lanes; False where there are none."""
        rows = slices_listed_as(self.view.trace, name)
        if len(rows) == 0:
            return False
        self.navigator.leave()
        self.search = Search(name, in_lanes=True, hits=rows)
        self._show(self.search.go(self._first_in_step(rows)), jump=False)
        self.hints.notice(
            f"{shorten(clean(name), 40)}   {self.search.words}   {keys.NEXT_MATCH} {keys.PREVIOUS_MATCH} next and "
            f"previous, {keys.BACK} returns"
        )
        return True

    def open(self, purpose: str) -> None:
        """Start to type; the viewpoint that a search jumps away from is kept."""
        self._before = self.navigator.here
        super().open(purpose)

    def _report(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and len(self.search.hits):
            self.navigator.history.leave(self._before)
        super()._report(message)

    def _new_search(self) -> Search:
        return Search("", self.view.lanes.has_focus, cursor=self.panes.view.cursor)

    def _index_beside(self, direction: int) -> int:
        return self.search.index + direction if self.search.in_lanes else super()._index_beside(direction)

    def _searched(self) -> Widget:
        in_lanes = self.line.purpose == "search" and self.search.in_lanes
        return self.view.lanes if in_lanes else super()._searched()

    def _filtered(self) -> None:
        panes = self.panes
        if not panes.groups_names and not panes.view.located:
            self.view.select(panes.view.slice_row)

    def _hits_of(self, text: str) -> int:
        if not self.search.in_lanes:
            return super()._hits_of(text)
        view = self.view
        self.search.hits = slices_named(view.trace, text)
        start = view.window.start_ns if view.window is not None else 0.0
        return int(np.searchsorted(view.trace.slices.start[self.search.hits], start))

    def _return(self) -> None:
        if not self.search.in_lanes:
            self.panes.view.put_cursor(self.search.cursor)
        self.navigator.visit(self._before)

    def _show(self, hit: int | None, jump: bool) -> None:
        if hit is None:
            return
        if self.search.in_lanes:
            self.view.select(hit, jump)
            self.view.lanes.reveal(hit, zoom=True)
        else:
            if jump:
                self.navigator.leave()
            self.panes.view.put_cursor(hit)
            self.view.select(self.panes.view.slice_row)

    def _first_in_step(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
        number = self.view.step
        if number is None:
            return 0
        known = steps(self.view.trace)
        start = int(known.start[known.labelled(number)[0]])
        return int(np.searchsorted(self.view.trace.slices.start[rows], start))


# The commands of a trace view about its range of time.


class RangeCommands(SearchableView):
    """Draws, keeps, lists, cuts and drops the range of time of a trace view."""

    trace: Trace
    navigator: Navigator
    ranges: RangeSelection

    @property
    def can_clear(self) -> bool:
        """True where there is a level to go back from, a range of time among them."""
        return self.ranges.marked is not None or super().can_clear

    def action_clear(self) -> None:
        """Drop the range that is being drawn; else go back one level, the kept range being one."""
        is_next = self.ranges.open_range is not None or not (self.is_covered or self.is_searched)
        if not (is_next and self.ranges.drop()):
            super().action_clear()

    def action_range(self) -> None:
        """Begin a range of time, or keep the one that is being drawn."""
        if self.ranges.open_range is None:
            self.ranges.begin()
        else:
            self.action_keep_range()

    def action_keep_range(self) -> None:
        """Keep the range of time and show what ran in it."""
        self.navigator.leave(to_part=True)
        self.ranges.keep()
        self.action_tab("range")

    def action_in_range(self) -> None:
        """List only what ran in the range of time, or everything."""
        self.ranges.list_range(not self.ranges.is_listed)

    def action_cut_range(self) -> None:
        """Write the range of time as a trace of its own."""
        if self.ranges.kept is not None:
            self.notice("Writing the range of time ...")
            self._write_range(self.ranges.kept)

    @work(thread=True, exclusive=True, group="cut")
    def _write_range(self, time_range: TimeRange) -> None:
        notice = write_range(self.trace, time_range)
        self.app.call_from_thread(self.notice, *notice)

    @on(LanesView.RangeMoved)
    def _move_range(self) -> None:
        self.ranges.move_end()

    @on(LanesView.RangeDrawn)
    def _draw_range(self, message: LanesView.RangeDrawn) -> None:
        self.ranges.draw(message.start, message.end)
        if message.is_done:
            self.action_keep_range()


def write_range(trace: Trace, time_range: TimeRange) -> ExportNotice:
    """Write what is open in a range of time as a trace among the exports, where no file is replaced."""
    # What writes traces is needed only once one is written.
    from tracetui.writing.formats import part_of, suffix_of
    from tracetui.writing.output import output
    from tracetui.writing.selection import Wanted

    name = f"{stem(trace.label)}-{time_range.text}{suffix_of(trace)}.gz"
    try:
        path = next(free for free in numbered(export_path(name)) if not free.exists())
        cut = part_of(trace, Wanted(window=(float(time_range.start), float(time_range.end))))
        with output(str(path)) as sink:
            kept = cut.write(sink)
    except TracetuiError as error:
        return f"The range could not be written: {error}", True
    except OSError as error:
        return not_written("The range", error)
    return f"{count(kept.events)} of {count(trace.events)} events written to {home_path(path)}", False
