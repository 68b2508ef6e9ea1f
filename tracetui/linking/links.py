"""Links between launches, GPU activities and the ops and annotations that caused them.

Launch and GPU activity are joined by correlation id alone; names and flows decide nothing (R2.8, R2.10). The owner is
the op that the `External id` names where those ids can be trusted (R3.7), else the innermost op around the launch.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.linking.groups import distinct
from tracetui.linking.step_names import StepName, step_name
from tracetui.linking.trees import disorderly_lanes, forest, is_named, lane_numbers, nearest, nearest_row
from tracetui.model.intervals import Bool, Int64, covered, index_in, index_of, run_starts, union, without
from tracetui.model.recorded import COMPILE_FACTS, COMPILE_PHASES
from tracetui.model.results import kept
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Int32, Kind, Slices, Trace

# Steps that annotations name: those of the profiler, and those of inference servers (R3.1, R3.75).

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
_MAX_DIGITS = 18
"""Maximum digits of a number that fits 64 bits."""


@frozen
class ProfilerSteps:
    """Parallel arrays, one entry per step of the profiler, in order of start."""

    row: Int64
    number: Int64
    """The N of `ProfilerStep#N`."""


@frozen
class NamedSteps:
    """Annotations of servers' steps, in order of start."""

    row: Int64
    parsed: dict[int, StepName]
    """Kind, requests and tokens by the id of each name among them."""


@kept(of_file=True)
def profiler_steps(trace: Trace) -> ProfilerSteps:
    """The steps that the profiler recorded."""
    numbers = {}
    for name_id, name in enumerate(trace.names):
        match = STEP_NAME.fullmatch(name)
        if match and len(match[1]) <= _MAX_DIGITS:
            numbers[name_id] = int(match[1])
    rows = _rows_named(trace.slices, list(numbers))
    number = np.array([numbers[name_id] for name_id in trace.slices.name[rows].tolist()], np.int64)
    return ProfilerSteps(rows, number)


@kept(on_disk=True)
def named_steps(trace: Trace) -> NamedSteps:
    """The annotations of servers' steps, without their copies on GPU lanes (R3.75)."""
    parsed = {name_id: each for name_id, name in enumerate(trace.names) if (each := step_name(name))}
    return NamedSteps(_rows_named(trace.slices, list(parsed)), parsed)


def step_annotations(trace: Trace) -> Int64:
    """Rows of the annotations that mark steps; they are no operators, and no launch is shown with them.

    Where a step only begins with a slice, that runs in it like any other.
    """
    if trace.chosen_steps is not None and not trace.chosen_steps.is_guess:
        return trace.chosen_steps.rows
    recorded = profiler_steps(trace).row
    return recorded if len(recorded) else named_steps(trace).row


def _rows_named(slices: Slices, names: list[int]) -> Int64:
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP) if names else np.empty(0, np.int64)
    rows = rows[np.isin(slices.name[rows], names)]
    return rows[np.argsort(slices.start[rows], kind="stable")]


# Joins of slices by the profiler's ids, and by enclosure in time.


def latest_with_id(ids: Int64, start: Int64, wanted: Int64, moment: Int64) -> Int64:
    """The index of the last candidate with each wanted id that starts at or before the time (ns).

    The first one where all of them start later; -1 where no candidate has the id.
    """
    unique = index_of(ids, wanted)
    if unique is not None:
        return unique
    # The ids repeat, or lie far apart.
    if len(ids) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.lexsort((start, ids))
    known, first = np.unique(ids[order], return_index=True)
    index = index_in(known, wanted)
    is_known = index >= 0
    if len(known) == len(order):
        return np.where(is_known, order[index], -1)
    ticks, width = np.sort(start), len(start) + 1
    key = np.repeat(np.arange(len(known)), np.diff(np.append(first, len(order)))) * width
    key += np.searchsorted(ticks, start[order], side="right")
    last = np.searchsorted(key, index * width + np.searchsorted(ticks, moment, side="right"), side="right") - 1
    return np.where(is_known, order[np.maximum(last, first[index])], -1)


def row_of(rows: Int64, index: Int64) -> Int64:
    """The rows at some indices, -1 where the index is -1."""
    if len(rows) == 0:
        return np.full(len(index), -1, np.int64)
    return np.where(index >= 0, rows[index], -1)


def join_launches(trace: Trace, calls: Int64, gpu: Int64) -> Int64:
    """The runtime call of each GPU activity by correlation id; ids below 1 join nothing."""
    ids = trace.slices.correlation
    calls = calls[ids[calls] > 0]
    joined = _join(trace.slices, calls, gpu)
    if len(distinct(ids[calls])) < len(calls):
        joined = _join_merged(trace, calls, gpu, joined)
    return np.where(ids[gpu] > 0, joined, -1)


def _join(slices: Slices, calls: Int64, gpu: Int64) -> Int64:
    ids, start = slices.correlation, slices.start
    return row_of(calls, latest_with_id(ids[calls], start[calls], ids[gpu], start[gpu]))


def _join_merged(trace: Trace, calls: Int64, gpu: Int64, joined: Int64) -> Int64:
    """Join where ids repeat because the traces of several processes were merged into one file.

    Each device is joined with one process: that in which most of its activities start after the launch, and soonest.
    Activities that this process did not launch stay as `joined`.
    """
    ids, start = trace.slices.correlation, trace.slices.start
    process = lane_numbers(trace).process[trace.slices.lane]
    result = joined.copy()
    for device in distinct(process[gpu]).tolist():
        mine = np.flatnonzero((process[gpu] == device) & (ids[gpu] > 0))
        moment = start[gpu[mine]]
        best = (0, 0)
        for owner in distinct(process[calls]).tolist():
            trial = _join(trace.slices, calls[process[calls] == owner], gpu[mine])
            fits = (trial >= 0) & (start[trial] <= moment)
            score = (int(fits.sum()), -int((moment - start[trial])[fits].sum()))
            if score > best:
                best = score
                result[mine] = np.where(fits, trial, joined[mine])
    return result


def innermost_around(trace: Trace, inner: Int64, outer: Int64) -> Int32:
    """The innermost of the `outer` slices around every slice of `inner`, -1 for all other slices (R3.8)."""
    slices = trace.slices
    is_outer = np.zeros(len(slices), bool)
    is_outer[outer] = True
    is_outer[inner] = False
    result = np.full(len(slices), -1, np.int32)
    result[inner] = nearest_row(slices.parent, is_outer)[inner]
    mixed = disorderly_lanes(trace)[slices.lane[inner]]
    if mixed.any():
        # There the tree depends on which slices take part.
        is_outer[inner[mixed]] = True
        rows = np.flatnonzero(is_outer)
        rows = rows[disorderly_lanes(trace)[slices.lane[rows]]]
        is_outer[inner[mixed]] = False
        enclosing = row_of(rows, nearest(forest(trace, rows), is_outer[rows]))
        is_inner = ~is_outer[rows]
        result[rows[is_inner]] = enclosing[is_inner]
    return result


def copy_to_launched(target: Int32, gpu: Int64, launch: Int32) -> None:
    """Copy the values of launches to the activities that they launched."""
    launched = gpu[launch[gpu] >= 0]
    target[launched] = target[launch[launched]]


def prefer_external(trace: Trace, owner: Int32, rows: Int64, launch: Int32, ops: Int64) -> None:
    """Replace owners by the op that the `External id` of a call or activity names, if that op began before it."""
    slices = trace.slices
    ops = ops[slices.external[ops] > 0]
    call = np.where(launch[rows] >= 0, launch[rows], rows)
    wanted, moment = slices.external[rows], slices.start[call]
    op = row_of(ops, latest_with_id(slices.external[ops], slices.start[ops], wanted, moment))
    good: Bool = (op >= 0) & (wanted > 0)
    good &= slices.start[op] <= moment
    process, lane = lane_numbers(trace).process, slices.lane
    good &= (process[lane[op]] == process[lane[call]]) | (slices.kind[call] != Kind.RUNTIME)
    owner[rows[good]] = op[good]


NO_GPU = (
    "There is no GPU activity in this trace. Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] "
    "on a machine with a GPU."
)
COMPILE_LOG = "This is a log of torch.compile, not of what ran: the pane Compiles says what was compiled, and why."
NOT_TORCH = (
    "This is not a trace of the PyTorch profiler: it holds no GPU activity, and only lanes and names can be read."
)


@frozen
class Links:
    """Links between slices as rows of `Trace.slices`; -1 for none."""

    gpu: Int64
    """Kernels, copies and fills in order of their start."""
    launches: Int64
    """Runtime and driver calls that launched something on the GPU, ascending."""
    launch: Int32
    """The launch of every GPU activity; -1 for all other slices."""
    owner: Int32
    """The op that caused each runtime call and GPU activity; -1 for all other slices too."""
    annotation: Int32
    """The innermost annotation around the launch, steps excluded; -1 for all other slices too."""
    launched: Int64
    """GPU activities that have a launch, sorted by launch, then start."""
    bounds: Int64
    """`launched[bounds[i]:bounds[i + 1]]` are the activities of `launches[i]`."""
    trusted: bool
    """True where the `External id` of GPU activities names ops; in torch 1.12 to 2.3 it does not (R3.7)."""

    def kernels_of(self, row: int) -> Int64:
        """The activities of a runtime call by start; a graph launch has many, most calls none."""
        index = int(np.searchsorted(self.launches, row))
        if index == len(self.launches) or self.launches[index] != row:
            return np.empty(0, np.int64)
        return self.launched[self.bounds[index] : self.bounds[index + 1]]

    def launched_together(self, rows: Int64) -> Int64:
        """Number of GPU activities of the call that launched each slice, 0 without a launch."""
        call = index_in(self.launches, self.launch[rows].astype(np.int64))
        return np.where(call >= 0, self.bounds[call + 1] - self.bounds[call], 0)

    @property
    def counts(self) -> Int64:
        """Number of GPU activities of each of `launches`."""
        return np.diff(self.bounds)

    @property
    def first(self) -> Int64:
        """The first GPU activity of each of `launches`."""
        return self.launched[self.bounds[:-1]]


@kept
def _reach(trace: Trace) -> tuple[Int64, Int64]:
    """The start of each of `links(trace).gpu`, and the latest end of it and those before it, in ns."""
    slices, gpu = trace.slices, links(trace).gpu
    return slices.start[gpu], np.maximum.accumulate(slices.end[gpu])


def activities_between(trace: Trace, low: int, high: int) -> Int64:
    """The GPU activities of which a part lies between two times in ns, in order of start."""
    start, reach = _reach(trace)
    rows = links(trace).gpu[np.searchsorted(reach, low, "right") : np.searchsorted(start, high)]
    return np.compress(trace.slices.end[rows] > low, rows)


@kept(of_file=True)
def links(trace: Trace) -> Links:
    """All links of the trace."""
    slices = trace.slices
    gpu = slices.of_kind(*GPU_WORK)
    gpu = gpu[np.argsort(slices.start[gpu], kind="stable")]
    calls = slices.of_kind(Kind.RUNTIME)
    launch = np.full(len(slices), -1, np.int32)
    launch[gpu] = join_launches(trace, calls, gpu)
    work = gpu[launch[gpu] >= 0]
    work = work[np.argsort(launch[work], kind="stable")]
    ranked = launch[work]
    first = np.flatnonzero(run_starts(ranked))
    launches, bounds = ranked[first].astype(np.int64), np.append(first, len(work))
    ops = op_rows(trace)
    # In traces of some versions most external ids are the activity's own correlation id, and name no op.
    external = slices.external[gpu]
    given = external > 0
    trusted = bool(given.any() and (external[given] == slices.correlation[gpu][given]).mean() <= 0.5)
    owner = innermost_around(trace, calls, ops)
    replayed = np.zeros(len(slices), bool)
    replayed[work[np.repeat(np.diff(bounds) > 1, np.diff(bounds))]] = True
    copy_to_launched(owner, gpu, launch)
    if trusted:
        prefer_external(trace, owner, np.concatenate([calls, gpu[~replayed[gpu]]]), launch, ops)
    annotations = without(slices.of_kind(Kind.ANNOTATION), step_annotations(trace))
    annotation = innermost_around(trace, calls, annotations)
    copy_to_launched(annotation, gpu, launch)
    return Links(gpu, launches, launch, owner, annotation, work, bounds, trusted)


def launch_delay(trace: Trace, rows: Int64) -> Int64:
    """Time (ns) from the start of the launch call of each GPU activity to its own, negative where clocks disagree.

    NULL without a launch, and for all but the first activity of a graph launch (R3.39).
    """
    joined, start = links(trace), trace.slices.start
    launch = joined.launch[rows].astype(np.int64)
    if len(joined.launches) == 0:
        return np.full(len(rows), NULL)
    index = np.minimum(np.searchsorted(joined.launches, launch), len(joined.launches) - 1)
    is_first = (launch >= 0) & (joined.launched[joined.bounds[index]] == rows)
    return np.where(is_first, start[rows] - start[launch], NULL)


def not_torch(trace: Trace) -> str:
    """A sentence that says what a file of no profiler of PyTorch is."""
    return COMPILE_LOG if trace.categories.find(COMPILE_FACTS) >= 0 else NOT_TORCH


def no_gpu(trace: Trace) -> str:
    """The reason why a pane about the GPU is empty, and how to record GPU activity; empty where there is some."""
    if len(links(trace).gpu):
        return ""
    if not trace.is_torch:
        return not_torch(trace)
    others = trace.slices.category[trace.slices.kind == Kind.OTHER]
    others = others[others != trace.categories.find(COMPILE_PHASES)]
    if len(others) == 0:
        return trace.to_record(NO_GPU, f"{NO_GPU.partition(' Record')[0]} Record with nsys profile --trace=cuda,nvtx.")
    category = trace.categories[int(np.bincount(others).argmax())]
    return (
        f"There is no GPU activity in this trace, but {len(others):,} slices of other categories, "
        f"most of them {category!r}: the lanes show them."
    )


@kept(of_file=True)
def op_rows(trace: Trace) -> Int64:
    """Rows of the operators, ascending; steps of old traces (category `Operator`) excluded."""
    rows = trace.slices.of_kind(Kind.CPU_OP)
    return without(rows, step_annotations(trace))


def names_of(trace: Trace, rows: NDArray[np.integer]) -> Int64:
    """Name ids of slices, -1 where the row is -1."""
    return np.where(rows >= 0, trace.slices.name[rows], -1).astype(np.int64)


def calls_named(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    """Rows of the runtime and driver calls whose name matches the pattern, ascending."""
    return slices_named(trace, pattern, Kind.RUNTIME)


def slices_named(trace: Trace, pattern: re.Pattern[str], *kinds: Kind) -> Int64:
    """Rows of the slices of some kinds whose name matches the pattern, ascending; kept with the trace."""
    # Keys are written to disk, which a pattern cannot be.
    return _slices_matching(trace, pattern.pattern, pattern.flags, *map(int, kinds))


@kept(of_file=True)
def _slices_matching(trace: Trace, pattern: str, flags: int, *kinds: int) -> Int64:
    rows = trace.slices.of_kind(*map(Kind, kinds))
    return rows[is_named(trace, rows, re.compile(pattern, flags).search)]


# The GPU activities of a region (an annotation, a Python frame, an op), and busy time as a union of intervals.


@kept
def busy_stretches(trace: Trace) -> tuple[Int64, Int64]:
    """Starts and ends (ns) of the intervals in which any device ran something, ascending and disjoint."""
    gpu = links(trace).gpu
    return union(trace.slices.start[gpu], trace.slices.end[gpu])


def span(slices: Slices, rows: Int64) -> tuple[int, int]:
    """First start and last end (ns) of the slices; (0, 0) for none."""
    if len(rows) == 0:
        return 0, 0
    return int(slices.start[rows].min()), int(slices.end[rows].max())


@frozen
class Region:
    """The GPU activities of a region."""

    rows: Int64
    """Kernels, copies and fills in order of their start."""
    inferred: Bool
    """Mask of activities without launch record, placed by their own start."""
    start: int
    """First start in ns."""
    end: int
    """Last end in ns."""
    busy: int
    """Time in ns in which at least one of them ran."""

    @property
    def span(self) -> int:
        """Time from the first start to the last end in ns; 0 without activities."""
        return self.end - self.start


def region(trace: Trace, row: int) -> Region:
    """The GPU activities of the window of a CPU slice.

    An activity belongs to the window in which it was launched, by any thread of the process. An activity without launch
    record is placed by its own start, which is a guess and marked (R3.3).
    """
    slices, trace_links = trace.slices, links(trace)
    moment, work = _activities_by_cause(trace)
    first, last = np.searchsorted(moment, [slices.start[row], slices.end[row]])
    rows = np.sort(work[first:last])
    launch = trace_links.launch[rows].astype(np.int64)
    process = lane_numbers(trace).process
    source = np.where(launch >= 0, launch, rows)
    mine = (launch < 0) | (process[slices.lane[source]] == process[slices.lane[row]])
    rows, launch = rows[mine], launch[mine]
    order = np.argsort(slices.start[rows], kind="stable")
    rows, launch = rows[order], launch[order]
    begin, end = span(slices, rows)
    return Region(rows, launch < 0, begin, end, covered(slices.start[rows], slices.end[rows]))


@kept
def _activities_by_cause(trace: Trace) -> tuple[Int64, Int64]:
    """The launch time of each GPU activity, or its start where the launch is unknown, ascending; and the activities."""
    trace_links, start = links(trace), trace.slices.start
    launch = trace_links.launch[trace_links.gpu].astype(np.int64)
    moment = start[np.where(launch >= 0, launch, trace_links.gpu)]
    order = np.argsort(moment, kind="stable")
    return moment[order], trace_links.gpu[order]
