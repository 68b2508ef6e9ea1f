"""The summary pane: what the file is, what it holds, and how busy the GPU was."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracetui.devices.descriptions import device_names, has_assumed_name
from tracetui.frozen import frozen
from tracetui.health.health_table import doubtful_checks
from tracetui.health.recording_checks import kinds_in_words
from tracetui.idle.gpu_spans import step_spans
from tracetui.idle.utilisation import scope_utilisation
from tracetui.idle.verdict import IDLE_PARTS, totals, verdict_on
from tracetui.linking.graph_nodes import capture_counts
from tracetui.linking.links import busy_stretches, links, no_gpu
from tracetui.linking.placement import between_share, chosen, ops_within, within
from tracetui.linking.step_kinds import step_kinds, unprofiled_time
from tracetui.linking.step_sources import coverage, step_markers, steps_sentence
from tracetui.linking.steps import steps
from tracetui.linking.trees import active_streams
from tracetui.model import columns as col
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.pane import Pane
from tracetui.model.recorded import COMPILE_FACTS
from tracetui.model.results import kept
from tracetui.model.table import Cell, Table, numbers, texts
from tracetui.model.trace import ALL_DEVICES, Kind, LaneKind, Trace
from tracetui.operators.key_averages import has_shapes
from tracetui.operators.ops import has_allocations
from tracetui.operators.views import idle_view_rows
from tracetui.tables.compiles import compilations
from tracetui.tables.occupancy import queries
from tracetui.tables.range_table import range_of

OPTIONS = ("record_shapes", "with_stack", "profile_memory", "with_flops")
"""Profiler options that a trace records."""


@frozen(eq=True)
class SummaryFact:
    """One line of the summary; a value of None is unknown."""

    key: str
    value: Cell
    unit: str = ""


def summary(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Key, value and unit; with a step or a range of time the counts and times are those of it."""
    lines, judged = facts(trace, step), verdict_on(trace, step)
    figures = [float(fact.value) if isinstance(fact.value, int | float) else float("nan") for fact in lines]
    return Table(
        (
            texts(col.KEY, [fact.key for fact in lines]),
            texts(col.VALUE.but(help="The value, as text."), [_text(fact.value) for fact in lines]),
            texts(col.UNIT, [fact.unit for fact in lines]),
            numbers(col.NUMBER, figures),
        ),
        None,
        no_gpu(trace) or " ".join(judged.remarks if judged else ()),
    )


PANE = Pane(
    "summary",
    "Summary",
    key="9",
    help="What the file is, what it holds and how busy the GPU was.",
    table=summary,
    columns="key value",
    of_step=False,
    is_in_time_order=False,
)


def not_shown(trace: Trace) -> str:
    """A sentence about packets that are not shown, the most frequent kind first; empty where everything is shown."""
    counts = trace.quality.not_shown
    if not counts:
        return ""
    total, named = sum(counts.values()), kinds_in_words(counts)
    packets = "1 packet" if total == 1 else f"{total:,} packets"
    return f"This file also holds {packets} that tracetui does not show: {named}. Perfetto (ui.perfetto.dev) does."


def facts(trace: Trace, step: Part | None = None) -> list[SummaryFact]:
    """The lines of the summary in order."""
    return [
        SummaryFact("file", trace.label),
        *([SummaryFact("simulated", "yes, nothing was measured")] if trace.is_simulated else []),
        SummaryFact("format", trace.format),
        SummaryFact("size_bytes", trace.size_bytes, "bytes"),
        SummaryFact("events", trace.event_count),
        *(SummaryFact(name, number) for name, number in changes_of_file(trace).items() if number),
        *(
            _compiled(trace)
            if trace.categories.find(COMPILE_FACTS) >= 0 and not trace.is_torch
            else _of_run(trace, step)
        ),
    ]


def _compiled(trace: Trace) -> Iterable[SummaryFact]:
    """A log of torch.compile alone: nothing of it ran on a GPU."""
    listed = compilations(trace)
    again = [each for each in listed if each.reason]
    yield SummaryFact("duration_us", (trace.window[1] - trace.window[0]) / 1000, "us")
    yield SummaryFact("compilations", len(listed))
    yield SummaryFact("compile_us", sum(each.time for each in listed) / 1000, "us")
    yield SummaryFact("recompilations", len(again))
    yield SummaryFact("graph_breaks", sum(len(each.breaks) for each in listed))
    yield SummaryFact("doubts", len(doubtful_checks(trace)))


def _of_run(trace: Trace, step: Part | None) -> list[SummaryFact]:
    """The lines about what ran."""
    workload = trace.own_metadata.get("workload")
    return [
        *_places(trace),
        *_counts(trace, step),
        *_in_graphs(trace),
        *_gpu_time(trace, step),
        *_verdict(trace, step),
        *_utilisation(trace, step),
        SummaryFact("recorded_with", _options(trace)),
        SummaryFact("workload", workload if isinstance(workload, str) else None),
        *_unprofiled(trace),
        SummaryFact("doubts", len(doubtful_checks(trace))),
        SummaryFact("without_launch", int((links(trace).launch[links(trace).gpu] < 0).sum())),
    ]


def changes_of_file(trace: Trace) -> dict[str, int]:
    """Counts of what was lost or changed in reading the file, under the names of the summary's lines."""
    quality = trace.quality
    return {
        "events_lost": quality.dropped + sum(quality.skipped_phases.values()) + quality.unmatched_ends,
        "metadata_lost": quality.damaged_keys,
        "events_mended": quality.repaired,
        "bytes_replaced": quality.replaced,
        "keys_twice": quality.repeated,
        "times_changed": quality.negative + quality.clipped + len(quality.overlong),
    }


def _places(trace: Trace) -> Iterable[SummaryFact]:
    # The profiler of PyTorch has instants on threads that do nothing.
    marked = set() if trace.is_torch else set(trace.instants.lane.tolist())
    busy = [lane for number, lane in enumerate(trace.lanes) if lane.last > lane.first or number in marked]
    yield SummaryFact("processes", len({lane.pid for lane in busy if lane.kind == LaneKind.CPU}))
    yield SummaryFact("threads", sum(lane.kind == LaneKind.CPU for lane in busy))
    if not trace.is_torch:
        yield SummaryFact("slices", len(trace.slices))
        yield SummaryFact("instants", len(trace.instants))
        yield SummaryFact("counter_series", len(trace.counters))
    yield SummaryFact("streams", len(active_streams(trace)))
    # Names of devices that do not stand in the file are marked.
    is_chosen = any(device.id == ALL_DEVICES for device in trace.devices)
    names = [
        name + (" (--device)" if is_chosen else " (assumed)" if has_assumed_name(trace, number) else "")
        for number, name in device_names(trace).items()
    ]
    yield SummaryFact("devices", ", ".join(names) or None)


@kept(on_disk=True)
def counts(trace: Trace, step: Part | None = None) -> dict[str, int]:
    """Counts of the trace or of the step with a number, under the names of the summary's lines."""
    return {
        **activity_counts(trace, step),
        "cpu_ops": len(ops_within(trace, step)),
        "launches": len(within(trace, links(trace).launches, step)),
        "occupancy_queries": len(within(trace, queries(trace), step)),
        "view_ops": len(within(trace, idle_view_rows(trace), step)),
    }


@kept(on_disk=True)
def activity_counts(trace: Trace, step: Part | None = None) -> dict[str, int]:
    """The counts of kernels and of other GPU activities among `counts`, which come without those of the CPU."""
    work = within(trace, links(trace).gpu, step)
    kernel = trace.slices.kind[work] == Kind.KERNEL
    return {"kernels": int(kernel.sum()), "copies": int((~kernel).sum())}


def _counts(trace: Trace, step: Part | None) -> Iterable[SummaryFact]:
    yield SummaryFact("duration_us", range_of(trace, step).length / 1000, "us")
    yield SummaryFact("steps", len(chosen(trace, step)))
    if step_markers(trace):
        yield SummaryFact(
            "step_markers", ", ".join(f"{each.name} ({len(each.rows)})" for each in step_markers(trace)[:3])
        )
    yield from _found_steps(trace)
    yield from (SummaryFact(key, number) for key, number in counts(trace, step).items())


def _in_graphs(trace: Trace) -> Iterable[SummaryFact]:
    """GPU activities of the whole trace that were replayed from graphs, and what is known of their capture."""
    counted = capture_counts(trace)
    if counted.activities:
        yield SummaryFact("in_graphs", counted.activities)
        yield SummaryFact("captured_by", counted.words)


def _found_steps(trace: Trace) -> Iterable[SummaryFact]:
    """The name and source of the steps, where they are not the profiler's; and their kinds."""
    every = steps(trace)
    if every.words:
        yield SummaryFact("steps_found_by", f"{every.found_by}{' ~' if every.is_guess else ''}")
        yield SummaryFact("steps_are", steps_sentence(trace))
        yield SummaryFact("steps_cover_pct", coverage(trace), "%")
    kinds = step_kinds(trace).counts
    if kinds:
        yield SummaryFact("step_kinds", ", ".join(f"{kind} {count:,}" for kind, count in kinds.items()))
    if every.is_served and not every.is_guess:
        yield SummaryFact("between_steps_pct", between_share(trace), "%")


def _gpu_time(trace: Trace, step: Part | None) -> Iterable[SummaryFact]:
    """Time within the window in which any device ran anything, whatever launched it."""
    if len(links(trace).gpu) == 0:
        yield SummaryFact("gpu_busy_us", None, "us")
        yield SummaryFact("gpu_busy_pct", None, "%")
        return
    whole = range_of(trace, step)
    busy = int(whole.covered(*busy_stretches(trace)).sum())
    yield SummaryFact("gpu_busy_us", busy / 1000, "us")
    yield SummaryFact("gpu_busy_pct", 100 * busy / whole.length if whole.length > 0 else None, "%")


def _verdict(trace: Trace, step: Part | None) -> Iterable[SummaryFact]:
    """The verdict, and the numbers behind it as shares of the GPU's time and of its idle time.

    `idle_pct` of the trace is that from its first GPU activity to its last, of a step that of its period;
    `step_idle_pct` is that of the periods of all steps, on which the verdict rests. The wait is the median over
    the steps.
    """
    judged = verdict_on(trace, step)
    yield SummaryFact("verdict", judged.words if judged else None)
    of_periods = judged.judged.idle_pct if judged else None
    yield SummaryFact("idle_pct", judged.idle_pct if judged and step is None else of_periods, "%")
    yield SummaryFact("step_idle_pct", of_periods if len(steps(trace)) else None, "%")
    yield SummaryFact("step_wait_us", _median_wait(trace, step) if judged else None, "us")
    yield SummaryFact("late_pct", judged.late_pct if judged else None, "%")
    for name in IDLE_PARTS:
        yield SummaryFact(f"idle_{name}_pct", judged.share_of_idle(name) if judged else None, "%")
    yield SummaryFact("small_gaps_pct", judged.small_pct if judged else None, "%")
    yield SummaryFact("exposed_comm_us", judged.exposed_comm / 1000 if judged else None, "us")
    yield SummaryFact("exposed_copy_us", judged.exposed_copy / 1000 if judged else None, "us")
    sums = totals(trace, step)
    yield SummaryFact("self_cpu_total_us", sums.cpu / 1000, "us")
    # A step whose work ends with that of the step before has an empty period, and no verdict.
    has_work = not isinstance(step, TimeRange) and len(within(trace, links(trace).gpu, step)) > 0
    yield SummaryFact("self_device_total_us", sums.device / 1000 if has_work else None, "us")
    yield SummaryFact("totals_say", sums.reading)


def _utilisation(trace: Trace, step: Part | None) -> Iterable[SummaryFact]:
    """MFU, and the share of the GPU time that it rests on."""
    mfu, known = scope_utilisation(trace, step)
    yield SummaryFact("mfu_pct", None if np.isnan(mfu) else mfu, "%")
    yield SummaryFact("flops_known_pct", None if np.isnan(known) else known, "%")


def _median_wait(trace: Trace, step: Part | None) -> float | None:
    """Median GPU wait in us before the steps before which it is known; None for none."""
    if isinstance(step, TimeRange):
        return None
    spans, picked = step_spans(trace), chosen(trace, step)
    known = picked[spans.wait_known[picked]]
    return float(np.median(spans.total_wait[known])) / 1000 if len(known) else None


def _options(trace: Trace) -> str | None:
    """The profiler options that were on, as the file says or as its events show; None where neither tells."""
    given = [option for option in OPTIONS if option in trace.metadata]
    on = {option for option in given if trace.metadata[option] in (1, True, "1", "true")} | _evident_options(trace)
    if not given and not on:
        return None
    return ", ".join(option for option in OPTIONS if option in on) or "none"


def _evident_options(trace: Trace) -> set[str]:
    """Options without which some events of this trace would not exist."""
    evident = set()
    if (trace.slices.kind == Kind.PYTHON).any():
        evident.add("with_stack")
    if has_allocations(trace):
        evident.add("profile_memory")
    if has_shapes(trace):
        evident.add("record_shapes")
    return evident


def _unprofiled(trace: Trace) -> Iterable[SummaryFact]:
    """Times without the profiler, of recordings that have them."""
    time = unprofiled_time(trace)
    if time is None:
        return
    yield SummaryFact("unprofiled_us", time.median_us, "us")
    yield SummaryFact("unprofiled_low_us", time.low_us, "us")
    yield SummaryFact("unprofiled_high_us", time.high_us, "us")
    yield SummaryFact("profiler_adds_pct", time.profiler_adds_pct, "%")


def _text(value: Cell) -> str | None:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return None if value is None else str(value)
