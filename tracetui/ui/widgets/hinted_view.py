"""What fills a screen: a list to search, details, and key hints, in whose place notices stand for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import on
from textual.dom import DOMNode
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from tracetui.drawing.format import clean
from tracetui.ui.base.commands import commands_in_focus
from tracetui.ui.base.text_cutting import fitting_line
from tracetui.ui.widgets.arranged_list import ArrangedList
from tracetui.ui.widgets.bar import Bar, Part
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.headline import hint_parts
from tracetui.ui.widgets.search import SearchLine

if TYPE_CHECKING:
    from tracetui.ui.widgets.list_finder import ListFinder

NOTICE_SECONDS = 8.0
"""So long a notice stands in the place of the key hints."""


def too_small(screen: Screen[Any]) -> bool:
    """Whether a screen shows only the sentence that it is too small."""
    return screen.has_class("-thin") or screen.has_class("-flat")


class HintedView(Widget):
    """Base of the views of one trace and of two: a list with details, a line to search in, and a bar `#hints`."""

    finder: ListFinder
    _notice: Timer | None = None

    @property
    def panes(self) -> ArrangedList:
        """The tabs and their list."""
        raise NotImplementedError

    def first_hints(self) -> DOMNode:
        """The part whose key hints come first."""
        return self

    def where(self) -> str:
        """The part of the screen that the keys go to, in a word."""
        raise NotImplementedError

    def notice(self, text: str, warn: bool = False) -> None:
        """Say something in place of the key hints for a while."""
        # What is said before the first layout is fitted to the screen.
        words = fitting_line(clean(text), (self.size.width or self.app.size.width) - 2)
        self.query_one("#hints", Bar).parts = (Part(words, "warn" if warn else "strong"),)
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_SECONDS, self.end_notice)

    def end_notice(self) -> None:
        """Let the key hints come back."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = None
        self.show_hints()

    def show_hints(self) -> None:
        """Say which keys there are, those of the focused part first, unless a notice stands there."""
        if self._notice is not None:
            return
        commands = [found for _, group in commands_in_focus(self.screen) for found in group]
        words = hint_parts(commands, self.size.width - 2, self.first_hints(), self.where())
        self.query_one("#hints", Bar).parts = words

    def on_descendant_focus(self) -> None:
        """The keys of another part are current."""
        self.show_hints()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which of the commands about the list and the details make sense right now."""
        if too_small(self.screen):
            return False
        if action == "hit":
            return len(self.finder.search.hits) > 0
        if action == "search":
            return not self.finder.line.is_open
        if action == "filter":
            return self.panes.table is not None and not self.finder.line.is_open
        if action == "clear":
            return self.can_clear
        if action == "details":
            return not self.screen.has_class("-wide")
        return True

    @property
    def can_clear(self) -> bool:
        """Whether there is anything that `clear` would take away."""
        if self.finder.is_set or self.has_class("-details"):
            return True
        # A notice goes by itself: the key that leads back to the screen below is not spent on it.
        return self._notice is not None and self.screen not in self.app.screen_stack[2:]

    def action_search(self) -> None:
        """Open the search line."""
        self.finder.open("search")

    def action_filter(self) -> None:
        """Open the filter line of the list."""
        self.finder.open("filter")

    def action_hit(self, direction: int) -> None:
        """Go to the next or previous match."""
        self.finder.next(direction)

    def action_clear(self) -> None:
        """Forget search and filter, and go back to the list from the details."""
        self.finder.clear()
        if self.has_class("-details"):
            self.action_details()
        self.end_notice()

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        self.remove_class("-details")
        self.panes.open_tab(name)
        self.panes.view.focus()

    def action_details(self) -> None:
        """Show the details in place of the list, or the list again."""
        self.toggle_class("-details")
        (self.query_one(Details) if self.has_class("-details") else self.panes.view).focus()

    @on(SearchLine.Typed)
    def _typed(self, message: SearchLine.Typed) -> None:
        self.finder.typed(message)
