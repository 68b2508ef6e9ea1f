"""Gaps of a device the slow, obvious way: one activity after another, and in small traces one ns after another."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from tracetui.idle.waits import Cause
from tracetui.linking.links import links
from tracetui.model.trace import GPU_WORK, Kind, Trace


class SlowGap(NamedTuple):
    """A gap: (device, start, end, launch known, A, B, C), and ns by cause of A, and of B where it is the profiler."""

    key: tuple[int, ...]
    late_by_sort: Counter[Cause]


def slow_gaps(trace: Trace, sorts: bool = True) -> list[SlowGap]:
    """All gaps of at least 30 ns; with `sorts` what the CPU did is looked up for every ns."""
    slices, pids = trace.slices, list(dict.fromkeys(lane.pid for lane in trace.lanes))
    launched = links(trace).launch.tolist()
    starts, ends, lanes, kinds = (column.tolist() for column in (slices.start, slices.end, slices.lane, slices.kind))
    work: dict[str, list[int]] = {}
    for row in range(len(slices)):
        if kinds[row] in GPU_WORK:
            work.setdefault(trace.lanes[lanes[row]].pid, []).append(row)
    found = []
    for pid, rows in work.items():
        rows.sort(key=lambda row: (starts[row], -starts[launched[row]] if launched[row] >= 0 else 1))
        reach = starts[rows[0]]
        for row in rows:
            low, high = reach, starts[row]
            reach = max(reach, ends[row])
            if high - low < 30:
                continue
            call = launched[row]
            parts, late = (0, 0, 0), Counter[Cause]()
            if call >= 0:
                called, returned = starts[call], ends[call]
                parts = (
                    max(min(called, high) - low, 0),
                    max(min(returned, high) - max(called, low), 0),
                    high - max(low, min(max(returned, low), high)),
                )
                if sorts:
                    moments = Counter(
                        "A" if moment < called else "B" if moment < returned else "C" for moment in range(low, high)
                    )
                    assert parts == (moments["A"], moments["B"], moments["C"])
                    late = Counter(_doing(trace, lanes[call], moment) for moment in range(low, min(called, high)))
                    in_call = range(max(low, called), min(returned, high))
                    late[Cause.PROFILER] += sum(_is_profiler(trace, moment) for moment in in_call)
            found.append(SlowGap((pids.index(pid), low, high, call >= 0, *parts), late))
    return found


_SAYS = (
    (Cause.DATA_LOADING, "DataLoader"),
    (Cause.PROFILER, "Buffer Flush"),
    (Cause.MEMORY, "cudaMalloc|empty_cache"),
    (Cause.COMPILATION, "dynamo_timed"),
    (Cause.HOST_SYNC, "cudaStreamSynchronize|aten::item"),
    (Cause.OPTIMIZER, "Optimizer.step"),
    (Cause.COMMUNICATION, "c10d::"),
)


_BY_KIND = {Kind.CPU_OP: Cause.OPERATORS, Kind.RUNTIME: Cause.CALLS, Kind.PYTHON: Cause.PYTHON}


def _is_profiler(trace: Trace, moment: int) -> bool:
    """True where the profiler is busy with itself in the ns that begins at the moment."""
    slices = trace.slices
    return any(
        slices.kind[row] == Kind.OVERHEAD and slices.start[row] <= moment < slices.end[row]
        for row in range(len(slices))
    )


def _doing(trace: Trace, lane: int, moment: int) -> Cause:
    """What the thread did in the ns that begins at the moment."""
    slices = trace.slices
    open_now = [
        row
        for row in range(len(slices))
        if (slices.lane[row] == lane or slices.kind[row] == Kind.OVERHEAD)
        and slices.start[row] <= moment < slices.end[row]
    ]
    names = " ".join(trace.name_of(row) for row in open_now)
    for cause, pattern in _SAYS:
        if re.search(pattern, names):
            return cause
    kinds = [_BY_KIND[Kind(slices.kind[row])] for row in open_now if slices.kind[row] in _BY_KIND]
    return kinds[-1] if kinds else Cause.UNSEEN
