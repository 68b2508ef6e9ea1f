"""Whether two sets of numbers differ by more than they scatter.

Each side is told by its median. Its scatter is the distance between the quartiles of its parts; of fewer than four
parts, between the least and the largest. A difference is believed when it exceeds the larger of the two scatters.
Times that differ by less than `LEAST` are the same, unless they scatter so much that this is an accident.

Of one part nothing is known about its scatter. It is held against all parts of the other side, from the least to the
largest: half of them lie beyond the quartiles themselves. Of one part on each side a difference is told as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tracetui.model.trace import Float64

FEW = 4
"""With fewer parts quartiles say nothing."""
LEAST = 0.01
"""Of a time: what the clocks of a machine change by from one minute to the next."""
STEADY = 0.05
"""Scatter, as a share of the median, up to which equal medians mean something."""


class Change(Enum):
    """What can be said of a number on the right-hand side, beside that on the left."""

    SAME = "same"
    LESS = "less"
    MORE = "more"
    UNTOLD = "cannot tell"
    """They differ, and by less than they scatter."""
    UNKNOWN = "unknown"
    """One side does not hold it."""


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
        low, high = (25, 75) if len(self.values) >= FEW and not self.is_whole else (0, 100)
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

    @property
    def change(self) -> Change:
        """What can be said of it."""
        if not len(self.a.values) or not len(self.b.values):
            return Change.UNKNOWN
        least = 0.0 if self.exact else LEAST * min(abs(self.a.median), abs(self.b.median))
        if abs(self.amount) <= least and not self._is_restless:
            return Change.SAME
        if abs(self.amount) <= max(self.noise, least):
            return Change.UNTOLD
        return Change.LESS if self.amount < 0 else Change.MORE

    @property
    def _is_restless(self) -> bool:
        return self.noise > STEADY * min(abs(self.a.median), abs(self.b.median))


def difference(a: Float64, b: Float64, exact: bool = False) -> Difference:
    """The numbers of two sides beside each other; NaN is what a part does not hold."""
    known = a[~np.isnan(a)], b[~np.isnan(b)]
    is_whole = 1 in map(len, known)
    return Difference(Sample(known[0], is_whole), Sample(known[1], is_whole), exact)
