"""The counters pane: what each counter of the trace says, over the whole trace, a step, or the kernels of a name.

Counters of the hardware belong to a GPU and a step is what it ran there, from its first activity to its last; counters
of programs belong to none, and a step is its time on the CPU (3(m).3).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracetui.devices.counters import (
    MIN_SAMPLES,
    KernelSamples,
    Samples,
    counter_samples,
    extents,
    kernel_samples,
    whole,
)
from tracetui.idle.gpu_spans import step_spans
from tracetui.linking.groups import group
from tracetui.linking.placement import chosen, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import active_streams, lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part, TimeRange
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration
from tracetui.model.table import NULL, Column, Table, coded, micros, numbers, texts
from tracetui.model.trace import Counter, Trace
from tracetui.text import clean

NO_COUNTERS = (
    "The trace has no counters: torch 2.15 records those of the GPU, with a PerformanceMetricsConfig or "
    "CuspyConfig(enable_environment_counters=True), and nsys with --gpu-metrics-devices."
)
NO_STEPS = "This trace has no steps by which counters could be listed."
SAMPLED, DERIVED, PROGRAM = "sampled", "derived", "program"


def counter_table(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per counter, over the whole trace or a part; by `step` one per counter and step, by `kernel` per name."""
    order = ordered(trace)
    if not order:
        return _table(trace, [], (), note=NO_COUNTERS)
    if by == "kernel":
        return _by_kernel(trace, order, step)
    if by == "step" or isinstance(step, int):
        return _by_step(trace, order, step)
    if isinstance(step, TimeRange):
        low, high = np.array([step.start]), np.array([step.end])
        within = [extents(counter_samples(trace, number), low, high) for number in order]
        values = ((each.samples, each.mean, each.low, each.high) for each in within)
        return _table(trace, order, [tuple(float(value[0]) for value in each) for each in values])
    means = [(len(counter_samples(trace, number)), *whole(counter_samples(trace, number))) for number in order]
    return _table(trace, order, means)


PANE = Pane(
    "counters",
    "Counters",
    key="K",
    help="One row is a counter of a GPU or a program.",
    table=counter_table,
    columns="step kernel gpu counter unit mean min max samples calls measured",
    groupings=(
        Grouping("step"),
        Grouping("kernel"),
    ),
    is_offered=lambda trace: bool(trace.counters),
    is_in_time_order=False,
)


def ordered(trace: Trace) -> list[int]:
    """Numbers of the counters: those of GPUs first, by GPU, and measurements before what is derived from others."""

    def key(number: int) -> tuple[bool, int, bool]:
        counter = trace.counters[number]
        return counter.gpu < 0, counter.gpu, counter.is_derived

    return sorted(range(len(trace.counters)), key=key)


def counter_name(counter: Counter) -> str:
    """The name of a counter, with that of the series where they differ."""
    name = counter.name if counter.series in ("", counter.name) else f"{counter.name} {counter.series}"
    return name if counter.gpu >= 0 or not counter.process else f"{counter.process}: {name}"


def _table(
    trace: Trace,
    order: list[int],
    values: Iterable[tuple[float, ...]],
    extra: tuple[Column, ...] = (),
    rows: Int64 | None = None,
    note: str = "",
) -> Table:
    """The columns of counters `order`, given samples, mean, minimum and maximum of each row."""
    counters = [trace.counters[number] for number in order]
    count, mean, low, high = np.array(list(values), np.float64).reshape(-1, 4).T
    every = np.array([counter_samples(trace, number).spacing for number in order], np.float64)
    return Table(
        (
            *extra,
            numbers(col.GPU, np.array([each.gpu if each.gpu >= 0 else NULL for each in counters], np.int64)),
            texts(col.COUNTER, [counter_name(each) for each in counters]),
            texts(
                col.UNIT.but(help="Unit of the values, null where the file names none."),
                [each.unit or None for each in counters],
            ),
            numbers(col.SAMPLES, count.astype(np.int64)),
            numbers(col.MEAN, mean),
            numbers(col.MIN, low),
            numbers(col.MAX, high),
            micros(col.EVERY_US, np.nan_to_num(every), null=np.isnan(every)),
            texts(
                col.SOURCE_OF_VALUES,
                [PROGRAM if each.gpu < 0 else DERIVED if each.is_derived else SAMPLED for each in counters],
            ),
        ),
        rows,
        note,
    )


def _by_step(trace: Trace, order: list[int], part: Part | None) -> Table:
    """One row per counter and step; of a range of time what of each step lies in it."""
    every, picked = steps(trace), chosen(trace, part)
    values, numbers_of, rows, counters = [], [], [], []
    for number in order:
        each = counter_samples(trace, number)
        start, end, known = _ranges(trace, each, picked)
        if isinstance(part, TimeRange):
            start, end = np.maximum(start, part.start), np.minimum(end, part.end)
            known, end = known & (start < end), np.maximum(start, end)
        found = extents(each, start, end)
        for index in range(len(picked)):
            counters.append(number)
            numbers_of.append(int(every.number[picked[index]]))
            rows.append(int(every.row[picked[index]]))
            nothing = (0.0, float("nan"), float("nan"), float("nan"))
            figures = (float(found.samples[index]), *(float(x[index]) for x in (found.mean, found.low, found.high)))
            values.append(figures if known[index] else nothing)
    step = numbers(col.STEP, np.array(numbers_of, np.int64))
    note = "" if len(every) else NO_STEPS
    return _table(trace, counters, values, (step,), np.array(rows, np.int64), note)


def _ranges(trace: Trace, each: Samples, picked: Int64) -> tuple[Int64, Int64, Bool]:
    """The time of each step for a counter in ns: on its GPU, or on the CPU; and whether the step has any there."""
    every = steps(trace)
    if each.counter.gpu < 0:
        return every.start[picked], every.end[picked], np.ones(len(picked), bool)
    spans, numbered = step_spans(trace), lane_numbers(trace)
    processes = {
        int(numbered.process[lane]) for lane in active_streams(trace) if numbered.device[lane] == each.counter.gpu
    }
    columns = [index for index, process in enumerate(spans.device.tolist()) if process in processes]
    none = np.zeros(len(picked), np.int64)
    if not columns:
        return none, none.copy(), none.astype(bool)
    index = columns[0]
    return spans.start[picked, index], spans.end[picked, index], spans.active[picked, index]


def _by_kernel(trace: Trace, order: list[int], step: Part | None) -> Table:
    """One row per counter and name of kernels with values of their own, the longest kernels first."""
    values, counters, names, calls, measured, rows = [], [], [], [], [], []
    densities: dict[str, list[str]] = {}
    for number in order:
        each = counter_samples(trace, number)
        if not each.is_measured:
            continue
        found = kernel_samples(trace, number)
        kept = np.flatnonzero(np.isin(found.rows, within(trace, found.rows, step)))
        densities.setdefault(_density(each, found, kept), []).append(each.counter.name)
        alike = group(trace.slices.name[found.rows[kept]])
        dur = trace.slices.dur[found.rows[kept]]
        # Each call's mean counts by its duration.
        weight = np.where(found.dense[kept], dur, 0).astype(np.float64)
        for index in np.argsort(-alike.sum(dur), kind="stable").tolist():
            mine = kept[alike.member == index]
            dense = mine[found.dense[mine]]
            if len(dense) == 0:
                continue
            counters.append(number)
            names.append(int(trace.slices.name[found.rows[mine[0]]]))
            calls.append(len(mine))
            measured.append(len(dense))
            rows.append(int(found.rows[dense[np.argmax(trace.slices.dur[found.rows[dense]])]]))
            mean = float(np.average(found.mean[dense], weights=weight[alike.member == index][found.dense[mine]]))
            values.append(
                (float(found.samples[dense].sum()), mean, float(found.low[dense].min()), float(found.high[dense].max()))
            )
    extra = (
        coded(col.KERNEL.but(help="The kernel, as recorded."), np.array(names, np.int64), trace.names),
        numbers(col.CALLS.but(help="How often it ran."), np.array(calls, np.int64)),
        numbers(col.MEASURED, np.array(measured, np.int64)),
    )
    return _table(trace, counters, values, extra, np.array(rows, np.int64), _density_note(densities))


def _density(each: Samples, found: KernelSamples, kept: Int64) -> str:
    """For how many kernels a counter has values, and how far apart its samples are."""
    if len(kept) == 0:
        return f"no kernel ran on GPU {each.counter.gpu}"
    dense = int(found.dense[kept].sum())
    # Samples at one and the same moment are no distance apart either.
    is_spaced = len(each) > 1 and not np.isnan(each.spacing)
    apart = f", samples {duration(each.spacing)} apart" if is_spaced else ", too few samples"
    return f"{dense:,} of {len(kept):,} kernels{apart}"


def _density_note(densities: dict[str, list[str]]) -> str:
    """A sentence about how many kernels have values of counters, and what more of them would take."""
    said = [f"{', '.join(map(clean, names))}: {density}." for density, names in densities.items()]
    rule = f"A kernel has values of its own where {MIN_SAMPLES} samples begin while it runs alone on its GPU."
    return " ".join((rule, *said)) if said else "No counter of a GPU was sampled."
