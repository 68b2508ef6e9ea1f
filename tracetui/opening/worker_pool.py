"""A pool of worker processes, and how many of them cores and memory allow.

Workers end with the pool, and with the process that made it, also when that is killed: each holds the reading end of a
pipe whose writing end only this process has.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar

from tracetui.reading.remote_files import known_bytes
from tracetui.urls import is_url, url_name

WORKER_BYTES = 100 << 20
"""Memory of a worker that reads nothing."""
MEMORY_FACTOR = 3
"""Memory that reading a trace takes, by its size, unpacked."""
PACKED_FACTOR = 10
"""Size of a trace, unpacked, by that of its packed file."""
_PACKED = (".gz", ".zst")
_CGROUP = Path("/sys/fs/cgroup")

P = ParamSpec("P")
R = TypeVar("R")


class _WorkerPool(ProcessPoolExecutor):
    """Worker processes that do not hear ctrl+c: who is asked to stop is this process, which then ends them."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start a call, and a process where one is missing, which inherits the signals that are blocked here."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def local_pool(workers: int) -> Iterator[Executor]:
    """New worker processes of this machine; on an exception they end at once, in the middle of what they do."""
    # The app puts something without a file descriptor in place of standard error, which the tracker would pass on.
    with redirect_stderr(sys.__stderr__):
        resource_tracker.ensure_running()
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = _WorkerPool(workers, context, _begin_worker, (reader,))
    try:
        yield pool
    except BaseException:
        writer.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        writer.close()
        reader.close()


def _begin_worker(reader: Connection) -> None:
    threading.Thread(target=_end_with_parent, args=(reader,), daemon=True).start()


def _end_with_parent(reader: Connection) -> None:
    with suppress(EOFError, OSError):
        reader.recv_bytes()
    os._exit(1)


def worker_count(paths: Sequence[str], jobs: int | None = None) -> int:
    """How many processes read some files: `jobs`, else one per core, fewer where memory is short; at most one each."""
    if jobs is not None:
        return min(jobs, len(paths))
    need = WORKER_BYTES + MEMORY_FACTOR * max(map(unpacked_bytes, paths), default=0)
    free = available_bytes()
    fitting = len(paths) if free is None else max(free // need, 1)
    return min(core_count(), fitting, len(paths))


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def unpacked_bytes(path: str) -> int:
    """Size of a trace in memory, estimated where it is packed; 0 for a file that is not there."""
    name = url_name(path) if is_url(path) else path
    return file_bytes(path) * (PACKED_FACTOR if name.endswith(_PACKED) else 1)


def file_bytes(path: str) -> int:
    """Size of a file, of a URL as it was told last; 0 for one that is not there."""
    if is_url(path):
        return known_bytes(path)
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def available_bytes() -> int | None:
    """Memory that this process can still have, without what its container forbids; None where nothing tells."""
    known = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):
        # The limit of a container; what it uses includes files in the page cache, which go when memory is needed.
        limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        stat = (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        used -= sum(int(line.split()[1]) for line in stat if line.startswith("inactive_file "))
        known.append(max(limit - used, 0))
    return min(known, default=None)
