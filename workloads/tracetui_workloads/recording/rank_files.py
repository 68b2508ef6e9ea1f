"""The folder with the trace of each rank: whole or not there at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.failures import Failure
from tracetui_workloads.recording.request import Request

_OF_A_RANK = re.compile(r"rank\d+(-\d+)?\.(json(\.gz)?|txt)")
"""Names of files that such a folder holds: traces, and torch's tables beside them."""


def file_name(rank: int) -> str:
    """The name of a rank's trace."""
    return f"rank{rank}.json.gz"


def part_folder(out: Path, token: str) -> Path:
    """The folder in which the traces are written until all of them are there."""
    return out.with_name(f"{out.name}.{token}.part")


def destination_failure(out: Path, replace: bool) -> Failure | None:
    """Why a folder with traces cannot be made, found out before anything is recorded; None where it can."""
    try:
        reason = _unwritable(out, replace)
    except OSError as error:
        # Also when the current folder no longer exists.
        reason = error.strerror or str(error)
    return Failure("destination", f"{out} cannot be written: {reason}.", "Choose another with -o.") if reason else None


def _unwritable(out: Path, replace: bool) -> str:
    """Why a folder cannot be made, in words; empty where it can.

    Raises: OSError where a path cannot be looked up.
    """
    if len(os.fsencode(out.name)) > trace_file.MAX_NAME_BYTES:
        return f"its name is longer than {trace_file.MAX_NAME_BYTES} bytes"
    if replace and os.path.lexists(out) and not holds_ranks_only(out):
        return "it exists, and holds something else than traces of ranks"
    return trace_file.unwritable_folder(out)


def holds_ranks_only(folder: Path) -> bool:
    """Whether a path is a folder with nothing in it but what such a recording leaves."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return all(_OF_A_RANK.fullmatch(each.name) and each.is_file() for each in folder.iterdir())


def move_folder(part: Path, out: Path, replace: bool) -> Path:
    """Move a complete folder to its destination; without `replace` to the next free number. Returns the final path.

    Raises: OSError where that fails, or where what is to be replaced holds other files.
    """
    if replace and os.path.lexists(out):
        _swap_folders(part, out)
        return out
    for path in trace_file.numbered(out):
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
        raise FileExistsError(0, "it exists, and holds something else than traces of ranks")
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
    trace_file.remove_parts(out, token)
    if request.rendezvous and not out.exists():
        for folder in (out.parent, Path(request.rendezvous).parent):
            shutil.rmtree(folder, ignore_errors=True)
