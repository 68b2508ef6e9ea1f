"""A memory snapshot beside a trace of the same run: named by the user or found, read, and placed by the clocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from tracetui.errors import TraceError
from tracetui.memory.beside_snapshot import clock_gap, snapshot_counters
from tracetui.model.results import of_file_results
from tracetui.model.trace import Trace
from tracetui.opening.capture_files import rank_in, rank_of
from tracetui.reading.load_progress import LoadProgress
from tracetui.reading.snapshot import load_snapshot
from tracetui.reading.source import Stopped, holds_snapshot

MAX_FILE_BYTES = 64 << 20
"""Maximum size of a snapshot that is read without being named."""


def with_snapshot(
    trace: Trace,
    files: Sequence[str],
    is_named: bool,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """A trace with the memory snapshot that was made of the same run, where there is one file and the clocks allow it.

    Files that the user did not name are looked into; of several none is read. What is not used is noted.
    Raises: TraceError for a named file that cannot be used.
    """
    notes = trace.quality.notes
    if not is_named:
        rank = rank_of(trace)
        files = [each for each in files if rank is None or rank_in(os.path.basename(each)) in (None, rank)]
        files = [each for each in files if holds_snapshot(each)]
        names = [os.path.basename(each) for each in files]
        if len(files) > 1:
            notes.append(f"{names[0]} and {names[1]} beside the trace are memory snapshots: --snapshot FILE reads one.")
        elif files and os.path.getsize(files[0]) > MAX_FILE_BYTES:
            size = f"larger than {MAX_FILE_BYTES >> 20} MiB"
            notes.append(f"{names[0]} beside the trace is {size}: --snapshot {files[0]} reads it all the same.")
            return trace
        if len(files) != 1:
            return trace
    try:
        snapshot = load_snapshot(files[0], progress or (lambda _: None), cancelled or (lambda: False))
    except Stopped:
        return trace
    except TraceError as error:
        if is_named:
            raise
        notes.append(f"The memory snapshot beside the trace cannot be used: {error}")
        return trace
    if gap := clock_gap(trace, snapshot):
        notes.append(f"{snapshot.label} is not shown with this trace: {gap}.")
        return trace
    counters = (*trace.counters, *snapshot_counters(trace, snapshot))
    return replace(trace, snapshot=snapshot, counters=counters, cache=of_file_results(trace.cache))
