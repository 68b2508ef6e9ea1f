"""The steps pane: one row per step with what was launched, queried and waited for in it. Steps that differ from the
others: what each is spent on, and which of its parts is off the median.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import behind_sentence, communicates, step_exposure, step_spans, step_times, union_in_cells
from tracetui.idle.scope_times import idle_within, overlap_sentence, step_periods
from tracetui.idle.utilisation import mfu_sentence, scope_utilisation, step_utilisation
from tracetui.idle.verdict import judged_steps
from tracetui.idle.waits import device_order, sync_calls
from tracetui.linking.groups import PartSums, distinct, group
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import (
    activities_by_step,
    chosen,
    lost_launches,
    step_index,
    step_launched_after,
)
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import KIND_HELP, left_out_steps, partial_steps, step_kinds
from tracetui.linking.step_sources import AUTO, NONE, StepSource, no_steps, step_sources, steps_sentence
from tracetui.linking.steps import PROFILER_STEP, launched_by_window, steps
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, in_runs, is_among
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration
from tracetui.model.results import kept
from tracetui.model.table import DOUBTFUL, NULL, Column, Table, micros, missing, numbers, texts
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.views import idle_view_rows
from tracetui.tables.occupancy import queries

FOUND_BY_HELP = "How the steps were found; ~ where that is a guess."


def step_table(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every step in order of time; GPU activities count in the step that launched them (R3.3).

    By `source` there is a row for each name that can stand for steps.
    """
    if by == "source":
        return source_table(trace)
    every, picked = steps(trace), chosen(trace, step)
    slices, on_gpu, times = trace.slices, step_spans(trace), step_times(trace)
    by_step, bounds = activities_by_step(trace)
    counts = np.diff(bounds)[picked]
    rows, part = by_step[in_runs(bounds[:-1][picked], counts)], np.repeat(np.arange(len(picked)), counts)
    is_kernel, sums = slices.kind[rows] == Kind.KERNEL, PartSums(part, len(picked))
    kernels, start, end = sums.of(is_kernel), times.gpu_start[picked], times.gpu_end[picked]
    empty = ~on_gpu.ran[picked]
    begin, finish = (each[picked] for each in step_periods(trace))
    period = finish - begin
    return Table(
        (
            numbers(col.STEP.but(help="Number of the step."), every.number[picked]),
            *_kinds(trace, picked),
            micros(col.START_US.but(help="Start on the CPU, from the first event of the trace."), every.start[picked]),
            micros(col.DUR_US.but(heading="CPU time"), every.end[picked] - every.start[picked]),
            micros(col.PERIOD_US, period, null=empty),
            numbers(col.KERNELS.but(help="Kernels launched in the step."), kernels.tolist()),
            numbers(col.COPIES, sums.of(~is_kernel).tolist()),
            micros(
                col.GPU_BUSY_US.but(
                    heading="own work", help="For how long any device ran what the step launched, in its period or not."
                ),
                union_in_cells(part, slices.start[rows], slices.end[rows], len(picked)),
                null=empty,
            ),
            micros(col.GPU_SPAN_US, end - start, null=empty),
            micros(col.GPU_IDLE_US, idle_within(trace, begin, finish), null=empty),
            micros(col.WAIT_BEFORE_US, on_gpu.total_wait[picked], null=~on_gpu.wait_known[picked]),
            micros(col.GPU_OTHERS_US, on_gpu.total_others[picked], null=empty),
            *_counts(trace, picked),
            micros(
                col.LAUNCH_DELAY_US.but(
                    heading="median launch→start",
                    help="Median time from the start of a launch call to the start on the GPU.",
                ),
                _median_delays(trace)[picked],
            ),
            micros(col.GPU_START_US, start, null=empty),
            micros(col.GPU_END_US, end, null=empty),
            *_sums(trace, rows, is_kernel, sums),
            *_after(trace, picked),
            *_periods(trace, picked),
            numbers(col.PARTIAL, partial_steps(trace)[picked]),
            *_judged(trace, picked),
            *_off_median(trace, picked),
            *_utilisation(trace, picked),
            texts(col.FINGERPRINT, _fingerprints(trace, rows[is_kernel], kernels)),
            *_found_by(trace, picked),
        ),
        every.row[picked],
        _note(trace),
    )


PANE = Pane(
    "steps",
    "Steps",
    key="8",
    help="One row is a step, or by source what can stand for steps.",
    table=step_table,
    columns=(
        "step kind requests tokens thread period_us gpu_span_us dur_us kernels gpu_busy_us gpu_idle_us verdict "
        "idle_pct to_median off_median mfu_pct flops_known_pct "
        "exposed_comm_us wait_before_us sync_us late_pct launch_delay_us launches "
        "copies view_ops occupancy_queries cpu_ops gpu_others_us fingerprint start_us graph_replays after_us "
        "gpu_period_us idle_between_us between_us exposed_us kind_from"
    ),
    groupings=(Grouping("source", "steps_by runs time_pct activities_pct per_run median_us found_by where"),),
    of_step=False,
    keeps_order=True,
)


# What can stand for steps.

MAX_LISTED_COUNTS = 4
"""Maximum runs whose numbers of GPU activities are listed one by one; of more the smallest and the largest."""
_PLACED = "; ~ some have no launch record and count in the run in which they start"


def source_table(trace: Trace) -> Table:
    """One row per source, in the order of `step_sources`; behind those of rules `auto` for a choice, and `none`."""
    sources, slices = step_sources(trace), trace.slices
    low, high = trace.window
    gpu = links(trace).gpu
    launched, lone = len(gpu), np.sort(slices.start[gpu[lost_launches(trace, gpu)]])
    begun = [slices.start[each.rows] for each in sources]
    placed = [_starts_in_runs(lone, *each) for each in zip(sources, begun, strict=True)]
    activities = np.array([each.activities + more.sum() for each, more in zip(sources, placed, strict=True)])
    by_run = [launched_by_window(trace, start, each.end) for each, start in zip(sources, begun, strict=True)]
    counts = [_counts_in_words(each, more) for each, more in zip(by_run, placed, strict=True)]
    lasted = [float(np.median(each.end - start)) for each, start in zip(sources, begun, strict=True)]
    switches = [(AUTO, "what is found unasked")] if trace.chosen_steps is not None else []
    switches += [(NONE, "no steps")] if len(steps(trace)) else []
    known = [sum(bool(each.rule) or each.found_by == PROFILER_STEP for each in sources)] * len(switches)

    def numbered(values: object) -> Float64:
        return np.insert(np.asarray(values, np.float64), known, np.nan)

    def named(values: list[str | None], others: list[str | None]) -> list[str | None]:
        return [*values[: known[0]], *others, *values[known[0] :]] if known else values

    nothing: list[str | None] = [None] * len(switches)
    ways: list[str | None] = [each.found_by if each.is_certain else f"{each.found_by} ~" for each in sources]
    return Table(
        (
            texts(col.STEPS_BY, named([each.name for each in sources], [name for name, _ in switches])),
            texts(col.FOUND_BY, named(ways, [what for _, what in switches])),
            numbers(col.RUNS, np.insert(np.array([len(each.rows) for each in sources], np.int64), known, NULL)),
            numbers(col.TIME_PCT, numbered([100 * each.covered(trace) / max(high - low, 1) for each in sources])),
            numbers(col.ACTIVITIES_PCT, numbered(100 * activities / launched if launched else [np.nan] * len(sources))),
            texts(
                col.PER_RUN.but(help=f"GPU activities of each run, in order{_PLACED}."),
                named([*counts] if launched else [None] * len(sources), nothing),
            ),
            micros(col.MEDIAN_US.but(help="Median time from the start of a run to its end."), numbered(lasted)),
            texts(col.WHERE, named([each.where or None for each in sources], nothing)),
        ),
        np.insert(np.array([each.rows[0] for each in sources], np.int64), known, -1),
        f"Steps are turned off: the row {AUTO}, or --steps-by {AUTO}, finds them again."
        if trace.steps_by == NONE
        else ("" if sources else no_steps(trace)),
    )


def _starts_in_runs(lone: Int64, source: StepSource, start: Int64) -> Int64:
    """Activities without launch record, by their starts, in each run, as in any region (R3.3); 0 of other sources."""
    if source.rule or source.found_by not in ("annotation", "function", "module"):
        return np.zeros(len(start), np.int64)
    return np.asarray(np.searchsorted(lone, source.end) - np.searchsorted(lone, start))


def _counts_in_words(launched: Int64, placed: Int64) -> str:
    """`36` where all runs have as many, `36, ~19` of a few, `4 to 36` of many."""
    each_run, guessed = (launched + placed).tolist(), (placed > 0).tolist()
    words = [f"{DOUBTFUL * is_guess}{number:,}" for number, is_guess in zip(each_run, guessed, strict=True)]
    if min(each_run) == max(each_run):
        return max(words, key=len)
    if len(words) <= MAX_LISTED_COUNTS:
        return ", ".join(words)
    return f"{DOUBTFUL * any(guessed)}{min(each_run):,} to {max(each_run):,}"


def _kinds(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """The kind of each step and how much it served, where it is a server's; its thread where there are several."""
    kinds, every = step_kinds(trace), steps(trace)
    lanes = [trace.lanes[lane].name for lane in every.lane[picked].tolist()]
    threads = len(distinct(every.lane)) > 1
    return (
        texts(col.KIND.but(help=KIND_HELP), [kinds.kind[index] for index in picked.tolist()]),
        numbers(col.REQUESTS, kinds.requests[picked]),
        numbers(col.TOKENS, kinds.tokens[picked]),
        *((texts(col.THREAD.but(help="The thread whose step it is."), lanes),) if threads else ()),
    )


def _counts(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """Calls and ops in each step, and the time in calls that wait for the GPU."""
    counted = (
        (col.LAUNCHES.but(help="Calls that put work on a GPU."), links(trace).launches),
        (col.CPU_OPS, op_rows(trace)),
        (col.VIEW_OPS, idle_view_rows(trace)),
        (col.OCCUPANCY_QUERIES, queries(trace)),
    )
    waits, count = sync_calls(trace), len(steps(trace))
    waiting = PartSums(step_index(trace, waits), count).of(trace.slices.dur[waits])
    return (
        *(
            numbers(column, PartSums(step_index(trace, rows), count).of(np.ones_like(rows))[picked])
            for column, rows in counted
        ),
        micros(col.SYNC_US, waiting[picked]),
    )


def _median_delays(trace: Trace) -> Float64:
    """Median delay of the launches of each step in ns, NaN for a step without."""
    calls, start = links(trace), trace.slices.start
    step = step_index(trace, calls.launches)
    by_step, delay = group(step[step >= 0]), (start[calls.first] - start[calls.launches])[step >= 0]
    medians = np.full(len(steps(trace)), np.nan)
    medians[by_step.key] = by_step.median(delay)
    return medians


def _sums(trace: Trace, rows: Int64, is_kernel: Bool, sums: PartSums) -> tuple[Column, ...]:
    """Times and counts of the kernels of each step, of those that communicate, and of those that a graph launched."""
    dur, calls, graphs = trace.slices.dur[rows], links(trace), replays(trace)
    is_comm = communicates(trace)[rows]
    replayed = is_among(calls.launch[rows], graphs.launch)
    is_first = replayed & is_among(rows, graphs.first)
    kernel_time, comm_time = sums.of(dur * is_kernel), sums.of(dur * is_comm)
    no_gpu = np.full(len(kernel_time), len(calls.gpu) == 0)
    return (
        micros(col.KERNEL_US, kernel_time, null=no_gpu),
        numbers(col.COMM_KERNELS, sums.of(is_comm).tolist()),
        micros(col.COMM_US, comm_time, null=no_gpu),
        numbers(col.GRAPH_REPLAYS, sums.of(is_first).tolist()),
        numbers(col.KERNELS_IN_GRAPHS, sums.of(replayed & is_kernel).tolist()),
    )


def _after(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """Activities launched after each step and before the next; null where no server's steps were found."""
    every, gpu = steps(trace), links(trace).gpu
    if not every.is_served or len(gpu) == 0:
        return missing(col.AFTER_ACTIVITIES, len(picked)), missing(col.AFTER_US, len(picked))
    sums = PartSums(step_launched_after(trace), len(every))
    return (
        numbers(col.AFTER_ACTIVITIES, sums.of(np.ones_like(gpu))[picked]),
        micros(col.AFTER_US, sums.of(trace.slices.dur[gpu])[picked]),
    )


def _periods(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """Times of a server's steps from GPU end to GPU end, and between a step and the one before; null of others."""
    times = step_times(trace)
    columns = (
        (
            col.GPU_PERIOD_US.but(
                heading="period of its kind",
                help="From the GPU end of the step before, of the same kind, to its own; without a GPU start to start.",
            ),
            times.period,
        ),
        (
            col.IDLE_BETWEEN_US.but(
                help="Time from the last GPU activity of the step before to its first in which nothing ran."
            ),
            times.gap,
        ),
        (col.BETWEEN_US.but(help="Time on the CPU from the end of the step before to its start."), times.between),
        (col.EXPOSED_US, times.exposed),
    )
    return tuple(micros(spec, values[picked], null=values[picked] == NULL) for spec, values in columns)


def _judged(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """The verdict of each step and the numbers behind it."""
    judged, nothing = judged_steps(trace), float("nan")
    verdicts = [judged[index] for index in picked.tolist()]
    return (
        texts(col.VERDICT, [v.words if v and v.judged.time else None for v in verdicts]),
        numbers(col.IDLE_PCT, [v.judged.idle_pct if v and v.judged.time else nothing for v in verdicts]),
        numbers(col.LATE_PCT, [v.late_pct if v else nothing for v in verdicts]),
        micros(
            col.EXPOSED_COMM_US,
            np.array([v.exposed_comm if v else 0 for v in verdicts], np.int64),
            null=np.array([v is None for v in verdicts], bool),
        ),
    )


def _off_median(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """The change of each step's length against the median of its kind, and the parts that are off; null of few."""
    odd = [odd_steps(trace)[index] for index in picked.tolist()]
    return (
        numbers(
            col.TO_MEDIAN.but(help="Its period by the median of its kind; without a GPU its time on the CPU."),
            [1 + each.change if each else np.nan for each in odd],
        ),
        texts(col.OFF_MEDIAN, [(each.words or None) if each else None for each in odd]),
    )


def _utilisation(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """MFU, and the share of the GPU time that it rests on."""
    used = step_utilisation(trace)
    inferred = used.inferred[picked] if used.inferred.any() else None
    return (
        replace(numbers(col.MFU_PCT, used.mfu_pct[picked]), doubtful=inferred),
        numbers(col.FLOPS_KNOWN_PCT, used.known_pct[picked]),
    )


def _fingerprints(trace: Trace, kernels: Int64, counts: Int64) -> list[str | None]:
    """A short hash of the names of each step's kernels in order of launch; None for a step without.

    The kernels stand step by step, `counts` of each.
    """
    slices = trace.slices
    last = np.cumsum(counts)
    step = np.repeat(np.arange(len(counts)), counts)
    launched = slices.start[links(trace).launch[kernels]]
    used, index = np.unique(slices.name[kernels[np.lexsort((launched, step))]], return_inverse=True)
    hashes = np.array([hashlib.blake2b(trace.names[name].encode(), digest_size=8).digest() for name in used.tolist()])
    return [
        hashlib.blake2b(hashes[index[end - count : end]].tobytes(), digest_size=4).hexdigest() if count else None
        for end, count in zip(last.tolist(), counts.tolist(), strict=True)
    ]


def _found_by(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """The source of the steps, and the evidence for their kinds."""
    kinds, every = step_kinds(trace), steps(trace)
    guess = " ~" if every.is_guess else ""
    return (
        texts(col.KIND_FROM, [kinds.evidence[index] for index in picked.tolist()]),
        texts(col.FOUND_BY.but(help=FOUND_BY_HELP), [every.found_by + guess] * len(picked)),
    )


def _note(trace: Trace) -> str:
    """The reason for no steps, or what they are; and how many GPU activities are in theirs by a guess."""
    if not len(steps(trace)):
        return no_steps(trace)
    which = "the step" if len(steps(trace)) == 1 else "the median step"
    mfu = mfu_sentence(trace, *scope_utilisation(trace, None), which)
    about = (steps_sentence(trace), left_out_steps(trace), behind_sentence(trace), overlap_sentence(trace), mfu)
    note = " ".join(filter(None, about))
    # Where steps are runs of a name, an activity without launch record belongs to the step in which it starts.
    alone = links(trace).gpu[links(trace).launch[links(trace).gpu] < 0]
    count = np.count_nonzero(step_index(trace, alone) >= 0)
    if count == 0:
        return note
    if count == 1:
        placed = "1 GPU activity has no launch record: it belongs to the step in which it starts, which is a guess."
    else:
        placed = (
            f"{count:,} GPU activities have no launch record: they belong to the steps in which they start, a guess."
        )
    return f"{note} {placed}".lstrip()


COMPUTE, COMMUNICATION, IDLE, CPU = "compute", "comm", "idle", "CPU"
"""Parts of a step. Without a GPU the CPU time is the only one."""
ODD_SHARE = 0.05
"""Minimum distance of an odd part from its median, as a share of the median step."""
MAX_FIRST_RATIO = 4.0
"""Maximum length of the first step relative to the longest of the others; beyond it its bar is cut."""
CUT_BAR = "»"
"""End of a bar that is longer than there is room."""
MIN_STEPS = 3
"""Minimum steps of a kind that are compared with their median."""


@frozen(eq=True)
class OddStep:
    """Differences of a step from the median of its kind."""

    index: int
    """Its index in `steps(trace)`."""
    change: float
    """By how much it is longer, as a share of the median length."""
    parts: tuple[tuple[str, float], ...]
    """The parts that are odd with their difference from their median in µs, what grew first; empty for a usual step."""

    @property
    def words(self) -> str:
        """The odd parts with their differences: `comm +59.5 ms, idle −68.3 ms`."""
        return ", ".join(f"{name} {'+' if us >= 0 else '−'}{duration(1000 * abs(us))}" for name, us in self.parts)

    @property
    def lost(self) -> float:
        """Time in µs beyond the medians in which nothing was computed."""
        return sum(us for name, us in self.parts if us > 0 and name != COMPUTE)


def parts_of_periods(period: Float64, idle: Float64, exposed: Float64) -> dict[str, Float64]:
    """Parts of steps from their periods, their idle time and their exposed communication, means over the devices.

    The parts of a step are its period, also where its own work began before that or the GPU still ran another's in it.
    """
    comm = np.clip(exposed, 0, np.maximum(period - idle, 0))
    return {COMPUTE: np.maximum(period - idle - comm, 0), COMMUNICATION: comm, IDLE: np.minimum(idle, period)}


@kept
def step_parts(trace: Trace) -> dict[str, Float64]:
    """Time in µs of each of `steps(trace)` by part, of several devices their mean: NaN where it is not known.

    The parts of a step together are its period; communication is only what is exposed. Without a GPU there is one part,
    the time on the CPU.
    """
    (low, high), ran = step_periods(trace), step_spans(trace).ran
    if not ran.any():
        return {CPU: (steps(trace).end - steps(trace).start) / 1000}
    per_device = 1000 * max(device_order(trace).devices, 1)
    period, exposed = np.where(ran, (high - low) / 1000, np.nan), step_exposure(trace).total().exposed_comm
    return parts_of_periods(period, idle_within(trace, low, high) / per_device, exposed / per_device)


def odd_among(parts: dict[str, Float64], kinds: np.ndarray, whole: Bool) -> list[OddStep | None]:
    """Differences of each step from the others of its kind, by parts in µs; None where there are too few, or not whole.

    Length alone would miss a step that communicates for longer and waits for less.
    """
    length = np.sum(list(parts.values()), axis=0)
    usual = ~np.isnan(length) & whole
    odd: list[OddStep | None] = [None] * len(length)
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(usual & (kinds == kind))
        if len(rows) < MIN_STEPS:
            continue
        middle = float(np.median(length[rows]))
        off = {name: times[rows] - np.median(times[rows]) for name, times in parts.items()}
        for place, row in enumerate(rows.tolist()):
            differences = [(name, float(times[place])) for name, times in off.items()]
            listed = [each for each in differences if abs(each[1]) > ODD_SHARE * middle]
            # What grew explains the step, the rest follows from it.
            listed.sort(key=lambda each: (each[1] < 0, -abs(each[1])))
            change = float(length[row]) / middle - 1 if middle else 0.0
            if not listed and abs(change) > ODD_SHARE:
                # Longer by several parts, of which none is off by itself: the largest stands for them.
                listed = [max(differences, key=lambda each: each[1] * change)]
            odd[row] = OddStep(row, change, tuple(listed))
    return odd


@kept
def odd_steps(trace: Trace) -> list[OddStep | None]:
    """Differences of each of `steps(trace)` from the others of its kind; None where there are too few, or not whole."""
    kinds = np.array([kind or "" for kind in step_kinds(trace).kind])
    return odd_among(step_parts(trace), kinds, ~partial_steps(trace))


def scale_of_bars(lengths: Sequence[float]) -> float:
    """The length of the longest bar of a list of steps: a first step far longer than all others would flatten these."""
    others = max(lengths[1:], default=0.0)
    first = max(lengths[:1], default=0.0)
    return max(others if 0 < MAX_FIRST_RATIO * others < first else max(first, others), 1e-9)
