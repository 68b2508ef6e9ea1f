"""Rule about kernels of several streams that run one after another although nothing orders them.

It speaks on strong evidence only: the later kernel had been launched and its stream was free while the earlier one ran
with few blocks, and no call made a stream wait for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.devices.configuration import configuration
from tracetui.devices.residency import residency
from tracetui.findings.finding import Finding
from tracetui.findings.scope import Scope
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import calls_named, links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Trace

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
    if _overlap(trace, rows) > MAX_OVERLAP:
        return
    first, second, changes = _waiting_pairs(trace, rows)
    ordered = len(calls_named(trace, _ORDERING)) > MAX_ORDERED * changes
    if ordered or len(first) < max(MIN_PAIRS, MIN_PAIR_SHARE * changes):
        return
    # At best the others run beside the stream that takes longest.
    each = group(slices.lane[rows]).sum(slices.dur[rows])
    possible = min(int(np.minimum(slices.dur[first], slices.dur[second]).sum()), int(each.sum() - each.max()))
    example = int(second[np.argmax(np.minimum(slices.dur[first], slices.dur[second]))])
    yield from scope.priced(
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


def _overlap(trace: Trace, rows: Int64) -> float:
    """Share of the time of the kernels in which two of them ran at once."""
    start, end = trace.slices.start[rows], trace.slices.end[rows]
    reach = np.maximum.accumulate(end)
    shared = np.maximum(np.minimum(reach[:-1], end[1:]) - start[1:], 0).sum()
    return float(shared) / max(float((end - start).sum()), 1.0)


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
    """When the stream of each kernel had finished the one before it."""
    slices = trace.slices
    lane = slices.lane[rows]
    order = np.argsort(lane, kind="stable")
    ends = slices.end[rows][order]
    before = np.full(len(rows), np.iinfo(np.int64).min)
    follows = np.flatnonzero(lane[order][1:] == lane[order][:-1]) + 1
    before[order[follows]] = ends[follows - 1]
    return before
