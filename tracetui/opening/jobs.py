"""Processes of the user, as `/proc` describes them: what runs in them, their rank, and whether they can be asked."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracetui.safe_text import clean

SWITCH = "KINETO_USE_DAEMON"
"""The environment variable with which a process is started so that it asks for requests."""
SOCKET_FOLDER = "KINETO_IPC_SOCKET_DIR"
"""The environment variable that names a folder for the sockets; without it they have abstract names."""
TRACE_FOLDER = "KINETO_ONDEMAND_TRACE_DIR"
"""The environment variable that names the folder below which a process of torch 2.15 writes what it is asked for."""
DEFAULT_TRACE_FOLDER = "/tmp"
"""The folder where that variable is not set, whatever the user's folder of temporary files is."""

MAX_COMMAND_BYTES = 4096
"""Bytes of a command line that are read: it may hold megabytes."""
_RANK = re.compile(r"[0-9]{1,9}")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Job:
    """A process that runs PyTorch."""

    pid: int
    command: str
    """Its command line, harmless for a terminal."""
    rank: int | None = None
    """From its environment, as torchrun and others set it."""
    seconds: float = 0.0
    """How long it has been running."""
    is_switched_on: bool = True
    """Whether it was started so that it asks for requests."""
    is_elsewhere: bool = False
    """Whether it sees other files, as in a container: what it writes is then not to be found here."""
    began: int = 0
    """When it began, in ticks since the machine did, 0 where that is not known: its id may be another's by now."""
    trace_folder: str = DEFAULT_TRACE_FOLDER
    """The folder below which it may write, as its environment has it: what lies elsewhere Kineto puts into `/tmp`."""


def job_of(pid: int) -> Job | None:
    """A process by its id; None where it is gone or of somebody else."""
    folder = _PROC / str(pid)
    try:
        with folder.joinpath("cmdline").open("rb") as file:
            words = file.read(MAX_COMMAND_BYTES).decode("utf-8", "replace").rstrip("\0").split("\0")
        variables = _environment(folder)
        began = _began(folder)
        is_elsewhere = os.readlink(folder / "ns" / "mnt") != os.readlink(_PROC / "self" / "ns" / "mnt")
    except (OSError, ValueError):
        return None
    rank = variables.get("RANK", "")
    return Job(
        pid,
        clean(shlex.join(words)),
        int(rank) if _RANK.fullmatch(rank) else None,
        max(time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK"), 0.0),
        variables.get(SWITCH, "") not in ("", "0"),
        is_elsewhere,
        began,
        variables.get(TRACE_FOLDER) or DEFAULT_TRACE_FOLDER,
    )


def by_rank(jobs: Iterable[Job]) -> list[Job]:
    """Processes by rank and id, those without a rank first."""
    return sorted(jobs, key=lambda job: (-1 if job.rank is None else job.rank, job.pid))


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        status = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def still_runs(job: Job) -> bool:
    """Whether a process has not ended: not where another one has its id by now."""
    try:
        return is_running(job.pid) and job.began in (0, _began(_PROC / str(job.pid)))
    except (OSError, ValueError):
        return False


def torch_jobs() -> list[Job]:
    """The user's processes that have PyTorch loaded, whether they can be asked or not; the oldest first."""
    jobs = [job for pid in _own_processes() if _has_torch(pid) and (job := job_of(pid)) is not None]
    return sorted(jobs, key=lambda job: -job.seconds)


def holder_of_socket(path: str) -> Job | None:
    """The process of the user that has a socket of this name open, an abstract name beginning with `@`."""
    try:
        lines = (_PROC / "net" / "unix").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    # An abstract name may end in the NUL that belongs to it, which is written as another `@`.
    inodes = {
        f"socket:[{words[6]}]" for line in lines if len(words := line.split()) > 7 and words[7].rstrip("@") == path
    }
    for pid in _own_processes():
        try:
            opened = {os.readlink(each) for each in (_PROC / str(pid) / "fd").iterdir()}
        except OSError:
            continue
        if opened & inodes:
            return job_of(pid)
    return None


def _own_processes() -> Iterator[int]:
    """The ids of the user's processes but this one."""
    for folder in _PROC.iterdir():
        try:
            if folder.name.isdecimal() and folder.stat().st_uid == os.getuid() and int(folder.name) != os.getpid():
                yield int(folder.name)
        except OSError:
            continue


def _has_torch(pid: int) -> bool:
    try:
        return b"libtorch" in (_PROC / str(pid) / "maps").read_bytes()
    except OSError:
        return False


def _environment(folder: Path) -> dict[str, str]:
    pairs = folder.joinpath("environ").read_bytes().decode("utf-8", "replace").split("\0")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _began(folder: Path) -> int:
    return int(folder.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
