"""Which events of the file make up a selection, also those that are in no column of a trace.

Metadata belongs to the lanes that it names, and what ends a slice to what began it. A few kinds of events are not
kept in columns at all; only these are looked at again, one by one, when the file is read for the second time.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.importers.decode import Number, number_of
from tracetui.importers.lanes import lane_text
from tracetui.importers.store import Store
from tracetui.model.intervals import Bool
from tracetui.model.trace import Trace
from tracetui.writing.selection import Selection, Wanted, within

_OF_THREADS = ("thread_name", "thread_sort_index")
_MADE, _DELETED = "N", "D"
"""Phases with which the life of an object begins and ends: where both are in the file, both are kept."""
_MOMENTS = "Vvc()"
"""Phases without a picture here, which are kept by their time."""


class Fate(IntEnum):
    """What becomes of an event."""

    UNDECIDED = 0
    """To be decided by its content."""
    DROPPED = 1
    KEPT = 2


class Head(msgspec.Struct, gc=False):
    """What decides about an event that is in no column."""

    ph: str = ""
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    id: Number = None


_head = msgspec.json.Decoder(Head)


class Choice:
    """Tells for every event of a file whether it is kept."""

    def __init__(self, trace: Trace, store: Store, wanted: Wanted, selection: Selection) -> None:
        self._wanted = wanted
        self._spans = selection.spans
        self._origin = trace.origin_us * 1000
        self._seen: set[bytes] = set()
        self._made: set[tuple[str, str | None, Number]] = set()
        self._processes, self._threads = _places(trace, selection)
        self.fates = _fates(trace, store, wanted, selection)
        """A `Fate` for each event."""

    def keeps(self, event: bytes) -> bool:
        """Decide about an undecided event; metadata that says the same a second time is not kept."""
        if self._wanted.everything:
            return True
        try:
            head = _head.decode(event)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        phase = head.ph[:1]
        if phase == "M":
            fresh = event not in self._seen
            self._seen.add(event)
            return fresh and self._names_kept(head)
        process = lane_text(head.pid)
        if not phase or process not in self._processes:
            return False
        if phase == _MADE:
            self._made.add((process, head.name, head.id))
            return True
        if phase == _DELETED:
            return (process, head.name, head.id) in self._made or self._is_timely(head)
        return phase in _MOMENTS and self._is_timely(head)

    def _names_kept(self, head: Head) -> bool:
        process = lane_text(head.pid)
        if head.name in _OF_THREADS:
            return (process, lane_text(head.tid)) in self._threads
        return process in self._processes

    def _is_timely(self, head: Head) -> bool:
        moment = number_of(head.ts) * 1000 - self._origin
        if not np.isfinite(moment):
            return not self._wanted.timed
        return bool(within(self._spans, np.array([moment], np.int64))[0])


def _places(trace: Trace, selection: Selection) -> tuple[set[str], set[tuple[str, str]]]:
    """Processes and threads on which something is kept."""
    used = np.zeros(len(trace.lanes), bool)
    used[trace.slices.lane[selection.slices]] = True
    used[trace.instants.lane[selection.instants]] = True
    threads = {(lane.pid, lane.tid) for lane, is_used in zip(trace.lanes, used.tolist(), strict=True) if is_used}
    counted = zip(trace.counters, selection.counters, strict=True)
    return {pid for pid, _ in threads} | {counter.pid for counter, mask in counted if mask.any()}, threads


def _fates(trace: Trace, store: Store, wanted: Wanted, selection: Selection) -> NDArray[np.uint8]:
    fates = np.full(trace.events, Fate.KEPT if wanted.everything else Fate.UNDECIDED, np.uint8)
    if wanted.everything:
        return fates

    def decide(event: NDArray[np.integer], kept: Bool) -> None:
        fates[event] = np.where(kept, Fate.KEPT, Fate.DROPPED)

    decide(trace.slices.event, selection.slices)
    decide(trace.instants.event, selection.instants)
    decide(trace.flows.event, selection.flows)
    for counter, mask in zip(trace.counters, selection.counters, strict=True):
        # A sample may have several series: one that is wanted is enough.
        fates[counter.event] = np.maximum(fates[counter.event], np.where(mask, Fate.KEPT, Fate.DROPPED))
    begins, ends = store.pairs
    fates[ends] = fates[begins]
    if not trace.is_torch:
        left_out = trace.instants.event[~selection.instants]
        fates[left_out] = Fate.UNDECIDED
    return fates
