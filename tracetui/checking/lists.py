"""The lists, measures and operators of the parts of a side, as expressions use them.

A list has a row per item and the columns of the pane of the same name, as `panes.py` declares it. Measures have names
that do not depend on what a trace holds: a kind of GPU activity that a trace with a GPU does not have took no time and
is 0, and without a GPU it is unknown. Where something is missing, a sentence says why and how to record it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.checking.values import Parts
from tracetui.comparing.measures import (
    CAUSE_HELP,
    Measure,
    known_measures,
    launch_gap,
    rests_on_launches,
    without_launches,
)
from tracetui.comparing.side import CAPTURE, RUN, STEP, Side, kept_with_side
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.idle.utilisation import no_mfu
from tracetui.idle.waits import KEYS, WORDS
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.links import links, no_gpu, op_rows
from tracetui.linking.step_sources import no_steps
from tracetui.memory.memory_table import no_allocations
from tracetui.model import columns as col
from tracetui.model.intervals import Int64
from tracetui.model.table import Column, Table, coded, numbers
from tracetui.model.trace import WITH_NVTX, Float64, Kind
from tracetui.model.viewpoint import Viewpoint, view_string
from tracetui.operators.costs import costs, is_overlapped
from tracetui.operators.key_averages import KIND_WORDS, averages, grouped
from tracetui.panes import PANES
from tracetui.serving.request_table import NO_REQUESTS
from tracetui.serving.serving_table import NOT_SERVED
from tracetui.tables.compiles import NO_LOG, has_compilations
from tracetui.tables.counter_table import NO_COUNTERS
from tracetui.tables.layers import NO_LAYERS

GPU_COLUMNS = ("self_device_us", "device_total_us", "kernels")
"""Columns that are unknown in a trace without a GPU."""
NO_ROWS: Int64 = np.empty(0, np.int64)


@frozen
class OpSums:
    """Sums by operator and part; an op and an annotation of the same name are two rows."""

    name: Int64
    """Id in `texts`."""
    texts: Sequence[str]
    kind: Int64
    """Id in `KIND_WORDS`."""
    sums: dict[str, Float64]
    """An array of operators by parts for each column of the ops pane; times in microseconds."""


OP_HELP = {
    "calls": ("", "Calls in a step."),
    "self_cpu_us": ("us", "CPU time in a step, outside of what it called."),
    "cpu_total_us": ("us", "CPU time in a step, with what it called."),
    "self_device_us": ("us", "Time of the GPU work that it launched itself."),
    "device_total_us": ("us", "Time of the GPU work that it and what it called launched."),
    "kernels": ("", "GPU activities that it and what it called launched."),
}
"""Unit and help of each field of an operator."""


@kept_with_side
def op_sums(side: Side) -> OpSums:
    """The operators of a side, in the order in which their names first occur; computed once."""
    trace, all_costs = side.trace, costs(side.trace)
    part = side.part_of(all_costs.row)
    inside = np.flatnonzero(part >= 0)
    cost, part = all_costs.take(inside), part[inside]
    names = grouped(trace.slices, cost)
    sums = averages(trace.slices, cost, names)
    index, cells = names.member * len(side) + part, len(names) * len(side)

    def spread(values: Int64 | None) -> Float64:
        weights = None if values is None else values.astype(np.float64)
        return np.bincount(index, weights, cells).reshape(len(names), len(side)).astype(np.float64)

    overlapped = spread(is_overlapped(cost.self_cpu).astype(np.int64))
    table = {
        "calls": spread(None),
        # A self time below 0 measures nothing, and neither does a sum that contains one.
        "self_cpu_us": np.where(overlapped > 0, np.nan, spread(cost.self_cpu) / 1000),
        "cpu_total_us": spread(cost.cpu) / 1000,
        "self_device_us": spread(cost.self_device) / 1000,
        "device_total_us": spread(cost.device) / 1000,
        "kernels": spread(cost.kernels),
    }
    if len(links(trace).gpu) == 0:
        table |= {name: np.full_like(table[name], np.nan) for name in GPU_COLUMNS}
    return OpSums(sums.name, cost.texts, sums.kind, table)


def op_list(side: Side) -> Table:
    """One row per operator: of times the medians over the parts, of counts the largest."""
    sums = op_sums(side)
    return Table(
        (
            coded(col.NAME.but(help="Name; all steps are one."), sums.name, sums.texts),
            *(
                numbers(
                    col.COLUMNS[name].but(help=help if unit else f"{help[:-1]}, the most of all steps."),
                    (np.median if unit else np.max)(sums.sums[name], axis=1) if len(side) else [],
                )
                for name, (unit, help) in OP_HELP.items()
            ),
            coded(col.KIND, sums.kind, KIND_WORDS),
        )
    )


def no_shapes(side: Side) -> str:
    """The sentence in place of operations and bytes, where no operator has the shapes of its inputs."""
    way = side.trace.to_record("record with record_shapes=True", WITH_NVTX)
    return f"The shapes of the operators behind its GPU work are not known: {way}."


def lacks_gpu(side: Side) -> str:
    """The reason why no GPU activities of the parts of a side are known; empty where some are."""
    trace_links = links(side.trace)
    if len(trace_links.gpu) == 0 or side.part_kind == CAPTURE or len(trace_links.launches):
        return no_gpu(side.trace)
    way = side.trace.to_record("activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "nsys profile --trace=cuda")
    return (
        f"No GPU activity of it has a launch record, so that none belongs to a {side.part_kind}. Record with {way}, or "
        "look at the whole capture: TRACE#all."
    )


def lacks_calls(side: Side) -> str:
    """The reason why no runtime calls are known; empty where they were recorded."""
    recorded = len(side.trace.slices.of_kind(Kind.RUNTIME)) or len(links(side.trace).gpu)
    return "" if recorded else no_gpu(side.trace)


def lacks_ops(side: Side) -> str:
    """The reason why no operators are known; empty where some were recorded."""
    way = side.trace.to_record("record with activities=[ProfilerActivity.CPU, ...]", WITH_NVTX)
    return "" if len(op_rows(side.trace)) else f"There are no operators in it: {way}."


def whole_or_step(side: Side) -> tuple[int | None, str]:
    """The step for which a pane is built, None for the whole trace; or why it cannot be built for these parts."""
    if side.scope == "" or side.part_kind == CAPTURE:
        return None, ""
    if side.part_kind == STEP and side.scope.isdigit():
        return int(side.scope), ""
    return None, f"It is known of the whole trace and of one step, and not of #{side.scope}."


CPU_MEASURES = ("dur_us", "cpu_us")
"""Measures that every trace with a thread has."""
OP_MEASURES = ("cpu_ops", "view_ops")
CALL_MEASURES = ("sync_us", "query_us", "occupancy_queries")
"""Measures of runtime calls that need not launch anything on the GPU."""
SHAPE_MEASURES = ("moved_bytes", "flops", "moved_known_pct")
PEAK_MEASURES = ("mfu_pct", "flops_known_pct")
GPU_FAMILIES = tuple(each for each in Family if each <= Family.OTHER)


@kept_with_side
def measured(side: Side) -> dict[str, Measure]:
    """Every measure of a side by name; all NaN where the trace does not hold it. Those that failed are left out."""
    side_measures, failures = known_measures(side)
    # What a failed analysis would have counted is not known to be 0.
    zeros = {} if failures else _zero_measures(side)
    measures = zeros | side_measures
    unknown = np.full(len(side), np.nan)
    return {
        name: replace(measures[name], values=unknown, gap="") if _lacks(side, name) else measures[name]
        for name in dict.fromkeys([*side_measures, *zeros])
    }


def _zero_measures(side: Side) -> dict[str, Measure]:
    """Kernel families and causes of gaps, all 0; NaN for parts whose launches were not recorded."""
    helps = {f"{each.name.lower()}_us": f"Sum of GPU durations: {each.name.lower()}." for each in GPU_FAMILIES}
    helps |= {key: f"{CAUSE_HELP} {word.lower()}." for key, word in zip(KEYS, WORDS, strict=True)}
    zeros = {name: Measure(name, np.zeros(len(side)), help, "us") for name, help in helps.items()}
    if (lost := without_launches(side)).any():
        values, gap = np.where(lost, np.nan, 0.0), launch_gap(side)
        zeros |= {
            name: replace(each, values=values, gap=gap) for name, each in zeros.items() if rests_on_launches(name)
        }
    return zeros


def require_measures(side: Side) -> None:
    """Raises: AnalysisFailed where some measures of a side could not be made, so that a name may be one of them."""
    for failure in known_measures(side)[1]:
        raise failure.with_traceback(None)


def lacking(side: Side, name: str) -> str:
    """The reason why a measure of a side is unknown, as a sentence."""
    if why := _lacks(side, name):
        return why
    if gap := measured(side)[name].gap:
        return f"{gap[:1].upper()}{gap[1:]}."
    if name in SHAPE_MEASURES:
        return no_shapes(side)
    if name in PEAK_MEASURES and (why := no_mfu(side.trace)):
        return why
    return f"It was not recorded in the {side.part_kind}{'' if len(side) == 1 else 's'}."


def _lacks(side: Side, name: str) -> str:
    """The reason why the trace does not hold a measure; empty where it does."""
    if name in CPU_MEASURES:
        return ""
    if name in OP_MEASURES:
        return lacks_ops(side)
    return lacks_calls(side) if name in CALL_MEASURES else lacks_gpu(side)


@frozen(eq=True)
class ListKind:
    """A list that every side has."""

    help: str
    """A row in words."""
    make: Callable[[Side, str], Table]
    """Builds the table of the parts from the pane with a name."""
    lacks: tuple[Callable[[Side], str], ...] = ()
    """Reasons, as sentences, why the list is unknown, the first of which counts; empty where it is known."""
    when_empty: str | Callable[[Side], str] = ""
    """The reason why a list without rows is unknown; empty where it may have none."""
    named_by: tuple[tuple[str, str], ...] = (("", "name"),)
    """Columns that name a row in a sentence, each with the words before it."""
    has_step: bool = True
    """True where a row belongs to the step in its column `step`; in a finding that step is an example."""
    pane: str = ""
    """The pane that it is a part of, where that has another name."""
    chosen_by: str = ""
    """The column that decides which rows belong to the parts, as `pane.column`."""


@kept_with_side
def listing(side: Side, name: str) -> tuple[Table, str]:
    """The table of a list of a side, built once, and why it is unknown; empty where it is known.

    Raises: KeyError for a name that is not in `LISTS`.
    """
    kind = LISTS[name]
    table = kind.make(side, LISTS[name].pane or name)
    empty = kind.when_empty if isinstance(kind.when_empty, str) else kind.when_empty(side)
    reasons = (lacks(side) for lacks in kind.lacks)
    return table, next(filter(None, reasons), "" if len(table) else empty)


def view_of(side: Side, pane: str, row: int = -1, part: int = -1, *, is_gap: bool = False) -> tuple[str, str]:
    """The view string of a slice, of a part of a side, or with -1 for both of a pane; and the path of the trace."""
    trace = side.trace
    step = int(side.number[part]) if part >= 0 and side.part_kind == STEP else whole_or_step(side)[0]
    event = int(trace.slices.event[row]) if row >= 0 else -1
    shown = Viewpoint(step, pane, event, steps_by=trace.steps_by, is_gap=is_gap and event >= 0)
    return view_string(shown), trace.path or ""


def view_of_row(side: Side, name: str, table: Table, index: int) -> tuple[str, str]:
    """The view string of a row of a list, and the path of the trace."""
    if name in ("steps", "runs"):
        return view_of_part(side, index)
    if "jump" in table and (jump := table["jump"].cell(index)):
        return str(jump), side.trace.path or ""
    row = -1 if table.slices is None else int(table.slices[index])
    part = int(side.part_of(np.array([row]))[0]) if row >= 0 else -1
    return view_of(side, LISTS[name].pane or name, row, part, is_gap=name == "gaps")


def view_of_part(side: Side, index: int) -> tuple[str, str]:
    """The view string of a step or run, and the path of the trace."""
    return view_of(side, "", -1 if side.part_kind == STEP else int(side.row[index]), index)


def parts_of(side: Side) -> Parts:
    """The steps or runs of a side."""
    return Parts(side.part_kind, side.number, partial(view_of_part, side))


def _steps(side: Side, pane: str) -> Table:
    """The steps of a side with every measure and the columns of the steps pane."""
    table = PANES[pane].build(side.trace)
    measures = _measured_columns(side)
    taken = {column.name for column in measures}
    rows = NO_ROWS if table.slices is None else table.slices
    mine = table.take(np.flatnonzero(np.isin(rows, side.row)))
    if side.part_kind != STEP:
        measures = [column.take(NO_ROWS) for column in measures]
    return Table((*measures, *(column for column in mine.columns if column.name not in taken)))


def _measured_columns(side: Side) -> list[Column]:
    """Every measure of the parts of a side as a column.

    Raises: AnalysisFailed where some could not be made.
    """
    require_measures(side)
    return [numbers(each.name, each.values, each.unit, each.help) for each in measured(side).values()]


def _rows_of_parts(*kinds: str) -> Callable[[Side, str], Table]:
    """The rows of a pane whose slices belong to the parts, restricted to some kinds where given."""

    def make(side: Side, pane: str) -> Table:
        table = PANES[pane].build(side.trace)
        mask = side.part_of(NO_ROWS if table.slices is None else table.slices) >= 0
        if kinds:
            column = table["kind"]
            ids = [index for index, text in enumerate(column.strings or ()) if text in kinds]
            mask &= np.isin(column.values, ids)
        return table.take(np.flatnonzero(mask))

    return make


def _memory(side: Side, pane: str) -> Table:
    """The allocator events during the parts, whichever thread caused them."""
    table = PANES[pane].build(side.trace)
    if side.part_kind == CAPTURE or len(side) == 0:
        return table
    moment = np.round(table["start_us"].values.astype(np.float64) * 1000).astype(np.int64)
    order = np.argsort(side.start, kind="stable")
    reach = np.maximum.accumulate(side.end[order])
    index = np.searchsorted(side.start[order], moment, side="right") - 1
    return table.take(np.flatnonzero((index >= 0) & (moment < reach[index])))


def _whole_pane(side: Side, pane: str) -> Table:
    """A pane of the whole trace, or of the one step that the side is."""
    step, why = whole_or_step(side)
    table = PANES[pane].build(side.trace, step=step)
    return table.take(NO_ROWS) if why else table


def _complete(build: Callable[[Side, str], Table]) -> Callable[[Side, str], Table]:
    """A list that is an error where rows are missing because an analysis failed: the others do not decide anything."""

    def make(side: Side, pane: str) -> Table:
        table = build(side, pane)
        if table.failures:
            raise AnalysisFailed(table.failures[0])
        return table

    return make


def _lacks_steps(side: Side) -> str:
    if side.part_kind == STEP:
        return "" if len(side) else "No step was recorded whole."
    return no_steps(side.trace) if side.scope == "" else f"#{side.scope} is no step."


def _lacks_whole(side: Side) -> str:
    return whole_or_step(side)[1]


LISTS: dict[str, ListKind] = {
    "steps": ListKind(
        "Complete steps: the names above, one number each.",
        _steps,
        (_lacks_steps,),
        named_by=(),
        chosen_by="steps.start_us",
    ),
    "runs": ListKind(
        "The same where TRACE#NAME says whose runs are looked at.",
        lambda side, _: Table((numbers(col.RUN, side.number), *_measured_columns(side))),
        (lambda side: "" if side.part_kind == RUN else "Runs are those of a name: TRACE#NAME.",),
        named_by=(("run ", "run"),),
        has_step=False,
        pane="steps",
    ),
    "kernels": ListKind(
        "Kernels of the steps, by start.",
        _rows_of_parts("kernel"),
        (lacks_gpu,),
        named_by=(("", "short_name"),),
        chosen_by="steps.kernels",
    ),
    "copies": ListKind(
        "Copies and fills of the steps.",
        _rows_of_parts("memcpy", "memset"),
        (lacks_gpu,),
        named_by=(("", "short_name"),),
        pane="kernels",
        chosen_by="steps.kernels",
    ),
    "launches": ListKind(
        "Calls of the steps that put work on the GPU.",
        _rows_of_parts(),
        (lacks_gpu,),
        named_by=(("", "api"), (" of ", "op")),
        chosen_by="launches.step",
    ),
    "gaps": ListKind(
        "Stretches in which a device ran nothing, before work of the steps.",
        _rows_of_parts(),
        (lacks_gpu,),
        named_by=(("before ", "after"),),
    ),
    "ops": ListKind(
        "Operators by name; the numbers are of one step.", lambda side, _: op_list(side), (lacks_ops,), has_step=False
    ),
    "occupancy": ListKind(
        "Occupancy queries of the steps.", _rows_of_parts(), (lacks_calls,), named_by=(("for ", "kernel"),)
    ),
    "memory": ListKind(
        "What the allocators did during the steps.",
        _memory,
        (lambda side: "" if len(PANES["memory"].build(side.trace)) else no_allocations(side.trace),),
        named_by=(("", "event"), (" of ", "op")),
    ),
    "roofline": ListKind(
        "Operators by shapes, of the whole trace.",
        _whole_pane,
        (_lacks_whole, lacks_gpu),
        no_shapes,
        (("", "op"),),
        has_step=False,
    ),
    "serving": ListKind(
        "Steps of an inference server by kind.",
        _whole_pane,
        (_lacks_whole,),
        NOT_SERVED,
        (("", "kind"),),
        has_step=False,
    ),
    "requests": ListKind(
        "Requests to a server, of the whole file with them.",
        _whole_pane,
        (_lacks_whole, lambda side: "" if side.trace.request_log else NO_REQUESTS),
        named_by=(("", "request"),),
        has_step=False,
    ),
    "layers": ListKind(
        "Parts of the steps: what repeats, and what is before and behind.",
        _whole_pane,
        (_lacks_whole, lacks_gpu),
        NO_LAYERS,
        (("", "part"),),
        has_step=False,
    ),
    "compiles": ListKind(
        "Compilations of torch.compile, of the whole log.",
        _whole_pane,
        (_lacks_whole, lambda side: "" if has_compilations(side.trace) else NO_LOG),
        named_by=(("", "compile_id"),),
        has_step=False,
    ),
    "counters": ListKind(
        "Counters of GPUs and programs, of the whole trace.",
        _whole_pane,
        (_lacks_whole, lambda side: "" if side.trace.counters else NO_COUNTERS),
        named_by=(("", "counter"),),
        has_step=False,
    ),
    "findings": ListKind(
        "What the rules find in the whole trace.",
        _complete(_whole_pane),
        (_lacks_whole,),
        named_by=(("", "id"),),
        has_step=False,
    ),
    "health": ListKind(
        "Checks of the trace itself.",
        _complete(lambda side, pane: PANES[pane].build(side.trace)),
        named_by=(("", "check"),),
        has_step=False,
    ),
}
"""All lists by name."""
