"""Noticing traces that appear in folders, once they are written to their end. No screen.

Folders are looked through now and then: no system tells of files that another machine writes. A file is complete when
it is as it was at the last look, and where it is plain JSON, when it ends as JSON does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tracetui.ui.opening.trace_files import candidates, looks_like_trace

WATCH_SECONDS = 1.0
"""Seconds between two looks."""
MAX_SEARCH_SHARE = 0.05
"""Maximum share of the time in which folders are looked through."""
_END_BYTES = 64
_PLAIN = (".json", ".trace")


class FileState(NamedTuple):
    """What changes when a file is written."""

    bytes: int
    modified_ns: int
    inode: int


class FolderChange(NamedTuple):
    """What has become of the traces in the folders since the last look."""

    appeared: list[Path]
    """New or written anew, and complete; the newest last."""
    gone: list[Path]


class FolderWatch:
    """What is known of the files in folders that have the name of a trace."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._folders = [path for path in map(Path, paths) if path.is_dir()]
        self._known: dict[Path, FileState] = {}
        """Files that were there, and those that have been told of."""
        self._unfinished: dict[Path, FileState] = {}
        self._rests_until = 0.0

    def begin(self) -> None:
        """Take what is there as known."""
        self._known = self._states()

    def changes(self) -> FolderChange:
        """What has changed; nothing so shortly after a look that took long."""
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
    """Whether a file that nobody writes to any more is whole, as far as its end tells."""
    if path.suffix not in _PLAIN:
        return True
    try:
        with path.open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _END_BYTES, 0))
            return file.read().rstrip().endswith((b"]", b"}"))
    except OSError:
        return False
