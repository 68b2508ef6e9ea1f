"""The screen of two traces beside each other."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tracetui.comparing.side import Side
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.trace import Trace
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.compare.compare_view import CompareView
from tracetui.ui.widgets.sized_screen import SizedScreen


class CompareScreen(SizedScreen):
    """Composes one `CompareView`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "leave", "Back", "To the trace or the list from which this was opened.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the trace or the list from which this was opened."),
    ]

    def __init__(
        self,
        a: Side,
        b: Side,
        pictures: tuple[Picture, Picture],
        paths: tuple[str, str],
        tab: str = "",
        listed: bool = False,
    ) -> None:
        """`listed` says that the traces were picked from a list, to which one can go back."""
        super().__init__()
        self._listed = listed
        self._view = CompareView(a, b, pictures, paths, tab)

    @property
    def view(self) -> CompareView:
        """What fills the screen."""
        return self._view

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Going back takes a screen below, or the list that the traces were picked from."""
        return self._listed or super().check_action(action, parameters) if action == "leave" else True

    @property
    def traces(self) -> tuple[Trace, ...]:
        """What is shown."""
        return tuple(side.trace for side in self._view.compared.sides)

    @property
    def label(self) -> str:
        """The names of both traces."""
        return "-".join(side.trace.label for side in self._view.compared.sides)

    def compose_view(self) -> ComposeResult:
        """Both traces."""
        yield self._view

    def help_title(self) -> str:
        """What stands above the help."""
        return f"Help: keys, and below them the columns of {self._view.panes.pane}"
