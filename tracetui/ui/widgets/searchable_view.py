"""What the views of one trace and of two have in common: a list under tabs, a line to search in, and key hints."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.screen import Screen
from textual.widget import Widget

from tracetui.ui.widgets.hints_bar import FocusedPart, HintsBar
from tracetui.ui.widgets.list_finder import ListFinder
from tracetui.ui.widgets.search_line import SearchLine
from tracetui.ui.widgets.tabbed_list import TabbedList


def too_small(screen: Screen[Any]) -> bool:
    """Whether a screen shows only the sentence that it is too small."""
    return screen.has_class("-thin") or screen.has_class("-flat")


class SearchableView(Widget):
    """Base of what fills a screen: the parts that both views have, and the commands about them."""

    HELP_WHERE = "everywhere"

    panes: TabbedList
    """The tabs and their list."""
    finder: ListFinder
    """The search of the list."""

    def __init__(self, panes: TabbedList) -> None:
        super().__init__()
        self.panes = panes
        self.search_line = SearchLine()
        self.hints = HintsBar(self.focused_part)
        self.finder = ListFinder(panes, self.search_line, self.hints)

    def focused_part(self) -> FocusedPart:
        """The part of the screen that the keys go to, and its name."""
        raise NotImplementedError

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.hints.notice(text, warn)

    def on_descendant_focus(self) -> None:
        """The keys of another part are current."""
        self.hints.show_hints()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which of the commands about the list and the details make sense right now."""
        if too_small(self.screen):
            return False
        if action == "hit":
            return len(self.finder.search.hits) > 0
        if action == "search":
            return not self.search_line.is_open
        if action == "filter":
            return self.panes.table is not None and not self.search_line.is_open
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
        return self.hints.has_notice and self.screen not in self.app.screen_stack[2:]

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
        """Forget search and filter, or close the open group, and go back to the list from the details."""
        self.finder.leave()
        if self.has_class("-details"):
            self.action_details()
        self.hints.end_notice()

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        self.remove_class("-details")
        self.panes.open_tab(name)
        self.panes.view.focus()

    def action_details(self) -> None:
        """Show the details in place of the list, or the list again."""
        self.toggle_class("-details")
        (self.panes.details if self.has_class("-details") else self.panes.view).focus()

    @on(SearchLine.Typed)
    def _typed(self, message: SearchLine.Typed) -> None:
        self.finder.typed(message)
