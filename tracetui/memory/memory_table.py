"""The memory pane: allocations and frees, the peak of each device, and the ops behind them.

A running total is as recorded; where it is missing, `since_start` counts from the start of the recording. Grouped by
copy, the pane lists copies and fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.linking.chains import chain
from tracetui.linking.groups import group
from tracetui.linking.links import names_of
from tracetui.linking.placement import chosen, step_at
from tracetui.linking.steps import steps
from tracetui.memory.allocator import CPU, Allocator, allocation_causes, allocator, copies, copy_rows
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import moment, size
from tracetui.model.recorded import Loss
from tracetui.model.table import NULL, ColumnSpec, Strings, Table, coded, micros, numbers, texts
from tracetui.model.trace import Kind, Trace

if TYPE_CHECKING:
    from tracetui.memory.beside_snapshot import Holders

NO_MEMORY = "No allocations were recorded. Record with profile_memory=True."
NOT_IN_FORMAT = (
    "This file format has no allocator events: the JSON of torch.profiler has them, with profile_memory=True."
)
OLDER = "(older than the recording)"
"""Stands for the op of memory that was allocated before the recording."""
_OP = col.OP.but(help="The op that needed the memory, or in which it was freed.")
_EVENTS = Strings(["alloc", "free", "out of memory"])
_MAX_NAMED_OPS = 4
"""Maximum ops listed per chain."""


def memory(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every allocator event in order of time; or by op, by device, or copies by kind."""
    if by == "copy":
        return copies(trace, step)
    allocations = allocator(trace)
    index = step_at(trace, allocations.time, allocations.lane)
    if isinstance(step, TimeRange):
        rows = np.flatnonzero(step.touched(allocations.time, allocations.time))
    else:
        rows = np.arange(len(allocations)) if step is None else np.flatnonzero(np.isin(index, chosen(trace, step)))
    if by == "op":
        return _by_op(trace, allocations, rows, _op_names(trace, allocation_causes(trace).op), trace.names, _OP)
    if by == "holder" and (holders := _holders(trace)) is not None:
        return _by_op(trace, allocations, rows, holders.line, holders.names, col.HOLDER)
    if by == "device":
        return _by_device(trace, allocations, rows)
    return _events(trace, allocations, rows, index)


def _has_allocations(trace: Trace) -> bool:
    return len(allocator(trace)) > 0


def _holders(trace: Trace) -> Holders | None:
    """The holders of the allocator's events, None without a memory snapshot beside the trace."""
    if trace.snapshot is None:
        return None
    # Few traces have one.
    from tracetui.memory.beside_snapshot import snapshot_holders

    return snapshot_holders(trace)


PANE = Pane(
    "memory",
    "Memory",
    key="M",
    help="One row is an allocation or a free.",
    table=memory,
    columns="step event bytes total_allocated op holder device lifetime_us since_start total_reserved made_by start_us",
    groupings=(
        Grouping(
            "op",
            columns="op device at_peak at_peak_pct allocated allocs freed largest",
            opens="device",
            is_offered=_has_allocations,
        ),
        Grouping(
            "device",
            columns="device peak rise peak_us peak_op reserved last allocated allocs median_lifetime_us failed",
            opens="",
            is_offered=_has_allocations,
        ),
        Grouping(
            "holder",
            columns="holder device at_peak at_peak_pct allocated allocs freed largest",
            opens="device",
            is_offered=lambda trace: trace.snapshot is not None and _has_allocations(trace),
        ),
        Grouping("copy", "copy calls bytes total_us gbps median_gbps median_bytes max_us hint"),
    ),
)


def _events(trace: Trace, allocations: Allocator, rows: Int64, index: Int64) -> Table:
    lifetime, causes = allocations.lifetime()[rows], allocation_causes(trace)
    kind = np.select([allocations.failed[rows], allocations.bytes[rows] < 0], [2, 1], 0)
    holding = []
    if (by := _holders(trace)) is not None:
        holding = [coded(col.HOLDER, by.line[rows], by.names), coded(col.HOLDER_STACK, by.stack[rows], by.names)]
    return Table(
        (
            micros(col.START_US.but(help="Moment, from the first event of the trace."), allocations.time[rows]),
            coded(col.DEVICE.but(help="The device whose memory it is."), allocations.device[rows], allocations.devices),
            numbers(col.BYTES.but(help="Allocated; below zero: freed."), allocations.bytes[rows]),
            numbers(col.TOTAL_ALLOCATED, allocations.total[rows]),
            numbers(col.TOTAL_RESERVED, allocations.reserved[rows]),
            coded(
                col.OP.but(help="The op that needed it, or in which it was freed."),
                _op_names(trace, causes.op[rows]),
                trace.names,
            ),
            coded(col.EVENT, kind, _EVENTS),
            numbers(
                col.STEP.but(help="Number of the step it is in."), np.append(steps(trace).number, NULL)[index[rows]]
            ),
            micros(col.LIFETIME_US, lifetime, null=lifetime == NULL),
            numbers(col.SINCE_START, allocations.since_start[rows]),
            coded(col.MADE_BY, _op_names(trace, causes.made_by[rows]), trace.names),
            *holding,
        ),
        causes.made_by[rows],
        _memory_note(trace, allocations, rows),
    )


@frozen
class _Needs:
    """Memory that ops needed on devices: one entry per device and op, then one per device for older memory."""

    op: Int64
    """Index in `names`."""
    names: Strings
    device: Int64
    at_peak: NDArray[np.float64]
    """Bytes in use at the peak of the device."""
    full: NDArray[np.float64]
    """All bytes in use on the device then; NaN where unknown."""
    older: int
    """Number of entries for older memory."""

    def with_older(self, values: NDArray[np.generic], older: int = NULL) -> Int64:
        """One number per op, and the same one for all older memory."""
        return np.append(values.astype(np.int64), np.full(self.older, older))


def _by_op(trace: Trace, allocations: Allocator, rows: Int64, name: Int64, names: Strings, column: ColumnSpec) -> Table:
    """Bytes allocated and freed, and in use at the peak of the device, by device and a name of events."""
    note, causes = _memory_note(trace, allocations, rows), allocation_causes(trace)
    at_peak, full = _bytes_at_peak(allocations, rows)
    inside = np.zeros(len(allocations), bool)
    inside[rows] = True
    # Memory in use at the peak of a step may be older than the step.
    rows = np.flatnonzero(inside | (at_peak > 0))
    size = np.where(inside & ~allocations.failed, allocations.bytes, 0)[rows]
    wide = len(names) + 1
    pairs = group((allocations.device[rows] + 1) * wide + name[rows] + 1)
    needs = _needs(names, pairs.key // wide - 1, pairs.key % wide - 1, pairs.sum(at_peak[rows]), full)
    largest = pairs.largest(size)
    table = Table(
        (
            coded(column, needs.op, needs.names),
            coded(col.DEVICE.but(help="The device whose memory it is."), needs.device, allocations.devices),
            numbers(col.ALLOCS, needs.with_older(pairs.sum(size > 0))),
            numbers(col.ALLOCATED, needs.with_older(pairs.sum(np.maximum(size, 0)))),
            numbers(col.FREED, needs.with_older(-pairs.sum(np.minimum(size, 0)))),
            numbers(col.AT_PEAK, np.where(np.isnan(needs.full), np.nan, needs.at_peak)),
            numbers(col.AT_PEAK_PCT, 100 * needs.at_peak / needs.full),
            numbers(col.LARGEST, needs.with_older(np.maximum(size[largest], 0))),
        ),
        needs.with_older(causes.op[rows][largest], -1),
        note,
    )
    table = table.take(table.order("allocated", descending=True))
    return table.take(table.order("at_peak", descending=True))


def _needs(trace_names: Strings, device: Int64, op: Int64, at_peak: np.ndarray, full: np.ndarray) -> _Needs:
    """The entries of pairs of a device and an op, and of older memory on each device."""
    # Memory in use at the peak of a device without a recorded allocation.
    on_device = device >= 0
    rest = np.nan_to_num(full - np.bincount(device[on_device], at_peak[on_device], len(full)))
    older = np.flatnonzero(rest > 0)
    names = Strings(trace_names)
    op = np.append(op, np.full(len(older), names.intern(OLDER)))
    device = np.append(device, older)
    at_peak = np.append(at_peak, rest[older].astype(np.int64))
    return _Needs(op, names, device, at_peak, np.append(full, np.nan)[device], len(older))


def _bytes_at_peak(allocations: Allocator, rows: Int64) -> tuple[Int64, np.ndarray]:
    """The bytes of each event in use at the peak of its device, and all bytes in use there then, NaN where unknown."""
    at_peak, full = np.zeros(len(allocations), np.int64), np.full(len(allocations.devices), np.nan)
    for device, peak in allocations.peak(rows).items():
        if (allocations.partner[allocations.device == device] < 0).all():
            continue
        alive = allocations.alive_at(peak)
        at_peak[alive] = allocations.bytes[alive]
        full[device] = max(int(allocations.total[peak]), 1) if allocations.total[peak] != NULL else np.nan
    return at_peak, full


def _by_device(trace: Trace, allocations: Allocator, rows: Int64) -> Table:
    """Bytes allocated and freed, the peak and the op there, by device."""
    peaks, lives = allocations.peak(rows), allocations.lifetime()
    device = np.array(list(peaks), np.int64)
    peak = np.array(list(peaks.values()), np.int64)
    mine = [rows[allocations.device[rows] == number] for number in peaks]
    size = [np.where(allocations.failed[events], 0, allocations.bytes[events]) for events in mine]
    known = [lives[events][lives[events] != NULL] for events in mine]
    lifetime = np.array([float(np.median(lifetimes)) if len(lifetimes) else -1.0 for lifetimes in known])
    return Table(
        (
            coded(col.DEVICE.but(help="The device whose memory it is."), device, allocations.devices),
            numbers(col.PEAK, allocations.total[peak]),
            micros(col.PEAK_US, allocations.time[peak]),
            texts(col.PEAK_OP, [chain_of(trace, int(allocation_causes(trace).op[event])) for event in peak]),
            numbers(col.RISE, allocations.since_start[peak]),
            numbers(col.RESERVED, [int(allocations.reserved[events].max()) for events in mine]),
            numbers(col.LAST, allocations.total[[int(events[-1]) for events in mine]]),
            numbers(col.ALLOCS.but(help="Allocations."), [int((each > 0).sum()) for each in size]),
            numbers(col.ALLOCATED.but(help="Their bytes."), [int(np.maximum(each, 0).sum()) for each in size]),
            numbers(col.FREES, [int((each < 0).sum()) for each in size]),
            numbers(col.FREED.but(help="Bytes that were freed."), [-int(np.minimum(each, 0).sum()) for each in size]),
            micros(col.MEDIAN_LIFETIME_US, lifetime, null=lifetime < 0),
            numbers(col.FAILED, [int(allocations.failed[events].sum()) for events in mine]),
        ),
        allocation_causes(trace).made_by[peak],
        _memory_note(trace, allocations, rows),
    )


def _op_names(trace: Trace, rows: Int64) -> Int64:
    """Name ids of ops, -1 for none; a file may hold nothing but allocator events."""
    return names_of(trace, rows) if len(trace.slices) else rows


def chain_of(trace: Trace, row: int) -> str | None:
    """The last few ops and annotations down to a slice, `aten::linear ▸ aten::addmm`; None for no slice."""
    if row < 0:
        return None
    rows = [above for above in chain(trace, row) if trace.slices.kind[above] in (Kind.CPU_OP, Kind.ANNOTATION)]
    return " ▸ ".join(trace.name_of(above) for above in rows[-_MAX_NAMED_OPS:])


def no_allocations(trace: Trace) -> str:
    """The reason why a trace has no allocator events, and how to record them."""
    return NOT_IN_FORMAT if Loss.MEMORY_EVENTS in trace.quality.format_losses else NO_MEMORY


def _memory_note(trace: Trace, allocations: Allocator, rows: Int64) -> str:
    if len(allocations) == 0:
        more = " Grouped by copy, this pane lists what was copied." if len(copy_rows(trace)) else ""
        return no_allocations(trace) + more
    peaks = allocations.peak(rows)
    devices = [number for number in peaks if not allocations.devices[number].startswith(CPU)]
    parts = [_peak_words(trace, allocations, number, peaks[number]) for number in devices or peaks]
    if (allocations.total == NULL).any():
        parts.append("The trace holds no running totals: since_start counts from the start of the recording.")
    if (holders := _holders(trace)) is not None and holders.sentence:
        parts.append(holders.sentence)
    failed = int(allocations.failed[rows].sum())
    if failed:
        parts.append(f"{failed:,} allocations failed: out of memory.")
    return " ".join(parts)


def _peak_words(trace: Trace, allocations: Allocator, device: int, event: int) -> str:
    """The peak of a device, in a sentence."""
    when = f"at {moment(allocations.time[event] / 1000)} µs"
    at = chain_of(trace, int(allocation_causes(trace).op[event]))
    where = f"{when} in {at}" if at else when
    if allocations.total[event] == NULL:
        return f"{allocations.devices[device]} grew by at most {size(allocations.since_start[event])}, {where}."
    old = int(allocations.total[event]) - int(allocations.bytes[allocations.alive_at(event)].sum())
    known = (allocations.partner[allocations.device == device] >= 0).any() and old > 0
    before = f", {size(old)} of it allocated before the recording" if known else ""
    return f"{allocations.devices[device]} peaked at {size(allocations.total[event])} {where}{before}."
