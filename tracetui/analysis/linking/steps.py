"""The steps of a trace, and the step of a time on a thread.

A step is a slice named `ProfilerStep#N` on a CPU lane (R3.1). Its interval identifies it; the number is only a label
and may repeat. Where several threads run a profiler loop each, a thread belongs to its own steps, and any other thread
of the process to the only step that is open at the time (R3.6). `placement` assigns the threads of the autograd engine
to those of the forward pass first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.common.lanes import lane_numbers
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")


@dataclass(frozen=True, eq=False)
class Steps:
    """Parallel arrays, one entry per step, in order of their start."""

    row: Int64
    """The slice of the step."""
    number: Int64
    """The N of `ProfilerStep#N`."""
    start: Int64
    end: Int64
    lane: Int64
    """The lane on which the step was recorded."""
    process: Int64
    """The process number of every lane of the trace; unlike the others not one entry per step."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def overlap(self) -> bool:
        """Whether two steps are open at once."""
        return bool((self.start[1:] < self.end[:-1]).any())

    def labelled(self, number: int) -> Int64:
        """Indices of the steps with a number."""
        return np.flatnonzero(self.number == number)

    def of_moment(self, moment: Int64, lane: NDArray[np.integer] | None = None) -> Int64:
        """Index of the step that is open at each time (ns), -1 for none (R3.2).

        `lane` decides where steps of several threads overlap; without it such times have no step.
        """
        moment = np.asarray(moment, np.int64)
        if not self.overlap:
            return self._search(np.arange(len(self)), moment)
        found = np.full(len(moment), -1, np.int64)
        open_steps = np.zeros(len(moment), np.int64)
        own = np.zeros(len(moment), bool)
        for home in np.unique(self.lane).tolist():
            index = self._search(np.flatnonzero(self.lane == home), moment)
            if lane is not None:
                index[self.process[lane] != self.process[home]] = -1
                own |= lane == home
                found = np.where(lane == home, index, found)
            open_steps += index >= 0
            found = np.where(~own & (index >= 0), index, found)
        found[~own & (open_steps > 1)] = -1
        return found

    def _search(self, members: Int64, moment: Int64) -> Int64:
        """The one of `members` (indices in order of start) that contains each time: the innermost of nested ones."""
        if len(members) == 0:
            return np.full(len(moment), -1, np.int64)
        position = np.searchsorted(self.start[members], moment, side="right") - 1
        index = np.where(position >= 0, members[position], -1)
        while (over := (index >= 0) & (moment >= self.end[index])).any():
            index[over] = self._outer[index[over]]
        return index

    @cached_property
    def _outer(self) -> Int64:
        """For each step the nearest earlier one on its lane that ends later, -1 for none."""
        found = np.full(len(self), -1, np.int64)
        later: dict[int, list[int]] = {}
        for index, (lane, end) in enumerate(zip(self.lane.tolist(), self.end.tolist(), strict=True)):
            open_steps = later.setdefault(lane, [])
            while open_steps and self.end[open_steps[-1]] <= end:
                open_steps.pop()
            if open_steps:
                found[index] = open_steps[-1]
            open_steps.append(index)
        return found


def steps(trace: Trace) -> Steps:
    """The steps of the trace in order of their start; none is a common answer."""
    return trace.remember("steps", lambda: _find(trace))


def _find(trace: Trace) -> Steps:
    slices = trace.slices
    if trace.chosen_steps is not None:
        chosen = trace.chosen_steps
        return _steps(trace, chosen.rows, np.arange(1, len(chosen.rows) + 1), chosen.end)
    numbers = {}
    for name_id, name in enumerate(trace.names):
        match = STEP_NAME.fullmatch(name)
        if match and len(match[1]) <= 18:
            numbers[name_id] = int(match[1])
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    rows = rows[np.isin(slices.name[rows], list(numbers))]
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    number = np.array([numbers[name_id] for name_id in slices.name[rows].tolist()], np.int64)
    return _steps(trace, rows, number)


def _steps(trace: Trace, rows: Int64, number: Int64, end: Int64 | None = None) -> Steps:
    slices = trace.slices
    end = slices.end[rows] if end is None else end
    lane, process = slices.lane[rows].astype(np.int64), lane_numbers(trace).process
    return Steps(rows, number, slices.start[rows], end, lane, process)
