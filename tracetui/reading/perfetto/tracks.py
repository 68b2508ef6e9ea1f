"""Tracks: which process and thread the events of a track belong to, and what these are called."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.lanes import Naming
from tracetui.reading.perfetto.schemas import BEGIN, COUNTER, END, INSTANT, LEGACY_EVENT
from tracetui.reading.perfetto.schemas import LegacyField as Legacy
from tracetui.reading.perfetto.wire import SPAN, MessageBytes, fields_of, read_fields

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
MAX_TREE = 1 << 17
"""Maximum names of processes and threads in lists of what ran."""


_UNITS = {1: "ns", 3: "bytes"}
"""Units of counters by number; a mere count has none."""


@dataclass(slots=True)
class Track:
    """The descriptor of a track."""

    parent: int = 0
    name: str = ""
    pid: int | None = None
    process_name: str = ""
    tid: int | None = None
    thread_name: str = ""
    unit: str = ""
    """Unit of a counter: `bytes`, `ns`, or what the writer calls it."""
    multiplier: int = 1
    """Factor of the values of a counter."""
    is_incremental: bool = False
    """True if the values of a counter are added up."""


_UNSAID = Track()
"""A track of which nothing is said."""
_ABOUT = tuple(each.name for each in fields(Track))


class Owner(NamedTuple):
    """The place of the events of a track."""

    pid: int | str
    tid: int | str
    is_thread: bool
    """True if that is a thread; other tracks are known by their names."""


class Tracks:
    """The tracks of a file by the numbers in their descriptors, in the order in which they turn up."""

    def __init__(self) -> None:
        self._descriptors: dict[int, Track] = {}
        self._numbers: dict[int, int] = {}
        self.uuids: list[int] = []
        self._threads: dict[tuple[int, int], int] = {}
        self._long_tids: dict[tuple[int | str | None, int], int] | None = None
        """Threads with numbers of more than 32 bits by the lower part, once all are known."""
        self._same_names: dict[tuple[int | str, str], dict[int, int]] = {}
        """Tracks that have the same name in a process, with their indices among them."""
        self._tree: dict[tuple[int, int], str] = {}
        """Names of processes and threads in lists of what ran, by pid and tid; the tid of a process is 0."""
        self.has_tree_names = False
        """True where a lane has its name from there."""

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

    def add_tree(self, data: MessageBytes, start: int, end: int) -> None:
        """Take in the names in a list of processes and threads.

        Raises: DamagedMessage.
        """
        for kind, wire, low, high in fields_of(data.raw, start, end):
            if wire != SPAN or kind not in (1, 2):
                continue
            numbers, name = {}, ""
            for number, inner, value, behind in fields_of(data.raw, low, high):
                if inner != SPAN:
                    numbers[number] = _signed(value)
                elif number == (3 if kind == 1 else 2) and not name:
                    name = data.text(value, behind).decode("utf-8", "replace")
            if name and len(self._tree) < MAX_TREE:
                place = (numbers.get(1, 0), 0) if kind == 1 else (numbers.get(3, 0), numbers.get(1, 0))
                self._tree[place] = name

    def thread(self, pid: int, tid: int) -> int:
        """The uuid of a thread that events name by its numbers."""
        known = self._threads.get((pid, tid))
        if known is None:
            known = self._threads[pid, tid] = _LAST_UUID - len(self._threads)
            self._descriptors[known] = Track(pid=pid, tid=tid)
        return known

    def described(self, number: int) -> Track:
        """The description of a track, given its number."""
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
        same = self._same_names.setdefault((pid, name), {})
        index = same.setdefault(uuid, len(same))
        return name if index == 0 else f"{name} #{index + 1}"

    def name_lanes(self, naming: Naming) -> None:
        """Say what processes and threads are called."""
        for track in self._descriptors.values():
            if track.pid is None:
                continue
            pid, tid = -1 if track.pid == OVERHEAD_PID else track.pid, track.tid or 0
            process, thread = self._tree.get((pid, 0), ""), self._tree.get((pid, tid), "") if tid else ""
            self.has_tree_names |= bool(process or thread)
            if name := track.process_name or process:
                naming.read(pid, 0, "process_name", {"name": name})
            if track.tid is not None and (name := track.thread_name or thread):
                naming.read(pid, tid, "thread_name", {"name": name})


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


# Events as JSON has them within track events: phases as letters, durations, ids, and threads of their own.

COMPLETE, ASYNC, SKIPPED = 16, 17, 18
"""Types of events that only a phase gives: one with a duration, one of an asynchronous slice, one that is not shown."""
_TYPES = (
    dict.fromkeys("B", BEGIN)
    | dict.fromkeys("E", END)
    | dict.fromkeys("iIR", INSTANT)
    | dict.fromkeys("C", COUNTER)
    | dict.fromkeys("X", COMPLETE)
    | dict.fromkeys("bneSTFp", ASYNC)
)
NO_DURATION = -1
"""Stands for a duration that is not in the file."""
MAX_DURATION_US = 1 << 52
GLOBAL_SCOPE, PROCESS_SCOPE = 1, 2
"""Scopes of instants."""


class LegacyEvents(NamedTuple):
    """The legacy parts of the events of a block, one row for each event; 0 where an event has none."""

    phase: Int64
    """The code of the letter, 0 for none."""
    name_iid: Int64
    duration: Int64
    """In ns, `NO_DURATION` where it is not said."""
    identity: Int64
    """The id of asynchronous events."""
    id_kind: Int64
    """1 for an id without a scope, 2 for one of a process, 3 for one of the whole file."""
    scope: Int64
    """The reach of an instant."""
    is_damaged: Bool


def read_legacy(data: MessageBytes, start: Int64, end: Int64) -> tuple[LegacyEvents, Int64, Int64, Bool]:
    """Read legacy parts at some spans, -1 for none; also processes and threads, and which events say them."""
    count = len(start)
    rows = np.flatnonzero(start >= 0)
    fields = read_fields(data, start[rows], end[rows], LEGACY_EVENT)

    def column(values: Int64, missing: int = 0) -> Int64:
        whole = np.full(count, missing, np.int64)
        whole[rows] = values
        return whole

    micros = fields.number(Legacy.DURATION_US)
    given = fields.has(Legacy.DURATION_US) & (micros >= 0) & (micros < MAX_DURATION_US)
    kinds = (Legacy.UNSCOPED_ID, Legacy.LOCAL_ID, Legacy.GLOBAL_ID)
    identity, id_kind = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for kind, field in enumerate(kinds, 1):
        has = fields.has(field)
        identity[has], id_kind[has] = fields.number(field)[has], kind
    damaged = np.zeros(count, bool)
    damaged[rows] = fields.damaged
    has_thread = np.zeros(count, bool)
    has_thread[rows] = fields.has(Legacy.PID) | fields.has(Legacy.TID)
    events = LegacyEvents(
        phase=column(fields.number(Legacy.PHASE)),
        name_iid=column(fields.number(Legacy.NAME_IID)),
        duration=column(np.where(given, micros * given * 1000, NO_DURATION), NO_DURATION),
        identity=column(identity),
        id_kind=column(id_kind),
        scope=column(fields.number(Legacy.INSTANT_SCOPE)),
        is_damaged=damaged,
    )
    return events, column(fields.number(Legacy.PID)), column(fields.number(Legacy.TID)), has_thread


def event_types(kind: Int64, phase: Int64) -> Int64:
    """The types of events: their own, or where they have none what their phase says."""
    own = kind.copy()
    for code in np.unique(phase[(kind == 0) & (phase != 0)]).tolist():
        letter = chr(code) if 0 < code < 128 else ""
        own[(kind == 0) & (phase == code)] = _TYPES.get(letter, SKIPPED)
    return own


def own_threads(track: Int64, pid: Int64, tid: Int64, tracks: Tracks) -> Int64:
    """The tracks of events that name their process or thread themselves; what they do not name is that of their track.

    All columns have a row for each such event; 0 stands for what is not named.
    """
    distinct, inverse = np.unique(np.stack([track, pid, tid], axis=1), axis=0, return_inverse=True)
    numbers = []
    for own, process, thread in distinct.tolist():
        owner = tracks.owner(own)
        process = process or (owner.pid if isinstance(owner.pid, int) else 0)
        thread = thread or (owner.tid if isinstance(owner.tid, int) else process)
        uuid = np.array([tracks.thread(int(process), int(thread))], np.uint64).view(np.int64)
        numbers.append(int(tracks.number(uuid)[0]))
    result: Int64 = np.array(numbers, np.int64)[inverse.reshape(-1)]
    return result
