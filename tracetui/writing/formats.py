"""Writing in the format in which a trace was read: JSON stays JSON, protobuf stays protobuf, and files are named so.

A damaged trace is written anew as one that every viewer opens: valid events stay byte for byte, and each change is
listed with its offset in bytes, counted in the unpacked file.

Packets of Perfetto files are copied byte for byte, those that a part of a trace needs, whole or in part. Of one that is
left out, the fields that others need stay: interned texts, clears of the state, defaults, clocks and descriptions of
tracks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.model.trace import BEGINNING, UNREADABLE, Trace
from tracetui.reading import json_repair
from tracetui.reading.decode import decode_raw, encoded
from tracetui.reading.json_repair import Bracket, Oddity, Piece
from tracetui.reading.nsight.database import RowStore
from tracetui.reading.perfetto.schemas import AnnotationField, EventField, PacketField
from tracetui.reading.perfetto.store import PacketStore
from tracetui.reading.perfetto.wire import PADDING, SPAN, VARINT, DamagedMessage, fields_of, span_field
from tracetui.reading.store import Store
from tracetui.writing.anonymizing import Anonymizer
from tracetui.writing.cut import ARGUMENTS, Cut, Kept, nothing_left
from tracetui.writing.output import MARK, Sink, surroundings, write_events
from tracetui.writing.selection import Selection, Wanted, select, within

LEFT_OUT, CUT_OFF = "left out, it cannot be read", "left out, the file ends within it"
MENDED = "mended: quotes, escapes or bare words within it"
REWRITTEN = "rewritten: it held what JSON does not allow, such as control characters or NaN"
NOT_UTF8 = "rewritten: bytes that are not UTF-8 became signs"
NO_EVENT = "left out, it is no event"
COMMAS = "a comma was put between events, or one too many taken away"
ODDITIES = {
    Oddity.BRACKET: "left out, a closing bracket between events",
    Oddity.INNER_ARRAY: "the events of another array were put into the one",
    Oddity.SECOND_KEY: "the events of the second key traceEvents were put into the one array",
    Oddity.NEXT_TRACE: "the events of another trace were put into the one array",
    Oddity.FOREIGN: "left out, it is no event",
}


@frozen(eq=True, slots=True)
class Mend:
    """One change."""

    offset: int | None
    """Byte in the unpacked file, None for the file as a whole."""
    what: str
    excerpt: str = ""
    """Beginning of the text that was there."""


@dataclass
class Repair:
    """A trace written anew; `done` lists what was changed once it is written."""

    trace: Trace
    done: list[Mend] = field(default_factory=list)
    _commas: list[int] = field(default_factory=list)
    """Offsets of wrong commas."""

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> int:
        """Write the whole trace and return the number of events.

        Raises: TraceError when the file has changed since it was read.
        """
        store = self._store
        count = write_events(sink, store.container, self._events(store, progress))
        if self._commas:
            more = f", and in {len(self._commas) - 1:,} more places" if len(self._commas) > 1 else ""
            self.done.append(Mend(self._commas[0], COMMAS + more))
        self.done += [Mend(odd.offset, ODDITIES[odd.kind], _excerpt(odd.text)) for odd in store.container.oddities]
        self.done.sort(key=lambda mend: -1 if mend.offset is None else mend.offset)
        self.done += self._changes_around(store)
        return count

    @property
    def _store(self) -> Store:
        assert isinstance(self.trace.store, Store), "only a trace that was read from somewhere can be repaired"
        return self.trace.store

    def _events(self, store: Store, progress: Callable[[int], None]) -> Iterator[bytes]:
        count = 0
        for place, data in store.blocks():
            events = self._lenient(place.offset, data) if place.is_tolerant else self._strict(place.offset, data)
            for event in events:
                count += 1
                yield event
            progress(count)

    def _strict(self, offset: int, data: bytes) -> list[bytes]:
        """The events of a block that is valid JSON, but perhaps for its bytes."""
        events = decode_raw(data, is_tolerant=False)
        try:
            data.decode()
        except UnicodeDecodeError:
            index = 0
            for event in events:
                while data[index : index + 1] in (b"[", b",", b" ", b"\n", b"\r", b"\t"):
                    index += 1
                # A byte that was replaced is one byte again, so that both have the same length.
                if data[index : index + len(event)] != event:
                    self._add(offset + index, NOT_UTF8, event.decode())
                index += len(event)
        return events

    def _lenient(self, offset: int, data: bytes) -> Iterator[bytes]:
        """The events of a block that is not valid JSON: as they are where they are valid, else as they were read."""
        # A block that begins elsewhere than at the bracket begins with the comma before it.
        commas = 0 if data.startswith(b"[") else -1
        for piece in json_repair.pieces(data):
            if isinstance(piece, Bracket):
                # Listed with what stands outside of blocks; the comma may have become the bracket.
                commas = -1
                continue
            event = self._read(offset, data, piece)
            if event is None:
                # A comma may have been left out with it.
                commas = -1
                continue
            if commas >= 0 and piece.gap.count(",") != commas and self._store.container.kind != "lines":
                self._commas.append(offset + piece.start - len(piece.gap.encode()))
            commas = -1 if piece.is_mended else 1
            yield event

    def _read(self, offset: int, data: bytes, piece: Piece) -> bytes | None:
        """The event of a piece, None where it is left out."""
        if not isinstance(piece.item, dict):
            what = CUT_OFF if piece.is_open else LEFT_OUT if piece.item is None else NO_EVENT
            self._add(offset + piece.start, what, piece.text)
            return None
        raw = data[piece.start : piece.end]
        if not piece.is_mended and _is_valid(raw):
            return raw
        self._add(offset + piece.start, MENDED if piece.is_mended else REWRITTEN, piece.text)
        return encoded(piece.item)

    def _changes_around(self, store: Store) -> Iterator[Mend]:
        """The changes around the events."""
        container = store.container
        if self.trace.format.endswith(", utf-16"):
            yield Mend(None, "written in UTF-8 instead of UTF-16")
        if container.kind == "lines":
            yield Mend(None, "the lines became an array")
        elif not container.is_closed:
            what = "the array and the object around it were" if container.kind == "object" else "the array was"
            yield Mend(None, f"{what} closed")
        elif container.kind == "object" and surroundings(container)[0] != container.header.removeprefix(MARK):
            kept = ", ".join(key for key in container.metadata if key != "traceEvents") or "none"
            yield Mend(None, f"the keys beside the events were written anew: {kept}")
        listed = len(container.oddities)
        if (more := sum(container.odd_counts.values()) - listed) > 0:
            yield Mend(None, f"{more:,} further things of these kinds were done")
        for sentence in self.trace.quality.notes:
            if "stream" in sentence or "inflate" in sentence or "zip archive" in sentence:
                yield Mend(None, sentence)

    def _add(self, offset: int, what: str, text: str) -> None:
        self.done.append(Mend(offset, what, _excerpt(text)))


def _excerpt(text: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(text[: 2 * BEGINNING].split())[:BEGINNING]


def _is_valid(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


BATCH = 1 << 20
"""Bytes that are gathered before they are written."""
_NEEDED = {
    PacketField.PROCESS_TREE,
    PacketField.INTERNED_DATA,
    PacketField.CLOCK_SNAPSHOT,
    PacketField.DEFAULTS,
    PacketField.TRACK_DESCRIPTOR,
    PacketField.PROCESS_DESCRIPTOR,
    PacketField.THREAD_DESCRIPTOR,
    PacketField.STATE_CLEARED,
    PacketField.PACKET_DROPPED,
}
"""Fields that other packets need."""
_ENVELOPE = {
    PacketField.TIMESTAMP,
    PacketField.CLOCK_ID,
    PacketField.SEQUENCE,
    PacketField.SEQUENCE_FLAGS,
    3,
    79,
    87,
    98,
}
"""Fields about the packet itself."""
_STACKS = {name.encode() for name in ARGUMENTS}


class PacketUse(IntEnum):
    """Part of a packet that is written."""

    OTHER = 0
    """Not in any column: the needed fields are written, or all of it, by its time, where its kind is not shown."""
    STRIPPED = 1
    """The needed fields alone."""
    WHOLE = 2
    DROPPED = 3


class PacketFilter:
    """Decides for every packet of a file how much of it is written."""

    def __init__(self, trace: Trace, store: PacketStore, wanted: Wanted, selection: Selection) -> None:
        self._store, self._wanted, self._selection = store, wanted, selection
        self._origin = round(trace.origin_us * 1000)
        self._uses = _uses(trace, store, wanted, selection)

    def packets(self, progress: Callable[[int], None]) -> Iterator[bytes]:
        """The packets as they are written, without the empty ones; `progress` gets the number read, block by block.

        Raises: TraceError when the file has changed since it was read.
        """
        for first, packets in self._store.packets():
            progress(first)
            uses = self._uses[first : first + len(packets)].tolist()
            for packet, use in zip(packets, uses, strict=True):
                if use == PacketUse.WHOLE:
                    has_stacks = not self._wanted.stacks and any(name in packet for name in _STACKS)
                    path = (PacketField.TRACK_EVENT, EventField.ANNOTATIONS)
                    yield _without_stacks(packet, path) if has_stacks else packet
                elif use != PacketUse.DROPPED and (kept := self._kept_fields(packet, use)):
                    yield kept

    def _kept_fields(self, packet: bytes, use: int) -> bytes:
        try:
            # The fields of a packet: number, value (of a text its start) and bytes.
            fields, start = [], 0
            for entry in fields_of(packet + bytes(PADDING), 0, len(packet)):
                fields.append((entry.number, entry.value if entry.wire == VARINT else 0, packet[start : entry.end]))
                start = entry.end
        except DamagedMessage:
            return b""
        if use == PacketUse.OTHER and self._is_wanted(fields):
            return packet
        kept = b"".join(raw for number, _, raw in fields if number in _NEEDED or number in _ENVELOPE)
        clears = any(number == PacketField.SEQUENCE_FLAGS and value & 1 for number, value, _ in fields)
        is_needed = clears or any(number in _NEEDED for number, _, _ in fields)
        return kept if is_needed or self._store.rules.adds_times else b""

    def _is_wanted(self, fields: list[tuple[int, int, bytes]]) -> bool:
        """True for a packet of a kind that is not shown, in the range of time or without a time."""
        kinds = {number for number, _, _ in fields} - _ENVELOPE - _NEEDED
        if kinds & {PacketField.TRACK_EVENT, PacketField.GPU_RENDER_STAGE, PacketField.GPU_COUNTER_EVENT} or not kinds:
            return False
        if self._wanted.lanes or self._wanted.without:
            return False
        values = {number: value for number, value, _ in fields}
        if PacketField.TIMESTAMP not in values or not self._wanted.timed:
            return True
        # Times of other clocks are not known here.
        moment = values[PacketField.TIMESTAMP] - self._origin
        if PacketField.CLOCK_ID in values or abs(moment) >= 1 << 62:
            return False
        return bool(within(self._selection.spans, np.array([moment], np.int64))[0])


def _uses(trace: Trace, store: PacketStore, wanted: Wanted, selection: Selection) -> NDArray[np.uint8]:
    if wanted.everything:
        return np.full(trace.events, PacketUse.WHOLE, np.uint8)
    uses = np.full(trace.events, PacketUse.OTHER, np.uint8)
    chosen = [trace.slices.event[selection.slices], trace.instants.event[selection.instants]]
    others = [trace.slices.event, trace.instants.event]
    for counter, mask in zip(trace.counters, selection.counters, strict=True):
        chosen.append(counter.event[mask])
        others.append(counter.event)
    rules = store.rules
    for events in (*others, rules.ends):
        uses[events] = PacketUse.STRIPPED
    for events in chosen:
        uses[events] = PacketUse.WHOLE
    uses[rules.ends[uses[rules.begins] == PacketUse.WHOLE]] = PacketUse.WHOLE
    if (uses[rules.sums] == PacketUse.WHOLE).any():
        # A sum needs all that was added before.
        uses[rules.sums] = PacketUse.WHOLE
    if not rules.adds_times:
        drops = uses == PacketUse.STRIPPED
        drops[rules.needed] = False
        uses[drops] = PacketUse.DROPPED
    return uses


def _without_stacks(message: bytes, path: tuple[int, ...]) -> bytes:
    """The message without the annotations that are stacks, at the end of a path of fields."""
    raw, out, start = message + bytes(PADDING), bytearray(), 0
    try:
        for entry in fields_of(raw, 0, len(message)):
            piece = message[start : entry.end]
            start = entry.end
            if entry.number == path[0] and entry.wire == SPAN:
                inner = message[entry.value : entry.end]
                if len(path) == 1:
                    piece = b"" if _annotation_name(inner) in _STACKS else piece
                else:
                    inner = _without_stacks(inner, path[1:])
                    piece = span_field(entry.number, inner)
            out += piece
    except DamagedMessage:
        return message
    return bytes(out)


def _annotation_name(annotation: bytes) -> bytes:
    for entry in fields_of(annotation + bytes(PADDING), 0, len(annotation)):
        if entry.number == AnnotationField.NAME and entry.wire == SPAN:
            return annotation[entry.value : entry.end]
    return b""


def write_packets(sink: Sink, packets: Iterator[bytes]) -> int:
    """Write packets as a file; returns how many there were."""
    count, pending = 0, bytearray()
    for packet in packets:
        count += 1
        pending += span_field(1, packet)
        if len(pending) >= BATCH:
            sink.write(bytes(pending))
            pending.clear()
    sink.write(bytes(pending))
    return count


# A part of a Perfetto file as a new one: packets are chosen by the columns and copied as the bytes that they are.


class PacketCut:
    """A part of a Perfetto file, chosen and not yet written."""

    def __init__(self, trace: Trace, wanted: Wanted) -> None:
        """Choose the packets.

        Raises: UsageError when there is no such step, or nothing is left.
        """
        assert isinstance(trace.store, PacketStore), "only a trace of packets can be cut so"
        selection = select(trace, wanted)
        if selection.is_empty(trace) and not wanted.everything:
            raise UsageError(nothing_left(trace))
        self._neighbours = selection.neighbours
        self._filter = PacketFilter(trace, trace.store, wanted, selection)

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> Kept:
        """Write it as a whole file; `progress` gets the number of packets read, after every block.

        Raises: TraceError when the file of the trace has changed since it was read.
        """
        return Kept(write_packets(sink, self._filter.packets(progress)), self._neighbours)


# A damaged Perfetto file, written anew as one that every viewer opens, and the list of what is left out for that.

PACKED = "packets that were packed into others stand in the file themselves"


@dataclass
class PacketRepair:
    """A trace written anew; `done` lists what was changed once it is written."""

    trace: Trace
    done: list[Mend] = field(default_factory=list)

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> int:
        """Write all packets that can be read, and return their number.

        Raises: TraceError when the file has changed since it was read.
        """
        store = self.trace.store
        assert isinstance(store, PacketStore), "only a trace of packets can be repaired so"
        count = write_packets(sink, self._packets(store, progress))
        quality = self.trace.quality
        listed = [(at, text) for at, text in quality.examples if text.startswith(UNREADABLE)]
        self.done += [Mend(at, LEFT_OUT, text.removeprefix(f"{UNREADABLE}: ")) for at, text in listed]
        if (more := quality.unreadable - len(listed)) > 0:
            self.done.append(Mend(None, f"{more:,} further pieces that cannot be read were left out"))
        if quality.truncated_at is not None:
            self.done.append(Mend(quality.truncated_at, CUT_OFF))
        if store.is_rewritten:
            self.done.append(Mend(None, PACKED))
        return count

    def _packets(self, store: PacketStore, progress: Callable[[int], None]) -> Iterator[bytes]:
        damaged = set(store.rules.damaged.tolist())
        for first, packets in store.packets():
            progress(first)
            yield from (packet for number, packet in enumerate(packets, first) if number not in damaged)


_PACKING = re.compile(r"\.(gz|zst|zstd)$")
_PROTOBUF = (".pftrace", ".perfetto-trace", ".pb")
_JSON = ".json"


def is_protobuf(trace: Trace) -> bool:
    """True for a trace that was read from Perfetto's protobuf format."""
    return isinstance(trace.of_file.store, PacketStore)


def require_writable_format(trace: Trace) -> None:
    """Check that a trace can be written in the format in which it was read.

    Raises: UsageError for a database.
    """
    if isinstance(trace.of_file.store, RowStore):
        raise UsageError(
            f"{trace.label} is an export of Nsight Systems, and none can be written: "
            "`nsys export` makes one of a part of the report."
        )


def suffix_of(trace: Trace) -> str:
    """The suffix of files in the format of a trace."""
    return _PROTOBUF[0] if is_protobuf(trace) else _JSON


def require_fitting_name(path: str, trace: Trace) -> None:
    """Check that the name of a file fits the format of the trace, in which it is written.

    Raises: UsageError where it has the suffix of another format.
    """
    require_writable_format(trace)
    name = _PACKING.sub("", path.casefold())
    if is_protobuf(trace) and name.endswith(_JSON):
        raise UsageError(
            f"{trace.label} is protobuf and is written as that: name the file {path[: len(name) - 5]}.pftrace."
        )
    if not is_protobuf(trace) and name.endswith(_PROTOBUF):
        suffix = next(each for each in _PROTOBUF if name.endswith(each))
        raise UsageError(
            f"{trace.label} is JSON and is written as that: name the file {path[: len(name) - len(suffix)]}.json."
        )


def part_of(
    trace: Trace, wanted: Wanted, anonymizer: Anonymizer | None = None, with_layers: bool = False
) -> Cut | PacketCut:
    """A part of a trace, to be written in its format.

    Raises: UsageError when there is no such step, nothing is left, or the names in a protobuf file are to be replaced,
    or lanes added to it.
    """
    trace = trace.of_file
    require_writable_format(trace)
    if not is_protobuf(trace):
        return Cut(trace, wanted, anonymizer, with_layers)
    if with_layers:
        raise UsageError(
            f"Lanes cannot be added to {trace.label}, which is protobuf: --with-layers is for JSON traces."
        )
    if anonymizer is not None:
        raise UsageError(
            f"Names cannot be replaced in {trace.label}, which is protobuf: --hash-names is for JSON traces."
        )
    return PacketCut(trace, wanted)


def repair_of(trace: Trace) -> Repair | PacketRepair:
    """A trace to be written anew in its format.

    Raises: UsageError for a format that cannot be written.
    """
    trace = trace.of_file
    require_writable_format(trace)
    return PacketRepair(trace) if is_protobuf(trace) else Repair(trace)
