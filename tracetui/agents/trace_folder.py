"""The folder that an assistant may read: its traces by their paths below it, a few of them kept in memory.

Nothing is written: neither beside the traces nor to the cache, which is not read either.
"""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tracetui.errors import NotFound, TraceError, UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.model.trace import Trace
from tracetui.opening.capture_files import beside, logs_in, names_near, own_log, with_captures, with_compile_log
from tracetui.opening.rank_folder import FILE_SUFFIXES, RankOptions, open_rank_set, rank_candidates
from tracetui.opening.rank_reading import SummaryWork
from tracetui.opening.trace_opening import OpenOptions, open_trace
from tracetui.ranks.rank_set import RankSet
from tracetui.reading.file_layout import read_rank_header

MAX_KEPT = 3
"""Maximum traces and sets of ranks in memory; that which was not asked for the longest goes first."""
MAX_FILE_BYTES = 4 << 30
"""Maximum size of a trace, and of the traces of ranks together."""
MAX_SECONDS = 120.0
"""Maximum time to read one."""
MAX_ENTRIES = 100_000
"""Maximum files and folders that are looked at for traces."""

Kept = TypeVar("Kept")
Signature = tuple[tuple[int, ...], ...]


class TraceFolder:
    """The traces below a folder; used by one thread at a time."""

    def __init__(self, folder: str) -> None:
        """Raises: NotFound for what is no folder."""
        if not os.path.isdir(folder):
            raise NotFound(f"{folder} is no folder.")
        self.root = Path(os.path.realpath(folder))
        self._kept: OrderedDict[tuple[str, ...], tuple[Signature, Any]] = OrderedDict()

    def path(self, name: str) -> Path:
        """The file or folder that a path below the folder names, links followed.

        Raises: UsageError for a URL and for a path that leads out; NotFound.
        """
        if is_url(name):
            raise UsageError(f"{name} is a URL: only files below the folder of this server are read.")
        path = Path(os.path.realpath(self.root / name.replace("\0", "?")))
        if not path.is_relative_to(self.root):
            raise UsageError(f"{name} leads out of the folder of this server: name a file as `traces` lists it.")
        # Of a name that no file can have it is false, where `Path.exists` would raise.
        if not os.path.exists(path):
            raise NotFound(f"{name} does not exist: `traces` lists what there is.")
        return path

    def has(self, name: str) -> bool:
        """True where a path names a file below the folder as it stands."""
        try:
            return self.path(name).is_file()
        except (UsageError, NotFound):
            return False

    def below(self, path: str | Path) -> str:
        """A path as it is named to the assistant: from the folder on."""
        return os.path.relpath(path, self.root)

    def trace(self, name: str, steps_by: str = "", requests: str = "") -> Trace:
        """A trace, read again where its file has changed; `steps_by` says what counts as a step, `requests` names a
        file below the folder with the requests of its server.

        Raises: UsageError, TraceError.
        """
        path = self.path(name)
        if not path.is_file():
            kind = "a folder: name a trace in it, or ask `ranks` about it" if path.is_dir() else "no file"
            raise UsageError(f"{name} is {kind}.")
        log = self.path(requests) if requests else None
        if log is not None and not log.is_file():
            raise UsageError(f"{requests} is no file: requests are in a log or in OTLP JSON.")

        def read(is_over: Callable[[], bool]) -> Trace:
            options = OpenOptions(
                steps_by or None,
                None,
                (NO_FILE,),
                False,
                NO_FILE,
                compile_log=NO_FILE,
                requests=NO_FILE if log is None else str(log),
            )
            trace = open_trace(str(path), options, cancelled=is_over)
            # What lies beside the trace may be a link that leads out.
            trace = with_compile_log(trace, cancelled=is_over, allowed=self._holds)
            inside = all(self._holds(each) for each in (*beside(trace), *names_near(trace)))
            return with_captures(trace, cancelled=is_over) if inside else trace

        watched = [own] if (own := own_log(str(path))) and self._holds(own) else []
        watched += [] if log is None else [log]
        return self._keep((str(path), steps_by, str(log or "")), [path, *watched], read)

    def ranks(self, name: str, run: int) -> RankSet:
        """A run of the ranks in a folder.

        Raises: UsageError, TraceError.
        """
        folder = self.path(name)
        if not folder.is_dir():
            raise UsageError(f"{name} is no folder: ranks are one trace each in a folder.")
        files = [Path(each) for each in rank_candidates([str(folder)])]
        if outside := [each for each in files if not self._holds(each)]:
            raise UsageError(f"{self.below(outside[0])} is a link that leads out of the folder of this server.")

        def read(is_over: Callable[[], bool]) -> RankSet:
            work = SummaryWork(uses_cache=False, stopped=is_over)
            return open_rank_set([str(folder)], RankOptions(run=run), work=work, allowed=self._holds)

        logs = [log for log in {*logs_in(folder), *filter(None, map(own_log, map(str, files)))} if self._holds(log)]
        return self._keep((str(folder), "ranks", str(run)), [*files, *sorted(logs)], read)

    def files(self, name: str = "") -> list[Path]:
        """The files below the folder, or a folder in it, that have the name of a trace, in order of their paths.

        Raises: UsageError where there are too many files to look at; NotFound.
        """
        found, entries = [], 0
        for where, folders, names in os.walk(self.path(name)):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            entries += len(folders) + len(names)
            if entries > MAX_ENTRIES:
                raise UsageError(
                    f"There are more than {MAX_ENTRIES:,} files below {name or 'it'}: name a folder in it."
                )
            paths = [Path(where, each) for each in names if each.endswith(FILE_SUFFIXES)]
            found += [path for path in paths if path.is_file() and self._holds(path)]
        return sorted(found)

    def described(self, files: list[Path]) -> Iterator[dict[str, Any]]:
        """Describe files by their beginnings: path, size, rank, and why one is no trace."""
        for path in files:
            row: dict[str, Any] = {"trace": self.below(path), "bytes": path.stat().st_size, "rank": None}
            try:
                header = read_rank_header(str(path))
                row["rank"] = None if header is None else header.rank
            except TraceError as error:
                row["is_no_trace"] = str(error)
            yield row

    def _holds(self, path: str | Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.root)

    def _keep(self, key: tuple[str, ...], files: list[Path], read: Callable[[Callable[[], bool]], Kept]) -> Kept:
        """The kept result of reading some files; they are read where it is not there or one has changed since."""
        signature = tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in map(Path.stat, files))
        held = self._kept.pop(key, None)
        if held is None or held[0] != signature:
            # Before reading, so that never more than this is in memory.
            held = None
            while len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
            held = signature, _within_limits(self.below(key[0]), files, read)
        self._kept[key] = held
        kept: Kept = held[1]
        return kept


def _within_limits(name: str, files: list[Path], read: Callable[[Callable[[], bool]], Kept]) -> Kept:
    """Read files within a time limit; `read` is given a function that says when its time is over.

    Raises: UsageError for what is no plain file, or takes too long, or is too large to be read between two questions.
    """
    every = [path.stat() for path in files]
    size = sum(each.st_size for each in every)
    if not all(stat.S_ISREG(each.st_mode) for each in every):
        raise UsageError(f"{name} is no plain file.")
    advice = "`tracetui cut` makes a part of it a trace."
    if size > MAX_FILE_BYTES:
        limit = f"{MAX_FILE_BYTES >> 30} GiB are read at most"
        raise UsageError(f"{name} has {size / 2**30:.1f} GiB, and {limit}: {advice}")
    end = time.monotonic() + MAX_SECONDS

    def is_over() -> bool:
        return time.monotonic() > end

    try:
        return read(is_over)
    finally:
        # What was read by then is a part, which part by chance.
        if is_over():
            raise UsageError(f"Reading {name} takes more than {MAX_SECONDS:.0f} s: {advice}")
