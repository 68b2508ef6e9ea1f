"""The samples of counters: for how long each holds, and means and extremes over time ranges (3(m)).

A value of a program's counter holds until the next one. A sample of the hardware holds no longer than
`MAX_HELD_SPACINGS` times the usual distance between samples: behind a hole nobody knows.
"""

from __future__ import annotations

from functools import cached_property
from math import frexp, ldexp

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.links import links
from tracetui.linking.trees import lane_numbers
from tracetui.model.hardware_counters import Quantity, quantity_of
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import MAX_TIME_NS
from tracetui.model.results import kept
from tracetui.model.trace import Counter, Float64, Kind, Trace

MAX_HELD_SPACINGS = 10
"""Maximum time that a sample of the hardware holds, in median distances between samples."""


@frozen
class Samples:
    """The samples of one counter: parallel arrays in order of time, finite values only."""

    counter: Counter
    time: Int64
    """Start of each sample in ns."""
    duration: Int64
    """Ns for which each value holds."""
    value: Float64
    spacing: float
    """Median distance between samples in ns, NaN for fewer than two."""

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def scale(self) -> float:
        """A power of two near the largest value: sums of values by it pass no number and lose no digit."""
        _, exponent = frexp(float(np.abs(self.value).max(initial=0.0)))
        return ldexp(1.0, max(exponent - 1, -1000))

    @cached_property
    def scaled(self) -> Float64:
        """The values by that scale, between -2 and 2."""
        return self.value / self.scale

    @property
    def is_measured(self) -> bool:
        """True where the values are measurements of a GPU."""
        return self.counter.gpu >= 0 and not self.counter.is_derived


@frozen
class Extents:
    """Values of a counter in time ranges: parallel arrays, one entry per range, NaN where no value holds in it."""

    samples: Int64
    """Samples that start in the range."""
    mean: Float64
    """Mean of the values, each weighted by the time it holds in the range."""
    low: Float64
    high: Float64


@kept
def counter_samples(trace: Trace, number: int) -> Samples:
    """The samples of counter `number` of the trace."""
    return _samples(trace, trace.counters[number])


def whole(each: Samples) -> tuple[float, float, float]:
    """Mean, minimum and maximum of all values; NaN without any.

    Values of a derived counter have no duration of their own and count alike.
    """
    if len(each) == 0:
        return (float("nan"),) * 3
    weight = (
        np.ones(len(each)) if each.counter.is_derived or not each.duration.any() else each.duration.astype(np.float64)
    )
    low, high = each.value.min(), each.value.max()
    mean = _unscaled(each, np.asarray(np.average(each.scaled, weights=weight)), low, high)
    return float(mean), float(low), float(high)


def extents(each: Samples, start: Int64, end: Int64) -> Extents:
    """Values of a counter in the ranges [start, end) in ns, which may overlap."""
    first, last = np.searchsorted(each.time, start), np.searchsorted(each.time, end)
    nothing = np.full(len(start), np.nan)
    if len(each) == 0:
        return Extents(last - first, nothing, nothing.copy(), nothing.copy())
    if each.counter.is_derived:
        return _of_starts(each, first, last)
    weight, weighted = _integral(each, end) - _integral(each, start)
    has_values = weight > 0
    mean = np.divide(weighted, weight, out=nothing.copy(), where=has_values)
    # The sample that began before the range holds in it unless another one begins with the range.
    before = np.maximum(first - 1, 0)
    reaches = (first > 0) & (each.time[before] + each.duration[before] > start)
    low, high = _peaks(each.value, np.where(reaches, before, first), last)
    low, high = np.where(has_values, low, np.nan), np.where(has_values, high, np.nan)
    return Extents(last - first, _unscaled(each, mean, low, high), low, high)


def _of_starts(each: Samples, first: Int64, last: Int64) -> Extents:
    """Extents of values without a duration: those whose moment lies in the ranges."""
    sums = np.concatenate([np.zeros(1), np.cumsum(each.scaled)])
    count = last - first
    mean = np.divide(sums[last] - sums[first], count, out=np.full(len(first), np.nan), where=count > 0)
    low, high = _peaks(each.value, first, last)
    return Extents(count, _unscaled(each, mean, low, high), low, high)


def _unscaled(each: Samples, mean: Float64, low: Float64 | np.float64, high: Float64 | np.float64) -> Float64:
    """Means of scaled values as values; rounding puts none outside of what was averaged."""
    return np.asarray(np.clip(mean, low / each.scale, high / each.scale) * each.scale)


def _integral(each: Samples, moment: Int64) -> Float64:
    """Time in ns for which values last until each moment, and the sum of scaled values by time; shape (2, moments)."""
    duration = each.duration.astype(np.float64)
    sums = np.zeros((2, len(each) + 1))
    sums[0, 1:], sums[1, 1:] = np.cumsum(duration), np.cumsum(duration * each.scaled)
    index = np.searchsorted(each.time, moment, side="right") - 1
    inside = np.maximum(index, 0)
    part = np.where(index >= 0, np.clip(moment - each.time[inside], 0, each.duration[inside]), 0).astype(np.float64)
    return np.asarray(sums[:, inside] * (index >= 0) + np.stack([part, part * each.scaled[inside]]))


def _peaks(value: Float64, first: Int64, last: Int64) -> tuple[Float64, Float64]:
    """Minimum and maximum of each range of samples, NaN for empty ones."""
    some = last > first
    bounds = np.stack([first, np.maximum(last, first + 1)], axis=1).ravel()
    low = np.minimum.reduceat(np.append(value, [np.inf, np.inf]), bounds)[::2]
    high = np.maximum.reduceat(np.append(value, [-np.inf, -np.inf]), bounds)[::2]
    return np.where(some, low, np.nan), np.where(some, high, np.nan)


def _samples(trace: Trace, counter: Counter) -> Samples:
    usable = np.isfinite(counter.value)
    time, value = counter.time[usable], counter.value[usable]
    order = np.argsort(time, kind="stable")
    time, value = time[order], value[order]
    distance = np.diff(time)
    known = distance[distance > 0]
    spacing = float(np.median(known)) if len(known) else float("nan")
    if counter.gpu < 0:
        duration = np.append(distance, max(trace.window[1] - int(time[-1]), 0)) if len(time) else distance
    elif len(known):
        # The last sample is taken to hold as long as most others.
        duration = np.minimum(np.append(distance, round(spacing)), min(round(MAX_HELD_SPACINGS * spacing), MAX_TIME_NS))
    else:
        duration = np.zeros(len(time), np.int64)
    return Samples(counter, time, duration.astype(np.int64), value, spacing)


# What the hardware measured while single kernels ran, where samples are dense enough for that (3(m).4).
#
# A counter measures the whole GPU. What it says is put down to a kernel only where the kernel ran alone on the GPU and
# at least `MIN_SAMPLES` samples began while it ran.

MIN_SAMPLES = 3
"""Minimum samples that begin while a kernel runs, for a value of this kernel."""


@frozen
class KernelSamples:
    """Values of one counter for the kernels of its GPU: parallel arrays, one entry per kernel."""

    rows: Int64
    """The kernels of the GPU, ascending."""
    dense: Bool
    """Mask of the kernels with a value of their own."""
    samples: Int64
    mean: Float64
    """NaN where samples are too few."""
    low: Float64
    high: Float64


@kept
def kernel_samples(trace: Trace, number: int) -> KernelSamples:
    """Values of counter `number` for the kernels of its GPU; for none where its values are derived or a program's."""
    each, slices = counter_samples(trace, number), trace.slices
    # The kernels that ran on the GPU with a number, ascending.
    if each.is_measured:
        rows = trace.slices.of_kind(Kind.KERNEL)
        on_gpu = lane_numbers(trace).device == each.counter.gpu
        rows = np.compress(on_gpu[trace.slices.lane[rows]], rows)
    else:
        rows = np.empty(0, np.int64)
    ranges = extents(each, slices.start[rows], slices.end[rows])
    dense = (ranges.samples >= MIN_SAMPLES) & runs_alone(trace)[rows]
    mean, low, high = (np.where(dense, values, np.nan) for values in (ranges.mean, ranges.low, ranges.high))
    return KernelSamples(rows, np.asarray(dense), ranges.samples, mean, low, high)


@kept
def measured_of_kernels(trace: Trace, quantity: Quantity) -> Float64 | None:
    """The mean of a quantity while each slice ran, NaN for all but kernels with values of their own.

    None where no counter of the trace measures the quantity.
    """
    measuring = counters_of(trace, quantity)
    if not measuring:
        return None
    means = np.full(len(trace.slices), np.nan)
    for number in measuring:
        of_counter = kernel_samples(trace, number)
        means[of_counter.rows] = np.where(np.isnan(means[of_counter.rows]), of_counter.mean, means[of_counter.rows])
    return means


def counters_of(trace: Trace, quantity: Quantity) -> list[int]:
    """Numbers of the counters of GPUs that measure a quantity."""
    return [
        number
        for number, each in enumerate(trace.counters)
        if each.gpu >= 0 and not each.is_derived and quantity_of(each.name) is quantity
    ]


@kept
def runs_alone(trace: Trace) -> Bool:
    """Mask of the slices that are GPU activities during which no other one ran on their device."""
    slices, gpu = trace.slices, links(trace).gpu
    result = np.zeros(len(slices), bool)
    process = lane_numbers(trace).process[slices.lane[gpu]]
    for number in np.unique(process).tolist():
        rows = gpu[process == number]
        rows = rows[np.argsort(slices.start[rows], kind="stable")]
        start, end = slices.start[rows], slices.end[rows]
        # Ends of all earlier activities, and starts of all later ones.
        reach = np.concatenate([np.full(1, np.iinfo(np.int64).min), np.maximum.accumulate(end)[:-1]])
        following = np.append(start[1:], np.iinfo(np.int64).max)
        result[rows] = (reach <= start) & (end <= following)
    return result
