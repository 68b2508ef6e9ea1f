"""A file with the requests of the server that a trace is of: named by the user, or the only one beside the trace."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from tracetui.errors import TraceError
from tracetui.files import is_url
from tracetui.model.results import of_file_results
from tracetui.model.trace import Trace
from tracetui.reading.other_files import PROBED_BYTES
from tracetui.reading.request_logs import is_request_log, read_requests
from tracetui.reading.source import open_source

MAX_FILE_BYTES = 64 << 20
"""Maximum size of a file that is read without being named."""
MAX_FILES = 50
"""Maximum files beside a trace that are looked into."""
NAMES = re.compile(
    r"\.log(?:\.gz|\.zst)?$|\.jsonl(?:\.gz|\.zst)?$|(?:otel|otlp|requests)[^/]*\.(?:json|txt)(?:\.gz|\.zst)?$"
)
"""Names of files beside a trace that are looked into."""


def with_requests(trace: Trace, named: str | None, cancelled: Callable[[], bool] | None = None) -> Trace:
    """A trace with the requests in a file that is named, or in the only one beside it; what is not used is noted.

    Raises: TraceError for a named file that cannot be used.
    """
    files = [named] if named else _beside(trace)
    names = [os.path.basename(each) for each in files]
    notes = trace.quality.notes
    if len(files) > 1:
        notes.append(f"{names[0]} and {names[1]} beside the trace have requests of servers: --requests FILE reads one.")
    elif files and not named and os.path.getsize(files[0]) > MAX_FILE_BYTES:
        size = f"larger than {MAX_FILE_BYTES >> 20} MiB"
        notes.append(f"{names[0]} beside the trace is {size}: --requests {files[0]} reads it all the same.")
        return trace
    if len(files) != 1:
        return trace
    try:
        log = read_requests(files[0], cancelled or (lambda: False))
    except TraceError as error:
        if named:
            raise
        notes.append(f"{names[0]} beside the trace cannot be used: {error}")
        return trace
    return replace(trace, request_log=log, cache=of_file_results(trace.cache))


def _beside(trace: Trace) -> list[str]:
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
