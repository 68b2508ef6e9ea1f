"""How full each device was over time, as counters to draw under its lanes."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.memory.allocator import CPU, allocator
from tracetui.model.table import NULL
from tracetui.model.trace import Counter, Trace


def memory_curves(trace: Trace) -> tuple[Counter, ...]:
    """Per device the bytes allocated, and those reserved where they change; the host's only where it stands alone.

    Names are short, for the column of lane names: `mem`, `Δmem` where only the change is known, `res`.
    """
    found = allocator(trace)
    every = range(len(found.devices))
    devices = [number for number in every if not found.devices[number].startswith(CPU)] or list(every)
    curves = []
    for device in devices:
        label = found.devices[device]
        prefix = f"{label} " if len(devices) > 1 else ""
        mine = (found.device == device) & ~found.failed
        time, reserved = found.time[mine], found.reserved[mine]
        told = bool((found.total[mine] != NULL).all())
        level = found.level[mine].astype(np.float64)
        curves.append(Counter(label, f"{prefix}{'mem' if told else 'Δmem'}", "", time, level, "bytes"))
        if len(distinct(reserved)) > 1 and (reserved != NULL).all():
            curves.append(Counter(label, f"{prefix}res", "", time, reserved.astype(np.float64), "bytes"))
    return tuple(curves)
