"""CPU calls of a side, one entry per slice: operators, annotations and runtime calls, with the costs of the ops pane.

View ops without GPU activity and occupancy queries are folded: they belong to the nearest operator around them that is
neither. A view op that the program calls directly stands for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracetui.comparing.op_names import COMPILE, is_compile, shared_name
from tracetui.comparing.side import Side
from tracetui.idle.waits import flush, sync_calls
from tracetui.linking.groups import combinations
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, nearest
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import Costs, is_overlapped
from tracetui.operators.views import INNER_VIEWS, idle_view_rows
from tracetui.tables.occupancy import queries

OP, ANNOTATION, RUNTIME, SLICE, WAIT = "op", "annotation", "runtime", "slice", "wait"
"""Kinds of rows besides torch.compile; a wait is a call in which the CPU waits for the GPU."""

_KINDS = {Kind.CPU_OP: OP, Kind.ANNOTATION: ANNOTATION, Kind.RUNTIME: RUNTIME, Kind.OTHER: SLICE}


class CallKey(NamedTuple):
    """Kind and name that distinguish the rows of a table."""

    kind: str
    name: str


@dataclass(frozen=True, eq=False)
class Calls:
    """Parallel arrays, one entry per slice; the steps themselves and the profiler's last wait are left out."""

    row: Int64
    part: Int64
    key: Int64
    """Index in `keys`."""
    into: Int64
    """Index in `keys` of the operator into which the slice is folded, -1 for a slice that stands for itself."""
    self_cpu: Int64
    """In ns; 0 where callees overlap and took more time than the call."""
    overlapped: Bool
    """Mask of the calls of which that is so."""
    cpu: Int64
    """Duration in ns."""
    keys: tuple[CallKey, ...]


def calls(side: Side) -> Calls:
    """The calls within the parts of a side, found once."""
    return side.trace.remember(("calls", side.scope), lambda: _make(side))


def _make(side: Side) -> Calls:
    trace = side.trace
    cost = side.costs()
    part = side.part_of(cost.row)
    kind = trace.slices.kind[cost.row]
    held = (part >= 0) & np.isin(kind, list(_KINDS))
    held &= ~np.isin(cost.row, np.concatenate([steps(trace).row, flush(trace)]))
    cost, part = cost.take(np.flatnonzero(held)), part[held]
    key, keys = _keys(trace, cost)
    host = _hosts(trace, cost.row)
    into = np.where(host >= 0, key[host], -1)
    own = np.maximum(cost.self_cpu, 0)
    return Calls(cost.row, part, key, into, own, is_overlapped(cost.self_cpu), cost.cpu, keys)


def _keys(trace: Trace, cost: Costs) -> tuple[Int64, tuple[CallKey, ...]]:
    """The key of each slice; each name is processed once."""
    kind = trace.slices.kind[cost.row].astype(np.int64)
    waits = np.isin(cost.row, sync_calls(trace))
    pairs = combinations(cost.name, kind, waits.astype(np.int64))
    known: dict[CallKey, int] = {}
    indices = []
    for first in pairs.first.tolist():
        name = cost.texts[int(cost.name[first])]
        sort = WAIT if waits[first] else _KINDS[Kind(int(kind[first]))]
        wanted = CallKey(COMPILE if sort in (OP, ANNOTATION) and is_compile(name) else sort, shared_name(name))
        indices.append(known.setdefault(wanted, len(known)))
    return np.array(indices, np.int64)[pairs.member], tuple(known)


def _hosts(trace: Trace, rows: Int64) -> Int64:
    """For each slice the index in `rows` of the operator into which it is folded, -1 for none."""
    asks = np.isin(rows, queries(trace))
    among = np.flatnonzero((trace.slices.kind[rows] == Kind.CPU_OP) | asks)
    parent = forest(trace, rows[among])
    folded = _is_folded(trace, rows[among], parent) | asks[among]
    top = nearest(parent, ~folded)
    # A view op within no other operator stands for itself, and what it calls is folded into it.
    roots = folded & ~asks[among] & (top < 0) & (parent < 0)
    folded &= ~roots
    top = nearest(parent, ~folded)
    host = np.full(len(rows), -1, np.int64)
    inner = np.flatnonzero(folded & (top >= 0))
    host[among[inner]] = among[top[inner]]
    return host


def _is_folded(trace: Trace, rows: Int64, parent: Int64) -> Bool:
    """Which operators are view ops without GPU activity; where there is no GPU, those that call nothing else either."""
    is_view: Bool = np.isin(rows, idle_view_rows(trace))
    above = np.where(parent >= 0, parent, 0)
    inner = np.isin(trace.slices.name[rows], [trace.names.find(name) for name in INNER_VIEWS])
    is_view |= (parent >= 0) & is_view[above] & inner
    working = is_view.copy()
    working[parent[(parent >= 0) & ~is_view]] = False
    while (lost := (parent >= 0) & ~working & working[above]).any():
        working[parent[lost]] = False
    return working
