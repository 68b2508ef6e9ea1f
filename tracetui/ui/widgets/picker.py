"""A titled list to pick one thing from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from tracetui.model.table import Table
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.hints_bar import HintsBar
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
        self.choices: Sequence[Pickable] = ()
        self.hints = HintsBar()

    def compose(self) -> ComposeResult:
        """A title, the list and the key hints."""
        yield Bar(id="title")
        yield TableView()
        yield self.hints

    def on_mount(self) -> None:
        """Show what there is."""
        self.query_one("#title", Bar).parts = (BarPart(self.TITLE_TEXT, "strong"),)
        view = self.query_one(TableView)
        view.focus()
        self.call_after_refresh(self.hints.show_hints)

    def offer(self, choices: Sequence[Pickable], table: Table, note: str) -> None:
        """List choices, one per row of the table."""
        self.choices = choices
        self.query_one(TableView).show(self.PANE, table, np.arange(len(table)), note=note)

    def action_help(self) -> None:
        """Show what the keys do."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.help_screen import HelpScreen, help_rows

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
