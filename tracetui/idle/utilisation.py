"""Model FLOPs utilisation (MFU): the time that known operations need at the peak, as a share of a time (R3.94).

Every call counts with the dense peak of the precision in which it ran, so that a step in several precisions has one
MFU. Operations that are not known count as none: the share of the GPU time with known ones stands beside it.
"""

from __future__ import annotations

from math import isnan

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.descriptions import kernel_devices
from tracetui.devices.kernel_work import MAX_PEAK_RATIO, kernel_work
from tracetui.devices.roofline import roofline
from tracetui.frozen import frozen
from tracetui.idle.scope_times import recorded_extent, step_periods
from tracetui.linking.links import links, no_gpu
from tracetui.linking.placement import activities_by_step, chosen
from tracetui.linking.step_kinds import averaged_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64, Part, TimeRange
from tracetui.model.quantities import percent, rounded_percent
from tracetui.model.results import kept
from tracetui.model.trace import WITH_NVTX, Float64, Trace

MIN_KNOWN_PERCENT = 90.0
"""Minimum percent of the GPU time with known operations for which an MFU is more than a lower bound."""


MIN_BOUND_PERCENT = 50.0
"""Minimum percent of it for which a lower bound says something of the whole."""


@frozen
class Utilisation:
    """One entry per part; NaN where the trace does not hold it."""

    mfu_pct: Float64
    known_pct: Float64
    """Share of the GPU time of which the operations and their peak are known, in percent."""
    inferred: Bool
    """Mask of the parts with operations that are those of captured calls: a guess."""


@kept
def peak_times(trace: Trace) -> Float64:
    """Time in ns that the operations of each GPU activity need at the peak, in the order of `KernelWork.rows`.

    NaN where operations or peak are not known, or the call took less time than possible; and off main kernels.
    """
    work = kernel_work(trace)
    if trace.peak_tflops is not None:
        return np.asarray(work.flops / trace.peak_tflops / 1000)
    least = work.flops / roofline(trace).peak / 1000
    return np.where(least > MAX_PEAK_RATIO * work.span, np.nan, least)


def utilisation(
    trace: Trace, rows: Int64, part: Int64, ran: Int64, time: Int64, model_flops: float | None = None
) -> Utilisation:
    """The MFU of parts that take `time` each, of whose GPU activities `rows` each ran for `ran`, in ns.

    `model_flops` are the operations of each part in place of the known ones.
    """
    work, needed, count = kernel_work(trace), peak_times(trace), len(time)
    at = work.at(rows)
    main = work.main[at]
    known = (main >= 0) & ~np.isnan(needed[main])
    own = np.flatnonzero(~np.isnan(needed[at]))
    at_own, part_own = at[own], part[own]
    # A range of time may have a part of an activity.
    inside = ran[own] / trace.slices.dur[rows[own]]
    least: NDArray[np.generic] = np.bincount(part_own, needed[at_own] * inside, count)
    if model_flops is not None:
        # The peak of the precisions in which the known operations ran.
        done = np.bincount(part_own, work.flops[at_own] * inside, count)
        rate = _ratio(done, least) if trace.peak_tflops is None else np.full(count, 1000 * trace.peak_tflops)
        least = _ratio(np.full(count, model_flops), rate)
    share = _ratio(100 * least, time * max(len(kernel_devices(trace)), 1))
    return Utilisation(
        np.where(share > 0, share, np.nan),
        _ratio(100 * np.bincount(part[known], ran[known], count), np.bincount(part, ran, count)),
        np.bincount(part_own[work.captured[at_own]], minlength=count) > 0,
    )


def _ratio(values: NDArray[np.generic], by: NDArray[np.generic]) -> Float64:
    above, below = values.astype(np.float64), by.astype(np.float64)
    result: Float64 = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return result


@kept
def step_utilisation(trace: Trace) -> Utilisation:
    """The MFU of each of `steps(trace)` over its period."""
    rows, bounds = activities_by_step(trace)
    rows = rows[bounds[0] : bounds[-1]]
    part = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    low, high = step_periods(trace)
    # Without GPU activity a period is empty, or CPU time.
    time = np.where(np.diff(bounds) > 0, high - low, 0)
    return utilisation(trace, rows, part, trace.slices.dur[rows], time, trace.step_flops)


def scope_utilisation(trace: Trace, part: Part | None) -> tuple[float, float]:
    """MFU and share of the GPU time with known operations, in percent: of a step, a range, or the trace without steps;
    of all steps the medians over the complete ones. NaN where they are not known.
    """
    if isinstance(part, TimeRange) or len(steps(trace)) == 0:
        extent = part or TimeRange(*recorded_extent(trace))
        assert isinstance(extent, TimeRange)
        rows, slices = links(trace).gpu, trace.slices
        rows = rows[extent.touched(slices.start[rows], slices.end[rows])]
        ran = extent.covered(slices.start[rows], slices.end[rows])
        used = utilisation(trace, rows, np.zeros_like(rows), ran, np.array([extent.length]))
        return float(used.mfu_pct[0]), float(used.known_pct[0])
    used = step_utilisation(trace)
    picked = chosen(trace, part) if part is not None else np.flatnonzero(averaged_steps(trace))
    known = [each[picked][~np.isnan(each[picked])] for each in (used.mfu_pct, used.known_pct)]
    mfu, share = (float(np.median(each)) if len(each) else np.nan for each in known)
    return mfu, share


def is_bound(trace: Trace, known_pct: float) -> bool:
    """True where an MFU is a lower bound: the operations of much of the GPU time are not known, nor given."""
    return trace.step_flops is None and not known_pct >= MIN_KNOWN_PERCENT


def mfu_sentence(trace: Trace, mfu: float, known_pct: float, of: str) -> str:
    """The MFU of what `of` names in a sentence; empty where it is not known."""
    if isnan(mfu):
        return ""
    behind = ""
    if trace.step_flops is not None:
        behind = ", by the FLOPs of --flops"
    elif is_bound(trace, known_pct):
        behind = f", a lower bound: FLOPs are known of {rounded_percent(known_pct)} of the GPU time"
    return f"MFU of {of} is {percent(mfu)}{behind}."


def no_mfu(trace: Trace) -> str:
    """The reason why no MFU is known, as sentences; empty where some operations and their peak are."""
    if len(links(trace).gpu) == 0:
        return no_gpu(trace)
    work = kernel_work(trace)
    if trace.step_flops is not None and trace.peak_tflops is None and np.isnan(peak_times(trace)).all():
        return "The precision and so the peak of the FLOPs given by --flops is not known: --peak names it in TFLOP/s."
    if np.isnan(work.flops).all() and trace.step_flops is None:
        if not (work.signature >= 0).any():
            way = trace.to_record("record_shapes=True records them", WITH_NVTX)
            return f"FLOPs come from shapes of operators: {way}; else give --flops and --peak."
        return "No operator with known FLOPs put work on the GPU: --flops gives those of a step."
    if np.isnan(peak_times(trace)).all() and trace.peak_tflops is None:
        return "The peak of this GPU in the precision of its kernels is unknown: --peak names it, or --device the GPU."
    return ""
