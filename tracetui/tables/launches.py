"""The launches pane: runtime and driver calls that put something on the GPU, whatever their name (R2.8)."""

from __future__ import annotations

import re

import numpy as np

from tracetui.idle.waits import queue_depth, queueing
from tracetui.linking.groups import group
from tracetui.linking.lines import SITES, site_column, site_columns, site_groupings, site_of
from tracetui.linking.links import calls_named, links, names_of, no_gpu
from tracetui.linking.placement import index_in_step, step_column, time_within, within
from tracetui.linking.trees import lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part
from tracetui.model.pane import Grouping, Pane
from tracetui.model.table import Column, Table, coded, micros, numbers
from tracetui.model.trace import Trace

LAUNCH_NAME = re.compile(r"^(cu|cuda|hip)\w*Launch\w*(Kernel|Graph)|^(cuda|hip)GraphLaunch", re.IGNORECASE)
"""Names of calls that should have launched a kernel, to count those without one."""


def launches(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every launch in the order of time, or grouped by the name of the call, the operator or the stream."""
    trace_links, slices = links(trace), trace.slices
    every = trace_links.launches[np.argsort(slices.start[trace_links.launches], kind="stable")]
    rows = within(trace, every, step)
    index = np.searchsorted(trace_links.launches, rows)
    if by is not None:
        return _grouped(trace, rows, index, by, step)
    first, count = trace_links.first[index], trace_links.counts[index]
    return Table(
        (
            numbers(col.INDEX, index_in_step(trace, every, rows, step)),
            step_column(trace, rows, "Number of the step in which the call was made."),
            coded(col.API, slices.name[rows], trace.names),
            micros(col.START_US, slices.start[rows]),
            micros(
                col.DUR_US.but(help="Time that the CPU spent in the call: the overhead of the launch."),
                slices.dur[rows],
            ),
            coded(col.THREAD, slices.lane[rows], [lane.name for lane in trace.lanes]),
            coded(
                col.OP.but(help="The operator around the call."), names_of(trace, trace_links.owner[rows]), trace.names
            ),
            numbers(col.KERNELS, count),
            coded(col.KERNEL, slices.name[first], trace.names),
            *_waits(trace, index),
            numbers(col.STREAM, lane_numbers(trace).stream[slices.lane[first]]),
            micros(col.OVERHEAD_US, slices.dur[rows] / count),
            *site_columns(trace, rows),
        ),
        rows,
        _note(trace),
    )


_SUMS = "op stream api calls kernels total_us mean_us median_us max_us"
PANE = Pane(
    "launches",
    "Launches",
    help="One row is a call that launched GPU activities.",
    table=launches,
    columns=(
        "step index api dur_us delay_us kernel op queue_depth stream_wait_us dispatch_us kernels thread "
        "start_us line function module"
    ),
    groupings=(
        Grouping("name", _SUMS, opens=""),
        Grouping("op", _SUMS, opens=""),
        Grouping("stream", _SUMS, opens=""),
        *site_groupings(_SUMS, opens=""),
    ),
    bars="total_us dur_us",
)


def _waits(trace: Trace, index: Int64) -> tuple[Column, ...]:
    """Waiting times of the first activity of each launch."""
    queue = queueing(trace)
    return (
        micros(col.DELAY_US, queue.latency[index]),
        numbers(col.QUEUE_DEPTH, queue_depth(trace)[index]),
        micros(col.QUEUE_DELAY_US, queue.delay[index]),
        micros(col.STREAM_WAIT_US, queue.stream_wait[index]),
        micros(col.DISPATCH_US, queue.dispatch[index]),
    )


def _grouped(trace: Trace, rows: Int64, index: Int64, by: str, part: Part | None) -> Table:
    trace_links, queue = links(trace), queueing(trace)
    key, column = _keys(trace, rows, index, by)
    groups = group(key)
    dur = time_within(trace, rows, part)
    total, longest = groups.sum(dur), groups.largest(dur)
    table = Table(
        (
            column.take(longest),
            numbers(col.CALLS.but(help="How many launches."), groups.calls),
            numbers(
                col.KERNELS.but(help="GPU activities that they started."),
                groups.sum(trace_links.counts[index]).astype(np.int64),
            ),
            micros(col.TOTAL_US.but(help="Time that the CPU spent in the calls."), total),
            micros(col.MEAN_US.but(help="Mean time in a call."), total / groups.calls),
            micros(col.MEDIAN_US.but(help="Median time in a call."), groups.median(dur)),
            micros(col.MAX_US.but(help="Longest time in a call; the row jumps to it."), dur[longest]),
            micros(col.MEDIAN_DELAY_US, groups.median(queue.latency[index])),
            micros(col.MEDIAN_QUEUE_DELAY_US, groups.median(queue.delay[index])),
            micros(col.MEDIAN_DISPATCH_US, groups.median(queue.dispatch[index])),
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
        return key, coded(col.OP.but(help="The operator around the calls; null for calls in none."), key, trace.names)
    if by == "stream":
        lane = slices.lane[trace_links.first[index]].astype(np.int64)
        return lane, numbers(col.STREAM, lane_numbers(trace).stream[lane])
    if by in SITES:
        return site_of(trace, rows, by)[0], site_column(trace, rows, by)
    key = slices.name[rows].astype(np.int64)
    return key, coded(col.API, key, trace.names)


def _note(trace: Trace) -> str:
    trace_links = links(trace)
    if len(trace_links.gpu) == 0:
        return no_gpu(trace)
    barren = len(np.setdiff1d(calls_named(trace, LAUNCH_NAME), trace_links.launches, assume_unique=True))
    if barren == 0:
        return ""
    return f"{barren:,} launch calls have no GPU activity in the trace: the profiler lost it or stopped before it ran."
