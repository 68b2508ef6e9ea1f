"""How close every kernel comes to what its device could do: rates, what bounds it, share of the peak (3(i)).

The roofline time of a call is the longer of operations by peak rate and bytes by bandwidth; the share of the peak is
that time by the time it took. Both rest on the least work possible, so that a low share may be work done twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.devices.limits import device_index, peaks_of
from tracetui.analysis.devices.peaks import Peaks
from tracetui.analysis.names import decode
from tracetui.analysis.work.kernel_work import KernelWork, kernel_work
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.table import Column, coded, numbers
from tracetui.model.trace import Float64, Kind, Trace

COMPUTE, MEMORY, CACHE, LATENCY, DOUBTFUL = range(5)
BOUNDS = Strings(["compute", "memory", "L2", "latency", "?"])
"""What holds a kernel back. L2: faster than memory can be, but the cache explains it. Latency: the work would take
under a microsecond and under a tenth of the time. ?: faster than possible, so that something is not as assumed."""

BELIEVABLE = 1.05
"""Shares of a peak above this are not true."""
SHORT_NS = 1000.0
"""A roofline time below this is latency, where the kernel took ten times as long."""


@dataclass(frozen=True, eq=False)
class Roofline:
    """One entry per GPU activity in the order of `KernelWork.rows`; NaN and -1 where it is not known.

    Everything but `gbps` of copies stands at the main kernel of a call.
    """

    tflops: Float64
    gbps: Float64
    roofline_ns: Float64
    """The least time that the work could take on this device."""
    share: Float64
    """`roofline_ns` by the time taken, 0 to 1.05."""
    bound: Int64
    """Id in `BOUNDS`."""
    peak: Float64
    """TFLOP/s that the device can do in the precision of the call."""
    bandwidth: Float64
    """GB/s of the device's memory."""


def roofline(trace: Trace) -> Roofline:
    """The rates of all GPU activities of the trace, made once."""
    return trace.remember("roofline", lambda: _make(trace))


def rate_columns(trace: Trace, rows: Int64) -> dict[str, Column]:
    """Columns by name of the kernels pane: work, rates, bound and share of the peak of GPU activities."""
    work, found = kernel_work(trace), roofline(trace)
    at = work.at(rows)
    where = "A call's work stands at its main kernel, rates take the time of all its kernels."
    columns = (
        numbers("flops", work.flops[at], "", f"Floating-point operations, from the shapes of the operator. {where}"),
        numbers(
            "bytes", work.bytes[at], "bytes", "Least bytes to read and write, from the shapes; of copies as recorded."
        ),
        numbers("tflops", found.tflops[at], "TFLOP/s", f"Rate of floating-point operations. {where}"),
        numbers("gbps", found.gbps[at], "GB/s", "Rate of the bytes, by the same time."),
        coded(
            "bound",
            found.bound[at],
            BOUNDS,
            "compute, memory, L2 (faster than memory: from the cache), latency (too little work), ? (faster than "
            "possible: some assumption is wrong).",
        ),
        numbers(
            "peak_pct", 100 * found.share[at], "%", "Least possible time by time taken: share of the device's peak."
        ),
        numbers("roofline_us", found.roofline_ns[at] / 1000, "us", "Least time that the work could take."),
    )
    return {column.name: column for column in columns}


def bound_share(trace: Trace, rows: Int64) -> tuple[float, float, float]:
    """Time in us of GPU activities that compute bounds, that memory (or its cache) bounds, and that nobody knows.

    The helpers of a call count as its main kernel; latency, copies and what has no known work count as unknown.
    """
    work, found = kernel_work(trace), roofline(trace)
    main = work.main[work.at(rows)]
    bound = np.where(main >= 0, found.bound[main], -1)
    dur = trace.slices.dur[rows] / 1000
    compute = float(dur[bound == COMPUTE].sum())
    memory = float(dur[np.isin(bound, (MEMORY, CACHE))].sum())
    return compute, memory, float(dur.sum()) - compute - memory


def _make(trace: Trace) -> Roofline:
    work = kernel_work(trace)
    span = np.where(work.span > 0, work.span, np.nan).astype(np.float64)
    peak, bandwidth, cache = _peaks(trace, work)
    with np.errstate(invalid="ignore"):
        tflops, gbps = work.flops / span / 1000, work.bytes / span
        compute_ns, memory_ns = work.flops / peak / 1000, work.bytes / bandwidth
        least = np.fmax(compute_ns, memory_ns)
        # Where operations are known but not their peak, nothing can be said.
        least[~np.isnan(work.flops) & np.isnan(peak)] = np.nan
        least[_moves_between_devices(trace, work)] = np.nan
        share = least / span
        bound = _bounds(compute_ns, memory_ns, least, span)
        fast = share > BELIEVABLE
        bound[fast] = DOUBTFUL
        # Inputs may be in the cache before, and results not yet be written back after: at most its size each.
        beyond_cache = (work.bytes - 2 * cache) / bandwidth
        bound[fast & ~(compute_ns > BELIEVABLE * span) & (beyond_cache <= BELIEVABLE * span)] = CACHE
        share[fast] = np.nan
    return Roofline(tflops, gbps, least, share, bound, peak, bandwidth)


def _bounds(compute_ns: Float64, memory_ns: Float64, least: Float64, span: Float64) -> Int64:
    bound = np.where(np.nan_to_num(compute_ns) >= np.nan_to_num(memory_ns), COMPUTE, MEMORY)
    bound[(least < SHORT_NS) & (least < span / 10)] = LATENCY
    bound[np.isnan(least) | np.isnan(span)] = -1
    return bound.astype(np.int64)


def _moves_between_devices(trace: Trace, work: KernelWork) -> Bool:
    """Mask of copies, which a link bounds that a trace does not describe."""
    return np.asarray(trace.slices.kind[work.rows] == Kind.MEMCPY)


def _peaks(trace: Trace, work: KernelWork) -> tuple[Float64, Float64, Float64]:
    """Peak TFLOP/s in the precision of each call, GB/s of memory, and bytes of the last cache."""
    index = device_index(trace, work.rows)
    peak, bandwidth, cache = (np.full(len(work.rows), np.nan) for _ in range(3))
    for number, device in enumerate(trace.devices):
        known = peaks_of(device)
        if known is None:
            continue
        mine = index == number
        bandwidth[mine] = np.nan if known.bandwidth is None else known.bandwidth
        cache[mine] = np.nan if known.cache is None else known.cache * (1 << 20)
        _rates(trace, work, np.flatnonzero(mine & (work.precision >= 0)), known, peak)
    return peak, bandwidth, cache


def _rates(trace: Trace, work: KernelWork, rows: Int64, known: Peaks, peak: Float64) -> None:
    """Fill in the peak rates of main kernels of one device, once for each name and precision."""
    names = trace.slices.name[work.rows[rows]].astype(np.int64)
    pairs = names * (len(work.precisions) + 1) + work.precision[rows]
    used, place = np.unique(pairs, return_inverse=True)
    rates = []
    for pair in used.tolist():
        name, precision = divmod(pair, len(work.precisions) + 1)
        used_units = units_used(trace.names[name], work.precisions[precision])
        rates.append(known.rates.get(used_units, np.nan))
    peak[rows] = np.array(rates, np.float64)[place]


def units_used(kernel: str, precision: str) -> str:
    """The precision whose peak applies: fp32 may run on tensor units as tf32, which only the kernel's name tells."""
    runs_as_tf32 = precision == "fp32" and (decode(kernel).a == "tf32" or "tf32" in kernel.casefold())
    return "tf32" if runs_as_tf32 else precision
