"""What was launched between two steps: vLLM samples after its annotation has ended (R3.78)."""

from __future__ import annotations

import numpy as np

from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace


def after_step(trace: Trace) -> Int64:
    """For each of `links(trace).gpu` the index of the step after which it was launched, outside of every step.

    That is the step before it on the launching thread, or on the only thread of the process that has steps; -1 for what
    belongs to a step or precedes them all, and wherever the steps are those of the profiler.
    """
    return trace.remember("GPU activities after steps", lambda: _find(trace))


def between_share(trace: Trace) -> float | None:
    """Percent of the time of GPU activities that was launched after a step and within none; None without activities."""
    gpu = links(trace).gpu
    time = trace.slices.dur[gpu]
    total = int(time.sum())
    return 100 * int(time[after_step(trace) >= 0].sum()) / total if total else None


def _find(trace: Trace) -> Int64:
    every, slices, joined = steps(trace), trace.slices, links(trace)
    after = np.full(len(joined.gpu), -1, np.int64)
    if not every.is_served:
        return after
    launch = joined.launch[joined.gpu].astype(np.int64)
    outside = np.flatnonzero((launch >= 0) & (step_index(trace, joined.gpu) < 0))
    lane = slices.lane[launch[outside]].astype(np.int64)
    moment = slices.start[launch[outside]]
    process = lane_numbers(trace).process
    lanes = np.unique(every.lane)
    for home in lanes.tolist():
        alone = np.count_nonzero(process[lanes] == process[home]) == 1
        mine = lane == home if not alone else process[lane] == process[home]
        index = np.flatnonzero(every.lane == home)
        last = np.searchsorted(every.start[index], moment[mine], side="right") - 1
        after[outside[mine]] = np.where(last >= 0, index[np.maximum(last, 0)], -1)
    return after
