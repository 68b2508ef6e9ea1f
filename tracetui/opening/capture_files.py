"""Files beside a trace that are opened with it: recordings of the capture of graphs, and logs of torch.compile.

Inference servers capture their graphs before they serve and record that apart: vLLM in `capture_traces/` beside the
trace as `graph_capture_rank_0.*.pt.trace.json.gz`, SGLang as `bs_32_rank0.json.gz`, ATOM as `bs_32_q_1_rank0.json.gz`;
`execution_details.json` has batch sizes of files. `kernel_annotations_rank0_*.json` beside the trace or one folder
above has names that the program gave to nodes, by graph node id. A file that is not named by the user is read only
where graphs were replayed of which nothing is known yet, and no more files than `MAX_FILES`.

A log (`TORCH_TRACE`) is that of a trace where its lines name a process of the trace, or its name the rank; its phases
are put below the lanes of the trace. The compilations are joined with the regions that ran by their ids; the clock
decides nothing but where in the timeline their phases are drawn.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.errors import NotATrace, NotFound, TraceError, UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.linking.graph_nodes import graph_nodes, refusals
from tracetui.linking.graph_recordings import batch_in_name, recorded_graphs, requests_of
from tracetui.linking.replays import node_id, replays
from tracetui.model.intervals import Int64, nest_slices
from tracetui.model.recorded import COMPILE_FACTS, GraphRecording, GraphScopes
from tracetui.model.results import of_file_results
from tracetui.model.table import Strings
from tracetui.model.trace import EventStore, LaneKind, Slices, Trace
from tracetui.reading.other_files import LOG

FOLDER = "capture_traces"
"""Name of the folder beside a trace."""
DETAILS = "execution_details.json"
"""Name of the file that has the batch size of each file."""
MAX_FILES = 12
"""Maximum files of the folder that are read."""
MAX_FILE_BYTES = 200 << 20
"""Maximum size of a file that is read without being named."""
MAX_DETAILS_BYTES = 1 << 20
"""Maximum size of the file with the batch sizes."""
MAX_BATCH = 10**9
"""Requests of a batch beyond which a number is none of them."""
NAMES = "kernel_annotations_rank"
"""Beginning of the name of a file with names of nodes."""
MAX_NAMES_BYTES = 256 << 20
"""Maximum size of such a file."""
_TRACE = re.compile(r"\.json(?:\.gz|\.zst)?$|\.pftrace(?:\.gz|\.zst)?$")
_LEADING = re.compile(r"(\d{1,6})\.\w+\.pt\.trace\.")
"""The name of the trace of a rank by torchtitan: `000003.1699.pt.trace.json.gz`."""
_RANK = re.compile(r"rank[_-]?(\d{1,6})", re.IGNORECASE)


def with_captures(trace: Trace, named: Sequence[str] = (), cancelled: Callable[[], bool] | None = None) -> Trace:
    """A trace with what files say about the capture of the graphs that are replayed in it.

    `named` are files or folders of the user's choice, or `none`; without any the folder beside the trace is looked at.
    Raises: TraceError for a named file that cannot be used; UsageError for a named folder without files.
    """
    if NO_FILE in named or not (named or beside(trace) or names_near(trace)):
        return trace
    files = [file for name in named for file in _files_of(name)]
    # A file of a folder may be something else; one that is named is meant.
    of_folders = set(files) - {Path(name) for name in named}
    if len(replays(trace)) == 0:
        if files:
            trace.quality.notes.append(f"{files[0].name} was not read: no graph is replayed in this trace.")
        return trace
    if not named:
        return _with_found(_with_found_names(trace), cancelled)
    scopes = tuple(_scopes(file) for file in files if file.name.startswith(NAMES))
    trace = replace(trace, graph_scopes=scopes, cache=of_file_results(trace.cache))
    recordings = [file for file in files if not file.name.startswith(NAMES)]
    return _with_named(trace, recordings, of_folders, cancelled)


def _with_named(
    trace: Trace, files: Sequence[Path], of_folders: set[Path], cancelled: Callable[[], bool] | None
) -> Trace:
    """With files of the user's choice, all of them that can be used; one that was named itself must be."""
    batches, used = _batches(trace), 0
    for path in files:
        try:
            recording = _recording(path, batches, cancelled)
            if len(recording) == 0:
                raise UsageError(f"{path} holds no capture of a graph.")
        except (TraceError, UsageError) as error:
            if path not in of_folders:
                raise
            trace.quality.notes.append(f"{path.name} cannot be used as a capture: {error}")
            continue
        trace = _with(trace, recording)
        used += 1
    if files and not used:
        raise UsageError(f"{files[0].parent} holds no trace of the capture of a graph.")
    for sentence in refusals(trace):
        trace.quality.notes.append(sentence)
    return trace


def _with_found(trace: Trace, cancelled: Callable[[], bool] | None) -> Trace:
    """With files of the folder beside the trace that say something, until every graph is known."""
    batches = _batches(trace)
    if _is_known(trace):
        return trace
    for path in _ordered(trace, beside(trace), batches)[:MAX_FILES]:
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise NotATrace(
                    f"it is larger than {MAX_FILE_BYTES >> 20} MiB. --capture {path} reads it all the same."
                )
            joined = _with(trace, _recording(path, batches, cancelled))
        except (TraceError, OSError) as error:
            trace.quality.notes.append(f"{FOLDER}/{path.name} beside the trace cannot be used: {error}")
            continue
        # A file of another batch size fits nothing and says nothing.
        # A recording is kept where it says something that the others do not.
        nodes = graph_nodes(joined)
        if (nodes.recording == len(nodes.recordings) - 1).any():
            trace = joined
        if (cancelled and cancelled()) or _is_known(trace):
            break
    return trace


def beside(trace: Trace) -> list[Path]:
    """The files with captures in the folder beside a trace, those of another rank left out."""
    if trace.path is None or is_url(trace.path):
        return []
    folder = Path(trace.path).resolve().parent / FOLDER
    rank = rank_of(trace)
    return [path for path in _traces_in(folder) if rank is None or rank_in(path.name) in (None, rank)]


def _files_of(name: str) -> list[Path]:
    if is_url(name):
        raise UsageError(f"{name} is a URL: --capture takes files and folders of this machine.")
    path = Path(name)
    if not path.is_dir():
        return [path]
    files = _traces_in(path) or _traces_in(path / FOLDER)
    if not files:
        raise UsageError(f"{name} holds no trace of the capture of a graph.")
    return files[:MAX_FILES]


def _traces_in(folder: Path) -> list[Path]:
    try:
        traces = [each for each in folder.iterdir() if _TRACE.search(each.name) and each.name != DETAILS]
        # A pipe would be waited for, and a device has no end.
        return sorted(each for each in traces if each.is_file())
    except OSError:
        return []


def _recording(path: Path, batches: dict[str, int], cancelled: Callable[[], bool] | None) -> GraphRecording:
    # A trace from the cache is opened without what reads files.
    from tracetui.reading.load import load

    recorded = load(str(path), None, cancelled)
    recording = recorded_graphs(recorded, recorded.label)
    known_batch = batches.get(path.name, batch_in_name(path.name))
    return replace(recording, batch=np.where(recording.batch < 0, known_batch, recording.batch))


def _with(trace: Trace, recording: GraphRecording) -> Trace:
    """The trace with one more recording; results that a recording may change are worked out again."""
    return replace(trace, graph_recordings=(*trace.graph_recordings, recording), cache=of_file_results(trace.cache))


def names_near(trace: Trace) -> list[Path]:
    """The files with names of nodes for the rank of a trace, beside it or one folder above; pickled ones too.

    None where the rank is not known and there are files of several.
    """
    if trace.path is None or is_url(trace.path):
        return []
    rank, folder = rank_of(trace), Path(trace.path).resolve().parent
    for place in (folder, folder.parent):
        try:
            files = sorted(each for each in place.iterdir() if each.name.startswith(NAMES) and each.is_file())
        except OSError:
            continue
        mine = [each for each in files if rank is None or rank_in(each.name) == rank]
        if mine:
            return mine if len({rank_in(each.name) for each in mine}) == 1 else []
    return []


def _with_found_names(trace: Trace) -> Trace:
    scopes = []
    for path in names_near(trace):
        if path.suffix != ".json":
            why = "reading a pickle can run what is in it; write it as JSON"
            trace.quality.notes.append(f"{path.name} was not read: {why}.")
            continue
        try:
            scopes.append(_scopes(path))
        except (TraceError, OSError) as error:
            trace.quality.notes.append(f"{path.name} cannot be used: {error}")
    return replace(trace, graph_scopes=tuple(scopes), cache=of_file_results(trace.cache)) if scopes else trace


def _scopes(path: Path) -> GraphScopes:
    """The innermost name of each node in a file.

    Raises: NotATrace for a file that is no JSON object, or too large.
    """
    try:
        if path.stat().st_size > MAX_NAMES_BYTES:
            raise NotATrace(f"{path} is larger than {MAX_NAMES_BYTES >> 20} MiB: it is not read.")
        given = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise NotATrace(f"{path} has no names of graph nodes: it is no JSON object.")
    names = {node_id(node): name for node, scopes in given.items() if (name := _innermost(scopes))}
    return GraphScopes(path.name, {node: name for node, name in names.items() if node})


def _innermost(scopes: object) -> str:
    """The last name among the scopes of a node, empty for none."""
    names = [
        each.get("name") if isinstance(each, dict) else each
        for each in (scopes if isinstance(scopes, list) else [scopes])
    ]
    return next((each for each in reversed(names) if isinstance(each, str) and each), "")


def _is_known(trace: Trace) -> bool:
    """True where the capture of every graph is known."""
    matches = graph_nodes(trace).matches
    return bool(matches) and all(match.equal for match in matches)


def _ordered(trace: Trace, files: list[Path], batches: dict[str, int]) -> list[Path]:
    """Files of the smallest batch sizes that hold what was replayed first, then those of unknown size."""
    launch = replays(trace).launch
    asked = sorted({requests_of(trace, row) for row in launch.tolist()} - {-1})

    def rank(path: Path) -> tuple[int, int]:
        batch = batches.get(path.name, batch_in_name(path.name))
        waste = [batch - requests for requests in asked if batch >= requests]
        return (0, min(waste)) if batch >= 0 and waste else (1 if batch < 0 else 2, batch)

    return sorted(files, key=rank)


def _batches(trace: Trace) -> dict[str, int]:
    """Batch sizes by file name, from the file with details in the folder beside the trace; nothing where it is odd."""
    if trace.path is None or is_url(trace.path):
        return {}
    folder = Path(trace.path).resolve().parent
    for path in (folder / FOLDER / DETAILS, folder / DETAILS):
        try:
            if not path.is_file() or path.stat().st_size > MAX_DETAILS_BYTES:
                continue
            given = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        return dict(_sizes(given))
    return {}


def _sizes(given: object) -> list[tuple[str, int]]:
    """Pairs of file name and batch size out of a list of entries, or of entries by name."""
    entries = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
    flat = [each for entry in entries for each in (entry if isinstance(entry, list) else [entry])]
    return [
        (Path(str(entry["file"])).name, entry["batch_size"])
        for entry in flat
        if isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        # A bool is an int, and no size.
        and type(size := entry.get("batch_size")) is int
        and 0 <= size < MAX_BATCH
    ]


def rank_of(trace: Trace) -> int | None:
    """The rank of the process that was recorded, None where neither the file nor its name tells."""
    info = trace.metadata.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if isinstance(rank, int):
        return rank
    leading = _LEADING.match(trace.label)
    return int(leading[1]) if leading else rank_in(trace.label)


def rank_in(name: str) -> int | None:
    """The rank in the name of a file, None for none."""
    match = _RANK.search(name)
    return int(match[1]) if match else None


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
    from tracetui.reading.load import load

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
    from tracetui.reading.source import open_source

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
    from tracetui.reading.source import open_source

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
