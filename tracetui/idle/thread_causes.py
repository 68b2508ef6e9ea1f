"""The cause that a gap at any time has, by what the thread was in (R3.27).

Of slices that indicate a cause the one that comes first in `Cause` counts, wherever it stands among the slices around
it; where there is none, the innermost operator, runtime call or Python frame counts, and the wrapper of compiled code
is Python. The profiler's own cost is on no thread and counts on all.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.idle.waits import (
    MIN_FULL_QUEUE,
    SYNC_NAME,
    Cause,
    cause_of_name,
    final_flush,
    named_slices,
    queue_depth,
)
from tracetui.linking.frames import COMPILED_REGION
from tracetui.linking.groups import Groups, combinations, distinct, group
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.replays import graph_captures
from tracetui.linking.steps import steps
from tracetui.linking.trees import Axis, Stretches, count_inside, is_named, lane_axis
from tracetui.memory.allocator import PAGEABLE, TO_HOST, bytes_of
from tracetui.model.intervals import Bool, Int64, in_runs, run_starts, union, without
from tracetui.model.native import insertion_index
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.operators.views import VIEW_OPS

# Calls that took far longer than such calls take: first uses (start-up), and threads that were not running.
#
# A first use is the first call of a function, the first launch of a kernel, or any call in the first operator of a
# name: contexts are created, libraries and modules loaded (R3.61). Waiting for the GPU is no slow call, and neither is
# a copy or a launch that waits for room in the queue. A thread that stands still is known only by several different
# functions that it hits, irregularly (R3.62).

MIN_FIRST_USE_NS = 1_000_000
"""Minimum ns of a first use, whatever later calls take."""
MIN_FIRST_USE_RATIO = 50
"""Minimum first use relative to the median of the function's calls ..."""
MIN_REPEATED_FIRST_USE_NS = 100_000
"""... and the least that it then takes, in ns."""
MIN_FIRST_OP_NS = 10_000_000
"""Minimum self time in ns of the first call of an operator that is a first use, whatever calls it makes ..."""
MIN_FIRST_OP_RATIO = 50
"""... and the least of it relative to the median duration of the operator's later calls ..."""
MIN_LATER_CALLS = 2
"""... of which there are as many at least."""
MIN_WARM_STEP = 2
"""Minimum number of the first recorded step of a program that has run a step before."""
MIN_STALL_NS = 1_000_000
"""Minimum ns of a call during which its thread was not running ..."""
MIN_STALL_RATIO = 100
"""... and the least of it relative to the median of such calls."""
MAX_USUAL_NS = 50_000
"""Maximum median ns of a call that costs microseconds."""
RECURRING_RATIO = 0.5
"""Minimum length of a call relative to that, for it to be long again in another step."""
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


@kept
def start_up_calls(trace: Trace) -> Int64:
    """Runtime calls that are slow first uses, ascending (R3.61)."""
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


@kept
def start_up_ops(trace: Trace) -> Int64:
    """Operators that launched something and took far longer themselves than later calls do, ascending (R3.61).

    They are first calls of a name, or of a name with these shapes of inputs: kernels are compiled and tuned for them.
    """
    slices, ops = trace.slices, op_rows(trace)
    own = slices.self_time[ops]
    # What waits, or calls others, has its time from these.
    long: Int64 = ops[(own >= MIN_FIRST_OP_NS) & (2 * own >= slices.dur[ops])]
    long = long[~is_named(trace, long, lambda name: cause_of_name(Kind.CPU_OP, name) is not None)]
    long = long[count_inside(trace, long, links(trace).launches) > 0]
    if len(long) == 0 or is_warm(trace):
        return long[:0]
    ops = ops[_alike(trace, ops, long)]
    dims = trace.op_args.text("Input Dims", slices.event[ops])
    first = _is_first(slices.start[ops], combinations(slices.name[ops], dims).member)
    later = group(slices.name[ops[~first]])
    usual = np.full(len(trace.names) + 1, np.inf)
    usual[later.key] = np.where(later.calls >= MIN_LATER_CALLS, later.median(slices.dur[ops[~first]]), np.inf)
    far_longer = slices.self_time[long] > MIN_FIRST_OP_RATIO * usual[slices.name[long]]
    first_uses: Int64 = long[far_longer & np.isin(long, ops[first])]
    return first_uses


@kept
def workspace_calls(trace: Trace) -> Int64:
    """Calls that take or free device memory in the first run of a library's operator on a thread, ascending.

    cuBLAS, cuDNN and the like take their workspaces then, for each thread its own.
    """
    slices, ops = trace.slices, op_rows(trace)
    calls = calls_named(trace, _DEVICE_MEMORY)
    if len(calls) == 0 or is_warm(trace):
        return calls[:0]
    ops = ops[is_named(trace, ops, _LIBRARY.search)]
    mask = np.zeros(len(slices) + 1, bool)
    mask[ops] = _is_first(slices.start[ops], combinations(slices.lane[ops], slices.name[ops]).member)
    in_first: Int64 = calls[mask[links(trace).owner[calls]] & (step_index(trace, calls) <= 0)]
    return in_first


@kept
def stalled_calls(trace: Trace) -> Int64:
    """Ops and runtime calls during which their thread was not running, ascending (R3.62)."""
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
    # One that is long in every step falls below the limit in some of them.
    near = calls.own >= RECURRING_RATIO * limit
    stalled &= (rare & ~_recurring(trace, calls, near))[calls.names.member]
    rows = calls.rows[stalled]
    functions = len(np.unique(calls.names.member[stalled]))
    return rows if len(rows) >= MIN_STALLED_CALLS and functions >= MIN_STALLED_FUNCTIONS else rows[:0]


def is_warm(trace: Trace) -> bool:
    """True where steps ran before those that were recorded: kernels and operators have mostly run before, too."""
    return len(steps(trace)) > 0 and int(steps(trace).number.min()) >= MIN_WARM_STEP


def slow_first(trace: Trace, rows: Int64) -> Int64:
    """Of some slices those that are the first of their name and far longer than the others, three at least."""
    if is_warm(trace) or len(rows) == 0:
        return rows[:0]
    slices, names = trace.slices, group(trace.slices.name[rows])
    usual = names.median(slices.dur[rows])[names.member]
    long = (slices.dur[rows] > MIN_FIRST_USE_NS) & (slices.dur[rows] > MIN_FIRST_USE_RATIO * usual)
    return rows[long & _is_first(slices.start[rows], names.member) & (names.calls >= 3)[names.member]]


@kept
def first_runs(trace: Trace) -> Bool:
    """For every slice whether it is the first op of its name; False for the -1 that stands for none."""
    ops = op_rows(trace)
    mask = np.zeros(len(trace.slices) + 1, bool)
    mask[ops] = _is_first(trace.slices.start[ops], trace.slices.name[ops])
    return mask


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


@frozen
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
    calls, ops = rows[is_call], without(rows[~is_call], np.union1d(steps(trace).slices, start_up_ops(trace)))
    waits = [is_named(trace, calls, pattern.search) for pattern in (_WAITING, _DEVICE_MEMORY, _HOST_MEMORY)]
    calls = calls[~np.logical_or.reduce(waits)]
    calls = np.setdiff1d(calls, np.union1d(_held_back(trace), start_up_calls(trace)), assume_unique=True)
    light = is_named(trace, ops, lambda name: name in VIEW_OPS or _EMPTY.search(name))
    rows = np.sort(np.concatenate([calls, ops[launching[ops] | light]]))
    return _Calls(rows, slices.self_time[rows], group(slices.name[rows]))


def _recurring(trace: Trace, calls: _Calls, long: Bool) -> Bool:
    """Mask of the names that are slow in more than half of the steps: the program makes such a call in every step."""
    count = len(steps(trace))
    if count < 3:
        return np.zeros(len(calls.names), bool)
    rows, member = calls.rows[long], calls.names.member[long]
    step = step_index(trace, rows)
    pairs = np.unique(member[step >= 0] * count + step[step >= 0])
    return np.bincount(pairs // count, minlength=len(calls.names)) > count / 2


MIN_COPY_BYTES = 4096
"""Minimum bytes of a copy whose own time counts; what reads less only waits for the GPU."""
_NONE = len(Cause)
_BY_KIND = np.full(256, Cause.UNSEEN, np.int8)
_BY_KIND[[Kind.CPU_OP, Kind.RUNTIME, Kind.PYTHON]] = Cause.OPERATORS, Cause.CALLS, Cause.PYTHON


@frozen
class ThreadCauses:
    """The cause that a gap has by what its thread was in: boundaries on the axis, each with the cause from there on."""

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
        index = in_runs(first, counts)
        head = run_starts(window)
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
    axis = lane_axis(trace)
    home = np.full(len(trace.lanes), -1, np.int64)
    home[lanes] = np.arange(len(lanes))
    inner, inner_cause = _innermost(trace, axis, home, union(low, high))
    outer, outer_cause = _indicated(trace, axis, home, len(lanes))
    position = np.sort(np.concatenate([inner, outer]), kind="stable")
    cause = outer_cause[insertion_index(outer, position, side="right") - 1]
    below = inner_cause[insertion_index(inner, position, side="right") - 1]
    cause = np.where(cause == _NONE, below, cause)
    changes = run_starts(cause)
    return ThreadCauses(axis, home, position[changes], cause[changes])


@kept
def indicating_slices(trace: Trace) -> dict[Cause, Int64]:
    """For each cause that certain slices indicate these slices, ascending; in the order in which they count.

    That is the order of `Cause`, but for the profiler: it asks for its buffers inside of calls that then look slow.
    """
    found = named_slices(trace)
    pageable, small = _copies(trace)
    more = {
        # The first collective makes its communicator.
        Cause.START_UP: distinct(
            np.concatenate(
                [
                    start_up_calls(trace),
                    start_up_ops(trace),
                    workspace_calls(trace),
                    slow_first(trace, found[Cause.COMMUNICATION]),
                ]
            )
        ),
        Cause.PAGEABLE: pageable,
        Cause.HOST_SYNC: small,
        Cause.STALLED: stalled_calls(trace),
    }
    for cause, rows in more.items():
        found[cause] = np.union1d(found.get(cause, rows[:0]), rows)
    order = sorted(found, key=lambda cause: Cause.DATA_LOADING + 0.5 if cause == Cause.PROFILER else cause)
    return {cause: found[cause] for cause in order}


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
    named = ((cause, rows) for cause, rows in indicating_slices(trace).items() if len(rows))
    painted = [(cause, _on_threads(trace, axis, rows, home, count)) for cause, rows in named]
    # Whatever a thread calls while it captures a graph, nothing of it runs. The last to be painted counts.
    captures = graph_captures(trace)
    thread = home[captures.lane]
    mine = thread >= 0
    capturing = Stretches.of(axis, thread[mine], captures.start[mine], captures.end[mine])
    painted.insert(0, (Cause.COMPILATION, capturing))
    edges = [side for _, stretches in painted for side in (stretches.starts, stretches.ends)]
    position = np.unique(np.concatenate([np.full(1, -1, np.int64), *edges]))
    cause = np.full(len(position), _NONE, np.int8)
    for each, stretches in reversed(painted):
        opened = np.bincount(insertion_index(position, stretches.starts), minlength=len(position))
        closed = np.bincount(insertion_index(position, stretches.ends), minlength=len(position))
        cause[np.cumsum(opened - closed) > 0] = each
    return position, cause


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
    code[steps(trace).slices] = Cause.UNSEEN
    code[final_flush(trace)] = Cause.UNSEEN
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
