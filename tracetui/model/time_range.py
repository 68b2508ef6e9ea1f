"""A range of time of a trace, and its one notation: start and length, as in `12.5us+250us` (R3.58).

It stands behind `#@` in the name of a side, behind `--range`, and behind `range=` in a view string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import UsageError
from tracetui.model.intervals import Bool, Int64

UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
"""Units of time, in ns."""
TIME = r"(-?\d+(?:\.\d+)?)(ns|us|µs|ms|s)"
"""Pattern of a number with its unit."""
_RANGE = re.compile(rf"@?{TIME}\+{TIME}")
_MAX_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The moments start <= t < end, in ns from the start of the trace."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How long it is, in ns."""
        return self.end - self.start

    @property
    def text(self) -> str:
        """Start and length in microseconds, which `read_time_range` reads back to the nanosecond."""
        return f"{microseconds(self.start)}us+{microseconds(self.length)}us"

    def touched(self, start: NDArray[np.integer], end: NDArray[np.integer]) -> Bool:
        """Mask of the intervals that run within it for some time; one of length 0 begins in it."""
        return np.asarray(
            (start < self.end) & ((end > self.start) | ((start == end) & (start >= self.start))), np.bool_
        )

    def covered(self, start: NDArray[np.integer], end: NDArray[np.integer]) -> Int64:
        """For how long each interval runs within it, in ns."""
        inside: Int64 = np.maximum(np.minimum(end, self.end) - np.maximum(start, self.start), 0).astype(np.int64)
        return inside


Part = int | TimeRange
"""A part of a trace: the step with a number, or a range of time."""


def read_time_range(text: str) -> TimeRange:
    """The range of `12.5us+250us`, with or without an `@` before it.

    Raises: UsageError when it is no start and length, or has no length.
    """
    match = _RANGE.fullmatch(text.strip())
    start, length = (float(match[1]) * UNITS[match[2]], float(match[3]) * UNITS[match[4]]) if match else (0.0, 0.0)
    if match is None or not round(length) > 0 or abs(start) + length > _MAX_NS:
        raise UsageError(f"{text.strip()!r} is no range of time: write its start and length, as in 12.5us+250us.")
    return TimeRange(round(start), round(start) + round(length))


def microseconds(nanoseconds: float) -> str:
    """Microseconds to the nanosecond, without needless zeros."""
    return f"{nanoseconds / 1000:.3f}".rstrip("0").rstrip(".")
