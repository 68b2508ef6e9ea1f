"""The columns that the library fills, as one structure of C and as numpy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID
from tracetui.reading.phases import CLASS_OF_LETTER

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
    def events(self) -> int:
        """How many events there are."""
        return int(self.structure.events)

    @property
    def blocks(self) -> int:
        """How many blocks they stand in."""
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
        """How many `events`, `slices` or `others` there are up to the end of each block."""
        ends: list[int] = self._arrays[f"block_{what}"][: self.structure.blocks].tolist()
        return ends
