"""Base of the views of a trace, of two, and of ranks: a list under tabs, a line to search in, and key hints."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tracetui.drawing.format import shorten
from tracetui.model.intervals import Int64
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import MARKDOWN_ROWS, copy_out, save_list
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import AnalysisSafe, PartSizes
from tracetui.ui.base.textual_internals import paint_rows
from tracetui.ui.widgets.bar import FocusedPart, HintsBar, SplitBar
from tracetui.ui.widgets.command_line import CommandLine, LineCommand, app_commands, list_commands, tab_commands
from tracetui.ui.widgets.lanes import LanesView
from tracetui.ui.widgets.list_finder import ListFinder, SearchLine
from tracetui.ui.widgets.tabbed_list import TabbedList

SEARCH_COMMANDS: list[BindingType] = [
    command(keys.SEARCH, "search", "Search", "Names in the lanes, or rows of the list.", "search", before_typing=True),
    command(
        keys.FILTER,
        "filter",
        "Filter the list",
        "By a text, or by columns: dur > 100us & op ~ mm.",
        "filter",
        before_typing=True,
    ),
    command(
        keys.COMMAND_LINE,
        "command_line",
        "Command line",
        "A pane by name, :step 2, :op addmm, :sort total; tab completes.",
        before_typing=True,
    ),
    command(keys.NEXT_MATCH, "hit(1)", "Next match", "Of the last search."),
    command(keys.PREVIOUS_MATCH, "hit(-1)", "Previous match", "Of the last search."),
    command(
        keys.ESCAPE, "clear", "Back one level", "From a search or filter, a group, what covers the list, the timeline."
    ),
]
"""Commands about the list that both views have."""

PART_COMMANDS: list[BindingType] = [
    command(keys.MAXIMISE, "maximise", "Maximise the part", "The part with the focus alone; again brings all back."),
    command(keys.SPLIT_DOWN, "split(2)", "Larger timeline", "Sizes are kept until the app ends."),
    command(keys.SPLIT_UP, "split(-2)", "Smaller timeline", "Sizes are kept until the app ends."),
    command(keys.SPLIT_LEFT, "widen(4)", "Wider details", "Sizes are kept until the app ends."),
    command(keys.SPLIT_RIGHT, "widen(-4)", "Narrower details", "Sizes are kept until the app ends."),
    command(keys.NEXT_PART, "part(1)", "Next part of the screen", "List, timeline, details.", "parts"),
    command(keys.PREVIOUS_PART, "part(-1)", "Previous part of the screen", "List, timeline, details."),
    command(keys.LEFT, "sideways(-1)", "Earlier", "By a sixth of the window."),
    command(keys.RIGHT, "sideways(1)", "Later", "By a sixth of the window."),
]
"""Commands about the parts of the screen."""


ONLY_LIST, ONLY_TIMELINE, ONLY_DETAILS = MAXIMISED = ("-only-list", "-only-timeline", "-only-details")
"""Style classes of a view in which one part has the whole screen."""
MIN_PART_LINES = 4
"""Minimum lines that moving the split leaves to the timeline and to the list."""
MAX_ROW_NAME = 20
"""Maximum characters of the name of a row in a notice."""
MIN_PART_CELLS = 24
"""Minimum cells that moving the split leaves to the list and to the details."""


def too_small(screen: Screen[Any]) -> bool:
    """True for a screen that shows only the sentence that it is too small."""
    return screen.has_class("-thin") or screen.has_class("-flat")


class TimelineActions:
    """Commands that go to one timeline, whatever part of the screen has the focus."""

    @property
    def timeline(self) -> LanesView:
        """The timeline that keys move."""
        raise NotImplementedError

    def action_pan(self, direction: int) -> None:
        """Pan the timeline."""
        self.timeline.action_pan(direction)

    def action_zoom(self, direction: int) -> None:
        """Magnify or shrink the timeline about the selection."""
        self.timeline.action_zoom(direction)

    def action_fit_trace(self) -> None:
        """Show the whole trace in the timeline."""
        self.timeline.action_fit_trace()

    def action_fit_selection(self) -> None:
        """Show the selected slice in the middle of the timeline."""
        self.timeline.action_fit_selection()

    def action_same(self, direction: int) -> None:
        """Select the next or previous slice of the same name."""
        self.timeline.action_same(direction)

    def action_measure(self) -> None:
        """Set the measuring point at the selection, or take it away."""
        self.timeline.action_measure()

    def action_pin(self) -> None:
        """Pin the lane of the selection, or unpin it."""
        self.timeline.action_pin()

    def action_fold(self) -> None:
        """Fold the lane of the selection."""
        self.timeline.action_fold()


class SearchableView(TimelineActions, AnalysisSafe, Widget):
    """Base of what fills a screen: a list under tabs with its details, search, copies and exports, sizes of parts."""

    HELP_WHERE = "everywhere"
    LIST_NOUNS: ClassVar[tuple[str, str]] = "tab", "table"
    """Nouns for a list in sentences about its export: the place of its rows, and what is written."""
    ROW_FILE: ClassVar[str] = "row.md"
    """The file that holds the last row that was copied."""

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
        self.command_line = CommandLine(self, self.search_line)

    def focused_part(self) -> FocusedPart:
        """The part of the screen that the keys go to, and its name."""
        return self, "details" if self.panes.details.has_focus else "list"

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.hints.notice(text, warn)

    def on_descendant_focus(self) -> None:
        """The keys of another part are current."""
        self.hints.show_hints()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """True for a command about the list and the details that makes sense right now."""
        if too_small(self.screen):
            return False
        if action == "hit":
            return len(self.finder.search.hits) > 0
        if action in ("search", "command_line"):
            return not self.search_line.is_open
        if action == "filter":
            return self.panes.table is not None and not self.search_line.is_open
        if action == "clear":
            return self.can_clear
        if action == "details":
            return not self.screen.has_class("-wide")
        if action == "sideways":
            return not self.panes.view.has_focus
        if action == "split":
            return not self.maximised
        if action == "widen":
            return self.screen.has_class("-wide") and not self.maximised
        return True

    def reason(self, action: str) -> str:
        """A sentence about a command that makes no sense right now; empty where there is nothing to say."""
        if too_small(self.screen):
            return ""
        reasons = {
            "hit": "There is no search whose matches could be walked: / searches.",
            "filter": "There is no list to filter yet.",
            "details": "The details stand beside the list: tab goes there.",
            "sideways": "There are no more columns in that direction.",
            "split": "One part has the whole screen: esc brings the others back.",
            "widen": f"Details are beside the list on a screen of 110 columns and more: {keys.DETAILS} shows them.",
            "clear": "There is nothing to go back from: q quits.",
        }
        return reasons.get(action, "")

    @property
    def parts(self) -> list[Widget]:
        """The parts that `tab` goes to, in its order; the first is the list."""
        raise NotImplementedError

    @property
    def can_clear(self) -> bool:
        """True where there is a level to go back from within this view."""
        return self.is_searched or self.is_covered or self.screen.focused is not self.panes.view

    @property
    def is_searched(self) -> bool:
        """True where there is a search or a filter to clear, or a group to close."""
        arrangement = self.panes.arrangement
        return bool(self.finder.search.text or arrangement.filter or arrangement.group)

    @property
    def maximised(self) -> str:
        """The style class of the part that has the whole screen, empty for none."""
        return next((name for name in MAXIMISED if self.has_class(name)), "")

    @property
    def sizes(self) -> PartSizes:
        """The sizes that were chosen for the parts."""
        sizes = getattr(self.app, "part_sizes", None)
        return sizes if isinstance(sizes, PartSizes) else PartSizes()

    @property
    def split_lines(self) -> tuple[int, int]:
        """Lines of the timeline, and of timeline and list together."""
        raise NotImplementedError

    def share_height(self) -> None:
        """Distribute the lines of the screen."""
        raise NotImplementedError

    def chosen_lines(self, room: int) -> int | None:
        """Lines for the timeline, of those that timeline and list have; None where nobody has chosen."""
        if self.maximised == ONLY_TIMELINE:
            return room
        share = self.sizes.timeline
        if share is None:
            return None
        return max(min(round(share * room), room - MIN_PART_LINES), MIN_PART_LINES)

    def part_class(self, part: Widget | None) -> str:
        """The style class with which a part has the whole screen."""
        if part is self.panes.details:
            return ONLY_DETAILS
        return ONLY_TIMELINE if isinstance(part, LanesView) else ONLY_LIST

    def give_keys(self, part: Widget) -> None:
        """Give the keys to a part, which is brought back where another one has the whole screen."""
        if self.maximised not in ("", self.part_class(part)):
            self.restore()
        self.screen.set_focus(part)

    def restore(self) -> None:
        """Bring back the other parts."""
        self.remove_class(*MAXIMISED)
        self.share_height()

    @property
    def is_covered(self) -> bool:
        """True where something stands in the place of another part."""
        return self.has_class("-details") or bool(self.maximised)

    def close_cover(self) -> bool:
        """Show what was covered last; False where nothing is."""
        if self.maximised:
            self.restore()
            return True
        if self.has_class("-details"):
            self.action_details()
            return True
        return False

    def action_search(self) -> None:
        """Open the search line."""
        self.finder.open("search")

    def action_filter(self) -> None:
        """Open the filter line of the list."""
        self.finder.open("filter")

    def line_commands(self) -> list[LineCommand]:
        """The commands of the command line, in the order in which it offers them."""
        return [*list_commands(self), *app_commands(self), *tab_commands(self)]

    def action_command_line(self) -> None:
        """Open the command line."""
        self.command_line.open()

    def action_hit(self, direction: int) -> None:
        """Go to the next or previous match."""
        self.finder.next(direction)

    def action_clear(self) -> None:
        """Go back one level: from what covers the list, a search or filter, an open group, another part."""
        if self.close_cover():
            return
        if self.is_searched:
            self.finder.leave()
        else:
            self.give_keys(self.panes.view)

    def action_maximise(self) -> None:
        """Give the part with the focus the whole screen, or bring the others back."""
        name = "" if self.maximised else self.part_class(self.screen.focused)
        self.restore()
        if name:
            self.add_class(name)
            self.share_height()

    def action_split(self, lines: int) -> None:
        """Give the timeline more lines, or fewer."""
        now, room = self.split_lines
        self.sizes.timeline = max(min(now + lines, room - MIN_PART_LINES), MIN_PART_LINES) / max(room, 1)
        self.share_height()

    def action_widen(self, cells: int) -> None:
        """Give the details more cells, or fewer."""
        widest = self.size.width - MIN_PART_CELLS
        self.sizes.details = max(min(self.panes.details.outer_size.width + cells, widest), MIN_PART_CELLS)
        self.share_width()

    def share_width(self) -> None:
        """Give the details the width that was chosen, where they stand beside the list."""
        details, chosen = self.panes.details, self.sizes.details
        is_chosen = chosen is not None and self.screen.has_class("-wide") and not self.maximised
        details.styles.width = chosen if is_chosen else None
        details.styles.max_width = "100%" if is_chosen else None

    @on(SplitBar.Dragged)
    def _drag_split(self, message: SplitBar.Dragged) -> None:
        if not self.maximised:
            self.action_split(message.lines)

    def action_part(self, direction: int) -> None:
        """Give the keys to the next or previous part that is on screen."""
        only = self.maximised
        parts = [part for part in self.parts if all(node.display for node in part.ancestors_with_self[:-2])]
        parts = [part for part in parts if not only or self.part_class(part) == only]
        if self.search_line.is_open or not parts:
            return
        focused = self.screen.focused
        index = parts.index(focused) + direction if focused in parts else 0
        # `focus()` waits for a turn of the loop: the next tab of a burst would begin here again.
        self.screen.set_focus(parts[index % len(parts)])

    def action_sideways(self, direction: int) -> None:
        """Pan the timeline from a part that has nothing to move to the side."""
        self.timeline.action_pan(direction)

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        self.remove_class("-details")
        self.panes.open_tab(name)
        self.give_keys(self.panes.view)

    def action_details(self) -> None:
        """Show the details in place of the list, or the list again."""
        self.toggle_class("-details")
        self.give_keys(self.panes.details if self.has_class("-details") else self.panes.view)

    def list_text(self, format: str, rows: Int64, of_list: bool) -> str:
        """Rows of the table as `csv` or `md`; `of_list` where they stand for what is listed, not for one row."""
        raise NotImplementedError

    def export_name(self) -> str:
        """The name of the files of an export, without suffix and arrangement."""
        raise NotImplementedError

    def action_copy_row(self) -> None:
        """Copy the current row of the list as Markdown."""
        table, row = self.panes.table, self.panes.view.row
        if table is None or row < 0:
            self.notice("There is no row to copy.", warn=True)
            return
        shown = [table[name] for name in self.panes.view.shown_columns if name in table]
        name = next((str(text) for each in shown if each.is_text and (text := each.cell(row))), "")
        text = self.list_text("md", np.array([row]), False)
        words = f"Row {shorten(clean(name), MAX_ROW_NAME)}".rstrip()
        self.notice(*copy_out(self.app, text, self.ROW_FILE, f"{words} as Markdown"))

    def action_export(self) -> None:
        """Write the listed rows to a CSV file, and the first of them as Markdown beside it."""
        rows, (place, what) = self.panes.view.order, self.LIST_NOUNS
        if self.panes.table is None or not len(rows):
            self.notice(f"There is nothing to export in this {place}.", warn=True)
            return
        texts = self.list_text("csv", rows, True), self.list_text("md", rows[:MARKDOWN_ROWS], True)
        self.notice(*save_list(self.export_name(), *texts, f"The {what}", len(rows)))

    @on(SearchLine.Typed)
    def _typed(self, message: SearchLine.Typed) -> None:
        (self.command_line if message.purpose == "command" else self.finder).typed(message)


# What the screens of one trace and of two have in common: sizes, the help, and the way back to the screen below.

TOO_SMALL = "This terminal is too small: the app needs 60 columns and 12 lines."


class SizedScreen(AnalysisSafe, Screen[None]):
    """A view, or the sentence where the terminal is too small for it."""

    HELP_WHERE = "everywhere"

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.HELP, "help", "Help", "Keys and columns of what has the focus.", "help"),
    ]
    HORIZONTAL_BREAKPOINTS = [
        (0, "-thin"),
        (60, "-narrow"),
        (110, "-wide"),
    ]
    can_leave: bool = False
    """True where there is always the list of traces to go back to."""
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As in `Screen`, but a change of focus does not repaint the screen: the widgets that it concerns do."""
    VERTICAL_BREAKPOINTS = [
        (0, "-flat"),
        (12, "-short"),
        (36, "-tall"),
    ]

    def __init__(self, view: SearchableView) -> None:
        super().__init__()
        self.view = view
        """The widget that fills the screen."""
        paint_rows(self)

    @property
    def hints(self) -> HintsBar:
        """The key hints."""
        return self.view.hints

    @property
    def label(self) -> str:
        """A name for what is shown, for files."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The view, or why it cannot be seen."""
        yield Static(TOO_SMALL, id="too-small", markup=False)
        yield self.view

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.view.notice(text, warn)

    def on_resize(self) -> None:
        """Give the keys back to the list after the screen was too small to have any."""
        if self.focused is None:
            self.call_after_refresh(self._refocus)

    def _refocus(self) -> None:
        if self.focused is None and not too_small(self):
            self.set_focus(self.view.panes.view)

    @property
    def is_over_another(self) -> bool:
        """True where there is a screen below to go back to."""
        stack = self.app.screen_stack
        return self in stack[2:]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Going back takes somewhere to go."""
        return self.can_leave or self.is_over_another if action == "leave" else True

    def action_leave(self) -> None:
        """Back to the screen below, or to the list of traces."""
        if self.is_over_another:
            self.app.pop_screen()
        else:
            self.app.call_later(self.app.run_action, "app.traces")

    def explained(self) -> tuple[str, str]:
        """Name and explanation of what is selected, empty for none."""
        return "", ""

    def action_help(self) -> None:
        """Show the help for what has the focus."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.picker import HelpScreen, help_rows

        rows = help_rows(self, self.view.panes.table)
        title = f"Help: keys, and below them the columns of {self.view.panes.pane}"
        self.app.push_screen(HelpScreen(rows, title, has_legend=True, about=self.explained()))
