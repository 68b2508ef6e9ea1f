"""The operator calls that launched GPU activities, and those that captured the activities of replayed graphs.

A captured call ran once, while its graph was recorded; it stands here once for each replay (R3.40).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.linking.graph_nodes import GraphNodes, graph_nodes
from tracetui.linking.groups import combinations
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, Trace
from tracetui.operators.signatures import Signatures, signature_of, signatures


@dataclass(frozen=True, eq=False)
class OperatorCalls:
    """One entry per call, those of captured operators behind the others."""

    call: Int64
    """The call of each GPU activity that was asked for, -1 for none; unlike the others not one entry per call."""
    row: Int64
    """The slice of the operator, -1 where it was captured."""
    entry: Int64
    """The entry in `nodes` of one of its activities, -1 where it was not captured."""
    op: Int64
    """Id in `texts` of the operator's name."""
    texts: Sequence[str]
    nodes: GraphNodes

    def __len__(self) -> int:
        return len(self.row)

    @property
    def first_captured(self) -> int:
        """Index of the first captured call; their number where there is none."""
        return int((self.row >= 0).sum())

    def signatures_of(self, trace: Trace, calls: Int64) -> Signatures:
        """The signatures of some calls."""
        own = signatures(trace, self.row[calls])
        captured = np.flatnonzero(self.entry[calls] >= 0)
        if len(captured) == 0:
            return own
        entry = self.entry[calls[captured]]
        pairs = combinations(self.nodes.shapes[entry], self.nodes.types[entry])
        firsts = entry[pairs.first].tolist()
        more = [
            signature_of(self._text(self.nodes.shapes[each]), self._text(self.nodes.types[each])) for each in firsts
        ]
        ids = own.id.copy()
        ids[captured] = len(own.known) + pairs.member
        return Signatures(ids, [*own.known, *more])

    def values_of(self, trace: Trace, calls: Int64) -> list[Any]:
        """The values of the arguments of some calls, None where they are not known."""
        recorded = np.flatnonzero(self.row[calls] >= 0)
        found: list[Any] = [None] * len(calls)
        if len(recorded):
            given = trace.args_of(self.row[calls[recorded]], ["Concrete Inputs"])[0]
            for index, values in zip(recorded.tolist(), given, strict=True):
                found[index] = values
        for index in np.flatnonzero(self.entry[calls] >= 0).tolist():
            text = self._text(self.nodes.values[self.entry[calls[index]]])
            found[index] = json.loads(text) if text else None
        return found

    def _text(self, number: int) -> str:
        return str(self.nodes.texts[int(number)]) if number >= 0 else ""


def operator_calls(trace: Trace, rows: Int64) -> OperatorCalls:
    """The calls behind GPU activities."""
    calls, call = _launching(trace, rows)
    nodes = graph_nodes(trace)
    entry = nodes.index_of(rows)
    held = np.flatnonzero((entry >= 0) & (trace.slices.kind[rows] != Kind.MEMCPY))
    held = held[(nodes.op_call[entry[held]] >= 0) & (nodes.op[entry[held]] >= 0) & (nodes.shapes[entry[held]] >= 0)]
    op = trace.slices.name[calls].astype(np.int64)
    if len(held) == 0:
        return OperatorCalls(call, calls, np.full(len(calls), -1, np.int64), op, trace.names, nodes)
    mine = entry[held]
    alike = combinations(links(trace).launch[rows[held]], nodes.recording[mine], nodes.op_call[mine])
    call[held] = len(calls) + alike.member
    texts = Strings(trace.names)
    number = np.array([texts.intern(text) for text in nodes.texts], np.int64)
    none = np.full(len(alike), -1, np.int64)
    return OperatorCalls(
        call,
        np.concatenate([calls, none]),
        np.concatenate([np.full(len(calls), -1, np.int64), mine[alike.first]]),
        np.concatenate([op, number[nodes.op[mine[alike.first]]]]),
        texts,
        nodes,
    )


def _launching(trace: Trace, rows: Int64) -> tuple[Int64, Int64]:
    """The operator calls that launched activities, and the number of the call of each activity, -1 for none.

    Nodes of a replayed graph do not belong to the operator around the replay.
    """
    trace_links = links(trace)
    replayed = np.zeros(len(trace.slices), bool)
    counts = trace_links.counts
    replayed[trace_links.launched[np.repeat(counts > 1, counts)]] = True
    owner = np.where(replayed[rows], -1, trace_links.owner[rows])
    # A copy has its own number of bytes.
    owner[trace.slices.kind[rows] == Kind.MEMCPY] = -1
    calls, call = np.unique(owner, return_inverse=True)
    has_none = len(calls) > 0 and calls[0] < 0
    return calls[1:] if has_none else calls, call.astype(np.int64) - int(has_none)
