"""Traces in a folder: which files could be one, and how large and old they are. No screen."""

from __future__ import annotations

import asyncio
import fnmatch
import gzip
import json
import os
import re
import stat
import sys
import time
import zlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from textual.app import App
from textual.message import Message

from tracetui.files import user_cache_folder, write_whole
from tracetui.frozen import frozen
from tracetui.reading.other_files import (
    is_compile_log,
    is_database,
    is_export,
    is_report,
    is_snapshot,
    other_file,
)
from tracetui.reading.perfetto.recognition import is_perfetto

PATTERNS = (
    *("*.json", "*.json.gz", "*.json.zst", "*.pt.trace.json*", "*.trace", "*.trace.gz"),
    *("*.pftrace", "*.pftrace.gz", "*.pftrace.zst", "*.perfetto-trace", "*.perfetto-trace.gz"),
    *("*.pickle", "*.pickle.gz", "*.pickle.zst", "*.pkl"),
    *("*.sqlite", "*.sqlite.gz", "*.sqlite.zst", "*.nsys-rep"),
    *("*.log", "*.log.gz", "*.log.zst"),
)
"""Usual names of traces and memory snapshots."""

MAX_FOLDER_DEPTH = 3
"""Maximum depth of folders searched."""
MAX_LISTED_FILES = 500
"""Maximum files listed."""

MAX_SEARCHED_ENTRIES = 100_000
"""Maximum files and folders that a search looks at, but for those of its last folder."""
_IS_NAMED = re.compile("|".join(map(fnmatch.translate, PATTERNS)))
_SKIPPED = {"node_modules", "site-packages", "__pycache__"}
_SIGNS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"', b'"ph"')
_HEAD = 8192
_SCHEMA = 1 << 18
"""Bytes of a database after its head in which the names of its tables stand."""


@frozen(eq=True)
class TraceFile:
    """A file that looks like a trace."""

    path: Path
    bytes: int
    modified: float
    """Seconds since the epoch."""


def traces_among(paths: Iterable[Path], limit: int = MAX_LISTED_FILES) -> list[TraceFile]:
    """Those of some files that look like traces by their first bytes, newest first."""
    files = [file for path in paths if (file := trace_file(path)) is not None]
    files.sort(key=lambda file: -file.modified)
    chosen = []
    for file in files:
        if looks_like_trace(file.path):
            chosen.append(file)
            if len(chosen) == limit:
                break
    return chosen


def trace_file(path: Path) -> TraceFile | None:
    """Size and age of a file, None when it cannot be looked at or is no plain file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return TraceFile(path, facts.st_size, facts.st_mtime)


def looks_like_trace(path: Path) -> bool:
    """True where the first bytes are a trace's, a memory snapshot's or an export's of Nsight Systems.

    zstd files are believed, and reports of Nsight Systems by their name.
    """
    if is_report(path.name):
        return True
    try:
        with path.open("rb") as plain:
            is_gzip = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            file = gzip.GzipFile(fileobj=plain) if is_gzip else plain
            head = file.read(_HEAD)
            if is_database(head):
                head += file.read(_SCHEMA)
    except (OSError, EOFError, zlib.error):
        return False
    if is_snapshot(head) or is_compile_log(head):
        return True
    if other_file(head) is not None:
        return False
    is_packed = head.startswith(b"\x28\xb5\x2f\xfd")
    return (
        is_packed
        or is_export(head)
        or is_perfetto(head, is_whole=len(head) < _HEAD)
        or any(sign in head for sign in _SIGNS)
    )


class FolderSearch(NamedTuple):
    """The result of a search in a folder and below."""

    paths: list[Path]
    """Files that have the name of a trace."""
    entries: int
    """Files and folders that were looked at."""
    is_whole: bool
    """True where there were no more."""


def candidates(folder: Path, depth: int = MAX_FOLDER_DEPTH) -> FolderSearch:
    """Search a folder, and so far down as `depth` says, until very many files and folders were looked at."""
    paths: list[Path] = []
    entries = 0
    for where, folders, files in os.walk(folder):
        if entries > MAX_SEARCHED_ENTRIES:
            return FolderSearch(paths, entries, False)
        entries += len(folders) + len(files)
        level = len(Path(where).relative_to(folder).parts)
        kept = [name for name in sorted(folders) if not name.startswith(".") and name not in _SKIPPED]
        folders[:] = kept if level < depth else []
        paths += [Path(where, name) for name in files if _IS_NAMED.match(name)]
    return FolderSearch(paths, entries, True)


# Noticing traces that appear in folders, once they are written to their end. No screen.
#
# Folders are looked through now and then: no system tells of files that another machine writes. A file is complete
# when it is as it was at the last look, and where it is plain JSON, when it ends as JSON does.

WATCH_SECONDS = 1.0
"""Seconds between two looks."""
MAX_SEARCH_SHARE = 0.05
"""Maximum share of the time in which folders are looked through."""
_END_BYTES = 64
_PLAIN = (".json", ".trace")


class FileState(NamedTuple):
    """The properties of a file that change when it is written."""

    bytes: int
    modified_ns: int
    inode: int


class FolderChange(NamedTuple):
    """Traces that have appeared in the folders since the last look, or gone."""

    appeared: list[Path]
    """New or written anew, and complete; the newest last."""
    gone: list[Path]


class FolderWatch:
    """The files in folders that have the name of a trace, as they were at the last look."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._folders = [path for path in map(Path, paths) if path.is_dir()]
        self._known: dict[Path, FileState] = {}
        """Files that were there, and those that have been reported."""
        self._unfinished: dict[Path, FileState] = {}
        self._rests_until = 0.0

    def begin(self) -> None:
        """Take what is there as known."""
        self._known = self._states()

    def changes(self) -> FolderChange:
        """The changes since the last look; none so shortly after one that took long."""
        began = time.monotonic()
        if began < self._rests_until:
            return FolderChange([], [])
        states = self._states()
        gone = [path for path in self._known if path not in states]
        for path in gone:
            del self._known[path]
        others = {path: state for path, state in states.items() if self._known.get(path) != state}
        appeared = [
            path for path, state in others.items() if self._unfinished.get(path) == state and _is_complete(path)
        ]
        self._known |= {path: others[path] for path in appeared}
        self._unfinished = {path: state for path, state in others.items() if path not in appeared}
        spent = time.monotonic() - began
        self._rests_until = time.monotonic() + spent / MAX_SEARCH_SHARE
        traces = [path for path in appeared if looks_like_trace(path)]
        return FolderChange(sorted(traces, key=lambda path: others[path].modified_ns), gone)

    def _states(self) -> dict[Path, FileState]:
        states = {}
        for folder in self._folders:
            for path in candidates(folder).paths:
                try:
                    facts = path.stat()
                except OSError:
                    continue
                states[path] = FileState(facts.st_size, facts.st_mtime_ns, facts.st_ino)
        return states


def _is_complete(path: Path) -> bool:
    """True where a file that is no longer written to is whole, judged by its end."""
    if path.suffix not in _PLAIN:
        return True
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _END_BYTES, 0))
            return file.read().rstrip().endswith((b"]", b"}"))
    except OSError:
        return False


# Following a folder: every trace that appears in it is announced to the app.


@dataclass
class TraceAppeared(Message):
    """A trace was written to the folder that is followed; of several the newest."""

    path: str


class TraceFollower:
    """Looks for new traces in a thread, one look at a time."""

    def __init__(self, app: App[Any], paths: Sequence[str]) -> None:
        self._app, self._watch = app, FolderWatch(paths)
        self._is_looking = False

    def start(self) -> None:
        """Follow from now on: what is there is known."""
        self._watch.begin()
        self._app.set_interval(WATCH_SECONDS, self._look)

    def _look(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._app.run_worker(self._announce, thread=True, group="follow")

    def _announce(self) -> None:
        try:
            if appeared := self._watch.changes().appeared:
                self._app.post_message(TraceAppeared(str(appeared[-1])))
        finally:
            self._is_looking = False


# What is in a trace, in a few facts, for the list of traces: read by a process of its own, and kept in a cache.
#
# The process is `tracetui show summary`, so that the numbers are those of the screen, a large file takes no memory
# here, and reading can be stopped at any time. Files above a size are not read.

MAX_PACKED_BYTES = 16 << 20
"""Maximum size of a compressed file that is read for the list."""
MAX_PLAIN_BYTES = 128 << 20
"""Maximum size of a file that is not compressed."""
MAX_READING_SECONDS = 60.0
"""Seconds after which reading one file is given up."""
MAX_CACHED_TRACES = 2000
"""Maximum traces whose facts are kept; the oldest go first."""
_NICE = 10
_PACKED = (".gz", ".zst")


@frozen(eq=True)
class TraceFacts:
    """Facts of one trace; None where the trace does not hold one, or could not be read."""

    gpu: str | None = None
    steps: int | None = None
    kernels: int | None = None
    busy_pct: float | None = None
    verdict: str | None = None


UNREADABLE = TraceFacts()
"""Stands for a file that could not be read, so that it is not tried again."""


class FactsCache:
    """Facts by path, size and time of the file, in a file among the user's caches."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or user_cache_folder() / "trace_facts.json"
        self._facts = self._read()

    def get(self, file: TraceFile) -> TraceFacts | None:
        """The facts of a file as it is now, None where they are not known."""
        entry = self._facts.get(str(file.path.absolute()))
        return entry[1] if entry is not None and entry[0] == _state(file) else None

    def put(self, file: TraceFile, facts: TraceFacts) -> None:
        """Keep the facts of a file; a cache that cannot be written is done without."""
        name = str(file.path.absolute())
        self._facts.pop(name, None)
        self._facts[name] = _state(file), facts
        while len(self._facts) > MAX_CACHED_TRACES:
            self._facts.pop(next(iter(self._facts)))
        known = {name: [*state, asdict(facts)] for name, (state, facts) in self._facts.items()}
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(known))

    def _read(self) -> dict[str, tuple[tuple[int, float], TraceFacts]]:
        try:
            known = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        entries = known.items() if isinstance(known, dict) else ()
        return {
            name: ((entry[0], entry[1]), facts_from(entry[2]))
            for name, entry in entries
            if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], dict)
        }


def facts_from(values: Mapping[str, object]) -> TraceFacts:
    """Facts from values of any type; those of a wrong type are left out."""
    steps, kernels, busy = (_number(values.get(name)) for name in ("steps", "kernels", "busy_pct"))
    return TraceFacts(
        _text(values.get("gpu")),
        None if steps is None else int(steps),
        None if kernels is None else int(kernels),
        busy,
        _text(values.get("verdict")),
    )


def is_cheap(file: TraceFile) -> bool:
    """True for a file small enough to be read for the list."""
    return file.bytes <= (MAX_PACKED_BYTES if file.path.suffix in _PACKED else MAX_PLAIN_BYTES)


async def read_facts(path: Path) -> TraceFacts:
    """Read the facts of a trace in a process of its own, which ends with this task.

    Raises: OSError when no process can be started.
    """
    # -P: a file of the current folder is not to be imported in place of a module.
    command = (sys.executable, "-P", "-m", "tracetui", "show", "summary")
    # The facts have a cache of their own, and a folder of large traces would push out what somebody has opened.
    words = (*command, "--format", "json", "--no-cache", "--", str(path.absolute()))
    process = await asyncio.create_subprocess_exec(
        *words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True
    )
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), MAX_READING_SECONDS)
    except TimeoutError:
        return UNREADABLE
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        return UNREADABLE
    try:
        rows = {row["key"]: row["value"] for row in json.loads(output)["rows"]}
    except (ValueError, KeyError, TypeError):
        return UNREADABLE
    return facts_from({**rows, "gpu": rows.get("devices"), "busy_pct": rows.get("gpu_busy_pct")})


def _state(file: TraceFile) -> tuple[int, float]:
    return file.bytes, file.modified


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
