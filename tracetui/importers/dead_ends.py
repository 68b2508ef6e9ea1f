"""Places of a damaged text from which reading must fail, known from the failure of a reading that began before them.

What is nested is read along with what encloses it. Were every bracket of a nest that never closes tried anew, a
thousand levels would be read a thousand times.
"""

from __future__ import annotations

import re

DEEPEST = 500
"""Levels of brackets; what is nested deeper than the decoder goes is tried again from where so many are left."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string, also one that does not end, or a bracket."""


class DeadEnds:
    """Brackets of a text with which no value begins that could be read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: set[int] = set()
        self._looked_through = 0

    def __contains__(self, place: int) -> bool:
        return place in self._places

    def note(self, start: int, stop: int | None) -> None:
        """Take note of a reading from `start` that failed at `stop`, or by its depth for None."""
        if stop is not None:
            self._places.update(self._left_open(start, stop))
        elif start >= self._looked_through:
            self._places.update(self._too_deep(start))

    def _left_open(self, start: int, stop: int) -> list[int]:
        """Brackets that are open where reading failed: from each of them it would come to the same place."""
        opened: list[int] = []
        for token in _TOKEN.finditer(self._text, start, stop):
            if token[0] in "[{":
                opened.append(token.start())
            elif token[0] in "]}":
                opened.pop()
        return opened

    def _too_deep(self, start: int) -> list[int]:
        """Brackets from `start` on with more than `DEEPEST` levels within them."""
        found: list[int] = []
        opened: list[int] = []
        for token in _TOKEN.finditer(self._text, start):
            self._looked_through = token.end()
            if token[0] in "[{":
                opened.append(token.start())
                if len(opened) > DEEPEST:
                    found.append(opened[-DEEPEST - 1])
            elif token[0] in "]}":
                opened.pop()
                if not opened:
                    break
        return found
