"""For how long each step of a server ran kernels of each purpose, and for how long nothing else beside them (R3.85)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.exposure import uncovered
from tracetui.idle.gpu_spans import step_spans
from tracetui.idle.idleness import device_order
from tracetui.kernel_names.slice_names import purposes
from tracetui.linking.groups import distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.stretches import Axis
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace


@dataclass(frozen=True, eq=False)
class PurposeTimes:
    """Arrays of steps by purposes, times in ns, summed over the devices."""

    names: tuple[str, ...]
    """The purposes that occur."""
    activities: Int64
    """GPU activities of the step."""
    busy: Int64
    """Time in which at least one of them ran."""
    exposed: Int64
    """The part of it in which nothing of another purpose ran on the device, of this step or any other."""

    def of(self, name: str) -> int:
        """Index of a purpose, -1 where it does not occur."""
        return self.names.index(name) if name in self.names else -1


def purpose_times(trace: Trace) -> PurposeTimes:
    """The times of `steps(trace)` by the purpose of their GPU activities."""
    return trace.remember("purpose times", lambda: _find(trace))


def _find(trace: Trace) -> PurposeTimes:
    slices, every = trace.slices, device_order(trace).row
    devices, count = step_spans(trace).device, len(steps(trace))
    ids, texts = purposes(trace, every)
    step = step_index(trace, every)
    device = np.searchsorted(devices, lane_numbers(trace).process[slices.lane[every]])
    held = step >= 0
    used = distinct(ids[held]).tolist()
    axis = Axis.around(slices.start[every], slices.end[every])
    shape = (count, len(used))
    activities, busy, exposed = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for index, number in enumerate(used):
        mine = held & (ids == number)
        work = step[mine] * len(devices) + device[mine], every[mine]
        others = every[ids != number]
        activities[:, index] = np.bincount(step[mine], minlength=count)
        for times, hiding in ((busy, every[:0]), (exposed, others)):
            spent = uncovered(trace, axis, devices, count, work, hiding)
            times[:, index] = spent.reshape(count, len(devices)).sum(axis=1)
    return PurposeTimes(tuple(texts[number] for number in used), activities, busy, exposed)
