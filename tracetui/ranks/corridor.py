"""The lines that two clocks' difference may follow between bounds on both sides (R5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

MAX_DRIFT = 200e-6
"""Share by which one clock may run faster than another."""
DRIFT_STEP = 1e-6
"""Share between two drifts that are tried."""
MAX_BUCKETS = 128
"""Maximum stretches of time of each of which the tightest bounds are kept; the others only follow from these."""


@dataclass(frozen=True)
class Corridor:
    """What is possible for the difference of two clocks in the middle of the run, in ns."""

    low: float
    high: float
    drift: float
    """Share by which the second clock gains, 0 where it may be that it gains nothing."""
    end_difference: float | None
    """Median difference of the ends of their collectives; None where none bounds the clocks from both sides."""
    contradiction: float = 0.0
    """Ns by which the bounds exclude every line."""

    @property
    def is_contradicted(self) -> bool:
        """Whether no line is possible, so that the bounds are an estimate."""
        return self.contradiction > 0


def corridor(moment: Float64, low: Float64, high: Float64, ends: Float64, longest: float) -> Corridor:
    """The corridor between lower and upper bounds at some moments, in ns from the middle of the run.

    A side that something does not bound is infinite. `ends` are the differences of the ends of the collectives on both
    sides, of which the longest lasts `longest` ns.
    """
    moment, low, high = _tightest(moment, low, high)
    drifts = np.arange(-round(MAX_DRIFT / DRIFT_STEP), round(MAX_DRIFT / DRIFT_STEP) + 1) * DRIFT_STEP
    least = (low - drifts[:, None] * moment).max(axis=1)
    most = (high - drifts[:, None] * moment).min(axis=1)
    possible = least <= most
    middle = float(np.median(ends)) if len(ends) else None
    if not possible.any():
        nearest = int((least - most).argmin())
        apart = float(least[nearest] - most[nearest])
        point = float(least[nearest] + most[nearest]) / 2 if middle is None else middle
        error = apart / 2 + (float(np.median(np.abs(ends - point))) if len(ends) else 0.0)
        return Corridor(point - error, point + error, 0.0, middle, apart)
    steady = len(drifts) // 2
    drift = 0.0 if possible[steady] else float(drifts[np.argmax(np.where(possible, most - least, -np.inf))])
    # Drifts between two that were tried, and what a clock gains during one collective.
    slack = DRIFT_STEP / 2 * float(np.abs(moment).max()) + MAX_DRIFT * longest
    return Corridor(float(least[possible].min()) - slack, float(most[possible].max()) + slack, drift, middle)


def _tightest(moment: Float64, low: Float64, high: Float64) -> tuple[Float64, Float64, Float64]:
    """The tightest bound of each side in each of a few stretches of time, as moments with both bounds."""
    if len(moment) <= 2 * MAX_BUCKETS:
        return moment, low, high
    first, last = float(moment.min()), float(moment.max())
    bucket = np.minimum((moment - first) / max(last - first, 1.0) * MAX_BUCKETS, MAX_BUCKETS - 1).astype(np.int64)
    kept = np.unique(
        np.concatenate([_first_of(bucket, np.lexsort((-low, bucket))), _first_of(bucket, np.lexsort((high, bucket)))])
    )
    return moment[kept], low[kept], high[kept]


def _first_of(bucket: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    kept: NDArray[np.int64] = order[np.diff(bucket[order], prepend=-1) != 0]
    return kept
