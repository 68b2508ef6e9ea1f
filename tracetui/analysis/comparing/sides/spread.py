"""Medians and scatters of many rows at once: what `noise` says of two samples, for every name of a table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.comparing.sides.noise import FEW, changes
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64

_CELLS = 1 << 21
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
    step = max(_CELLS // max(parts, 1), 1)
    for low, high in pairwise([*range(0, keys, step), keys]):
        first, last = np.searchsorted(key, [low, high]).tolist()
        cell = (key[first:last] - low) * parts + part[first:last]
        held = None if weights is None else weights[first:last]
        sums = np.bincount(cell, held, (high - low) * parts).astype(np.float64).reshape(high - low, parts)
        median[low:high] = np.median(sums, axis=1)
        if parts > 1:
            ends = np.percentile(sums, (25, 75) if parts >= FEW else (0, 100), axis=1)
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
