"""Columns that grow by a chunk for each block that is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64

MAX_SPARE_ROWS = 1 << 16
"""Maximum rows of a column for which there is room before they come."""


class Gathered:
    """Parallel columns that grow by chunks.

    A column is one stretch of memory from the start: to grow it moves pages where it is long, and copies nothing, while
    chunks that are kept and joined in the end need their memory twice, and leave it in pieces.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._columns = {name: _GrowingColumn() for name in names}

    def add(self, **columns: NDArray[Any]) -> None:
        """Append one chunk to every column."""
        for name, values in columns.items():
            self._columns[name].extend(values)

    def take(self, name: str, dtype: str) -> NDArray[Any]:
        """The whole column, which is given up here."""
        return self._columns.pop(name).values(dtype)


class _GrowingColumn:
    """One column."""

    def __init__(self) -> None:
        self._values: NDArray[Any] | None = None
        self._filled = 0

    def extend(self, values: NDArray[Any]) -> None:
        """Append some rows; of several types the column gets the one that holds all."""
        if self._values is None:
            self._values = np.array(values)
            self._filled = len(values)
            return
        dtype = np.result_type(self._values, values)
        if dtype != self._values.dtype:
            self._values = self._values.astype(dtype)
        room, needed = len(self._values), self._filled + len(values)
        if needed > room:
            # Nobody else refers to it.
            self._values.resize(max(needed, min(2 * room, room + MAX_SPARE_ROWS)), refcheck=False)
        self._values[self._filled : needed] = values
        self._filled = needed

    def values(self, dtype: str) -> NDArray[Any]:
        """All rows."""
        if self._values is None:
            return np.empty(0, dtype)
        self._values.resize(self._filled, refcheck=False)
        return self._values.astype(dtype, copy=False)


def combined(*columns: NDArray[Any]) -> Int64:
    """One number for each combination of values that occurs."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        distinct, dense = np.unique(column, return_inverse=True)
        number = np.unique(number * max(len(distinct), 1) + dense, return_inverse=True)[1]
    return number
