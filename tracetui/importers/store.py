"""Gives the bytes of an event back after loading.

A plain file is read again at the block's offset; what came through gzip, zstd or a pipe is kept as compressed
blocks (about a fifteenth of its size), so that no second pass and no temporary file is needed. Only the blocks
that hold the wanted events are decoded, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.errors import TraceError
from tracetui.importers.decode import decode_objects

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands in the unwrapped stream."""

    offset: int
    length: int
    is_tolerant: bool


class BlockBytes(Protocol):
    """Keeps blocks, or knows where to find them."""

    def add(self, place: Place, data: bytes) -> None:
        """Take note of one more block."""
        ...

    def read(self, number: int, place: Place) -> bytes:
        """The bytes of a block as they were decoded."""
        ...


class FileBlocks:
    """Reads blocks from the file again, as long as it is the same file.

    Reading raises TraceError when the file has changed or gone.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def add(self, place: Place, data: bytes) -> None:
        """Nothing to keep: the file has it."""

    def read(self, number: int, place: Place) -> bytes:
        """The bytes of a block as they were decoded."""
        try:
            if _identity(self._path) != self._identity:
                raise TraceError(f"{self._path} has changed since it was opened: open it again to see arguments.")
            with open(self._path, "rb") as file:
                data = bytearray(os.pread(file.fileno(), place.length, place.offset))
        except OSError as error:
            raise TraceError(f"{self._path} cannot be read any more: {error.strerror}.") from error
        if not place.is_tolerant:
            # The cut replaced the separators around the block by brackets.
            data[:1], data[-1:] = b"[", b"]"
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

    def add(self, place: Place, data: bytes) -> None:
        """Compress and keep a block."""
        self._blocks.append(self._compress(data))

    def read(self, number: int, place: Place) -> bytes:
        """The bytes of a block as they were decoded."""
        return self._decompressor().decompress(self._blocks[number], max_output_size=place.length)


def _identity(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


class Store:
    """The events of a file by number; the importer's `EventStore`."""

    def __init__(self, blocks: BlockBytes) -> None:
        self._blocks = blocks
        self._places: list[Place] = []
        self._firsts: list[int] = []
        self._recent: tuple[int, list[dict[str, Any]]] | None = None
        self._begins = self._ends = np.empty(0, np.int64)

    def add(self, place: Place, data: bytes, first_event: int) -> None:
        """Take note of a block and of the number of its first event."""
        self._blocks.add(place, data)
        self._places.append(place)
        self._firsts.append(first_event)

    def join_ends(self, begins: Int64, ends: Int64) -> None:
        """Let the event that begins a slice carry the arguments of the one that ends it; `begins` ascends."""
        self._begins, self._ends = begins, ends

    def event(self, index: int) -> dict[str, Any]:
        """One event in full; a begin has the arguments of its end as well.

        Raises: TraceError when the file has changed since it was read.
        """
        event = self._one(index)
        place = int(np.searchsorted(self._begins, index))
        if place < len(self._begins) and self._begins[place] == index:
            more = self._one(int(self._ends[place])).get("args")
            args = event.get("args")
            if isinstance(more, dict):
                event = event | {"args": (args if isinstance(args, dict) else {}) | more}
        return event

    def _one(self, index: int) -> dict[str, Any]:
        number = int(np.searchsorted(self._firsts, index, side="right")) - 1
        if self._recent is None or self._recent[0] != number:
            data = self._blocks.read(number, self._places[number])
            self._recent = (number, decode_objects(data, self._places[number].is_tolerant))
        events = self._recent[1]
        place = index - self._firsts[number]
        return events[place] if place < len(events) else {}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many events, None where an event has no such key."""
        result: list[list[Any]] = [[None] * len(indices) for _ in keys]
        order = np.argsort(indices, kind="stable")
        numbers = np.searchsorted(self._firsts, indices[order], side="right") - 1
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        decoder = _args_decoder(keys)
        for wanted in np.split(order, cuts) if len(order) else []:
            number = int(np.searchsorted(self._firsts, indices[wanted[0]], side="right")) - 1
            rows = self._args_of_block(number, decoder, keys)
            first = self._firsts[number]
            for target, place in zip(wanted.tolist(), (indices[wanted] - first).tolist(), strict=True):
                for column, value in zip(result, rows[place], strict=True):
                    column[target] = value
        return result

    def _args_of_block(
        self, number: int, decoder: msgspec.json.Decoder[Any], keys: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        place = self._places[number]
        data = self._blocks.read(number, place)
        if not place.is_tolerant:
            try:
                names = _fields(keys)
                nothing = (None,) * len(keys)
                return [
                    nothing if event.args is None else tuple([getattr(event.args, name) for name in names])
                    for event in decoder.decode(data)
                ]
            except (msgspec.MsgspecError, UnicodeDecodeError):
                pass
        events = decode_objects(data, place.is_tolerant)
        bags = [event["args"] if isinstance(event.get("args"), dict) else {} for event in events]
        return [tuple(bag.get(key) for key in keys) for bag in bags]


def _fields(keys: Sequence[str]) -> list[str]:
    return [f"field_{number}" for number in range(len(keys))]


def _args_decoder(keys: Sequence[str]) -> msgspec.json.Decoder[Any]:
    """A decoder that builds nothing but the wanted arguments."""
    fields = [(name, Any, msgspec.field(name=key, default=None)) for name, key in zip(_fields(keys), keys, strict=True)]
    args = msgspec.defstruct("WantedArgs", fields, gc=False)
    event = msgspec.defstruct("WantedEvent", [("args", args | None, None)], gc=False)
    return msgspec.json.Decoder(list[event])  # type: ignore[valid-type]
