"""What a device did in a GPU span: compute, exposed communication, exposed copies, work of others, nothing (R3.30).

Unions of intervals: concurrent activities count once, compute hides communication, and kernels hide copies, whichever
step launched them, so that the five parts add up to the span. Whether a kernel communicates is read from its name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetui.idle.gpu_spans import gpu_spans
from tracetui.idle.idleness import device_order
from tracetui.kernel_names.slice_names import Family, family
from tracetui.linking.groups import distinct
from tracetui.linking.lanes import is_named, lane_numbers
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.stretches import Axis
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.trace import Kind, Trace


@dataclass(frozen=True, eq=False)
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


def exposure(trace: Trace) -> Exposure:
    """One entry per device, over all its activities in the trace."""
    return trace.remember("exposure", lambda: _measure(trace, np.zeros(len(device_order(trace).row), np.int64), 1))


def step_exposure(trace: Trace) -> Exposure:
    """One entry per step and device, over the activities that the step launched.

    What other steps ran at the same time hides communication and copies, and is not idle time.
    """

    def make() -> Exposure:
        return _measure(trace, step_index(trace, device_order(trace).row), len(steps(trace)))

    return trace.remember("step exposure", make)


def communicates(trace: Trace, rows: Int64) -> Bool:
    """Mask of the GPU activities that are kernels moving data between devices, by their names."""
    kernel = trace.slices.kind[rows] == Kind.KERNEL
    mask: Bool = kernel & is_named(trace, rows, lambda name: family(name, Kind.KERNEL) == Family.COMMUNICATION)
    return mask


def _measure(trace: Trace, step: Int64, count: int) -> Exposure:
    """The exposure of `count` steps, given the step of each activity in the order of `device_order`; -1 is left out."""
    slices, order = trace.slices, device_order(trace)
    spans = gpu_spans(trace, order.row, step, count)
    devices = spans.device
    held = step >= 0
    rows = order.row[held]
    part = step[held] * len(devices) + np.searchsorted(devices, order.device[held])
    every_comm, every_kernel = communicates(trace, order.row), slices.kind[order.row] == Kind.KERNEL
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
