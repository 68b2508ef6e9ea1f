"""What a device did in a span of time: compute, exposed communication, exposed copies, and nothing (R3.30).

Unions of intervals: concurrent activities count once, compute hides communication, and both hide copies, so that the
four parts add up to the span. Whether a kernel communicates is read from its name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.common.stretches import Axis
from tracetui.analysis.idle.idleness import device_order
from tracetui.analysis.kernel_names import Family, family
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Bool, Int64, union
from tracetui.model.trace import Kind, Trace


@dataclass(frozen=True, eq=False)
class Exposure:
    """Parallel arrays in ns, one entry for each step (or the trace) and each device, devices within steps."""

    device: Int64
    """Number of the device's process in `lane_numbers`."""
    span: Int64
    """From the first start to the last end of the activities, 0 without any."""
    compute: Int64
    """Time in which a kernel that does not communicate ran."""
    comm: Int64
    """Time in which a kernel that communicates ran, exposed or not."""
    exposed_comm: Int64
    """The part of `comm` during which nothing computed."""
    exposed_copy: Int64
    """Time in which copies or fills ran and no kernel."""
    idle: Int64
    """The rest of the span."""

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

    Activities of other steps that ran at the same time hide nothing.
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
    devices = distinct(order.device)
    held = step >= 0
    rows = order.row[held]
    part = step[held] * len(devices) + np.searchsorted(devices, order.device[held])
    parts = count * len(devices)
    comm = communicates(trace, rows)
    compute = ~comm & (slices.kind[rows] == Kind.KERNEL)
    axis = Axis.around(slices.start[rows], slices.end[rows])

    def covered(mask: Bool) -> Int64:
        """For how long any of the activities ran, in each part."""
        begin = axis.position(part[mask], slices.start[rows[mask]])
        starts, ends = union(begin, begin + slices.dur[rows[mask]])
        return np.bincount((starts // axis.span), ends - starts, parts).astype(np.int64)

    first, last = np.full(parts, np.iinfo(np.int64).max), np.full(parts, np.iinfo(np.int64).min)
    np.minimum.at(first, part, slices.start[rows])
    np.maximum.at(last, part, slices.end[rows])
    span = np.where(last >= first, last - np.where(last >= first, first, 0), 0)
    busy, kernels, computing = covered(np.ones(len(rows), bool)), covered(comm | compute), covered(compute)
    return Exposure(
        device=np.tile(devices, count),
        span=span,
        compute=computing,
        comm=covered(comm),
        exposed_comm=kernels - computing,
        exposed_copy=busy - kernels,
        idle=span - busy,
    )
