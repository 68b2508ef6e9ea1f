"""Exact runs of a sequence: stretches in which every element is the same as the one a period before it (R3.80).

Only periods in which some name occurs once are known, which is what a layer of a model has. Names count within their
run alone, so that it does not matter where else they occur: two encoders of a model run many of the same kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracetui.model.intervals import Int64

MAX_PERIODS = 16
"""Maximum periods that are tried per sequence."""
MIN_PERIOD_RATIO = 1.25
"""Minimum ratio of the periods of two runs that repeat different things."""
MAX_COMMON_SHARE = 0.75
"""Maximum share of common names in all names of two runs that repeat different things."""


@dataclass(frozen=True)
class ExactRun:
    """A stretch in which each element is the same as the one a period before it."""

    low: int
    """Index of its first element."""
    high: int
    """Index behind its last element."""
    period: int
    """Elements of a period."""

    def is_unlike(self, other: ExactRun, sequence: Int64) -> bool:
        """Whether two runs of a sequence repeat different things, rather than one with small differences."""
        if max(self.period, other.period) >= MIN_PERIOD_RATIO * min(self.period, other.period):
            return True
        mine, others = (set(sequence[run.low : run.low + run.period].tolist()) for run in (self, other))
        return len(mine & others) <= MAX_COMMON_SHARE * len(mine | others)


def exact_runs(sequence: Int64, least: int) -> list[ExactRun]:
    """The longest stretches that repeat with one period, at least so many times, by their start."""
    found: dict[tuple[int, int], ExactRun] = {}
    for period in sorted(_periods(sequence)):
        other = np.flatnonzero(sequence[period:] != sequence[:-period])
        breaks = np.concatenate([[-1], other, [len(sequence) - period]])
        long = np.flatnonzero(np.diff(breaks) > (least - 1) * period)
        for low, high in zip((breaks[long] + 1).tolist(), (breaks[long + 1] + period).tolist(), strict=True):
            found.setdefault((low, high), ExactRun(low, high, period))
    return [found[each] for each in sorted(found)]


def apart(runs: list[ExactRun]) -> list[tuple[ExactRun, ExactRun]]:
    """Neighbours among the longest runs that do not overlap, with elements between them."""
    kept: list[ExactRun] = []
    for run in sorted(runs, key=lambda each: each.low - each.high):
        if all(run.high <= each.low or each.high <= run.low for each in kept):
            kept.append(run)
    kept.sort(key=lambda each: each.low)
    return [(first, second) for first, second in pairwise(kept) if first.high < second.low]


def _periods(sequence: Int64) -> list[int]:
    """Distances at which a name occurs three times in a row, those that mark most elements first."""
    order = np.argsort(sequence, kind="stable")
    ranked, distance = sequence[order], np.diff(order)
    steady = (ranked[2:] == ranked[:-2]) & (distance[1:] == distance[:-1])
    often = np.bincount(distance[:-1][steady])
    periods = np.flatnonzero(often)
    first = np.argsort(-periods * often[periods], kind="stable")[:MAX_PERIODS]
    return [int(period) for period in periods[first]]
