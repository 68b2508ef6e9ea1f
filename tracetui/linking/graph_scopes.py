"""Names that a program gave to nodes of graphs at capture: in the args of the replayed kernels, or in a file (R3.40).

torch 2.15 writes them into the args of kernels, copies and fills (`export_chrome_trace(cuda_graph_annotations=...)`),
and so does its tool for older traces; a file has them by graph node id, the innermost name last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.linking.graph_marks import has_marks, is_node, mark_of
from tracetui.model.graph_recording import GraphScopes
from tracetui.model.intervals import Int64
from tracetui.model.trace import Trace

NODE_BITS = (1 << 32) - 1
"""The lower half of a graph node id is the node; the upper half is the graph, and may be left out."""


@dataclass(frozen=True, eq=False)
class NodeNames:
    """The names of some GPU activities."""

    index: Int64
    """Index in `names` for each activity, -1 for none."""
    names: tuple[str, ...]
    named_by: Int64
    """Index in `labels` of what gave each of `names`."""
    labels: tuple[str, ...]
    """Files; an empty one is the trace itself."""


def scopes_of(trace: Trace, rows: Int64) -> NodeNames:
    """The names of replayed activities, those of the trace itself before those of files."""
    known: dict[tuple[str, str], int] = {}
    index = np.full(len(rows), -1, np.int64)
    # Whether there are marks takes reading the file; without a replayed activity nothing could have one.
    inline = len(rows) > 0 and has_marks(trace)
    if len(rows) == 0 or not (inline or trace.graph_scopes):
        return NodeNames(index, (), np.empty(0, np.int64), ())
    given = trace.args_of(rows, ["graph id", "graph node id", "annotation", "name"])
    files = [(file, _by_lower_half(file)) for file in trace.graph_scopes]
    for place, (graph, node, annotation, name) in enumerate(zip(*given, strict=True)):
        number = node_id(node)
        own = mark_of(annotation, name) if inline and is_node(graph, node) else None
        found = ("", own) if own else _in_files(files, number)
        if found is not None:
            index[place] = known.setdefault(found, len(known))
    labels = tuple(dict.fromkeys(label for label, _ in known))
    named_by = np.array([labels.index(label) for label, _ in known], np.int64)
    return NodeNames(index, tuple(name for _, name in known), named_by, labels)


def node_id(value: object) -> int:
    """A graph node id as a number, whether it was written as a number or as text; 0 for none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 21 else 0


def _by_lower_half(file: GraphScopes) -> dict[int, str]:
    """The name by lower half of the ids of a file, where nodes of several graphs do not differ in it."""
    found: dict[int, str | None] = {}
    for node, name in file.names.items():
        lower = node & NODE_BITS
        found[lower] = name if found.get(lower, name) == name else None
    return {lower: name for lower, name in found.items() if name is not None}


def _in_files(files: list[tuple[GraphScopes, dict[int, str]]], number: int) -> tuple[str, str] | None:
    """The file that names a node, and its name: by the whole id, by its lower half where the trace has no more."""
    for file, by_lower_half in files if number else ():
        name = file.names.get(number) or (by_lower_half.get(number) if number <= NODE_BITS else None)
        if name:
            return file.label, name
    return None
