"""Commas between events, found by what a file itself writes around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_FAR_END = 1 << 16
"""Bytes at the end of a stretch that are searched before all of it."""


class Separators:
    """Where a stretch of events may be cut; a cut is right if what lies before it can be read."""

    def __init__(self) -> None:
        self.usual = b""
        """What the file was last seen to write between events."""

    def commas(self, data: bytearray, start: int, end: int) -> Iterator[int]:
        """Indices of commas between events, last first: a few by the usual separator, then by any."""
        index = end
        for _ in range(3 if self.usual else 0):
            index = data.rfind(self.usual, start, index)
            if index < 0:
                break
            yield data.index(b",", index)
        for low in (max(start, end - _FAR_END), start):
            matches = [match.span() for match in _SEPARATOR.finditer(data, low, end)]
            for first, last in reversed(matches[-8:]):
                self.usual = bytes(data[first:last])
                yield data.index(b",", first)
            if matches:
                return
