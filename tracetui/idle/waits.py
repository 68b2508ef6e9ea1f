"""Waits of launches and of devices: what every launch waited for before it started, calls in which the CPU waits for
the GPU, and the gaps of devices with what the activity after each was waiting for: the CPU, its launch call, or
something else.

The profiler's own wait at the end of the capture is recognised. Queueing is about the first activity of a launch, since
the later nodes of a graph wait for the graph (R3.39).

A gap is split exactly into three parts by the launch of the activity that ends it (3(g)): before the call was made (the
CPU was late), inside the call, and after it returned. Without a launch record nothing is known.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import Groups, combinations, distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.replays import graph_ids, replays
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Bool, Int64, run_starts
from tracetui.model.native import insertion_index
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace
from tracetui.text import lazy_pattern

MIN_FULL_QUEUE = 1000
"""Launches in flight from which the driver makes the CPU wait (R3.28)."""


@frozen
class Queueing:
    """Parallel arrays in ns, one entry for each of `links(trace).launches`."""

    latency: Int64
    """From the start of the call to the start on the GPU; negative only where clocks disagree."""
    delay: Int64
    """From the end of the call to the start on the GPU; 0 where the activity began before the call returned."""
    stream_wait: Int64
    """Part of the delay in which the stream was busy with earlier activities."""
    dispatch: Int64
    """Rest of the delay."""


@kept(on_disk=True)
def queueing(trace: Trace) -> Queueing:
    """The waiting times of every launch."""
    trace_links, slices = links(trace), trace.slices
    called, returned = slices.start[trace_links.launches], slices.end[trace_links.launches]
    began = slices.start[trace_links.first]
    delay = np.maximum(began - returned, 0)
    # In one stream work may overlap (PDL): what outlasts the start did not hold it up.
    free = np.minimum(_stream_free(trace, trace_links.first), began)
    wait = np.clip(free - returned, 0, None)
    return Queueing(began - called, delay, wait, delay - wait)


@kept
def queue_depth(trace: Trace) -> Int64:
    """For each of `links(trace).launches`: launches begun minus those whose first activity has started, itself
    included.
    """
    trace_links, slices = links(trace), trace.slices
    device = lane_numbers(trace).process[slices.lane[trace_links.first]]
    depth = np.zeros(len(trace_links.launches), np.int64)
    for number in distinct(device):
        mine = np.flatnonzero(device == number)
        begun = slices.start[trace_links.launches[mine]]
        started = np.sort(slices.start[trace_links.first[mine]])
        made = insertion_index(np.sort(begun), begun, side="right")
        depth[mine] = made - insertion_index(started, begun, side="right")
    return np.maximum(depth, 0)


def _stream_free(trace: Trace, rows: Int64) -> Int64:
    """Time (ns) at which the stream of each activity had finished its earlier ones; the trace's start for the first."""
    slices, gpu = trace.slices, np.sort(links(trace).gpu)
    free = np.empty(len(slices), np.int64)
    bounds = np.flatnonzero(np.diff(slices.lane[gpu], prepend=-1, append=-1)).tolist() if len(gpu) else []
    for first, last in pairwise(bounds):
        mine = gpu[first:last]
        free[mine[0]] = slices.start.min()
        free[mine[1:]] = np.maximum.accumulate(slices.end[mine])[:-1]
    return free[rows]


SYNC_NAME = re.compile(r"^(cu|cuda|hip)(Device|Stream|Event|Ctx)Synchronize")
"""Names of calls in which the CPU waits for the GPU."""


def sync_calls(trace: Trace) -> Int64:
    """Calls that wait for the GPU, without the profiler's own at the end of the capture (R3.31)."""
    return np.setdiff1d(calls_named(trace, SYNC_NAME), final_flush(trace), assume_unique=True)


@kept(on_disk=True)
def final_flush(trace: Trace) -> Int64:
    """The wait for the whole device with which the profiler ends the capture, as one row or none (R3.31)."""
    rows = calls_named(trace, SYNC_NAME)
    launches = links(trace).launches
    if len(rows) == 0 or len(launches) == 0:
        return rows[:0]
    start = trace.slices.start
    last = rows[[np.argmax(start[rows])]]
    its_own = "Device" in trace.name_of(int(last[0])) and start[last[0]] > start[launches].max()
    return last if its_own else last[:0]


# The causes of gaps, and the slices whose names indicate a cause (R3.27).


class Cause(IntEnum):
    """A reason why a device was idle: first what delayed the CPU, then the launch call, then what followed it.

    Of causes that cover the same moment, or as much of a short gap, the first counts.
    """

    DATA_LOADING = 0
    START_UP = 1
    """The first use of a function, a kernel or a library: contexts are created, modules loaded."""
    MEMORY = 2
    """Device or pinned memory was allocated or freed, outside the caching allocator."""
    PROFILER = 3
    COMPILATION = 4
    """Code was compiled or a graph captured."""
    PAGEABLE = 5
    """The thread was in a copy from or to pageable memory."""
    HOST_SYNC = 6
    """The thread had waited for the GPU: nothing was queued when the GPU had finished."""
    STALLED = 7
    """A call of microseconds took milliseconds: its thread was not running."""
    PEERS = 8
    """The thread waited for other processes."""
    LONG_GAP = 9
    """A millisecond or more without an operator or a call: Python, or anything else."""
    OPTIMIZER = 10
    COMMUNICATION = 11
    OPERATORS = 12
    """Operators were dispatched."""
    CALLS = 13
    """Runtime calls."""
    PYTHON = 14
    """Python, also that around compiled code."""
    UNSEEN = 15
    """The thread has no slice at that time: Python that was not recorded, or anything else."""
    LAUNCH = 16
    SLOW_LAUNCH = 17
    FULL_QUEUE = 18
    """The launch call waited until the queue had room: the GPU is the bottleneck."""
    LATENCY = 19
    """The usual time from a launch to the start."""
    GRAPH = 20
    """Between nodes of one graph."""
    STREAM = 21
    """The stream was waiting for an event."""
    SCHEDULING = 22
    """Launched long before, and nothing in the trace tells why it did not start."""
    NOT_RECORDED = 23
    """Nodes of a graph ran that the profiler did not record."""
    BEFORE_CAPTURE = 24
    """The activity after the gap was launched before the capture began."""
    UNKNOWN = 25
    """The activity after the gap has no launch record."""


WORDS = (
    "data loading",
    "start-up",
    "memory management",
    "profiler",
    "compilation",
    "pageable copy",
    "host sync",
    "thread descheduled?",
    "waits for peers",
    "outside PyTorch",
    "optimizer",
    "communication call",
    "operators",
    "runtime calls",
    "Python",
    "Python or unknown",
    "launch call",
    "slow launch",
    "full queue",
    "launch latency",
    "inside a graph",
    "stream dependency",
    "scheduling",
    "not recorded?",
    "before the capture",
    "unknown",
)
"""Name of each `Cause` in tables."""

_STABLE_NAMES = {
    Cause.STALLED: "stalled_thread",
    Cause.LONG_GAP: "no_op_or_call",
    Cause.STREAM: "waits_for_a_stream",
}
KEYS = tuple(
    f"idle_{_STABLE_NAMES.get(cause) or re.sub('[^a-z]+', '_', WORDS[cause].lower()).strip('_')}_us" for cause in Cause
)
"""Name of the time of each `Cause` where it is a measure, such as `idle_host_sync_us`: checks that are written hold."""

OVERHEAD = (
    Cause.OPTIMIZER,
    Cause.COMMUNICATION,
    Cause.OPERATORS,
    Cause.CALLS,
    Cause.PYTHON,
    Cause.UNSEEN,
    Cause.LAUNCH,
)
"""Causes that are launch overhead: what the CPU did on its way to a launch, in finer words."""

_NAMED = (Kind.CPU_OP, Kind.ANNOTATION)
_PATTERNS: tuple[tuple[Cause, tuple[Kind, ...], str], ...] = (
    (
        Cause.DATA_LOADING,
        _NAMED,
        r"^enumerate\(DataLoader\)#|(?i:dataloader|data_loader|load_batch|next_data\b|\bget_batch(_samples)?\b|\bfetch_next)"
        r"|train_dataloader_next|\b_(Single|Multi)Process\w*Iter\b",
    ),
    (Cause.DATA_LOADING, (Kind.PYTHON,), r"data_?loader\w*\.py\(\d+\): (__next__|__iter__|_next_data|_get_data)"),
    (Cause.START_UP, (Kind.OVERHEAD,), r"(?i)module loading|lazy.*loading"),
    (Cause.START_UP, (Kind.RUNTIME,), r"^(cu|cuda|hip)(Module|Library)Load"),
    (Cause.START_UP, (Kind.PYTHON,), r"<frozen importlib\._bootstrap|importlib/_bootstrap|: _lazy_init$"),
    (Cause.MEMORY, (Kind.RUNTIME,), r"^(cuda|hip)(Host|Ext)?(Malloc|Free|Alloc|Register|Unregister)"),
    (Cause.MEMORY, (Kind.RUNTIME,), r"^(cu|hip)Mem(Alloc|Free|Create|Map|Unmap|Release|Address|SetAccess|Host)"),
    (Cause.MEMORY, (*_NAMED, Kind.PYTHON), r"\bempty_cache\b"),
    (Cause.PROFILER, (Kind.OVERHEAD,), ""),
    (
        Cause.COMPILATION,
        _NAMED,
        r"compile_fx|CUDAGraphNode\.record|_compile(?!d)|\binductor_|dynamo_timed"
        r"|create_aot_dispatcher_function|GraphLowering|PyCodeCache",
    ),
    (
        Cause.COMPILATION,
        (Kind.PYTHON,),
        r"convert_frame\.py\(\d+\): _?compile|compile_fx\.py\(\d+\): \w*(compil|codegen)",
    ),
    (Cause.COMPILATION, (Kind.RUNTIME,), r"^(cu|cuda|hip)(StreamBeginCapture|StreamEndCapture|GraphInstantiate)"),
    (Cause.HOST_SYNC, (Kind.RUNTIME,), SYNC_NAME.pattern + r"|^(cu|cuda|hip)Memcpy(?!.*Async)"),
    (Cause.HOST_SYNC, (Kind.CPU_OP,), r"^aten::(item|_local_scalar_dense|nonzero|is_nonzero)$"),
    (Cause.OPTIMIZER, _NAMED, r"^Optimizer\.(step|zero_grad)#"),
    (Cause.COMMUNICATION, _NAMED, r"^(nccl|gloo):|^_?c10d\w*::|## wait ##|\bwait\(\)"),
)
"""Slices that indicate each cause: their kinds, and a pattern of their names."""

_BY_KIND: dict[int, list[tuple[Cause, re.Pattern[str]]]] = {}
for _cause, _kinds, _pattern in sorted(_PATTERNS):
    for _kind in _kinds:
        _BY_KIND.setdefault(int(_kind), []).append((_cause, lazy_pattern(_pattern)))

STREAM_WAIT = re.compile(r"^(cu|cuda|hip)StreamWaitEvent")
"""Names of calls that make a stream wait for an event."""


def cause_of_name(kind: int, name: str) -> Cause | None:
    """The first cause that a slice of this kind and name indicates, None for none."""
    return next((cause for cause, pattern in _BY_KIND.get(kind, ()) if pattern.search(name)), None)


def named_slices(trace: Trace) -> dict[Cause, Int64]:
    """For each cause that names indicate the slices that do, ascending; a slice indicates the first of its causes."""
    slices, count = trace.slices, len(trace.names) + 1
    key = slices.kind.astype(np.int32) * count + slices.name
    code = np.full(max(Kind) * count + count, len(Cause), np.int8)
    for pair in np.flatnonzero(np.bincount(key, minlength=1)).tolist():
        kind, name = divmod(pair, count)
        cause = cause_of_name(kind, trace.names[name])
        code[pair] = len(Cause) if cause is None else cause
    found = code[key]
    found[final_flush(trace)] = len(Cause)
    rows = np.flatnonzero(found < len(Cause))
    return {cause: rows[found[rows] == cause] for cause in sorted({cause for cause, _, _ in _PATTERNS})}


MIN_GAP_NS = 30
"""Minimum length of a gap in ns; shorter ones are the GPU changing from one kernel to the next."""


@frozen
class Idleness(Parallel):
    """The gaps of all devices in order of start; parallel arrays, times in ns."""

    start: Int64
    end: Int64
    device: Int64
    """Number of the device's process in `lane_numbers`; not the number that the device has in the file."""
    before: Int64
    """The GPU activity whose end began the gap."""
    after: Int64
    """The activity that ended the gap; of several that started together the one launched last."""
    launch: Int64
    """The call that launched it, -1 for none."""
    cpu_late: Int64
    """Part A: until the call began. All three parts are 0 where the launch is unknown."""
    in_launch: Int64
    """Part B: inside the call."""
    waiting: Int64
    """Part C: after the call had returned."""

    @cached_property
    def dur(self) -> Int64:
        """Length of each gap; the sum of its parts where the launch is known."""
        return self.end - self.start

    @cached_property
    def known(self) -> Bool:
        """Mask of the gaps with a launch and therefore parts."""
        return self.launch >= 0


@frozen
class DeviceOrder:
    """All GPU activities by device, then start; parallel arrays, times in ns."""

    row: Int64
    device: Int64
    """Number of the device's process in `lane_numbers`."""
    gap: Int64
    """Idle time of the device before it; 0 for the first of a device and for gaps that are too short."""
    fresh: Int64
    """Part of its duration in which no earlier activity ran."""
    before: Int64
    """The earlier activity of the device that ended last, -1 for the first."""

    @cached_property
    def devices(self) -> int:
        """Number of devices that ran anything."""
        return int(np.count_nonzero(run_starts(self.device)))


@kept(on_disk=True)
def device_order(trace: Trace) -> DeviceOrder:
    """Every GPU activity with the gap before it and the time that it adds to the device's busy time."""
    trace_links, slices = links(trace), trace.slices
    rows = trace_links.gpu
    device = lane_numbers(trace).process[slices.lane[rows]]
    launch = trace_links.launch[rows]
    launched = np.where(launch >= 0, slices.start[launch], np.iinfo(np.int64).min + 1)
    order = np.lexsort((-launched, slices.start[rows], device))
    rows, device = rows[order], device[order]
    gap, fresh, before = (np.zeros(len(rows), np.int64) for _ in range(3))
    for number in distinct(device):
        first, last = np.searchsorted(device, [number, number + 1])
        mine = rows[first:last]
        gap[first:last], fresh[first:last], before[first:last] = _along(slices.start[mine], slices.end[mine], mine)
    return DeviceOrder(rows, device, gap, fresh, before)


@kept(on_disk=True)
def idleness(trace: Trace) -> Idleness:
    """The gaps of every device, split into three parts."""
    order, slices = device_order(trace), trace.slices
    index = np.flatnonzero(order.gap)
    index = index[np.argsort(slices.start[order.row[index]] - order.gap[index], kind="stable")]
    after, dur = order.row[index], order.gap[index]
    end = slices.start[after]
    start = end - dur
    launch = links(trace).launch[after].astype(np.int64)
    called, returned, known = slices.start[launch], slices.end[launch], launch >= 0
    late = np.clip(np.minimum(called, end) - start, 0, None)
    inside = np.clip(np.minimum(returned, end) - np.maximum(called, start), 0, None)
    waiting = end - np.maximum(start, np.minimum(returned, end))
    parts = late * known, inside * known, waiting * known
    return Idleness(start, end, order.device[index], order.before[index], after, launch, *parts)


def _along(start: Int64, end: Int64, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Gap, fresh time and previous activity of the activities of one device, in order."""
    reach = np.maximum.accumulate(end)
    furthest = np.ones(len(end), bool)
    furthest[1:] = end[1:] > reach[:-1]
    leader = np.maximum.accumulate(np.where(furthest, np.arange(len(end)), 0))
    gap, fresh = np.zeros(len(end), np.int64), np.array(end - start)
    gap[1:] = np.maximum(start[1:] - reach[:-1], 0)
    gap[gap < MIN_GAP_NS] = 0
    fresh[1:] = np.maximum(end[1:] - np.maximum(start[1:], reach[:-1]), 0)
    before = np.full(len(end), -1, np.int64)
    before[1:] = rows[leader[:-1]]
    return gap, fresh, before


# Holes in graph replays that nodes fill which the profiler did not record (R3.64).
#
# Replays of one graph run the same nodes in the same order, and a hole that is as long in every replay before the same
# node is no idle time: something ran there. So is a hole in a replay that has fewer nodes than another one of its
# graph. Where only a few replays were recorded, or their holes differ, nothing is known.

MIN_REPLAYS = 3
"""Minimum replays of a graph that tell a hole from chance."""
MAX_HOLE_SPREAD = 0.05
"""Maximum range of equal holes, from the first to the last decile, relative to their median."""
MIN_HOLE_NS = 10_000
"""Minimum ns between two nodes of a graph that is no ordinary hand-over."""
MIN_FIRST_HOLE_NS = 50_000
"""Minimum ns from the end of the launch call to the first node that is no ordinary start of a graph."""


@frozen
class UnrecordedHoles:
    """Gaps in which nodes of graphs probably ran; parallel arrays."""

    gap: Int64
    """Index in `idleness(trace)`, ascending."""
    start: Int64
    """Start of the hole in ns; before a first node the time at which the launch call returned."""
    replays: int
    """Number of replays that have such holes."""


@kept
def unrecorded_holes(trace: Trace) -> UnrecordedHoles:
    """The gaps of graph replays in which work is missing."""
    idle, graphs, joined = idleness(trace), replays(trace), links(trace)
    none = np.empty(0, np.int64)
    if len(graphs) == 0 or len(idle) == 0:
        return UnrecordedHoles(none, none, 0)
    replay = np.searchsorted(graphs.launch, idle.launch)
    replay = np.where(np.append(graphs.launch, -1)[replay] == idle.launch, replay, -1)
    gap = np.flatnonzero(replay >= 0)
    replay = replay[gap]
    position = np.empty(len(trace.slices), np.int64)
    position[joined.launched] = np.arange(len(joined.launched))
    # Index of the activity among those of its launch.
    node = position[idle.after[gap]] - joined.bounds[np.searchsorted(joined.launches, idle.launch[gap])]
    hole = np.where(node == 0, idle.waiting[gap], idle.dur[gap])
    long = hole >= np.where(node == 0, MIN_FIRST_HOLE_NS, MIN_HOLE_NS)
    identical = _identical(graphs.graph[replay], node, hole, graphs.times[replay])
    # Replays with fewer nodes than another one of the same recorded graph.
    known = group(graph_ids(trace, graphs.first))
    most = np.zeros(len(known), np.int64)
    np.maximum.at(most, known.member, graphs.nodes)
    shorter = (known.key[known.member] > 0) & (graphs.nodes < most[known.member])
    missing = long & (identical | shorter[replay])
    held = np.flatnonzero(missing)
    start = np.where(node[held] == 0, idle.end[gap[held]] - hole[held], idle.start[gap[held]])
    return UnrecordedHoles(gap[held], start, len(np.unique(replay[held])))


def _identical(graph: Int64, node: Int64, hole: Int64, times: Int64) -> Bool:
    """Mask of the holes that every replay of the graph has before the same node, as long in all of them."""
    if len(hole) == 0:
        return np.zeros(0, bool)
    places = combinations(graph, node)
    groups = Groups(np.arange(len(places)), places.member)
    low, high = _decile(groups, hole, 0.1), _decile(groups, hole, 0.9)
    median = np.maximum(groups.median(hole), 1)
    same = (high - low <= MAX_HOLE_SPREAD * median) & (groups.calls >= MIN_REPLAYS)
    # The first activity of a device is behind no gap.
    every = groups.calls[groups.member] >= times - (node == 0)
    return np.asarray(same[groups.member] & every)


def _decile(groups: Groups, values: Int64, share: float) -> Int64:
    """The value at a share of each group, counted upwards."""
    ranked = values[np.lexsort((values, groups.member))]
    first = np.cumsum(groups.calls) - groups.calls
    return np.asarray(ranked[first + np.rint(share * (groups.calls - 1)).astype(np.int64)])
