"""One line of text made of parts, some of which can be clicked: header, step switcher, tabs, key hints.

Textual's own Footer and Tabs repaint the screen on a focus change and animate; this draws one strip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Click, MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.format import CUT, wrapped
from tracetui.text import clean
from tracetui.ui.base.overlay import cut_line
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


# A bar that is also the border between what is above and below it: dragged with the mouse, it asks to be moved.


class SplitBar(Bar):
    """The tabs of a list, below the timeline."""

    class Dragged(Message):
        """The user wants the bar on another line of the screen."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines
            """Lines down from where the bar is; negative for up."""

    def __init__(self) -> None:
        super().__init__()
        self._is_held = self._was_dragged = False

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take hold."""
        if event.button == 1:
            self._is_held, self._was_dragged = True, False
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        """Ask to be moved to the line of the mouse."""
        lines = event.screen_y - self.region.y
        if self._is_held and lines:
            self._was_dragged = True
            self.post_message(self.Dragged(lines))

    def on_mouse_up(self, event: MouseUp) -> None:
        """Let go."""
        self._is_held = False
        self.release_mouse()

    def on_click(self, event: Click) -> None:
        """A drag ends on the bar, but picks no tab."""
        if self._was_dragged:
            event.prevent_default()
            event.stop()


# A sentence across the screen, in full: as many lines as it needs.

MAX_LINES = 3
"""Maximum lines of a sentence, however narrow the terminal is."""


class SentenceBar(Bar):
    """A bar that wraps one sentence."""

    sentence: reactive[str] = reactive("")
    """What it says."""

    @property
    def text(self) -> str:
        """The sentence."""
        return self.sentence

    def watch_sentence(self) -> None:
        """Take as many lines as the sentence needs."""
        self._fit()

    def on_resize(self) -> None:
        """Wrap it again."""
        self._fit()

    def render_line(self, y: int) -> Strip:
        """One line of the sentence."""
        lines, style = self._lines(), self.get_component_rich_style("bar--strong")
        return Strip([Segment(lines[y] if y < len(lines) else "", style)]).adjust_cell_length(
            self.size.width, self.rich_style
        )

    def _fit(self) -> None:
        height = len(self._lines())
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height

    def _lines(self) -> list[str]:
        # Before the first layout the sentence counts as one line.
        return wrapped(clean(self.sentence), self.size.width)[:MAX_LINES] if self.size.width else [""]
