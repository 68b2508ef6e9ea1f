"""Traces of ranks summed up in an executor of `concurrent.futures`: each file costs at most its own rank."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tracetui.errors import AnalysisFailed, NotFound, TraceError
from tracetui.opening.identity import TraceIdentity, identity_of
from tracetui.opening.summary_cache import (
    KeptSummary,
    content_digest,
    is_cache_used,
    keep_summaries,
    known_summaries,
    stored_summary,
)
from tracetui.opening.worker_pool import file_bytes, local_pool, worker_count
from tracetui.ranks.rank_summary import RankSummary
from tracetui.urls import add_url_secrets, is_of_one_process, url_secrets

STOP_SECONDS = 0.1
"""Seconds between two looks at whether the user wants to stop."""
MIN_POOL_BYTES = 1 << 20
"""Minimum size of all files for which processes are started where the user does not ask for them."""

Outcome = RankSummary | TraceError
"""What is known of a file, or why that is nothing."""
Progress = Callable[[int, int], None]
"""Told how many of how many files are done."""


def summarise(source: str) -> bytes:
    """Read a trace and return what is kept of its rank, as `RankSummary.to_bytes` writes it.

    Raises: TraceError for a file that cannot be used, AnalysisFailed for a defect.
    """
    # Imports that a process can do without where the cache has everything, or others do the reading.
    from tracetui.model.guarding import guarded
    from tracetui.ranks.summarise_trace import summarise_trace
    from tracetui.reading.load import load

    trace = load(source)
    with guarded("The summary of its rank"):
        return summarise_trace(trace).to_bytes()


class SummaryWork(NamedTuple):
    """How traces are summed up; the function and its answer travel between processes."""

    jobs: int | None = None
    """Number of processes, None for as many as cores and memory allow; with 1 it is this one."""
    summary_of: Callable[[str], bytes] = summarise
    new_pool: Callable[[int], AbstractContextManager[Executor]] = local_pool
    is_elsewhere: bool = False
    """Whether no file is read in this process, though there be one alone."""
    uses_cache: bool = True
    """Whether summaries are taken from the cache of the user, and kept there."""
    came: Callable[[str, Outcome], None] | None = None
    """Told each file as it is done, with what is known of it, in the thread that reads."""
    stopped: Callable[[], bool] | None = None
    """Asked often whether to stop: what is not read by then has no outcome."""


class _Stopped(Exception):
    """The user wants no more files; ends the pool, in the middle of what its processes do."""


class FileReading(NamedTuple):
    """What a process answers of a file."""

    data: bytes
    """Its summary."""
    identity: TraceIdentity | None = None
    """Which file it was, None where that is not to be kept."""
    digest: str = ""
    """Of its content, in hexadecimal."""


@dataclass(frozen=True)
class ReadFile:
    """Reads a file in whatever process; goes to others as it is."""

    summary_of: Callable[[str], bytes]
    uses_cache: bool
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the public forms of URLs lack."""

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
        data = stored_summary(digest) or self.summary_of(path)
        # A file that was written to in the meantime may be neither what it was nor what it is.
        return FileReading(data, identity if identity_of(path) == identity else None, digest)


def summarise_files(
    paths: Sequence[str], work: SummaryWork | None = None, progress: Progress | None = None
) -> dict[str, Outcome]:
    """The summary of each file, or why there is none.

    A process that dies costs its file one more attempt, alone. What is raised here, as by ctrl+c, ends all processes.
    """
    work = work or SummaryWork()
    uses_cache = work.uses_cache and is_cache_used()
    known: Mapping[str, Outcome] = known_summaries(paths) if uses_cache else {}
    # The largest first, so that none of them is left for the end.
    waiting = deque(sorted(dict.fromkeys(path for path in paths if path not in known), key=file_bytes, reverse=True))
    outcomes = _Outcomes(known, len(known) + len(waiting), progress, work.came)
    with suppress(_Stopped):
        _read_files(waiting, work, ReadFile(work.summary_of, uses_cache, url_secrets(waiting)), outcomes)
    if outcomes.kept:
        keep_summaries(outcomes.kept)
    return outcomes.known


def _read_files(waiting: deque[str], work: SummaryWork, read: ReadFile, outcomes: _Outcomes) -> None:
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
    """Whether files are read in this process: as asked for, or where that takes less time than to start others."""
    if any(map(is_of_one_process, paths)):
        return True
    if work.is_elsewhere:
        return not paths
    if work.jobs is not None:
        return workers <= 1
    return len(paths) <= 1 or sum(map(file_bytes, paths)) < MIN_POOL_BYTES


class _Outcomes:
    """What is known of the files so far."""

    def __init__(
        self,
        known: Mapping[str, Outcome],
        total: int,
        progress: Progress | None,
        came: Callable[[str, Outcome], None] | None = None,
    ) -> None:
        self.known = dict(known)
        self.kept: list[KeptSummary] = []
        """What the cache is to have."""
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
            self.known[path] = RankSummary.from_bytes(reading.data)
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
    pool: Executor, workers: int, waiting: deque[str], how: tuple[ReadFile, SummaryWork], outcomes: _Outcomes
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


def _add(outcomes: _Outcomes, path: str, result: Callable[[], FileReading]) -> None:
    """Add the last reading of a file."""
    if not outcomes.add(path, result):
        outcomes.give_up(path)
