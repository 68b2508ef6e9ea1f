"""Packets of Perfetto files as output: those that a part of a trace needs, whole or in part.

Packets are copied byte for byte. Of one that is left out, the fields that others need stay: interned texts, clears of
the state, defaults, clocks and descriptions of tracks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError
from tracetui.model.trace import UNREADABLE, Trace
from tracetui.reading.perfetto.schemas import AnnotationField, EventField, PacketField
from tracetui.reading.perfetto.store import PacketStore
from tracetui.reading.perfetto.wire import PADDING, SPAN, VARINT, DamagedMessage, fields_of, span_field
from tracetui.writing.cut import ARGUMENTS, Kept, nothing_left
from tracetui.writing.output import Sink
from tracetui.writing.repair import CUT_OFF, LEFT_OUT, Mend
from tracetui.writing.selection import Selection, Wanted, select, within

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
