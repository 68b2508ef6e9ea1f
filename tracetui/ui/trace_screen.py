"""The screen of one trace, and the sentence where the terminal is too small for it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tracetui.drawing.raster import Picture
from tracetui.model.place import Place
from tracetui.model.trace import Trace
from tracetui.ui.columns import titles_of
from tracetui.ui.commands import command
from tracetui.ui.trace_view import TraceView, too_small

TOO_SMALL = "This terminal is too small: the app needs 60 columns and 12 lines."


class TraceScreen(Screen[None]):
    """Composes one `TraceView`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command("question_mark", "help", "Help", "Keys and columns of what has the focus.", "help"),
    ]
    HORIZONTAL_BREAKPOINTS = [
        (0, "-thin"),
        (60, "-narrow"),
        (110, "-wide"),
    ]
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As in `Screen`, but a change of focus does not repaint the screen: the widgets that it concerns do."""
    VERTICAL_BREAKPOINTS = [
        (0, "-flat"),
        (12, "-short"),
        (36, "-tall"),
    ]

    def __init__(self, trace: Trace, picture: Picture, place: Place) -> None:
        super().__init__()
        self._trace, self._picture, self._place = trace, picture, place

    def compose(self) -> ComposeResult:
        """The trace, or why it cannot be seen."""
        yield Static(TOO_SMALL, id="too-small", markup=False)
        yield TraceView(self._trace, self._picture, self._place)

    def on_resize(self) -> None:
        """Give the keys back to the list after the screen was too small to have any."""
        if self.focused is None:
            self.call_after_refresh(self._refocus)

    def _refocus(self) -> None:
        if self.focused is None and not too_small(self):
            self.set_focus(self.query_one(TraceView).panes.view)

    def action_help(self) -> None:
        """Show the help for what has the focus."""
        # The help is needed only once it is asked for.
        from tracetui.ui.help import HelpScreen, help_rows

        panes = self.query_one(TraceView).panes
        titles = titles_of(panes.pane, panes.arrangement.by)
        rows = help_rows(self, panes.table, titles)
        self.app.push_screen(HelpScreen(rows, f"Help: keys, and below them the columns of {panes.pane}"))
