"""Gives the arguments of events back after loading: their rows are read again from the file."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import IO, Any

import numpy as np

from tracetui.errors import TraceError
from tracetui.model.intervals import Int64
from tracetui.reading.nsight.database import READ_ERRORS, connect
from tracetui.reading.nsight.tables import ABSENT_AT_ZERO, ARGUMENTS, COPIES, KERNELS

FEW = 64
"""Rows that are looked up one by one; for more a stretch of the table is read."""


class RowStore:
    """The rows of a file by the number of their event; the importer's `EventStore`.

    Reading raises TraceError when the file has changed or gone.
    """

    def __init__(
        self,
        path: str,
        label: str,
        stretches: list[tuple[str, int, Int64]],
        is_short: bool = False,
        file: IO[bytes] | None = None,
    ) -> None:
        """`stretches` are tables, each with the number of its first event and the numbers of its rows.

        `is_short` is true of a file that is cut off; `file` is the temporary one at `path`, which goes with the store.
        """
        self._path, self._label, self._is_short, self._file = path, label, is_short, file
        self._stretches = stretches
        self._firsts = [first for _, first, _ in stretches]
        self._identity = self._current()

    def event(self, index: int) -> dict[str, Any]:
        """The arguments of one event, under `args`."""
        number = bisect_right(self._firsts, index) - 1
        keys = list(self._keys(number))
        values = self.args(np.array([index], np.int64), keys)
        args = {key: value for key, (value,) in zip(keys, values, strict=True) if value is not None}
        return {"args": args}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many events, None where an event has no such key."""
        columns: list[list[Any]] = [[None] * len(indices) for _ in keys]
        order = np.argsort(indices, kind="stable")
        numbers = np.searchsorted(self._firsts, indices[order], side="right") - 1
        for rows in np.split(order, np.flatnonzero(np.diff(numbers)) + 1) if len(order) else []:
            number = bisect_right(self._firsts, int(indices[rows[0]])) - 1
            wanted = [key for key in keys if key in self._keys(number)]
            if number < 0 or not wanted:
                continue
            values = self._values(number, indices[rows] - self._firsts[number], wanted)
            for key, column in zip(keys, columns, strict=True):
                if key in wanted:
                    for row, value in zip(rows.tolist(), values[wanted.index(key)], strict=True):
                        column[row] = value
        return columns

    def _keys(self, number: int) -> dict[str, str | tuple[str, ...]]:
        """The arguments that rows of a table may have."""
        table = self._stretches[number][0] if number >= 0 else ""
        keys = dict(ARGUMENTS.get(table, {}))
        if table == KERNELS:
            keys["shared memory"] = ("staticSharedMemory", "dynamicSharedMemory")
        if table == COPIES:
            keys["memory bandwidth (GB/s)"] = ("bytes", "start", "end")
        return keys

    def _values(self, number: int, wanted: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key its values in some rows of a table, which ascend."""
        table, _, rowids = self._stretches[number]
        rowid = rowids[wanted]
        self._check()
        sources = [self._keys(number)[key] for key in keys]
        names = dict.fromkeys(chain.from_iterable((each,) if isinstance(each, str) else each for each in sources))
        selected: list[str] = []
        records: list[tuple[Any, ...]] = []
        # Of a damaged table some rows can be read.
        with suppress(*READ_ERRORS), closing(connect(self._path, is_short=self._is_short)) as connection:
            info = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
            present = {row[1].decode("utf-8", "replace").casefold() for row in info}
            selected = [name for name in names if name.casefold() in present]
            columns = ", ".join(f'"{name}"' for name in ("rowid", *selected))
            query = f'SELECT {columns} FROM "{table}" NOT INDEXED WHERE rowid'
            if len(rowid) <= FEW:
                for each in rowid.tolist():
                    records += connection.execute(f"{query} = ?", (each,)).fetchall()
            else:
                ends = int(rowid[0]), int(rowid[-1])
                for row in connection.execute(f"{query} BETWEEN ? AND ? ORDER BY rowid", ends):
                    records.append(row)
        rows = {row[0]: row[1:] for row in records}
        none = (None,) * len(selected)
        chosen = [rows.get(each, none) for each in rowid.tolist()]
        return [_argument(key, of, selected, chosen) for key, of in zip(keys, sources, strict=True)]

    def _check(self) -> None:
        """Raise TraceError where the file is not the one that was read."""
        if self._current() != self._identity:
            raise TraceError(f"{self._label} has changed since it was opened: open it again to see arguments.")

    def _current(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise TraceError(f"{self._label} cannot be read any more: {error.strerror}.") from error
        return status.st_ino, status.st_size, status.st_mtime_ns


def _argument(key: str, of: str | tuple[str, ...], selected: list[str], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The values of an argument in some rows, of which some columns were selected."""
    names = (of,) if isinstance(of, str) else of
    if not set(names) <= set(selected):
        return [None] * len(rows)
    at = [selected.index(name) for name in names]
    if isinstance(of, str):
        values = [each.decode("utf-8", "replace") if isinstance(each := row[at[0]], bytes) else each for row in rows]
        return [None if each == 0 else each for each in values] if key in ABSENT_AT_ZERO else values
    parts = [[row[number] for number in at] for row in rows]
    whole = [all(type(each) is int for each in part) for part in parts]
    if key == "shared memory":
        return [sum(part) if good else None for part, good in zip(parts, whole, strict=True)]
    if key == "memory bandwidth (GB/s)":
        # Bytes per nanosecond are GB/s.
        return [
            round(part[0] / (part[2] - part[1]), 3) if good and part[2] > part[1] else None
            for part, good in zip(parts, whole, strict=True)
        ]
    absent = [key in ABSENT_AT_ZERO and not any(part) for part in parts]
    return [part if good and not none else None for part, good, none in zip(parts, whole, absent, strict=True)]
