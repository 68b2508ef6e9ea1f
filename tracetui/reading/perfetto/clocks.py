"""Times of packets on one clock, in ns.

A packet may name its clock. Snapshots say what several clocks showed at one moment. Numbers 64 to 127 are clocks of a
sequence: the last snapshot of the sequence counts, and an incremental one gives the time since the packet before.
What no snapshot leads to has no time.
"""

from __future__ import annotations

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import MAX_TIME_NS
from tracetui.reading.columns import Gathered
from tracetui.reading.perfetto.sequences import latest
from tracetui.reading.perfetto.wire import SPAN, MessageBytes, fields_of

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
