"""A titled list to pick one thing from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import DOWN, TASK_OF_LINE, UP, command, commands_in_focus
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.surface import Legend
from tracetui.ui.widgets.table_view import TableView

Pickable = TypeVar("Pickable")


class Picker(Overlay[Pickable | None]):
    """A titled list; enter takes the row under the cursor, escape none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "dismiss_none", "Close", "", "close"),
        command(keys.QUIT, "dismiss_none", "Close"),
        command(keys.HELP, "help", "Help", "Keys of this list.", "help"),
    ]

    TITLE_TEXT = ""
    PANE = ""

    def __init__(self) -> None:
        super().__init__()
        self.remark = ""
        """A warning that stands beside the title at first."""
        self.choices: Sequence[Pickable] = ()
        self.hints = HintsBar()

    def compose(self) -> ComposeResult:
        """A title, the list and the key hints."""
        yield Bar(id="title")
        yield TableView()
        yield self.hints

    def on_mount(self) -> None:
        """Show what there is; handlers of classes derived from this one run first."""
        self.show_title(self.remark)
        self.query_one(TableView).focus()
        self.call_after_refresh(self.hints.show_hints)

    def show_title(self, remark: str = "") -> None:
        """Show the title, with a warning beside it."""
        warning = (BarPart(f"   {clean(remark)}", "warn"),) if remark else ()
        self.query_one("#title", Bar).parts = (BarPart(self.TITLE_TEXT, "strong"), *warning)

    def list_choices(self, choices: Sequence[Pickable], table: Table, note: str) -> None:
        """List choices, one per row of the table."""
        self.choices = choices
        self.query_one(TableView).show(self.PANE, table, np.arange(len(table)), note=note)

    def action_help(self) -> None:
        """Show what the keys do."""
        # The help is needed only once it is asked for.

        self.app.push_screen(HelpScreen(help_rows(self, None), "Help: keys"))

    def action_dismiss_none(self) -> None:
        """Pick nothing."""
        self.dismiss(None)

    def take(self, choice: Pickable) -> None:
        """Act on the choice: this screen closes with it."""
        self.dismiss(choice)

    @on(TableView.RowChosen)
    def _pick(self, message: TableView.RowChosen) -> None:
        # A second enter in the same burst comes when the choice has been made.
        if self.is_active:
            self.take(self.choices[message.row])


# The help: the keys that work now, from the focused part up, and the meaning of the columns of the list.

_KEYS = ColumnSpec("keys", "keys", width=18)
_DOES = ColumnSpec("does", "does", width=38)
_MORE = ColumnSpec("help", "more", width=24, grow=1)
_WHERE = ColumnSpec("where", "for", width=18)

HelpRow = tuple[str, str, str, str]
"""Keys, title, the task or where they work (`HELP_WHERE` of the widget), and what they do."""


class HelpScreen(Overlay[None]):
    """Commands and columns as one list that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "close", "Close the help", "", "close"),
        command(keys.QUIT, "close", "Close the help"),
        command(keys.HELP, "close", "Close the help"),
    ]

    DEFAULT_CSS = """
    HelpScreen #about { height: auto; max-height: 50%; padding: 0 1 1 1; }
    """

    def __init__(
        self, rows: list[HelpRow], title: str, has_legend: bool = False, about: tuple[str, str] = ("", "")
    ) -> None:
        """`has_legend` says whether there are colours and marks to explain, `about` what is selected and what it is."""
        super().__init__()
        self._about = about
        self._has_legend = has_legend
        self._rows = rows
        self._title = title

    def compose(self) -> ComposeResult:
        """A title, the list, the legend and how to leave."""
        yield Bar(id="title")
        name, text = self._about
        if text:
            yield Static(Text.assemble((f"{clean(name)}\n", "bold"), text), markup=False, id="about")
        yield TableView()
        if self._has_legend:
            yield Legend()
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Fill in the rows."""
        keys, titles, where, helps = zip(*self._rows, strict=True)
        table = Table((texts(_KEYS, keys), texts(_DOES, titles), texts(_MORE, helps), texts(_WHERE, where)))
        self.query_one("#title", Bar).parts = (BarPart(self._title, "strong"),)
        view = self.query_one(TableView)
        view.show("help", table, np.arange(len(table)))
        view.focus()
        self.query_one("#hints", Bar).parts = (
            BarPart("esc", "key"),
            BarPart(" close   "),
            BarPart(f"{DOWN} {UP}", "key"),
            BarPart(" scroll"),
        )

    @on(TableView.RowHighlighted)
    def _show_help(self, message: TableView.RowHighlighted) -> None:
        """The last line has the whole sentence, which the list may have to cut."""
        self.query_one("#hints", Bar).parts = (BarPart(self._rows[message.row][3]),)

    def action_close(self) -> None:
        """Back to the trace."""
        self.dismiss()


def help_rows(screen: Screen[Any], table: Table | None) -> list[HelpRow]:
    """The rows of the help for what has the focus, by task, and for the columns of a table.

    Keys of one task that mean nearly the same share a row.
    """
    lines: dict[int, list[HelpRow]] = {}
    rows: list[HelpRow] = []
    taken: set[str] = set()
    for node, commands in commands_in_focus(screen):
        where = getattr(node, "HELP_WHERE", "")
        for each in commands:
            title = each.binding.description + ("" if each.available else "  (n/a)")
            keys = [key for key in each.keys if key not in taken]
            taken.update(keys)
            if keys and each.line < len(TASK_OF_LINE):
                lines.setdefault(each.line, []).append((" ".join(keys), title, where, each.binding.tooltip))
            elif keys:
                rows.append((" ".join(keys), title, where, each.binding.tooltip))
    by_task = []
    for line in sorted(lines):
        keys, titles, _, helps = ([*each] for each in zip(*lines[line], strict=True))
        more = [title[:1].lower() + title[1:] for title in titles[1:]]
        by_task.append((" ".join(keys), ", ".join([titles[0], *more]), TASK_OF_LINE[line], helps[0]))
    rows = by_task + rows
    if table is not None:
        rows += [(column.spec.heading, column.name, "column", column.help) for column in table.columns]
    return rows


# A page of text over a screen, which scrolls.


class TextPage(Overlay[None]):
    """A title, the text, and how to leave."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "close", "Close the page", "", "close"),
        command(keys.QUIT, "close", "Close the page"),
    ]
    DEFAULT_CSS = """
    TextPage {
        VerticalScroll { height: 1fr; padding: 1 2; }
        #title, #hints { background: $panel; }
    }
    """

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="title")
        with VerticalScroll():
            yield Static(Text("\n".join(map(clean, self._lines))), markup=False, id="text")
        yield Bar(id="hints")

    def on_mount(self) -> None:
        """Fill in the words, and let the keys scroll."""
        self.query_one("#title", Bar).parts = (BarPart(clean(self._title), "strong"),)
        self.query_one("#hints", Bar).parts = (BarPart("esc", "key"), BarPart(" close"))
        self.query_one(VerticalScroll).focus()

    def action_close(self) -> None:
        """Back to what lies below."""
        self.dismiss()
