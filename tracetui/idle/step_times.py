"""What a server's steps take, from GPU end to GPU end, and what lies between two of them (R3.82, R3.83).

The CPU prepares a step while the GPU still runs the one before, so that neither the CPU's window nor the GPU span of a
step is the time in which it made a token. Two steps are neighbours when one directly follows the other on its thread
and both serve requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.clock import clock_skew
from tracetui.idle.gpu_spans import step_spans
from tracetui.linking.links import links
from tracetui.linking.regions import busy_stretches
from tracetui.linking.step_kinds import step_kinds, unserving_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64, covered_within
from tracetui.model.table import NULL
from tracetui.model.trace import Trace


@dataclass(frozen=True, eq=False)
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


def step_times(trace: Trace) -> StepTimes:
    """The times of the steps of a server; all unknown in any other trace."""
    return trace.remember("step times", lambda: _find(trace))


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


def _find(trace: Trace) -> StepTimes:
    every, kinds = steps(trace), step_kinds(trace)
    kind = np.array([each or "" for each in kinds.kind], object)
    before = _neighbours(trace, np.asarray(kind != "") & ~unserving_steps(trace))
    start, end = _gpu_bounds(trace)
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


def _neighbours(trace: Trace, serves: Bool) -> Int64:
    """For each step the one right before it on its thread, where both serve requests; -1 for none."""
    every = steps(trace)
    before = np.full(len(every), -1, np.int64)
    for lane in np.unique(every.lane).tolist():
        mine = np.flatnonzero(every.lane == lane)
        both = serves[mine[1:]] & serves[mine[:-1]]
        before[mine[1:][both]] = mine[:-1][both]
    return before


def _gpu_bounds(trace: Trace) -> tuple[Int64, Int64]:
    """Start of the first and end of the last GPU activity of each step, over all devices; NULL without any."""
    spans = step_spans(trace)
    start = np.where(spans.active, spans.start, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    end = np.where(spans.active, spans.end, NULL).max(axis=1, initial=NULL)
    return np.where(spans.ran, start, NULL), np.where(spans.ran, end, NULL)


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
