"""Events as JSON has them within track events: phases as letters, durations, ids, and threads of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.perfetto.schemas import BEGIN, COUNTER, END, INSTANT, LEGACY_EVENT
from tracetui.reading.perfetto.schemas import LegacyField as Legacy
from tracetui.reading.perfetto.tracks import Tracks
from tracetui.reading.perfetto.wire import MessageBytes, read_fields

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
    """How far an instant reaches."""
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
