"""A plain reader of Perfetto files, one packet after the other: the oracle for the importer.

It knows what the format says and nothing of columns. Slices are paired by a stack for each track, in order of time and
then of the file, as producers other than torch mean them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import zstandard

BEGIN, END, INSTANT, COUNTER, STATE = 1, 2, 3, 4, 5
PACKED_KINDS = {50, 133}
SHOWN = {6, 11, 43, 44, 50, 52, 53, 60, 133}
"""Fields of packets whose content is shown."""
ENVELOPE = {3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98}


class Damaged(Exception):
    """A message whose fields do not fit into it."""


class CutOff(Exception):
    """A file that ends within a packet."""


def varint(data: bytes, index: int) -> tuple[int, int]:
    """A varint and the index behind it."""
    value = 0
    for count in range(10):
        if index + count >= len(data):
            raise Damaged
        byte = data[index + count]
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value & (1 << 64) - 1, index + count + 1
    raise Damaged


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of every field: a number without a sign, or bytes."""
    index = 0
    while index < len(data):
        tag, index = varint(data, index)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise Damaged
        if wire == 0:
            value, index = varint(data, index)
            yield number, wire, value
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if index + size > len(data):
                raise Damaged
            yield number, wire, int.from_bytes(data[index : index + size], "little")
            index += size
        elif wire == 2:
            size, index = varint(data, index)
            if index + size > len(data):
                raise Damaged
            yield number, wire, data[index : index + size]
            index += size
        else:
            raise Damaged


class Message(dict[int, list[Any]]):
    """The values of a message by field number."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        for number, _, value in fields(data):
            self.setdefault(number, []).append(value)

    def number(self, field_number: int, default: int | None = None) -> int | None:
        """The last number of a field."""
        values = [value for value in self.get(field_number, []) if isinstance(value, int)]
        return values[-1] if values else default

    def signed(self, field_number: int, default: int | None = None) -> int | None:
        """The same with a sign."""
        value = self.number(field_number, default)
        return value - (1 << 64) if value is not None and value >= 1 << 63 else value

    def real(self, field_number: int) -> float | None:
        """The last floating point number of a field."""
        value = self.number(field_number)
        return None if value is None else float(struct.unpack("<d", value.to_bytes(8, "little"))[0])

    def data(self, field_number: int) -> bytes | None:
        """The last text or message of a field."""
        values = [value for value in self.get(field_number, []) if isinstance(value, bytes)]
        return values[-1] if values else None

    def text(self, field_number: int) -> str | None:
        """The same as a text."""
        value = self.data(field_number)
        return None if value is None else value.decode(errors="replace")

    def numbers(self, field_number: int) -> list[int]:
        """All numbers of a field, packed or not."""
        found: list[int] = []
        for value in self.get(field_number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            index = 0
            while index < len(value):
                each, index = varint(value, index)
                found.append(each)
        return found


def packets(data: bytes) -> Iterator[bytes]:
    """Every packet of a file, those within packed ones in their stead.

    Raises: CutOff at the end of a file that is cut off.
    """
    index = 0
    while index < len(data):
        if data[index] != 0x0A:
            raise Damaged
        try:
            size, begin = varint(data, index + 1)
        except Damaged:
            raise CutOff from None
        if begin + size > len(data):
            raise CutOff
        yield from _unpacked(data[begin : begin + size])
        index = begin + size


def _unpacked(data: bytes) -> Iterator[bytes]:
    try:
        packet = Message(data)
    except Damaged:
        yield data
        return
    if (deflated := packet.data(50)) is not None:
        yield from packets(zlib.decompress(deflated))
    elif (packed := packet.data(133)) is not None:
        yield from packets(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    else:
        yield data


@dataclass
class Track:
    """What a descriptor says of a track."""

    name: str = ""
    parent: int | None = None
    pid: int | None = None
    tid: int | None = None
    adds: bool = False
    multiplier: int = 1


@dataclass
class State:
    """What was interned in a sequence since its state was cleared."""

    is_known: bool = False
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    clock: int = 0
    track: int | None = None


@dataclass
class Recording:
    """What stands in a file; times in ns on the clock of the file, tracks by uuid."""

    slices: list[tuple[str | None, int, int, int]] = field(default_factory=list)
    """Name, track, start, duration."""
    unfinished: list[tuple[str | None, int, int]] = field(default_factory=list)
    stray_ends: int = 0
    unnamed: int = 0
    """Events whose name was interned before the file, or where packets were lost."""
    instants: list[tuple[str | None, int, int]] = field(default_factory=list)
    counters: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    tracks: dict[int, Track] = field(default_factory=dict)
    args: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    not_shown: dict[int, int] = field(default_factory=dict)
    """Packets by the field that says of what kind they are."""
    untimed: int = 0
    losses: int = 0
    damaged: int = 0
    is_cut: bool = False


def read(data: bytes) -> Recording:
    """Everything in a file."""
    recording = Recording()
    states: dict[int, State] = {}
    clocks = _Clocks()
    events: list[tuple[int, int, Message, int, str | None]] = []
    every = packets(data)
    while True:
        try:
            raw = next(every)
        except StopIteration:
            break
        except CutOff:
            recording.is_cut = True
            break
        try:
            packet = Message(raw)
            _take(recording, packet, states, clocks, events)
        except Damaged:
            recording.damaged += 1
    _pair(recording, sorted(events, key=lambda event: event[0]))
    return recording


def _take(
    recording: Recording,
    packet: Message,
    states: dict[int, State],
    clocks: _Clocks,
    events: list[tuple[int, int, Message, int, str | None]],
) -> None:
    sequence = packet.number(10, 0) or 0
    flags = packet.number(13, 0) or 0
    clears = bool(flags & 1) or bool(packet.number(41))
    if packet.number(42):
        recording.losses += 1
    if clears or packet.number(42) or sequence not in states:
        states[sequence] = State(clears)
    state = states[sequence]
    _intern(state, packet)
    if (snapshot := packet.data(6)) is not None:
        clocks.add(Message(snapshot), sequence)
    if (described := packet.data(60)) is not None:
        _describe(recording, Message(described))
    for number in packet:
        if number not in SHOWN and number not in ENVELOPE:
            recording.not_shown[number] = recording.not_shown.get(number, 0) + 1
    if (raw := packet.data(11)) is None:
        return
    event = Message(raw)
    time = packet.number(8)
    moment = None if time is None else clocks.time(time, packet.number(58) or state.clock or 6, sequence)
    if moment is None:
        recording.untimed += 1
        return
    track = event.number(11, state.track)
    events.append((moment, event.number(9, 0) or 0, event, track or 0, _name(recording, state, event)))
    if arguments := {_key(state, each): _value(state, each) for each in map(Message, event.get(4, []))}:
        recording.args.append((_name(Recording(), state, event), arguments))


def _intern(state: State, packet: Message) -> None:
    for raw in packet.get(12, []):
        for number, entries in Message(raw).items():
            for each in map(Message, entries):
                state.texts[number, each.number(1, 0) or 0] = each.text(2) or ""
    if (raw := packet.data(59)) is not None:
        default = Message(raw)
        state.clock = default.number(58, 0) or 0
        if (of_events := default.data(11)) is not None:
            state.track = Message(of_events).number(11)


def _describe(recording: Recording, described: Message) -> None:
    found = recording.tracks.setdefault(described.number(1, 0) or 0, Track())
    found.name = described.text(2) or described.text(10) or described.text(13) or found.name
    found.parent = described.number(5, found.parent)
    if (process := described.data(3)) is not None:
        found.pid = Message(process).signed(1)
        found.name = Message(process).text(6) or found.name
    if (thread := described.data(4)) is not None:
        found.pid, found.tid = Message(thread).signed(1), Message(thread).signed(2)
        found.name = Message(thread).text(5) or found.name
    if (counter := described.data(8)) is not None:
        found.adds = bool(Message(counter).number(5))
        found.multiplier = Message(counter).signed(4, 1) or 1


def _name(recording: Recording, state: State, event: Message) -> str | None:
    if (text := event.text(23)) is not None:
        return text
    iid = event.number(10)
    if iid is None:
        return None
    found = state.texts.get((2, iid))
    recording.unnamed += found is None
    return found


def _key(state: State, annotation: Message) -> str:
    return annotation.text(10) or state.texts.get((3, annotation.number(1) or 0), "")


def _value(state: State, annotation: Message) -> Any:
    if (iid := annotation.number(17)) is not None:
        return state.texts.get((29, iid))
    if (text := annotation.text(6)) is not None:
        return text
    if 2 in annotation:
        return bool(annotation.number(2))
    if 5 in annotation:
        return annotation.real(5)
    if 11 in annotation:
        return {_key(state, each): _value(state, each) for each in map(Message, annotation[11])}
    if 12 in annotation:
        return [_value(state, each) for each in map(Message, annotation[12])]
    for number in (3, 7):
        if number in annotation:
            return annotation.number(number)
    return annotation.signed(4)


class _Clocks:
    """Clocks of snapshots in which boot time stands, directly or over one other clock."""

    def __init__(self) -> None:
        self.snapshots: list[dict[int, int]] = []
        self.own: dict[tuple[int, int], tuple[int, dict[int, int], int, bool]] = {}

    def add(self, snapshot: Message, sequence: int) -> None:
        """Take in a snapshot."""
        entries = [Message(each) for each in snapshot.get(1, [])]
        unit = {each.number(1, 0) or 0: each.number(4, 1) or 1 for each in entries}
        shown = {each.number(1, 0) or 0: (each.number(2, 0) or 0) * (each.number(4, 1) or 1) for each in entries}
        of_all = {clock: time for clock, time in shown.items() if not 64 <= clock < 128}
        self.snapshots.append(of_all)
        for each in entries:
            clock = each.number(1, 0) or 0
            if 64 <= clock < 128:
                self.own[sequence, clock] = (shown[clock], of_all, unit[clock], bool(each.number(3)))

    def time(self, time: int, clock: int, sequence: int) -> int | None:
        """A time in boot time, None where it cannot be told; times before the first snapshot are not handled."""
        if 64 <= clock < 128:
            if (sequence, clock) not in self.own:
                return None
            shown, of_all, unit, adds = self.own[sequence, clock]
            moment = shown + time * unit if adds else time * unit
            if adds:
                self.own[sequence, clock] = (
                    moment,
                    {each: at + moment - shown for each, at in of_all.items()},
                    unit,
                    adds,
                )
            if not of_all:
                return None
            clock, base = min(of_all.items(), key=lambda entry: (entry[0] != 6, entry[0]))
            time = moment - shown + base
        if clock == 6:
            return time
        pairs = sorted((each[clock], each[6]) for each in self.snapshots if clock in each and 6 in each)
        if not pairs:
            return None
        before = [pair for pair in pairs if pair[0] <= time]
        shown, meant = before[-1] if before else pairs[0]
        return time - shown + meant


def _pair(recording: Recording, events: list[tuple[int, int, Message, int, str | None]]) -> None:
    stacks: dict[int, list[tuple[str | None, int]]] = {}
    states: dict[int, tuple[str | None, int]] = {}
    for time, kind, event, track, name in events:
        if kind == BEGIN:
            stacks.setdefault(track, []).append((name, time))
        elif kind == END and stacks.get(track):
            begun, start = stacks[track].pop()
            recording.slices.append((begun, track, start, time - start))
        elif kind == END:
            recording.stray_ends += 1
        elif kind == INSTANT:
            recording.instants.append((name, track, time))
        elif kind == STATE:
            if track in states:
                begun, start = states[track]
                recording.slices.append((begun, track, start, time - start))
            states[track] = (name, time)
        elif kind == COUNTER:
            _count(recording, event, track, time)
    for track, stack in stacks.items():
        recording.unfinished += [(name, track, start) for name, start in stack]
    recording.unfinished += [(name, track, start) for track, (name, start) in states.items()]


def _count(recording: Recording, event: Message, track: int, time: int) -> None:
    described = recording.tracks.get(track, Track())
    value = event.real(44) if 44 in event else event.signed(30)
    if value is None:
        return
    samples = recording.counters.setdefault(track, [])
    value = value * described.multiplier
    if described.adds and samples:
        value += samples[-1][1]
    samples.append((time, value))
