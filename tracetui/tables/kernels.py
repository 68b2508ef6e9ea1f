"""The kernels pane: one row per GPU activity, or one per name, operator, family, annotation, stream or graph. The work
behind the rows of a list: the time of each row in each step, and the family that most of it is.

Rows that stand for all slices of a name or another key are summed as their pane sums them, so that the step that is
listed has the value of its cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetui.devices.residency import configuration, occupancy_note, residency
from tracetui.devices.roofline import rate_columns
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import (
    Family,
    families,
    is_serving,
    libraries,
    purposes,
    short_kernel,
    tensor_core_use,
)
from tracetui.linking.graph_nodes import by_captured_graph, op_names
from tracetui.linking.groups import distinct, group
from tracetui.linking.lines import SITES, site_columns, site_groupings, site_of
from tracetui.linking.links import launch_delay, links, names_of, no_gpu
from tracetui.linking.placement import index_in_step, step_column, step_index, step_labels, time_within, within
from tracetui.linking.replays import graph_column, mark_columns, replays
from tracetui.linking.steps import steps
from tracetui.linking.trees import lane_numbers
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part
from tracetui.model.pane import Grouping, Pane
from tracetui.model.results import kept
from tracetui.model.table import NULL, Column, Strings, Table, coded, micros, numbers
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.costs import costs, named_ops

_KIND_NAMES = Strings(["kernel", "memcpy", "memset"])
_FAMILY_NAMES = Strings(family.name.lower() for family in Family)

_OP_HELP = "The operator that caused the launch; of a replayed kernel the one that captured it (~)."


def kernels(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """Every kernel, copy and fill in order of start, or grouped.

    A step holds what was launched in it (R3.3); an activity without launch record is in no step. A range of time holds
    what ran in it, and groups add up the time within it (R3.58).
    """
    rows = within(trace, links(trace).gpu, step)
    if by == "graph":
        return by_captured_graph(trace, rows, no_gpu(trace))
    if by is not None:
        return _grouped(trace, rows, by, step)
    return Table(_columns(trace, rows, step), rows, _note(trace, rows))


_SUMS = "calls total_us pct mean_us median_us min_us max_us"
PANE = Pane(
    "kernels",
    "Kernels",
    key="2",
    help="One row is a kernel, copy or fill, by start.",
    table=kernels,
    columns=(
        "step index short_name dur_us launch_delay_us gap_before_us op occupancy_pct tensor_cores bound peak_pct grid "
        "block registers limiter waves stream kineto_occupancy_pct line function module start_us"
    ),
    groupings=(
        Grouping("name", f"short_name {_SUMS}", opens=""),
        Grouping("tensor_cores", f"tensor_cores {_SUMS}", opens=""),
        Grouping("op", f"op {_SUMS}", opens=""),
        Grouping("family", f"family {_SUMS}", opens=""),
        Grouping("purpose", f"purpose {_SUMS}", opens="", is_offered=is_serving),
        Grouping("library", f"library {_SUMS}", opens="", is_offered=is_serving),
        Grouping("annotation", f"annotation {_SUMS}", opens=""),
        Grouping("stream", f"stream {_SUMS}", opens=""),
        Grouping(
            "graph",
            columns="graph op replays nodes total_us mean_us call_us call_per_node_us median_delay_us captured_by",
            opens="",
            is_offered=lambda trace: len(replays(trace)) > 0,
        ),
        *site_groupings(_SUMS, opens=""),
    ),
    bars="total_us dur_us",
)


def _columns(trace: Trace, rows: Int64, part: Part | None) -> tuple[Column, ...]:
    slices, trace_links = trace.slices, links(trace)
    lane = lane_numbers(trace)
    setup = configuration(trace, rows)
    grid, block, registers, shared, estimate = setup.columns()
    fit, rates = residency(trace, rows, setup).columns(), rate_columns(trace, rows)
    kind = np.select([slices.kind[rows] == Kind.MEMCPY, slices.kind[rows] == Kind.MEMSET], [1, 2], 0)
    index = index_in_step(trace, trace_links.gpu, rows, part)
    ops, op_texts, captured = op_names(trace, rows)
    library, library_texts, likely = libraries(trace, rows)
    use, use_texts, use_likely = tensor_core_use(trace, rows)
    return (
        numbers(col.INDEX, index),
        step_column(trace, rows, "Number of the step in which the work was launched."),
        coded(col.KIND.but(help="Kernel, memcpy or memset."), kind, _KIND_NAMES),
        coded(col.KERNEL_NAME, slices.name[rows], trace.names),
        *_readings(trace, rows),
        micros(col.START_US, slices.start[rows]),
        micros(col.DUR_US.but(help="Duration on the GPU."), slices.dur[rows]),
        numbers(col.DEVICE, lane.device[slices.lane[rows]]),
        numbers(col.STREAM, lane.stream[slices.lane[rows]]),
        grid,
        block,
        registers,
        shared,
        *(fit[name] for name in ("occupancy_pct", "limiter", "waves")),
        numbers(col.CORRELATION, slices.correlation[rows]),
        coded(col.OP.but(help=_OP_HELP), ops, op_texts, doubtful=captured),
        coded(col.ANNOTATION, names_of(trace, trace_links.annotation[rows]), trace.names),
        *_timing(trace, rows),
        *(rates[name] for name in ("flops", "bytes", "tflops", "gbps", "bound", "peak_pct", "roofline_us")),
        estimate,
        *(fit[name] for name in ("bound_occupancy_pct", "tail_pct", "blocks_per_sm", "occupancy_mark")),
        graph_column(trace, rows),
        *mark_columns(trace, rows),
        coded(col.PURPOSE, *purposes(trace, rows)),
        coded(col.LIBRARY, library, library_texts, doubtful=likely),
        coded(col.TENSOR_CORES, use, use_texts, doubtful=use_likely),
        *site_columns(trace, rows),
    )


def _readings(trace: Trace, rows: Int64) -> tuple[Column, Column]:
    """Columns short_name and family, computed once per distinct name."""
    names, index = np.unique(trace.slices.name[rows], return_inverse=True)
    shorts = Strings()
    ids = np.array([shorts.intern(short_kernel(trace.names[name])) for name in names.tolist()], np.int32)
    return (
        coded(col.SHORT_NAME, ids[index], shorts),
        coded(col.FAMILY, families(trace, rows), _FAMILY_NAMES),
    )


def _timing(trace: Trace, rows: Int64) -> tuple[Column, Column, Column]:
    """Columns launch_start_us, launch_delay_us and gap_before_us."""
    slices, trace_links = trace.slices, links(trace)
    launch = trace_links.launch[rows]
    start = slices.start[launch]
    delay, gap = launch_delay(trace, rows), gap_before(trace, rows)
    return (
        micros(col.LAUNCH_START_US, start, null=launch < 0),
        micros(col.LAUNCH_DELAY_US, delay, null=delay == NULL),
        micros(col.GAP_BEFORE_US, gap, null=gap < 0),
    )


def gap_before(trace: Trace, rows: Int64) -> Int64:
    """Idle time (ns) of the device before each activity; -1 for the first of a device."""
    known, gap = _gaps_before(trace)
    return gap[np.searchsorted(known, rows)]


@kept(on_disk=True)
def _gaps_before(trace: Trace) -> tuple[Int64, Int64]:
    """The GPU activities, ascending, and the idle time (ns) of the device before each."""
    gpu, slices = links(trace).gpu, trace.slices
    device = lane_numbers(trace).process[slices.lane[gpu]]
    gap = np.full(len(gpu), -1, np.int64)
    for number in distinct(device):
        mine = np.flatnonzero(device == number)
        reach = np.maximum.accumulate(slices.end[gpu[mine]])
        gap[mine[1:]] = np.maximum(slices.start[gpu[mine[1:]]] - reach[:-1], 0)
    order = np.argsort(gpu)
    return gpu[order], gap[order]


def _grouped(trace: Trace, rows: Int64, by: str, part: Part | None) -> Table:
    dur = time_within(trace, rows, part)
    ids, texts, help = group_keys(trace, rows, by)
    alike = group(ids)
    total = alike.sum(dur)
    longest = rows[alike.largest(dur)]
    whole = max(float(total.sum()), 1.0)
    likely = _inferred(trace, longest, by)
    table = Table(
        (
            coded(
                col.KERNEL_NAME if by == "name" else col.COLUMNS[by].but(help=help), alike.key, texts, doubtful=likely
            ),
            *((_readings(trace, longest)[0],) if by == "name" else ()),
            numbers(col.CALLS.but(help="How often it ran."), alike.calls),
            micros(col.TOTAL_US.but(help="Sum of the durations; what runs side by side counts twice."), total),
            micros(col.MEAN_US, total / alike.calls),
            micros(col.MIN_US, dur[alike.smallest(dur)]),
            micros(col.MEDIAN_US, alike.median(dur)),
            micros(col.MAX_US, dur[alike.largest(dur)]),
            numbers(col.PCT.but(help="Share of the sum over all rows."), 100 * total / whole),
        ),
        longest,
        _note(trace, rows),
    )
    return table.take(table.order("total_us", descending=True))


def _inferred(trace: Trace, rows: Int64, by: str) -> Bool | None:
    """Mask of the rows whose group is inferred: a library from a plain name, an operator or line from a capture."""
    if by == "library":
        return libraries(trace, rows)[2]
    if by == "tensor_cores":
        return tensor_core_use(trace, rows)[2]
    if by == "op":
        return op_names(trace, rows)[2]
    return site_of(trace, rows, by)[2] if by in SITES else None


def group_keys(trace: Trace, rows: Int64, by: str) -> tuple[Int64, Sequence[str], str]:
    """The group of each activity as the id in the first column, -1 for none; the texts of the ids; and their help."""
    trace_links = links(trace)
    if by == "op":
        return *op_names(trace, rows)[:2], _OP_HELP
    if by == "annotation":
        return names_of(trace, trace_links.annotation[rows]), trace.names, "The innermost annotation around the launch."
    if by in SITES:
        return *site_of(trace, rows, by)[:2], col.COLUMNS[by].help
    if by == "stream":
        lanes = Strings(f"{lane.process} {lane.name}" for lane in trace.lanes)
        ids = np.array([lanes.find(f"{lane.process} {lane.name}") for lane in trace.lanes], np.int64)
        return ids[trace.slices.lane[rows]], lanes, "The device and the stream."
    if by == "purpose":
        return *purposes(trace, rows), col.PURPOSE.help
    if by == "library":
        return *libraries(trace, rows)[:2], col.LIBRARY.help
    if by == "tensor_cores":
        use, texts, _ = tensor_core_use(trace, rows)
        return np.where(use < 0, texts.intern("unknown"), use), texts, col.TENSOR_CORES.help
    if by == "family":
        family = _readings(trace, rows)[1]
        return family.values.astype(np.int64), family.strings or (), family.help
    return trace.slices.name[rows].astype(np.int64), trace.names, "Name as recorded."


def _note(trace: Trace, rows: Int64) -> str:
    """Caveats about these rows."""
    trace_links = links(trace)
    if len(trace_links.gpu) == 0:
        return no_gpu(trace)
    alone = int((trace_links.launch[trace_links.gpu] < 0).sum())
    if len(rows) == 0:
        return ""
    unlaunched = (
        f"{alone:,} GPU activities have no launch record; they are in no step and their op is unknown or a guess."
    )
    return " ".join(filter(None, (unlaunched if alone else "", occupancy_note(trace))))


STEPS_COMPARED = (3, 60)
"""Least and most steps whose times stand side by side."""
UNGROUPED = "graph"
"""The grouping of kernels whose rows are no sums of kernels by one key."""


@frozen
class _Work:
    """Sums by key over the whole trace."""

    key: Int64
    """Ascending."""
    times: Float64
    """In µs, by key and by the index in `step_labels(trace)`."""
    family: Int64
    """The `Family` of most of the GPU time, -1 for none."""

    def index_of(self, keys: Int64) -> Int64:
        """The index of each key, -1 for one without work."""
        if len(self.key) == 0:
            return np.full(len(keys), -1, np.int64)
        place = np.minimum(np.searchsorted(self.key, keys), len(self.key) - 1)
        return np.where(self.key[place] == keys, place, -1)


def step_times(trace: Trace, pane: str, by: str | None, table: Table) -> Float64 | None:
    """Time in µs of each row in each of `step_labels(trace)`; None for panes whose rows are no sums by a key.

    None as well where there are fewer or more steps than `STEPS_COMPARED`.
    Of operators the time of the GPU activities that they launched themselves; without a GPU their own time on the CPU.
    """
    found = _work_of(trace, pane, by, table)
    if found is None or not STEPS_COMPARED[0] <= len(step_labels(trace)) <= STEPS_COMPARED[1]:
        return None
    work, index = found
    return np.where((index >= 0)[:, None], work.times[index], 0.0)


def row_families(trace: Trace, pane: str, by: str | None, table: Table) -> Int64 | None:
    """The `Family` of what each row ran on the GPU, where most of its time went; -1 for rows without.

    None for panes whose rows stand for nothing on the GPU.
    """
    if pane == "kernels" and by is None and table.slices is not None:
        return families(trace, table.slices)
    found = _work_of(trace, pane, by, table)
    if found is None:
        return None
    work, index = found
    return np.where(index >= 0, work.family[index], -1)


def _work_of(trace: Trace, pane: str, by: str | None, table: Table) -> tuple[_Work, Int64] | None:
    """The work of a pane, and the index in it of each row of its table; None where rows are no sums by a key."""
    if len(table) == 0:
        return None
    key = table.columns[0].values.astype(np.int64)
    if pane == "ops" and by is None:
        work, keys = _of_ops(trace), key * 2 + table["kind"].equal("annotation")
    elif pane == "kernels" and by not in (None, UNGROUPED):
        work, keys = _of_kernels(trace, str(by)), key
    else:
        return None
    return (work, work.index_of(keys)) if len(work.key) else None


@kept
def _of_ops(trace: Trace) -> _Work:
    """By name and whether it is that of an annotation: an operator and an annotation of one name are two rows."""
    cost, gpu = costs(trace), links(trace).gpu
    keys = cost.name * 2 + (trace.slices.kind[cost.row] == Kind.ANNOTATION)
    by_slice = np.full(len(trace.slices), -1, np.int64)
    by_slice[cost.row] = keys
    owner = named_ops(trace)[gpu]
    spent = cost.self_device if len(gpu) else cost.self_cpu
    return _summed(trace, (cost.row, keys, spent), (gpu, np.where(owner >= 0, by_slice[owner], -1)))


@kept
def _of_kernels(trace: Trace, by: str) -> _Work:
    gpu = links(trace).gpu
    keys = np.asarray(group_keys(trace, gpu, by)[0], np.int64)
    return _summed(trace, (gpu, keys, trace.slices.dur[gpu]), (gpu, keys))


def _summed(trace: Trace, spent: tuple[Int64, Int64, Int64], activities: tuple[Int64, Int64]) -> _Work:
    """Sums of slices with their keys and times, and the families of activities with theirs."""
    rows, keys, time = spent
    labels = {number: index for index, number in enumerate(step_labels(trace)[: STEPS_COMPARED[1]])}
    known = np.unique(keys)
    column = np.array([labels.get(number, -1) for number in steps(trace).number.tolist()], np.int64)
    step, shape = step_index(trace, rows), (len(known), len(labels))
    # Outside of all steps the index is -1, as that of a step that is one too many.
    at = np.append(column, -1)[step]
    cell = np.searchsorted(known, keys[at >= 0]) * len(labels) + at[at >= 0]
    times = np.bincount(cell, time[at >= 0], shape[0] * shape[1]).reshape(shape) / 1000
    work = _Work(known, times, np.full(len(known), -1, np.int64))
    gpu, owner = activities
    index = work.index_of(owner)
    gpu, index = gpu[index >= 0], index[index >= 0]
    sums = np.bincount(index * len(Family) + families(trace, gpu), trace.slices.dur[gpu], len(known) * len(Family))
    sums = sums.reshape(-1, len(Family))
    return replace(work, family=np.where(sums.any(axis=1), sums.argmax(axis=1), -1))
