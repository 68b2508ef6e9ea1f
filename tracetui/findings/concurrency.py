"""Rules about a device that is not filled: grids that leave multiprocessors empty, and streams that run one after
another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from tracetui.devices.descriptions import AMD, gpu_generation
from tracetui.devices.residency import Configuration, configuration, residency
from tracetui.findings.gemm import batchable, calls_of
from tracetui.findings.idle_time import kernel_time
from tracetui.findings.scope import Finding, Scope, longest
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import combinations, distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration
from tracetui.model.results import kept
from tracetui.model.trace import Float64, Kind, Trace

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
