"""A part of a trace as a new trace: events are chosen by the columns and copied as the bytes that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.errors import UsageError
from tracetui.model.trace import Trace
from tracetui.reading.store import Container, Store
from tracetui.writing.container import Sink, write_events
from tracetui.writing.event_filter import Decision, EventFilter
from tracetui.writing.events import Anonymizer
from tracetui.writing.selection import Wanted, select
from tracetui.writing.stacks import without_stack


@dataclass(frozen=True)
class Kept:
    """How much of a trace was written."""

    events: int
    neighbours: int
    """Slices of other steps among them, on which the numbers at the borders rest."""


def nothing_left(trace: Trace) -> str:
    """Why nothing is written, as a sentence."""
    return f"Nothing of {trace.label} is left: no slice, instant or counter is in what was asked for."


class Cut:
    """A part of a trace, chosen and not yet written."""

    def __init__(self, trace: Trace, wanted: Wanted, anonymizer: Anonymizer | None = None) -> None:
        """Choose the events.

        Raises: UsageError when there is no such step, or nothing is left.
        """
        assert isinstance(trace.store, Store), "only a trace that was read from somewhere can be cut"
        self._trace, self._store, self._wanted, self._anonymizer = trace, trace.store, wanted, anonymizer
        selection = select(trace, wanted)
        if selection.is_empty(trace):
            raise UsageError(nothing_left(trace))
        self._neighbours = selection.neighbours
        self._filter = EventFilter(trace, trace.store, wanted, selection)

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> Kept:
        """Write it as a whole file; `progress` hears after every block how many events have been gone through.

        Raises: TraceError when the file of the trace has changed since it was read.
        """
        events = self.events(progress)
        container = self._container()
        count = write_events(sink, container, events)
        return Kept(count, self._neighbours)

    def _container(self) -> Container:
        container = self._store.container
        metadata = dict(container.metadata)
        if self._anonymizer is not None:
            return Container(container.kind, metadata=self._anonymizer.metadata(metadata))
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
