"""The details of a gap as lines: its causes with their shares, what stands around it, and what the CPU did. Pure.

Every number comes from the partition of idle time, so that it is that of the pane Gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tracetui.drawing.format import cut_name
from tracetui.drawing.timeline.grid import lane_label
from tracetui.idle.gaps import CpuName, cpu_names_of, gap_causes_of, gap_threads, on_cpu, slices_in_gaps
from tracetui.idle.idle_parts import main_causes
from tracetui.idle.idleness import idleness
from tracetui.idle.waits import WORDS
from tracetui.linking.frames import frames, module_paths
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.quantities import duration, short_percent
from tracetui.model.trace import Trace
from tracetui.text import clean
from tracetui.ui.description.slice_description import chain_lines, short_name
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded

MAX_CAUSES = 5
"""Maximum causes of a gap that are listed, those with most time first."""
MAX_CPU_NAMES = 6
"""Maximum names that the CPU was in, those with most time first."""
_GAPS = (1, 2)
"""Cells before a time, and before its share."""


def describe_gap(
    trace: Trace, gap: int, is_explained: bool, chain_of: Callable[[Trace, int], Sequence[int]], width: int
) -> list[DetailLine]:
    """The lines for a gap in a pane `width` cells wide; its causes only where they are known already."""
    idle = idleness(trace)
    after, dur = int(idle.after[gap]), int(idle.dur[gap])
    device = clean(trace.lanes[int(trace.slices.lane[after])].process)
    lines = [DetailLine(piece, "title") for piece in folded(f"Gap of {duration(dur)}: {device} ran nothing", width)]
    if not is_explained:
        lines.append(DetailLine("Its causes are being worked out.", "label"))
    else:
        lines += fact_lines(DetailFact("cause", WORDS[int(main_causes(trace)[gap])]), width)
        lines += _cause_lines(trace, gap, width)
    for fact in _around(trace, gap):
        lines += fact_lines(fact, width)
    if is_explained:
        lines += _cpu_lines(trace, gap, chain_of, width)
    return lines


def _cause_lines(trace: Trace, gap: int, width: int) -> Iterator[DetailLine]:
    """The causes with time and share, where there are several."""
    parts = gap_causes_of(trace, gap)
    whole = max(int(idleness(trace).dur[gap]), 1)
    if len(parts) < 2:
        return
    listed = [(WORDS[part.cause], part.time) for part in parts[:MAX_CAUSES]]
    if len(parts) > MAX_CAUSES:
        listed.append((f"{len(parts) - MAX_CAUSES} more", sum(part.time for part in parts[MAX_CAUSES:])))
    times, shares = _right_columns([time for _, time in listed], whole)
    for (words, _), time, share in zip(listed, times, shares, strict=True):
        room = max(width - 2 - len(time) - len(share), 8)
        yield DetailLine(f"  {cut_name(words, room):<{room}}{time}{share}")


def _right_columns(times: Sequence[int], whole: int) -> tuple[list[str], list[str]]:
    """Times and their shares of a gap as columns that are no wider than they need."""
    texts = [duration(time) for time in times], [short_percent(100 * time / whole) for time in times]
    widths = [max(map(len, column)) + gap for column, gap in zip(texts, _GAPS, strict=True)]
    first, second = ([f"{text:>{width}}" for text in column] for column, width in zip(texts, widths, strict=True))
    return first, second


def _around(trace: Trace, gap: int) -> Iterator[DetailFact]:
    """When the gap was, what ran before and after it, and its launch."""
    idle, slices = idleness(trace), trace.slices
    before, after, launch = int(idle.before[gap]), int(idle.after[gap]), int(idle.launch[gap])
    yield DetailFact("start", _start(trace, gap))
    if before >= 0:
        yield DetailFact("ran before", f"{short_name(trace, before)}, {duration(int(slices.dur[before]))}", before)
    yield DetailFact("ran after", f"{short_name(trace, after)}, {duration(int(slices.dur[after]))}", after)
    if launch < 0:
        yield DetailFact("launch", "not recorded")
        return
    began = int(slices.start[launch]) - on_cpu(trace, gap)[0]
    when = f"{duration(began)} into the gap" if began >= 0 else f"{duration(-began)} before the gap"
    name, lane = clean(trace.name_of(launch)), trace.lanes[int(slices.lane[launch])]
    yield DetailFact(
        "launch", f"{name}, {when}, took {duration(int(slices.dur[launch]))}, on {lane_label(lane)}", launch
    )


def _start(trace: Trace, gap: int) -> str:
    """When the gap began, in the trace and in the step of the activity after it."""
    idle, every = idleness(trace), steps(trace)
    start = int(idle.start[gap])
    index = int(step_index(trace, np.array([int(idle.after[gap])]))[0])
    if index < 0:
        return duration(start)
    into = start - int(every.start[index])
    number = int(every.number[index])
    when = f"{duration(into)} into step {number}" if into >= 0 else f"{duration(-into)} before step {number}"
    return f"{duration(start)}, {when}"


def _cpu_lines(trace: Trace, gap: int, chain_of: Callable[[Trace, int], Sequence[int]], width: int) -> list[DetailLine]:
    """What the CPU was in during the main cause, and the names in which it spent the gap."""
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
        lines += [DetailLine(""), *_name_lines(trace, gap, names, width)]
    elif row < 0:
        where = " and ".join(lane_label(trace.lanes[lane]) for lane in gap_threads(trace, gap).tolist())
        said = f"{where} had no slice in this time." if where else "Which thread it waited for is not known."
        lines += [DetailLine(piece, "label") for piece in folded(f"What the CPU did is not recorded: {said}", width)]
    chain = chain_of(trace, row)
    if len(chain) > 1:
        lines += [DetailLine(""), *chain_lines(trace, chain, row, width)]
    return lines


def _name_lines(trace: Trace, gap: int, names: Sequence[CpuName], width: int) -> Iterator[DetailLine]:
    """A title, and a line for each name that the CPU spent time of the gap in; all can be jumped to."""
    whole = max(int(idleness(trace).dur[gap]), 1)
    title, right = "the CPU meanwhile", "in the gap"
    yield DetailLine(f"{title}{right:>{max(width - len(title), 0)}}"[:width], "label")
    times, shares = _right_columns([each.time for each in names], whole)
    for each, time, share in zip(names, times, shares, strict=True):
        room = max(width - 2 - len(time) - len(share), 8)
        called = f" ×{each.slices:,}" if each.slices > 1 else ""
        name = cut_name(short_name(trace, each.row), max(room - len(called), 8)) + called
        yield DetailLine(f"  {name:<{room}}{time}{share}", "link", each.row)
