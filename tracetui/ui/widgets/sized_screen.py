"""What the screens of one trace and of two have in common: sizes, the help, and the way back to the screen below."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tracetui.ui.base import keys
from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.base.commands import command
from tracetui.ui.base.row_compositor import RowCompositor
from tracetui.ui.widgets.hints_bar import HintsBar
from tracetui.ui.widgets.searchable_view import SearchableView, too_small

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
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As in `Screen`, but a change of focus does not repaint the screen: the widgets that it concerns do."""
    VERTICAL_BREAKPOINTS = [
        (0, "-flat"),
        (12, "-short"),
        (36, "-tall"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._compositor = RowCompositor()

    @property
    def view(self) -> SearchableView:
        """What fills the screen."""
        raise NotImplementedError

    @property
    def hints(self) -> HintsBar:
        """The key hints."""
        return self.view.hints

    @property
    def label(self) -> str:
        """A name for what is shown, for files."""
        raise NotImplementedError

    def compose_view(self) -> ComposeResult:
        """The view."""
        raise NotImplementedError

    def help_title(self) -> str:
        """What stands above the help."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The view, or why it cannot be seen."""
        yield Static(TOO_SMALL, id="too-small", markup=False)
        yield from self.compose_view()

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
        """Whether there is a screen below to go back to."""
        stack = self.app.screen_stack
        return self in stack[2:]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Going back takes somewhere to go."""
        return self.is_over_another if action == "leave" else True

    def action_leave(self) -> None:
        """Back to the screen below, or to the list of traces."""
        if self.is_over_another:
            self.app.pop_screen()
        else:
            self.app.call_later(self.app.run_action, "app.traces")

    def action_help(self) -> None:
        """Show the help for what has the focus."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.help_screen import HelpScreen, help_rows

        rows = help_rows(self, self.view.panes.table)
        self.app.push_screen(HelpScreen(rows, self.help_title(), has_legend=True))
