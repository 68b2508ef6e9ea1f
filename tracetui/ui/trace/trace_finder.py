"""Searching in a trace view, where not only the list but also the lanes can be searched."""

from __future__ import annotations

import numpy as np
from textual.widget import Widget

from tracetui.drawing.format import shorten
from tracetui.linking.steps import steps
from tracetui.model.viewpoint import Viewpoint
from tracetui.operators.costs import slices_listed_as
from tracetui.safe_text import clean
from tracetui.ui.trace.browsed_trace import BrowsedTrace
from tracetui.ui.trace.navigator import Navigator
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.trace.related_slices import slices_named
from tracetui.ui.widgets.list_finder import ListFinder
from tracetui.ui.widgets.search_line import Search, SearchLine


class TraceFinder(ListFinder):
    """The search of one trace view: of the lanes when they have the focus, else of the list."""

    panes: PaneList

    def __init__(self, view: BrowsedTrace, navigator: Navigator) -> None:
        super().__init__(view.panes, view.search_line, view.hints)
        self.view, self.navigator = view, navigator
        self._before = Viewpoint()
        """Where the user was when a search began."""

    def go_into(self, name: str) -> bool:
        """Show the slices behind a row that groups by name, in the lanes; False where there are none."""
        rows = slices_listed_as(self.view.trace, name)
        if len(rows) == 0:
            return False
        self.navigator.leave()
        self.search = Search(name, in_lanes=True, hits=rows)
        self._show(self.search.go(self._first_in_step(rows)), jump=False)
        self.hints.notice(
            f"{shorten(clean(name), 40)}   {self.search.words}   n N next and previous, backspace returns"
        )
        return True

    def open(self, purpose: str) -> None:
        """Start to type; what a search jumps away from is remembered."""
        self._before = self.navigator.here
        super().open(purpose)

    def _report(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and len(self.search.hits):
            self.navigator.history.leave(self._before)
        super()._report(message)

    def _new_search(self) -> Search:
        view = self.view
        return Search("", view.lanes.has_focus, selected=view.selected, cursor=self.panes.view.cursor)

    def _index_beside(self, direction: int) -> int:
        return self.search.index + direction if self.search.in_lanes else super()._index_beside(direction)

    def _searched(self) -> Widget:
        in_lanes = self.line.purpose == "search" and self.search.in_lanes
        return self.view.lanes if in_lanes else super()._searched()

    def _filtered(self) -> None:
        panes = self.panes
        if not panes.groups_names and not panes.view.located:
            self.view.select(panes.view.slice_row)

    def _find(self, text: str) -> int:
        if not self.search.in_lanes:
            return super()._find(text)
        view = self.view
        self.search.hits = slices_named(view.trace, text)
        start = view.window.start_ns if view.window is not None else 0.0
        return int(np.searchsorted(view.trace.slices.start[self.search.hits], start))

    def _return(self) -> None:
        if not self.search.in_lanes:
            self.panes.view.put_cursor(self.search.cursor)
        self.view.select(self.search.selected)

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
