"""A page of text over a screen, which scrolls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.commands import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart


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
