"""Copies and fills by kind: direction, bytes, rate, and advice about slow ones.

The name tells whether host memory was pinned (CUDA); ROCm often omits that and the size.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.linking.groups import group
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import time_within, within
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.losses import Loss
from tracetui.model.table import NULL, Table, coded, micros, numbers, texts
from tracetui.model.time_range import Part
from tracetui.model.trace import Kind, Trace

NO_COPIES = "Nothing was copied or filled on the GPU."
PAGEABLE = re.compile(r"\bpageable\b", re.IGNORECASE)
"""Pattern of copies from or to pageable host memory."""
TO_HOST = re.compile(r"DtoH|DeviceToHost", re.IGNORECASE)
"""Pattern of copies from the GPU to the CPU."""
DIRECTED = re.compile(r"[HDAPU]to[HDAPU]|(Host|Device|Peer)\w*To\w*(Host|Device|Peer)|Memset|Fill", re.IGNORECASE)
"""Pattern of copies whose name says from which memory to which they go, and of fills, which go to none."""
_ADVICE = (
    (
        re.compile(r"(HtoD|HostToDevice).*pageable", re.IGNORECASE),
        "Staged through a pinned buffer while the CPU waits: pin_memory() or DataLoader(pin_memory=True), "
        "then to(device, non_blocking=True).",
    ),
    (
        re.compile(r"(DtoH|DeviceToHost).*pageable", re.IGNORECASE),
        "The CPU waits for the GPU (.item(), .cpu(), print): do it less often, or copy to pinned memory with "
        "non_blocking=True and synchronise once.",
    ),
)
"""Hints by the name of a copy; the first match counts."""


def copy_rows(trace: Trace, step: Part | None = None) -> Int64:
    """Rows of the copies and fills of the trace or of a step, by start."""
    rows = links(trace).gpu
    return within(trace, rows[np.isin(trace.slices.kind[rows], (Kind.MEMCPY, Kind.MEMSET))], step)


def lacks_directions(trace: Trace) -> bool:
    """Whether there are copies of which nothing says from which memory to which they went."""
    return Loss.COPY_DIRECTIONS in trace.quality.format_losses and bool((trace.slices.kind == Kind.MEMCPY).any())


def bytes_of(trace: Trace, rows: Int64) -> Int64:
    """Bytes of each copy or fill, NULL where unknown."""
    return trace.work_args.number("bytes", trace.slices.event[rows])


def copies(trace: Trace, step: Part | None = None) -> Table:
    """One row per kind of copy, the longest in sum first."""
    rows = copy_rows(trace, step)
    size, dur = bytes_of(trace, rows), trace.slices.dur[rows]
    kinds = group(trace.slices.name[rows])
    known = size != NULL
    amount = kinds.sum(np.where(known, size, 0))
    has_bytes = kinds.sum(known) > 0
    timed = known & (dur > 0)
    spent = kinds.sum(np.where(timed, dur, 0))
    rated = spent > 0
    total, longest = kinds.sum(time_within(trace, rows, step)), kinds.largest(dur)
    names = [trace.names[number] for number in kinds.key.tolist()]
    table = Table(
        (
            coded(col.COPY, kinds.key, trace.names),
            numbers(col.CALLS.but(help="How often."), kinds.calls),
            numbers(col.BYTES, np.where(has_bytes, amount, np.nan)),
            micros(col.TOTAL_US.but(help="Sum of the durations."), total),
            numbers(col.GBPS, np.where(rated, kinds.sum(np.where(timed, size, 0)) / np.maximum(spent, 1), np.nan)),
            numbers(col.MEDIAN_GBPS, _median_rate(kinds.member, size, dur, timed, len(kinds))),
            numbers(col.MEDIAN_BYTES, _median(kinds.member, size, known, len(kinds))),
            micros(col.MEDIAN_US, kinds.median(dur)),
            micros(col.MAX_US, dur[longest]),
            numbers(col.UNSIZED, kinds.sum(~known).astype(np.int64)),
            texts(col.HINT, [_advice(name) for name in names]),
        ),
        rows[longest],
        "" if len(rows) else no_gpu(trace) or NO_COPIES,
    )
    return table.take(table.order("total_us", descending=True))


def _advice(name: str) -> str | None:
    return next((words for pattern, words in _ADVICE if pattern.search(name)), None)


def _median_rate(member: Int64, size: Int64, dur: Int64, timed: np.ndarray, count: int) -> np.ndarray:
    """Median of bytes per ns, which is GB/s, in each group, NaN for none."""
    return _median(member, np.where(timed, size, 0) / np.maximum(dur, 1), timed, count)


def _median(member: Int64, values: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """Median of the known values in each group, NaN for none."""
    result = np.full(count, np.nan)
    some = group(member[known])
    result[some.key] = some.median(values[known])
    return result
