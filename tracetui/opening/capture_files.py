"""Recordings of the capture of graphs in files beside a trace: found by name, read, and kept as little as is needed.

Inference servers capture their graphs before they serve and record that apart: vLLM in `capture_traces/` beside the
trace as `graph_capture_rank_0.*.pt.trace.json.gz`, SGLang as `bs_32_rank0.json.gz`, ATOM as `bs_32_q_1_rank0.json.gz`;
`execution_details.json` has batch sizes of files. `kernel_annotations_rank0_*.json` beside the trace or one folder
above has names that the program gave to nodes, by graph node id. A file that is not named by the user is read only
where graphs were replayed of which nothing is known yet, and no more files than `MAX_FILES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracetui.errors import NotATrace, NotFound, TraceError, UsageError
from tracetui.files import NO_FILE, is_url
from tracetui.linking.captured_tree import refusals
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.graph_recordings import batch_in_name, recorded_graphs, requests_of
from tracetui.linking.replays import node_id, replays
from tracetui.model.recorded import GraphRecording, GraphScopes
from tracetui.model.results import of_file_results
from tracetui.model.trace import Trace

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
