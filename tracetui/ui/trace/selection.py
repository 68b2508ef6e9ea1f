"""The selected slice or gap: what is highlighted with it, what comes next, the details of a gap as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracetui.drawing.format import cut_name
from tracetui.drawing.timeline.grid import ShadedGap, lane_label
from tracetui.idle.gaps import cpu_names_of, cpu_slices_of, gap_causes_of, gap_threads, on_cpu, slices_in_gaps
from tracetui.idle.idle_parts import main_causes
from tracetui.idle.waits import WORDS, idleness
from tracetui.linking.chains import graph_dependencies, launch_of_node
from tracetui.linking.frames import frames, module_paths
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration, short_percent
from tracetui.model.results import kept
from tracetui.model.trace import GPU_WORK, GRAPH_NODES, Kind, LaneKind, Trace
from tracetui.tables.occupancy import kernel_of_query, queries_for
from tracetui.text import clean
from tracetui.ui.trace.slice_description import chain_lines, chain_of, describe, short_name
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded

MAX_HIGHLIGHTED = 5_000
"""Maximum slices highlighted with a selection."""


def highlighted_with(trace: Trace, row: int) -> frozenset[int]:
    """Slices to highlight: launch and op of an activity, op and activities of a call, calls and activities of an op.

    With a kernel its occupancy queries, with a query its kernel and the launch of that.

    For a node of a graph also those that it waited for, and those that waited for it.
    """
    if row < 0:
        return frozenset()
    linked, slices = links(trace), trace.slices
    kind = int(slices.kind[row])
    if kind in GPU_WORK or kind in GRAPH_NODES:
        edges = graph_dependencies(trace)
        rows = [int(linked.launch[row]), int(linked.owner[row])] if kind in GPU_WORK else [launch_of_node(trace, row)]
        rows += queries_for(trace, row).tolist() if kind == Kind.KERNEL else []
        rows += edges.needed_by(row)[:MAX_HIGHLIGHTED].tolist()
        rows += edges.waiting_for(row)[:MAX_HIGHLIGHTED].tolist()
    elif kind == Kind.RUNTIME:
        rows = [int(linked.owner[row]), *linked.kernels_of(row)[:MAX_HIGHLIGHTED].tolist()]
        kernel = kernel_of_query(trace, row)
        rows += [kernel, int(linked.launch[kernel])] if kernel >= 0 else []
    else:
        # The calls inside the slice are those of its own lane that start before it ends.
        lane = trace.lanes[int(slices.lane[row])]
        behind = row + int(np.searchsorted(slices.start[row : lane.last], slices.end[row]))
        first, last = np.searchsorted(linked.launches, [row, max(behind, row + 1)])
        rows = linked.launches[first:last][:MAX_HIGHLIGHTED].tolist()
        rows += linked.launched[linked.bounds[first] : linked.bounds[last]][:MAX_HIGHLIGHTED].tolist()
    return frozenset(rows) - {-1, row}


@kept
def _gpu_starts(trace: Trace) -> Int64:
    return trace.slices.start[links(trace).gpu]


def kernel_from(trace: Trace, row: int, direction: int, moment: float) -> int:
    """The GPU activity before or after a slice by start, over all streams; -1 at the end.

    From any other slice the first activity that it launched is next; with nothing selected, the one at
    the moment (ns).
    """
    gpu, start, kind = links(trace).gpu, trace.slices.start, trace.slices.kind
    if len(gpu) == 0:
        return -1
    starts = _gpu_starts(trace)
    if row >= 0 and int(kind[row]) in GPU_WORK:
        low, high = np.searchsorted(starts, [start[row], start[row] + 1])
        index = int(low + np.flatnonzero(gpu[low:high] == row)[0]) + direction
    else:
        activities = [each for each in highlighted_with(trace, row) if int(kind[each]) in GPU_WORK]
        if activities:
            return min(activities, key=lambda each: int(start[each]))
        moment = float(start[row]) if row >= 0 else moment
        index = int(np.searchsorted(starts, moment)) - (direction < 0)
    return int(gpu[index]) if 0 <= index < len(gpu) else -1


def step_of(trace: Trace, row: int) -> int | None:
    """The number of the step that a slice belongs to, GPU activities by their launch; None outside of all steps."""
    if row < 0:
        return None
    index = int(step_index(trace, np.array([row]))[0])
    return None if index < 0 else int(steps(trace).number[index])


def slices_named(trace: Trace, text: str) -> Int64:
    """Slices whose name contains a text, without regard to case, in order of their start."""
    wanted = text.casefold()
    if not wanted:
        return np.empty(0, np.int64)
    is_named = np.fromiter((wanted in name.casefold() for name in trace.names), bool, len(trace.names))
    rows = np.flatnonzero(is_named[trace.slices.name] & (trace.slices.kind != Kind.BOOKKEEPING))
    return rows[np.argsort(trace.slices.start[rows], kind="stable")]


PREPARED_WIDTH = 60
"""Cells of the lines that are made in advance and thrown away."""


@kept
def prepare_descriptions(trace: Trace) -> None:
    """Make the analyses of the whole trace that a first description would wait for: describe a slice of each kind."""
    kinds, first = np.unique(trace.slices.kind, return_index=True)
    for kind, row in zip(kinds.tolist(), first.tolist(), strict=True):
        if kind != Kind.BOOKKEEPING:
            describe(trace, row, chain_of(trace, row), PREPARED_WIDTH)
            highlighted_with(trace, row)


# A selected gap.


def stretch_around(trace: Trace, gap: int) -> tuple[int, int]:
    """Start and end in ns of a gap with the activities before and after it, of each at most the length of the gap."""
    idle, slices = idleness(trace), trace.slices
    start, end = int(idle.start[gap]), int(idle.end[gap])
    before, after = int(idle.before[gap]), int(idle.after[gap])
    begin = max(int(slices.start[before]), start - (end - start)) if before >= 0 else start
    return begin, min(int(slices.end[after]), end + (end - start))


def shaded_gap(trace: Trace, gap: int, idle_band: int, is_explained: bool) -> ShadedGap:
    """The shade of a gap: on the lanes of its device, and of the threads that it depends on."""
    idle, process = idleness(trace), lane_numbers(trace).process
    device = int(idle.device[gap])
    lanes = {
        number
        for number, lane in enumerate(trace.lanes)
        if lane.kind == LaneKind.GPU and int(process[number]) == device
    }
    launch = int(idle.launch[gap])
    if is_explained:
        lanes.update(gap_threads(trace, gap).tolist())
    if launch >= 0:
        lanes.add(int(trace.slices.lane[launch]))
    launched = int(trace.slices.start[launch]) if launch >= 0 else None
    on_device = int(idle.start[gap]), int(idle.end[gap])
    return ShadedGap(on_device, on_cpu(trace, gap), frozenset(lanes), idle_band, launched)


def highlighted_with_gap(trace: Trace, gap: int, is_explained: bool) -> frozenset[int]:
    """Slices to highlight with a gap: its neighbours, the launch, and what the CPU did meanwhile."""
    idle = idleness(trace)
    rows = {int(idle.before[gap]), int(idle.after[gap]), int(idle.launch[gap])}
    if is_explained:
        rows |= {int(slices_in_gaps(trace)[gap]), *cpu_slices_of(trace, gap).tolist()}
    return frozenset(rows - {-1})


def gap_beside(device: Int64, gap: int, direction: int) -> int:
    """The gap of the same device after (1) or before (-1) a gap, -1 at the end; `device` is that of each gap."""
    of_device = np.flatnonzero(device == device[gap])
    index = int(np.searchsorted(of_device, gap)) + direction
    return int(of_device[index]) if 0 <= index < len(of_device) else -1


# The details of a gap: its causes with their shares, its neighbours, and what the CPU did.
#
# Every number comes from the partition of idle time, so that it is that of the pane Gaps.

MAX_CAUSES = 5
"""Maximum causes of a gap that are listed, those with most time first."""
MAX_CPU_NAMES = 6
"""Maximum names that the CPU was in, those with most time first."""
_GAPS = (1, 2)
"""Cells before a time, and before its share."""


def describe_gap(trace: Trace, gap: int, is_explained: bool, width: int) -> list[DetailLine]:
    """The lines for a gap in a pane `width` cells wide; its causes only where they are known already."""
    idle = idleness(trace)
    after, dur = int(idle.after[gap]), int(idle.dur[gap])
    device = clean(trace.lanes[int(trace.slices.lane[after])].process)
    lines = [DetailLine(piece, "title") for piece in folded(f"Gap of {duration(dur)}: {device} ran nothing", width)]
    if is_explained:
        lines += fact_lines(DetailFact("cause", WORDS[int(main_causes(trace)[gap])]), width)
        lines += _cause_lines(trace, gap, width)
    else:
        lines.append(DetailLine("Its causes are being worked out.", "label"))
    for fact in _neighbours(trace, gap):
        lines += fact_lines(fact, width)
    if is_explained:
        lines += _cpu_lines(trace, gap, width)
    return lines


def _cause_lines(trace: Trace, gap: int, width: int) -> Iterator[DetailLine]:
    """The causes with time and share, where there are several."""
    parts = gap_causes_of(trace, gap)
    if len(parts) < 2:
        return
    listed = [(WORDS[part.cause], part.time) for part in parts[:MAX_CAUSES]]
    if len(parts) > MAX_CAUSES:
        listed.append((f"{len(parts) - MAX_CAUSES} more", sum(part.time for part in parts[MAX_CAUSES:])))
    times, shares = _right_columns(trace, gap, [time for _, time in listed])
    for (words, _), time, share in zip(listed, times, shares, strict=True):
        room = max(width - 2 - len(time) - len(share), 8)
        yield DetailLine(f"  {cut_name(words, room):<{room}}{time}{share}")


def _right_columns(trace: Trace, gap: int, times: Sequence[int]) -> tuple[list[str], list[str]]:
    """Times (ns) and their shares of a gap as columns that are no wider than they need."""
    whole = max(int(idleness(trace).dur[gap]), 1)
    texts = [duration(time) for time in times], [short_percent(100 * time / whole) for time in times]
    widths = [max(map(len, column)) + gap for column, gap in zip(texts, _GAPS, strict=True)]
    first, second = ([f"{text:>{width}}" for text in column] for column, width in zip(texts, widths, strict=True))
    return first, second


def _neighbours(trace: Trace, gap: int) -> Iterator[DetailFact]:
    """Start of the gap, in the trace and in the step of the activity after it; its neighbours and its launch."""
    idle, slices, trace_steps = idleness(trace), trace.slices, steps(trace)
    before, after, launch = int(idle.before[gap]), int(idle.after[gap]), int(idle.launch[gap])
    start, when = int(idle.start[gap]), ""
    index = int(step_index(trace, np.array([after]))[0])
    if index >= 0:
        into, number = start - int(trace_steps.start[index]), int(trace_steps.number[index])
        when = f", {duration(into)} into step {number}" if into >= 0 else f", {duration(-into)} before step {number}"
    yield DetailFact("start", duration(start) + when)
    if before >= 0:
        yield DetailFact("ran before", f"{short_name(trace, before)}, {duration(int(slices.dur[before]))}", before)
    yield DetailFact("ran after", f"{short_name(trace, after)}, {duration(int(slices.dur[after]))}", after)
    if launch < 0:
        yield DetailFact("launch", "not recorded")
        return
    began = int(slices.start[launch]) - on_cpu(trace, gap)[0]
    when = f"{duration(began)} into the gap" if began >= 0 else f"{duration(-began)} before the gap"
    name, lane = clean(trace.name_of(launch)), trace.lanes[int(slices.lane[launch])]
    words = f"{name}, {when}, took {duration(int(slices.dur[launch]))}, on {lane_label(lane)}"
    yield DetailFact("launch", words, launch)


def _cpu_lines(trace: Trace, gap: int, width: int) -> list[DetailLine]:
    """The slice of the CPU during the main cause, and the names in which it spent the gap."""
    row = int(slices_in_gaps(trace)[gap])
    lines = [DetailLine("")]
    if row >= 0:
        lines += fact_lines(DetailFact("CPU was in", short_name(trace, row), row), width)
        user, path = int(frames(trace).user[row]), module_paths(trace).of(row)
        if user >= 0:
            lines += fact_lines(DetailFact("called from", clean(trace.name_of(user)), user), width)
        if path:
            lines += fact_lines(DetailFact("module", clean(path), int(frames(trace).module[row])), width)
    names = cpu_names_of(trace, gap, MAX_CPU_NAMES)
    if names:
        title, right = "the CPU meanwhile", "in the gap"
        lines += [DetailLine(""), DetailLine(f"{title}{right:>{max(width - len(title), 0)}}"[:width], "label")]
        times, shares = _right_columns(trace, gap, [each.time for each in names])
        for each, time, share in zip(names, times, shares, strict=True):
            room = max(width - 2 - len(time) - len(share), 8)
            called = f" ×{each.slices:,}" if each.slices > 1 else ""
            name = cut_name(short_name(trace, each.row), max(room - len(called), 8)) + called
            lines.append(DetailLine(f"  {name:<{room}}{time}{share}", "link", each.row))
    elif row < 0:
        where = " and ".join(lane_label(trace.lanes[lane]) for lane in gap_threads(trace, gap).tolist())
        reason = f"{where} had no slice in this time." if where else "Which thread it waited for is not known."
        lines += [DetailLine(piece, "label") for piece in folded(f"What the CPU did is not recorded: {reason}", width)]
    chain = chain_of(trace, row)
    if len(chain) > 1:
        lines += [DetailLine(""), *chain_lines(trace, chain, row, width)]
    return lines
