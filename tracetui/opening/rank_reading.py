"""Traces summed up in an executor of `concurrent.futures`, and summaries kept: each file costs at most its own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, suppress
from dataclasses import field
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from tracetui.errors import AnalysisFailed, NotFound, TraceError
from tracetui.files import absolute_path, add_url_secrets, is_of_one_process, is_url, url_name, url_secrets
from tracetui.frozen import frozen
from tracetui.opening.cache_folder import (
    SUMMARIES,
    CacheFolder,
    CacheKind,
    TraceIdentity,
    cache_folder,
    identity_of,
    max_cache_bytes,
    reading_version,
)
from tracetui.ranks.rank_summary import SUMMARY_VERSION, RankSummary
from tracetui.reading.remote_files import each_result, known_bytes, remote_version

# Summaries in the user's cache, of ranks or of another kind, each under the digest of its file's content, with an index
# of paths.
#
# A file whose identity is that in the index is not read at all; another one is read for its digest, which may be known
# of a copy. What is damaged, or was written by another release, is removed.

INDEX = "index.paths"
"""Name of the file that says which content the paths have; it counts as no summary."""
MAX_INDEXED_PATHS = 20_000
"""Maximum paths in the index, those that were read last."""
MAX_INDEX_BYTES = 64 << 20
"""Maximum size of an index that is read."""
_HEAD = struct.Struct("<8s16s16s")
_MAGIC = b"ttsumm1\n"


P = ParamSpec("P")
R = TypeVar("R")


class SummaryKind(NamedTuple, Generic[R]):
    """A kind of summary that is kept of a trace, and its place."""

    cache: CacheKind
    version: int
    """Number of the layout; a summary of another one is not read."""
    from_bytes: Callable[[bytes], R]
    """Reads what was written. Raises: ValueError for other bytes."""


RANKS = SummaryKind(SUMMARIES, SUMMARY_VERSION, RankSummary.from_bytes)
"""Summaries of ranks."""


class KeptSummary(NamedTuple):
    """A summary as it is written to the cache."""

    identity: TraceIdentity
    digest: str
    """Of the file's content, in hexadecimal."""
    data: bytes


def is_cache_used(kind: SummaryKind[Any] = RANKS) -> bool:
    """True where summaries are kept: not where the user wants no cache, or nothing tells which release reads."""
    return max_cache_bytes(kind.cache) > 0 and bool(reading_version())


def content_digest(path: str) -> str:
    """The digest of a file's content; of a URL that of its version, so that it need not be read twice.

    Raises: OSError.
    """
    if is_url(path):
        return hashlib.blake2b(f"{path} {remote_version(path)}".encode(), digest_size=16).hexdigest()
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def known_summaries(paths: Sequence[str], kind: SummaryKind[R]) -> dict[str, R]:
    """The summaries of those files that are as they were when they were read."""
    known: dict[str, R] = {}
    with cache_folder(kind=kind.cache) as folder:
        index = _index(folder, kind)
        asked = [path for path in paths if absolute_path(path) in index]
        # URLs are asked for at the same time.
        for path, identity in zip(asked, each_result(identity_of, asked), strict=True):
            entry = None if identity is None else index.get(identity.path)
            if identity is None or entry is None or entry[:-1] != list(identity[1:]):
                continue
            summary = _summary(folder, entry[-1], kind)
            if summary is not None:
                known[path] = summary[1]
    return known


def keep_summaries(read: Sequence[KeptSummary], kind: SummaryKind[Any]) -> bool:
    """Write summaries of files that have been read to the cache, and their paths to the index; whether it was done."""
    files = {each.digest + kind.cache.suffix: _packed(each.data, kind) for each in read}
    try:
        with cache_folder(create=True, kind=kind.cache) as folder:
            if folder is None or not folder.write_small(files):
                return False
            index = _index(folder, kind)
            for each in read:
                index.pop(each.identity.path, None)
                index[each.identity.path] = [*each.identity[1:], each.digest]
            # The index without contents that are gone.
            there = {entry.name for entry in folder.entries()}
            kept = [(path, entry) for path, entry in index.items() if f"{entry[-1]}{kind.cache.suffix}" in there]
            text = json.dumps(dict(kept[-MAX_INDEXED_PATHS:]), separators=(",", ":"))
            return folder.write_small({INDEX: _packed(text.encode(), kind)})
    except OSError:
        # A full disk, a folder that nobody may write to: the files are read again.
        return False


def clear_summaries(paths: Sequence[str] = (), kind: SummaryKind[Any] = RANKS) -> tuple[int, int]:
    """Remove the summaries of some traces, or all; returns how many that were, and their bytes."""
    with cache_folder(kind=kind.cache) as folder:
        if folder is None:
            return 0, 0
        index = _index(folder, kind)
        wanted = {absolute_path(path) for path in paths}
        names = {str(entry[-1]) + kind.cache.suffix for path, entry in index.items() if path in wanted}
        gone = [entry for entry in folder.entries() if not paths or entry.name in names]
        for each in gone:
            folder.remove(each.name)
        if not paths:
            folder.remove(INDEX)
        folder.remove_left_over()
    return len(gone), sum(each.bytes for each in gone)


def summaries_kept(kind: SummaryKind[Any] = RANKS) -> tuple[int, int]:
    """The number of summaries in the cache, and their bytes."""
    with cache_folder(kind=kind.cache) as folder:
        entries = [] if folder is None else folder.entries()
    return len(entries), sum(each.bytes for each in entries)


def _summary(folder: CacheFolder | None, digest: object, kind: SummaryKind[R]) -> tuple[bytes, R] | None:
    """The summary of a content, as bytes and read; one that cannot be used is removed."""
    if folder is None or not isinstance(digest, str):
        return None
    name = os.path.basename(digest) + kind.cache.suffix
    packed = _content(folder, name)
    if packed is None:
        return None
    with suppress(ValueError):
        data = _unpacked(packed, kind)
        summary = kind.from_bytes(data)
        folder.touch(name)
        return data, summary
    folder.remove(name)
    return None


def _content(folder: CacheFolder, name: str, limit: int | None = None) -> bytes | None:
    """The content of a file of the cache; None where there is none, or it cannot be read."""
    number = folder.open(name)
    if number is None:
        return None
    with os.fdopen(number, "rb") as file, suppress(OSError):
        return file.read() if limit is None or os.fstat(number).st_size <= limit else None
    return None


def _packed(data: bytes, kind: SummaryKind[Any]) -> bytes:
    """Data behind the digests of the release and of themselves."""
    version = hashlib.blake2b(f"{kind.version} {reading_version()}".encode(), digest_size=16).digest()
    return _HEAD.pack(_MAGIC, version, hashlib.blake2b(data, digest_size=16).digest()) + data


def _unpacked(packed: bytes, kind: SummaryKind[Any]) -> bytes:
    """The data that were packed.

    Raises: ValueError for others, damaged ones and those of another release.
    """
    data = packed[_HEAD.size :]
    if packed != _packed(data, kind):
        raise ValueError("it is not what was written, or of another release")
    return data


def _index(folder: CacheFolder | None, kind: SummaryKind[Any]) -> dict[str, list[object]]:
    """Identity and digest by path; empty where there is none that can be used."""
    packed = None if folder is None else _content(folder, INDEX, MAX_INDEX_BYTES)
    if packed is None:
        return {}
    try:
        index = json.loads(_unpacked(packed, kind))
    except ValueError:
        return {}
    return {path: entry for path, entry in index.items() if isinstance(entry, list) and entry}


# A pool of worker processes, and how many of them cores and memory allow.
#
# Workers end with the pool, and with the process that made it, also when that is killed: each holds the reading end of
# a pipe whose writing end only this process has.

WORKER_BYTES = 100 << 20
"""Memory of a worker that reads nothing."""
MEMORY_FACTOR = 3
"""Memory that reading a trace takes, by its size, unpacked."""
PACKED_FACTOR = 10
"""Size of a trace, unpacked, by that of its packed file."""
_PACKED = (".gz", ".zst")
_CGROUP = Path("/sys/fs/cgroup")


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
    pool = _WorkerPool(workers, context, _end_with_parent, (reader,))
    try:
        yield pool
    except BaseException:
        writer.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        writer.close()
        reader.close()


def _end_with_parent(reader: Connection) -> None:
    """Have a thread of this process end it once nobody can write to the pipe any more."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            reader.recv_bytes()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def worker_count(paths: Sequence[str], jobs: int | None = None) -> int:
    """The number of processes that read files: `jobs`, else one per core, fewer where memory is short."""
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


STOP_SECONDS = 0.1
"""Seconds between two looks at whether the user wants to stop."""
MIN_POOL_BYTES = 1 << 20
"""Minimum size of all files for which processes are started where the user does not ask for them."""

Outcome = RankSummary | TraceError
"""The summary of a file, or the error that there is none."""
Progress = Callable[[int, int], None]
"""Told how many of how many files are done."""


def summarise(source: str) -> bytes:
    """Read a trace and return what is kept of its rank, as `RankSummary.to_bytes` writes it.

    Raises: TraceError for a file that cannot be used, AnalysisFailed for a defect.
    """
    # Imports that a process can do without where the cache has everything, or others do the reading.
    from tracetui.model.results import guarded
    from tracetui.ranks.stretches import summarise_trace
    from tracetui.reading.load import load

    trace = load(source)
    with guarded("The summary of its rank"):
        return summarise_trace(trace).to_bytes()


class SummaryWork(NamedTuple):
    """The way traces are summed up; the function and its answer travel between processes."""

    jobs: int | None = None
    """Number of processes, None for as many as cores and memory allow; with 1 it is this one."""
    summary_of: Callable[[str], bytes] = summarise
    new_pool: Callable[[int], AbstractContextManager[Executor]] = local_pool
    is_elsewhere: bool = False
    """True where no file is read in this process, though there be one alone."""
    uses_cache: bool = True
    """True where summaries are taken from the cache of the user, and kept there."""
    came: Callable[[str, Outcome], None] | None = None
    """Told each file as it is done, with what is known of it, in the thread that reads."""
    stopped: Callable[[], bool] | None = None
    """Asked often whether to stop: what is not read by then has no outcome."""


class _Stopped(Exception):
    """The user wants no more files; ends the pool, in the middle of what its processes do."""


class FileReading(NamedTuple):
    """The answer of a process for a file."""

    data: bytes
    """Its summary."""
    identity: TraceIdentity | None = None
    """Identity of the file, None where the summary is not to be kept."""
    digest: str = ""
    """Of its content, in hexadecimal."""


@frozen(eq=True)
class ReadFile:
    """Reads a file in whatever process; goes to others as it is."""

    summary_of: Callable[[str], bytes]
    uses_cache: bool
    kind: SummaryKind[Any] = RANKS
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The secret parts of URLs by their public forms."""

    def __call__(self, path: str) -> FileReading:
        """The summary of a file, of the cache where that knows its content.

        Raises: TraceError.
        """
        add_url_secrets(self.secrets)
        identity = identity_of(path) if self.uses_cache else None
        if identity is None:
            return FileReading(self.summary_of(path))
        try:
            digest = content_digest(path)
        except OSError:
            return FileReading(self.summary_of(path))
        with cache_folder(kind=self.kind.cache) as folder:
            stored = _summary(folder, digest, self.kind)
        data = self.summary_of(path) if stored is None else stored[0]
        # A file that was written to in the meantime may be neither what it was nor what it is.
        return FileReading(data, identity if identity_of(path) == identity else None, digest)


def summarise_files(
    paths: Sequence[str], work: SummaryWork | None = None, progress: Progress | None = None
) -> dict[str, Outcome]:
    """The summary of the rank of each file, or why there is none; see `read_summaries`."""
    return read_summaries(paths, RANKS, work or SummaryWork(), progress)


def read_summaries(
    paths: Sequence[str], kind: SummaryKind[R], work: SummaryWork, progress: Progress | None = None
) -> dict[str, R | TraceError]:
    """The summary of each file, or why there is none; `work.summary_of` makes those of the kind.

    A process that dies costs its file one more attempt, alone. What is raised here, as by ctrl+c, ends all processes.
    """
    uses_cache = work.uses_cache and is_cache_used(kind)
    known: Mapping[str, R] = known_summaries(paths, kind) if uses_cache else {}
    # The largest first, so that none of them is left for the end.
    waiting = deque(sorted(dict.fromkeys(path for path in paths if path not in known), key=file_bytes, reverse=True))
    outcomes = _Outcomes(kind, known, len(known) + len(waiting), progress, work.came)
    with suppress(_Stopped):
        _read_files(waiting, work, ReadFile(work.summary_of, uses_cache, kind, url_secrets(waiting)), outcomes)
    if outcomes.kept:
        keep_summaries(outcomes.kept, kind)
    return outcomes.known


def _read_files(waiting: deque[str], work: SummaryWork, read: ReadFile, outcomes: _Outcomes[Any]) -> None:
    """Read what waits, in this process or in others."""
    workers = worker_count(waiting, work.jobs)
    if _is_read_here(waiting, workers, work):
        for path in waiting:
            _stop_here(work)
            _add(outcomes, path, partial(read, path))
        return
    while waiting:
        with work.new_pool(workers) as pool:
            suspects = _run_pool(pool, workers, waiting, (read, work), outcomes)
        for path in suspects:
            with work.new_pool(1) as pool:
                _add(outcomes, path, pool.submit(read, path).result)


def _stop_here(work: SummaryWork) -> None:
    """Raises: _Stopped where the user wants no more."""
    if work.stopped is not None and work.stopped():
        raise _Stopped


def _is_read_here(paths: Sequence[str], workers: int, work: SummaryWork) -> bool:
    """True where files are read in this process: as asked for, or where that takes less time than to start others."""
    if any(map(is_of_one_process, paths)):
        return True
    if work.is_elsewhere:
        return not paths
    if work.jobs is not None:
        return workers <= 1
    return len(paths) <= 1 or sum(map(file_bytes, paths)) < MIN_POOL_BYTES


class _Outcomes(Generic[R]):
    """The state of the files so far."""

    def __init__(
        self,
        kind: SummaryKind[R],
        known: Mapping[str, R],
        total: int,
        progress: Progress | None,
        came: Callable[[str, Any], None] | None = None,
    ) -> None:
        self._kind = kind
        self.known: dict[str, R | TraceError] = dict(known)
        self.kept: list[KeptSummary] = []
        """Summaries that the cache gets."""
        self._total = total
        self._progress = progress
        self._came = came
        for path in known if came is not None else ():
            self._announce(path)
        self._tell()

    def add(self, path: str, result: Callable[[], FileReading]) -> bool:
        """Add what a reading gave; whether it gave anything: not where its process died or had no memory."""
        try:
            reading = result()
            self.known[path] = self._kind.from_bytes(reading.data)
        except (BrokenExecutor, MemoryError):
            return False
        except TraceError as error:
            self.known[path] = error
        except AnalysisFailed as failure:
            self.known[path] = TraceError(str(failure))
        else:
            if reading.identity is not None:
                self.kept.append(KeptSummary(reading.identity, reading.digest, reading.data))
        self._announce(path)
        self._tell()
        return True

    def give_up(self, path: str) -> None:
        """Note that the processes which read a file ended."""
        name = os.path.basename(path)
        self.known[path] = NotFound(f"The process that read {name} ended before it was done, twice; is memory short?")
        self._announce(path)
        self._tell()

    def _announce(self, path: str) -> None:
        if self._came is not None:
            self._came(path, self.known[path])

    def _tell(self) -> None:
        if self._progress is not None and self._total:
            self._progress(len(self.known), self._total)


def _run_pool(
    pool: Executor, workers: int, waiting: deque[str], how: tuple[ReadFile, SummaryWork], outcomes: _Outcomes[Any]
) -> list[str]:
    """Have a pool read what waits until that is nothing or the pool is broken; the files it may have broken at."""
    read, work = how
    look = None if work.stopped is None else STOP_SECONDS
    running: dict[Future[FileReading], str] = {}
    suspects: list[str] = []
    while running or (waiting and not suspects):
        # One more than there are workers, so that none is idle; of a pool that breaks all of them are read again.
        while waiting and not suspects and len(running) <= workers:
            path = waiting.popleft()
            try:
                running[pool.submit(read, path)] = path
            except BrokenExecutor:
                suspects.append(path)
        _stop_here(work)
        for done in wait(running, look, FIRST_COMPLETED).done:
            path = running.pop(done)
            if not outcomes.add(path, done.result):
                suspects.append(path)
    return suspects


def _add(outcomes: _Outcomes[Any], path: str, result: Callable[[], FileReading]) -> None:
    """Add the last reading of a file."""
    if not outcomes.add(path, result):
        outcomes.give_up(path)
