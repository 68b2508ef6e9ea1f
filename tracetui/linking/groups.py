"""Grouping of table rows: by an id with sums and medians, and by equal values in several columns.

What depends on several columns is computed once per combination of their values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.intervals import Int64, run_starts

_ROOM = 1 << 62
"""Keys stay below this."""
_MIN_TABLE = 1 << 16
"""Entries that a table may have, however few rows there are."""


@frozen
class Combinations(Parallel):
    """The distinct combinations of some columns."""

    first: Int64
    """The first row of each combination."""
    member: Int64
    """Number of the combination of each row."""


def combinations(*columns: NDArray[np.integer]) -> Combinations:
    """Number the distinct combinations of integer columns of equal length."""
    key = np.zeros(len(columns[0]), np.int64)
    span = 1
    for column in columns:
        values = column.astype(np.int64)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if span * (high - low + 1) >= _ROOM:
            keys = group(key)
            key, span = keys.member, len(keys)
        if span * (high - low + 1) >= _ROOM:
            ranks = group(values)
            values, low, high = ranks.member, 0, len(ranks)
        key = key * (high - low + 1) + (values - low)
        span *= high - low + 1
    table = _table(key)
    if table is None:
        _, first, member = np.unique(key, return_index=True, return_inverse=True)
        return Combinations(first.astype(np.int64), member.astype(np.int64))
    used, member = table
    first = np.empty(len(used), np.int64)
    # Of several rows the first one, which is assigned last.
    first[member[::-1]] = np.arange(len(member))[::-1]
    return Combinations(first, member)


def _table(values: NDArray[np.integer]) -> tuple[Int64, Int64] | None:
    """The distinct values, ascending, and the index of each row's value among them; by a table of all numbers between.

    None where they lie too far apart for a table.
    """
    if len(values) == 0:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low >= max(_MIN_TABLE, 4 * len(values)):
        return None
    offset = np.subtract(values, low, dtype=np.int64)
    used = np.zeros(high - low + 1, bool)
    used[offset] = True
    rank = np.cumsum(used, dtype=np.int64) - 1
    return np.flatnonzero(used) + low, rank[offset]


@frozen
class Groups(Parallel):
    """The group of each row; groups are numbered from 0."""

    key: Int64
    """The id that the rows of a group share, one entry per group, ascending."""
    member: Int64
    """Number of the group of each row."""

    @property
    def calls(self) -> Int64:
        """Rows in each group."""
        return np.bincount(self.member, minlength=len(self))

    def sum(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Sum of the rows' values in each group."""
        return np.bincount(self.member, np.asarray(values, np.float64), len(self)).astype(np.float64)

    def median(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Median of the rows' values in each group; groups are never empty."""
        ranked = np.asarray(values, np.float64)[np.lexsort((values, self.member))]
        first = np.cumsum(self.calls) - self.calls
        low, high = first + (self.calls - 1) // 2, first + self.calls // 2
        middle: NDArray[np.float64] = (ranked[low] + ranked[high]) / 2
        return middle

    def largest(self, values: Int64) -> Int64:
        """The first row with the largest value of each group."""
        best = np.full(len(self), np.iinfo(np.int64).min)
        np.maximum.at(best, self.member, values)
        rows = np.flatnonzero(values == best[self.member])[::-1]
        rows_of_largest = np.empty(len(self), np.int64)
        rows_of_largest[self.member[rows]] = rows
        return rows_of_largest

    def smallest(self, values: Int64) -> Int64:
        """The first row with the smallest value of each group."""
        return self.largest(-values)


def distinct(values: NDArray[np.integer]) -> Int64:
    """The distinct values, ascending; by sorting, which is far faster on many values than numpy's hashing."""
    ranked = np.sort(values).astype(np.int64)
    return ranked[run_starts(ranked)]


def group(ids: NDArray[np.integer]) -> Groups:
    """Group rows by an id."""
    table = _table(ids)
    if table is not None:
        return Groups(*table)
    key, member = np.unique(ids, return_inverse=True)
    return Groups(key.astype(np.int64), member.astype(np.int64))


def count_within(ids: NDArray[np.integer]) -> Int64:
    """The number of rows up to each row that have its id: 1, 2, 3 ... in each group."""
    order = np.argsort(ids, kind="stable")
    heads = np.flatnonzero(run_starts(ids[order]))
    result = np.empty(len(ids), np.int64)
    result[order] = np.arange(len(ids)) - np.repeat(heads, np.diff(np.append(heads, len(ids)))) + 1
    return result


class PartSums:
    """Sums of whole numbers in each of some parts, given the part of each row; -1 is in none.

    Exact up to 2**53 ns, which is a hundred days.
    """

    def __init__(self, part: Int64, count: int) -> None:
        self._part, self._count = part, count
        self._bounds: Int64 | None = None
        self._inside: Int64 | None = None
        if len(part) and (part[1:] >= part[:-1]).all():
            self._bounds = np.searchsorted(part, np.arange(count + 1))
        elif (part < 0).any():
            self._inside = np.flatnonzero(part >= 0)

    def of(self, values: NDArray[np.generic]) -> Int64:
        """The sum of the rows' values in each part."""
        if self._bounds is not None:
            total = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
            return np.asarray(np.diff(total[self._bounds]))
        part, weights = self._part, np.asarray(values, np.float64)
        if self._inside is not None:
            part, weights = part[self._inside], weights[self._inside]
        return np.bincount(part, weights, self._count).astype(np.int64)
