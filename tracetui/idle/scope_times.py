"""The time that a step, all steps, or a trace without steps takes, and the idle time within it (R3.90, R3.91).

A step has three times. Its **period** lasts from the end of the step before on the GPU to its own end there. Its **GPU
span** is that from its first activity to its last, its **CPU time** that of its slice. Shares of a step are shares of
its period: periods follow one another without a hole, so that the idle time of all steps is the sum of theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.idle.gpu_spans import step_spans
from tracetui.idle.idle_parts import (
    MAX_ORDINARY_LATENCY_RATIO,
    MIN_LONG_GAP_NS,
    clock_skew,
    idle_parts,
    late_gaps,
    usual_latency,
)
from tracetui.idle.thread_causes import thread_causes
from tracetui.idle.waits import OVERHEAD, Cause, device_order, final_flush, idleness
from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.step_kinds import averaged_steps, counted_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered_within, in_runs, union
from tracetui.model.quantities import duration
from tracetui.model.results import kept
from tracetui.model.trace import GPU_WORK, Kind, Trace

MAX_SUM_NS = 2**62
"""Maximum sum of the idle times of all devices in ns, which may be more than 64 bits hold."""
MAX_SHORT_GAP_NS = 1_000_000
"""Maximum length in ns of a gap between one launch and the next; longer ones are put down to what the CPU did."""


@kept
def recorded_extent(trace: Trace) -> tuple[int, int]:
    """Start of the first call, operator, annotation or GPU activity and end of the last, in ns on the GPU's clock.

    The wait with which the profiler ends the capture is left out.
    """
    slices, on_gpu = trace.slices, trace.slices.of_kind(*GPU_WORK)
    rows = slices.of_kind(Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION)
    rows = np.setdiff1d(rows, final_flush(trace), assume_unique=True)
    if len(rows) + len(on_gpu) == 0:
        return trace.window
    skew = clock_skew(trace)
    starts, ends = (np.append(each[rows] + skew, each[on_gpu]) for each in (slices.start, slices.end))
    return int(starts.min()), int(ends.max())


@kept
def cpu_times(trace: Trace) -> Int64:
    """CPU time of each step in ns, without the wait with which the profiler ends the capture."""
    all_steps, slices = steps(trace), trace.slices
    lasted = all_steps.end - all_steps.start
    for row in final_flush(trace).tolist():
        flushed = np.minimum(all_steps.end, slices.end[row]) - np.maximum(all_steps.start, slices.start[row])
        lasted = lasted - np.maximum(flushed, 0)
    return lasted


@kept(on_disk=True)
def step_periods(trace: Trace) -> tuple[Int64, Int64]:
    """Start and end in ns of the period of each of `steps(trace)`, on the clock of the GPU (R3.90).

    The first step of a thread has no step before: its period begins with its slice, or where the GPU has finished what
    was launched earlier. The only step of a thread ends with its slice where the CPU goes on after the GPU. A step
    without GPU activity has an empty period; without a GPU the period is the CPU time.
    """
    all_steps, spans = steps(trace), step_spans(trace)
    first, last = spans.extents
    start, end, skew = all_steps.start.copy(), all_steps.start + cpu_times(trace), clock_skew(trace)
    for lane in distinct(all_steps.lane).tolist():
        mine = np.flatnonzero(all_steps.lane == lane)
        ran = mine[spans.ran[mine]]
        if len(ran) == 0:
            continue
        begin = _free_from(trace, int(all_steps.start[mine[0]]) + skew, int(first[ran].min()))
        reach = np.maximum.accumulate(np.append(begin, last[mine]))
        if len(mine) == 1:
            reach[1] = max(reach[1], end[mine[0]] + skew)
        start[mine], end[mine] = reach[:-1], reach[1:]
    return start, end


def _free_from(trace: Trace, start: int, first: int) -> int:
    """The time in ns from which on a step that begins on the CPU at `start` has the GPU, until its first activity.

    That is when what no step launched has ended, where it still ran; and the start of that activity where nothing that
    was recorded ran and it waited far longer than usual behind its launch: then what ran was not recorded.
    """
    slices, rows, skew = trace.slices, links(trace).gpu, clock_skew(trace)
    earlier = rows[(slices.start[rows] < first) & (slices.end[rows] > start)]
    if len(earlier) == 0:
        launch = links(trace).launch[rows[slices.start[rows] == first]]
        waited = first - skew - slices.end[launch[launch >= 0]]
        usual = MAX_ORDINARY_LATENCY_RATIO * usual_latency(trace)
        return first if len(waited) and waited.min() > usual else start
    earlier = earlier[step_index(trace, earlier) < 0]
    return max(start, min(int(slices.end[earlier].max(initial=start)), first))


@kept
def median_step(trace: Trace) -> int | None:
    """The number of the step to begin with: that of the median period, of those that count in averages; None without
    steps.
    """
    low, high = step_periods(trace)
    some = np.flatnonzero(averaged_steps(trace))
    some = some if len(some) else np.arange(len(low))
    if len(some) == 0:
        return None
    order = np.argsort((high - low)[some], kind="stable")
    return int(steps(trace).number[some[order[(len(some) - 1) // 2]]])


MIN_OVERLAP_SHARE = 0.05
"""Minimum time for which the GPU works on two steps, as a share of the period of the later one, to be mentioned."""


@kept
def step_overlaps(trace: Trace) -> Int64:
    """Time in ns from the start of the GPU span of each step to that of its period: another step still runs.

    0 where that is little. It is in the GPU span and in the own work of the step, but not in its period.
    """
    spans, (low, high) = step_spans(trace), step_periods(trace)
    ahead = np.where(spans.ran, low - spans.extents[0], 0)
    return np.where(ahead >= np.maximum(MIN_OVERLAP_SHARE * (high - low), 1), ahead, 0)


def overlap_sentence(trace: Trace) -> str:
    """A sentence on steps whose work on the GPU begins before that of the step before has ended; empty for none."""
    ahead = step_overlaps(trace)
    ahead = ahead[ahead > 0]
    if len(ahead) == 0:
        return ""
    return (
        f"Steps overlap on the GPU: {len(ahead):,} of {len(steps(trace)):,} begin before the step before ends, by "
        f"{duration(float(np.median(ahead)))} in the median. Own work is all that a step launched; period and GPU idle "
        "begin where the step before ends."
    )


def times_in_words(trace: Trace, index: int) -> tuple[str, ...]:
    """The three times of one of `steps(trace)`: `period 10.81 ms, GPU span 10.74 ms, CPU 2.41 ms`, and in fewer words.

    Without GPU activity the CPU time alone.
    """
    spans, (low, high) = step_spans(trace), step_periods(trace)
    on_cpu = duration(int(cpu_times(trace)[index]))
    if not spans.ran[index]:
        return (f"CPU {on_cpu}",)
    first, last = spans.extents
    on_gpu = int(last[index] - first[index])
    period = f"period {duration(int(high[index] - low[index]))}"
    ahead = int(step_overlaps(trace)[index])
    beside = f" ({duration(ahead)} beside the step before)" if ahead else ""
    return f"{period}, GPU span {duration(on_gpu)}{beside}, CPU {on_cpu}", period


def scope_title(trace: Trace, step: int | None) -> str:
    """Name of the scope after `of`: `step 4`, `the steps`, `the trace`."""
    if step is not None:
        return f"step {step}"
    return "the steps" if len(steps(trace)) else "the trace"


@kept
def scope_windows(trace: Trace, step: int | None) -> tuple[Int64, Int64]:
    """Start and end in ns of the disjoint stretches of time that a scope has: one, or one per thread with steps.

    The scope of all steps has those that were recorded in full (R3.90).

    Raises: UsageError when no step has the number.
    """
    if len(steps(trace)) == 0:
        begin, finish = recorded_extent(trace)
        return np.array([begin], np.int64), np.array([max(finish, begin + 1)], np.int64)
    picked = chosen(trace, step) if step is not None else np.flatnonzero(counted_steps(trace))
    low, high = (each[picked] for each in step_periods(trace))
    if (high <= low).all():
        low = steps(trace).start[picked]
        high = low + np.maximum(cpu_times(trace)[picked], 1)
    return union(low, high)


@frozen
class IdleStretches(Parallel):
    """Idle time of all devices cut by cause, by device and start: the parts of gaps, and before and behind them.

    Parallel arrays, times in ns. Stretches of one device are disjoint.
    """

    device: Int64
    """Number of the device's process in `lane_numbers`."""
    start: Int64
    end: Int64
    cause: NDArray[np.int8]
    """A `Cause`."""
    lane: Int64
    """The thread on which the cause was seen, -1 for none."""
    gap: Int64
    """Index in `idleness(trace)`; -1 before the first activity of a device and behind its last."""
    after: Int64
    """The GPU activity that ended the idle time, -1 behind the last."""

    @property
    def dur(self) -> Int64:
        """Length of each stretch."""
        return self.end - self.start

    def take(self, index: NDArray[np.generic]) -> IdleStretches:
        """Some of the stretches."""
        columns = (self.device, self.start, self.end, self.cause, self.lane, self.gap, self.after)
        return IdleStretches(*(column[index] for column in columns))

    def clipped(self, low: Int64, high: Int64) -> IdleStretches:
        """The stretches as far as they lie in some disjoint windows, window by window."""
        parts = [self.take(np.flatnonzero((self.end > a) & (self.start < b))) for a, b in zip(low, high, strict=True)]
        begin = [np.maximum(part.start, a) for part, a in zip(parts, low, strict=True)]
        stop = [np.minimum(part.end, b) for part, b in zip(parts, high, strict=True)]
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("device", "cause", "lane", "gap", "after")
        }
        return IdleStretches(start=np.concatenate(begin), end=np.concatenate(stop), **joined)


@kept
def idle_stretches(trace: Trace) -> IdleStretches:
    """All idle time of the devices within the recorded extent, each stretch with its cause."""
    parts, idle = idle_parts(trace), idleness(trace)
    edges = _edges(trace)
    inner = IdleStretches(
        idle.device[parts.gap], parts.start, parts.end, parts.cause, parts.lane, parts.gap, idle.after[parts.gap]
    )
    columns = {
        name: np.concatenate([getattr(each, name) for each in (inner, edges)]) for name in edges.__dataclass_fields__
    }
    order = np.lexsort((columns["start"], columns["device"]))
    return IdleStretches(**columns).take(order)


def _edges(trace: Trace) -> IdleStretches:
    """The idle time before the first activity of each device and behind its last, cut by what its thread did.

    That is the thread that launched the activity, or that of the first step, or of the first call. Behind the launch of
    the first activity nothing tells what it waited for: work launched before the capture may still have run.
    """
    order, slices, trace_links, skew = device_order(trace), trace.slices, links(trace), clock_skew(trace)
    (begin, finish), limit = recorded_extent(trace), MAX_ORDINARY_LATENCY_RATIO * usual_latency(trace)
    windows: list[tuple[int, int, int, int, int]] = []
    for number in distinct(order.device).tolist():
        rows = order.row[order.device == number]
        first, last = int(rows[np.argmin(slices.start[rows])]), int(rows[np.argmax(slices.end[rows])])
        start, end = int(slices.start[first]), int(slices.end[last])
        launches = [int(trace_links.launch[row]) for row in (first, last)]
        lanes = [int(slices.lane[each]) if each >= 0 else _first_thread(trace) for each in launches]
        returned = int(np.clip(slices.end[launches[0]] + skew, begin, start)) if launches[0] >= 0 else start
        waited = Cause.LATENCY if start - returned <= limit else Cause.BEFORE_CAPTURE
        windows.append((number, begin, returned, lanes[0], first))
        windows.append((number, returned, start, -1 - waited, first))
        windows.append((number, end, finish, lanes[1], -1))
    device, low, high, lane, after = np.array(windows, np.int64).reshape(-1, 5).T
    # What is known without a thread has its cause in place of the lane.
    known = np.flatnonzero((lane < 0) & (high > low))
    asked = np.flatnonzero((lane >= 0) & (high > low))
    threads = thread_causes(trace, distinct(lane[asked]), low[asked] - skew, high[asked] - skew)
    index, begun, ended, cause = threads.within(lane[asked], low[asked] - skew, high[asked] - skew)
    quiet = np.isin(cause, (Cause.UNSEEN, Cause.PYTHON)) & (ended - begun >= MIN_LONG_GAP_NS)
    of = np.concatenate([asked[index], known])
    return IdleStretches(
        device[of],
        np.concatenate([begun + skew, low[known]]),
        np.concatenate([ended + skew, high[known]]),
        np.concatenate([np.where(quiet, Cause.LONG_GAP, cause), -1 - lane[known]]).astype(np.int8),
        np.maximum(lane[of], -1),
        np.full(len(of), -1, np.int64),
        after[of],
    )


def _first_thread(trace: Trace) -> int:
    """The lane of the thread of the first step, or else of the first operator or call."""
    if len(steps(trace)):
        return int(steps(trace).lane[0])
    rows = trace.slices.of_kind(Kind.RUNTIME, Kind.CPU_OP)
    return int(trace.slices.lane[rows[np.argmin(trace.slices.start[rows])]]) if len(rows) else 0


SHORT_OVERHEAD, LONG_OVERHEAD = len(Cause), len(Cause) + 1
"""Numbers of two groups beside those of the causes: launch overhead in gaps between one launch and the next, and in
longer ones."""


@kept
def idle_groups(trace: Trace) -> NDArray[np.int8]:
    """The group of each of `idle_stretches(trace)`, by which a verdict and a headline rank idle time (R3.91).

    That is its cause; for what the CPU did on its way to a launch, with the latency of a late launch, one of the two
    groups of launch overhead.
    """
    idle, every = idleness(trace), idle_stretches(trace)
    is_late = np.append(late_gaps(trace), False)[every.gap]
    overhead = np.isin(every.cause, (*OVERHEAD, Cause.SLOW_LAUNCH)) | ((every.cause == Cause.LATENCY) & is_late)
    short = np.append(idle.dur, MAX_SHORT_GAP_NS)[every.gap] < MAX_SHORT_GAP_NS
    group = np.where(short, SHORT_OVERHEAD, LONG_OVERHEAD)
    return np.where(overhead, group, every.cause).astype(np.int8)


def idle_by_group(trace: Trace, low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """Idle time in ns within some windows, summed over the devices: an array of windows by groups, and by causes.

    At most `MAX_SUM_NS`.
    """
    every, groups = idle_stretches(trace), idle_groups(trace)
    windows, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in distinct(every.device).tolist():
        first, last = np.searchsorted(every.device, [number, number + 1])
        begin = first + np.searchsorted(every.end[first:last], low, side="right")
        counts = np.maximum(first + np.searchsorted(every.start[first:last], high) - begin, 0)
        windows.append(np.repeat(np.arange(len(low)), counts))
        rows.append(in_runs(begin, counts))
    window, row = np.concatenate(windows), np.concatenate(rows)
    spent = np.minimum(every.end[row], high[window]) - np.maximum(every.start[row], low[window])
    sums = []
    for kinds, width in ((groups, LONG_OVERHEAD + 1), (every.cause, len(Cause))):
        cell = window * width + kinds[row]
        sums.append(_exact_sums(cell, spent, len(low) * width).reshape(-1, width))
    return sums[0], sums[1]


def _exact_sums(cell: Int64, ns: Int64, size: int) -> Int64:
    """Sums of times by cell, at most `MAX_SUM_NS` each; of two halves of the numbers, as a float holds 53 bits."""
    high, low = (np.bincount(cell, half, size) for half in (ns >> 31, ns & (2**31 - 1)))
    sums = (np.minimum(high, MAX_SUM_NS >> 31).astype(np.int64) << 31) + low.astype(np.int64)
    return np.asarray(np.minimum(sums, MAX_SUM_NS))


@kept
def _device_stretches(trace: Trace) -> list[tuple[Int64, Int64]]:
    """Starts and ends (ns) of the disjoint intervals in which each device ran something."""
    order, slices = device_order(trace), trace.slices
    each = [order.row[order.device == number] for number in distinct(order.device).tolist()]
    return [union(slices.start[rows], slices.end[rows]) for rows in each]


def idle_within(trace: Trace, low: Int64, high: Int64) -> Int64:
    """Time in ns in each window in which a device ran nothing, summed over the devices; an array of windows.

    At most `MAX_SUM_NS`.
    """
    idle, rounded = np.zeros(len(low), np.int64), np.zeros(len(low))
    for busy in _device_stretches(trace):
        mine = high - low - covered_within(*busy, low, high)
        idle, rounded = idle + mine, rounded + mine
    return np.where(rounded < MAX_SUM_NS, idle, MAX_SUM_NS)
