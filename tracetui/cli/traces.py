"""Reading and writing a trace for a command, with progress and remarks on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tracetui.cli.progress import TraceProgress
from tracetui.opening import AS_RECORDED, OpenOptions, open_trace

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.writing.container import Sink

Result = TypeVar("Result")


def read_trace(path: str, options: OpenOptions = AS_RECORDED) -> Trace:
    """Open a trace, `-` being standard input, and say on standard error what a reader must know about it.

    Raises: TraceError when the file cannot be used; UsageError for options that the trace cannot have.
    """
    with TraceProgress(path) as progress:
        trace = open_trace(path, options, progress.update)
    for note in trace.quality.notes:
        print(f"tracetui: {note}", file=sys.stderr)
    return trace


def write_trace(
    path: str, trace: Trace, write: Callable[[Sink, Callable[[int], None]], Result], force: bool = False
) -> tuple[Result, int]:
    """Write what becomes of a trace to a file, `-` being standard output; returns what `write` does, and the bytes.

    `write` is given what to write to, and whom to tell how many events of the trace it has gone through.
    Raises: UsageError, CannotWrite, and what `write` raises.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.importers.load import LoadProgress
    from tracetui.writing.output import output

    with TraceProgress("standard output" if path == "-" else path) as progress:

        def tell(events: int) -> None:
            done = trace.size_bytes * events // max(trace.events, 1)
            progress.update(LoadProgress(done, trace.size_bytes, events, "writing"))

        with output(path, force) as sink:
            result = write(sink, tell)
    return result, sink.size
