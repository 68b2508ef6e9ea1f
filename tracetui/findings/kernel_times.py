"""The families that the GPU's time goes to; rules about equal calls of very different times, a lower clock, grids that
leave multiprocessors empty, and streams that run one after another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.devices.counters import counter_samples, counters_of, extents, runs_alone
from tracetui.devices.descriptions import AMD, gpu_generation
from tracetui.devices.residency import Configuration, configuration, residency
from tracetui.findings.gemm import Calls, batchable, calls_of
from tracetui.findings.idle_time import kernel_time
from tracetui.findings.scope import Finding, Scope, Severity, longest
from tracetui.frozen import frozen
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.slice_names import Purpose, families, is_serving, short_kernel
from tracetui.linking.groups import Groups, combinations, count_within, distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.hardware_counters import Quantity, with_unit
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.results import kept
from tracetui.model.table import DOUBTFUL
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.tables.repeats import layer_purposes

# Kernels with fewer blocks than the device has multiprocessors.

MIN_COVERAGE = 0.9
"""Minimum blocks per multiprocessor of a grid that covers the device."""
MIN_KERNEL_NS = 10_000
"""Minimum duration of a kernel that more blocks would shorten; a shorter one is held up by its launch."""
MIN_SHARE_OF_KERNEL_TIME = 0.1
"""Minimum share of the GPU time in grids that do not cover the device."""
MAX_EQUAL_WORK_RATIO = 1.5
"""Maximum duration of calls with one grid and unknown shapes, relative to the shortest, that may be equal work."""
_PERSISTENT = re.compile(
    r"persist|stream_?k|cooperative|ping_?pong|warp_?specialized|deep_?gemm|FlashAttnFwdSm90|splitkv_mla",
    re.IGNORECASE,
)
"""Names of kernels whose blocks stay on the device and take one tile after another."""


def is_persistent(name: str) -> bool:
    """True for kernels whose name says that their blocks stay resident: their grid does not grow with the work."""
    return _PERSISTENT.search(name) is not None


def low_waves(scope: Scope) -> Iterator[Finding]:
    """Kernels whose grid has fewer blocks than the device has multiprocessors."""
    trace, dur, small_grids = scope.trace, scope.trace.slices.dur, underfilled(scope)
    rows, coverage = small_grids.rows, small_grids.coverage
    spent = int(dur[rows].sum())
    if spent == 0:
        return
    lost = float((dur[rows] * (1 - coverage)).sum()) / spent
    example = longest(trace, rows)
    at = int(np.flatnonzero(rows == example)[0])
    units = "compute units" if gpu_generation(trace).vendor == AMD else "multiprocessors"
    yield from scope.with_cost(
        "low-waves",
        round(scope.gpu_cost(rows) * lost),
        f"Kernels do not fill the device: their blocks leave {units} empty",
        f"{kernel_time(scope, rows)}, in grids of fewer blocks than {100 * MIN_COVERAGE:.0f} % of the {units}; the "
        f"longest, {short_kernel(trace.name_of(example))}, has {small_grids.blocks[at]:,} for "
        f"{small_grids.units[at]:,}",
        "Give each kernel more blocks: a larger batch, smaller tiles (max-autotune tries them), split-K for GEMMs "
        "with few rows and columns, or run independent kernels beside them on other streams.",
        example,
        action="enlarge the batch or run independent work beside them",
    )


@frozen
class Underfilled:
    """Kernels whose grids leave multiprocessors empty; parallel arrays."""

    rows: Int64
    coverage: Float64
    """Blocks per multiprocessor, with the mean of what ran at the same time."""
    blocks: Int64
    units: Int64
    """Multiprocessors of the device."""


def underfilled(scope: Scope) -> Underfilled:
    """Kernels with fewer blocks than the device has multiprocessors, those of all kernels that run at the same time
    together; none where they take little of the GPU time.
    """

    def find() -> Underfilled:
        trace, dur = scope.trace, scope.trace.slices.dur
        # One batched GEMM has the blocks of all GEMMs of a loop.
        rows = scope.computing[dur[scope.computing] >= MIN_KERNEL_NS]
        rows = rows[~np.isin(rows, batchable(scope).rows)]
        setup = configuration(trace, rows)
        own = residency(trace, rows, setup).blocks_per_unit
        coverage = own + _blocks_beside(trace, rows)
        with np.errstate(invalid="ignore"):
            low = (coverage < MIN_COVERAGE) & ~_persistent(scope, rows, setup)
        if int(dur[rows[low]].sum()) < MIN_SHARE_OF_KERNEL_TIME * int(dur[scope.activities].sum()):
            low = np.zeros(len(rows), bool)
        blocks = np.array([math.prod(shape) for shape in setup.shapes] or [0], np.int64)[setup.grid[low]]
        return Underfilled(rows[low], coverage[low], blocks, np.rint(blocks / own[low]).astype(np.int64))

    return scope.trace.keep(("underfilled", scope.step), find)


def _blocks_beside(trace: Trace, rows: Int64) -> Float64:
    """Blocks per multiprocessor of other kernels of the device while each kernel ran, in the mean over its time."""
    slices, process, beside = trace.slices, lane_numbers(trace).process, np.zeros(len(rows))
    for device, resident in _resident_blocks(trace).items():
        mine = np.flatnonzero(process[slices.lane[rows]] == device)
        low, high = slices.start[rows[mine]] - resident.origin, slices.end[rows[mine]] - resident.origin
        whole = np.interp(high, resident.moments, resident.total) - np.interp(low, resident.moments, resident.total)
        own = resident.blocks[np.searchsorted(resident.rows, rows[mine])]
        beside[mine] = whole / np.maximum(high - low, 1) - own
    return np.maximum(beside, 0)


@frozen
class _ResidentBlocks:
    """The blocks per multiprocessor of all kernels of a device, and their sum over time, which is linear between the
    moments; these are in ns from `origin`.
    """

    rows: Int64
    blocks: Float64
    origin: int
    moments: Float64
    total: Float64


@kept
def _resident_blocks(trace: Trace) -> dict[int, _ResidentBlocks]:
    """The blocks of the kernels of each device, by its number in `lane_numbers`."""
    slices, kernels = trace.slices, trace.slices.of_kind(Kind.KERNEL)
    process, result = lane_numbers(trace).process[slices.lane[kernels]], {}
    for device in distinct(process).tolist():
        rows = kernels[process == device]
        blocks = np.nan_to_num(residency(trace, rows, configuration(trace, rows)).blocks_per_unit)
        # The blocks that are resident change where a kernel starts or ends.
        origin = int(slices.start[rows].min())
        moments = np.concatenate([slices.start[rows], slices.end[rows]]) - origin
        order = np.argsort(moments, kind="stable")
        moments, change = moments[order], np.concatenate([blocks, -blocks])[order]
        total = np.append(0.0, np.cumsum(np.cumsum(change)[:-1] * np.diff(moments)))
        result[device] = _ResidentBlocks(rows, blocks, origin, moments.astype(np.float64), total)
    return result


def _persistent(scope: Scope, rows: Int64, setup: Configuration) -> Bool:
    """Mask of the kernels whose number of blocks is chosen for the device and not for their size."""
    trace, dur = scope.trace, scope.trace.slices.dur
    calls = calls_of(scope, rows)
    kernel = combinations(trace.slices.name[rows])
    pairs = combinations(kernel.member, setup.grid)
    # A kernel with one grid for several sizes.
    grids = np.bincount(kernel.member[pairs.first], minlength=len(kernel))
    known = calls.signature >= 0
    sizes = combinations(kernel.member[known], calls.signature[known], calls.name[known])
    kinds = np.bincount(kernel.member[known][sizes.first], minlength=len(kernel))
    calls_known = np.bincount(kernel.member[known], minlength=len(kernel)) > 0
    several = kinds > 1
    if len(rows):
        groups = group(kernel.member)
        shortest, slowest = dur[rows[groups.smallest(dur[rows])]], dur[rows[groups.largest(dur[rows])]]
        several |= ~calls_known & (slowest > MAX_EQUAL_WORK_RATIO * np.maximum(shortest, 1))
    constant: Bool = ((grids == 1) & several)[kernel.member]
    return constant | is_named(trace, rows, is_persistent)


# Kernels of several streams that run one after another although nothing orders them.
#
# The rule asks for strong evidence: the later kernel had been launched and its stream was free while the earlier one
# ran with few blocks, and no call made a stream wait for another.

MIN_PAIRS = 20
"""Minimum kernels that waited for one of another stream."""
MIN_PAIR_SHARE = 0.5
"""Minimum share of the changes from one stream to another at which a kernel waited so."""
MAX_ORDERED = 0.1
"""Maximum calls that order streams, relative to the changes from one to another."""
MAX_OVERLAP = 0.02
"""Maximum share of the time of the streams in which kernels of two of them ran at once."""
MAX_COVERAGE = 0.5
"""Maximum blocks per multiprocessor of a kernel that leaves room for one beside it."""
_ORDERING = re.compile(r"(StreamWaitEvent|EventSynchronize|StreamSynchronize|DeviceSynchronize|GraphLaunch)", re.I)


def serialised_streams(scope: Scope) -> Iterator[Finding]:
    """Kernels of several streams run one after another although nothing orders them and both would fit."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.computing
    streams = distinct(slices.lane[rows])
    if len(streams) < 2:
        return
    rows = rows[np.lexsort((slices.start[rows], lane_numbers(trace).process[slices.lane[rows]]))]
    start, end = slices.start[rows], slices.end[rows]
    shared = np.maximum(np.minimum(np.maximum.accumulate(end)[:-1], end[1:]) - start[1:], 0).sum()
    if shared / max(float((end - start).sum()), 1.0) > MAX_OVERLAP:
        return
    first, second, changes = _waiting_pairs(trace, rows)
    ordered = len(calls_named(trace, _ORDERING)) > MAX_ORDERED * changes
    if ordered or len(first) < max(MIN_PAIRS, MIN_PAIR_SHARE * changes):
        return
    # At best the others run beside the stream that takes longest.
    each = group(slices.lane[rows]).sum(slices.dur[rows])
    possible = min(int(np.minimum(slices.dur[first], slices.dur[second]).sum()), int(each.sum() - each.max()))
    example = int(second[np.argmax(np.minimum(slices.dur[first], slices.dur[second]))])
    yield from scope.with_cost(
        "serialised-streams",
        min(possible, scope.gpu_cost(second)),
        f"Kernels of {len(streams)} streams run one after another although nothing orders them",
        f"{counted(len(second), 'kernel')} started only when a kernel of another stream had ended, though launched "
        f"before and though that one left half of the device empty; {duration(possible)} could overlap; the "
        f"longest, {short_kernel(trace.name_of(example))}",
        "Look for what serialises them: work on the default stream between, CUDA_LAUNCH_BLOCKING, one connection for "
        "all streams (CUDA_DEVICE_MAX_CONNECTIONS=1), or streams of one priority that share a hardware queue.",
        example,
        action="let the streams overlap",
    )


def _waiting_pairs(trace: Trace, rows: Int64) -> tuple[Int64, Int64, int]:
    """Kernels with the one of another stream that then started as soon as it could; and the number of changes."""
    slices, launch = trace.slices, links(trace).launch
    device = lane_numbers(trace).process[slices.lane[rows]]
    first, second = rows[:-1], rows[1:]
    changes = (slices.lane[first] != slices.lane[second]) & (device[1:] == device[:-1])
    first, second = first[changes], second[changes]
    called = launch[second].astype(np.int64)
    free = _end_of_stream(trace, rows)[1:][changes]
    ready = np.maximum(np.where(called >= 0, slices.end[called], np.iinfo(np.int64).max), free)
    waited = (ready <= slices.start[first]) & (slices.start[second] >= slices.end[first])
    setup = configuration(trace, first)
    with np.errstate(invalid="ignore"):
        waited &= residency(trace, first, setup).blocks_per_unit < MAX_COVERAGE
    return first[waited], second[waited], int(changes.sum())


def _end_of_stream(trace: Trace, rows: Int64) -> Int64:
    """Time at which the stream of each kernel had finished the one before it."""
    slices = trace.slices
    lane = slices.lane[rows]
    order = np.argsort(lane, kind="stable")
    ends = slices.end[rows][order]
    before = np.full(len(rows), np.iinfo(np.int64).min)
    follows = np.flatnonzero(lane[order][1:] == lane[order][:-1]) + 1
    before[order[follows]] = ends[follows - 1]
    return before


_FAMILIES = {
    Family.GEMM: "GEMM",
    Family.ATTENTION: "attention",
    Family.REDUCTION: "reductions",
    Family.POINTWISE: "element-wise",
    Family.COPY: "copies",
    Family.COMMUNICATION: "communication",
    Family.OTHER: "other",
}
"""Families of GPU activities in words; convolutions are GEMMs."""
MIN_FAMILY_SHARE = 0.005
"""Minimum share of the GPU time of a family that is named."""


def gpu_time_by_family(scope: Scope) -> str:
    """Shares of the families in the GPU time of the scope: `GEMM 28 %, attention 8 %, communication 3 %`.

    The largest share comes first. Shares are of the sum of their times, as several may run at once; empty without
    activities.
    """
    rows = scope.activities
    spent = np.bincount(families(scope.trace, rows), scope.trace.slices.dur[rows], len(Family))
    whole = float(spent.sum())
    shares = {words: float(spent[family]) / whole for family, words in _FAMILIES.items()} if whole else {}
    named = sorted((each for each in shares if shares[each] >= MIN_FAMILY_SHARE), key=lambda each: -shares[each])
    return ", ".join(f"{words} {rounded_percent(100 * shares[words])}" for words in named)


_PURPOSES = {
    Purpose.POINTWISE: "element-wise",
    Purpose.COPY: "copies",
    Purpose.NORM: "norms",
    Purpose.REDUCTION: "reductions",
    Purpose.ACTIVATION: "activations",
    Purpose.ROPE: "rotary embeddings",
}
"""Words for the purposes of kernels that are not called by their own name."""


def gpu_time_by_purpose(scope: Scope, rows: Int64) -> str:
    """Shares of the GPU time that some activities take, by purpose: `norms 23 %, element-wise 22 %, copies 15 %`.

    The purpose is that of the innermost module where a kernel's name has none (R3.81a), `~` where a capture tells the
    module. A norm of eager code consists of element-wise kernels and reductions: their families do not name it.
    """
    dur = scope.trace.slices.dur
    ids, texts, inferred = layer_purposes(scope.trace, rows)
    by_purpose, whole = group(ids), max(int(dur[scope.activities].sum()), 1)
    shares, doubt = by_purpose.sum(dur[rows]) / whole, by_purpose.sum(inferred.astype(np.int64)) > 0
    words = []
    for index in np.argsort(-shares, kind="stable").tolist():
        if shares[index] >= MIN_FAMILY_SHARE:
            purpose = str(texts[int(by_purpose.key[index])])
            name = _PURPOSES.get(Purpose(purpose), purpose)
            words.append(f"{name} {DOUBTFUL * bool(doubt[index])}{rounded_percent(100 * shares[index])}")
    return ", ".join(words)


MIN_UNEVEN_RATIO = 2.0
"""Minimum duration of a slow call, relative to the median of the calls that are equal to it."""
MIN_CALLS = 4
"""Minimum equal calls for a median."""
MIN_VARYING_CALLS = 8
"""Minimum equal calls of which none is typical ..."""
MIN_QUARTILES = 0.25
"""... and distance of their quartiles, relative to the median ..."""
MIN_FILLED_RANGE = 0.4
"""... and share of their range that lies near one of them: different sizes would leave most of it empty ..."""
NEAR = 0.025
"""... within this part of the median."""
MIN_VARYING_NS = 10_000
"""Minimum median of calls whose shapes are not known; shorter ones vary with their launch."""
MIN_EXCESS = 0.02
"""Minimum excess of the slow calls, as a share of the time of the kernels."""
MAX_WINDOW = 0.25
"""Maximum share of the time from the first call to the last in which slow calls lie close together."""
_BY_DATA = frozenset({"sort", "select", "search", "scatter", "embedding", "histogram", "scan", "sampling", "routing"})
"""Operations whose time depends on the values and not on the sizes alone."""

_SHARED = "Other streams ran beside them: they shared the device, so move that work or give it fewer blocks."
_LOOK = (
    "look at clock and power (nvidia-smi -q -d PERFORMANCE), and for another process on it. Compare medians, not means."
)
_SAME_WORK = f"The work is the same, so the device was not: {_LOOK}"
_LIKELY_SAME_WORK = f"Where sizes and values are the same (record_shapes=True tells), the device was not: {_LOOK}"


def uneven_kernels(scope: Scope) -> Iterator[Finding]:
    """Equal calls of the same kernel take very different times, some of them or all.

    Equal are calls by the same operator with the same shapes and strides, or, where no shapes were recorded, calls on
    one stream with the same grid, between the same kernels.
    """
    trace = scope.trace
    calls, equal = _equal_calls(scope)
    if len(calls.kernel) == 0:
        return
    dur, same, known = trace.slices.dur[calls.kernel], group(equal), calls.signature >= 0
    median = same.median(dur)[same.member]
    long = known & (same.calls >= MIN_CALLS)[same.member] & (dur > MIN_UNEVEN_RATIO * np.maximum(median, 1))
    long |= _varies(scope, calls, same, dur)[same.member] & (dur > median)
    slow: Int64 = np.flatnonzero(long)
    shaped = slow[known[slow]]
    slow = np.union1d(slow[~known[slow]], shaped[_same_strides(scope, calls, same, shaped)])
    excess = (dur - median)[slow]
    if len(slow) == 0 or excess.sum() < MIN_EXCESS * trace.slices.dur[scope.computing].sum():
        return
    late = calls.kernel[slow]
    price = int(scope.gpu_cost(late) * float(excess.sum()) / float(dur[slow].sum()))
    lost = np.bincount(same.member[slow], excess, len(same))
    worst = slow[same.member[slow] == int(np.argmax(lost))]
    example, alike = int(worst[np.argmax(dur[worst])]), dur[same.member == int(np.argmax(lost))]
    ids = np.unique(trace.slices.name[late])
    others = f" and {counted(len(ids) - 1, 'other kernel')}" if len(ids) > 1 else ""
    short = short_kernel(trace.name_of(int(calls.kernel[example])))
    beside, words = _surroundings(scope, late)
    what = "operator, shapes and grid" if known[example] else "grid and the kernels around them; no shapes are known"
    yield from scope.with_cost(
        "uneven-kernels",
        price,
        "Equal calls of the same kernel take very different times",
        f"{counted(len(slow), 'call')} took {duration(float(excess.sum()))} more than the median of equal calls "
        f"({what}): {short}{others}, {counted(len(alike), 'call')} of {duration(int(alike.min()))} to "
        f"{duration(int(alike.max()))}, median {duration(float(np.median(alike)))}; {words}",
        _SHARED if beside else _SAME_WORK if known[example] else _LIKELY_SAME_WORK,
        int(calls.kernel[example]),
        action="find out what slows the device down" if not beside else "separate the work that shares the device",
        at_most=Severity.MAJOR if known[example] else Severity.MINOR,
    )


def _equal_calls(scope: Scope) -> tuple[Calls, Int64]:
    """Calls whose time should depend on their sizes alone, and the number of the equal calls that each belongs to.

    Without shapes a call of attention may have another length, and a call of a server another batch.
    """
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.computing[np.lexsort((slices.start[scope.computing], slices.lane[scope.computing]))]
    setup, name, lane = configuration(trace, rows), slices.name[rows], slices.lane[rows]
    kind = combinations(name, setup.grid, setup.block, lane).member
    before, after = np.append(-1, kind[:-1])[: len(rows)], np.append(kind[1:], -1)[: len(rows)]
    calls = calls_of(scope, rows)
    known = calls.signature >= 0
    keep = np.where(known, ~is_named(trace, rows, depends_on_data), ~is_named(trace, rows, _has_other_sizes))
    keep &= known | (not steps(trace).is_served and not is_serving(trace))
    nothing = np.zeros(len(rows), np.int64)
    # A call may run one kernel for each of its results: that is counted too.
    keys = [np.where(known, one, other) for one, other in ((calls.name, kind), (calls.signature, -1 - before))]
    keys += [np.where(known, nothing, after), np.where(known, count_within(calls.op), nothing)]
    equal = combinations(known.astype(np.int64), name, setup.grid, setup.block, *keys).member
    return calls.take(keep), equal[keep]


@cache
def _has_other_sizes(name: str) -> bool:
    """True for kernels that may compute another size with the same grid, or whose time depends on the values."""
    decoded = decode(name)
    by_data = decoded.family in (Family.ATTENTION, Family.COMMUNICATION) or decoded.operation in _BY_DATA
    return by_data or is_persistent(name)


def _varies(scope: Scope, calls: Calls, same: Groups, dur: Int64) -> Bool:
    """Mask of the groups of equal calls none of which is typical; without shapes only where nothing ran beside them."""
    varies = np.zeros(len(same), bool)
    longest_of, shortest = dur[same.largest(dur)], dur[same.smallest(dur)]
    for number in np.flatnonzero(
        (same.calls >= MIN_VARYING_CALLS) & (longest_of >= MIN_UNEVEN_RATIO * np.maximum(shortest, 1))
    ).tolist():
        mine = np.flatnonzero(same.member == number)
        low, median, high = np.percentile(dur[mine], (25, 50, 75))
        gaps = np.diff(np.sort(dur[mine]))
        filled = float(np.minimum(gaps, 2 * NEAR * median).sum()) / float(max(gaps.sum(), 1))
        if high - low < MIN_QUARTILES * median or filled < MIN_FILLED_RANGE:
            continue
        shared = _beside(scope, calls.kernel[mine]).sum() if calls.signature[mine[0]] < 0 else 0
        varies[number] = shared == 0 and (calls.signature[mine[0]] >= 0 or median >= MIN_VARYING_NS)
    return varies


def _same_strides(scope: Scope, calls: Calls, same: Groups, slow: Int64) -> Bool:
    """Mask of the slow calls whose strides are those of the call of median duration.

    Where no strides were recorded, only of kernels that read tensors in order.
    """
    trace = scope.trace
    order = np.lexsort((trace.slices.dur[calls.kernel], same.member))
    first = np.searchsorted(same.member[order], same.member[slow])
    usual = order[first + same.calls[same.member[slow]] // 2]
    (mine,) = trace.args_of(calls.op[slow], ["Input Strides"])
    (theirs,) = trace.args_of(calls.op[usual], ["Input Strides"])
    in_order = is_named(trace, calls.kernel[slow], _reads_in_order).tolist()
    pairs = zip(mine, theirs, in_order, strict=True)
    return np.array([a == b and (a is not None or ordered) for a, b, ordered in pairs], bool)


@cache
def _reads_in_order(name: str) -> bool:
    decoded = decode(name)
    return decoded.vector is not None or decoded.family in (Family.GEMM, Family.ATTENTION)


def _surroundings(scope: Scope, rows: Int64) -> tuple[bool, str]:
    """True where other activities ran beside most of the slow calls; and a clause on that and on when they were."""
    slices = scope.trace.slices
    start, end = slices.start[rows], slices.end[rows]
    part = float(_beside(scope, rows).sum()) / max(float((end - start).sum()), 1.0)
    computing = scope.computing
    whole = int(slices.end[computing].max() - slices.start[computing].min())
    window = int(end.max() - start.min())
    when = f"all within {duration(window)}" if window < MAX_WINDOW * whole else "spread over the recording"
    beside = f"other activities ran beside them for {rounded_percent(100 * part)} of their time"
    return part > 0.5, f"{when}; {beside if part > 0.01 else 'nothing ran beside them'}"


def _beside(scope: Scope, rows: Int64) -> Int64:
    """Time in ns for which other activities ran beside each of some kernels."""
    slices, others = scope.trace.slices, links(scope.trace).gpu
    others = others[~np.isin(others, rows)]
    return covered_within(*union(slices.start[others], slices.end[others]), slices.start[rows], slices.end[rows])


@cache
def depends_on_data(name: str) -> bool:
    """True for kernels whose time may depend on the values they read, or on other ranks, and not on sizes alone."""
    decoded = decode(name)
    return decoded.family in (Family.OTHER, Family.COMMUNICATION) or decoded.operation in _BY_DATA


# Kernels that take longer because the GPU ran at a lower clock (3(m)).

MAX_CLOCK_SHARE = 0.95
"""Maximum clock of a slow call, as a share of the usual high clock of its GPU."""
MIN_HIGH_SHARE = 0.98
"""Minimum clock of a call at the high clock, likewise."""
HIGH_PERCENTILE = 90
"""Percentile of the clocks of all calls on a GPU that counts as its high clock."""
MIN_CALLS_AT_CLOCK = 5
"""Minimum equal calls at each of the two clocks."""
MAX_CLOCK_SPREAD = 0.1
"""Maximum distance of the quartiles of equal calls at one clock, relative to their median."""
IN_STEP = (0.5, 1.5)
"""Slow-down of the calls at the low clock, relative to that of the clock: at least and at most."""


@frozen
class SlowCalls:
    """Calls at a low clock of kernels that take longer in step with the clock: parallel arrays."""

    row: Int64
    clock: Float64
    """SM clock in MHz while the call ran."""
    high_clock: Float64
    """Median clock of the equal calls at the high clock."""
    excess: Float64
    """Time in ns beyond the median of these."""
    usual: Float64
    """That median in ns."""


def lower_clock(scope: Scope) -> Iterator[Finding]:
    """Calls of the same kernel are slower while the SM clock is lower, by about as much as the clock."""
    trace = scope.trace
    slow = _slow_calls(scope) if len(trace.counters) else None
    if slow is None:
        return
    dur = trace.slices.dur[slow.row]
    worst = int(np.argmax(slow.excess))
    price = int(scope.gpu_cost(slow.row) * float(slow.excess.sum()) / max(float(dur.sum()), 1.0))
    names = len(np.unique(trace.slices.name[slow.row]))
    low, high = float(np.median(slow.clock)), float(np.median(slow.high_clock))
    # Power and temperature meanwhile, where they were recorded.
    device, meanwhile = lane_numbers(trace).device[trace.slices.lane[slow.row]], []
    for quantity, unit in ((Quantity.POWER, "W"), (Quantity.TEMPERATURE, "°C")):
        values = _during(trace, slow.row, device, quantity)
        if not np.isnan(values).all():
            meanwhile.append(with_unit(float(np.nanmean(values)), unit))
    conditions = f"; {' and '.join(meanwhile)} meanwhile" if meanwhile else ""
    yield from scope.with_cost(
        "lower-clock",
        price,
        "Kernels take longer while the GPU runs at a lower clock",
        f"{counted(len(slow.row), 'call')} of {counted(names, 'kernel')} at {low:,.0f} MHz instead of {high:,.0f} MHz "
        f"({rounded_percent(100 * low / high)}), {duration(float(slow.excess.sum()))} more than at the high clock: "
        f"{short_kernel(trace.name_of(int(slow.row[worst])))}, {duration(int(dur[worst]))} instead of "
        f"{duration(float(slow.usual[worst]))}{conditions}",
        "The work is the same and the clock is not: nvidia-smi -q -d PERFORMANCE names the reason (power limit, "
        "temperature). Compare times only at one clock (nvidia-smi --lock-gpu-clocks).",
        int(slow.row[worst]),
        action="find out why the clock drops",
    )


def _slow_calls(scope: Scope) -> SlowCalls | None:
    """The calls at a low clock of all kernels that are slower in step with it; None where there are none."""
    trace, rows = scope.trace, scope.computing
    rows = rows[~is_named(trace, rows, depends_on_data) & runs_alone(trace)[rows]]
    device = lane_numbers(trace).device[trace.slices.lane[rows]]
    clock = _during(trace, rows, device, Quantity.SM_CLOCK)
    known = ~np.isnan(clock) & (clock > 0)
    rows, device, clock = rows[known], device[known], clock[known]
    if len(rows) == 0:
        return None
    reference = np.empty(len(clock))
    for number in np.unique(device).tolist():
        reference[device == number] = np.percentile(clock[device == number], HIGH_PERCENTILE)
    is_high, is_low = clock >= MIN_HIGH_SHARE * reference, clock <= MAX_CLOCK_SHARE * reference
    setup = configuration(trace, rows)
    same = group(combinations(device, trace.slices.name[rows], setup.grid, setup.block).member)
    parts = [
        part
        for number in np.flatnonzero(same.calls >= 2 * MIN_CALLS_AT_CLOCK).tolist()
        if (part := _compared(trace, rows, clock, same, number, is_high, is_low)) is not None
    ]
    if not parts:
        return None
    return SlowCalls(*(np.concatenate([getattr(part, name) for part in parts]) for name in SlowCalls.__annotations__))


def _compared(
    trace: Trace, rows: Int64, clock: Float64, same: Groups, number: int, is_high: np.ndarray, is_low: np.ndarray
) -> SlowCalls | None:
    """The calls at the low clock of one kernel, where they are slower in step with it; None where they are not."""
    mine = same.member == number
    high, low = np.flatnonzero(mine & is_high), np.flatnonzero(mine & is_low)
    if min(len(high), len(low)) < MIN_CALLS_AT_CLOCK:
        return None
    fast, slow = (trace.slices.dur[rows[each]].astype(np.float64) for each in (high, low))
    if max(_spread(fast), _spread(slow)) > MAX_CLOCK_SPREAD:
        return None
    usual, high_clock = float(np.median(fast)), float(np.median(clock[high]))
    slowed, lowered = float(np.median(slow)) / max(usual, 1.0) - 1, high_clock / float(np.median(clock[low])) - 1
    if not IN_STEP[0] * lowered <= slowed <= IN_STEP[1] * lowered:
        return None
    filled = np.full(len(low), 1.0)
    return SlowCalls(rows[low], clock[low], high_clock * filled, np.maximum(slow - usual, 0), usual * filled)


def _spread(dur: Float64) -> float:
    """Distance of the quartiles, relative to the median."""
    low, middle, high = np.percentile(dur, (25, 50, 75))
    return float((high - low) / max(middle, 1.0))


def _during(trace: Trace, rows: Int64, device: Int64, quantity: Quantity) -> Float64:
    """Mean of a quantity of the GPU of each slice while the slice ran, NaN where it is not known."""
    means = np.full(len(rows), np.nan)
    for number in counters_of(trace, quantity):
        each = counter_samples(trace, number)
        mine = np.flatnonzero((device == each.counter.gpu) & np.isnan(means))
        means[mine] = extents(each, trace.slices.start[rows[mine]], trace.slices.end[rows[mine]]).mean
    return means
