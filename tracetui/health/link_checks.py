"""Checks of the ids that join launches, GPU activities and ops."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property, partial

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.graph_nodes import capture_counts, graph_nodes, refusals, unknown_node
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import before_capture
from tracetui.linking.replays import in_capture, replays
from tracetui.model.intervals import Int64
from tracetui.model.recorded import Loss
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.tables.launches import LAUNCH_NAME

# What a health check is, and its result.


class CheckSeverity(IntEnum):
    """Severity of a check; larger is worse."""

    NOTE = 1
    """Good to know; the numbers are right."""
    DOUBT = 2
    """A warning: some numbers rest on a guess or are slightly off."""
    WRONG = 3
    """Some numbers are wrong or incomplete."""


@frozen(eq=True)
class Doubt:
    """Result of a check."""

    count: int
    """Number of cases; 0 where the check found nothing."""
    of: int = 0
    """Number of candidates; 0 where a share means nothing."""
    example: str = ""
    """One case in words: its name, or its byte position in the file."""
    row: int = -1
    """The slice to jump to, -1 for none."""
    size: int = 0
    """Error of the numbers in ns; 0 where that means nothing."""
    effect: str = ""
    """The effect in this trace; empty for that of the check."""


@frozen(eq=True)
class Check:
    """A question asked of every trace."""

    name: str
    severity: CheckSeverity
    find: Callable[[Trace], Doubt | None]
    """The answer; None where the question does not apply, such as for kernels in a trace without a GPU."""
    effect: str
    """Effect on the numbers, in a sentence."""
    touches: tuple[str, ...] = ()
    """Affected columns as `pane.column`; `pane` alone stands for all of its columns."""

    @cached_property
    def panes(self) -> frozenset[str]:
        """The panes with affected columns."""
        return frozenset(column.split(".")[0] for column in self.touches)


def doubt_about(trace: Trace, rows: Int64, of: int) -> Doubt:
    """The result of a check that found some slices among `of`, with the first as example; that of none without any."""
    return Doubt(len(rows), of, trace.name_of(int(rows[0])), int(rows[0])) if len(rows) else Doubt(0)


NO_ACTIVITY_CHECK = "launches without work"
"""Name of the check for launches of which no GPU activity was recorded."""


def without_launch(trace: Trace, early: bool) -> Doubt | None:
    """GPU activities without launch record, `early` those launched before the capture (R3.3), else all others."""
    trace_links = links(trace)
    if len(trace_links.gpu) == 0:
        return None
    rows = trace_links.gpu[trace_links.launch[trace_links.gpu] < 0]
    rows = rows[np.isin(rows, before_capture(trace)) == early]
    row = int(rows[0]) if len(rows) else -1
    return Doubt(len(rows), len(trace_links.gpu), trace.name_of(row) if row >= 0 else "", row)


def without_work(trace: Trace) -> Doubt | None:
    """Launch calls without any recorded GPU activity."""
    called = calls_named(trace, LAUNCH_NAME)
    if len(called) == 0:
        return None
    barren = _barren(trace)
    return doubt_about(trace, barren, len(called))


def lost_first(trace: Trace) -> Doubt | None:
    """Those of them that precede every launch with a recorded activity."""
    launches, start = links(trace).launches, trace.slices.start
    if len(launches) == 0:
        return None
    barren = _barren(trace)
    lost = barren[start[barren] < start[launches].min()]
    return doubt_about(trace, lost, len(launches))


def unfinished(trace: Trace) -> int:
    """Number of launch calls without GPU activity behind every launch with one: the recording ended before they ran."""
    launches, start = links(trace).launches, trace.slices.start
    return int((start[_barren(trace)] > start[launches].max()).sum()) if len(launches) else 0


def repeated_ids(trace: Trace) -> Doubt | None:
    """Runtime calls that share a correlation id with another."""
    rows = trace.slices.of_kind(Kind.RUNTIME)
    ids = trace.slices.correlation[rows]
    rows, ids = rows[ids > 0], ids[ids > 0]
    if len(rows) == 0:
        return None
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if len(again) == 0:
        return Doubt(0)
    row = int(rows[again[0]])
    return Doubt(len(again), len(rows), f"id {trace.slices.correlation[row]}: {trace.name_of(row)}", row)


def untrusted_ids(trace: Trace) -> Doubt | None:
    """GPU activities whose `External id` is the profiler's own and names no op (R3.7)."""
    trace_links = links(trace)
    if len(trace_links.gpu) == 0:
        return None
    given = trace_links.gpu[trace.slices.external[trace_links.gpu] > 0]
    if trace_links.trusted or len(given) == 0:
        return Doubt(0)
    row = int(given[0])
    return Doubt(len(given), len(trace_links.gpu), f"id {trace.slices.external[row]}: {trace.name_of(row)}", row)


def _barren(trace: Trace) -> Int64:
    """Launch calls without GPU activity, ascending; without those that a capture of a graph only records."""
    rows = np.setdiff1d(calls_named(trace, LAUNCH_NAME), links(trace).launches, assume_unique=True)
    return rows[~in_capture(trace, rows)]


_UNLINKED = (
    "kernels.step",
    "kernels.op",
    "kernels.line",
    "kernels.function",
    "kernels.module",
    "modules.gpu_us",
    "modules.own_gpu_us",
    "modules.idle_us",
    "modules.activities",
    "kernels.annotation",
    "kernels.launch_start_us",
    "kernels.launch_delay_us",
    "ops.device_total_us",
    "ops.kernels",
)
_LOST = ("steps.kernels", "kernels", "views", "launches.kernels", "ops.device_total_us", "ops.kernels", "gaps.cause")


def captured_operators(trace: Trace) -> Doubt | None:
    """GPU activities in graphs whose operator is that of the capture, which is inferred from the order of names."""
    if len(replays(trace)) == 0:
        return None
    counted, nodes = capture_counts(trace), graph_nodes(trace)
    row = int(nodes.rows[0]) if len(nodes) else -1
    return Doubt(counted.tied, counted.activities, counted.words or "", row)


def unknown_operators(trace: Trace) -> Doubt | None:
    """GPU activities in graphs whose capture is not known."""
    if len(replays(trace)) == 0:
        return None
    counted = capture_counts(trace)
    unknown = counted.activities - counted.tied
    if unknown == 0:
        return Doubt(0)
    joined, starts = links(trace), replays(trace).launch
    rows = joined.launched[np.isin(joined.launch[joined.launched], starts)]
    row = int(rows[graph_nodes(trace).index_of(rows) < 0][0])
    why = next(iter(refusals(trace)), unknown_node(trace, int(joined.launch[row])))
    return Doubt(unknown, counted.activities, why, row)


LINK_CHECKS = (
    Check(
        "work without launch",
        CheckSeverity.DOUBT,
        partial(without_launch, early=False),
        "It has no delay, its op is unknown or a guess, and it is in no step, or in steps chosen by name by its own "
        "start; sums over the whole trace include it.",
        (*_UNLINKED, "steps.kernels", "steps.gpu_busy_us", "steps.gpu_idle_us", "gaps.cause"),
    ),
    Check(
        "work from before the capture",
        CheckSeverity.NOTE,
        partial(without_launch, early=True),
        "It was queued when the recording began: it is in no step and under no op, but in sums over the whole trace.",
    ),
    Check(
        NO_ACTIVITY_CHECK,
        CheckSeverity.WRONG,
        without_work,
        "The profiler lost their kernels or stopped before they ran: an op without GPU time may have had some.",
        _LOST,
    ),
    Check(
        "lost first kernels",
        CheckSeverity.WRONG,
        lost_first,
        "The profiler was not ready when they ran: the first step looks shorter on the GPU than it was.",
        _LOST,
    ),
    Check(
        "repeated correlation ids",
        CheckSeverity.DOUBT,
        repeated_ids,
        "Traces were merged: work is joined to the call of one process that fits in time.",
        ("kernels.op", "kernels.launch_delay_us", "launches.kernel", "launches.delay_us"),
    ),
    Check(
        "External ids not used",
        CheckSeverity.NOTE,
        untrusted_ids,
        "They name no op in torch 1.12 to 2.3; the op is the one around the launch instead.",
    ),
    Check(
        "operators of graphs inferred",
        CheckSeverity.NOTE,
        captured_operators,
        "Their operator, line and module are those of the capture of the graph, found by the order of kernel names.",
    ),
    Check(
        "operators of graphs unknown",
        CheckSeverity.NOTE,
        unknown_operators,
        "Operator, line and shapes are recorded at capture alone: capture_traces/ beside the trace, or --capture FILE.",
    ),
)
"""The checks, in the order in which they are listed."""


# Checks of what the format of a file cannot hold; they are asked of files of such a format alone.


def _is_lost(loss: Loss) -> Callable[[Trace], Doubt | None]:
    """A check of the file as a whole."""
    return lambda trace: Doubt(1) if loss in trace.quality.format_losses else None


def copies_without_direction(trace: Trace) -> Doubt | None:
    """Copies of which nothing says from where to where they went."""
    if Loss.COPY_DIRECTIONS not in trace.quality.format_losses:
        return None
    rows = trace.slices.of_kind(Kind.MEMCPY)
    return doubt_about(trace, rows, len(rows))


def dynamic_shared_memory(trace: Trace) -> Doubt | None:
    """Kernels of which only the dynamic part of their shared memory is known."""
    if Loss.STATIC_SHARED_MEMORY not in trace.quality.format_losses:
        return None
    rows = trace.slices.of_kind(Kind.KERNEL)
    known = trace.work_args.number("shared memory", trace.slices.event[rows]) != NULL
    return Doubt(int(np.count_nonzero(known)), len(rows))


LOSS_CHECKS = (
    Check(
        "copies without direction",
        CheckSeverity.DOUBT,
        copies_without_direction,
        "This file format has neither direction nor kind of memory of a copy: what waits for a copy of pageable memory "
        "counts as another cause.",
        ("gaps.cause", "gaps.shares", "gaps.after_sync"),
    ),
    Check(
        "shared memory without its static part",
        CheckSeverity.DOUBT,
        dynamic_shared_memory,
        "This file format has the dynamic part alone: occupancy may come out too high.",
        (
            "kernels.shared_bytes",
            "kernels.occupancy_pct",
            "kernels.limiter",
            "kernels.waves",
            "kernels.tail_pct",
            "kernels.bound_occupancy_pct",
        ),
    ),
    Check(
        "no header",
        CheckSeverity.NOTE,
        _is_lost(Loss.HEADER),
        "This file format has no rank, no world size, no versions and no options of the profiler.",
    ),
    Check(
        "no arrows to the backward pass",
        CheckSeverity.NOTE,
        _is_lost(Loss.FORWARD_ARROWS),
        "This file format has none: forward and backward operators are joined by their sequence numbers alone.",
    ),
    Check(
        "no occupancy estimates",
        CheckSeverity.NOTE,
        _is_lost(Loss.OCCUPANCY_ESTIMATES),
        "This file format has none of the profiler's estimates, and no External id on GPU activity.",
    ),
    Check(
        "calls left out",
        CheckSeverity.NOTE,
        _is_lost(Loss.FREQUENT_CALLS),
        "The writer leaves out cudaGetDevice, cudaSetDevice, cudaGetLastError, the calls that make and destroy events, "
        "and driver calls that launch nothing.",
    ),
    Check(
        "activities cut at the next one",
        CheckSeverity.NOTE,
        _is_lost(Loss.STREAM_OVERLAPS),
        "The writer cuts an activity where the next one on its stream begins: where they overlapped, as in replayed "
        "graphs, kernels are shorter than they were.",
    ),
    Check(
        "GPU annotations made anew",
        CheckSeverity.NOTE,
        _is_lost(Loss.ANNOTATION_TIMES),
        "The writer derives them from the innermost annotations of calls, 1 ns wider at each end.",
    ),
    Check(
        "no operators",
        CheckSeverity.NOTE,
        _is_lost(Loss.OPERATORS),
        "Nsight Systems records no operators, shapes, modules and Python frames: NVTX ranges are the annotations. "
        "torch.profiler records them; torch.autograd.profiler.emit_nvtx(record_shapes=True) gives it operators.",
    ),
    Check(
        "process of GPU activity",
        CheckSeverity.NOTE,
        _is_lost(Loss.GPU_PROCESSES),
        "process_id and process_name of GPU activity are those of the program that wrote the file.",
    ),
)
"""The checks of losses, in the order in which they are listed; two more are among those of the recording."""
