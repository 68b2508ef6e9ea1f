"""The one rule for files that are written, and files that appear whole or not at all, packed as their suffix says.

The rule: what exists stays, unless `--force` was given, and an input is never written to. A folder, a missing folder
and a refused file are mistakes in the command (exit code 2); what fails while writing is not (exit code 1).
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from tracetui.errors import CannotWrite, UsageError
from tracetui.files import open_already, whole_file, write_numbered, write_whole
from tracetui.safe_text import clean_lines
from tracetui.urls import is_url

STANDARD_STREAM = "-"
"""Stands for standard input or output in place of a path."""
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 9


def require_writable(
    path: str, inputs: Iterable[tuple[str, str]] = (), force: bool = False, *, makes_folder: bool = False
) -> None:
    """Find out before any work whether a file can be written there.

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
    for source, what in inputs:
        if _is_same_file(path, source):
            raise UsageError(f"{path} is {what} itself: name another file.")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already: name another file, or --force replaces it.")


def refuse_terminal(path: str) -> None:
    """Raises: UsageError for a trace on standard output where that is the terminal."""
    if path == STANDARD_STREAM and sys.stdout.isatty():
        raise UsageError("Standard output is the terminal: name a file, or pipe the trace into another command.")


def _is_same_file(path: str, source: str) -> bool:
    source = "/dev/stdin" if source == STANDARD_STREAM else source
    return os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source)


def write_text(path: str, text: str, force: bool = False) -> None:
    """Write text to a file, whole or not at all.

    Raises: UsageError for a file that exists by now, without `force`; CannotWrite when it cannot be written.
    """
    with _told(path):
        write_whole(Path(path), clean_lines(text), replace=force)


def write_numbered_text(path: str, text: str) -> str:
    """Write text to a file whose name the user did not choose; a number is added where the name is taken.

    Returns the path. Raises: CannotWrite when it cannot be written.
    """
    with _told(path):
        return str(write_numbered(Path(path), clean_lines(text)))


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of the system as sentences."""
    try:
        yield
    except FileExistsError as error:
        raise UsageError(f"{path} exists already: name another file, or --force replaces it.") from error
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}. Nothing was left there.") from error


class Output:
    """What bytes are written to; `size` is known once it is closed."""

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
    """What is written here becomes the file when the block ends well, and nothing when it does not.

    Raises: UsageError for a file that exists by now, without `force`; CannotWrite when the disk is full or the folder
    may not be written to.
    """
    if path == STANDARD_STREAM:
        with _packed(sys.stdout.buffer, path) as sink:
            yield sink
        sys.stdout.buffer.flush()
        return
    with _told(path), whole_file(Path(path), replace=force) as file, _packed(file, path) as sink:
        yield sink


@contextmanager
def _packed(file: IO[bytes], path: str) -> Iterator[Output]:
    """The file, or what packs all that goes into it."""
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
