"""What stands outside of the arrays of events: the keys of the object around them, and whatever follows behind it.

A file may go on behind a closing bracket: the bracket stands between events by mistake, the object has its key
`traceEvents` twice, or several traces were written one behind the other. Here is found where events go on.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from tracetui.model.trace import BEGINNING
from tracetui.reading.decode import end_of_value
from tracetui.reading.mending import EVENT_KEYS
from tracetui.reading.oddities import Found, Oddity
from tracetui.reading.window import ByteWindow

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
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class Stop(Enum):
    """Why a look around ended."""

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
        """Whether the keys of an object go on at the index."""
        self._foreign: tuple[int, bytes] | None = None
        """Where something that has no meaning here begins, and how."""

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
            return Stop.END, fill, [self._noted(Oddity.FOREIGN)]
        if event is not None and event < 0:
            return Stop.MORE, -event - 1, []
        assert self._foreign is not None
        if event is None:
            assert key is not None
            odd = Oddity.NEXT_TRACE if self._foreign[1].startswith((b"{", b"[")) else Oddity.FOREIGN
            self.in_object = True
            return Stop.ARRAY, key.end() - 1, [self._noted(odd)]
        start, text = self._foreign
        arrays = _ARRAYS.match(text)
        if start + len(arrays[0] if arrays else b"") < base + event:
            return Stop.EVENT, event, [self._noted(Oddity.FOREIGN)]
        return Stop.EVENT, event, [self._noted(Oddity.NEXT_TRACE if text.startswith(b"[") else Oddity.BRACKET)]

    def _noted(self, kind: Oddity) -> Found:
        assert self._foreign is not None
        (offset, text), self._foreign = self._foreign, None
        return Found(offset, kind, text.decode(errors="replace"))


def first_events(data: bytearray, fill: int) -> tuple[int, bool] | None:
    """Where events begin in a file that does not begin like a trace, and whether that is a bracket."""
    key = EVENTS_KEY.search(data, 0, fill)
    event = _next_event(data, 0, key.start() if key else fill, fill, is_all=True)
    if event is not None:
        return event, False
    return (key.end() - 1, True) if key else None


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
    """Whether an object has a phase, None where more bytes are needed to know; and where it ends."""
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
                    return "ph" in _fields.decode(part), end
                except msgspec.MsgspecError:
                    return False, index
                except UnicodeDecodeError:
                    # The name of a field is damaged: the beginning decides, and the tolerant path reads the object.
                    high = end
        elif end is None and not is_all and high == fill and tried <= _MAX_TRIED:
            return None, index
        # Damaged, or too long: its beginning decides.
        return _FLAT_EVENT.match(buffer, index, high) is not None, index
