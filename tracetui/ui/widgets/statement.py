"""Above a list: sentences, the verdict and further ones as far as they fit, and lines with bars of several parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.format import CUT
from tracetui.drawing.hues import is_plain
from tracetui.drawing.stacked_bars import Line, in_ascii, segments
from tracetui.text import clean
from tracetui.ui.base.overlay import cut_line
from tracetui.ui.widgets.details import folded
from tracetui.ui.widgets.searchable_view import SearchableView
from tracetui.ui.widgets.surface import CachedStyle, colour_count
from tracetui.ui.widgets.tabbed_list import TabbedList

MakeLines = Callable[[int, bool], Sequence[Line]]
"""Makes the lines for a width, and for a terminal whose colours do not tell parts apart."""


class StackedLines(CachedStyle, Widget):
    """As many of the lines as there is room for; they are made anew where the width changes."""

    DEFAULT_CSS = """
    StackedLines { height: 0; padding: 0 1; }
    """
    MAX_KEPT: ClassVar[int] = 4
    """Maximum widths whose lines are kept."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make: MakeLines | None = None
        self._made: dict[tuple[int, bool], Sequence[Line]] = {}

    def show(self, make: MakeLines | None) -> None:
        """Show other lines, or none."""
        self._make = make
        self._made.clear()
        self.refresh()

    def wanted(self, width: int, most: int) -> int:
        """Lines that it needs on a screen of a width, at most `most`."""
        return min(len(self._lines(width - 2)), most)

    @property
    def text(self) -> str:
        """Text on screen."""
        return "\n".join("".join(piece.text for piece in line) for line in self._lines(self.size.width))

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        width, ground = self.size.width, self.rich_style
        lines = self._lines(width)
        if y >= len(lines):
            return Strip.blank(width, ground)
        drawn = segments(lines[y], colour_count(self.app), self.app.current_theme.dark, ground)
        return Strip(drawn).adjust_cell_length(width, ground)

    def _lines(self, width: int) -> Sequence[Line]:
        if self._make is None or width <= 0:
            return ()
        key = width, colour_count(self.app) < 256 or is_plain(os.environ)
        if key not in self._made:
            if len(self._made) >= self.MAX_KEPT:
                self._made.clear()
            lines = self._make(*key)
            self._made[key] = [in_ascii(line) for line in lines] if is_plain(os.environ) else lines
        return self._made[key]


MORE = " … V: all"
"""Ends the last line when there is more to read."""


def _whole_words(text: str, room: int) -> str:
    """A line in `room` cells, cut between words; a single word is cut within."""
    if cell_len(text) <= room:
        return text
    kept = cut_line(text, room + 1).rstrip(CUT)
    is_whole = text[len(kept) : len(kept) + 1] in ("", " ")
    return kept.rstrip() if is_whole or " " not in kept.strip() else kept[: kept.rindex(" ")].rstrip()


class StatementView(Widget):
    """Some lines of text; a click asks for all of them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"statement--verdict"}
    DEFAULT_CSS = """
    StatementView { height: 1; padding: 0 1; .statement--verdict { text-style: bold; } }
    """

    sentences: reactive[tuple[str, ...]] = reactive(())
    """The verdict first."""
    whole: reactive[bool] = reactive(False)
    """True where every sentence has lines of its own; if not, they follow each other below the verdict."""

    class Clicked(Message):
        """The user wants to read all of it."""

    def wanted(self, width: int, limit: int) -> int:
        """Lines that all sentences need at a width in cells, at most `limit`, at least 1."""
        return max(min(len(self._lines(width - 2)), limit), 1)

    def verdict_lines(self, width: int) -> int:
        """Lines that the verdict needs at a width in cells."""
        return max(sum(is_verdict for _, is_verdict in self._lines(width - 2)), 1)

    def render_line(self, y: int) -> Strip:
        """One line of the sentences."""
        width, height = self.size
        lines = self._lines(width)
        text, style = "", self.rich_style
        if y < len(lines):
            text, is_verdict = lines[y]
            if y == height - 1 and len(lines) > height:
                # What follows is cut off too: the line says so however short it is.
                text = _whole_words(text, max(width - len(MORE), 1)) + MORE
            if is_verdict:
                style = self.get_component_rich_style("statement--verdict")
        return Strip([Segment(text, style)]).adjust_cell_length(width, self.rich_style)

    def on_click(self, event: Click) -> None:
        """Report the click."""
        event.stop()
        self.post_message(self.Clicked())

    def _lines(self, width: int) -> list[tuple[str, bool]]:
        """The sentences folded, and whether each line belongs to the first."""
        sentences = [clean(each) for each in self.sentences]
        if not self.whole:
            sentences = [*sentences[:1], *([" ".join(sentences[1:])] if len(sentences) > 1 else [])]
        return [(piece, index == 0) for index, each in enumerate(sentences) for piece in folded(each, width)]


class StatedView(SearchableView):
    """Base of views with sentences above the list, which one key shows in full in place of another part."""

    def __init__(self, panes: TabbedList) -> None:
        super().__init__(panes)
        self.statement = StatementView()

    @property
    def is_covered(self) -> bool:
        """True where something stands in the place of another part."""
        return super().is_covered or self.has_class("-statement")

    def close_cover(self) -> bool:
        """Show again what the sentences stand in place of, then what else was covered; False where nothing is."""
        if self.has_class("-statement"):
            self.action_statement()
            return True
        return super().close_cover()

    def action_statement(self) -> None:
        """Show every sentence in place of another part, or that part again."""
        self.toggle_class("-statement")
        self.statement.whole = self.has_class("-statement")
        self.share_height()

    @on(StatementView.Clicked)
    def _click_statement(self) -> None:
        self.action_statement()
