"""The legend of the help: colours and marks, in the colours of the terminal at hand."""

from __future__ import annotations

from textual.geometry import Size

from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.legend import draw_legend, legend_lines
from tracetui.ui.widgets.surface import Surface


class Legend(Surface):
    """As many lines as the legend takes in the width that there is."""

    DEFAULT_CSS = """
    Legend { height: auto; max-height: 50%; margin: 0 1; }
    """

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines for a width."""
        return len(legend_lines(self.colours, width))

    def draw(self, last: Frame | None) -> Frame | None:
        """The whole legend."""
        width, height = self.size
        return draw_legend(self.colours, width, height)
