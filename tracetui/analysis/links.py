"""What belongs to what: launch and GPU work, both and the op that caused them, and the way up to the annotation.

Launch and GPU work are joined by correlation id alone; names and flows decide nothing (R2.8, R2.10). The owner is
the op that the `External id` names where those ids can be trusted (R3.7), else the innermost op around the launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.groups import distinct
from tracetui.analysis.lanes import lane_numbers
from tracetui.analysis.steps import steps
from tracetui.analysis.trees import forest, nearest
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import GPU_WORK, Int32, Kind, Trace

NO_GPU = (
    "There is no GPU activity in this trace. Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] "
    "on a machine with a GPU."
)
NOT_TORCH = "This is no trace of the PyTorch profiler: it holds no GPU activity, and only lanes and names can be read."


@dataclass(frozen=True, eq=False)
class Links:
    """Links between slices as rows of `Trace.slices`; -1 stands for none."""

    gpu: Int64
    """Kernels, copies and fills in order of their start."""
    launches: Int64
    """Runtime and driver calls that put work on the GPU, ascending."""
    launch: Int32
    """For every slice of the trace that is GPU work: its launch."""
    owner: Int32
    """For every runtime call and GPU activity: the op that caused it; -1 on all other slices too."""
    annotation: Int32
    """Likewise the innermost annotation around the call; steps do not count."""
    work: Int64
    """GPU activities that have a launch, sorted by launch, then start."""
    bounds: Int64
    """`work[bounds[i]:bounds[i + 1]]` is what `launches[i]` put on the GPU."""
    trusted: bool
    """Whether `External id` of GPU work names ops; in torch 1.12 to 2.3 it does not (R3.7)."""

    def launch_of(self, row: int) -> int:
        """The call that launched a GPU activity, -1 for none."""
        return int(self.launch[row])

    def kernels_of(self, row: int) -> Int64:
        """What a runtime call put on the GPU, by start; a graph launch has many, most calls none."""
        place = int(np.searchsorted(self.launches, row))
        if place == len(self.launches) or self.launches[place] != row:
            return np.empty(0, np.int64)
        return self.work[self.bounds[place] : self.bounds[place + 1]]

    def owner_of(self, row: int) -> int:
        """The op that caused a runtime call or a GPU activity, -1 for none."""
        return int(self.owner[row])

    @property
    def counts(self) -> Int64:
        """GPU activities of each of `launches`."""
        return np.diff(self.bounds)

    @property
    def first(self) -> Int64:
        """The GPU activity of each of `launches` that starts first."""
        return self.work[self.bounds[:-1]]


def links(trace: Trace) -> Links:
    """All links of the trace, made once."""
    return trace.remember("links", lambda: _make(trace))


def no_gpu(trace: Trace) -> str:
    """What a pane about the GPU says of this trace: why there is none, and how to record it; empty when there is."""
    if len(links(trace).gpu):
        return ""
    if not trace.is_torch:
        return NOT_TORCH
    others = trace.slices.category[trace.slices.kind == Kind.OTHER]
    if len(others) == 0:
        return NO_GPU
    category = trace.categories[int(np.bincount(others).argmax())]
    return (
        f"There is no GPU activity in this trace, but {len(others):,} slices of other categories, "
        f"most of them {category!r}: the lanes show them."
    )


def op_rows(trace: Trace) -> Int64:
    """Rows of the operators, steps of old traces (category `Operator`) excluded; ascending."""

    def find() -> Int64:
        rows = trace.slices.of_kind(Kind.CPU_OP)
        return rows[~np.isin(rows, steps(trace).row)]

    return trace.remember("op rows", find)


def names_of(trace: Trace, rows: NDArray[np.integer]) -> Int64:
    """Name ids of slices, -1 where the row is -1."""
    return np.where(rows >= 0, trace.slices.name[rows], -1).astype(np.int64)


def calls_named(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    """Rows of the runtime and driver calls whose name the pattern finds, ascending."""

    def find() -> Int64:
        rows = trace.slices.of_kind(Kind.RUNTIME)
        used = distinct(trace.slices.name[rows]).tolist()
        return rows[np.isin(trace.slices.name[rows], [i for i in used if pattern.search(trace.names[i])])]

    return trace.remember(("calls named", pattern.pattern), find)


def chain(trace: Trace, row: int) -> list[int]:
    """The slices that led to this one, outermost first and itself last; a launch is followed by its first work."""
    found = links(trace)
    tail = [row]
    if row >= 0 and trace.slices.kind[row] in GPU_WORK:
        above = found.launch_of(row)
        above = above if above >= 0 else found.owner_of(row)
        tail = [above, row] if above >= 0 else [row]
    else:
        tail += found.kernels_of(row)[:1].tolist()
    top = int(trace.slices.parent[tail[0]])
    while top >= 0:
        tail.insert(0, top)
        top = int(trace.slices.parent[top])
    return tail


def follow(trace: Trace, row: int) -> int:
    """The next slice around the circle kernel, launch, op, kernel; -1 where the way ends.

    An annotation or a Python frame leads to the first GPU activity that was launched inside it.
    """
    found = links(trace)
    kind = trace.slices.kind[row]
    if kind in GPU_WORK:
        launch = found.launch_of(row)
        return launch if launch >= 0 else found.owner_of(row)
    work = found.kernels_of(row)
    if kind == Kind.RUNTIME:
        owner = found.owner_of(row)
        return owner if owner >= 0 or len(work) == 0 else int(work[0])
    return first_work(trace, row)


def first_work(trace: Trace, row: int) -> int:
    """The first GPU activity launched inside a slice, on its thread; else the first that names it as owner; or -1."""
    found, slices = links(trace), trace.slices
    last = row + int(np.searchsorted(slices.start[row : trace.lanes[slices.lane[row]].last], slices.end[row]))
    low, high = np.searchsorted(found.launches, [row, max(last, row + 1)])
    work = found.work[found.bounds[low] : found.bounds[high]]
    if len(work) == 0:
        work = found.gpu[found.owner[found.gpu] == row]
    return int(work[np.argmin(slices.start[work])]) if len(work) else -1


def _make(trace: Trace) -> Links:
    slices = trace.slices
    gpu = slices.of_kind(*GPU_WORK)
    gpu = gpu[np.argsort(slices.start[gpu], kind="stable")]
    calls = slices.of_kind(Kind.RUNTIME)
    launch = np.full(len(slices), -1, np.int32)
    launch[gpu] = _join_launches(trace, calls, gpu)
    work = gpu[launch[gpu] >= 0]
    work = work[np.argsort(launch[work], kind="stable")]
    launches, first = np.unique(launch[work], return_index=True)
    bounds = np.append(first, len(work)).astype(np.int64)
    ops = op_rows(trace)
    trusted = _external_ids_name_ops(trace, gpu)
    owner = _around(trace, calls, ops)
    replayed = np.zeros(len(slices), bool)
    replayed[work[np.repeat(np.diff(bounds) > 1, np.diff(bounds))]] = True
    _pass_on(owner, gpu, launch)
    if trusted:
        named = np.concatenate([calls, gpu[~replayed[gpu]]])
        _prefer_named(trace, owner, named, launch, ops)
    notes = np.setdiff1d(slices.of_kind(Kind.ANNOTATION), steps(trace).row, assume_unique=True)
    annotation = _around(trace, calls, notes)
    _pass_on(annotation, gpu, launch)
    return Links(gpu, launches.astype(np.int64), launch, owner, annotation, work, bounds, trusted)


def _join_launches(trace: Trace, calls: Int64, gpu: Int64) -> Int64:
    """The runtime call of each GPU activity by correlation id; ids of 0 and less join nothing."""
    ids, moment = trace.slices.correlation, trace.slices.start[gpu]
    calls = calls[ids[calls] > 0]
    joined = latest(trace, ids, calls, ids[gpu], moment)
    if len(distinct(ids[calls])) < len(calls):
        joined = _join_merged(trace, calls, gpu, joined)
    return np.where(ids[gpu] > 0, joined, -1)


def _join_merged(trace: Trace, calls: Int64, gpu: Int64, joined: Int64) -> Int64:
    """The same where ids repeat because processes were merged into one file.

    Each device is joined with one process: that in which most of its work starts after the launch, and soonest.
    What that process did not launch stays as it was `joined`.
    """
    ids, start = trace.slices.correlation, trace.slices.start
    process = lane_numbers(trace).process[trace.slices.lane]
    result = joined.copy()
    for device in distinct(process[gpu]).tolist():
        mine = np.flatnonzero((process[gpu] == device) & (ids[gpu] > 0))
        moment = start[gpu[mine]]
        best = (0, 0)
        for owner in distinct(process[calls]).tolist():
            trial = latest(trace, ids, calls[process[calls] == owner], ids[gpu[mine]], moment)
            fits = (trial >= 0) & (start[trial] <= moment)
            score = (int(fits.sum()), -int((moment - start[trial])[fits].sum()))
            if score > best:
                best = score
                result[mine] = np.where(fits, trial, joined[mine])
    return result


def latest(trace: Trace, ids: Int64, rows: Int64, wanted: Int64, moment: Int64) -> Int64:
    """Of the `rows` with each wanted id the last that starts at or before the moment, else the first; -1 for none."""
    if len(rows) == 0:
        return np.full(len(wanted), -1, np.int64)
    start = trace.slices.start
    order = rows[np.lexsort((start[rows], ids[rows]))]
    known, first = np.unique(ids[order], return_index=True)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    hit = known[place] == wanted
    if len(known) == len(order):
        return np.where(hit, order[place], -1)
    span = int(start.max()) - int(start.min()) + 2
    key = np.repeat(np.arange(len(known)), np.diff(np.append(first, len(order)))) * span
    key += start[order] - int(start.min())
    spot = np.searchsorted(key, place * span + np.clip(moment - int(start.min()), 0, span - 1), side="right") - 1
    return np.where(hit, order[np.maximum(spot, first[place])], -1)


def _external_ids_name_ops(trace: Trace, gpu: Int64) -> bool:
    """R3.7: ids that mostly equal the activity's own correlation id are the profiler's, not an op's."""
    external, correlation = trace.slices.external[gpu], trace.slices.correlation[gpu]
    given = external > 0
    return bool(given.any() and (external[given] == correlation[given]).mean() <= 0.5)


def _around(trace: Trace, calls: Int64, outer: Int64) -> Int32:
    """For every runtime call the innermost of the `outer` slices that encloses it (R3.8)."""
    mask = np.zeros(len(trace.slices), bool)
    mask[calls] = mask[outer] = True
    rows = np.flatnonzero(mask)
    mask[calls] = False
    is_outer = mask[rows]
    above = nearest(forest(trace, rows), is_outer)
    result = np.full(len(trace.slices), -1, np.int32)
    found = np.where(above >= 0, rows[np.maximum(above, 0)], -1) if len(rows) else above
    result[rows[~is_outer]] = found[~is_outer]
    return result


def _pass_on(target: Int32, gpu: Int64, launch: Int32) -> None:
    """Give GPU work what its launch has."""
    launched = gpu[launch[gpu] >= 0]
    target[launched] = target[launch[launched]]


def _prefer_named(trace: Trace, owner: Int32, rows: Int64, launch: NDArray[np.int32], ops: Int64) -> None:
    """Replace owners by the op whose `External id` a call or activity carries, if that op began before it."""
    slices = trace.slices
    ops = ops[slices.external[ops] > 0]
    call = np.where(launch[rows] >= 0, launch[rows], rows)
    named = latest(trace, slices.external, ops, slices.external[rows], slices.start[call])
    good: Bool = (named >= 0) & (slices.external[rows] > 0)
    good &= slices.start[named] <= slices.start[call]
    process = lane_numbers(trace).process[slices.lane]
    good &= (process[named] == process[call]) | (slices.kind[call] != Kind.RUNTIME)
    owner[rows[good]] = named[good]
