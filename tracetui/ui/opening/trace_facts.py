"""What is in a trace, in a few facts, for the list of traces: read by a process of its own, and kept in a cache.

The process is `tracetui show summary`, so that the numbers are those of the screen, a large file takes no memory
here, and reading can be stopped at any time. Files above a size are not read.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tracetui.files import user_cache_folder, write_whole
from tracetui.ui.opening.trace_files import TraceFile

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


@dataclass(frozen=True)
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
    """Whether a file is small enough to be read for the list."""
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
    return _facts_of_summary(output) if process.returncode == 0 else UNREADABLE


def _facts_of_summary(output: bytes) -> TraceFacts:
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
