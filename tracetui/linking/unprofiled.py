"""The time of a step without the profiler, as the recorder measured it beside the trace, and what the profiler adds.

It stands in the metadata of a recording (`tracetui`, `unprofiled`). Text of a trace is not trusted: what is no positive
number, or lies outside of its own interval, counts as not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from tracetui.model.trace import Trace


@dataclass(frozen=True, slots=True)
class UnprofiledTime:
    """The time of a step in microseconds."""

    median_us: float
    low_us: float | None
    """Lower end of the 95 % interval of the median; None where there were too few samples."""
    high_us: float | None
    profiled_us: float | None
    """The same step in the trace; None on a GPU, where the steps on the CPU end before their work does."""
    session: str
    """What recordings share that were timed in turns; empty for one that was timed alone."""

    @property
    def profiler_adds_pct(self) -> float | None:
        """How much longer a step takes under the profiler, in percent of the time without."""
        return None if self.profiled_us is None else 100 * (self.profiled_us / self.median_us - 1)


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """How many times as long the steps of one recording take as those of another, without the profiler."""

    median: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """Whether the intervals do not overlap."""
        return self.low > 1 or self.high < 1


def unprofiled_time(trace: Trace) -> UnprofiledTime | None:
    """The time that the recorder measured; None where it measured none."""
    about = trace.metadata.get("tracetui")
    return time_of_metadata(about) if isinstance(about, Mapping) else None


def time_of_metadata(about: Mapping[str, Any]) -> UnprofiledTime | None:
    """The time in what a recording says of itself; None where there is none."""
    found = about.get("unprofiled")
    if not isinstance(found, Mapping):
        return None
    median, low, high = (_positive(found.get(name)) for name in ("median_us", "low_us", "high_us"))
    if median is None:
        return None
    if low is None or high is None or not low <= median <= high:
        low = high = None
    session = found.get("session")
    return UnprofiledTime(
        median, low, high, _positive(found.get("profiled_us")), session if isinstance(session, str) else ""
    )


def time_ratio(a: UnprofiledTime, b: UnprofiledTime) -> TimeRatio | None:
    """B's time by A's; None where one of them has no interval."""
    if a.low_us is None or a.high_us is None or b.low_us is None or b.high_us is None:
        return None
    return TimeRatio(b.median_us / a.median_us, b.low_us / a.high_us, b.high_us / a.low_us)


def _positive(value: Any) -> float | None:
    """A positive finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        return None
    return float(value)
