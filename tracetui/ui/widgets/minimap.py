"""How busy the devices were over the whole trace, with the window in brackets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from textual.events import MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.reactive import reactive

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.cells import FROM_BOTTOM, Frame
from tracetui.drawing.timeline.labels import codes
from tracetui.drawing.timeline.palette import BOLD, GROUND
from tracetui.drawing.timeline.raster import Picture, Window
from tracetui.drawing.timeline.scene import label_width
from tracetui.model.quantities import percent
from tracetui.model.trace import Trace
from tracetui.ui.widgets.surface import Surface

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
        self._picture: Picture | None = None
        self._whole = (0, 1)
        self._share = 0.0
        self._dragging = False

    def show(self, trace: Trace, picture: Picture) -> None:
        """Show a trace."""
        self._picture = picture
        self._whole = trace.window
        begin, end = trace.window
        self._share = picture.busy_share(begin, end)
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
        if self._picture is None or cells < 1:
            return None
        colours = self.colours
        quiet = GROUND if colours.mono else colours.quiet
        frame = Frame.blank(height, width)
        what = "GPU" if self._picture.has_gpu else "CPU"
        text = f"{what} busy {percent(self._share * 100)}"
        text = text if len(text) < self.left else text.replace(" busy", "")
        frame.write(0, 0, codes(shorten(text, self.left - 1)))
        whole = self._map(cells)
        busy = self._picture.gpu_busy(whole, cells)
        # Where the device is idle nearly all the time, what little there is must still show its shape.
        most = float(busy.max(initial=0.0))
        scale = 1 / most if 0 < most < LOW_BUSY_SHARE else 1.0
        level = np.ceil(np.clip(busy * scale, 0, 1) * 8 * height - 1e-9).astype(np.int64)
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
        if self._picture is not None and cells > 0 and x >= self.left:
            cell = min(max(x - self.left, 0), cells - 1)
            whole = self._map(cells)
            self.post_message(self.Clicked(round(whole.moment_at(cell))))

    def _map(self, cells: int) -> Window:
        """The window of the map itself: all of the trace."""
        return Window.fit(*self._whole, cells, 0.0)
