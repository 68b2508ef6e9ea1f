"""Names that a program gave to kernels when it captured them into a graph: torch's `cuda_graph_annotations` (R2.24).

Their keys stand among the args of replayed kernels, or together under `annotation`. `annotated_stream` is the stream
that was named and is not the lane; `original_stream` is the one on which a kernel ran whose lane is another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.kept import kept
from tracetui.model.recorded import GraphScopes, whole_number
from tracetui.model.table import NULL, Column, numbers, texts
from tracetui.model.trace import Trace

STREAMS = ("annotated_stream", "original_stream")
KEYS = ("annotation", *STREAMS, "graph id", "graph node id", "name")
MARKED = "cudaGraphInlineAnnotated"
"""Key in the header of a trace whose kernels carry annotations."""
SAMPLED_STRETCHES, SAMPLED_NEIGHBOURS = 16, 8
"""Places in the trace, and kernels in a row at each, that are searched for annotations without a word in the header.

Neighbours stand in the same block of the file, which is read once for all of them.
"""


def mark_columns(trace: Trace, rows: Int64) -> Iterable[Column]:
    """Columns of the marks and streams of GPU activities; none in a trace without any."""
    if not has_graph_marks(trace):
        return
    annotation, annotated, original, graph, node, name = trace.args_of(rows, KEYS)
    (recorded,) = trace.args_of(rows, ["stream"])
    lane = lane_numbers(trace).stream[trace.slices.lane[rows]].tolist()
    # A .pftrace keeps the stream of the capture under its usual key.
    original = [
        moved if moved is not None or stream == number else stream
        for moved, stream, number in zip(original, recorded, lane, strict=True)
    ]
    marks = [
        mark_of(kept, title if is_node(each, number) else None)
        for kept, each, number, title in zip(annotation, graph, node, name, strict=True)
    ]
    if any(mark is not None for mark in marks):
        yield texts(col.GRAPH_MARK, marks)
    for column, values in ((col.MARKED_STREAM, annotated), (col.RAN_ON_STREAM, original)):
        streams = [whole_number(value) for value in values]
        known = np.array([NULL if stream is None else stream for stream in streams], np.int64)
        if (known != NULL).any():
            yield numbers(column, known)


@kept(on_disk=True)
def has_graph_marks(trace: Trace) -> bool:
    """True where kernels carry annotations: the header says so, or some of the kernels do."""
    if trace.metadata.get(MARKED) in (True, "true", 1):
        return True
    # Activities of all parts of the trace, and of those that no call launched alone: they may come from a graph.
    joined = links(trace)
    alone = np.isin(joined.launch[joined.gpu], joined.launches[joined.counts == 1])
    sample = np.union1d(_spread(joined.gpu), _spread(joined.gpu[~alone]))
    annotation, *streams, graph, node, name = trace.args_of(sample, KEYS)
    named = zip(graph, node, name, strict=True)
    return any(value is not None for values in (annotation, *streams) for value in values) or any(
        isinstance(title, str) and is_node(each, number) for each, number, title in named
    )


def _spread(rows: Int64) -> Int64:
    """Some rows of all parts of an array."""
    if len(rows) <= SAMPLED_STRETCHES * SAMPLED_NEIGHBOURS:
        return rows
    first = np.linspace(0, len(rows) - SAMPLED_NEIGHBOURS, SAMPLED_STRETCHES).astype(np.int64)
    return np.asarray(rows[(first[:, None] + np.arange(SAMPLED_NEIGHBOURS)).ravel()])


def is_node(graph: Any, node: Any) -> bool:
    """True where the ids of a graph and of a node are those of a node of a graph: one of them is not 0."""
    ids = str(graph), str(node)
    return any(text.isascii() and text.isdecimal() and text.strip("0") != "" for text in ids)


def mark_of(annotation: Any, name: Any) -> str | None:
    """The `name` among the args of a node of a graph, else the names in its `annotation`; None without any."""
    if isinstance(name, str) and name:
        return name
    entries = _entries(annotation)
    names = [str(entry["name"]) for entry in entries if isinstance(entry, dict) and entry.get("name")]
    return " / ".join(names) or None


def _entries(annotation: Any) -> list[Any]:
    if isinstance(annotation, str):
        try:
            parsed = json.loads(annotation)
        except (ValueError, RecursionError):
            parsed = None
        # A text that is no list and no object is the name.
        annotation = parsed if isinstance(parsed, list | dict) else {"name": annotation}
    return annotation if isinstance(annotation, list) else [annotation]


# Names that a program gave to nodes of graphs at capture: in the args of the replayed kernels, or in a file (R3.40).
#
# torch 2.15 writes them into the args of kernels, copies and fills
# (`export_chrome_trace(cuda_graph_annotations=...)`), and so does its tool for older traces; a file has them by graph
# node id, the innermost name last.

NODE_BITS = (1 << 32) - 1
"""The lower half of a graph node id is the node; the upper half is the graph, and may be left out."""


@dataclass(frozen=True, eq=False)
class NodeNames:
    """The names of some GPU activities."""

    index: Int64
    """Index in `names` for each activity, -1 for none."""
    names: tuple[str, ...]
    named_by: Int64
    """Index in `labels` of the source of each of `names`."""
    labels: tuple[str, ...]
    """Files; an empty one is the trace itself."""


def scopes_of(trace: Trace, rows: Int64) -> NodeNames:
    """The names of replayed activities, those of the trace itself before those of files."""
    known: dict[tuple[str, str], int] = {}
    index = np.full(len(rows), -1, np.int64)
    # Whether there are marks takes reading the file; without a replayed activity nothing could have one.
    inline = len(rows) > 0 and has_graph_marks(trace)
    if len(rows) == 0 or not (inline or trace.graph_scopes):
        return NodeNames(index, (), np.empty(0, np.int64), ())
    given = trace.args_of(rows, ["graph id", "graph node id", "annotation", "name"])
    files = [(file, _by_lower_half(file)) for file in trace.graph_scopes]
    for place, (graph, node, annotation, name) in enumerate(zip(*given, strict=True)):
        number = node_id(node)
        own = mark_of(annotation, name) if inline and is_node(graph, node) else None
        match = ("", own) if own else _in_files(files, number)
        if match is not None:
            index[place] = known.setdefault(match, len(known))
    labels = tuple(dict.fromkeys(label for label, _ in known))
    named_by = np.array([labels.index(label) for label, _ in known], np.int64)
    return NodeNames(index, tuple(name for _, name in known), named_by, labels)


def node_id(value: object) -> int:
    """A graph node id as a number, whether it was written as a number or as text; 0 for none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 21 else 0


def _by_lower_half(file: GraphScopes) -> dict[int, str]:
    """The name by lower half of the ids of a file, where nodes of several graphs do not differ in it."""
    names: dict[int, str | None] = {}
    for node, name in file.names.items():
        lower = node & NODE_BITS
        names[lower] = name if names.get(lower, name) == name else None
    return {lower: name for lower, name in names.items() if name is not None}


def _in_files(files: list[tuple[GraphScopes, dict[int, str]]], number: int) -> tuple[str, str] | None:
    """The file that names a node, and its name: by the whole id, by its lower half where the trace has no more."""
    for file, by_lower_half in files if number else ():
        name = file.names.get(number) or (by_lower_half.get(number) if number <= NODE_BITS else None)
        if name:
            return file.label, name
    return None
