"""The controller of one trace: it holds the selection, the window and the step, and sets them in the parts.

Data goes down by assignment from the watchers here, events come up as messages of the parts. There is one
cursor: whatever part moved it, the list, the lanes and the details all follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import DescendantFocus
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.grid import TimelineGrid
from tracetui.drawing.timeline.launch_line import framed
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.errors import AnalysisFailed
from tracetui.idle.gaps import gap_before, idle_part_blocks, slices_in_gaps
from tracetui.idle.scope_times import times_in_words
from tracetui.idle.waits import idleness
from tracetui.linking.chains import follow, follow_back
from tracetui.linking.lines import SITES
from tracetui.linking.links import links
from tracetui.linking.placement import activities_of_step_number, step_labels, stretch_of_step
from tracetui.linking.step_kinds import kind_words
from tracetui.linking.step_sources import low_coverage, steps_label
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, TimeRange
from tracetui.model.results import guarded
from tracetui.model.table import Table
from tracetui.model.trace import GPU_WORK, Trace
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string
from tracetui.operators.ops import CAPTURED_OP
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.crash_safe_app import CrashSafeApp
from tracetui.ui.base.exports import copy_out, stem
from tracetui.ui.base.keys import command
from tracetui.ui.trace.line_commands import LineCommands, no_steps_here
from tracetui.ui.trace.navigator import NO_RANGE, Marks, Navigator, TraceFinder
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.pane_parts import GROUP_COMMANDS, PANE_COMMANDS
from tracetui.ui.trace.selection import (
    describe_gap,
    gap_beside,
    highlighted_with,
    highlighted_with_gap,
    kernel_from,
    shaded_gap,
    step_of,
    stretch_around,
)
from tracetui.ui.trace.slice_description import chain_of, describe, short_name
from tracetui.ui.widgets.bar import Bar, FocusedPart, SentenceBar, header_parts, step_parts
from tracetui.ui.widgets.details import WAITING_NOTE, Details
from tracetui.ui.widgets.lanes import LanesView, timeline_commands
from tracetui.ui.widgets.searchable_view import PART_COMMANDS, SEARCH_COMMANDS
from tracetui.ui.widgets.surface import Minimap
from tracetui.ui.widgets.table_view import TableView

if TYPE_CHECKING:
    from tracetui.ui.trace.flame_screen import FlamePlace

MIN_LIST_LINES = 14
"""Lines that the list keeps beside the details, with its titles, where lanes could use more than half."""

LATE_SECONDS = 0.5
"""Seconds after which the sentence about the step before goes, where the one about this step is not there."""

_COMMANDS: list[BindingType] = [
    command(keys.NEXT, "kernel(1)", "Next kernel", "In time order, over all streams; in Gaps the next gap.", "kernel"),
    command(
        keys.PREVIOUS, "kernel(-1)", "Previous kernel", "In time order, over all streams; in Gaps a gap.", "kernel"
    ),
    command(keys.PREVIOUS_STEP, "step(-1)", "Previous step", "Shows and lists that step.", "step"),
    command(keys.NEXT_STEP, "step(1)", "Next step", "Shows and lists that step.", "step"),
    command(keys.FOLLOW, "follow(1)", "Follow the link", "Kernel → launch → op → its forward op.", "follow"),
    command(keys.FOLLOW_BACK, "follow(-1)", "Follow the link back", "Forward op → backward op, launch → kernel."),
    command(keys.QUERIES, "queries", "Occupancy queries of the kernel", "These alone; of a query its kernel."),
    command(keys.BACK, "back", "Back to where you were", "Undoes the last jump."),
    *SEARCH_COMMANDS,
    command(keys.ALL_STEPS, "all_steps", "List all steps, or one", "Of all steps, or only of the selection's step."),
    command(
        keys.STEPS_BY, "steps_by", "What counts as a step", f"Lists everything that repeats; {keys.ENTER} chooses."
    ),
    command(keys.RANGE, "range", "Range of time", "Begins at the selection, and moving extends it.", "range"),
    command(keys.ENTER, "keep_range", "Keep the range", "The panes then list what ran in it."),
    command(keys.IN_RANGE, "in_range", "List only the range", "What ran in the range of time, or everything."),
    command(keys.CUT, "cut_range", "Cut the range", "Writes what is open in it as a smaller trace."),
    command(keys.MARK, "mark", "Mark this view", "Or remove the mark of the selection."),
    command(keys.MARKS, "marks", "List of marks"),
    *GROUP_COMMANDS,
    *PANE_COMMANDS,
    command(keys.FLAME, "flame", "Flame view", "Modules, operators and kernels by GPU, CPU or idle time.", "flame"),
    command(keys.DETAILS, "details", "Details of the selection", "On a narrow screen: in place of the list."),
    command(keys.COPY_ROW, "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command(keys.COPY_VIEW, "copy_view", "Copy the view string", "For --at: step, pane, selection and window."),
    command(keys.EXPORT, "export", "Export the pane", "The listed rows, to a CSV file and as Markdown."),
    *PART_COMMANDS,
    *timeline_commands(),
]
"""In the order of the help."""


class TraceView(LineCommands):
    """One trace on screen: header, minimap, steps, lanes, tabs with a list, details, key hints."""

    BINDINGS: ClassVar[list[BindingType]] = _COMMANDS

    panes: PaneList
    LIST_NOUNS = "pane", "pane"
    finder: TraceFinder
    selected: reactive[int] = reactive(-1, repaint=False, init=False)
    """Row of the selected slice, -1 for none."""
    window: reactive[Window | None] = reactive(None, repaint=False, init=False)
    """The stretch of time that the lanes show."""
    step: reactive[int | None] = reactive(None, repaint=False, init=False)
    """Number of the step that the panes list, None for all of them."""

    @dataclass
    class StepsPicked(Message):
        """The user chose what counts as a step."""

        name: str

    def __init__(
        self,
        trace: Trace,
        timeline_index: TimelineIndex,
        viewpoint: Viewpoint | None = None,
        marks: Marks | None = None,
    ) -> None:
        super().__init__(PaneList(trace))
        self.trace = trace
        self.timeline_index = timeline_index
        self.has_gpu = len(links(trace).gpu) > 0
        self.steps = step_labels(trace)
        """Numbers of the steps, in order."""
        self.lanes = LanesView()
        self.minimap, self.header, self.step_bar = Minimap(), Bar(id="header"), Bar(id="steps")
        self.headline = SentenceBar(id="headline")
        """The sentence about what holds back the step that is listed, or the trace."""
        self.navigator = Navigator(self, marks)
        self.ranges = self.navigator.ranges
        self.finder = TraceFinder(self, self.navigator)
        self._opening = viewpoint or Viewpoint()
        self._summary: Table | None = None
        self._steps_by, self._low_coverage = steps_label(trace), low_coverage(trace)
        """The source of the steps, and the share of the capture that they cover where that is small."""
        self.gap = -1
        """Index in `idleness(trace)` of the selected gap, -1 where a slice is selected; `selected` is what ends it."""
        self.before_sources: Viewpoint | None = None
        """The viewpoint before the list of what counts as a step moved the selection; None once anything else did."""
        self._was_in: Widget | None = None
        """The last of list and lanes that had the focus."""
        self._came_from: tuple[int, ...] = ()
        """The GPU activity that was selected last, and its launch."""
        self._flame_place: FlamePlace | None = None
        self._queries_asked: list[str] = []
        """What the flame view was left at."""
        self._is_idle_explained = False
        """True once the causes of idle time are known."""

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield self.header
        yield self.headline
        yield self.minimap
        yield self.step_bar
        yield self.lanes
        yield self.panes
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Hand out the data and go to the first view, before any key; lanes stretch it when they get their width."""
        self._show_header()
        self._show_steps()
        self.lanes.show_grid(TimelineGrid(self.timeline_index, Layout(self.timeline_index)))
        self.minimap.show(self.trace, self.timeline_index)
        self.navigator.open(self._opening)
        # Without a GPU the timeline has more to read than the operators beside it.
        in_timeline = not self.has_gpu and self.panes.pane != "overview"
        (self.lanes if in_timeline else self.panes.view).focus()

    def select(self, row: int, jump: bool = False) -> None:
        """Select a slice; a jump can be undone with backspace."""
        if row < 0:
            return
        if jump:
            self.navigator.leave()
        self._point_at(row)
        self.lanes.follow(row)

    def select_gap(self, gap: int, jump: bool = False) -> None:
        """Select a gap and fit it with its neighbours in the window; a jump can be undone with backspace."""
        if jump:
            self.navigator.leave()
        row = int(idleness(self.trace).after[gap])
        self._point_at(row, gap)
        if self._is_idle_explained:
            self.lanes.uncover(int(slices_in_gaps(self.trace)[gap]), unfold=jump)
        self.lanes.reveal(row)
        self.window = Window.fit(*stretch_around(self.trace, gap), self.lanes.cells)

    def _point_at(self, row: int, gap: int = -1) -> None:
        """Make a slice the selected one, or the gap that it ends."""
        is_other_kind = self.gap != gap and self.selected == row
        self.gap, self.before_sources = gap, None
        self.selected = row
        if is_other_kind:
            self._show_selection()

    def show_sentence(self) -> None:
        """Show at the top the sentence about the range of time, or else the headline of the findings."""
        sentence = self.ranges.sentence or self.panes.headline
        if sentence != self.headline.sentence:
            self.headline.sentence = sentence
            self.call_after_refresh(self.share_height)

    def watch_selected(self, row: int) -> None:
        """Everything follows the selection."""
        if self.gap >= 0 and int(idleness(self.trace).after[self.gap]) != row:
            self.gap = -1
        self._show_selection()

    def _show_selection(self) -> None:
        trace, row, gap = self.trace, self.selected, self.gap
        chain = chain_of(trace, row)
        if gap >= 0:
            is_explained = self._is_idle_explained
            self.lanes.gap = shaded_gap(trace, gap, self.timeline_index.band_of(row), is_explained)
            highlighted = highlighted_with_gap(trace, gap, is_explained)
            make_lines = partial(describe_gap, trace, gap, is_explained)
            # What the launch was in says nothing about the gap, but for the step.
            near = [row, *(each for each in chain if each in steps(trace).row)]
            names = near[:1]
        else:
            self.lanes.gap = None
            highlighted = highlighted_with(trace, row)
            make_lines = partial(describe, trace, row, chain)
            # Of all that an operator launched the list stays at the kernel from which it was gone to.
            came_from = [each for each in self._came_from if each in highlighted]
            near = names = [row, *came_from, *sorted(highlighted)[:20], *reversed(chain)] if row >= 0 else []
            if row >= 0 and trace.slices.kind[row] in GPU_WORK:
                self._came_from = row, int(links(trace).launch[row])
        self.lanes.selected = row
        self.lanes.highlighted = highlighted
        self.panes.details.explain(make_lines)
        number = step_of(trace, row)
        if self.step is not None and number is not None:
            self.step = number
        self.panes.follow(near, [trace.name_of(each) for each in names], gap >= 0)
        if self.ranges.open_range is not None:
            self.ranges.follow_selection()

    def watch_window(self, window: Window | None) -> None:
        """Lanes and minimap show the window."""
        self.lanes.window = window
        self.minimap.window = window

    def watch_step(self, step: int | None) -> None:
        """The panes list another step, and the axis counts from its start."""
        self.panes.step = step
        self.lanes.origin = f"step {step}" if step is not None else ""
        self.lanes.origin_ns = stretch_of_step(self.trace, step)[0] if step is not None else 0
        self._show_steps()
        self.set_timer(LATE_SECONDS, self._clear_headline)

    def _clear_headline(self) -> None:
        """Take the sentence about another step away, where that about this one takes its time."""
        if not self.ranges.sentence and not self.panes.is_built("findings"):
            self.headline.sentence = WAITING_NOTE

    @on(DescendantFocus)
    def _turn_details(self, event: DescendantFocus) -> None:
        """Have the details say what the part with the focus points at: the selection in the lanes, or a row."""
        if event.widget in (self.lanes, self.panes.view) and event.widget is not self._was_in:
            self._was_in = event.widget
            self.panes.details.turn_to_row(event.widget is not self.lanes)

    def focused_part(self) -> FocusedPart:
        """The part of the screen that the keys go to, and its name."""
        if self.lanes.has_focus:
            return self.lanes, "lanes"
        return super().focused_part()

    def focus_part(self, name: str) -> None:
        """Give the focus to the part of a name."""
        self.give_keys({"lanes": self.lanes, "details": self.panes.details}.get(name, self.panes.view))

    def on_resize(self) -> None:
        """Fit lines and lanes to the new size."""
        self.share_height()
        self._show_header()
        self._show_steps()
        self.hints.show_hints()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """True for a command that makes sense right now; none does while the screen is too small to see its effect."""
        if not super().check_action(action, parameters):
            return False
        if action in ("step", "all_steps"):
            return bool(self.steps)
        if action == "follow":
            return self.selected >= 0
        if action == "back":
            return bool(self.navigator.history.viewpoints)
        if action == "keep_range":
            return self.ranges.open_range is not None
        if action in ("in_range", "cut_range"):
            return self.ranges.kept is not None
        return True

    @property
    def timeline(self) -> LanesView:
        """The lanes, for a command about them: they are brought back where the overview has their room."""
        self.leave_overview()
        return self.lanes

    @property
    def parts(self) -> list[Widget]:
        """List, lanes, details."""
        return [self.panes.view, self.lanes, self.panes.details]

    def reason(self, action: str) -> str:
        """A sentence about a command that makes no sense right now."""
        if action in ("step", "all_steps"):
            return no_steps_here(self.trace)
        if action == "follow":
            return "Nothing is selected that has a link to follow."
        if action == "back":
            return "There is no jump to undo."
        if action in ("in_range", "cut_range"):
            return NO_RANGE
        if action == "keep_range":
            return keys.where_it_works(keys.ENTER.names.partition(",")[0], None, ("list", "details"))
        return super().reason(action)

    def action_kernel(self, direction: int) -> None:
        """Select the kernel before or after, or without a GPU the slice of the lane; of a filtered list its next."""
        self.leave_overview()
        if self.panes.lists_gaps and self.has_gpu:
            self._walk_gaps(direction)
            return
        arrangement = self.panes.arrangement
        is_part = bool(arrangement.filter or arrangement.group or self.ranges.is_listed)
        is_part &= not self.panes.groups_names
        if self.panes.pane == "kernels" and is_part:
            self.panes.view.action_move(direction)
            return
        if self.has_gpu:
            start = self.window.start_ns if self.window is not None else 0.0
            row = kernel_from(self.trace, self.selected, direction, start)
        else:
            row = self.timeline_index.next_in_lane(self.selected, direction) if self.selected >= 0 else -1
        if row < 0:
            self.notice(f"There is no {'kernel' if self.has_gpu else 'slice'} in that direction.")
        self.select(row)

    def _walk_gaps(self, direction: int) -> None:
        """Select the next gap of the list, or where gaps are not listed that of the device."""
        view = self.panes.view
        if not self.panes.lists_gaps:
            gap = gap_beside(idleness(self.trace).device, self.gap, direction)
        else:
            index = view.cursor + (direction if self.gap >= 0 and view.located else 0)
            is_listed = view.table is not None and view.table.slices is not None and 0 <= index < len(view.order)
            gap = -1
            if is_listed:
                view.put_cursor(index)
                gap = gap_before(self.trace, view.slice_row)
        if gap < 0:
            self.notice("There is no gap in that direction.")
        else:
            self.select_gap(gap)

    def action_step(self, direction: int) -> None:
        """Show the step before or after."""
        current = self.step if self.step is not None else step_of(self.trace, self.selected)
        index = self.steps.index(current) + direction if current in self.steps else 0
        if 0 <= index < len(self.steps):
            self.navigator.leave()
            self.show_step(self.steps[index])
        else:
            self.notice(f"This is the {'last' if direction > 0 else 'first'} step.")

    def show_step(self, number: int) -> None:
        """List a step, fit it in the window and select what it launched first."""
        start, end = stretch_of_step(self.trace, number)
        self.window = Window.fit(start, end, self.lanes.cells)
        self.step = number
        activities, trace_steps = activities_of_step_number(self.trace, number), steps(self.trace)
        self._point_at(int(activities[0] if len(activities) else trace_steps.row[trace_steps.labelled(number)[0]]))
        self.panes.details.turn_to_row(not self.lanes.has_focus)

    def action_all_steps(self) -> None:
        """List all steps, or only that of the selection; after a range of time all of them."""
        if self.ranges.is_listed:
            self.ranges.list_range(False)
            self.step = None
        elif self.step is not None:
            self.step = None
        else:
            self.step = step_of(self.trace, self.selected) or self.steps[0]

    def action_steps_by(self) -> None:
        """List what can count as a step."""
        self.navigator.leave(to_part=True)
        self.panes.list_step_sources(int(steps(self.trace).row[0]) if self.steps else -1)
        self.give_keys(self.panes.view)

    def pick_steps(self, name: str) -> None:
        """Ask for other steps."""
        self.post_message(self.StepsPicked(name))

    def action_follow(self, direction: int) -> None:
        """Go from a kernel to its launch, to the op, to its forward op or a kernel; or the other way."""
        here = self.selected
        row = (follow if direction > 0 else follow_back)(self.trace, here)
        name = shorten(short_name(self.trace, here), 40)
        if row < 0:
            self.notice(f"{name} has no link to follow.")
        self.select(row, jump=True)
        if row >= 0:
            down = direction > 0 and self.trace.slices.kind[row] in GPU_WORK
            first = f", the first GPU activity launched by {name}" if down else ""
            self.notice(f"Now at {shorten(short_name(self.trace, row), 60)}{first}.")

    def action_queries(self) -> None:
        """List the occupancy queries of the selected kernel, or go from one of them to its kernel."""
        self.navigator.list_queries()

    def action_back(self) -> None:
        """Undo the last jump."""
        if not self.navigator.back():
            # What was left is where the user is: a key was pressed that went nowhere.
            self.notice(self.reason("back"))

    def action_mark(self) -> None:
        """Mark this viewpoint, or unmark it."""
        self.navigator.mark()

    def action_marks(self) -> None:
        """Pick one of the marks to go to."""
        if not self.navigator.marks.marks:
            self.notice("There are no marks yet: m sets one.")
            return
        # Pickers are needed only once one is opened.
        from tracetui.ui.trace.marks import MarkPicker

        self.app.push_screen(MarkPicker(self.trace, self.navigator.marks.marks), self.navigator.go_to_mark)

    def action_copy_view(self) -> None:
        """Copy the view string of this viewpoint."""
        text = view_string(self.navigator.here)
        self.notice(*copy_out(self.app, text, "view.txt", text))

    def list_text(self, format: str, rows: Int64, of_list: bool) -> str:
        """Rows of the pane as `csv` or `md`, with what part of the trace they are of."""
        return self.panes.as_text(format, None if of_list else int(rows[0]), len(rows))

    def export_name(self) -> str:
        """The name of the files of an export: the trace, the pane, its grouping, and the steps that are listed."""
        panes, part = self.panes, self.panes.listed_part
        listed = "all" if part is None else f"range{part.text}" if isinstance(part, TimeRange) else f"step{part}"
        by = f"-by-{panes.arrangement.by}" if panes.arrangement.by else ""
        return f"{stem(self.trace.label)}-{panes.pane}{by}-{listed}"

    @on(LanesView.Selected)
    def _select_in_lanes(self, message: LanesView.Selected) -> None:
        gap = gap_before(self.trace, message.row) if message.is_gap else -1
        if gap >= 0:
            self.select_gap(gap, jump=True)
        else:
            self._point_at(message.row)

    @on(LanesView.GapAsked)
    def _select_gap_beside(self, message: LanesView.GapAsked) -> None:
        self._walk_gaps(message.direction)

    @on(LanesView.Jumping)
    def _leave(self) -> None:
        self.navigator.leave()

    @on(LanesView.Panned)
    def _pan(self, message: LanesView.Panned) -> None:
        # A window that was set here meanwhile is newer than the message.
        if message.window == self.lanes.window:
            self.window = message.window

    @on(PaneList.Measured)
    @on(LanesView.Folded)
    def _fit_lanes(self) -> None:
        self.share_height()

    @property
    def split_lines(self) -> tuple[int, int]:
        """Lines of the lanes, and of lanes and list together."""
        bars = (self.header, self.headline, self.step_bar, self.hints, self.minimap)
        return self.lanes.size.height, self.size.height - sum(bar.size.height for bar in bars)

    def share_height(self) -> None:
        """Give the lanes the lines that they need, half of the screen and what the list leaves at most."""
        room = self.split_lines[1]
        chosen = self.chosen_lines(room)
        wanted = self.lanes.wanted_height(chosen or max(room // 2, room - max(self.panes.longest + 2, MIN_LIST_LINES)))
        self.lanes.styles.height = chosen or wanted
        self.share_width()

    @on(Minimap.Clicked)
    def _centre(self, message: Minimap.Clicked) -> None:
        if self.window is not None:
            self.navigator.leave()
            self.window = self.window.pan(self.window.cell_of(message.ns) - self.lanes.cells // 2)

    @on(TableView.RowHighlighted)
    def _select_in_list(self, message: TableView.RowHighlighted) -> None:
        if isinstance(message, TableView.RowChosen) or self.panes.pane == "overview":
            return
        if self.panes.pane == "health":
            # A check is about the trace: reading the list leaves the lanes where they are.
            return
        gap = self._gap_of(message)
        if gap >= 0:
            self.select_gap(gap)
        elif message.table is not None and "steps_by" in message.table:
            before = self.before_sources or self.navigator.here
            self.select(message.slice_row)
            self.before_sources = before
        else:
            self.select(message.slice_row)

    @on(TableView.RowChosen)
    def _go_into(self, message: TableView.RowChosen) -> None:
        if self.ranges.open_range is not None:
            self.action_keep_range()
            return
        if self.panes.pane == "overview":
            self._enter_overview()
            return
        table = message.table
        if table is None or table is not message.view.table:
            # Another pane was opened in the same burst of keys.
            return
        if "steps_by" in table:
            self.post_message(self.StepsPicked(str(table["steps_by"].cell(message.row))))
            return
        if self.panes.open_group(message.row) or self.panes.toggle_row(message.row):
            return
        # What was captured into a graph is not in this trace: only its kernels are.
        is_captured = "kind" in table and table["kind"].cell(message.row) == CAPTURED_OP
        by_name = not is_captured and not {"input_shapes", *SITES}.intersection(table.column_names)
        is_of_slices = self.panes.pane in ("ops", "views") and by_name
        if is_of_slices and self.finder.go_into(str(table.columns[0].cell(message.row))):
            return
        if self.panes.pane == "steps":
            self.navigator.leave()
            self.show_step(int(str(table["step"].cell(message.row))))
        elif self.panes.pane == "requests":
            self._go_to_request(table, message.row)
        elif (gap := self._gap_of(message)) >= 0:
            self._go_to(message.slice_row, gap)
        elif message.slice_row >= 0:
            self._go_to(message.slice_row)
        elif is_of_slices:
            name = shorten(clean(str(table.columns[0].cell(message.row))), 40)
            self.notice(f"{name} stands for events that take no time: no lane has a slice of it.")

    def _go_to_request(self, table: Table, row: int) -> None:
        """Show the first step that served a request, or say why there is none."""
        # Few traces have requests.
        from tracetui.serving.request_table import reason_of_no_steps

        first = table["first_step"].cell(row)
        if first is None:
            self.notice(clean(reason_of_no_steps(self.trace, row)))
            return
        self.navigator.leave(to_part=True)
        self.show_step(int(str(first)))

    def _go_to(self, row: int, gap: int = -1) -> None:
        """Go to a slice, or to the gap that it ends, in the timeline."""
        self.navigator.leave(to_part=True)
        if self.panes.pane == "overview":
            # The lanes have no width before they are laid out.
            self.leave_overview()
            self.call_after_refresh(self._show_slice, row, gap)
        else:
            self._show_slice(row, gap)

    def _show_slice(self, row: int, gap: int) -> None:
        if gap >= 0:
            self.select_gap(gap, jump=True)
        else:
            self.select(row)
            cells = self.lanes.cells
            self.window = framed(self.trace, row, cells, 1.0).without_void(*self.lanes.reach, cells)
        self.give_keys(self.lanes)

    def _gap_of(self, message: TableView.RowHighlighted) -> int:
        """The gap that a row of the list stands for, -1 for none."""
        table = message.table
        if table is None or message.row < 0:
            return -1
        jump = table["jump"].cell(message.row) if self.panes.pane == "findings" and "jump" in table else None
        # In the pane of gaps a row stands for the gap before its slice, unless it is one of a stream.
        is_gap = self.panes.pane == "gaps" and self.panes.arrangement.by != "stream"
        if is_gap or (jump and read_view_string(str(jump)).is_gap):
            return gap_before(self.trace, message.slice_row)
        return -1

    def action_flame(self) -> None:
        """Show the flame view of what is listed."""
        # The view is needed only once it is asked for.
        from tracetui.tables.flame import IDLE
        from tracetui.ui.trace.flame_screen import FlamePlace, FlameScreen

        def go(result: tuple[int, str] | None) -> None:
            row, measure = result if result is not None else (-1, "")
            if row >= 0:
                self._go_to(row, gap_before(self.trace, row) if measure == IDLE else -1)

        self._flame_place = self._flame_place or FlamePlace()
        self.app.push_screen(FlameScreen(self.trace, self.panes.part, self._flame_place), go)

    def show_sql(self, query: str) -> None:
        """Show the screen of queries, and answer one that was typed already."""
        # The screen is needed only once it is asked for.
        from tracetui.ui.trace.sql_screen import SqlScreen

        def go(row: int | None) -> None:
            if row is not None and row >= 0:
                self._go_to(row)

        self.app.push_screen(SqlScreen(self.trace, self._queries_asked, query), go)

    def show_verify(self, alternatives: list[str]) -> None:
        """Show the screen that times the operator of the selection again, else the longest of its step."""
        # It loads what records.
        from tracetui.ui.trace.verify_screen import VerifyScreen

        step = self.step if self.step is not None else step_of(self.trace, self.selected)
        self.app.push_screen(VerifyScreen(self.trace, self.selected, step, alternatives))

    @on(Details.Chosen)
    def _jump(self, message: Details.Chosen) -> None:
        self.select(message.row, jump=True)

    @on(PaneList.Opened)
    def _tab_opened(self) -> None:
        # Until there is something to draw the timeline stays.
        is_drawn = self.panes.pane == "overview" and self.panes.overview.is_picture
        if self.has_class("-overview") != is_drawn:
            self.set_class(is_drawn, "-overview")
            self.call_after_refresh(self.share_height)
        self.hints.show_hints()

    def leave_overview(self) -> None:
        """Show the timeline with the kernels, or without a GPU the operators, where the overview has its room."""
        if self.panes.pane == "overview":
            self.panes.open_tab("kernels" if self.has_gpu else "ops")
            self.remove_class("-overview")

    def _enter_overview(self) -> None:
        """Go into the part of the overview under the cursor."""
        entry = self.panes.overview.entry
        if entry is None:
            return
        self.navigator.leave(to_part=True)
        panes, name = self.panes, entry.name
        if entry.section == "gpu":
            panes.open_filtered("kernels", f"family == {entry.key}")
        elif entry.section == "idle":
            panes.open_filtered("gaps", f"cause == '{name}'")
        elif entry.section == "todo":
            if not panes.list_finding(entry.jump) and entry.jump:
                # It is about another step.
                self.navigator.visit(replace(read_view_string(entry.jump), pane="findings"))
        elif entry.section == "step":
            self.show_step(int(entry.key))
        elif entry.section == "kernel":
            panes.open_group_of("name", name, entry.note)
        elif entry.section == "where" and panes.overview.where != "operator":
            panes.open_group_of(panes.overview.where, name, name)
        elif entry.section == "where":
            panes.open_group_of("op", name, name)
        elif entry.section in ("trust", "serving"):
            self.action_tab("health" if entry.section == "trust" else "serving")
        else:
            self.action_tab("ops")
            self.finder.go_into(name)
        self.give_keys(panes.view)

    @on(PaneList.Summed)
    def _sum_up(self, message: PaneList.Summed) -> None:
        self._summary = message.table
        self._show_header()

    @on(PaneList.Judged)
    def _show_headline(self) -> None:
        self.headline.sentence = self.ranges.sentence or self.panes.headline
        self.call_after_refresh(self.share_height)

    @on(PaneList.Explained)
    def _draw_idle(self) -> None:
        # The blocks are those of the whole trace, and every step has its idle time explained anew.
        if self._is_idle_explained:
            return
        try:
            with guarded("The idle time in the lanes"):
                blocks = idle_part_blocks(self.trace)
        except AnalysisFailed as failure:
            if isinstance(self.app, CrashSafeApp):
                self.app.report_failure(failure)
            return
        self._is_idle_explained = True
        self.timeline_index.show_idle(blocks)
        self.lanes.changed()
        if self.gap >= 0:
            # It is described anew, where it was being read.
            place = self.panes.details.scroll_offset.y
            self._show_selection()
            self.panes.details.scroll_to(y=place, animate=False, force=True, immediate=True)

    @on(Bar.Pressed, "#steps")
    def _press_step(self, message: Bar.Pressed) -> None:
        if message.key == "all":
            self.action_all_steps()
        else:
            self.navigator.leave()
            self.show_step(int(message.key))

    def _show_header(self) -> None:
        self.header.parts = header_parts(self.trace, self._summary, self.size.width - 2)

    def _show_steps(self) -> None:
        times: tuple[str, ...] = ()
        kind = ""
        if self.step is not None:
            index = int(steps(self.trace).labelled(self.step)[0])
            times = times_in_words(self.trace, index)
            kind = kind_words(self.trace, index)
        remark = f"launches only {self._low_coverage}" if self._low_coverage else ""
        width = self.size.width - 2
        self.step_bar.parts = step_parts(self.steps, self.step, times, width, self._steps_by, kind, remark)
