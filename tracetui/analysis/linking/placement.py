"""The step of every slice: CPU slices by time, GPU activities by their launch, never by their own time (R3.3).

Where steps of several threads overlap, a thread of the autograd engine belongs to the thread whose ops it
differentiates (R3.6).
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis import columns as col
from tracetui.analysis.common.groups import distinct
from tracetui.analysis.common.lanes import lane_numbers
from tracetui.analysis.linking.autograd import autograd
from tracetui.analysis.linking.links import links, op_rows
from tracetui.analysis.linking.step_sources import no_steps
from tracetui.analysis.linking.steps import steps
from tracetui.errors import UsageError
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL, Column, numbers
from tracetui.model.trace import GPU_WORK, Kind, Trace

MIN_COMPLETE_SHARE = 0.75
"""Minimum contents of a complete step, relative to the median of the others."""


def step_index(trace: Trace, rows: Int64) -> Int64:
    """Index in `steps(trace)` of each CPU slice or GPU activity, -1 outside of all steps or without a launch."""
    launch = links(trace).launch[rows].astype(np.int64)
    source = np.where(launch >= 0, launch, rows)
    index = step_at(trace, trace.slices.start[source], trace.slices.lane[source].astype(np.int64))
    unlaunched = np.isin(trace.slices.kind[rows], GPU_WORK) & (launch < 0)
    return np.where(unlaunched, -1, index)


def step_at(trace: Trace, moment: Int64, lane: Int64) -> Int64:
    """Index in `steps(trace)` of times (ns) on lanes, -1 outside of all steps."""
    trace_steps = steps(trace)
    return trace_steps.of_moment(moment, autograd(trace).home[lane] if trace_steps.overlap else lane)


def within(trace: Trace, rows: Int64, step: int | None) -> Int64:
    """The rows that belong to the step with a number; all of them for None.

    Raises: UsageError when no step has the number.
    """
    if step is None:
        return rows
    wanted = chosen(trace, step)
    return rows[np.isin(step_index(trace, rows), wanted)]


def activities_of_step(trace: Trace, index: int) -> Int64:
    """The GPU activities launched in one of `steps(trace)`, in order of start."""
    gpu = links(trace).gpu
    belongs: Int64 = trace.remember("steps of GPU work", lambda: step_index(trace, gpu))
    return np.compress(belongs == index, gpu)


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


def _first_launched(trace: Trace, place: Int64) -> Int64:
    """For each GPU activity the start of the first one in its place (a number for every slice) that has a launch.

    The least possible time where there is none.
    """
    trace_links, start = links(trace), trace.slices.start
    gpu = trace_links.gpu
    known = gpu[trace_links.launch[gpu] >= 0]
    first = np.full(int(place.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, place[known], start[known])
    first[first == np.iinfo(np.int64).max] = np.iinfo(np.int64).min
    return np.asarray(first[place[gpu]])


def partial_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that the profiler truncated: the first or last of a thread with far less in it (R3.6).

    A guess by count: fewer than three quarters of the median of the thread's other steps in GPU activities, or in ops
    where nothing ran on a GPU. With fewer than three steps nothing is known.
    """

    def find() -> Bool:
        every = steps(trace)
        rows = links(trace).gpu if len(links(trace).launched) else op_rows(trace)
        index = step_index(trace, rows)
        held = np.bincount(index[index >= 0], minlength=len(every))
        partial = np.zeros(len(every), bool)
        for lane in distinct(every.lane).tolist():
            mine = np.flatnonzero(every.lane == lane)
            for end in (0, -1) if len(mine) > 2 else ():
                others = np.delete(held[mine], end)
                partial[mine[end]] = held[mine[end]] < MIN_COMPLETE_SHARE * np.median(others)
        return partial

    return trace.remember("partial steps", find)


def chosen(trace: Trace, step: int | None) -> Int64:
    """Indices of the steps with a number, of all steps for None.

    Raises: UsageError when no step has the number.
    """
    every = steps(trace)
    if step is None:
        return np.arange(len(every))
    matching = every.labelled(step)
    if len(matching):
        return matching
    if len(every) == 0:
        raise UsageError(no_steps(trace))
    known = ", ".join(map(str, np.unique(every.number)[:8])) + (" ..." if len(every) > 8 else "")
    numbered = "the only one is" if len(every) == 1 else "the steps of this trace are numbered"
    raise UsageError(f"There is no step {step}; {numbered} {known}.")


def step_column(trace: Trace, rows: Int64, help: str) -> Column:
    """The number of the step of each row, null outside of all steps."""
    index = step_index(trace, rows)
    labels = np.append(steps(trace).number, NULL)
    return numbers(col.STEP.but(help=help), labels[index])
