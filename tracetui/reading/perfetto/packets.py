"""Cuts the bytes of a trace into blocks of whole packets, with marks of atrace as track events.

A program on Android writes lines such as `B|77|draw` and `E|77` into the kernel's trace. The packets that hold them are
replaced, like packed packets, by what is left of them and by track events as the Perfetto SDK would have written them,
so that all that reads, cuts and writes these does so with marks (R2.39). The lines are those of Perfetto's
`systrace_parser.h`; other events stay.
"""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64
from tracetui.model.trace import BEGINNING, UNREADABLE
from tracetui.reading.file_layout import FileLayout
from tracetui.reading.perfetto.recognition import FRAME, PROBED_FRAMES, frames_in_a_row
from tracetui.reading.perfetto.schemas import BEGIN, COUNTER, END, INSTANT, EventField, LegacyField, PacketField
from tracetui.reading.perfetto.wire import (
    SPAN,
    DamagedMessage,
    Frames,
    MessageBytes,
    Schema,
    TextNumbers,
    fields_of,
    frame_packets,
    number_field,
    read_fields,
    span_field,
    varint,
)
from tracetui.reading.source import MOST_INFLATED, ByteWindow, Source, Stopped

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


# Packets that a writer packed into one, with zlib or zstd, and the limits of what they may grow to.
#
# A stream that is damaged gives what stands before the damage. What grows beyond all measure ends the reading of
# packed packets; the others are read on.

ZLIB_PACKETS, ZSTD_PACKETS = 50, 133
"""Fields of packets that hold packed ones."""
HARMLESS = 1 << 24
"""Bytes of unpacked packets up to which their number is not compared with that of the packed ones."""
MAX_UNPACKED = 1 << 23
"""Bytes that one packet of packed ones may hold; writers pack less than a megabyte at a time."""
_FEED = 1 << 14
_NEVER_LARGER = 1 << 12
"""Packed bytes below which the size of a file says nothing about a bomb."""


class PacketUnpacker:
    """Unpacks packed packets one after the other and counts what was wrong with them."""

    def __init__(self) -> None:
        self.damaged = 0
        """Packets whose content could not be unpacked to its end."""
        self.bomb = ""
        """The reason why no more is unpacked, as the end of a sentence; empty where nothing forbids it."""
        self._packed = self._unpacked = 0

    def unpack(self, field: int, packed: bytes) -> bytes:
        """The packets in the content of a field, as far as they can be read; nothing where the limits are passed."""
        if self.bomb:
            self.damaged += 1
            return b""
        out, is_whole = _inflated(packed) if field == ZLIB_PACKETS else _zstd_unpacked(packed)
        self._packed += len(packed)
        self._unpacked += len(out)
        if len(out) > MAX_UNPACKED:
            self._refuse(f"a packet of {len(packed):,} bytes unpacks to more than {MAX_UNPACKED:,}")
        elif self._unpacked > HARMLESS and self._unpacked > MOST_INFLATED * max(self._packed, _NEVER_LARGER):
            self._refuse(f"{self._packed:,} bytes of packed packets unpack to more than {self._unpacked:,}")
        if self.bomb:
            return b""
        self.damaged += not is_whole
        return out

    def _refuse(self, reason: str) -> None:
        self.bomb = f"{reason}, as in no trace"
        self.damaged += 1


def _inflated(packed: bytes) -> tuple[bytes, bool]:
    """The content of a zlib stream, and whether it is whole; no more than one byte beyond the limit."""
    inflate = zlib.decompressobj()
    out = bytearray()
    try:
        for index in range(0, len(packed), _FEED):
            out += inflate.decompress(packed[index : index + _FEED], MAX_UNPACKED + 1 - len(out))
            if len(out) > MAX_UNPACKED or inflate.eof:
                break
    except zlib.error:
        return bytes(out), False
    return bytes(out), inflate.eof


def _zstd_unpacked(packed: bytes) -> tuple[bytes, bool]:
    """The same of a zstd frame."""
    # 10 ms of import that only files with such packets pay.
    import zstandard

    out = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_size=_FEED) as reader:
            while len(out) <= MAX_UNPACKED:
                piece = reader.read(min(1 << 20, MAX_UNPACKED + 1 - len(out)))
                if not piece:
                    return bytes(out), _is_whole_frame(packed, len(out))
                out += piece
    except zstandard.ZstdError:
        return bytes(out), False
    return bytes(out), True


def _is_whole_frame(packed: bytes, size: int) -> bool:
    """Tell whether a frame that gave so many bytes came to its end, as far as its header tells."""
    import zstandard

    try:
        content = zstandard.frame_content_size(packed)
    except zstandard.ZstdError:
        return False
    return content in (-1, size)


MAX_KEPT_PACKET = 1 << 26
"""Bytes of a single packet beyond which it is passed over."""
MAX_CANDIDATES = 50_000
"""Maximum places behind damage at which packets are looked for."""
UNPACKED_BLOCK = 1 << 22
"""Bytes of unpacked packets after which a block ends."""
BLOCK = 1 << 20
"""Bytes of a block: some 16,000 packets; with more, the columns of a block leave the processor's cache."""
_PACKED_TAGS = ((0x92, 0x03), (0xAA, 0x08))
"""The two bytes with which the fields of packed packets begin."""


@frozen(eq=True)
class PacketBlock:
    """Some consecutive packets and where they stand."""

    data: MessageBytes
    offset: int
    """Of the first byte in the unwrapped stream."""
    frames: Frames
    """Spans of the packets in `data`."""
    is_rewritten: bool = False
    """True if packed packets were replaced by what is in them, so that the file does not hold these bytes."""


class PacketReader:
    """Iterates over the blocks of a source; `layout` is complete when the iteration is."""

    def __init__(self, source: Source, cancelled: Callable[[], bool] = lambda: False, block: int = BLOCK) -> None:
        self.layout = FileLayout(container="protobuf")
        self.unpacker = PacketUnpacker()
        self._marks = AtraceMarks()
        self._window = ByteWindow(source, block, cancelled)
        self._source = source
        self._candidates = MAX_CANDIDATES

    def __iter__(self) -> Iterator[PacketBlock]:
        window = self._window
        try:
            window.read_more()
            while window.fill:
                with memoryview(window.data) as view:
                    data = MessageBytes(view[: window.fill])
                frames = frame_packets(data.raw, 0, window.fill)
                if len(frames.start):
                    for block in self._unpacked(PacketBlock(data, window.base, frames)):
                        parts = self._marks.replaced(block.data, block.frames)
                        yield _rewritten(parts, block.offset) if parts else block
                    window.move_up(frames.behind)
                if frames.is_damaged:
                    self._note_damage()
                    if not self._find_packets():
                        return
                elif frames.needed > MAX_KEPT_PACKET:
                    self._pass_over(frames.needed)
                elif window.eof:
                    break
                elif len(frames.start):
                    window.read_more()
                else:
                    self._grow(frames.needed)
        except Stopped:
            return
        if window.fill:
            self.layout.truncated_at = window.base + window.fill
            self.layout.is_within_event = True
            self.layout.is_closed = False

    def _grow(self, needed: int) -> None:
        while not self._window.eof:
            self._window.grow()
            if self._window.fill >= needed:
                return

    def _note_damage(self) -> None:
        """Take note that something else than a packet stands where one should begin."""
        beginning = bytes(self._window.data[: min(self._window.fill, BEGINNING // 2)]).hex(" ")
        self.layout.dropped += 1
        self.layout.examples.append((self._window.base, f"{UNREADABLE}: {beginning[:BEGINNING]}"))

    def _find_packets(self) -> bool:
        """Go on to where packets stand in a row again; False where the file ends before, or too much was tried."""
        window, index = self._window, 1
        damaged_at = window.base
        while True:
            start = bytes(window.data[: window.fill])
            while (index := start.find(FRAME, index)) >= 0 and self._candidates:
                self._candidates -= 1
                complete, is_cut = frames_in_a_row(start, index)
                if complete >= PROBED_FRAMES or (window.eof and complete and is_cut is not None):
                    window.move_up(index)
                    window.read_more()
                    return True
                index += 1
            if window.eof or not self._candidates:
                self.layout.truncated_at = damaged_at
                self.layout.is_closed = False
                return False
            window.move_up(window.fill)
            window.read_more()
            index = 0

    def _pass_over(self, size: int) -> None:
        """Leave out a packet that is longer than any that holds events."""
        self._note_damage()
        window, left = self._window, size
        while left and window.fill:
            passed = min(left, window.fill)
            window.move_up(passed)
            left -= passed
            window.read_more()
        if left:
            self.layout.truncated_at = window.base
            self.layout.is_within_event, self.layout.is_closed = True, False

    def _unpacked(self, block: PacketBlock) -> Iterator[PacketBlock]:
        """The block, or blocks in which what was packed stands in the stead of packed packets."""
        data, frames = block.data, block.frames
        tag, second = data.bytes[frames.start], data.bytes[np.minimum(frames.start + 1, data.size)]
        packed = np.zeros(len(tag), bool)
        for first_byte, second_byte in _PACKED_TAGS:
            packed |= (tag == first_byte) & (second == second_byte)
        if not packed.any():
            yield block
            return
        parts: list[bytes] = []
        behind = size = 0
        for row in np.flatnonzero(packed).tolist():
            before = int(frames.end[row - 1]) if row else 0
            parts += [data.text(behind, before), self._content(data, int(frames.start[row]), int(frames.end[row]))]
            behind = int(frames.end[row])
            size += len(parts[-2]) + len(parts[-1])
            if size >= UNPACKED_BLOCK:
                yield _rewritten(parts, block.offset)
                self._window.check()
                parts, size = [], 0
        parts.append(data.text(behind, frames.behind))
        if any(parts):
            yield _rewritten(parts, block.offset)

    def _content(self, data: MessageBytes, start: int, end: int) -> bytes:
        """The packets in a packed packet, as far as they are whole."""
        unpacked = b""
        before = self.unpacker.damaged
        try:
            for number, wire, value, behind in fields_of(data.raw, start, end):
                if wire == SPAN and number in (ZLIB_PACKETS, ZSTD_PACKETS):
                    unpacked = self.unpacker.unpack(number, data.text(value, behind))
                    self._source.count_unpacked(len(unpacked))
        except DamagedMessage:
            self.unpacker.damaged += 1
        inner = frame_packets(MessageBytes(unpacked).raw, 0, len(unpacked))
        if inner.behind < len(unpacked) and self.unpacker.damaged == before:
            self.unpacker.damaged += 1
        return unpacked[: inner.behind]


def _rewritten(parts: list[bytes], offset: int) -> PacketBlock:
    data = MessageBytes(b"".join(parts))
    return PacketBlock(data, offset, frame_packets(data.raw, 0, data.size), is_rewritten=True)
