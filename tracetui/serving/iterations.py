"""Iterations of speculative decoding: the drafts of a small model and the step in which the large one checks them.

An iteration ends with the step that checks (`verify`, of servers that do not call it so the decode), and holds the
drafts since the one before (R3.87). How many drafted tokens were accepted is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.step_times import StepTimes
from tracetui.linking.step_kinds import StepKinds
from tracetui.linking.steps import Steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL

DRAFT, VERIFY, DECODE = "draft", "verify", "decode"


@dataclass(frozen=True, eq=False)
class Iterations:
    """Parallel arrays, one entry per iteration, in order of its last step; times in ns, NULL where not known."""

    target: Int64
    """Index in the steps of the step that checks the drafts."""
    members: tuple[Int64, ...]
    """Indices of the steps of each, the target last."""
    start: Int64
    """Start of the first GPU activity; without a GPU, of the first step."""
    end: Int64
    """End of the last GPU activity of the target, or of the target."""
    period: Int64
    """From the end of the iteration right before on the thread, with nothing but drafts between, to its own."""

    def __len__(self) -> int:
        return len(self.target)


def iterations(every: Steps, kinds: StepKinds, times: StepTimes, whole: Bool) -> Iterations:
    """The iterations of which all steps are in the mask; none where nothing drafts or nothing checks."""
    kind = np.array([each or "" for each in kinds.kind], object)
    target: list[int] = []
    members: list[Int64] = []
    before: list[int] = []
    for lane in np.unique(every.lane).tolist():
        mine = np.flatnonzero(every.lane == lane)
        checks = VERIFY if (kind[mine] == VERIFY).any() else DECODE
        if not (kind[mine] == DRAFT).any() or not (kind[mine] == checks).any():
            continue
        drafts: list[int] = []
        last = -1
        for step in mine.tolist():
            if kind[step] == DRAFT:
                drafts.append(step)
            elif kind[step] == checks:
                if drafts or last >= 0:
                    target.append(step)
                    members.append(np.array([*drafts, step], np.int64))
                    before.append(last)
                drafts, last = [], step
            else:
                drafts, last = [], -1
    ends = times.gpu_end if (times.gpu_end != NULL).any() else every.end
    kept = [
        index
        for index, steps in enumerate(members)
        if len(steps) > 1 and whole[steps].all() and ends[steps[-1]] != NULL
    ]
    return _timed(every, times, target, [members[index] for index in kept], before, kept)


def _timed(
    every: Steps, times: StepTimes, target: list[int], members: list[Int64], before: list[int], kept: list[int]
) -> Iterations:
    chosen = np.array([target[index] for index in kept], np.int64)
    earlier = np.array([before[index] for index in kept], np.int64)
    on_gpu = bool((times.gpu_end != NULL).any())
    low, high = (times.gpu_start, times.gpu_end) if on_gpu else (every.start, every.end)
    start = np.array([low[steps][low[steps] != NULL].min(initial=high[steps[-1]]) for steps in members], np.int64)
    end = high[chosen]
    known = (earlier >= 0) & (end != NULL) & (high[np.maximum(earlier, 0)] != NULL) if len(high) else earlier >= 0
    period = np.where(known, end - high[np.maximum(earlier, 0)], NULL) if len(high) else earlier
    return Iterations(chosen, tuple(members), start, end, np.where(period > 0, period, NULL))
