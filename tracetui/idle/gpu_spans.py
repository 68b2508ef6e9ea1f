"""The GPU spans of steps and other parts, the idle time within them, and the wait before them (R3.4, R3.30).

Idle is what no activity covers, whichever step launched it: every share of idle time rests on this file. A span and its
idle time belong to one device; totals are the sums over the devices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.idleness import device_order, idleness
from tracetui.linking.groups import distinct
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.stretches import Axis
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.trace import Float64, Trace


@dataclass(frozen=True, eq=False)
class GpuSpans:
    """The GPU span of each part on each device: arrays of parts by devices, times in ns."""

    device: Int64
    """Number of each device's process in `lane_numbers`."""
    active: Bool
    """Whether the part ran anything on the device; the times are 0 where it did not."""
    start: Int64
    """Start of the part's first activity on the device."""
    end: Int64
    """End of its last."""
    busy: Int64
    """Time between the two in which the part itself ran something."""
    idle: Int64
    """Time between the two in which nothing ran on the device, of this part or any other."""
    wait: Int64
    """Idle time of the device right before the start; -1 where nothing ran on the device earlier."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total_span(self) -> Int64:
        """Length of the spans of each part, summed over the devices."""
        total: Int64 = (self.end - self.start).sum(axis=1)
        return total

    @property
    def total_idle(self) -> Int64:
        """Idle time within the spans of each part, summed over the devices."""
        total: Int64 = self.idle.sum(axis=1)
        return total

    @property
    def total_others(self) -> Int64:
        """Time within the spans of each part in which only activities of other parts ran, or of none."""
        total: Int64 = self.total_span - self.total_idle - self.busy.sum(axis=1)
        return total

    @property
    def total_wait(self) -> Int64:
        """Wait before the spans of each part, summed over the devices on which it is known."""
        total: Int64 = np.maximum(self.wait, 0).sum(axis=1)
        return total

    @property
    def wait_known(self) -> Bool:
        """Mask of the parts with a device on which something ran before."""
        return np.asarray((self.active & (self.wait >= 0)).any(axis=1))

    @property
    def ran(self) -> Bool:
        """Mask of the parts that ran anything on a device."""
        return np.asarray(self.active.any(axis=1))

    @property
    def idle_pct(self) -> Float64:
        """Idle time of each part as a percentage of its spans; NaN without a span."""
        span = self.total_span
        share: Float64 = np.divide(100 * self.total_idle, span, out=np.full(len(self), np.nan), where=span > 0)
        return share


def gpu_spans(
    trace: Trace, rows: Int64, part: Int64, count: int, bounds: tuple[Int64, Int64] | None = None
) -> GpuSpans:
    """The spans of `count` parts, given GPU activities and the part of each; -1 is in no part.

    `bounds` are start and end in ns of each activity as far as it counts, where not all of it does.
    """
    order, slices = device_order(trace), trace.slices
    devices = distinct(order.device)
    shape, cells = (count, len(devices)), count * len(devices)
    home = np.full(len(slices), -1, np.int64)
    home[order.row] = np.searchsorted(devices, order.device)
    starts, ends = (each[part >= 0] for each in bounds or (slices.start[rows], slices.end[rows]))
    rows, part = rows[part >= 0], part[part >= 0]
    cell = part * len(devices) + home[rows]
    start, end = np.full(cells, np.iinfo(np.int64).max), np.full(cells, np.iinfo(np.int64).min)
    np.minimum.at(start, cell, starts)
    np.maximum.at(end, cell, ends)
    active = end >= start
    start, end = np.where(active, start, 0), np.where(active, end, 0)
    start, end, active = start.reshape(shape), end.reshape(shape), active.reshape(shape)
    busy = _busy(cell, starts, ends, cells).reshape(shape)
    idle, wait = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for index, number in enumerate(devices.tolist()):
        first, last = np.searchsorted(order.device, [number, number + 1])
        mine = order.row[first:last]
        some = active[:, index]
        low, high = start[some, index], end[some, index]
        idle[some, index] = high - low - covered_within(*union(slices.start[mine], slices.end[mine]), low, high)
        wait[some, index] = _wait(slices.start[mine], slices.end[mine], low)
    return GpuSpans(devices, active, start, end, busy, idle, wait)


def step_spans(trace: Trace) -> GpuSpans:
    """The spans of `steps(trace)`: from the first to the last activity that each launched."""

    def make() -> GpuSpans:
        rows = device_order(trace).row
        return gpu_spans(trace, rows, step_index(trace, rows), len(steps(trace)))

    return trace.remember("step spans", make)


def trace_span(trace: Trace) -> GpuSpans:
    """The span of the whole trace as one part: from the first to the last activity of each device."""

    def make() -> GpuSpans:
        rows = device_order(trace).row
        return gpu_spans(trace, rows, np.zeros(len(rows), np.int64), 1)

    return trace.remember("trace span", make)


def gaps_of(trace: Trace, spans: GpuSpans, waits: bool = True) -> tuple[Int64, Int64]:
    """Pairs of a part and a gap of `idleness(trace)` within its span; with `waits` also the one right before it.

    A gap within the spans of several parts stands in a pair with each.
    """
    gaps = idleness(trace)
    parts, indices = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for index, number in enumerate(spans.device.tolist()):
        mine = np.flatnonzero(gaps.device == number)
        if len(mine) == 0:
            continue
        starts, ends = gaps.start[mine], gaps.end[mine]
        low = np.searchsorted(starts, spans.start[:, index])
        high = np.searchsorted(ends, spans.end[:, index], side="right")
        if waits:
            low = low - ((low > 0) & (ends[np.maximum(low - 1, 0)] == spans.start[:, index]))
        counts = np.where(spans.active[:, index], np.maximum(high - low, 0), 0)
        parts.append(np.repeat(np.arange(len(spans)), counts))
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        indices.append(mine[np.repeat(low, counts) + within])
    return np.concatenate(parts), np.concatenate(indices)


def _busy(cell: Int64, start: Int64, end: Int64, count: int) -> Int64:
    """The union in ns of the activities in each of `count` cells."""
    axis = Axis.around(start, end)
    begin = axis.position(cell, start)
    starts, ends = union(begin, begin + end - start)
    return np.bincount(starts // axis.span, ends - starts, count).astype(np.int64)


def _wait(start: Int64, end: Int64, moment: Int64) -> Int64:
    """For how long nothing had run at each moment, given activities in order of start; -1 before the first of them."""
    earlier = np.searchsorted(start, moment) - 1
    reach = np.maximum.accumulate(end)[np.maximum(earlier, 0)]
    return np.where(earlier >= 0, np.maximum(moment - reach, 0), -1)
