"""A widget that is one grid of cells, and sends the terminal only the cells that changed.

Subclasses draw a `Frame`; this keeps the last one, compares, makes strips of the rows that differ and
refreshes just their columns. It has no border and no padding: the grid is the widget.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from rich.color import Color
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.timeline.brush import Brush
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import Palette, nearest_colour, palette
from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.widgets.cached_style import CachedStyle


class Surface(AnalysisSafe, CachedStyle, Widget):
    """Base of widgets that draw their cells themselves."""

    _frame: Frame | None = None
    _strips: list[Strip]
    _brush: Brush
    _ground: Style | None = None
    _palette: Palette | None = None
    _stale = True
    _pending = False
    _is_posting = False

    def draw(self, last: Frame | None) -> Frame | None:
        """The grid as it should be now, None for nothing to show.

        `last` is the one on screen when `changed(everything=False)` was all that happened since, else None.
        """
        raise NotImplementedError

    @property
    def colours(self) -> Palette:
        """The palette that suits the terminal and the theme."""
        number = 256
        if self.app.no_color:
            number = 0
        elif self.app.native_ansi_color or self.app.console.color_system in ("standard", "windows"):
            number = 16
        return palette(number, self.app.current_theme.dark)

    def changed(self, everything: bool = True) -> None:
        """Draw again once the messages at hand are dealt with."""
        self._stale = self._stale or everything
        if not self._pending and self.is_mounted:
            self._pending = True
            if self._is_posting:
                self.call_later(self._redraw_after_parent)
            else:
                self._redraw_after_parent()

    def post_before_redraw(self, message: Message) -> None:
        """Post a message that the parent is to deal with before this widget is drawn again.

        What the parent changes elsewhere then reaches the terminal in the same write, not one frame later.
        """
        self.post_message(message)
        self._is_posting = True

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        if self._ground is not None and (self._ground, self._palette) != (self._ground_style(), self.colours):
            self.changed()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The strips of some lines; drawn before if the size is a new one."""
        width, height = self.size
        if self._frame is None or self._frame.shape != (height, width):
            self._stale = True
            self._paint()
        if self._frame is None:
            return [Strip.blank(crop.width, self.rich_style)] * crop.height
        strips = self._strips[crop.y : crop.bottom]
        if crop.column_span == (0, width):
            return strips
        return [strip.crop(*crop.column_span) for strip in strips]

    def _redraw_after_parent(self) -> None:
        """Have the parent call back, which it does when the messages before are dealt with."""
        parent = self.parent
        (parent if isinstance(parent, Widget) else self).call_later(self._redraw)

    def _redraw(self) -> None:
        self._pending = self._is_posting = False
        regions = self._paint()
        if regions:
            self.refresh(*regions)

    def _paint(self) -> list[Region]:
        """Draw, make strips of the rows that differ, and return the regions that do."""
        width, height = self.size
        ground = self._ground_style()
        if (ground, self.colours) != (self._ground, self._palette):
            self._ground, self._brush, self._frame, self._palette = ground, Brush(ground), None, self.colours
        last = self._frame
        if last is not None and last.shape != (height, width):
            last = None
        frame = self.draw(None if self._stale else last) if width and height else None
        self._stale = False
        if frame is None:
            return []
        differing = np.ones(frame.shape, bool) if last is None else frame.differing(last)
        if last is None:
            self._strips = [Strip.blank(width)] * height
        regions = []
        for y in np.flatnonzero(differing.any(axis=1)).tolist():
            self._strips[y] = Strip(self._brush.segments(frame, y), width)
            cells = np.flatnonzero(differing[y])
            left, right = int(cells[0]), int(cells[-1]) + 1
            regions.append(Region(left, y, right - left, 1))
        self._frame = frame
        return regions

    def _ground_style(self) -> Style:
        """Text colour and background, brought to the palette so that they cost few bytes."""
        style = self.rich_style
        if self.app.no_color:
            return Style()
        return Style(color=_of_256(style.color), bgcolor=_of_256(style.bgcolor))


@lru_cache(maxsize=64)
def _of_256(colour: Color | None) -> Color | None:
    """The same colour as an index, unless it is the terminal's own."""
    if colour is None or colour.triplet is None:
        return colour
    return Color.from_ansi(nearest_colour(*colour.triplet))
