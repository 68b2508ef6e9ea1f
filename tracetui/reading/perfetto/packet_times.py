"""Times of the packets of a file: what its clocks showed, and the packets that name a clock."""

from __future__ import annotations

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.model.whole_numbers import MAX_TIME_NS
from tracetui.reading.gathered import Gathered
from tracetui.reading.perfetto.clocks import BOOTTIME, NO_TIME, REALTIME, Clocks, SnapshotEntries, in_nanoseconds
from tracetui.reading.perfetto.wire import SPAN, MessageBytes, fields_of


class PacketTimes:
    """Takes in clocks and times block by block, and puts all times on one clock when the file has been read."""

    def __init__(self) -> None:
        self._shown: list[tuple[int, int, int, int, int, int, int]] = []
        """Entries of snapshots: snapshot, packet, sequence, clock, time, unit, and whether the clock is incremental."""
        self._snapshots = 0
        self._primary = 0
        self._named = Gathered("event", "time", "clock", "sequence")
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
                shown = {
                    field.number: field.value for field in fields_of(data.raw, value, behind) if field.wire != SPAN
                }
                clock, time = shown.get(1, 0), shown.get(2, 0)
                if 0 < clock < 1 << 32 and time < 1 << 62:
                    unit, adds = min(shown.get(4, 1), 1 << 40), int(bool(shown.get(3)))
                    self._shown.append((self._snapshots, event, sequence, clock, time, unit, adds))

    def add(self, event: Int64, time: Int64, clock: Int64, sequence: Int64) -> None:
        """Take in the times of packets that name a clock."""
        self._named.add(event=event, time=time, clock=clock, sequence=sequence)

    @property
    def adds_up(self) -> bool:
        """Whether times of a clock count from the packets before."""
        return any(adds for *_, adds in self._shown)

    def settle(self) -> None:
        """Put the times on one clock."""
        clocks = self._settled()
        columns = {name: self._named.take(name, "i8") for name in ("event", "time", "clock", "sequence")}
        self._events = columns["event"]
        converted = clocks.convert(columns["time"], columns["clock"], columns["sequence"], self._events)
        self._times = np.where((converted < 0) | (converted > MAX_TIME_NS // 2), NO_TIME, converted)

    def _settled(self) -> Clocks:
        if self._clocks is None:
            table = np.array(self._shown, np.int64).reshape(-1, 7)
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
        first = self._shown[0][0] if self._shown else 0
        shown = {clock: time for snapshot, _, _, clock, time, _, _ in self._shown if snapshot == first}
        base = shown.get(REALTIME, 0)
        return base if shown.get(BOOTTIME) == base else 0

    def wall_time(self, time: int) -> int:
        """The time of day in ns since 1970 of a time of the file; the time itself where nothing tells it."""
        wall = self._settled().wall_time(time)
        return time if wall is None else wall
