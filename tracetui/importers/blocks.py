"""Cuts a stream of bytes into blocks of whole events without looking at every byte.

A block ends at the last separator between events within a megabyte: the bytes that the file itself was seen to
use (`},\\n  {`). Such a cut may be wrong, inside the arguments of an event, but then the block cannot parse, and
an earlier position is tried: a cut verifies itself. A block that parses nowhere is read by the tolerant path.
Blocks of a megabyte stay in the processor's cache; larger ones are slower.

An array of events is not the end of a file: `top_level` finds where events go on behind it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice

import msgspec
import orjson

from tracetui.errors import NotATrace
from tracetui.importers import tolerant
from tracetui.importers.decode import Event, Malformed, decode_strict, straighten
from tracetui.importers.oddities import MAX_LISTED_ODDITIES, Found, Oddity
from tracetui.importers.source import Source, refuse_other_content
from tracetui.importers.top_level import EVENTS_KEY, Stop, TopLevel, first_events
from tracetui.model.trace import BEGINNING, UNREADABLE

BLOCK = 1 << 20
MAX_EVENT = 1 << 26
"""Bytes of a single event beyond which it is taken for damage."""
MAX_DAMAGED = 8
"""Maximum blocks that are read of what may be one damaged event."""
MAX_HEADER = 1 << 28
"""Bytes in front of the events, or behind them, beyond which no more are read."""
FIRST_LINE = 1 << 22
"""A longer beginning is not tried for being an event on a line of its own."""
MAX_FOREIGN_HEAD = 1 << 23
"""Bytes in which events are looked for where a file does not begin like a trace."""
FEW = 1 << 14
"""Bytes of events: where a stray bracket stands behind fewer, the tolerant path reads on beyond it."""

_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_LOOSE_SEPARATOR = re.compile(rb'\}\s*(?:,\s*)?\{\s*"')
_UNSEPARATED = re.compile(rb'\}\s*\{\s*"')
_COMMA = re.compile(rb"\s*,")
_STRAY_BRACKET = re.compile(rb'[\s,\]\[]*+\{\s*+"')
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""What the decoder takes for the end of its input, as half a character."""
_OPEN, _CLOSE = ord("["), ord("]")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Checks an object without making its values."""


class Stopped(Exception):
    """The user stopped the loading."""


@dataclass(slots=True)
class Block:
    """Some consecutive events and where they stand."""

    events: list[Event]
    data: bytes
    """`[` event, ... `]`."""
    offset: int
    """Of the first byte of `data` in the unwrapped stream."""
    is_tolerant: bool = False


@dataclass(slots=True)
class Cut:
    """A block, and where to go on in the buffer."""

    block: Block
    end: int
    """Index of the byte for the bracket of the next block; behind the closing bracket where the array ended."""
    has_ended: bool = False


@dataclass
class Layout:
    """How a file is laid out around its events, and what was wrong with them."""

    container: str = "object"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the last array."""
    between: list[bytes] = field(default_factory=list)
    """What stands between arrays, where there are several."""
    truncated_at: int | None = None
    is_within_event: bool = False
    """Whether the file ends in the middle of an event."""
    is_closed: bool = True
    """Whether the end of the array, and of the object around it, was met."""
    dropped: int = 0
    repaired: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    oddities: list[Found] = field(default_factory=list)
    """The first `MAX_LISTED_ODDITIES`."""
    odd_counts: dict[Oddity, int] = field(default_factory=dict)

    def note(self, found: Found) -> None:
        """Take note of an oddity."""
        self.odd_counts[found.kind] = self.odd_counts.get(found.kind, 0) + 1
        if len(self.oddities) < MAX_LISTED_ODDITIES:
            self.oddities.append(found)
        if found.kind is Oddity.FOREIGN:
            self.dropped += 1
            self.examples.append((found.offset, f"{UNREADABLE}: {found.text}"))


class BlockReader:
    """Iterates over the blocks of a source; `layout` is complete when the iteration is.

    Once `cancelled` answers true, the iteration ends.
    """

    def __init__(self, source: Source, block: int = BLOCK, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.layout = Layout()
        self._source = source
        self._block = block
        self._cancelled = cancelled
        self._buffer = bytearray(block)
        self._fill = 0
        self._base = 0
        self._eof = False
        self._separator = b""
        self._is_headless = False
        """Whether the file does not begin like a trace."""

    def __iter__(self) -> Iterator[Block]:
        try:
            start: int | None = self._find_array()
            read = self._read_lines if self.layout.container == "lines" else self._read_array
            top_level = TopLevel(self.layout.container == "object")
            while start is not None:
                behind = yield from read(start)
                start = None if behind is None else self._resume(behind, top_level)
        except Stopped:
            return

    def _check(self) -> None:
        """Raises: Stopped once the loading is cancelled."""
        if self._cancelled():
            raise Stopped

    def _find_array(self) -> int:
        """Read until the array's bracket is in the buffer and return its index."""
        layout = self.layout
        searched = 0
        while True:
            self._read_more()
            start = _first_sign(self._buffer, self._fill)
            sign = self._buffer[start : start + 1]
            if sign == b"[":
                layout.container = "array"
                return start
            match = EVENTS_KEY.search(self._buffer, max(searched - FIRST_LINE, 0), self._fill)
            if match and sign == b"{":
                layout.header = bytes(self._buffer[: match.end() - 1])
                return match.end() - 1
            if sign == b"{" and _starts_with_event(bytes(self._buffer[start : min(self._fill, FIRST_LINE)])):
                layout.container = "lines"
                return 0
            searched = self._fill
            if self._eof or self._fill > (MAX_HEADER if sign == b"{" else MAX_FOREIGN_HEAD):
                return self._find_later(bytes(self._buffer[start : min(self._fill, start + (1 << 10))]))
            self._grow()

    def _find_later(self, body: bytes) -> int:
        """The same in a file that does not begin like a trace, which `body` is the beginning of.

        Raises: NotATrace.
        """
        if not body:
            raise NotATrace(f"{self._source.label} {_nothing(self._source, self._fill)}.")
        refuse_other_content(body, self._source.label)
        found = first_events(self._buffer, self._fill)
        if found is None and body.startswith(b"{"):
            raise NotATrace(f"{self._source.label} is JSON but holds no traceEvents array in {self._fill:,} bytes.")
        if found is None:
            shown = body[:24].decode("utf-8", "replace")
            raise NotATrace(f"{self._source.label} is not a trace: it starts with {shown!r}, not with {{ or [.")
        index, is_array = found
        # Of what it was, keys may follow behind the events.
        self._is_headless = True
        self.layout.header = bytes(self._buffer[: index if is_array else index - 1])
        begins = body[:BEGINNING].decode(errors="replace")
        self.layout.note(Found(self._base, Oddity.FOREIGN, begins))
        if is_array:
            return index
        self._buffer[index - 1] = _OPEN
        return index - 1

    def _grow(self) -> None:
        """Double the buffer and fill it."""
        self._buffer.extend(bytes(len(self._buffer)))
        self._read_more()

    def _read_more(self) -> None:
        """Fill the buffer."""
        with memoryview(self._buffer) as view:
            while self._fill < len(view) and not self._eof:
                self._check()
                count = self._source.readinto(view[self._fill :])
                self._eof = count == 0
                self._fill += count

    def _move_up(self, index: int) -> None:
        """Forget everything before `index`."""
        rest = self._fill - index
        self._buffer[:rest] = self._buffer[index : self._fill]
        self._fill = rest
        self._base += index

    def _read_array(self, start: int) -> Generator[Block, None, int | None]:
        """The blocks of an array; returns the index behind its bracket, None where the file ends in it."""
        while (cut := self._next(start)) is not None:
            yield cut.block
            if cut.has_ended:
                return cut.end
            self._move_up(cut.end)
            start, self._buffer[0] = 0, _OPEN
        return (yield from self._salvage(start))

    def _read_lines(self, start: int) -> Generator[Block, None, int | None]:
        """The same where every object stands on a line, without an array around them."""
        while True:
            self._move_up(start)
            start = 0
            self._read_more()
            if self._eof:
                return (yield from self._salvage(0))
            if self._fill < MAX_EVENT and _LOOSE_SEPARATOR.search(self._buffer, 1, self._fill) is None:
                self._grow()
            elif (cut := self._loosely(0)) is not None:
                yield cut.block
                if cut.has_ended:
                    return cut.end
                start = cut.end

    def _resume(self, behind: int, top_level: TopLevel) -> int | None:
        """Where events go on behind the end of an array: the index of their bracket, None where the file ends."""
        passed: list[bytes] = []
        found: list[Found] = []
        # One byte is kept, on which a bracket may be put.
        low = behind - 1
        while True:
            stop, index, odd = top_level.look(self._buffer, behind, self._fill, self._base, self._eof)
            found += odd
            if stop is not Stop.MORE:
                break
            passed.append(bytes(self._buffer[behind:index]))
            behind = index
            if behind - 1 > low:
                self._move_up(behind - 1)
                behind, low = 1, 0
            if self._fill >= MAX_HEADER:
                self._eof = True
                continue
            if self._fill == len(self._buffer):
                self._grow()
            else:
                self._read_more()
        passed.append(bytes(self._buffer[behind:index]))
        if stop is Stop.END:
            self._keep_trailer(b"".join(passed), found, top_level)
            return None
        for each in found:
            self.layout.note(each)
        self.layout.between.append(b"".join(passed))
        if stop is Stop.ARRAY:
            return index
        self._buffer[index - 1] = _OPEN
        return index - 1

    def _keep_trailer(self, trailer: bytes, found: list[Found], top_level: TopLevel) -> None:
        layout = self.layout
        layout.trailer = trailer
        if layout.container == "object" and _is_object(layout.header + b"[]" + trailer):
            # Keys of an object around the object of the events.
            return
        if top_level.in_object and not self._is_headless:
            layout.is_closed = False
            layout.truncated_at = self._base + self._fill
        nested = Oddity.INNER_ARRAY in layout.odd_counts and not trailer.strip(b"] \t\r\n")
        if not found and layout.container != "object" and trailer.strip() and not nested:
            offset = self._base + self._fill - len(trailer.lstrip())
            found = [Found(offset, Oddity.FOREIGN, trailer.strip()[:BEGINNING].decode(errors="replace"))]
        for each in found:
            layout.note(each)

    def _next(self, start: int) -> Cut | None:
        """A block from `start`; None if the file ends in it."""
        self._read_more()
        cut = None if self._eof else self._cut(start)
        if cut is not None:
            return cut
        rest = self._rest(start)
        if rest is not None or self._fill - start <= 2 * self._block:
            return rest
        return self._cut(start)

    def _rest(self, start: int) -> Cut | None:
        """All that is left once the source has ended, None where that is not whole."""
        try:
            return Cut(self._strict(start, self._fill), self._fill, has_ended=True)
        except Malformed as error:
            return None if error.end is None else self._ended(start, start + error.end)

    def _ended(self, start: int, end: int) -> Cut | None:
        """The block of an array that ends before `end`; brackets that stand close are left to the tolerant path."""
        if end - start >= FEW or not _STRAY_BRACKET.match(self._buffer, end, self._fill):
            # What ends there may be an array of arrays.
            with contextlib.suppress(Malformed):
                return Cut(self._strict(start, end), end, has_ended=True)
        return None if self._eof else self._cut_loosely(start)

    def _cut(self, start: int) -> Cut | None:
        """The events that are whole in the buffer, None when the first does not end before the file."""
        unclosed, is_tried = True, False
        for comma in self._commas(start):
            is_tried = True
            self._buffer[comma] = _CLOSE
            try:
                return Cut(self._strict(start, comma + 1), comma)
            except Malformed as error:
                self._buffer[comma] = ord(",")
                if error.end is not None:
                    return self._ended(start, start + error.end)
                unclosed = unclosed and error.unclosed
        if not is_tried:
            try:
                return Cut(self._strict(start, self._fill), self._fill, has_ended=True)
            except Malformed as error:
                if error.end is not None:
                    return self._ended(start, start + error.end)
                unclosed = error.unclosed
        if not unclosed or not self._is_one_event(start) or self._lacks_commas(start):
            return self._cut_loosely(start)
        if not self._eof:
            self._grow()
        return None if self._eof else self._cut(start)

    def _is_one_event(self, start: int) -> bool:
        """Whether the buffer may hold the beginning of one long event, so that more should be read of it."""
        size = self._fill - start
        if size < MAX_DAMAGED * self._block:
            return True
        return size < MAX_EVENT and _HALF.search(self._buffer, start, self._fill) is None

    def _commas(self, start: int) -> Iterator[int]:
        """Indices of commas between events, last first: a few by the usual separator, then by any."""
        index = self._fill
        for _ in range(3 if self._separator else 0):
            index = self._buffer.rfind(self._separator, start, index)
            if index < 0:
                break
            yield self._buffer.index(b",", index)
        for low in (max(start, self._fill - (1 << 16)), start):
            matches = [match.span() for match in _SEPARATOR.finditer(self._buffer, low, self._fill)]
            for begin, end in reversed(matches[-8:]):
                self._separator = bytes(self._buffer[begin:end])
                yield self._buffer.index(b",", begin)
            if matches:
                return

    def _lacks_commas(self, start: int) -> bool:
        """Whether the first event is whole and the next one follows it without a comma, as where each is a line."""
        for found in islice(_UNSEPARATED.finditer(self._buffer, start, self._fill), 8):
            try:
                return isinstance(orjson.loads(bytes(self._buffer[start + 1 : found.start() + 1])), dict)
            except orjson.JSONDecodeError:
                continue
        return False

    def _strict(self, start: int, end: int) -> Block:
        # A copy, for some arguments of the events are views of it and the buffer moves on.
        with memoryview(self._buffer) as view:
            data = bytes(view[start:end])
        events = decode_strict(data)
        if tolerant.has_bare_paths(data):
            return self._noted(tolerant.parse(data, self._check), data, start)
        return Block(events, data.rstrip(), self._base + start)

    def _cut_loosely(self, start: int) -> Cut | None:
        """What the tolerant path makes of the events that are whole in the buffer."""
        cut = self._loosely(start)
        if cut is None or cut.has_ended:
            return cut
        comma = _COMMA.match(self._buffer, cut.end, self._fill)
        # The next block's bracket is put on the comma; where there is none, on a byte that has been read.
        cut.end = comma.end() - 1 if comma else cut.end - 1
        return cut

    def _loosely(self, start: int) -> Cut | None:
        """A block for the tolerant path, which ends at the index behind it.

        It goes up to the last index that looks like the end of an event. Where that turns out to be inside of one,
        the block ends before that one; a single one is read further, None if the file ends in it.
        """
        ended = self._eof
        while True:
            for end in self._loose_ends(start) or [self._fill]:
                data = bytes(self._buffer[start:end])
                parsed = tolerant.parse(data, self._check)
                if parsed.open_at is None or parsed.events or parsed.dropped:
                    break
            if parsed.ended_at is not None:
                end = start + parsed.ended_at + 1
                return Cut(self._taken(parsed, data[: end - start], start), end, has_ended=True)
            if parsed.open_at is not None and (parsed.events or parsed.dropped):
                end = start + parsed.open_at
                data, parsed.open_at = data[: parsed.open_at], None
            if parsed.open_at is None or ended or self._fill >= MAX_DAMAGED * self._block:
                return Cut(self._taken(parsed, data, start), end)
            if self._eof:
                return None
            self._grow()

    def _loose_ends(self, start: int) -> list[int]:
        """Behind the last brace that looks like the end of an event on a line, and behind the last one anywhere."""
        end = end_of_line = None
        for match in _LOOSE_SEPARATOR.finditer(self._buffer, start + 1, self._fill):
            end = match.start() + 1
            if b"\n" in match[0]:
                end_of_line = end
        return [index for index in dict.fromkeys((end_of_line, end)) if index is not None]

    def _taken(self, parsed: tolerant.Parsed, data: bytes, start: int) -> Block:
        """The block where the file goes on behind it: an event that does not end there is damaged, not cut off."""
        if parsed.open_at is not None:
            parsed.dropped += 1
            beginning = data[parsed.open_at : parsed.open_at + BEGINNING].decode(errors="replace")
            parsed.examples.append((parsed.open_at, f"{UNREADABLE}: {beginning}"))
        return self._noted(parsed, data, start)

    def _noted(self, parsed: tolerant.Parsed, data: bytes, start: int) -> Block:
        """The block, once what was wrong in it is taken note of."""
        layout, offset = self.layout, self._base + start
        layout.dropped += parsed.dropped
        layout.repaired += parsed.repaired
        layout.examples += [(offset + at, what) for at, what in parsed.examples]
        for bracket in parsed.brackets:
            assert bracket.kind is not None
            layout.note(Found(offset + bracket.start, bracket.kind))
        return Block([straighten(item) for item in parsed.events], data, offset, is_tolerant=True)

    def _salvage(self, start: int) -> Generator[Block, None, int | None]:
        """The end of a file that stops in the middle: whole events strictly, the rest as far as it goes."""
        for comma in self._commas(start):
            self._buffer[comma] = _CLOSE
            try:
                yield self._strict(start, comma + 1)
            except Malformed:
                self._buffer[comma] = ord(",")
                continue
            start, self._buffer[comma] = comma, _OPEN
            break
        data = bytes(self._buffer[start : self._fill])
        parsed = tolerant.parse(data, self._check)
        if parsed.ended_at is not None:
            end = start + parsed.ended_at + 1
            yield self._noted(parsed, data[: end - start], start)
            return end
        yield self._noted(parsed, data, start)
        layout = self.layout
        layout.is_closed = layout.container == "lines" and parsed.open_at is None
        layout.is_within_event = parsed.open_at is not None
        at = self._fill if parsed.open_at is None else start + parsed.open_at
        is_whole = parsed.open_at is None and layout.container != "object"
        layout.truncated_at = None if is_whole else self._base + at
        return None


def _nothing(source: Source, blanks: int) -> str:
    """What is to be said of a file in which nothing stands."""
    if source.damage:
        return f"holds nothing that can be read: {source.damage}"
    if blanks:
        return "is empty but for blanks"
    if source.wrapping != "plain":
        return f"holds nothing: its {source.wrapping} content is empty"
    return "is empty: the program that wrote it may not have finished"


def _first_sign(buffer: bytearray, fill: int) -> int:
    """Index of the first byte that is not blank, nor the mark of UTF-8."""
    head = re.compile(rb"[\xef\xbb\xbf \t\r\n]*").match(buffer, 0, fill)
    return head.end() if head else 0


def _is_object(data: bytes) -> bool:
    try:
        _fields.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _starts_with_event(head: bytes) -> bool:
    """Whether an event stands where the object around the events would."""
    if re.match(rb"\{[^{}]*\"ph\"", head):
        return True
    if len(head) >= FIRST_LINE:
        return False
    first, _ = tolerant.parse_value(tolerant.readable(head))
    return isinstance(first, dict) and "ph" in first
