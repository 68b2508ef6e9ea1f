"""The verdict: what holds a step or the whole trace back, with every number that it rests on (3(g)).

Compute-bound and memory-bound rest on FLOPs and bytes, which need the shapes of inputs: without them a busy GPU that
does not communicate is only GPU-bound. `totals` has the two sums under torch's own table, and what the profiling
tutorial reads from them (R3.32); a long wait at the end of the capture, or the profiler's own cost, makes that
misleading.

A step is judged by the idle time within its GPU span and the wait before it together, so that a step which waits for
its data before its first kernel is called so. The trace is judged by the median of its steps where it has some, as a
comparison is, and by its whole span where it has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.roofline import bound_share
from tracetui.idle.gpu_spans import Exposure, GpuSpans, exposure, gaps_of, step_exposure, step_spans, trace_span
from tracetui.idle.idle_parts import after_sync, idle_by_cause
from tracetui.idle.idleness import MIN_GAP_NS, device_order, idleness
from tracetui.idle.waits import WORDS, Cause
from tracetui.linking.groups import PartSums
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, step_index, time_within, within
from tracetui.linking.step_kinds import averaged_steps
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import costs, costs_within, is_overlapped, self_cpu_sum

MIN_OVERHEAD_RATIO = 2.0
"""Minimum ratio of CPU time to GPU time that reads as overhead-bound."""
MAX_BALANCED_RATIO = 1.25
"""Maximum ratio of CPU time to GPU time, either way, that reads as compute-bound."""


@dataclass(frozen=True)
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
HALF_PERCENT = 50.0
MIN_ELSEWHERE_POINTS = 10.0
"""Minimum idle share of a trace beyond that of its median step, in percentage points, to be mentioned."""
ELSEWHERE = ", idle elsewhere"
"""End of the words for a trace that is idle outside of its steps, or in a few of them."""
MIN_NOT_RECORDED_PERCENT = 2.0
"""Minimum percent of the time in which something ran that was not recorded, for it to be mentioned."""
MIN_EXPOSED_PERCENT = 20.0
"""Minimum percent of exposed communication of a communication-bound GPU."""
MAX_SMALL_GAP_NS = 1_000_000
"""Maximum length in ns of a gap between one launch and the next."""
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
    "{} of the idle time lies where nodes of a graph were not recorded: the GPU was probably busy then, and the "
    "verdict leaves it out."
)
BEFORE_CAPTURE = (
    "{} of the idle time lies before activities that were launched before the capture began: what held them up was not "
    "recorded, and the verdict leaves it out."
)
NOTHING_SEEN = (
    "Nothing in the trace says what the queued work waited for: kernels that were not recorded, another process, "
    "or the profiler itself."
)


@dataclass(frozen=True)
class Verdict:
    """The numbers behind a verdict; shares are percentages 0-100."""

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
    seen_waits: int
    """Part of `waiting` in ns with a known cause: a graph, or a stream that waited for an event."""
    after_sync: int
    """Part of the idle time and the wait, in ns: gaps that began while the CPU waited for the GPU."""
    exposed_comm: int
    exposed_copy: int
    host_cause: Cause
    """Main cause of `cpu_late` and `in_launch`."""
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
    typical: Verdict | None = None
    """For a trace with steps the verdict on its median step, whose words it has."""

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
    def unused_pct(self) -> float:
        """Share of the time in which the device was idle, the wait before the first activity included in both."""
        return _pct(self.unused, self.total + self.wait)

    @property
    def judged(self) -> int:
        """Idle time and wait in ns on which the verdict rests: without what ran or was launched unrecorded."""
        return self.unused - self.not_recorded - self.before_capture

    @property
    def judged_pct(self) -> float:
        """Share of `judged` in the time, the wait before the first activity included."""
        return _pct(self.judged, self.total + self.wait - self.before_capture)

    @property
    def late_pct(self) -> float:
        """Share of the activities that were launched too late; alone it says little."""
        return _pct(self.late, self.activities)

    @property
    def unknown(self) -> int:
        """Part of the idle time and the wait, in ns: before activities without a launch record."""
        return self.judged - self.pauses - self.host - self.waiting

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

    @property
    def exposed_comm_pct(self) -> float:
        """Share of the time from the first activity to the last in which the device only communicated."""
        return _pct(self.exposed_comm, self.total)

    @property
    def cause(self) -> str:
        """Main cause of the idle time and the wait: overhead, host-stall, dependency, unknown or mixed."""
        if _pct(self.host, self.judged) >= HALF_PERCENT:
            return "overhead" if (self.small_pct or 0) >= HALF_PERCENT else "host-stall"
        if _pct(self.dependency, self.judged) >= HALF_PERCENT:
            return "dependency"
        return "unknown" if _pct(self.unknown, self.judged) >= HALF_PERCENT else "mixed"

    @property
    def is_unexplained(self) -> bool:
        """True where nothing in the trace says what caused most of the idle time."""
        if 2 * self.before_capture > self.unused or self.cause == "unknown":
            return True
        return self.cause == "dependency" and self.seen_waits < self.dependency / 2

    @property
    def level(self) -> int:
        """0 for a device that is kept busy, 1 for one with gaps, 2 for one that starves."""
        return int(self.judged_pct >= BUSY) + int(self.judged_pct >= STARVED)

    @property
    def words(self) -> str:
        """The verdict in words; for a trace those of its median step, and whether it is idle elsewhere."""
        if self.typical is None:
            return self._own_words
        more = self.level > self.typical.level and self.judged_pct >= self.typical.judged_pct + MIN_ELSEWHERE_POINTS
        return f"{self.typical.words}{ELSEWHERE if more else ''}"

    @property
    def text(self) -> str:
        """The verdict with the numbers behind it, each with what it is a share of, in one line."""
        shares = ((self.cpu_late, "CPU late"), (self.in_launch, "in the launch call"), (self.waiting, "waiting"))
        others = (
            (self.deduced, "CPU probably late"),
            (self.unknown, "unknown"),
            (self.not_recorded, "not recorded"),
            (self.before_capture, "before the capture"),
        )
        parts = [*shares, *(each for each in others if _pct(each[0], self.unused) >= 1)]
        split = ", ".join(f"{rounded_percent(_pct(time, self.unused))} {word}" for time, word in parts)
        line = f"{self.words}: {self.idle_text}"
        line += f" ({split})" if self.unused else ""
        line += f", {rounded_percent(self.late_pct)} of the kernels launched late"
        if self.typical is None or self.typical.idle_text == self.idle_text:
            return line
        return f"{line}; in the median step {self.typical.idle_text}"

    @property
    def idle_text(self) -> str:
        """The idle time and the wait in words, as shares of named times."""
        line = f"idle {rounded_percent(self.idle_pct)} from the first GPU activity to the last"
        if 2 * self.not_recorded > self.unused:
            line += ", mostly where nodes of graphs were not recorded"
        if 2 * self.before_capture > self.unused:
            line += ", mostly before activities launched before the capture or as it began"
        if self.wait < MIN_GAP_NS:
            return line
        return f"{line}, {rounded_percent(self.unused_pct)} with the GPU wait of {duration(self.wait)} before it"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Caveats about the verdict."""
        if self.typical:
            return self.typical.remarks
        remarks = []
        if _pct(self.not_recorded, self.total + self.wait) >= MIN_NOT_RECORDED_PERCENT:
            remarks.append(NOT_RECORDED.format(rounded_percent(_pct(self.not_recorded, self.unused))))
        if _pct(self.before_capture, self.total + self.wait) >= MIN_NOT_RECORDED_PERCENT:
            remarks.append(BEFORE_CAPTURE.format(rounded_percent(_pct(self.before_capture, self.unused))))
        if self.level and self.cause == "overhead" and self.has_frames:
            remarks.append(FRAMES)
        if self.level and self.cause == "dependency" and self.is_unexplained:
            remarks.append(NOTHING_SEEN)
        return tuple(remarks)

    @property
    def _own_words(self) -> str:
        cause = "unexplained" if self.cause == "unknown" else self.cause
        why = f" ({WORDS[self.host_cause]})" if self.cause == "host-stall" else ""
        if self.level == 2:
            return "idle, cause unknown" if self.cause == "unknown" else f"{cause}-bound{why}"
        if self.level == 1:
            return f"GPU-bound with {cause} gaps{why}"
        return "communication-bound" if self.exposed_comm_pct >= MIN_EXPOSED_PERCENT else f"{self.limit or 'GPU'}-bound"


@kept(on_disk=True)
def verdict(trace: Trace) -> Verdict | None:
    """The verdict on the whole trace, all devices together; None without GPU activity.

    The numbers are those from the first activity to the last. The words are those of the median step where there are
    steps, so that the verdicts on the trace, on its steps and in a comparison agree.
    """
    work, gaps = np.zeros(len(device_order(trace).row), np.int64), np.zeros(len(idleness(trace)), np.int64)
    if len(work) == 0:
        return None
    whole = _judge(trace, work, gaps, trace_span(trace), exposure(trace).total())[0]
    complete = np.flatnonzero(averaged_steps(trace)).tolist()
    typical = typical_verdict(trace, complete) or typical_verdict(trace, range(len(steps(trace))))
    return replace(whole, typical=typical) if whole else None


@kept(on_disk=True)
def step_verdicts(trace: Trace) -> list[Verdict | None]:
    """The verdict on each of `steps(trace)`; None for a step that launched nothing on a GPU.

    It rests on the gaps within the GPU span of the step and right before it; an activity that was launched late counts
    in the step that launched it.
    """
    work, gaps = (step_index(trace, rows) for rows in (device_order(trace).row, idleness(trace).after))
    if len(work) == 0:
        return [None] * len(steps(trace))
    return _judge(trace, work, gaps, step_spans(trace), step_exposure(trace).total())


def typical_verdict(trace: Trace, indices: Iterable[int]) -> Verdict | None:
    """The verdict on the median step, of some of `steps(trace)`, by the share of idle time and wait.

    Of the steps whose GPU is about as busy as in the median step, it is one with the most common words. None where no
    step ran anything on a GPU.
    """
    every = step_verdicts(trace)
    judged = sorted((one for one in (every[index] for index in indices) if one), key=lambda one: one.judged_pct)
    if not judged:
        return None
    middle = judged[len(judged) // 2]
    alike = [one for one in judged if one.level == middle.level]
    words = Counter(one.words for one in alike).most_common(1)[0][0]
    return min((one for one in alike if one.words == words), key=lambda one: abs(one.judged_pct - middle.judged_pct))


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


def _judge(trace: Trace, work: Int64, late: Int64, spans: GpuSpans, exposed: Exposure) -> list[Verdict | None]:
    """One verdict for each part that has spans.

    `work` is the part of each activity, `late` that of the activity after each gap; -1 is left out.
    """
    order, idle, count = device_order(trace), idleness(trace), len(spans)
    part, gap = gaps_of(trace, spans)
    inside = PartSums(part, count)
    everywhere = len(gap) == len(idle) and bool((gap[1:] == gap[:-1] + 1).all())

    def within(values: NDArray[np.generic]) -> Int64:
        return inside.of(values if everywhere else np.asarray(values)[gap])

    spent, none = idle_by_cause(trace), np.zeros(len(idle), np.int64)
    causes = np.zeros((count, len(Cause)), np.int64)
    for cause, times in spent.items():
        causes[:, cause] = within(times)
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
        "small": within(np.where(idle.dur < MAX_SMALL_GAP_NS, host, 0)),
        "dependency": within(np.maximum(waiting - MAX_ORDINARY_DELAY_NS, 0)),
        "seen_waits": causes[:, Cause.GRAPH] + causes[:, Cause.STREAM],
        "after_sync": within(np.where(after_sync(trace), idle.dur - hole - early, 0)),
        "exposed_comm": exposed.exposed_comm,
        "exposed_copy": exposed.exposed_copy,
    }
    stalls = causes[:, : Cause.LATENCY]
    rows = zip(*(column.tolist() for column in sums.values()), strict=True)
    frames = bool((trace.slices.kind == Kind.PYTHON).any())
    made = (
        Verdict(**dict(zip(sums, row, strict=True)), host_cause=Cause(cause), has_frames=frames)
        for row, cause in zip(rows, np.argmax(stalls, axis=1).tolist(), strict=True)
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
    if one.level or one.exposed_comm_pct >= MIN_EXPOSED_PERCENT:
        return one
    compute, memory, unknown = bound_share(trace, rows)
    if compute + memory <= unknown:
        return one
    return replace(one, limit="compute" if compute >= memory else "memory")


def _pct(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
