"""What is shown and highlighted with a selected gap, and which gap comes next. Pure."""

from __future__ import annotations

import numpy as np

from tracetui.drawing.timeline.gap_shading import ShadedGap
from tracetui.idle.gap_context import cpu_slices_of, gap_threads, on_cpu
from tracetui.idle.gaps import doing
from tracetui.idle.idleness import idleness
from tracetui.linking.lanes import lane_numbers
from tracetui.model.trace import LaneKind, Trace


def stretch_around(trace: Trace, gap: int) -> tuple[int, int]:
    """Start and end in ns of a gap with the activities before and after it, of each at most the length of the gap."""
    idle, slices = idleness(trace), trace.slices
    start, end = int(idle.start[gap]), int(idle.end[gap])
    before, after = int(idle.before[gap]), int(idle.after[gap])
    begin = max(int(slices.start[before]), start - (end - start)) if before >= 0 else start
    return begin, min(int(slices.end[after]), end + (end - start))


def shaded_gap(trace: Trace, gap: int, idle_band: int, is_explained: bool) -> ShadedGap:
    """Where a gap is shaded: on its device, and on the threads that it depends on."""
    idle, process = idleness(trace), lane_numbers(trace).process
    device = int(idle.device[gap])
    lanes = {
        number
        for number, lane in enumerate(trace.lanes)
        if lane.kind == LaneKind.GPU and int(process[number]) == device
    }
    launch = int(idle.launch[gap])
    threads = gap_threads(trace, gap).tolist() if is_explained else []
    threads += [int(trace.slices.lane[launch])] if launch >= 0 else []
    launched = int(trace.slices.start[launch]) if launch >= 0 else None
    return ShadedGap(
        (int(idle.start[gap]), int(idle.end[gap])),
        on_cpu(trace, gap),
        frozenset(lanes | set(threads)),
        idle_band,
        launched,
    )


def lit_with_gap(trace: Trace, gap: int, is_explained: bool) -> frozenset[int]:
    """Slices to highlight with a gap: its neighbours, the launch, and what the CPU did meanwhile."""
    idle = idleness(trace)
    rows = {int(idle.before[gap]), int(idle.after[gap]), int(idle.launch[gap])}
    if is_explained:
        rows |= {int(doing(trace)[gap]), *cpu_slices_of(trace, gap).tolist()}
    return frozenset(rows - {-1})


def gap_beside(trace: Trace, gap: int, direction: int) -> int:
    """The gap of the same device after (1) or before (-1) a gap, -1 at the end."""
    idle = idleness(trace)
    mine = np.flatnonzero(idle.device == idle.device[gap])
    index = int(np.searchsorted(mine, gap)) + direction
    return int(mine[index]) if 0 <= index < len(mine) else -1
