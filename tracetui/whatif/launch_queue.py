"""The launch queue of a trace: calls in their order on the CPU, GPU activities in that of their launches, and what each
waited for.

A trace records neither the dependencies between streams nor what a call waited for. Both are inferred from times: a
start right behind the end of another stream's activity is a dependency, a return right behind an end is a wait.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.errors import Unanswerable
from tracetui.frozen import frozen
from tracetui.idle.waits import MIN_FULL_QUEUE, STREAM_WAIT, SYNC_NAME, final_flush
from tracetui.linking.autograd import autograd
from tracetui.linking.chains import graph_dependencies
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64, index_in, without
from tracetui.model.quantities import count
from tracetui.model.results import kept
from tracetui.model.trace import Float64, Kind, Trace

MAX_UNFINISHED_CALLS = 1022
"""Launches of a stream that CUDA takes before the next one waits; of a graph the launch counts, not its nodes."""
MAX_ACTIVITIES = 1_000_000
"""GPU activities that are replayed; one replay of so many takes three seconds."""
TIGHT_NS = 12_000
"""Maximum time between an end and the start that depended on it."""
IDLE_STREAM_NS = 1_000_000
"""Maximum launch latency: what takes longer waited for something else."""
BUSY_GAP_NS = 50_000
"""Maximum time between activities of a stream without a cause: streams that share a GPU wait for milliseconds."""
BEFORE_RECORDING_NS = 200_000
"""A first activity of a stream that starts so long after its launch waited for work that was not recorded."""
RETURN_NS = 3_000
"""A call that returned earlier than this before an end did not wait for it."""
QUEUED_NS = 15_000
"""An activity whose stream was busy for so long after its launch waited for the stream alone."""
RETURN_CALL_NS = 10_000
"""Maximum duration of a wait or a copy that need not wait: in many traces each one waits, and none says how long."""
MIN_SAMPLES = 5
"""Activities of a kind from which their own median is taken."""
USUAL_LATENCY_NS, USUAL_GAP_NS, USUAL_RETURN_NS = 8_000.0, 1_500.0, 5_000.0
"""Times of a trace that has nothing to measure them by."""

ALLOCATION = re.compile(r"^(cu|cuda|hip)(Host|Ext)?(Malloc|Free|Alloc|HostAlloc|HostMalloc)|^(cu|hip)Mem(Alloc|Free)")
"""Calls that allocate: some of them wait for the GPU, and none may stand in a graph."""
_THREAD_WAITS = re.compile(r"^(cu|cuda|hip)StreamSynchronize")
_EVENT_WAITS = re.compile(r"^(cu|cuda|hip)EventSynchronize")
NEVER = -np.inf


@frozen
class Pairs:
    """Activities that each of some calls or activities waited for: parallel arrays of indices."""

    waiting: Int64
    activity: Int64


@frozen
class LaunchQueue:
    """Calls that launch or may wait, and GPU activities, both as parallel arrays in the order of the replay; in ns.

    In a trace without GPU activities the calls are the edges of steps, whose row is -1.
    """

    call: Int64
    """The row of each call, -1 for an edge."""
    lane: Int64
    """The thread of each call."""
    call_start: Int64
    call_end: Int64
    follows: Int64
    """The call that each comes after, on its own thread or handed over by another one; -1 for none."""
    call_base: Float64
    """Duration of each call where it need not wait."""
    queued: Int64
    """The activity whose end each launch waits for while the queue is full, -1 for none."""
    waits: Pairs
    """Calls, and the activities that they waited for."""
    return_time: Float64
    """From the last end that each call waited for to its own; nan where it waited for none."""
    row: Int64
    """The row of each activity."""
    launch: Int64
    """The index of its call."""
    is_lost: Bool
    """Mask of the activities without a launch record: they come before the next one of their stream."""
    start: Int64
    end: Int64
    kind: Int64
    """0 for kernels, 1 for copies, 2 for fills."""
    before: Int64
    """The activity before it in its stream, -1 for none."""
    dependencies: Pairs
    """Activities, and those of other streams that they waited for."""
    usual_latency: Float64
    """By kind, from a launch to the start on an idle stream."""
    usual_gap: Float64
    """By kind, from one activity to the next of a busy stream."""
    part: Int64
    """The step of each activity, or of each edge where there are none of these; -1 for none."""
    step_lane: Int64
    """The thread of each step."""
    step_start: Int64

    @property
    def is_on_gpu(self) -> bool:
        """False where only the CPU was recorded."""
        return len(self.row) > 0

    @property
    def first(self) -> Int64:
        """The index of the first activity of each call, with the end of the last."""
        return np.searchsorted(self.launch, np.arange(len(self.call) + 1))

    @property
    def ready(self) -> Float64:
        """The end of what each activity waited for on the GPU, as recorded."""
        return _ready(self.end, self.before, self.dependencies)


@frozen
class _Calls:
    row: Int64
    lane: Int64
    start: Int64
    end: Int64


@frozen
class _Activities:
    row: Int64
    launch: Int64
    lane: Int64
    start: Int64
    end: Int64
    kind: Int64
    is_lost: Bool
    before: Int64


@kept
def launch_queue(trace: Trace) -> LaunchQueue:
    """The launch queue of a trace, or the edges of its steps on the CPU where it has no GPU activity.

    Raises: Unanswerable where no launch was recorded, or there are too many activities.
    """
    joined = links(trace)
    if len(joined.gpu) == 0:
        return _cpu_queue(trace)
    if len(joined.launches) == 0:
        way = trace.to_record("record with ProfilerActivity.CPU and CUDA", "record with nsys profile --trace=cuda")
        raise Unanswerable(f"This trace has no launch calls: {way}.")
    if len(joined.gpu) > MAX_ACTIVITIES:
        raise Unanswerable(
            f"This trace has {count(len(joined.gpu))} GPU activities, and {count(MAX_ACTIVITIES)} are replayed: "
            "`tracetui cut --steps` writes some of its steps."
        )
    waiting = np.concatenate([calls_named(trace, SYNC_NAME), calls_named(trace, ALLOCATION)])
    calls = _in_order(trace, without(np.union1d(joined.launches, waiting), final_flush(trace)))
    activities = _activities(trace, calls)
    follows = _followed(trace, calls)
    latency = _usual_latency(calls, activities)
    dependencies = _dependencies(trace, calls, activities, latency)
    # The first activity of each call, with the end of the last.
    first = np.searchsorted(activities.launch, np.arange(len(calls.row) + 1))
    waits, return_time, base = _waits(trace, calls, activities, first)
    queued, base = _full_queue(trace, calls, activities, first, base)
    return LaunchQueue(
        call=calls.row,
        lane=calls.lane,
        call_start=calls.start,
        call_end=calls.end,
        follows=follows,
        call_base=base,
        queued=queued,
        waits=waits,
        return_time=return_time,
        row=activities.row,
        launch=activities.launch,
        is_lost=activities.is_lost,
        start=activities.start,
        end=activities.end,
        kind=activities.kind,
        before=activities.before,
        dependencies=dependencies,
        usual_latency=latency,
        usual_gap=_usual_gap(calls, activities, dependencies),
        part=step_index(trace, activities.row),
        step_lane=steps(trace).lane,
        step_start=steps(trace).start,
    )


def _cpu_queue(trace: Trace) -> LaunchQueue:
    """The edges of the steps, or of the thread with most operators where there are none."""
    all_steps, slices = steps(trace), trace.slices
    if len(all_steps):
        lane, start, end = all_steps.lane, all_steps.start, all_steps.end
    else:
        rows = op_rows(trace)
        if len(rows) == 0:
            raise Unanswerable("This trace has neither GPU activities nor operators: there is nothing to replay.")
        busiest = int(np.bincount(slices.lane[rows]).argmax())
        mine = slice(trace.lanes[busiest].first, trace.lanes[busiest].last)
        lane = np.array([busiest])
        start, end = slices.start[mine].min(keepdims=True), slices.end[mine].max(keepdims=True)
    moment, lane = np.concatenate([start, end]), np.concatenate([lane, lane])
    is_end, part = np.repeat([0, 1], len(start)), np.tile(np.arange(len(start)), 2)
    # A step begins where the one before it ended, also where both carry the same time.
    order = np.lexsort((1 - is_end, moment))
    calls = _Calls(np.full(len(order), -1), lane[order], moment[order], moment[order])
    nothing, no_time = np.empty(0, np.int64), np.empty(0)
    none = np.full(len(order), -1, np.int64)
    return LaunchQueue(
        call=calls.row, lane=calls.lane, call_start=calls.start, call_end=calls.end, follows=_previous(calls.lane),
        call_base=np.zeros(len(order)), queued=none, waits=Pairs(nothing, nothing),
        return_time=np.full(len(order), np.nan), row=nothing, launch=nothing, is_lost=nothing.astype(bool),
        start=nothing, end=nothing, kind=nothing, before=nothing, dependencies=Pairs(nothing, nothing),
        usual_latency=no_time, usual_gap=no_time, part=np.where(is_end, part, -1)[order],
        step_lane=lane[: len(start)], step_start=start,
    )  # fmt: skip


def _in_order(trace: Trace, rows: Int64) -> _Calls:
    """Calls in order of their start, an outer one before those inside it."""
    slices = trace.slices
    rows = rows[np.lexsort((rows, -slices.dur[rows], slices.start[rows]))]
    return _Calls(rows, slices.lane[rows].astype(np.int64), slices.start[rows], slices.end[rows])


def _previous(key: Int64) -> Int64:
    """The index of the entry before each one with the same key, -1 for none."""
    order = np.argsort(key, kind="stable")
    previous = np.full(len(key), -1, np.int64)
    same = key[order[1:]] == key[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _activities(trace: Trace, calls: _Calls) -> _Activities:
    """The GPU activities in the order of their launches; one without comes before the next of its stream that has one.

    What has no launch and nothing launched behind it is left out.
    """
    slices, joined = trace.slices, links(trace)
    order = np.argsort(calls.row)
    rows = joined.gpu[np.argsort(slices.lane[joined.gpu], kind="stable")]
    place = index_in(calls.row[order], joined.launch[rows].astype(np.int64))
    launch = np.where(place >= 0, order[place], len(calls.row))
    is_lost = place < 0
    lane = slices.lane[rows].astype(np.int64)
    # The next one with a launch on the same stream, searched from behind.
    index = np.where(is_lost, len(rows), np.arange(len(rows)))
    following = np.minimum.accumulate(index[::-1])[::-1]
    known = following < len(rows)
    known[known] = lane[following[known]] == lane[known]
    rows, lane, is_lost, launch = rows[known], lane[known], is_lost[known], launch[following[known]]
    by_launch = np.lexsort((slices.start[rows], ~is_lost, launch))
    rows, lane, launch, is_lost = rows[by_launch], lane[by_launch], launch[by_launch], is_lost[by_launch]
    kind = np.select([slices.kind[rows] == Kind.MEMCPY, slices.kind[rows] == Kind.MEMSET], [1, 2], 0)
    start, end = slices.start[rows], slices.end[rows]
    return _Activities(rows, launch, lane, start, end, kind.astype(np.int64), is_lost, _previous(lane))


def _followed(trace: Trace, calls: _Calls) -> Int64:
    """The call that each call comes after: the last of its thread, or a later one that another thread ended before it.

    So the forward pass hands over to the thread of the backward pass, and that one back. A thread that the autograd
    engine does not use takes over only its first call.
    """
    own = _previous(calls.lane)
    home, process = autograd(trace).home, lane_numbers(trace).process
    # Some thread runs the backward pass of another one.
    has_engine = bool((home != np.arange(len(home))).any())
    follows = own.copy()
    by_end = np.lexsort((np.arange(len(calls.end)), calls.end))
    for number in distinct(process[calls.lane]).tolist():
        ended = by_end[process[calls.lane[by_end]] == number]
        mine = np.flatnonzero(process[calls.lane] == number)
        index = np.searchsorted(calls.end[ended], calls.start[mine], side="right") - 1
        other = np.where(index >= 0, ended[np.maximum(index, 0)], -1)
        later = (other >= 0) & (other < mine)
        later &= (own[mine] < 0) | (calls.end[other] > calls.end[own[mine]])
        related = home[calls.lane[other]] == home[calls.lane[mine]]
        later &= related | (own[mine] < 0) | (not has_engine)
        follows[mine[later]] = other[later]
    return follows


def _usual_latency(calls: _Calls, activities: _Activities) -> Float64:
    """By kind the median latency on idle streams, of calls with one activity."""
    launched, ready = calls.start[activities.launch], activities.end[activities.before]
    latency = activities.start - launched
    is_alone = np.bincount(activities.launch, minlength=1)[activities.launch] == 1
    idle = ~activities.is_lost & is_alone & ((activities.before < 0) | (ready <= launched))
    idle &= latency < IDLE_STREAM_NS
    return _medians(latency[idle], activities.kind[idle], USUAL_LATENCY_NS)


def _usual_gap(calls: _Calls, activities: _Activities, dependencies: Pairs) -> Float64:
    """By kind the median time from the end of what an activity waited for to its start, long after its launch."""
    ready = _ready(activities.end, activities.before, dependencies)
    busy = ready > calls.start[activities.launch] + QUEUED_NS
    gap = activities.start[busy] - ready[busy]
    usual = gap < BUSY_GAP_NS
    return _medians(gap[usual], activities.kind[busy][usual], USUAL_GAP_NS)


def _ready(end: Int64, before: Int64, dependencies: Pairs) -> Float64:
    """The last end of what comes before each activity in its stream and of what it depends on, `NEVER` for none."""
    ready = np.where(before >= 0, end[before], NEVER) if len(end) else np.empty(0)
    np.maximum.at(ready, dependencies.waiting, end[dependencies.activity])
    return ready


def _medians(values: Int64 | Float64, kind: Int64, default: float) -> Float64:
    overall = float(np.median(values)) if len(values) else default
    own = [values[kind == each] for each in range(3)]
    return np.array([np.median(each) if len(each) >= MIN_SAMPLES else overall for each in own])


class _Ended:
    """By stream the last activity that had ended at a time, of those launched before another one."""

    def __init__(self, activities: _Activities) -> None:
        self.lanes: list[int] = distinct(activities.lane).tolist()
        self.members = {lane: np.flatnonzero(activities.lane == lane) for lane in self.lanes}
        self._reach = {lane: np.maximum.accumulate(activities.end[mine]) for lane, mine in self.members.items()}

    def on(self, lane: int, moment: Int64 | Float64, limit: Int64) -> Int64:
        """The index for each time (ns) and index that it must be below; -1 for none."""
        mine = self.members[lane]
        index = np.minimum(np.searchsorted(self._reach[lane], moment, "right"), np.searchsorted(mine, limit)) - 1
        return np.where(index >= 0, mine[index], -1)


def _dependencies(trace: Trace, calls: _Calls, activities: _Activities, latency: Float64) -> Pairs:
    """Recorded dependencies of graphs, and those of one stream on another that times and waits of streams show."""
    process, start = lane_numbers(trace).process, activities.start
    launched = calls.start[activities.launch]
    # Something else than its own stream and launch held it up where an end lies between these and its start.
    ready = np.maximum(
        np.where(activities.before >= 0, activities.end[activities.before], NEVER),
        np.where(activities.is_lost, NEVER, launched + latency[activities.kind]),
    )
    is_made_to_wait = _behind_stream_waits(trace, calls)[activities.launch]
    numbers, ended, pairs = np.arange(len(start)), _Ended(activities), []
    for lane in ended.lanes if len(ended.lanes) > 1 else ():
        others = numbers[(activities.lane != lane) & (process[activities.lane] == process[lane])]
        last = ended.on(lane, start[others] + 1_000, others)
        others, last = others[last >= 0], last[last >= 0]
        end = activities.end[last]
        is_tight = (start[others] - TIGHT_NS < end) & (end > ready[others] + 1_000)
        newest = ended.on(lane, np.full(len(others), np.inf), others)
        depends = is_tight | (is_made_to_wait[others] & (newest == last))
        pairs.append((others[depends], last[depends]))
    recorded, by_row = graph_dependencies(trace), np.argsort(activities.row)
    after, before = (index_in(activities.row[by_row], rows) for rows in (recorded.after, recorded.before))
    known = (after >= 0) & (before >= 0)
    after, before = by_row[after[known]], by_row[before[known]]
    pairs.append((after[before < after], before[before < after]))
    waiting, activity = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return Pairs(waiting, activity)


def _behind_stream_waits(trace: Trace, calls: _Calls) -> Bool:
    """Mask of the calls before which their thread had a stream wait for an event, since its call before."""
    rows = calls_named(trace, STREAM_WAIT)
    if len(rows) == 0:
        return np.zeros(len(calls.row), bool)
    slices, previous = trace.slices, _previous(calls.lane)
    mask = np.zeros(len(calls.row), bool)
    for lane in distinct(slices.lane[rows]).tolist():
        moment = slices.start[rows[slices.lane[rows] == lane]]
        mine = np.flatnonzero(calls.lane == lane)
        since = np.where(previous[mine] >= 0, calls.start[previous[mine]], np.iinfo(np.int64).min)
        mask[mine] = np.searchsorted(moment, calls.start[mine]) > np.searchsorted(moment, since)
    return mask


def _waits(trace: Trace, calls: _Calls, activities: _Activities, first: Int64) -> tuple[Pairs, Float64, Float64]:
    """The activities each call waited for, the time from their end to its own, and its duration without waiting."""
    number, dur = np.arange(len(calls.row)), calls.end - calls.start
    named = [
        is_named(trace, calls.row, pattern.search) for pattern in (SYNC_NAME, ALLOCATION, _THREAD_WAITS, _EVENT_WAITS)
    ]
    allocates = named[1]
    waits = np.flatnonzero(named[0] | allocates)
    limit, ended = first[waits], _Ended(activities)
    of_thread = _launched_last(calls, activities)[waits]
    last = np.full(len(waits), -1, np.int64)
    for lane in ended.lanes:
        each = ended.on(lane, calls.end[waits].astype(np.float64) + 1_000, limit)
        is_later = (each >= 0) & ((last < 0) | (activities.end[each] > activities.end[last]))
        last = np.where(is_later, each, last)
    tails = [ended.on(lane, np.full(len(waits), np.inf), limit) for lane in ended.lanes]
    candidates = np.stack(tails, axis=1)
    one = np.full_like(candidates, -1)
    one[:, 0] = np.where(named[2][waits], of_thread, last)
    candidates = np.where((named[2] | named[3])[waits, None], one, candidates)
    reach = np.where(candidates >= 0, activities.end[candidates], np.iinfo(np.int64).min).max(axis=1)
    # An allocation waits only where its return meets the end of the GPU's work.
    start, end = calls.start[waits], calls.end[waits]
    length = end - start
    met = (length >= 20_000) & (reach > start) & (reach - 2_000 < end) & (end < reach + 60_000 + length // 2)
    candidates[allocates[waits] & ~met] = -1
    # It returned before that ended: it waited for something else.
    early = (reach > end + RETURN_NS) & (candidates >= 0).any(axis=1)
    candidates[early] = -1
    candidates[early, 0] = last[early]
    waiting, activity = np.repeat(waits, candidates.shape[1]), candidates.ravel()
    waiting, activity = waiting[activity >= 0], activity[activity >= 0]
    # Copies from or to pageable memory return behind the copy.
    launching = np.flatnonzero(first[1:] > first[:-1])
    own = first[1:][launching] - 1
    returned = (activities.kind[own] == 1) & (activities.end[own] <= calls.end[launching] + 1_000)
    returned &= ~activities.is_lost[own]
    waiting = np.concatenate([waiting, launching[returned]])
    activity = np.concatenate([activity, own[returned]])
    reached = np.full(len(number), NEVER)
    np.maximum.at(reached, waiting, activities.end[activity])
    return_time = np.where(reached > NEVER, calls.end - reached, np.nan)
    waited = reached > calls.start
    return_time = np.where(waited | np.isnan(return_time), return_time, np.minimum(return_time, 2_000.0))
    fast = _quick(trace.slices.name[calls.row].astype(np.int64), dur)
    fast = np.where(allocates, fast, np.minimum(fast, RETURN_CALL_NS))
    return Pairs(waiting, activity), return_time, np.where(waited, np.minimum(fast, dur), dur).astype(np.float64)


def _launched_last(calls: _Calls, activities: _Activities) -> Int64:
    """The last activity that the thread of each call had launched before it, -1 for none."""
    lane, result = calls.lane[activities.launch], np.full(len(calls.row), -1, np.int64)
    for thread in distinct(calls.lane).tolist():
        mine, launched = np.flatnonzero(calls.lane == thread), np.flatnonzero(lane == thread)
        index = np.searchsorted(activities.launch[launched], mine) - 1
        result[mine] = np.where(index >= 0, launched[index], -1) if len(launched) else -1
    return result


def _quick(name: Int64, dur: Int64) -> Float64:
    """For each call the duration that a tenth of those of its name stay below."""
    names = group(name)
    ranked = dur[np.lexsort((dur, names.member))]
    first = np.cumsum(names.calls) - names.calls
    fast: Float64 = ranked[first + names.calls // 10].astype(np.float64)
    return fast[names.member]


def _full_queue(
    trace: Trace, calls: _Calls, activities: _Activities, first: Int64, base: Float64
) -> tuple[Int64, Float64]:
    """The activity that each launch waits for when the queue of its stream is full, -1 for none; and its duration then.

    HIP has no such limit that any trace reached, and a trace that goes beyond it has none either.
    """
    queued = np.full(len(calls.row), -1, np.int64)
    launching = np.flatnonzero(first[1:] > first[:-1])
    if is_named(trace, calls.row[launching], re.compile("^hip").search).any():
        return queued, base
    newest, base = first[1:][launching] - 1, base.copy()
    names = group(trace.slices.name[calls.row[launching]].astype(np.int64))
    dur = calls.end[launching] - calls.start[launching]
    usual = names.median(dur)[names.member]
    for lane in distinct(activities.lane[newest]).tolist():
        mine = np.flatnonzero(activities.lane[newest] == lane)
        ends = np.maximum.accumulate(activities.end[newest[mine]])
        finished = np.searchsorted(ends, calls.start[launching[mine]], "right")
        depth = np.arange(len(mine)) - finished
        if depth.max(initial=0) > MAX_UNFINISHED_CALLS + 2:
            continue
        full = mine[(depth > MIN_FULL_QUEUE) & (dur[mine] > 4 * usual[mine])]
        base[launching[full]] = usual[full]
        queued[launching[mine[MAX_UNFINISHED_CALLS:]]] = newest[mine[:-MAX_UNFINISHED_CALLS]]
    return queued, base
