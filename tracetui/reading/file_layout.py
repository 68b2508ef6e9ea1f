"""The layout of a file around its events, as it turned out while they were read; and its rank, read without them.

A compressed file has no tail that can be read alone: what stands behind its events is known once it has been loaded.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec

from tracetui.errors import NotATrace, TraceError
from tracetui.model.recorded import HEADER_KEYS, RankHeader, header_fields
from tracetui.model.trace import BEGINNING, DAMAGED_KEYS, REPEATED, REPLACED, UNREADABLE, Quality
from tracetui.reading import json_repair
from tracetui.reading.decode import decoded, end_of_value, object_fields
from tracetui.reading.json_repair import EVENT_KEYS, MAX_LISTED_ODDITIES, Found, Oddity, parse_value, readable
from tracetui.reading.odd_texts import repeating_within, replaced_in, unrepeated
from tracetui.reading.other_files import refuse_other_content
from tracetui.reading.source import ByteWindow, Source, open_raw_file, open_source


@dataclass
class FileLayout:
    """The layout of a file around its events, and what was wrong with them."""

    container: str = "object"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the last array."""
    trailer_at: int = 0
    """Its offset in the unwrapped stream."""
    between: list[bytes] = field(default_factory=list)
    """The bytes between arrays, where there are several."""
    is_headless: bool = False
    """True if the file does not begin like a trace; keys may still follow behind its events."""
    truncated_at: int | None = None
    is_within_event: bool = False
    """True if the file ends in the middle of an event."""
    is_closed: bool = True
    """True if the end of the array, and of the object around it, was met."""
    dropped: int = 0
    repaired: int = 0
    replaced: int = 0
    repeated: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    oddities: list[Found] = field(default_factory=list)
    """The first `MAX_LISTED_ODDITIES`."""
    odd_counts: dict[Oddity, int] = field(default_factory=dict)

    def add_example(self, offset: int, reason: str, text: bytes) -> None:
        """Keep a place in the file as an example of a reason, with how it begins."""
        self.examples.append((offset, f"{reason}: {text[:BEGINNING].decode(errors='replace')}"))

    def add_oddity(self, irregularity: Found) -> None:
        self.odd_counts[irregularity.kind] = self.odd_counts.get(irregularity.kind, 0) + 1
        if len(self.oddities) < MAX_LISTED_ODDITIES:
            self.oddities.append(irregularity)
        if irregularity.kind is Oddity.FOREIGN:
            self.dropped += 1
            self.examples.append((irregularity.offset, f"{UNREADABLE}: {irregularity.text}"))


# What stands outside of the arrays of events: the keys of the object around them, and whatever follows behind it.
#
# A file may go on behind a closing bracket: the bracket stands between events by mistake, the object has its key
# `traceEvents` twice, or several traces were written one behind the other. Here is found where events go on.

EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BLANK = re.compile(rb"[\s,]*+")
_CLOSERS = re.compile(rb"[\s,\]}]*+")
_COLON = re.compile(rb"\s*+:\s*+")
_EVENT = re.compile(rb'\{\s*+"(?:' + EVENT_KEYS.encode() + rb')"\s*+:')
_FLAT_EVENT = re.compile(rb'\{[^{}]*"ph"\s*:')
_ARRAYS = re.compile(rb"[\s,\[]*+")
_TRIED = 1 << 16
"""Bytes in which an event is looked for at first."""
_MAX_TRIED = 1 << 22
"""Bytes beyond which what begins like an event is taken for one, or not, by its beginning."""
_OVERLAP = 1 << 10
"""Bytes that are looked at again once more have come: what begins an event may have been cut."""
_OBJECT, _QUOTE, _OPEN, _CLOSE = ord("{"), ord('"'), ord("["), ord("}")
_value = msgspec.json.Decoder(msgspec.Raw)


class Stop(Enum):
    """The reason why a look around ended."""

    EVENT = 0
    """An event begins at the index."""
    ARRAY = 1
    """An array of events begins at the index."""
    END = 2
    """The file ends without further events."""
    MORE = 3
    """More bytes are needed; those before the index are not."""


class TopLevel:
    """Looks for further events behind the end of an array, and takes note of what is odd there."""

    def __init__(self, is_object: bool) -> None:
        self.in_object = is_object
        """True if the keys of an object go on at the index."""
        self._foreign: tuple[int, bytes] | None = None
        """The offset and the beginning of something that has no meaning here."""

    def look(self, window: ByteWindow, index: int) -> tuple[Stop, int, list[Found]]:
        """Go on from an index of a window; returns why it stopped, where, and what was odd on the way."""
        buffer, fill, base, is_all = window.data, window.fill, window.base, window.eof
        if self._foreign is not None:
            return self._seek(buffer, index, fill, base, is_all)
        while True:
            passed = _BLANK if self.in_object else _CLOSERS
            index = passed.match(buffer, index, fill).end()  # type: ignore[union-attr]
            if index == fill:
                return (Stop.END if is_all else Stop.MORE), index, []
            if not self.in_object:
                return self._seek(buffer, index, fill, base, is_all)
            if buffer[index] == _CLOSE:
                self.in_object, index = False, index + 1
                continue
            if buffer[index] != _QUOTE:
                return self._seek(buffer, index, fill, base, is_all)
            end = self._behind_key(buffer, index, fill, is_all)
            if end is None:
                return Stop.MORE, index, []
            if end < 0:
                events = EVENTS_KEY.match(buffer, index, fill)
                if events:
                    return Stop.ARRAY, events.end() - 1, [Found(base + index, Oddity.SECOND_KEY)]
                return self._seek(buffer, index, fill, base, is_all)
            index = end

    def _behind_key(self, buffer: bytearray, index: int, fill: int, is_all: bool) -> int | None:
        """Index behind a key and its value; -1 where they are none or the events, None where more bytes are needed."""
        colon_at = _end(buffer, index, fill, is_all)
        if colon_at is None or colon_at < 0:
            return colon_at
        colon = _COLON.match(buffer, colon_at, fill)
        if colon is None or colon.end() == fill:
            return -1 if is_all or colon_at < fill - _OVERLAP else None
        if EVENTS_KEY.match(buffer, index, fill):
            return -1
        return _end(buffer, colon.end(), fill, is_all)

    def _seek(self, buffer: bytearray, index: int, fill: int, base: int, is_all: bool) -> tuple[Stop, int, list[Found]]:
        """Look for the next event or array of events, whatever stands before it."""
        if self._foreign is None:
            self._foreign = base + index, bytes(buffer[index : min(index + BEGINNING, fill)])
        key = EVENTS_KEY.search(buffer, index, fill)
        event = _next_event(buffer, index, key.start() if key else fill, fill, is_all)
        if event is None and key is None:
            if not is_all:
                return Stop.MORE, max(index, fill - _OVERLAP), []
            return Stop.END, fill, [self._take_foreign(Oddity.FOREIGN)]
        if event is not None and event < 0:
            return Stop.MORE, -event - 1, []
        assert self._foreign is not None
        if event is None:
            assert key is not None
            odd = Oddity.NEXT_TRACE if self._foreign[1].startswith((b"{", b"[")) else Oddity.FOREIGN
            self.in_object = True
            return Stop.ARRAY, key.end() - 1, [self._take_foreign(odd)]
        start, text = self._foreign
        arrays = _ARRAYS.match(text)
        if start + len(arrays[0] if arrays else b"") < base + event:
            return Stop.EVENT, event, [self._take_foreign(Oddity.FOREIGN)]
        return Stop.EVENT, event, [self._take_foreign(Oddity.NEXT_TRACE if text.startswith(b"[") else Oddity.BRACKET)]

    def _take_foreign(self, kind: Oddity) -> Found:
        assert self._foreign is not None
        (offset, text), self._foreign = self._foreign, None
        return Found(offset, kind, text.decode(errors="replace"))


def _end(buffer: bytearray, index: int, fill: int, is_all: bool) -> int | None:
    """Index behind the value that begins at an index; -1 where there is none, None where more bytes are needed."""
    with memoryview(buffer) as view, view[index:fill] as part:
        try:
            _value.decode(part)
        except (msgspec.DecodeError, RecursionError) as error:
            end = end_of_value(str(error))
            if end is not None:
                return index + end
            return None if "truncated" in str(error) and not is_all else -1
    return fill if is_all else None


def _next_event(buffer: bytearray, index: int, limit: int, fill: int, is_all: bool) -> int | None:
    """Index of the next event before a limit; below 0 (`-index - 1`) of what may be one once more bytes have come."""
    first = _ARRAYS.match(buffer, index, limit).end()  # type: ignore[union-attr]
    starts = [first] if first < limit and buffer[first] == _OBJECT else []
    passed = index
    for start in (*starts, *(match.start() for match in _EVENT.finditer(buffer, index, limit))):
        if start < passed:
            continue
        is_event, end = _is_event(buffer, start, fill, is_all)
        if is_event is None:
            return -start - 1
        if is_event:
            return start
        # An object that is no event may hold an array of them.
        passed = end if buffer.find(b'"ph"', start, end) < 0 else start + 1
    return None


def _is_event(buffer: bytearray, index: int, fill: int, is_all: bool) -> tuple[bool | None, int]:
    """Tell whether an object has a phase, None where more bytes are needed to know; and where it ends."""
    tried = _TRIED
    while True:
        high = min(index + tried, fill)
        end = _end(buffer, index, high, is_all and high == fill)
        if end is None and high < fill and tried < _MAX_TRIED:
            tried *= 4
            continue
        if end is not None and end >= 0:
            with memoryview(buffer) as view, view[index:end] as part:
                try:
                    return "ph" in object_fields.decode(part), end
                except msgspec.MsgspecError:
                    return False, index
                except UnicodeDecodeError:
                    # The name of a field is damaged: the beginning decides, and the tolerant path reads the object.
                    high = end
        elif end is None and not is_all and high == fill and tried <= _MAX_TRIED:
            return None, index
        # Damaged, or too long: its beginning decides.
        return _FLAT_EVENT.match(buffer, index, high) is not None, index


# Where the events of a file begin: in an array, under the key `traceEvents`, on lines, or behind damage.

MAX_HEADER = 1 << 28
"""Bytes in front of the events, or behind them, beyond which no more are read."""
FIRST_LINE = 1 << 22
"""A longer beginning is not tried for being an event on a line of its own."""
MAX_FOREIGN_HEAD = 1 << 23
"""Bytes in which events are looked for where a file does not begin like a trace."""


_MARK_AND_BLANKS = re.compile(rb"[\xef\xbb\xbf \t\r\n]*")
"""The mark of UTF-8, and blanks."""


def find_events(window: ByteWindow, layout: FileLayout, source: Source) -> int:
    """Read until the events begin, and return the index of their bracket.

    Raises: NotATrace.
    """
    searched = 0
    while True:
        window.read_more()
        head = _MARK_AND_BLANKS.match(window.data, 0, window.fill)
        start = head.end() if head else 0
        sign = window.data[start : start + 1]
        if sign == b"[":
            layout.container = "array"
            return start
        match = EVENTS_KEY.search(window.data, max(searched - FIRST_LINE, 0), window.fill)
        if match and sign == b"{":
            layout.header = bytes(window.data[: match.end() - 1])
            return match.end() - 1
        if sign == b"{" and _starts_with_event(bytes(window.data[start : min(window.fill, FIRST_LINE)])):
            layout.container = "lines"
            return 0
        searched = window.fill
        if window.eof or window.fill > (MAX_HEADER if sign == b"{" else MAX_FOREIGN_HEAD):
            body = bytes(window.data[start : min(window.fill, start + (1 << 10))])
            return _find_later(window, layout, source, body)
        window.grow()


def _find_later(window: ByteWindow, layout: FileLayout, source: Source, body: bytes) -> int:
    """The same in a file that does not begin like a trace, which `body` is the beginning of.

    Raises: NotATrace.
    """
    if not body:
        raise NotATrace(f"{source.label} {_nothing(source, window.fill)}.")
    # The index at which events begin in a file that does not begin like a trace, and whether that is a bracket.
    key = EVENTS_KEY.search(window.data, 0, window.fill)
    event = _next_event(window.data, 0, key.start() if key else window.fill, window.fill, is_all=True)
    events = (event, False) if event is not None else (key.end() - 1, True) if key else None
    if events is None:
        refuse_other_content(body, source.label, is_eventless=True)
    if events is None and body.startswith(b"{"):
        raise NotATrace(f"{source.label} is JSON but holds no traceEvents array in {window.fill:,} bytes.")
    if events is None:
        start_text = body[:24].decode("utf-8", "replace")
        raise NotATrace(f"{source.label} is not a trace: it starts with {start_text!r}, not with {{ or [.")
    index, is_array = events
    layout.is_headless = True
    layout.header = bytes(window.data[: index if is_array else index - 1])
    layout.add_oddity(Found(window.base, Oddity.FOREIGN, body[:BEGINNING].decode(errors="replace")))
    if is_array:
        return index
    window.data[index - 1] = ord("[")
    return index - 1


def _nothing(source: Source, blanks: int) -> str:
    """The sentence about a file in which nothing stands, without its beginning."""
    if source.damage:
        return f"holds nothing that can be read: {source.damage}"
    if blanks:
        return "is empty but for blanks"
    if source.wrapping != "plain":
        return f"holds nothing: its {source.wrapping} content is empty"
    return "is empty: the program that wrote it may not have finished"


def _starts_with_event(head: bytes) -> bool:
    """Tell whether an event stands where the object around the events would."""
    if re.match(rb"\{[^{}]*\"ph\"", head):
        return True
    if len(head) >= FIRST_LINE:
        return False
    first, _ = json_repair.parse_value(json_repair.readable(head))
    return isinstance(first, dict) and "ph" in first


# The keys of the object around the events, such as the properties of the devices.

MAX_VALUE = 1 << 23
"""Bytes of a value beyond which it is not kept in memory: as Python objects it takes twenty times as much."""
_TOP_KEY = re.compile(r'"([A-Za-z_]+)"\s*:\s*')
_ERROR_AT = re.compile(r"\(byte (\d+)\)")


def top_keys(layout: FileLayout, quality: Quality) -> dict[str, Any]:
    """The keys around the events; one by one where they are not valid JSON together."""
    if layout.container != "object":
        return {}
    _note_damage(layout, quality)
    keys = _whole(layout, quality)
    rest = [layout.header, layout.trailer] if keys is None else []
    keys = {} if keys is None else keys
    for part in map(readable, (*rest, *layout.between)):
        index = 0
        while match := _TOP_KEY.search(part, index):
            value, index = parse_value(part, match.end())
            if index > match.end() and match[1] != "traceEvents":
                keys.setdefault(match[1], value)
    return keys


def _note_damage(layout: FileLayout, quality: Quality) -> None:
    """Count and locate what of the keys cannot be read, was replaced, or stands twice."""
    if layout.is_headless:
        # What the file begins with is noted as something foreign.
        return
    parts = ((layout.header, 0), (layout.trailer, layout.trailer_at))
    odd = [(*replaced_in(part), part, offset) for part, offset in parts]
    for count, at, part, offset in odd:
        if count:
            layout.replaced += count
            layout.add_example(offset + at, REPLACED, part[at:])
    is_whole = layout.is_closed and layout.trailer and not layout.between and Oddity.FOREIGN not in layout.odd_counts
    head, tail = layout.header.removeprefix(codecs.BOM_UTF8), layout.trailer if is_whole else b"}"
    data = head + b"[]" + tail
    if len(data) > MAX_VALUE:
        return
    try:
        at, repeating = _first_damage(data, is_strict=not any(count for count, *_ in odd))
    except RecursionError:
        return
    start = len(layout.header) - len(head)
    if repeating:
        layout.repeated += repeating
        layout.add_example(start, REPEATED, head)
    if at >= 0:
        behind = at - len(head) - 2
        quality.damaged_keys += 1
        layout.add_example(layout.trailer_at + behind if behind >= 0 else start + at, DAMAGED_KEYS, data[at:])


def _first_damage(data: bytes, is_strict: bool) -> tuple[int, int]:
    """The byte from which an object is no JSON, -1 where it is; and how many objects within have a key twice.

    What only a lenient reading takes, as a bare NaN, is damage where `is_strict`.
    """
    text, at = data.decode("utf-8", "replace"), -1
    try:
        object_fields.decode(data)
    except msgspec.MsgspecError as error:
        match = _ERROR_AT.search(str(error))
        at = (int(match[1]) if match else 0) if is_strict else -1
    except UnicodeDecodeError:
        pass
    try:
        return at, repeating_within(json.loads(text, strict=False, parse_int=float, object_pairs_hook=unrepeated))
    except ValueError as error:
        return len(text[: getattr(error, "pos", 0)].encode()), 0


def _whole(layout: FileLayout, quality: Quality) -> dict[str, Any] | None:
    """The keys of the object if it is valid JSON."""
    try:
        fields = object_fields.decode(layout.header + b"[]" + layout.trailer)
        keys: dict[str, Any] = {}
        for key, value in fields.items():
            size = len(memoryview(value))
            if key == "traceEvents":
                continue
            if size > MAX_VALUE:
                quality.notes.append(f"The value of the key {key!r} beside the events, {size:,} bytes, is not shown.")
            else:
                keys[key] = decoded(bytes(value))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return keys


# Commas between events, found by what a file itself writes around them.

_SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_FAR_END = 1 << 16
"""Bytes at the end of a stretch that are searched before all of it."""


class Separators:
    """Positions at which a stretch of events may be cut; a cut is right if what lies before it can be read."""

    def __init__(self) -> None:
        self.usual = b""
        """The bytes that the file last had between events."""

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


HEAD_BYTES = 1 << 17
"""Bytes at the beginning that are read, unwrapped."""
TAIL_BYTES = 1 << 16
"""Bytes at the end of a plain file that are read."""
_SIGNS = ("traceEvents", "ph", "distributedInfo", "deviceProperties")
"""One of these keys stands at the beginning of every trace, and of no other JSON that lies beside traces."""
_TEXT_COLON = re.compile(r"\s*:\s*")
_TIME = re.compile(r"[1-9][0-9]*(?:\.[0-9]+)?")
_END = re.compile(r"[\]}]\s*\Z")


def read_rank_header(path: str) -> RankHeader | None:
    """The rank that a file names; None for a file that is no trace, such as a configuration.

    Raises: TraceError for a file that cannot be read.
    """
    with contextlib.closing(open_source(path)) as source:
        buffer = memoryview(bytearray(HEAD_BYTES))
        fill = 0
        while fill < len(buffer) and (more := source.readinto(buffer[fill:])):
            fill += more
        head = readable(bytes(buffer[:fill]))
        is_plain, size = source.wrapping == "plain", source.size or 0
    if not any(True for sign in _SIGNS for _ in _values_of(sign, head)):
        return None
    is_all = is_plain and size <= HEAD_BYTES
    tail = ""
    if is_plain and not is_all:
        with open_raw_file(path) as file:
            file.seek(max(size - TAIL_BYTES, 0))
            tail = readable(b"".join(iter(lambda: file.read(TAIL_BYTES) or b"", b"")))
    keys = {**_keys(tail), **_keys(head)}
    fields = header_fields(keys)
    end = tail or (head if is_all else "")
    match = next((time for begin in _values_of("ts", head) if (time := _TIME.match(head, begin))), None)
    return RankHeader(
        path=path,
        size_bytes=size,
        begin_ns=None if match is None else int(Decimal(match[0]) * 1000) + (fields["base_ns"] or 0),
        is_whole=bool(_END.search(end)) if end else None,
        **fields,
    )


def is_whole_file(path: str) -> bool:
    """Tell whether a file can be unwrapped to its end and ends as a trace does; reads all of it."""
    buffer = memoryview(bytearray(1 << 20))
    last = b""
    try:
        with contextlib.closing(open_source(path)) as source:
            while count := source.readinto(buffer):
                last = (
                    bytes(buffer[max(count - 64, 0) : count]) if count >= 64 else (last + bytes(buffer[:count]))[-64:]
                )
            return source.damage is None and bool(_END.search(last.decode("utf-8", "replace")))
    except TraceError:
        return False


def _keys(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key in HEADER_KEYS:
        for begin in _values_of(key, text):
            value, end = parse_value(text, begin)
            if end > begin:
                fields[key] = value
    return fields


def _values_of(key: str, text: str) -> Iterator[int]:
    """Indices at which the values of a key begin; a regular expression for all of it would take 40 times as long."""
    word, index = f'"{key}"', -1
    while (index := text.find(word, index + 1)) >= 0:
        if colon := _TEXT_COLON.match(text, index + len(word)):
            yield colon.end()
