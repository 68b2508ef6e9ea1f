"""What belongs with the selected slice, and which slice comes next: the controller's questions. Pure."""

from __future__ import annotations

import numpy as np

from tracetui.drawing.timeline.grid import ShadedGap
from tracetui.idle.gaps import cpu_slices_of, gap_threads, on_cpu, slices_in_gaps
from tracetui.idle.idleness import idleness
from tracetui.linking import placement
from tracetui.linking.chains import chain, graph_dependencies, launch_of_node
from tracetui.linking.frames import is_own
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.linking.placement import (
    activities_of_step_number,
    busiest_stretch,
    first_step,
    step_labels,
    stretch_of_step,
)
from tracetui.linking.step_kinds import kind_words
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.kept import is_kept, kept
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, LaneKind, Trace
from tracetui.ui.description.slice_description import describe

__all__ = [
    "busiest_stretch",
    "chain_of",
    "dur_of_step",
    "kind_of_step",
    "first_of_step",
    "first_step",
    "has_gpu",
    "is_gpu_work",
    "kernel_from",
    "highlighted_with",
    "longest_between",
    "step_labels",
    "slices_named",
    "step_of",
    "stretch_of_step",
    "activities_of_step_number",
]

MAX_HIGHLIGHTED = 5_000
"""Maximum slices highlighted with a selection."""


def has_gpu(trace: Trace) -> bool:
    """Whether anything ran on a device."""
    return len(links(trace).gpu) > 0


def is_gpu_work(trace: Trace, row: int) -> bool:
    """Whether a slice is a kernel, a copy or a fill."""
    return row >= 0 and int(trace.slices.kind[row]) in GPU_WORK


def highlighted_with(trace: Trace, row: int) -> frozenset[int]:
    """Slices to highlight: launch and op of an activity, op and activities of a call, calls and activities of an op."""
    if row < 0:
        return frozenset()
    linked = links(trace)
    kind = int(trace.slices.kind[row])
    if kind in GPU_WORK:
        rows = [int(linked.launch[row]), int(linked.owner[row]), *_depending(trace, row)]
    elif kind in GRAPH_NODES:
        rows = [launch_of_node(trace, row), *_depending(trace, row)]
    elif kind == Kind.RUNTIME:
        rows = [int(linked.owner[row]), *linked.kernels_of(row)[:MAX_HIGHLIGHTED].tolist()]
    else:
        first, last = _launches_below(trace, row)
        below = linked.launches[first:last][:MAX_HIGHLIGHTED]
        activities = linked.launched[linked.bounds[first] : linked.bounds[last]][:MAX_HIGHLIGHTED]
        rows = [*below.tolist(), *activities.tolist()]
    return frozenset(rows) - {-1, row}


def _depending(trace: Trace, row: int) -> list[int]:
    """The nodes of a graph that a node waited for, and those that waited for it."""
    edges = graph_dependencies(trace)
    return [*edges.needed_by(row)[:MAX_HIGHLIGHTED].tolist(), *edges.waiting_for(row)[:MAX_HIGHLIGHTED].tolist()]


def chain_of(trace: Trace, row: int) -> list[int]:
    """The dispatch chain for reading: of Python frames in a row stay the user's own, modules and the innermost."""
    if row < 0:
        return []
    rows = chain(trace, row)
    kinds = [int(trace.slices.kind[each]) for each in rows]
    following = [*kinds[1:], -1]
    return [
        each
        for each, kind, then in zip(rows, kinds, following, strict=True)
        if each == row or not kind == then == Kind.PYTHON or is_own(trace.name_of(each))
    ]


@kept
def _gpu_starts(trace: Trace) -> Int64:
    return trace.slices.start[links(trace).gpu]


def kernel_from(trace: Trace, row: int, direction: int, moment: float) -> int:
    """The GPU activity before or after a slice by start, over all streams; -1 at the end.

    From any other slice the first activity that it launched is next; with nothing selected, the one at
    the moment (ns).
    """
    gpu = links(trace).gpu
    if len(gpu) == 0:
        return -1
    start = trace.slices.start
    starts = _gpu_starts(trace)
    if is_gpu_work(trace, row):
        low, high = np.searchsorted(starts, [start[row], start[row] + 1])
        index = int(low + np.flatnonzero(gpu[low:high] == row)[0]) + direction
    else:
        below = sorted((r for r in highlighted_with(trace, row) if is_gpu_work(trace, r)), key=lambda r: int(start[r]))
        if below:
            return below[0]
        moment = float(start[row]) if row >= 0 else moment
        index = int(np.searchsorted(starts, moment)) - (direction < 0)
    return int(gpu[index]) if 0 <= index < len(gpu) else -1


def step_of(trace: Trace, row: int) -> int | None:
    """The number of the step that a slice belongs to, GPU activities by their launch; None outside of all steps."""
    if row < 0:
        return None
    index = int(placement.step_index(trace, np.array([row]))[0])
    return None if index < 0 else int(steps(trace).number[index])


def dur_of_step(trace: Trace, number: int) -> int:
    """How long a step took on the CPU, in ns."""
    known = steps(trace)
    index = int(known.labelled(number)[0])
    return int(known.end[index] - known.start[index])


def kind_of_step(trace: Trace, number: int) -> str:
    """What the step of a server did, in words; empty for any other step."""
    return kind_words(trace, int(steps(trace).labelled(number)[0]))


def first_of_step(trace: Trace, number: int) -> int:
    """The first GPU activity of a step, or the slice of the step itself when it has none."""
    activities = activities_of_step_number(trace, number)
    if len(activities):
        return int(activities[0])
    known = steps(trace)
    return int(known.row[known.labelled(number)[0]])


def longest_between(trace: Trace, start: int, end: int) -> int:
    """The longest of the slices of threads that start within [start, end) ns, -1 when there is none."""
    slices = trace.slices
    on_thread = np.array([lane.kind == LaneKind.CPU for lane in trace.lanes], bool)
    rows = np.flatnonzero((slices.start >= start) & (slices.start < end) & on_thread[slices.lane])
    return int(rows[np.argmax(slices.dur[rows])]) if len(rows) else -1


def slices_named(trace: Trace, text: str) -> Int64:
    """Slices whose name contains a text, without regard to case, in order of their start."""
    wanted = text.casefold()
    if not wanted:
        return np.empty(0, np.int64)
    hit = np.fromiter((wanted in name.casefold() for name in trace.names), bool, len(trace.names))
    rows = np.flatnonzero(hit[trace.slices.name] & (trace.slices.kind != Kind.BOOKKEEPING))
    return rows[np.argsort(trace.slices.start[rows], kind="stable")]


def _launches_below(trace: Trace, row: int) -> tuple[int, int]:
    """Bounds, in `Links.launches`, of the calls inside a slice on its own lane."""
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[row])]
    last = row + int(np.searchsorted(slices.start[row : lane.last], slices.end[row]))
    first, end = np.searchsorted(links(trace).launches, [row, max(last, row + 1)])
    return int(first), int(end)


# Working out in advance what the first description of a slice would have to wait for.

PREPARED_WIDTH = 60
"""Cells of the lines that are made and thrown away."""


@kept
def prepare_descriptions(trace: Trace) -> None:
    """Make the analyses of the whole trace that descriptions ask for, by describing a slice of each kind."""
    kinds, first = np.unique(trace.slices.kind, return_index=True)
    for kind, row in zip(kinds.tolist(), first.tolist(), strict=True):
        if kind != Kind.BOOKKEEPING:
            describe(trace, row, chain_of(trace, row), PREPARED_WIDTH)
            highlighted_with(trace, row)


def is_prepared(trace: Trace) -> bool:
    """Whether descriptions find what they ask for."""
    return is_kept(trace, prepare_descriptions)


# What is shown and highlighted with a selected gap, and which gap comes next. Pure.


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


def highlighted_with_gap(trace: Trace, gap: int, is_explained: bool) -> frozenset[int]:
    """Slices to highlight with a gap: its neighbours, the launch, and what the CPU did meanwhile."""
    idle = idleness(trace)
    rows = {int(idle.before[gap]), int(idle.after[gap]), int(idle.launch[gap])}
    if is_explained:
        rows |= {int(slices_in_gaps(trace)[gap]), *cpu_slices_of(trace, gap).tolist()}
    return frozenset(rows - {-1})


def gap_beside(trace: Trace, gap: int, direction: int) -> int:
    """The gap of the same device after (1) or before (-1) a gap, -1 at the end."""
    idle = idleness(trace)
    mine = np.flatnonzero(idle.device == idle.device[gap])
    index = int(np.searchsorted(mine, gap)) + direction
    return int(mine[index]) if 0 <= index < len(mine) else -1
