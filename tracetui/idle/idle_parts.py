"""The partition of idle time: every part of every gap has exactly one cause (R3.27 to R3.29).

What delayed the CPU is looked up on the thread that launched the activity after the gap, and where that thread has no
slice on the thread that launched the activity before it, or on the main thread. Gaps of a millisecond and more are cut
where the cause changes. A shorter gap is one part with the cause that covers most of it: then launch overhead is
weighed as one cause, with the launch latency of a late launch, and belongs to the wait for the GPU where the gap began
in one.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.idle.thread_causes import ThreadCauses, indicating_slices, stalled_calls, start_up_calls, thread_causes
from tracetui.idle.waits import (
    MIN_FULL_QUEUE,
    OVERHEAD,
    STREAM_WAIT,
    Cause,
    Idleness,
    device_order,
    idleness,
    queue_depth,
    queueing,
    unrecorded_holes,
)
from tracetui.linking.groups import distinct
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import before_capture, step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, is_named, lane_axis, lane_numbers
from tracetui.model.intervals import Bool, Int64, run_starts, union
from tracetui.model.native import insertion_index
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace

# How far the clock of the GPUs runs ahead of that of the CPU, from the least delays of launches (R3.63).
#
# A kernel cannot start before its launch, and on an idle stream it starts some microseconds after. Where the floor
# over hundreds of launches is far from that, the clocks disagree: by how much is known to a few microseconds. No
# launch of the trace may contradict it: a clock that is ahead is ahead by less than the smallest delay of all.

MIN_LAUNCHES = 100
"""Minimum launches of one call for one stream, made while the stream was idle, that show a floor."""
FLOOR_PERCENT = 1.0
"""Percent of these that may lie below the floor: single records may be wrong."""
MIN_FLOOR_NS, MAX_FLOOR_NS = 0, 10_000
"""Range of floors that need no skew, in ns."""
MAX_GAP_FLOOR_NS = 20_000
"""Maximum floor of activities behind gaps that needs no skew, in ns, where no stream was idle at a launch."""
TRUE_FLOOR_NS = 5_000
"""Floor of most machines, in ns: what lies beyond it is put down to the clocks."""


MIN_PAUSE_NS = 5_000
"""Minimum ns for which a device did nothing before an activity that had been launched: queued ones follow sooner."""


@kept(on_disk=True)
def clock_skew(trace: Trace) -> int:
    """Time in ns by which GPU times are ahead of CPU times; negative where they are behind, 0 where nothing shows."""
    queue = queueing(trace)
    free = np.flatnonzero(queue.stream_wait == 0)
    floor, most = _floor(trace, links(trace).first[free], queue.latency[free]), MAX_FLOOR_NS
    if floor is not None and floor < MIN_FLOOR_NS:
        return floor - TRUE_FLOOR_NS
    if floor is None:
        floor, most = _floor(trace, *_behind_gaps(trace)), MAX_GAP_FLOOR_NS
    if floor is None:
        return 0
    # A clock that is ahead delays every start: what one launch did not wait for is no clock.
    floor = min(floor, int(queue.latency.min()))
    return floor - TRUE_FLOOR_NS if floor > most else 0


def _behind_gaps(trace: Trace) -> tuple[Int64, Int64]:
    """First activities of launches before which device and stream were idle, and the time from the call to each.

    Where the clock of the GPU is ahead, they look queued behind an activity that had ended long before they started.
    """
    slices, idle, calls = trace.slices, idleness(trace), links(trace)
    after = idle.after
    # Graphs take longer to start.
    kept = (idle.dur >= MIN_PAUSE_NS) & (idle.launch >= 0) & np.isin(after, calls.first[calls.counts == 1])
    kept &= (idle.before >= 0) & (slices.lane[idle.before] == slices.lane[after])
    return after[kept], slices.start[after[kept]] - slices.start[idle.launch[kept]]


def _floor(trace: Trace, rows: Int64, latency: Int64) -> int | None:
    """The least of the floors of all streams and calls, in ns; None where there are too few launches."""
    slices = trace.slices
    if len(rows) < MIN_LAUNCHES:
        return None
    key = slices.lane[rows].astype(np.int64) * len(trace.names) + slices.name[links(trace).launch[rows]]
    _, member, counts = np.unique(key, return_inverse=True, return_counts=True)
    enough = np.flatnonzero(counts >= MIN_LAUNCHES)
    floors = [np.percentile(latency[member == number], FLOOR_PERCENT) for number in enough.tolist()]
    return int(min(floors)) if floors else None


MIN_SPLIT_GAP_NS = 1_000_000
"""Minimum length in ns of a gap that is split where causes change."""
MIN_LONG_GAP_NS = 1_000_000
"""Minimum ns without an operator or a call that are a cause of their own, not part of the way to a launch."""
MIN_PEER_WAIT_NS = 1_000_000
"""Minimum ns in a communication call that are a wait for other processes."""
MIN_LOOKED_UP_NS = 10_000
"""Minimum ns without a slice on the launching thread for which another thread is looked up."""
MIN_SLOW_LAUNCH_NS = 100_000
"""Minimum ns of a gap inside a slow launch call: a module is loaded, a graph uploaded (R3.28)."""
MAX_ORDINARY_LATENCY_RATIO = 3
"""Maximum ordinary latency, relative to the usual one (R3.29)."""
MAX_START_NS = 1_000_000
"""Maximum ns from the first event of a trace to launches as the capture began."""
DEFAULT_LATENCY_NS = 8_000
"""Usual latency in ns where no launch of the trace found its stream idle: bare machines have 4 to 9 us (3(g))."""
MAX_USUAL_LATENCY_NS = 100_000
"""Maximum usual latency in ns: virtual machines have 26 us (3(g)); what takes longer waited for something."""
_TO_DEVICE = re.compile("HtoD|HostToDevice")
"""Names of copies that no thread waits for."""
_ELSEWHERE = (
    Cause.DATA_LOADING,
    Cause.START_UP,
    Cause.MEMORY,
    Cause.COMPILATION,
    Cause.OPTIMIZER,
    Cause.OPERATORS,
    Cause.CALLS,
    Cause.PYTHON,
)
"""Causes that count on another thread than the launching one; a wait there may be for the launching thread."""


@frozen
class IdleParts(Parallel):
    """Parts of gaps: disjoint, covering the gaps exactly, in order of gap and time; parallel arrays, times in ns."""

    gap: Int64
    """Index in `idleness(trace)`."""
    start: Int64
    end: Int64
    cause: NDArray[np.int8]
    """A `Cause`."""
    lane: Int64
    """The thread on which the cause was seen, -1 for none."""

    @property
    def dur(self) -> Int64:
        """Length of each part."""
        return self.end - self.start

    def take(self, index: NDArray[np.integer] | Bool) -> IdleParts:
        """Some of the parts."""
        return IdleParts(self.gap[index], self.start[index], self.end[index], self.cause[index], self.lane[index])


@kept(on_disk=True)
def idle_parts(trace: Trace) -> IdleParts:
    """The partition of all gaps."""
    idle, seen, main = idleness(trace), idle_contents(trace), main_causes(trace)
    split = idle.dur >= MIN_SPLIT_GAP_NS
    whole = np.flatnonzero(~split)
    lane = trace.slices.lane[idle.launch[whole]] if len(idle) else whole
    lane = np.where(idle.known[whole], lane, -1).astype(np.int64)
    short = IdleParts(whole, idle.start[whole], idle.end[whole], main[whole], lane)
    return _in_order([seen.take(split[seen.gap]), short])


@kept
def idle_contents(trace: Trace) -> IdleParts:
    """All gaps cut wherever something else begins, however short they are: what there was in each."""
    idle, skew = idleness(trace), clock_skew(trace)
    lane, called, returned = _launched(trace, idle, skew)
    known = lane >= 0
    called = np.clip(called, idle.start, idle.end)
    returned = np.clip(returned, called, idle.end)
    late = np.flatnonzero(known & (called > idle.start))
    main = _main_threads(trace)
    launching = trace.slices.lane[links(trace).launches].astype(np.int64)
    lanes = distinct(np.concatenate([lane[known], launching, main[main >= 0]]))
    threads = thread_causes(trace, lanes, idle.start[late] - skew, called[late] - skew)
    parts = _late(threads, late, lane[late], idle.start[late] - skew, called[late] - skew, skew)
    parts = _looked_up(trace, idle, threads, parts, skew)
    inside = np.flatnonzero(known & (returned > called))
    after = np.flatnonzero(known & (idle.end > returned))
    lost = np.flatnonzero(~known)
    unknown = np.where(np.isin(idle.after[lost], before_capture(trace)), Cause.BEFORE_CAPTURE, Cause.UNKNOWN)
    in_launch = _in_launch(trace, idle, inside, returned - called)
    in_calls = IdleParts(inside, called[inside], returned[inside], in_launch, lane[inside])
    all_parts = [
        parts,
        *_without_profiler(trace, in_calls, skew),
        IdleParts(
            after, returned[after], idle.end[after], _waiting(trace, idle, after, idle.end - returned), lane[after]
        ),
        IdleParts(lost, idle.start[lost], idle.end[lost], unknown.astype(np.int8), lane[lost]),
    ]
    return _long_stretches(idle, _in_order(_with_holes(trace, all_parts)))


@kept
def idle_by_cause(trace: Trace) -> dict[Cause, Int64]:
    """Time in ns of every gap that each cause has; without causes that do not occur. Adds up to the gap."""
    return sums_by_cause(trace, idle_parts(trace))


@kept
def idle_by_step(trace: Trace) -> Int64:
    """Sum in ns of each cause in the gaps of each step of `steps(trace)`; the last row is for gaps in no step."""
    count = len(steps(trace)) + 1
    step = step_index(trace, idleness(trace).after) % count
    sums = np.zeros((count, len(Cause)), np.int64)
    for cause, times in idle_by_cause(trace).items():
        sums[:, cause] = np.bincount(step, times, count)
    return sums


def sums_by_cause(trace: Trace, parts: IdleParts) -> dict[Cause, Int64]:
    """For each cause that occurs in the parts its time in ns in every gap."""
    count = len(idleness(trace))
    present = [Cause(number) for number in np.flatnonzero(np.bincount(parts.cause, minlength=1)).tolist()]
    sums, dur = {}, parts.dur
    for cause in present:
        mine = np.flatnonzero(parts.cause == cause)
        sums[cause] = np.zeros(count, np.int64)
        np.add.at(sums[cause], parts.gap[mine], dur[mine])
    return sums


@kept(on_disk=True)
def main_causes(trace: Trace) -> NDArray[np.int8]:
    """The cause of each gap: that which covers most of it, weighed as short gaps are where it is short."""
    idle, sums = idleness(trace), sums_by_cause(trace, idle_contents(trace))
    short = idle.dur < MIN_SPLIT_GAP_NS
    nothing = np.zeros(len(idle), np.int64)
    late = sum((sums.get(cause, nothing) for cause in OVERHEAD), start=nothing)
    lines = {cause: spent for cause, spent in sums.items() if cause not in OVERHEAD}
    latency = sums.get(Cause.LATENCY, nothing)
    late = late + np.where(late > 0, latency, 0)
    synced = np.where(after_sync(trace) & short, late, 0)
    finer = _largest({cause: sums[cause] for cause in (*OVERHEAD, Cause.LATENCY) if cause in sums}, len(idle))
    short_lines = lines | {
        Cause.HOST_SYNC: sums.get(Cause.HOST_SYNC, nothing) + synced,
        Cause.UNSEEN: np.where(synced > 0, 0, late),
        Cause.LATENCY: np.where(late > 0, 0, latency),
    }
    line = _largest(short_lines, len(idle))
    line = np.where(line == Cause.UNSEEN, finer, line)
    return np.where(short, line, _largest(sums, len(idle))).astype(np.int8)


@kept(on_disk=True)
def after_sync(trace: Trace) -> Bool:
    """Mask of the gaps that began while the launching thread waited for the GPU, so that nothing was queued."""
    idle, slices, trace_links = idleness(trace), trace.slices, links(trace)
    if len(idle) == 0:
        return np.zeros(0, bool)
    # A wait that ended as the device ran dry, in the time of the CPU.
    moment = idle.start - clock_skew(trace)
    syncs = indicating_slices(trace)[Cause.HOST_SYNC]
    axis = lane_axis(trace)
    open_waits = Stretches.of(axis, slices.lane[syncs], slices.start[syncs], slices.end[syncs])
    lane = np.where(idle.known, slices.lane[idle.launch], 0).astype(np.int64)
    waited = open_waits.covered(lane, moment, moment + 1) > 0
    # A thread that had nothing to do yet was waiting for the one that waited for the GPU.
    seen, every = idle_contents(trace), np.arange(len(idle))
    head = np.flatnonzero(np.diff(seen.gap, prepend=-1))
    absent = (seen.lane[head] != lane) | (seen.cause[head] == Cause.UNSEEN)
    other = _other_thread(trace, idle, every, lane)
    waited |= absent & (other >= 0) & (open_waits.covered(np.maximum(other, 0), moment, moment + 1) > 0)
    asked = trace_links.launch[idle.before]
    held = (asked >= 0) & (slices.lane[asked] == lane) & (slices.kind[idle.before] == Kind.MEMCPY)
    held &= ~is_named(trace, idle.before, _TO_DEVICE.search) & (slices.end[asked] > moment)
    late = slices.start[idle.launch] > moment
    return np.asarray((waited | held) & idle.known & late)


@kept(on_disk=True)
def late_gaps(trace: Trace) -> Bool:
    """Mask of the gaps during which the activity after them was launched."""
    seen, late = idle_contents(trace), np.zeros(len(idleness(trace)), bool)
    late[seen.gap[seen.cause < Cause.LATENCY]] = True
    return late


def usual_latency(trace: Trace) -> float:
    """The median latency in ns of kernels launched one by one for an idle stream: the floor of this machine."""
    queue, trace_links = queueing(trace), links(trace)
    alone = (trace.slices.kind[trace_links.first] == Kind.KERNEL) & (trace_links.counts == 1)
    latency = queue.latency[(queue.stream_wait == 0) & alone] - clock_skew(trace)
    free = latency[latency > 0]
    # Where most of them waited for something else, those that did not are what is usual.
    if len(free) and np.median(free) > MAX_USUAL_LATENCY_NS:
        free = free[free <= MAX_USUAL_LATENCY_NS]
    return float(np.median(free)) if len(free) else float(DEFAULT_LATENCY_NS)


def _largest(sums: dict[Cause, Int64], count: int) -> NDArray[np.int8]:
    """The cause with the longest time in each gap, the first of equal ones."""
    best, most = np.full(count, Cause.UNKNOWN, np.int8), np.zeros(count, np.int64)
    for cause in sorted(sums):
        more = sums[cause] > most
        best[more], most[more] = cause, sums[cause][more]
    return best


def _in_order(parts: list[IdleParts]) -> IdleParts:
    """All parts by gap, then time."""
    columns = [
        np.concatenate([getattr(each, name) for each in parts]) for name in ("gap", "start", "end", "cause", "lane")
    ]
    order = np.lexsort((columns[1], columns[0]))
    return IdleParts(*columns).take(order)


def _launched(trace: Trace, idle: Idleness, skew: int) -> tuple[Int64, Int64, Int64]:
    """The thread that launched the activity after each gap, and when its call began and returned on the GPU's clock.

    An activity without launch record whose successor was launched after the gap had begun was itself launched late:
    when is not known, and taken to be the usual latency before it started. The thread is -1 where nothing is known.
    """
    slices, launch = trace.slices, idle.launch.copy()
    if len(idle) == 0:
        return launch, launch, launch
    called, returned = slices.start[launch] + skew, slices.end[launch] + skew
    lost = np.flatnonzero(~idle.known)
    following = _next_launch(trace, idle.after[lost])
    late = (following >= 0) & (slices.start[following] + skew > idle.start[lost])
    late &= ~np.isin(idle.after[lost], before_capture(trace))
    lost, following = lost[late], following[late]
    launch[lost] = following
    called[lost] = returned[lost] = idle.end[lost] - int(usual_latency(trace))
    return np.where(launch >= 0, slices.lane[launch], -1).astype(np.int64), called, returned


def _next_launch(trace: Trace, rows: Int64) -> Int64:
    """The launch of the first later activity of the same device that has one, -1 for none."""
    order, launch = device_order(trace), links(trace).launch
    known = np.flatnonzero(launch[order.row] >= 0)
    index = np.empty(len(trace.slices), np.int64)
    index[order.row] = np.arange(len(order.row))
    following = np.searchsorted(known, index[rows])
    found = np.append(known, -1)[following]
    same = (found >= 0) & (order.device[found] == order.device[index[rows]]) if len(order.row) else found >= 0
    return np.where(same, launch[order.row[found]], -1).astype(np.int64)


def _late(threads: ThreadCauses, gap: Int64, lane: Int64, low: Int64, high: Int64, skew: int) -> IdleParts:
    """Causes on the threads in windows of CPU time, as parts of the gaps."""
    window, start, end, cause = threads.within(lane, low, high)
    return IdleParts(gap[window], start + skew, end + skew, cause, lane[window])


def _looked_up(trace: Trace, idle: Idleness, threads: ThreadCauses, parts: IdleParts, skew: int) -> IdleParts:
    """The parts in which the launching thread has no slice, divided by what the other thread did."""
    dark = np.flatnonzero((parts.cause == Cause.UNSEEN) & (parts.dur >= MIN_LOOKED_UP_NS))
    other = _other_thread(trace, idle, parts.gap[dark], parts.lane[dark])
    dark, other = dark[other >= 0], other[other >= 0]
    if len(dark) == 0:
        return parts
    seen = _late(threads, parts.gap[dark], other, parts.start[dark] - skew, parts.end[dark] - skew, skew)
    counted = np.isin(seen.cause, _ELSEWHERE)
    seen = replace(
        seen,
        cause=np.where(counted, seen.cause, Cause.UNSEEN).astype(np.int8),
        lane=np.where(counted, seen.lane, trace.slices.lane[idle.launch[seen.gap]]).astype(np.int64),
    )
    kept = np.ones(len(parts), bool)
    kept[dark] = False
    return _in_order([parts.take(kept), seen])


def _other_thread(trace: Trace, idle: Idleness, gap: Int64, lane: Int64) -> Int64:
    """The thread that launched the activity before each gap, else the main thread of the process; -1 for none."""
    slices, launch = trace.slices, links(trace).launch
    asked = launch[idle.before[gap]]
    before = np.where(asked >= 0, slices.lane[asked], -1)
    process = lane_numbers(trace).process
    main = _main_threads(trace)[process[lane]]
    other = np.where((before >= 0) & (before != lane), before, main)
    return np.where((other != lane) & (process[other] == process[lane]), other, -1).astype(np.int64)


def _main_threads(trace: Trace) -> Int64:
    """For each process the thread with its steps, else that with most launches; -1 for none."""
    process = lane_numbers(trace).process
    lanes = steps(trace).lane if len(steps(trace)) else trace.slices.lane[links(trace).launches]
    used = np.bincount(lanes, minlength=len(trace.lanes))
    main = np.full(int(process.max(initial=-1)) + 1, -1, np.int64)
    for lane in np.argsort(used, kind="stable").tolist():
        if used[lane]:
            main[process[lane]] = lane
    return main


def _in_launch(trace: Trace, idle: Idleness, gap: Int64, inside: Int64) -> NDArray[np.int8]:
    """The cause of the time inside the launch call of some gaps (R3.28)."""
    trace_links, launch = links(trace), idle.launch[gap]
    index = insertion_index(trace_links.launches, launch)
    full = queue_depth(trace)[index] >= MIN_FULL_QUEUE
    slow = np.where(full, Cause.FULL_QUEUE, Cause.SLOW_LAUNCH)
    cause = np.where(inside[gap] > MIN_SLOW_LAUNCH_NS, slow, Cause.LAUNCH)
    special = indicating_slices(trace)
    for each in (Cause.PAGEABLE, Cause.START_UP):
        cause = np.where(np.isin(launch, special[each]), each, cause)
    stalled = np.isin(launch, stalled_calls(trace)) & ~np.isin(launch, start_up_calls(trace))
    return np.where(stalled, Cause.STALLED, cause).astype(np.int8)


def _without_profiler(trace: Trace, parts: IdleParts, skew: int) -> list[IdleParts]:
    """The parts inside launch calls, divided where the profiler was busy with itself: it asks for buffers there."""
    slices, rows = trace.slices, indicating_slices(trace)[Cause.PROFILER]
    starts, ends = union(slices.start[rows] + skew, slices.end[rows] + skew)
    first, last = insertion_index(ends, parts.start, side="right"), insertion_index(starts, parts.end)
    touched = np.flatnonzero(last > first)
    if len(touched) == 0:
        return [parts]
    # Each part is cut at the edges of the stretches that it touches, into one piece more than there are edges.
    counts = 2 * (last - first)[touched] + 1
    index = np.repeat(touched, counts)
    piece = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    edges = np.stack([starts, ends], axis=1).ravel()
    edge = 2 * first[index] + piece
    low = np.where(piece == 0, parts.start[index], edges[edge - 1])
    high = np.where(piece == np.repeat(counts, counts) - 1, parts.end[index], np.append(edges, 0)[edge])
    cut = replace(
        parts.take(index),
        start=np.clip(low, parts.start[index], parts.end[index]),
        end=np.clip(high, parts.start[index], parts.end[index]),
        cause=np.where(piece % 2 == 1, Cause.PROFILER, parts.cause[index]).astype(np.int8),
    )
    whole = np.ones(len(parts), bool)
    whole[touched] = False
    return [parts.take(whole), cut.take(cut.end > cut.start)]


def _waiting(trace: Trace, idle: Idleness, gap: Int64, waiting: Int64) -> NDArray[np.int8]:
    """The cause of the time after the launch call of some gaps (R3.29)."""
    ordinary = waiting[gap] <= MAX_ORDINARY_LATENCY_RATIO * usual_latency(trace)
    trace_links, slices, after, inferred = links(trace), trace.slices, idle.after[gap], ~idle.known[gap]
    later_node = (trace_links.launch[after] >= 0) & ~np.isin(after, trace_links.first)
    # The stream of an activity launched as the capture began may have been busy with what was not recorded.
    gpu = np.sort(trace_links.gpu)
    first_of_stream = np.isin(after, gpu[run_starts(slices.lane[gpu])])
    early = ~inferred & (slices.start[idle.launch[gap]] < trace.window[0] + MAX_START_NS)
    causes = [Cause.GRAPH, Cause.LATENCY, Cause.BEFORE_CAPTURE, Cause.STREAM]
    known = [later_node, ordinary | inferred, first_of_stream & early, told_to_wait(trace)[gap]]
    return np.select(known, causes, Cause.SCHEDULING).astype(np.int8)


@kept(on_disk=True)
def told_to_wait(trace: Trace) -> Bool:
    """Mask of the gaps before whose launch the thread made some stream wait for an event, since the previous launch on
    the same stream.

    The call does not name the stream: that it was this one is a guess.
    """
    idle = idleness(trace)
    trace_links, slices = links(trace), trace.slices
    waits, work = calls_named(trace, STREAM_WAIT), trace_links.launched
    if len(waits) == 0 or len(idle) == 0:
        return np.zeros(len(idle), bool)
    launched = slices.start[trace_links.launch[work]]
    order = np.lexsort((launched, slices.lane[work]))
    same = slices.lane[work[order[1:]]] == slices.lane[work[order[:-1]]]
    previous = np.full(len(slices), int(slices.start.min()), np.int64)
    previous[work[order[1:][same]]] = launched[order[:-1][same]]
    axis = lane_axis(trace)
    points = axis.position(slices.lane[waits], slices.start[waits])
    lane = slices.lane[idle.launch]
    first = insertion_index(points, axis.position(lane, previous[idle.after]))
    last = insertion_index(points, axis.position(lane, slices.start[idle.launch]))
    return np.asarray(last > first)


def _with_holes(trace: Trace, parts: list[IdleParts]) -> list[IdleParts]:
    """The parts, with the holes of graph replays as one part each."""
    holes = unrecorded_holes(trace)
    if len(holes.gap) == 0:
        return parts
    idle = idleness(trace)
    begin = idle.end.copy()
    begin[holes.gap] = holes.start
    cut = []
    for each in parts:
        end = np.minimum(each.end, begin[each.gap])
        cut.append(replace(each, end=end).take(end > each.start))
    cause = np.full(len(holes.gap), Cause.NOT_RECORDED, np.int8)
    end = idle.end[holes.gap]
    return [*cut, IdleParts(holes.gap, holes.start, end, cause, np.full(len(end), -1, np.int64))]


def _long_stretches(idle: Idleness, parts: IdleParts) -> IdleParts:
    """The parts with long stretches without an operator or a call named so, and long waits for peers."""
    quiet = np.isin(parts.cause, (Cause.UNSEEN, Cause.PYTHON)) & (idle.dur[parts.gap] >= MIN_LONG_GAP_NS)
    head = np.ones(len(parts), bool)
    head[1:] = (quiet[1:] != quiet[:-1]) | (parts.gap[1:] != parts.gap[:-1])
    run = np.cumsum(head) - 1
    length = np.bincount(run, parts.dur) if len(parts) else np.zeros(0)
    long = quiet & (length[run] >= MIN_LONG_GAP_NS)
    peers = (parts.cause == Cause.COMMUNICATION) & (parts.dur >= MIN_PEER_WAIT_NS)
    cause = np.select([long, peers], [Cause.LONG_GAP, Cause.PEERS], parts.cause).astype(np.int8)
    parts = replace(parts, cause=cause)
    # Those are joined that follow one another in a gap and have the same cause on the same thread.
    same = np.zeros(len(parts) + 1, bool)
    same[1:-1] = (parts.gap[1:] == parts.gap[:-1]) & (parts.cause[1:] == parts.cause[:-1])
    same[1:-1] &= parts.lane[1:] == parts.lane[:-1]
    return replace(parts.take(~same[:-1]), end=parts.end[~same[1:]])
