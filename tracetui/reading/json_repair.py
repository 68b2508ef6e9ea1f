"""The second path: events out of bytes that are not valid JSON.

One event at a time with the standard library's lenient decoder. An event that it refuses is mended where the
damage is a known one (see `mending`), dropped otherwise, and reading goes on at the next event. A closing bracket
between events ends nothing here. Slow, and only used for the blocks that need it.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any

import msgspec
import numpy as np

from tracetui.frozen import frozen
from tracetui.model.trace import BEGINNING, EXAMPLES, MENDED, REPEATED, REPLACED, UNREADABLE
from tracetui.reading.odd_texts import may_repeat_keys, repeats_key, replaced_in, unrepeated

# Known damage of an event, and how its text becomes JSON again.
#
# Bare words (`N/A`, `-nan`), backslashes that begin no escape, paths of Windows written without escapes, and quotes
# within a name.

EVENT_KEYS = "ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
"""Keys that an event may begin with, as a pattern."""
LONGEST_MENDED = 1 << 20
"""Characters of a damaged event that is still tried."""
FIRST_MENDED = 1 << 9
"""Characters that are tried first; most events have less."""
_BEHIND = re.compile(r"\s*(?:[,\]]|\Z)")
"""The text that may follow an event."""
_BARE_WORD = re.compile(
    r"([:,\[]\s*)(N/A|[-+]?inf(?:inity)?|[-+]?nan(?:\(\w*\))?|undefined)(?=\s*[,\]}])", re.IGNORECASE
)
_BAD_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
"""An escape, as the group, or a backslash that begins none."""
_NAME_BEGINS = re.compile(r'"name"\s*:\s*"')
_NAME_ENDS = re.compile(r'"\s*[,}]\s*(?:"(?:' + EVENT_KEYS + r')"\s*:|$)')
_QUOTE = re.compile(r'(\\.)|"', re.DOTALL)
"""A quote, or as the group what a backslash keeps from being one."""
_PATH = re.compile(r"""(?<=["';(=,<])[A-Za-z]:(?=\\(?!u[0-9a-fA-F]{4})[^\\/"\s:*?<>|])""")
"""The drive of a path whose backslashes are not escaped; the words `a:` and a new line stand behind a blank.

Four hexadecimal digits behind `\\u` are an escape."""
_REST_OF_TEXT = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BACKSLASHES = re.compile(r'(\\[\\"])|\\')


def mended(piece: str, decoder: json.JSONDecoder) -> tuple[dict[str, Any] | None, int]:
    """An event out of text that is none, None when it cannot be; and how many characters are of it."""
    if len(piece) <= LONGEST_MENDED:
        for change in (str, _with_quoted_names):
            for length in _lengths(len(piece)):
                item, taken = _mend_with(change, piece[:length], decoder)
                if item is not None:
                    return item, taken if _BEHIND.match(piece, taken) else len(piece)
    return None, len(piece)


def path_starts(text: str) -> list[int]:
    """Indices at which paths of Windows without escapes begin."""
    return [match.start() for match in _PATH.finditer(text)] if ":\\" in text else []


def literal_paths(text: str) -> str:
    """The same with every backslash escaped from the drive of a path to the end of its string."""
    parts: list[str] = []
    index = 0
    while match := _PATH.search(text, index):
        end = _REST_OF_TEXT.match(text, match.end()).end()  # type: ignore[union-attr]
        parts += text[index : match.end()], _BACKSLASHES.sub(lambda it: it[1] or r"\\", text[match.end() : end])
        index = end
    return "".join(parts) + text[index:]


def _lengths(longest: int) -> Iterator[int]:
    """Ever more characters: the beginning that an event takes is mended, and not each time all that follows it."""
    length = FIRST_MENDED
    while length < longest:
        yield length
        length *= 2
    yield length


def _mend_with(
    change: Callable[[str], str], piece: str, decoder: json.JSONDecoder
) -> tuple[dict[str, Any] | None, int]:
    """The same by known damage and one more change of the text."""
    bare = piece.rstrip().rstrip(",]").rstrip()
    text = literal_paths(_BARE_WORD.sub(_as_value, bare))
    text = change(_BAD_ESCAPE.sub(lambda match: match[1] or r"\\", text))
    try:
        item, stop = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    if not isinstance(item, dict):
        return None, 0
    length = 0
    # No change adds a brace or takes one away, so as many of them end the event where it stands.
    for _ in range(text.count("}", 0, stop)):
        length = piece.index("}", length) + 1
    return item, length


def _as_value(match: re.Match[str]) -> str:
    """A bare word as the value that it means: a number that is none, or the word itself."""
    word = match[2].casefold()
    if "nan" in word:
        return f"{match[1]}NaN"
    if "inf" in word:
        return f"{match[1]}{'-' if word.startswith('-') else ''}Infinity"
    return f'{match[1]}"{match[2]}"'


def _with_quoted_names(text: str) -> str:
    """The same with a backslash before every quote within a name."""
    parts: list[str] = []
    index = 0
    # One pattern for both ends would, where the second is missing, look for it anew behind every first.
    while (begin := _NAME_BEGINS.search(text, index)) and (end := _NAME_ENDS.search(text, begin.end())):
        name = _QUOTE.sub(lambda match: match[1] or r"\"", text[begin.end() : end.start()])
        parts += text[index : begin.end()], name, end[0]
        index = end.end()
    return "".join(parts) + text[index:]


# Indices of a damaged text from which reading must fail, known from the failure of a reading that began before them.
#
# What is nested is read along with what encloses it. Were every bracket of a nest that never closes tried anew, a
# thousand levels would be read a thousand times.

DEEPEST = 500
"""Levels of brackets; what is nested deeper than the decoder goes is tried again from where so many are left."""
CHECKED = 1 << 15
"""Brackets and strings between two calls of `check`."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string, also one that does not end, or a bracket."""


class Backtracking:
    """Brackets of a text with which no value begins that could be read; a byte for each character of the text."""

    def __init__(self, text: str, check: Callable[[], None] = lambda: None) -> None:
        self._text = text
        self._check = check
        self._dead: bytearray | None = None
        self._looked_through = 0

    def __contains__(self, index: int) -> bool:
        return self._dead is not None and bool(self._dead[index])

    def add_failure(self, start: int, stop: int | None) -> None:
        """Mark the brackets of a reading from `start` that failed at `stop`, or by its depth for None."""
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


# What stands in a file beside its events, and in a whole trace would not.

MAX_LISTED_ODDITIES = 1000
"""Maximum oddities of a file that are listed; further ones are counted."""


class Oddity(Enum):
    """A part that a whole trace would not have; its value says so in words."""

    BRACKET = "a closing bracket between events"
    INNER_ARRAY = "another array of events"
    SECOND_KEY = "the key traceEvents once more"
    NEXT_TRACE = "another trace"
    FOREIGN = "something that is no event"


@frozen(eq=True, slots=True)
class Found:
    """An oddity and where it stands."""

    offset: int
    """Byte in the unpacked file."""
    kind: Oddity
    text: str = ""
    """The beginning of what stands there."""


_decoder = json.JSONDecoder(strict=False, object_pairs_hook=unrepeated)
_BEGINNING = re.compile(r'\{\s*"(?:' + EVENT_KEYS + r')"\s*:')
_GAP = re.compile(r"[\s,]*")
_BEHIND_VALUE = re.compile(r"\s*(?:[,\]}]|\Z)")
"""The text that may follow a value that is no event."""
_BRACKET = re.compile(r'\][\s,\]]*+(\[?)[\s,]*+(?=\{\s*+")')
"""A closing bracket behind which events go on, and as the group the one that opens another array."""
_INNER_ARRAY = re.compile(r'\[[\s,\[]*+(?=\{\s*+")')
"""An array of events within the array."""
_lines = msgspec.json.Decoder(list[Any])
_HALF = re.compile(rb"(?<!\\)(\\++)u[dD]([89a-fA-F])[0-9a-fA-F]{2}")
"""An escape that looks like half a character, with all the backslashes in front of it."""
_SECOND_HALF = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPE = len(rb"\ud800")
STRETCH = 1 << 20
"""Characters in which signs are put for what is none at a time."""
_SURROGATES, _SIGN = 0xD800 >> 11, 0xFFFD
"""The upper bits of what stands for a byte that is no character, and the sign for it."""
NO_EVENT: tuple[()] = ()
"""Stands for `null` in a list of events."""


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


@frozen(eq=True, slots=True)
class Piece:
    """The value between two positions of a stretch of bytes, as it was read."""

    start: int
    """Byte offset in the stretch."""
    end: int
    item: Any
    """The value, None where there is none."""
    text: str
    """The characters of it."""
    gap: str
    """The characters in front of it, behind the piece before."""
    is_mended: bool = False
    is_open: bool = False
    """True if it could not be read and no event follows it in the stretch: it may be cut off."""


@frozen(eq=True, slots=True)
class Bracket:
    """A bracket in an array of events: one that closes it, or opens another one."""

    start: int
    """Byte offset in the stretch."""
    kind: Oddity | None = None
    """Its kind where events follow it at once, None where the array ends."""


@dataclass
class Parsed:
    """The events of a stretch of bytes, and the damage in it."""

    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    repaired: int = 0
    replaced: int = 0
    """Bytes and halves of characters of these events for which a sign was put."""
    repeated: int = 0
    """Events in which a key stands twice."""
    examples: list[tuple[int, str]] = field(default_factory=list)
    """Byte offset in the stretch and the beginning of what is wrong there."""
    brackets: list[Bracket] = field(default_factory=list)
    """Those behind which events go on."""
    ended_at: int | None = None
    """Byte offset of the array's closing bracket, None where it was not met."""
    open_at: int | None = None
    """Byte offset of an event that the stretch cuts off."""


def parse(block: bytes, check: Callable[[], None] = lambda: None) -> Parsed:
    """Read every event that can be read from bytes that start at, or inside, an array of events.

    `check` is called now and then, and may raise to end the reading.
    """
    if (events := _whole_lines(block)) is not None:
        return Parsed(events)
    result = Parsed()
    for piece in pieces(block, check):
        if isinstance(piece, Bracket):
            if piece.kind is None:
                result.ended_at = piece.start
                break
            result.brackets.append(piece)
            continue
        if isinstance(piece.item, dict):
            result.events.append(piece.item)
            _note_odd_texts(result, piece, block)
        if piece.is_open:
            result.open_at = piece.start
            break
        is_unread = not isinstance(piece.item, dict) and piece.item != NO_EVENT
        result.repaired += piece.is_mended
        result.dropped += is_unread
        if (piece.is_mended or is_unread) and len(result.examples) < EXAMPLES:
            reason = MENDED if piece.is_mended else UNREADABLE
            result.examples.append((piece.start, f"{reason}: {piece.text[:BEGINNING]}"))
    return result


def _note_odd_texts(result: Parsed, piece: Piece, block: bytes) -> None:
    """Take note of what of an event was replaced or stands twice in it."""
    data = block[piece.start : piece.end]
    replaced, at = replaced_in(data)
    result.replaced += replaced
    if replaced and len(result.examples) < EXAMPLES:
        beginning = data[at : at + BEGINNING].decode(errors="replace")
        result.examples.append((piece.start + at, f"{REPLACED}: {beginning}"))
    if repeats_key(piece.item):
        result.repeated += 1
        if len(result.examples) < EXAMPLES:
            result.examples.append((piece.start, f"{REPEATED}: {piece.text[:BEGINNING]}"))


def _whole_lines(block: bytes) -> list[dict[str, Any]] | None:
    """The events where each is a whole line without any damage, None otherwise."""
    lines = [line.strip(b" \t\r,") for line in block.removeprefix(b"[").split(b"\n")]
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines if line):
        return None
    if has_bare_paths(block):
        return None
    try:
        items = _lines.decode(whole := b"[" + b",".join(filter(None, lines)) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_plain = all(isinstance(item, dict) for item in items) and not may_repeat_keys(whole)
    return items if is_plain else None


def has_bare_paths(block: bytes) -> bool:
    """Find a path of Windows without escapes in the block (`D:\\new`), which JSON reads as control signs."""
    # A single byte is found ten times faster than two.
    return b"\\" in block and b":\\" in block and bool(path_starts(block.decode("utf-8", "replace")))


def pieces(block: bytes, check: Callable[[], None] = lambda: None) -> Iterator[Piece | Bracket]:
    """Everything that stands in an array of events, in order, up to the bracket that ends it where that is met."""
    text, offsets = readable(block, check), _Offsets(block)
    reading = _Reading(text, check)
    index = before = 1 if text.startswith("[") else 0
    while True:
        check()
        index = _GAP.match(text, index).end()  # type: ignore[union-attr]
        if index >= len(text):
            return
        if text[index] == "]":
            goes_on = _BRACKET.match(text, index)
            if goes_on is None:
                yield Bracket(offsets.at(index))
                return
            if goes_on[1]:
                yield Bracket(offsets.at(goes_on.start(1)), Oddity.NEXT_TRACE)
            else:
                yield Bracket(offsets.at(index), Oddity.BRACKET)
            index = before = goes_on.end()
            continue
        if text[index] == "[" and (inner := _INNER_ARRAY.match(text, index)):
            yield Bracket(offsets.at(index), Oddity.INNER_ARRAY)
            index = before = inner.end()
            continue
        item, end, is_mended, is_open = reading.read(index)
        gap = text[before:index]
        yield Piece(offsets.at(index), offsets.at(end), item, text[index:end], gap, is_mended, is_open)
        index = before = end


def parse_value(text: str, index: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at an index of a text and where it ends; (None, `index`) when there is none."""
    try:
        return _decoder.raw_decode(text, index)
    except (ValueError, RecursionError):
        return None, index


def readable(block: bytes, check: Callable[[], None] = lambda: None) -> Text:
    """One character for each that is there, and for each byte that is none; what is read out of it can be printed."""
    whole = _without_halves(block, check)
    try:
        return Text(whole.decode())
    except UnicodeDecodeError:
        pass
    text = whole.decode("utf-8", "surrogateescape")
    parts: list[str] = []
    # A stretch at a time, for its characters take four bytes each.
    for index in range(0, len(text), STRETCH):
        codes = np.frombuffer(text[index : index + STRETCH].encode("utf-32-le", "surrogatepass"), np.uint32)
        signs = np.where(codes >> 11 == _SURROGATES, _SIGN, codes).astype("<u4")
        parts.append(signs.tobytes().decode("utf-32-le"))
    return Text("".join(parts))


def _without_halves(block: bytes, check: Callable[[], None]) -> bytes | bytearray:
    """The same with a sign for each half of a character, which could not be printed; as long, so that offsets stay.

    An escape begins with the last of an odd number of backslashes: what follows an even number only looks like one.
    """
    if b"\\ud" not in block and b"\\uD" not in block:
        return block
    replaced: bytearray | None = None
    index = 0
    for number in count():
        if number % CHECKED == 0:
            check()
        half = _HALF.search(block, index)
        if half is None:
            break
        index = half.end()
        if len(half[1]) % 2 == 0:
            continue
        second = _SECOND_HALF.match(block, index) if half[2] in b"89abAB" else None
        if second:
            index = second.end()
            continue
        replaced = bytearray(block) if replaced is None else replaced
        replaced[index - _ESCAPE : index] = rb"\ufffd"
    return block if replaced is None else replaced


class _Offsets:
    """From characters to bytes, asked in ascending order."""

    def __init__(self, block: bytes) -> None:
        self._text = "" if block.isascii() else block.decode("utf-8", "surrogateescape")
        self._characters = self._bytes = 0

    def at(self, index: int) -> int:
        """The byte at which the character stands."""
        if not self._text:
            return index
        passed = self._text[self._characters : index]
        self._bytes += len(passed.encode("utf-8", "surrogateescape"))
        self._characters = index
        return self._bytes


class _Reading:
    """Reads what stands at indices of a text, asked in ascending order."""

    def __init__(self, text: str, check: Callable[[], None]) -> None:
        self._text = text
        self._backtracking = Backtracking(text, check)
        self._paths = path_starts(text)
        self._passed_paths = 0
        self._following: int | None = 0

    def read(self, index: int) -> tuple[Any, int, bool, bool]:
        """The value, None where none can be read; where to go on; whether it was mended, and whether it is open."""
        # Where a reading failed, None for one that went too deep.
        stop: int | None = index
        if index not in self._backtracking:
            try:
                item, end = _decoder.raw_decode(self._text, index)
                if isinstance(item, dict):
                    return self._with_paths(item, index, end)
                if _BEHIND_VALUE.match(self._text, end):
                    # A bare null is no event, and nothing that could not be read.
                    return NO_EVENT if item is None else item, end, False, False
            except ValueError as error:
                # A number of too many digits does not say where it stands.
                stop = getattr(error, "pos", index)
            except RecursionError:
                stop = None
        following = self._event_behind(index)
        if following is not None and (stop is None or following < stop):
            self._backtracking.add_failure(index, stop)
        end = len(self._text) if following is None else following
        item, length = mended(self._text[index:end], _decoder)
        return item, index + length, item is not None, item is None and following is None

    def _with_paths(self, item: dict[str, Any], index: int, end: int) -> tuple[Any, int, bool, bool]:
        """The event that was read, or read anew where the path of a file in it was taken for control signs."""
        while self._passed_paths < len(self._paths) and self._paths[self._passed_paths] < index:
            self._passed_paths += 1
        if self._passed_paths < len(self._paths) and self._paths[self._passed_paths] < end:
            again, _ = parse_value(literal_paths(self._text[index:end]))
            if isinstance(again, dict) and again != item:
                return again, end, True, False
        return item, end, False, False

    def _event_behind(self, index: int) -> int | None:
        """The index at which the next event seems to begin, which is looked for once for all indices before it."""
        if self._following is not None and self._following <= index:
            self._following = _next_event(self._text, index + 1)
        return self._following


def _next_event(text: str, index: int) -> int | None:
    """The index at which the next event seems to begin: anywhere but behind the colon of a key."""
    for match in _BEGINNING.finditer(text, index):
        before = match.start() - 1
        while before >= index and text[before].isspace() and text[before] != "\n":
            before -= 1
        if before >= index - 1 and text[before] != ":":
            return match.start()
    return None
