"""Tracks: which process and thread the events of a track belong to, and what these are called."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.reading.lanes import Naming
from tracetui.reading.perfetto.wire import SPAN, MessageBytes, fields_of

NO_PROCESS = "no process"
"""Stands for the process of tracks that belong to none."""
_LAST_UUID = (1 << 64) - 2
"""The first uuid of threads that have no track of their own; the others are below it."""
_PROCESS_UUIDS = 1 << 64
"""From here on stand processes that have no track."""
OVERHEAD_PID = 0x7FFFFFFF
"""The process -1 of Kineto's own cost, cut to 31 bits."""
_TID_BITS = 32
_TID_MASK = (1 << _TID_BITS) - 1
MAX_PARENTS = 64
"""Levels of tracks within tracks."""


_UNITS = {1: "ns", 3: "bytes"}
"""Units of counters by number; a mere count has none."""


@dataclass(slots=True)
class Track:
    """What a descriptor says about a track."""

    parent: int = 0
    name: str = ""
    pid: int | None = None
    process_name: str = ""
    tid: int | None = None
    thread_name: str = ""
    unit: str = ""
    """Unit of a counter: `bytes`, `ns`, or what the writer calls it."""
    multiplier: int = 1
    """What the values of a counter are multiplied by."""
    is_incremental: bool = False
    """Whether the values of a counter are added up."""


_UNSAID = Track()
"""A track of which nothing is said."""
_ABOUT = tuple(each.name for each in fields(Track))


class Owner(NamedTuple):
    """Where the events of a track belong."""

    pid: int | str
    tid: int | str
    is_thread: bool
    """Whether that is a thread; other tracks are known by their names."""


class Tracks:
    """The tracks of a file by the numbers in their descriptors, in the order in which they turn up."""

    def __init__(self) -> None:
        self._descriptors: dict[int, Track] = {}
        self._numbers: dict[int, int] = {}
        self.uuids: list[int] = []
        self._threads: dict[tuple[int, int], int] = {}
        self._long_tids: dict[tuple[int | str | None, int], int] | None = None
        """Threads with numbers of more than 32 bits by the lower part, once all are known."""
        self._named: dict[tuple[int | str, str], dict[int, int]] = {}
        """Tracks that have the same name in a process, with their indices among them."""

    def add(self, data: MessageBytes, start: int, end: int) -> None:
        """Take in a descriptor; a later one of the same track adds to it.

        Raises: DamagedMessage.
        """
        uuid, track = 0, Track()
        for number, wire, value, behind in fields_of(data.raw, start, end):
            if wire == SPAN and number in (3, 4):
                _read_owner(track, data, number, value, behind)
            elif wire == SPAN and number == 8:
                _read_counter(track, data, value, behind)
            elif wire == SPAN and number in (2, 10, 13):
                track.name = data.text(value, behind).decode("utf-8", "replace")
            elif wire != SPAN and number == 1:
                uuid = value
            elif wire != SPAN and number == 5:
                track.parent = value
        known = self._descriptors.setdefault(uuid, track)
        for name in _ABOUT:
            value = getattr(track, name)
            if value != getattr(_UNSAID, name):
                setattr(known, name, value)

    def add_owner(self, data: MessageBytes, kind: int, start: int, end: int) -> int | None:
        """Take in the descriptor of a process (3) or a thread (4) that has no track; returns the uuid of a thread.

        Raises: DamagedMessage.
        """
        track = Track()
        _read_owner(track, data, kind, start, end)
        if track.pid is None:
            return None
        if kind == 3 or track.tid is None:
            self._descriptors.setdefault(_PROCESS_UUIDS + track.pid, track)
            return None
        uuid = self.thread(track.pid, track.tid)
        self._descriptors[uuid].thread_name = track.thread_name or self._descriptors[uuid].thread_name
        return uuid

    def thread(self, pid: int, tid: int) -> int:
        """The uuid of a thread that events name by its numbers."""
        known = self._threads.get((pid, tid))
        if known is None:
            known = self._threads[pid, tid] = _LAST_UUID - len(self._threads)
            self._descriptors[known] = Track(pid=pid, tid=tid)
        return known

    def described(self, number: int) -> Track:
        """What is said about a track, given its number."""
        return self._descriptors.get(self.uuids[number], Track())

    def number(self, uuids: Int64) -> Int64:
        """Numbers of tracks, from 0, by their uuids."""
        distinct, inverse = np.unique(uuids, return_inverse=True)
        numbers = []
        for uuid in distinct.view(np.uint64).tolist():
            if uuid not in self._numbers:
                self._numbers[uuid] = len(self.uuids)
                self.uuids.append(uuid)
            numbers.append(self._numbers[uuid])
        return np.array(numbers, np.int64)[inverse] if numbers else np.empty(0, np.int64)

    def owner(self, number: int) -> Owner:
        """Process and thread of a track; other tracks stand in their process under a name, perhaps of their parent."""
        uuid = self.uuids[number]
        own = track = self._descriptors.get(uuid, Track())
        name = own.name
        for _ in range(MAX_PARENTS):
            if track.pid is not None:
                break
            track = self._descriptors.get(track.parent, Track())
            name = name or track.name
        pid = NO_PROCESS if track.pid is None else track.pid
        if own.tid is not None:
            return Owner(pid, self._whole_tid(pid, own.tid), True)
        if pid == OVERHEAD_PID:
            return Owner(pid, name or pid, True)
        name = name or ("process" if own.pid is not None else f"track {uuid}")
        return Owner(pid, self._distinct(pid, name, uuid), False)

    def _whole_tid(self, pid: int | str, tid: int) -> int:
        """The thread that is meant: torch cuts the thread of a call to 32 bits, and not that of an operator."""
        if self._long_tids is None:
            long = [(each.pid, each.tid) for each in self._descriptors.values() if each.tid and each.tid >> _TID_BITS]
            self._long_tids = {(of, each & _TID_MASK): each for of, each in long if each & _TID_MASK}
        return tid if tid >> _TID_BITS else self._long_tids.get((pid, tid), tid)

    def _distinct(self, pid: int | str, name: str, uuid: int) -> str:
        """The name of a track, with a number where others of its process have the same."""
        same = self._named.setdefault((pid, name), {})
        index = same.setdefault(uuid, len(same))
        return name if index == 0 else f"{name} #{index + 1}"

    def name_lanes(self, naming: Naming) -> None:
        """Say what processes and threads are called."""
        for track in self._descriptors.values():
            if track.pid is None:
                continue
            pid = -1 if track.pid == OVERHEAD_PID else track.pid
            if track.process_name:
                naming.read(pid, 0, "process_name", {"name": track.process_name})
            if track.tid is not None and track.thread_name:
                naming.read(pid, track.tid, "thread_name", {"name": track.thread_name})


def _read_counter(track: Track, data: MessageBytes, start: int, end: int) -> None:
    """Read the descriptor of a counter."""
    unit = 0
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if wire == SPAN and number == 6:
            track.unit = data.text(value, behind).decode("utf-8", "replace")
        elif wire != SPAN and number == 3:
            unit = value
        elif wire != SPAN and number == 4:
            track.multiplier = _signed(value)
        elif wire != SPAN and number == 5:
            track.is_incremental = bool(value)
    track.unit = track.unit or _UNITS.get(unit, "")


def _read_owner(track: Track, data: MessageBytes, kind: int, start: int, end: int) -> None:
    """Read the process (3) or the thread (4) of a track."""
    name_at = 6 if kind == 3 else 5
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if wire != SPAN and number == 1:
            track.pid = _signed(value)
        elif wire != SPAN and number == 2 and kind == 4:
            track.tid = _signed(value)
        elif wire == SPAN and number == name_at:
            name = data.text(value, behind).decode("utf-8", "replace")
            if kind == 3:
                track.process_name = name
            else:
                track.thread_name = name


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
