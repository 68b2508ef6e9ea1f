"""Numbers of each step of a server, and columns of their medians: what the tables of the serving pane are made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import StepTimes, between_windows, step_spans, step_times
from tracetui.idle.scope_times import step_periods
from tracetui.kernel_names.decoded import Purpose
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import StepKinds
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, union
from tracetui.model.table import NULL, Column, ColumnSpec, numbers
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.serving.server_steps import PurposeTimes


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
