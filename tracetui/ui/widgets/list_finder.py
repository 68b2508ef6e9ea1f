"""Searching and filtering a list: what is typed, which rows match, and going from match to match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from textual.widget import Widget

from tracetui.checking.mistake import Mistake
from tracetui.checking.row_filter import completed, completions, ends_in_word, is_condition, kept_rows, texts_meant
from tracetui.ui.widgets.hints_bar import HintsBar
from tracetui.ui.widgets.search_line import Search, SearchLine
from tracetui.ui.widgets.tabbed_list import TabbedList


class ListFinder:
    """The search of one list; nothing in it runs unless a key asks for it."""

    def __init__(self, panes: TabbedList, line: SearchLine, hints: HintsBar) -> None:
        self.panes, self.line, self.hints = panes, line, hints
        self.search = Search()
        self._settled = ""
        """The last condition that was whole: the filter while the next one is typed."""

    def open(self, purpose: str) -> None:
        """Start to type a search or a filter of the list."""
        if purpose == "search":
            self.search = self._new_search()
        if purpose == "filter":
            table, known = self.panes.table, self.panes.arrangement.filter
            self._settled = known if table is not None and is_condition(table, known) else ""
            self.line.open(purpose, "list", self.panes.arrangement.filter, self._completed)
            self._suggest(self.panes.arrangement.filter)
        else:
            self.line.open(purpose, "lanes" if self.search.in_lanes else "list")

    def typed(self, message: SearchLine.Typed) -> None:
        """Search or filter by what has been typed so far."""
        if message.given_up:
            if message.purpose == "search":
                self._return()
            self._close()
            self.clear(message.purpose)
        elif message.purpose == "filter":
            if not self._filter(message.text, message.accepted) and message.accepted:
                self.line.resume()
                return
        elif not message.accepted:
            self._look_for(message.text)
        if message.accepted:
            self._close()
            self._report(message)

    def next(self, direction: int) -> None:
        """Go to the next or previous match, going round at the ends."""
        self._show(self.search.go(self._index_beside(direction)), jump=True)
        self.hints.notice(f"{self.search.text}   {self.search.words}   n N next and previous, esc clears")

    def clear(self, purpose: str | None = None) -> None:
        """Forget the search, the filter, or both."""
        if purpose != "filter":
            self.search = Search()
        if purpose != "search" and self.panes.arrangement.filter:
            self.panes.arrange_by(replace(self.panes.arrangement, filter=""))

    def leave(self) -> None:
        """Forget search and filter; where there are none, close the group that is open."""
        if self.search.text or self.panes.arrangement.filter:
            self.clear()
        else:
            self.panes.close_group()

    @property
    def is_set(self) -> bool:
        """Whether there is a search or a filter to forget, or a group to close."""
        arrangement = self.panes.arrangement
        return bool(self.search.text or arrangement.filter or arrangement.group)

    def _new_search(self) -> Search:
        return Search(cursor=self.panes.view.cursor)

    def _index_beside(self, direction: int) -> int:
        """The index, among the hits, of the next or previous one from the cursor."""
        self.search.hits = self.panes.matches(self.search.text)
        return int(np.searchsorted(self.search.hits, self.panes.view.cursor + (direction > 0))) - (direction < 0)

    def _searched(self) -> Widget:
        """What was searched: the keys go to it again."""
        return self.panes.view

    def _close(self) -> None:
        # At once: the next key of a burst is meant for what was searched, not for the line.
        self.line.screen.set_focus(self._searched())
        self.line.close()
        self.hints.show_hints()

    def _filter(self, text: str, accepted: bool) -> bool:
        """List what a filter keeps; False for a condition that is not understood, or not yet."""
        table = self.panes.table
        if table is None:
            return True
        self._suggest(text)
        may_go_on = not accepted and (bool(completions(table, text)) or ends_in_word(table, text))
        try:
            is_unfinished = not kept_rows(table, text).any() and may_go_on
        except Mistake as mistake:
            self._list_settled()
            if accepted or not completions(table, text):
                self.line.show_mistake(str(mistake), mistake.at)
            return False
        if is_unfinished:
            self._list_settled()
            return True
        if not ends_in_word(table, text) or accepted:
            self._settled = text if is_condition(table, text) else ""
        self._list(text)
        rows = len(self.panes.view.order)
        self.line.show_count(f"{rows:,} row{'' if rows == 1 else 's'} ")
        return True

    def _list_settled(self) -> None:
        """List what the last whole condition keeps while the next one is unfinished or wrong."""
        self._list(self._settled)
        self.line.show_count("")

    def _list(self, text: str) -> None:
        """List the rows that a filter keeps."""
        if self.panes.arrangement.filter != text:
            self.panes.arrange_by(replace(self.panes.arrangement, filter=text))
            self._filtered()

    def _completed(self, text: str) -> str:
        return text if self.panes.table is None else completed(self.panes.table, text)

    def _suggest(self, text: str) -> None:
        """Show what the last word can become, or what the pattern at the end matches."""
        table = self.panes.table
        names = completions(table, text) if table is not None else []
        if table is not None and not names and (texts := texts_meant(table, text)):
            self.line.show_texts(texts)
            return
        shown = set(self.panes.view.shown_columns)
        self.line.show_names(sorted(names, key=lambda name: name not in shown))

    def _filtered(self) -> None:
        """The row under the cursor may be another one."""
        self.panes.view.announce_row()

    def _look_for(self, text: str) -> None:
        search = self.search
        search.text = text
        index = self._find(text)
        if len(search.hits):
            self._show(search.go(index), jump=False)
        else:
            self._return()
        self.line.show_count(search.words if text else "")

    def _find(self, text: str) -> int:
        """Find a text, and return the index of the hit that comes first."""
        self.search.hits = self.panes.matches(text)
        return int(np.searchsorted(self.search.hits, self.panes.view.cursor))

    def _return(self) -> None:
        """Go back to where the search began."""
        self.panes.view.put_cursor(self.search.cursor)
        self.panes.view.announce_row()

    def _show(self, hit: int | None, jump: bool) -> None:
        """Go to a hit; a jump can be undone where the view keeps jumps."""
        if hit is not None:
            self.panes.view.put_cursor(hit)
            self.panes.view.announce_row()

    def _report(self, message: SearchLine.Typed) -> None:
        if message.purpose == "search" and message.text:
            more = "   n N next and previous, esc clears" if len(self.search.hits) else ""
            self.hints.notice(f"{message.text}   {self.search.words}{more}")
