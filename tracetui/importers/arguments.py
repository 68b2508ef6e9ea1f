"""Collects the arguments that whole tables need: of operators, of what runs on a GPU, of the allocator.

They are read for events of these kinds alone: a map over all events would cost a fifth of the loading time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.importers.decode import NO_TEXT, Args
from tracetui.model.arguments import (
    MEMORY_NUMBERS,
    OP_NUMBERS,
    OP_TEXTS,
    WORK_NUMBERS,
    WORK_TEXTS,
    Arguments,
)
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Kind
from tracetui.model.whole_numbers import MAX_AMOUNT

Part = dict[str, NDArray[Any]]

_FIELDS = {
    "Sequence number": "sequence",
    "Fwd thread id": "forward_thread",
    "registers per thread": "registers",
    "shared memory": "shared",
    "est. achieved occupancy %": "occupancy",
    "bytes": "bytes",
    "Addr": "address",
    "Bytes": "allocated",
    "Total Allocated": "total_allocated",
    "Total Reserved": "total_reserved",
    "Device Type": "device_type",
    "Device Id": "device",
}
"""Names of numbers in the file, and attributes of `Args`."""
_AMOUNTS = {"registers per thread", "shared memory", "bytes", "Bytes", "Total Allocated", "Total Reserved"}
"""Numbers that are added up; the others are ids and addresses."""
_TEXT_FIELDS = {
    "Input Dims": ("dims", "old_dims"),
    "Input type": ("types",),
    "grid": ("grid",),
    "block": ("block",),
}
"""The same of texts; a file uses one of the attributes."""


class _Texts(dict[bytes, int]):
    """Numbers the different values; what is absent is -1."""

    def __missing__(self, value: bytes) -> int:
        number = self[value] = len(self) - 1
        return number


class ArgumentTable:
    """Grows by the events of a block; what can fail is done by `read`, so that a second try starts clean."""

    def __init__(self, numbers: Sequence[str], texts: Sequence[str] = ()) -> None:
        self._numbers, self._text_names = numbers, texts
        self._texts = _Texts({b"": -1})
        self._parts: list[Part] = []

    def read(self, args: list[Args], events: NDArray[np.int32]) -> Part:
        """The columns of some events.

        Raises: TypeError, ValueError or OverflowError for a value that is no whole number.
        """
        count = len(args)
        part: Part = {"event": events}
        for name in self._numbers:
            part[name] = np.fromiter(map(attrgetter(_FIELDS[name]), args), np.int64, count)
            if name in _AMOUNTS:
                beyond = (part[name] > MAX_AMOUNT) | (part[name] < -MAX_AMOUNT)
                part[name][beyond] = NULL
        for name in self._text_names:
            part[name] = self._ids(args, *_TEXT_FIELDS[name])
        return part

    def _ids(self, args: list[Args], attribute: str, *others: str) -> NDArray[np.int32]:
        raw = list(map(attrgetter(attribute), args))
        if raw.count(NO_TEXT) == len(raw):
            return self._ids(args, *others) if others else np.full(len(args), -1, np.int32)
        find: Callable[[bytes], int] = self._texts.__getitem__
        return np.fromiter(map(find, map(bytes, raw)), np.int32, len(args))

    def keep(self, part: Part) -> None:
        """Append what `read` returned."""
        if len(part["event"]):
            self._parts.append(part)

    def arguments(self) -> Arguments:
        """Everything that was kept."""
        if not self._parts:
            return Arguments()
        joined = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        return Arguments(
            joined["event"],
            {name: joined[name] for name in self._numbers},
            {name: joined[name] for name in self._text_names},
            [text.decode("utf-8", "replace") for text in self._texts if text],
        )


class ArgumentTables:
    """The three tables of a trace."""

    def __init__(self) -> None:
        self.ops = ArgumentTable(OP_NUMBERS, OP_TEXTS)
        self.work = ArgumentTable(WORK_NUMBERS, WORK_TEXTS)
        self.memory = ArgumentTable(MEMORY_NUMBERS)

    def read_slices(self, kinds: NDArray[np.uint8], args: list[Args], events: NDArray[np.int32]) -> tuple[Part, Part]:
        """Columns of the operators and of the GPU work among the slices of a block; annotations may have shapes too."""
        ops = np.flatnonzero((kinds == Kind.CPU_OP) | (kinds == Kind.ANNOTATION))
        work = np.flatnonzero(np.isin(kinds, GPU_WORK))
        calls = np.flatnonzero(kinds == Kind.RUNTIME)
        telling = [row for row in calls.tolist() if bytes(args[row].grid)]
        if telling:
            work = np.sort(np.concatenate([work, np.array(telling, np.int64)]))
        return (
            self.ops.read([args[row] for row in ops.tolist()], events[ops]),
            self.work.read([args[row] for row in work.tolist()], events[work]),
        )
