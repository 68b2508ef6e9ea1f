"""The bytes of a trace, whatever they are wrapped in: a plain file, gzip, zstd, zip, UTF-16, or a pipe.

The wrapping is found by content, never by suffix. A source is read once, front to back, into a buffer of the
reader's; damage in the wrapping ends the stream early and is told in `damage`, so that what came before is kept.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tracetui.errors import NotATrace, NotFound

READ_SIZE = 1 << 18
HARMLESS, MOST_INFLATED = 1 << 26, 200
"""Beyond so many bytes what inflates to more than so many times its size is no trace; real ones reach 30 times."""
PATIENCE = 0.2
"""Seconds of waiting for a pipe between two looks at whether that is still wanted."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Reader(Protocol):
    """Anything that fills a buffer, as a raw file does; 0 bytes mean the end."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer from its start and say how much was read."""
        ...


class Source:
    """One pass over the unwrapped bytes of a trace."""

    def __init__(self, label: str, path: str | None, raw: CountedFile, reader: Reader, wrapping: str) -> None:
        self.label = label
        """The file's name, for messages."""
        self.path = path
        """Where the file lies, None for standard input and other pipes."""
        self.wrapping = wrapping
        """`plain`, `gzip`, `zstd`, `zip` or `utf-16`."""
        self.size = raw.size
        """Bytes on disk, None for a pipe."""
        self._raw = raw
        self._reader = reader
        self._given = 0
        self._bomb = ""

    @property
    def consumed(self) -> int:
        """Bytes taken from the disk or the pipe so far."""
        return self._raw.consumed

    @property
    def damage(self) -> str | None:
        """What is wrong with the wrapping, None when it was whole."""
        return self._bomb or getattr(self._reader, "damage", None)

    @property
    def rereadable(self) -> bool:
        """Whether the bytes of an event can be read again at their offset in the file."""
        return self.wrapping == "plain" and self.path is not None

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        if self._bomb:
            return 0
        count = self._reader.readinto(buffer) or 0
        self._given += count
        if self.wrapping != "plain" and self._given > HARMLESS and self._given > MOST_INFLATED * self.consumed:
            self._bomb = (
                f"{self.consumed:,} bytes inflate to more than {self._given:,}, {MOST_INFLATED} times as much, "
                "as no trace does"
            )
        return count

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()


class CountedFile:
    """A raw file that counts what was read and can be given its first bytes back.

    Waiting for a pipe ends, as if it had, when `cancelled` answers true.
    """

    def __init__(self, file: io.RawIOBase, size: int | None, cancelled: Callable[[], bool], label: str) -> None:
        self.size = size
        self.label = label
        self.consumed = 0
        self.file = file
        self._cancelled = cancelled
        self._ahead = b""

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay to be read; fewer at the end of the file."""
        while len(self._ahead) < count and self._has_come():
            with self._told():
                more = self.file.read(count - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        if self._ahead:
            count = min(len(self._ahead), len(buffer))
            buffer[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
        else:
            with self._told():
                count = (self.file.readinto(buffer) or 0) if self._has_come() else 0
        self.consumed += count
        return count

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn an error of the file into one that names it."""
        try:
            yield
        except OSError as error:
            raise NotFound(f"{self.label} cannot be read: {error.strerror or error}.") from error

    def _has_come(self) -> bool:
        """Wait until a pipe has bytes or has ended; False when the wait was given up."""
        while self.size is None and not select.select([self.file], [], [], PATIENCE)[0]:
            if self._cancelled():
                return False
        return True

    def close(self) -> None:
        """Close the file underneath."""
        self.file.close()


class GzipReader:
    """Inflates gzip members one after another; a cut or a damaged stream ends it with what was whole."""

    def __init__(self, raw: CountedFile) -> None:
        self.damage: str | None = None
        self._raw = raw
        self._inflate = zlib.decompressobj(wbits=31)
        self._compressed = memoryview(bytearray(READ_SIZE))
        self._pending = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        while self.damage is None:
            if self._inflate.eof:
                self._pending = self._inflate.unused_data.lstrip(b"\0") or self._pending
                self._inflate = zlib.decompressobj(wbits=31)
                if not self._fill():
                    return 0
            elif not self._fill():
                self.damage = "the gzip stream stops before its end"
                return 0
            before = self._inflate.copy()
            try:
                out = self._inflate.decompress(self._pending, len(buffer))
            except zlib.error as error:
                self.damage = f"the gzip stream is damaged ({error})"
                out = _up_to_damage(before, self._pending, len(buffer))
            self._pending = self._inflate.unconsumed_tail
            if out:
                buffer[: len(out)] = out
                return len(out)
        return 0

    def _fill(self) -> bool:
        if not self._pending:
            count = self._raw.readinto(self._compressed)
            self._pending = bytes(self._compressed[:count])
        return bool(self._pending)


def _up_to_damage(inflate: zlib._Decompress, compressed: bytes, most: int) -> bytes:
    """What can be inflated before the damage; zlib gives nothing of a call that fails, so it is asked byte by byte."""
    out = bytearray()
    with contextlib.suppress(zlib.error):
        for place in range(len(compressed)):
            out += inflate.decompress(compressed[place : place + 1], most - len(out))
            if len(out) >= most:
                break
    return bytes(out)


class Utf16Reader:
    """Rewrites UTF-16 text, as PowerShell's redirection makes it, as UTF-8."""

    def __init__(self, raw: CountedFile, encoding: str) -> None:
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


def open_source(path: str, cancelled: Callable[[], bool] = lambda: False) -> Source:
    """Open a file, or standard input for `-`, and find out how its content is wrapped.

    `cancelled` ends the wait for a pipe that gives nothing.
    Raises: NotFound when it cannot be read; NotATrace when its first bytes are those of something else.
    """
    label = "standard input" if path == "-" else Path(path).name
    raw = _open_raw(path, cancelled, label)
    try:
        return _unwrap(raw, path, label)
    except (NotATrace, NotFound):
        raw.close()
        raise


def _unwrap(raw: CountedFile, path: str, label: str) -> Source:
    start = raw.peek(512)
    refuse_other_content(start, label)
    reader: Reader = raw
    wrapping = "plain"
    if start[:2] == b"\x1f\x8b":
        reader, wrapping = GzipReader(raw), "gzip"
    elif start[:4] == _ZSTD:
        reader, wrapping = _zstd_reader(raw), "zstd"
    elif start[:4] == b"PK\x03\x04":
        reader, wrapping = _zip_reader(raw, path, label), "zip"
    elif start[:2] in _UTF16:
        raw.readinto(memoryview(bytearray(2)))
        reader, wrapping = Utf16Reader(raw, _UTF16[start[:2]]), "utf-16"
    # What has no length is a pipe, which cannot be read a second time.
    again = None if path == "-" or raw.size is None else os.path.abspath(path)
    return Source(label, again, raw, reader, wrapping)


def refuse_other_content(start: bytes, label: str) -> None:
    """Raise NotATrace with a helpful sentence when the first bytes are those of something known."""
    if not start:
        raise NotATrace(f"{label} is empty: the program that wrote it may not have finished.")
    if start.startswith(b"version https://git-lfs"):
        raise NotATrace(f"{label} is a Git LFS pointer, not the trace itself: run `git lfs pull` where it was cloned.")
    if start.startswith((b"<!DOCTYPE", b"<html", b"<!doctype")):
        raise NotATrace(f"{label} is an HTML page, not a trace: the download may have failed.")
    if start.startswith(b"SQLite format 3"):
        raise NotATrace(f"{label} is an SQLite file (Nsight Systems exports those), not a Chrome trace.")


def _open_raw(path: str, cancelled: Callable[[], bool], label: str) -> CountedFile:
    if path == "-":
        return CountedFile(io.FileIO(sys.stdin.fileno(), "rb", closefd=False), None, cancelled, label)
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise NotFound(f"{path} is a folder; name a trace in it.")
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        # Opening a named pipe would wait for its writer, and nothing could end that.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return CountedFile(io.FileIO(descriptor, "rb"), size, cancelled, label)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror or error}.") from error


def _zstd_reader(raw: CountedFile) -> Reader:
    # 10 ms of import that only zstd traces pay.
    import zstandard

    return _GuardedReader(
        zstandard.ZstdDecompressor()
        .stream_reader(io.BufferedReader(_Readable(raw), READ_SIZE), read_across_frames=True)
        .readinto,
        zstandard.ZstdError,
        "zstd",
    )


def _zip_reader(raw: CountedFile, path: str, label: str) -> Reader:
    if path == "-":
        raise NotATrace("A zip archive cannot be read from a pipe: name the file.")
    try:
        archive = zipfile.ZipFile(_Seekable(raw))
        members = [info for info in archive.infolist() if not info.is_dir()]
        chosen = next((info for info in members if ".json" in info.filename), members[0] if members else None)
        if chosen is None:
            raise NotATrace(f"{label} is a zip archive without a file in it.")
        member: Any = archive.open(chosen)
        return _GuardedReader(member.readinto, (zipfile.BadZipFile, zlib.error), "zip")
    except zipfile.BadZipFile as error:
        raise NotATrace(f"{label} is a damaged zip archive: {error}.") from error


class _Readable(io.RawIOBase):
    """Shows a CountedFile as the stream that a library wants to read from."""

    def __init__(self, raw: CountedFile) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        return self._raw.readinto(memoryview(buffer))


class _Seekable(_Readable):
    """The same with random access, for the directory at the end of an archive."""

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._raw._ahead = b""
        return self._raw.file.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.file.tell()


class _GuardedReader:
    """Turns a library's complaint about its stream into an early end with a reason."""

    def __init__(
        self,
        readinto: Callable[[memoryview], int | None],
        error: type[Exception] | tuple[type[Exception], ...],
        name: str,
    ) -> None:
        self.damage: str | None = None
        self._readinto = readinto
        self._error = error
        self._name = name

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end."""
        try:
            return self._readinto(buffer) or 0
        except self._error as error:
            self.damage = f"the {self._name} stream is damaged ({error})"
            return 0
