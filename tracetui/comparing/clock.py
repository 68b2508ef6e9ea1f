"""The tick of a trace's clock: what two times differ by at least where they differ.

Older profilers write whole microseconds, the timers of some GPUs count in 32 ns.
"""

from __future__ import annotations

import math

import numpy as np

from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64, Trace

MAX_TICK_NS = 1000
"""Maximum tick in ns: a larger common divisor is the work of chance in a short trace."""


def gpu_tick(trace: Trace) -> int:
    """The tick in ns of the times of GPU activities."""
    return trace.remember("tick of the GPU", lambda: _tick(trace.slices.dur[links(trace).gpu]))


def cpu_tick(trace: Trace) -> int:
    """The tick in ns of all other times."""

    def make() -> int:
        others = np.ones(len(trace.slices), bool)
        others[links(trace).gpu] = False
        return _tick(trace.slices.dur[others])

    return trace.remember("tick of the CPU", make)


def _tick(durations: Int64) -> int:
    """The largest tick up to the maximum of which all durations are multiples."""
    common = int(np.gcd.reduce(durations)) if len(durations) else 0
    return math.gcd(common, MAX_TICK_NS) if common > MAX_TICK_NS else max(common, 1)


def within_tick(difference: Float64, calls: Float64, tick: int) -> np.ndarray:
    """Whether sums of durations (ns) over so many calls differ by no more than the clock's tick lets them.

    A duration is off by up to a tick, and the errors of several calls cancel each other in part.
    """
    within: np.ndarray = np.abs(difference) <= tick * np.sqrt(np.maximum(calls, 1)) * (1 + 1e-9)
    return within
