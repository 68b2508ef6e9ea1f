"""Measures of the parts of a side (R3.49), each under a stable name, and the CPU calls of a side: operators,
annotations and runtime calls, with the costs of the ops pane.

Where the steps pane has a column of the same name, the values of a step are equal. `dur_us` of a step in which the CPU
waits for the GPU tells how long the GPU takes; `cpu_us` excludes the waiting and tells what the CPU does.

View ops without GPU activity and occupancy queries are folded: they belong to the nearest operator around them that is
neither. A view op that the program calls directly stands for itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.comparing.side import CAPTURE, RANGE, RUN, STEP, Side, kept_with_side
from tracetui.devices.descriptions import device_names
from tracetui.devices.kernel_work import kernel_work
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import GpuSpans, gaps_of, gpu_spans
from tracetui.idle.idle_parts import idle_by_cause
from tracetui.idle.scope_times import idle_by_group, idle_stretches, idle_within, recorded_extent, step_periods
from tracetui.idle.utilisation import utilisation
from tracetui.idle.verdict import Verdict, typical_verdict, verdict
from tracetui.idle.waits import KEYS, WORDS, Cause, final_flush, sync_calls
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.slice_names import families
from tracetui.linking.groups import combinations, distinct
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, nearest
from tracetui.model.intervals import Bool, Int64, covered
from tracetui.model.recorded import Loss
from tracetui.model.results import attempted, guarded
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.costs import Costs, is_overlapped
from tracetui.operators.views import INNER_VIEWS, VIEW_OPS, idle_rows, idle_view_rows
from tracetui.tables.occupancy import queries

COUNT = ""
"""Unit of counts."""
CAUSE_HELP = "Gaps attributed to:"
"""Start of the help of measures that are causes of gaps."""
NO_DIRECTIONS = "this file format does not say which copies were of pageable memory"
"""Reason why no time is known for copies of pageable memory."""
MAX_LOST_SHARE = 0.01
"""Maximum share of a part's GPU activities with lost launches, for measures that rest on launches to be known."""
_ON_LAUNCHES = ("launches", "launch_us", "graph_launches", "idle_ops", "idle_op_us")


@frozen
class Measure:
    """One value for every part of a side."""

    name: str
    """Stable name, which ends in the unit where there is one."""
    values: Float64
    """One value per part; NaN where the trace does not hold it."""
    help: str
    unit: str = COUNT
    gap: str = ""
    """Reason why some parts have no value, as part of a sentence; empty where the trace just does not hold it."""


def measures(side: Side) -> dict[str, Measure]:
    """All measures of a side by name, in their order; computed once.

    Raises: AnalysisFailed where some of them failed.
    """
    all_measures, failures = known_measures(side)
    if failures:
        raise failures[0].with_traceback(None)
    return all_measures


@kept_with_side
def known_measures(side: Side) -> tuple[dict[str, Measure], list[AnalysisFailed]]:
    """The measures that could be made, and the failures of the others."""
    makers = (_cpu_times, _gpu_times, _counts, _idle_causes, _moved, _utilisation, _families)

    def some(make: Callable[[Side], Iterator[Measure]]) -> list[Measure]:
        with guarded("A measure"):
            return list(_known(side, make(side)))

    results, failures = attempted(partial(some, make) for make in makers)
    return {each.name: each for result in results for each in result}, failures


def rests_on_launches(name: str) -> bool:
    """True for measures that are unknown for a part whose launches were lost: its launches, and causes of gaps."""
    return name in _ON_LAUNCHES or (name.startswith("idle_") and name.endswith("_us"))


def without_launches(side: Side) -> Bool:
    """Mask of the parts of which too many launches were lost."""
    lost: Bool = side.unlaunched() > MAX_LOST_SHARE * _tally(side.activities()[1], side)
    return lost


def launch_gap(side: Side) -> str:
    """Reason why measures that rest on launches are unknown for some parts, part of a sentence; empty where known."""
    lost = without_launches(side)
    missing, total = side.unlaunched()[lost].sum(), np.isin(side.activities()[1], np.flatnonzero(lost)).sum()
    return f"the launches of {missing:,} of {total:,} GPU activities were not recorded" if lost.any() else ""


def _known(side: Side, all_measures: Iterable[Measure]) -> Iterator[Measure]:
    """The measures without unknown values; causes of gaps that are unknown for all parts are left out."""
    lost, gap = without_launches(side), launch_gap(side)
    for each in all_measures:
        if not rests_on_launches(each.name):
            yield each
        elif each.name in _ON_LAUNCHES or not lost.all():
            yield replace(each, values=np.where(lost, np.nan, each.values), gap=gap or each.gap)


def _cpu_times(side: Side) -> Iterator[Measure]:
    trace = side.trace
    dur = (side.end - side.start) / 1000
    idle = idle_rows(trace) if len(links(trace).gpu) else np.empty(0, np.int64)
    yield Measure("dur_us", dur, f"Duration of the {side.part_kind} on the CPU.", "us")
    yield Measure("cpu_us", dur - _waiting(side) / 1000, "Of that: not spent in calls that wait for the GPU.", "us")
    yield Measure("sync_us", _time(side, sync_calls(trace)), "Time in calls that wait for the GPU.", "us")
    yield Measure("launch_us", _time(side, links(trace).launches), "Time in calls that put work on a GPU.", "us")
    yield Measure("query_us", _time(side, queries(trace)), "Time in occupancy queries.", "us")
    own, gap = np.full(len(side), np.nan), ""
    if len(links(trace).gpu):
        own = _sums(side, idle, side.self_times()[idle]) / 1000
        overlapped = idle[is_overlapped(side.self_times()[idle])]
        if len(overlapped):
            own = np.where(_count(side, overlapped) > 0, np.nan, own)
            gap = f"what {len(overlapped):,} of these operators call overlaps, so that their self time is not known"
    yield Measure("idle_op_us", own, "Self time of operators that put nothing on the GPU.", "us", gap)


def _gpu_times(side: Side) -> Iterator[Measure]:
    rows, part = side.activities()
    times = np.full((3, len(side)), np.nan)
    order = np.argsort(part, kind="stable")
    for index in np.split(order, np.flatnonzero(np.diff(part[order])) + 1) if len(order) else ():
        number, (start, end) = int(part[index[0]]), side.bounds(rows[index])
        times[:, number] = covered(start, end), end.max() - start.min(), (end - start).sum()
    busy, span, total = times / 1000
    yield Measure("gpu_busy_us", busy, "For how long any device ran its work.", "us")
    yield Measure("gpu_span_us", span, "From the first start to the last end of that work.", "us")
    yield from _idle_times(side)
    yield Measure("gpu_work_us", total, "Sum of GPU durations; what runs side by side counts twice.", "us")


@kept_with_side
def _spans(side: Side) -> GpuSpans:
    """The GPU spans of the parts."""
    rows, part = side.activities()
    return gpu_spans(side.trace, rows, part, len(side), side.bounds(rows))


def _idle_times(side: Side) -> Iterator[Measure]:
    """The one idle time of every part (R3.30), other work in the span, and the wait before it."""
    spans = _spans(side)

    def known(times: Int64, mask: Bool) -> Float64:
        return np.where(mask, times / 1000, np.nan)

    within, idle, share = "the span", spans.total_idle, spans.idle_pct
    if side.part_kind == STEP:
        low, high = _periods(side)
        within, idle = "its period", idle_within(side.trace, low, high)
        whole = (high - low) * max(len(spans.device), 1)
        share = np.divide(100 * idle, whole, out=np.full(len(side), np.nan), where=spans.ran & (whole > 0))
        help = "From the end of the step before on the GPU to its own."
        yield Measure("period_us", known(high - low, spans.ran), help, "us")
    others = known(spans.total_others, spans.ran)
    yield Measure(
        "gpu_idle_us", known(idle, spans.ran), f"Time in {within} in which the device ran nothing at all.", "us"
    )
    yield Measure("gpu_idle_pct", share, f"Idle time as a share of {within}.", "%")
    yield Measure(
        "gpu_others_us", others, f"Time in the span in which only work outside of the {side.part_kind} ran.", "us"
    )
    wait = known(spans.total_wait, spans.wait_known)
    yield Measure("wait_before_us", wait, "GPU wait before its first kernel: idle time right before the span.", "us")


def _periods(side: Side) -> tuple[Int64, Int64]:
    """Start and end in ns of the periods of the steps that a side is (R3.90)."""
    low, high = step_periods(side.trace)
    return low[side.step_indices], high[side.step_indices]


def _counts(side: Side) -> Iterator[Measure]:
    trace = side.trace
    rows, part = side.activities()
    is_kernel = trace.slices.kind[rows] == Kind.KERNEL
    has_gpu = len(links(trace).gpu) > 0
    ran = "that ran" if side.part_kind == RANGE else "launched"
    launches, nothing = links(trace).launches, np.full(len(side), np.nan)
    yield Measure("kernels", _tally(part[is_kernel], side), f"Kernels {ran} in it.")
    yield Measure("copies", _tally(part[~is_kernel], side), f"Copies and fills {ran} in it.")
    yield Measure("launches", _count(side, launches), "Calls that put work on a GPU.")
    graphs = np.intersect1d(launches, calls_named(trace, GRAPH_LAUNCH), assume_unique=True)
    yield Measure("graph_launches", _count(side, graphs), "Of these: launches of whole graphs.")
    yield Measure("cpu_ops", _count(side, op_rows(trace)), "Operators on all threads.")
    yield Measure("view_ops", _count(side, idle_view_rows(trace)), "Calls of known view ops that launch nothing.")
    idle = _count(side, idle_rows(trace)) if has_gpu else nothing
    yield Measure("idle_ops", idle, "Operators that put nothing on the GPU, views among them.")
    yield Measure("occupancy_queries", _count(side, queries(trace)), "Calls that ask how many blocks fit.")


def _idle_causes(side: Side) -> Iterator[Measure]:
    """The time of the gaps of the parts by cause, as the gaps pane adds it up.

    A step has what lies in its period, a run or a range what lies within its span, a capture also what lies before it.
    """
    for cause, times in _times_by_cause(side):
        yield Measure(KEYS[cause], times / 1000, f"{CAUSE_HELP} {WORDS[cause].lower()}.", "us")
    if Loss.COPY_DIRECTIONS in side.trace.quality.format_losses and bool((side.trace.slices.kind == Kind.MEMCPY).any()):
        unknown, cause = np.full(len(side), np.nan), Cause.PAGEABLE
        yield Measure(KEYS[cause], unknown, f"{CAUSE_HELP} {WORDS[cause].lower()}.", "us", NO_DIRECTIONS)


def _times_by_cause(side: Side) -> Iterator[tuple[Cause, Int64 | Float64]]:
    """The causes that occur, each with its idle time in ns in every part."""
    if side.part_kind == STEP:
        by_cause = idle_by_group(side.trace, *_periods(side))[1]
        yield from ((Cause(each), by_cause[:, each]) for each in distinct(idle_stretches(side.trace).cause).tolist())
        return
    part, gap = gaps_of(side.trace, _spans(side), waits=side.part_kind not in (RUN, RANGE))
    for cause, spent in idle_by_cause(side.trace).items():
        if spent[gap].any():
            yield cause, _tally(part, side, spent[gap])


def _moved(side: Side) -> Iterator[Measure]:
    """Bytes and operations as far as shapes tell, and the share of the GPU time that these cover."""
    rows, part = side.activities()
    work = kernel_work(side.trace)
    at = work.at(rows)
    moved, done = work.bytes[at], work.flops[at]
    main = work.main[at]
    known = ~np.isnan(np.where(main >= 0, work.bytes[main], moved))
    with np.errstate(invalid="ignore"):
        total = _tally(part, side, side.times(rows))
        share = 100 * _tally(part[known], side, side.times(rows[known])) / total
    for name, values, unit, help in (
        ("moved_bytes", moved, "bytes", "Least bytes to read and write, of the work whose shapes are known."),
        ("flops", done, "flop", "Floating-point operations, of the work whose shapes are known."),
    ):
        has = ~np.isnan(values)
        sums = _tally(part[has], side, values[has]) if has.any() else np.full(len(side), np.nan)
        yield Measure(name, sums, help, unit)
    yield Measure("moved_known_pct", share, "Share of the GPU time of which the bytes are known.", "%")


def _utilisation(side: Side) -> Iterator[Measure]:
    """MFU over the period of steps, a range, the GPU span of runs, or the capture; and what it rests on."""
    rows, part = side.activities()
    trace, spans = side.trace, _spans(side)
    low, high = _periods(side) if side.part_kind == STEP else spans.extents
    if side.part_kind == RANGE:
        low, high = side.start, side.end
    elif side.part_kind == CAPTURE:
        low, high = np.array(recorded_extent(trace)).reshape(2, 1)
    given = trace.step_flops if side.part_kind == STEP else None
    used = utilisation(trace, rows, part, side.times(rows), np.where(spans.ran, high - low, 0), given)
    help = "Model FLOPs utilisation: time that the known operations need at the dense peaks of their precisions."
    yield Measure("mfu_pct", used.mfu_pct, help, "%")
    help = "Share of the GPU time of which the operations and their peak are known."
    yield Measure("flops_known_pct", used.known_pct, help, "%")


def _families(side: Side) -> Iterator[Measure]:
    """Sum of GPU durations of each family that occurs."""
    rows, part = side.activities()
    code = families(side.trace, rows)
    for number in distinct(code).tolist():
        mine = np.flatnonzero(code == number)
        sums = _tally(part[mine], side, side.times(rows[mine])) / 1000
        name = Family(number).name.lower()
        yield Measure(f"{name}_us", sums, f"Sum of GPU durations: {name}.", "us")


def _waiting(side: Side) -> Float64:
    """Time in ns that each part's own thread waited for the GPU, the profiler's last wait included."""
    rows = np.union1d(sync_calls(side.trace), final_flush(side.trace))
    lane = side.trace.slices.lane
    if side.part_kind in (CAPTURE, RANGE):
        launches = links(side.trace).launches
        own = np.full(1, np.bincount(lane[launches]).argmax() if len(launches) else -1)
    else:
        own = lane[side.row]
    part = side.part_of(rows)
    waits = (part >= 0) & (lane[rows] == own[part])
    return _tally(part[waits], side, side.times(rows[waits]))


def _count(side: Side, rows: Int64) -> Float64:
    part = side.part_of(rows)
    return _tally(part[part >= 0], side)


def _time(side: Side, rows: Int64) -> Float64:
    """Time in us of slices that do not nest in each other."""
    return _sums(side, rows, side.times(rows)) / 1000


def _sums(side: Side, rows: Int64, values: Int64) -> Float64:
    part = side.part_of(rows)
    return _tally(part[part >= 0], side, values[part >= 0])


def _tally(part: Int64, side: Side, values: NDArray[np.generic] | None = None) -> Float64:
    """Number of rows of each part, or the sum of their values."""
    weights = None if values is None else np.asarray(values, np.float64)
    return np.bincount(part, weights, len(side)).astype(np.float64)


# Names of CPU slices normalised for comparison between runs and between versions of a program.
#
# torch.compile numbers its regions and names graphs by a hash; its entries are a kind of their own. A generated kernel
# ends in its number within the module, which changes with the program.

COMPILE = "compile"
"""The kind of the entries of torch.compile."""

_COMPILE = re.compile(
    r"TorchDynamo |Torch-Compiled Region|AOTDispatcher |## Call CompiledFxGraph|CompiledFxGraph|Pregraph bytecode"
    r"|Compiled Autograd|CompiledFunction(Backward)?$|autograd::engine::evaluate_function: CompiledFunction"
)
_OF_ONE_RUN = (
    (re.compile(r"(## Call CompiledFxGraph) \S+ ##"), r"\1 ##"),
    (re.compile(r"(CompiledFxGraph) [0-9a-z]{20,}"), r"\1"),
    (re.compile(r"(Torch-Compiled Region): \d+/\d+(_\d+)?"), r"\1"),
    (re.compile(r"(CompiledFunction(Backward)?)\d+$"), r"\1"),
)
_GENERATED = re.compile(r"(?:triton_([a-z]{3}_)?fused_|graph_\d+_(?:kernel_)?cpp_fused_|cpp_fused_)(?P<ops>\w+)")
_PLACE = re.compile(r"^(?:graph_\d+_)?(\w*?fused_\w*?[A-Za-z]\w*?)_\d+(?:_\d+d\w*|(?:_?\d+d[\dcde]*))?$")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_ELSEWHERE = frozenset(["mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution", "linear", "matmul", "einsum"])
"""Operators in the name of a generated kernel that runs after them, and does not replace them."""


def is_compile(name: str) -> bool:
    """True for slices of torch.compile itself; the kernels that it generated are none."""
    return _COMPILE.match(name) is not None


def shared_name(name: str) -> str:
    """The name without what differs between two runs of one program."""
    for pattern, kept in _OF_ONE_RUN:
        name = pattern.sub(kept, name)
    return name


def versionless_name(name: str) -> str:
    """The name without what differs between two versions of a program: the number of a kernel, an address."""
    match = _PLACE.match(name)
    return match[1] if match else _ADDRESS.sub("0x", name)


def is_generated(name: str) -> bool:
    """True for kernels generated by torch.compile, on the GPU or on the CPU."""
    return _GENERATED.match(name) is not None


@cache
def ops_within(name: str) -> frozenset[str]:
    """The operators that a generated kernel replaces, as `aten::gelu`; none for any other name."""
    match = _GENERATED.match(name)
    if match is None:
        return frozenset()
    # Kernels in C++ are named by the grammar of those in Triton.
    fused = decode(f"triton_{match[1] or 'poi_'}fused_{match['ops']}").fused_ops
    return frozenset(f"aten::{op}" for op in fused if op not in _ELSEWHERE) - VIEW_OPS


OP, ANNOTATION, RUNTIME, SLICE, WAIT = "op", "annotation", "runtime", "slice", "wait"
"""Kinds of rows besides torch.compile; a wait is a call in which the CPU waits for the GPU."""

_KINDS = {Kind.CPU_OP: OP, Kind.ANNOTATION: ANNOTATION, Kind.RUNTIME: RUNTIME, Kind.OTHER: SLICE}


class CallKey(NamedTuple):
    """Kind and name that distinguish the rows of a table."""

    kind: str
    name: str


@frozen
class Calls:
    """Parallel arrays, one entry per slice; the steps themselves and the profiler's last wait are left out."""

    row: Int64
    part: Int64
    key: Int64
    """Index in `keys`."""
    into: Int64
    """Index in `keys` of the operator into which the slice is folded, -1 for a slice that stands for itself."""
    self_cpu: Int64
    """In ns; 0 where callees overlap and took more time than the call."""
    overlapped: Bool
    """Mask of the calls of which that is so."""
    cpu: Int64
    """Duration in ns."""
    keys: tuple[CallKey, ...]


@kept_with_side
def calls(side: Side) -> Calls:
    """The calls within the parts of a side, found once."""
    trace, cost = side.trace, side.costs()
    part = side.part_of(cost.row)
    kept = (part >= 0) & np.isin(trace.slices.kind[cost.row], list(_KINDS))
    kept &= ~np.isin(cost.row, np.concatenate([steps(trace).slices, final_flush(trace)]))
    cost, part = cost.take(np.flatnonzero(kept)), part[kept]
    key, keys = _keys(trace, cost)
    host = _hosts(trace, cost.row)
    into = np.where(host >= 0, key[host], -1)
    own = np.maximum(cost.self_cpu, 0)
    return Calls(cost.row, part, key, into, own, is_overlapped(cost.self_cpu), cost.cpu, keys)


def _keys(trace: Trace, cost: Costs) -> tuple[Int64, tuple[CallKey, ...]]:
    """The key of each slice; each name is processed once."""
    kind = trace.slices.kind[cost.row].astype(np.int64)
    waits = np.isin(cost.row, sync_calls(trace))
    pairs = combinations(cost.name, kind, waits.astype(np.int64))
    known: dict[CallKey, int] = {}
    indices = []
    for first in pairs.first.tolist():
        name = cost.texts[int(cost.name[first])]
        sort = WAIT if waits[first] else _KINDS[Kind(int(kind[first]))]
        key = CallKey(COMPILE if sort in (OP, ANNOTATION) and is_compile(name) else sort, shared_name(name))
        indices.append(known.setdefault(key, len(known)))
    return np.array(indices, np.int64)[pairs.member], tuple(known)


def _hosts(trace: Trace, rows: Int64) -> Int64:
    """For each slice the index in `rows` of the operator into which it is folded, -1 for none."""
    asks = np.isin(rows, queries(trace))
    among = np.flatnonzero((trace.slices.kind[rows] == Kind.CPU_OP) | asks)
    parent = forest(trace, rows[among])
    folded = _is_folded(trace, rows[among], parent) | asks[among]
    top = nearest(parent, ~folded)
    # A view op within no other operator stands for itself, and what it calls is folded into it.
    roots = folded & ~asks[among] & (top < 0) & (parent < 0)
    folded &= ~roots
    top = nearest(parent, ~folded)
    host = np.full(len(rows), -1, np.int64)
    inner = np.flatnonzero(folded & (top >= 0))
    host[among[inner]] = among[top[inner]]
    return host


def _is_folded(trace: Trace, rows: Int64, parent: Int64) -> Bool:
    """Mask of the view ops without GPU activity; where there is no GPU, of those that call nothing else either."""
    is_view: Bool = np.isin(rows, idle_view_rows(trace))
    above = np.where(parent >= 0, parent, 0)
    inner = np.isin(trace.slices.name[rows], [trace.names.find(name) for name in INNER_VIEWS])
    is_view |= (parent >= 0) & is_view[above] & inner
    working = is_view.copy()
    working[parent[(parent >= 0) & ~is_view]] = False
    while (lost := (parent >= 0) & ~working & working[above]).any():
        working[parent[lost]] = False
    return working


# Properties of a side besides its measures: how it ran, on which devices, and how it was recorded.

RECORDED = ("device", "dtype", "seed", "cold", "warm_seconds", "shapes", "stack", "memory")
"""Recording options that two recordings should share; how the program was compiled is what is compared."""
THREADS = "threads"
"""A further such option, of the process."""


@frozen(eq=True)
class RecordingConditions:
    """Properties of a side."""

    name: str
    part_kind: str
    """Kind of the parts: `step`, `run` or `capture`."""
    parts: int
    verdict: str | None
    """The verdict on its median part; None where there is none."""
    idle_pct: float
    """The idle share on which that verdict rests, the wait before the first kernel included; NaN without one."""
    compiled_parts: int
    """Number of parts in which torch.compile generated some of what ran (R3.51)."""
    compiled: bool
    """All parts are compiled."""
    graphs: bool
    """CUDA graphs were launched."""
    devices: tuple[str, ...]
    """Names of the GPUs that ran something, where the file names them."""
    torch: str | None
    """Version, where the file says."""
    workload: str | None
    params: Mapping[str, str]
    """Parameters of the workload and recording options, as text."""
    operands: Mapping[str, str]
    """Digests of the weights and inputs, by name."""
    frames: bool
    """Python frames were recorded."""
    cut: bool
    """The file is truncated, or was read in part."""


@kept_with_side
def recording_conditions(side: Side) -> RecordingConditions:
    """The properties of a side, found once."""
    side_calls, (rows, part) = calls(side), side.activities()
    keys = [index for index, key in enumerate(side_calls.keys) if key.kind == COMPILE or is_generated(key.name)]
    name = side.trace.slices.name[rows]
    names = [number for number in distinct(name).tolist() if is_generated(side.trace.names[number])]
    trace, compiled_parts, typical = (
        side.trace,
        len(np.union1d(side_calls.part[np.isin(side_calls.key, keys)], part[np.isin(name, names)])),
        _verdict(side),
    )
    about = trace.metadata.get("tracetui")
    about = about if isinstance(about, Mapping) else {}
    torch, workload, operands = (about.get(key) for key in ("torch", "workload", "operands"))
    operands = operands if isinstance(operands, Mapping) else {}
    return RecordingConditions(
        side.name,
        side.part_kind,
        len(side),
        typical.words if typical else None,
        typical.judged.share if typical else float("nan"),
        compiled_parts,
        0 < len(side) == compiled_parts,
        bool(np.nansum(measures(side)["graph_launches"].values)),
        tuple(name for name in device_names(trace).values() if name in {device.name for device in trace.devices}),
        torch if isinstance(torch, str) else None,
        workload if isinstance(workload, str) else None,
        _params(about),
        {str(name): digest for name, digest in operands.items() if isinstance(digest, str)},
        bool((trace.slices.kind == Kind.PYTHON).any()),
        trace.quality.partial or trace.quality.is_part,
    )


def _verdict(side: Side) -> Verdict | None:
    """The verdict on the trace for a capture, on the median step for steps; None for runs."""
    if side.part_kind == CAPTURE:
        return verdict(side.trace)
    if side.part_kind != STEP:
        return None
    return typical_verdict(side.trace, np.flatnonzero(np.isin(steps(side.trace).row, side.row)).tolist())


def _params(about: Mapping[str, Any]) -> dict[str, str]:
    params, options = (about.get(key) for key in ("params", "options"))
    values = dict(params) if isinstance(params, Mapping) else {}
    values |= {key: options[key] for key in RECORDED if key in options} if isinstance(options, Mapping) else {}
    if THREADS in about:
        values[THREADS] = about[THREADS]
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
