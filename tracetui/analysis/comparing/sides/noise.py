"""Whether two sets of numbers differ by more than they scatter (R3.53).

Each side is told by its median. Its scatter is the distance between the quartiles of its parts; of fewer than four
parts, between the least and the largest. A difference is believed when it exceeds the larger of the two scatters.
Times that differ by less than `LEAST` are the same, unless they scatter so much that this is an accident.

Of one part nothing is known about its scatter. It is held against all parts of the other side, from the least to the
largest: half of them lie beyond the quartiles themselves. Of one part on each side a difference is told as it is.

Medians and scatters of many rows at once: what `noise` says of two samples, for every name of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64

_MAX_CELLS = 1 << 21
"""Numbers held at a time: names by parts may be more than memory has room for."""


@dataclass(frozen=True, eq=False)
class Spread:
    """One entry per name."""

    median: Float64
    """Over the parts; a part without the name counts as 0."""
    scatter: Float64
    """As `Sample.scatter`; NaN of fewer than two parts."""
    reach: Float64
    """From the least to the largest; NaN of fewer than two parts."""
    parts: int


def spread(key: Int64, part: Int64, values: NDArray[np.generic] | None, keys: int, parts: int) -> Spread:
    """Sums of values in each part, or counts, by key; and how these lie over the parts."""
    order = np.argsort(key, kind="stable")
    key, part = key[order], part[order]
    weights = None if values is None else np.asarray(values, np.float64)[order]
    median, scatter, reach = np.zeros(keys), np.full(keys, np.nan), np.full(keys, np.nan)
    step = max(_MAX_CELLS // max(parts, 1), 1)
    for low, high in pairwise([*range(0, keys, step), keys]):
        first, last = np.searchsorted(key, [low, high]).tolist()
        cell = (key[first:last] - low) * parts + part[first:last]
        held = None if weights is None else weights[first:last]
        sums = np.bincount(cell, held, (high - low) * parts).astype(np.float64).reshape(high - low, parts)
        median[low:high] = np.median(sums, axis=1)
        if parts > 1:
            ends = np.percentile(sums, (25, 75) if parts >= MIN_QUARTILE_PARTS else (0, 100), axis=1)
            scatter[low:high] = ends[1] - ends[0]
            reach[low:high] = np.ptp(sums, axis=1)
    return Spread(median, scatter, reach, parts)


def noises(a: Spread, b: Spread) -> Float64:
    """The larger scatter of the two, as `Difference.noise` has it; NaN where neither has two parts."""
    is_whole = 1 in (a.parts, b.parts)
    larger: Float64 = np.fmax(*((each.reach if is_whole else each.scatter) for each in (a, b)))
    return larger


def spread_changes(a: Spread, b: Spread, exact: bool = False) -> Int64:
    """What can be said of each name, as places in `noise.CHANGES`."""
    return changes(a.median, b.median, noises(a, b), exact)


MIN_QUARTILE_PARTS = 4
"""With fewer parts quartiles say nothing."""
MIN_TIME_CHANGE = 0.01
"""Of a time: what the clocks of a machine change by from one minute to the next."""
MAX_STEADY_SCATTER = 0.05
"""Scatter, as a share of the median, up to which equal medians mean something."""


class Change(Enum):
    """What can be said of a number on the right-hand side, beside that on the left."""

    SAME = "same"
    LESS = "less"
    MORE = "more"
    WITHIN_NOISE = "cannot tell"
    """They differ, and by less than they scatter."""
    UNKNOWN = "unknown"
    """One side does not hold it."""


CHANGES = tuple(Change)
"""What the codes of `changes` stand for."""


def changes(a: ArrayLike, b: ArrayLike, noise: ArrayLike, exact: bool = False) -> Int64:
    """What can be said of medians beside each other, as places in `CHANGES`, in the shape of the three.

    A median of NaN is one that a side does not hold, a noise of NaN one that is not known.
    """
    a, b, noise = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(noise, np.float64)
    amount, smaller = np.abs(b - a), np.minimum(np.abs(a), np.abs(b))
    least = np.zeros_like(smaller) if exact else MIN_TIME_CHANGE * smaller
    restless = noise > MAX_STEADY_SCATTER * smaller
    rules = {
        Change.UNKNOWN: np.isnan(amount),
        Change.SAME: (amount <= least) & ~restless,
        Change.WITHIN_NOISE: amount <= np.maximum(noise, least),
        Change.LESS: b < a,
    }
    return np.select(list(rules.values()), list(map(CHANGES.index, rules)), CHANGES.index(Change.MORE))


@dataclass(frozen=True)
class Sample:
    """The numbers of the parts of a side, without those that the trace does not hold."""

    values: Float64
    is_whole: bool = False
    """Whether all of them count for the scatter, and not the middle half: what is beside them is a single number."""

    @property
    def median(self) -> float:
        """The middle value; NaN for no part."""
        return float(np.median(self.values)) if len(self.values) else float("nan")

    @property
    def scatter(self) -> float:
        """How far the parts lie apart, in the unit of the values; NaN for fewer than two."""
        if len(self.values) < 2:
            return float("nan")
        low, high = (25, 75) if len(self.values) >= MIN_QUARTILE_PARTS and not self.is_whole else (0, 100)
        return float(np.percentile(self.values, high) - np.percentile(self.values, low))


@dataclass(frozen=True)
class Difference:
    """Two samples beside each other."""

    a: Sample
    b: Sample
    exact: bool = False
    """Whether the numbers are counts, of which every difference is one."""

    @property
    def amount(self) -> float:
        """Median of B less median of A."""
        return self.b.median - self.a.median

    @property
    def ratio(self) -> float:
        """Median of B by median of A; NaN where A is 0."""
        return self.b.median / self.a.median if self.a.median else float("nan")

    @property
    def noise(self) -> float:
        """The larger scatter of the two; NaN where neither has two parts."""
        known = [each.scatter for each in (self.a, self.b) if len(each.values) > 1]
        return max(known) if known else float("nan")

    @cached_property
    def change(self) -> Change:
        """What can be said of it."""
        return CHANGES[int(changes(self.a.median, self.b.median, self.noise, self.exact))]


def difference(a: Float64, b: Float64, exact: bool = False) -> Difference:
    """The numbers of two sides beside each other; NaN is what a part does not hold."""
    known = a[~np.isnan(a)], b[~np.isnan(b)]
    is_whole = 1 in map(len, known)
    return Difference(Sample(known[0], is_whole), Sample(known[1], is_whole), exact)
