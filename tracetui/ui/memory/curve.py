"""The curve of active and reserved bytes over the events of a device, with a cursor that says of which moment."""

from __future__ import annotations

import os
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.hues import is_plain
from tracetui.model.intervals import Int64
from tracetui.model.quantities import count, duration, size
from tracetui.snapshots.history import DeviceHistory
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command

EIGHTHS = " ▁▂▃▄▅▆▇█"
RESERVED, CURSOR, PEAK, OOM = "░", "┃", "▲", "✖"
_ASCII = str.maketrans(
    {**dict.fromkeys("▁▂▃▄", "."), **dict.fromkeys("▅▆▇█", "#"), "░": ":", "┃": "|", "▲": "^", "✖": "x"}
)
SCALE_CELLS = 11
"""Cells of the numbers at the left."""
ZOOM = 4
"""Factor of one press."""


class CurveView(Widget, can_focus=True):
    """The curve of one device. The cursor is a moment: a number of events."""

    HELP_WHERE = "curve"
    COMPONENT_CLASSES: ClassVar[set[str]] = {"curve--active", "curve--reserved", "curve--cursor", "curve--scale"}
    DEFAULT_CSS = """
    CurveView { height: 8; padding: 0 1; }
    CurveView .curve--active { color: $primary; }
    CurveView .curve--reserved { color: $secondary; }
    CurveView .curve--cursor { color: $accent; text-style: bold; }
    CurveView .curve--scale { color: $text-muted; }
    CurveView:focus .curve--scale { color: $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.LEFT, "pan(-1)", "Cursor earlier", "By a cell of the curve.", "cursor"),
        command(keys.RIGHT, "pan(1)", "Cursor later", "By a cell of the curve.", "cursor"),
        command(keys.PAGE_UP, "pan(-10)", "Cursor ten cells earlier"),
        command(keys.PAGE_DOWN, "pan(10)", "Cursor ten cells later"),
        command(keys.FIRST, "go(0)", "Cursor before the first event"),
        command(keys.LAST, "go(1)", "Cursor at the end"),
    ]

    cursor: reactive[int] = reactive(0)
    """The moment."""

    class Moved(Message):
        """The user moved the cursor."""

    def __init__(self, history: DeviceHistory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history = history
        self._window = 0, history.count
        """First and last moment on screen."""

    def show(self, history: DeviceHistory) -> None:
        """Draw another device."""
        self.history, self._window = history, (0, history.count)
        self.refresh()

    def watch_cursor(self) -> None:
        """Keep the cursor on screen."""
        low, high = self._window
        if not low <= self.cursor <= high:
            self._center(high - low)

    def action_pan(self, cells: int) -> None:
        """Move the cursor by cells, at least by an event each."""
        low, high = self._window
        step = max((high - low) // max(self._cells, 1), 1)
        self._go(self.cursor + cells * step)

    def action_go(self, end: int) -> None:
        """Move the cursor to the first or the last moment."""
        self._go(end * self.history.count)

    def zoom(self, direction: int) -> None:
        """Show fewer events about the cursor, or more; 0 shows all."""
        low, high = self._window
        length = self.history.count if not direction else (high - low) // ZOOM if direction > 0 else (high - low) * ZOOM
        self._center(min(max(length, 8), self.history.count))

    def _center(self, length: int) -> None:
        low = min(max(self.cursor - length // 2, 0), max(self.history.count - length, 0))
        self._window = low, min(low + length, self.history.count)
        self.refresh()

    def _go(self, moment: int) -> None:
        self.cursor = min(max(moment, 0), self.history.count)
        self.post_message(self.Moved())

    def on_click(self, event: Click) -> None:
        """Put the cursor where the pointer is."""
        column = event.x - 1 - SCALE_CELLS
        if 0 <= column < self._cells:
            low, high = self._window
            self._go(low + (high - low) * column // max(self._cells - 1, 1))

    # Drawing

    @property
    def _cells(self) -> int:
        return max(self.size.width - SCALE_CELLS, 1)

    def _edges(self) -> Int64:
        """First moment of each cell."""
        low, high = self._window
        edges: Int64 = low + (high - low + 1) * np.arange(self._cells) // self._cells
        return edges

    def _column(self, moment: int) -> int:
        return int(np.searchsorted(self._edges(), moment, side="right")) - 1

    @property
    def words(self) -> str:
        """The cursor in words: event, time, and the heights of the curves."""
        history, moment = self.history, self.cursor
        at = history.at_us(moment)
        parts = [f"event {count(moment)} of {count(history.count)}"]
        parts += [duration(at * 1000)] if at is not None else []
        parts.append(f"active {size(history.active[moment])}")
        if history.pending[moment]:
            parts.append(f"freed, not completed {size(history.pending[moment])}")
        return " · ".join([*parts, f"reserved {size(history.reserved[moment])}"])

    def render_line(self, y: int) -> Strip:
        """A line of the curve, or of its marks below it."""
        width, height = self.size
        rows = height - 1
        texts = self._marks() if y == rows else self._row(y, rows)
        plain = is_plain(os.environ)
        segments = [Segment(text.translate(_ASCII) if plain else text, style) for text, style in texts]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _row(self, y: int, rows: int) -> list[tuple[str, Style]]:
        history, edges = self.history, self._edges()
        top = max(int(history.reserved.max(initial=0)), int(history.active.max(initial=0)), 1)
        last = self._window[1] + 1
        active = np.maximum.reduceat(history.active[:last], edges) * (8 * rows) / top
        reserved = np.maximum.reduceat(history.reserved[:last], edges) * (8 * rows) / top
        floor = 8 * (rows - 1 - y)
        eighths = np.clip(np.ceil(active - floor), 0, 8).astype(np.int64)
        is_reserved = reserved > floor
        cursor = self._column(self.cursor)
        label = size(top) if y == 0 else size(top / 2) if y == rows // 2 else ""
        pieces = [(f"{label:>{SCALE_CELLS - 1}} ", self._look("scale"))]
        for column, (filled, below) in enumerate(zip(eighths.tolist(), is_reserved.tolist(), strict=True)):
            if column == cursor:
                pieces.append((CURSOR, self._look("cursor")))
            elif filled:
                pieces.append((EIGHTHS[filled], self._look("active")))
            else:
                pieces.append((RESERVED if below else " ", self._look("reserved")))
        return pieces

    def _marks(self) -> list[tuple[str, Style]]:
        """The peak and failed allocations, and the cursor in words."""
        low, high = self._window
        cells = [" "] * self._cells
        for moment, sign in [(self.history.peak, PEAK), *((each, OOM) for each in self.history.ooms[:1000])]:
            if low <= moment <= high:
                cells[self._column(moment)] = sign
        return [(" " * SCALE_CELLS, self.rich_style), ("".join(cells), self._look("cursor"))]

    def _look(self, name: str) -> Style:
        return self.get_component_rich_style(f"curve--{name}")
