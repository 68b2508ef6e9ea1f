"""The step of every slice: CPU slices by time, GPU activities by their launch, never by their own time (R3.3).

A range of time has the slices and the GPU activities that ran in it, by their own time (R3.58).

Where steps of several threads overlap, a thread of the autograd engine belongs to the thread whose ops it
differentiates (R3.6).
"""

from __future__ import annotations

import numpy as np

from tracetui.errors import UsageError
from tracetui.linking.autograd import autograd
from tracetui.linking.groups import count_within
from tracetui.linking.links import links, op_rows, step_annotations
from tracetui.linking.step_sources import no_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import first_from, lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange, index_in, is_among, without
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, numbers
from tracetui.model.trace import GPU_WORK, Kind, Trace


def step_index(trace: Trace, rows: Int64) -> Int64:
    """Index in `steps(trace)` of each CPU slice or GPU activity, -1 outside of all steps.

    A GPU activity without a launch has none either, unless the steps are runs of a name: see `has_named_steps`.
    """
    launch = links(trace).launch[rows].astype(np.int64)
    source = np.where(launch >= 0, launch, rows)
    index = step_at(trace, trace.slices.start[source], trace.slices.lane[source].astype(np.int64))
    unlaunched = np.isin(trace.slices.kind[rows], GPU_WORK) & (launch < 0)
    if has_named_steps(trace) and unlaunched.any():
        unlaunched[unlaunched] = np.isin(rows[unlaunched], before_capture(trace))
    return np.where(unlaunched, -1, index)


def has_named_steps(trace: Trace) -> bool:
    """True where the steps are runs of an annotation, a function, a module or an operator that the user chose by name.

    As in every region, GPU activities without a launch record then belong to the step in which they start, which is a
    guess (R3.3). Servers launch so far ahead that it would be a bad one.
    """
    chosen_steps = trace.chosen_steps
    if chosen_steps is None or chosen_steps.is_served or chosen_steps.is_guess:
        return False
    named = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)
    return bool(np.isin(trace.slices.kind[chosen_steps.rows], named).all())


def step_at(trace: Trace, moment: Int64, lane: Int64) -> Int64:
    """Index in `steps(trace)` of times (ns) on lanes, -1 outside of all steps."""
    trace_steps = steps(trace)
    return trace_steps.of_moment(moment, autograd(trace).home[lane] if trace_steps.overlap else lane)


def within(trace: Trace, rows: Int64, part: Part | None) -> Int64:
    """The rows that belong to the step with a number, or run within a range of time; all of them for None.

    Raises: UsageError when no step has the number.
    """
    if part is None:
        return rows
    if isinstance(part, TimeRange):
        return rows[part.touched(trace.slices.start[rows], trace.slices.end[rows])]
    wanted = chosen(trace, part)
    if rows is links(trace).gpu and len(wanted) == 1:
        # Asked for at every change of the step.
        return activities_of_step(trace, int(wanted[0]))
    # Working the step out takes several times as long as this, and most rows belong to other steps.
    all_steps, launch = steps(trace), links(trace).launch[rows]
    moment = trace.slices.start[np.where(launch >= 0, launch, rows)]
    near = (moment >= all_steps.start[wanted].min()) & (moment < all_steps.end[wanted].max())
    rows = np.compress(near, rows)
    return rows[np.isin(step_index(trace, rows), wanted)]


def ops_within(trace: Trace, part: Part | None) -> Int64:
    """The operators that belong to a part, ascending; for a step only slices near it are read."""
    if part is None or isinstance(part, TimeRange):
        return within(trace, op_rows(trace), part)
    return without(kind_within(trace, Kind.CPU_OP, part), step_annotations(trace))


def kind_within(trace: Trace, kind: Kind, step: int) -> Int64:
    """The CPU slices of a kind that belong to a step, ascending; only slices near it are read.

    Raises: UsageError when no step has the number.
    """
    wanted = chosen(trace, step)
    rows = _begun_with(trace, wanted)
    rows = rows[trace.slices.kind[rows] == kind]
    mine: Int64 = rows[np.isin(step_index(trace, rows), wanted)]
    return mine


def _begun_with(trace: Trace, wanted: Int64) -> Int64:
    """The slices that start between the first and the last moment of some steps, ascending."""
    all_steps, lanes = steps(trace), np.arange(len(trace.lanes))
    window = all_steps.start[wanted].min(), all_steps.end[wanted].max()
    first, last = (first_from(trace, lanes, np.full(len(lanes), moment)) for moment in window)
    return np.concatenate([np.arange(*each) for each in zip(first, last, strict=True)] or [lanes])


def positions_of_step(trace: Trace, rows: Int64, step: int) -> Int64:
    """The indices of the `rows`, which ascend, that belong to a step; only slices near it are read.

    Raises: UsageError when no step has the number.
    """
    wanted = chosen(trace, step)
    near = _begun_with(trace, wanted)
    near = near[~is_among(trace.slices.kind[near], GPU_WORK)]
    near = near[np.isin(step_index(trace, near), wanted)]
    launched = [activities_of_step(trace, each) for each in wanted.tolist()]
    index = index_in(rows, np.concatenate([near, *launched]))
    return np.sort(index[index >= 0])


def time_within(trace: Trace, rows: Int64, part: Part | None) -> Int64:
    """The time (ns) for which each slice ran, within a range of time if one is given."""
    if isinstance(part, TimeRange):
        return part.covered(trace.slices.start[rows], trace.slices.end[rows])
    return trace.slices.dur[rows]


def index_in_step(trace: Trace, all_rows: Int64, rows: Int64, part: Part | None) -> Int64:
    """Index of each row, from 1, among those of `all_rows` in its step; `rows` are in the order of `all_rows`."""
    if not isinstance(part, TimeRange):
        return count_within(step_index(trace, rows))
    return count_within(step_index(trace, all_rows))[np.isin(all_rows, rows)]


def activities_of_step(trace: Trace, index: int) -> Int64:
    """The GPU activities launched in one of `steps(trace)`, in order of start."""
    by_step, bounds = activities_by_step(trace)
    return np.asarray(by_step[bounds[index] : bounds[index + 1]])


@kept(on_disk=True)
def activities_by_step(trace: Trace) -> tuple[Int64, Int64]:
    """The GPU activities in order of their step, and where those of each step begin, with the end of the last."""
    gpu = links(trace).gpu
    index = step_index(trace, gpu)
    order = np.argsort(index, kind="stable")
    return gpu[order], np.searchsorted(index[order], np.arange(len(steps(trace)) + 1))


@kept
def before_capture(trace: Trace) -> Int64:
    """GPU activities launched before the capture began, in order of start (R3.3).

    They have no launch record, and a correlation id below that of every recorded call, or they start before every
    activity of their device that has a launch; without an id, before every one of their stream. With a deep queue that
    is long after the first recorded launch.
    """
    trace_links, slices = links(trace), trace.slices
    gpu = trace_links.gpu
    alone = np.flatnonzero(trace_links.launch[gpu] < 0)
    if len(alone) == 0:
        return gpu[:0]
    recorded = slices.correlation[slices.of_kind(Kind.RUNTIME)]
    first = int(recorded[recorded > 0].min()) if (recorded > 0).any() else 0
    ids = slices.correlation[gpu[alone]]
    process = lane_numbers(trace).process
    start = slices.start[gpu[alone]]
    early = (ids > 0) & (ids < first)
    early |= start < _first_launched(trace, process[slices.lane])[alone]
    early |= (ids <= 0) & (start < _first_launched(trace, slices.lane.astype(np.int64))[alone])
    return np.compress(early, gpu[alone])


def lost_launches(trace: Trace, gpu: Int64) -> Bool:
    """Mask of the GPU activities that were launched within the capture, by calls that were not recorded."""
    return (links(trace).launch[gpu] < 0) & ~np.isin(gpu, before_capture(trace))


def _first_launched(trace: Trace, place: Int64) -> Int64:
    """The start of the first GPU activity with a launch in the place (a number for every slice) of each GPU activity.

    The least possible time where there is none.
    """
    trace_links, start = links(trace), trace.slices.start
    gpu = trace_links.gpu
    known = gpu[trace_links.launch[gpu] >= 0]
    first = np.full(int(place.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, place[known], start[known])
    first[first == np.iinfo(np.int64).max] = np.iinfo(np.int64).min
    return np.asarray(first[place[gpu]])


def chosen(trace: Trace, step: Part | None) -> Int64:
    """Indices of the steps with a number, of those that are open within a range of time, of all steps for None.

    Raises: UsageError when no step has the number.
    """
    all_steps = steps(trace)
    if step is None:
        return np.arange(len(all_steps))
    if isinstance(step, TimeRange):
        return np.flatnonzero(step.touched(all_steps.start, all_steps.end))
    matching = all_steps.labelled(step)
    if len(matching):
        return matching
    if len(all_steps) == 0:
        raise UsageError(no_steps(trace))
    known = ", ".join(map(str, np.unique(all_steps.number)[:8])) + (" ..." if len(all_steps) > 8 else "")
    numbered = "the only one is" if len(all_steps) == 1 else "the steps of this trace are numbered"
    raise UsageError(f"There is no step {step}; {numbered} {known}.")


def step_column(trace: Trace, rows: Int64, help: str) -> Column:
    """The number of the step of each row, null outside of all steps."""
    index = step_index(trace, rows)
    labels = np.append(steps(trace).number, NULL)
    return numbers(col.STEP.but(help=help), labels[index])


# Launches between two steps: vLLM samples after its annotation has ended (R3.78).


@kept
def step_launched_after(trace: Trace) -> Int64:
    """The index of the step after which each of `links(trace).gpu` was launched, outside of all steps.

    That is the step before it on the launching thread, or on the only thread of the process that has steps; -1 for what
    belongs to a step or precedes them all, and wherever the steps are those of the profiler.
    """
    all_steps, slices, joined = steps(trace), trace.slices, links(trace)
    after = np.full(len(joined.gpu), -1, np.int64)
    if not all_steps.is_served:
        return after
    launch = joined.launch[joined.gpu].astype(np.int64)
    outside = np.flatnonzero((launch >= 0) & (step_index(trace, joined.gpu) < 0))
    lane = slices.lane[launch[outside]].astype(np.int64)
    moment = slices.start[launch[outside]]
    process = lane_numbers(trace).process
    lanes = np.unique(all_steps.lane)
    for home in lanes.tolist():
        alone = np.count_nonzero(process[lanes] == process[home]) == 1
        mine = lane == home if not alone else process[lane] == process[home]
        index = np.flatnonzero(all_steps.lane == home)
        last = np.searchsorted(all_steps.start[index], moment[mine], side="right") - 1
        after[outside[mine]] = np.where(last >= 0, index[np.maximum(last, 0)], -1)
    return after


def between_share(trace: Trace) -> float | None:
    """Percent of the time of GPU activities that was launched after a step and within none; None without activities."""
    gpu = links(trace).gpu
    time = trace.slices.dur[gpu]
    total = int(time.sum())
    return 100 * int(time[step_launched_after(trace) >= 0].sum()) / total if total else None


# The part of a trace to show first: the middle step, or the busiest part.

MAX_SHOWN_ACTIVITIES = 200
"""Maximum GPU activities shown at once where there are no steps."""
MAX_WINDOW_GROWTH = 4
"""Maximum growth of a window to include the GPU activities that were launched in it."""


def step_labels(trace: Trace) -> list[int]:
    """The distinct numbers of the steps, in order."""
    return list(dict.fromkeys(steps(trace).number.tolist()))


def activities_of_step_number(trace: Trace, number: int) -> Int64:
    """The GPU activities launched in a step, in order of start."""
    return activities_of_step(trace, int(steps(trace).labelled(number)[0]))


def stretch_of_step(trace: Trace, number: int) -> tuple[int, int]:
    """Start and end in ns of a step together with the GPU activities that it launched."""
    trace_steps = steps(trace)
    index = int(trace_steps.labelled(number)[0])
    start, end = int(trace_steps.start[index]), int(trace_steps.end[index])
    work = activities_of_step_number(trace, number)
    return start, max(end, int(trace.slices.end[work].max())) if len(work) else end


def busiest_stretch(trace: Trace) -> tuple[int, int]:
    """The fiftieth of the trace in which most GPU activities are launched, until they end; start and end in ns.

    Without launches the one in which most activities start.
    """
    low, high = trace.window
    slices, trace_links = trace.slices, links(trace)
    rows = trace_links.gpu
    if len(rows) == 0:
        rows = np.flatnonzero((slices.kind != Kind.BOOKKEEPING) & (slices.dur > 0))
    if len(rows) == 0 or high <= low:
        return low, max(high, low + 1)
    launch = trace_links.launch[rows]
    cause = np.where(launch >= 0, launch, rows)
    moments = slices.start[cause]
    if len(rows) <= MAX_SHOWN_ACTIVITIES:
        return int(moments.min()), int(slices.end[rows].max())
    edges = np.linspace(low, high, 51)
    most = int(np.argmax(np.histogram(moments, edges)[0]))
    start, end = int(edges[most]), int(edges[most + 1])
    work = rows[(moments >= start) & (moments < end)]
    reach = int(slices.end[work].max()) if len(trace_links.gpu) else end
    return start, min(max(end, reach), start + MAX_WINDOW_GROWTH * (end - start))
