"""The second path: events out of bytes that are not valid JSON.

One event at a time with the standard library's lenient decoder. An event that it refuses is mended where the
damage is a known one (bare words, wrong escapes, quotes inside a name), dropped otherwise, and reading goes on
at the next event. Slow, and only used for the blocks that need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracetui.model.trace import BEGINNING, EXAMPLES, MENDED, UNREADABLE

_decoder = json.JSONDecoder(strict=False)
_KEYS = "ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
_BEGINNING = re.compile(r'\{\s*"(?:' + _KEYS + r')"\s*:')
LONGEST_MENDED = 1 << 20
"""Characters of a damaged event that is still tried."""
_BEHIND = re.compile(r"\s*(?:[,\]]|\Z)")
"""What may follow an event."""
_GAP = re.compile(r"[\s,]*")
_BARE_WORD = re.compile(r"(?<=[:,\[])(\s*)(?:N/A|-?inf|-?nan|nan\(\w*\)|undefined)(?=\s*[,\]}])", re.IGNORECASE)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NAME = re.compile(r'("name"\s*:\s*")(.*?)("\s*[,}]\s*(?:"(?:' + _KEYS + r')"\s*:|$))', re.DOTALL)
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
NO_EVENT: tuple[()] = ()
"""What stands for `null` in a list of events."""
_LONE_SURROGATE = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")
"""Half a character, which could not be printed; what stands in for it is as long."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What stands between two places of a stretch of bytes, as it was read."""

    start: int
    """Byte offset in the stretch."""
    end: int
    item: Any
    """The value, None where there is none."""
    text: str
    """The characters of it."""
    gap: str
    """What stands in front of it, behind the piece before."""
    is_mended: bool = False
    is_open: bool = False
    """Whether it could not be read and no event follows it in the stretch: it may be cut off."""


@dataclass
class Parsed:
    """What could be read out of a stretch of bytes."""

    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    repaired: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    """Byte offset in the stretch and the beginning of what is wrong there."""
    ended_at: int | None = None
    """Byte offset of the array's closing bracket, None where it was not met."""
    open_at: int | None = None
    """Byte offset of an event that the stretch cuts off."""


def parse(block: bytes) -> Parsed:
    """Read every event that can be read from bytes that start at, or inside, an array of events."""
    result = Parsed()
    for piece in pieces(block):
        if isinstance(piece, int):
            result.ended_at = piece
            break
        if isinstance(piece.item, dict):
            result.events.append(piece.item)
        if piece.is_open:
            result.open_at = piece.start
            break
        result.repaired += piece.is_mended
        result.dropped += piece.item is None
        if (piece.is_mended or piece.item is None) and len(result.examples) < EXAMPLES:
            reason = MENDED if piece.is_mended else UNREADABLE
            result.examples.append((piece.start, f"{reason}: {piece.text[:BEGINNING]}"))
    return result


def pieces(block: bytes) -> Iterator[Piece | int]:
    """Everything that stands in an array of events, in order, and the byte offset of its end where that is met."""
    text, offsets = _readable(block), _Offsets(block)
    place = before = 1 if text.startswith("[") else 0
    while True:
        place = _GAP.match(text, place).end()  # type: ignore[union-attr]
        if place >= len(text):
            return
        if text[place] == "]":
            yield offsets.at(place)
            return
        item, end, is_mended, is_open = _read_one(text, place)
        gap = text[before:place]
        yield Piece(offsets.at(place), offsets.at(end), item, text[place:end], gap, is_mended, is_open)
        place = before = end


def parse_value(part: bytes) -> tuple[Any, int]:
    """The JSON value at the start of some bytes and its length in them; (None, 0) when there is none."""
    text = _readable(part)
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    return value, _offset(text, end)


def _readable(block: bytes) -> str:
    """One character for each that is there, and for each byte that is none."""
    text = _NOT_UTF8.sub("\ufffd", block.decode("utf-8", "surrogateescape"))
    return _LONE_SURROGATE.sub(r"\\ufffd", text)


class _Offsets:
    """From characters to bytes, asked in ascending order."""

    def __init__(self, block: bytes) -> None:
        self._text = "" if block.isascii() else block.decode("utf-8", "surrogateescape")
        self._characters = self._bytes = 0

    def at(self, place: int) -> int:
        """The byte at which the character stands."""
        if not self._text:
            return place
        passed = self._text[self._characters : place]
        self._bytes += len(passed.encode("utf-8", "surrogateescape"))
        self._characters = place
        return self._bytes


def _read_one(text: str, place: int) -> tuple[Any, int, bool, bool]:
    """What stands at `place`, None for nothing that can be read; where to go on; whether it was mended, and is open."""
    try:
        item, end = _decoder.raw_decode(text, place)
    except (ValueError, RecursionError):
        following = _next_event(text, place + 1)
        end = len(text) if following is None else following
        mended, rest = _mend(text[place:end])
        return mended, end - rest, mended is not None, mended is None and following is None
    # A bare null is no event, and nothing that could not be read.
    return NO_EVENT if item is None else item, end, False, False


def _next_event(text: str, place: int) -> int | None:
    """Where the next event seems to begin: behind a bracket, a comma or at the start of a line."""
    for match in _BEGINNING.finditer(text, place):
        before = match.start() - 1
        while before >= place and text[before].isspace() and text[before] != "\n":
            before -= 1
        if before >= place - 1 and text[before] in "}],[\n":
            return match.start()
    return None


def _mend(piece: str) -> tuple[dict[str, Any] | None, int]:
    """An event out of text that is none, None when it cannot be; and how many characters behind it are not of it."""
    if len(piece) > LONGEST_MENDED:
        return None, 0
    bare = piece.rstrip().rstrip(",]").rstrip()
    text = _BAD_ESCAPE.sub(r"\\\\", _BARE_WORD.sub(r"\1null", bare))
    for attempt in (text, _NAME.sub(_quote_name, text)):
        try:
            item, stop = _decoder.raw_decode(attempt)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            rest = len(piece) - len(bare) + len(attempt) - stop
            return item, rest if _BEHIND.match(piece, len(piece) - rest) else 0
    return None, 0


def _quote_name(match: re.Match[str]) -> str:
    return match[1] + re.sub(r'(?<!\\)"', r"\"", match[2]) + match[3]


def _offset(text: str, place: int) -> int:
    return len(text[:place].encode("utf-8", "replace"))
