"""Reads protobuf messages into columns: thousands of messages at once, one field of each at a time.

A message is a span of bytes, `start` and `end`. `read_fields` takes the first field of every message, then the second,
and so on, so that each step is a few operations on whole columns. Few messages, or few that are left because they are
longer than all others, are read one by one instead. Nothing is read beyond the end of a span, and a length that
leads beyond the end of its message marks the message as damaged.

The limits of the format: varints have at most ten bytes and need not be minimal; groups (wire types 3 and 4) are
damage.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.model.intervals import Bool, Int64

UInt64 = NDArray[np.uint64]

VARINT, FIXED64, SPAN, FIXED32 = 0, 1, 2, 5
"""Wire types."""
PADDING = 16
"""Zero bytes behind the data, so that reading at its last byte needs no check."""
MAX_VARINT = 10
"""Bytes of a varint."""
FEW = 64
"""Messages that are read faster one by one than as columns."""
MAX_PACKED = 1 << 18
"""Maximum packed numbers read of a single field: writers name a few events, never so many."""
MAX_FIELD = 4096
"""Field numbers from here on are not read; those of Perfetto that matter are smaller."""
BEYOND = 1 << 60
"""Stands for the position behind a value that does not end."""

_STOPS = np.uint64(0x8080808080808080)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ONE = np.uint64(1)


class MessageBytes:
    """Bytes that messages stand in, readable at any index as a byte or as a word of eight."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.size = len(data)
        self.raw = b"".join((data, bytes(PADDING)))
        """The bytes with the padding behind them."""
        self.bytes = np.frombuffer(self.raw, np.uint8)
        self.words: UInt64 = np.ndarray((self.size + PADDING - 7,), "<u8", self.raw, strides=(1,))
        """Word `i` is the eight bytes from index `i` on, the first one lowest."""

    def text(self, start: int, end: int) -> bytes:
        """The bytes of a span."""
        return self.raw[start : min(end, self.size)]

    def varints(self, at: Int64) -> tuple[UInt64, Int64]:
        """The varints that begin at some indices, and the indices behind them; `BEYOND` for one that does not end."""
        byte = self.bytes[at]
        value, behind = byte.astype(np.uint64), at + 1
        longer = np.flatnonzero(byte > 127)
        if len(longer) == len(at):
            return self._long_varints(at)
        if len(longer):
            value[longer], behind[longer] = self._long_varints(at[longer])
        return value, behind

    def _long_varints(self, at: Int64) -> tuple[UInt64, Int64]:
        word = self.words[at]
        stops = ~word & _STOPS
        lowest = stops & (~stops + _ONE)
        # All bits up to the first byte that ends a varint; all of them where none of the eight does.
        mask = lowest | (lowest - _ONE)
        behind = at + (np.bitwise_count(mask) >> 3)
        word &= mask & _SEVENS
        for low, high, shift in _FOLDS:
            word = (word & low) | ((word & high) >> shift)
        endless = np.flatnonzero(stops == 0)
        if len(endless):
            ninth, tenth = self.bytes[at[endless] + 8], self.bytes[at[endless] + 9]
            word[endless] |= (ninth & np.uint8(127)).astype(np.uint64) << np.uint64(56)
            has_tenth = ninth > 127
            word[endless] |= np.where(has_tenth, tenth, 0).astype(np.uint64) << np.uint64(63)
            behind[endless] += 1 + has_tenth
            behind[endless[has_tenth & (tenth > 127)]] = BEYOND
        return word, behind


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """One varint and the index behind it; `BEYOND` for one of more than `MAX_VARINT` bytes."""
    value = raw[at] & 127
    shift = 7
    while raw[at] > 127:
        at += 1
        if shift == 7 * MAX_VARINT:
            return value, BEYOND
        value |= (raw[at] & 127) << shift
        shift += 7
    return value & 0xFFFFFFFFFFFFFFFF, at + 1


def varint_bytes(value: int) -> bytes:
    """A number as a varint; one below 0 has ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    """A field with a number, as bytes."""
    return varint_bytes(field << 3 | VARINT) + varint_bytes(value)


def span_field(field: int, content: bytes) -> bytes:
    """A field with a text or a message, as bytes."""
    return varint_bytes(field << 3 | SPAN) + varint_bytes(len(content)) + content


class Field(NamedTuple):
    """One field of one message."""

    number: int
    wire: int
    """Wire type."""
    value: int
    """The number, its bits where it is fixed; of a span its start."""
    end: int
    """Index behind the field."""


class DamagedMessage(Exception):
    """A message whose fields do not fit into it."""


def fields_of(raw: bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of one message, in order; `raw` has `PADDING` bytes behind the last message.

    Raises: DamagedMessage.
    """
    at = start
    while at < end:
        tag, at = varint(raw, at)
        if at > end:
            raise DamagedMessage
        number, wire = tag >> 3, tag & 7
        value = at
        if wire == VARINT:
            value, at = varint(raw, at)
        elif wire == SPAN:
            length, value = varint(raw, at)
            at = value + length
        elif wire == FIXED64:
            at += 8
            value = int.from_bytes(raw[value:at], "little")
        elif wire == FIXED32:
            at += 4
            value = int.from_bytes(raw[value:at], "little")
        else:
            raise DamagedMessage
        if at > end or number == 0:
            raise DamagedMessage
        yield Field(number, wire, value, at)


@frozen(eq=True, slots=True)
class Frames:
    """The packets that stand one behind the other in some bytes."""

    start: Int64
    end: Int64
    behind: int
    """Index behind the last one, where the next one begins or something else stands."""
    is_damaged: bool
    """True if what stands there is not the beginning of a packet."""
    needed: int
    """Length in bytes of the next packet, from `behind` on; 0 where it is not known."""


def frame_packets(raw: bytes, start: int, end: int) -> Frames:
    """Find the packets of a trace, as far as they are whole; `raw` has `PADDING` bytes behind `end`."""
    starts: list[int] = []
    ends: list[int] = []
    at, is_damaged, needed = start, False, 0
    while at < end:
        if raw[at] != 0x0A:
            is_damaged = True
            break
        length, begin = raw[at + 1], at + 2
        if length > 127:
            # Most lengths have one byte or two, or two that are padded to four.
            more = raw[begin]
            if more < 128:
                length, begin = length + (more << 7) - 128, begin + 1
            elif raw[begin + 1] == 128 and raw[begin + 2] == 0:
                length, begin = length + ((more & 127) << 7) - 128, begin + 3
            else:
                length, begin = varint(raw, at + 1)
        behind = begin + length
        if behind > end:
            is_damaged = begin == BEYOND and end - at > MAX_VARINT
            needed = behind - at if begin <= end else 0
            break
        starts.append(begin)
        ends.append(behind)
        at = behind
    return Frames(np.array(starts, np.int64), np.array(ends, np.int64), at, is_damaged, needed)


class Schema:
    """The fields of a message that are wanted, and their types."""

    def __init__(
        self,
        numbers: Sequence[int] = (),
        spans: Sequence[int] = (),
        repeated: Sequence[int] = (),
        lists: Sequence[int] = (),
    ) -> None:
        """Fields that hold a number, and a text or message, of which the last counts; messages that may come several
        times; and numbers that may come several times, one by one or packed.
        """
        self.fields = (*numbers, *spans, *repeated, *lists)
        self.numbers = frozenset(numbers)
        self.spans = frozenset(spans)
        self.repeated = frozenset(repeated)
        self.lists = frozenset(lists)
        self._slots = np.zeros(MAX_FIELD + 1, np.uint8)
        for slot, number in enumerate(self.fields):
            self._slots[number] = slot + 1
        self.slot_of_field = {number: slot + 1 for slot, number in enumerate(self.fields)}

    def slots(self, field: UInt64) -> NDArray[np.uint8]:
        """For each field number one more than its index in `fields`, 0 where it is not wanted."""
        slots: NDArray[np.uint8] = self._slots[np.minimum(field, np.uint64(MAX_FIELD)).astype(np.intp)]
        return slots


class Occurrences(NamedTuple):
    """Every occurrence of a field in some messages, in the order of the messages and of their fields."""

    row: Int64
    """Index of the message in which it stands."""
    start: Int64
    """Index at which its bytes begin; of a field that is a number, the number."""
    end: Int64


_NOTHING = Occurrences(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class Fields:
    """The wanted fields of some messages, as columns with a row for each message."""

    def __init__(self, count: int, data: MessageBytes) -> None:
        self.damaged = np.zeros(count, bool)
        """Messages that could not be read to their end."""
        self._count = count
        self._data = data
        self._numbers: dict[int, UInt64] = {}
        self._has: dict[int, Bool] = {}
        self._spans: dict[int, tuple[Int64, Int64]] = {}
        self._entries: dict[int, list[tuple[Int64, Int64, Int64, int]]] = {}

    def has(self, field: int) -> Bool:
        """Mask of the messages that have the number or the span of a field."""
        if field in self._spans:
            return self._spans[field][0] >= 0
        return self._has.get(field, np.zeros(self._count, bool))

    def number(self, field: int) -> Int64:
        """The number of a field, 0 where there is none; what is above 2^63 is negative."""
        return self.unsigned(field).view(np.int64)

    def unsigned(self, field: int) -> UInt64:
        """The same without a sign."""
        return self._numbers.get(field, np.zeros(self._count, np.uint64))

    def span(self, field: int) -> tuple[Int64, Int64]:
        """Start and end of the bytes of a field, -1 where there is none."""
        none = np.full(self._count, -1, np.int64)
        return self._spans.get(field, (none, none))

    def repeated(self, field: int) -> Occurrences:
        """All spans of a field."""
        return _in_order([entry[:3] for entry in self._entries.get(field, []) if entry[3] == SPAN])

    def values(self, field: int) -> tuple[Int64, Int64]:
        """All numbers of a field, as rows and values; packed ones stand behind those that are not."""
        entries = self._entries.get(field, [])
        single = _in_order([each[:3] for each in entries if each[3] != SPAN])
        packed = _in_order([each[:3] for each in entries if each[3] == SPAN])
        if not len(packed.row):
            return single.row, single.start
        index, value = unpacked(self._data, packed.start, packed.end)
        row = np.concatenate([single.row, packed.row[index]])
        order = np.argsort(row, kind="stable")
        return row[order], np.concatenate([single.start, value])[order]

    def keep(self, schema: Schema, field: int, wire: int, rows: Int64, value: UInt64, behind: Int64) -> None:
        """Take in one field of some messages."""
        if field in schema.lists or (field in schema.repeated and wire == SPAN):
            self._entries.setdefault(field, []).append((rows, value.view(np.int64), behind, wire))
        elif field in schema.spans and wire == SPAN:
            if field not in self._spans:
                self._spans[field] = np.full(self._count, -1, np.int64), np.full(self._count, -1, np.int64)
            start, end = self._spans[field]
            start[rows], end[rows] = value.view(np.int64), behind
        elif field in schema.numbers and wire != SPAN:
            if field not in self._numbers:
                self._numbers[field] = np.zeros(self._count, np.uint64)
                self._has[field] = np.zeros(self._count, bool)
            self._numbers[field][rows] = value
            self._has[field][rows] = True


def _in_order(entries: Sequence[tuple[Int64, Int64, Int64]]) -> Occurrences:
    if not entries:
        return _NOTHING
    row, start, end = (np.concatenate(column) for column in zip(*entries, strict=True))
    if len(entries) == 1 and (row[1:] >= row[:-1]).all():
        return Occurrences(row, start, end)
    order = np.argsort(row, kind="stable")
    return Occurrences(row[order], start[order], end[order])


def read_fields(data: MessageBytes, start: Int64, end: Int64, schema: Schema) -> Fields:
    """Read messages that stand at some spans; an end beyond the data is cut to it."""
    fields = Fields(len(start), data)
    rows = np.flatnonzero(start < end)
    at, limit = start[rows], np.minimum(end[rows], data.size)
    while len(rows) > FEW:
        tag, at = data.varints(at)
        inside = at <= limit
        if not inside.all():
            fields.damaged[rows[~inside]] = True
            rows, at, limit, tag = rows[inside], at[inside], limit[inside], tag[inside]
        rows, at, limit = _step(data, fields, schema, rows, at, limit, tag)
    for row, index, last in zip(rows.tolist(), at.tolist(), limit.tolist(), strict=True):
        _read_one(data, fields, schema, row, index, last)
    return fields


def _step(
    data: MessageBytes, fields: Fields, schema: Schema, rows: Int64, at: Int64, limit: Int64, tag: UInt64
) -> tuple[Int64, Int64, Int64]:
    """Read the field that begins with `tag`, of every message, and return the messages that go on behind it."""
    if not len(rows):
        return rows, at, limit
    first = tag[0]
    is_uniform = bool((tag == first).all())
    wires = (
        [int(first) & 7] if is_uniform else np.flatnonzero(np.bincount((tag & np.uint64(7)).view(np.int64))).tolist()
    )
    behind = np.full(len(rows), BEYOND, np.int64)
    for wire in wires:
        which = slice(None) if len(wires) == 1 else np.flatnonzero((tag & np.uint64(7)) == wire)
        value, behind[which] = _values(data, wire, at[which])
        good = behind[which] <= limit[which]
        _keep_wanted(fields, schema, wire, rows[which], tag[which] >> np.uint64(3), value, behind[which], good)
    bad = (behind > limit) | (tag < 8)
    if bad.any():
        fields.damaged[rows[bad]] = True
    left = np.flatnonzero((behind < limit) & ~bad)
    if len(left) == len(rows):
        return rows, behind, limit
    return rows[left], behind[left], limit[left]


def _values(data: MessageBytes, wire: int, at: Int64) -> tuple[UInt64, Int64]:
    """The values of one wire type at some indices, and the indices behind them; of spans their starts."""
    if wire == VARINT:
        return data.varints(at)
    if wire == SPAN:
        length, start = data.varints(at)
        # Where the length itself does not end, so does the span.
        return start.view(np.uint64), start + np.minimum(length, np.uint64(BEYOND)).view(np.int64)
    if wire == FIXED64:
        return data.words[at], at + 8
    if wire == FIXED32:
        return data.words[at] & np.uint64(0xFFFFFFFF), at + 4
    return np.zeros(len(at), np.uint64), np.full(len(at), BEYOND, np.int64)


def _keep_wanted(
    fields: Fields, schema: Schema, wire: int, rows: Int64, field: UInt64, value: UInt64, behind: Int64, good: Bool
) -> None:
    slots = schema.slots(field)
    if not good.all():
        slots = np.where(good, slots, 0).astype(np.uint8)
    counts = np.bincount(slots, minlength=1)
    for slot in (np.flatnonzero(counts[1:]) + 1).tolist():
        which = slice(None) if counts[slot] == len(rows) else np.flatnonzero(slots == slot)
        fields.keep(schema, schema.fields[slot - 1], wire, rows[which], value[which], behind[which])


def _read_one(data: MessageBytes, fields: Fields, schema: Schema, row: int, at: int, limit: int) -> None:
    """Read what is left of one message."""
    # Arrays, as one message may have millions of fields.
    columns: dict[tuple[int, bool], tuple[array[int], array[int]]] = {}
    try:
        for number, wire, value, behind in fields_of(data.raw, at, limit):
            if number in schema.slot_of_field:
                values, ends = columns.setdefault((number, wire == SPAN), (array("Q"), array("q")))
                if number not in schema.repeated and number not in schema.lists:
                    del values[:], ends[:]
                values.append(value)
                ends.append(behind)
    except DamagedMessage:
        fields.damaged[row] = True
    for (number, is_span), (values, ends) in columns.items():
        rows = np.full(len(values), row, np.int64)
        wire = SPAN if is_span else VARINT
        fields.keep(schema, number, wire, rows, np.array(values, np.uint64), np.array(ends, np.int64))


def unpacked(data: MessageBytes, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The varints that stand packed in some spans: which span each is in, and its value.

    A span is read up to the first varint that leads beyond its end, and up to `MAX_PACKED`.
    """
    rows, at, limit = np.arange(len(start)), start, np.minimum(end, data.size)
    parts: list[tuple[Int64, Int64]] = []
    while len(left := np.flatnonzero(at < limit)) > FEW:
        rows, limit = rows[left], limit[left]
        value, at = data.varints(at[left])
        good = at <= limit
        parts.append((rows[good], value[good].view(np.int64)))
    for row, index, last in zip(rows[left].tolist(), at[left].tolist(), limit[left].tolist(), strict=True):
        numbers = array("Q")
        while index < last and len(numbers) < MAX_PACKED:
            number, index = varint(data.raw, index)
            if index <= last:
                numbers.append(number)
        parts.append((np.full(len(numbers), row, np.int64), np.array(numbers, np.uint64).view(np.int64)))
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    row = np.concatenate([rows for rows, _ in parts])
    values_in_order = np.concatenate([values for _, values in parts])
    order = np.argsort(row, kind="stable")
    return row[order], values_in_order[order]


# Texts that occur again and again in a trace as numbers: each different one is looked at once per block.

MAX_HASHED = 256
"""Bytes of a text beyond which it is looked up by itself."""
MAX_HASHES = 1 << 16
"""Hashes beyond which those of earlier blocks are forgotten, as texts hardly repeat."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)] + [(1 << 64) - 1], np.uint64)
"""Masks of the lowest bytes of a word, by their count."""
MAX_DIGITS = 18
"""Digits of a whole number that surely fits 64 bits."""


class TextNumbers:
    """Numbers texts that stand in messages; equal bytes have equal numbers."""

    def __init__(self, number_of: Callable[[bytes], int]) -> None:
        """`number_of` gives the number of a text that was not met before."""
        self._number_of = number_of
        self._known: dict[bytes, int] = {}
        self._hashes = np.empty(0, np.uint64)
        """Those that were met, ascending."""

    def of(self, data: MessageBytes, start: Int64, end: Int64) -> NDArray[np.int32]:
        """The numbers of the texts at some spans."""
        numbers = np.empty(len(start), np.int32)
        length = end - start
        short = np.flatnonzero(length <= MAX_HASHED)
        if len(short) <= FEW:
            short = np.empty(0, np.int64)
            alone = np.arange(len(start))
        else:
            alone = np.flatnonzero(length > MAX_HASHED)
        if len(short):
            begin, size = start[short], length[short]
            index = self._index_of(_hashes(data, begin, size))
            # The first text of each hash stands for the others.
            first = np.zeros(len(self._hashes), np.int64)
            first[index[::-1]] = np.arange(len(index))[::-1]
            present = np.flatnonzero(np.bincount(index, minlength=len(first)))
            rows = first[present]
            spans = zip(begin[rows].tolist(), (begin + size)[rows].tolist(), strict=True)
            known = np.zeros(len(first), np.int32)
            known[present] = [self._one(data.text(*span)) for span in spans]
            numbers[short] = known[index]
            # Different texts may have the same hash.
            same = _are_equal(data, begin, size, first[index])
            alone = np.concatenate([alone, short[~same]])
        for row in alone.tolist():
            numbers[row] = self._one(data.text(int(start[row]), int(end[row])))
        return numbers

    def _index_of(self, hashes: NDArray[np.uint64]) -> Int64:
        """The index of each hash among those that were met; new ones are added to them."""
        if len(self._hashes) > MAX_HASHES:
            self._hashes = self._hashes[:0]
        index = np.searchsorted(self._hashes, hashes)
        new = index == len(self._hashes)
        inside = np.flatnonzero(~new)
        new[inside] = self._hashes[index[inside]] != hashes[inside]
        if new.any():
            self._hashes = np.union1d(self._hashes, hashes[new])
            index = np.searchsorted(self._hashes, hashes)
        return index

    def _one(self, text: bytes) -> int:
        number = self._known.get(text)
        if number is None:
            number = self._known[text] = self._number_of(text)
        return number


def _hashes(data: MessageBytes, start: Int64, length: Int64) -> NDArray[np.uint64]:
    hashes = (length.view(np.uint64) + np.uint64(1)) * _FACTOR
    rows, at, left = np.arange(len(start)), start, length
    while len(rows):
        word = data.words[at] & _MASKS[np.minimum(left, 8)]
        mixed = (hashes[rows] ^ word) * _FACTOR
        hashes[rows] = mixed ^ (mixed >> _SHIFT)
        more = np.flatnonzero(left > 8)
        rows, at, left = rows[more], at[more] + 8, left[more] - 8
    return hashes


def _are_equal(data: MessageBytes, start: Int64, length: Int64, other: Int64) -> Bool:
    """Mask of the texts that equal that of another row, byte for byte."""
    same: Bool = length == length[other]
    rows = np.flatnonzero(same & (other != np.arange(len(start))) & (length > 0))
    at, other_at, left = start[rows], start[other[rows]], length[rows]
    while len(rows):
        mask = _MASKS[np.minimum(left, 8)]
        differs = ((data.words[at] ^ data.words[other_at]) & mask) != 0
        same[rows[differs]] = False
        more = np.flatnonzero((left > 8) & ~differs)
        rows, at, other_at, left = rows[more], at[more] + 8, other_at[more] + 8, left[more] - 8
    return same


def decimals(data: MessageBytes, start: Int64, end: Int64, missing: int) -> Int64:
    """Texts of digits as whole numbers; `missing` for what is no whole number from 0 on."""
    length = end - start
    value = np.zeros(len(start), np.int64)
    good = (length > 0) & (length <= MAX_DIGITS)
    rows = np.flatnonzero(good)
    offset = 0
    while len(rows):
        digit = data.bytes[start[rows] + offset].astype(np.int64) - ord("0")
        good[rows[(digit < 0) | (digit > 9)]] = False
        value[rows] = value[rows] * 10 + digit
        offset += 1
        rows = rows[length[rows] > offset]
    return np.where(good, value, missing)
