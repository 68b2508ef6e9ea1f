"""The verdict: what holds a step or the whole trace back, with every number that it rests on (3(g)).

Compute-bound and memory-bound rest on FLOPs and bytes, which need the shapes of inputs: without them a busy GPU that
does not communicate is only GPU-bound. `totals` has the two sums under torch's own table, and what the profiling
tutorial reads from them (R3.32); a long wait at the end of the capture, or the profiler's own cost, makes that
misleading.

A step is judged over its period, the steps of a trace over all of theirs, and a trace without steps over all that was
recorded (R3.90): the scope of the findings, so that a verdict and the first sentence rank the same idle time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.roofline import bound_share
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import Exposure, GpuSpans, exposure, gaps_of, step_exposure, step_spans, trace_span
from tracetui.idle.idle_parts import after_sync, idle_by_cause
from tracetui.idle.scope_times import (
    LONG_OVERHEAD,
    MAX_SHORT_GAP_NS,
    SHORT_OVERHEAD,
    idle_by_group,
    idle_within,
    scope_title,
    scope_windows,
    step_periods,
)
from tracetui.idle.waits import WORDS, Cause, device_order, idleness
from tracetui.linking.groups import PartSums
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, step_index, time_within, within
from tracetui.linking.step_kinds import counted_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.quantities import rounded_percent
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import costs, costs_within, is_overlapped, self_cpu_sum

MIN_OVERHEAD_RATIO = 2.0
"""Minimum ratio of CPU time to GPU time that reads as overhead-bound."""
MAX_BALANCED_RATIO = 1.25
"""Maximum ratio of CPU time to GPU time, either way, that reads as compute-bound."""


@frozen(eq=True)
class TorchTotals:
    """The sums under torch's table, in ns."""

    cpu: int
    """Sum of self CPU times of ops, annotations and runtime calls, the final wait for the GPU included."""
    device: int
    """Sum of the durations of GPU activities; concurrent ones count twice."""
    overlapped: bool = False
    """True where some self CPU times are below 0, so that their sum measures nothing."""

    @property
    def reading(self) -> str | None:
        """The tutorial's reading, None where it has none."""
        if self.overlapped:
            return None
        if self.device and self.cpu >= MIN_OVERHEAD_RATIO * self.device:
            return "overhead-bound"
        if self.device and 1 / MAX_BALANCED_RATIO <= self.cpu / self.device <= MAX_BALANCED_RATIO:
            return "compute-bound"
        return None


def totals(trace: Trace, step: Part | None = None) -> TorchTotals:
    """The sums over the trace or the step with a number, of a range of time those of the time within it."""
    work = within(trace, links(trace).gpu, step)
    device = int(time_within(trace, work, step).sum())
    if step is None:
        cpu = self_cpu_sum(trace)
        return TorchTotals(cpu.total, device, cpu.is_overlapped)
    if isinstance(step, TimeRange):
        own = costs_within(trace, step).self_cpu
    else:
        cost = costs(trace)
        own = cost.self_cpu[np.isin(cost.row, within(trace, cost.row, step), assume_unique=True)]
    return TorchTotals(int(own.sum()), device, bool(is_overlapped(own).any()))


BUSY, STARVED = 10.0, 25.0
"""Percent of idle time and wait below which the GPU is kept busy, and from which on it is starved."""
MAX_NAMED_CAUSES = 3
"""Maximum causes of idle time named behind a verdict, the longest first."""
MIN_NOT_RECORDED_PERCENT = 2.0
"""Minimum percent of the time in which something ran that was not recorded, for it to be mentioned."""
MIN_EXPOSED_PERCENT = 20.0
"""Minimum percent of exposed communication of a communication-bound GPU."""
MAX_ORDINARY_DELAY_NS = 10_000
"""Maximum ns after the launch call that indicate no dependency."""

IDLE_PARTS = (
    "cpu_late",
    "in_launch",
    "waiting",
    "deduced",
    "unknown",
    "not_recorded",
    "before_capture",
    "dependency",
    "after_sync",
)
"""Parts of the idle time: its seven parts, and two further views of it."""

FRAMES = (
    "Python frames were recorded (with_stack), which makes the CPU slower: without the profiler the gaps are shorter."
)
NOT_RECORDED = (
    "{} of {} lies where nodes of a graph were not recorded: the GPU was probably busy then, and the verdict leaves it "
    "out."
)
BEFORE_CAPTURE = (
    "{} of {} is idle before activities that were launched before the capture began: what held them up was not "
    "recorded, and the verdict leaves it out."
)
NOTHING_SEEN = (
    "Nothing in the trace says what the queued work waited for: kernels that were not recorded, another process, "
    "or the profiler itself."
)


DEPENDENCY = (Cause.FULL_QUEUE, Cause.GRAPH, Cause.STREAM, Cause.SCHEDULING)
"""Causes by which something that was launched does not start."""
_LEFT_OUT = (Cause.NOT_RECORDED, Cause.BEFORE_CAPTURE)
"""Causes on which no verdict rests: the GPU was probably busy, or what it waited for lies before the capture."""


@frozen(eq=True)
class Judged:
    """The time that a verdict is about, and the idle time in it, summed over the devices, in ns."""

    title: str
    """Name of the scope after `of`: `step 4`, `the steps`."""
    time: int
    idle: int
    groups: tuple[int, ...]
    """Idle time of each group of `idle_groups`, by number."""
    causes: tuple[int, ...]
    """Idle time of each `Cause`."""
    exposed: int
    """Time in which the devices only communicated."""

    @cached_property
    def left_out(self) -> int:
        """Idle time on which no verdict rests."""
        return sum(self.causes[each] for each in _LEFT_OUT)

    @property
    def idle_pct(self) -> float:
        """Percent of the time in which the devices were idle."""
        return _pct(self.idle, self.time)

    @cached_property
    def share(self) -> float:
        """Percent of the time in which the devices were idle, what is left out taken from both."""
        return _pct(self.idle - self.left_out, self.time - self.left_out)

    @cached_property
    def ranked(self) -> list[tuple[int, int]]:
        """Idle time and number of the groups that have any, the longest first; each `DEPENDENCY` under its own."""
        sums = [(time, group) for group, time in enumerate(self.groups) if time and group not in _LEFT_OUT]
        return sorted(sums, key=lambda each: -each[0])

    @cached_property
    def main(self) -> int | None:
        """The group that has at least half of the idle time on which the verdict rests; None for a mixture.

        Causes of a dependency count together, under `Cause.STREAM`.
        """
        waiting = sum(self.groups[each] for each in DEPENDENCY)
        sums = [(time, group) for time, group in self.ranked if group not in DEPENDENCY] + [(waiting, Cause.STREAM)]
        time, group = max(sums, key=lambda each: each[0])
        return group if time and 2 * time >= self.idle - self.left_out else None


@frozen(eq=True)
class Verdict:
    """A verdict, and the numbers from the first GPU activity to the last beside it; shares are percentages 0-100."""

    judged: Judged
    covered: int
    """Time in ns from the first activity to the last in which anything ran, summed over the devices."""
    idle: int
    """Rest of that time in ns."""
    activities: int
    """Kernels, copies and fills."""
    late: int
    """Number of activities launched only when the device was already idle."""
    cpu_late: int
    """Part of the idle time and the wait, in ns: before the launch call."""
    in_launch: int
    waiting: int
    small: int
    """Part of `cpu_late` and `in_launch` in gaps of less than a millisecond."""
    dependency: int
    """Part of `waiting` beyond ten microseconds in a gap."""
    after_sync: int
    """Part of the idle time and the wait, in ns: gaps that began while the CPU waited for the GPU."""
    exposed_comm: int
    exposed_copy: int
    has_frames: bool
    """True where Python frames were recorded, which slows the CPU down (R3.34)."""
    wait: int = 0
    """Idle time in ns right before the first activity of a step; 0 for a trace, whose idle time holds all waits."""
    not_recorded: int = 0
    """Part of the idle time and the wait, in ns: gaps in which nodes of a graph ran that were not recorded."""
    before_capture: int = 0
    """Part of the idle time and the wait, in ns: before activities that were launched before the capture began."""
    deduced: int = 0
    """Part of the idle time and the wait, in ns: the CPU was late for an activity without a launch record, too."""
    pauses: int = 0
    """Part of the idle time and the wait, in ns: pauses too short to be gaps."""
    limit: str | None = None
    """`compute` or `memory` where it is known which of them limits a busy GPU."""

    @property
    def total(self) -> int:
        """Time from the first activity to the last, in ns."""
        return self.covered + self.idle

    @property
    def unused(self) -> int:
        """Idle time and wait in ns."""
        return self.idle + self.wait

    @property
    def idle_pct(self) -> float:
        """Share of the time from the first activity to the last in which the device was idle."""
        return _pct(self.idle, self.total)

    @property
    def late_pct(self) -> float:
        """Share of the activities that were launched too late; alone it says little."""
        return _pct(self.late, self.activities)

    @property
    def unknown(self) -> int:
        """Part of the idle time and the wait, in ns: before activities without a launch record."""
        return self.unused - self.not_recorded - self.before_capture - self.pauses - self.host - self.waiting

    @property
    def host(self) -> int:
        """Part of the idle time and the wait, in ns, that the CPU causes: late, or in the launch call."""
        return self.cpu_late + self.in_launch + self.deduced

    def share_of_idle(self, part: str) -> float | None:
        """One of `IDLE_PARTS` as a share of the idle time and the wait; None where there is neither."""
        return _pct(getattr(self, part), self.unused) if self.unused else None

    @property
    def small_pct(self) -> float | None:
        """Share of short gaps in the idle time that the CPU causes; None where there is none."""
        return _pct(self.small, self.host) if self.host else None

    @cached_property
    def cause(self) -> str:
        """Main cause of the idle time: overhead, host-stall, dependency, unknown or mixed."""
        main = self.judged.main
        if main is None:
            return "mixed"
        if main == SHORT_OVERHEAD:
            return "overhead"
        if main == LONG_OVERHEAD or main < Cause.LATENCY:
            return "host-stall"
        if main == Cause.STREAM:
            return "unknown" if self._is_unseen else "dependency"
        return "unknown" if main == Cause.UNKNOWN else "mixed"

    @property
    def _is_unseen(self) -> bool:
        """True where nothing in the trace says what most of the launched work waited for."""
        causes = self.judged.causes
        return 2 * (causes[Cause.GRAPH] + causes[Cause.STREAM]) < sum(causes[each] for each in DEPENDENCY)

    @property
    def is_unexplained(self) -> bool:
        """True where nothing in the trace says what caused most of the idle time."""
        return self.cause == "unknown" or 2 * self.judged.causes[Cause.BEFORE_CAPTURE] > self.judged.idle

    @cached_property
    def level(self) -> int:
        """0 for a device that is kept busy, 1 for one with gaps, 2 for one that starves."""
        return int(self.judged.share >= BUSY) + int(self.judged.share >= STARVED)

    @cached_property
    def words(self) -> str:
        """The verdict in words: what takes more of the scope than anything else that could be saved (R3.91)."""
        exposed = _pct(self.judged.exposed, self.judged.time)
        largest = _pct(max((time for time, _ in self.judged.ranked), default=0), self.judged.time)
        if exposed >= (MIN_EXPOSED_PERCENT if self.level == 0 else max(largest, BUSY)):
            return "communication-bound"
        if self.level == 0:
            return f"{self.limit or 'GPU'}-bound"
        cause = "unexplained" if self.cause == "unknown" else self.cause
        host_cause = max(range(Cause.LATENCY), key=self.judged.causes.__getitem__)
        why = f" ({WORDS[host_cause]})" if self.cause == "host-stall" else ""
        if self.level == 1:
            return f"GPU-bound with {cause} gaps{why}"
        return "idle, cause unknown" if self.cause == "unknown" else f"{cause}-bound{why}"

    @property
    def text(self) -> str:
        """The verdict with the numbers behind it in one line: the idle share of its scope, and what it is put down to.

        Shares of causes are shares of the scope, too.
        """
        line = f"{self.words}: {self.idle_text}"
        shares = [(_pct(time, self.judged.time), self._group_words(group)) for time, group in self.judged.ranked]
        named = [f"{rounded_percent(share)} {words}" for share, words in shares[:MAX_NAMED_CAUSES] if share >= 1]
        return f"{line} ({', '.join(named)})" if self.level and named else line

    @property
    def idle_text(self) -> str:
        """The idle share of the scope in words."""
        line = f"GPU idle {rounded_percent(self.judged.idle_pct)} of {self.judged.title}"
        if 2 * self.judged.causes[Cause.NOT_RECORDED] > self.judged.idle:
            line += ", mostly where nodes of graphs were not recorded"
        if 2 * self.judged.causes[Cause.BEFORE_CAPTURE] > self.judged.idle:
            line += ", mostly before activities launched before the capture or as it began"
        return line

    @property
    def unseen_text(self) -> str:
        """A clause on the largest part of idle time without a cause in the trace; empty where that has another name."""
        unseen = _pct(self.judged.causes[Cause.SCHEDULING], self.judged.time)
        if 2 * self.judged.causes[Cause.SCHEDULING] < self.judged.idle:
            return ""
        share = rounded_percent(unseen)
        return f", most of it before queued work ({share}: launched, and nothing says why it did not start)"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Caveats about the verdict."""
        remarks = []
        for cause, sentence in ((Cause.NOT_RECORDED, NOT_RECORDED), (Cause.BEFORE_CAPTURE, BEFORE_CAPTURE)):
            share = _pct(self.judged.causes[cause], self.judged.time)
            if share >= MIN_NOT_RECORDED_PERCENT:
                remarks.append(sentence.format(rounded_percent(share), self.judged.title))
        if self.level and self.judged.main in (SHORT_OVERHEAD, LONG_OVERHEAD) and self.has_frames:
            remarks.append(FRAMES)
        if self.level and self.judged.main == Cause.STREAM and self._is_unseen:
            remarks.append(NOTHING_SEEN)
        return tuple(remarks)

    def _group_words(self, group: int) -> str:
        """The name of a group of idle time."""
        if group == SHORT_OVERHEAD:
            return "launch overhead"
        if group == LONG_OVERHEAD:
            return "launch overhead in gaps of a millisecond and more"
        return WORDS[group]


@kept(on_disk=True)
def verdict(trace: Trace) -> Verdict | None:
    """The verdict on the steps of a trace, or on all that was recorded; None without GPU activity.

    The numbers beside it are those of the whole trace from its first GPU activity to its last.
    """
    work, gaps = np.zeros(len(device_order(trace).row), np.int64), np.zeros(len(idleness(trace)), np.int64)
    if len(work) == 0:
        return None
    low, high = scope_windows(trace, None)
    everywhere = steps(trace).is_served or len(steps(trace)) == 0
    exposed = (exposure(trace) if everywhere else step_exposure(trace)).total().exposed_comm
    exposed = exposed if everywhere else exposed[counted_steps(trace)]
    title = scope_title(trace, None)
    parts = _judged(trace, [title] * len(low), low, high, np.zeros_like(low))
    groups = tuple(map(sum, zip(*(part.groups for part in parts), strict=True)))
    causes = tuple(map(sum, zip(*(part.causes for part in parts), strict=True)))
    time, idle = sum(part.time for part in parts), sum(part.idle for part in parts)
    whole = Judged(title, time, idle, groups, causes, int(exposed.sum()))
    return _verdicts(trace, work, gaps, trace_span(trace), exposure(trace).total(), [whole])[0]


@kept(on_disk=True)
def judged_steps(trace: Trace) -> list[Verdict | None]:
    """The numbers behind the verdict on each of `steps(trace)`; None for a step that launched nothing on a GPU.

    They are those from its first GPU activity to its last; an activity that was launched late counts in the step that
    launched it.
    """
    work, gaps = (step_index(trace, rows) for rows in (device_order(trace).row, idleness(trace).after))
    if len(work) == 0:
        return [None] * len(steps(trace))
    exposed = step_exposure(trace).total()
    titles = [f"step {number}" for number in steps(trace).number.tolist()]
    judged = _judged(trace, titles, *step_periods(trace), exposed.exposed_comm)
    return _verdicts(trace, work, gaps, step_spans(trace), exposed, judged)


def step_verdicts(trace: Trace) -> list[Verdict | None]:
    """The verdict on each of `steps(trace)`, on the idle time of its period; None where the period is empty, too."""
    return [one if one is not None and one.judged.time else None for one in judged_steps(trace)]


def _judged(trace: Trace, titles: list[str], low: Int64, high: Int64, exposed: Int64) -> list[Judged]:
    """The idle time that a verdict on each of some windows of time rests on."""
    devices = device_order(trace).devices
    groups, causes = idle_by_group(trace, low, high)
    columns = (high - low, idle_within(trace, low, high), groups, causes, exposed)
    return [
        Judged(title, time * devices, idle, tuple(group), tuple(cause), comm)
        for title, time, idle, group, cause, comm in zip(titles, *(each.tolist() for each in columns), strict=True)
    ]


def typical_verdict(trace: Trace, indices: Iterable[int]) -> Verdict | None:
    """The verdict on the median step, of some of `steps(trace)`, by the share of idle time.

    Of the steps whose GPU is about as busy as in the median step, it is one with the most common words. None where no
    step ran anything on a GPU.
    """
    every = step_verdicts(trace)
    some = sorted((one for one in (every[index] for index in indices) if one), key=lambda one: one.judged.share)
    if not some:
        return None
    middle = some[len(some) // 2]
    alike = [one for one in some if one.level == middle.level]
    words = Counter(one.words for one in alike).most_common(1)[0][0]
    return min(
        (one for one in alike if one.words == words), key=lambda one: abs(one.judged.share - middle.judged.share)
    )


def verdict_on(trace: Trace, step: Part | None) -> Verdict | None:
    """The verdict on the step with a number, on the first of several with that number; on the trace for None.

    A range of time has none: it begins and ends anywhere, also in the middle of a step.

    Raises: UsageError when no step has the number.
    """
    if isinstance(step, TimeRange):
        return None
    if step is None:
        return verdict(trace)
    return step_verdicts(trace)[int(chosen(trace, step)[0])]


def _verdicts(
    trace: Trace, work: Int64, late: Int64, spans: GpuSpans, exposed: Exposure, judged: list[Judged]
) -> list[Verdict | None]:
    """One verdict for each part that has spans, given what it rests on.

    `work` is the part of each activity, `late` that of the activity after each gap; -1 is left out.
    """
    order, idle, count = device_order(trace), idleness(trace), len(spans)
    part, gap = gaps_of(trace, spans)
    inside = PartSums(part, count)
    everywhere = len(gap) == len(idle) and bool((gap[1:] == gap[:-1] + 1).all())

    def within(values: NDArray[np.generic]) -> Int64:
        return inside.of(values if everywhere else np.asarray(values)[gap])

    spent, none = idle_by_cause(trace), np.zeros(len(idle), np.int64)
    hole, early = spent.get(Cause.NOT_RECORDED, none), spent.get(Cause.BEFORE_CAPTURE, none)
    cpu_late, in_launch, waiting = _without(hole + early, idle.waiting, idle.in_launch, idle.cpu_late)[::-1]
    late_too = sum((times for cause, times in spent.items() if cause < Cause.LATENCY), none)
    deduced = np.where(idle.known, 0, late_too)
    host = cpu_late + in_launch + deduced
    sums = {
        "covered": spans.total_span - spans.total_idle,
        "idle": spans.total_idle,
        "wait": spans.total_wait,
        "not_recorded": within(hole),
        "before_capture": within(early),
        "deduced": within(deduced),
        "pauses": spans.total_idle + spans.total_wait - within(idle.dur),
        "activities": PartSums(work, count).of(np.ones_like(work)),
        "late": PartSums(late, count).of(idle.cpu_late > 0),
        "cpu_late": within(cpu_late),
        "in_launch": within(in_launch),
        "waiting": within(waiting),
        "small": within(np.where(idle.dur < MAX_SHORT_GAP_NS, host, 0)),
        "dependency": within(np.maximum(waiting - MAX_ORDINARY_DELAY_NS, 0)),
        "after_sync": within(np.where(after_sync(trace), idle.dur - hole - early, 0)),
        "exposed_comm": exposed.exposed_comm,
        "exposed_copy": exposed.exposed_copy,
    }
    rows = zip(*(column.tolist() for column in sums.values()), strict=True)
    frames = bool((trace.slices.kind == Kind.PYTHON).any())
    made = (
        Verdict(each, **dict(zip(sums, row, strict=True)), has_frames=frames)
        for each, row in zip(judged, rows, strict=True)
    )
    return [_limited(trace, one, order.row[work == index]) for index, one in enumerate(made)]


def _without(hole: Int64, *parts: Int64) -> list[Int64]:
    """The parts of every gap without the time of a hole in it, which takes up the first of them first."""
    left = []
    for times in parts:
        taken = np.minimum(times, hole)
        left.append(times - taken)
        hole = hole - taken
    return left


def _limited(trace: Trace, one: Verdict, rows: Int64) -> Verdict | None:
    """The verdict on some GPU activities, with the limit of a busy GPU; None without activities."""
    if one.activities == 0:
        return None
    if one.level or one.words == "communication-bound":
        return one
    compute, memory, unknown = bound_share(trace, rows)
    if compute + memory <= unknown:
        return one
    return replace(one, limit="compute" if compute >= memory else "memory")


def _pct(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
