"""On which thread torch counts what no op claims: on the one that stopped the profiler.

Runtime calls that belong to an op count on the op's thread (3(d).6). To all other calls, and to the
profiler's overhead, torch gives the thread that stops the profiler when it collects them; the trace does not
name it. It is taken to be the one with the steps, else the main thread, else the one with the most ops: a guess.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.lanes import lane_numbers
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, LaneKind, Trace


def threads(trace: Trace, rows: Int64, named: Int64) -> Int64:
    """The lane on which torch counts each of the rows; `named` holds for every slice of the trace its op, or -1."""
    slices = trace.slices
    lane = slices.lane[rows].astype(np.int64)
    kind = slices.kind[rows]
    op = named[rows]
    homes = _homes(trace)
    strays = (kind == Kind.OVERHEAD) | ((kind == Kind.RUNTIME) & (op < 0))
    home = homes[lane]
    result = np.where(strays & (home >= 0), home, lane)
    claimed = (kind == Kind.RUNTIME) & (op >= 0)
    result[claimed] = slices.lane[op[claimed]]
    return result


def _homes(trace: Trace) -> Int64:
    """For every lane the lane of the thread that stopped the profiler of its process, -1 where none is known.

    Lanes of processes without ops, as that of the overhead, belong to the process with the most.
    """
    slices, process = trace.slices, lane_numbers(trace).process
    ops = np.bincount(slices.lane[slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)], minlength=len(trace.lanes))
    stepped = np.bincount(steps(trace).lane, minlength=len(trace.lanes))
    is_main = np.array([lane.kind == LaneKind.CPU and lane.pid == lane.tid for lane in trace.lanes], bool)
    rank = np.lexsort((ops, is_main & (ops > 0), stepped))
    rank = rank[ops[rank] > 0]
    homes = np.full(len(trace.lanes), -1, np.int64)
    if len(rank) == 0 or not trace.is_torch:
        return homes
    totals = np.bincount(process, ops)
    busiest = int(totals.argmax())
    for number in np.unique(process).tolist():
        candidates = rank[process[rank] == (number if totals[number] else busiest)]
        homes[process == number] = candidates[-1]
    return homes
