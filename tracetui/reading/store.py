"""Gives the bytes of an event back after loading.

A plain file is read again at the block's offset; what came through gzip, zstd or a pipe is kept as compressed
blocks (about a fifteenth of its size), so that no second pass and no temporary file is needed. Only the blocks
that hold the wanted events are decoded, one at a time.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.errors import TraceError
from tracetui.frozen import frozen
from tracetui.model.intervals import Bool, Int64
from tracetui.reading.decode import EventReader, decode_objects, decode_raw
from tracetui.reading.json_repair import Found, Oddity
from tracetui.reading.load_progress import collector_off

if TYPE_CHECKING:
    from concurrent.futures import Future

MAX_SINGLE_EVENTS = 16
"""Maximum events that are looked up in a block one by one; for more all of its events are decoded."""
MAX_WAITING = 4
"""Maximum blocks that wait for being compressed."""
Packed = bytes | NDArray[np.uint8]
"""A compressed block; an array where it is part of a file that is mapped."""


@frozen(eq=True, slots=True)
class BlockLocation:
    """Position of a block in the unwrapped stream."""

    offset: int
    length: int
    is_tolerant: bool
    has_bracket: bool = True
    """True if a bracket was put on its first byte, or stood there."""


@frozen(eq=True)
class Container:
    """The bytes and keys around the events of a file."""

    kind: str = "array"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the array."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The top-level keys other than the events, as far as they could be read."""
    is_closed: bool = True
    """True if the file goes on to the end of the array, and of the object around it."""
    oddities: tuple[Found, ...] = ()
    """Parts beside the events that a whole trace would not have, in the order of the file."""
    odd_counts: Mapping[Oddity, int] = field(default_factory=dict)
    """Counts of each; `oddities` are the first ones."""


class FileBlocks:
    """Reads blocks from the file again, as long as it is the same file.

    Reading raises TraceError when the file has changed or gone.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def add(self, location: BlockLocation, data: Callable[[], bytes]) -> None:
        """Nothing to keep: the file has it."""

    def finish(self) -> None:
        """Nothing works beside."""

    def read(self, number: int, location: BlockLocation) -> bytes:
        """The bytes of a block as they were decoded."""
        try:
            if _identity(self._path) != self._identity:
                raise TraceError(f"{self._path} has changed since it was opened: open it again to see arguments.")
            with open(self._path, "rb") as file:
                data = bytearray(os.pread(file.fileno(), location.length, location.offset))
        except OSError as error:
            raise TraceError(f"{self._path} cannot be read any more: {error.strerror}.") from error
        # The cut replaced the separators around the block by brackets.
        if location.has_bracket:
            data[:1] = b"["
        if not location.is_tolerant:
            data[-1:] = b"]"
        return bytes(data)


class MemoryBlocks:
    """Keeps blocks compressed in memory; beyond a few, a thread compresses them until `finish`."""

    def __init__(self) -> None:
        # 10 ms of import that plain files do not pay.
        from concurrent.futures import ThreadPoolExecutor

        import zstandard

        self._compress = zstandard.ZstdCompressor(level=1).compress
        # One for each read: a decompressor cannot be shared by threads, and it costs microseconds.
        self._decompressor = zstandard.ZstdDecompressor
        self._pool = ThreadPoolExecutor(1, "tracetui-compress")
        self._waiting: deque[Future[bytes]] = deque()
        self._blocks: list[Packed] = []

    @property
    def compressed(self) -> Sequence[Packed]:
        """The blocks as they are kept."""
        return self._blocks

    @classmethod
    def of(cls, compressed: Sequence[Packed]) -> MemoryBlocks:
        """The same blocks as `compressed` had."""
        blocks = cls()
        blocks._blocks = list(compressed)
        return blocks

    def add(self, location: BlockLocation, data: Callable[[], bytes]) -> None:
        """Compress and keep a block."""
        if len(self._blocks) < MAX_WAITING:
            # A short trace needs no thread.
            self._blocks.append(self._compress(data()))
            return
        self._waiting.append(self._pool.submit(self._compress, data()))
        if len(self._waiting) > MAX_WAITING:
            self._blocks.append(self._waiting.popleft().result())

    def finish(self) -> None:
        """Wait for the blocks that are not compressed yet, and end the thread."""
        self._pool.shutdown()
        self._blocks += [block.result() for block in self._waiting]
        self._waiting.clear()

    def read(self, number: int, location: BlockLocation) -> bytes:
        """The bytes of a block as they were decoded."""
        packed = self._blocks[number]
        data = packed if isinstance(packed, bytes) else packed.data
        return self._decompressor().decompress(data, max_output_size=location.length)


BlockBytes = FileBlocks | MemoryBlocks
"""Keeps blocks, or knows where to find them."""


def _identity(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


@frozen
class StoreParts:
    """The state of a store as columns, so that it can be made again without reading the file."""

    locations: Int64
    """Offset, length, whether it is tolerant and whether it has a bracket, of each block."""
    firsts: Int64
    """Number of the first event of each block."""
    begins: Int64
    ends: Int64
    container: Container
    compressed: Sequence[NDArray[np.uint8]] | None
    """The blocks, compressed; None where the file has them."""


class Store:
    """The events of a file by number; the importer's `EventStore`."""

    def __init__(self, blocks: BlockBytes) -> None:
        self._blocks = blocks
        self._locations: list[BlockLocation] = []
        self._firsts: list[int] = []
        self._recent: tuple[int, EventReader] | None = None
        self._begins = self._ends = np.empty(0, np.int64)
        self.container = Container()
        """The bytes and keys around the events."""

    @property
    def size(self) -> int:
        """Bytes of all blocks, unpacked."""
        return sum(location.length for location in self._locations)

    def parts(self) -> StoreParts:
        """The state of the store as columns."""
        where = [(each.offset, each.length, each.is_tolerant, each.has_bracket) for each in self._locations]
        compressed = self._blocks.compressed if isinstance(self._blocks, MemoryBlocks) else None
        return StoreParts(
            np.array(where, np.int64).reshape(-1, 4),
            np.array(self._firsts, np.int64),
            self._begins,
            self._ends,
            self.container,
            None if compressed is None else [np.frombuffer(each, np.uint8) for each in compressed],
        )

    @classmethod
    def of_parts(cls, parts: StoreParts, path: str) -> Store:
        """The store of which these are the parts, for the same file."""
        store = cls(FileBlocks(path) if parts.compressed is None else MemoryBlocks.of(parts.compressed))
        for offset, length, is_tolerant, has_bracket in parts.locations.tolist():
            store._locations.append(BlockLocation(offset, length, bool(is_tolerant), bool(has_bracket)))
        store._firsts = parts.firsts.tolist()
        store.join_ends(parts.begins, parts.ends)
        store.container = parts.container
        return store

    def add(self, location: BlockLocation, data: Callable[[], bytes], first_event: int) -> None:
        """Take note of a block, of what gives its bytes, and of the number of its first event."""
        self._blocks.add(location, data)
        self._locations.append(location)
        self._firsts.append(first_event)

    def join_ends(self, begins: Int64, ends: Int64) -> None:
        """Let the event that begins a slice carry the arguments of the one that ends it; `begins` ascends."""
        self._begins, self._ends = begins, ends

    @property
    def pairs(self) -> tuple[Int64, Int64]:
        """Numbers of the events that begin slices, ascending, and of those that end them."""
        return self._begins, self._ends

    def raw(self, wanted: Bool) -> Iterator[tuple[int, list[bytes]]]:
        """The events of every block that holds a wanted one: the number of its first event, and the bytes of each.

        `wanted` has an entry for every event of the file. One block is in memory at a time.
        Raises: TraceError when the file has changed since it was read.
        """
        bounds = [*self._firsts, len(wanted)]
        for number, location in enumerate(self._locations):
            first, last = bounds[number], bounds[number + 1]
            if wanted[first:last].any():
                events = decode_raw(self._blocks.read(number, location), location.is_tolerant)
                if len(events) != last - first:
                    raise TraceError("The file's events cannot be read again: open it anew.")
                yield first, events

    def blocks(self) -> Iterator[tuple[BlockLocation, bytes]]:
        """Every block as it was read: where it stands and its bytes.

        Raises: TraceError when the file has changed since it was read.
        """
        for number, location in enumerate(self._locations):
            yield location, self._blocks.read(number, location)

    def event(self, index: int) -> dict[str, Any]:
        """One event in full; a begin has the arguments of its end as well.

        Raises: TraceError when the file has changed since it was read.
        """
        event = self._one(index)
        pair = int(np.searchsorted(self._begins, index))
        if pair < len(self._begins) and self._begins[pair] == index:
            more = self._one(int(self._ends[pair])).get("args")
            args = event.get("args")
            if isinstance(more, dict):
                event = event | {"args": (args if isinstance(args, dict) else {}) | more}
        return event

    def _one(self, index: int) -> dict[str, Any]:
        number = bisect_right(self._firsts, index) - 1
        # Another thread may ask for the event of another block meanwhile.
        recent = self._recent
        if recent is None or recent[0] != number:
            location = self._locations[number]
            recent = self._recent = (number, EventReader(self._blocks.read(number, location), location.is_tolerant))
        return recent[1].event(index - self._firsts[number])

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many events, None where an event has no such key."""
        order = np.argsort(indices, kind="stable")
        sought = indices[order]
        numbers = np.searchsorted(self._firsts, sought, side="right") - 1
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        # A decoder that builds nothing but the wanted arguments, as fields `field_0`, `field_1` and so on.
        fields = [(f"field_{number}", Any, msgspec.field(name=key, default=None)) for number, key in enumerate(keys)]
        args = msgspec.defstruct("WantedArgs", fields, gc=False, frozen=True)
        event = msgspec.defstruct("WantedEvent", [("args", args, args())], gc=False)
        decoder = msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
        columns: list[list[Any]] = [[] for _ in keys]
        with collector_off():
            for indices_of_block in np.split(sought, cuts) if len(sought) else []:
                number = bisect_right(self._firsts, int(indices_of_block[0])) - 1
                wanted = (indices_of_block - self._firsts[number]).tolist()
                for column, values in zip(columns, self._args_of_block(number, wanted, decoder, keys), strict=True):
                    column.extend(values)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        ascending = bool((order[1:] > order[:-1]).all())
        return columns if ascending else [[column[index] for index in back.tolist()] for column in columns]

    def _args_of_block(
        self, number: int, wanted: list[int], decoder: msgspec.json.Decoder[Any], keys: Sequence[str]
    ) -> list[list[Any]]:
        """For each key the values of the events at the wanted rows of a block."""
        location = self._locations[number]
        data = self._blocks.read(number, location)
        if len(wanted) <= MAX_SINGLE_EVENTS:
            reader = EventReader(data, location.is_tolerant)
            return _values_of([reader.event(row).get("args") for row in wanted], keys)
        if not location.is_tolerant:
            try:
                events = decoder.decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                pass
            else:
                bags = [events[row].args for row in wanted]
                return [list(map(attrgetter(f"field_{number}"), bags)) for number in range(len(keys))]
        objects = decode_objects(data, location.is_tolerant)
        return _values_of([objects[row].get("args") for row in wanted], keys)


def _values_of(bags: list[Any], keys: Sequence[str]) -> list[list[Any]]:
    """For each key its value in each bag of args, None where there is none."""
    return [[bag.get(key) if isinstance(bag, dict) else None for bag in bags] for key in keys]
