"""The rule about kernels that are slower while the clock is lower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import kernel
from tests.support.findings import ids, one
from tests.support.gpu_programs import START, Work, queued
from tracetui.model.hardware_counters import hardware_counter
from tracetui.model.trace import Counter, Trace

GEMM = "ampere_sgemm_128x64_nn"
FAST, SLOW = Work(GEMM, 100_000), Work(GEMM, 125_000)
EVERY = 10_000
"""Distance between samples in ns."""
HIGH, LOW = 1755.0, 1404.0


def clocked(work: Sequence[Work], clocks: Sequence[float], name: str = "SM Clock (MHz)", gpu: int = 0) -> Trace:
    """Kernels one after another, and the clock while each ran."""
    ends = START + np.cumsum([each.dur for each in work])
    time = np.arange(0, int(ends[-1]), EVERY)
    value = np.array(clocks, np.float64)[np.minimum(np.searchsorted(ends, time, side="right"), len(work) - 1)]
    counter = hardware_counter(gpu, name, f"GPU {gpu} Counters", time, value, np.zeros(len(time), np.int32))
    return replace(queued(work), counters=(counter,))


def throttled(slow: Work = SLOW, low: float = LOW, calls: int = 8, name: str = "SM Clock (MHz)", gpu: int = 0) -> Trace:
    """Twenty calls at the high clock, then some at a low one."""
    return clocked([*[FAST] * 20, *[slow] * calls], [*[HIGH] * 20, *[low] * calls], name, gpu)


def test_calls_that_are_slower_as_the_clock_is_lower() -> None:
    finding = one(throttled(), "lower-clock")
    assert finding.cost == pytest.approx(8 * 25_000, rel=0.02)
    assert finding.evidence.startswith("8 calls of 1 kernel at 1,404 MHz instead of 1,755 MHz (80 %), 200.0 µs more")
    assert "125.0 µs instead of 100.0 µs" in finding.evidence


def test_power_and_temperature_are_named_where_they_are_known() -> None:
    trace = throttled()

    def beside(name: str, value: float) -> Counter:
        (clock,) = trace.counters
        return hardware_counter(0, name, clock.pid, clock.time, np.full(len(clock.time), value), clock.event)

    both = replace(trace, counters=(*trace.counters, beside("Power (W)", 690), beside("Temperature (C)", 83)))
    assert one(both, "lower-clock").evidence.endswith("; 690 W and 83 °C meanwhile")
    assert "meanwhile" not in one(throttled(), "lower-clock").evidence


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(throttled(low=HIGH), id="slower at the same clock"),
        pytest.param(throttled(slow=FAST), id="as fast at a lower clock: bound by memory"),
        pytest.param(throttled(slow=replace(SLOW, dur=200_000)), id="slower by far more than the clock"),
        pytest.param(throttled(low=0.97 * HIGH, slow=replace(FAST, dur=103_000)), id="a clock that is hardly lower"),
        pytest.param(throttled(calls=4), id="too few calls"),
        pytest.param(throttled(name="Memory Clock (MHz)"), id="another clock"),
        pytest.param(throttled(gpu=1), id="the clock of another GPU"),
        pytest.param(throttled(slow=replace(SLOW, name="ampere_sgemm_64x64_nn")), id="another kernel"),
        pytest.param(replace(throttled(), counters=()), id="no counter"),
    ],
)
@pytest.mark.full
def test_nothing_is_said_of(trace: Trace) -> None:
    assert "lower-clock" not in ids(trace)


def test_calls_that_differ_at_one_clock_are_not_compared() -> None:
    spread = [replace(FAST, dur=dur) for dur in (80_000, 120_000) * 10]
    slow = [replace(FAST, dur=round(1.25 * each.dur)) for each in spread[:8]]
    assert "lower-clock" not in ids(clocked([*spread, *slow], [*[HIGH] * 20, *[LOW] * 8]))


def test_calls_beside_others_are_not_compared() -> None:
    trace, work = throttled(), [*[FAST] * 20, *[SLOW] * 8]
    beside = [kernel("other", START + 100_000 * 20 + 125_000 * i, 50_000, "stream 9") for i in range(8)]
    assert "lower-clock" not in ids(replace(queued(work, more=beside), counters=trace.counters))


def test_sorts_are_not_compared() -> None:
    sort = "void at::native::radixSortKVInPlace<2, -1, 128, 32, float, long, unsigned int>(T)"
    work = [replace(each, name=sort) for each in [*[FAST] * 20, *[SLOW] * 8]]
    assert "lower-clock" not in ids(clocked(work, [*[HIGH] * 20, *[LOW] * 8]))
