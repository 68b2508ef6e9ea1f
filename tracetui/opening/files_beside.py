"""Files of other programs about the same run: requests of its server, a memory snapshot.

Each is named by the user, or the only one of its kind beside the trace. What is not used is noted with the trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from tracetui.errors import TraceError
from tracetui.files import is_url
from tracetui.memory.beside_snapshot import clock_gap, snapshot_counters
from tracetui.model.results import of_file_results
from tracetui.model.trace import Trace
from tracetui.opening.capture_files import rank_in, rank_of
from tracetui.reading.load_progress import LoadProgress
from tracetui.reading.other_files import PROBED_BYTES
from tracetui.reading.request_logs import is_request_log, read_requests
from tracetui.reading.snapshot import load_snapshot
from tracetui.reading.source import Stopped, holds_snapshot, open_source

MAX_FILE_BYTES = 64 << 20
"""Maximum size of a file that is read without being named."""
MAX_FILES = 50
"""Maximum files beside a trace that are looked into for requests."""
NAMES = re.compile(
    r"\.log(?:\.gz|\.zst)?$|\.jsonl(?:\.gz|\.zst)?$|(?:otel|otlp|requests)[^/]*\.(?:json|txt)(?:\.gz|\.zst)?$"
)
"""Names of files beside a trace that are looked into for requests."""


def _only(trace: Trace, files: Sequence[str], are: str, option: str) -> str | None:
    """The only one of some files beside a trace, None where there are several or none, or where it is too large.

    `are` says what they are, `option` names one of them all the same.
    """
    names, notes = [os.path.basename(each) for each in files], trace.quality.notes
    if len(files) > 1:
        notes.append(f"{names[0]} and {names[1]} beside the trace {are}: {option} FILE reads one.")
    elif files and os.path.getsize(files[0]) > MAX_FILE_BYTES:
        size = f"larger than {MAX_FILE_BYTES >> 20} MiB"
        notes.append(f"{names[0]} beside the trace is {size}: {option} {files[0]} reads it all the same.")
    elif files:
        return files[0]
    return None


def with_requests(trace: Trace, named: str | None, cancelled: Callable[[], bool] | None = None) -> Trace:
    """A trace with the requests in a file that is named, or in the only one beside it.

    Raises: TraceError for a named file that cannot be used.
    """
    path = named or _only(trace, _request_files(trace), "have requests of servers", "--requests")
    if path is None:
        return trace
    try:
        log = read_requests(path, cancelled or (lambda: False))
    except TraceError as error:
        if named:
            raise
        trace.quality.notes.append(f"{os.path.basename(path)} beside the trace cannot be used: {error}")
        return trace
    return replace(trace, request_log=log, cache=of_file_results(trace.cache))


def _request_files(trace: Trace) -> list[str]:
    """The files beside a trace that begin as those with requests do."""
    if trace.path is None or is_url(trace.path) or not trace.is_torch:
        return []
    try:
        with os.scandir(os.path.dirname(os.path.realpath(trace.path))) as entries:
            files = sorted(each.path for each in entries if NAMES.search(each.name) and each.is_file())
    except OSError:
        return []
    own = os.path.realpath(trace.path)
    return [path for path in files[:MAX_FILES] if os.path.realpath(path) != own and _has_requests(path)]


def _has_requests(path: str) -> bool:
    try:
        with closing(open_source(path, lambda: True, takes=lambda _: True)) as source:
            return is_request_log(source.peek(PROBED_BYTES))
    except TraceError:
        return False


def with_snapshot(
    trace: Trace,
    files: Sequence[str],
    is_named: bool,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """A trace with the memory snapshot that was made of the same run, where there is one file and the clocks allow it.

    Files that the user did not name are looked into.
    Raises: TraceError for a named file that cannot be used.
    """
    path: str | None = files[0]
    if not is_named:
        rank = rank_of(trace)
        files = [each for each in files if rank is None or rank_in(os.path.basename(each)) in (None, rank)]
        files = [each for each in files if holds_snapshot(each)]
        path = _only(trace, files, "are memory snapshots", "--snapshot")
    if path is None:
        return trace
    notes = trace.quality.notes
    try:
        snapshot = load_snapshot(path, progress or (lambda _: None), cancelled or (lambda: False))
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
