"""One line of text made of parts, some of which can be clicked: header, step switcher, tabs, key hints.

Textual's own Footer and Tabs repaint the screen on a focus change and animate; this draws one strip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.name_cutting import CUT
from tracetui.ui.base.text_cutting import cut_line
from tracetui.ui.widgets.cached_style import CachedStyle


@dataclass(frozen=True)
class BarPart:
    """A stretch of a bar."""

    text: str
    style: str = "plain"
    """Which component class draws it: plain, strong, dim, empty, key, current or warn."""
    key: str = ""
    """Sent when it is clicked; nothing happens without one."""


class Bar(CachedStyle, Widget):
    """A line of parts; what does not fit is cut on the right, never within a number."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "bar--plain",
        "bar--strong",
        "bar--dim",
        "bar--empty",
        "bar--key",
        "bar--current",
        "bar--warn",
    }
    DEFAULT_CSS = """
    Bar {
        height: 1;
        padding: 0 1;
        .bar--strong { text-style: bold; }
        .bar--dim { color: $text-muted; }
        .bar--empty { color: $text-muted; text-style: dim; }
        .bar--key { color: $primary; text-style: bold; }
        .bar--current { background: $primary; color: $background; text-style: bold; }
        .bar--warn { color: $warning; text-style: bold; }
    }
    """

    parts: reactive[tuple[BarPart, ...]] = reactive(())
    """What the line says, from left to right."""

    class Pressed(Message):
        """A part with a key was clicked."""

        def __init__(self, bar: Bar, key: str) -> None:
            super().__init__()
            self.bar = bar
            self.key = key

        @property
        def control(self) -> Bar:
            """The bar, for `@on` selectors."""
            return self.bar

    @property
    def text(self) -> str:
        """All parts as one string."""
        return "".join(part.text for part in self.parts)

    def render_line(self, y: int) -> Strip:
        """The only line there is."""
        width = self.size.width
        if y > 0:
            return Strip.blank(width, self.rich_style)
        segments = [
            Segment(text, self.get_component_rich_style(f"bar--{style}")) for text, style in self._fitting(width)
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _fitting(self, width: int) -> list[tuple[str, str]]:
        """Text and style of the parts, as far as they fit."""
        whole = self.text.rstrip()
        left = len(cut_line(whole, width)) if cell_len(whole) > width else len(self.text)
        cut = left < len(self.text)
        fitting: list[tuple[str, str]] = []
        for part in self.parts:
            if left > 0:
                fitting.append((part.text[:left], part.style))
                left -= len(part.text)
        if cut and fitting:
            text, style = fitting[-1]
            fitting[-1] = text[:-1] + CUT, style
        return fitting

    def on_click(self, event: Click) -> None:
        """Tell which part was hit."""
        x = event.x - self.styles.padding.left
        for part in self.parts:
            width = cell_len(part.text)
            if 0 <= x < width:
                if part.key:
                    event.stop()
                    self.post_message(self.Pressed(self, part.key))
                return
            x -= width
