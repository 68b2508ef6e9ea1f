"""Reading and writing a trace for a command, with progress and remarks on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from tracetui.cli.progress import TraceProgress
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, keep_opened, open_trace

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.writing.container import Sink

Result = TypeVar("Result")

MAX_KEEPING_SECONDS = 3.0
"""Maximum seconds that a command goes on for after its output, to write what it read to the cache."""
_to_keep: list[Trace] = []
"""The traces that were read and that the cache may take."""


def read_trace(path: str, options: OpenOptions = AS_RECORDED) -> Trace:
    """Open a trace, `-` being standard input, and say on standard error what a reader must know about it.

    Raises: TraceError when the file cannot be used; UsageError for options that the trace cannot have.
    """
    with TraceProgress(path) as progress:
        trace = open_trace(path, options, progress.update)
    if options.uses_cache:
        _to_keep.append(trace)
        _warn_of_cache()
    for note in trace.quality.notes:
        print(f"tracetui: {note}", file=sys.stderr)
    return trace


@cache
def _warn_of_cache() -> None:
    """Say once that the cache is not used, where that is for others who could write to it."""
    # It was loaded when the trace was opened.
    from tracetui.opening.cache_folder import cache_path, is_others, is_wanted

    if is_wanted() and is_others():
        what = "is a link, or others own it or may write to it"
        print(f"tracetui: the cache is not used, as {cache_path()} {what}: remove it.", file=sys.stderr)


def keep_read_traces() -> None:
    """Write the traces that were read to the cache; a command does that when all else is done."""
    end = time.monotonic() + MAX_KEEPING_SECONDS
    while _to_keep:
        keep_opened(_to_keep.pop(), lambda: time.monotonic() > end)


def forget_read_traces() -> None:
    """Let go of the traces that were read."""
    _to_keep.clear()
    _warn_of_cache.cache_clear()


def write_trace(
    path: str, trace: Trace, write: Callable[[Sink, Callable[[int], None]], Result], force: bool = False
) -> tuple[Result, int]:
    """Write what becomes of a trace to a file, `-` being standard output; returns what `write` does, and the bytes.

    `write` is given what to write to, and whom to tell how many events of the trace it has gone through.
    Raises: UsageError, CannotWrite, and what `write` raises.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.reading.load_progress import LoadProgress
    from tracetui.writing.output import output

    with TraceProgress("standard output" if path == "-" else path) as progress:

        def tell(events: int) -> None:
            done = trace.size_bytes * events // max(trace.events, 1)
            progress.update(LoadProgress(done, trace.size_bytes, events, "writing"))

        with output(path, force) as sink:
            result = write(sink, tell)
    return result, sink.size
