"""Waits: calls in which the CPU waits for the GPU, and what every launch waited for before it started.

The profiler's own wait at the end of the capture is recognised. Queueing is about the first activity of a launch, since
the later nodes of a graph wait for the graph (R3.39).
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import pairwise

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.groups import distinct
from tracetui.linking.links import calls_named, links
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Int64
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
