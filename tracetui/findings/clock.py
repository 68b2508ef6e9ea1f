"""Rule about kernels that take longer because the GPU ran at a lower clock (3(m))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.configuration import configuration
from tracetui.devices.kernel_samples import alone, counters_of
from tracetui.devices.samples import extents, samples
from tracetui.findings.finding import Finding
from tracetui.findings.scope import Scope
from tracetui.findings.uneven import depends_on_data
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import Groups, combinations, group
from tracetui.linking.lanes import is_named, lane_numbers
from tracetui.model.hardware_counters import Quantity, with_unit
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.trace import Float64, Trace

MAX_CLOCK_SHARE = 0.95
"""Maximum clock of a slow call, as a share of the usual high clock of its GPU."""
MIN_HIGH_SHARE = 0.98
"""Minimum clock of a call at the high clock, likewise."""
HIGH_PERCENTILE = 90
"""Percentile of the clocks of all calls on a GPU that counts as its high clock."""
MIN_CALLS = 5
"""Minimum equal calls at each of the two clocks."""
MAX_SPREAD = 0.1
"""Maximum distance of the quartiles of equal calls at one clock, relative to their median."""
IN_STEP = (0.5, 1.5)
"""Slow-down of the calls at the low clock, relative to that of the clock: at least and at most."""


@dataclass(frozen=True, eq=False)
class SlowCalls:
    """Calls at a low clock of kernels that take longer in step with the clock: parallel arrays."""

    row: Int64
    clock: Float64
    """SM clock in MHz while the call ran."""
    high_clock: Float64
    """Median clock of the equal calls at the high clock."""
    excess: Float64
    """Time in ns beyond the median of these."""
    usual: Float64
    """That median in ns."""


def lower_clock(scope: Scope) -> Iterator[Finding]:
    """Calls of the same kernel are slower while the SM clock is lower, by about as much as the clock."""
    trace = scope.trace
    slow = _slow_calls(scope)
    if len(slow.row) == 0:
        return
    dur = trace.slices.dur[slow.row]
    worst = int(np.argmax(slow.excess))
    price = int(scope.gpu_cost(slow.row) * float(slow.excess.sum()) / max(float(dur.sum()), 1.0))
    names = len(np.unique(trace.slices.name[slow.row]))
    low, high = float(np.median(slow.clock)), float(np.median(slow.high_clock))
    beside = _conditions(trace, slow.row)
    yield from scope.priced(
        "lower-clock",
        price,
        "Kernels take longer while the GPU runs at a lower clock",
        f"{counted(len(slow.row), 'call')} of {counted(names, 'kernel')} at {low:,.0f} MHz instead of {high:,.0f} MHz "
        f"({rounded_percent(100 * low / high)}), {duration(float(slow.excess.sum()))} more than at the high clock: "
        f"{short_kernel(trace.name_of(int(slow.row[worst])))}, {duration(int(dur[worst]))} instead of "
        f"{duration(float(slow.usual[worst]))}{beside}",
        "The work is the same and the clock is not: nvidia-smi -q -d PERFORMANCE names the reason (power limit, "
        "temperature). Compare times only at one clock (nvidia-smi --lock-gpu-clocks).",
        int(slow.row[worst]),
        action="find out why the clock drops",
    )


def _slow_calls(scope: Scope) -> SlowCalls:
    trace = scope.trace
    rows = scope.computing
    rows = rows[~is_named(trace, rows, depends_on_data) & alone(trace)[rows]]
    rows, clock = _clocked(trace, rows)
    nothing = SlowCalls(rows[:0], clock[:0], clock[:0], clock[:0], clock[:0])
    if len(rows) == 0:
        return nothing
    device = lane_numbers(trace).device[trace.slices.lane[rows]]
    reference = _high_clocks(device, clock)
    is_high, is_low = clock >= MIN_HIGH_SHARE * reference, clock <= MAX_CLOCK_SHARE * reference
    setup = configuration(trace, rows)
    same = group(combinations(device, trace.slices.name[rows], setup.grid, setup.block).member)
    parts = [
        part
        for number in np.flatnonzero(same.calls >= 2 * MIN_CALLS).tolist()
        if (part := _compared(trace, rows, clock, same, number, is_high, is_low)) is not None
    ]
    if not parts:
        return nothing
    return SlowCalls(*(np.concatenate([getattr(part, name) for part in parts]) for name in SlowCalls.__annotations__))


def _compared(
    trace: Trace, rows: Int64, clock: Float64, same: Groups, number: int, is_high: np.ndarray, is_low: np.ndarray
) -> SlowCalls | None:
    """The calls at the low clock of one kernel, where they are slower in step with it; None where they are not."""
    mine = same.member == number
    high, low = np.flatnonzero(mine & is_high), np.flatnonzero(mine & is_low)
    if min(len(high), len(low)) < MIN_CALLS:
        return None
    fast, slow = (trace.slices.dur[rows[each]].astype(np.float64) for each in (high, low))
    if max(_spread(fast), _spread(slow)) > MAX_SPREAD:
        return None
    usual, high_clock = float(np.median(fast)), float(np.median(clock[high]))
    slowed, lowered = float(np.median(slow)) / max(usual, 1.0) - 1, high_clock / float(np.median(clock[low])) - 1
    if not IN_STEP[0] * lowered <= slowed <= IN_STEP[1] * lowered:
        return None
    filled = np.full(len(low), 1.0)
    return SlowCalls(rows[low], clock[low], high_clock * filled, np.maximum(slow - usual, 0), usual * filled)


def _spread(dur: Float64) -> float:
    """Distance of the quartiles, relative to the median."""
    low, middle, high = np.percentile(dur, (25, 50, 75))
    return float((high - low) / max(middle, 1.0))


def _clocked(trace: Trace, rows: Int64) -> tuple[Int64, Float64]:
    """The kernels during which the clock of their GPU is known, and the clock in MHz."""
    device = lane_numbers(trace).device[trace.slices.lane[rows]]
    clock = _during(trace, rows, device, Quantity.SM_CLOCK)
    known = ~np.isnan(clock) & (clock > 0)
    return rows[known], clock[known]


def _during(trace: Trace, rows: Int64, device: Int64, quantity: Quantity) -> Float64:
    """The mean of a quantity of the GPU of each slice while it ran, NaN where it is not known."""
    means = np.full(len(rows), np.nan)
    for number in counters_of(trace, quantity):
        each = samples(trace, number)
        mine = np.flatnonzero((device == each.counter.gpu) & np.isnan(means))
        means[mine] = extents(each, trace.slices.start[rows[mine]], trace.slices.end[rows[mine]]).mean
    return means


def _high_clocks(device: Int64, clock: Float64) -> Float64:
    """The high clock of the GPU of each call."""
    high = np.empty(len(clock))
    for number in np.unique(device).tolist():
        high[device == number] = np.percentile(clock[device == number], HIGH_PERCENTILE)
    return high


def _conditions(trace: Trace, rows: Int64) -> str:
    """Power and temperature during some slices, where they were recorded."""
    device = lane_numbers(trace).device[trace.slices.lane[rows]]
    said = []
    for quantity, unit in ((Quantity.POWER, "W"), (Quantity.TEMPERATURE, "°C")):
        values = _during(trace, rows, device, quantity)
        if not np.isnan(values).all():
            said.append(with_unit(float(np.nanmean(values)), unit))
    return f"; {' and '.join(said)} meanwhile" if said else ""
