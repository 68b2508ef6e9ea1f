"""Cuts a stream of bytes into blocks of whole events without looking at every byte.

A block ends at the last separator between events within a megabyte: the bytes that the file itself was seen to
use (`},\\n  {`). Such a cut may be wrong, inside the arguments of an event, but then the block cannot parse, and
an earlier place is tried: a cut verifies itself. A block that parses nowhere is read by the tolerant path.
Blocks of a megabyte stay in the processor's cache; larger ones are slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import orjson

from tracetui.errors import NotATrace
from tracetui.importers import tolerant
from tracetui.importers.decode import Event, Malformed, decode_strict, straighten
from tracetui.importers.source import Source, refuse_other_content
from tracetui.model.trace import BEGINNING, UNREADABLE

BLOCK = 1 << 20
MAX_EVENT = 1 << 28
"""A single event longer than this is taken for damage."""
GROWN = 8
"""So many blocks are read of what may be one damaged event."""
HEADER_LIMIT = 1 << 28
FIRST_LINE = 1 << 22
"""A longer beginning is not tried for being an event on a line of its own."""

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_LOOSE_SEPARATOR = re.compile(rb'\}\s*(?:,\s*)?\{\s*"')
_UNSEPARATED = re.compile(rb'\}\s*\{\s*"')
_COMMA = re.compile(rb"\s*,")
_OPEN, _CLOSE = ord("["), ord("]")


@dataclass(slots=True)
class Block:
    """Some consecutive events and where they stand."""

    events: list[Event]
    data: bytes
    """`[` event, ... `]`."""
    offset: int
    """Of the first byte of `data` in the unwrapped stream."""
    is_tolerant: bool = False


@dataclass
class Findings:
    """What the cutting found beside events."""

    container: str = "object"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the array."""
    truncated_at: int | None = None
    is_closed: bool = True
    """Whether the end of the array was met."""
    dropped: int = 0
    repaired: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)


class BlockReader:
    """Iterates over the blocks of a source; `findings` is complete when the iteration is."""

    def __init__(self, source: Source, block: int = BLOCK) -> None:
        self.findings = Findings()
        self._source = source
        self._block = block
        self._buffer = bytearray(block)
        self._fill = 0
        self._base = 0
        self._eof = False
        self._separator = b""

    def __iter__(self) -> Iterator[Block]:
        start = self._find_array()
        if self.findings.container == "lines":
            yield from self._read_lines()
            return
        while (cut := self._next(start)) is not None:
            block, rest, ended = cut
            yield block
            if ended:
                self._keep_trailer(rest)
                return
            self._move_up(rest)
            start, self._buffer[0] = 0, _OPEN
        yield from self._salvage(start)

    def _find_array(self) -> int:
        """Read until the array's bracket is in the buffer and return its place."""
        findings = self.findings
        while True:
            self._read_more(max(self._block, 2 * self._fill))
            head = bytes(self._buffer[: self._fill])
            body = head.lstrip(b"\xef\xbb\xbf \t\r\n")
            if body[:1] == b"[":
                findings.container = "array"
                return len(head) - len(body)
            match = _EVENTS_KEY.search(head)
            if match:
                findings.header = head[: match.end() - 1]
                return match.end() - 1
            if body[:1] != b"{":
                refuse_other_content(body, self._source.label)
                shown = body[:24].decode("utf-8", "replace")
                raise NotATrace(f"{self._source.label} is not a trace: it starts with {shown!r}, not with {{ or [.")
            if _starts_with_event(body):
                findings.container = "lines"
                return 0
            if self._eof or self._fill > HEADER_LIMIT:
                raise NotATrace(f"{self._source.label} is JSON but holds no traceEvents array in {self._fill:,} bytes.")

    def _read_more(self, wanted: int = 0) -> None:
        """Fill the buffer, which grows when more is wanted than it holds."""
        if wanted > len(self._buffer):
            self._buffer.extend(bytes(max(wanted, 2 * len(self._buffer)) - len(self._buffer)))
        with memoryview(self._buffer) as view:
            while self._fill < len(view) and not self._eof:
                count = self._source.readinto(view[self._fill :])
                self._eof = count == 0
                self._fill += count

    def _move_up(self, place: int) -> None:
        """Forget everything before `place`."""
        rest = self._fill - place
        self._buffer[:rest] = self._buffer[place : self._fill]
        self._fill = rest
        self._base += place

    def _next(self, start: int) -> tuple[Block, int, bool] | None:
        """A block from `start`, the place to go on, and whether the array ended there; None if the file ends in it."""
        self._read_more()
        cut = None if self._eof else self._cut(start)
        if cut is not None:
            return cut
        rest = self._rest(start)
        if rest is not None or self._fill - start <= 2 * self._block:
            return rest
        return self._cut(start)

    def _rest(self, start: int) -> tuple[Block, int, bool] | None:
        """Likewise for all that is left once the source has ended, None where that is not whole."""
        try:
            return self._strict(start, self._fill), self._fill, True
        except Malformed as error:
            if error.end is None:
                return None
            end = start + error.end
        return self._strict(start, end), end, True

    def _cut(self, start: int) -> tuple[Block, int, bool] | None:
        """Likewise for the events that are whole in the buffer, None when the first does not end before the file."""
        unclosed = True
        for comma in self._commas(start):
            self._buffer[comma] = _CLOSE
            try:
                return self._strict(start, comma + 1), comma, False
            except Malformed as error:
                self._buffer[comma] = ord(",")
                if error.end is not None:
                    end = start + error.end
                    return self._strict(start, end), end, True
                unclosed = unclosed and error.unclosed
        if not unclosed or self._fill - start >= MAX_EVENT or self._lacks_commas(start):
            return self._cut_loosely(start)
        if not self._eof:
            self._read_more(2 * len(self._buffer))
        return None if self._eof else self._cut(start)

    def _commas(self, start: int) -> Iterator[int]:
        """Places of commas between events, last first: a few by the usual separator, then by any."""
        place = self._fill
        for _ in range(3 if self._separator else 0):
            place = self._buffer.rfind(self._separator, start, place)
            if place < 0:
                break
            yield self._buffer.index(b",", place)
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
        return Block(decode_strict(data), data.rstrip(), self._base + start)

    def _cut_loosely(self, start: int) -> tuple[Block, int, bool] | None:
        """Likewise for what the tolerant path makes of it."""
        found = self._loosely(start)
        if found is None:
            return None
        block, end, has_ended = found
        comma = _COMMA.match(self._buffer, end, self._fill)
        # The next block's bracket is put on the comma; where there is none, on a byte that has been read.
        return block, comma.end() - 1 if comma else end - 1, has_ended

    def _loosely(self, start: int) -> tuple[Block, int, bool] | None:
        """A block for the tolerant path, the place behind it, and whether the array ended there.

        It goes up to the last place that looks like the end of an event. Where that turns out to be inside of one,
        the block ends before that one; a single one is read further, None if the file ends in it.
        """
        ended = self._eof
        while True:
            for end in self._loose_ends(start) or [self._fill]:
                data = bytes(self._buffer[start:end])
                parsed = tolerant.parse(data)
                if parsed.open_at is None or parsed.events or parsed.dropped:
                    break
            if parsed.open_at is not None and (parsed.events or parsed.dropped):
                end = start + parsed.open_at
                data, parsed.open_at = data[: parsed.open_at], None
            if parsed.open_at is None or ended or self._fill >= GROWN * self._block:
                return self._taken(parsed, data, start), end, parsed.ended_at is not None
            if self._eof:
                return None
            self._read_more(2 * len(self._buffer))

    def _loose_ends(self, start: int) -> list[int]:
        """Behind the last brace that looks like the end of an event on a line, and behind the last one anywhere."""
        end = end_of_line = None
        for match in _LOOSE_SEPARATOR.finditer(self._buffer, start + 1, self._fill):
            end = match.start() + 1
            if b"\n" in match[0]:
                end_of_line = end
        return [place for place in dict.fromkeys((end_of_line, end)) if place is not None]

    def _taken(self, parsed: tolerant.Parsed, data: bytes, start: int) -> Block:
        """The block where the file goes on behind it: an event that does not end there is damaged, not cut off."""
        if parsed.open_at is not None:
            parsed.dropped += 1
            beginning = data[parsed.open_at : parsed.open_at + BEGINNING].decode(errors="replace")
            parsed.examples.append((parsed.open_at, f"{UNREADABLE}: {beginning}"))
        return self._noted(parsed, data, start)

    def _noted(self, parsed: tolerant.Parsed, data: bytes, start: int) -> Block:
        """The block, once what was wrong in it is taken note of."""
        findings, offset = self.findings, self._base + start
        findings.dropped += parsed.dropped
        findings.repaired += parsed.repaired
        findings.examples += [(offset + at, what) for at, what in parsed.examples]
        return Block([straighten(item) for item in parsed.events], data, offset, is_tolerant=True)

    def _salvage(self, start: int) -> Iterator[Block]:
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
        parsed = tolerant.parse(data)
        yield self._noted(parsed, data, start)
        if parsed.ended_at is None:
            self.findings.is_closed = self.findings.container == "lines" and parsed.open_at is None
            at = self._fill if parsed.open_at is None else start + parsed.open_at
            whole = parsed.open_at is None and self.findings.container != "object"
            self.findings.truncated_at = None if whole else self._base + at
        else:
            self.findings.trailer = bytes(self._buffer[start + parsed.ended_at + 1 : self._fill])

    def _read_lines(self) -> Iterator[Block]:
        """One object per line, without an array around them."""
        while True:
            self._read_more()
            if self._eof:
                yield from self._salvage(0)
                return
            if self._fill < MAX_EVENT and _LOOSE_SEPARATOR.search(self._buffer, 1, self._fill) is None:
                self._read_more(2 * len(self._buffer))
            elif (found := self._loosely(0)) is not None:
                yield found[0]
                self._move_up(found[1])

    def _keep_trailer(self, place: int) -> None:
        """Keep what follows the array, for its metadata."""
        self._move_up(place)
        while not self._eof and self._fill < HEADER_LIMIT:
            self._read_more(self._fill + self._block)
        self.findings.trailer = bytes(self._buffer[: self._fill])


def _starts_with_event(head: bytes) -> bool:
    """Whether an event stands where the object around the events would."""
    if re.match(rb"\{[^{}]*\"ph\"", head):
        return True
    if len(head) > FIRST_LINE:
        return False
    first, _ = tolerant.parse_value(tolerant.readable(head))
    return isinstance(first, dict) and "ph" in first
