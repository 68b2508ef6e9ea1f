"""What a pseudo terminal shows, painted as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyte

from tests.support.terminal.raw import Raw

_UNKNOWN = re.compile(rb"\x1b[\[][=<>][^a-zA-Z]*[a-zA-Z]|\x1b\[\?[\d;]*\$p|\x1b[P\]^_][^\x1b\x07]*(?:\x1b\\|\x07)")
"""Sequences that pyte would print."""
_BEGUN = re.compile(rb"\x1b(?:\[[^a-zA-Z~]*|[P\]^_][^\x1b\x07]*\x1b?)?$")
"""A sequence whose end has not come yet."""
_STEERING = re.compile(rb"\x1b\[[^a-zA-Z~]*[a-zA-Z~]|\x1b[()][A-Z0-9]|\x1b.")


class Painter:
    """A screen of pyte, and the bytes of a program on it."""

    def __init__(self, columns: int, rows: int) -> None:
        self._rest = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """Its lines, as far as they are painted."""
        return list(self._screen.display)

    def paint(self, written: bytes) -> None:
        """Paint a piece of what was written; a sequence that it ends in waits for the next piece."""
        known = _UNKNOWN.sub(b"", self._rest + written)
        begun = _BEGUN.search(known)
        cut = begun.start() if begun else len(known)
        self._rest = known[cut:]
        self._stream.feed(known[:cut])


class Painted:
    """The screen of a program, from what it writes after this was made: it should be told to draw all of it anew."""

    def __init__(self, raw: Raw, columns: int, rows: int) -> None:
        self._raw = raw
        self._end, self._seen = raw.length, len(raw.arrivals)
        self._painter = Painter(columns, rows)

    def follow(self) -> Iterator[float]:
        """Paint what has come since, piece by piece, and say when each came, by `time.monotonic`."""
        while self._seen < len(self._raw.arrivals):
            end, moment = self._raw.arrivals[self._seen]
            self._seen += 1
            self._painter.paint(self._raw.between(self._end, end))
            self._end = max(end, self._end)
            yield moment

    @property
    def text(self) -> str:
        """Its lines, as far as they are painted."""
        return "\n".join(self._painter.lines)


def words(written: bytes) -> str:
    """What was written without what steers the terminal: to be read where no screen can be painted from it."""
    return " ".join(_STEERING.sub(b" ", _UNKNOWN.sub(b"", written)).decode(errors="replace").split())
