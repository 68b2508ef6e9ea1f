"""The bytes of a trace, whatever they are wrapped in: a plain file, gzip, zstd, zip, UTF-16, a pipe, or a URL.

The wrapping is found by content, never by suffix. A source is read once, front to back, into a buffer of the
reader's; damage in the wrapping ends the stream early and is told in `damage`, so that what came before is kept.
The readers of each wrapping stand in `unpacking`; `read_ahead` lets them work in a thread.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.errors import NotATrace, NotFound
from tracetui.files import is_url, public_url, url_name
from tracetui.frozen import frozen
from tracetui.reading.load_progress import MemoryBudget
from tracetui.reading.other_files import LOG, PROBED_BYTES, is_compile_log, is_snapshot, refuse_other_content
from tracetui.reading.remote_files import RemoteFile
from tracetui.reading.unpacking import GzipReader, Reader, Utf16Reader, ZipReader, ZstdReader

if TYPE_CHECKING:
    from concurrent.futures import Future

# Unwraps the bytes of a trace in a thread beside the one that reads events.
#
# Inflating frees the GIL, and so does scanning, so that both run at once. The thread is a few chunks ahead and no
# further. What it meets (damage, a remark, how much it has taken from the disk) is told with the chunk in which it met
# it, so that a reader hears the same in the same order as without a thread.

CHUNK = 1 << 20
"""Bytes of a chunk, as many as of a block of events."""
MAX_AHEAD = 4
"""Maximum chunks that are unwrapped before they are asked for."""


@frozen(eq=True, slots=True)
class Unwrapped:
    """State of a wrapping once so much of it has been read."""

    consumed: int
    """Bytes taken from the disk or the pipe."""
    damage: str | None
    """Damage of the wrapping, None as long as there is none."""
    remark: str
    """A further sentence about it, or nothing."""


@frozen(eq=True, slots=True)
class _Chunk:
    buffer: memoryview
    fill: int
    state: Unwrapped


class ReadAhead:
    """The bytes that `read` gives, read by a thread that ends with `close`.

    `read` fills a buffer as a raw file does, and `state` says what is known of the wrapping after that; both are called
    in the thread only.
    """

    def __init__(self, read: Callable[[memoryview], int], state: Callable[[], Unwrapped]) -> None:
        # With its logging 3 ms of import that plain files do not pay.
        from concurrent.futures import ThreadPoolExecutor

        self._read, self._state = read, state
        self._has_ended = False
        self._pool = ThreadPoolExecutor(1, "tracetui-unwrap")
        self._coming: deque[Future[_Chunk]] = deque()
        self._rest = memoryview(b"")
        self._used: memoryview | None = None
        self.state = state()
        """State of the wrapping as far as its bytes were given."""
        for _ in range(MAX_AHEAD):
            self._ask(memoryview(bytearray(CHUNK)))

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end. Raises what `read` raises."""
        if not self._rest:
            self._advance()
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """End the thread; a read that it is in is waited for."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()

    def _advance(self) -> None:
        if self._used is not None:
            self._ask(self._used)
            self._used = None
        if self._coming:
            chunk = self._coming.popleft().result()
            self._rest, self._used, self.state = chunk.buffer[: chunk.fill], chunk.buffer, chunk.state

    def _ask(self, buffer: memoryview) -> None:
        self._coming.append(self._pool.submit(self._fill, buffer))

    def _fill(self, buffer: memoryview) -> _Chunk:
        """The next chunk, in the thread; behind the end nothing is read any more, for a terminal would wait."""
        fill = 0
        # Once an error was raised, there is nothing behind it either.
        was_ended, self._has_ended = self._has_ended, True
        while not was_ended and fill < len(buffer):
            count = self._read(buffer[fill:])
            fill += count
            was_ended = count == 0
        self._has_ended = was_ended
        return _Chunk(buffer, fill, self._state())


HARMLESS, MOST_INFLATED = 1 << 26, 200
"""Beyond so many bytes what inflates to more than so many times its size is no trace; real ones reach 30 times."""
POLL_SECONDS = 0.2
"""Seconds of waiting for a pipe between two looks at whether that is still wanted."""
PEEKED = 1 << 20
"""Bytes of the buffer into which the beginning is read."""
LONG = 1 << 22
"""Bytes of a packed file up to which threads cost more than they save."""
ALONE = 1 << 23
"""Bytes up to which no thread inflates for the reader alone: those that scan may come first."""
_INFLATED = ("gzip", "zstd", "zip")
"""Wrappings whose libraries free the GIL, so that a thread beside the reader is worth its while."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"
"""Behind its first byte, how a part begins that every reader skips, as pzstd writes one in front."""
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Source:
    """One pass over the unwrapped bytes of a trace."""

    def __init__(self, label: str, path: str | None, raw: CountedFile, reader: Reader, wrapping: str) -> None:
        self.label = label
        """The file's name, for messages."""
        self.path = path
        """Path or URL of the file; None for standard input and other pipes."""
        self.wrapping = wrapping
        """`plain`, `gzip`, `zstd`, `zip`, `utf-16` or `LOG`."""
        self.size = raw.size
        """Bytes on disk, None for a pipe and where a server does not tell."""
        self._raw = raw
        self._reader = reader
        self._given = 0
        self._bomb = self._cut = ""
        self._ahead = memoryview(b"")
        self._may_read_ahead = False
        self._thread: ReadAhead | None = None
        # The size that a server tells may be any.
        is_known = self.size is not None and not (path and is_url(path))
        self.budget = MemoryBudget(label, lambda: (is_known and self.size) or raw.consumed, lambda: self._given)
        """The memory that may be taken for what is made of the bytes."""

    @property
    def consumed(self) -> int:
        """Bytes taken from the disk or the pipe so far."""
        return self._state.consumed

    @property
    def damage(self) -> str | None:
        """Damage of the wrapping, None when it was whole."""
        return self._cut or self._state.damage

    @property
    def remark(self) -> str:
        """A further sentence about the wrapping, or nothing."""
        return self._state.remark

    @property
    def _state(self) -> Unwrapped:
        return self._unwrapped() if self._thread is None else self._thread.state

    def _unwrapped(self) -> Unwrapped:
        damage, remark = getattr(self._reader, "damage", None), getattr(self._reader, "remark", "")
        return Unwrapped(self._raw.consumed, self._bomb or damage, str(remark))

    @property
    def rereadable(self) -> bool:
        """Tell whether the bytes of an event can be read again at their offset in the file; of a URL they are kept."""
        return self.wrapping == "plain" and self.path is not None and not is_url(self.path)

    @property
    def is_long(self) -> bool:
        """Tell whether so much of a packed file was inflated that threads are worth their while."""
        return self._given > LONG and self.wrapping in _INFLATED and self.path is not None

    def peek(self, count: int) -> bytes:
        """The first unwrapped bytes, which stay to be read; fewer where there are no more."""
        # As large as later reads: of a damaged archive a library loses all that was asked for at once.
        if len(self._ahead) >= count:
            return bytes(self._ahead[:count])
        buffer = memoryview(bytearray(max(count, PEEKED)))
        fill = len(self._ahead)
        buffer[:fill] = self._ahead
        while fill < count and (more := self._read(buffer[fill:])):
            fill += more
        self._ahead = buffer[:fill]
        return bytes(self._ahead[:count])

    def readinto(self, buffer: memoryview, is_beside: bool = False) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end.

        Who reads beside others that scan needs no further thread.
        """
        if self._cut:
            return 0
        if not self._ahead:
            if self._thread is None and self._may_read_ahead and not is_beside and self._given > ALONE:
                self._thread = ReadAhead(self._read, self._unwrapped)
            return self._read(buffer) if self._thread is None else self._thread.readinto(buffer)
        count = min(len(self._ahead), len(buffer))
        buffer[:count] = self._ahead[:count]
        # An empty rest would keep the buffer.
        self._ahead = self._ahead[count:] if count < len(self._ahead) else memoryview(b"")
        return count

    def cut_off(self, stretch: int) -> None:
        """End here, as a stretch that cannot be read by parts is longer than so many bytes."""
        more = f"would take more memory than {self.budget.words()}, as no trace does"
        self._cut = f"a piece of more than {stretch:,} bytes in it {more}"

    def count_unpacked(self, count: int) -> None:
        """Count bytes that were packed once more within the others."""
        self._given += count

    def as_compile_log(self) -> Source:
        """The trace that the log of torch.compile in here is read as."""
        # Few open one.
        from tracetui.reading.torch_log import TorchLogReader

        self.budget.close()
        return Source(self.label, self.path, self._raw, TorchLogReader(self), LOG)

    def give_back(self, data: bytes) -> None:
        """Take back bytes that were read, to be read again before all others."""
        self._ahead = memoryview(data + bytes(self._ahead))

    def read_ahead(self) -> None:
        """Let a thread inflate what a long source has left, until it is closed; no more may be peeked at."""
        self._may_read_ahead = self.wrapping in _INFLATED

    def _read(self, buffer: memoryview) -> int:
        if self._bomb:
            return 0
        count = self._reader.readinto(buffer) or 0
        self._given += count
        # Members of an archive may be the same bytes, read again and again.
        packed = min(self._raw.consumed, self.size or self._raw.consumed)
        if self.wrapping != "plain" and self._given > HARMLESS and self._given > MOST_INFLATED * packed:
            self._bomb = (
                f"{packed:,} bytes inflate to more than {self._given:,}, {MOST_INFLATED} times as much, "
                "as no trace does"
            )
        return count

    def close(self) -> None:
        """Let go of the file, and end the thread if there is one."""
        self.budget.close()
        self._raw.give_up()
        if self._thread is not None:
            self._thread.close()
        self._raw.close()


class CountedFile:
    """A raw file that counts what was read and can be given its first bytes back.

    Waiting for a pipe ends, as if it had, when `cancelled` answers true or the file is given up.
    """

    def __init__(
        self,
        file: io.RawIOBase,
        size: int | None,
        cancelled: Callable[[], bool],
        label: str,
        is_remote: bool = False,
    ) -> None:
        """A remote file waits by itself."""
        self.size = size
        self.label = label
        self.is_pipe = size is None and not is_remote
        self.consumed = 0
        self.file = file
        self._cancelled = cancelled
        self._ahead = b""
        self._is_given_up = False

    def peek(self, count: int) -> bytes:
        """The next bytes, which stay to be read; fewer at the end of the file."""
        while len(self._ahead) < count and self._has_come():
            with self._errors_in_sentences():
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
            with self._errors_in_sentences():
                count = (self.file.readinto(buffer) or 0) if self._has_come() else 0
        self.consumed += count
        return count

    @contextlib.contextmanager
    def _errors_in_sentences(self) -> Iterator[None]:
        """Turn an error of the file into one that names it."""
        try:
            yield
        except OSError as error:
            raise NotFound(f"{self.label} cannot be read: {error.strerror or error}.") from error

    def _has_come(self) -> bool:
        """Wait until a pipe has bytes or has ended; False when the wait was given up."""
        while self.is_pipe and not select.select([self.file], [], [], POLL_SECONDS)[0]:
            if self.is_unwanted():
                return False
        return True

    def is_unwanted(self) -> bool:
        """Tell whether nobody wants more of the file."""
        return self._is_given_up or self._cancelled()

    def give_up(self) -> None:
        """Wait for a pipe or a server no longer, in whichever thread that is."""
        self._is_given_up = True

    def forget_ahead(self) -> None:
        """Forget what was peeked at, as the file is about to be read elsewhere."""
        self._ahead = b""

    def close(self) -> None:
        """Close the file underneath."""
        self.file.close()


def open_source(
    path: str, cancelled: Callable[[], bool] = lambda: False, takes: Callable[[bytes], bool] = lambda _: False
) -> Source:
    """Open a file, or standard input for `-`, and find out how its content is wrapped.

    `cancelled` ends the wait for a pipe that gives nothing; it may be asked in another thread. `takes` is true for the
    first bytes of files that are no traces and are wanted all the same.
    Raises: NotFound when it cannot be read; NotATrace when its first bytes are those of something else.
    """
    if is_url(path):
        path = public_url(path)
        label = url_name(path)
        file = RemoteFile(path)
        raw = CountedFile(file, file.size, cancelled, label, is_remote=True)
        file.cancelled = raw.is_unwanted
    else:
        label = "standard input" if path == "-" else Path(path).name
        raw = _open_raw(path, cancelled, label)
    try:
        source = _unwrap(raw, path, label)
        if is_compile_log(source.peek(PROBED_BYTES)):
            source = source.as_compile_log()
        if (start := source.peek(PROBED_BYTES)) and not takes(start):
            refuse_other_content(start, label)
        return source
    except (NotATrace, NotFound):
        raw.close()
        raise


def holds_snapshot(path: str) -> bool:
    """True where a file begins as a memory snapshot does; never waits for a pipe, and raises nothing.

    Most files are told by their first byte, without the readers of wrappings.
    """
    try:
        if not is_url(path):
            if not os.path.isfile(path):
                return False
            with open(path, "rb") as file:
                start = file.read(512)
            if start[:2] == b"\x1f\x8b":
                start = zlib.decompressobj(31).decompress(start, 1)
            if start[:1] not in (b"\x80", b"P") and start[:4] != _ZSTD and start[1:4] != _SKIPPED:
                return False
        source = open_source(path, lambda: True, takes=is_snapshot)
    except (NotATrace, NotFound, OSError, zlib.error):
        return False
    try:
        return is_snapshot(source.peek(PROBED_BYTES))
    finally:
        source.close()


def _unwrap(raw: CountedFile, path: str, label: str) -> Source:
    start = raw.peek(512)
    if not start or start.startswith(b"PK"):
        # What is in an archive does not say that it is a checkpoint.
        refuse_other_content(start, label)
    reader: Reader = raw
    wrapping = "plain"
    if start[:2] == b"\x1f\x8b":
        reader, wrapping = GzipReader(raw), "gzip"
    elif start[:4] == _ZSTD or start[1:4] == _SKIPPED:
        reader, wrapping = ZstdReader(raw), "zstd"
    elif start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        if path == "-" or raw.is_pipe:
            raise NotATrace("A zip archive cannot be read from a pipe: name the file.")
        if raw.size is None:
            raise NotATrace(f"{label} is a zip archive, and the server does not tell its size: fetch it first.")
        reader, wrapping = ZipReader(_Seekable(raw), label), "zip"
    elif start[:2] in _UTF16:
        raw.readinto(memoryview(bytearray(2)))
        reader, wrapping = Utf16Reader(raw, _UTF16[start[:2]]), "utf-16"
    # What has no length is a pipe, which cannot be read a second time.
    again = None if path == "-" or raw.is_pipe else path if is_url(path) else os.path.abspath(path)
    return Source(label, again, raw, reader, wrapping)


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


def open_raw_file(path: str) -> io.RawIOBase:
    """A file, or what a URL leads to, to be read from anywhere.

    Raises: NotFound for a URL, OSError for a file.
    """
    if not is_url(path):
        return io.FileIO(path, "rb")
    return RemoteFile(path)


class _Seekable(io.RawIOBase):
    """Shows a CountedFile as the stream that a library wants, with random access for a directory at the end."""

    def __init__(self, raw: CountedFile) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        return self._raw.readinto(memoryview(buffer))

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._raw.forget_ahead()
        return self._raw.file.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.file.tell()


# A stretch of the bytes of a source that moves forward over it.


class Stopped(Exception):
    """The user stopped the loading."""


class ByteWindow:
    """The bytes of a source from some offset on, in a buffer that is used again and again."""

    def __init__(self, source: Source, size: int, cancelled: Callable[[], bool]) -> None:
        self.data = bytearray(size)
        self.fill = 0
        """Number of bytes of `data` that are the source's."""
        self.base = 0
        """The offset of the first one in the unpacked stream."""
        self.eof = False
        """True if the source has ended behind the last one."""
        self._source = source
        self._cancelled = cancelled

    def check(self) -> None:
        """Do nothing, unless the loading was stopped, or takes more memory than it may.

        Raises: Stopped, NotATrace.
        """
        if self._cancelled():
            raise Stopped
        self._source.budget.check()

    def read_more(self) -> None:
        """Fill the buffer."""
        with memoryview(self.data) as view:
            while self.fill < len(view) and not self.eof:
                self.check()
                count = self._source.readinto(view[self.fill :])
                self.eof = count == 0
                self.fill += count

    def move_up(self, index: int) -> None:
        """Forget everything before `index`."""
        rest = self.fill - index
        self.data[:rest] = self.data[index : self.fill]
        self.fill = rest
        self.base += index

    def restart(self, data: bytes, offset: int) -> None:
        """Go on with bytes that stand at an offset of the stream; the source takes back those that do not fit."""
        self.fill = min(len(data), len(self.data))
        self.data[: self.fill] = data[: self.fill]
        self.base = offset
        self.eof = False
        if len(data) > self.fill:
            self._source.give_back(data[self.fill :])

    def grow(self) -> None:
        """Double the buffer and fill it; the source ends where a stretch of that length takes too much memory."""
        if not self._source.budget.has_room(2 * len(self.data)):
            self._source.cut_off(len(self.data))
            self.eof = True
            return
        self.data.extend(bytes(len(self.data)))
        self.read_more()
