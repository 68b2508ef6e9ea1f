"""What threads were in at any time, as the cause that a gap at that time has (R3.27).

Of slices that indicate a cause the one that comes first in `Cause` counts, wherever it stands among the slices around
it; where there is none, the innermost operator, runtime call or Python frame counts, and the wrapper of compiled code
is Python. The profiler's own cost is on no thread and counts on all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.idle.cause_words import Cause, named_slices
from tracetui.idle.slow_calls import slow_first, stalled_calls, start_up_calls
from tracetui.idle.waits import flush
from tracetui.linking.captures import captures
from tracetui.linking.frames import COMPILED_REGION
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.linking.stretches import Axis, Stretches
from tracetui.memory.copies import PAGEABLE, TO_HOST, bytes_of
from tracetui.model.intervals import Int64, union
from tracetui.model.native_nesting import insertion_index
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace

MIN_COPY_BYTES = 4096
"""Minimum bytes of a copy whose own time counts; what reads less only waits for the GPU."""
_NONE = len(Cause)
_BY_KIND = np.full(256, Cause.UNSEEN, np.int8)
_BY_KIND[[Kind.CPU_OP, Kind.RUNTIME, Kind.PYTHON]] = Cause.OPERATORS, Cause.CALLS, Cause.PYTHON


@dataclass(frozen=True, eq=False)
class ThreadCauses:
    """The causes that some threads would be of a gap; boundaries on the axis, each with the cause from there on."""

    axis: Axis
    home: Int64
    """Number on the axis of each lane of the trace, -1 for lanes that were not asked for."""
    position: Int64
    cause: NDArray[np.int8]

    def within(self, lane: Int64, low: Int64, high: Int64) -> tuple[Int64, Int64, Int64, NDArray[np.int8]]:
        """Windows [low, high) of lanes cut where the cause changes: index of the window, start, end and cause."""
        thread = self.home[lane]
        first = insertion_index(self.position, self.axis.position(thread, low), side="right") - 1
        last = insertion_index(self.position, self.axis.position(thread, high))
        # A window before or behind all slices begins and ends at one position, and is one part like any other.
        counts = np.where(high > low, np.maximum(last - first, 1), 0)
        window = np.repeat(np.arange(len(lane)), counts)
        index = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        head = np.ones(len(window), bool)
        head[1:] = window[1:] != window[:-1]
        # Only cuts need to be brought back from the axis: windows begin and end where they did.
        start = np.where(head, low[window], 0)
        inner = np.flatnonzero(~head)
        start[inner] = self.axis.moment(thread[window[inner]], self.position[index[inner]])
        stop = np.append(start[1:], 0)
        tail = np.append(head[1:], True) if len(head) else head
        stop = np.where(tail, high[window], stop)
        return window, start, stop, self.cause[index]


def thread_causes(trace: Trace, lanes: Int64, low: Int64, high: Int64) -> ThreadCauses:
    """The causes on some lanes, which ascend, within some windows [low, high) of time; elsewhere nothing is known."""
    slices = trace.slices
    axis = Axis.around(slices.start, slices.end)
    home = np.full(len(trace.lanes), -1, np.int64)
    home[lanes] = np.arange(len(lanes))
    inner, inner_cause = _innermost(trace, axis, home, union(low, high))
    outer, outer_cause = _indicated(trace, axis, home, len(lanes))
    position = np.sort(np.concatenate([inner, outer]), kind="stable")
    cause = outer_cause[insertion_index(outer, position, side="right") - 1]
    below = inner_cause[insertion_index(inner, position, side="right") - 1]
    cause = np.where(cause == _NONE, below, cause)
    changes = np.ones(len(cause), bool)
    changes[1:] = cause[1:] != cause[:-1]
    return ThreadCauses(axis, home, position[changes], cause[changes])


def indicating(trace: Trace) -> dict[Cause, Int64]:
    """For each cause that certain slices indicate these slices, ascending; in the order of `Cause`."""

    def find() -> dict[Cause, Int64]:
        found = named_slices(trace)
        pageable, small = _copies(trace)
        more = {
            # The first collective makes its communicator.
            Cause.START_UP: np.union1d(start_up_calls(trace), slow_first(trace, found[Cause.COMMUNICATION])),
            Cause.PAGEABLE: pageable,
            Cause.HOST_SYNC: small,
            Cause.STALLED: stalled_calls(trace),
        }
        for cause, rows in more.items():
            found[cause] = np.union1d(found.get(cause, rows[:0]), rows)
        return {cause: found[cause] for cause in sorted(found)}

    return trace.remember("indicating slices", find)


def _copies(trace: Trace) -> tuple[Int64, Int64]:
    """Calls of copies from or to pageable memory, and of those which only read a few bytes back; both ascend."""
    trace_links, slices = links(trace), trace.slices
    rows = trace_links.gpu[slices.kind[trace_links.gpu] == Kind.MEMCPY]
    rows = rows[trace_links.launch[rows] >= 0]
    rows = rows[is_named(trace, rows, PAGEABLE.search)]
    size = bytes_of(trace, rows)
    large = (size == NULL) | (size >= MIN_COPY_BYTES)
    small = ~large & is_named(trace, rows, TO_HOST.search)
    launch = trace_links.launch[rows].astype(np.int64)
    return np.unique(launch[large]), np.unique(launch[small])


def _indicated(trace: Trace, axis: Axis, home: Int64, count: int) -> tuple[Int64, NDArray[np.int8]]:
    """Boundaries of what certain slices indicate; `_NONE` where nothing does."""
    named = ((cause, rows) for cause, rows in indicating(trace).items() if len(rows))
    painted = [(cause, _on_threads(trace, axis, rows, home, count)) for cause, rows in named]
    # The last to be painted counts.
    painted.insert(0, (Cause.COMPILATION, _capturing(trace, axis, home)))
    edges = [side for _, stretches in painted for side in (stretches.starts, stretches.ends)]
    position = np.unique(np.concatenate([np.full(1, -1, np.int64), *edges]))
    cause = np.full(len(position), _NONE, np.int8)
    for each, stretches in reversed(painted):
        opened = np.bincount(insertion_index(position, stretches.starts), minlength=len(position))
        closed = np.bincount(insertion_index(position, stretches.ends), minlength=len(position))
        cause[np.cumsum(opened - closed) > 0] = each
    return position, cause


def _capturing(trace: Trace, axis: Axis, home: Int64) -> Stretches:
    """The time in which the threads capture graphs: whatever they call meanwhile, nothing of it runs."""
    every = captures(trace)
    thread = home[every.lane]
    mine = thread >= 0
    return Stretches.of(axis, thread[mine], every.start[mine], every.end[mine])


def _on_threads(trace: Trace, axis: Axis, rows: Int64, home: Int64, count: int) -> Stretches:
    """The slices on the threads; the profiler's cost is on all."""
    slices = trace.slices
    everywhere = rows[slices.kind[rows] == Kind.OVERHEAD]
    thread = home[slices.lane[rows]]
    rows, thread = rows[thread >= 0], thread[thread >= 0]
    thread = np.concatenate([thread, np.repeat(np.arange(count), len(everywhere))])
    rows = np.concatenate([rows, np.tile(everywhere, count)])
    return Stretches.of(axis, thread, slices.start[rows], slices.end[rows])


def _innermost(trace: Trace, axis: Axis, home: Int64, windows: tuple[Int64, Int64]) -> tuple[Int64, NDArray[np.int8]]:
    """Boundaries of the innermost operators, calls and frames, in order; the last of equal ones counts."""
    slices = trace.slices
    code = np.append(_BY_KIND[slices.kind], np.int8(Cause.UNSEEN))
    ops = np.flatnonzero(code[:-1] == Cause.OPERATORS)
    code[ops[is_named(trace, ops, COMPILED_REGION.search)]] = Cause.PYTHON
    code[steps(trace).row] = Cause.UNSEEN
    code[flush(trace)] = Cause.UNSEEN
    listed = code != Cause.UNSEEN
    listed[:-1] &= (home >= 0)[slices.lane] & (slices.dur > 0)
    rows = np.flatnonzero(listed)
    # Of two windows one behind the other a slice touches the first or both, or it lies between them.
    behind = insertion_index(windows[1], slices.start[rows], side="right")
    touches = behind < insertion_index(windows[0], slices.end[rows])
    listed[rows[~touches]] = False
    rows = rows[touches]
    around = _listed_parent(trace, rows, listed)
    starts = axis.position(home[slices.lane[rows]], slices.start[rows])
    ends = axis.position(home[slices.lane[rows]], _closed(trace, rows, around))
    # Of slices that end together the outermost comes last, so that what it lies in counts from there on.
    last = np.argsort(ends[::-1], kind="stable")
    position = np.concatenate([np.full(1, -1, np.int64), ends[::-1][last], starts])
    cause = np.concatenate([np.full(1, Cause.UNSEEN, np.int8), code[around][::-1][last], code[rows]])
    order = np.argsort(position, kind="stable")
    return position[order], cause[order]


def _listed_parent(trace: Trace, rows: Int64, listed: NDArray[np.bool_]) -> Int64:
    """The nearest listed slice around each; -1, which no slice has, for none."""
    around = trace.slices.parent[rows].astype(np.int64)
    hidden = np.flatnonzero((around >= 0) & ~listed[around])
    while len(hidden):
        around[hidden] = trace.slices.parent[around[hidden]]
        hidden = hidden[(around[hidden] >= 0) & ~listed[around[hidden]]]
    return around


def _closed(trace: Trace, rows: Int64, around: Int64) -> Int64:
    """The ends of the slices in ns; where one outlasts the slice around it, the end of that."""
    end = trace.slices.end.copy()
    inside = np.flatnonzero(around >= 0)
    while True:
        spilled = inside[end[rows[inside]] > end[around[inside]]]
        if len(spilled) == 0:
            return np.asarray(end[rows])
        end[rows[spilled]] = end[around[spilled]]
