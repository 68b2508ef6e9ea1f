"""A scrolling widget whose length may change without a new layout of the whole screen."""

from __future__ import annotations

from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView

from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.widgets.cached_style import CachedStyle


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

    def set_length(self, lines: int) -> None:
        """Set the number of lines to scroll over."""
        self.virtual_size = Size(0, lines)
        self.vertical_scrollbar.window_virtual_size = lines
        if self.scroll_offset.y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True, immediate=True)
