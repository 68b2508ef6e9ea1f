"""Packets that a writer packed into one, with zlib or zstd, and the limits of what they may grow to.

A stream that is damaged gives what stands before the damage. What grows beyond all measure ends the reading of packed
packets; the others are read on.
"""

from __future__ import annotations

import io
import zlib

from tracetui.reading.source import MOST_INFLATED

ZLIB_PACKETS, ZSTD_PACKETS = 50, 133
"""Fields of packets that hold packed ones."""
HARMLESS = 1 << 24
"""Bytes of unpacked packets up to which their number is not compared with that of the packed ones."""
MAX_UNPACKED = 1 << 23
"""Bytes that one packet of packed ones may hold; writers pack less than a megabyte at a time."""
_FEED = 1 << 14
_NEVER_LARGER = 1 << 12
"""Packed bytes below which the size of a file says nothing about a bomb."""


class PacketUnpacker:
    """Unpacks packed packets one after the other and counts what was wrong with them."""

    def __init__(self) -> None:
        self.damaged = 0
        """Packets whose content could not be unpacked to its end."""
        self.bomb = ""
        """Why no more is unpacked, as the end of a sentence; empty where nothing forbids it."""
        self._packed = self._unpacked = 0

    def unpack(self, field: int, packed: bytes) -> bytes:
        """The packets in the content of a field, as far as they can be read; nothing where the limits are passed."""
        if self.bomb:
            self.damaged += 1
            return b""
        out, is_whole = _inflated(packed) if field == ZLIB_PACKETS else _zstd_unpacked(packed)
        self._packed += len(packed)
        self._unpacked += len(out)
        if len(out) > MAX_UNPACKED:
            self._refuse(f"a packet of {len(packed):,} bytes unpacks to more than {MAX_UNPACKED:,}")
        elif self._unpacked > HARMLESS and self._unpacked > MOST_INFLATED * max(self._packed, _NEVER_LARGER):
            self._refuse(f"{self._packed:,} bytes of packed packets unpack to more than {self._unpacked:,}")
        if self.bomb:
            return b""
        self.damaged += not is_whole
        return out

    def _refuse(self, reason: str) -> None:
        self.bomb = f"{reason}, as in no trace"
        self.damaged += 1


def _inflated(packed: bytes) -> tuple[bytes, bool]:
    """What a zlib stream holds, and whether it is whole; no more than one byte beyond the limit."""
    inflate = zlib.decompressobj()
    out = bytearray()
    try:
        for index in range(0, len(packed), _FEED):
            out += inflate.decompress(packed[index : index + _FEED], MAX_UNPACKED + 1 - len(out))
            if len(out) > MAX_UNPACKED or inflate.eof:
                break
    except zlib.error:
        return bytes(out), False
    return bytes(out), inflate.eof


def _zstd_unpacked(packed: bytes) -> tuple[bytes, bool]:
    """The same of a zstd frame."""
    # 10 ms of import that only files with such packets pay.
    import zstandard

    out = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_size=_FEED) as reader:
            while len(out) <= MAX_UNPACKED:
                piece = reader.read(min(1 << 20, MAX_UNPACKED + 1 - len(out)))
                if not piece:
                    return bytes(out), _is_whole_frame(packed, len(out))
                out += piece
    except zstandard.ZstdError:
        return bytes(out), False
    return bytes(out), True


def _is_whole_frame(packed: bytes, size: int) -> bool:
    """Whether a frame that gave so many bytes came to its end, as far as its header tells."""
    import zstandard

    try:
        content = zstandard.frame_content_size(packed)
    except zstandard.ZstdError:
        return False
    return content in (-1, size)
