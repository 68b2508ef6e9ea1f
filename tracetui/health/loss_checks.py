"""Checks of what the format of a file cannot hold; they are asked of files of such a format alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.health.checks import Check, CheckSeverity, Doubt
from tracetui.model.losses import Loss
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace


def _is_lost(loss: Loss) -> Callable[[Trace], Doubt | None]:
    """A check of the file as a whole."""
    return lambda trace: Doubt(1) if loss in trace.quality.format_losses else None


def copies_without_direction(trace: Trace) -> Doubt | None:
    """Copies of which nothing says from where to where they went."""
    if Loss.COPY_DIRECTIONS not in trace.quality.format_losses:
        return None
    rows = trace.slices.of_kind(Kind.MEMCPY)
    return Doubt(len(rows), len(rows), trace.name_of(int(rows[0])), int(rows[0])) if len(rows) else Doubt(0)


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
        "process of GPU activity",
        CheckSeverity.NOTE,
        _is_lost(Loss.GPU_PROCESSES),
        "process_id and process_name of GPU activity are those of the program that wrote the file.",
    ),
)
"""The checks of losses, in the order in which they are listed; two more are among those of the recording."""
