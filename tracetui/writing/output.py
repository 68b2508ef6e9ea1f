"""The one rule for files that are written, and files that appear whole or not at all, packed as their suffix says.

The rule: what exists stays, unless `--force` was given, and an input is never written to. A folder, a missing folder
and a refused file are mistakes in the command (exit code 2); what fails while writing is not (exit code 1).
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, cast

import msgspec

from tracetui.errors import CannotWrite, UsageError
from tracetui.files import is_url, numbered, open_already, whole_file, write_numbered, write_whole
from tracetui.opening.attach_listener import Job
from tracetui.reading.store import Container
from tracetui.text import clean_lines

STANDARD_STREAM = "-"
"""Stands for standard input or output in place of a path."""
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 9


def require_writable(
    path: str, inputs: Iterable[tuple[str, str]] = (), force: bool = False, *, makes_folder: bool = False
) -> None:
    """Check before any work that a file can be written there.

    `inputs` are the paths that are read, each with its name in a sentence, such as `the trace`. Devices, pipes and
    files that are open already, such as `/dev/stdout`, are written to as they are. With `makes_folder` a missing
    folder will be made, as for recordings.
    Raises: UsageError for a folder, a missing folder, one of the inputs, and a file that exists without `force`.
    """
    if path == STANDARD_STREAM or open_already(Path(path)) is not None:
        return
    if is_url(path):
        raise UsageError(f"{path} is a URL: only files of this machine are written.")
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder: name a file in it.")
    folder = Path(path).parent
    if not (makes_folder or folder.is_dir()):
        raise UsageError(f"{path} cannot be written: there is no folder {folder}.")
    if os.path.exists(path) and not os.path.isfile(path):
        return
    for source, name in inputs:
        existing = "/dev/stdin" if source == STANDARD_STREAM else source
        if os.path.exists(path) and os.path.exists(existing) and os.path.samefile(path, existing):
            raise UsageError(f"{path} is {name} itself: name another file.")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already: name another file, or --force replaces it.")


def refuse_terminal(path: str) -> None:
    """Raises: UsageError for a trace on standard output where that is the terminal."""
    if path == STANDARD_STREAM and sys.stdout.isatty():
        raise UsageError("Standard output is the terminal: name a file, or pipe the trace into another command.")


def write_text(path: str, text: str, force: bool = False) -> None:
    """Write text to a file, whole or not at all.

    Raises: UsageError for a file that exists by now, without `force`; CannotWrite when it cannot be written.
    """
    with _errors_in_sentences(path):
        write_whole(Path(path), clean_lines(text), replace=force)


def append_text(path: str, text: str) -> None:
    """Add text below what a file has, which is made where there is none.

    Raises: CannotWrite when it cannot be written.
    """
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(clean_lines(text))
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}.") from error


def write_numbered_text(path: str, text: str) -> str:
    """Write text to a file whose name the user did not choose; a number is added where the name is taken.

    Returns the path. Raises: CannotWrite when it cannot be written.
    """
    with _errors_in_sentences(path):
        return str(write_numbered(Path(path), clean_lines(text)))


@contextmanager
def _errors_in_sentences(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{path} exists already: name another file, or --force replaces it.") from error
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}. Nothing was left there.") from error


class Output:
    """A sink for bytes; `size` is known once it is closed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = 0
        """Bytes that arrived, packed ones where they are packed."""

    def write(self, data: bytes) -> None:
        """Take bytes."""
        self._file.write(data)


class _Counted:
    """A file that counts what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    def write(self, data: Any) -> int:
        """Take bytes."""
        count = self._file.write(data)
        self.size += count
        return count

    def flush(self) -> None:
        """Hand on what is held back."""
        self._file.flush()


@contextmanager
def output(path: str, force: bool = False) -> Iterator[Output]:
    """A sink whose bytes become the file when the block ends, and nothing after an error.

    Raises: UsageError for a file that exists by now, without `force`; CannotWrite when the disk is full or the folder
    may not be written to.
    """
    if path == STANDARD_STREAM:
        with _packed(sys.stdout.buffer, path) as sink:
            yield sink
        sys.stdout.buffer.flush()
        return
    with _errors_in_sentences(path), whole_file(Path(path), replace=force) as file, _packed(file, path) as sink:
        yield sink


@contextmanager
def _packed(file: IO[bytes], path: str) -> Iterator[Output]:
    """The file, behind a compressor where its suffix asks for one."""
    counted = _Counted(file)
    sink = Output(counted)
    if path.endswith(".gz"):
        # Neither the name nor the time go into the file: the same content makes the same bytes.
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, cast(IO[bytes], counted), mtime=0) as packed:
            sink = Output(packed)
            yield sink
    elif path.endswith((".zst", ".zstd")):
        # 10 ms of import that the others do not pay.
        import zstandard

        with zstandard.ZstdCompressor(_ZSTD_LEVEL).stream_writer(cast(IO[bytes], counted), closefd=False) as packed:
            sink = Output(packed)
            yield sink
    else:
        yield sink
    sink.size = counted.size


# Events written into a file again, with the text around them: an object stays an object, an array an array.
#
# Lines without an array around them become an array, which every viewer opens.

BATCH = 1 << 20
"""Bytes that are gathered before they are written."""
MARK = b"\xef\xbb\xbf"
"""Byte order mark that some programs put in front of UTF-8."""
_SEPARATOR = b",\n"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Checks an object without making its values."""


class Sink(Protocol):
    """A target for bytes."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes."""
        ...


def write_events(sink: Sink, container: Container, events: Iterable[bytes]) -> int:
    """Write a whole trace of events that are valid JSON each; returns how many there were."""
    before, after = surroundings(container)
    sink.write(before)
    count = write_array(sink, events)
    sink.write(after)
    return count


def write_array(sink: Sink, events: Iterable[bytes]) -> int:
    """Write the array of some events; returns how many there were."""
    sink.write(b"[\n")
    count, pending, size = 0, [], 0
    for event in events:
        pending.append(event)
        size += len(event)
        if size >= BATCH:
            sink.write((_SEPARATOR if count else b"") + _SEPARATOR.join(pending))
            count, size = count + len(pending), 0
            pending.clear()
    if pending:
        sink.write((_SEPARATOR if count else b"") + _SEPARATOR.join(pending))
    sink.write(b"\n]")
    return count + len(pending)


def surroundings(container: Container) -> tuple[bytes, bytes]:
    """The text in front of and behind the array: the bytes of the file where they are valid, else their content."""
    if container.kind != "object":
        return b"", b"\n"
    header = container.header.removeprefix(MARK)
    try:
        (header + container.trailer).decode()
        _fields.decode(header + b"[]" + container.trailer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return object_around(container.metadata)
    return header, container.trailer


def object_around(metadata: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The same of an object with these keys beside the events."""
    fields = msgspec.json.encode({key: value for key, value in metadata.items() if key != "traceEvents"})
    return fields[:-1] + (b"," if len(fields) > 2 else b"") + b'"traceEvents":', b"}\n"


# Paths for the traces of processes that were attached to, and the copies that bring them there.

DEFAULT_FOLDER = Path("traces") / "attach"
SUFFIX = ".json.gz"
_BLOCK = 1 << 20


def destinations(jobs: list[Job], out: str | None, force: bool = False) -> dict[int, Path]:
    """A path for the trace of each process: those of several in one folder, named by rank where all have one.

    `out` is a file, or a folder that is there or ends in a slash; of several processes it is a folder. Without it
    the traces are numbered in a folder of their own below the current one.
    Raises: UsageError for a file that may not be written.
    """
    ranks = [job.rank for job in jobs]
    is_ranked = None not in ranks and len(set(ranks)) == len(ranks)
    names = {job.pid: f"{f'rank{job.rank}' if is_ranked else f'pid{job.pid}'}_trace{SUFFIX}" for job in jobs}
    if out is None:
        folder = DEFAULT_FOLDER if len(jobs) == 1 else DEFAULT_FOLDER / time.strftime("%Y%m%d_%H%M%S")
        return {
            pid: next(path for path in numbered(folder / name) if not os.path.lexists(path))
            for pid, name in names.items()
        }
    if len(jobs) == 1 and not (os.path.isdir(out) or out.endswith("/")):
        require_writable(out, force=force, makes_folder=True)
        return {jobs[0].pid: Path(out)}
    paths = {pid: Path(out) / name for pid, name in names.items()}
    for path in paths.values():
        require_writable(str(path), force=force, makes_folder=True)
    return paths


def keep(written: Path, path: Path, force: bool = False) -> int:
    """Copy the file that a process wrote to `path`, packed as the suffix says; returns the bytes of the result.

    Raises: CannotWrite, UsageError for a file that exists by now.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"The folder {path.parent} cannot be made: {error.strerror}.") from error
    with output(str(path), force) as sink, written.open("rb") as file:
        while block := file.read(_BLOCK):
            sink.write(block)
    return sink.size


def kept_words(paths: Mapping[int, Path]) -> str:
    """The one path, or the folder of several."""
    first = next(iter(paths.values()))
    return str(first if len(paths) == 1 else first.parent)
