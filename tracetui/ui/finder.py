"""Searching and filtering in a trace view: what is typed, what was found, and going from match to match."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tracetui.analysis.linking.steps import steps
from tracetui.drawing.format import clean, shorten
from tracetui.ui.search import Search, SearchLine
from tracetui.ui.selection import slices_named

if TYPE_CHECKING:
    from tracetui.ui.trace_view import TraceView


class Finder:
    """The search of one trace view; nothing in it runs unless a key asks for it."""

    def __init__(self, view: TraceView) -> None:
        self.view = view
        self.search = Search()

    @property
    def line(self) -> SearchLine:
        """Where it is typed."""
        return self.view.query_one(SearchLine)

    def open(self, purpose: str) -> None:
        """Start to type a search, of the lanes when they have the focus, or a filter of the list."""
        if purpose == "search":
            view = self.view
            self.search = Search("", view.lanes.has_focus, selected=view.selected, cursor=view.panes.view.cursor)
        where = "lanes" if self.search.in_lanes else "list"
        self.line.open(purpose, where, self.view.panes.arrangement.filter if purpose == "filter" else "")

    def typed(self, message: SearchLine.Typed) -> None:
        """Search or filter by what has been typed so far."""
        if message.given_up:
            if message.purpose == "search":
                self._return()
            self._close(message.purpose)
            self.clear(message.purpose)
        elif message.purpose == "filter":
            self._filter(message.text)
        elif not message.accepted:
            self._look_for(message.text)
        if message.accepted:
            self._close(message.purpose)
            self._tell(message)

    def next(self, direction: int) -> None:
        """Go to the next or previous match, going round at the ends."""
        search = self.search
        if not search.in_lanes:
            search.hits = self.view.panes.matches(search.text)
            here = self.view.panes.view.cursor
            place = int(np.searchsorted(search.hits, here + (direction > 0))) - (direction < 0)
        else:
            place = search.index + direction
        self._show(search.go(place), jump=True)
        self.view.notice(f"{search.text}   {search.words}   n N go on, esc clears")

    def clear(self, purpose: str | None = None) -> None:
        """Forget the search, the filter, or both."""
        if purpose != "filter":
            self.search = Search()
        panes = self.view.panes
        if purpose != "search" and panes.arrangement.filter:
            panes.arrange_by(replace(panes.arrangement, filter=""))

    def go_into(self, name: str) -> None:
        """Show the slices behind a row that groups by name: as single rows, or in the lanes."""
        panes = self.view.panes
        if panes.arrangement.by is not None:
            panes.arrange_by(replace(panes.arrangement, by=None, sort=None, filter=name), tell=True)
            return
        self.view.navigator.leave()
        trace = self.view.trace
        rows = slices_named(trace, name)
        rows = rows[trace.slices.name[rows] == trace.names.find(name)]
        self.search = Search(name, in_lanes=True, hits=rows)
        self._show(self.search.go(self._first_in_step(rows)), jump=False)
        self.view.notice(f"{shorten(clean(name), 40)}   {self.search.words}   n N go on, backspace returns")

    def _close(self, purpose: str) -> None:
        self.line.close()
        view = self.view
        in_lanes = purpose == "search" and self.search.in_lanes
        # At once: the next key of a burst is meant for what was searched, not for the line.
        view.screen.set_focus(view.lanes if in_lanes else view.panes.view)
        view.show_hints()

    def _filter(self, text: str) -> None:
        panes = self.view.panes
        panes.arrange_by(replace(panes.arrangement, filter=text))
        if not panes.groups_names and not panes.view.located:
            self.view.select(panes.view.slice_row)
        self.line.say(f"{len(panes.view.order):,} rows")

    def _look_for(self, text: str) -> None:
        search, view = self.search, self.view
        search.text = text
        if search.in_lanes:
            search.hits = slices_named(view.trace, text)
            start = view.window.start_ns if view.window is not None else 0.0
            place = int(np.searchsorted(view.trace.slices.start[search.hits], start))
        else:
            search.hits = view.panes.matches(text)
            place = int(np.searchsorted(search.hits, view.panes.view.cursor))
        if len(search.hits):
            self._show(search.go(place), jump=False)
        else:
            self._return()
        self.line.say(search.words if text else "")

    def _return(self) -> None:
        """Go back to where the search began."""
        if not self.search.in_lanes:
            self.view.panes.view.place(self.search.cursor)
        self.view.select(self.search.selected)

    def _show(self, hit: int | None, jump: bool) -> None:
        if hit is None:
            return
        if self.search.in_lanes:
            self.view.select(hit, jump)
            self.view.lanes.reveal(hit, zoom=True)
        else:
            self.view.panes.view.place(hit)
            self.view.select(self.view.panes.view.slice_row)

    def _tell(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and message.text:
            more = "   n N go on, esc clears" if len(self.search.hits) else ""
            self.view.notice(f"{message.text}   {self.search.words}{more}")

    def _first_in_step(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
        number = self.view.step
        if number is None:
            return 0
        found = steps(self.view.trace)
        start = int(found.start[found.labelled(number)[0]])
        return int(np.searchsorted(self.view.trace.slices.start[rows], start))
