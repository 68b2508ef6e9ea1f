"""The roofline pane: calls of the same operator with the same shapes that ran the same main kernel."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.groups import Groups, group
from tracetui.analysis.devices.limits import device_note
from tracetui.analysis.linking.links import links, names_of, no_gpu
from tracetui.analysis.linking.placement import within
from tracetui.analysis.work.kernel_work import KernelWork, kernel_work
from tracetui.analysis.work.roofline import BELIEVABLE, BOUNDS, CACHE, COMPUTE, MEMORY, Roofline, roofline
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.table import Table, coded, micros, numbers
from tracetui.model.trace import Trace

NO_SHAPES = "Operations and bytes come from the shapes of operators: record with record_shapes=True."


def roofline_table(trace: Trace, step: int | None = None, by: str | None = None) -> Table:
    """One row per operator, shapes and main kernel of which the work is known, the longest first."""
    work, found = kernel_work(trace), roofline(trace)
    rows = np.sort(within(trace, links(trace).gpu, step))
    at = work.at(rows)
    known = at[(work.group[at] >= 0) & ~(np.isnan(work.flops[at]) & np.isnan(work.bytes[at]))]
    table = _table(trace, work, found, known)
    return Table(table.columns, table.slices, _note(trace, work, at, known)).take(table.order("total_us", True))


def _table(trace: Trace, work: KernelWork, found: Roofline, at: Int64) -> Table:
    alike = group(work.group[at])
    longest = alike.largest(work.span[at])
    sample, span = at[longest], alike.sum(work.span[at])
    shapes = Strings()
    texts = [shapes.intern(work.known[number].text) for number in work.signature[sample].tolist()]
    flops, moved, least = (alike.sum(values[at]) for values in (work.flops, work.bytes, found.roofline_ns))
    with np.errstate(invalid="ignore", divide="ignore"):
        intensity, tflops, gbps, share = flops / moved, flops / span / 1000, moved / span, 100 * least / span
    bound = _most_time(alike, work.span[at], found.bound[at])
    # Some calls of a group may have come from the cache and others not.
    bound[(bound == MEMORY) & (share > 100 * BELIEVABLE)] = CACHE
    believed = np.isin(bound, (COMPUTE, MEMORY)) | (share <= 100)
    rows = work.rows[sample]
    return Table(
        (
            coded("op", names_of(trace, links(trace).owner[rows]), trace.names, "The operator."),
            coded("input_shapes", np.array(texts, np.int64), shapes, "Sizes of its inputs."),
            coded("kernel", trace.slices.name[rows], trace.names, "The main kernel of the call."),
            numbers("calls", alike.calls, "", "How often it was called."),
            micros("total_us", span, "Time on the GPU of all kernels of these calls."),
            micros("mean_us", span / alike.calls, "Mean time of a call on the GPU."),
            numbers("flops", flops / alike.calls, "", "Floating-point operations of a call."),
            numbers("bytes", moved / alike.calls, "bytes", "Least bytes that a call reads and writes."),
            numbers("intensity", intensity, "FLOP/byte", "Operations by bytes."),
            numbers("tflops", tflops, "TFLOP/s", "Rate of floating-point operations."),
            numbers("gbps", gbps, "GB/s", "Rate of the bytes."),
            coded("bound", bound, BOUNDS, "compute, memory, L2, latency or ?, of the calls that took most time."),
            numbers("peak_pct", np.where(believed, share, np.nan), "%", "Least possible time by time taken."),
            micros("roofline_us", least, "Least time that all these calls could take.", np.isnan(least)),
            micros("above_us", np.maximum(span - least, 0), "Time taken beyond that.", np.isnan(least)),
            numbers("peak_tflops", found.peak[sample], "TFLOP/s", "What the device can do in this precision."),
            numbers("peak_gbps", found.bandwidth[sample], "GB/s", "What its memory can do."),
        ),
        rows,
    )


def _most_time(alike: Groups, span: Int64, bound: Int64) -> Int64:
    """The bound of each group under which its calls spent most time."""
    kinds = len(BOUNDS) + 1
    spent = np.bincount(alike.member * kinds + bound + 1, span, len(alike) * kinds).reshape(len(alike), kinds)
    return np.asarray(spent.argmax(axis=1) - 1, np.int64)


def _note(trace: Trace, work: KernelWork, at: Int64, known: Int64) -> str:
    """How much of the GPU's time the table explains, and what is missing."""
    if len(links(trace).gpu) == 0:
        return no_gpu(trace)
    if len(known) == 0 and not (work.signature >= 0).any():
        return NO_SHAPES
    total, told = float(trace.slices.dur[work.rows[at]].sum()), float(work.span[known].sum())
    said = f"Work is known for {told / 1000:,.1f} of {total / 1000:,.1f} µs of GPU time."
    return " ".join(filter(None, (said, device_note(trace))))
