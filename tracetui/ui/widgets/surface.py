"""Widgets that draw their own cells in the colours that the terminal has: one grid of cells, or lines that scroll.

Subclasses of `Surface` draw a `Frame`; this keeps the last one, compares, makes strips of the rows that differ and
refreshes just their columns, so that the terminal gets only the cells that changed. It has no border and no padding:
the grid is the widget.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.events import MouseDown, MouseMove, MouseUp
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.format import shorten
from tracetui.drawing.hues import Hue, is_plain
from tracetui.drawing.timeline.cells import FROM_BOTTOM, Frame
from tracetui.drawing.timeline.grid import label_width
from tracetui.drawing.timeline.legend import draw_legend, legend_lines
from tracetui.drawing.timeline.palette import (
    BOLD,
    DIM,
    GROUND,
    REVERSE,
    UNDERLINE,
    Palette,
    codes,
    nearest_colour,
    palette,
)
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.quantities import percent
from tracetui.model.trace import Trace
from tracetui.ui.base.overlay import AnalysisSafe
from tracetui.ui.base.textual_internals import style_versions

if TYPE_CHECKING:
    _Widget = Widget
else:
    # Textual takes the style sheet of a widget from the first of its bases that is a node.
    _Widget = object


class CellWriter:
    """Runs of text in one style, of the rows of a grid; each style is made once."""

    def __init__(self, ground: Style) -> None:
        """`ground` has the text colour and the background to use where a cell has none of its own."""
        self._ground = ground
        self._styles: dict[int, Style] = {}

    def segments(self, frame: Frame, row: int) -> list[Segment]:
        """One row of the grid, equal neighbours joined."""
        look = (frame.fg[row].astype(np.int32) + 1) * 258 + frame.bg[row] + 1
        look = look * 16 + frame.attributes[row]
        text = frame.text(row)
        bounds = [0, *(np.flatnonzero(look[1:] != look[:-1]) + 1).tolist(), len(text)]
        keys = look[bounds[:-1]].tolist() if text else []
        styles = self._styles
        result = []
        for begin, end, key in zip(bounds, bounds[1:], keys, strict=False):
            run = text[begin:end]
            if run.isspace():
                # The text colour of spaces is not seen, but would be sent.
                key = key % (258 * 16)
            style = styles.get(key)
            if style is None:
                style = styles[key] = self._style(key)
            result.append(Segment(run, style))
        return result

    def _style(self, key: int) -> Style:
        key, attributes = divmod(key, 16)
        fg, bg = divmod(key, 258)
        own = Style(
            color=_colour(fg - 1),
            bgcolor=_colour(bg - 1),
            bold=True if attributes & BOLD else None,
            dim=True if attributes & DIM else None,
            underline=True if attributes & UNDERLINE else None,
            reverse=True if attributes & REVERSE else None,
        )
        return self._ground + own


def _colour(number: int) -> Color | None:
    return None if number == GROUND else Color.from_ansi(number)


def colour_count(app: App[Any]) -> int:
    """Colours of the terminal: 256, 16, or 0 for none."""
    if app.no_color:
        return 0
    return 16 if app.native_ansi_color or app.console.color_system in ("standard", "windows") else 256


class CachedStyle(_Widget):
    """Mixin for widgets that draw their own lines, whose text colour and background are not worked out for each line.

    It comes before the widget's class. Textual walks up to the screen and adds colours for `rich_style`, which takes as
    long as drawing several lines.
    """

    _cached_style: tuple[tuple[int, ...], Style] = ((), Style())

    @property
    def rich_style(self) -> Style:
        """Text colour and background, as in `Widget`; kept until the styles of the widget or those above change."""
        versions = style_versions(self)
        if versions is None:
            return super().rich_style
        if self._cached_style[0] != versions:
            self._cached_style = versions, super().rich_style
        return self._cached_style[1]


class Surface(AnalysisSafe, CachedStyle, Widget):
    """Base of widgets that draw their cells themselves."""

    _frame: Frame | None = None
    _strips: list[Strip]
    _cell_writer: CellWriter
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
        return palette(colour_count(self.app), self.app.current_theme.dark, is_plain(os.environ))

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
        """Post a message that the parent handles before this widget is drawn again.

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
        if not (width and height):
            # It is hidden: what was on screen last is not what it will show.
            self._frame = None
            return []
        ground = self._ground_style()
        if (ground, self.colours) != (self._ground, self._palette):
            self._ground, self._cell_writer, self._frame, self._palette = ground, CellWriter(ground), None, self.colours
        last = self._frame
        if last is not None and last.shape != (height, width):
            last = None
        frame = self.draw(None if self._stale else last)
        self._stale = False
        if frame is None:
            return []
        if self.colours.is_plain:
            frame = frame.in_ascii()
        differing = np.ones(frame.shape, bool) if last is None else frame.differing(last)
        if last is None:
            self._strips = [Strip.blank(width)] * height
        regions = []
        for y in np.flatnonzero(differing.any(axis=1)).tolist():
            self._strips[y] = Strip(self._cell_writer.segments(frame, y), width)
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


# How busy the devices were over the whole trace, with the window in brackets.

LOW_BUSY_SHARE = 0.5
"""Below this share of the busiest cell the bars are drawn relative to it."""


class Minimap(Surface):
    """One or two lines under the header; a click asks to move the window."""

    DEFAULT_CSS = """
    Minimap { height: 1; }
    """

    window: reactive[Window | None] = reactive(None, repaint=False, init=False)
    """The stretch of time that the lanes show."""
    lane_width: reactive[int] = reactive(0, repaint=False, init=False)
    """Cells of the column of lane names below; 0 for as many as the lanes use by themselves."""

    @dataclass
    class Clicked(Message):
        """The user points at a moment."""

        ns: int

    def __init__(self, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._timeline_index: TimelineIndex | None = None
        self._whole = (0, 1)
        self._share = 0.0
        self._busy: tuple[tuple[int, int], NDArray[np.int64]] | None = None
        """Width and height of the bars, and how far each is filled in eighths of a line: no window changes them."""
        self._dragging = False

    def show(self, trace: Trace, timeline_index: TimelineIndex) -> None:
        """Show a trace."""
        self._timeline_index = timeline_index
        self._whole = trace.window
        begin, end = trace.window
        self._share, self._busy = timeline_index.busy_share(begin, end), None
        self.changed()

    def watch_window(self) -> None:
        """Move the brackets."""
        self.changed()

    def watch_lane_width(self) -> None:
        """Keep in line with the lanes."""
        self.changed()

    @property
    def left(self) -> int:
        """The first cell of the map."""
        return self.lane_width or label_width(self.size.width)

    def draw(self, last: Frame | None) -> Frame | None:
        """Bars of how busy each cell is; those outside the window are dimmer."""
        width, height = self.size
        cells = width - self.left
        if self._timeline_index is None or cells < 1:
            return None
        colours = self.colours
        quiet = GROUND if colours.mono else colours.quiet
        frame = Frame.blank(height, width)
        what = "GPU" if self._timeline_index.has_gpu else "CPU"
        text = f"{what} busy {percent(self._share * 100)}"
        text = text if len(text) < self.left else text.replace(" busy", "")
        frame.write(0, 0, codes(shorten(text, self.left - 1)))
        whole = self._map(cells)
        if self._busy is None or self._busy[0] != (cells, height):
            busy = self._timeline_index.gpu_busy(whole, cells)
            # Where the device is idle nearly all the time, what little there is must still show its shape.
            most = float(busy.max(initial=0.0))
            scale = 1 / most if 0 < most < LOW_BUSY_SHARE else 1.0
            levels = np.ceil(np.clip(busy * scale, 0, 1) * 8 * height - 1e-9).astype(np.int64)
            self._busy = (cells, height), levels
        level = self._busy[1]
        for y in range(height):
            bars = FROM_BOTTOM[np.clip(level - 8 * (height - 1 - y), 0, 8)]
            frame.write(y, self.left, bars, quiet)
        if self.window is not None:
            begin = min(max(whole.cell_of(self.window.start_ns), 0), cells - 1)
            end = min(max(whole.cell_of(self.window.end_ns(cells)), begin), cells - 1)
            for y in range(height):
                frame.fg[y, self.left + begin : self.left + end + 1] = GROUND
                if end > begin + 1:
                    frame.write(y, self.left + begin, codes("["), GROUND, BOLD)
                    frame.write(y, self.left + end, codes("]"), GROUND, BOLD)
                else:
                    frame.write(y, self.left + begin, codes("┃"), GROUND, BOLD)
        return frame

    def on_mouse_down(self, event: MouseDown) -> None:
        """Point at a moment; dragging goes on pointing."""
        self._dragging = True
        self.capture_mouse()
        self._point(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        """Follow the mouse while its button is held."""
        if self._dragging:
            self._point(event.x)

    def on_mouse_up(self, event: MouseUp) -> None:
        """Let go."""
        self._dragging = False
        self.release_mouse()

    def _point(self, x: int) -> None:
        cells = self.size.width - self.left
        if self._timeline_index is not None and cells > 0 and x >= self.left:
            cell = min(max(x - self.left, 0), cells - 1)
            whole = self._map(cells)
            self.post_message(self.Clicked(round(whole.moment_at(cell))))

    def _map(self, cells: int) -> Window:
        """The window of the map itself: all of the trace."""
        return Window.fit(*self._whole, cells, 0.0)


# The legend of the help: colours and marks, in the colours of the terminal at hand.


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
