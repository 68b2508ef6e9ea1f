"""Scans blocks of events into columns by the library.

A scanner keeps the texts that it has met as they stand in the file; each is handed out once, when it turns up, and
gets its number in the trace from `TextNumbers`.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64
from tracetui.reading.scanner.scanned_columns import ScannedColumns

NAMES, KEYS, OP_TEXTS, WORK_TEXTS = TABLES = range(4)
"""Tables of texts, in the order of `scanner.c`."""
NewTexts = tuple[list[bytes], ...]
"""For each table the texts that turned up in some blocks."""


class Scanner:
    """Scans blocks of one file, one after the other; of several threads each has its own."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._handle = library.tracetui_scanner(secrets.randbits(64))
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
