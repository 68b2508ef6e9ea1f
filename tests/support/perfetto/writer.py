"""Writes Perfetto protobuf files, whole and broken ones: every function returns bytes, which are simply joined.

`number`, `data`, `double` and `message` write one field of any message; the others write the packets of a trace.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

import zstandard

BEGIN, END, INSTANT, COUNTER, STATE = 1, 2, 3, 4, 5
"""Types of track events."""
CLEARED, NEEDS_STATE = 1, 2
"""Flags of a packet: the state of its sequence begins anew; it uses that state."""
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
"""Numbers of clocks."""
TRACE_PACKET = 1
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types."""


def varint(value: int, size: int = 0) -> bytes:
    """A varint of at least `size` bytes, as protozero pads the lengths of messages; negative numbers have ten."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127 or len(out) + 1 < size:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def tag(field: int, wire: int) -> bytes:
    """The tag in front of a field."""
    return varint(field << 3 | wire)


def number(field: int, value: int) -> bytes:
    """A whole number."""
    return tag(field, VARINT) + varint(value)


def fixed(field: int, value: int) -> bytes:
    """A whole number of eight bytes."""
    return tag(field, FIXED64) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    """A floating point number of eight bytes."""
    return tag(field, FIXED64) + struct.pack("<d", value)


def data(field: int, value: str | bytes, size: int = 0) -> bytes:
    """A text or bytes; the varint of the length has at least `size` bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return tag(field, LENGTH) + varint(len(raw), size) + raw


def message(field: int, *fields: bytes, size: int = 0) -> bytes:
    """A message within a message; the varint of the length has at least `size` bytes."""
    return data(field, b"".join(fields), size)


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated number in one field."""
    return data(field, b"".join(map(varint, values)))


def packet(
    *fields: bytes, time: int | None = None, sequence: int = 0, flags: int = 0, clock: int = 0, size: int = 0
) -> bytes:
    """One packet of a trace; numbers that are 0 are left out."""
    head = b""
    if time is not None:
        head += number(8, time)
    for field, value in ((10, sequence), (13, flags), (58, clock)):
        if value:
            head += number(field, value)
    return message(TRACE_PACKET, head, *fields, size=size)


def snapshot(
    clocks: Mapping[int, int], incremental: Iterable[int] = (), units: Mapping[int, int] | None = None
) -> bytes:
    """The field of a packet with the times of several clocks at the same moment."""
    entries = []
    for clock, time in clocks.items():
        entry = number(1, clock) + number(2, time)
        if clock in incremental:
            entry += number(3, 1)
        if units and clock in units:
            entry += number(4, units[clock])
        entries.append(message(1, entry))
    return message(6, *entries)


def track(uuid: int, name: str = "", *fields: bytes, parent: int | None = None) -> bytes:
    """The field of a packet that describes a track."""
    parts = [number(1, uuid)]
    if parent is not None:
        parts.append(number(5, parent))
    if name:
        parts.append(data(2, name))
    return message(60, *parts, *fields)


def process(uuid: int, pid: int, name: str = "") -> bytes:
    """The field of a packet that describes the track of a process."""
    return track(uuid, "", message(3, number(1, pid), data(6, name)))


def thread(uuid: int, pid: int, tid: int, name: str = "", parent: int | None = None) -> bytes:
    """The field of a packet that describes the track of a thread."""
    return track(uuid, "", message(4, number(1, pid), number(2, tid), data(5, name)), parent=parent)


def counter_track(
    uuid: int,
    name: str,
    *,
    unit: int = 0,
    unit_name: str = "",
    multiplier: int = 0,
    incremental: bool = False,
    parent: int | None = None,
) -> bytes:
    """The field of a packet that describes the track of a counter."""
    parts = [number(3, unit)] if unit else []
    if multiplier:
        parts.append(number(4, multiplier))
    if incremental:
        parts.append(number(5, 1))
    if unit_name:
        parts.append(data(6, unit_name))
    return track(uuid, name, message(8, *parts), parent=parent)


def event(kind: int, track_uuid: int | None = None, *fields: bytes, name: str = "", iid: int = 0) -> bytes:
    """The field of a packet with a track event."""
    parts = [number(9, kind)]
    if track_uuid is not None:
        parts.append(number(11, track_uuid))
    if iid:
        parts.append(number(10, iid))
    if name:
        parts.append(data(23, name))
    return message(11, *parts, *fields)


def annotation(name: str, *value: bytes) -> bytes:
    """The field of a track event with an argument: `annotation("x", number(4, 7))`."""
    return message(4, data(10, name), *value)


def interned(*entries: bytes) -> bytes:
    """The field of a packet with what later packets name by number."""
    return message(12, *entries)


def entry(field: int, iid: int, text: str) -> bytes:
    """One interned text: categories 1, names of events 2, names of annotations 3, values 29."""
    return message(field, number(1, iid), data(2, text))


def defaults(*, clock: int = 0, track_uuid: int = 0) -> bytes:
    """The field of a packet with what holds for later packets of its sequence where they say nothing."""
    parts = [number(58, clock)] if clock else []
    if track_uuid:
        parts.append(message(11, number(11, track_uuid)))
    return message(59, *parts)


def stage(
    start: int,
    duration: int,
    *fields: bytes,
    queue: int = 0,
    stage_iid: int = 0,
    gpu: int = 0,
    sequence: int = 1,
    flags: int = NEEDS_STATE,
) -> bytes:
    """A packet with something that ran on a GPU."""
    parts = [number(2, duration), number(11, gpu)]
    if queue:
        parts.append(number(13, queue))
    if stage_iid:
        parts.append(number(14, stage_iid))
    return packet(message(53, *parts, *fields), time=start, sequence=sequence, flags=flags)


def deflated(*packets: bytes) -> bytes:
    """A packet of packets that zlib has packed."""
    return packet(data(50, zlib.compress(b"".join(packets))))


def zstd_packed(*packets: bytes) -> bytes:
    """A packet of packets that zstd has packed."""
    return packet(data(133, zstandard.ZstdCompressor().compress(b"".join(packets))))
