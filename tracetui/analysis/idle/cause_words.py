"""The causes of gaps, and the slices that indicate each cause (R3.27)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np

from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.idle.waits import SYNC_NAME, flush
from tracetui.analysis.linking.links import calls_named, op_rows
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace


class Cause(IntEnum):
    """Why a device was idle: what delayed the CPU, then the launch call, then what followed it."""

    HOST_SYNC = 0
    """The thread waited for the GPU."""
    DATA_LOADING = 1
    MEMORY = 2
    """Device memory was allocated or freed, outside the caching allocator."""
    PROFILER = 3
    COMPILATION = 4
    OPTIMIZER = 5
    COMMUNICATION = 6
    OPERATORS = 7
    """Operators were dispatched."""
    CALLS = 8
    """Runtime calls outside of operators."""
    PYTHON = 9
    UNSEEN = 10
    """The thread has no slice at that time: Python that was not recorded, or anything else."""
    LAUNCH = 11
    SLOW_LAUNCH = 12
    FULL_QUEUE = 13
    """The launch call waited until the queue had room: the GPU is the bottleneck."""
    LATENCY = 14
    """The usual time from a launch to the start."""
    GRAPH = 15
    """Between nodes of one graph."""
    STREAM = 16
    """The stream was waiting for an event."""
    SCHEDULING = 17
    """Launched long before, and nothing in the trace tells why it did not start."""
    UNKNOWN = 18
    """The activity after the gap has no launch record."""


WORDS = (
    "host sync",
    "data loading",
    "memory management",
    "profiler",
    "compilation",
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
    "waits for a stream",
    "scheduling",
    "unknown",
)
"""Name of each `Cause` in tables."""

LATE = tuple(Cause(number) for number in range(Cause.UNSEEN + 1))
"""Causes of a late CPU; where several apply at a time, the first counts."""

_NAMED = (Kind.CPU_OP, Kind.ANNOTATION)
_SORTS: tuple[tuple[Cause, tuple[Kind, ...], str], ...] = (
    (Cause.HOST_SYNC, (Kind.RUNTIME,), SYNC_NAME.pattern + r"|^(cu|cuda|hip)Memcpy(?!.*Async)"),
    (Cause.HOST_SYNC, (Kind.CPU_OP,), r"^aten::(item|_local_scalar_dense|nonzero|is_nonzero)$"),
    (Cause.DATA_LOADING, _NAMED, r"^enumerate\(DataLoader\)#|(?i:dataloader|load_batch)"),
    (Cause.DATA_LOADING, (Kind.PYTHON,), r"utils/data/dataloader\.py\(\d+\): __next__"),
    (Cause.MEMORY, (Kind.RUNTIME,), r"^(cuda|hip)(Host|Ext)?(Malloc|Free|Alloc|Register|Unregister)"),
    (Cause.MEMORY, (Kind.RUNTIME,), r"^(cu|hip)Mem(Alloc|Free|Create|Map|Unmap|Release|Address|SetAccess|Host)"),
    (Cause.MEMORY, (*_NAMED, Kind.PYTHON), r"\bempty_cache\b"),
    (Cause.PROFILER, (Kind.OVERHEAD,), ""),
    (
        Cause.COMPILATION,
        _NAMED,
        r"TorchDynamo Cache Lookup|compile_fx|CUDAGraphNode\.record|_compile(?!d)|\binductor_|dynamo_timed"
        r"|create_aot_dispatcher_function|GraphLowering|PyCodeCache",
    ),
    (Cause.COMPILATION, (Kind.PYTHON,), r"convert_frame\.py\(\d+\): _?compile|compile_fx\.py\("),
    (Cause.OPTIMIZER, _NAMED, r"^Optimizer\.(step|zero_grad)#"),
    (Cause.COMMUNICATION, _NAMED, r"^(nccl|gloo):|^_?c10d\w*::|## wait ##|\bwait\(\)"),
    (Cause.OPERATORS, (Kind.CPU_OP,), ""),
    (Cause.CALLS, (Kind.RUNTIME,), ""),
    (Cause.PYTHON, (Kind.PYTHON,), ""),
)
"""Slices that indicate each cause: their kinds, and a pattern of their names."""

_STREAM_WAIT = re.compile(r"^(cu|cuda|hip)StreamWaitEvent")


def sorts_of(trace: Trace, causes: Sequence[Cause] = LATE[:-1]) -> Iterator[tuple[Cause, Int64]]:
    """For each of some causes of a late CPU the slices that indicate it, ascending; none indicate `UNSEEN`."""
    slices = trace.slices
    sorts = {kinds for _, kinds, _ in _SORTS}
    rows_of = {kinds: slices.of_kind(*kinds) for kinds in sorts} | {(Kind.CPU_OP,): op_rows(trace)}
    for cause in causes:
        mask = np.zeros(len(slices), bool)
        for _, kinds, pattern in (sort for sort in _SORTS if sort[0] == cause):
            rows = rows_of[kinds]
            mask[rows if pattern == "" else rows[is_named(trace, rows, re.compile(pattern).search)]] = True
        mask[flush(trace)] = False
        yield cause, np.flatnonzero(mask)


def stream_waits(trace: Trace) -> Int64:
    """Calls that make a stream wait for an event, ascending."""
    return calls_named(trace, _STREAM_WAIT)
