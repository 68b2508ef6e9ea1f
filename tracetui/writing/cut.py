"""A part of a trace as a new trace: events are chosen by the columns and copied as the bytes that they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.linking.autograd import PHASE_WORDS, phase_spans
from tracetui.linking.groups import combinations
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool
from tracetui.model.trace import Trace
from tracetui.reading.decode import Number, number_of
from tracetui.reading.lanes import lane_text
from tracetui.reading.store import Container, Store
from tracetui.tables.layers import PART_NAMES, layer_parts
from tracetui.writing.anonymizing import Anonymizer, anonymous_metadata
from tracetui.writing.output import Sink, write_events
from tracetui.writing.selection import Selection, Wanted, select, within

# The events of the file that make up a selection, also those that are in no column of a trace.
#
# Metadata goes with the lanes that it names, and the end of a slice with its begin. A few kinds of events are in no
# column; only these are decided one by one, when the file is read for the second time.

_THREAD_METADATA = ("thread_name", "thread_sort_index")
_CREATED, _DELETED = "N", "D"
"""Phases with which an object is created and deleted: where both are in the file, both are kept."""
_TIMED_PHASES = "Vvc()"
"""Phases that are in no column, kept by their time."""


class Decision(IntEnum):
    """Fate of an event."""

    UNDECIDED = 0
    """Decided by its content when the file is read again."""
    DROPPED = 1
    KEPT = 2


class EventHead(msgspec.Struct, gc=False):
    """The fields that decide about an event that is in no column."""

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
        """True where an undecided event is kept; of equal metadata only the first is."""
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


# Events without the call stacks in them; everything else of an event stays the bytes that it was.

ARGUMENTS = ("Call stack", "Module Hierarchy")
"""Arguments with the place in the program from which an operator was called."""
FIELDS = ("sf", "stack", "esf", "estack")
"""Fields of an event that hold its stack or the number of it."""

_STACK_NAMES = re.compile(b"|".join(b'"%s"' % name.encode() for name in (*ARGUMENTS, *FIELDS)))
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def without_stack(event: bytes) -> bytes:
    """The same event without its call stacks."""
    if not _STACK_NAMES.search(event):
        return event
    try:
        fields = _fields.decode(event)
        args = _fields.decode(fields["args"]) if "args" in fields else {}
    except msgspec.MsgspecError:
        # Arguments that are no object have no stack in a form that is known here.
        return event
    except UnicodeDecodeError:
        return without_stack(event.decode(errors="replace").encode())
    left = {name: value for name, value in args.items() if name not in ARGUMENTS}
    kept = {name: value for name, value in fields.items() if name not in FIELDS}
    if len(left) < len(args):
        kept["args"] = msgspec.Raw(msgspec.json.encode(left))
    elif len(kept) == len(fields):
        return event
    return msgspec.json.encode(kept)


@frozen(eq=True)
class Kept:
    """Counts of a part of a trace that was written."""

    events: int
    neighbours: int
    """Slices of other steps among them, which the numbers at the borders need."""
    added: int = 0
    """Slices of layers and phases beside them."""


def nothing_left(trace: Trace) -> str:
    """Sentence of the error where no event is in what was asked for."""
    return f"Nothing of {trace.label} is left: no slice, instant or counter is in what was asked for."


# Layers and phases as slices of lanes of their own, beside those that the profiler writes about itself: they are seen
# in every viewer, and no number of the trace counts them.


def lane_events(trace: Trace, selection: Selection) -> Iterator[bytes]:
    """The parts of steps that layers make up, and the parts of a step on each thread, as far as they are kept."""
    parts = layer_parts(trace)
    first = parts.kernels[parts.first] if len(parts) else parts.first
    of_series = combinations(parts.step, parts.series)
    count = np.zeros(len(of_series), np.int64)
    np.maximum.at(count, of_series.member, parts.layer)
    for row in np.flatnonzero(selection.slices[first]).tolist():
        name = PART_NAMES[int(parts.part[row])]
        if parts.layer[row]:
            name += f" {parts.layer[row]} of {count[of_series.member[row]]}"
        device = trace.lanes[int(trace.slices.lane[first[row]])].pid
        yield _span(trace, f"layers, GPU {device}", name, int(parts.start[row]), int(parts.end[row]))
    phases = phase_spans(trace)
    kept = np.flatnonzero(within(selection.spans, (phases.start + phases.end) // 2))
    # Forward is what operators cover: from the first to the last of these between other parts is one.
    key = np.stack([phases.lane[kept], phases.phase[kept], steps(trace).of_moment(phases.start[kept])])
    fresh = np.flatnonzero((np.diff(key, axis=1, prepend=-2) != 0).any(axis=0))
    for low, high in zip(kept[fresh].tolist(), kept[np.append(fresh[1:], len(kept)) - 1].tolist(), strict=True):
        thread, name = trace.lanes[int(phases.lane[low])].tid, PHASE_WORDS[int(phases.phase[low])]
        yield _span(trace, f"phases, thread {thread}", name, int(phases.start[low]), int(phases.end[high]))


def _span(trace: Trace, lane: str, name: str, start: int, end: int) -> bytes:
    moment = Decimal(start) / 1000 + Decimal(str(trace.origin_us))
    times = {"ts": msgspec.Raw(f"{moment:.3f}".encode()), "dur": (end - start) / 1000}
    return msgspec.json.encode({"ph": "X", "cat": "Trace", "name": name, "pid": "Spans", "tid": lane, **times})


class Cut:
    """A part of a trace, chosen and not yet written."""

    def __init__(
        self, trace: Trace, wanted: Wanted, anonymizer: Anonymizer | None = None, with_layers: bool = False
    ) -> None:
        """Choose the events; `with_layers` adds layers and phases as lanes.

        Raises: UsageError when there is no such step, or nothing is left.
        """
        assert isinstance(trace.store, Store), "only a trace that was read from somewhere can be cut"
        self._trace, self._store, self._wanted, self._anonymizer = trace, trace.store, wanted, anonymizer
        selection = select(trace, wanted)
        if selection.is_empty(trace):
            raise UsageError(nothing_left(trace))
        self._neighbours = selection.neighbours
        self._filter = EventFilter(trace, trace.store, wanted, selection)
        self._added = list(lane_events(trace, selection)) if with_layers else []

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> Kept:
        """Write it as a whole file; `progress` gets the number of events read, after every block.

        Raises: TraceError when the file of the trace has changed since it was read.
        """
        count = write_events(sink, self._container(), self.events(progress))
        return Kept(count - len(self._added), self._neighbours, len(self._added))

    def _container(self) -> Container:
        container = self._store.container
        metadata = dict(container.metadata)
        if self._anonymizer is not None:
            return Container(container.kind, metadata=anonymous_metadata(metadata))
        if not self._wanted.stacks and "stackFrames" in metadata:
            del metadata["stackFrames"]
            return Container(container.kind, metadata=metadata)
        return container

    def events(self, progress: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
        """The events that are kept, as JSON each, one block of the file being in memory at a time.

        Raises: TraceError when the file of the trace has changed since it was read.
        """
        decisions = self._filter.decisions
        for first, events in self._store.raw(decisions != Decision.DROPPED):
            progress(first)
            decision = decisions[first : first + len(events)]
            kept = [events[row] for row in np.flatnonzero(decision != Decision.DROPPED).tolist()]
            undecided = decision[decision != Decision.DROPPED] == Decision.UNDECIDED
            if undecided.any():
                kept = [
                    event
                    for event, is_open in zip(kept, undecided.tolist(), strict=True)
                    if not is_open or self._filter.keeps(event)
                ]
            if not self._wanted.stacks:
                kept = [without_stack(event) for event in kept]
            yield from kept if self._anonymizer is None else self._anonymizer.events(kept)
        yield from self._added
