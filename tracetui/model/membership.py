"""Which numbers of a column are among others, and the index at which each number stands; faster than by sorting.

Row numbers, kinds and the profiler's ids are small whole numbers that lie close together: a table that has an entry for
each of them is filled and looked up in one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

_FEW = 4
"""Members that are compared one after the other."""
_MIN_ROOM = 1 << 16
"""Entries that a table may have, however short the columns are."""
_SPARSENESS = 8
"""Entries that a table may have for each number."""


def is_among(values: NDArray[np.integer], members: NDArray[np.integer] | list[int] | tuple[int, ...]) -> Bool:
    """Mask of the values that are among the members."""
    members = np.asarray(members)
    if len(members) <= _FEW:
        first, *more = members.tolist() or [None]
        mask: Bool = np.zeros(len(values), bool) if first is None else values == first
        for member in more:
            mask |= values == member
        return mask
    low, high = int(members.min()), int(members.max())
    if not _is_dense(low, high, len(values) + len(members)):
        return np.isin(values, members)
    # An entry below and one above stand for all that lies outside.
    table = np.zeros(high - low + 3, bool)
    table[np.subtract(members, low - 1, dtype=np.int64)] = True
    index = np.clip(values, low - 1, high + 1, dtype=np.int64)
    index -= low - 1
    return np.asarray(table[index])


def index_of(ids: NDArray[np.integer], wanted: NDArray[np.integer]) -> Int64 | None:
    """For each wanted id the index at which it stands in `ids`, -1 where it does not.

    None where an id stands there twice, or the ids lie too far apart for a table.
    """
    if len(ids) == 0:
        return np.full(len(wanted), -1, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if not _is_dense(low, high, len(wanted) + len(ids)):
        return None
    table = np.full(high - low + 3, -1, np.int32 if len(ids) <= np.iinfo(np.int32).max else np.int64)
    table[np.subtract(ids, low - 1, dtype=np.int64)] = np.arange(len(ids), dtype=table.dtype)
    if np.count_nonzero(table != -1) < len(ids):
        return None
    index = np.clip(wanted, low - 1, high + 1, dtype=np.int64)
    index -= low - 1
    rows: Int64 = table[index].astype(np.int64)
    return rows


def without(rows: Int64, left_out: NDArray[np.integer]) -> Int64:
    """The rows that are not among some others; they ascend, each stands there once."""
    if len(left_out) == 0 or len(rows) == 0:
        return rows
    index = np.minimum(np.searchsorted(rows, left_out), len(rows) - 1)
    kept = np.ones(len(rows), bool)
    kept[index[rows[index] == left_out]] = False
    return rows[kept]


def _is_dense(low: int, high: int, count: int) -> bool:
    """Whether a table of all numbers between two is small enough; its edges are numbers of 64 bits as well."""
    limits = np.iinfo(np.int64)
    return high - low < max(_MIN_ROOM, _SPARSENESS * count) and low > limits.min and high < limits.max
