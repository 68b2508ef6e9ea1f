"""Calls of `nesting.c`, where it was compiled; its results are held to those of the same functions in Python."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# Loads a library that was compiled of a C file beside it; reading and nesting in Python serve where there is none.
#
# Libraries are called through ctypes, so that one build serves every Python; the GIL is free during a call.

PURE = "TRACETUI_PURE"
"""Variable of the environment that keeps libraries from being used, set to anything but 0 or nothing."""


def is_pure() -> bool:
    """True where the user asks for Python alone."""
    return os.environ.get(PURE, "") not in ("", "0")


def native_library(path: Path, source: Path) -> ctypes.CDLL | None:
    """The library at a path; None where it is absent, cannot be loaded, or was compiled of another source.

    The headers beside the source belong to it.
    """
    try:
        library = ctypes.CDLL(str(path))
        library.tracetui_source.restype = ctypes.c_uint32
        sources = (source, *sorted(source.parent.glob("*.h")))
        is_current: bool = library.tracetui_source() == zlib.crc32(b"".join(path.read_bytes() for path in sources))
    except (OSError, AttributeError):
        return None
    return library if is_current else None


Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int16 = NDArray[np.int16]

NAME = "_nesting.so"
"""File of the library, beside this one."""
SOURCE = "nesting.c"
"""File that it is compiled of, beside it."""

_WITH_STATUS = (
    "nest",
    "depths",
    "nearest",
    "nearest_row",
    "forest",
    "self_times",
    "repeats",
    "subtree_sums",
    "search",
)
"""Functions that return a status: 0 where the input is valid."""


@cache
def nesting_library() -> ctypes.CDLL | None:
    """The library, None where intervals are nested in Python."""
    if is_pure():
        return None
    path = Path(__file__).with_name(NAME)
    library = native_library(path, path.with_name(SOURCE))
    if library is not None:
        for name in _WITH_STATUS:
            getattr(library, f"tracetui_{name}").restype = ctypes.c_int32
        library.tracetui_nest_slices.restype = ctypes.c_int64
    return library


def nest(heads: Int64, tails: Int64, start: Int64, dur: Int64, tolerance: int) -> tuple[Int64, ...] | None:
    """Parent, depth, row, end for nesting, and the interval that cut it, of every row of some stretches [head, tail).

    None, as of all functions here but `insertion_index`, without the library or for invalid input.
    """
    columns = tuple(np.empty(len(start), np.int64) for _ in range(5))
    failed = _nest("nest", heads, tails, start, dur, tolerance, columns)
    return None if failed else columns


def nest_slices(
    heads: Int64, tails: Int64, start: Int64, dur: Int64, tolerance: int
) -> tuple[Int32, Int16, Int16, Int64, int] | None:
    """Parent, depth, row and self time, in the types of `Slices`, and the number of overlaps.

    Rows outside of the stretches nest in nothing.
    """
    count = len(start)
    parent, depth, row = np.full(count, -1, np.int32), np.zeros(count, np.int16), np.zeros(count, np.int16)
    self_time = dur.astype(np.int64)
    overlaps = _nest("nest_slices", heads, tails, start, dur, tolerance, (parent, depth, row, self_time))
    return None if overlaps < 0 else (parent, depth, row, self_time, overlaps)


def _nest(
    name: str, heads: Int64, tails: Int64, start: Int64, dur: Int64, tolerance: int, columns: Sequence[NDArray[Any]]
) -> int:
    library = nesting_library()
    if library is None:
        return -1
    given = [_plain(column) for column in (heads, tails, start, dur)]
    status: int = getattr(library, f"tracetui_{name}")(
        ctypes.c_int64(len(start)),
        ctypes.c_int64(len(heads)),
        *map(_address, given),
        ctypes.c_uint64(tolerance),
        *map(_address, columns),
    )
    return status


def depths(parent: Int64) -> Int64 | None:
    """Number of ancestors of every node."""
    return _of_forest("depths", parent)


def nearest(parent: NDArray[np.integer], wanted: NDArray[np.bool_]) -> Int64 | None:
    """The closest proper ancestor of every node that is wanted, -1 for none."""
    return _of_forest("nearest", parent, np.ascontiguousarray(wanted, np.bool_)) if len(wanted) == len(parent) else None


def nearest_row(parent: Int32, wanted: NDArray[np.bool_]) -> Int32 | None:
    """`nearest` for a parent in each row, with numbers of 32 bits."""
    library = nesting_library()
    if library is None or len(wanted) != len(parent):
        return None
    columns = np.ascontiguousarray(parent, np.int32), np.ascontiguousarray(wanted, np.bool_), np.empty_like(parent)
    failed = library.tracetui_nearest_row(ctypes.c_int64(len(parent)), *map(_address, columns))
    return None if failed else columns[2]


def forest(parent: Int32, wanted: NDArray[np.bool_], nodes: int) -> Int64 | None:
    """The index of the closest wanted ancestor of each wanted row among the wanted ones, -1 for none.

    `nodes` is the number of wanted rows.
    """
    library = nesting_library()
    if library is None or len(wanted) != len(parent):
        return None
    columns = np.ascontiguousarray(parent, np.int32), np.ascontiguousarray(wanted, np.bool_), np.empty_like(parent)
    above = np.empty(nodes, np.int64)
    failed = library.tracetui_forest(
        ctypes.c_int64(len(parent)), *map(_address, columns), ctypes.c_int64(nodes), _address(above)
    )
    return None if failed else above


def self_times(parent: Int64, dur: Int64) -> Int64 | None:
    """The duration of every node less those of its children."""
    return _of_forest("self_times", parent, _plain(dur)) if len(dur) == len(parent) else None


def repeats(parent: Int64, name: Int64) -> NDArray[np.bool_] | None:
    """Mask of the nodes that are the only child of a node of the same name."""
    library = nesting_library()
    if library is None or len(name) != len(parent):
        return None
    mask = np.empty(len(parent), np.bool_)
    given, children = (_plain(parent), _plain(name)), np.zeros(len(parent), np.int32)
    failed = library.tracetui_repeats(
        ctypes.c_int64(len(parent)), *map(_address, given), _address(children), _address(mask)
    )
    return None if failed else mask


def subtree_sums(parent: Int64, values: NDArray[np.number]) -> NDArray[np.float64] | None:
    """The sum of the value of every node and those of all below it."""
    library = nesting_library()
    if library is None or len(values) != len(parent):
        return None
    parent, totals = _plain(parent), np.array(values, np.float64)
    failed = library.tracetui_subtree_sums(ctypes.c_int64(len(parent)), _address(parent), _address(totals))
    return None if failed else totals


def insertion_index(
    ascending: NDArray[np.integer], values: NDArray[np.integer], side: Literal["left", "right"] = "left"
) -> Int64:
    """`numpy.searchsorted`, far faster where successive values lie close together."""
    library = nesting_library()
    if library is None or ascending.dtype != np.int64 or values.dtype != np.int64:
        return np.searchsorted(ascending, values, side)
    ascending, values = np.ascontiguousarray(ascending), np.ascontiguousarray(values)
    index = np.empty(len(values), np.int64)
    library.tracetui_search(
        ctypes.c_int64(len(ascending)),
        _address(ascending),
        ctypes.c_int64(len(values)),
        _address(values),
        ctypes.c_int32(side == "right"),
        _address(index),
    )
    return index


def _of_forest(name: str, parent: NDArray[np.integer], *more: NDArray[Any]) -> Int64 | None:
    library = nesting_library()
    if library is None:
        return None
    parent = _plain(parent)
    result = np.empty(len(parent), np.int64)
    columns = map(_address, (parent, *more, result))
    return None if getattr(library, f"tracetui_{name}")(ctypes.c_int64(len(parent)), *columns) else result


def _plain(column: NDArray[np.integer]) -> Int64:
    return np.ascontiguousarray(column, np.int64)


def _address(column: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(column.ctypes.data)
