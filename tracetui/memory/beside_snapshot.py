"""A memory snapshot of the run that a trace is of: its curves on the axis of the trace, and who holds its allocations.

Both are stamped with the wall clock. An event of the trace and one of the history are the same where device, kind and
address are, the size is up to what the allocator adds, and none is nearer in time; the clocks are compared by them.
"""

from __future__ import annotations

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.trees import Axis
from tracetui.memory.allocator import Allocator, allocator
from tracetui.model.intervals import Bool, Int64
from tracetui.model.memory_snapshot import Action, MemorySnapshot
from tracetui.model.quantities import counted, duration
from tracetui.model.results import kept
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import Counter, Trace
from tracetui.snapshots.history import MAX_SLACK, OLDER, DeviceHistory, history_of
from tracetui.snapshots.snapshot_tables import OLDER_ROW, frames_of

MAX_CLOCKS_NS = 10**9
"""Maximum difference of the clocks."""
MAX_APART_NS = 10_000_000
"""Maximum time between two records of one event, once the clocks are compared."""
MAX_PAIRS = 2_000_000
"""Pairs of events by which the clocks are compared, about."""
ALIKE_NS = 5_000
"""Differences of the clocks that are no further apart are one."""
MIN_WALL_CLOCK_NS = 10**17
"""A time before it, in 1973, is of no wall clock."""
MAX_TIME_US = (1 << 62) // 1000
"""A later time is none."""
_KINDS = {Action.ALLOC: 0, Action.FREE_REQUESTED: 1, Action.OOM: 2}
"""The events of a history that a trace has too, numbered."""


def clock_gap(trace: Trace, snapshot: MemorySnapshot) -> str:
    """The reason why a snapshot has no place on the axis of a trace, to end a sentence; empty where it has one."""
    low, high = (trace.origin_ns + each for each in trace.window)
    known = snapshot.events.time_us[snapshot.events.time_us > 0]
    if not len(known):
        return "its history has no times"
    first, last = int(known.min()) * 1000, int(known.max()) * 1000
    if low < MIN_WALL_CLOCK_NS:
        return "the times of the trace are of no wall clock"
    if last < low:
        return f"its history ends {duration(low - last)} before the trace begins"
    if first > high:
        return f"its history begins {duration(first - high)} after the trace ends"
    return ""


def snapshot_counters(trace: Trace, snapshot: MemorySnapshot) -> tuple[Counter, ...]:
    """Active and reserved bytes of each device with a history, while the trace lasts."""
    counters = []
    for history in _histories(snapshot):
        time = _times(trace, history)
        # From the last event before the trace on; before the first event nothing is known of the time.
        first = max(int(np.searchsorted(time, trace.window[0], side="right")) - 1, 0)
        part = slice(first, int(np.searchsorted(time, trace.window[1], side="right")))
        at = np.maximum(time[part], trace.window[0])
        if len(at):
            for name, curve in (("active (snapshot)", history.active), ("reserved (snapshot)", history.reserved)):
                values = curve[1:][part].astype(np.float64)
                counters.append(Counter(f"GPU {history.device}", name, "", at, values, "bytes"))
    return tuple(counters)


@frozen
class Holders:
    """Holders of the events of `allocator(trace)` by the snapshot beside it, one entry per event."""

    names: Strings
    """Own lines and stacks."""
    line: Int64
    """The innermost own line of the allocation, in `names`, -1 where the history does not have the event."""
    stack: Int64
    """The own lines around it, innermost first, in `names`."""
    sentence: str
    """How much was matched."""


@kept
def snapshot_holders(trace: Trace) -> Holders:
    """The holders that the snapshot beside a trace names."""
    events, names = allocator(trace), Strings()
    line, stack = np.full(len(events), -1, np.int64), np.full(len(events), -1, np.int64)
    snapshot = trace.snapshot
    assert snapshot is not None
    frames, apart, count = frames_of(snapshot), np.empty(0, np.int64), 0
    for history in _histories(snapshot):
        label = f"GPU {history.device}"
        if label not in events.devices:
            continue
        mine = np.flatnonzero(events.device == events.devices.index(label))
        count += len(mine)
        index, differences = _matched(trace, history, events, mine)
        apart = np.append(apart, differences)
        # The allocation of each event of a history, -1 for those of others.
        lives, own = history.allocations, np.full(history.count + 1, -1, np.int64)
        for of_lives in (lives.requested, lives.start):
            inside = (of_lives >= 0) & (of_lives < history.count)
            own[of_lives[inside]] = np.flatnonzero(inside)
        life = own[index]
        is_failed = history.action[index] == Action.OOM
        kept_rows = np.flatnonzero((index >= 0) & (is_failed | (life >= 0)))
        mine, index, life, is_failed = (each[kept_rows] for each in (mine, index, life, is_failed))
        number = np.where(is_failed, snapshot.events.stack[history.first_row + index], lives.stack[life])
        for each in np.unique(number).tolist():
            line[mine[number == each]] = names.intern(frames.line(each))
            stack[mine[number == each]] = names.intern(frames.key(each))
        is_older = ~is_failed & (number == 0) & (lives.start[life] == OLDER)
        line[mine[is_older]] = stack[mine[is_older]] = names.intern(OLDER_ROW)
    known = int(np.count_nonzero(line >= 0))
    clocks = f"; its clock differs by {duration(abs(float(np.median(apart))))}" if len(apart) else ""
    words = f"{snapshot.label} has {known:,} of these {counted(count, 'event')} of GPUs{clocks}."
    return Holders(names, line, stack, words if count else "")


def _histories(snapshot: MemorySnapshot) -> list[DeviceHistory]:
    histories = (history_of(snapshot, device) for device in range(snapshot.device_count))
    return [history for history in histories if history.count and history.start_us]


def _times(trace: Trace, history: DeviceHistory) -> Int64:
    """Times of the events of a history on the axis of a trace; they ascend."""
    times: Int64 = np.maximum.accumulate(np.minimum(history.time_us, MAX_TIME_US) * 1000 - trace.origin_ns)
    return times


def _matched(trace: Trace, history: DeviceHistory, events: Allocator, mine: Int64) -> tuple[Int64, Int64]:
    """For some events of a device the event of the history, -1 for none; and by how much each pair differs in time."""
    kinds = np.full(len(Action), -1)
    kinds[list(_KINDS)] = list(_KINDS.values())
    theirs = np.flatnonzero(kinds[history.action] >= 0)
    if not len(theirs) or not len(mine):
        return np.full(len(mine), -1, np.int64), theirs[:0]
    kind = np.select([events.failed[mine], events.bytes[mine] < 0], [2, 1], 0)
    address = trace.memory_args.number("Addr", events.event[mine])
    # A failed allocation has no address.
    both = np.concatenate([np.where(kind == 2, NULL, address), history.address[theirs]])
    both[len(mine) :][history.action[theirs] == Action.OOM] = NULL
    numbers = np.unique(both, return_inverse=True)[1].ravel() * len(_KINDS)
    key, their_key = numbers[: len(mine)] + kind, numbers[len(mine) :] + kinds[history.action[theirs]]
    time, their_time = events.time[mine], _times(trace, history)[theirs]
    size, their_size = np.abs(events.bytes[mine]), history.size[theirs]
    axis = Axis.around(np.append(time, their_time), np.append(time, their_time))
    position = axis.position(their_key, their_time)
    order = np.argsort(position, kind="stable")
    position = position[order]

    def is_same(row: Int64, other: Int64) -> Bool:
        spare = size[row] - their_size[other]
        same: Bool = (their_key[other] == key[row]) & (spare >= 0) & (spare <= MAX_SLACK)
        return same

    # What could be the same within a second, of so many events that there are not too many pairs.
    low, high = (np.searchsorted(position, axis.position(key, time + each)) for each in (-MAX_CLOCKS_NS, MAX_CLOCKS_NS))
    some = np.arange(0, len(mine), max(int((high - low).sum()) // MAX_PAIRS, 1))
    low, many = low[some], (high - low)[some]
    row = np.repeat(some, many)
    other = order[np.arange(len(row)) + np.repeat(low + many - np.cumsum(many), many)]
    fits = is_same(row, other)
    row, other = row[fits], other[fits]
    best = np.full(len(mine), -1, np.int64)
    if not len(row):
        return best, best[:0]
    # The difference of the clocks is the one that most pairs have, of several such the least.
    apart = np.sort(their_time[other] - time[row])
    votes = np.searchsorted(apart, apart + ALIKE_NS, side="right") - np.searchsorted(apart, apart - ALIKE_NS)
    best_votes = apart[votes == votes.max()]
    offset = best_votes[np.abs(best_votes).argmin()]
    offset = int(np.median(apart[np.abs(apart - offset) <= ALIKE_NS]))
    nearest = np.full(len(mine), MAX_APART_NS, np.int64)
    at, rows = np.searchsorted(position, axis.position(key, time + offset)), np.arange(len(mine))
    for neighbour in (at - 1, at):
        other = order[np.clip(neighbour, 0, len(order) - 1)]
        apart = np.abs(their_time[other] - time - offset)
        fits = is_same(rows, other) & (apart < nearest)
        best[fits], nearest[fits] = other[fits], apart[fits]
    # One event of the history is one of the trace, the nearest.
    closest = np.lexsort((nearest, best))
    best[closest[1:][best[closest][1:] == best[closest][:-1]]] = -1
    pairs = best >= 0
    return np.where(pairs, theirs[best], -1), their_time[best[pairs]] - time[pairs]
