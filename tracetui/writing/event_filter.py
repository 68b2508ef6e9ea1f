"""Which events of the file make up a selection, also those that are in no column of a trace.

Metadata belongs to the lanes that it names, and what ends a slice to what began it. A few kinds of events are not
kept in columns at all; only these are looked at again, one by one, when the file is read for the second time.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool
from tracetui.model.trace import Trace
from tracetui.reading.decode import Number, number_of
from tracetui.reading.lanes import lane_text
from tracetui.reading.store import Store
from tracetui.writing.selection import Selection, Wanted, within

_THREAD_METADATA = ("thread_name", "thread_sort_index")
_CREATED, _DELETED = "N", "D"
"""Phases with which an object is created and deleted: where both are in the file, both are kept."""
_TIMED_PHASES = "Vvc()"
"""Phases that are not drawn here, which are kept by their time."""


class Decision(IntEnum):
    """Whether an event is written."""

    UNDECIDED = 0
    """To be decided by its content."""
    DROPPED = 1
    KEPT = 2


class EventHead(msgspec.Struct, gc=False):
    """The fields by which an event that is in no column is decided about."""

    ph: str = ""
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    id: Number = None


_head = msgspec.json.Decoder(EventHead)


class EventFilter:
    """Decides for every event of a file whether it is kept."""

    def __init__(self, trace: Trace, store: Store, wanted: Wanted, selection: Selection) -> None:
        self._wanted = wanted
        self._spans = selection.spans
        self._origin = trace.origin_us * 1000
        self._seen_metadata: set[bytes] = set()
        self._created: set[tuple[str, str | None, Number]] = set()
        self._processes, self._threads = _kept_lanes(trace, selection)
        self.decisions = _decisions(trace, store, wanted, selection)
        """A `Decision` for each event."""

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
            fresh = event not in self._seen_metadata
            self._seen_metadata.add(event)
            return fresh and self._names_kept(head)
        process = lane_text(head.pid)
        if not phase or process not in self._processes:
            return False
        if phase == _CREATED:
            self._created.add((process, head.name, head.id))
            return True
        if phase == _DELETED:
            return (process, head.name, head.id) in self._created or self._is_timely(head)
        return phase in _TIMED_PHASES and self._is_timely(head)

    def _names_kept(self, head: EventHead) -> bool:
        process = lane_text(head.pid)
        if head.name in _THREAD_METADATA:
            return (process, lane_text(head.tid)) in self._threads
        return process in self._processes

    def _is_timely(self, head: EventHead) -> bool:
        moment = number_of(head.ts) * 1000 - self._origin
        if not np.isfinite(moment):
            return not self._wanted.timed
        return bool(within(self._spans, np.array([moment], np.int64))[0])


def _kept_lanes(trace: Trace, selection: Selection) -> tuple[set[str], set[tuple[str, str]]]:
    """Processes and threads on which something is kept."""
    used = np.zeros(len(trace.lanes), bool)
    used[trace.slices.lane[selection.slices]] = True
    used[trace.instants.lane[selection.instants]] = True
    threads = {(lane.pid, lane.tid) for lane, is_used in zip(trace.lanes, used.tolist(), strict=True) if is_used}
    counted = zip(trace.counters, selection.counters, strict=True)
    return {pid for pid, _ in threads} | {counter.pid for counter, mask in counted if mask.any()}, threads


def _decisions(trace: Trace, store: Store, wanted: Wanted, selection: Selection) -> NDArray[np.uint8]:
    decisions = np.full(trace.events, Decision.KEPT if wanted.everything else Decision.UNDECIDED, np.uint8)
    if wanted.everything:
        return decisions

    def decide(event: NDArray[np.integer], kept: Bool) -> None:
        decisions[event] = np.where(kept, Decision.KEPT, Decision.DROPPED)

    decide(trace.slices.event, selection.slices)
    decide(trace.instants.event, selection.instants)
    decide(trace.flows.event, selection.flows)
    for counter, mask in zip(trace.counters, selection.counters, strict=True):
        # A sample may have several series: one that is wanted is enough.
        decisions[counter.event] = np.maximum(decisions[counter.event], np.where(mask, Decision.KEPT, Decision.DROPPED))
    begins, ends = store.pairs
    decisions[ends] = decisions[begins]
    if not trace.is_torch:
        left_out = trace.instants.event[~selection.instants]
        decisions[left_out] = Decision.UNDECIDED
    return decisions
