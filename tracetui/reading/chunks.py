"""Reads a source by chunks of several blocks, cut where reading block by block would cut it at its first attempt.

A cut is not checked here: what lies between two is a block if it can be read. Where that fails, everything from there
on is given back, so that the reading block by block goes on as if there had been no chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.reading.separators import Separators
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
    """What was taken for the usual separator when each block began."""

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
