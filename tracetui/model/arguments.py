"""Arguments of events that whole tables need, kept as columns; every other argument stays in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracetui.model.native_nesting import insertion_index
from tracetui.model.table import NULL

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

OP_NUMBERS = ("Sequence number", "Fwd thread id")
OP_TEXTS = ("Input Dims", "Input type")
"""Of operators and annotations; `Input dims` of torch 1.8 and 1.9 stands under the later name."""
WORK_NUMBERS = ("registers per thread", "shared memory", "est. achieved occupancy %", "bytes")
WORK_TEXTS = ("grid", "block")
"""Of kernels, copies and fills, and of launches that say how they launch (ROCm)."""
MEMORY_NUMBERS = ("Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id")
"""Of the allocator's instants."""

_FEW = 32
"""So many times fewer events than there are entries are looked up without touching all of these."""


def _none() -> Int32:
    return np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Arguments:
    """Some arguments of some events, one entry per event; names are those of the file."""

    event: Int32 = field(default_factory=_none)
    """Number of the event in the file, ascending."""
    numbers: Mapping[str, Int64] = field(default_factory=dict)
    """Whole numbers by name, NULL where the event has none."""
    texts: Mapping[str, Int32] = field(default_factory=dict)
    """Ids in `strings` by name, -1 where the event has no such argument."""
    strings: Sequence[str] = ()
    """The different values, as JSON."""

    def __len__(self) -> int:
        return len(self.event)

    def number(self, name: str, events: NDArray[np.integer]) -> Int64:
        """The number that each event gives under a name, NULL for none."""
        return self._looked_up(self.numbers.get(name), events, NULL)

    def text(self, name: str, events: NDArray[np.integer]) -> Int64:
        """The id in `strings` of what each event gives under a name, -1 for none."""
        return self._looked_up(self.texts.get(name), events, -1)

    def _looked_up(self, values: NDArray[np.integer] | None, events: NDArray[np.integer], absent: int) -> Int64:
        if values is None or len(values) == 0:
            return np.full(len(events), absent, np.int64)
        if len(events) * _FEW < len(self.event):
            index = np.searchsorted(self.event, events.astype(self.event.dtype))
        else:
            # The events of a lane mostly ascend, and looking up ascending ones takes columns as wide as this.
            index = insertion_index(self.event.astype(np.int64), events.astype(np.int64))
        np.minimum(index, len(self.event) - 1, out=index)
        return np.where(self.event[index] == events, values[index], absent).astype(np.int64)
