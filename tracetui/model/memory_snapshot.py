"""A memory snapshot of PyTorch as columns: the allocator's history, and its segments and blocks at the end.

`torch.cuda.memory._dump_snapshot` writes it. Sizes are bytes. Sizes in the history are as they were requested; those of
blocks are rounded up by the allocator, and their sum is what the devices held when the snapshot was made.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL, Strings

Int32 = NDArray[np.int32]


class Action(IntEnum):
    """The kinds of events in the allocator's history."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    SNAPSHOT = 7
    OOM = 8
    OTHER = 9


ACTIONS = {action.name.lower(): action for action in Action}
"""The kinds of events by their names in the file."""
ACTIVE = ("active_allocated", "active_awaiting_free", "active_pending_free")
"""States of a block that is not free: in use, or requested to be freed and not completed."""


@frozen
class SnapshotEvents(Parallel):
    """The history of all devices, device by device, each in order of time."""

    action: NDArray[np.uint8]
    address: Int64
    size: Int64
    stream: Int64
    time_us: Int64
    """Wall clock in microseconds; 0 where the file has none."""
    stack: Int32
    """Number of the stack, 0 for none."""
    context: Int32
    """The compile id (`0/1`) in `texts`, -1 for none."""
    metadata: Int32
    """The user's metadata in `texts`, -1 for none."""
    first: Int64
    """First event of each device, and behind them their number."""
    device_free: dict[int, int]
    """Bytes that the device had free, by the row of an OOM."""


@frozen
class Segments:
    """Memory that the allocator had reserved at the end."""

    device: Int64
    address: Int64
    size: Int64
    stream: Int64
    is_large: NDArray[np.bool_]
    is_expandable: NDArray[np.bool_]


@frozen
class Blocks:
    """The parts of the segments at the end, in order of address in each segment."""

    segment: Int64
    address: Int64
    size: Int64
    requested: Int64
    is_active: NDArray[np.bool_]
    """False for one that is free."""
    is_pending: NDArray[np.bool_]
    """True for one that was requested to be freed, and was not yet."""
    stack: Int32


@frozen
class Annotations:
    """Moments at which ranges that the program named begin and end."""

    name: Int32
    is_start: NDArray[np.bool_]
    time_us: Int64


@frozen
class Stacks:
    """Stacks of frames, the innermost frame first; stack 0 has none."""

    first: Int64
    """First index of each stack in `frames`, and behind them their number."""
    frames: Int32
    function: Int32
    """Name of the function of each frame, in `texts`."""
    file: Int32
    line: Int64

    def of(self, stack: int) -> list[int]:
        """The frames of a stack."""
        return self.frames[self.first[stack] : self.first[stack + 1]].tolist()  # type: ignore[no-any-return]


@frozen
class MemorySnapshot:
    """A snapshot as it was read."""

    label: str
    """The file's name."""
    path: str | None
    size_bytes: int
    events: SnapshotEvents
    segments: Segments
    blocks: Blocks
    annotations: Annotations
    stacks: Stacks
    texts: Strings
    settings: str = ""
    """`PYTORCH_CUDA_ALLOC_CONF` as the program had it."""
    kept: dict[object, object] = field(default_factory=dict)
    """Results that are computed once, by what asks for them."""

    @property
    def device_count(self) -> int:
        """The number of devices, of which some may hold nothing."""
        return max(len(self.events.first) - 1, int(self.segments.device.max(initial=-1)) + 1)

    def events_of(self, device: int) -> slice:
        """The rows of the history of a device."""
        first = self.events.first
        return slice(int(first[device]), int(first[device + 1])) if device < len(first) - 1 else slice(0, 0)

    def text(self, number: int) -> str | None:
        """A text by its number, None for -1."""
        return self.texts[number] if number >= 0 else None


UNKNOWN = NULL
"""A number that the file does not hold."""
