"""The profiler's file, from its export to its place: looked through, compressed, renamed.

The profiler reports no error when a disk is full or a folder missing, so the file itself is asked. A file that is
being written has a token of its recording and `.part` in its name: what a killed child left can be removed, and two
recordings to the same place, also on different machines, never write to the same file.
"""

from __future__ import annotations

import gzip
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from glob import escape, glob
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from workloads.recording.exceptions import Incomplete, NotWritten

_STEP = re.compile(rb'"ProfilerStep#(\d+)"')
_REGION = re.compile(rb'"Torch-Compiled Region')
_GPU_WORK = re.compile(rb'"cat":\s*"(?:kernel|gpu_memcpy|gpu_memset)"')
BLOCK = 1 << 20
TAIL = 1 << 14
"""Bytes at the end of a file among which its own name stands."""
LEVEL = 6
"""Of gzip."""
LONGEST_NAME = 200
"""Bytes of a file's name: systems have 255, and a partial file's is longer."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a trace holds, as far as a recording can go wrong."""

    steps: int
    """Numbers of profiler steps."""
    gpu_work: int
    """Kernels, copies and fills."""
    compiled_regions: int
    """Calls of compiled code."""


def new_token() -> str:
    """What tells the partial files of one recording from those of all others."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def part_paths(out: Path, token: str) -> tuple[Path, Path]:
    """Where a trace is written before it is complete: as the profiler exports it, and as it will be kept."""
    return out.with_name(f"{out.name}.{token}.raw.part"), out.with_name(f"{out.name}.{token}.part")


def table_paths(out: Path, token: str) -> tuple[Path, Path]:
    """Where torch's table is written before the trace is complete, and where it is kept: beside the trace, as text."""
    return out.with_name(f"{out.name}.{token}.table.part"), table_path(out)


def table_path(out: Path) -> Path:
    """The text file with torch's table beside a trace."""
    return out.with_name(f"{_stem(out)}.txt")


def _stem(out: Path) -> str:
    return out.name.removesuffix(".gz").removesuffix(".json")


def numbered(out: Path) -> Iterator[Path]:
    """The path itself, then `name-2.json.gz`, `name-3.json.gz` and so on."""
    yield out
    suffix = out.name.removeprefix(_stem(out))
    for number in count(2):
        yield out.with_name(f"{_stem(out)}-{number}{suffix}")


def free_path(out: Path, table: bool) -> Path:
    """The first of these names that neither a trace has nor, with `table`, the table beside one."""
    names = numbered(out)
    return next(path for path in names if not (os.path.lexists(path) or (table and os.path.lexists(table_path(path)))))


def put_in_place(part: Path, out: Path, replace: bool) -> Path:
    """Give a complete file its name, or the next number where the name is taken and not to be replaced."""
    if replace:
        os.replace(part, out)
        return out
    for path in numbered(out):
        try:
            # Unlike a rename this fails where the name is taken, also when another recording took it just now.
            os.link(part, path)
        except FileExistsError:
            continue
        except OSError:
            # A file system without hard links.
            if os.path.lexists(path):
                continue
            os.replace(part, path)
            return path
        part.unlink()
        return path
    raise AssertionError("there is always another number")


def remove_parts(out: Path, token: str) -> None:
    """Remove what a recording left behind, and the profiler, which writes to a name of its own first."""
    for path in glob(f"{escape(str(out))}.{token}.*part*"):
        # A folder that may not be written to any more keeps what it has, and that is no reason to fail again.
        with suppress(OSError):
            Path(path).unlink()


def unwritable(out: Path) -> str:
    """Why nothing may be put in the place of what has this name, in words; empty when a trace can go there.

    Raises: OSError where the name cannot be looked up.
    """
    if out.is_dir():
        return "it is a folder"
    if out.exists() and not out.is_file():
        # A device or a named pipe would be replaced by a file, for everybody.
        return "it is no plain file"
    if len(os.fsencode(out.name)) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} bytes"
    return ""


def require_writable(out: Path) -> None:
    """Look at the place again, at the end.

    Raises: NotWritten when something else is there by now.
    """
    if reason := unwritable(out):
        raise NotWritten(f"{out} cannot be written: {reason}.")


def claim(raw: Path) -> None:
    """Make the profiler's file, empty, for the system to say why that is not possible: the profiler would not.

    Raises: OSError.
    """
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.open("xb").close()


def look_through(path: Path) -> Contents:
    """Count what a trace holds.

    Raises: NotWritten when there is no file, Incomplete when it is cut off.
    """
    if not path.exists() or path.stat().st_size == 0:
        raise NotWritten(f"The trace could not be written in {path.parent}: {_free(path.parent)}.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if not (data[:64].lstrip().startswith(b"{") and data[-64:].rstrip().endswith(b"}")):
            raise Incomplete(f"The trace is cut off after {len(data):,} bytes: {_free(path.parent)}.")
        steps = {match.group(1) for match in _STEP.finditer(data)}
        return Contents(len(steps), _count(_GPU_WORK, data), _count(_REGION, data))


def keep(raw: Path, part: Path, out: Path) -> None:
    """Turn the profiler's file into the one to be kept, still under its name as a part; `.gz` is compressed."""
    with raw.open("rb") as source, part.open("xb") as target:
        with _packer(target, out) as packed:
            head = max(raw.stat().st_size - TAIL, 0)
            for start in range(0, head, BLOCK):
                packed.write(source.read(min(BLOCK, head - start)))
            # At its end the profiler writes where it exported to.
            packed.write(source.read().replace(os.fsencode(raw), os.fsencode(out.name)))
        target.flush()
        # Some file systems say only now that they are full; and a name is not to stand for what is not there yet.
        os.fsync(target.fileno())
    raw.unlink()


def _packer(target: BinaryIO, out: Path) -> AbstractContextManager[Any]:
    """The file itself, or a compressor in front of it."""
    if out.suffix != ".gz":
        return nullcontext(target)
    # No name and no time in the header: the same trace gives the same bytes.
    return gzip.GzipFile("", "wb", LEVEL, target, mtime=0)


def _count(pattern: re.Pattern[bytes], data: mmap.mmap) -> int:
    return sum(1 for _ in pattern.finditer(data))


def _free(folder: Path) -> str:
    """What is known of a folder, in words."""
    if not folder.is_dir():
        return "the folder does not exist"
    return f"{shutil.disk_usage(folder).free / 1e6:,.0f} MB are free there"
