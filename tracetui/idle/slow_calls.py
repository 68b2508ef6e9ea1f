"""Calls that took far longer than such calls take: first uses (start-up), and threads that were not running.

A first use is the first call of a function, the first launch of a kernel, or any call in the first operator of a name:
contexts are created, libraries and modules loaded (R3.61). Waiting for the GPU is no slow call, and neither is a copy
or a launch that waits for room in the queue. A thread that stands still is known only by several different functions
that it hits, irregularly (R3.62).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.idle.waits import MIN_FULL_QUEUE, SYNC_NAME, queue_depth
from tracetui.linking.groups import Groups, group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind, Trace
from tracetui.operators.views import VIEW_OPS

MIN_FIRST_USE_NS = 1_000_000
"""Minimum ns of a first use, whatever later calls take."""
MIN_FIRST_USE_RATIO = 50
"""Minimum first use relative to the median of the function's calls ..."""
MIN_REPEATED_FIRST_USE_NS = 100_000
"""... and the least that it then takes, in ns."""
MIN_WARM_STEP = 2
"""Minimum number of the first recorded step of a program that has run a step before."""
MIN_STALL_NS = 1_000_000
"""Minimum ns of a call during which its thread was not running ..."""
MIN_STALL_RATIO = 100
"""... and the least of it relative to the median of such calls."""
MAX_USUAL_NS = 50_000
"""Maximum median ns of a call that costs microseconds."""
MIN_STALLED_CALLS, MIN_STALLED_FUNCTIONS = 5, 3
"""Minimum calls, and different functions, that stall before the thread is what stood still."""
MAX_STALLED_SHARE = 0.1
"""Maximum share of a function's calls that stall: beyond it the function itself takes long, sometimes."""

_EVERY = re.compile("")
_WAITING = re.compile(SYNC_NAME.pattern + r"|^(cu|cuda|hip)Memcpy|^(cu|cuda|hip)Memset(?!.*Async)|LaunchHostFunc")
"""Names of calls that last as long as something else does."""
_DEVICE_MEMORY = re.compile(r"^(cuda|hip)(Malloc|Free)(Async)?$|^(cu|hip)Mem(Alloc|Free)")
_HOST_MEMORY = re.compile(r"^(cuda|hip)(Host|MallocHost|FreeHost|ExtMalloc)|^(cu|hip)MemHost")
_LIBRARY = re.compile(r"mm\b|matmul|conv|linear|product|fft|linalg|cudnn|miopen|attention|rnn|lstm|gru", re.IGNORECASE)
"""Operators that call cuBLAS, cuDNN and the like."""
_EMPTY = re.compile(r"^aten::(empty|new_empty|resize_|set_|detach)")


def start_up_calls(trace: Trace) -> Int64:
    """Runtime calls that are slow first uses, ascending (R3.61)."""
    return trace.remember("start-up calls", lambda: _first_uses(trace))


def stalled_calls(trace: Trace) -> Int64:
    """Ops and runtime calls during which their thread was not running, ascending (R3.62)."""
    return trace.remember("stalled calls", lambda: _stalls(trace))


def _first_uses(trace: Trace) -> Int64:
    slices = trace.slices
    rows = calls_named(trace, _EVERY)
    rows = rows[_alike(trace, rows, rows[slices.dur[rows] > MIN_REPEATED_FIRST_USE_NS])]
    rows = rows[~is_named(trace, rows, _WAITING.search) & ~is_named(trace, rows, _HOST_MEMORY.search)]
    rows = np.setdiff1d(rows, _held_back(trace), assume_unique=True)
    if len(rows) == 0:
        return rows
    names = group(slices.name[rows])
    dur = slices.dur[rows]
    usual = names.median(dur)[names.member]
    long = (dur > MIN_FIRST_USE_NS) | ((dur > MIN_FIRST_USE_RATIO * usual) & (dur > MIN_REPEATED_FIRST_USE_NS))
    first = _is_first(slices.start[rows], names.member)
    trace_links = links(trace)
    warm = is_warm(trace)
    used = np.flatnonzero(np.isin(rows, trace_links.launches, assume_unique=True) & (not warm))
    kernel = slices.name[trace_links.first[np.searchsorted(trace_links.launches, rows[used])]]
    first[used] |= _is_first(slices.start[rows[used]], kernel)
    # Once the first step is over, memory is taken because it is needed, not because everything is new; and before
    # that in operators of libraries only, which begin with memory of their own.
    memory = is_named(trace, rows, _DEVICE_MEMORY.search)
    owner = trace_links.owner[rows].astype(np.int64)
    library = owner >= 0
    library[library] = is_named(trace, owner[library], _LIBRARY.search)
    first |= first_runs(trace)[owner] & (library | ~memory) & (not warm)
    late = np.zeros(len(rows), bool)
    late[memory] = step_index(trace, rows[memory]) > 0
    return rows[long & first & ~late]


def is_warm(trace: Trace) -> bool:
    """Whether steps ran before those that were recorded: then kernels and operators have mostly run before, too."""
    return len(steps(trace)) > 0 and int(steps(trace).number.min()) >= MIN_WARM_STEP


def slow_first(trace: Trace, rows: Int64) -> Int64:
    """Of some slices those that are the first of their name and far longer than the others, three at least."""
    if is_warm(trace) or len(rows) == 0:
        return rows[:0]
    slices, names = trace.slices, group(trace.slices.name[rows])
    usual = names.median(slices.dur[rows])[names.member]
    long = (slices.dur[rows] > MIN_FIRST_USE_NS) & (slices.dur[rows] > MIN_FIRST_USE_RATIO * usual)
    return rows[long & _is_first(slices.start[rows], names.member) & (names.calls >= 3)[names.member]]


def first_runs(trace: Trace) -> Bool:
    """For every slice whether it is the first op of its name; False for the -1 that stands for none."""

    def find() -> Bool:
        ops = op_rows(trace)
        mask = np.zeros(len(trace.slices) + 1, bool)
        mask[ops] = _is_first(trace.slices.start[ops], trace.slices.name[ops])
        return mask

    return trace.remember("first runs", find)


def _alike(trace: Trace, rows: Int64, long: Int64) -> Bool:
    """Mask of the slices that have the name of one of the long ones: those of other names need not be looked at."""
    named = np.zeros(len(trace.names) + 1, bool)
    named[trace.slices.name[long]] = True
    return np.asarray(named[trace.slices.name[rows]])


def _is_first(start: Int64, key: NDArray[np.integer]) -> Bool:
    """Mask of the earliest entry of each key."""
    size = int(key.max(initial=-1)) + 1
    first = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first, key, start)
    early = np.flatnonzero(start == first[key])[::-1]
    # Of several that start together the first one, which is assigned last.
    index = np.full(size, -1, np.int64)
    index[key[early]] = early
    mask = np.zeros(len(start), bool)
    mask[index[index >= 0]] = True
    return mask


def _held_back(trace: Trace) -> Int64:
    """Launches that waited for room in the queue."""
    launches = links(trace).launches
    return launches[queue_depth(trace) >= MIN_FULL_QUEUE]


@dataclass(frozen=True, eq=False)
class _Calls:
    """Ops and runtime calls that should take microseconds, of functions that once took long; parallel arrays."""

    rows: Int64
    own: Int64
    """Self time in ns."""
    names: Groups


def _quick_calls(trace: Trace, rows: Int64) -> _Calls:
    """Of some ops and calls the runtime calls that wait for nothing, and ops that launched or only make tensors."""
    slices, owner = trace.slices, links(trace).owner
    launching = np.zeros(len(slices) + 1, bool)
    launching[owner[links(trace).launches]] = True
    is_call = slices.kind[rows] == Kind.RUNTIME
    calls, ops = rows[is_call], np.setdiff1d(rows[~is_call], steps(trace).row, assume_unique=True)
    waits = [is_named(trace, calls, pattern.search) for pattern in (_WAITING, _DEVICE_MEMORY, _HOST_MEMORY)]
    calls = calls[~np.logical_or.reduce(waits)]
    calls = np.setdiff1d(calls, np.union1d(_held_back(trace), start_up_calls(trace)), assume_unique=True)
    light = is_named(trace, ops, lambda name: name in VIEW_OPS or _EMPTY.search(name))
    rows = np.sort(np.concatenate([calls, ops[launching[ops] | light]]))
    return _Calls(rows, slices.self_time[rows], group(slices.name[rows]))


def _stalls(trace: Trace) -> Int64:
    slices = trace.slices
    rows = slices.of_kind(Kind.CPU_OP, Kind.RUNTIME)
    own = slices.self_time[rows]
    long = rows[own >= MIN_STALL_NS]
    if len(long) < MIN_STALLED_CALLS:
        return long[:0]
    calls = _quick_calls(trace, rows[_alike(trace, rows, long)])
    usual = calls.names.median(calls.own)
    # A name that was called once or twice has no median of its own: that of all calls serves.
    usual = np.where(calls.names.calls < 3, float(np.median(own)), usual)
    limit = np.maximum(MIN_STALL_NS, MIN_STALL_RATIO * usual)[calls.names.member]
    stalled = (calls.own >= limit) & (usual <= MAX_USUAL_NS)[calls.names.member]
    stalled &= ~_is_first(slices.start[calls.rows], calls.names.member)
    share = calls.names.sum(stalled) / calls.names.calls
    rare = (share <= MAX_STALLED_SHARE) | (calls.names.sum(stalled) == 1)
    stalled &= (rare & ~_recurring(trace, calls, stalled))[calls.names.member]
    rows = calls.rows[stalled]
    functions = len(np.unique(calls.names.member[stalled]))
    return rows if len(rows) >= MIN_STALLED_CALLS and functions >= MIN_STALLED_FUNCTIONS else rows[:0]


def _recurring(trace: Trace, calls: _Calls, long: Bool) -> Bool:
    """Which names are slow in more than half of the steps: the same call in every step is the program."""
    count = len(steps(trace))
    if count < 3:
        return np.zeros(len(calls.names), bool)
    rows, member = calls.rows[long], calls.names.member[long]
    step = step_index(trace, rows)
    pairs = np.unique(member[step >= 0] * count + step[step >= 0])
    return np.bincount(pairs // count, minlength=len(calls.names)) > count / 2
