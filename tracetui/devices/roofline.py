"""Rates of kernels, what bounds them, and their share of the device's peak (3(i)); the roofline pane.

The roofline time of a call is the longer of operations by peak rate and bytes by bandwidth; the share of the peak is
that time divided by the time taken. Both rest on the minimum work, so that a low share may be redundant work. A row of
the pane holds the calls of one operator with the same shapes and the same main kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tracetui.devices.counters import measured_of_kernels
from tracetui.devices.descriptions import device_note
from tracetui.devices.kernel_work import MAX_PEAK_RATIO, KernelWork, kernel_work, peak_rates
from tracetui.frozen import frozen
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import Groups, group
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import within
from tracetui.linking.trees import is_named
from tracetui.model import columns as col
from tracetui.model.hardware_counters import Quantity
from tracetui.model.intervals import Bool, Int64, Part
from tracetui.model.pane import Pane
from tracetui.model.quantities import counted, duration
from tracetui.model.results import kept
from tracetui.model.table import Column, Strings, Table, coded, micros, numbers
from tracetui.model.trace import WITH_NVTX, Float64, Kind, Trace

CAPTURED = "That of replayed kernels (~) is of the operators that captured them into their graph."


def roofline_table(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per operator, shapes and main kernel with known work, the longest first."""
    work, rooflines = kernel_work(trace), roofline(trace)
    rows = np.sort(within(trace, links(trace).gpu, step))
    at = work.at(rows)
    known = at[(work.group[at] >= 0) & ~(np.isnan(work.flops[at]) & np.isnan(work.bytes[at]))]
    table = _table(trace, work, rooflines, known)
    return Table(table.columns, table.slices, _coverage_note(trace, work, at, known)).take(
        table.order("total_us", True)
    )


PANE = Pane(
    "roofline",
    "Roofline",
    key="R",
    help="One row is an operator with its shapes and main kernel.",
    table=roofline_table,
    columns=(
        "op input_shapes kernel total_us peak_pct bound calls tflops gbps sm_active_pct dram_pct "
        "dram_model_pct intensity above_us mean_us"
    ),
    bars="total_us",
    is_of_names=True,
)


def _table(trace: Trace, work: KernelWork, rooflines: Roofline, at: Int64) -> Table:
    alike = group(work.group[at])
    longest = alike.largest(work.span[at])
    sample, span = at[longest], alike.sum(work.span[at])
    shapes = Strings()
    texts = [shapes.intern(work.known[number].text) for number in work.signature[sample].tolist()]
    flops, moved, least = (alike.sum(values[at]) for values in (work.flops, work.bytes, rooflines.roofline_ns))
    # What lasted less than a clock tick has no rate.
    time = np.where(span > 0, span, np.nan)
    with np.errstate(invalid="ignore"):
        intensity = flops / np.where(moved > 0, moved, np.nan)
        tflops, gbps, share = flops / time / 1000, moved / time, 100 * least / time
    bound = _most_time(alike, work.span[at], rooflines.bound[at])
    # Some calls of a group may have come from the cache and others not.
    bound[(bound == MEMORY) & (share > 100 * MAX_PEAK_RATIO)] = CACHE
    believed = np.isin(bound, (COMPUTE, MEMORY)) | (share <= 100)
    rows = work.rows[sample]
    captured = work.captured[sample] if work.captured[sample].any() else None
    return Table(
        (
            coded(col.OP.but(help="The operator."), work.op[sample], work.ops, doubtful=captured),
            coded(col.INPUT_SHAPES.but(help="Sizes of its inputs."), np.array(texts, np.int64), shapes),
            coded(col.KERNEL.but(help="The main kernel of the call."), trace.slices.name[rows], trace.names),
            numbers(col.CALLS, alike.calls),
            micros(col.TOTAL_US.but(help="Time on the GPU of all kernels of these calls."), span),
            micros(col.MEAN_US.but(help="Mean time of a call on the GPU."), span / alike.calls),
            _inferred(numbers(col.FLOPS, flops / alike.calls), captured),
            _inferred(
                numbers(col.BYTES.but(help="Least bytes that a call reads and writes."), moved / alike.calls), captured
            ),
            numbers(col.INTENSITY, intensity),
            numbers(col.TFLOPS, tflops),
            numbers(col.GBPS.but(help="Rate of the bytes."), gbps),
            coded(
                col.BOUND.but(help="compute, memory, L2, latency or ?, of the calls that took most time."),
                bound,
                BOUNDS,
            ),
            numbers(col.PEAK_PCT.but(help="Least possible time by time taken."), np.where(believed, share, np.nan)),
            micros(
                col.ROOFLINE_US.but(help="Least time that all these calls could take."), least, null=np.isnan(least)
            ),
            micros(col.ABOVE_US, np.maximum(span - least, 0), null=np.isnan(least)),
            numbers(col.PEAK_TFLOPS, rooflines.peak[sample]),
            numbers(col.PEAK_GBPS, rooflines.bandwidth[sample]),
            *_measured(
                trace,
                work,
                at,
                alike,
                {
                    Quantity.SM_ACTIVE: tflops / rooflines.peak[sample],
                    Quantity.DRAM: gbps / rooflines.bandwidth[sample],
                },
            ),
        ),
        rows,
    )


_MEASURED = {
    Quantity.SM_ACTIVE: (col.SM_ACTIVE_PCT, col.COMPUTE_MODEL_PCT),
    Quantity.DRAM: (col.DRAM_PCT, col.DRAM_MODEL_PCT),
}


def _measured(
    trace: Trace, work: KernelWork, at: Int64, alike: Groups, modelled: dict[Quantity, Float64]
) -> Iterable[Column]:
    """Values of the GPU's counters for the main kernels of each group, beside what their work needs (3(m).5).

    Empty without such counters.
    """
    for quantity, (measured, model) in _MEASURED.items():
        activity = measured_of_kernels(trace, quantity)
        if activity is None:
            continue
        value = activity[work.rows[at]]
        weight = np.where(np.isnan(value), 0, trace.slices.dur[work.rows[at]])
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = alike.sum(np.nan_to_num(value) * weight) / alike.sum(weight)
        yield numbers(measured, mean)
        yield numbers(model, np.where(np.isnan(mean), np.nan, 100 * modelled[quantity]))


def _inferred(column: Column, captured: Bool | None) -> Column:
    return column if captured is None else replace(column, doubtful=captured)


def _most_time(alike: Groups, span: Int64, bound: Int64) -> Int64:
    """The bound of each group under which its calls took most time."""
    kinds = len(BOUNDS) + 1
    spent = np.bincount(alike.member * kinds + bound + 1, span, len(alike) * kinds).reshape(len(alike), kinds)
    return np.asarray(spent.argmax(axis=1) - 1, np.int64)


def _coverage_note(trace: Trace, work: KernelWork, at: Int64, known: Int64) -> str:
    """The share of the GPU time that the table covers, and what is missing."""
    if len(links(trace).gpu) == 0:
        return no_gpu(trace)
    if len(known) == 0 and not (work.signature >= 0).any():
        way = trace.to_record("record with record_shapes=True", WITH_NVTX)
        return f"Operations and bytes come from the shapes of operators: {way}."
    total, known_time = float(trace.slices.dur[work.rows[at]].sum()), float(work.span[known].sum())
    covered = f"Work is known for {duration(known_time)} of {duration(total)} of GPU time."
    inferred = CAPTURED if work.captured[known].any() else ""
    partial = at[work.is_partial[at]]
    windowed = (
        f"{counted(len(partial), 'call')} of attention ({duration(float(work.span[partial].sum()))}) took less time "
        "than the whole context needs, as with a sliding window: the work is not known."
        if len(partial)
        else ""
    )
    return " ".join(filter(None, (covered, windowed, inferred, device_note(trace))))


COMPUTE, MEMORY, CACHE, LATENCY, DOUBTFUL = range(5)
BOUNDS = Strings(["compute", "memory", "L2", "latency", "?"])
"""The limit of a kernel. L2: faster than memory allows, which the cache explains. Latency: the roofline time is under a
microsecond and under a tenth of the time taken. ?: faster than possible, so that an assumption is wrong.
"""

MIN_ROOFLINE_NS = 1000.0
"""Roofline time in ns below which a kernel that took ten times as long is bound by latency."""


@frozen
class Roofline:
    """One entry per GPU activity in the order of `KernelWork.rows`; NaN and -1 where unknown.

    Everything but `gbps` of copies is at the main kernel of a call.
    """

    tflops: Float64
    gbps: Float64
    roofline_ns: Float64
    """Minimum time of the work on this device."""
    share: Float64
    """`roofline_ns` divided by the time taken, 0 to 1.05."""
    bound: Int64
    """Id in `BOUNDS`."""
    peak: Float64
    """Peak TFLOP/s of the device in the precision of the call."""
    bandwidth: Float64
    """Peak GB/s of the device's memory."""


@kept(on_disk=True)
def roofline(trace: Trace) -> Roofline:
    """The rates of all GPU activities of the trace, computed once."""
    work = kernel_work(trace)
    span = np.where(work.span > 0, work.span, np.nan).astype(np.float64)
    peak, bandwidth, cache = peak_rates(trace, work)
    with np.errstate(invalid="ignore"):
        tflops, gbps = work.flops / span / 1000, work.bytes / span
        compute_ns, memory_ns = work.flops / peak / 1000, work.bytes / bandwidth
        least = np.fmax(compute_ns, memory_ns)
        # Where operations are known but not their peak, nothing can be said.
        least[~np.isnan(work.flops) & np.isnan(peak)] = np.nan
        # Copies are bound by a link that a trace does not describe.
        least[trace.slices.kind[work.rows] == Kind.MEMCPY] = np.nan
        # GEMMs and attention whose operations are not known may take as long as these, whatever their bytes.
        least[
            np.isnan(work.flops)
            & is_named(trace, work.rows, lambda name: decode(name).family in (Family.GEMM, Family.ATTENTION))
        ] = np.nan
        share = least / span
        bound = np.where(np.nan_to_num(compute_ns) >= np.nan_to_num(memory_ns), COMPUTE, MEMORY)
        bound[(least < MIN_ROOFLINE_NS) & (least < span / 10)] = LATENCY
        bound[np.isnan(least) | np.isnan(span)] = -1
        bound = bound.astype(np.int64)
        fast = share > MAX_PEAK_RATIO
        bound[fast] = DOUBTFUL
        # Inputs may be in the cache before, and results not yet be written back after: at most its size each.
        beyond_cache = (work.bytes - 2 * cache) / bandwidth
        bound[fast & ~(compute_ns > MAX_PEAK_RATIO * span) & (beyond_cache <= MAX_PEAK_RATIO * span)] = CACHE
        share[fast] = np.nan
    return Roofline(tflops, gbps, least, share, bound, peak, bandwidth)


def rate_columns(trace: Trace, rows: Int64) -> dict[str, Column]:
    """Columns by name of the kernels pane: work, rates, bound and share of the peak of GPU activities."""
    work, rooflines = kernel_work(trace), roofline(trace)
    at = work.at(rows)
    where = "A call's work stands at its main kernel, rates take the time of all its kernels."
    captured = work.captured[at] if work.captured[at].any() else None
    columns = (
        numbers(
            col.FLOPS.but(help=f"Floating-point operations, from the shapes of the operator. {where}"), work.flops[at]
        ),
        numbers(
            col.BYTES.but(help="Least bytes to read and write, from the shapes; of copies as recorded."), work.bytes[at]
        ),
        numbers(col.TFLOPS.but(help=f"Rate of floating-point operations. {where}"), rooflines.tflops[at]),
        numbers(col.GBPS.but(help="Rate of the bytes, by the same time."), rooflines.gbps[at]),
        coded(col.BOUND, rooflines.bound[at], BOUNDS),
        numbers(col.PEAK_PCT, 100 * rooflines.share[at]),
        numbers(col.ROOFLINE_US, rooflines.roofline_ns[at] / 1000),
    )
    return {column.name: _inferred(column, captured) for column in columns}


def bound_share(trace: Trace, rows: Int64) -> tuple[float, float, float]:
    """Time in us of GPU activities bound by compute, by memory (or its cache), and by neither or unknown.

    Helpers of a call count as its main kernel; latency, copies and activities without known work count as unknown.
    """
    work, rooflines = kernel_work(trace), roofline(trace)
    main = work.main[work.at(rows)]
    bound = np.where(main >= 0, rooflines.bound[main], -1)
    dur = trace.slices.dur[rows] / 1000
    compute = float(dur[bound == COMPUTE].sum())
    memory = float(dur[np.isin(bound, (MEMORY, CACHE))].sum())
    return compute, memory, float(dur.sum()) - compute - memory
