"""Lines with bars of several parts: a comparison at first sight, what ranks spend their time on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.hues import is_plain
from tracetui.drawing.stacked_bars import Line, in_ascii, segments
from tracetui.ui.widgets.surface import CachedStyle, colour_count

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
