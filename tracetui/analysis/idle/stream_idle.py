"""Idle time of each stream by itself, told apart as Holistic Trace Analysis does (R3.33), to compare with its figures.

A stream that waits while another one works counts here and is no gap of the device.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.groups import distinct
from tracetui.analysis.common.lanes import lane_numbers
from tracetui.analysis.idle.idleness import SHORTEST
from tracetui.analysis.linking.links import links, no_gpu
from tracetui.analysis.linking.placement import within
from tracetui.model.intervals import Int64
from tracetui.model.table import Table, micros, numbers
from tracetui.model.trace import Trace


def stream_idle(trace: Trace, step: int | None = None) -> Table:
    """One row per stream: time between its first and last work in which it ran nothing, by what it waited for."""
    rows = np.sort(within(trace, links(trace).gpu, step))
    lanes = distinct(trace.slices.lane[rows])
    bounds = np.searchsorted(trace.slices.lane[rows], np.append(lanes, lanes.max(initial=0) + 1))
    spans = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    figures = np.array([_waits(trace, rows[first:last]) for first, last in spans], np.int64).reshape(-1, 3)
    lane, idle = lane_numbers(trace), figures.sum(axis=1)
    return Table(
        (
            numbers("device", lane.device[lanes], "", "Number of the device."),
            numbers("stream", lane.stream[lanes], "", "Number of the stream."),
            numbers("activities", np.diff(bounds), "", "Kernels, copies and fills."),
            micros("idle_us", idle, "Time between them in which the stream ran nothing."),
            micros("host_wait_us", figures[:, 0], "Of it: before work that was launched after the stream ran dry."),
            micros("kernel_wait_us", figures[:, 1], f"Of it: gaps of less than {SHORTEST} ns between launched work."),
            micros("other_us", figures[:, 2], "Of it: all else, waiting for other streams and unknown launches."),
        ),
        np.array([rows[first] for first, _ in spans], np.int64),
        no_gpu(trace),
    )


def _waits(trace: Trace, rows: Int64) -> tuple[int, int, int]:
    """Sums in ns of the gaps of one stream: for the host, for the change of kernels, for anything else."""
    slices = trace.slices
    launch = links(trace).launch[rows[1:]]
    dry = np.maximum.accumulate(slices.end[rows])[:-1]
    gap = np.maximum(slices.start[rows[1:]] - dry, 0)
    host = (launch >= 0) & (slices.start[launch] > dry)
    change = ~host & (gap < SHORTEST)
    return int(gap[host].sum()), int(gap[change].sum()), int(gap[~host & ~change].sum())
