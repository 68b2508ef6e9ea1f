"""Logs of torch.compile (`TORCH_TRACE`) beside a trace: found, read, and their phases put below the lanes of the trace.

A log is that of a trace where its lines name a process of the trace, or its name the rank. The compilations are joined
with the regions that ran by their ids; the clock decides nothing but where in the timeline their phases are drawn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.errors import TraceError, UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.model.intervals import Int64, nest_slices
from tracetui.model.recorded import COMPILE_FACTS
from tracetui.model.table import Strings
from tracetui.model.trace import EventStore, LaneKind, Slices, Trace
from tracetui.opening.capture_files import rank_in, rank_of
from tracetui.reading.load import load
from tracetui.reading.source import LOG, open_source

OWN_ENDINGS = (".compile.log", ".compile.log.gz")
"""Endings of the log that is recorded with a trace, in place of those of the trace."""
_TRACE_ENDING = re.compile(r"(?:\.pt)?(?:\.trace)?\.json(?:\.gz|\.zst)?$")
LOG_NAME = re.compile(r"torch_trace[^/]*\.log(?:\.gz|\.zst)?$|\.compile\.log(?:\.gz)?$")
"""Names of the logs that torch writes, and of those that are recorded with a trace."""
_LOG_ENDING = re.compile(r"\.log(?:\.gz|\.zst)?$")
MAX_LOGS = 1000
"""Maximum logs of a folder, and folders below one, that are looked at."""
_HEAD_BYTES = 1 << 16
_PROCESS = re.compile(rb'"pid":(\d{1,18})')


def with_compile_log(
    trace: Trace,
    named: str | None = None,
    cancelled: Callable[[], bool] | None = None,
    allowed: Callable[[Path], bool] = lambda path: True,
) -> Trace:
    """A trace with the log of its compilations: the one that is named, a file or a folder, or the one beside it.

    Files beside the trace that are not `allowed` are not opened.
    Raises: TraceError for a named file that cannot be used, UsageError for a folder without a log of the trace.
    """
    if named == NO_FILE or trace.format.startswith(LOG):
        return trace
    path = _named_log(trace, named) if named else _log_beside(trace, allowed)
    if path is None:
        return trace
    try:
        log = load(str(path), None, cancelled)
        if not log.format.startswith(LOG):
            raise UsageError(f"{path} is no log of torch.compile: TORCH_TRACE=FOLDER has torch write one.")
    except (TraceError, UsageError) as error:
        if named:
            raise
        trace.quality.notes.append(f"{path.name} beside the trace cannot be used: {error}")
        return trace
    trace.quality.notes += [f"{log.label}: {note}" for note in log.quality.notes]
    return joined(trace, log)


def _log_beside(trace: Trace, allowed: Callable[[Path], bool]) -> Path | None:
    if trace.path is None or is_url(trace.path) or not trace.is_torch:
        return None
    if (own := own_log(trace.path)) and allowed(own):
        return own
    folders = [Path(trace.path).parent, *([Path(folder)] if (folder := os.environ.get("TORCH_TRACE")) else [])]
    return _of_process(trace, [log for folder in folders for log in logs_in(folder) if allowed(log)])


def own_log(trace: str) -> Path | None:
    """The log that was recorded with the trace at a path, None where there is none."""
    path = Path(trace)
    stem = _TRACE_ENDING.sub("", path.name)
    logs = (path.with_name(stem + ending) for ending in OWN_ENDINGS)
    return None if is_url(trace) else next((log for log in logs if log.is_file()), None)


def _named_log(trace: Trace, named: str) -> Path:
    path = Path(named)
    if not path.is_dir():
        return path
    logs = logs_below(path)
    rank = rank_of(trace)
    of_rank = [log for log in logs if rank is not None and rank_in(log.name) == rank]
    chosen = _of_process(trace, logs) or (of_rank[0] if len(of_rank) == 1 else None)
    if chosen is None and len(logs) == 1:
        chosen = logs[0]
    if chosen is None:
        holds = f"{len(logs):,} logs of torch.compile, none of a process of this trace: name one" if logs else "no log"
        raise UsageError(f"{named} holds {holds}.")
    return chosen


def logs_in(folder: Path) -> list[Path]:
    """The files of a folder that have the name of a log, in order."""
    try:
        return sorted(each for each in folder.iterdir() if LOG_NAME.search(each.name) and each.is_file())[:MAX_LOGS]
    except OSError:
        return []


def logs_below(folder: Path) -> list[Path]:
    """The files of a folder and of those below it that are logs by their content, in order; of the first thousands."""
    listed: list[Path] = []
    for looked, (where, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        listed += [Path(where, name) for name in sorted(names) if is_log(Path(where, name))]
        if looked >= MAX_LOGS or len(listed) >= MAX_LOGS:
            break
    return listed[:MAX_LOGS]


def is_log(path: Path) -> bool:
    """True for a file that has the name of a log that torch writes, or the ending of a log and its content."""
    if LOG_NAME.search(path.name) or not _LOG_ENDING.search(path.name):
        return bool(LOG_NAME.search(path.name)) and path.is_file()
    try:
        with closing(open_source(str(path))) as source:
            return source.wrapping == LOG
    except (TraceError, OSError):
        return False


def _of_process(trace: Trace, logs: Sequence[Path]) -> Path | None:
    """The log whose first entries are of a process of the trace; None for none, and for several."""
    processes = {lane.pid for lane in trace.lanes}
    mine = [log for log in logs if _process_of(log) in processes]
    return mine[0] if len(mine) == 1 else None


def _process_of(log: Path) -> str:
    try:
        with closing(open_source(str(log))) as source:
            match = _PROCESS.search(source.peek(_HEAD_BYTES)) if source.wrapping == LOG else None
    except TraceError:
        return ""
    return match[1].decode() if match else ""


def joined(trace: Trace, log: Trace) -> Trace:
    """A trace with a log, whose phases within the time of the trace become lanes behind all others."""
    shift = log.origin_ns - trace.origin_ns
    slices, mine = log.slices, trace.slices
    start, end = slices.start + shift, slices.end + shift
    named = set(log.instants.lane[log.instants.category == log.categories.find(COMPILE_FACTS)].tolist())
    rows = np.flatnonzero((start >= trace.window[0]) & (end <= trace.window[1]) & np.isin(slices.lane, list(named)))
    kept, lane = np.unique(slices.lane[rows], return_inverse=True)
    first = np.searchsorted(lane, np.arange(len(kept)))
    last = np.searchsorted(lane, np.arange(len(kept)), side="right")
    nested = nest_slices(first.astype(np.int64), last.astype(np.int64), start[rows], slices.dur[rows])
    names, categories = Strings(trace.names), Strings(trace.categories)
    lanes = [
        replace(
            log.lanes[number],
            kind=LaneKind.ASYNC,
            first=len(mine) + low,
            last=len(mine) + high,
            rows=int(nested.row[low:high].max()) + 1,
        )
        for number, low, high in zip(kept.tolist(), first.tolist(), last.tolist(), strict=True)
    ]
    more = {
        "start": start[rows],
        "dur": slices.dur[rows],
        "name": np.array([names.intern(text) for text in log.names] or [0])[slices.name[rows]],
        "category": np.array([categories.intern(text) for text in log.categories] or [0])[slices.category[rows]],
        "kind": slices.kind[rows],
        "lane": lane + len(trace.lanes),
        "parent": np.where(nested.parent >= 0, nested.parent + len(mine), -1),
        "depth": nested.depth,
        "row": nested.row,
        "self_time": nested.self_time,
        "correlation": slices.correlation[rows],
        "external": slices.external[rows],
        "event": slices.event[rows].astype(np.int64) + trace.events,
    }
    columns = {
        name: np.concatenate([old := getattr(mine, name), values.astype(old.dtype)]) for name, values in more.items()
    }
    return replace(
        trace,
        names=names,
        categories=categories,
        slices=Slices(**columns),
        lanes=(*trace.lanes, *lanes),
        events=trace.events + log.events,
        store=_JoinedStore(trace.store, log.store, trace.events),
        compile_log=log,
        without_log=trace,
        cache={},
    )


class _JoinedStore:
    """The events of a trace, and behind them those of its log."""

    def __init__(self, own: EventStore, log: EventStore, bound: int) -> None:
        self._own, self._log, self._bound = own, log, bound

    def event(self, index: int) -> dict[str, Any]:
        """One event in full."""
        return self._own.event(index) if index < self._bound else self._log.event(index - self._bound)

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """The values of `args[key]` of many events, a list per key."""
        is_own = indices < self._bound
        values: list[list[Any]] = [[None] * len(indices) for _ in keys]
        for store, rows, less in ((self._own, is_own, 0), (self._log, ~is_own, self._bound)):
            if rows.any():
                for column, some in zip(values, store.args(indices[rows] - less, keys), strict=True):
                    for row, value in zip(np.flatnonzero(rows).tolist(), some, strict=True):
                        column[row] = value
        return values
