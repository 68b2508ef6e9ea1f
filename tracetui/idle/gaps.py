"""The gaps pane: every gap of a device, its cause, and what the CPU was doing; and the idle time of each stream.

Idle time by stream is split as Holistic Trace Analysis does (R3.33), to compare with its figures; a stream that waits
while another one runs counts there and is no gap of the device. What a thread was doing in a gap is the slice that
covers most of it, with the names of the slices around it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.idle.idle_parts import (
    after_sync,
    clock_skew,
    idle_contents,
    idle_parts,
    main_causes,
    sums_by_cause,
)
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.verdict import verdict_on
from tracetui.idle.waits import MIN_GAP_NS, WORDS, Cause, Idleness, idleness
from tracetui.linking.groups import count_within, distinct, group
from tracetui.linking.lines import launch_site_columns, launch_site_of, site_groupings
from tracetui.linking.links import links, names_of, no_gpu, op_rows
from tracetui.linking.placement import step_column, step_index, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import Axis, lane_axis, lane_numbers, open_at
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange, is_among, run_starts
from tracetui.model.pane import Grouping, Pane
from tracetui.model.results import kept
from tracetui.model.table import Strings, Table, coded, micros, numbers
from tracetui.model.trace import Kind, LaneKind, Trace

_GAPS_AT_ONCE = 1 << 13
"""Gaps whose shares are computed together."""
MAX_NAMED_CAUSES = 4
"""Maximum causes listed per gap with their shares, the largest first."""
MAX_NAMED_SLICES = 3
"""Maximum names listed per chain, the deepest ones."""


def longest(
    trace: Trace, rows: Int64, lane: NDArray[np.integer], low: Int64, high: Int64
) -> tuple[Int64, Int64, Int64]:
    """Start and end in ns of the slice among `rows` that covers most of each window [low, high) of a lane; and its row.

    `rows` ascends, slices inside others do not count, one that overlaps an earlier one counts from where that ended. A
    window that none of them covers, such as behind a capture without its end, stays as it is; its row is -1.
    """
    starts, ends, apart, axis = _apart(trace, rows)
    none = np.full(len(low), -1, np.int64)
    if len(low) == 0 or len(starts) == 0:
        return low, high, none
    order = np.argsort(axis.position(lane, low))
    first = np.searchsorted(ends, axis.position(lane, low)[order], "right").clip(max=len(starts) - 1)
    last = np.searchsorted(starts, axis.position(lane, high)[order]) - 1
    # All but the two at the edges lie wholly within the window, so that the longest of them is the best.
    by_width = np.argsort(ends - starts, kind="stable")
    rank = np.zeros(len(starts) + 1, np.int64)
    rank[by_width] = np.arange(len(starts))
    edges = np.stack([first + 1, np.maximum(last, first + 1)], axis=1).ravel()
    inner = by_width[np.maximum.reduceat(rank, edges)[::2]]
    tries = np.stack([first, np.where(last > first + 1, inner, first), last])
    begin = np.maximum(starts[tries], axis.position(lane, low)[order])
    end = np.minimum(ends[tries], axis.position(lane, high)[order])
    best = np.argmax(end - begin, axis=0), np.arange(len(order))
    covers = end[best] > begin[best]
    found = np.stack([low, high])
    found[:, order[covers]] = [axis.moment(lane[order], edge[best])[covers] for edge in (begin, end)]
    none[order[covers]] = apart[tries[best]][covers]
    return found[0], found[1], none


def _apart(trace: Trace, rows: Int64) -> tuple[Int64, Int64, Int64, Axis]:
    """Start and end of the time that each slice covers and no earlier one does, on an axis of all lanes; their rows."""
    slices = trace.slices
    axis = lane_axis(trace)
    starts = axis.position(slices.lane[rows], slices.start[rows])
    ends = axis.position(slices.lane[rows], slices.end[rows])
    starts[1:] = np.maximum(starts[1:], np.maximum.accumulate(ends)[:-1])
    kept = ends > starts
    return starts[kept], ends[kept], rows[kept], axis


def chain_texts(trace: Trace, rows: Int64) -> tuple[NDArray[np.int32], Strings]:
    """Ids and texts of the chain down to each slice, as `aten::linear > aten::addmm`; -1 where nothing was open.

    Ops, annotations and runtime calls are listed, and Python frames where there are none of these. Steps are not.
    """
    kind = trace.slices.kind
    listed = np.isin(kind, (Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OTHER))
    listed[steps(trace).slices] = False
    levels = _levels(trace, rows, listed)
    frames = np.flatnonzero(levels[0] < 0)
    for level, names in zip(levels, _levels(trace, rows[frames], kind == Kind.PYTHON), strict=True):
        level[frames] = names
    return _joined(trace, levels)


def _levels(trace: Trace, rows: Int64, listed: Bool) -> list[Int64]:
    """Name ids of the innermost `listed` slice at or above each row, of the next one, and so on; -1 for none."""
    parent, names = trace.slices.parent, trace.slices.name
    rows, levels = rows.copy(), []
    for _ in range(MAX_NAMED_SLICES):
        hidden = np.flatnonzero(rows >= 0)
        hidden = hidden[~listed[rows[hidden]]]
        while len(hidden):
            rows[hidden] = parent[rows[hidden]]
            hidden = hidden[rows[hidden] >= 0]
            hidden = hidden[~listed[rows[hidden]]]
        levels.append(np.where(rows >= 0, names[rows], -1).astype(np.int64) if len(names) else rows)
        rows = np.where(rows >= 0, parent[rows], -1).astype(np.int64) if len(names) else rows
    return levels


def _joined(trace: Trace, levels: list[Int64]) -> tuple[NDArray[np.int32], Strings]:
    """One text for each distinct chain, outermost name first."""
    ids, chains = levels[0], [(name,) if name >= 0 else () for name in range(-1, len(trace.names))]
    ids = ids + 1
    for level in levels[1:]:
        pairs, ids = np.unique(ids * (len(trace.names) + 1) + level + 1, return_inverse=True)
        inner, outer = np.divmod(pairs, len(trace.names) + 1)
        chains = [
            chains[below] + ((above - 1,) if above else ())
            for below, above in zip(inner.tolist(), outer.tolist(), strict=True)
        ]
    texts = Strings()
    made = [
        texts.intern(" > ".join(trace.names[name] for name in reversed(chain))) if chain else -1 for chain in chains
    ]
    return np.array(made, np.int32)[ids], texts


def stream_idle(trace: Trace, step: Part | None = None) -> Table:
    """One row per stream: idle time between its first and last activity, by what it waited for."""
    rows = np.sort(within(trace, links(trace).gpu, step))
    lanes = distinct(trace.slices.lane[rows])
    bounds = np.searchsorted(trace.slices.lane[rows], np.append(lanes, lanes.max(initial=0) + 1))
    spans = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    figures = np.array([_waits(trace, rows[first:last]) for first, last in spans], np.int64).reshape(-1, 3)
    lane, idle = lane_numbers(trace), figures.sum(axis=1)
    return Table(
        (
            numbers(col.DEVICE, lane.device[lanes]),
            numbers(col.STREAM, lane.stream[lanes]),
            numbers(col.ACTIVITIES, np.diff(bounds)),
            micros(col.IDLE_US, idle),
            micros(col.HOST_WAIT_US, figures[:, 0]),
            micros(
                col.KERNEL_WAIT_US.but(help=f"Of it: gaps of less than {MIN_GAP_NS} ns between launched work."),
                figures[:, 1],
            ),
            micros(col.OTHER_US, figures[:, 2]),
        ),
        np.array([rows[first] for first, _ in spans], np.int64),
        no_gpu(trace),
    )


def _waits(trace: Trace, rows: Int64) -> tuple[int, int, int]:
    """Sums in ns of the gaps of one stream: for the host, between kernels, for anything else."""
    slices = trace.slices
    launch = links(trace).launch[rows[1:]]
    dry = np.maximum.accumulate(slices.end[rows])[:-1]
    gap = np.maximum(slices.start[rows[1:]] - dry, 0)
    host = (launch >= 0) & (slices.start[launch] > dry)
    change = ~host & (gap < MIN_GAP_NS)
    return int(gap[host].sum()), int(gap[change].sum()), int(gap[~host & ~change].sum())


@frozen
class IdleBlocks:
    """Gaps, or parts of them, as blocks to draw; parallel arrays, those of one device in order of start."""

    process: Int64
    """Number in `lane_numbers(trace).process` of the device's lanes."""
    start: Int64
    end: Int64
    cause: NDArray[np.int8]
    """A `Cause`; `WORDS` has the text."""
    after: Int64
    """The GPU activity that ends the gap."""


def idle_part_blocks(trace: Trace) -> IdleBlocks:
    """Every part of every gap as a block with its own cause, times in ns; of one device in order of start."""
    idle, parts = idleness(trace), idle_parts(trace)
    return IdleBlocks(idle.device[parts.gap], parts.start, parts.end, parts.cause, idle.after[parts.gap])


def idle_blocks(trace: Trace) -> IdleBlocks:
    """Every gap of every device as a block with its cause, times in ns."""
    idle = idleness(trace)
    return IdleBlocks(idle.device, idle.start, idle.end, main_causes(trace), idle.after)


def gaps(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every gap in order of time, or grouped by cause, or the idle time of each stream as HTA counts it.

    A gap belongs to the step of the activity that ends it, and to a range of time in which it lies in part: groups add
    up the time within the range (R3.58).
    """
    if by == "stream":
        return stream_idle(trace, step)
    idle = idleness(trace)
    if isinstance(step, TimeRange):
        kept = np.flatnonzero(step.touched(idle.start, idle.end))
    else:
        kept = np.flatnonzero(is_among(idle.after, within(trace, links(trace).gpu, step)))
    if by == "cause":
        return _by_cause(trace, idle, kept, step)
    if by is not None:
        return _by_site(trace, idle, kept, step, by)
    after, slices = idle.after[kept], trace.slices
    lane = lane_numbers(trace)
    unknown = ~idle.known[kept]
    doing_ids, chains = _gap_chains(trace)
    shares, share_texts = gap_shares(trace)
    return Table(
        (
            numbers(col.INDEX, _number_in_step(trace)[kept]),
            step_column(trace, after, "Number of the step that launched the work after the gap."),
            numbers(col.DEVICE, lane.device[slices.lane[after]]),
            micros(col.START_US, idle.start[kept]),
            micros(col.DUR_US.but(help="For how long the device ran nothing."), idle.dur[kept]),
            coded(col.CAUSE, main_causes(trace)[kept], WORDS),
            coded(col.CPU_DOING, doing_ids[kept], chains),
            coded(col.BEFORE, names_of(trace, idle.before[kept]), trace.names),
            coded(col.AFTER, names_of(trace, after), trace.names),
            micros(col.CPU_LATE_US, idle.cpu_late[kept], null=unknown),
            micros(col.IN_LAUNCH_US, idle.in_launch[kept], null=unknown),
            micros(col.WAITING_US, idle.waiting[kept], null=unknown),
            numbers(col.AFTER_SYNC, after_sync(trace)[kept]),
            coded(col.SHARES, shares[kept], share_texts),
            *launch_site_columns(trace, after),
        ),
        after,
        _note(trace, idle, step),
    )


@kept
def _number_in_step(trace: Trace) -> Int64:
    """The number of each gap, from 1, among those of its step."""
    return count_within(step_index(trace, idleness(trace).after))


_SUMS = "gaps total_us pct cpu_late_us in_launch_us waiting_us median_us max_us"
PANE = Pane(
    "gaps",
    "Gaps",
    key="6",
    help="One row is a stretch in which a device ran nothing.",
    table=gaps,
    columns=(
        "step index dur_us cause cpu_doing after cpu_late_us in_launch_us waiting_us after_sync shares before "
        "start_us line function module"
    ),
    largest_first="dur_us",
    bars="total_us idle_us dur_us",
    groupings=(
        Grouping("cause", f"cause {_SUMS}", opens=""),
        Grouping("stream", "device stream activities gaps idle_us host_wait_us kernel_wait_us other_us"),
        *site_groupings(_SUMS, opens=""),
    ),
)


def _by_cause(trace: Trace, idle: Idleness, kept: Int64, step: Part | None) -> Table:
    """Times by the causes of the parts of gaps; gaps are counted by their main cause."""
    every = idle_parts(trace)
    parts = every.take(np.isin(every.gap, kept))
    if isinstance(step, TimeRange):
        parts = parts.take(step.touched(parts.start, parts.end))
        parts = replace(parts, start=np.maximum(parts.start, step.start), end=np.minimum(parts.end, step.end))
    causes, dur, gap = group(parts.cause), parts.dur, parts.gap
    late = np.clip(np.minimum(parts.end, idle.start[gap] + idle.cpu_late[gap]) - parts.start, 0, None)
    waiting = np.clip(parts.end - np.maximum(parts.start, idle.end[gap] - idle.waiting[gap]), 0, None)
    known = idle.known[gap]
    unknown = causes.sum(known) == 0
    longest = causes.largest(dur)
    main = np.bincount(main_causes(trace)[kept], minlength=len(Cause))
    table = Table(
        (
            coded(col.CAUSE.but(help="What this part of the idle time is put down to."), causes.key, WORDS),
            numbers(col.GAPS.but(help="Gaps that are mostly put down to it."), main[causes.key]),
            micros(col.TOTAL_US, causes.sum(dur)),
            numbers(col.PCT, 100 * causes.sum(dur) / max(float(dur.sum()), 1.0)),
            micros(col.CPU_LATE_US, causes.sum(late * known), null=unknown),
            micros(col.IN_LAUNCH_US, causes.sum((dur - late - waiting) * known), null=unknown),
            micros(col.WAITING_US, causes.sum(waiting * known), null=unknown),
            micros(col.MEDIAN_US.but(help="Median part of a gap."), causes.median(dur)),
            micros(col.MAX_US.but(help="Longest part; the row jumps to the work after it."), dur[longest]),
        ),
        idle.after[gap[longest]],
        _note(trace, idle, step),
    )
    return table.take(table.order("total_us", descending=True))


def _by_site(trace: Trace, idle: Idleness, kept: Int64, step: Part | None, by: str) -> Table:
    """Times by the call site that launched the activity after the gap."""
    after, dur = idle.after[kept], _time_within(idle.start, idle.end, step)[kept]
    site, texts = launch_site_of(trace, after, by)
    sites, known = group(site), idle.known[kept]
    unknown, longest = sites.sum(known) == 0, sites.largest(dur)
    called, returned = idle.start + idle.cpu_late, idle.end - idle.waiting
    parts = (
        (col.CPU_LATE_US, _time_within(idle.start, called, step)),
        (col.IN_LAUNCH_US, _time_within(called, returned, step)),
        (col.WAITING_US, _time_within(returned, idle.end, step)),
    )
    table = Table(
        (
            coded(col.COLUMNS[by], sites.key, texts),
            numbers(col.GAPS.but(help="Gaps that end with a GPU activity launched there."), sites.calls),
            micros(col.TOTAL_US, sites.sum(dur)),
            numbers(col.PCT, 100 * sites.sum(dur) / max(float(dur.sum()), 1.0)),
            *(micros(column, sites.sum(times[kept] * known), null=unknown) for column, times in parts),
            micros(col.MEDIAN_US.but(help="Median length of a gap."), sites.median(dur)),
            micros(col.MAX_US.but(help="Longest gap; the row jumps to the activity after it."), dur[longest]),
        ),
        after[longest],
        _note(trace, idle, step),
    )
    return table.take(table.order("total_us", descending=True))


def _time_within(start: Int64, end: Int64, part: Part | None) -> Int64:
    """Length of each interval, of a range of time the part of it that lies within."""
    return part.covered(start, end) if isinstance(part, TimeRange) else end - start


@kept
def gap_shares(trace: Trace) -> tuple[NDArray[np.int32], Strings]:
    """Ids and texts: `operators 63 %, launch call 30 %` for every gap, the largest causes first; -1 for none.

    Shares below half a percent are left out.
    """
    dur, spent = idleness(trace).dur, sums_by_cause(trace, idle_contents(trace))
    key = np.empty(len(dur), np.int64)
    # A few gaps at a time: what is looked at again and again stays in the processor's cache.
    for first in range(0, len(dur), _GAPS_AT_ONCE):
        part = slice(first, first + _GAPS_AT_ONCE)
        key[part] = _share_keys({cause: spent[cause][part] for cause in sorted(spent)}, dur[part])
    keys, member = np.unique(key, return_inverse=True)
    texts = Strings()
    ids = [texts.intern(_share_text(number)) if number else -1 for number in keys.tolist()]
    return np.array(ids, np.int32)[member], texts


def _share_keys(spent: dict[Cause, Int64], dur: Int64) -> Int64:
    """The causes with the largest shares of each gap and these shares, in 12 bits each."""
    used = np.array(list(spent), np.int64)
    left, index = np.array(list(spent.values())), np.arange(len(dur))
    key = np.zeros(len(dur), np.int64)
    for position in range(MAX_NAMED_CAUSES):
        largest = np.argmax(left, axis=0)
        share = np.rint(100 * left[largest, index] / dur).astype(np.int64)
        left[largest, index] = 0
        key |= np.where(share > 0, used[largest] * 101 + share, 0) << (12 * position)
    return key


def _share_text(key: int) -> str:
    parts = []
    while key:
        cause, share = divmod(key & 0xFFF, 101)
        parts.append(f"{WORDS[cause]} {share} %")
        key >>= 12
    return ", ".join(parts)


@kept(on_disk=True)
def slices_in_gaps(trace: Trace) -> Int64:
    """For every gap the slice that covers most of its main cause, -1 for none.

    That is the longest of the slices that indicate the cause, or of the outermost operators or calls; else the deepest
    slice that covers at least half of the time.
    """
    idle, cause, seen = idleness(trace), main_causes(trace), idle_contents(trace)
    rows = np.full(len(idle), -1, np.int64)
    # The longest stretch of each gap that has its main cause, or where none has it the longest of any cause.
    width = seen.dur + np.where(seen.cause == cause[seen.gap], idle.dur[seen.gap], 0)
    order = np.lexsort((-width, seen.gap))
    best = order[run_starts(seen.gap[order])]
    best = best[seen.lane[best] >= 0]
    lane = seen.lane[best]
    low, high = seen.start[best] - clock_skew(trace), seen.end[best] - clock_skew(trace)
    row = _covering(trace, lane, low, high)
    candidates = indicating_slices(trace)
    candidates = candidates | {Cause.OPERATORS: op_rows(trace), Cause.CALLS: trace.slices.of_kind(Kind.RUNTIME)}
    for each in SAMPLED:
        mine = np.flatnonzero(seen.cause[best] == each)
        if each in candidates and len(mine):
            _, _, named = longest(trace, candidates[each], lane[mine], low[mine], high[mine])
            row[mine] = np.where(named >= 0, named, row[mine])
    rows[seen.gap[best]] = row
    return rows


def _covering(trace: Trace, lane: NDArray[np.integer], low: Int64, high: Int64) -> Int64:
    """The deepest slice that covers at least half of each window [low, high) of a lane, -1 for none."""
    slices = trace.slices
    # What covers half of a window is open in its middle.
    row = open_at(trace, lane, (low + high) // 2)
    climbing = np.flatnonzero(row >= 0)
    while len(climbing):
        at = row[climbing]
        covers = np.minimum(slices.end[at], high[climbing]) - np.maximum(slices.start[at], low[climbing])
        climbing = climbing[2 * covers < (high - low)[climbing]]
        row[climbing] = slices.parent[row[climbing]]
        climbing = climbing[row[climbing] >= 0]
    return row


SAMPLED = frozenset(Cause(number) for number in range(Cause.PYTHON)) - {
    Cause.PROFILER,
    Cause.LONG_GAP,
    Cause.PEERS,
}
"""Causes indicated by slices of the thread alone: `slices_in_gaps` has the longest of these."""


@kept
def _gap_chains(trace: Trace) -> tuple[NDArray[np.int32], list[str]]:
    """Ids and texts: the chain of slices that the launching thread was in during each gap; -1 for none."""
    ids, texts = chain_texts(trace, slices_in_gaps(trace))
    return ids, list(texts)


def _note(trace: Trace, idle: Idleness, step: Part | None) -> str:
    """The verdict on these rows, and what a reader must know about them."""
    judged = verdict_on(trace, step)
    if judged is None and not isinstance(step, TimeRange):
        return no_gpu(trace)
    notes = [f"{judged.text}.", *judged.remarks] if judged else [no_gpu(trace)] if no_gpu(trace) else []
    unknown = int((~idle.known).sum())
    if unknown:
        end = "gap ends" if unknown == 1 else "gaps end"
        notes.append(f"{unknown:,} {end} with work that has no launch record: when it was launched is not known.")
    return " ".join(notes)


# What stands around one gap: the activities before and after it, its causes, and what the CPU did meanwhile.
#
# CPU times are those of the trace; the gap is moved to the clock of the CPU where the two clocks disagree (3(g)).

MAX_SLICES_OF_GAP = 400
"""Maximum slices of the CPU named with a gap, the longest ones."""


@frozen(eq=True)
class GapPart:
    """A cause of a gap, and its time in ns."""

    cause: Cause
    time: int


@frozen(eq=True)
class CpuName:
    """A name that the CPU spent time of a gap in: itself, without what it called."""

    row: int
    """The slice of that name with the most of it."""
    time: int
    """Self time within the gap, in ns."""
    slices: int
    """Slices of the name that had some."""


def gap_before(trace: Trace, row: int) -> int:
    """The index in `idleness(trace)` of the gap that a GPU activity ended, -1 for none."""
    return int(_gaps_by_activity(trace)[row]) if row >= 0 else -1


@kept
def _gaps_by_activity(trace: Trace) -> Int64:
    index = np.full(len(trace.slices), -1, np.int64)
    index[idleness(trace).after] = np.arange(len(idleness(trace)))
    return index


def on_cpu(trace: Trace, gap: int) -> tuple[int, int]:
    """Start and end of a gap in ns on the clock of the CPU."""
    idle, skew = idleness(trace), clock_skew(trace)
    return int(idle.start[gap]) - skew, int(idle.end[gap]) - skew


def gap_causes_of(trace: Trace, gap: int) -> list[GapPart]:
    """The causes of a gap, those with most time first; they add up to the gap."""
    parts = idle_contents(trace)
    first, last = np.searchsorted(parts.gap, [gap, gap + 1])
    causes = group(parts.cause[first:last])
    sums = causes.sum(parts.dur[first:last])
    order = np.argsort(-sums, kind="stable").tolist()
    return [GapPart(Cause(int(causes.key[i])), int(sums[i])) for i in order]


def gap_threads(trace: Trace, gap: int) -> Int64:
    """The lanes that tell why there was a gap: the launching thread, and those on which causes were seen."""
    idle, parts = idleness(trace), idle_contents(trace)
    first, last = np.searchsorted(parts.gap, [gap, gap + 1])
    lanes = parts.lane[first:last].astype(np.int64)
    launch = int(idle.launch[gap])
    if launch >= 0:
        lanes = np.append(lanes, int(trace.slices.lane[launch]))
    lanes = distinct(lanes[lanes >= 0])
    on_thread = np.array([lane.kind == LaneKind.CPU for lane in trace.lanes], bool)
    return np.asarray(lanes[on_thread[lanes]])


def cpu_slices_of(trace: Trace, gap: int) -> Int64:
    """The slices of the threads of a gap that lie in it with at least half of their time, ascending."""
    begin, end = on_cpu(trace, gap)
    slices = trace.slices
    rows = _touching(trace, gap, begin, end)
    inside = np.minimum(slices.end[rows], end) - np.maximum(slices.start[rows], begin)
    kept = rows[2 * inside >= slices.dur[rows]]
    if len(kept) > MAX_SLICES_OF_GAP:
        kept = np.sort(kept[np.argsort(-slices.dur[kept], kind="stable")[:MAX_SLICES_OF_GAP]])
    return np.asarray(kept)


def cpu_names_of(trace: Trace, gap: int, most: int) -> list[CpuName]:
    """The names in which the threads of a gap spent most of it, without what they called.

    Every moment of a thread counts once, for the innermost slice that was open.
    """
    begin, end = on_cpu(trace, gap)
    slices = trace.slices
    rows = _touching(trace, gap, begin, end)
    inner, spent = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for lane in distinct(slices.lane[rows].astype(np.int64)).tolist():
        mine = rows[slices.lane[rows] == lane]
        edges = np.unique(np.clip(np.concatenate([slices.start[mine], slices.end[mine]]), begin, end))
        inner.append(open_at(trace, np.full(len(edges) - 1, lane), edges[:-1]))
        spent.append(np.diff(edges))
    row, time = np.concatenate(inner), np.concatenate(spent)
    each = group(row[row >= 0])
    own, names = each.sum(time[row >= 0]).astype(np.int64), group(slices.name[each.key])
    sums, largest = names.sum(own), names.largest(own)
    order = np.argsort(-sums, kind="stable")[:most].tolist()
    return [CpuName(int(each.key[largest[i]]), int(sums[i]), int(names.calls[i])) for i in order]


def _touching(trace: Trace, gap: int, begin: int, end: int) -> Int64:
    """The slices of the threads of a gap that overlap [begin, end) ns, ascending."""
    slices, found = trace.slices, [np.empty(0, np.int64)]
    for number in gap_threads(trace, gap).tolist():
        lane = trace.lanes[number]
        last = lane.first + int(np.searchsorted(slices.start[lane.first : lane.last], end))
        found.append(lane.first + np.flatnonzero(slices.end[lane.first : last] > begin))
    return np.sort(np.concatenate(found))
