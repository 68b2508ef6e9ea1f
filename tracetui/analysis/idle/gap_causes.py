"""The cause of every gap, by rules R3.27 to R3.29.

What delayed the CPU is looked up on the thread that launched the activity after the gap. Where slices of several causes
cover the same time, the cause that comes first in `Cause` counts, so that the shares of a gap add up. The profiler's
own cost is on no thread and counts on all. `cuda_sync` slices are ignored, since the calls on the thread say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.common.stretches import Axis, Stretches
from tracetui.analysis.idle.cause_words import WORDS, Cause, sorts_of, stream_waits
from tracetui.analysis.idle.idleness import Idleness, idleness
from tracetui.analysis.idle.waits import later_nodes, queue_depth, queueing
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, Trace

MIN_SLOW_LAUNCH_NS = 100_000
"""Minimum ns of a gap inside a slow launch call: a module is loaded, a graph uploaded (R3.28)."""
MIN_FULL_QUEUE = 1000
"""Launches in flight from which the driver makes the CPU wait (R3.28)."""
MAX_ORDINARY_LATENCY_RATIO = 3
"""Maximum ordinary latency, relative to the usual one (R3.29)."""
DEFAULT_LATENCY_NS = 8_000
"""Usual latency in ns where no launch of the trace found its stream idle: bare machines have 4 to 9 us (3(g))."""
MAX_NAMED_CAUSES = 4
"""Maximum causes listed per gap with their shares, the largest first."""


@dataclass(frozen=True, eq=False)
class GapCauses:
    """Causes of the gaps of `idleness(trace)`."""

    cause: NDArray[np.int8]
    """The `Cause` of each gap: that of the largest of its three parts, and within a late CPU the longest cause."""
    after_sync: Bool
    """Whether the gap began while the launching thread waited for the GPU, so that nothing was queued."""
    shares: NDArray[np.int32]
    """Ids in `texts`: the largest causes of each gap with their shares; -1 where none is known."""
    texts: Strings
    by_step: Int64
    """Sum in ns of each cause in the gaps of each step of `steps(trace)`; the last row is for gaps in no step."""
    spent: dict[Cause, Int64]
    """Time in ns of every gap that each cause explains; without the causes that explain nothing. Adds up to the gap."""


def gap_causes(trace: Trace) -> GapCauses:
    """The cause of every gap."""
    return trace.remember("gap causes", lambda: _explain(trace, idleness(trace)))


def usual_latency(trace: Trace) -> float:
    """The median latency in ns of launches for an idle stream: the floor of this machine."""
    queue = queueing(trace)
    free = queue.latency[(queue.stream_wait == 0) & (queue.latency > 0)]
    return float(np.median(free)) if len(free) else float(DEFAULT_LATENCY_NS)


def _explain(trace: Trace, idle: Idleness) -> GapCauses:
    spent, after_sync = _late(trace, idle)
    index = np.arange(len(idle))
    sort = _largest(spent)
    launch, waiting = _launch_cause(trace, idle), _waiting_cause(trace, idle)
    spent[launch, index] = idle.in_launch
    spent[waiting, index] = idle.waiting
    spent[Cause.UNKNOWN] = np.where(idle.known, 0, idle.dur)
    late = (idle.cpu_late >= idle.in_launch) & (idle.cpu_late >= idle.waiting)
    cause = np.select([~idle.known, late, idle.in_launch >= idle.waiting], [Cause.UNKNOWN, sort, launch], waiting)
    shares, texts = _share_texts(spent, idle.dur)
    parts = {Cause(number): spent[number] for number in np.flatnonzero(spent.any(axis=1)).tolist()}
    return GapCauses(cause.astype(np.int8), after_sync, shares, texts, _by_step(trace, idle, spent), parts)


def _by_step(trace: Trace, idle: Idleness, spent: Int64) -> Int64:
    step, count = step_index(trace, idle.after), len(steps(trace)) + 1
    sums = np.zeros((count, len(spent)), np.int64)
    for cause in np.flatnonzero(spent.any(axis=1)):
        sums[:, cause] = np.bincount(step % count, spent[cause], count)
    return sums


def _largest(spent: Int64) -> Int64:
    """The row with the largest value in each column, the first of equal ones."""
    used = np.flatnonzero(spent.any(axis=1))
    if len(used) == 0:
        return np.zeros(spent.shape[1], np.int64)
    largest: Int64 = used[np.argmax(spent[used], axis=0)]
    return largest


def _late(trace: Trace, idle: Idleness) -> tuple[Int64, Bool]:
    """For every `Cause` and gap the time in ns before the launch that it explains.

    And for every gap whether the thread was waiting for the GPU when the gap began.
    """
    slices = trace.slices
    after_sync = np.zeros(len(idle), bool)
    result = np.zeros((len(Cause), len(idle)), np.int64)
    late = np.flatnonzero(idle.cpu_late)
    home = slices.lane[idle.launch[late]]
    lanes = distinct(home)
    thread, low = np.searchsorted(lanes, home), idle.start[late]
    high = low + idle.cpu_late[late]
    axis = Axis.around(slices.start, slices.end)
    sofar = Stretches.of(axis, lanes[:0], low[:0], low[:0])
    before = np.zeros(len(late), np.int64)
    for cause, rows in sorts_of(trace):
        if len(rows) == 0:
            continue
        sofar = sofar.joined(_on_threads(trace, axis, rows, lanes))
        covered = sofar.covered(thread, low, high)
        if cause == Cause.HOST_SYNC:
            after_sync[late] = sofar.covered(thread, low, low + 1) > 0
        result[cause, late], before = covered - before, covered
    result[Cause.UNSEEN, late] = high - low - before
    after_sync[late] |= _blocked(trace, idle)[late]
    return result, after_sync


def _blocked(trace: Trace, idle: Idleness) -> Bool:
    """Whether the thread was still in the call that asked for the copy before the gap when that copy ended."""
    slices, before = trace.slices, idle.before
    asked = links(trace).launch[before]
    same = (asked >= 0) & (slices.lane[asked] == slices.lane[idle.launch]) & (slices.kind[before] == Kind.MEMCPY)
    return np.asarray(same & (slices.end[asked] > idle.start))


def _on_threads(trace: Trace, axis: Axis, rows: Int64, lanes: Int64) -> Stretches:
    """The slices on those lanes, which are numbered from 0 in the order given; the profiler's cost is on all."""
    slices = trace.slices
    everywhere = rows[slices.kind[rows] == Kind.OVERHEAD]
    home = np.full(len(trace.lanes), -1, np.int64)
    home[lanes] = np.arange(len(lanes))
    thread = home[slices.lane[rows]]
    rows, thread = rows[thread >= 0], thread[thread >= 0]
    thread = np.concatenate([thread, np.repeat(np.arange(len(lanes)), len(everywhere))])
    rows = np.concatenate([rows, np.tile(everywhere, len(lanes))])
    return Stretches.of(axis, thread, slices.start[rows], slices.end[rows])


def _launch_cause(trace: Trace, idle: Idleness) -> Int64:
    """The cause of the time inside the launch call of each gap (R3.28)."""
    if len(idle) == 0:
        return np.empty(0, np.int64)
    trace_links = links(trace)
    index = np.searchsorted(trace_links.launches, np.where(idle.known, idle.launch, 0))
    full = np.append(queue_depth(trace), 0)[index] >= MIN_FULL_QUEUE
    slow = np.where(full, Cause.FULL_QUEUE, Cause.SLOW_LAUNCH)
    return np.where(idle.in_launch > MIN_SLOW_LAUNCH_NS, slow, Cause.LAUNCH)


def _waiting_cause(trace: Trace, idle: Idleness) -> Int64:
    """The cause of the time after the launch call of each gap (R3.29)."""
    ordinary = idle.waiting <= MAX_ORDINARY_LATENCY_RATIO * usual_latency(trace)
    causes = [Cause.GRAPH, Cause.LATENCY, Cause.STREAM]
    return np.select([later_nodes(trace, idle.after), ordinary, _told_to_wait(trace, idle)], causes, Cause.SCHEDULING)


def _told_to_wait(trace: Trace, idle: Idleness) -> Bool:
    """Whether the thread made some stream wait for an event since the previous launch on the same stream.

    The call does not name the stream: that it was this one is a guess.
    """
    trace_links, slices = links(trace), trace.slices
    waits, work = stream_waits(trace), trace_links.launched
    if len(waits) == 0 or len(idle) == 0:
        return np.zeros(len(idle), bool)
    launched = slices.start[trace_links.launch[work]]
    order = np.lexsort((launched, slices.lane[work]))
    same = slices.lane[work[order[1:]]] == slices.lane[work[order[:-1]]]
    previous = np.full(len(slices), int(slices.start.min()), np.int64)
    previous[work[order[1:][same]]] = launched[order[:-1][same]]
    axis = Axis.around(slices.start, slices.end)
    points = axis.position(slices.lane[waits], slices.start[waits])
    lane = slices.lane[idle.launch]
    first = np.searchsorted(points, axis.position(lane, previous[idle.after]))
    last = np.searchsorted(points, axis.position(lane, slices.start[idle.launch]))
    return np.asarray(last > first)


def _share_texts(spent: Int64, dur: Int64) -> tuple[NDArray[np.int32], Strings]:
    """`operators 63 %, launch call 30 %` for every gap; shares below half a percent are left out."""
    used = np.flatnonzero(spent.any(axis=1))
    left, index = spent[used], np.arange(len(dur))
    key = np.zeros(len(dur), np.int64)
    for position in range(MAX_NAMED_CAUSES if len(dur) else 0):
        largest = np.argmax(left, axis=0)
        share = np.rint(100 * left[largest, index] / dur).astype(np.int64)
        left[largest, index] = 0
        key |= np.where(share > 0, used[largest] * 101 + share, 0) << (12 * position)
    keys, member = np.unique(key, return_inverse=True)
    texts = Strings()
    ids = [texts.intern(_share_text(number)) if number else -1 for number in keys.tolist()]
    return np.array(ids, np.int32)[member], texts


def _share_text(key: int) -> str:
    parts = []
    while key:
        cause, share = divmod(key & 0xFFF, 101)
        parts.append(f"{WORDS[cause]} {share} %")
        key >>= 12
    return ", ".join(parts)
