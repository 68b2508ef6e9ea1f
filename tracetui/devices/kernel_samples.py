"""What the hardware measured while single kernels ran, where samples are dense enough for that (3(m).4).

A counter measures the whole GPU. What it says is put down to a kernel only where the kernel ran alone on the GPU and at
least `MIN_SAMPLES` samples began while it ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.devices.samples import extents, samples
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.model.hardware_counters import Quantity, quantity_of
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64, Kind, Trace

MIN_SAMPLES = 3
"""Minimum samples that begin while a kernel runs, for a value of this kernel."""


@dataclass(frozen=True, eq=False)
class KernelSamples:
    """What one counter says of the kernels of its GPU: parallel arrays, one entry per kernel."""

    rows: Int64
    """The kernels of the GPU, ascending."""
    dense: Bool
    """Mask of the kernels with a value of their own."""
    samples: Int64
    mean: Float64
    """NaN where samples are too few."""
    low: Float64
    high: Float64


def kernel_samples(trace: Trace, number: int) -> KernelSamples:
    """What counter `number` says of the kernels of its GPU; of none where its values are derived or a program's."""
    return trace.remember(("kernel samples", number), lambda: _make(trace, number))


def _make(trace: Trace, number: int) -> KernelSamples:
    each, slices = samples(trace, number), trace.slices
    rows = kernels_of_gpu(trace, each.counter.gpu) if each.is_measured else np.empty(0, np.int64)
    found = extents(each, slices.start[rows], slices.end[rows])
    dense = (found.samples >= MIN_SAMPLES) & alone(trace)[rows]
    mean, low, high = (np.where(dense, values, np.nan) for values in (found.mean, found.low, found.high))
    return KernelSamples(rows, np.asarray(dense), found.samples, mean, low, high)


def kernels_of_gpu(trace: Trace, gpu: int) -> Int64:
    """The kernels that ran on the GPU with a number, ascending."""
    rows = trace.slices.of_kind(Kind.KERNEL)
    on_gpu = lane_numbers(trace).device == gpu
    return np.compress(on_gpu[trace.slices.lane[rows]], rows)


def measured_of_kernels(trace: Trace, quantity: Quantity) -> Float64 | None:
    """The mean of a quantity while each slice ran, NaN for all but kernels with values of their own.

    None where no counter of the trace measures the quantity.
    """

    def make() -> Float64 | None:
        measuring = counters_of(trace, quantity)
        if not measuring:
            return None
        means = np.full(len(trace.slices), np.nan)
        for number in measuring:
            found = kernel_samples(trace, number)
            means[found.rows] = np.where(np.isnan(means[found.rows]), found.mean, means[found.rows])
        return means

    return trace.remember(("measured", quantity), make)


def counters_of(trace: Trace, quantity: Quantity) -> list[int]:
    """Numbers of the counters of GPUs that measure a quantity."""
    return [
        number
        for number, each in enumerate(trace.counters)
        if each.gpu >= 0 and not each.is_derived and quantity_of(each.name) is quantity
    ]


def alone(trace: Trace) -> Bool:
    """Mask of the slices that are GPU activities during which no other one ran on their device."""
    return trace.remember("activities alone", lambda: _alone(trace))


def _alone(trace: Trace) -> Bool:
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
