"""The launches pane: runtime and driver calls that put something on the GPU, whatever their name (R2.8)."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.common.groups import count_within, group
from tracetui.analysis.common.lanes import lane_numbers
from tracetui.analysis.idle.waits import queue_depth, queueing
from tracetui.analysis.linking.links import calls_named, links, names_of, no_gpu
from tracetui.analysis.linking.placement import step_column, step_index, within
from tracetui.model.intervals import Int64
from tracetui.model.table import Column, Table, coded, micros, numbers
from tracetui.model.trace import Trace

LAUNCH_NAME = re.compile(r"^(cu|cuda|hip)\w*Launch\w*(Kernel|Graph)|^(cuda|hip)GraphLaunch", re.IGNORECASE)
"""Names of calls that should have launched a kernel, to count those without one."""


def launches(trace: Trace, step: int | None = None, by: str | None = None) -> Table:
    """Every launch in the order of time, or grouped by the name of the call, the operator or the stream."""
    trace_links, slices = links(trace), trace.slices
    rows = within(trace, trace_links.launches, step)
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    index = np.searchsorted(trace_links.launches, rows)
    if by is not None:
        return _grouped(trace, rows, index, by)
    first, count = trace_links.first[index], trace_links.counts[index]
    return Table(
        (
            numbers("index", count_within(step_index(trace, rows)), "", "Place in the step, by start."),
            step_column(trace, rows, "Number of the step in which the call was made."),
            coded("api", slices.name[rows], trace.names, "Name of the call."),
            micros("start_us", slices.start[rows], "Start, from the first event of the trace."),
            micros("dur_us", slices.dur[rows], "Time that the CPU spent in the call: the overhead of the launch."),
            coded("thread", slices.lane[rows], [lane.name for lane in trace.lanes], "The thread that called."),
            coded("op", names_of(trace, trace_links.owner[rows]), trace.names, "The operator around the call."),
            numbers("kernels", count, "", "GPU activities that it started; a graph launch has many."),
            coded("kernel", slices.name[first], trace.names, "The activity that started first."),
            *_waits(trace, index),
            numbers("stream", lane_numbers(trace).stream[slices.lane[first]], "", "Number of the stream."),
            micros("overhead_us", slices.dur[rows] / count, "Time in the call for each activity that it started."),
        ),
        rows,
        _note(trace),
    )


def _waits(trace: Trace, index: Int64) -> tuple[Column, ...]:
    """Waiting times of the first activity of each launch."""
    queue = queueing(trace)
    return (
        micros(
            "delay_us",
            queue.latency[index],
            "Latency: from the start of the call to the start on the GPU, waiting in the queue included.",
        ),
        numbers("queue_depth", queue_depth(trace)[index], "", "Launches made for the device and not yet started."),
        micros("queue_delay_us", queue.delay[index], "From the end of the call to the start; 0 if it began before."),
        micros("stream_wait_us", queue.stream_wait[index], "Of the queue delay: the stream was at earlier work."),
        micros(
            "dispatch_us",
            queue.dispatch[index],
            "Of the queue delay: the rest, the dispatch, and waiting for other streams.",
        ),
    )


def _grouped(trace: Trace, rows: Int64, index: Int64, by: str) -> Table:
    trace_links, slices, queue = links(trace), trace.slices, queueing(trace)
    key, column = _keys(trace, rows, index, by)
    groups = group(key)
    dur = slices.dur[rows]
    total, longest = groups.sum(dur), groups.largest(dur)
    table = Table(
        (
            column.take(longest),
            numbers("calls", groups.calls, "", "How many launches."),
            numbers(
                "kernels",
                groups.sum(trace_links.counts[index]).astype(np.int64),
                "",
                "GPU activities that they started.",
            ),
            micros("total_us", total, "Time that the CPU spent in the calls."),
            micros("mean_us", total / groups.calls, "Mean time in a call."),
            micros("median_us", groups.median(dur), "Median time in a call."),
            micros("max_us", dur[longest], "Longest time in a call; the row jumps to it."),
            micros(
                "median_delay_us",
                groups.median(queue.latency[index]),
                "Median time from the start of the call to the start on the GPU.",
            ),
            micros("median_queue_delay_us", groups.median(queue.delay[index]), "Median from the end of the call."),
            micros("median_dispatch_us", groups.median(queue.dispatch[index]), "Median pure dispatch."),
        ),
        rows[longest],
        _note(trace),
    )
    return table.take(table.order("total_us", descending=True))


def _keys(trace: Trace, rows: Int64, index: Int64, by: str) -> tuple[Int64, Column]:
    """The group of each launch, as a number and as the column to show."""
    slices, trace_links = trace.slices, links(trace)
    if by == "op":
        key = names_of(trace, trace_links.owner[rows])
        return key, coded("op", key, trace.names, "The operator around the calls; null for calls in none.")
    if by == "stream":
        lane = slices.lane[trace_links.first[index]].astype(np.int64)
        return lane, numbers("stream", lane_numbers(trace).stream[lane], "", "Number of the stream.")
    key = slices.name[rows].astype(np.int64)
    return key, coded("api", key, trace.names, "Name of the call.")


def _note(trace: Trace) -> str:
    trace_links = links(trace)
    if len(trace_links.gpu) == 0:
        return no_gpu(trace)
    barren = len(np.setdiff1d(calls_named(trace, LAUNCH_NAME), trace_links.launches, assume_unique=True))
    if barren == 0:
        return ""
    return f"{barren:,} launch calls have no GPU activity in the trace: the profiler lost it or stopped before it ran."
