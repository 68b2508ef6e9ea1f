"""Scans blocks of events into columns by the library.

A scanner keeps the texts that it has met as they stand in the file; each is handed out once, when it turns up, and
gets its number in the trace from `TextNumbers`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64
from tracetui.model.native import PURE, is_pure, native_library
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID
from tracetui.reading.decode import CLASS_OF_LETTER

# Finds and calls the library that the sources in C are compiled to.
#
# It is called through ctypes, so that one build serves every Python; the GIL is free during a call. Where the library
# is absent, was compiled of another source, or `TRACETUI_PURE` is set, events are read in Python.

NAME = "_scanner.so"
"""File of the library, beside this one."""
_PATH = Path(__file__).with_name(NAME)
SOURCE = "scanner.c"
"""File that it is compiled of, with the headers beside it."""


@cache
def scanner_library() -> ctypes.CDLL | None:
    """The library, None where events are read in Python."""
    return None if why_pure() else _loaded()


@cache
def why_pure() -> str:
    """The reason why the library is not used, empty where it is."""
    if is_pure():
        return f"{PURE} is set"
    if not _PATH.exists():
        return "tracetui was installed without a C compiler"
    return "" if _loaded() is not None else f"{NAME} cannot be loaded, or is not of the sources beside it"


@cache
def _loaded() -> ctypes.CDLL | None:
    library = native_library(_PATH, _PATH.with_name(SOURCE))
    if library is None:
        return None
    library.tracetui_scanner.restype = ctypes.c_void_p
    library.tracetui_scanner.argtypes = [ctypes.c_uint64]
    library.tracetui_free.restype = None
    library.tracetui_free.argtypes = [ctypes.c_void_p]
    library.tracetui_scan.restype = ctypes.c_int32
    library.tracetui_scan.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p]
    library.tracetui_scan_all.restype = ctypes.c_int64
    library.tracetui_scan_all.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    library.tracetui_count.restype = ctypes.c_int64
    library.tracetui_count.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    library.tracetui_texts.restype = ctypes.c_void_p
    library.tracetui_texts.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p]
    return library


# The columns that the library fills, as one structure of C and as numpy arrays.

NO_DURATION, NEGATIVE_DURATION = -1, -2
"""Stand for the duration of a slice that has none, and for one below 0."""

_EVENT_COLUMNS = (
    ("start", np.int64),
    ("dur", np.int64),
    ("correlation", np.int64),
    ("external", np.int64),
    ("name", np.int32),
    ("key", np.int32),
    ("event", np.int32),
    ("argument", np.int32),
    ("other_time", np.int64),
    ("other_id", np.int64),
    ("other_name", np.int32),
    ("other_key", np.int32),
    ("other_event", np.int32),
    ("other_argument", np.int32),
    ("other_begin", np.int32),
    ("other_end", np.int32),
    ("other_class", np.uint8),
    ("other_id_kind", np.uint8),
    ("other_scope", np.uint8),
)
"""Columns of slices and of other events, in the order of `columns` in `scanner.c`."""
ARGUMENT_NUMBERS = (
    "Sequence number",
    "Fwd thread id",
    "registers per thread",
    "shared memory",
    "est. achieved occupancy %",
    "bytes",
    "Addr",
    "Bytes",
    "Total Allocated",
    "Total Reserved",
    "Device Type",
    "Device Id",
)
ARGUMENT_TEXTS = ("Input Dims", "Input dims", "Input type", "grid", "block")
"""Arguments that are kept as JSON."""
_BLOCK_COLUMNS = ("block_events", "block_slices", "block_others")
_COUNTS = ("events", "slices", "others", "arguments", "blocks")


class _Structure(ctypes.Structure):
    _fields_ = [
        ("capacity", ctypes.c_int64),
        ("block_capacity", ctypes.c_int64),
        ("class_of_letter", ctypes.c_void_p),
        ("default_id", ctypes.c_int64),
        ("null_number", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name, _ in _EVENT_COLUMNS),
        ("argument_numbers", ctypes.c_void_p * len(ARGUMENT_NUMBERS)),
        ("argument_texts", ctypes.c_void_p * len(ARGUMENT_TEXTS)),
        *((name, ctypes.c_void_p) for name in _BLOCK_COLUMNS),
    ]


class ScannedColumns:
    """Room for the events of some blocks, which is used again and again."""

    def __init__(self, capacity: int, blocks: int) -> None:
        self.structure = _Structure(
            capacity=capacity,
            block_capacity=blocks,
            class_of_letter=CLASS_OF_LETTER.ctypes.data,
            default_id=NO_ID,
            null_number=NULL,
        )
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, dtype in _EVENT_COLUMNS:
            setattr(self.structure, name, self._address(name, capacity, dtype))
        for index, name in enumerate(ARGUMENT_NUMBERS):
            self.structure.argument_numbers[index] = self._address(name, capacity + 1, np.int64)
        for index, name in enumerate(ARGUMENT_TEXTS):
            self.structure.argument_texts[index] = self._address(name, capacity + 1, np.int32)
        for name in _BLOCK_COLUMNS:
            setattr(self.structure, name, self._address(name, blocks, np.int64))

    def _address(self, name: str, length: int, dtype: Any) -> int:
        # What is not written to takes no memory.
        self._arrays[name] = np.empty(length, dtype)
        return int(self._arrays[name].ctypes.data)

    def clear(self) -> None:
        """Forget all events."""
        for name in _COUNTS:
            setattr(self.structure, name, 0)

    @property
    def blocks(self) -> int:
        """Number of blocks in which they stand."""
        return int(self.structure.blocks)

    def slices(self, name: str) -> NDArray[Any]:
        """A column of the slices."""
        return self._arrays[name][: self.structure.slices]

    def others(self, name: str) -> NDArray[Any]:
        """A column of the other events, without the beginning of its name."""
        return self._arrays[f"other_{name}"][: self.structure.others]

    def arguments(self, name: str) -> NDArray[Any]:
        """An argument by its name in the file: a number, or the number of a text; row 0 has none."""
        return self._arrays[name][: self.structure.arguments]

    def ends(self, what: str) -> list[int]:
        """Number of `events`, `slices` or `others` up to the end of each block."""
        ends: list[int] = self._arrays[f"block_{what}"][: self.structure.blocks].tolist()
        return ends


NAMES, KEYS, OP_TEXTS, WORK_TEXTS = TABLES = range(4)
"""Tables of texts, in the order of `scanner.c`."""
NewTexts = tuple[list[bytes], ...]
"""For each table the texts that turned up in some blocks."""


class Scanner:
    """Scans blocks of one file, one after the other; of several threads each has its own."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = library.tracetui_scanner(int.from_bytes(os.urandom(8)))
        if not self._handle:
            raise MemoryError
        self._handed_out = [0 for _ in TABLES]

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.tracetui_free(self._handle)

    def scan(self, data: bytes, size: int, columns: ScannedColumns) -> bool:
        """Add the first bytes of `data`, a block, to the columns; False where it is to be read in Python."""
        reason = self._library.tracetui_scan(self._handle, data, size, ctypes.byref(columns.structure))
        return bool(reason == 0)

    def scan_all(self, data: bytearray, bounds: Int64, columns: ScannedColumns) -> int:
        """Add blocks that lie between bounds, commas that are their brackets; how many can be scanned."""
        # The buffer is kept where it is by what shows it.
        view = (ctypes.c_uint8 * len(data)).from_buffer(data)
        count = self._library.tracetui_scan_all(
            self._handle,
            ctypes.addressof(view),
            bounds.ctypes.data,
            len(bounds) - 1,
            ctypes.byref(columns.structure),
        )
        return int(count)

    def new_texts(self) -> NewTexts:
        """For each table the texts that turned up since this was asked last."""
        return tuple(map(self._new_texts, TABLES))

    def _new_texts(self, table: int) -> list[bytes]:
        first, last = self._handed_out[table], self._library.tracetui_count(self._handle, table)
        if first == last:
            return []
        self._handed_out[table] = last
        lengths = np.empty(last - first, np.int64)
        address = self._library.tracetui_texts(self._handle, table, first, lengths.ctypes.data)
        ends = np.cumsum(lengths).tolist()
        texts = ctypes.string_at(address, ends[-1])
        return [texts[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class TextNumbers:
    """The numbers in the trace of the texts of one scanner."""

    def __init__(self) -> None:
        self._numbers = [np.empty(0, np.int32) for _ in TABLES]

    def known(self, table: int, new: list[bytes], number_of: Callable[[bytes], int]) -> NDArray[np.int32]:
        """The numbers of all texts of a table, once the new ones have been given theirs."""
        if new:
            numbers = np.array([number_of(text) for text in new], np.int32)
            self._numbers[table] = np.concatenate([self._numbers[table], numbers])
            new.clear()
        return self._numbers[table]


# How many threads scan a file.

MAX_THREADS = 8
"""Maximum threads that scan one file."""


def scanning_threads() -> int:
    """Threads that scan a file: as many as cores that this process may use, up to a limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)
