"""Operators that were captured into graphs, as rows below those of torch's table: GPU time of the replays (R3.40).

They did not run while the trace was recorded, so that they have no calls and no CPU time; their time is inferred.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.linking.graph_captures import capture_counts
from tracetui.linking.graph_nodes import GraphNodes, graph_nodes
from tracetui.linking.groups import combinations
from tracetui.linking.placement import within
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.table import NULL, Column, Table
from tracetui.model.time_range import Part, TimeRange
from tracetui.model.trace import Trace

CAPTURED_OP = "captured op"
"""Kind of the rows."""
_FIELDS = {"name": "op", "line": "line", "function": "function", "module": "module", "input_shapes": "shapes"}
"""Columns that have texts of the capture, and the fields of `GraphNodes`."""


def with_captured_ops(trace: Trace, table: Table, part: Part | None) -> Table:
    """A table of operators with a row for each operator that was captured, by the texts that the table has."""
    nodes = graph_nodes(trace)
    rows = within(trace, nodes.rows[nodes.op >= 0], part)
    if len(rows) == 0:
        return table
    entry = nodes.index_of(rows)
    keys = [getattr(nodes, field)[entry] for name, field in _FIELDS.items() if name in table]
    alike = combinations(*keys)
    dur = trace.slices.dur[rows]
    if isinstance(part, TimeRange):
        dur = part.covered(trace.slices.start[rows], trace.slices.end[rows])
    total = np.bincount(alike.member, dur, len(alike.first))
    longest = rows[np.lexsort((-dur, alike.member))[np.unique(np.sort(alike.member), return_index=True)[1]]]
    numbers = {
        "self_device_us": total / 1000,
        "device_total_us": total / 1000,
        "kernels": np.bincount(alike.member, minlength=len(alike.first)),
    }
    columns = tuple(_more(column, nodes, entry[alike.first], numbers) for column in table.columns)
    slices = None if table.slices is None else np.concatenate([table.slices, longest])
    return replace(table, columns=columns, slices=slices, note=f"{table.note} {_note(trace)}".strip())


def _more(column: Column, nodes: GraphNodes, entry: Int64, numbers: dict[str, np.ndarray]) -> Column:
    """A column with the values of the captured operators below its own; a number of them is inferred."""
    count, inferred = len(entry), column.name in numbers
    if column.strings is not None:
        joined = Strings(column.strings)
        if column.name == "kind":
            added = np.full(count, joined.intern(CAPTURED_OP), np.int32)
        elif column.name in _FIELDS:
            ids = getattr(nodes, _FIELDS[column.name])[entry].tolist()
            added = np.array([joined.intern(nodes.texts[each]) if each >= 0 else -1 for each in ids], np.int32)
        else:
            added = np.full(count, -1, np.int32)
        return replace(column, values=np.concatenate([column.values, added]), strings=joined, doubtful=None)
    own = np.zeros(len(column), bool) if column.doubtful is None else column.doubtful
    null = NULL if column.values.dtype.kind == "i" else np.nan
    added = numbers[column.name].astype(column.values.dtype) if inferred else np.full(count, null, column.values.dtype)
    return replace(
        column,
        values=np.concatenate([column.values, added]),
        doubtful=np.concatenate([own, np.full(count, inferred)]),
    )


def _note(trace: Trace) -> str:
    counted = capture_counts(trace)
    return (
        f"A {CAPTURED_OP} put its kernels into a graph at capture and did not run here: its GPU time (~) is that of "
        f"the replays ({counted.words})."
    )
