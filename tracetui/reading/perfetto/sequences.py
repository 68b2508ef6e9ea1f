"""The base of the packets of a sequence: the state that a packet uses, what was interned in it before, and its clock.

A writer numbers its texts anew for each sequence, and again whenever it clears the state of the sequence: the same
number then means something else. Where packets were lost a clear may have been among them, so that a new state begins
as well.

Times are put on one clock, in ns. A packet may name its clock. Snapshots say what several clocks showed at one moment.
Numbers 64 to 127 are clocks of a sequence: the last snapshot of the sequence counts, and an incremental one gives the
time since the packet before. What no snapshot leads to has no time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import MAX_TIME_NS
from tracetui.reading.columns import Gathered
from tracetui.reading.perfetto.schemas import INTERNED_DATA, InternedField
from tracetui.reading.perfetto.wire import SPAN, DamagedMessage, Field, MessageBytes, fields_of, read_fields


class States(NamedTuple):
    """The state that each packet uses."""

    number: Int64
    """Number of the state, from 0; those of different sequences differ."""
    is_known: Bool
    """True if the state was begun by a clear, so that nothing of it is missing."""


def sequence_states(sequence: Int64, clears: Bool, loses: Bool) -> States:
    """The states of packets in the order of the file: their sequences, whether each clears, whether some were lost.

    A packet that clears uses the new state.
    """
    count = len(sequence)
    order = np.argsort(sequence, kind="stable")
    begins = (clears | loses)[order]
    first = np.diff(sequence[order], prepend=sequence[order[:1]] - 1) != 0
    number_in_order = np.cumsum(begins | first) - 1
    opening = np.flatnonzero(begins | first)
    known = clears[order][opening][number_in_order] if count else np.empty(0, bool)
    number, is_known = np.empty(count, np.int64), np.empty(count, bool)
    number[order], is_known[order] = number_in_order, known
    return States(number, is_known)


def latest(keys: Int64, positions: Int64, wanted_keys: Int64, wanted_positions: Int64) -> Int64:
    """For every wanted key the row of its last entry at or before a position, -1 where there is none.

    Keys and positions are not negative.
    """
    if len(keys) == 0 or len(wanted_keys) == 0:
        return np.full(len(wanted_keys), -1, np.int64)
    order = np.lexsort((np.arange(len(keys)), positions, keys))
    keys, positions = keys[order], positions[order]
    span = int(max(positions.max(), wanted_positions.max())) + 1
    distinct, dense = np.unique(keys, return_inverse=True)
    wanted = np.minimum(np.searchsorted(distinct, wanted_keys), len(distinct) - 1)
    row = np.searchsorted(dense * span + positions, wanted * span + wanted_positions, side="right") - 1
    has = (row >= 0) & (keys[row] == wanted_keys)
    return np.where(has, order[row], -1)


class InternedEntries:
    """Entries of one kind that packets refer to by number, each with the state and the packet it stands in."""

    def __init__(self, states: Int64, positions: Int64, iids: Int64) -> None:
        """`positions` are the packets of the entries, `states` the states of these."""
        self._states, self._positions = states, positions
        self._iids, self._dense = np.unique(iids, return_inverse=True)

    def find(self, states: Int64, positions: Int64, iids: Int64) -> Int64:
        """For each number used in a packet the row of the entry that it means, -1 where there is none."""
        if len(self._iids) == 0:
            return np.full(len(iids), -1, np.int64)
        dense = np.minimum(np.searchsorted(self._iids, iids), len(self._iids) - 1)
        size = len(self._iids)
        row = latest(self._states * size + self._dense, self._positions, states * size + dense, positions)
        row[self._iids[dense] != iids] = -1
        return row


# What holds for the packets of a sequence that do not say it themselves: their clock and their track.

NO_DEFAULT = -1
"""Stands where a sequence says nothing."""


class Default(NamedTuple):
    """The state that a packet sets for those behind it."""

    clock: int = 0
    track: int = NO_DEFAULT
    """The uuid of a track, with a sign."""


def read_default(data: MessageBytes, start: int, end: int) -> Default:
    """The defaults in a packet.

    Raises: DamagedMessage.
    """
    clock, track = 0, NO_DEFAULT
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if number == 58 and wire != SPAN:
            clock = value & 0xFFFFFFFF
        elif number == 11 and wire == SPAN:
            for field in fields_of(data.raw, value, behind):
                if field.number == 11 and field.wire != SPAN:
                    track = field.value - (1 << 64) if field.value >> 63 else field.value
    return Default(clock, track)


class SequenceDefaults:
    """The defaults of the states of sequences, block by block."""

    def __init__(self) -> None:
        self._known: dict[int, Default] = {}

    def of(self, state: Int64, defaults_by_row: dict[int, Default]) -> tuple[Int64, Int64]:
        """Clock and track of the packets of the next block, given their states and the rows that say something.

        The clock is 0 and the track `NO_DEFAULT` where nothing is said.
        """
        clock, track = np.zeros(len(state), np.int64), np.full(len(state), NO_DEFAULT, np.int64)
        if not defaults_by_row and not self._known:
            return clock, track
        carried = [(int(each), self._known[int(each)]) for each in np.unique(state) if int(each) in self._known]
        keys = np.array([each for each, _ in carried] + [int(state[row]) for row in defaults_by_row], np.int64)
        positions = np.array([0] * len(carried) + [row + 1 for row in defaults_by_row], np.int64)
        defaults = [default for _, default in carried] + list(defaults_by_row.values())
        row = latest(keys, positions, state, np.arange(len(state)) + 1)
        has = row >= 0
        clock[has] = np.array([default.clock for default in defaults], np.int64)[row[has]]
        track[has] = np.array([default.track for default in defaults], np.int64)[row[has]]
        for index, default in defaults_by_row.items():
            self._known[int(state[index])] = default
        return clock, track


# What packets name by number: interned texts and descriptors, with the state of the sequence that they belong to.

CATEGORY_FIELD, COMPUTE = 4, 2
"""The field of an entry of a GPU specification with its category, and the category of computations."""
UNITS = {
    1: "bit", 2: "kbit", 3: "Mbit", 4: "Gbit", 5: "Tbit", 6: "Pbit", 7: "B", 8: "kB", 9: "MB", 10: "GB", 11: "TB",
    12: "PB", 13: "Hz", 14: "kHz", 15: "MHz", 16: "GHz", 17: "THz", 18: "PHz", 19: "ns", 20: "us", 21: "ms", 22: "s",
    23: "min", 24: "h", 25: "vertices", 26: "pixels", 27: "triangles", 28: "mW", 29: "W", 30: "kW", 31: "J", 32: "V",
    33: "A", 34: "C", 35: "F", 36: "K", 37: "%", 38: "primitives", 39: "fragments", 40: "instructions",
}  # fmt: skip
"""Units of the counters of GPUs by number."""
_TEXT_AT = {InternedField.KERNELS: 3}
"""The field with the text of an entry, if not 2."""


class RunningStates:
    """The states of the packets of a file, block by block."""

    def __init__(self) -> None:
        self._of_sequence: dict[int, int] = {}
        self._is_known: list[bool] = []

    def of(self, sequence: Int64, clears: Bool, loses: Bool) -> States:
        """The states of the packets of the next block; numbers go on from block to block."""
        here = sequence_states(sequence, clears, loses)
        if not len(sequence):
            return here
        first = np.unique(here.number, return_index=True)[1]
        begins = (clears | loses)[first].tolist()
        numbers = []
        for each, is_begun, is_known in zip(
            sequence[first].tolist(), begins, here.is_known[first].tolist(), strict=True
        ):
            if is_begun or each not in self._of_sequence:
                self._of_sequence[each] = len(self._is_known)
                self._is_known.append(is_known)
            numbers.append(self._of_sequence[each])
        number = np.array(numbers, np.int64)[here.number]
        return States(number, np.array(self._is_known, bool)[number])


class Interned:
    """The entries of a file, by kind."""

    def __init__(self) -> None:
        self._states: dict[int, list[int]] = {}
        self._positions: dict[int, list[int]] = {}
        self._iids: dict[int, list[int]] = {}
        self._values: dict[int, list[Any]] = {}
        self._entries: dict[int, InternedEntries] = {}
        self._by_number: dict[int, dict[tuple[int, int], list[int]]] = {}
        """Rows of entries by state and number, once `text` was asked for one of their kind."""
        self.is_compute: list[bool] = []
        """For each GPU specification whether it is of the category of computations."""

    def add(self, data: MessageBytes, start: Int64, end: Int64, position: Int64, state: Int64) -> Bool:
        """Take in the interned data of some packets, and return which of them are damaged."""
        fields = read_fields(data, start, end, INTERNED_DATA)
        for kind in INTERNED_DATA.fields:
            spans = fields.repeated(kind)
            for row, first, last in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
                try:
                    iid, value = _entry(data, kind, first, last)
                except DamagedMessage:
                    continue
                self._states.setdefault(kind, []).append(int(state[row]))
                self._positions.setdefault(kind, []).append(int(position[row]))
                self._iids.setdefault(kind, []).append(iid)
                self._values.setdefault(kind, []).append(value)
                if kind == InternedField.GPU_SPECIFICATIONS:
                    # The category of a GPU specification.
                    values = [
                        field.value for field in fields_of(data.raw, first, last) if field.number == CATEGORY_FIELD
                    ]
                    self.is_compute.append((values[-1] if values else 0) == COMPUTE)
        return fields.damaged

    def find(self, kind: int, state: Int64, position: Int64, iid: Int64) -> Int64:
        """The rows in `values` of what packets name, -1 where it is unknown or the number is 0."""
        if kind not in self._entries:
            columns = (self._states, self._positions, self._iids)
            self._entries[kind] = InternedEntries(*(np.array(each.get(kind, []), np.int64) for each in columns))
        row = self._entries[kind].find(state, position, iid)
        return np.where(iid != 0, row, -1)

    def text(self, kind: int, state: int, position: int, iid: int) -> str:
        """The text that one packet means by a number, empty where it is unknown: quick for many of them."""
        entries = self._by_number.get(kind)
        if entries is None:
            entries = self._by_number[kind] = {}
            keys = zip(self._states.get(kind, []), self._iids.get(kind, []), strict=True)
            for row, key in enumerate(keys):
                entries.setdefault(key, []).append(row)
        rows = entries.get((state, iid - (1 << 64) if iid >> 63 else iid), [])
        positions = self._positions.get(kind, [])
        at = bisect_right(rows, position, key=positions.__getitem__) - 1
        return str(self._values[kind][rows[at]]) if at >= 0 and iid else ""

    def values(self, kind: int) -> list[Any]:
        """Texts of a kind; of counter descriptors the GPU and the names of its counters by id."""
        return self._values.get(kind, [])


def _entry(data: MessageBytes, kind: int, start: int, end: int) -> tuple[int, Any]:
    """The number and the value of an entry.

    Raises: DamagedMessage.
    """
    iid, value = 0, CounterDescriptor() if kind == InternedField.COUNTER_DESCRIPTORS else ""
    for field in fields_of(data.raw, start, end):
        if field.number == 1 and field.wire != SPAN:
            iid = field.value - (1 << 64) if field.value >> 63 else field.value
        elif isinstance(value, CounterDescriptor):
            value.read(data, field)
        elif field.wire == SPAN and (field.number == _TEXT_AT.get(kind, 2) or (field.number == 2 and not value)):
            value = data.text(field.value, field.end).decode("utf-8", "replace")
    return iid, value


class CounterDescriptor:
    """The counters of a GPU: their names by id, with their units in brackets."""

    def __init__(self) -> None:
        self.gpu = 0
        self.names: dict[int, str] = {}

    def read(self, data: MessageBytes, field: Field) -> None:
        """Take in a field of an interned descriptor.

        Raises: DamagedMessage.
        """
        if field.number == 3 and field.wire != SPAN:
            self.gpu = field.value
        elif field.number == 2 and field.wire == SPAN:
            self.read_specs(data, field.value, field.end)

    def read_specs(self, data: MessageBytes, start: int, end: int) -> None:
        """Take in a descriptor itself.

        Raises: DamagedMessage.
        """
        for spec in fields_of(data.raw, start, end):
            if spec.number == 1 and spec.wire == SPAN:
                self._read_spec(data, spec)

    def _read_spec(self, data: MessageBytes, spec: Field) -> None:
        number, name = 0, ""
        units: dict[int, list[str]] = {7: [], 8: []}
        for field in fields_of(data.raw, spec.value, spec.end):
            if field.number == 1 and field.wire != SPAN:
                number = field.value
            elif field.number == 2 and field.wire == SPAN:
                name = data.text(field.value, field.end).decode("utf-8", "replace")
            elif field.number in units and field.wire != SPAN:
                units[field.number].append(UNITS.get(field.value, "?"))
        unit = "/".join("*".join(part) for part in units.values() if part)
        # A rate of nothing is none.
        self.names[number] = f"{name} ({unit})" if units[7] and not name.endswith(")") else name


REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
FIRST_OF_SEQUENCE, LAST_OF_SEQUENCE = 64, 127
"""Numbers of clocks that belong to a sequence."""
NO_TIME = np.iinfo(np.int64).min
"""Stands for a time that is not known."""
MAX_CLOCK_TIME = 1 << 62
"""Nanoseconds that no clock of a trace comes to."""
_PREFERRED = (MONOTONIC, REALTIME)


@frozen(eq=True)
class SnapshotEntries:
    """Readings of clocks: one entry for each clock of each snapshot, in the order of the file."""

    snapshot: Int64
    """Number of the snapshot, ascending."""
    position: Int64
    """The packet of the snapshot."""
    sequence: Int64
    clock: Int64
    time: Int64
    """Reading of the clock, in ns."""
    unit: Int64
    """Nanoseconds of a unit of the clock."""
    is_incremental: Bool


def in_nanoseconds(time: Int64, unit: Int64) -> Int64:
    """Times in units of a clock as ns, `NO_TIME` where they are too large to be any."""
    fits = (time >= 0) & (unit > 0) & (time <= MAX_CLOCK_TIME // np.maximum(unit, 1))
    return np.where(fits, np.where(fits, time, 0) * unit, NO_TIME)


class Clocks:
    """Converts times of a file to its reference clock."""

    def __init__(self, entries: SnapshotEntries, primary: int = 0) -> None:
        """`primary` is the clock that the file names as its own, 0 for none."""
        readable = (entries.time >= 0) & (entries.time < MAX_CLOCK_TIME)
        self._entries = _chosen(entries, readable)
        present = set(np.unique(self._entries.clock).tolist())
        of_all = sorted(clock for clock in present if not FIRST_OF_SEQUENCE <= clock <= LAST_OF_SEQUENCE)
        # Packets that name no clock are in boot time, which therefore comes first.
        candidates = (BOOTTIME, primary, *_PREFERRED, *of_all)
        self.reference: int = next((clock for clock in candidates if clock in present), primary or BOOTTIME)
        """The clock that times are converted to."""

    def convert(self, time: Int64, clock: Int64, sequence: Int64, position: Int64) -> Int64:
        """Times of packets in the order of the file on the reference clock; `NO_TIME` where nothing leads to it.

        `clock` is 0 where a packet names none: boot time, as the format has it.
        """
        clock = np.where(clock == 0, self._default(), clock)
        own = (clock >= FIRST_OF_SEQUENCE) & (clock <= LAST_OF_SEQUENCE)
        result = np.where(time < MAX_CLOCK_TIME, time, NO_TIME)
        result[time < 0] = NO_TIME
        clock = clock.copy()
        rows = np.flatnonzero(own)
        if len(rows):
            result[rows], clock[rows] = self._from_sequence(time[rows], clock[rows], sequence[rows], position[rows])
        clocks = np.unique(clock[result != NO_TIME]).tolist()
        if len(clocks) == 1 and not own.any() and not self._leads(clocks[0]):
            # The times of a file with a single clock need no other one.
            self.reference = clocks[0]
        for number in clocks:
            if number == self.reference:
                continue
            rows = np.flatnonzero((clock == number) & (result != NO_TIME))
            result[rows] = self._from_clock(number, result[rows])
        return result

    def wall_time(self, time: int) -> int | None:
        """The time of day in ns since 1970 of a time on the reference clock, None where no snapshot says."""
        if self.reference == REALTIME:
            return time
        pairs = self._pairs(self.reference, REALTIME)
        if len(pairs[0]) == 0:
            return None
        return int(_shifted(np.array([time], np.int64), *pairs)[0])

    def _default(self) -> int:
        """The clock of packets that name none."""
        return BOOTTIME if BOOTTIME in self._entries.clock or self.reference == BOOTTIME else self.reference

    def _from_sequence(self, time: Int64, clock: Int64, sequence: Int64, position: Int64) -> tuple[Int64, Int64]:
        """Times on clocks of sequences as times on a clock of all, and the number of that clock."""
        entries = self._entries
        own = np.flatnonzero((entries.clock >= FIRST_OF_SEQUENCE) & (entries.clock <= LAST_OF_SEQUENCE))
        if len(own) == 0:
            return np.full(len(time), NO_TIME), clock
        numbers = np.unique(np.concatenate([sequence, entries.sequence[own]]), return_inverse=True)[1]
        key, entry_key = numbers[: len(time)] * 64 + clock - FIRST_OF_SEQUENCE, numbers[len(time) :] * 64
        entry_key = entry_key + entries.clock[own] - FIRST_OF_SEQUENCE
        row = latest(entry_key, entries.position[own], key, position)
        entry = np.where(row >= 0, own[row], 0)
        moment = in_nanoseconds(time, entries.unit[entry])
        moment[row < 0] = NO_TIME
        adds = (row >= 0) & entries.is_incremental[entry] & (moment != NO_TIME)
        moment[adds] = _added(moment[adds], entry[adds], key[adds], position[adds], entries.time)
        other = self._clock_of_all(entries.snapshot)[entry]
        known = (moment != NO_TIME) & (other >= 0)
        shifted = moment - entries.time[entry] + entries.time[np.maximum(other, 0)]
        return np.where(known, shifted, NO_TIME), np.where(known, entries.clock[np.maximum(other, 0)], clock)

    def _clock_of_all(self, snapshot: Int64) -> Int64:
        """For each entry another one of its snapshot whose clock belongs to no sequence, -1 for none."""
        clock = self._entries.clock
        rows = np.flatnonzero((clock < FIRST_OF_SEQUENCE) | (clock > LAST_OF_SEQUENCE))
        if len(rows) == 0:
            return np.full(len(snapshot), -1, np.int64)
        # The reference first, as it needs no second step.
        rows = rows[np.lexsort((clock[rows] != self.reference, snapshot[rows]))]
        at = np.minimum(np.searchsorted(snapshot[rows], snapshot), len(rows) - 1)
        return np.where(snapshot[rows[at]] == snapshot, rows[at], -1)

    def _from_clock(self, clock: int, time: Int64) -> Int64:
        times, reference = self._pairs(clock, self.reference)
        return _shifted(time, times, reference) if len(times) else np.full(len(time), NO_TIME)

    def _leads(self, clock: int) -> bool:
        """Tell whether times of a clock can be converted."""
        return clock == self.reference or len(self._pairs(clock, self.reference)[0]) > 0

    def _pairs(self, clock: int, other: int) -> tuple[Int64, Int64]:
        """Readings of two clocks in the snapshots that have both, by the time of the first."""
        entries = self._entries
        one, two = np.flatnonzero(entries.clock == clock), np.flatnonzero(entries.clock == other)
        _, at, at_other = np.intersect1d(entries.snapshot[one], entries.snapshot[two], return_indices=True)
        times, meant = entries.time[one[at]], entries.time[two[at_other]]
        order = np.argsort(times, kind="stable")
        return times[order], meant[order]


def _chosen(entries: SnapshotEntries, rows: Bool) -> SnapshotEntries:
    return SnapshotEntries(
        entries.snapshot[rows],
        entries.position[rows],
        entries.sequence[rows],
        entries.clock[rows],
        entries.time[rows],
        entries.unit[rows],
        entries.is_incremental[rows],
    )


def _shifted(time: Int64, times: Int64, meant: Int64) -> Int64:
    """Times on another clock: by the last snapshot before, or the first one where there is none."""
    row = np.maximum(np.searchsorted(times, time, side="right") - 1, 0)
    return time - times[row] + meant[row]


def _added(step: Int64, entry: Int64, key: Int64, position: Int64, start: Int64) -> Int64:
    """Times on incremental clocks: that of the snapshot and all steps since then."""
    order = np.lexsort((position, entry, key))
    total = np.cumsum(step[order])
    first = np.flatnonzero((np.diff(entry[order], prepend=-1) != 0) | (np.diff(key[order], prepend=-1) != 0))
    before = total[first] - step[order][first]
    sizes = np.diff(np.append(first, len(step)))
    moment = np.empty(len(step), np.int64)
    moment[order] = start[entry[order]] + total - np.repeat(before, sizes)
    return moment


# Times of the packets of a file: what its clocks showed, and the packets that name a clock.


class PacketTimes:
    """Takes in clocks and times block by block, and puts all times on one clock when the file has been read."""

    def __init__(self) -> None:
        self._snapshot_rows: list[tuple[int, int, int, int, int, int, int]] = []
        """Entries of snapshots: snapshot, packet, sequence, clock, time, unit, and whether the clock is incremental."""
        self._snapshots = 0
        self._primary = 0
        self._packet_times = Gathered("event", "time", "clock", "sequence")
        self._clocks: Clocks | None = None
        self._events, self._times = np.empty(0, np.int64), np.empty(0, np.int64)

    def add_snapshot(self, data: MessageBytes, start: int, end: int, event: int, sequence: int) -> None:
        """Take in a snapshot, which stands in a packet of a sequence.

        Raises: DamagedMessage.
        """
        self._snapshots += 1
        for number, wire, value, behind in fields_of(data.raw, start, end):
            if number == 2 and wire != SPAN:
                self._primary = self._primary or value & 0xFFFFFFFF
            elif number == 1 and wire == SPAN:
                fields = {
                    field.number: field.value for field in fields_of(data.raw, value, behind) if field.wire != SPAN
                }
                clock, time = fields.get(1, 0), fields.get(2, 0)
                if 0 < clock < 1 << 32 and time < 1 << 62:
                    unit, adds = min(fields.get(4, 1), 1 << 40), int(bool(fields.get(3)))
                    self._snapshot_rows.append((self._snapshots, event, sequence, clock, time, unit, adds))

    def add(self, event: Int64, time: Int64, clock: Int64, sequence: Int64) -> None:
        """Take in the times of packets that name a clock."""
        self._packet_times.add(event=event, time=time, clock=clock, sequence=sequence)

    @property
    def adds_up(self) -> bool:
        """Tell whether times of a clock count from the packets before."""
        return any(adds for *_, adds in self._snapshot_rows)

    def settle(self) -> None:
        """Put the times on one clock."""
        clocks = self._settled()
        columns = {name: self._packet_times.take(name, "i8") for name in ("event", "time", "clock", "sequence")}
        self._events = columns["event"]
        converted = clocks.convert(columns["time"], columns["clock"], columns["sequence"], self._events)
        self._times = np.where((converted < 0) | (converted > MAX_TIME_NS // 2), NO_TIME, converted)

    def _settled(self) -> Clocks:
        if self._clocks is None:
            table = np.array(self._snapshot_rows, np.int64).reshape(-1, 7)
            snapshot, position, sequence, clock, time, unit, adds = table.T
            nanoseconds = in_nanoseconds(time, unit)
            entries = SnapshotEntries(snapshot, position, sequence, clock, nanoseconds, unit, adds != 0)
            self._clocks = Clocks(entries, self._primary)
        return self._clocks

    def convert(self, time: Int64, event: Int64) -> tuple[Int64, Bool]:
        """The times of packets, given what they say, and which of them have one."""
        if not len(self._events):
            return time, np.ones(len(time), bool)
        row = np.minimum(np.searchsorted(self._events, event), len(self._events) - 1)
        converted = np.where(self._events[row] == event, self._times[row], time)
        return converted, converted != NO_TIME

    @property
    def wall_base(self) -> int:
        """The time of day in ns since 1970 at the first snapshot, where boot time is the same there; else 0.

        torch writes it so, where JSON has a base time and counts from there.
        """
        first = self._snapshot_rows[0][0] if self._snapshot_rows else 0
        times = {clock: time for snapshot, _, _, clock, time, _, _ in self._snapshot_rows if snapshot == first}
        base = times.get(REALTIME, 0)
        return base if times.get(BOOTTIME) == base else 0

    def wall_time(self, time: int) -> int:
        """The time of day in ns since 1970 of a time of the file; the time itself where nothing tells it."""
        wall = self._settled().wall_time(time)
        return time if wall is None else wall
