"""The screen of a set of ranks."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tracetui.opening.rank_folder import RankSetName
from tracetui.opening.summaries import SummaryWork
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.ranks.rank_view import RankView
from tracetui.ui.widgets.sized_screen import SizedScreen


class RankScreen(SizedScreen):
    """Composes one `RankView`; what is opened from it comes above it."""

    stays_below: ClassVar[bool] = True
    """Whether a trace that is opened from it comes above it, to go back to it."""
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "leave", "Stop reading, or back", "Shows what came; then back to the list.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the list of traces."),
    ]

    def __init__(self, name: RankSetName, uses_cache: bool = True) -> None:
        super().__init__()
        self.set_name = name
        self._view = RankView(name, SummaryWork(uses_cache=uses_cache))

    @property
    def view(self) -> RankView:
        """What fills the screen."""
        return self._view

    @property
    def label(self) -> str:
        """The folder."""
        return self._view.where

    def compose_view(self) -> ComposeResult:
        """The set."""
        yield self._view

    def help_title(self) -> str:
        """What stands above the help."""
        return f"Help: keys, and below them the columns of {self._view.panes.pane}"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is always the list of traces to go back to."""
        return True if action == "leave" else super().check_action(action, parameters)

    def action_leave(self) -> None:
        """Stop reading and show what came; else go to the list of traces."""
        if self._view.is_reading and not self._view.reader.is_stopped:
            self._view.reader.stop()
        else:
            super().action_leave()
