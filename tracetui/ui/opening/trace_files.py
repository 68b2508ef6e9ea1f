"""Traces in a folder: which files could be one, and how large and old they are. No screen."""

from __future__ import annotations

import fnmatch
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tracetui.reading.other_files import other_file
from tracetui.reading.perfetto.recognition import is_perfetto

PATTERNS = (
    *("*.json", "*.json.gz", "*.json.zst", "*.pt.trace.json*", "*.trace", "*.trace.gz"),
    *("*.pftrace", "*.pftrace.gz", "*.pftrace.zst", "*.perfetto-trace", "*.perfetto-trace.gz"),
)
"""What a trace is usually called."""

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


@dataclass(frozen=True)
class TraceFile:
    """A file that looks like a trace."""

    path: Path
    bytes: int
    modified: float
    """Seconds since the epoch."""


def find_traces(folder: Path, depth: int = MAX_FOLDER_DEPTH, limit: int = MAX_LISTED_FILES) -> list[TraceFile]:
    """Files in a folder and below that look like traces by name and by their first bytes, newest first."""
    return traces_among(candidates(folder, depth).paths, limit)


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
    """Whether the first bytes hold a word that traces start with, or Perfetto's packets; zstd files are believed."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False
    if other_file(head) is not None:
        return False
    is_binary = head.startswith(b"\x28\xb5\x2f\xfd") or is_perfetto(head, is_whole=len(head) < _HEAD)
    return is_binary or any(sign in head for sign in _SIGNS)


class FolderSearch(NamedTuple):
    """What was found in a folder and below."""

    paths: list[Path]
    """Files that have the name of a trace."""
    entries: int
    """Files and folders that were looked at."""
    is_whole: bool
    """Whether there were no more."""


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
