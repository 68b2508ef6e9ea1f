"""Collects the arguments that whole tables need: of operators, of what runs on a GPU, of the allocator.

They are read for events of these kinds alone: a map over all events would cost a fifth of the loading time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.arguments import (
    MEMORY_NUMBERS,
    OP_NUMBERS,
    OP_TEXTS,
    WORK_NUMBERS,
    WORK_TEXTS,
    Arguments,
)
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Kind
from tracetui.model.whole_numbers import MAX_AMOUNT
from tracetui.reading.event_columns import ArgumentColumns
from tracetui.reading.gathered import Gathered

Part = dict[str, NDArray[Any]]

_AMOUNTS = {"registers per thread", "shared memory", "bytes", "Bytes", "Total Allocated", "Total Reserved"}
"""Numbers that are added up; the others are ids and addresses."""
_TEXT_NAMES = {"Input Dims": ("Input Dims", "Input dims")}
"""Names of texts in the file, where a file uses one of several."""
_IS_WORK = np.isin(np.arange(max(Kind) + 1), GPU_WORK)
"""Whether each `Kind` is GPU work."""


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
        self._kept = Gathered("event", *numbers, *texts)
        self._rows = 0

    def read(self, arguments: ArgumentColumns, numbers: NDArray[np.int32]) -> Part:
        """The columns of some events, which have the given numbers in the file.

        Raises: TypeError, ValueError or OverflowError for a value that is no whole number.
        """
        part: Part = {"event": numbers}
        for name in self._numbers:
            part[name] = arguments.numbers(name)
            if name in _AMOUNTS:
                beyond = (part[name] > MAX_AMOUNT) | (part[name] < -MAX_AMOUNT)
                part[name][beyond] = NULL
        for name in self._text_names:
            part[name] = arguments.texts(_TEXT_NAMES.get(name, (name,)), self._texts)
        return part

    def text_number(self, text: bytes) -> int:
        """The number under which a text stands in a part."""
        return self._texts[text]

    def keep(self, part: Part) -> None:
        """Append what `read` returned."""
        if len(part["event"]):
            self._kept.add(**part)
            self._rows += len(part["event"])

    def arguments(self) -> Arguments:
        """Everything that was kept, which is given up here."""
        if not self._rows:
            return Arguments()
        return Arguments(
            self._kept.take("event", "i4"),
            {name: self._kept.take(name, "i8") for name in self._numbers},
            {name: self._kept.take(name, "i4") for name in self._text_names},
            [text.decode("utf-8", "replace") for text in self._texts if text],
        )


class ArgumentTables:
    """The three tables of a trace."""

    def __init__(self) -> None:
        self.ops = ArgumentTable(OP_NUMBERS, OP_TEXTS)
        self.work = ArgumentTable(WORK_NUMBERS, WORK_TEXTS)
        self.memory = ArgumentTable(MEMORY_NUMBERS)

    def read_slices(
        self, arguments: Callable[[Int64], ArgumentColumns], kinds: NDArray[np.uint8], numbers: NDArray[np.int32]
    ) -> tuple[Part, Part]:
        """Columns of the operators and of the GPU work among some slices; annotations may have shapes too.

        `arguments` gives those of the slices at some indices.
        """
        ops = np.flatnonzero((kinds == Kind.CPU_OP) | (kinds == Kind.ANNOTATION))
        is_work = _IS_WORK[kinds]
        calls = np.flatnonzero(kinds == Kind.RUNTIME)
        is_work[calls[arguments(calls).have_grid()]] = True
        work = np.flatnonzero(is_work)
        return self.ops.read(arguments(ops), numbers[ops]), self.work.read(arguments(work), numbers[work])
