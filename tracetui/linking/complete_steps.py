"""The steps that averages are made of: recorded in full, and serving something (R3.6, R3.77)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import step_kinds, unserving_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool
from tracetui.model.kept import kept
from tracetui.model.trace import Trace

MIN_COMPLETE_SHARE = 0.75
"""Minimum contents of a complete step, relative to the median of the others."""


def averaged_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that averages are made of: neither partial, nor idle or dummy calls of a server."""
    return ~(partial_steps(trace) | unserving_steps(trace))


@kept(on_disk=True)
def partial_steps(trace: Trace) -> Bool:
    """Mask of `steps(trace)` that the profiler truncated: the first or last of a thread with far less in it (R3.6).

    A guess by count: fewer than three quarters of the median of the thread's other steps in GPU activities, or in ops
    where nothing ran on a GPU. With fewer than three steps nothing is known. Steps of a server are compared with those
    of their kind.
    """
    all_steps = steps(trace)
    rows = links(trace).gpu if len(links(trace).launched) else op_rows(trace)
    index = step_index(trace, rows)
    contents = np.bincount(index[index >= 0], minlength=len(all_steps))
    kinds = np.array(step_kinds(trace).kind if all_steps.is_served else [None] * len(all_steps), object)
    serving = ~unserving_steps(trace)
    partial = np.zeros(len(all_steps), bool)
    for lane in distinct(all_steps.lane).tolist():
        mine = np.flatnonzero((all_steps.lane == lane) & serving)
        for end in (0, -1) if len(mine) > 2 else ():
            others = np.delete(mine, end)
            others = others[kinds[others] == kinds[mine[end]]]
            if len(others) > 1:
                partial[mine[end]] = contents[mine[end]] < MIN_COMPLETE_SHARE * np.median(contents[others])
    return partial


# The time of a step without the profiler, as the recorder measured it beside the trace, and the profiler's overhead.
#
# It is in the metadata of a recording (`tracetui`, `unprofiled`), which is not trusted: a value that is no positive
# number, or lies outside of its own interval, counts as missing.


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
    """Id that recordings share which were timed in turns; empty for one that was timed alone."""

    @property
    def profiler_adds_pct(self) -> float | None:
        """Time that the profiler adds to a step, in percent of the time without it."""
        return None if self.profiled_us is None else 100 * (self.profiled_us / self.median_us - 1)


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """Ratio of the step times of two recordings, without the profiler."""

    median: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """True where the intervals do not overlap."""
        return self.low > 1 or self.high < 1


def unprofiled_time(trace: Trace) -> UnprofiledTime | None:
    """The time that the recorder measured; None where it measured none."""
    about = trace.metadata.get("tracetui")
    return time_of_metadata(about) if isinstance(about, Mapping) else None


def time_of_metadata(about: Mapping[str, Any]) -> UnprofiledTime | None:
    """The time in the metadata of a recording; None where there is none."""
    time = about.get("unprofiled")
    if not isinstance(time, Mapping):
        return None
    median, low, high = (_positive(time.get(name)) for name in ("median_us", "low_us", "high_us"))
    if median is None:
        return None
    if low is None or high is None or not low <= median <= high:
        low = high = None
    session = time.get("session")
    return UnprofiledTime(
        median, low, high, _positive(time.get("profiled_us")), session if isinstance(session, str) else ""
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
