"""What of a trace is wanted: some steps or a stretch of time, some lanes, with or without stacks.

A selection is made of the columns of the trace alone; `event_filter` says which bytes of the file these are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.errors import UsageError
from tracetui.linking.step_sources import no_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.reading.columns import MEMORY_INSTANTS
from tracetui.writing.flow_ends import wanted_flows
from tracetui.writing.step_slices import overlapping, step_slices

Range = tuple[float | None, float | None]
"""A first and a last value; an end that is None is open."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for; nothing at first, which is everything."""

    steps: Range | None = None
    """First and last number of the steps, both included."""
    window: Range | None = None
    """Start and end in ns from the start of the trace."""
    lanes: tuple[str, ...] = ()
    """Texts of which one must be in the name of a lane or of its process."""
    without: tuple[str, ...] = ()
    """Texts of which none may be."""
    stacks: bool = True
    memory: bool = True

    @property
    def everything(self) -> bool:
        """Whether no event is left out."""
        return self == Wanted()

    @property
    def timed(self) -> bool:
        """Whether events are left out because of when they were."""
        return self.steps is not None or self.window is not None


@dataclass(frozen=True, eq=False)
class Selection:
    """Masks over the columns of a trace."""

    slices: Bool
    instants: Bool
    flows: Bool
    counters: tuple[Bool, ...]
    """One for each of `Trace.counters`."""
    spans: tuple[Int64, Int64]
    """Starts and ends in ns of the stretches of time that were asked for; disjoint, ascending."""
    neighbours: int
    """How many of the slices belong to other steps and are there for the numbers at the borders."""

    def is_empty(self, trace: Trace) -> bool:
        """Whether nothing is in it but what the profiler notes about itself."""
        own = np.array([lane.kind != LaneKind.BOOKKEEPING for lane in trace.lanes], bool)
        slices, instants = self.slices & own[trace.slices.lane], self.instants & own[trace.instants.lane]
        return not (slices.any() or instants.any() or any(mask.any() for mask in self.counters))


def select(trace: Trace, wanted: Wanted) -> Selection:
    """Choose from a trace.

    Raises: UsageError when the trace has no such step.
    """
    neighbours = 0
    if wanted.steps is not None:
        needed = step_slices(trace, numbered(trace, wanted.steps))
        slices, spans, neighbours = needed.own | needed.neighbours, needed.spans, int(needed.neighbours.sum())
    else:
        low, high = wanted.window or (None, None)
        start, end = -np.inf if low is None else low, np.inf if high is None else high
        slices = overlapping(trace, start, end)
        spans = _span(start, end)
    lanes = _lanes(trace, wanted)
    slices &= lanes[trace.slices.lane]
    if not wanted.stacks:
        slices &= trace.slices.kind != Kind.PYTHON
    return Selection(
        slices=slices,
        instants=_instants(trace, spans, lanes, wanted.memory),
        flows=wanted_flows(trace, slices),
        counters=tuple(_counter(trace, index, spans, wanted) for index in range(len(trace.counters))),
        spans=spans,
        neighbours=neighbours,
    )


def _span(start: float, end: float) -> tuple[Int64, Int64]:
    """The moments in ns that lie in [start, end), as one span of whole numbers."""
    limits = np.iinfo(np.int64)
    low = limits.min if start < limits.min else -int(-start // 1)
    high = limits.max if end > limits.max else -int(-end // 1)
    return np.array([low], np.int64), np.array([high], np.int64)


def numbered(trace: Trace, wanted: Range) -> Int64:
    """Indices of the steps whose number lies in a range, both ends included.

    Raises: UsageError when there is none.
    """
    number = steps(trace).number
    low, high = wanted
    inside = np.ones(len(number), bool)
    if low is not None:
        inside &= number >= low
    if high is not None:
        inside &= number <= high
    found = np.flatnonzero(inside)
    if len(found):
        return found
    if len(number) == 0:
        raise UsageError(f"{no_steps(trace)} --window names a stretch of time.")
    known = ", ".join(map(str, np.unique(number)[:8].tolist())) + (" ..." if len(np.unique(number)) > 8 else "")
    raise UsageError(f"No step has such a number; the steps of this trace are numbered {known}.")


def within(spans: tuple[Int64, Int64], moment: Int64) -> Bool:
    """Which moments lie in one of the spans."""
    index = np.searchsorted(spans[0], moment, side="right") - 1
    return np.asarray((index >= 0) & (moment < spans[1][index]))


def _lanes(trace: Trace, wanted: Wanted) -> Bool:
    return np.array([_named(f"{lane.process} {lane.name}", wanted) for lane in trace.lanes], bool)


def _named(name: str, wanted: Wanted) -> bool:
    """Whether a lane of this name is wanted."""
    asked = not wanted.lanes or any(_holds(name, text) for text in wanted.lanes)
    return asked and not any(_holds(name, text) for text in wanted.without)


def _holds(name: str, text: str) -> bool:
    """Whether a name contains a text; a number counts whole, so that `stream 7` is not in `stream 70`."""
    first = r"(?<!\d)" if text[:1].isdigit() else ""
    last = r"(?!\d)" if text[-1:].isdigit() else ""
    return re.search(first + re.escape(text) + last, name, re.IGNORECASE) is not None


def _instants(trace: Trace, spans: tuple[Int64, Int64], lanes: Bool, memory: bool) -> Bool:
    """Those within the spans; what the profiler notes about itself stays."""
    instants = trace.instants
    noted = np.array([lane.kind == LaneKind.BOOKKEEPING for lane in trace.lanes], bool)
    mask = (within(spans, instants.time) | noted[instants.lane]) & lanes[instants.lane]
    if not memory:
        mask &= ~np.isin(instants.name, [trace.names.find(name) for name in MEMORY_INSTANTS])
    return np.asarray(mask)


def _counter(trace: Trace, index: int, spans: tuple[Int64, Int64], wanted: Wanted) -> Bool:
    """The samples within the spans, and the last one before each, which holds until then."""
    counter = trace.counters[index]
    if not _named(f"{counter.process} {counter.name}", wanted):
        return np.zeros(len(counter.time), bool)
    mask = within(spans, counter.time)
    last = np.searchsorted(counter.time, spans[0], side="right") - 1
    mask[last[last >= 0]] = True
    return mask
