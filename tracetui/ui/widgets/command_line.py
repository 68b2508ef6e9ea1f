"""The command line of a view: `:step 2`, `:sort total`, `:gaps`, typed into the line of the search, with completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from textual.app import App
from textual.screen import Screen
from textual.widget import Widget

from tracetui.checking.row_filter import column_meant, completed, completions, kept_rows, shared_beginning
from tracetui.checking.values import ExpressionError
from tracetui.config import THEME_NAMES
from tracetui.drawing.format import shorten
from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model.table import Table
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.widgets.bar import HintsBar
from tracetui.ui.widgets.list_finder import ListFinder, SearchLine
from tracetui.ui.widgets.tabbed_list import TabbedList

DIRECTIONS = {"asc": False, "desc": True}
"""Directions of a sort, and whether the largest comes first."""
MAX_QUOTED = 30
"""Maximum characters of a typed word in a sentence about it."""
NOTHING_LISTED = "There is no list here yet."


Deed = Callable[[], object]
"""What a line does once it is understood."""


@frozen(eq=True)
class LineCommand:
    """A word of the command line."""

    name: str
    meaning: str
    """Its arguments and effect, in a few words."""
    parse: Callable[[str], Deed]
    """Understands what stands behind the name; raises UsageError where that is not possible."""
    choices: Callable[[str], Sequence[str]] = lambda _: ()
    """What the text behind the name can become."""


class CommandedView(Protocol):
    """A view with a command line."""

    panes: TabbedList
    finder: ListFinder
    hints: HintsBar

    @property
    def app(self) -> App[Any]:
        """The app that it is shown in."""

    @property
    def screen(self) -> Screen[Any]:
        """The screen that it fills."""

    def line_commands(self) -> list[LineCommand]:
        """The commands of its command line, in the order in which it offers them."""

    def action_tab(self, name: str) -> None:
        """Open a tab."""


def beginning(names: Iterable[str], text: str) -> list[str]:
    """The names that begin with a text, whatever its case."""
    return [name for name in names if name.casefold().startswith(text.casefold())]


def without_argument(name: str, deed: Deed) -> Callable[[str], Deed]:
    """Understands a command that nothing may stand behind."""

    def parse(text: str) -> Deed:
        if text:
            raise UsageError(f"Nothing goes behind :{name}.")
        return deed

    return parse


class CommandLine:
    """The command line of one view; what it knows is asked of the view whenever it is opened."""

    def __init__(self, view: CommandedView, line: SearchLine) -> None:
        self.view, self.line = view, line
        self._known: dict[str, LineCommand] = {}
        self._typed: list[str] = []
        """Lines that were carried out, the last one at the end."""
        self._focused: Widget | None = None

    def open(self) -> None:
        """Start to type a command."""
        self._known = {}
        for each in self.view.line_commands():
            # A command comes before a tab of its name.
            self._known.setdefault(each.name, each)
        self._focused = self.line.screen.focused
        self.line.open("command", "", complete=self._completed, recall=self._typed)
        self._help("")

    def typed(self, message: SearchLine.Typed) -> None:
        """Help with what has been typed so far, or carry it out."""
        if message.given_up or (message.accepted and not message.text.strip()):
            self._close()
        elif not message.accepted:
            self._help(message.text)
        else:
            self._carry_out(message.text)

    def _carry_out(self, text: str) -> None:
        name, _, words = text.strip().partition(" ")
        at = len(text) - len(text.lstrip())
        try:
            command = self._named(name)
            at = text.index(name) + len(name) + 1
            deed = command.parse(words.strip())
        except UsageError as mistake:
            inside = mistake.at if isinstance(mistake, ExpressionError) else 0
            self.line.show_mistake(clean(str(mistake)), at + inside)
            self.line.resume()
            return
        self._typed.append(text.strip())
        self._close()
        deed()

    def _named(self, name: str) -> LineCommand:
        """The command of a name, or of a beginning that only one has.

        Raises: UsageError for an unknown name.
        """
        meant = [name] if name in self._known else beginning(self._known, name)
        if len(meant) == 1:
            return self._known[meant[0]]
        quoted = repr(clean(shorten(name, MAX_QUOTED)))
        if meant:
            raise UsageError(f"{quoted} may be {' or '.join(meant)}.")
        words = [each for each in self._known if each not in self.view.panes.arrangements]
        raise UsageError(f"There is no command {quoted}: there are {', '.join(words)}, and each tab by its name.")

    def _close(self) -> None:
        # At once: the next key of a burst is meant for the part that had the keys.
        self.line.screen.set_focus(self._focused)
        self.line.close()
        self.view.hints.show_hints()

    def _choices(self, text: str) -> tuple[str, list[str]]:
        """Text before the words that can be completed, and their completions."""
        name, space, words = text.partition(" ")
        if not space:
            return "", beginning(self._known, name)
        command = self._known.get(name)
        return f"{name} ", list(command.choices(words.lstrip())) if command is not None else []

    def _completed(self, text: str) -> str:
        """The text as far as all completions agree, or the first of them where they do not."""
        before, names = self._choices(text.lstrip())
        table = self.view.panes.table
        if before == "where " and table is not None:
            return before + completed(table, text.lstrip().removeprefix(before))
        if not names:
            return text
        common = before + shared_beginning(names)
        is_longer = len(common) > len(text) and common.startswith(text)
        end = " " if not before and len(names) == 1 else ""
        return (common if is_longer else before + names[0]) + end

    def _help(self, text: str) -> None:
        """Show below the text what it can become, or what its command does."""
        before, names = self._choices(text.lstrip())
        name = text.strip().partition(" ")[0]
        if names and (before or len(names) > 1):
            self.line.show_names([clean(each) for each in names])
        elif (command := self._known.get(names[0] if names else name)) is not None:
            self.line.show_words(f":{command.name} {command.meaning}")
        else:
            self.line.show_words("")


# The commands that every view has: its tabs, and what its keys do to the list.


def list_commands(view: CommandedView) -> list[LineCommand]:
    """Filter, sort and grouping of the list of a view, by name."""
    panes = view.panes

    def table() -> Table:
        if panes.table is None:
            raise UsageError(NOTHING_LISTED)
        return panes.table

    def where(text: str) -> Deed:
        kept_rows(table(), text)
        return partial(view.finder.keep_rows, text)

    def where_choices(text: str) -> Sequence[str]:
        return [] if panes.table is None else completions(panes.table, text)

    def sort(text: str) -> Deed:
        listed = table()
        name, _, last = text.rpartition(" ")
        direction = DIRECTIONS.get(last if name else "")
        if not text:
            return partial(panes.arrange_by, replace(panes.arrangement, sort=None, descending=False))
        column = column_meant(listed, text if direction is None else name)
        descending = not column.is_text if direction is None else direction
        return partial(panes.arrange_by, replace(panes.arrangement, sort=column.name, descending=descending))

    def sort_choices(text: str) -> Sequence[str]:
        name, space, direction = text.partition(" ")
        if space:
            return [f"{name} {each}" for each in beginning(DIRECTIONS, direction)]
        names = panes.table.column_names if panes.table is not None else ()
        return beginning(dict.fromkeys([*panes.view.shown_columns, *names]), text)

    def group(text: str) -> Deed:
        names = panes.groupings
        if text and text not in names:
            known = f"it can be grouped by {', '.join(names)}" if names else "it has nothing to group by"
            raise UsageError(f"This list cannot be grouped by {text!r}: {known}.")
        return partial(panes.group_by, text or None)

    return [
        LineCommand("where", f"CONDITION: keep the rows that fit it, as {keys.FILTER} does", where, where_choices),
        LineCommand("sort", "COLUMN asc or desc: sort by a column", sort, sort_choices),
        LineCommand("by", "GROUP: group the rows, or list single ones", group, partial(beginning, panes.groupings)),
    ]


def tab_commands(view: CommandedView) -> list[LineCommand]:
    """The tabs of a view by name."""
    return [
        LineCommand(name, f"opens {name}", without_argument(name, partial(view.action_tab, name)))
        for name in view.panes.arrangements
    ]


def app_commands(view: CommandedView) -> list[LineCommand]:
    """Commands of the whole app."""

    def later(action: str) -> Deed:
        return partial(view.app.call_later, view.app.run_action, action, view.screen)

    def theme(text: str) -> Deed:
        if text and text not in THEME_NAMES:
            raise UsageError(f"There is no theme {text!r}: there are {', '.join(THEME_NAMES)}.")
        return later(f"app.switch_theme('{text}')")

    return [
        LineCommand("theme", "NAME, or the next one", theme, partial(beginning, THEME_NAMES)),
        LineCommand("help", "keys and columns", without_argument("help", later("help"))),
        LineCommand("q", "quit", without_argument("q", later("app.quit"))),
    ]
