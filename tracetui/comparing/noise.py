"""Whether two samples differ by more than noise (R3.53).

A side is represented by its median. Its noise is the distance between the quartiles of its parts; with fewer than four
parts the range. A difference counts when it exceeds the larger noise of the two. Times that differ by less than
`MIN_TIME_CHANGE` are the same, unless they scatter so much that this is chance.

A single part has no noise of its own; it is compared with the range of all parts of the other side, since half of these
lie outside the quartiles. With one part on each side a difference is reported as it is.

`Spread` holds medians and noise of many rows at once, by the same rules.
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
"""Maximum values held at a time: names by parts may exceed the memory."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Medians and noise, one entry per name."""

    median: Float64
    """Median over the parts; a part without the name counts as 0."""
    scatter: Float64
    """As `Sample.scatter`; NaN for fewer than two parts."""
    reach: Float64
    """Range; NaN for fewer than two parts."""
    parts: int


def spread(key: Int64, part: Int64, values: NDArray[np.generic] | None, keys: int, parts: int) -> Spread:
    """Sums of values, or counts, by key and part, as medians and noise over the parts."""
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
    """The larger noise of the two, as in `Difference.noise`; NaN where neither has two parts."""
    is_whole = 1 in (a.parts, b.parts)
    larger: Float64 = np.fmax(*((each.reach if is_whole else each.scatter) for each in (a, b)))
    return larger


def spread_changes(a: Spread, b: Spread, exact: bool = False) -> Int64:
    """How each name changed, as indices in `CHANGES`."""
    return changes(a.median, b.median, noises(a, b), exact)


MIN_QUARTILE_PARTS = 4
"""Minimum parts for quartiles."""
MIN_TIME_CHANGE = 0.01
"""Minimum relative change of a time: clocks of a machine vary by this much."""
MAX_STEADY_SCATTER = 0.05
"""Maximum noise relative to the median, for equal medians to count as the same."""


class Change(Enum):
    """How the value of B differs from that of A."""

    SAME = "same"
    LESS = "less"
    MORE = "more"
    WITHIN_NOISE = "cannot tell"
    """The values differ by less than the noise."""
    UNKNOWN = "unknown"
    """One side does not have the value."""


BEYOND_NOISE = (Change.LESS, Change.MORE)
"""Changes that are more than noise."""
CHANGES = tuple(Change)
"""The changes by the codes of `changes`."""


def changes(a: ArrayLike, b: ArrayLike, noise: ArrayLike, exact: bool = False) -> Int64:
    """How medians differ, as indices in `CHANGES`, in the shape of the arguments.

    A median of NaN is a missing value, a noise of NaN is unknown.
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
    """The values of the parts of a side, without missing ones."""

    values: Float64
    is_whole: bool = False
    """Whether the range counts as noise, and not the quartiles: the other side is a single value."""

    @property
    def median(self) -> float:
        """Median; NaN without parts."""
        return float(np.median(self.values)) if len(self.values) else float("nan")

    @property
    def scatter(self) -> float:
        """Noise in the unit of the values; NaN for fewer than two."""
        if len(self.values) < 2:
            return float("nan")
        low, high = (25, 75) if len(self.values) >= MIN_QUARTILE_PARTS and not self.is_whole else (0, 100)
        return float(np.percentile(self.values, high) - np.percentile(self.values, low))


@dataclass(frozen=True)
class Difference:
    """Two samples side by side."""

    a: Sample
    b: Sample
    exact: bool = False
    """Whether the values are counts, of which every difference matters."""

    @property
    def amount(self) -> float:
        """Median of B minus median of A."""
        return self.b.median - self.a.median

    @property
    def ratio(self) -> float:
        """Median of B divided by median of A; NaN where A is 0."""
        return self.b.median / self.a.median if self.a.median else float("nan")

    @property
    def noise(self) -> float:
        """The larger noise of the two; NaN where neither has two parts."""
        known = [each.scatter for each in (self.a, self.b) if len(each.values) > 1]
        return max(known) if known else float("nan")

    @cached_property
    def change(self) -> Change:
        """How B differs from A."""
        return CHANGES[int(changes(self.a.median, self.b.median, self.noise, self.exact))]


def difference(a: Float64, b: Float64, exact: bool = False) -> Difference:
    """The values of two sides side by side; NaN is a missing value."""
    known = a[~np.isnan(a)], b[~np.isnan(b)]
    is_whole = 1 in map(len, known)
    return Difference(Sample(known[0], is_whole), Sample(known[1], is_whole), exact)
