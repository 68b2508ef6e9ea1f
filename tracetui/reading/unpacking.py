"""Readers of what a trace is wrapped in: gzip, zstd, zip and UTF-16.

Each fills a buffer as a raw file does, and never makes much more at once than the buffer holds, whatever it is given.
A stream that is cut off or damaged ends early, and `damage` says why; `remark` is a sentence about
what else is odd and costs nothing.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import zlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Protocol, Self

from tracetui.errors import NotATrace
from tracetui.frozen import frozen

if TYPE_CHECKING:
    import bz2
    import lzma
    import zipfile


# The library that inflates gzip and deflated zip: zlib-ng where it is installed, else the zlib of Python.
#
# Both stop at the same byte of a damaged stream and say the same, as one is a fork of the other.

GZIP, RAW = 31, -15
"""The `wbits` of a gzip member, and of a deflated stream without anything around it."""


class Inflater(Protocol):
    """Inflates one stream."""

    @property
    def eof(self) -> bool:
        """Tell whether the stream has ended."""
        ...

    @property
    def unconsumed_tail(self) -> bytes:
        """Input that was not inflated, as there was no room."""
        ...

    @property
    def unused_data(self) -> bytes:
        """Bytes behind the stream."""
        ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Inflate some bytes to at most `max_length`."""
        ...

    def copy(self) -> Self:
        """Another that goes on from here."""
        ...


@frozen(eq=True)
class InflateLibrary:
    """A library that inflates."""

    name: str
    """`zlib-ng` or `zlib`."""
    why_not_fast: str
    """The reason why it is the slower one, empty where it is not."""
    error: type[Exception]
    """Raised for damage."""
    inflater: Callable[[int], Inflater]
    """From `wbits` to what inflates one stream."""
    crc32: Callable[[bytes, int], int]
    """The checksum of some bytes, going on from another."""


@cache
def inflate_library() -> InflateLibrary:
    """The faster one of those that are installed."""
    try:
        # 2 ms of import that plain traces do not pay.
        from zlib_ng import zlib_ng
    except ImportError as error:
        reason = "is not installed (the extra `fast`)" if error.name == "zlib_ng" else "cannot be loaded"
        return python_zlib(f"zlib-ng {reason}")
    return InflateLibrary("zlib-ng", "", zlib_ng.error, zlib_ng.decompressobj, zlib_ng.crc32)


def python_zlib(why_not_fast: str = "") -> InflateLibrary:
    """The one that every Python has."""
    return InflateLibrary("zlib", why_not_fast, zlib.error, zlib.decompressobj, zlib.crc32)


READ_SIZE = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ENCRYPTED = 1
"""The flag of an encrypted member of a zip archive."""
_STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14
"""Methods of packing in a zip archive."""
_LOCAL_HEADER = 30
"""Bytes in front of the name of a member."""
_HAS_END_MARK = 2
"""The flag of a member of which LZMA itself marks the end."""
_LZMA_HEADER = 9
"""Bytes in front of LZMA's stream: a version, the length of the properties, and these."""
_MAX_LZMA_MEMORY = 1 << 27
"""Bytes that LZMA may take, as much as zstd does."""


class Reader(Protocol):
    """Anything that fills a buffer, as a raw file does; 0 bytes mean the end."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer from its start and say how much was read."""
        ...


class Packed(Protocol):
    """The packed bytes, counted."""

    consumed: int

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its start and say how much was read."""
        ...


class GzipReader:
    """Inflates gzip members one after another; a cut or a damaged stream ends it with what was whole."""

    def __init__(self, raw: Packed) -> None:
        self.damage: str | None = None
        self.remark = ""
        self._raw = raw
        self._library = inflate_library()
        self._inflate = self._library.inflater(GZIP)
        self._compressed = memoryview(bytearray(READ_SIZE))
        self._pending = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while self.damage is None:
            if self._inflate.eof:
                if not self._begin_member():
                    return 0
            elif not self._fill():
                self.damage = "the gzip stream stops before its end"
                return 0
            before = self._inflate.copy()
            try:
                out = self._inflate.decompress(self._pending, len(buffer))
            except self._library.error as error:
                self.damage = f"the gzip stream is damaged ({error})"
                out = up_to_damage(before, self._pending, len(buffer), self._library.error)
            self._pending = self._inflate.unconsumed_tail
            if out:
                buffer[: len(out)] = out
                return len(out)
        return 0

    def _begin_member(self) -> bool:
        """Tell whether another member follows the one that has ended."""
        self._pending = self._inflate.unused_data.lstrip(b"\0")
        while len(self._pending) < len(_GZIP):
            # Blocks of a tape are filled up with zeros.
            more = self._read().lstrip(b"\0")
            if not more:
                break
            self._pending += more
        if not self._pending:
            return False
        self._inflate = self._library.inflater(GZIP)
        if not self._pending.startswith(_GZIP):
            self.remark = _foreign("gzip", self._raw.consumed - len(self._pending))
            self._pending = b""
            # A decompressor that has come to its end: behind it everything is left out.
            inflate = self._library.inflater(GZIP)
            inflate.decompress(_EMPTY_MEMBER, 1)
            self._inflate = inflate
            return False
        return True

    def _read(self) -> bytes:
        return bytes(self._compressed[: self._raw.readinto(self._compressed)])

    def _fill(self) -> bool:
        if not self._pending:
            self._pending = self._read()
        return bool(self._pending)


def up_to_damage(inflate: Inflater, compressed: bytes, most: int, damage: type[Exception]) -> bytes:
    """The bytes that can be inflated before the damage: zlib gives none of a call that fails, so each is asked for."""
    out = bytearray()
    with contextlib.suppress(damage):
        for index in range(len(compressed)):
            out += inflate.decompress(compressed[index : index + 1], most - len(out))
            if len(out) >= most:
                break
    return bytes(out)


_EMPTY_MEMBER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0"


def _foreign(name: str, at: int) -> str:
    return f"Behind the {name} stream, from byte {at:,} of the packed file on, stands something else: it was left out."


class _ZstdParts:
    """Says where the parts of a zstd frame end. Nothing but feeding them one by one bounds what comes out at once.

    A part is the header, a checksum, or a block, which becomes 128 KiB at most; four bytes may be such a block.
    """

    def __init__(self, magic: bytes) -> None:
        self.left = 0
        """Bytes until the present part ends; 0 where `begin` is to be asked."""
        self.needed = len(magic) + 1
        """Bytes of a part that must be there to `begin` it; 0 behind the last part."""
        self._is_skipped = magic != _ZSTD
        self._is_in_header, self._has_checksum = True, False
        if self._is_skipped:
            self.needed = 2 * len(magic)

    def begin(self, head: bytes) -> None:
        """Begin the next part, of which these are the first `needed` bytes."""
        if self._is_skipped:
            self.left, self.needed = len(head) + int.from_bytes(head[4:], "little"), 0
        elif self._is_in_header:
            flags = head[4]
            is_single, kind_of_size = flags >> 5 & 1, flags >> 6
            size = (is_single, 2, 4, 8)[kind_of_size]
            self.left = len(head) + (not is_single) + (0, 1, 2, 4)[flags & 3] + size
            self.needed, self._is_in_header, self._has_checksum = 3, False, bool(flags & 4)
        elif self.needed == 3:
            bits = int.from_bytes(head, "little")
            is_last, is_repeated = bits & 1, bits >> 1 & 3 == 1
            self.left = len(head) + (1 if is_repeated else bits >> 3)
            if is_last:
                self.needed = 1 if self._has_checksum else 0
        else:
            self.left, self.needed = 4, 0


class ZstdReader:
    """Unpacks zstd frames one after another."""

    def __init__(self, raw: Packed) -> None:
        # 10 ms of import that only zstd traces pay.
        import zstandard

        self.damage: str | None = None
        self.remark = ""
        self._raw = raw
        self._error = zstandard.ZstdError
        self._begin = zstandard.ZstdDecompressor().decompressobj
        self._frame, self._parts = self._begin(), _ZstdParts(_ZSTD)
        self._compressed = memoryview(bytearray(READ_SIZE))
        self._pending = memoryview(b"")
        self._unpacked = memoryview(b"")
        self._is_begun = False

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while not self._unpacked:
            if not self._unpack():
                return 0
        count = min(len(self._unpacked), len(buffer))
        buffer[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count

    def _unpack(self) -> bool:
        """Unpack a little more; False at the end."""
        if self.damage or self.remark:
            return False
        if not self._pending:
            self._pending = memoryview(bytes(self._compressed[: self._raw.readinto(self._compressed)]))
        if not self._pending:
            self.damage = "the zstd stream stops before its end" if self._is_begun else None
            return False
        if not self._is_begun and not self._begin_frame():
            return False
        fed = self._next_part()
        try:
            self._unpacked = memoryview(self._frame.decompress(fed))
        except self._error as error:
            needs = "its window needs more than 128 MB of memory, unpack it with `zstd -d --long=31` first"
            self.damage = needs if "too much memory" in str(error) else f"the zstd stream is damaged ({error})"
            return True
        if self._frame.eof:
            rest = self._frame.unused_data
            self._pending = memoryview(rest + bytes(self._pending)) if rest else self._pending
            self._is_begun = False
        return True

    def _next_part(self) -> memoryview:
        """The bytes of the present part of the frame, or of the next one; all that is left behind the last."""
        parts = self._parts
        if not parts.left and parts.needed:
            self._need(parts.needed)
            if len(self._pending) >= parts.needed:
                parts.begin(bytes(self._pending[: parts.needed]))
        # What is too short to begin a part is the end of the file.
        count = min(parts.left, len(self._pending)) or len(self._pending)
        fed, self._pending = self._pending[:count], self._pending[count:]
        parts.left = max(parts.left - count, 0)
        return fed

    def _need(self, count: int) -> None:
        """Have so many bytes pending, or all that there are."""
        while len(self._pending) < count and (more := self._raw.readinto(self._compressed)):
            self._pending = memoryview(bytes(self._pending) + bytes(self._compressed[:more]))

    def _begin_frame(self) -> bool:
        """Begin another frame, if the next bytes are one; they may also be a part that every reader skips."""
        self._need(len(_ZSTD))
        magic = bytes(self._pending[:4])
        if magic != _ZSTD and magic[1:] != b"\x2a\x4d\x18":
            self.remark = _foreign("zstd", self._raw.consumed - len(self._pending))
            return False
        self._frame, self._parts, self._is_begun = self._begin(), _ZstdParts(magic), True
        return True


class ZipReader:
    """Reads the traces in a zip archive one after another."""

    def __init__(self, file: io.RawIOBase, label: str) -> None:
        """Read the archive's directory.

        Raises: NotATrace when it cannot be read, or holds nothing that can.
        """
        import lzma
        import zipfile

        self.damage: str | None = None
        self.remark = ""
        # What `zipfile` and the libraries behind it raise where the bytes are damaged or of an unknown kind.
        self._errors = (
            zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError, RuntimeError,
            ValueError, MemoryError, OverflowError,
        )  # fmt: skip
        try:
            self._archive = zipfile.ZipFile(file)
        except self._errors as error:
            raise NotATrace(f"{label} is a damaged zip archive: {_words(error)}.") from error
        # The members that are traces by their name, of Perfetto's only the first, or the first one where none is.
        members = [member for member in self._archive.infolist() if not member.is_dir()]
        own = [member for member in members if not member.filename.startswith("__MACOSX/")]
        json = [member for member in own if ".json" in member.filename]
        self._members = json or [member for member in own if ".pftrace" in member.filename][:1] or members[:1]
        if not self._members:
            raise NotATrace(f"{label} is a zip archive without a file in it.")
        if any(member.flag_bits & _ENCRYPTED for member in self._members):
            raise NotATrace(f"{label} is an encrypted zip archive: unpack it first.")
        if len(self._members) > 1:
            names = ", ".join(member.filename for member in self._members[:3])
            more = f" and {len(self._members) - 3} more" if len(self._members) > 3 else ""
            self.remark = f"The zip archive holds {len(self._members)} files, read one after another: {names}{more}."
        self._file = file
        self._member: _Member | _OddMember | None = None

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while self._members:
            try:
                if self._member is None:
                    self._member = self._opened(self._members[0])
                count = self._member.readinto(buffer)
            except self._errors as error:
                self._damaged(_words(error))
                count = 0
            if count:
                return count
            if self._member is not None and self._member.damage:
                self._damaged(self._member.damage)
            self._members, self._member = self._members[1:], None
            if self._members:
                # What stands in two files does not touch.
                buffer[:1] = b"\n"
                return 1
        return 0

    def _damaged(self, words: str) -> None:
        self.damage = self.damage or f"{self._members[0].filename} in the zip archive is damaged ({words})"

    def _opened(self, member: zipfile.ZipInfo) -> _Member | _OddMember:
        """A member to be read from; the library would give nothing of the part in which damage is, or all at once."""
        kind = _Member if member.compress_type in (_STORED, _DEFLATED) else _OddMember
        self._file.seek(member.header_offset)
        header = self._file.read(_LOCAL_HEADER) or b""
        if len(header) < _LOCAL_HEADER:
            raise EOFError("it is not there")
        names, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        self._file.seek(member.header_offset + _LOCAL_HEADER + names + extra)
        return kind(self._file, member)


class _Member:
    """A stored or deflated file in a zip archive."""

    def __init__(self, file: io.RawIOBase, member: zipfile.ZipInfo) -> None:
        self.damage = ""
        self._file = file
        self._left, self._checksum, self._computed_checksum = member.compress_size, member.CRC, 0
        self._library = inflate_library()
        self._inflate = self._library.inflater(RAW) if member.compress_type == _DEFLATED else None
        self._pending = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while not self.damage:
            if not self._pending and self._left:
                self._pending = self._file.read(min(READ_SIZE, self._left)) or b""
                self._left = self._left - len(self._pending) if self._pending else 0
            if not self._pending or (self._inflate and self._inflate.eof):
                self._end()
                return 0
            out = self._unpacked(len(buffer))
            if out:
                self._computed_checksum = self._library.crc32(out, self._computed_checksum)
                buffer[: len(out)] = out
                return len(out)
        return 0

    def _unpacked(self, size: int) -> bytes:
        if self._inflate is None:
            out, self._pending = self._pending[:size], self._pending[size:]
            return out
        before = self._inflate.copy()
        try:
            out = self._inflate.decompress(self._pending, size)
            self._pending = self._inflate.unconsumed_tail
        except self._library.error as error:
            self.damage = _words(error)
            out = up_to_damage(before, self._pending, size, self._library.error)
        return out

    def _end(self) -> None:
        if self._inflate and not self._inflate.eof:
            self.damage = "it stops before its end"
        elif self._computed_checksum != self._checksum:
            self.damage = "its checksum is another one"


class _OddMember:
    """A file in a zip archive that is packed with bzip2 or LZMA; both keep what they have no room for.

    Raises: NotImplementedError for another method, and what the libraries raise for damage.
    """

    def __init__(self, file: io.RawIOBase, member: zipfile.ZipInfo) -> None:
        self.damage = ""
        self._file, self._left = file, member.compress_size
        self._checksum, self._computed_checksum = member.CRC, 0
        self._pending = b""
        if member.compress_type == _BZIP2:
            import bz2

            self._unpack: bz2.BZ2Decompressor | lzma.LZMADecompressor = bz2.BZ2Decompressor()
        elif member.compress_type == _LZMA:
            import lzma

            properties = self._read(_LZMA_HEADER)[4:]
            size = (1 << 64) - 1 if member.flag_bits & _HAS_END_MARK else member.file_size
            self._unpack = lzma.LZMADecompressor(lzma.FORMAT_ALONE, _MAX_LZMA_MEMORY)
            self._pending = properties + size.to_bytes(8, "little")
        else:
            raise NotImplementedError("That compression method is not supported")

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while not self._unpack.eof:
            if self._unpack.needs_input and not self._pending:
                self._pending = self._read(READ_SIZE)
                if not self._pending:
                    self.damage = "it stops before its end"
                    return 0
            given, self._pending = self._pending, b""
            if out := self._unpack.decompress(given, len(buffer)):
                self._computed_checksum = zlib.crc32(out, self._computed_checksum)
                buffer[: len(out)] = out
                return len(out)
        self.damage = "" if self._computed_checksum == self._checksum else "its checksum is another one"
        return 0

    def _read(self, most: int) -> bytes:
        data = self._file.read(min(most, self._left)) or b""
        self._left -= len(data)
        return data


def _words(error: Exception) -> str:
    """The message of an error, without the quotes and the number in front of it."""
    return str(error.args[-1] if error.args else "") or type(error).__name__


class Utf16Reader:
    """Rewrites UTF-16 text, as PowerShell's redirection makes it, as UTF-8."""

    def __init__(self, raw: Packed, encoding: str) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._text = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        wide = memoryview(bytearray(READ_SIZE))
        while not self._text:
            count = self._raw.readinto(wide)
            self._text = self._decoder.decode(bytes(wide[:count]), final=count == 0).encode()
            if count == 0 and not self._text:
                return 0
        count = min(len(self._text), len(buffer))
        buffer[:count] = self._text[:count]
        self._text = self._text[count:]
        return count
