"""The steps of a trace, and the step of a time on a thread.

A step is a slice named `ProfilerStep#N` on a CPU lane (R3.1). A trace without these has the steps that inference
servers name, or that its frames, graphs or kernels show (R3.75, R3.76), or those that the user chose. Its interval
identifies a step; the number is only a label and may repeat. Where several threads run a loop each, a thread belongs to
its own steps, and any other thread of the process to the only step that is open at the time (R3.6). `placement` assigns
the threads of the autograd engine to those of the forward pass first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.linking.recorded_steps import profiler_steps
from tracetui.linking.repeating import graph_series, kernel_series, merged
from tracetui.linking.step_names import FORWARD, pattern_words
from tracetui.linking.step_series import (
    MAX_COVERAGE_DIFFERENCE,
    StepSeries,
    annotated_series,
    frame_series,
    lookup_series,
    partners,
)
from tracetui.model.intervals import Int64, union
from tracetui.model.native_nesting import insertion_index
from tracetui.model.trace import Trace

ANNOTATION = "annotation "
"""How `found_by` of annotations begins."""
NAMES_NONE = ": this recording names no steps"
"""What is said of steps that are calls."""
PROFILER_STEP = "profiler step"
"""How the steps of the profiler are found."""


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
    found_by: str = PROFILER_STEP
    """How they were found: `profiler step`, `annotation step[`, `frame FILE: FUNCTION`, `repeating kernels`."""
    words: str = ""
    """What they are, in a sentence without a full stop; empty for the steps of the profiler."""
    is_guess: bool = False
    """Whether a step may begin elsewhere."""
    is_served: bool = False
    """Whether they are those of an inference server, or found as such, of which some may be idle."""

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
        position = insertion_index(self.start[members], moment, side="right") - 1
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


def found_series(trace: Trace) -> StepSeries | None:
    """The steps of a trace without `ProfilerStep`, by the first rule that finds some; None where no rule does."""
    annotated = _annotated(trace)
    annotated = [each for each in annotated if each.name != FORWARD] or annotated
    if annotated:
        return _preferred(trace, annotated)
    for series in (frame_series(trace), lookup_series(trace), [*graph_series(trace), *kernel_series(trace)]):
        widest = _widest(trace, series)
        if widest is not None:
            return widest
    return None


def candidate_series(trace: Trace) -> list[StepSeries]:
    """Every series that some rule finds, in order of preference."""
    rules = (_annotated, frame_series, lookup_series, graph_series, kernel_series)
    return trace.remember("candidate series", lambda: [series for rule in rules for series in rule(trace)])


def launched_in(trace: Trace, start: Int64, end: Int64) -> int:
    """GPU activities launched in windows, on any thread, as steps count them (R3.3)."""

    def make() -> Int64:
        joined = links(trace)
        return np.sort(np.repeat(trace.slices.start[joined.launches], joined.counts))

    moments = trace.remember("launches of activities", make)
    starts, ends = union(start, end)
    return int((np.searchsorted(moments, ends) - np.searchsorted(moments, starts)).sum())


def _find(trace: Trace) -> Steps:
    chosen = trace.chosen_steps
    if chosen is not None:
        number = np.arange(1, len(chosen.rows) + 1)
        return replace(
            _steps(trace, chosen.rows, number, chosen.end),
            found_by=chosen.found_by,
            words=chosen.words,
            is_guess=chosen.is_guess,
            is_served=chosen.is_served,
        )
    recorded = profiler_steps(trace)
    series = None if len(recorded.row) else found_series(trace)
    if series is None:
        return _steps(trace, recorded.row, recorded.number)
    return replace(
        _steps(trace, series.rows, np.arange(1, len(series.rows) + 1), series.end),
        found_by=series.found_by,
        words=series.words + ("" if series.found_by.startswith(ANNOTATION) or series.is_guess else NAMES_NONE),
        is_guess=series.is_guess,
        is_served=True,
    )


def _annotated(trace: Trace) -> list[StepSeries]:
    return [merged(trace, series) for series in annotated_series(trace)]


def _preferred(trace: Trace, series: list[StepSeries]) -> StepSeries:
    """Of several families of annotations the one that covers most GPU activities; of nested ones that cover the same
    the inner one.
    """
    total = max(len(links(trace).gpu), 1)
    covered = {each.name: launched_in(trace, each.start(trace), each.end) / total for each in series}
    best = series[0]
    for each in series[1:]:
        gain = covered[each.name] - covered[best.name]
        if gain >= MAX_COVERAGE_DIFFERENCE or (gain > -MAX_COVERAGE_DIFFERENCE and _encloses(trace, best, each)):
            best = each
    around = [pattern_words(each.name) for each in series if each is not best and _encloses(trace, each, best)]
    inside = [pattern_words(each.name) for each in series if each is not best and _encloses(trace, best, each)]
    words = best.words
    if around:
        words += f", inside {' and '.join(around)}"
    if inside:
        words += f", which enclose {' and '.join(inside)}"
    return replace(best, words=words)


def _widest(trace: Trace, series: list[StepSeries]) -> StepSeries | None:
    """The first series, or a later one that covers more: a server replays graphs in some of its steps only.

    None where none of what ran on the GPU was launched in them: such calls only wait for another process.
    """
    total = len(links(trace).gpu)
    covered = [launched_in(trace, each.start(trace), each.end) for each in series]
    if total and not any(covered):
        return None
    least = max(covered, default=0) - MAX_COVERAGE_DIFFERENCE * total
    return next((each for each, count in zip(series, covered, strict=True) if count >= least), None)


def _encloses(trace: Trace, outer: StepSeries, inner: StepSeries) -> bool:
    """Whether the slices of two series lie one in one."""
    matched = int((partners(trace, outer.rows, inner.rows) >= 0).sum())
    return matched > 0 and 2 * matched >= max(len(outer.rows), len(inner.rows))


def _steps(trace: Trace, rows: Int64, number: Int64, end: Int64 | None = None) -> Steps:
    slices = trace.slices
    end = slices.end[rows] if end is None else end
    lane, process = slices.lane[rows].astype(np.int64), lane_numbers(trace).process
    return Steps(rows, number, slices.start[rows], end, lane, process)
