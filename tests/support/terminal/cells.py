"""Screens of pyte, compared cell by cell: what a person can see of the characters, colours and attributes."""

from __future__ import annotations

import re

import pyte

from tests.support.terminal.raw import Raw

_ATTRIBUTES = ("bold", "italics", "underscore", "strikethrough", "reverse", "blink")
_UNKNOWN = re.compile(r"\x1b\[[<>=?][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p|\x1b\]8;[^\x1b]*\x1b\\|\x1b\[6n")
"""Sequences that pyte would print, or that change nothing that it shows."""


class Terminal:
    """A terminal that shows what is written to it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.Screen(columns, rows)
        # As the app has it: what is written behind the last cell stays there.
        self.screen.reset_mode(7, private=True)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> None:
        """Show a text."""
        self._stream.feed(_UNKNOWN.sub("", text))

    def resize(self, columns: int, rows: int) -> None:
        """Have another size."""
        self.screen.resize(rows, columns)

    def cells(self) -> list[list[tuple]]:
        """What is seen of each cell, row by row."""
        return [[_seen(self.screen.buffer[y][x]) for x in range(self.screen.columns)] for y in range(self.screen.lines)]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row of the cursor."""
        return self.screen.cursor.x, self.screen.cursor.y


def _seen(cell: pyte.screens.Char) -> tuple:
    look = (cell.fg, cell.bg, *(getattr(cell, name) for name in _ATTRIBUTES))
    if cell.data == " " and not (cell.underscore or cell.strikethrough or cell.reverse or cell.blink):
        # On a space neither the colour of the text nor its weight is seen.
        return " ", cell.bg
    return cell.data, *look


def differing(one: Terminal, other: Terminal) -> list[tuple]:
    """Row, column and both looks of the cells that differ."""
    return [
        (y, x, a, b)
        for y, rows in enumerate(zip(one.cells(), other.cells(), strict=True))
        for x, (a, b) in enumerate(zip(*rows, strict=True))
        if a != b
    ]


def screen_of(raw: Raw, columns: int, rows: int) -> Terminal:
    """A terminal with all that an app has written since it switched to a screen of its own."""
    terminal = Terminal(columns, rows)
    written = raw.written.decode()
    terminal.write(written[written.index("\x1b[?1049h") :])
    return terminal
