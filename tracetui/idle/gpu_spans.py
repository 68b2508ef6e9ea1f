"""The GPU spans of steps and other parts, the idle time within them, and the wait before them (R3.4, R3.30).

Idle is what no activity covers, whichever step launched it: every share of idle time rests on this file. A span and its
idle time belong to one device; totals are the sums over the devices.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tracetui.frozen import frozen
from tracetui.idle.idle_parts import clock_skew
from tracetui.idle.waits import device_order, idleness
from tracetui.kernel_names.slice_names import Family, family
from tracetui.linking.groups import distinct
from tracetui.linking.links import busy_stretches, links
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import step_kinds, unserving_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import Axis, is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64, covered_within, in_runs, union
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import Float64, Kind, Trace


@frozen
class GpuSpans:
    """The GPU span of each part on each device: arrays of parts by devices, times in ns."""

    device: Int64
    """Number of each device's process in `lane_numbers`."""
    active: Bool
    """Mask of the parts that ran anything on the device; the times are 0 where it did not."""
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
    def extents(self) -> tuple[Int64, Int64]:
        """Start of the first activity of each part on any device, and end of its last, in ns.

        The largest and the smallest number for a part that ran nothing.
        """
        limits = np.iinfo(np.int64)
        first = np.where(self.active, self.start, limits.max).min(axis=1, initial=limits.max)
        last = np.where(self.active, self.end, limits.min).max(axis=1, initial=limits.min)
        return first, last

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
    busy = union_in_cells(cell, starts, ends, cells).reshape(shape)
    idle, wait = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for index, number in enumerate(devices.tolist()):
        first, last = np.searchsorted(order.device, [number, number + 1])
        mine = order.row[first:last]
        some = active[:, index]
        low, high = start[some, index], end[some, index]
        idle[some, index] = high - low - covered_within(*union(slices.start[mine], slices.end[mine]), low, high)
        earlier = np.searchsorted(slices.start[mine], low) - 1
        reach = np.maximum.accumulate(slices.end[mine])[np.maximum(earlier, 0)]
        wait[some, index] = np.where(earlier >= 0, np.maximum(low - reach, 0), -1)
    return GpuSpans(devices, active, start, end, busy, idle, wait)


@kept(on_disk=True)
def step_spans(trace: Trace) -> GpuSpans:
    """The spans of `steps(trace)`: from the first to the last activity that each launched."""
    rows = device_order(trace).row
    return gpu_spans(trace, rows, step_index(trace, rows), len(steps(trace)))


@kept(on_disk=True)
def trace_span(trace: Trace) -> GpuSpans:
    """The span of the whole trace as one part: from the first to the last activity of each device."""
    rows = device_order(trace).row
    return gpu_spans(trace, rows, np.zeros(len(rows), np.int64), 1)


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
        indices.append(mine[in_runs(low, counts)])
    return np.concatenate(parts), np.concatenate(indices)


def union_in_cells(cell: Int64, start: Int64, end: Int64, count: int) -> Int64:
    """The time in ns in which at least one of the intervals of each of `count` cells runs."""
    axis = Axis.around(start, end)
    begin = axis.position(cell, start)
    starts, ends = union(begin, begin + end - start)
    return np.bincount(starts // axis.span, ends - starts, count).astype(np.int64)


# What a device did in a GPU span: compute, exposed communication, exposed copies, work of others, nothing (R3.30).
#
# Unions of intervals: concurrent activities count once, compute hides communication, and kernels hide copies,
# whichever step launched them, so that the five parts add up to the span. Whether a kernel communicates is read from
# its name.


@frozen
class Exposure:
    """Parallel arrays in ns, one entry for each step (or the trace) and each device, devices within steps."""

    device: Int64
    """Number of the device's process in `lane_numbers`."""
    span: Int64
    """From the first start to the last end of the activities, 0 without any."""
    compute: Int64
    """Time in which a kernel of the step ran that does not communicate."""
    comm: Int64
    """Time in which a kernel of the step ran that communicates, exposed or not."""
    exposed_comm: Int64
    """The part of `comm` during which nothing computed on the device, not even another step."""
    exposed_copy: Int64
    """Time in which copies or fills of the step ran, and no kernel of any step on the device."""
    others: Int64
    """Rest of the span in which something ran: activities of other steps or of none, and what they hide."""
    idle: Int64
    """Time in the span in which nothing ran on the device."""

    def total(self) -> Exposure:
        """The sums over all devices, step by step."""
        devices = len(distinct(self.device))
        if devices == 0:
            return self
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        sums = {name: column.reshape(-1, devices).sum(axis=1) for name, column in columns.items()}
        return Exposure(**{**sums, "device": np.full(len(self.device) // devices, -1)})


@kept(on_disk=True)
def exposure(trace: Trace) -> Exposure:
    """One entry per device, over all its activities in the trace."""
    return _measure(trace, np.zeros(len(device_order(trace).row), np.int64), 1)


@kept(on_disk=True)
def step_exposure(trace: Trace) -> Exposure:
    """One entry per step and device, over the activities that the step launched.

    What other steps ran at the same time hides communication and copies, and is not idle time.
    """
    return _measure(trace, step_index(trace, device_order(trace).row), len(steps(trace)))


@kept
def communicates(trace: Trace) -> Bool:
    """Mask of the slices that are kernels moving data between devices, by their names."""
    kernels = trace.slices.of_kind(Kind.KERNEL)
    mask = np.zeros(len(trace.slices), bool)
    mask[kernels] = is_named(trace, kernels, lambda name: family(name, Kind.KERNEL) == Family.COMMUNICATION)
    return mask


def _measure(trace: Trace, step: Int64, count: int) -> Exposure:
    """The exposure of `count` steps, given the step of each activity in the order of `device_order`; -1 is left out."""
    slices, order = trace.slices, device_order(trace)
    spans = gpu_spans(trace, order.row, step, count)
    devices = spans.device
    held = step >= 0
    rows = order.row[held]
    part = step[held] * len(devices) + np.searchsorted(devices, order.device[held])
    every_comm, every_kernel = communicates(trace)[order.row], slices.kind[order.row] == Kind.KERNEL
    computing, kernels = order.row[every_kernel & ~every_comm], order.row[every_kernel]
    comm, is_kernel = every_comm[held], every_kernel[held]
    axis = Axis.around(slices.start[rows], slices.end[rows])

    def running(mask: Bool, hiding: Int64) -> Int64:
        """For how long any of the activities ran and none of those that hide them, in each part."""
        return uncovered(trace, axis, devices, count, (part[mask], rows[mask]), hiding)

    nothing, span, idle = rows[:0], (spans.end - spans.start).ravel(), spans.idle.ravel()
    shown = running(is_kernel & ~comm, nothing), running(comm, computing), running(~is_kernel, kernels)
    return Exposure(
        device=np.tile(devices, count),
        span=span,
        compute=shown[0],
        comm=running(comm, nothing),
        exposed_comm=shown[1],
        exposed_copy=shown[2],
        others=span - idle - sum(shown, np.zeros(len(span), np.int64)),
        idle=idle,
    )


def uncovered(
    trace: Trace, axis: Axis, devices: Int64, count: int, activities: tuple[Int64, Int64], hiding: Int64
) -> Int64:
    """Time in which an activity of each part ran and none of `hiding` on its device.

    `activities` are the part and the row of each; parts are devices within steps, on an axis of parts.
    """
    slices, (part, rows) = trace.slices, activities
    begin = axis.position(part, slices.start[rows])
    starts, ends = union(begin, begin + slices.dur[rows])
    where, length = starts // axis.span, ends - starts
    low = axis.moment(where, starts)
    device = lane_numbers(trace).process[slices.lane[hiding]]
    for index, number in enumerate(devices.tolist() if len(hiding) else ()):
        mine = hiding[device == number]
        windows = np.flatnonzero(where % len(devices) == index)
        cover = union(slices.start[mine], slices.end[mine])
        length[windows] -= covered_within(*cover, low[windows], low[windows] + length[windows])
    return np.bincount(where, length, count * len(devices)).astype(np.int64)


# What a server's steps take, from GPU end to GPU end, and what lies between two of them (R3.82, R3.83).
#
# The CPU prepares a step while the GPU still runs the one before, so that neither the CPU's window nor the GPU span of
# a step is the time in which it made a token. Two steps are neighbours when one directly follows the other on its
# thread and both serve requests.


@frozen
class StepTimes:
    """Parallel to `steps(trace)`, in ns; NULL where something is not known."""

    before: Int64
    """Index of the neighbour before, -1 for none and for steps that no server made."""
    gpu_start: Int64
    """Start of its first GPU activity."""
    gpu_end: Int64
    """End of its last."""
    period: Int64
    """From the GPU end of the neighbour before to its own, of steps of one kind; without a GPU from start to start."""
    gap: Int64
    """Time between the neighbour's GPU end and its own GPU start in which nothing ran on any device."""
    between: Int64
    """Time on the CPU from the end of the neighbour before to its own start; not known of steps that are taken to last
    until the next one begins.
    """
    exposed: Int64
    """The part of that in which no device ran anything."""

    is_behind: Bool
    """Mask of the steps before which idle time of the GPU cannot be told, because it was too far behind."""

    @property
    def follows(self) -> Bool:
        """Mask of the steps with a neighbour before."""
        return np.asarray(self.before >= 0)


@kept
def step_times(trace: Trace) -> StepTimes:
    """The times of the steps of a server; all unknown in any other trace."""
    every, kinds = steps(trace), step_kinds(trace)
    kind = np.array([each or "" for each in kinds.kind], object)
    before = _neighbours(trace, np.asarray(kind != "") & ~unserving_steps(trace))
    spans = step_spans(trace)
    start, end = (np.where(spans.ran, each, NULL) for each in spans.extents)
    other, follows = np.maximum(before, 0), before >= 0
    on_gpu = follows & (start != NULL) & (start[other] != NULL) if len(every) else follows
    alike = follows & (kind == kind[other]) if len(every) else follows
    low, high = every.end[other], np.maximum(every.start, every.end[other])
    if len(links(trace).gpu):
        period = np.where(alike & on_gpu & (end > end[other]), end - end[other], NULL)
        late = _late(trace, start)
        behind = on_gpu & (late | late[other]) if len(every) else on_gpu
        gap = np.where(on_gpu & ~behind, _idle(trace, end[other], np.maximum(start, end[other])), NULL)
        skew = clock_skew(trace)
        exposed = np.where(follows, _idle(trace, low + skew, high + skew), NULL)
    else:
        period = np.where(alike, every.start - every.start[other], NULL)
        gap = exposed = np.full(len(every), NULL)
        behind = np.zeros(len(every), bool)
    ends_itself = follows & (every.end == trace.slices.end[every.row])[other] if len(every) else follows
    between = np.where(ends_itself, high - low, NULL)
    return StepTimes(before, start, end, period, gap, between, np.where(ends_itself, exposed, NULL), behind)


def between_windows(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Indices of the steps before which the CPU had time since the neighbour, and start and end of that time in ns."""
    every, times = steps(trace), step_times(trace)
    index = np.flatnonzero(times.between != NULL)
    return index, every.end[times.before[index]], np.maximum(every.start[index], every.end[times.before[index]])


def behind_sentence(trace: Trace) -> str:
    """Before how many steps idle time of the GPU cannot be told, and why; empty where it always can."""
    times = step_times(trace)
    count, pairs = int(times.is_behind.sum()), int(times.follows.sum())
    if count == 0:
        return ""
    return (
        f"GPU idle time before {count:,} of {pairs:,} steps cannot be told: the GPU was so far behind that it ran a "
        "step only after the next but one had begun on the CPU."
    )


def _neighbours(trace: Trace, serves: Bool) -> Int64:
    """For each step the one right before it on its thread, where both serve requests; -1 for none."""
    every = steps(trace)
    before = np.full(len(every), -1, np.int64)
    for lane in np.unique(every.lane).tolist():
        mine = np.flatnonzero(every.lane == lane)
        both = serves[mine[1:]] & serves[mine[:-1]]
        before[mine[1:][both]] = mine[:-1][both]
    return before


def _late(trace: Trace, gpu_start: Int64) -> Bool:
    """Mask of the steps whose GPU activities begin after the next step but one has begun.

    The GPU is so far behind that its pauses say nothing about what the CPU did between these steps. The last two of a
    thread are like the one before them.
    """
    every = steps(trace)
    late = np.zeros(len(every), bool)
    for lane in np.unique(every.lane).tolist():
        mine = np.flatnonzero(every.lane == lane)
        late[mine[:-2]] = gpu_start[mine[:-2]] > every.start[mine[2:]]
        late[mine[-2:]] = len(mine) > 2 and late[mine[-3]]
    return late


def _idle(trace: Trace, low: Int64, high: Int64) -> Int64:
    """Time in each window in which no device ran anything."""
    high = np.maximum(high, low)
    idle: Int64 = high - low - covered_within(*busy_stretches(trace), low, high)
    return idle
