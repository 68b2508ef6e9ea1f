"""The summary pane: what the file is, what it holds, and how busy the GPU was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tracetui.analysis import columns as col
from tracetui.analysis.devices.descriptions import ALL_DEVICES, device_names, has_assumed_name
from tracetui.analysis.health.health_table import doubtful
from tracetui.analysis.idle.verdict import IDLE_PARTS, totals, verdict_on
from tracetui.analysis.linking.links import links, no_gpu, op_rows
from tracetui.analysis.linking.markers import markers
from tracetui.analysis.linking.placement import chosen, within
from tracetui.analysis.linking.regions import busy_stretches
from tracetui.analysis.linking.steps import steps
from tracetui.analysis.occupancy import queries
from tracetui.analysis.operators.views import idle_view_rows
from tracetui.model.intervals import covered_within
from tracetui.model.table import Cell, Table, numbers, texts
from tracetui.model.trace import Kind, LaneKind, Trace

OPTIONS = ("record_shapes", "with_stack", "profile_memory", "with_flops")
"""Profiler options that a trace records."""
MAX_SAMPLED_OPS = 300
"""Maximum ops searched for shapes."""


@dataclass(frozen=True)
class SummaryFact:
    """One line of the summary; a value of None is unknown."""

    key: str
    value: Cell
    unit: str = ""


def summary(trace: Trace, step: int | None = None, by: str | None = None) -> Table:
    """Key, value and unit; with a step the counts and times are the step's."""
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


def facts(trace: Trace, step: int | None = None) -> list[SummaryFact]:
    """The lines of the summary in order."""
    return [
        SummaryFact("file", trace.label),
        SummaryFact("format", trace.format),
        SummaryFact("size_bytes", trace.size_bytes, "bytes"),
        SummaryFact("events", trace.events),
        *_places(trace),
        *_counts(trace, step),
        *_gpu_time(trace, step),
        *_verdict(trace, step),
        SummaryFact("recorded_with", _options(trace)),
        SummaryFact("workload", _workload(trace)),
        SummaryFact("doubts", len(doubtful(trace))),
        SummaryFact("without_launch", int((links(trace).launch[links(trace).gpu] < 0).sum())),
    ]


def _places(trace: Trace) -> Iterable[SummaryFact]:
    busy = [lane for lane in trace.lanes if lane.last > lane.first]
    yield SummaryFact("processes", len({lane.pid for lane in busy if lane.kind == LaneKind.CPU}))
    yield SummaryFact("threads", sum(lane.kind == LaneKind.CPU for lane in busy))
    yield SummaryFact("streams", sum(lane.kind == LaneKind.GPU for lane in busy))
    yield SummaryFact("devices", ", ".join(_devices(trace)) or None)


def _devices(trace: Trace) -> Iterable[str]:
    """Names of the devices that ran something; what does not stand in the file is marked."""
    chosen = any(device.id == ALL_DEVICES for device in trace.devices)
    for number, name in device_names(trace).items():
        mark = " (--device)" if chosen else " (assumed)" if has_assumed_name(trace, number) else ""
        yield f"{name}{mark}"


def counts(trace: Trace, step: int | None = None) -> dict[str, int]:
    """Counts of the trace or of the step with a number, under the names of the summary's lines."""

    def make() -> dict[str, int]:
        trace_links = links(trace)
        work = within(trace, trace_links.gpu, step)
        kernel = trace.slices.kind[work] == Kind.KERNEL
        return {
            "kernels": int(kernel.sum()),
            "copies": int((~kernel).sum()),
            "cpu_ops": len(within(trace, op_rows(trace), step)),
            "launches": len(within(trace, trace_links.launches, step)),
            "occupancy_queries": len(within(trace, queries(trace), step)),
            "view_ops": len(within(trace, idle_view_rows(trace), step)),
        }

    return trace.remember(("counts", step), make)


def _counts(trace: Trace, step: int | None) -> Iterable[SummaryFact]:
    low, high = _window(trace, step)
    yield SummaryFact("duration_us", (high - low) / 1000, "us")
    yield SummaryFact("steps", len(chosen(trace, step)))
    if markers(trace):
        yield SummaryFact("step_markers", ", ".join(f"{each.name} ({len(each.rows)})" for each in markers(trace)[:3]))
    yield from (SummaryFact(key, number) for key, number in counts(trace, step).items())


def _window(trace: Trace, step: int | None) -> tuple[int, int]:
    """The time range of the summary, in ns."""
    every, picked = steps(trace), chosen(trace, step)
    if step is None:
        return trace.window
    return int(every.start[picked].min()), int(every.end[picked].max())


def _gpu_time(trace: Trace, step: int | None) -> Iterable[SummaryFact]:
    """Time within the window in which any device ran anything, whatever launched it."""
    if len(links(trace).gpu) == 0:
        yield SummaryFact("gpu_busy_us", None, "us")
        yield SummaryFact("gpu_busy_pct", None, "%")
        return
    low, high = _window(trace, step)
    starts, ends = busy_stretches(trace)
    busy = int(covered_within(starts, ends, np.array([low]), np.array([high]))[0])
    yield SummaryFact("gpu_busy_us", busy / 1000, "us")
    yield SummaryFact("gpu_busy_pct", 100 * busy / (high - low) if high > low else None, "%")


def _verdict(trace: Trace, step: int | None) -> Iterable[SummaryFact]:
    """The verdict, and the numbers behind it as shares of the GPU's time and of its idle time.

    The idle share is that from the first GPU activity to the last, of the trace or of the step. The words of the trace
    are those of its median step, whose idle share and wait are given beside it.
    """
    judged = verdict_on(trace, step)
    yield SummaryFact("verdict", judged.words if judged else None)
    yield SummaryFact("idle_pct", judged.idle_pct if judged else None, "%")
    alone = judged.typical or (judged if len(steps(trace)) else None) if judged else None
    yield SummaryFact("step_idle_pct", alone.idle_pct if alone else None, "%")
    yield SummaryFact("step_wait_us", alone.wait / 1000 if alone else None, "us")
    yield SummaryFact("late_pct", judged.late_pct if judged else None, "%")
    for name in IDLE_PARTS:
        yield SummaryFact(f"idle_{name}_pct", judged.share_of_idle(name) if judged else None, "%")
    yield SummaryFact("small_gaps_pct", judged.small_pct if judged else None, "%")
    yield SummaryFact("exposed_comm_us", judged.exposed_comm / 1000 if judged else None, "us")
    yield SummaryFact("exposed_copy_us", judged.exposed_copy / 1000 if judged else None, "us")
    sums = totals(trace, step)
    yield SummaryFact("self_cpu_total_us", sums.cpu / 1000, "us")
    yield SummaryFact("self_device_total_us", sums.device / 1000 if judged else None, "us")
    yield SummaryFact("totals_say", sums.reading)


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
    if (trace.instants.name == trace.names.find("[memory]")).any():
        evident.add("profile_memory")
    if (trace.op_args.text("Input Dims", trace.slices.event[op_rows(trace)[:MAX_SAMPLED_OPS]]) >= 0).any():
        evident.add("record_shapes")
    return evident


def _workload(trace: Trace) -> str | None:
    """The workload's name in the metadata of our own recorder."""
    own = trace.metadata.get("tracetui")
    name = own.get("workload") if isinstance(own, dict) else None
    return name if isinstance(name, str) else None


def _text(value: Cell) -> str | None:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return None if value is None else str(value)
