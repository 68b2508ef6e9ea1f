"""Functions that worker processes run in place of the one that reads a trace."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tracetui.opening.rank_reading import summarise


def note_process(path: str) -> None:
    """Note beside a file that this process reads it."""
    with Path(f"{path}.pids").open("a") as file:
        file.write(f"{os.getpid()}\n")


def noted_processes(path: Path) -> list[int]:
    """The processes that have read a file, in order."""
    noted = Path(f"{path}.pids")
    return [int(line) for line in noted.read_text().split()] if noted.exists() else []


def dies_of_rank_2(path: str) -> bytes:
    """The summary, but a file of rank 2 kills its reader."""
    note_process(path)
    if "rank2" in path:
        os.kill(os.getpid(), signal.SIGKILL)
    return summarise(path)


def dies_of_rank_2_once(path: str) -> bytes:
    """The summary, but the first reader of a file of rank 2 is killed."""
    return summarise(path) if noted_processes(Path(path)) else dies_of_rank_2(path)


def has_no_memory_for_rank_2(path: str) -> bytes:
    """The summary, but for a file of rank 2 there is no memory."""
    note_process(path)
    if "rank2" in path:
        raise MemoryError
    return summarise(path)


def never_ends(path: str) -> bytes:
    """Nothing, ever."""
    note_process(path)
    time.sleep(600)
    raise AssertionError("nobody stopped it")


def is_running(process: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def notes_process(path: str) -> bytes:
    """The summary, and a note of who read it."""
    note_process(path)
    return summarise(path)


def waits_a_while(path: str) -> bytes:
    """The summary, after a while in which somebody may want no more."""
    note_process(path)
    time.sleep(3)
    return summarise(path)
