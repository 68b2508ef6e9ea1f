"""The timeline: time axis, lanes with their slices, and the keys and the mouse that move about in it.

`tracetui.drawing` decides what is drawn; this widget handles keys and mouse. It changes its own window and selection
at once and informs its parent, so that a key is answered without a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import (
    Click,
    MouseDown,
    MouseEvent,
    MouseMove,
    MouseScrollDown,
    MouseScrollLeft,
    MouseScrollRight,
    MouseScrollUp,
    MouseUp,
)
from textual.message import Message
from textual.reactive import reactive

from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.grid import ShadedGap, Stretch, TimelineGrid, View, label_width
from tracetui.drawing.timeline.launch_line import ALONE_MARGIN, following, framed_next
from tracetui.drawing.timeline.layout import Shows
from tracetui.drawing.timeline.raster import MANY
from tracetui.drawing.timeline.window import Window
from tracetui.model.intervals import TimeRange
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.surface import Surface

ZOOM_FACTOR = 1.6
"""Factor by which one key, or wheel notch with ctrl, magnifies."""

LINES_PER_NOTCH = 3
"""Lines by which one wheel notch scrolls."""

PANS_PER_WIDTH = 6
"""Key presses that pan by the width of the window."""

MAX_REVEALED = 8
"""Maximum highlighted slices whose rows are scrolled into sight."""


def timeline_commands(*hinted: str) -> list[Binding]:
    """Commands for the timeline from any part of the screen; `hinted` are those for the key hint line."""

    def hint(words: str) -> str:
        return words if words in hinted else ""

    return [
        command(keys.ZOOM_IN, "zoom(1)", "Zoom in", "Around the selection, or the middle.", hint("zoom")),
        command(keys.ZOOM_OUT, "zoom(-1)", "Zoom out", "Around the selection, or the middle.", hint("zoom")),
        command(keys.PAN_LEFT, "pan(-1)", "Pan left", "Earlier, by a sixth of the window."),
        command(keys.PAN_RIGHT, "pan(1)", "Pan right", "Later, by a sixth of the window."),
        command(
            keys.FIT, "fit_selection", "Fit the selection", "With its launch and operator; again it alone.", hint("fit")
        ),
        command(keys.FIT_ALL, "fit_trace", "Fit the trace", "Shows all of it; in a comparison the steps."),
        command(keys.NEXT_SAME, "same(1)", "Next slice of this name", "On any lane of this kind.", hint("same")),
        command(
            keys.PREVIOUS_SAME, "same(-1)", "Previous slice of this name", "On any lane of this kind.", hint("same")
        ),
        command(keys.PIN, "pin", "Pin the lane", "Keeps it at the top of the timeline; again lets go of it."),
        command(keys.MEASURE, "measure", "Set a measuring point", "At the selection; the axis shows the distance."),
        command(
            keys.FOLD,
            "fold",
            "Fold the lane",
            "One row, some, or all; else the quiet lanes.",
            hint("fold"),
        ),
    ]


class LanesView(Surface, can_focus=True):
    """The lanes of one trace."""

    HELP_WHERE = "lanes"
    DRAWS_RANGES: ClassVar[bool] = True
    """True where the mouse draws a range of time, with shift; else it pans."""
    SHOWS_LAUNCHES: ClassVar[bool] = True
    """True where the window follows a kernel together with its launch, and a line joins these."""

    DEFAULT_CSS = """
    LanesView { height: 1fr; min-height: 3; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.LEFT, "pan(-1)", "Earlier", "By a sixth of the window.", "pan"),
        command(keys.RIGHT, "pan(1)", "Later", "By a sixth of the window.", "pan"),
        *timeline_commands("zoom", "fit", "same", "fold"),
        command(keys.DOWN, "lane(1)", "Row below", "The nearest slice on the next row that has one.", "row"),
        command(keys.UP, "lane(-1)", "Row above", "The nearest slice on the row above that has one.", "row"),
        command(
            keys.NEXT, "slice(1)", "Next slice", "On this row of the thread or stream; of a gap the next one.", "slice"
        ),
        command(
            keys.PREVIOUS,
            "slice(-1)",
            "Previous slice",
            "On this row of the thread or stream; of a gap the one before.",
            "slice",
        ),
        command(keys.FIRST, "end_of_row(-1)", "First slice", "On this row of the thread or stream."),
        command(keys.LAST, "end_of_row(1)", "Last slice", "On this row of the thread or stream."),
    ]

    window: reactive[Window | None] = reactive(None, repaint=False, init=False)
    """The stretch of time on screen; None before anything is shown."""
    selected: reactive[int] = reactive(-1, repaint=False, init=False)
    """Row of the selected slice, -1 for none."""
    gap: reactive[ShadedGap | None] = reactive(None, repaint=False, init=False)
    """The gap that is selected, in which case `selected` is the slice that ends it."""
    time_range: reactive[TimeRange | None] = reactive(None, repaint=False, init=False)
    """The range of time that is marked."""
    highlighted: reactive[frozenset[int]] = reactive(frozenset(), repaint=False, init=False)
    """Rows of the slices that belong with the selected one."""
    mark_ns: reactive[int | None] = reactive(None, repaint=False, init=False)
    """The measuring point."""
    origin_ns: reactive[int] = reactive(0, repaint=False, init=False)
    """The moment that the axis calls 0."""
    origin: reactive[str] = reactive("", repaint=False, init=False)
    """Name of that moment."""

    @dataclass
    class Selected(Message):
        """The user selected a slice here."""

        row: int
        lanes: LanesView
        is_gap: bool = False
        """True for the gap before that slice."""

        @property
        def control(self) -> LanesView:
            """The lanes, for `@on` selectors."""
            return self.lanes

    @dataclass
    class GapAsked(Message):
        """The user wants the gap after (1) or before (-1) the selected one."""

        direction: int

    class Jumping(Message):
        """The user goes elsewhere by a key from which `backspace` is to lead back; posted before anything moved."""

    @dataclass
    class Panned(Message):
        """The window changed by a key, the mouse or `reveal`."""

        window: Window

    class RangeMoved(Message):
        """The end of the range that is being drawn moves, see `take_range_moves`."""

    @dataclass
    class RangeDrawn(Message):
        """The user draws a range with the mouse."""

        start: TimeRange | None
        """Start in ns, None for the range that is being drawn already."""
        end: TimeRange
        """The time of the cell under the mouse."""
        is_done: bool = False

    class Folded(Message):
        """A lane was folded or unfolded, so that another height may suit the lanes."""

    def __init__(self, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._grid: TimelineGrid | None = None
        self._width = 0
        self._drawn_marks: frozenset[int] = frozenset()
        self._drawn_selected = -1
        self._framed_scale = 0.0
        """Nanoseconds per cell that `follow` chose last; any other scale is the user's."""
        self._inside: tuple[Stretch, Stretch] | None = None
        self._grip: tuple[int, int, Window] | None = None
        self._is_on_slice = False
        """True where the last click selected a slice."""
        self._dragged = False
        self._range_start: TimeRange | None = None
        """Moment at which the mouse began to draw a range."""
        self.is_range_open = False
        """True while a range is being drawn, which panning and clicks extend."""
        self._range_moves = 0

    @property
    def cells(self) -> int:
        """Width of the tracks; before the first layout that of the whole screen."""
        width = self.size.width or self.app.size.width
        return max(width - label_width(width), 1)

    def show_grid(self, grid: TimelineGrid) -> None:
        """Show a trace as a grid arranges it; the window and the selection are the parent's to set."""
        self._grid = grid
        self.selected, self.highlighted, self.mark_ns, self.window, self.gap = -1, frozenset(), None, None, None
        self.time_range = None
        self.changed()

    @property
    def reach(self) -> tuple[int, int]:
        """The stretch of time in ns that the window stays near: all of the trace."""
        return self._grid.timeline_index.trace.window if self._grid is not None else (0, 1)

    def wanted_height(self, limit: int) -> int:
        """Lines that it takes to show the axis and every lane, at most `limit`."""
        if self._grid is None:
            return limit
        above = self._grid.axis_lines
        return above + self._grid.layout.wanted(max(limit - above, 1))

    def reveal(self, row: int, zoom: bool = False) -> None:
        """Scroll and pan as little as it takes to have a slice on screen.

        With `zoom`, also magnify when it is narrower than half a cell.
        """
        if self._grid is None or row < 0:
            return
        slices = self._grid.timeline_index.trace.slices
        begin, end = int(slices.start[row]), int(slices.end[row])
        current = self._current()
        window = current.showing(begin, end, self.cells, zoom)
        # A window that is moved for the slice shows as much of the trace as it can.
        self._move(window if window is current else window.without_void(*self.reach, self.cells))
        if self._grid.layout.reveal(row):
            self.changed()

    def follow(self, row: int) -> None:
        """Have a slice on screen with what launched it, wide enough to be seen; moves no more than that takes."""
        if self._grid is None or row < 0:
            return
        if not self.SHOWS_LAUNCHES:
            self.reveal(row)
            return
        current = self._current()
        keeps_scale = current.ns_per_cell != self._framed_scale
        window = following(self._grid.timeline_index.trace, row, current, self.cells, keeps_scale)
        if window.ns_per_cell != current.ns_per_cell:
            self._framed_scale = window.ns_per_cell
        self._move(window if window == current else window.without_void(*self.reach, self.cells))
        if self._grid.layout.reveal(row):
            self.changed()

    def uncover(self, row: int, unfold: bool) -> None:
        """Scroll the lanes, and unfold them if wanted, so that the row of a slice is on screen, without panning."""
        if self._grid is not None and row >= 0 and self._grid.layout.reveal(row, unfold):
            self.changed()

    def draw(self, last: Frame | None) -> Frame | None:
        """The whole grid, or a copy of the last one with the lines of the selection drawn anew."""
        if self._grid is None:
            return None
        width, height = self.size
        view = View(
            self._current(), self.selected, self.highlighted, self.mark_ns, self.origin_ns, self.origin, self.has_focus
        )
        marked = None if self.time_range is None else (self.time_range.start, self.time_range.end)
        view = replace(view, inside=self._inside, gap=self.gap, time_range=marked)
        marks = self.highlighted | {self.selected} if self.selected >= 0 else self.highlighted
        # The one that was selected may be highlighted still, in another colour.
        turned = {self._drawn_selected, self.selected} if self._drawn_selected != self.selected else set()
        if last is None or not self._grid.fits(height):
            frame = self._grid.draw(view, width, height, self.colours)
        else:
            frame = last.copy()
            changed = self._lines_of(((marks ^ self._drawn_marks) | turned) - {-1})
            if self.SHOWS_LAUNCHES:
                changed += [*self._grid.launch_lines(self._drawn_selected), *self._grid.launch_lines(self.selected)]
            self._grid.draw_lines(frame, {*changed, *self._grid.lines_with_values()}, view, self.colours)
            self._grid.draw_axis(frame, view, self.colours)
        if self.SHOWS_LAUNCHES:
            self._grid.draw_launch_line(frame, view, self.colours)
        self._drawn_marks, self._drawn_selected = marks, self.selected
        return frame

    def on_resize(self) -> None:
        """Go on showing the same stretch of time, and the lanes of the selection."""
        if self._grid is not None:
            self._grid.layout.resize(max(self.size.height - self._grid.axis_lines, 0))
            self._keep_in_sight()
        before, self._width = self._width, self.cells
        if self.window is not None and before not in (0, self._width):
            self._move(self.window.stretched(before, self._width))

    def watch_window(self, before: Window | None) -> None:
        """Everything moves; at another scale other rows have lines, and those of the selection stay in sight."""
        if self.window is not None and (before is None or before.ns_per_cell != self.window.ns_per_cell):
            self._keep_in_sight()
        self.changed()

    def watch_selected(self) -> None:
        """Only the lines of the old and the new selection are drawn again."""
        self.changed(everything=False)

    def watch_gap(self) -> None:
        """The shade crosses lanes."""
        self.changed()

    def watch_time_range(self) -> None:
        """The tint crosses every lane."""
        self.changed()

    def watch_highlighted(self) -> None:
        """Scroll to the highlighted slices, as far as the selected one stays on screen."""
        self._keep_in_sight()
        self.changed(everything=False)

    def watch_mark_ns(self) -> None:
        """The line of the measuring point crosses every lane."""
        self.changed()

    def watch_origin_ns(self) -> None:
        """The axis counts from elsewhere."""
        self.changed(everything=False)

    def on_focus(self) -> None:
        """The axis shows which part has the keys."""
        self.changed(everything=False)

    def on_blur(self) -> None:
        """The axis shows which part has the keys."""
        self.changed(everything=False)

    def action_pan(self, direction: int) -> None:
        """Pan by a part of the width."""
        cells = direction * max(self.cells // PANS_PER_WIDTH, 1)
        if self.is_range_open:
            self._range_moves += round(cells * self._current().ns_per_cell)
            self.post_before_redraw(self.RangeMoved())
        self._move(self._current().pan(cells))

    def action_zoom(self, direction: int) -> None:
        """Magnify or shrink about the selection."""
        self._zoom(direction, self._cursor_cell())

    def action_fit_trace(self) -> None:
        """Show all of the trace."""
        if self._grid is not None:
            self.post_message(self.Jumping())
            self._move(Window.fit(*self.reach, self.cells))

    def action_fit_selection(self) -> None:
        """Show the selected kernel with its launch and operator, and when that is done already it alone, or back."""
        if self._grid is not None and self.selected >= 0:
            self.post_message(self.Jumping())
            if self.gap is not None or not self.SHOWS_LAUNCHES:
                self._move(Window.fit(*self._selected_stretch(), self.cells, ALONE_MARGIN))
            else:
                self._move(framed_next(self._grid.timeline_index.trace, self.selected, self._current(), self.cells))

    def action_lane(self, direction: int) -> None:
        """Select the nearest slice on the next line that has one on screen."""
        if self._grid is None:
            return
        tracks = self._grid.layout.tracks
        own = self._grid.timeline_index.tracks_of(self.selected) if self.selected >= 0 else ()
        outside = -1 if direction > 0 else len(tracks)
        here = next((i for i, track in enumerate(tracks) if track in own), outside)
        self._select_on(tracks[here + 1 :] if direction > 0 else tracks[:here][::-1])

    def action_slice(self, direction: int) -> None:
        """Select the next or previous slice of the row or stream."""
        if self._grid is None:
            return
        if self.gap is not None:
            self.post_message(self.GapAsked(direction))
            return
        if self.selected < 0:
            layout = self._grid.layout
            self._select_on([*layout.device_tracks, *layout.tracks])
            return
        self._walk_to(self._grid.timeline_index.next_in_lane(self.selected, direction), direction)

    def action_end_of_row(self, direction: int) -> None:
        """Select the first (-1) or the last slice of the row or stream."""
        if self._grid is not None and self.selected >= 0:
            self.post_message(self.Jumping())
            self._select(self._grid.timeline_index.end_of_lane(self.selected, direction))

    def action_same(self, direction: int) -> None:
        """Select the next or previous slice of the same name."""
        if self._grid is not None and self.selected >= 0:
            self.post_message(self.Jumping())
            self._walk_to(self._grid.timeline_index.next_of_name(self.selected, direction), direction)

    def action_measure(self) -> None:
        """Put the measuring point at the start of the selection, or take it away from there."""
        if self._grid is None or self.selected < 0:
            self.mark_ns = None
            return
        moment = self._selected_stretch()[0]
        self.mark_ns = None if self.mark_ns == moment else moment

    def action_fold(self) -> None:
        """Fold or unfold the lane of the selection, or the first one."""
        if self._grid is not None:
            self._fold(self._grid.layout.lane_at(max(self._grid.layout.line_of(self.selected), 0)))

    def action_pin(self) -> None:
        """Pin the lane of the selection at the top, or unpin it."""
        if self._grid is not None and self.selected >= 0:
            self._grid.layout.pin(int(self._grid.timeline_index.trace.slices.lane[self.selected]))
            self.post_message(self.Folded())
            self._keep_in_sight()
            self.changed()

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take hold of the lanes."""
        if event.button == 1 and self._grid is not None:
            self._grip, self._dragged = (event.x, event.y, self._current()), False
            self._range_start = self._time_of(event.x) if event.shift and self.DRAWS_RANGES else None
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        """Drag them along."""
        if self._grip is not None and (self._dragged or event.x != self._grip[0]):
            self._dragged = True
            if self._range_start is not None:
                self.post_before_redraw(self.RangeDrawn(self._range_start, self._time_of(event.x)))
            else:
                self._move(self._grip[2].pan(self._grip[0] - event.x))

    def on_mouse_up(self, event: MouseUp) -> None:
        """End the drag; a press without one is a click."""
        grip, self._grip = self._grip, None
        start, self._range_start = self._range_start, None
        self.release_mouse()
        self._is_on_slice = False
        if grip is not None and not self._dragged:
            self._click(event.x, event.y)
        elif grip is not None and start is not None:
            self.post_message(self.RangeDrawn(start, self._time_of(event.x), is_done=True))

    def on_click(self, event: Click) -> None:
        """Fit the slice that was clicked twice."""
        if event.chain == 2 and self._is_on_slice:
            self.action_fit_selection()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up; zoom in with ctrl, pan with shift."""
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down; zoom out with ctrl, pan with shift."""
        self._wheel(event, 1)

    def on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        """Pan left."""
        event.stop()
        self.action_pan(-1)

    def on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        """Pan right."""
        event.stop()
        self.action_pan(1)

    def _wheel(self, event: MouseEvent, direction: int) -> None:
        event.stop()
        if event.ctrl:
            self._zoom(-direction, max(event.x - label_width(self.size.width), 0))
        elif event.shift:
            self.action_pan(direction)
        elif self._grid is not None:
            self._grid.layout.scroll(event.y - self._grid.axis_lines, direction * LINES_PER_NOTCH)
            self.changed()

    def _click(self, x: int, y: int) -> None:
        if self._grid is None:
            return
        number = y - self._grid.axis_lines
        left = label_width(self.size.width)
        lines = self._grid.layout.lines
        if not 0 <= number < len(lines):
            return
        if x < left or lines[number].shows == Shows.QUIET:
            self._fold(lines[number].lane)
            return
        begin, end = self._current().pan(x - left).edges(1).tolist()
        track, index = lines[number].track, self._grid.timeline_index
        row = index.slice_at(track, begin, end)
        if row >= 0 and index.idle_of(track) >= 0:
            self.post_message(self.Selected(row, self, is_gap=True))
        elif row < 0 and self.is_range_open:
            self.post_before_redraw(self.RangeDrawn(None, self._time_of(x)))
        else:
            self._is_on_slice = row >= 0
            self._select(row)

    def take_range_moves(self) -> int:
        """By how many ns the end of the range was moved since the last call, which may come before the message."""
        moves, self._range_moves = self._range_moves, 0
        return moves

    def _time_of(self, x: int) -> TimeRange:
        """The time of the cell in a column of the widget."""
        cell = min(max(x - label_width(self.size.width), 0), self.cells - 1)
        begin, end = self._current().pan(cell).edges(1).tolist()
        return TimeRange(begin, max(end, begin + 1))

    def _fold(self, lane: int) -> None:
        """Fold or unfold a lane; where there is nothing to fold, the quiet lanes."""
        if self._grid is not None:
            layout = self._grid.layout
            before = layout.lines
            if lane >= 0:
                layout.fold(lane)
            if layout.lines == before and layout.quiet:
                layout.toggle_quiet()
            self.post_message(self.Folded())
            self.changed()

    def _select(self, row: int) -> None:
        """Select a slice, bring it on screen and inform the parent; -1 leaves all as it is."""
        if row >= 0:
            self.post_before_redraw(self.Selected(row, self))
            self.gap = None
            self.reveal(row)
            self.selected = row

    def _walk_to(self, row: int, direction: int) -> None:
        """Select what comes next in a direction; -1 for nothing."""
        if row >= 0:
            self.post_before_redraw(self.Selected(row, self))
            self.gap = None
            self.follow(row)
            self.selected = row

    def _select_on(self, tracks: Iterable[int]) -> None:
        """Select the slice nearest to the cursor on the first of some tracks that has one in the window."""
        window = self._current()
        moment = window.moment_at(self._cursor_cell())
        row = next((row for track in tracks if (row := self._visible_near(track, moment)) >= 0), -1)
        self._select(row)

    def _visible_near(self, track: int, moment: float) -> int:
        """The slice of a track nearest to a moment if any part of it is in the window, else -1."""
        if self._grid is None or track < 0:
            return -1
        row = self._grid.timeline_index.nearest(track, moment)
        slices, window = self._grid.timeline_index.trace.slices, self._current()
        if row < 0 or slices.start[row] >= window.end_ns(self.cells) or slices.end[row] < window.start_ns:
            return -1
        return row

    def _keep_in_sight(self) -> None:
        """Scroll to the rows of what is highlighted, as far as the selected one stays on screen."""
        if self._grid is None or not self._grid.layout.height:
            return
        layout = self._grid.layout
        layout.see(self._current(), self.cells)
        moved = [layout.hold(self.highlighted)]
        moved += [layout.reveal(row, unfold=False) for row in sorted(self.highlighted)[:MAX_REVEALED]]
        moved.append(layout.reveal(self.selected, unfold=False))
        if any(moved):
            self.changed()

    def _zoom(self, direction: int, cell: float) -> None:
        self._move(self._current().zoom(ZOOM_FACTOR**direction, cell))

    def _cursor_cell(self) -> float:
        """The cell of the selection's middle where that is on screen, else the middle of the screen."""
        if self._grid is not None and self.selected >= 0:
            start, stop = self._selected_stretch()
            window = self._current()
            begin = max(float(start), window.start_ns)
            end = min(float(stop), window.end_ns(self.cells))
            if begin <= end:
                return window.position((begin + end) / 2) - 0.5
        return self.cells / 2

    def _selected_stretch(self) -> Stretch:
        """Start and end in ns of the selected slice or gap."""
        if self.gap is not None:
            return self.gap.on_device
        if self._grid is None:
            return 0, 1
        slices = self._grid.timeline_index.trace.slices
        return int(slices.start[self.selected]), int(slices.end[self.selected])

    def _current(self) -> Window:
        """The window, or all of the trace while there is none."""
        if self.window is not None:
            return self.window
        return Window.fit(*self.reach, self.cells)

    def _move(self, window: Window) -> None:
        """Show another window, kept near the trace, and inform the parent."""
        if self._grid is None:
            return
        window = window.within(*self.reach, self.cells)
        if window != self.window:
            self.post_before_redraw(self.Panned(window))
            self.window = window

    def _lines_of(self, rows: Iterable[int]) -> list[int]:
        """The lines on which slices stand."""
        if self._grid is None:
            return []
        timeline_index = self._grid.timeline_index
        rows = list(rows)
        tracks = {track for row in rows for track in timeline_index.tracks_of(row)}
        stand_ins = {self._grid.layout.line_of(row) for row in rows[:MANY]}
        return [i for i, line in enumerate(self._grid.layout.lines) if line.track in tracks or i in stand_ins]
