"""The trace file of a recording, from the profiler's export to its destination: checked, compressed, renamed.

The profiler reports no error when a disk is full or a folder is missing, so the file itself is checked. The name of a
partial file contains a token of its recording and `.part`: files of a killed child can be removed, and two recordings
to the same path, also from different machines, never write to the same file.
"""

from __future__ import annotations

import errno
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

from tracetui_workloads.recording.exceptions import DESTINATION_HINT, RecordingError
from tracetui_workloads.recording.protocol import Failure, Request

_STEP = re.compile(rb'"ProfilerStep#(\d+)"')
_STEP_DURATION = re.compile(
    rb'"cat":\s*"user_annotation",\s*"name":\s*"ProfilerStep#\d+"[^{}]*?"dur":\s*(\d+(?:\.\d+)?)'
)
_LINE = re.compile(rb'"cat":\s*"cpu_op",\s*"name":\s*"line: ')
_LINE_WITH_CATEGORY = b'"cat": "source_line", "name": "line: '
"""A record of `lines.PREFIX` as the profiler writes it, and as it is kept."""
_REGION = re.compile(rb'"Torch-Compiled Region')
_GPU_ACTIVITY = re.compile(rb'"cat":\s*"(?:kernel|gpu_memcpy|gpu_memset)"')
COPY_BLOCK_BYTES = 1 << 20
"""Bytes that are compressed at once."""
TAIL_BYTES = 1 << 14
"""Bytes at the end of the profiler's file that contain the name of the file."""
GZIP_LEVEL = 6
"""Compression level of gzip."""
NO_RANK_FOLDER = "it exists, and holds something else than traces of ranks"
FOLDER_HINT = "Choose another with -o."
MAX_NAME_BYTES = 200
"""Maximum bytes of a file name: file systems allow 255, and the name of a partial file is longer."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a trace by which a recording is checked."""

    steps: int
    """Number of profiler steps."""
    gpu_activities: int
    """Number of kernels, copies and fills."""
    compiled_regions: int
    """Number of calls of compiled code."""
    step_us: tuple[float, ...] = ()
    """Durations of the profiler steps on the CPU, in the order of the file."""
    lines: int = 0
    """Number of records of lines."""


def new_token() -> str:
    """A text that is unique to one recording, for the names of its partial files."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def part_paths(out: Path, token: str) -> tuple[Path, Path]:
    """The paths of the partial trace: as the profiler exports it, and as it will be kept."""
    return out.with_name(f"{out.name}.{token}.raw.part"), out.with_name(f"{out.name}.{token}.part")


def table_path(out: Path) -> Path:
    """The path of torch's table beside a trace."""
    return out.with_name(f"{_stem(out)}.txt")


def keep_compile_log(folder: Path, out: Path) -> None:
    """Pack the log that torch wrote to a folder beside a trace; nothing where it wrote none, or several.

    Raises: OSError.
    """
    logs = list(folder.glob("*.log"))
    if len(logs) == 1:
        with (
            logs[0].open("rb") as source,
            gzip.open(out.with_name(f"{_stem(out)}.compile.log.gz"), "wb", compresslevel=6) as packed,
        ):
            shutil.copyfileobj(source, packed, 1 << 20)


def _stem(out: Path) -> str:
    return out.name.removesuffix(".gz").removesuffix(".json")


def numbered(out: Path) -> Iterator[Path]:
    """The path itself, then `name-2.json.gz`, `name-3.json.gz` and so on."""
    yield out
    for number in count(2):
        yield with_suffix_word(out, f"-{number}")


def with_suffix_word(out: Path, word: str) -> Path:
    """A path with a word before `.json.gz` or what it ends in."""
    return out.with_name(f"{_stem(out)}{word}{out.name.removeprefix(_stem(out))}")


def free_path(out: Path, table: bool) -> Path:
    """The first numbered path where no trace exists nor, with `table`, a table beside it."""
    names = numbered(out)
    return next(path for path in names if not (os.path.lexists(path) or (table and os.path.lexists(table_path(path)))))


def move_to_destination(part: Path, out: Path, replace: bool) -> Path:
    """Move a complete file to its destination; without `replace` to the next free number. Returns the final path."""
    if replace:
        os.replace(part, out)
        return out
    for path in numbered(out):
        try:
            # Unlike a rename this fails where the file exists, also if another recording has just created it.
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
    """Remove the partial files of a recording, also those of the profiler, which first writes to a name it derives."""
    for path in glob(f"{escape(str(out))}.{token}.*part*"):
        # In a folder that has become read-only the files stay, which must not hide the first error.
        with suppress(OSError):
            Path(path).unlink()


def unwritable(out: Path) -> str:
    """The reason why a trace cannot be written to a path; empty where it can.

    Raises: OSError where the path cannot be looked up.
    """
    if out.is_dir():
        return "it is a folder"
    if out.exists() and not out.is_file():
        # A device or a named pipe would be replaced by a file, for all programs.
        return "it is not a regular file"
    if len(os.fsencode(out.name)) > MAX_NAME_BYTES:
        return f"its name is longer than {MAX_NAME_BYTES} bytes"
    return ""


def unwritable_folder(out: Path) -> str:
    """The reason why no file can be created in the folder of a path, nor the folder itself; empty where one can.

    Raises: OSError where a name cannot be looked up.
    """
    folder = next(each for each in out.absolute().parents if each.exists())
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK) else f"{folder} is not writable"


def destination_failure(out: Path, replace: bool = False, is_folder: bool = False) -> Failure | None:
    """The reason why a trace, or a folder with those of ranks, cannot be written; None where it can.

    Looked up before anything is recorded, which can take minutes. The folder of a trace is created later.
    """
    try:
        if not is_folder:
            reason = unwritable(out)
        elif len(os.fsencode(out.name)) > MAX_NAME_BYTES:
            reason = f"its name is longer than {MAX_NAME_BYTES} bytes"
        else:
            is_other = replace and os.path.lexists(out) and not holds_ranks_only(out)
            reason = NO_RANK_FOLDER if is_other else ""
        reason = reason or unwritable_folder(out)
    except OSError as error:
        # Also when the current folder no longer exists.
        reason = error.strerror or str(error)
    hint = FOLDER_HINT if is_folder else DESTINATION_HINT
    return Failure("destination", f"{out} cannot be written: {reason}.", hint) if reason else None


def require_writable(out: Path) -> None:
    """Check the destination again just before the trace is moved there.

    Raises: RecordingError where it can no longer be written.
    """
    if reason := unwritable(out):
        raise RecordingError("destination", f"{out} cannot be written: {reason}.", DESTINATION_HINT)


def create_empty(raw: Path) -> None:
    """Create the profiler's file, empty: the system reports why that fails, and the profiler would not.

    Raises: OSError.
    """
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.open("xb").close()


def read_contents(path: Path) -> Contents:
    """Count the contents of a trace.

    Raises: RecordingError where there is no file, or it is cut off.
    """
    if not path.exists() or path.stat().st_size == 0:
        message = f"The trace could not be written in {path.parent}: {_folder_state(path.parent)}."
        raise RecordingError("destination", message, DESTINATION_HINT)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if not (data[:64].lstrip().startswith(b"{") and data[-64:].rstrip().endswith(b"}")):
            message = f"The trace is cut off after {len(data):,} bytes: {_folder_state(path.parent)}."
            raise RecordingError("incomplete", message)
        steps = {match.group(1) for match in _STEP.finditer(data)}
        durations = tuple(float(match.group(1)) for match in _STEP_DURATION.finditer(data))
        found = (sum(1 for _ in each.finditer(data)) for each in (_GPU_ACTIVITY, _REGION, _LINE))
        gpu_activities, regions, lines = found
        return Contents(len(steps), gpu_activities, regions, durations, lines)


def pack(raw: Path, part: Path, out: Path, placeholder: bytes = b"", metadata: bytes = b"") -> None:
    """Copy the profiler's file to the partial file that will be kept, compressed where `out` ends in `.gz`.

    The placeholder, which the profiler wrote near the start of the file, gives way to metadata that was not known then.
    Records of lines, which it writes like operators, get a category of their own.

    Raises: RecordingError where the placeholder is not there.
    """
    with raw.open("rb") as source, part.open("xb") as target:
        with _packer(target, out) as packed:
            head = max(raw.stat().st_size - TAIL_BYTES, 0)
            is_replaced = not placeholder
            rest = b""
            for start in range(0, head, COPY_BLOCK_BYTES):
                block = rest + source.read(min(COPY_BLOCK_BYTES, head - start))
                # What a pattern must match stands on one line of the file.
                cut = block.rfind(b"\n") + 1
                block, rest = _LINE.sub(_LINE_WITH_CATEGORY, block[:cut]), block[cut:]
                if not is_replaced and placeholder in block:
                    block, is_replaced = block.replace(placeholder, metadata, 1), True
                packed.write(block)
            # The profiler writes its export path near the end of the file.
            tail = _LINE.sub(_LINE_WITH_CATEGORY, rest + source.read()).replace(os.fsencode(raw), os.fsencode(out.name))
            if not is_replaced and placeholder not in tail:
                raise RecordingError("incomplete", "The trace lacks the metadata of its recording.")
            packed.write(tail if is_replaced else tail.replace(placeholder, metadata, 1))
        target.flush()
        # Some file systems report only now that they are full; and the data must be on disk before the rename.
        os.fsync(target.fileno())
    raw.unlink()


def replace_text(path: Path, old: bytes, new: bytes) -> None:
    """Replace the first occurrence of a text in a trace, through a partial file; nothing where it is not there.

    Raises: OSError.
    """
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if old not in data:
        return
    token = new_token()
    part = part_paths(path, token)[1]
    try:
        with part.open("xb") as target:
            with _packer(target, path) as packed:
                packed.write(data.replace(old, new, 1))
            target.flush()
            os.fsync(target.fileno())
        os.replace(part, path)
    finally:
        remove_parts(path, token)


def _packer(target: BinaryIO, out: Path) -> AbstractContextManager[Any]:
    """The file itself, or a compressor that writes to it."""
    if out.suffix != ".gz":
        return nullcontext(target)
    # No name and no time in the header: the same trace gives the same bytes.
    return gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0)


def _folder_state(folder: Path) -> str:
    """The free space of a folder, in words for a message."""
    if not folder.is_dir():
        return "the folder does not exist"
    return f"{shutil.disk_usage(folder).free / 1e6:,.0f} MB are free"


# The folder with the trace of each rank: whole or not there at all.

_RANK_FILE = re.compile(r"rank\d+(-\d+)?\.(json(\.gz)?|txt|compile\.log\.gz)")
"""Names of files that such a folder holds: traces, and torch's tables beside them."""


def holds_ranks_only(folder: Path) -> bool:
    """True for a folder, no link, with nothing in it but files of such a recording."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return all(_RANK_FILE.fullmatch(each.name) and each.is_file() for each in folder.iterdir())


def move_folder(part: Path, out: Path, replace: bool) -> Path:
    """Move a complete folder to its destination; without `replace` to the next free number. Returns the final path.

    Raises: OSError where that fails, or where what is to be replaced holds other files.
    """
    if replace and os.path.lexists(out):
        _swap_folders(part, out)
        return out
    for path in numbered(out):
        # A folder with files, which another recording has just made, is not replaced either.
        with suppress(FileExistsError, NotADirectoryError):
            if not os.path.lexists(path):
                _rename_folder(part, path)
                return path
    raise AssertionError("there is always another number")


def _swap_folders(part: Path, out: Path) -> None:
    """Put a complete folder in the place of an older one, which is removed.

    Raises: OSError where the older one holds other files.
    """
    if not holds_ranks_only(out):
        raise FileExistsError(0, NO_RANK_FOLDER)
    old = part.with_name(f"{part.name}.old.part")
    os.rename(out, old)
    try:
        os.rename(part, out)
    except OSError:
        os.rename(old, out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _rename_folder(part: Path, path: Path) -> None:
    """Rename a folder.

    Raises: FileExistsError where another folder with files is there, on whatever system; OSError.
    """
    try:
        os.rename(part, path)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise FileExistsError(error.errno, error.strerror) from error
        raise


def remove_files(request: Request, out: Path, token: str) -> None:
    """Remove the partial files of a process; without a trace of this rank those of the others are worth nothing."""
    remove_parts(out, token)
    if request.rendezvous and not out.exists():
        for folder in (out.parent, Path(request.rendezvous).parent):
            shutil.rmtree(folder, ignore_errors=True)
