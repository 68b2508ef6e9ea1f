"""Cuts the bytes of a trace into blocks of whole packets."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.trace import BEGINNING, UNREADABLE
from tracetui.reading.file_layout import FileLayout
from tracetui.reading.perfetto.ftrace import AtraceMarks
from tracetui.reading.perfetto.recognition import FRAME, PROBED_FRAMES, frames_in_a_row
from tracetui.reading.perfetto.wire import SPAN, DamagedMessage, Frames, MessageBytes, fields_of, frame_packets
from tracetui.reading.source import MOST_INFLATED, ByteWindow, Source, Stopped

# Packets that a writer packed into one, with zlib or zstd, and the limits of what they may grow to.
#
# A stream that is damaged gives what stands before the damage. What grows beyond all measure ends the reading of
# packed packets; the others are read on.

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
        """The reason why no more is unpacked, as the end of a sentence; empty where nothing forbids it."""
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
    """The content of a zlib stream, and whether it is whole; no more than one byte beyond the limit."""
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
    """Tell whether a frame that gave so many bytes came to its end, as far as its header tells."""
    import zstandard

    try:
        content = zstandard.frame_content_size(packed)
    except zstandard.ZstdError:
        return False
    return content in (-1, size)


MAX_KEPT_PACKET = 1 << 26
"""Bytes of a single packet beyond which it is passed over."""
MAX_CANDIDATES = 50_000
"""Maximum places behind damage at which packets are looked for."""
UNPACKED_BLOCK = 1 << 22
"""Bytes of unpacked packets after which a block ends."""
BLOCK = 1 << 20
"""Bytes of a block: some 16,000 packets; with more, the columns of a block leave the processor's cache."""
_PACKED_TAGS = ((0x92, 0x03), (0xAA, 0x08))
"""The two bytes with which the fields of packed packets begin."""


@frozen(eq=True)
class PacketBlock:
    """Some consecutive packets and where they stand."""

    data: MessageBytes
    offset: int
    """Of the first byte in the unwrapped stream."""
    frames: Frames
    """Spans of the packets in `data`."""
    is_rewritten: bool = False
    """True if packed packets were replaced by what is in them, so that the file does not hold these bytes."""


class PacketReader:
    """Iterates over the blocks of a source; `layout` is complete when the iteration is."""

    def __init__(self, source: Source, cancelled: Callable[[], bool] = lambda: False, block: int = BLOCK) -> None:
        self.layout = FileLayout(container="protobuf")
        self.unpacker = PacketUnpacker()
        self._marks = AtraceMarks()
        self._window = ByteWindow(source, block, cancelled)
        self._source = source
        self._candidates = MAX_CANDIDATES

    def __iter__(self) -> Iterator[PacketBlock]:
        window = self._window
        try:
            window.read_more()
            while window.fill:
                with memoryview(window.data) as view:
                    data = MessageBytes(view[: window.fill])
                frames = frame_packets(data.raw, 0, window.fill)
                if len(frames.start):
                    for block in self._unpacked(PacketBlock(data, window.base, frames)):
                        parts = self._marks.replaced(block.data, block.frames)
                        yield _rewritten(parts, block.offset) if parts else block
                    window.move_up(frames.behind)
                if frames.is_damaged:
                    self._note_damage()
                    if not self._find_packets():
                        return
                elif frames.needed > MAX_KEPT_PACKET:
                    self._pass_over(frames.needed)
                elif window.eof:
                    break
                elif len(frames.start):
                    window.read_more()
                else:
                    self._grow(frames.needed)
        except Stopped:
            return
        if window.fill:
            self.layout.truncated_at = window.base + window.fill
            self.layout.is_within_event = True
            self.layout.is_closed = False

    def _grow(self, needed: int) -> None:
        while not self._window.eof:
            self._window.grow()
            if self._window.fill >= needed:
                return

    def _note_damage(self) -> None:
        """Take note that something else than a packet stands where one should begin."""
        beginning = bytes(self._window.data[: min(self._window.fill, BEGINNING // 2)]).hex(" ")
        self.layout.dropped += 1
        self.layout.examples.append((self._window.base, f"{UNREADABLE}: {beginning[:BEGINNING]}"))

    def _find_packets(self) -> bool:
        """Go on to where packets stand in a row again; False where the file ends before, or too much was tried."""
        window, index = self._window, 1
        damaged_at = window.base
        while True:
            start = bytes(window.data[: window.fill])
            while (index := start.find(FRAME, index)) >= 0 and self._candidates:
                self._candidates -= 1
                complete, is_cut = frames_in_a_row(start, index)
                if complete >= PROBED_FRAMES or (window.eof and complete and is_cut is not None):
                    window.move_up(index)
                    window.read_more()
                    return True
                index += 1
            if window.eof or not self._candidates:
                self.layout.truncated_at = damaged_at
                self.layout.is_closed = False
                return False
            window.move_up(window.fill)
            window.read_more()
            index = 0

    def _pass_over(self, size: int) -> None:
        """Leave out a packet that is longer than any that holds events."""
        self._note_damage()
        window, left = self._window, size
        while left and window.fill:
            passed = min(left, window.fill)
            window.move_up(passed)
            left -= passed
            window.read_more()
        if left:
            self.layout.truncated_at = window.base
            self.layout.is_within_event, self.layout.is_closed = True, False

    def _unpacked(self, block: PacketBlock) -> Iterator[PacketBlock]:
        """The block, or blocks in which what was packed stands in the stead of packed packets."""
        data, frames = block.data, block.frames
        tag, second = data.bytes[frames.start], data.bytes[np.minimum(frames.start + 1, data.size)]
        packed = np.zeros(len(tag), bool)
        for first_byte, second_byte in _PACKED_TAGS:
            packed |= (tag == first_byte) & (second == second_byte)
        if not packed.any():
            yield block
            return
        parts: list[bytes] = []
        behind = size = 0
        for row in np.flatnonzero(packed).tolist():
            before = int(frames.end[row - 1]) if row else 0
            parts += [data.text(behind, before), self._content(data, int(frames.start[row]), int(frames.end[row]))]
            behind = int(frames.end[row])
            size += len(parts[-2]) + len(parts[-1])
            if size >= UNPACKED_BLOCK:
                yield _rewritten(parts, block.offset)
                self._window.check()
                parts, size = [], 0
        parts.append(data.text(behind, frames.behind))
        if any(parts):
            yield _rewritten(parts, block.offset)

    def _content(self, data: MessageBytes, start: int, end: int) -> bytes:
        """The packets in a packed packet, as far as they are whole."""
        unpacked = b""
        before = self.unpacker.damaged
        try:
            for number, wire, value, behind in fields_of(data.raw, start, end):
                if wire == SPAN and number in (ZLIB_PACKETS, ZSTD_PACKETS):
                    unpacked = self.unpacker.unpack(number, data.text(value, behind))
                    self._source.count_unpacked(len(unpacked))
        except DamagedMessage:
            self.unpacker.damaged += 1
        inner = frame_packets(MessageBytes(unpacked).raw, 0, len(unpacked))
        if inner.behind < len(unpacked) and self.unpacker.damaged == before:
            self.unpacker.damaged += 1
        return unpacked[: inner.behind]


def _rewritten(parts: list[bytes], offset: int) -> PacketBlock:
    data = MessageBytes(b"".join(parts))
    return PacketBlock(data, offset, frame_packets(data.raw, 0, data.size), is_rewritten=True)
