"""The launches pane: runtime and driver calls that put work on the GPU, whatever their name (R2.8)."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.groups import count_within, distinct, group
from tracetui.analysis.lanes import lane_numbers
from tracetui.analysis.links import calls_named, links, names_of, no_gpu
from tracetui.analysis.placement import step_column, step_index, within
from tracetui.model.intervals import Int64
from tracetui.model.table import Table, coded, micros, numbers
from tracetui.model.trace import Trace

LAUNCH_NAME = re.compile(r"^(cu|cuda|hip)\w*Launch\w*(Kernel|Graph)|^(cuda|hip)GraphLaunch", re.IGNORECASE)
"""Calls that should have put a kernel on the GPU, to count those of which nothing was recorded."""


def launches(trace: Trace, step: int | None = None, by: str | None = None) -> Table:
    """Every launch in the order of time, or grouped by the name of the call."""
    found, slices = links(trace), trace.slices
    rows = within(trace, found.launches, step)
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    place = np.searchsorted(found.launches, rows)
    first, count = found.first[place], found.counts[place]
    if by == "name":
        return _by_name(trace, rows, first, count)
    return Table(
        (
            numbers("index", count_within(step_index(trace, rows)), "", "Place in the step, by start."),
            step_column(trace, rows, "Number of the step in which the call was made."),
            coded("api", slices.name[rows], trace.names, "Name of the call."),
            micros("start_us", slices.start[rows], "Start, from the first event of the trace."),
            micros("dur_us", slices.dur[rows], "Time that the CPU spent in the call."),
            coded("thread", slices.lane[rows], [lane.name for lane in trace.lanes], "The thread that called."),
            coded("op", names_of(trace, found.owner[rows]), trace.names, "The operator around the call."),
            numbers("kernels", count, "", "GPU activities that it started; a graph launch has many."),
            coded("kernel", slices.name[first], trace.names, "The activity that started first."),
            micros(
                "delay_us",
                slices.start[first] - slices.start[rows],
                "From the start of the call to the start on the GPU, waiting in the queue included.",
            ),
            numbers("queue_depth", queue_depth(trace)[place], "", "Launches made for the device and not yet started."),
        ),
        rows,
        _note(trace),
    )


def queue_depth(trace: Trace) -> Int64:
    """For each of `links(trace).launches`: launches begun less those whose first work has started, itself included."""

    def make() -> Int64:
        found, slices = links(trace), trace.slices
        device = lane_numbers(trace).process[slices.lane[found.first]]
        depth = np.zeros(len(found.launches), np.int64)
        for number in distinct(device):
            mine = np.flatnonzero(device == number)
            begun = slices.start[found.launches[mine]]
            started = np.sort(slices.start[found.first[mine]])
            made = np.searchsorted(np.sort(begun), begun, side="right")
            depth[mine] = made - np.searchsorted(started, begun, side="right")
        return np.maximum(depth, 0)

    return trace.remember("queue depth", make)


def _by_name(trace: Trace, rows: Int64, first: Int64, count: Int64) -> Table:
    slices = trace.slices
    names = group(slices.name[rows])
    dur = slices.dur[rows]
    total = names.sum(dur)
    table = Table(
        (
            coded("api", names.key, trace.names, "Name of the call."),
            numbers("calls", names.calls, "", "How often it was called."),
            numbers("kernels", names.sum(count).astype(np.int64), "", "GPU activities that the calls started."),
            micros("total_us", total, "Time that the CPU spent in the calls."),
            micros("mean_us", total / names.calls, "Mean time in a call."),
            micros("median_us", names.median(dur), "Median time in a call."),
            micros("max_us", dur[names.largest(dur)], "Longest time in a call; the row jumps to it."),
            micros(
                "median_delay_us",
                names.median(slices.start[first] - slices.start[rows]),
                "Median time from the start of the call to the start on the GPU.",
            ),
        ),
        rows[names.largest(dur)],
        _note(trace),
    )
    return table.take(table.order("total_us", descending=True))


def _note(trace: Trace) -> str:
    found = links(trace)
    if len(found.gpu) == 0:
        return no_gpu(trace)
    barren = len(np.setdiff1d(calls_named(trace, LAUNCH_NAME), found.launches, assume_unique=True))
    if barren == 0:
        return ""
    return f"{barren:,} launch calls have no GPU activity in the trace: the profiler lost it or stopped before it ran."
