"""Steps of a server: the work of the CPU between two of them (scheduling, graph launches, sampling, output, waits,
R3.84), the numbers of each, and columns of their medians.

Read from the names of what began between the two steps on the steps' thread: what encloses both, such as the server's
loop, says nothing. Every moment counts once, for the first activity in `Activity` that any open slice shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import partial

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.idle.gpu_spans import StepTimes, between_windows, step_spans, step_times, uncovered
from tracetui.idle.idle_parts import clock_skew
from tracetui.idle.scope_times import step_periods
from tracetui.idle.waits import SYNC_NAME, device_order
from tracetui.kernel_names.decoded import Purpose
from tracetui.kernel_names.slice_names import purposes
from tracetui.linking.frames import function_of
from tracetui.linking.groups import distinct
from tracetui.linking.links import busy_stretches, links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import GRAPH_LAUNCH, replays
from tracetui.linking.step_kinds import StepKinds
from tracetui.linking.steps import Steps, steps
from tracetui.linking.trees import Axis, is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, ColumnSpec, numbers
from tracetui.model.trace import Float64, Kind, Trace


class Activity(IntEnum):
    """Work of the CPU between two steps, by precedence."""

    GRAPH_LAUNCHES = 0
    GPU_WAITS = 1
    """Calls and operators that return when the GPU has finished something."""
    SAMPLING = 2
    OUTPUT = 3
    """Detokenising, and whatever else becomes of the tokens of a step."""
    SCHEDULING = 4
    """Receiving requests and choosing those of the next step."""
    MESSAGES = 5
    """Waiting for, or exchanging, messages with other processes and threads."""
    OTHER = 6
    """Anything else that was recorded."""
    NOTHING = 7
    """Nothing was recorded: Python without stacks, or anything else."""


ACTIVITY_NAMES = (
    "graph launches",
    "GPU waits",
    "sampling",
    "output",
    "scheduling",
    "messages",
    "other",
    "not recorded",
)
"""Name of each `Activity` in tables."""

_BLOCKING = re.compile(SYNC_NAME.pattern + r"|^(cu|cuda|hip)Memcpy(?!.*Async)")
_READS = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero)$")
_SAMPLING = re.compile(
    r"(?i)(?<![a-z])(sampl(e|er|ing)(?![a-z])|logits_process|apply_penalt|^aten::(multinomial|argmax)$)"
)
_OUTPUT = re.compile(
    r"(?i)detoken|(process|update|stream|handle|make|post_?process)_?(batch_|from_|model_)?(outputs?|results?)(?![a-z])"
    r"|output_processor|batch_decode"
)
_SCHEDULING = re.compile(
    r"(?i)(?<![a-z])schedule(?![a-z])|get_(next|new)_(prefill_)?batch|recv_requests|process_input_requests"
    r"|update_running_batch|prepare_for_(decode|extend)|add_requests?(?![a-z])"
)
_MESSAGES = re.compile(
    r"(?i)(?<![a-z])(acquire_(read|write)|(de|en)queue|recv(_\w+)?|send(_\w+)?|e?poll(_wait)?|select|sched_yield|get_nowait|put)$"
)
_PROGRAM = (Kind.ANNOTATION, Kind.PYTHON)
_BY_NAME = (
    (Activity.SAMPLING, (*_PROGRAM, Kind.CPU_OP), _SAMPLING),
    (Activity.OUTPUT, _PROGRAM, _OUTPUT),
    (Activity.SCHEDULING, _PROGRAM, _SCHEDULING),
    (Activity.MESSAGES, _PROGRAM, _MESSAGES),
)
"""Activities that names show: of which kinds of slices, and how they are called."""
_SCOPE = "scheduler."
"""Before the names of SGLang's annotations around parts of its loop."""
_BUILT_IN = re.compile(r"^<built-in \w+ (\w+)")


@frozen
class Between:
    """Times between neighbouring steps: arrays of later steps by `Activity`, times in ns."""

    step: Int64
    """Index in `steps(trace)` of the later of the two steps."""
    time: Int64
    exposed: Int64
    """The part in which no device ran anything; 0 in a trace without GPU activities."""


@kept
def between_steps(trace: Trace) -> Between:
    """Work of the CPU before each step that follows another one."""
    index, low, high = between_windows(trace)
    lane = steps(trace).lane[index]
    time, exposed = np.zeros((2, len(index), len(Activity)), np.int64)
    for number in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == number)
        time[mine], exposed[mine] = _of_thread(trace, number, low[mine], high[mine])
    return Between(index, time, exposed)


def _of_thread(trace: Trace, lane: int, low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """Time and exposed time of each activity in windows of one thread, which ascend and do not overlap."""
    slices = trace.slices
    first, last = trace.lanes[lane].first, trace.lanes[lane].last
    rows = np.arange(first, last)
    window = np.searchsorted(low, slices.start[rows], side="right") - 1
    inside = (window >= 0) & (slices.start[rows] < high[np.maximum(window, 0)])
    rows, window = rows[inside], window[inside]
    start, end = slices.start[rows], np.minimum(slices.end[rows], high[window])
    skew, busy = clock_skew(trace), busy_stretches(trace)
    shown = np.zeros(len(rows), bool)
    time = np.zeros((len(low), len(Activity)), np.int64)
    exposed = np.zeros_like(time)
    before = np.zeros((2, len(low)), np.int64)
    for activity, mask in (*_activities(trace, rows), (Activity.OTHER, np.ones(len(rows), bool))):
        shown |= mask
        begins, ends = union(start[shown], end[shown])
        covered = covered_within(begins, ends, low, high)
        home = np.searchsorted(low, begins, side="right") - 1
        hidden = np.bincount(home, covered_within(*busy, begins + skew, ends + skew), len(low)).astype(np.int64)
        after = np.array([covered, covered - hidden])
        time[:, activity], exposed[:, activity] = after - before
        before = after
    whole = np.array([high - low, high - low - covered_within(*busy, low + skew, high + skew)])
    time[:, Activity.NOTHING], exposed[:, Activity.NOTHING] = whole - before
    if len(links(trace).gpu) == 0:
        exposed[:] = 0
    return time, exposed


def _activities(trace: Trace, rows: Int64) -> list[tuple[Activity, Bool]]:
    """The slices that show each activity by their names, by precedence."""
    kind = trace.slices.kind[rows]
    calls = kind == Kind.RUNTIME
    waits = (calls & is_named(trace, rows, _BLOCKING.search)) | (
        (kind == Kind.CPU_OP) & is_named(trace, rows, _READS.search)
    )
    by_name = [
        (
            activity,
            np.isin(kind, kinds) & is_named(trace, rows, partial(_search_action, pattern)),
        )
        for activity, kinds, pattern in _BY_NAME
    ]
    return [
        (Activity.GRAPH_LAUNCHES, calls & is_named(trace, rows, GRAPH_LAUNCH.search)),
        (Activity.GPU_WAITS, waits),
        *by_name,
    ]


def _search_action(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    """Search the part of a name that names the action: the function of a frame, an annotation without its scope."""
    built_in = _BUILT_IN.match(name)
    return pattern.search(built_in[1] if built_in else function_of(name).removeprefix(_SCOPE))


# Iterations of speculative decoding: the drafts of a small model and the step in which the large one checks them.
#
# An iteration ends with the step that checks (`verify`, of servers that do not call it so the decode), and holds the
# drafts since the one before (R3.87). How many drafted tokens were accepted is not recorded.

DRAFT, VERIFY, DECODE = "draft", "verify", "decode"


@frozen
class Iterations(Parallel):
    """Parallel arrays, one entry per iteration, in order of its last step; times in ns, NULL where not known."""

    target: Int64
    """Index in the steps of the step that checks the drafts."""
    members: tuple[Int64, ...]
    """Indices of the steps of each, the target last."""
    start: Int64
    """Start of the first GPU activity; without a GPU, of the first step."""
    end: Int64
    """End of the last GPU activity of the target, or of the target."""
    period: Int64
    """From the end of the iteration right before on the thread, with nothing but drafts between, to its own."""


def iterations(every: Steps, kinds: StepKinds, times: StepTimes, whole: Bool) -> Iterations:
    """The iterations of which all steps are in the mask; none where nothing drafts or nothing checks."""
    kind = np.array([each or "" for each in kinds.kind], object)
    target: list[int] = []
    members: list[Int64] = []
    before: list[int] = []
    for lane in np.unique(every.lane).tolist():
        mine = np.flatnonzero(every.lane == lane)
        checks = VERIFY if (kind[mine] == VERIFY).any() else DECODE
        if not (kind[mine] == DRAFT).any() or not (kind[mine] == checks).any():
            continue
        drafts: list[int] = []
        last = -1
        for step in mine.tolist():
            if kind[step] == DRAFT:
                drafts.append(step)
            elif kind[step] == checks:
                if drafts or last >= 0:
                    target.append(step)
                    members.append(np.array([*drafts, step], np.int64))
                    before.append(last)
                drafts, last = [], step
            else:
                drafts, last = [], -1
    ends = times.gpu_end if (times.gpu_end != NULL).any() else every.end
    kept = [
        index
        for index, steps in enumerate(members)
        if len(steps) > 1 and whole[steps].all() and ends[steps[-1]] != NULL
    ]
    return _timed(every, times, target, [members[index] for index in kept], before, kept)


def _timed(
    every: Steps, times: StepTimes, target: list[int], members: list[Int64], before: list[int], kept: list[int]
) -> Iterations:
    chosen = np.array([target[index] for index in kept], np.int64)
    earlier = np.array([before[index] for index in kept], np.int64)
    on_gpu = bool((times.gpu_end != NULL).any())
    low, high = (times.gpu_start, times.gpu_end) if on_gpu else (every.start, every.end)
    start = np.array([low[steps][low[steps] != NULL].min(initial=high[steps[-1]]) for steps in members], np.int64)
    end = high[chosen]
    known = (earlier >= 0) & (end != NULL) & (high[np.maximum(earlier, 0)] != NULL) if len(high) else earlier >= 0
    period = np.where(known, end - high[np.maximum(earlier, 0)], NULL) if len(high) else earlier
    return Iterations(chosen, tuple(members), start, end, np.where(period > 0, period, NULL))


# Steps of a server by the size of their batch: requests, of a prefill tokens (R3.86).

MAX_EXACT_SIZES = 20
"""Maximum different sizes of one kind that have a row each; more are put together by powers of two."""
_BY_TOKENS = ("prefill",)
"""Kinds whose time follows the tokens rather than the requests."""


@frozen
class Batch:
    """Steps of one kind and size."""

    kind: str
    label: str | None
    """`32`, or `17–32`; None where the size is not known."""
    unit: str | None
    """`requests` or `tokens`."""
    size: float
    """Median size, NaN where it is not known."""
    rows: Int64
    """Indices of the steps."""


def batches(kinds: StepKinds, kind: str, rows: Int64, kernels: Float64) -> list[Batch]:
    """The batches of some steps of one kind by size; behind them those of unknown size.

    Of unknown sizes steps that ran as many kernels are a batch, or all steps where there are too many such numbers.
    `kernels` has one entry per step of the trace, NaN where no GPU was recorded.
    """
    unit, sizes = sizes_of(kinds, kind, rows)
    known = sizes != NULL
    found = []
    bounds = _bounds(distinct(sizes[known]))
    for low, high in bounds:
        mine = rows[known & (sizes >= low) & (sizes <= high)]
        label = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        found.append(Batch(kind, label, unit, float(np.median(sizes[np.isin(rows, mine)])), mine))
    if not known.all():
        unknown = [rows[~known]]
        counts = np.unique(kernels[unknown[0]])
        if len(counts) <= MAX_EXACT_SIZES and not np.isnan(counts).any():
            unknown = [unknown[0][kernels[unknown[0]] == each] for each in counts.tolist()]
        found += [Batch(kind, None, None, float("nan"), mine) for mine in unknown]
    return found


def sizes_of(kinds: StepKinds, kind: str, rows: Int64) -> tuple[str, Int64]:
    """The word for the size of a batch, and the size in each step."""
    choices = [("tokens", kinds.tokens[rows]), ("requests", kinds.requests[rows])]
    if kind not in _BY_TOKENS:
        choices.reverse()
    return max(choices, key=lambda choice: int((choice[1] != NULL).sum()))


def _bounds(sizes: Int64) -> list[tuple[int, int]]:
    """Least and largest size of each row."""
    if len(sizes) <= MAX_EXACT_SIZES:
        return [(size, size) for size in sizes.tolist()]
    # 0 and 1 stand alone; then 2, 3 to 4, 5 to 8.
    powers = distinct(np.array([(size - 1).bit_length() if size else -1 for size in sizes.tolist()], np.int64)).tolist()
    return [(2 ** (power - 1) + 1, 2**power) if power > 0 else (power + 1, power + 1) for power in powers]


# For how long each step of a server ran kernels of each purpose, and for how long nothing else beside them (R3.85).


@frozen
class PurposeTimes:
    """Arrays of steps by purposes, times in ns, summed over the devices."""

    names: tuple[str, ...]
    """The purposes that occur."""
    activities: Int64
    """GPU activities of the step."""
    busy: Int64
    """Time in which at least one of them ran."""
    exposed: Int64
    """The part of it in which nothing of another purpose ran on the device, of this step or any other."""

    def of(self, name: str) -> int:
        """Index of a purpose, -1 where it does not occur."""
        return self.names.index(name) if name in self.names else -1


@kept
def purpose_times(trace: Trace) -> PurposeTimes:
    """The times of `steps(trace)` by the purpose of their GPU activities."""
    slices, every = trace.slices, device_order(trace).row
    devices, count = step_spans(trace).device, len(steps(trace))
    ids, texts = purposes(trace, every)
    step = step_index(trace, every)
    device = np.searchsorted(devices, lane_numbers(trace).process[slices.lane[every]])
    held = step >= 0
    used = distinct(ids[held]).tolist()
    axis = Axis.around(slices.start[every], slices.end[every])
    shape = (count, len(used))
    activities, busy, exposed = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for index, number in enumerate(used):
        mine = held & (ids == number)
        work = step[mine] * len(devices) + device[mine], every[mine]
        others = every[ids != number]
        activities[:, index] = np.bincount(step[mine], minlength=count)
        for times, hiding in ((busy, every[:0]), (exposed, others)):
            spent = uncovered(trace, axis, devices, count, work, hiding)
            times[:, index] = spent.reshape(count, len(devices)).sum(axis=1)
    return PurposeTimes(tuple(texts[number] for number in used), activities, busy, exposed)


@frozen
class StepFacts:
    """Numbers of every step, parallel to `steps(trace)`; NaN where it is not, times in ns."""

    trace: Trace
    kinds: StepKinds
    times: StepTimes
    took: Float64
    """GPU span, summed over no device twice; of a trace without GPU activities the time on the CPU."""
    cpu: Float64
    busy: Float64
    """Time in which its own activities ran, summed over the devices."""
    idle: Float64
    """Time within its GPU span in which the device ran nothing, likewise."""
    kernels: Float64
    graphs: Float64

    @property
    def gap(self) -> Float64:
        """Idle time between the step and its neighbour before."""
        return known(self.times.gap)


def step_facts(trace: Trace, kinds: StepKinds) -> StepFacts:
    every, times, spans = steps(trace), step_times(trace), step_spans(trace)
    ran, joined = spans.ran, links(trace)
    cpu = (every.end - every.start).astype(np.float64)
    unknown = np.full(len(every), np.nan)
    if len(joined.gpu) == 0:
        return StepFacts(trace, kinds, times, cpu, cpu, unknown, unknown, unknown, unknown)
    kernels = joined.gpu[trace.slices.kind[joined.gpu] == Kind.KERNEL]
    return StepFacts(
        trace,
        kinds,
        times,
        np.where(ran, times.gpu_end - times.gpu_start, np.nan),
        cpu,
        np.where(ran, spans.busy.sum(axis=1), np.nan),
        np.where(ran, spans.total_idle, np.nan),
        _counted(trace, kernels, len(every)),
        _counted(trace, replays(trace).launch, len(every)),
    )


def _counted(trace: Trace, rows: Int64, count: int) -> Float64:
    index = step_index(trace, rows)
    return np.bincount(index[index >= 0], minlength=count).astype(np.float64)


def known(values: Int64) -> Float64:
    """Integers with NaN for NULL."""
    return np.where(values == NULL, np.nan, values.astype(np.float64))


def median_of(values: Float64 | Int64, percent: float = 50) -> float:
    """The median or another percentile of the known values; the median of two is the lower one, which a step had."""
    known = values[~np.isnan(values)]
    if len(known) == 2 and percent == 50:
        return float(known.min())
    return float(np.percentile(known, percent)) if len(known) else float("nan")


def column_of(spec: ColumnSpec, values: Float64, groups: Sequence[Int64], percent: float = 50) -> Column:
    """A percentile of what is known of the steps of each group; of times in ns, in the unit of the column."""
    scale = 1000 if spec.unit == "us" else 1
    return numbers(spec, np.array([median_of(values[rows], percent) / scale for rows in groups], np.float64))


def time_for(work: PurposeTimes, purpose: Purpose) -> Float64:
    """Time of each step for one purpose; 0 where none of its kernels was for it, NaN where it ran nothing."""
    index = work.of(str(purpose))
    time = work.busy[:, index].astype(np.float64) if index >= 0 else np.zeros(len(work.busy))
    return np.where(work.activities.any(axis=1), time, np.nan) if len(work.names) else np.full(len(work.busy), np.nan)


def token_rate(trace: Trace, rows: Int64, tokens: Int64) -> float:
    """Tokens of some steps per second of their periods, those of several threads united (R3.90).

    `tokens` has an entry for each step of the trace. NaN where a step does not say how many, and where there are none.
    Without a GPU the CPU time from the end of the neighbour before to the step belongs to it too.
    """
    mine = tokens[rows]
    if len(mine) == 0 or (mine == NULL).any() or not mine.any():
        return float("nan")
    low, high = step_periods(trace)
    if len(links(trace).gpu) == 0:
        later, ended, _ = between_windows(trace)
        low = low.copy()
        low[later] = ended
    low, high = union(low[rows], high[rows])
    time = int((high - low).sum())
    return float(mine.sum()) * 1e9 / time if time else float("nan")


def longest_of(facts: StepFacts, rows: Sequence[Int64]) -> Int64:
    """The slice of the longest step of each group."""
    took = np.nan_to_num(facts.took, nan=-1.0)
    return steps(facts.trace).row[np.array([each[np.argmax(took[each])] for each in rows], np.int64)]
