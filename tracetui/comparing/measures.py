"""Measures of every part of a side (R3.49), each under a stable name.

Where the steps pane has a column of the same name, the values of a step are equal. `dur_us` of a step in which the CPU
waits for the GPU tells how long the GPU takes; `cpu_us` excludes the waiting and tells what the CPU does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tracetui.comparing.side import CAPTURE, RANGE, RUN, STEP, Side, kept_with_side
from tracetui.devices.kernel_work import kernel_work
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import GpuSpans, gaps_of, gpu_spans
from tracetui.idle.idle_parts import idle_by_cause
from tracetui.idle.scope_times import idle_by_group, idle_stretches, idle_within, recorded_extent, step_periods
from tracetui.idle.utilisation import utilisation
from tracetui.idle.waits import KEYS, WORDS, Cause, final_flush, sync_calls
from tracetui.kernel_names import Family
from tracetui.kernel_names.slice_names import families
from tracetui.linking.groups import distinct
from tracetui.linking.links import calls_named, links, op_rows
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.model.intervals import Bool, Int64, covered
from tracetui.model.recorded import Loss
from tracetui.model.results import attempted, guarded
from tracetui.model.trace import Float64, Kind
from tracetui.operators.costs import is_overlapped
from tracetui.operators.views import idle_rows, idle_view_rows
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
