"""Where the traces of processes that were attached to are kept, and how they get there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tracetui.errors import CannotWrite
from tracetui.files import numbered
from tracetui.opening.jobs import Job
from tracetui.writing.output import output, require_writable

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
        return {pid: _free(folder / name) for pid, name in names.items()}
    if len(jobs) == 1 and not (os.path.isdir(out) or out.endswith("/")):
        require_writable(out, force=force, makes_folder=True)
        return {jobs[0].pid: Path(out)}
    paths = {pid: Path(out) / name for pid, name in names.items()}
    for path in paths.values():
        require_writable(str(path), force=force, makes_folder=True)
    return paths


def keep(written: Path, path: Path, force: bool = False) -> int:
    """Copy what a process wrote to where it is wanted, packed as the suffix says; returns the bytes of the result.

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
    every = list(paths.values())
    return str(every[0] if len(every) == 1 else every[0].parent)


def _free(path: Path) -> Path:
    return next(each for each in numbered(path) if not os.path.lexists(each))
