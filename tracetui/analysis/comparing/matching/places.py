"""Where GPU work of two parts stands along what both have in common.

Pairs that are matched already, and stand in the same order on both sides, are posts. What lies between two posts on
one side belongs between the same two on the other. A pair that crosses others is no post: its order changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64

_STRAY = 2
"""A pair that is so many times as far from its place as the middle one does not count: it moved alone."""


@dataclass(frozen=True, eq=False)
class Places:
    """Places of the work of both parts on one scale: posts stand at 1, 2, 3 ..., all else between them."""

    a: Float64
    b: Float64

    @property
    def stretch_a(self) -> Int64:
        """The number of the post before each activity, 0 before the first."""
        return np.floor(self.a).astype(np.int64)

    @property
    def stretch_b(self) -> Int64:
        """Likewise of B."""
        return np.floor(self.b).astype(np.int64)


def places(pairs_a: Int64, pairs_b: Int64, size_a: int, size_b: int) -> Places:
    """The scale that pairs make: places in order of launch of each pair in A and in B."""
    posts_a, posts_b = _posts(pairs_a, pairs_b)
    numbers = np.arange(len(posts_a) + 2, dtype=np.float64)
    scales = (
        np.interp(np.arange(size), np.concatenate([[-1], posts, [size]]), numbers)
        for posts, size in ((posts_a, size_a), (posts_b, size_b))
    )
    return Places(*scales)


def _posts(a: Int64, b: Int64) -> tuple[Int64, Int64]:
    """The pairs that no other crosses, after those that moved far are taken out."""
    order = np.argsort(a, kind="stable")
    a, b = a[order], b[order]
    if len(b) and (np.diff(b) < 0).any():
        away = np.abs(_ranks(b) - np.arange(len(b)))
        kept = away <= _STRAY * np.median(away) + 1
        a, b = a[kept], b[kept]
        highest = np.maximum.accumulate(b)
        lowest = np.minimum.accumulate(b[::-1])[::-1]
        straight = (b == highest) & (b == lowest)
        a, b = a[straight], b[straight]
    return a, b


def _ranks(values: Int64) -> Int64:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
