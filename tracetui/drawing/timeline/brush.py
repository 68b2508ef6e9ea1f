"""From a grid of cells to runs of text in one style, which is what a terminal library wants to be given."""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import BOLD, DIM, GROUND, REVERSE, UNDERLINE


class Brush:
    """Makes segments of rows; styles are made once per combination of colours and attributes."""

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
