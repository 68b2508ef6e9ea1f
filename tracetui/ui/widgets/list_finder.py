"""Searching and filtering a list: what is typed, what was found, and going from match to match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from textual.widget import Widget

from tracetui.ui.widgets.hinted_view import HintedView
from tracetui.ui.widgets.search import Search, SearchLine


class ListFinder:
    """The search of the list of one view; nothing in it runs unless a key asks for it."""

    def __init__(self, view: HintedView) -> None:
        self._owner = view
        self.search = Search()

    @property
    def line(self) -> SearchLine:
        """Where it is typed."""
        return self._owner.query_one(SearchLine)

    def open(self, purpose: str) -> None:
        """Start to type a search or a filter of the list."""
        if purpose == "search":
            self.search = self._new_search()
        filtered = self._owner.panes.arrangement.filter if purpose == "filter" else ""
        self.line.open(purpose, "lanes" if self.search.in_lanes else "list", filtered)

    def typed(self, message: SearchLine.Typed) -> None:
        """Search or filter by what has been typed so far."""
        if message.given_up:
            if message.purpose == "search":
                self._return()
            self._close()
            self.clear(message.purpose)
        elif message.purpose == "filter":
            self._filter(message.text)
        elif not message.accepted:
            self._look_for(message.text)
        if message.accepted:
            self._close()
            self._tell(message)

    def next(self, direction: int) -> None:
        """Go to the next or previous match, going round at the ends."""
        self._show(self.search.go(self._place_beside(direction)), jump=True)
        self._owner.notice(f"{self.search.text}   {self.search.words}   n N go on, esc clears")

    def clear(self, purpose: str | None = None) -> None:
        """Forget the search, the filter, or both."""
        if purpose != "filter":
            self.search = Search()
        panes = self._owner.panes
        if purpose != "search" and panes.arrangement.filter:
            panes.arrange_by(replace(panes.arrangement, filter=""))

    @property
    def is_set(self) -> bool:
        """Whether there is a search or a filter to forget."""
        return bool(self.search.text or self._owner.panes.arrangement.filter)

    def _new_search(self) -> Search:
        return Search(cursor=self._owner.panes.view.cursor)

    def _place_beside(self, direction: int) -> int:
        """The place among the hits of the next or previous one from the cursor."""
        panes, search = self._owner.panes, self.search
        search.hits = panes.matches(search.text)
        return int(np.searchsorted(search.hits, panes.view.cursor + (direction > 0))) - (direction < 0)

    def _searched(self) -> Widget:
        """What was searched: the keys go to it again."""
        return self._owner.panes.view

    def _close(self) -> None:
        # At once: the next key of a burst is meant for what was searched, not for the line.
        self._owner.screen.set_focus(self._searched())
        self.line.close()
        self._owner.show_hints()

    def _filter(self, text: str) -> None:
        panes = self._owner.panes
        panes.arrange_by(replace(panes.arrangement, filter=text))
        self._filtered()
        self.line.say(f"{len(panes.view.order):,} rows")

    def _filtered(self) -> None:
        """The row under the cursor may be another one."""
        self._owner.panes.view.tell()

    def _look_for(self, text: str) -> None:
        search = self.search
        search.text = text
        place = self._find(text)
        if len(search.hits):
            self._show(search.go(place), jump=False)
        else:
            self._return()
        self.line.say(search.words if text else "")

    def _find(self, text: str) -> int:
        """Find a text, and say which of the hits comes first."""
        panes = self._owner.panes
        self.search.hits = panes.matches(text)
        return int(np.searchsorted(self.search.hits, panes.view.cursor))

    def _return(self) -> None:
        """Go back to where the search began."""
        self._owner.panes.view.place(self.search.cursor)
        self._owner.panes.view.tell()

    def _show(self, hit: int | None, jump: bool) -> None:
        """Go to a hit; a jump can be undone where the view keeps jumps."""
        if hit is not None:
            self._owner.panes.view.place(hit)
            self._owner.panes.view.tell()

    def _tell(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and message.text:
            more = "   n N go on, esc clears" if len(self.search.hits) else ""
            self._owner.notice(f"{message.text}   {self.search.words}{more}")
