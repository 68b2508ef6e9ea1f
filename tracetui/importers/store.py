"""Gives the bytes of an event back after loading.

A plain file is read again at the block's offset; what came through gzip, zstd or a pipe is kept as compressed
blocks (about a fifteenth of its size), so that no second pass and no temporary file is needed. Only the blocks
that hold the wanted events are decoded, one at a time.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

import msgspec
import numpy as np

from tracetui.errors import TraceError
from tracetui.importers.decode import decode_objects, decode_raw
from tracetui.importers.garbage import collector_off
from tracetui.importers.oddities import Found, Oddity
from tracetui.model.intervals import Bool, Int64


@dataclass(frozen=True, slots=True)
class BlockLocation:
    """Where a block stands in the unwrapped stream."""

    offset: int
    length: int
    is_tolerant: bool
    has_bracket: bool = True
    """Whether a bracket was put on its first byte, or stood there."""


@dataclass(frozen=True)
class Container:
    """What stands around the events of a file."""

    kind: str = "array"
    """`object`, `array` or `lines`."""
    header: bytes = b""
    """Everything in front of the array's bracket."""
    trailer: bytes = b""
    """Everything behind the array."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The top-level keys other than the events, as far as they could be read."""
    is_closed: bool = True
    """Whether the file goes on to the end of the array, and of the object around it."""
    oddities: tuple[Found, ...] = ()
    """What stands beside the events and in a whole trace would not, in the order of the file."""
    odd_counts: Mapping[Oddity, int] = field(default_factory=dict)
    """How many of each there are; `oddities` are the first ones."""


class BlockBytes(Protocol):
    """Keeps blocks, or knows where to find them."""

    def add(self, location: BlockLocation, data: bytes) -> None:
        """Take note of one more block."""
        ...

    def read(self, number: int, location: BlockLocation) -> bytes:
        """The bytes of a block as they were decoded."""
        ...


class FileBlocks:
    """Reads blocks from the file again, as long as it is the same file.

    Reading raises TraceError when the file has changed or gone.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def add(self, location: BlockLocation, data: bytes) -> None:
        """Nothing to keep: the file has it."""

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
    """Keeps blocks compressed in memory."""

    def __init__(self) -> None:
        # 10 ms of import that plain files do not pay.
        import zstandard

        self._compress = zstandard.ZstdCompressor(level=1).compress
        # One for each read: a decompressor cannot be shared by threads, and it costs microseconds.
        self._decompressor = zstandard.ZstdDecompressor
        self._blocks: list[bytes] = []

    def add(self, location: BlockLocation, data: bytes) -> None:
        """Compress and keep a block."""
        self._blocks.append(self._compress(data))

    def read(self, number: int, location: BlockLocation) -> bytes:
        """The bytes of a block as they were decoded."""
        return self._decompressor().decompress(self._blocks[number], max_output_size=location.length)


def _identity(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


class Store:
    """The events of a file by number; the importer's `EventStore`."""

    def __init__(self, blocks: BlockBytes) -> None:
        self._blocks = blocks
        self._locations: list[BlockLocation] = []
        self._firsts: list[int] = []
        self._recent: tuple[int, list[dict[str, Any]]] | None = None
        self._begins = self._ends = np.empty(0, np.int64)
        self.container = Container()
        """What stood around the events."""

    def add(self, location: BlockLocation, data: bytes, first_event: int) -> None:
        """Take note of a block and of the number of its first event."""
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
        if self._recent is None or self._recent[0] != number:
            data = self._blocks.read(number, self._locations[number])
            self._recent = (number, decode_objects(data, self._locations[number].is_tolerant))
        events = self._recent[1]
        row = index - self._firsts[number]
        return events[row] if row < len(events) else {}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many events, None where an event has no such key."""
        order = np.argsort(indices, kind="stable")
        sought = indices[order]
        numbers = np.searchsorted(self._firsts, sought, side="right") - 1
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        decoder = _args_decoder(keys)
        found: list[list[Any]] = [[] for _ in keys]
        with collector_off():
            for indices_of_block in np.split(sought, cuts) if len(sought) else []:
                number = bisect_right(self._firsts, int(indices_of_block[0])) - 1
                wanted = (indices_of_block - self._firsts[number]).tolist()
                for column, values in zip(found, self._args_of_block(number, wanted, decoder, keys), strict=True):
                    column.extend(values)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        ascending = bool((order[1:] > order[:-1]).all())
        return found if ascending else [[column[index] for index in back.tolist()] for column in found]

    def _args_of_block(
        self, number: int, wanted: list[int], decoder: msgspec.json.Decoder[Any], keys: Sequence[str]
    ) -> list[list[Any]]:
        """For each key the values of the events at the wanted rows of a block."""
        location = self._locations[number]
        data = self._blocks.read(number, location)
        if not location.is_tolerant:
            try:
                events = decoder.decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                pass
            else:
                bags = [events[row].args for row in wanted]
                return [list(map(attrgetter(name), bags)) for name in _fields(keys)]
        objects = decode_objects(data, location.is_tolerant)
        loose = [objects[row].get("args") for row in wanted]
        return [[bag.get(key) if isinstance(bag, dict) else None for bag in loose] for key in keys]


def _fields(keys: Sequence[str]) -> list[str]:
    return [f"field_{number}" for number in range(len(keys))]


def _args_decoder(keys: Sequence[str]) -> msgspec.json.Decoder[Any]:
    """A decoder that builds nothing but the wanted arguments."""
    fields = [(name, Any, msgspec.field(name=key, default=None)) for name, key in zip(_fields(keys), keys, strict=True)]
    args = msgspec.defstruct("WantedArgs", fields, gc=False, frozen=True)
    event = msgspec.defstruct("WantedEvent", [("args", args, args())], gc=False)
    return msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
