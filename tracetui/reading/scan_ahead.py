"""Reads a source by chunks of several blocks, cut where reading block by block would cut it at its first attempt.

A cut is not checked here: what lies between two is a block if it can be read. Where that fails, everything from there
on is given back, so that the reading block by block goes on as if there had been no chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from threading import Condition, Lock, Thread

import numpy as np

from tracetui.reading.file_layout import Separators
from tracetui.reading.scanner.scanned_events import ScannedBlocks
from tracetui.reading.scanner.scanner import ScannedColumns, Scanner, TextNumbers, scanner_library
from tracetui.reading.source import Source

BLOCKS = 4
"""Blocks of the usual size that a chunk has room for."""
MAX_BLOCKS = 16
"""Maximum blocks of a chunk, where cuts stand close together."""


@dataclass(slots=True)
class Chunk:
    """Some consecutive blocks and where they stand."""

    data: bytearray
    offset: int
    """Of the first byte of `data` in the unwrapped stream."""
    bounds: list[int]
    """Indices of the commas between which the blocks lie, as brackets of both."""
    separators: list[bytes]
    """The usual separator as it was when each block began."""

    def block(self, index: int) -> bytes:
        """The bytes of a block, between brackets."""
        with memoryview(self.data) as view:
            return b"".join((b"[", view[self.bounds[index] + 1 : self.bounds[index + 1]], b"]"))

    def since(self, index: int) -> bytes:
        """The bytes from the beginning of a block to the end of the last one."""
        return bytes(self.data[self.bounds[index] : self.bounds[-1]])


class ChunkReader:
    """Cuts what is left of a source into chunks, one after the other."""

    def __init__(self, source: Source, separators: Separators, begun: bytes, offset: int, block: int) -> None:
        self._source = source
        self._separators = separators
        self.rest = begun
        """The bytes that were read and stand in no chunk yet; the first one is the comma before an event."""
        self.offset = offset
        """Of the first of these in the unwrapped stream."""
        self._block = block

    @property
    def size(self) -> int:
        """Bytes of the buffer that a chunk takes."""
        return BLOCKS * self._block

    def read(self, buffer: bytearray) -> Chunk | None:
        """The next chunk, in a buffer of `size`; None where what is left is to be read block by block.

        Raises: NotFound where the file cannot be read.
        """
        fill = len(self.rest)
        buffer[:fill] = self.rest
        with memoryview(buffer) as view:
            while fill < len(view) and (count := self._source.readinto(view[fill:], is_beside=True)):
                fill += count
        chunk = Chunk(buffer, self.offset, [0], [])
        begin = 0
        while begin + self._block <= fill and len(chunk.separators) < MAX_BLOCKS:
            separator = self._separators.usual
            comma = next(self._separators.commas(buffer, begin, begin + self._block), None)
            if comma is None:
                break
            chunk.bounds.append(comma)
            chunk.separators.append(separator)
            begin = comma
        self.rest = bytes(buffer[begin:fill])
        self.offset += begin
        return chunk if chunk.separators else None


# Scans the chunks of a file, in threads where there are cores for them, and gives them in the order of the file.
#
# Each thread has a scanner of its own and takes the next chunk when it is done with one; a bounded number is read
# before they are asked for. The GIL is free while a chunk is read, inflated and scanned: one thread inflates while
# others scan.

EXTRA_BUFFERS = 2
"""Chunks beyond one for each thread that are in memory."""
BYTES_PER_EVENT, MIN_EVENTS = 64, 1 << 10
"""A chunk with more events than one for so many bytes, and than so many, is read block by block where its room ends."""
POLL_SECONDS = 0.2
"""Seconds of waiting for a chunk between two looks at whether it is still wanted."""
MIN_CHUNKS = 4
"""Chunks that are left to read below which threads are not worth their while."""


@dataclass(slots=True)
class ScannedChunk:
    """A chunk and its first blocks as columns; those behind them are to be read in another way."""

    index: int
    """Index of the chunk."""
    chunk: Chunk
    scanned: ScannedBlocks | None
    """None where there is not one block."""
    count: int
    """Blocks that were scanned."""


@dataclass(slots=True)
class ChunkBuffer:
    """Buffers for one chunk at a time, which are used again and again."""

    buffer: bytearray
    columns: ScannedColumns


class _ChunkScanner:
    """Scans the chunks of one thread."""

    def __init__(self) -> None:
        library = scanner_library()
        assert library is not None
        self._scanner = Scanner(library)
        self._numbers = TextNumbers()

    def scan(self, index: int, chunk: Chunk, columns: ScannedColumns) -> ScannedChunk:
        """The blocks of a chunk up to the first one that is not plain."""
        columns.clear()
        count = self._scanner.scan_all(chunk.data, np.array(chunk.bounds, np.int64), columns)
        if not count:
            return ScannedChunk(index, chunk, None, 0)
        texts = self._scanner.new_texts()
        bounds = chunk.bounds[: count + 1]
        scanned = ScannedBlocks(columns, chunk.data, bounds, chunk.offset, texts, self._numbers)
        return ScannedChunk(index, chunk, scanned, count)


class ScanAhead:
    """The chunks of a reader, scanned; each is valid until the next one is asked for.

    `check` is called while a chunk is waited for; what it raises ends the wait. `close` ends the threads.
    """

    def __init__(self, chunks: ChunkReader, threads: int, check: Callable[[], None]) -> None:
        self._chunks, self._check = chunks, check
        size = chunks.size
        rooms = threads + EXTRA_BUFFERS if threads > 1 else 1
        self._free = [
            ChunkBuffer(bytearray(size), ScannedColumns(max(size // BYTES_PER_EVENT, MIN_EVENTS), MAX_BLOCKS))
            for _ in range(rooms)
        ]
        self._reading, self._changed = Lock(), Condition()
        self._begun: dict[int, Chunk] = {}
        self._done: dict[int, tuple[ScannedChunk, ChunkBuffer]] = {}
        self._failures: dict[int, BaseException] = {}
        """Errors by the index of the chunk."""
        self._count = 0
        """Chunks that were read."""
        self._has_ended = False
        """True if no further chunk is read."""
        self._threads = [
            Thread(target=self._work, name=f"tracetui-scan-{number}", daemon=True)
            for number in range(threads if threads > 1 else 0)
        ]
        for number, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:
                # There is no memory for its stack; those before it do the work, or the error is told.
                self._threads = self._threads[:number]
                if not number:
                    raise
                break

    def __iter__(self) -> Iterator[ScannedChunk]:
        return self._in_order() if self._threads else self._one_by_one()

    def close(self) -> None:
        """End the threads, each after the chunk that it is at."""
        with self._changed:
            self._has_ended = True
            self._free.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def bytes_since(self, scanned: ScannedChunk, block: int) -> bytes:
        """All that was read from a block of the present chunk on, once the threads have ended."""
        later = [self._begun[index].since(0) for index in sorted(self._begun) if index > scanned.index]
        return b"".join((scanned.chunk.since(block), *later, self._chunks.rest))

    def _one_by_one(self) -> Iterator[ScannedChunk]:
        scanner, room = _ChunkScanner(), self._free[0]
        while (chunk := self._chunks.read(room.buffer)) is not None:
            yield scanner.scan(self._count, chunk, room.columns)
            self._count += 1

    def _in_order(self) -> Iterator[ScannedChunk]:
        for index in count():
            if not self._has_come(index):
                return
            scanned, room = self._done.pop(index)
            yield scanned
            with self._changed:
                del self._begun[index]
                if not self._has_ended:
                    self._free.append(room)
                    self._changed.notify_all()

    def _has_come(self, index: int) -> bool:
        """Wait for a chunk; False where there is none. Raises what went wrong in its thread."""
        while True:
            with self._changed:
                if index in self._done:
                    return True
                is_last = self._has_ended and index >= self._count
                if index in self._failures or (is_last and self._failures):
                    raise self._failures.get(index) or next(iter(self._failures.values()))
                if is_last:
                    return False
                has_changed = self._changed.wait(POLL_SECONDS)
            if not has_changed:
                self._check()

    def _work(self) -> None:
        """Scan chunk after chunk, in a thread."""
        index = -1
        try:
            scanner = _ChunkScanner()
            while (room := self._taken_room()) is not None:
                with self._reading:
                    index = self._count
                    chunk = None if self._has_ended else self._chunks.read(room.buffer)
                    if chunk is None:
                        break
                    self._begun[index] = chunk
                    self._count += 1
                scanned = scanner.scan(index, chunk, room.columns)
                with self._changed:
                    self._done[index] = scanned, room
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failures[index] = error
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _taken_room(self) -> ChunkBuffer | None:
        """Room for a chunk, waited for; None where no further one is read."""
        with self._changed:
            while not self._free and not self._has_ended:
                self._changed.wait()
            return None if self._has_ended else self._free.pop()
