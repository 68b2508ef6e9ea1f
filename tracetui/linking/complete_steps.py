"""Which steps an average is made of: those that were recorded in full and served something (R3.6, R3.77)."""

from __future__ import annotations

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import step_kinds, unserving_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool
from tracetui.model.trace import Trace

MIN_COMPLETE_SHARE = 0.75
"""Minimum contents of a complete step, relative to the median of the others."""


def averaged_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that averages are made of: neither partial, nor idle or dummy calls of a server."""
    return ~(partial_steps(trace) | unserving_steps(trace))


def partial_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that the profiler truncated: the first or last of a thread with far less in it (R3.6).

    A guess by count: fewer than three quarters of the median of the thread's other steps in GPU activities, or in ops
    where nothing ran on a GPU. With fewer than three steps nothing is known. Steps of a server are compared with those
    of their kind.
    """

    def find() -> Bool:
        every = steps(trace)
        rows = links(trace).gpu if len(links(trace).launched) else op_rows(trace)
        index = step_index(trace, rows)
        held = np.bincount(index[index >= 0], minlength=len(every))
        kinds = np.array(step_kinds(trace).kind if every.is_served else [None] * len(every), object)
        serving = ~unserving_steps(trace)
        partial = np.zeros(len(every), bool)
        for lane in distinct(every.lane).tolist():
            mine = np.flatnonzero((every.lane == lane) & serving)
            for end in (0, -1) if len(mine) > 2 else ():
                others = np.delete(mine, end)
                others = others[kinds[others] == kinds[mine[end]]]
                if len(others) > 1:
                    partial[mine[end]] = held[mine[end]] < MIN_COMPLETE_SHARE * np.median(held[others])
        return partial

    return trace.remember("partial steps", find)
