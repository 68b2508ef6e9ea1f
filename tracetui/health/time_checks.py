"""Checks of the clocks, and of the profiler's effect on times."""

from __future__ import annotations

import numpy as np

from tracetui.health.link_checks import Check, CheckSeverity, Doubt, doubt_about
from tracetui.idle.idle_parts import clock_skew
from tracetui.idle.idleness import idleness, unrecorded_holes
from tracetui.idle.waits import final_flush
from tracetui.linking.links import links
from tracetui.linking.replays import replays
from tracetui.model.intervals import Int64, count_passed, covered
from tracetui.model.quantities import duration, percent
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import costs, counted_rows, is_overlapped, self_cpu_sum

CLOCK_CHECK = "work before its launch"
"""Name of the check of the clocks."""
LENGTH_CHECK = "work that runs past others"
"""Name of the check of durations on the GPU."""
CUT = (
    "A stream runs one after another, so it cannot have taken that long: it was cut where the next one starts, and how "
    "long it really ran is unknown."
)
MIN_FRAME_SHARE = 0.05
"""Minimum share of Python frames among the slices, for them to slow anything."""


def before_launch(trace: Trace) -> Doubt | None:
    """GPU activities that start before their launch call: the clocks disagree."""
    trace_links, start = links(trace), trace.slices.start
    if len(trace_links.launched) == 0:
        return None
    skew = start[trace_links.launch[trace_links.launched]] - start[trace_links.launched]
    early = skew > 0
    if not early.any():
        return Doubt(0)
    worst = int(trace_links.launched[np.argmax(skew)])
    usual = float(np.median(skew[early]))
    words = f"by {duration(usual)} in the median, {duration(int(skew.max()))} at most: "
    return Doubt(int(early.sum()), len(trace_links.launched), words + trace.name_of(worst), worst, int(usual))


def late_clock(trace: Trace) -> Doubt | None:
    """Launches of which none starts as soon as on other machines: the clock of the GPU is ahead, or all is slow."""
    launches = len(links(trace).launches)
    if launches == 0:
        return None
    skew = clock_skew(trace)
    return Doubt(launches, launches, f"by {duration(skew)}", -1, skew) if skew > 0 else Doubt(0)


def runs_past(trace: Trace) -> Doubt | None:
    """GPU activities within which several later ones of their stream start and end; graphs may really do that."""
    rows, slices, quality = _by_stream(trace), trace.slices, trace.quality
    if len(rows) == 0:
        return None
    bad, inside = _activities_past_others(trace)
    if quality.overlong:
        row = int(cut_activities(trace)[0])
        dur, passed = quality.longest_overlong
        words = f"{duration(dur)}, past {passed:,} later ones: {trace.name_of(row)}"
        return Doubt(len(quality.overlong) + len(bad), len(rows), words, row, int(slices.dur[bad].sum()), effect=CUT)
    if len(bad) == 0:
        return Doubt(0)
    worst = int(np.argmax(inside))
    row = int(bad[worst])
    words = f"{duration(int(slices.dur[row]))}, past {inside[worst]:,} later ones: {trace.name_of(row)}"
    return Doubt(len(bad), len(rows), words, row, int(slices.dur[bad].sum()))


def impossible_activities(trace: Trace) -> Int64:
    """GPU activities whose durations are wrong, because several later ones of their stream ran within them."""
    return np.union1d(_activities_past_others(trace)[0], cut_activities(trace)).astype(np.int64)


def cut_activities(trace: Trace) -> Int64:
    """GPU activities whose durations were so wrong that they were cut while reading (R1.5), the longest first."""
    if not trace.quality.overlong:
        return np.empty(0, np.int64)
    gpu = links(trace).gpu
    events = np.array(trace.quality.overlong, np.int64)
    order = np.argsort(trace.slices.event[gpu])
    found = np.searchsorted(trace.slices.event[gpu][order], events)
    return gpu[order[found]].astype(np.int64)


@kept(on_disk=True)
def _activities_past_others(trace: Trace) -> tuple[Int64, Int64]:
    """Such activities, and how many later ones start and end within each."""
    rows, slices, trace_links = _by_stream(trace), trace.slices, links(trace)
    if len(rows) == 0:
        return rows, rows
    index = np.searchsorted(trace_links.launches, trace_links.launch[rows])
    in_graph = (trace_links.launch[rows] >= 0) & (np.append(trace_links.counts, 0)[index] > 1)
    inside = count_passed(slices.lane[rows], slices.start[rows], slices.end[rows])
    bad = np.flatnonzero((inside > 0) & ~in_graph)
    return rows[bad], inside[bad]


def graph_holes(trace: Trace) -> Doubt | None:
    """Holes in graph replays in which nodes ran that were not recorded (R3.64)."""
    if len(replays(trace)) == 0:
        return None
    holes, idle = unrecorded_holes(trace), idleness(trace)
    if len(holes.gap) == 0:
        return Doubt(0)
    size = int((idle.end[holes.gap] - holes.start).sum())
    row = int(idle.after[holes.gap[0]])
    words = f"{duration(size)} in {holes.replays:,} of {len(replays(trace)):,} replays, such as before "
    return Doubt(len(holes.gap), len(idle), words + trace.name_of(row), row, size)


def stream_overlaps(trace: Trace) -> Doubt | None:
    """Kernels that start before the kernel before them on their stream has ended."""
    rows, slices = _by_stream(trace), trace.slices
    rows = rows[slices.kind[rows] == Kind.KERNEL]
    if len(rows) == 0:
        return None
    same = slices.lane[rows[1:]] == slices.lane[rows[:-1]]
    over = rows[1:][same & (slices.start[rows[1:]] < slices.end[rows[:-1]])]
    return doubt_about(trace, over, len(rows))


def zero_length(trace: Trace) -> Doubt | None:
    """Kernels of no duration."""
    rows = trace.slices.of_kind(Kind.KERNEL)
    if len(rows) == 0:
        return None
    none = rows[trace.slices.dur[rows] == 0]
    return doubt_about(trace, none, len(rows))


def whole_micros(trace: Trace) -> Doubt | None:
    """Slices of a recording with a clock of whole microseconds."""
    slices = trace.slices
    if not trace.is_torch or len(slices) == 0:
        return None
    coarse = not (slices.start % 1000).any() and not (slices.dur % 1000).any()
    return Doubt(len(slices) if coarse else 0, len(slices))


def stack_cost(trace: Trace) -> Doubt | None:
    """Python frames, whose recording slows the CPU (R3.34)."""
    if not trace.is_torch:
        return None
    frames = trace.slices.of_kind(Kind.PYTHON)
    if len(frames) < MIN_FRAME_SHARE * len(trace.slices):
        # A handful is what `record_function` and hooks leave behind.
        return Doubt(0)
    row = int(frames[0]) if len(frames) else -1
    return Doubt(len(frames), len(trace.slices), trace.name_of(row) if row >= 0 else "", row)


def overhead(trace: Trace) -> Doubt | None:
    """Slices of the profiler's own cost."""
    if not trace.is_torch:
        return None
    slices = trace.slices
    rows = slices.of_kind(Kind.OVERHEAD)
    if len(rows) == 0:
        return Doubt(0)
    spent = covered(slices.start[rows], slices.end[rows])
    longest = int(rows[np.argmax(slices.dur[rows])])
    share = 100 * spent / max(trace.window[1] - trace.window[0], 1)
    words = f"{duration(spent)}, {percent(share)} of the trace, the longest {trace.name_of(longest)}"
    return Doubt(len(rows), 0, words, longest)


def own_flush(trace: Trace) -> Doubt | None:
    """The wait with which the profiler ends the capture (R3.31)."""
    if len(links(trace).gpu) == 0:
        return None
    rows = final_flush(trace)
    if len(rows) == 0:
        return Doubt(0)
    row = int(rows[0])
    return Doubt(1, 0, f"{trace.name_of(row)}, {duration(int(trace.slices.dur[row]))}", row)


def overlapping_callees(trace: Trace) -> Doubt | None:
    """Operators, annotations and calls whose direct callees overlap and took longer together than they did."""
    if len(counted_rows(trace)) == 0:
        return None
    # The costs of all slices are worked out for those alone that have such callees.
    if not self_cpu_sum(trace).is_overlapped:
        return Doubt(0)
    cost = costs(trace)
    bad = np.flatnonzero(is_overlapped(cost.self_cpu))
    worst = int(bad[np.argmin(cost.self_cpu[bad])])
    row = int(cost.row[worst])
    words = f"{duration(-int(cost.self_cpu[worst]))} more than {trace.name_of(row)} itself"
    return Doubt(len(bad), len(cost.row), words, row)


def _by_stream(trace: Trace) -> Int64:
    """GPU activities by stream, then start."""
    return np.sort(links(trace).gpu)


TIME_CHECKS = (
    Check(
        CLOCK_CHECK,
        CheckSeverity.WRONG,
        before_launch,
        "The clocks of CPU and GPU disagree: delays, queues and the causes of gaps are off by as much.",
        (
            "kernels.launch_delay_us",
            "launches.delay_us",
            "launches.queue_depth",
            "steps.launch_delay_us",
            "gaps.cause",
            "steps.verdict",
        ),
    ),
    Check(
        "long delays of all launches",
        CheckSeverity.NOTE,
        late_clock,
        "The clock of the GPU is ahead of that of the CPU, or launching is slow on this machine: every delay has it.",
    ),
    Check(
        LENGTH_CHECK,
        CheckSeverity.WRONG,
        runs_past,
        "A stream runs one after another, so it cannot have taken that long: GPU time is too high, gaps are missing.",
        ("kernels.dur_us", "kernels.gap_before_us", "steps.gpu_busy_us", "steps.gpu_idle_us", "summary.value", "gaps"),
    ),
    Check(
        "missing activities of graphs",
        CheckSeverity.DOUBT,
        graph_holes,
        "Replays have the same hole before the same node: nodes ran there that the profiler did not record. The GPU "
        "was not idle.",
        ("steps.gpu_idle_us", "steps.gpu_busy_us", "steps.verdict", "gaps.cause"),
    ),
    Check(
        "overlaps on a stream",
        CheckSeverity.NOTE,
        stream_overlaps,
        "Normal for programmatic dependent launch and graphs; busy time is a union and counts the overlap once.",
    ),
    Check(
        "kernels of no duration",
        CheckSeverity.NOTE,
        zero_length,
        "Shorter than the clock's tick: they have no rate, and sums of such kernels are too small.",
    ),
    Check(
        "whole microseconds",
        CheckSeverity.NOTE,
        whole_micros,
        "Old recordings have no finer clock: times are off by up to a microsecond, and rates of short work are rough.",
    ),
    Check(
        "python frames",
        CheckSeverity.DOUBT,
        stack_cost,
        "with_stack=True slows the CPU two- to fivefold: CPU times and a verdict of overhead-bound are exaggerated. "
        "Measure without it.",
        (
            *("ops.self_cpu_us", "ops.cpu_total_us", "views.self_cpu_us", "views.cpu_total_us", "steps.verdict"),
            *("modules.cpu_us", "modules.own_cpu_us"),
        ),
    ),
    Check(
        "self time below 0",
        CheckSeverity.DOUBT,
        overlapping_callees,
        "What a slice calls overlaps (asynchronous work on its thread), so that its self time measures nothing. Sums "
        "with such a slice are marked with ~; those below 0 are not ranked, and count as 0 in comparisons.",
        ("ops.self_cpu_us", "views.self_cpu_us", "views.pct_of_step_cpu"),
    ),
    Check(
        "profiler overhead",
        CheckSeverity.NOTE,
        overhead,
        "Time of the profiler itself, on a lane of its own; the program may be stalled meanwhile.",
    ),
    Check("profiler's last wait", CheckSeverity.NOTE, own_flush, "It is left out of sync times and verdicts."),
)
"""The checks, in the order in which they are listed."""
