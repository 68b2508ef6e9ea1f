"""Which rows agree in several columns, as one number per row: what depends on them is worked out once for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64

_ROOM = 1 << 62
"""Keys stay below this."""


@dataclass(frozen=True, eq=False)
class Combinations:
    """The different combinations of some columns."""

    first: Int64
    """The first row of each combination."""
    member: Int64
    """Number of the combination of each row."""

    def __len__(self) -> int:
        return len(self.first)


def combinations(*columns: NDArray[np.integer]) -> Combinations:
    """Number the different combinations of columns of whole numbers, all of one length."""
    key = np.zeros(len(columns[0]), np.int64)
    span = 1
    for column in columns:
        values = column.astype(np.int64)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if span * (high - low + 1) >= _ROOM:
            key, span = _numbered(key)
        if span * (high - low + 1) >= _ROOM:
            values, high = _numbered(values)
            low = 0
        key = key * (high - low + 1) + (values - low)
        span *= high - low + 1
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    return Combinations(first.astype(np.int64), member.astype(np.int64))


def _numbered(values: Int64) -> tuple[Int64, int]:
    """The rank of each value among the different ones, and how many there are."""
    used, place = np.unique(values, return_inverse=True)
    return place.astype(np.int64), len(used)
