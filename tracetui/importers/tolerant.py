"""The second path: events out of bytes that are not valid JSON.

One event at a time with the standard library's lenient decoder. An event that it refuses is mended where the
damage is a known one (bare words, wrong escapes, quotes inside a name), dropped otherwise, and reading goes on
at the next event. Slow, and only used for the blocks that need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracetui.importers.dead_ends import DeadEnds
from tracetui.model.trace import BEGINNING, EXAMPLES, MENDED, UNREADABLE

_decoder = json.JSONDecoder(strict=False)
_KEYS = "ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
_BEGINNING = re.compile(r'\{\s*"(?:' + _KEYS + r')"\s*:')
LONGEST_MENDED = 1 << 20
"""Characters of a damaged event that is still tried."""
FIRST_MENDED = 1 << 9
"""Characters that are tried first; most events have less."""
_BEHIND = re.compile(r"\s*(?:[,\]]|\Z)")
"""What may follow an event."""
_GAP = re.compile(r"[\s,]*")
_BARE_WORD = re.compile(r"([:,\[]\s*)(?:N/A|-?inf|-?nan|nan\(\w*\)|undefined)(?=\s*[,\]}])", re.IGNORECASE)
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
"""An escape, as the group, or a backslash that begins none."""
_NAME_BEGINS = re.compile(r'"name"\s*:\s*"')
_NAME_ENDS = re.compile(r'"\s*[,}]\s*(?:"(?:' + _KEYS + r')"\s*:|$)')
_QUOTE = re.compile(r'(\\.)|"', re.DOTALL)
"""A quote, or as the group what a backslash keeps from being one."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TOO_LONG = (b"0" * 20, b"-" + b"0" * 19)
"""Numbers, whatever their digits, of more than 64 bits: only the lenient decoder reads those as they stand."""
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = re.compile(rf"(\\[^u]|{_HIGH}{_LOW})|{_HIGH}|{_LOW}")
"""Half a character, which could not be printed; as the group what only looks like one: the letters of one behind an
escaped backslash, and two halves that belong together."""
NO_EVENT: tuple[()] = ()
"""What stands for `null` in a list of events."""


class Text(str):
    """Characters to decode. The error of a decoder counts the lines before it, which nobody asks for: none are found.

    Counted anew for every damaged event of a block, they took longer than all of the reading.
    """

    __slots__ = ()

    def count(self, *_: object) -> int:
        """No line ends."""
        return 0

    def rfind(self, *_: object) -> int:
        """No line begins."""
        return -1


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
    if (events := _whole_lines(block)) is not None:
        return Parsed(events)
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


def _whole_lines(block: bytes) -> list[dict[str, Any]] | None:
    """The events where each is a whole line without any damage, None otherwise."""
    lines = [line.strip(b" \t\r,") for line in block.removeprefix(b"[").split(b"\n")]
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines if line):
        return None
    digits = block.translate(_DIGITS)
    if any(number in digits for number in _TOO_LONG):
        return None
    try:
        found = orjson.loads(b"[" + b",".join(filter(None, lines)) + b"]")
    except orjson.JSONDecodeError:
        return None
    return found if all(isinstance(item, dict) for item in found) else None


def pieces(block: bytes) -> Iterator[Piece | int]:
    """Everything that stands in an array of events, in order, and the byte offset of its end where that is met."""
    text, offsets = readable(block), _Offsets(block)
    reading = _Reading(text)
    place = before = 1 if text.startswith("[") else 0
    while True:
        place = _GAP.match(text, place).end()  # type: ignore[union-attr]
        if place >= len(text):
            return
        if text[place] == "]":
            yield offsets.at(place)
            return
        item, end, is_mended, is_open = reading.read(place)
        gap = text[before:place]
        yield Piece(offsets.at(place), offsets.at(end), item, text[place:end], gap, is_mended, is_open)
        place = before = end


def parse_value(text: str, place: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at a place of a text and where it ends; (None, `place`) when there is none."""
    try:
        return _decoder.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def readable(block: bytes) -> Text:
    """One character for each that is there, and for each byte that is none; what is read out of it can be printed."""
    text = _NOT_UTF8.sub("\ufffd", block.decode("utf-8", "surrogateescape"))
    # As long as what it stands for, so that places stay true.
    return Text(_SURROGATE.sub(lambda found: found[1] or r"\ufffd", text))


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


class _Reading:
    """Reads what stands at places of a text, asked in ascending order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._dead_ends = DeadEnds(text)
        self._following: int | None = 0

    def read(self, place: int) -> tuple[Any, int, bool, bool]:
        """The value, None where none can be read; where to go on; whether it was mended, and whether it is open."""
        # Where a reading failed, None for one that went too deep.
        stop: int | None = place
        if place not in self._dead_ends:
            try:
                item, end = _decoder.raw_decode(self._text, place)
                # A bare null is no event, and nothing that could not be read.
                return NO_EVENT if item is None else item, end, False, False
            except ValueError as error:
                # A number of too many digits does not say where it stands.
                stop = getattr(error, "pos", place)
            except RecursionError:
                stop = None
        following = self._event_behind(place)
        if following is not None and (stop is None or following < stop):
            self._dead_ends.note(place, stop)
        end = len(self._text) if following is None else following
        mended, length = _mend(self._text[place:end])
        return mended, place + length, mended is not None, mended is None and following is None

    def _event_behind(self, place: int) -> int | None:
        """Where the next event seems to begin, which is looked for once for all places before it."""
        if self._following is not None and self._following <= place:
            self._following = _next_event(self._text, place + 1)
        return self._following


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
    """An event out of text that is none, None when it cannot be; and how many characters are of it."""
    if len(piece) <= LONGEST_MENDED:
        for change in (str, _with_quoted_names):
            for most in _lengths(len(piece)):
                item, length = _mend_with(change, piece[:most])
                if item is not None:
                    return item, length if _BEHIND.match(piece, length) else len(piece)
    return None, len(piece)


def _lengths(longest: int) -> Iterator[int]:
    """Ever more characters: the beginning that an event takes is mended, and not each time all that follows it."""
    length = FIRST_MENDED
    while length < longest:
        yield length
        length *= 2
    yield length


def _mend_with(change: Callable[[str], str], piece: str) -> tuple[dict[str, Any] | None, int]:
    """The same by known damage and one more change of the text."""
    bare = piece.rstrip().rstrip(",]").rstrip()
    text = change(_ESCAPE.sub(lambda found: found[1] or r"\\", _BARE_WORD.sub(r"\1null", bare)))
    try:
        item, stop = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    if not isinstance(item, dict):
        return None, 0
    length = 0
    # No change adds a brace or takes one away, so as many of them end the event where it stands.
    for _ in range(text.count("}", 0, stop)):
        length = piece.index("}", length) + 1
    return item, length


def _with_quoted_names(text: str) -> str:
    """The same with a backslash before every quote within a name."""
    parts: list[str] = []
    place = 0
    # One pattern for both ends would, where the second is missing, look for it anew behind every first.
    while (begin := _NAME_BEGINS.search(text, place)) and (end := _NAME_ENDS.search(text, begin.end())):
        name = _QUOTE.sub(lambda found: found[1] or r"\"", text[begin.end() : end.start()])
        parts += text[place : begin.end()], name, end[0]
        place = end.end()
    return "".join(parts) + text[place:]
