"""A memory snapshot, read from its pickle into columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tracetui.errors import NotATrace, NotEnoughMemory
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import (
    ACTIONS,
    ACTIVE,
    Action,
    Annotations,
    Blocks,
    Int32,
    MemorySnapshot,
    Segments,
    SnapshotEvents,
    Stacks,
)
from tracetui.model.table import Strings
from tracetui.reading.load_progress import LoadProgress, collector_off, not_enough_memory
from tracetui.reading.other_files import PROBED_BYTES, is_snapshot
from tracetui.reading.snapshot_pickle import FrameReference, Items, PickleMachine, RowKind, StackReference
from tracetui.reading.source import open_source

MAX_BYTES = 1 << 44
"""Bytes of a block or segment; more are a mistake."""
MAX_DEVICES = 1024
_NO_CONTEXT = ("", "N/A")


def load_snapshot(
    path: str,
    progress: Callable[[LoadProgress], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> MemorySnapshot:
    """Read a snapshot, plain or packed, from a file or from standard input for `-`.

    Raises: NotFound; NotATrace for what is none, is cut off, or holds more than plain data; NotEnoughMemory; Stopped.
    """
    source = open_source(path, cancelled, takes=is_snapshot)
    rows = _Rows(source.label)

    def tell(done: int) -> bool:
        progress(LoadProgress(done, source.size, rows.events.number, "reading"))
        return cancelled()

    try:
        if not is_snapshot(source.peek(PROBED_BYTES)):
            raise NotATrace(
                f"{source.label} is no memory snapshot, which torch.cuda.memory._dump_snapshot writes; of a trace "
                "`tracetui show memory` has the allocator's events."
            )
        with collector_off():
            machine = PickleMachine(source, rows, tell)
            rows.settle = machine.settle
            machine.run()
            return rows.snapshot(source.path, source.size or source.consumed)
    except MemoryError as error:
        raise error if isinstance(error, NotEnoughMemory) else not_enough_memory(source.label) from error
    finally:
        source.close()


class _Rows:
    """The rows of a snapshot while it is read."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.settle: Callable[[object, object], None] = lambda items, stands: None
        self.events, self._blocks, self._segments, self._annotations = (RowKind(0) for _ in range(4))
        self._texts = Strings()
        self._action = array("B")
        # Address, size, stream and time of events; address, size, requested size and segment of blocks.
        self._event_numbers = tuple(array("q") for _ in range(4))
        self._event_ids = tuple(array("i") for _ in range(3))
        self._device_free: dict[int, int] = {}
        self._block_numbers = tuple(array("q") for _ in range(4))
        self._block_state = array("b")
        self._block_stack = array("i")
        self._segment_numbers = tuple(array("q") for _ in range(4))
        self._segment_flags = array("b")
        self._annotation_columns = array("i"), array("b"), array("q")
        self._frames: dict[tuple[str, str, int], FrameReference] = {}
        self._stacks: dict[bytes, StackReference] = {b"": StackReference(0)}
        self._top: dict[str, Any] | None = None

    # What the machine calls

    def complete(self, values: dict[str, Any]) -> object:
        """Take a dictionary that is complete; returns what stands for it."""
        if "action" in values:
            return self._event(values)
        if "filename" in values and "line" in values:
            return self._frame(values)
        if "blocks" in values and "total_size" in values:
            return self._segment(values)
        if "state" in values and "size" in values:
            return self._block(values)
        if "real_size" in values:
            # Of old versions: the stack and the requested size of the block that it stands in.
            return self._stack(values.get("frames")), self._bytes(values, "real_size")
        if "stage" in values and "name" in values:
            return self._annotation(values)
        if "segments" in values:
            self._top = values
        conf = values.get("PYTORCH_CUDA_ALLOC_CONF")
        return conf if type(conf) is str else None

    def stack_of(self, frames: list[Any]) -> StackReference | None:
        """The stack of some frames, the innermost first; None where something else is among them."""
        if not all(type(frame) is FrameReference for frame in frames):
            return None
        key = array("i", [frame.number for frame in frames]).tobytes()
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = StackReference(len(self._stacks))
        return stack

    # Rows

    def _event(self, values: dict[str, Any]) -> RowKind:
        action = ACTIONS.get(values["action"], Action.OTHER) if type(values["action"]) is str else Action.OTHER
        self._action.append(action)
        address, size, stream, time = self._event_numbers
        # An OOM has no address, and old versions no time.
        address.append(self._number(values, "addr"))
        size.append(self._bytes(values, "size"))
        stream.append(self._number(values, "stream"))
        time.append(self._number(values, "time_us"))
        stack, context, metadata = self._event_ids
        stack.append(self._stack(values.get("frames")))
        context.append(self._word(values.get("compile_context")))
        metadata.append(self._word(values.get("user_metadata")))
        if action is Action.OOM:
            self._device_free[self.events.number] = self._bytes(values, "device_free")
        self.events.number += 1
        return self.events

    def _frame(self, values: dict[str, Any]) -> FrameReference:
        name, file, line = values.get("name"), values["filename"], values["line"]
        key = (
            name if type(name) is str else "",
            file if type(file) is str else "",
            line if type(line) is int and 0 <= line < 1 << 31 else 0,
        )
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = FrameReference(len(self._frames))
        return frame

    def _block(self, values: dict[str, Any]) -> RowKind:
        history = values.get("history")
        # The newest is the first.
        old = history.values[0] if isinstance(history, Items) and history.values else None
        stack, real_size = old if isinstance(old, tuple) and len(old) == 2 else (None, None)
        self.settle(history, None)
        address, size, requested, segment = self._block_numbers
        address.append(self._number(values, "address", -1))
        size.append(self._bytes(values, "size"))
        requested.append(self._bytes(values, "requested_size") if real_size is None else real_size)
        segment.append(-1)
        self._block_state.append(ACTIVE.index(values["state"]) if values["state"] in ACTIVE else -1)
        self._block_stack.append(self._stack(values.get("frames")) if stack is None else stack)
        self._blocks.number += 1
        return self._blocks

    def _segment(self, values: dict[str, Any]) -> RowKind:
        blocks = values["blocks"]
        first, count = self._claimed(blocks, self._blocks)
        at = self._number(values, "address")
        addresses, sizes, _, segment = self._block_numbers
        for row in range(first, first + count):
            segment[row] = self._segments.number
            if addresses[row] < 0:
                addresses[row] = at
            at = addresses[row] + sizes[row]
        self.settle(blocks, None)
        device, address, size, stream = self._segment_numbers
        number = self._number(values, "device")
        if not 0 <= number < MAX_DEVICES:
            raise NotATrace(f"{self._label} names a device {number}: it is no memory snapshot that can be read.")
        device.append(number)
        address.append(self._number(values, "address"))
        size.append(self._bytes(values, "total_size"))
        stream.append(self._number(values, "stream"))
        is_expandable = values.get("is_expandable") is True
        self._segment_flags.append((values.get("segment_type") == "large") + 2 * is_expandable)
        self._segments.number += 1
        return self._segments

    def _annotation(self, values: dict[str, Any]) -> RowKind:
        name, is_start, time = self._annotation_columns
        name.append(self._word(values["name"]))
        is_start.append(values["stage"] == "START")
        time.append(self._number(values, "time_us"))
        self._annotations.number += 1
        return self._annotations

    # Values of fields

    def _number(self, values: dict[str, Any], name: str, absent: int = 0) -> int:
        value = values.get(name, absent)
        return value if type(value) is int and -(1 << 62) < value < 1 << 62 else absent

    def _bytes(self, values: dict[str, Any], name: str) -> int:
        value = self._number(values, name)
        if not 0 <= value <= MAX_BYTES:
            raise NotATrace(
                f"{self._label} holds a size of {value:,} bytes: it is no memory snapshot that can be read."
            )
        return value

    def _word(self, value: object) -> int:
        return self._texts.intern(value) if type(value) is str and value not in _NO_CONTEXT else -1

    def _stack(self, frames: object) -> int:
        if isinstance(frames, Items):
            stack = self.stack_of(frames.values) or self._stacks[b""]
            self.settle(frames, stack)
            return stack.number
        return frames.number if isinstance(frames, StackReference) else 0

    @staticmethod
    def _claimed(items: object, kind: RowKind) -> tuple[int, int]:
        """First row and number of rows of a kind in a list."""
        if isinstance(items, Items) and items.kind is kind:
            return items.first, items.count
        return kind.number, 0

    # All of it

    def snapshot(self, path: str | None, size_bytes: int) -> MemorySnapshot:
        """The columns.

        Raises: NotATrace where there is nothing in them.
        """
        top = self._top
        if top is None or not isinstance(top.get("segments"), Items):
            raise NotATrace(f"{self._label} holds no segments of an allocator: it is no memory snapshot of PyTorch.")
        traces = top.get("device_traces")
        lists = traces.values[:MAX_DEVICES] if isinstance(traces, Items) else []
        claimed = [self._claimed(items, self.events) for items in lists]
        first = np.array([0, *np.cumsum([count for _, count in claimed])], np.int64)
        starts = [start for start, count in claimed if count]
        if first[-1] != self.events.number or any(a >= b for a, b in pairwise(starts)):
            raise NotATrace(f"{self._label} holds events that belong to no device: it is no memory snapshot.")
        settings = top.get("allocator_settings")
        action, flags = np.array(self._action, np.uint8), np.array(self._segment_flags, np.int8)
        event_address, event_size, event_stream, event_time = map(_column, self._event_numbers)
        stack, context, metadata = map(_ids, self._event_ids)
        device, address, size, stream = map(_column, self._segment_numbers)
        name, is_start, time = self._annotation_columns
        return MemorySnapshot(
            self._label,
            path,
            size_bytes,
            SnapshotEvents(
                action,
                event_address,
                event_size,
                event_stream,
                event_time,
                stack,
                context,
                metadata,
                first,
                self._device_free,
            ),
            Segments(device, address, size, stream, (flags & 1).astype(bool), (flags & 2).astype(bool)),
            self._all_blocks(),
            Annotations(_ids(name), np.array(is_start, bool), _column(time)),
            self._all_stacks(),
            self._texts,
            settings if isinstance(settings, str) else "",
        )

    def _all_blocks(self) -> Blocks:
        """The blocks of the segments; others that a file may hold are nowhere."""
        address, size, requested, segment = map(_column, self._block_numbers)
        mine, state = segment >= 0, np.array(self._block_state, np.int8)
        stack = _ids(self._block_stack)[mine]
        address, size, requested, segment = address[mine], size[mine], requested[mine], segment[mine]
        return Blocks(segment, address, size, requested, (state >= 0)[mine], (state > 0)[mine], stack)

    def _all_stacks(self) -> Stacks:
        lengths = [len(key) // 4 for key in self._stacks]
        frames = np.frombuffer(b"".join(self._stacks), np.int32)
        function = np.array([self._texts.intern(name) for name, _, _ in self._frames], np.int32)
        file = np.array([self._texts.intern(name) for _, name, _ in self._frames], np.int32)
        line = np.array([line for _, _, line in self._frames], np.int64)
        return Stacks(np.array([0, *np.cumsum(lengths)], np.int64), frames, function, file, line)


def _column(numbers: array[int]) -> Int64:
    return np.array(numbers, np.int64)


def _ids(numbers: array[int]) -> Int32:
    return np.array(numbers, np.int32)
