"""The controller of two traces beside each other: what is selected on both sides, and what the list stands on.

Whatever is selected, in a timeline or in the list, its partners are lit on the other side, and the list stands on
the change that it belongs to.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.dom import DOMNode

from tracetui.analysis.comparing.comparison import comparison
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.linking.links import links
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.intervals import Int64
from tracetui.model.trace import GPU_WORK
from tracetui.ui.base.messages import SliceAsked
from tracetui.ui.compare.change_lines import change_lines
from tracetui.ui.compare.compare_commands import COMPARE_COMMANDS
from tracetui.ui.compare.compare_export import export_changes, send_change, send_command
from tracetui.ui.compare.compare_headline import MARKS, compare_parts
from tracetui.ui.compare.compare_lanes import CompareLanes
from tracetui.ui.compare.compare_list import CHANGE_TABS, KERNELS, OPS, TOTALS, CompareList
from tracetui.ui.compare.instances import change_of, instances_of
from tracetui.ui.compare.partners import Partners
from tracetui.ui.compare.slice_words import NONE, OWN, SHARED, end_words, slice_lines, slice_words
from tracetui.ui.compare.statement_view import StatementView
from tracetui.ui.compare.stepped_view import SteppedView
from tracetui.ui.compare.timelines import NOTHING, Parts, Timelines
from tracetui.ui.description.styled_lines import Line
from tracetui.ui.trace.selection import MOST_LIT, lit_with
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.hinted_view import too_small
from tracetui.ui.widgets.list_finder import ListFinder
from tracetui.ui.widgets.search import SearchLine
from tracetui.ui.widgets.table_view import TableView

STATEMENT, VERDICT = 3, 2
"""Lines of the statement while there is room, and of the verdict where the screen is short."""
LIST = 12
"""The list has so many lines at least, with its titles, if it needs them."""
LANES = 5
"""The timelines have so many lines at least: the axis, a thread and a stream of each."""
SHARE = 0.5
"""Of the lines that are not titles the timelines take so many at most."""


class CompareView(SteppedView):
    """Two traces on screen: header, statement, two timelines, tabs with a list, details, key hints."""

    BINDINGS: ClassVar[list[BindingType]] = COMPARE_COMMANDS

    def __init__(
        self, a: Side, b: Side, pictures: tuple[Picture, Picture], paths: tuple[str, str], tab: str = ""
    ) -> None:
        super().__init__(comparison(a, b))
        self._opening_tab = tab
        self.pictures, self.paths = pictures, paths
        self.selected = (-1, -1)
        """Rows of the selected slices of A and of B, -1 for none."""
        self.leading = 0
        """The side on which the last one was selected."""
        self._described: tuple[int, int, str] | None = None
        """Side and row of the slice that was walked to, and how it has partners; None while the list leads."""
        self.finder = ListFinder(self)

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="header")
        yield StatementView()
        yield Timelines()
        yield CompareList()
        yield SearchLine()
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Show what is known before anything is compared."""
        self.panes.view.focus()
        on_gpu = any(len(links(side.trace).gpu) for side in self.sides)
        self.panes.open_tab(self._opening_tab or (KERNELS if on_gpu else OPS))
        self.begin()

    def first_hints(self) -> DOMNode:
        """Those of the timeline that has the focus."""
        focused = self.timelines.focused
        return self if focused is None else self.timelines.lanes[focused]

    def where(self) -> str:
        """The part of the screen that the keys go to."""
        focused = self.timelines.focused
        if focused is not None:
            return MARKS[focused]
        return "details" if self.query_one(Details).has_focus else "list"

    def on_resize(self) -> None:
        """Fit lines and timelines to the new size."""
        self._share_height()
        self._show_header()
        self.timelines.say()
        self.show_hints()

    def on_descendant_focus(self) -> None:
        """The keys of another part are current."""
        self.timelines.say()
        self.show_hints()

    def select(self, side: int, row: int) -> None:
        """Select a slice of a side, light its partners on the other, and put the list on its change."""
        if row < 0:
            return
        others, siblings = self.partners.of(side, row), self.partners.siblings(side, row)
        how = OWN if len(others) else NONE
        if not len(others):
            # What is called less often has no partner for most of its calls: then the whole group goes together.
            siblings, others = self._group_of(side, row)
            how = SHARED if len(others) else NONE
        mine = np.append(row, siblings[siblings != row])
        self._light(side, *((others, mine) if side else (mine, others)))
        self._described = (side, row, how)
        self.panes.place_on(self._change_of(side, row))
        self._explain()
        self.notice(slice_words(side, self.parts[side], row, how, self.size.width - 2))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which commands make sense right now; none while the screen is too small to see what they do."""
        if too_small(self.screen):
            return False
        if action == "open_slice":
            return self._to_open(bool(parameters[0])) >= 0
        return super().check_action(action, parameters)

    def action_kernel(self, direction: int) -> None:
        """Select the next or previous kernel of A, without a GPU the operator; its partner is lit in B."""
        part = self.parts[0]
        rows = part.walk
        place = np.flatnonzero(rows == self.selected[0])
        if len(place):
            wanted = int(place[0]) + direction
        else:
            wanted = int(np.searchsorted(part.side.trace.slices.start[rows], self._moment())) - (direction < 0)
        if not 0 <= wanted < len(rows):
            self.notice(end_words(0, part, direction))
            return
        row = int(rows[wanted])
        self.select(0, row)
        self.timelines.reveal(0, row)

    def action_fit_parts(self) -> None:
        """Show the whole of both parts."""
        self.timelines.fit_parts()

    def action_fit_selection(self) -> None:
        """Show what is lit on both sides."""
        self.timelines.fit_lit(self.leading)

    def action_open_slice(self, partner: int) -> None:
        """Open the selected slice, or its partner on the other side, in the view of its own trace."""
        side = self._side_to_open(bool(partner))
        part, row = self.parts[side], self.selected[side]
        self.post_message(SliceAsked(self.paths[side], part.side.trace, self.pictures[side], row, part.step))

    def action_swap(self) -> None:
        """What was after is before."""
        self.told = comparison(*self.sides[::-1])
        self.pictures, self.paths = self.pictures[::-1], self.paths[::-1]
        self.partners = Partners(self.parts[::-1])
        self.begin()
        self.notice("A and B are swapped.")

    @property
    def can_clear(self) -> bool:
        """Whether there is anything that `clear` would take away."""
        return super().can_clear or self.has_class("-statement")

    def action_clear(self) -> None:
        """Forget search and filter, and go back from the details and the statement."""
        if self.has_class("-statement"):
            self.action_statement()
        super().action_clear()

    @on(StatementView.Clicked)
    def action_statement(self) -> None:
        """Show every sentence in place of the timelines, or the timelines again."""
        self.toggle_class("-statement")
        self.query_one(StatementView).whole = self.has_class("-statement")
        self._share_height()
        if self.has_class("-statement"):
            self.panes.view.focus()

    def action_copy_row(self) -> None:
        """Copy the current row of the list as Markdown."""
        self.notice(*send_change(self.app, self.panes, self.told))

    def action_copy_command(self) -> None:
        """Copy the command line that opens this comparison."""
        self.notice(*send_command(self.app, self.paths, self.told))

    def action_export(self) -> None:
        """Write the table to a file."""
        self.notice(*export_changes(self.panes, self.told))

    def begin(self, whole: bool = True) -> None:
        """Show the sides as they are, and have them compared; if not `whole`, in the place of those before."""
        if whole:
            self.panes.clear()
        else:
            self.panes.expect()
        self.statement = ()
        self.query_one(StatementView).sentences = ("Comparing …",)
        self._forget_slice()
        self.selected, self.leading = (-1, -1), 0
        self._show_header()
        standing = self.standing()
        self.timelines.show(self.parts, self.pictures, (standing[0].part, standing[1].part), whole)
        if whole:
            self._share_height()
        self._explain()
        self.compare(self.told, [self.panes.pane, *(tab for tab in CHANGE_TABS if tab != self.panes.pane)])
        self.match(self.parts)

    @on(SteppedView.Made)
    def _take(self, message: SteppedView.Made) -> None:
        message.stop()
        if message.told is not self.told:
            return
        result = message.result
        if isinstance(result, tuple) or message.name == "statement":
            self.statement = result if isinstance(result, tuple) else (str(result),)
            self.query_one(StatementView).sentences = self.statement
            self._share_height()
            self._explain()
        else:
            self.panes.take(message.name, result)
            self._share_height()
            if message.name == self.panes.pane:
                self.panes.view.tell()

    @on(SteppedView.Matched)
    def _take_matching(self, message: SteppedView.Matched) -> None:
        message.stop()
        if message.parts is self.parts:
            self.partners = Partners(message.parts, message.matching)
            if self._described is not None:
                self.select(*self._described[:2])

    def _show_header(self) -> None:
        self.query_one("#header", Bar).parts = compare_parts(self.sides, self.size.width - 2)

    @on(Timelines.Selected)
    def _select_in_timeline(self, message: Timelines.Selected) -> None:
        self.select(message.side, message.row)

    @on(TableView.RowHighlighted)
    def _select_in_list(self, message: TableView.RowHighlighted) -> None:
        self.light_row()
        if isinstance(message, TableView.RowChosen):
            self.timelines.fit_lit(self.leading)
            self.timelines.lanes[self.leading].focus()

    @on(CompareLanes.Ended)
    def _tell_end(self, message: CompareLanes.Ended) -> None:
        message.stop()
        self.notice(end_words(message.side, self.parts[message.side], message.direction, on_row=True))

    @on(CompareList.Opened)
    def _tab_opened(self) -> None:
        self._explain()
        self.show_hints()

    def light_row(self) -> None:
        """Light what the current row of the list stands for, the first of it selected."""
        self._forget_slice()
        tab, change = self.panes.pane, self.panes.change
        if self.panes.table is None:
            return
        a, b = instances_of(self.told, tab, change, self.parts)
        if len(a) or len(b):
            self._light(0 if len(a) else 1, a, b)
        self.panes.view.located = len(a) > 0 or len(b) > 0 or tab == TOTALS
        self._explain()

    def _light(self, leading: int, a: Int64, b: Int64) -> None:
        """Light slices of both sides, with what launched the first of them."""
        rows = (int(a[0]) if len(a) else -1, int(b[0]) if len(b) else -1)
        could_open = self._to_open(False) >= 0
        self.leading, self.selected = leading, rows
        if could_open != (self._to_open(False) >= 0):
            self.show_hints()
        lit = [
            frozenset(some[:MOST_LIT].tolist()) | (lit_with(part.side.trace, row) if len(some) == 1 else frozenset())
            for some, row, part in zip((a, b), rows, self.parts, strict=True)
        ]
        self.timelines.select(rows, (lit[0], lit[1]), (a, b))

    def _forget_slice(self) -> None:
        """Nothing that was walked to is what the last line and the details are about."""
        if self._described is not None:
            self._described = None
            self.end_notice()

    def _group_of(self, side: int, row: int) -> tuple[Int64, Int64]:
        """All instances, on its side and on the other one, of the change that a slice belongs to."""
        on_gpu = int(self.sides[side].trace.slices.kind[row]) in GPU_WORK
        tab = KERNELS if on_gpu else OPS
        if not self.panes.has(tab):
            return NOTHING, NOTHING
        found = instances_of(self.told, tab, change_of(self.told, tab, side, row, self.parts), self.parts)
        return found[side], found[1 - side]

    def _change_of(self, side: int, row: int) -> int:
        """The row of the current tab that a slice belongs to, -1 for none or while there is no table."""
        if self.panes.table is None:
            return -1
        return change_of(self.told, self.panes.pane, side, row, self.parts)

    def _explain(self) -> None:
        """Tell in the details what is under the cursor."""
        known = self.panes.table is not None and (self._described is None or self.panes.view.located)
        row = self.panes.change if known else -1
        make = partial(self._explained, self._described, self.parts, self.panes.pane, row)
        self.query_one(Details).explain(make)

    def _explained(
        self, described: tuple[int, int, str] | None, parts: Parts, tab: str, row: int, width: int
    ) -> list[Line]:
        """The slice that was walked to, and what became of it."""
        lines = change_lines(self.told, tab, row, self.statement, width)
        if described is None:
            return lines
        side, slice_row, how = described
        return [*slice_lines(side, parts[side], slice_row, how, width), Line(""), *lines]

    def _moment(self) -> float:
        """Where the next kernel of A is looked for while none is selected: beside that of B, or at the left edge."""
        a, b = self.parts
        if self.selected[1] >= 0:
            return float(b.side.trace.slices.start[self.selected[1]] - b.start + a.start)
        window = self.timelines.lanes[0].window
        return window.start_ns if window is not None else float(a.start)

    def _side_to_open(self, partner: bool) -> int:
        focused = self.timelines.focused
        side = self.leading if focused is None else focused
        return 1 - side if partner else side

    def _to_open(self, partner: bool) -> int:
        return self.selected[self._side_to_open(partner)]

    def _share_height(self) -> None:
        """Lines for the statement and the timelines; the list has the rest."""
        width, height = self.size
        said = self.query_one(StatementView)
        most = STATEMENT if self.screen.has_class("-tall") else min(said.verdict_lines(width), VERDICT)
        if self.has_class("-statement"):
            most = height * 2 // 3
        lines = said.wanted(width, most)
        said.styles.height = lines
        titles = len(self.sides) + 2
        room = height - titles - lines
        # What the list does not need the timelines have.
        self.timelines.share(max(int(room * SHARE), room - max(self.panes.longest + 2, LIST), LANES))
