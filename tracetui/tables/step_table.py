"""The steps pane: one row per step with what was launched, queried and waited for in it."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np

from tracetui.idle.gpu_spans import behind_sentence, communicates, step_spans, step_times
from tracetui.idle.verdict import Verdict, step_verdicts
from tracetui.idle.waits import sync_calls
from tracetui.linking.complete_steps import partial_steps
from tracetui.linking.groups import distinct
from tracetui.linking.links import links, op_rows, span
from tracetui.linking.placement import chosen, placed_by_start, step_index, step_launched_after
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import KIND_HELP, step_kinds
from tracetui.linking.step_sources import no_steps, source_table, steps_sentence
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, covered
from tracetui.model.pane import Grouping, Pane
from tracetui.model.table import NULL, Column, Table, micros, missing, numbers, texts
from tracetui.model.trace import Kind, Trace
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
    slices, trace_links = trace.slices, links(trace)
    work = _by_step(trace, trace_links.gpu, len(every))
    parts = [work[index] for index in picked.tolist()]
    is_kernel = [slices.kind[rows] == Kind.KERNEL for rows in parts]
    spans = np.array([span(slices, rows) for rows in parts], np.int64).reshape(-1, 2)
    busy = np.array([covered(slices.start[rows], slices.end[rows]) for rows in parts], np.int64)
    extent, empty = spans[:, 1] - spans[:, 0], np.array([len(rows) == 0 for rows in parts], bool)
    on_gpu = step_spans(trace)
    verdicts = step_verdicts(trace)
    return Table(
        (
            numbers(col.STEP.but(help="Number of the step."), every.number[picked]),
            *_kinds(trace, picked),
            micros(col.START_US.but(help="Start on the CPU, from the first event of the trace."), every.start[picked]),
            micros(col.DUR_US, every.end[picked] - every.start[picked]),
            numbers(col.KERNELS.but(help="Kernels launched in the step."), [int(mask.sum()) for mask in is_kernel]),
            numbers(col.COPIES, [int((~mask).sum()) for mask in is_kernel]),
            micros(col.GPU_BUSY_US, busy, null=empty),
            micros(col.GPU_SPAN_US, extent, null=empty),
            micros(col.GPU_IDLE_US, on_gpu.total_idle[picked], null=empty),
            micros(col.WAIT_BEFORE_US, on_gpu.total_wait[picked], null=~on_gpu.wait_known[picked]),
            micros(col.GPU_OTHERS_US, on_gpu.total_others[picked], null=empty),
            *_counts(trace, len(every), picked),
            micros(col.SYNC_US, _sync_time(trace, len(every))[picked]),
            micros(
                col.LAUNCH_DELAY_US.but(
                    heading="median delay", help="Median time from the start of a launch call to the start on the GPU."
                ),
                _delays(trace, parts),
            ),
            *_within(trace, parts),
            *_after(trace, picked),
            *_periods(trace, picked),
            numbers(col.PARTIAL, partial_steps(trace)[picked]),
            *_judged([verdicts[index] for index in picked.tolist()]),
            texts(
                col.FINGERPRINT, [_fingerprint(trace, rows[mask]) for rows, mask in zip(parts, is_kernel, strict=True)]
            ),
            *_found(trace, picked),
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
        "step kind requests tokens thread dur_us kernels gpu_busy_us gpu_idle_us verdict idle_pct "
        "wait_before_us exposed_comm_us sync_us late_pct launch_delay_us launches copies view_ops "
        "occupancy_queries cpu_ops gpu_others_us fingerprint start_us graph_replays after_us gpu_period_us "
        "idle_between_us between_us exposed_us kind_from"
    ),
    groupings=(Grouping("source", "steps_by runs time_pct activities_pct per_run median_us found_by where"),),
    of_step=False,
    keeps_order=True,
)


def _kinds(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """What each step is, where it is a server's."""
    kinds, every = step_kinds(trace), steps(trace)
    lanes = [trace.lanes[lane].name for lane in every.lane[picked].tolist()]
    threads = len(distinct(every.lane)) > 1
    return (
        texts(col.KIND.but(help=KIND_HELP), [kinds.kind[index] for index in picked.tolist()]),
        numbers(col.REQUESTS, kinds.requests[picked]),
        numbers(col.TOKENS, kinds.tokens[picked]),
        *((texts(col.THREAD.but(help="The thread whose step it is."), lanes),) if threads else ()),
    )


def _found(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """How the steps were found, and what their kinds rest on."""
    kinds, every = step_kinds(trace), steps(trace)
    guess = " ~" if every.is_guess else ""
    return (
        texts(col.KIND_FROM, [kinds.evidence[index] for index in picked.tolist()]),
        texts(col.FOUND_BY.but(help=FOUND_BY_HELP), [every.found_by + guess] * len(picked)),
    )


def _within(trace: Trace, parts: list[Int64]) -> tuple[Column, ...]:
    """What the GPU activities of each step add up to."""
    slices, joined, graphs = trace.slices, links(trace), replays(trace).launch
    no_gpu, empty = len(joined.gpu) == 0, np.array([len(rows) == 0 for rows in parts], bool)
    spans = np.array([span(slices, rows) for rows in parts], np.int64).reshape(-1, 2)
    kernels = [rows[slices.kind[rows] == Kind.KERNEL] for rows in parts]
    comm = [rows[communicates(trace, rows)] for rows in kernels]
    replayed = [np.isin(joined.launch[rows], graphs) for rows in parts]
    none = np.full(len(parts), no_gpu)

    def time(parts: list[Int64]) -> Int64:
        return np.array([slices.dur[rows].sum() for rows in parts], np.int64)

    return (
        micros(col.GPU_START_US, spans[:, 0], null=empty),
        micros(col.GPU_END_US, spans[:, 1], null=empty),
        micros(col.KERNEL_US, time(kernels), null=none),
        numbers(col.COMM_KERNELS, [len(rows) for rows in comm]),
        micros(col.COMM_US, time(comm), null=none),
        numbers(
            col.GRAPH_REPLAYS,
            [len(distinct(joined.launch[rows[mask]])) for rows, mask in zip(parts, replayed, strict=True)],
        ),
        numbers(
            col.KERNELS_IN_GRAPHS,
            [
                int((mask & (slices.kind[rows] == Kind.KERNEL)).sum())
                for rows, mask in zip(parts, replayed, strict=True)
            ],
        ),
    )


def _periods(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """What a server's step took from GPU end to GPU end, and what is between it and the one before; null of others."""
    times = step_times(trace)
    columns = (
        (
            col.GPU_PERIOD_US.but(
                help="From the GPU end of the step before, of the same kind, to its own; without a GPU start to start."
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


def _after(trace: Trace, picked: Int64) -> tuple[Column, ...]:
    """What was launched after each step and before the next; null where no server's steps were found."""
    every, gpu = steps(trace), links(trace).gpu
    count = len(every)
    if not every.is_served or len(gpu) == 0:
        return missing(col.AFTER_ACTIVITIES, len(picked)), missing(col.AFTER_US, len(picked))
    index = step_launched_after(trace)
    held = index >= 0
    time = np.bincount(index[held], trace.slices.dur[gpu[held]], count)
    return (
        numbers(col.AFTER_ACTIVITIES, np.bincount(index[held], minlength=count)[picked]),
        micros(col.AFTER_US, time[picked]),
    )


def _note(trace: Trace) -> str:
    """Why there are no steps, or what they are, and how many GPU activities are in theirs by a guess."""
    if not len(steps(trace)):
        return no_steps(trace)
    said = f"{steps_sentence(trace)} {behind_sentence(trace)}".strip()
    count = len(placed_by_start(trace))
    if count == 0:
        return said
    if count == 1:
        placed = "1 GPU activity has no launch record: it belongs to the step in which it starts, which is a guess."
    else:
        placed = (
            f"{count:,} GPU activities have no launch record: they belong to the steps in which they start, a guess."
        )
    return f"{said} {placed}".lstrip()


def _counts(trace: Trace, count: int, picked: Int64) -> tuple[Column, ...]:
    """Counts of each of the picked steps."""
    counted = (
        (col.LAUNCHES.but(help="Calls that put work on a GPU."), links(trace).launches),
        (col.CPU_OPS, op_rows(trace)),
        (col.VIEW_OPS, idle_view_rows(trace)),
        (col.OCCUPANCY_QUERIES, queries(trace)),
    )
    return tuple(numbers(column, _count(trace, rows, count)[picked]) for column, rows in counted)


def _judged(verdicts: list[Verdict | None]) -> tuple[Column, ...]:
    """The verdict of each step and the numbers behind it."""
    nothing = float("nan")
    idle, late = ([getattr(v, name) if v else nothing for v in verdicts] for name in ("idle_pct", "late_pct"))
    idle = [share if v and v.total else nothing for share, v in zip(idle, verdicts, strict=True)]
    exposed = np.array([v.exposed_comm if v else 0 for v in verdicts], np.int64)
    return (
        texts(col.VERDICT, [v.words if v else None for v in verdicts]),
        numbers(col.IDLE_PCT, idle),
        numbers(col.LATE_PCT, late),
        micros(col.EXPOSED_COMM_US, exposed, null=np.array([v is None for v in verdicts], bool)),
    )


def _by_step(trace: Trace, rows: Int64, count: int) -> list[Int64]:
    """The rows of each step, in the order given."""
    index = step_index(trace, rows)
    order = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[order], np.arange(count + 1))
    return [rows[order[first:last]] for first, last in pairwise(bounds.tolist())]


def _count(trace: Trace, rows: Int64, count: int) -> Int64:
    index = step_index(trace, rows)
    return np.bincount(index[index >= 0], minlength=count)


def _sync_time(trace: Trace, count: int) -> Int64:
    rows = sync_calls(trace)
    index = step_index(trace, rows)
    held = index >= 0
    return np.bincount(index[held], trace.slices.dur[rows[held]], count).astype(np.int64)


def _delays(trace: Trace, parts: list[Int64]) -> np.ndarray:
    """Median delay of the launches of each step in ns, NaN for a step without."""
    trace_links, start = links(trace), trace.slices.start
    medians = np.full(len(parts), np.nan)
    for index, rows in enumerate(parts):
        position = distinct(np.searchsorted(trace_links.launches, trace_links.launch[rows]))
        if len(position):
            medians[index] = np.median(start[trace_links.first[position]] - start[trace_links.launches[position]])
    return medians


def _fingerprint(trace: Trace, kernels: Int64) -> str | None:
    """A short hash of the kernels' names in order of launch."""
    if len(kernels) == 0:
        return None
    slices = trace.slices
    launched = slices.start[links(trace).launch[kernels]]
    used, index = np.unique(slices.name[kernels[np.argsort(launched, kind="stable")]], return_inverse=True)
    digests = [hashlib.blake2b(trace.names[name].encode(), digest_size=8).digest() for name in used.tolist()]
    return hashlib.blake2b(np.array(digests)[index].tobytes(), digest_size=4).hexdigest()
