"""A file that appears whole or not at all, packed as its suffix says."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from tracetui.errors import CannotWrite, UsageError
from tracetui.files import whole_file

STANDARD_OUTPUT = "-"
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 9


def refuse_output(path: str, source: str, force: bool) -> None:
    """Find out before any work whether a file can be written there.

    Raises: UsageError when it is there already (without `force`), or is the source itself, or no file;
    CannotWrite when its folder is missing.
    """
    if path == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise UsageError("Standard output is the terminal: name a file, or pipe the trace into another command.")
        return
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder: name a file in it.")
    if os.path.exists(path):
        if os.path.exists(source) and os.path.samefile(path, source):
            raise UsageError(f"{path} is the trace itself: name another file.")
        if not force:
            raise UsageError(f"{path} is there already: name another file, or overwrite it with --force.")
    if not Path(path).absolute().parent.is_dir():
        raise CannotWrite(f"{path} cannot be written: there is no folder {Path(path).parent}.")


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
def output(path: str) -> Iterator[Output]:
    """What is written here becomes the file when the block ends well, and nothing when it does not.

    Raises: CannotWrite when the disk is full or the folder may not be written to.
    """
    if path == STANDARD_OUTPUT:
        with _packed(sys.stdout.buffer, path) as sink:
            yield sink
        sys.stdout.buffer.flush()
        return
    try:
        with whole_file(Path(path)) as file, _packed(file, path) as sink:
            yield sink
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}. Nothing was left there.") from error


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
