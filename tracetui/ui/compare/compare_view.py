"""The controller of two traces beside each other: it passes on between header, statement, timelines, list and details.

Whatever is selected, in a timeline or in the list, its matches are highlighted on the other side, and the list stands
on the change that it belongs to. Going to another step leaves everything else as it is: the tab and how it is arranged,
the row under the cursor, the window, the focus.

The commands are declared once, here; what they do is `CompareView.action_...`.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from tracetui.comparing.side import Side
from tracetui.comparing.statement import Comparison, Headline
from tracetui.drawing.text.headline_text import headline_lines, side_lines
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace
from tracetui.ui.base import keys
from tracetui.ui.base.exports import stem
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import SliceAsked
from tracetui.ui.compare.compare_list import (
    CHANGE_HELP,
    CHANGE_KEYS,
    CHANGE_TABS,
    KERNELS,
    OPS,
    CompareList,
    change_lines,
    list_text,
    send_command,
    slice_lines,
)
from tracetui.ui.compare.highlighted_slices import HEADLINE, STATEMENT, ComparedSides, HighlightedSlices, WalkedSlice
from tracetui.ui.compare.shown_part import (
    MARKS,
    ShownPart,
    ShownParts,
    compare_parts,
    end_words,
    next_parts,
    slice_words,
)
from tracetui.ui.compare.timelines import CompareLanes, Timelines
from tracetui.ui.widgets.bar import Bar, FocusedPart
from tracetui.ui.widgets.details import DetailLine
from tracetui.ui.widgets.lanes import LanesView, timeline_commands
from tracetui.ui.widgets.searchable_view import PART_COMMANDS, SEARCH_COMMANDS, SizedScreen, too_small
from tracetui.ui.widgets.statement import StackedLines, StatedView
from tracetui.ui.widgets.table_view import TableView

STATEMENT_LINES, VERDICT_LINES = 2, 1
"""Maximum lines of the statement while there is room, and of the verdict where the screen is short."""
MIN_BARS_HEIGHT = 30
"""Minimum lines of a screen that shows the times as bars below the line with their ratio."""
MAX_BAR_LINES = 10
"""Maximum lines of the ratio and the bars."""
MIN_LIST_LINES = 12
"""Lines that the list keeps, with its titles, if it needs them."""
MIN_TIMELINE_LINES = 5
"""Lines that the timelines keep: the axis, a thread and a stream of each."""
TIMELINE_SHARE = 0.5
"""Maximum share of the timelines in the lines that are not titles, while the list needs the others."""

COMPARE_COMMANDS: list[BindingType] = [
    command(keys.NEXT, "kernel(1)", "Next kernel of A", "In time order; its match in B is highlighted.", "kernel"),
    command(
        keys.PREVIOUS, "kernel(-1)", "Previous kernel of A", "In time order; its match in B is highlighted.", "kernel"
    ),
    command(keys.PREVIOUS_STEP, "step(-1)", "Previous step in both", "Or the run before.", "step"),
    command(keys.NEXT_STEP, "step(1)", "Next step in both", "Or the run after.", "step"),
    command(
        keys.PREVIOUS_STEP_ONE,
        "step_one(-1)",
        "Previous step on one side",
        "Of B; of A while its timeline has the focus.",
    ),
    command(keys.NEXT_STEP_ONE, "step_one(1)", "Next step on one side", "Of B; of A while its timeline has the focus."),
    *timeline_commands("fit"),
    command(keys.FOLLOW, "open_slice(0)", "Open in its trace", "The selected slice, with all panes.", "open"),
    command(keys.FOLLOW_BACK, "open_slice(1)", "Open the match in its trace", "The slice of the other side."),
    command(keys.STATEMENT, "statement", "The whole statement", "Every sentence, in place of the timelines.", "all"),
    command(keys.DETAILS, "details", "Details of the change", "On a narrow screen: in place of the list.", "details"),
    *SEARCH_COMMANDS,
    command(keys.SWAP, "swap", "Swap A and B", "Makes B the baseline."),
    *(
        command(keys.tab_key(key), f"tab('{name}')", f"Tab {name}", CHANGE_HELP[name])
        for name, key in CHANGE_KEYS.items()
    ),
    command(keys.COPY_ROW, "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command(keys.COPY_VIEW, "copy_command", "Copy the command", "The command line that opens this comparison again."),
    command(keys.EXPORT, "export", "Export the table", "The listed rows, to a CSV file and as Markdown."),
    *PART_COMMANDS,
]
"""In the order of the help."""


class CompareView(StatedView):
    """Two traces on screen: header, statement, two timelines, tabs with a list, details, key hints."""

    BINDINGS: ClassVar[list[BindingType]] = COMPARE_COMMANDS

    panes: CompareList
    ROW_FILE = "change.md"

    def __init__(
        self,
        a: Side,
        b: Side,
        timeline_indexes: tuple[TimelineIndex, TimelineIndex],
        paths: tuple[str, str],
        tab: str = "",
    ) -> None:
        super().__init__(CompareList())
        self._opening_tab = tab
        self.opening: tuple[str, ...] = ()
        """Sentences before the statement about the comparison."""
        self.bars = StackedLines(id="bars")
        self.timelines = Timelines()
        self.compared = ComparedSides(self, a, b, timeline_indexes, paths)
        self.highlighted = HighlightedSlices(self.compared, self.timelines, self.panes)

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="header")
        yield self.bars
        yield self.statement
        yield self.timelines
        yield self.panes
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Show what is known before anything is compared."""
        self.panes.view.focus()
        on_gpu = any(len(links(side.trace).gpu) for side in self.compared.sides)
        self.panes.open_tab(self._opening_tab or (KERNELS if on_gpu else OPS))
        self._begin()

    def focused_part(self) -> FocusedPart:
        """The part of the screen that the keys go to, and its name."""
        focused = self.timelines.focused
        if focused is not None:
            return self.timelines.lanes[focused], MARKS[focused]
        return super().focused_part()

    def on_resize(self) -> None:
        """Fit lines and timelines to the new size."""
        self.share_height()
        self._show_header()
        self.timelines.show_titles()
        self.hints.show_hints()

    def on_descendant_focus(self) -> None:
        """Mark the timeline with the focus."""
        self.timelines.show_titles()

    def select(self, side: int, row: int) -> None:
        """Select a slice of a side, light its partners on the other, and put the list on its change."""
        if row < 0:
            return
        could_open = self._can_open
        walked = self.highlighted.select(side, row)
        self._explain()
        self._update_open(could_open)
        part = self.compared.parts[side]
        self.notice(slice_words(side, part, row, walked.partners, self.size.width - 2))

    def light_row(self) -> None:
        """Light what the current row of the list stands for, the first of it selected."""
        self._end_walk()
        could_open = self._can_open
        self.highlighted.light_row()
        self._explain()
        self._update_open(could_open)

    def show_parts(self, parts: ShownParts) -> None:
        """Show other parts; those of other sides are compared anew."""
        if self.compared.show_parts(parts):
            self._begin(whole=False)
        else:
            self.timelines.show_parts(parts)
            self.light_row()
            self.compared.match()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """True for commands that make sense right now; none while the screen is too small to see what they do."""
        if too_small(self.screen):
            return False
        if action == "open_slice":
            return self.highlighted.row_to_open(bool(parameters[0])) >= 0
        return super().check_action(action, parameters)

    def action_kernel(self, direction: int) -> None:
        """Select the next or previous kernel of A, without a GPU the operator; its partner is highlighted in B."""
        part = self.compared.parts[0]
        rows = part.walk
        indices = np.flatnonzero(rows == self.highlighted.selected[0])
        if len(indices):
            index = int(indices[0]) + direction
        else:
            index = int(np.searchsorted(part.side.trace.slices.start[rows], self._moment())) - (direction < 0)
        if not 0 <= index < len(rows):
            self.notice(end_words(0, part, direction))
            return
        row = int(rows[index])
        self.select(0, row)
        # As little as it takes to have it on screen.
        self.timelines.lanes[0].reveal(row)

    def action_step(self, direction: int) -> None:
        """Show the next or previous part of both sides; neither moves where one cannot."""
        self._move((0, 1), direction)

    def action_step_one(self, direction: int) -> None:
        """Show the next or previous part of one side."""
        self._move((0 if self.timelines.focused == 0 else 1,), direction)

    def action_fit_trace(self) -> None:
        """Show the whole of both parts."""
        self.timelines.fit_parts()

    def action_fit_selection(self) -> None:
        """Show what is highlighted on both sides."""
        self.timelines.fit_highlighted(self.highlighted.leading)

    def action_open_slice(self, partner: int) -> None:
        """Open the selected slice, or its partner on the other side, in the view of its own trace."""
        side = self.highlighted.side_to_open(bool(partner))
        compared, row = self.compared, self.highlighted.selected[side]
        part = compared.parts[side]
        self.post_message(
            SliceAsked(compared.paths[side], part.side.trace, compared.timeline_indexes[side], row, part.step)
        )

    def action_swap(self) -> None:
        """Makes B the baseline."""
        self.compared.swap()
        self._begin()
        self.notice("A and B are swapped.")

    @property
    def timeline(self) -> LanesView:
        """The timeline with the focus, else that of the side whose slice is selected; both show the same window."""
        focused = self.timelines.focused
        return self.timelines.lanes[self.highlighted.leading if focused is None else focused]

    @property
    def parts(self) -> list[Widget]:
        """List, both timelines, details."""
        return [self.panes.view, *self.timelines.lanes, self.panes.details]

    def reason(self, action: str) -> str:
        """The reason why a command makes no sense right now."""
        if action == "open_slice":
            return "No slice is selected that could be opened in its trace."
        return super().reason(action)

    def action_statement(self) -> None:
        """Show every sentence in place of the timelines, or the timelines again."""
        super().action_statement()
        if self.has_class("-statement"):
            self.give_keys(self.panes.view)

    def list_text(self, format: str, rows: Int64, of_list: bool) -> str:
        """Rows of the table as `csv` or `md`."""
        table = self.panes.table
        return "" if table is None else list_text(self.compared.comparison, self.panes, table.take(rows), format)

    def export_name(self) -> str:
        """The name of the files of an export: both sides, the tab and its grouping."""
        by = f"-by-{self.panes.arrangement.by}" if self.panes.arrangement.by else ""
        names = [
            f"{stem(side.trace.label)}#{side.scope}" if side.scope else stem(side.name) for side in self.compared.sides
        ]
        return f"{'-'.join([*names, self.panes.pane])}{by}"

    def action_copy_command(self) -> None:
        """Copy the command line that opens this comparison."""
        self.notice(*send_command(self.app, self.compared.paths, self.compared.comparison))

    def _begin(self, whole: bool = True) -> None:
        """Show the sides and start to compare them; if not `whole`, window, tab and row stay as they were."""
        if whole:
            self.panes.clear()
        else:
            self.panes.expect()
        self.statement.sentences = (*self.opening, "Comparing …")
        if whole:
            self.bars.show(None)
        self._end_walk()
        self.highlighted.clear()
        self._show_header()
        compared = self.compared
        first, second = compared.representative_parts()
        self.timelines.show(compared.parts, compared.timeline_indexes, (first.part, second.part), whole)
        compared.compute([self.panes.pane, *(tab for tab in CHANGE_TABS if tab != self.panes.pane)])
        if whole:
            self.share_height()
        self._explain()
        compared.match()

    @on(ComparedSides.Computed)
    def _take_result(self, message: ComparedSides.Computed) -> None:
        message.stop()
        compared, result = self.compared, message.result
        if message.comparison is not compared.comparison:
            return
        if isinstance(result, tuple) or message.name == STATEMENT:
            compared.statement = result if isinstance(result, tuple) else (str(result),)
            self.statement.sentences = (*self.opening, *compared.statement)
            self.share_height()
            self._explain()
        elif isinstance(result, Headline) or message.name == HEADLINE:
            # Where it could not be made, the statement says the same in words.
            names = self.timelines.names or ()
            if not isinstance(result, Headline):
                self.bars.show(None)
            elif any(names):
                # Of two moments with names of their own neither is faster.
                self.bars.show(partial(side_lines, result.named(names)))
            else:
                self.bars.show(partial(headline_lines, result))
            self.share_height()
        else:
            self.panes.take(message.name, result)
            self.share_height()
            if message.name == self.panes.pane:
                self._follow_table()

    def _follow_table(self) -> None:
        """Put the list on the slice that is selected by itself; where none is, highlight what its current row lists."""
        walked = self.highlighted.walked
        if walked is not None:
            self.select(walked.side, walked.row)
        elif self.panes.view.row >= 0:
            self.light_row()

    @on(ComparedSides.Matched)
    def _take_matching(self, message: ComparedSides.Matched) -> None:
        message.stop()
        walked = self.highlighted.walked
        if self.compared.take_matching(message) and walked is not None:
            self.select(walked.side, walked.row)

    @on(ComparedSides.Unmatched)
    def _take_failure(self, message: ComparedSides.Unmatched) -> None:
        message.stop()
        if message.parts is self.compared.parts:
            self.notice(message.note, warn=True)

    @on(Timelines.PartChosen)
    def _choose_part(self, message: Timelines.PartChosen) -> None:
        parts = list(self.compared.parts)
        side = self.compared.sides[message.side]
        chosen = ShownPart(side, int(np.flatnonzero(side.number == message.number)[0]))
        if chosen.part != parts[message.side].part:
            parts[message.side] = chosen
            self.show_parts((parts[0], parts[1]))

    @on(Timelines.Selected)
    def _select_in_timeline(self, message: Timelines.Selected) -> None:
        self.select(message.side, message.row)

    @on(TableView.RowHighlighted)
    def _select_in_list(self, message: TableView.RowHighlighted) -> None:
        if isinstance(message, TableView.RowChosen) and self.panes.open_group(message.row):
            return
        self.light_row()
        if isinstance(message, TableView.RowChosen):
            self.timelines.fit_highlighted(self.highlighted.leading)
            self.give_keys(self.timelines.lanes[self.highlighted.leading])

    @on(CompareLanes.Ended)
    def _report_end(self, message: CompareLanes.Ended) -> None:
        message.stop()
        part = self.compared.parts[message.side]
        self.notice(end_words(message.side, part, message.direction, on_row=True))

    @on(CompareList.Opened)
    def _tab_opened(self) -> None:
        self._explain()
        self.hints.show_hints()

    def _move(self, sides: tuple[int, ...], direction: int) -> None:
        parts = next_parts(self.compared.parts, sides, direction)
        if isinstance(parts, str):
            self.notice(parts)
        else:
            self.show_parts(parts)

    def _show_header(self) -> None:
        self.query_one("#header", Bar).parts = compare_parts(self.compared.sides, self.size.width - 2)

    @property
    def _can_open(self) -> bool:
        """True while there is a selected slice to open."""
        return self.highlighted.row_to_open(False) >= 0

    def _update_open(self, before: bool) -> None:
        """Show the hints anew where it has changed that there is a slice to open."""
        if before != self._can_open:
            self.hints.show_hints()

    def _end_walk(self) -> None:
        """Drop the slice that was walked to, and the notice about it."""
        if self.highlighted.walked is not None:
            self.highlighted.walked = None
            self.hints.end_notice()

    def _explain(self) -> None:
        """Describe in the details what is under the cursor."""
        walked, compared = self.highlighted.walked, self.compared
        known = self.panes.table is not None and (walked is None or self.panes.view.located)
        row = self.panes.change if known else -1
        make = partial(_details, compared.comparison, compared.parts, compared.statement, walked, self.panes.pane, row)
        self.panes.details.explain(make)

    def _moment(self) -> float:
        """The time in ns from which a kernel of A is looked for while none is selected: B's, or the left edge."""
        a, b = self.compared.parts
        if self.highlighted.selected[1] >= 0:
            return float(b.side.trace.slices.start[self.highlighted.selected[1]] - b.start + a.start)
        window = self.timelines.lanes[0].window
        return window.start_ns if window is not None else float(a.start)

    def share_height(self) -> None:
        """Lines for the statement and the timelines; the list has the rest."""
        width, height = self.size
        limit = STATEMENT_LINES
        if not self.screen.has_class("-tall"):
            limit = min(self.statement.verdict_lines(width), VERDICT_LINES)
        if self.has_class("-statement"):
            limit = height * 2 // 3
        self.bars.styles.height = bars = self.bars.wanted(width, MAX_BAR_LINES if height >= MIN_BARS_HEIGHT else 1)
        lines = self.statement.wanted(width, limit if bars else limit + 1)
        self.statement.styles.height = lines
        lines += bars
        titles = len(self.compared.sides) + 2
        room = height - titles - lines
        # What the list does not need the timelines have.
        list_lines = max(self.panes.longest + 2, MIN_LIST_LINES)
        suitable = max(int(room * TIMELINE_SHARE), room - list_lines, MIN_TIMELINE_LINES)
        self.timelines.share(self.chosen_lines(room) or suitable)
        self.share_width()

    @property
    def split_lines(self) -> tuple[int, int]:
        """Lines of both timelines, and of these and the list together."""
        titles = len(self.compared.sides) + 2
        now = sum(lanes.size.height for lanes in self.timelines.lanes)
        return now, self.size.height - titles - self.statement.size.height - self.bars.size.height


def _details(
    comparison: Comparison,
    parts: ShownParts,
    statement: tuple[str, ...],
    walked: WalkedSlice | None,
    tab: str,
    row: int,
    width: int,
) -> list[DetailLine]:
    """The slice that was walked to, and what became of it."""
    lines = change_lines(comparison, tab, row, statement, width)
    if walked is None:
        return lines
    part = parts[walked.side]
    return [*slice_lines(walked.side, part, walked.row, walked.partners, width), DetailLine(""), *lines]


# The screen of two traces beside each other.


class CompareScreen(SizedScreen):
    """Composes one `CompareView`."""

    view: CompareView
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "leave", "Back", "To the trace or the list from which this was opened.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the trace or the list from which this was opened."),
    ]

    def __init__(
        self,
        a: Side,
        b: Side,
        timeline_indexes: tuple[TimelineIndex, TimelineIndex],
        paths: tuple[str, str],
        tab: str = "",
        listed: bool = False,
    ) -> None:
        """`listed` says that the traces were picked from a list, to which one can go back."""
        super().__init__(CompareView(a, b, timeline_indexes, paths, tab))
        self.can_leave = listed

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces on screen."""
        return tuple(side.trace for side in self.view.compared.sides)

    @property
    def label(self) -> str:
        """The names of both traces."""
        return "-".join(side.trace.label for side in self.view.compared.sides)
