"""Writing a trace for a text command, and what is told on standard error meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tracetui.cli.reading import ProgressLine, label_of

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.writing.container import Sink

Told = TypeVar("Told")


def write_trace(path: str, trace: Trace, write: Callable[[Sink, Callable[[int], None]], Told]) -> tuple[Told, int]:
    """Write what becomes of a trace to a file, `-` being standard output; returns what `write` does, and the bytes.

    `write` is given what to write to, and whom to tell how many events of the trace it has gone through.
    Raises: CannotWrite, and what `write` raises.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.importers.load import LoadProgress
    from tracetui.writing.output import STANDARD_OUTPUT, output

    with ProgressLine("standard output" if path == STANDARD_OUTPUT else label_of(path)) as line:

        def tell(events: int) -> None:
            done = trace.size_bytes * events // max(trace.events, 1)
            line.update(LoadProgress(done, trace.size_bytes, events, "writing"))

        with output(path) as sink:
            told = write(sink, tell)
    return told, sink.size
