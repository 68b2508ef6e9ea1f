"""Marks of atrace in packets of ftrace, as the track events that the Perfetto SDK would have written for them.

A program on Android writes lines such as `B|77|draw` and `E|77` into the kernel's trace. The packets that hold them are
replaced, like packed packets, by what is left of them and by track events, so that all that reads, cuts and writes
these does so with marks (R2.39). The lines are those of Perfetto's `systrace_parser.h`; other events stay.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.reading.perfetto.recognition import FRAME
from tracetui.reading.perfetto.schemas import BEGIN, COUNTER, END, INSTANT, EventField, LegacyField, PacketField
from tracetui.reading.perfetto.wire import (
    Frames,
    MessageBytes,
    Schema,
    TextNumbers,
    number_field,
    read_fields,
    span_field,
    varint,
)

_FTRACE = Schema(spans=(PacketField.FTRACE,))
_BUNDLE = Schema(numbers=(1, 3, 5, 6, 7), spans=(4, 8), repeated=(2,))
"""CPU, whether events were lost, clock, two times of one moment; compact events, errors; events."""
_EVENTS, _COMPACT, _ERROR = 2, 4, 8
_EVENT = Schema(numbers=(1, 2), spans=(3,))
"""Time, thread, and what `print` wrote."""
_PRINT = Schema(spans=(2,))
_MONO_RAW, _MONOTONIC_RAW = 4, 5
"""A clock of ftrace, and the number that packets have for it."""
FIRST_SEQUENCE = 0xFFFF0000
"""Sequence of the marks of CPU 0. Each CPU has one, as only the events of one CPU are in order of time."""
MAX_BODIES = 1 << 16
"""Maximum marks of threads that are kept as bytes: those that repeat are encoded once."""
EMPTY_NAME = b"[empty slice name]"
_WHOLE = re.compile(rb"-?\d{1,18}")
_EVENT_TAG, _TIME_TAG = _EVENTS << 3 | 2, bytes([PacketField.TIMESTAMP << 3])


class _Mark(NamedTuple):
    """A line of atrace."""

    phase: bytes
    pid: int
    """The process, 0 where an end does not name it."""
    name: bytes = b""
    track: bytes = b""
    value: int = 0
    """Value of a counter, or the number that the two ends of an asynchronous slice share."""


def read_mark(line: bytes) -> _Mark | None:
    """The mark in a line; None for any other line."""
    phase, _, rest = line.rstrip(b"\n\0").partition(b"|")
    process, _, about = rest.partition(b"|")
    pid = int(process) if process.isdigit() and len(process) < 11 else 0
    if phase == b"E":
        return _Mark(phase, pid)
    fields = about.split(b"|")
    if not process.isdigit() or (phase != b"B" and not fields[0]):
        return None
    last = int(fields[-1]) if _WHOLE.fullmatch(fields[-1]) else None
    match phase, fields:
        case b"B", _:
            return _Mark(phase, pid, about or EMPTY_NAME)
        case b"I", [name, *_]:
            return _Mark(phase, pid, name)
        case b"N", [track, name, *_] if name:
            return _Mark(phase, pid, name, track)
        case b"C" | b"S" | b"F", [name, value, *_] if _WHOLE.fullmatch(value):
            return _Mark(phase, pid, name, value=int(value))
        case b"G", [track, name, _] if name and last is not None:
            return _Mark(phase, pid, name, track, last)
        case b"H", [track, _] | [track, _, _] if last is not None:
            return _Mark(phase, pid, b"", track, last)
    return None


class AtraceMarks:
    """Replaces packets of ftrace by what they hold beside marks, and the marks by track events."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._numbers = TextNumbers(self._number)
        self._bodies: dict[tuple[int, int], bytes] = {}
        self._described: set[int] = set()
        """Tracks of which a packet says what they are."""

    def _number(self, line: bytes) -> int:
        mark = read_mark(line)
        if mark is None:
            return -1
        self._marks.append(mark)
        return len(self._marks) - 1

    def replaced(self, data: MessageBytes, frames: Frames) -> list[bytes]:
        """The bytes of a block in which marks are replaced, in parts; none where there are no marks."""
        # Who writes ftrace begins its packets with it.
        own = np.flatnonzero(data.bytes[frames.start] == FRAME)
        if not len(own):
            return []
        start, end = read_fields(data, frames.start[own], frames.end[own], _FTRACE).span(PacketField.FTRACE)
        first = np.array([varint(data.raw, at + 1)[1] for at in frames.start[own].tolist()], np.int64)
        whole = np.flatnonzero(start == first)
        own, start, end = own[whole], start[whole], end[whole]
        bundles = read_fields(data, start, end, _BUNDLE)
        events = bundles.repeated(_EVENTS)
        fields = read_fields(data, events.start, events.end, _EVENT)
        first, last = fields.span(3)
        rows = np.flatnonzero((first >= 0) & ~fields.damaged & ~bundles.damaged[events.row])
        first, last = read_fields(data, first[rows], last[rows], _PRINT).span(2)
        rows, first, last = rows[first >= 0], first[first >= 0], last[first >= 0]
        mark = self._numbers.of(data, first, last)
        rows, mark = rows[mark >= 0], mark[mark >= 0]
        if not len(rows):
            return []
        bundle, first_row = np.unique(events.row[rows], return_index=True)
        bounds = zip(first_row.tolist(), [*first_row[1:].tolist(), len(rows)], strict=True)
        count = np.bincount(events.row, minlength=len(own)).tolist()
        is_kept = (bundles.has(_COMPACT) | bundles.has(_ERROR)).tolist()
        cpu, lost, clock, ftrace_time, boot_time = (bundles.number(field) for field in _BUNDLE.numbers)
        shift = np.where((clock != 0) & (boot_time != 0), boot_time - ftrace_time, 0)
        # Numbers as varints of ten bytes each.
        groups = (fields.number(1)[rows] + shift[events.row[rows]]).view(np.uint64)[:, None] >> np.arange(
            0, 70, 7, dtype=np.uint64
        )
        padded = (groups & np.uint64(127) | np.uint64(128)).astype(np.uint8)
        padded[:, 9] &= 1
        raw = padded.tobytes()
        stamps = [raw[at : at + 10] for at in range(0, len(raw), 10)]
        marks, threads = mark.tolist(), fields.number(2)[rows].tolist()
        parts: list[bytes] = []
        behind = 0
        for each, (low, high) in zip(bundle.tolist(), bounds, strict=True):
            cuts = _event_spans(data, events.start[rows[low:high]], events.end[rows[low:high]])
            if cuts is None:
                continue
            row = int(own[each])
            parts.append(data.text(behind, int(frames.end[row - 1]) if row else 0))
            behind = int(frames.end[row])
            if count[each] > len(cuts) or is_kept[each]:
                parts.append(_rest(data, int(start[each]), int(end[each]), behind, cuts))
            head = number_field(PacketField.SEQUENCE, FIRST_SEQUENCE + (int(cpu[each]) & 0xFFFF))
            if clock[each] == _MONO_RAW:
                head += number_field(PacketField.CLOCK_ID, _MONOTONIC_RAW)
            loss = number_field(PacketField.PACKET_DROPPED, 1) if lost[each] else b""
            for at in range(low, high):
                key = marks[at], threads[at]
                body = self._bodies.get(key) or self._body(*key, parts)
                parts.append(span_field(1, b"".join((_TIME_TAG, stamps[at], loss, head, body))))
                loss = b""
        return [*parts, data.text(behind, frames.behind)] if parts else []

    def _body(self, number: int, thread: int, parts: list[bytes]) -> bytes:
        """The track event of a mark of a thread; packets that describe its track go to `parts`."""
        mark = self._marks[number]
        process = self._track(parts, mark.pid, b"process", number_field(1, mark.pid), 3, is_known=bool(mark.pid))
        kind, track, about, phase = 0, process, b"", mark.phase
        if phase in (b"B", b"E", b"I"):
            # An end need not name the process; it is that of the begin before it.
            owner = number_field(1, mark.pid or thread) + number_field(2, thread)
            track = self._track(parts, thread, b"thread", owner, 4, is_known=bool(mark.pid))
            kind = {b"B": BEGIN, b"E": END, b"I": INSTANT}[phase]
        elif phase == b"C":
            kind, about = COUNTER, number_field(EventField.COUNTER, mark.value)
            track = self._track(parts, mark.pid, b"counter " + mark.name, b"", 8, process, mark.name)
        elif phase == b"N":
            kind, track = INSTANT, self._track(parts, mark.pid, b"track " + mark.track, b"", 0, process, mark.track)
        else:
            if phase in (b"G", b"H"):
                about = span_field(EventField.CATEGORIES, mark.track)
                phase = b"b" if phase == b"G" else b"e"
            legacy = number_field(LegacyField.PHASE, ord(phase)) + number_field(LegacyField.LOCAL_ID, mark.value)
            about += span_field(EventField.LEGACY, legacy)
        parts_of_event = [number_field(EventField.TYPE, kind), number_field(EventField.TRACK_UUID, track), about]
        if mark.name and phase != b"C":
            parts_of_event.append(span_field(EventField.NAME, mark.name))
        if len(self._bodies) > MAX_BODIES:
            self._bodies.clear()
        body = self._bodies[number, thread] = span_field(PacketField.TRACK_EVENT, b"".join(parts_of_event))
        return body

    def _track(
        self,
        parts: list[bytes],
        number: int,
        what: bytes,
        owner: bytes,
        field: int,
        parent: int = 0,
        name: bytes = b"",
        is_known: bool = True,
    ) -> int:
        """The uuid of a track; a packet that describes it goes to `parts` once it is known whose it is."""
        uuid = int.from_bytes(hashlib.blake2b(b"%d %s" % (number, what), digest_size=7).digest(), "big")
        if is_known and uuid not in self._described:
            self._described.add(uuid)
            about = number_field(1, uuid) + (span_field(2, name) if name else b"")
            about += (number_field(5, parent) if parent else b"") + (span_field(field, owner) if field else b"")
            parts.append(_packet(span_field(PacketField.TRACK_DESCRIPTOR, about)))
        return uuid


def _event_spans(data: MessageBytes, start: Int64, end: Int64) -> list[tuple[int, int]] | None:
    """The spans of events with their tags and lengths; None where a writer encodes these as no writer does."""
    spans = []
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        # The length ends with a byte below 128, and so does the tag before it.
        tag = low - 2
        while data.raw[tag] > 127:
            tag -= 1
        if data.raw[tag] != _EVENT_TAG:
            return None
        spans.append((tag, high))
    return spans


def _rest(data: MessageBytes, start: int, end: int, behind: int, cuts: list[tuple[int, int]]) -> bytes:
    """A packet of ftrace without some of its events."""
    bounds = [start, *(bound for cut in cuts for bound in cut), end]
    left = b"".join(data.text(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True))
    return _packet(span_field(PacketField.FTRACE, left), data.text(end, behind))


def _packet(*fields: bytes) -> bytes:
    return span_field(1, b"".join(fields))
