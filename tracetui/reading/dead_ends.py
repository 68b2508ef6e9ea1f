"""Indices of a damaged text from which reading must fail, known from the failure of a reading that began before them.

What is nested is read along with what encloses it. Were every bracket of a nest that never closes tried anew, a
thousand levels would be read a thousand times.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable

DEEPEST = 500
"""Levels of brackets; what is nested deeper than the decoder goes is tried again from where so many are left."""
CHECKED = 1 << 15
"""Brackets and strings between two calls of `check`."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string, also one that does not end, or a bracket."""


class DeadEnds:
    """Brackets of a text with which no value begins that could be read; a byte for each character of the text."""

    def __init__(self, text: str, check: Callable[[], None] = lambda: None) -> None:
        self._text = text
        self._check = check
        self._dead: bytearray | None = None
        self._looked_through = 0

    def __contains__(self, index: int) -> bool:
        return self._dead is not None and bool(self._dead[index])

    def note(self, start: int, stop: int | None) -> None:
        """Take note of a reading from `start` that failed at `stop`, or by its depth for None."""
        if self._dead is None:
            self._dead = bytearray(len(self._text) + 1)
        if stop is not None:
            self._mark_left_open(start, stop, self._dead)
        elif start >= self._looked_through:
            self._mark_too_deep(start, self._dead)

    def _mark_left_open(self, start: int, stop: int, dead: bytearray) -> None:
        """Brackets that are open where reading failed: from each of them it would come to the same position."""
        opened: list[int] = []
        for token in _TOKEN.finditer(self._text, start, stop):
            if token[0] in "[{":
                opened.append(token.start())
            elif token[0] in "]}":
                opened.pop()
        for index in opened:
            dead[index] = 1

    def _mark_too_deep(self, start: int, dead: bytearray) -> None:
        """Brackets from `start` on with more than `DEEPEST` levels within them."""
        # An array of numbers: millions of brackets may be open at once.
        opened = array("Q")
        for number, token in enumerate(_TOKEN.finditer(self._text, start)):
            if number % CHECKED == 0:
                self._check()
            self._looked_through = token.end()
            if token[0] in "[{":
                opened.append(token.start())
                if len(opened) > DEEPEST:
                    dead[opened[-DEEPEST - 1]] = 1
            elif token[0] in "]}":
                opened.pop()
                if not opened:
                    break
