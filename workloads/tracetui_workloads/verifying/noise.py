"""The noise of a machine, and what may be said beside it: where a thing differs from itself, no two do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracetui_workloads.recording.profiling import timing_of

MIN_NOISE = 0.02
"""Share below which no difference is believed."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Microseconds of each function by block, and what disturbed the machine meanwhile."""

    times: Sequence[Sequence[float]]
    off_core: float
    """Share of the time in which this thread did not run; 0 on a GPU."""
    clock: float
    """Width of the middle half of the times of the fixed work, as a share of its median."""
    load: str
    """A sentence on other programs; empty where there are few."""


def noise_of(samples: Samples) -> float:
    """The share by which the first function differs from the second, which is the same, as its interval has it."""
    _, low, high = ratio_of(samples.times[1], samples.times[0])
    return max(high - 1, 1 - low, MIN_NOISE)


def ratio_of(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The median of the ratios of two functions by block, and its interval."""
    timing = timing_of([mine / max(other, 1e-9) for mine, other in zip(times, base, strict=True)], 1, "")
    low, high = timing.low_us, timing.high_us
    return timing.median_us, timing.median_us if low is None else low, timing.median_us if high is None else high


def refusal(samples: Samples, limit: float) -> str:
    """The reason why no time may be believed, as a sentence; empty where the machine is quiet."""
    reasons = (
        (noise_of(samples), limit, "the operator differs from itself by {:.0f} %"),
        (samples.off_core, 2 * limit, "it was off its core for {:.0f} % of the time"),
        (samples.clock, 2 * limit, "the clock changed by {:.0f} %"),
    )
    words = [text.format(100 * share) for share, most, text in reasons if share > most]
    return f"This machine is too noisy: {', '.join(words)}. {samples.load}".rstrip() if words else ""


def verdict(low: float, high: float, noise: float) -> str:
    """The word for an interval of ratios, given the share by which a thing differs from itself."""
    return "faster" if high < 1 - noise else "slower" if low > 1 + noise else "cannot tell"
