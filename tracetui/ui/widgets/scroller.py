"""A scrolling widget that draws its own lines, in the colours that the terminal has."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.style import Style
from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView

from tracetui.drawing.hues import Hue
from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.widgets.surface import CachedStyle, colour_count


@lru_cache(maxsize=256)
def _in_colour(base: Style, colour: int) -> Style:
    """A style with another colour of the text; the same object each time."""
    return base + Style(color=Color.from_ansi(colour))


class Scroller(AnalysisSafe, CachedStyle, ScrollView):
    """As `ScrollView`, always with a vertical scroll bar, so that more or fewer lines move nothing else."""

    DEFAULT_CSS = """
    Scroller {
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
    """Width (not used) and number of lines."""

    @property
    def is_plain(self) -> bool:
        """True where the terminal has 16 colours or none: textures tell the parts of a bar apart."""
        return colour_count(self.app) < 256

    def hued(self, hue: Hue, base: Style) -> Style:
        """A style in the colour of a hue; as it is where there are no colours."""
        count = colour_count(self.app)
        return _in_colour(base, hue.colour(count, self.app.current_theme.dark)) if count else base

    def set_length(self, lines: int) -> None:
        """Set the number of lines to scroll over."""
        self.virtual_size = Size(0, lines)
        self.vertical_scrollbar.window_virtual_size = lines
        if self.scroll_offset.y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True, immediate=True)
