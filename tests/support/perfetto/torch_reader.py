"""Reads what torch's encoder writes, in plain Python, one byte after the other: an oracle, and a measure of speed.

It gives the columns that the importer collects before it pairs and names anything. The fields that occur most often are
looked for first, and nothing is called for a varint of one byte.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

BEGIN = 1


@dataclass
class TorchColumns:
    """What stands in a file, in its order; times as they are written."""

    begins: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Time, track, and the numbers of name and category of every begin."""
    ends: list[tuple[int, int]] = field(default_factory=list)
    """Time and track of every end."""
    annotations: list[tuple[int, int, int]] = field(default_factory=list)
    """Index of the begin, number of the name, and whole number, of every annotation that has one."""
    others: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Index of the begin, number of the name, and span of the annotation, of all others."""
    submissions: list[tuple[int, int]] = field(default_factory=list)
    """Index of a begin, and the id of a stage that it submitted."""
    stages: list[tuple[int, int, int, int, int, int, int, int]] = field(default_factory=list)
    """Time, duration, GPU, and the numbers of queue, stage, name and kernel, and the id, of every stage."""
    extra: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Index of the stage, number of the name, and text."""
    launches: list[tuple[int, int, int]] = field(default_factory=list)
    """Index of the stage, and span of its launch."""
    samples: list[tuple[int, int, float]] = field(default_factory=list)
    """Time, id of the counter, and value."""
    names: dict[bytes, int] = field(default_factory=dict)
    """Numbers of the names of annotations and extra data."""
    interned: list[tuple[int, int]] = field(default_factory=list)
    """Spans of interned data."""
    packets: int = 0


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and the index behind it."""
    value = data[at] & 127
    shift = 7
    while data[at] > 127:
        at += 1
        value |= (data[at] & 127) << shift
        shift += 7
    return value, at + 1


def read_torch(data: bytes) -> TorchColumns:
    """The columns of a whole file."""
    columns = TorchColumns()
    at, size = 0, len(data)
    while at < size:
        length = data[at + 1]
        at += 2
        if length > 127:
            length, at = varint(data, at - 1)
        _packet(data, at, at + length, columns)
        at += length
    return columns


def _packet(data: bytes, at: int, end: int, columns: TorchColumns) -> None:
    time = 0
    columns.packets += 1
    while at < end:
        tag = data[at]
        at += 1
        if tag == 0x40:
            time, at = varint(data, at)
        elif tag == 0x50 or tag == 0x68:
            at += 1
        elif tag == 0x5A:
            length, at = varint(data, at)
            _track_event(data, at, at + length, time, columns)
            at += length
        else:
            tag, at = varint(data, at - 1)
            length, at = varint(data, at)
            if tag == 53 << 3 | 2:
                _stage(data, at, at + length, time, columns)
            elif tag == 52 << 3 | 2:
                _samples(data, at, at + length, time, columns)
            elif tag == 12 << 3 | 2:
                columns.interned.append((at, at + length))
            at += length


def _track_event(data: bytes, at: int, end: int, time: int, columns: TorchColumns) -> None:
    kind = track = name = category = 0
    index = len(columns.begins)
    while at < end:
        tag = data[at]
        at += 1
        if tag == 0x22:
            length = data[at]
            at += 1
            if length > 127:
                length, at = varint(data, at - 1)
            _annotation(data, at, at + length, index, columns)
            at += length
        elif tag == 0x48:
            kind = data[at]
            at += 1
        elif tag == 0x58:
            track = data[at]
            at += 1
            if track > 127:
                track, at = varint(data, at - 1)
        elif tag == 0x50:
            name = data[at]
            at += 1
            if name > 127:
                name, at = varint(data, at - 1)
        elif tag == 0x18:
            category = data[at]
            at += 1
        else:
            tag, at = varint(data, at - 1)
            length, at = varint(data, at)
            last = at + length
            while tag == 3000 << 3 | 2 and at < last:
                submitted, at = varint(data, at + 1)
                columns.submissions.append((index, submitted))
            at = last
    if kind == BEGIN:
        columns.begins.append((time, track, name, category))
    else:
        columns.ends.append((time, track))


def _annotation(data: bytes, at: int, end: int, index: int, columns: TorchColumns) -> None:
    start = at
    name = -1
    value = None
    while at < end:
        tag = data[at]
        at += 1
        if tag == 0x20:
            value = data[at]
            at += 1
            if value > 127:
                value, at = varint(data, at - 1)
        elif tag & 7 == 2:
            length = data[at]
            at += 1
            if length > 127:
                length, at = varint(data, at - 1)
            if tag == 0x52:
                text = data[at : at + length]
                name = columns.names.setdefault(text, len(columns.names))
            at += length
        elif tag & 7 == 1:
            at += 8
        else:
            _, at = varint(data, at)
    if value is None:
        columns.others.append((index, name, start, end))
    else:
        columns.annotations.append((index, name, value))


def _stage(data: bytes, at: int, end: int, time: int, columns: TorchColumns) -> None:
    values = dict.fromkeys((2, 11, 13, 14, 20, 19, 1), 0)
    index = len(columns.stages)
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = varint(data, at - 1)
        value = data[at]
        at += 1
        if value > 127:
            value, at = varint(data, at - 1)
        if tag & 7 == 0:
            values[tag >> 3] = value
        elif tag == 0x32:
            _extra(data, at, at + value, index, columns)
            at += value
        else:
            if tag == 21 << 3 | 2:
                columns.launches.append((index, at, at + value))
            at += value
    columns.stages.append((time, values[2], values[11], values[13], values[14], values[20], values[19], values[1]))


def _extra(data: bytes, at: int, end: int, index: int, columns: TorchColumns) -> None:
    texts = [b"", b""]
    while at < end:
        which = data[at] >> 3
        length, at = varint(data, at + 1)
        texts[which - 1] = data[at : at + length]
        at += length
    columns.extra.append((index, columns.names.setdefault(texts[0], len(columns.names)), texts[1]))


def _samples(data: bytes, at: int, end: int, time: int, columns: TorchColumns) -> None:
    while at < end:
        tag = data[at]
        length, at = varint(data, at + 1)
        if tag == 0x12:
            counter, value = 0, 0.0
            last = at + length
            while at < last:
                if data[at] == 0x08:
                    counter, at = varint(data, at + 1)
                elif data[at] == 0x10:
                    whole, at = varint(data, at + 1)
                    value = float(whole)
                else:
                    (value,) = struct.unpack_from("<d", data, at + 1)
                    at += 9
            columns.samples.append((time, counter, value))
