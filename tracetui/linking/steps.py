"""The steps of a trace, and the step of a time on a thread.

A step is a slice named `ProfilerStep#N` on a CPU lane (R3.1). A trace without these has the steps that inference
servers name, or that its frames, graphs, kernels or loops show (R3.75, R3.76, R3.98), or those that the user chose. Its
interval identifies a step; the number is only a label and may repeat. Where several threads run a loop each, a thread
belongs to its own steps, and any other thread of the process to the only step that is open at the time (R3.6).
`placement` assigns the threads of the autograd engine to those of the forward pass first.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.kernel_names.slice_names import Family, family
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import links, profiler_steps
from tracetui.linking.replays import replays
from tracetui.linking.step_names import FORWARD, pattern_words
from tracetui.linking.step_series import (
    MAX_COVERAGE_DIFFERENCE,
    StepSeries,
    annotated_series,
    frame_series,
    is_training,
    lookup_series,
    loop_series,
    partners,
)
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64, union
from tracetui.model.native import insertion_index
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Slices, Trace

ANNOTATION = "annotation "
"""Prefix of `found_by` of annotations."""
NAMES_NONE = ": this recording names no steps"
"""Remark on steps that are calls."""
PROFILER_STEP = "profiler step"
"""`found_by` of the steps of the profiler."""


@frozen
class Steps(Parallel):
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
    """Their source: `profiler step`, `annotation step[`, `frame FILE: FUNCTION`, `repeating kernels`."""
    words: str = ""
    """Description of them, in a sentence without a full stop; empty for the steps of the profiler."""
    is_guess: bool = False
    """True where a step may begin elsewhere."""
    is_served: bool = False
    """True where they are those of an inference server, or found as such, of which some may be idle."""

    @property
    def slices(self) -> Int64:
        """The slices that are steps; none where a step only begins with one, which runs in it like any other."""
        return self.row[:0] if self.is_guess else self.row

    @property
    def overlap(self) -> bool:
        """True where two steps are open at once."""
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
        result = np.full(len(moment), -1, np.int64)
        open_steps = np.zeros(len(moment), np.int64)
        own = np.zeros(len(moment), bool)
        for home in np.unique(self.lane).tolist():
            index = self._search(np.flatnonzero(self.lane == home), moment)
            if lane is not None:
                index[self.process[lane] != self.process[home]] = -1
                own |= lane == home
                result = np.where(lane == home, index, result)
            open_steps += index >= 0
            result = np.where(~own & (index >= 0), index, result)
        result[~own & (open_steps > 1)] = -1
        return result

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
        """The nearest earlier step on the lane of each that ends later, -1 for none."""
        outer = np.full(len(self), -1, np.int64)
        later: dict[int, list[int]] = {}
        for index, (lane, end) in enumerate(zip(self.lane.tolist(), self.end.tolist(), strict=True)):
            open_steps = later.setdefault(lane, [])
            while open_steps and self.end[open_steps[-1]] <= end:
                open_steps.pop()
            if open_steps:
                outer[index] = open_steps[-1]
            open_steps.append(index)
        return outer


@kept(on_disk=True)
def steps(trace: Trace) -> Steps:
    """The steps of the trace in order of their start; many traces have none."""
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
        is_served=series.is_served,
    )


def _steps(trace: Trace, rows: Int64, number: Int64, end: Int64 | None = None) -> Steps:
    slices = trace.slices
    end = slices.end[rows] if end is None else end
    lane, process = slices.lane[rows].astype(np.int64), lane_numbers(trace).process
    return Steps(rows, number, slices.start[rows], end, lane, process)


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
    return next(iter(loop_series(trace)), None)


@kept
def candidate_series(trace: Trace) -> list[StepSeries]:
    """All series that some rule finds, in order of preference; those of loops where there are no others."""
    rules = (_annotated, frame_series, lookup_series, graph_series, kernel_series)
    candidates = [series for rule in rules for series in rule(trace)]
    return candidates or ([] if len(profiler_steps(trace).row) else loop_series(trace))


def _annotated(trace: Trace) -> list[StepSeries]:
    """The series of annotations, two in a row as one step where both have one name and only the second one samples.

    TensorRT-LLM marks the forward pass of a step and its sampling by two annotations of the same name.
    """
    slices, result = trace.slices, []
    for series in annotated_series(trace):
        rows = series.rows
        if len(rows) > 0 and len(rows) % 2 == 0 and len(np.unique(slices.lane[rows])) == 1:
            pairs = slices.name[rows].reshape(-1, 2)
            samples = _token_counts(trace, slices.start[rows], series.end).reshape(-1, 2) > 0
            if (pairs[:, 0] == pairs[:, 1]).all() and samples[:, 1].all() and not samples[:, 0].any():
                words = f"{series.words}, two for each step"
                series = replace(series, rows=rows[0::2], end=series.end[1::2], words=words)
        result.append(series)
    return result


def _preferred(trace: Trace, series: list[StepSeries]) -> StepSeries:
    """The family of annotations that covers most GPU activities; of nested ones with equal coverage the inner one."""
    total = max(len(links(trace).gpu), 1)
    start = trace.slices.start
    covered = {each.name: launched_in(trace, start[each.rows], each.end) / total for each in series}
    best = series[0]
    for each in series[1:]:
        gain = covered[each.name] - covered[best.name]
        if gain >= MAX_COVERAGE_DIFFERENCE or (gain > -MAX_COVERAGE_DIFFERENCE and _encloses(trace.slices, best, each)):
            best = each
    around = [pattern_words(each.name) for each in series if each is not best and _encloses(trace.slices, each, best)]
    inside = [pattern_words(each.name) for each in series if each is not best and _encloses(trace.slices, best, each)]
    words = best.words
    if around:
        words += f", inside {' and '.join(around)}"
    if inside:
        words += f", which enclose {' and '.join(inside)}"
    return replace(best, words=words)


def _widest(trace: Trace, series: list[StepSeries]) -> StepSeries | None:
    """The first series, or a later one that covers more: a server replays graphs in some of its steps only.

    None where no GPU activity was launched in them: such calls only wait for another process.
    """
    total = len(links(trace).gpu)
    covered = [launched_in(trace, trace.slices.start[each.rows], each.end) for each in series]
    if total and not any(covered):
        return None
    least = max(covered, default=0) - MAX_COVERAGE_DIFFERENCE * total
    return next((each for each, count in zip(series, covered, strict=True) if count >= least), None)


def _encloses(slices: Slices, outer: StepSeries, inner: StepSeries) -> bool:
    """True where at least half of the slices of the longer series pair up, one inside the other."""
    matched = int((partners(slices, outer.rows, inner.rows) >= 0).sum())
    return matched > 0 and 2 * matched >= max(len(outer.rows), len(inner.rows))


def launched_in(trace: Trace, start: Int64, end: Int64) -> int:
    """GPU activities launched in windows, on any thread, as steps count them (R3.3)."""
    return int(launched_by_window(trace, *union(start, end)).sum())


def launched_by_window(trace: Trace, start: Int64, end: Int64) -> Int64:
    """GPU activities launched in each of some windows, on any thread."""
    moments = _launch_times(trace)
    return np.asarray(np.searchsorted(moments, end) - np.searchsorted(moments, start))


@kept(on_disk=True)
def _launch_times(trace: Trace) -> Int64:
    """The start of the launch of each GPU activity that has one, ascending."""
    joined = links(trace)
    return np.sort(np.repeat(trace.slices.start[joined.launches], joined.counts))


# Steps guessed from repetition on the GPU: replays of graphs, or kernels, with a sign of a token in every cycle.
#
# The last resort for a trace that names no steps (R3.76). Names that occur equally often and interleave mark cycles:
# one of each between two of the first. Layers repeat too; a cycle counts as a step only where each holds a sampling
# kernel, an embedding, or a copy from the device, and holds about as much as the others.

MIN_CYCLES = 3
"""Minimum cycles that are taken for steps."""
MIN_NAMES = 2
"""Minimum names that interleave."""
MAX_SIZE_RATIO = 2.0
"""Maximum ratio of the activities in the largest cycle to those in the smallest."""
MIN_REPLAYED_SHARE = 0.3
"""Minimum share of the kernels that replays of one graph run, for its launches to mark steps."""
MAX_FIRST_NAMES = 8
"""Maximum names per number of occurrences that are tried as the first of a cycle."""

_TOKEN = re.compile(r"argmax|sampl(e|ing)|multinomial|embedding", re.IGNORECASE)
"""Names of kernels that generate a token or take one in: sampling, an embedding.

A plain top-k is not among them: a router of experts runs one in every layer.
"""
_TO_HOST = re.compile(r"^Memcpy DtoH")
"""Copies that may bring a token to the host, in a trace that runs attention: any loop may read a value."""
_TOKEN_OP = re.compile(r"^aten::(embedding|argmax|multinomial)$")
"""Operators that do so, whatever their kernels are called."""


@frozen
class Cycles:
    """Cycles in a sequence of names."""

    first: Int64
    """Positions at which a cycle begins, ascending."""
    names: int
    """Number of names that interleave."""


def graph_series(trace: Trace, is_wanted: bool = False) -> list[StepSeries]:
    """Steps from one launch of a graph to the next, where a graph, or the first of several, marks them.

    In a trace of training they are taken only where they are wanted.
    """
    graph_replays, slices, joined = replays(trace), trace.slices, links(trace)
    if len(graph_replays) < MIN_CYCLES or (is_training(trace) and not is_wanted):
        return []
    kernels = np.count_nonzero(slices.kind[joined.gpu] == Kind.KERNEL)
    if graph_replays.nodes.sum() < MIN_REPLAYED_SHARE * kernels:
        return []
    order = np.argsort(slices.start[graph_replays.launch], kind="stable")
    graph = graph_replays.graph[order]
    only_graph = len(distinct(graph)) == 1
    repeat = Cycles(np.arange(len(graph)), 1) if only_graph else cycles(graph, np.ones(len(graph), bool))
    if repeat is None or len(np.unique(slices.lane[graph_replays.launch[order[repeat.first]]])) > 1:
        return []
    rows = graph_replays.launch[order[repeat.first]]
    end = _until_next(trace, rows)
    if not is_wanted and not (_token_counts(trace, slices.start[rows], end) > 0).all():
        return []
    words = (
        f"~ guessed: {repeat.names} {'graph repeats' if repeat.names == 1 else 'graphs repeat'} {len(rows):,} times; "
        "a step may begin elsewhere"
    )
    return [StepSeries("graphs", "repeating graph", rows, end, words, is_guess=True)]


def kernel_series(trace: Trace, is_wanted: bool = False) -> list[StepSeries]:
    """Steps from one launch of a kernel to the next, where several interleave and each cycle shows a token.

    In a trace of training they are taken only where they are wanted.
    """
    if is_training(trace) and not is_wanted:
        return []
    joined, slices = links(trace), trace.slices
    rows = joined.launched
    moment = slices.start[joined.launch[rows]]
    process = lane_numbers(trace).process[slices.lane[joined.launch[rows]]]
    if len(rows) == 0 or len(distinct(process)) > 1:
        return []
    rows = rows[np.lexsort((slices.start[rows], moment))]
    repeat = cycles(slices.name[rows].astype(np.int64), _tokens(trace, rows))
    if repeat is None:
        return []
    launches = joined.launch[rows[repeat.first]].astype(np.int64)
    if len(distinct(launches)) < len(launches) or len(distinct(slices.lane[launches])) > 1:
        return []
    words = f"~ guessed: {repeat.names} kernels repeat {len(launches):,} times; a step may begin elsewhere"
    end = _until_next(trace, launches)
    return [StepSeries("kernels", "repeating kernels", launches, end, words, is_guess=True)]


def cycles(name: Int64, is_token: Bool) -> Cycles | None:
    """The cycles of a sequence of name ids: of the names with fewest occurrences, such that each cycle has a token."""
    if len(name) == 0:
        return None
    names = group(name)
    order = np.argsort(names.member, kind="stable")
    bounds = np.searchsorted(names.member[order], np.arange(len(names) + 1))
    tokens = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_token)])
    for count in distinct(names.calls[names.calls >= MIN_CYCLES]).tolist():
        equal = np.flatnonzero(names.calls == count)
        if len(equal) < MIN_NAMES:
            continue
        positions = np.stack([order[bounds[each] : bounds[each + 1]] for each in equal.tolist()])
        positions = positions[np.argsort(positions[:, 0], kind="stable")]
        for first in positions[:MAX_FIRST_NAMES]:
            # The names that occur once between each two occurrences of the first, itself included.
            interleaved = (positions >= first).all(axis=1) & (positions[:, :-1] < first[1:]).all(axis=1)
            names_per_cycle = int(np.count_nonzero(interleaved))
            if names_per_cycle < MIN_NAMES:
                continue
            edges = np.append(first, len(name))
            size, tokens_in = np.diff(edges), np.diff(tokens[edges])
            if size.max() <= MAX_SIZE_RATIO * size.min() and (tokens_in > 0).all():
                return Cycles(first, names_per_cycle)
    return None


def _until_next(trace: Trace, rows: Int64) -> Int64:
    """Each step lasts until the next begins, the last one as long as the recording."""
    return np.append(trace.slices.start[rows][1:], max(trace.window[1], int(trace.slices.end[rows[-1]])))


def _tokens(trace: Trace, rows: Int64) -> Bool:
    by_name = is_named(trace, rows, _TOKEN.search)
    owner = links(trace).owner[rows].astype(np.int64)
    by_op = (owner >= 0) & is_named(trace, np.maximum(owner, 0), _TOKEN_OP.search)
    mask = np.asarray(by_name | by_op)
    kernels = trace.slices.of_kind(Kind.KERNEL)
    if is_named(trace, kernels, lambda name: family(name, Kind.KERNEL) == Family.ATTENTION).any():
        mask |= is_named(trace, rows, _TO_HOST.search)
    return mask


def _token_counts(trace: Trace, start: Int64, end: Int64) -> Int64:
    """Number of the activities launched in each of the windows that make or take in a token."""
    joined = links(trace)
    rows = joined.launched
    moment = np.sort(trace.slices.start[joined.launch[rows[_tokens(trace, rows)]]])
    return np.searchsorted(moment, end) - np.searchsorted(moment, start)
