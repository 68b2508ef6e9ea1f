"""The slices that some steps need, so that in a trace of nothing else their numbers stay what they are.

A step has the CPU slices that are open within it and the GPU work that it launched, whenever that ran (R3.3). Around
it stands what its numbers are measured against: work of other steps that held up a stream or was still queued, with
the calls that launched it, and what the thread was in while the device stood idle before the step's first work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.idle.cause_words import stream_waits
from tracetui.idle.gaps import doing
from tracetui.idle.idleness import idleness
from tracetui.idle.waits import flush, sync_calls
from tracetui.linking.graph_dependencies import node_launches
from tracetui.linking.groups import distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool, Int64, union
from tracetui.model.trace import GPU_WORK, Kind, LaneKind, Trace
from tracetui.operators.costs import named_ops, twins

_ON_DEVICE = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC)


@dataclass(frozen=True, eq=False)
class StepSlices:
    """Which slices of a trace some of its steps need; masks with an entry for every slice."""

    own: Bool
    """What the steps hold, and what encloses that."""
    neighbours: Bool
    """Slices of other steps, or of none, that the numbers at the borders rest on; never `own` as well."""
    spans: tuple[Int64, Int64]
    """Starts and ends in ns of the stretches in which the steps or their GPU work ran; disjoint, ascending."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Steps that follow one another."""

    start: int
    end: int
    work: Int64
    """The GPU work that they launched, in order of its start."""


def step_slices(trace: Trace, picked: Int64) -> StepSlices:
    """What some of `steps(trace)` need; `picked` are their indices, ascending."""
    runs = _runs(trace, picked)
    own, neighbours = np.zeros((2, len(trace.slices)), bool)
    for run in runs:
        _hold(trace, run, own)
        _hold_outlasting(trace, run, own)
        _hold_device_lanes(trace, run, own)
    for run in runs:
        if len(run.work):
            _add_neighbours(trace, run, neighbours)
            _add_idle_before(trace, run, neighbours)
            _add_doing(trace, run, own, neighbours)
    _add_named(trace, own, neighbours)
    _add_some_work(trace, own | neighbours, runs[0].start, neighbours)
    _add_end(trace, own | neighbours, neighbours)
    _add_work_of_calls(trace, own | neighbours, neighbours)
    others = np.delete(steps(trace).row, picked)
    own[others] = neighbours[others] = False
    return StepSlices(own, neighbours & ~own, _spans(trace, runs))


def _runs(trace: Trace, picked: Int64) -> list[_Run]:
    every, gpu = steps(trace), links(trace).gpu
    index = step_index(trace, gpu)
    return [
        _Run(int(every.start[run[0]]), int(every.end[run].max()), gpu[np.isin(index, run)])
        for run in np.split(picked, np.flatnonzero(np.diff(picked) > 1) + 1)
    ]


def _add_some_work(trace: Trace, kept: Bool, moment: int, neighbours: Bool) -> None:
    """The work nearest to a moment where none is kept: without any a trace knows no zeros, only that it has no GPU."""
    gpu, launch = links(trace).gpu, links(trace).launch
    if len(gpu) and not kept[gpu].any():
        row = gpu[np.argmin(np.abs(trace.slices.start[gpu] - moment))]
        neighbours[row] = True
        neighbours[launch[row]] |= bool(launch[row] >= 0)


def _nodes_of_calls(trace: Trace, kept: Bool) -> Int64:
    """The event and host nodes of graphs whose launch is kept."""
    rows, launch = node_launches(trace)
    return rows[(launch >= 0) & kept[launch]]


def _add_work_of_calls(trace: Trace, kept: Bool, neighbours: Bool) -> None:
    """The work of every call that is kept, which would look lost otherwise."""
    found = links(trace)
    launch = found.launch[found.launched]
    neighbours[found.launched[kept[launch]]] = True
    neighbours[_nodes_of_calls(trace, kept)] = True


def _spans(trace: Trace, runs: list[_Run]) -> tuple[Int64, Int64]:
    ends = [int(trace.slices.end[run.work].max(initial=run.end)) for run in runs]
    return union(np.array([run.start for run in runs], np.int64), np.array(ends, np.int64))


def overlapping(trace: Trace, start: float, end: float) -> Bool:
    """Mask of the slices that are open within [start, end), in ns; one without a duration is open where it starts."""
    slices = trace.slices
    return np.asarray((slices.start < end) & (np.maximum(slices.end, slices.start + 1) > start))


def _lanes_of(trace: Trace, *kinds: LaneKind) -> Bool:
    """Mask of the slices on lanes of some kinds."""
    return np.array([lane.kind in kinds for lane in trace.lanes], bool)[trace.slices.lane]


def _hold(trace: Trace, run: _Run, own: Bool) -> None:
    """What is open on any thread within the steps, and the work that they launched."""
    own |= overlapping(trace, run.start, run.end) & ~_lanes_of(trace, *_ON_DEVICE)
    own[run.work] = True
    own[_nodes_of_calls(trace, own)] = True


def _hold_outlasting(trace: Trace, run: _Run, own: Bool) -> None:
    """What an op that begins in the steps and outlasts them calls and launches later: its times count all of that."""
    slices, found = trace.slices, links(trace)
    rows = op_rows(trace)
    rows = rows[(slices.start[rows] >= run.start) & (slices.start[rows] < run.end) & (slices.end[rows] > run.end)]
    inside = np.zeros(len(slices), bool)
    for row in rows.tolist():
        last = trace.lanes[slices.lane[row]].last
        inside[row : row + int(np.searchsorted(slices.start[row:last], slices.end[row]))] = True
    own |= inside
    own[found.gpu[(found.launch[found.gpu] >= 0) & inside[found.launch[found.gpu]]]] = True


def _hold_device_lanes(trace: Trace, run: _Run, own: Bool) -> None:
    """The annotations of a stream in which work of the steps ran, and the waits on it in their time."""
    slices = trace.slices
    until = int(slices.end[run.work].max(initial=run.end))
    own |= overlapping(trace, run.start, until) & _lanes_of(trace, LaneKind.SYNC)
    streams = {(lane.pid, lane.tid): number for number, lane in enumerate(trace.lanes) if lane.kind == LaneKind.GPU}
    began, stream = slices.start[run.work], slices.lane[run.work]
    for lane in trace.lanes:
        if lane.kind == LaneKind.GPU_ANNOTATION:
            mine = began[stream == streams.get((lane.pid, lane.tid), -1)]
            rows = slice(lane.first, lane.last)
            own[rows] |= np.searchsorted(mine, slices.end[rows]) > np.searchsorted(mine, slices.start[rows])


def _add_neighbours(trace: Trace, run: _Run, neighbours: Bool) -> None:
    """Work of others that ran, was queued or ended last before the steps' own, and every call that launched it."""
    slices, found = trace.slices, links(trace)
    device = lane_numbers(trace).process[slices.lane]
    gpu = found.gpu[np.isin(device[found.gpu], distinct(device[run.work]))]
    launch = found.launch[gpu].astype(np.int64)
    called = slices.start[found.launch[run.work]]
    running = (slices.start[gpu] <= slices.start[run.work].max()) & (slices.end[gpu] > run.start)
    queued = (launch >= 0) & (slices.start[launch] <= called.max()) & (slices.start[gpu] > called.min())
    near = gpu[running | queued]
    near = np.concatenate([near, *(_before(trace, run, gpu, lane) for lane in distinct(slices.lane[gpu]).tolist())])
    calls = distinct(found.launch[near])
    calls = calls[calls >= 0]
    # A call that launched several counts by the first of them.
    near = np.concatenate([near, gpu[np.isin(launch, calls)]])
    neighbours[near] = neighbours[calls] = True


def _before(trace: Trace, run: _Run, gpu: Int64, lane: int) -> Int64:
    """Of a stream what ended last, and what was launched last, before the steps' first work there or on the device."""
    slices, launch = trace.slices, links(trace).launch
    mine = gpu[slices.lane[gpu] == lane]
    work = run.work[slices.lane[run.work] == lane]
    first = slices.start[work if len(work) else run.work].min()
    earlier = mine[(slices.start[mine] < first) & (slices.end[mine] <= run.start)]
    found: Int64 = earlier[np.argsort(slices.end[earlier], kind="stable")][-1:]
    if len(work):
        called = slices.start[launch[work]].min()
        sooner = mine[launch[mine] >= 0]
        sooner = sooner[slices.start[launch[sooner]] < called]
        found = np.append(found, sooner[np.argsort(slices.start[launch[sooner]], kind="stable")][-1:])
    return found


def _add_idle_before(trace: Trace, run: _Run, neighbours: Bool) -> None:
    """What the launching thread was in while the device stood idle before the steps' first work.

    And what that thread told a stream to wait for since the launch before.
    """
    slices, idle, launch = trace.slices, idleness(trace), links(trace).launch
    overhead = _lanes_of(trace, LaneKind.OVERHEAD)
    for gap in np.flatnonzero((idle.start < run.start) & np.isin(idle.after, run.work)).tolist():
        thread = slices.lane == slices.lane[idle.launch[gap]]
        neighbours |= overlapping(trace, int(idle.start[gap]), run.start) & (thread | overhead)
    waits = stream_waits(trace)
    for lane in distinct(slices.lane[run.work]).tolist() if len(waits) else ():
        work = run.work[slices.lane[run.work] == lane]
        called = launch[work[np.argmin(slices.start[launch[work]])]]
        here = neighbours & (slices.lane == lane) & (launch >= 0)
        since = slices.start[launch[np.flatnonzero(here)]]
        since = since[since < slices.start[called]]
        between = (slices.start[waits] >= since.max(initial=0)) & (slices.start[waits] < slices.start[called])
        neighbours[waits[between & (slices.lane[waits] == slices.lane[called])]] = True


def _add_doing(trace: Trace, run: _Run, own: Bool, neighbours: Bool) -> None:
    """What the launching thread was in during gaps that come after the steps have ended on the CPU."""
    parent = trace.slices.parent
    rows = distinct(doing(trace)[np.isin(idleness(trace).after, run.work)])
    while len(rows := rows[rows >= 0]):
        neighbours[rows[~own[rows]]] = True
        rows = distinct(parent[rows])


def _add_named(trace: Trace, own: Bool, neighbours: Bool) -> None:
    """The ops that calls and work of the steps name by id, and what torch's table adds to calls that name none."""
    slices, found, named = trace.slices, links(trace), named_ops(trace)
    ops = named[own]
    neighbours[ops[ops >= 0]] = True
    if not found.trusted:
        return
    lone, twin = twins(trace, named)
    twin = twin[own[lone]]
    neighbours[twin] = True
    work = slices.of_kind(Kind.SYNC, *GPU_WORK)
    work = work[np.isin(named[work], twin)]
    launch = found.launch[work]
    neighbours[work] = neighbours[launch[launch >= 0]] = True


def _add_end(trace: Trace, kept: Bool, neighbours: Bool) -> None:
    """What comes next where a wait for the device would be the last of all, and so be taken for the profiler's own."""
    slices, found = trace.slices, links(trace)
    waits = np.union1d(sync_calls(trace), flush(trace))
    mine, launches = waits[kept[waits]], found.launches[kept[found.launches]]
    if len(mine) == 0 or len(launches) == 0:
        return
    last = slices.start[mine].max()
    if slices.start[launches].max() < last and not kept[flush(trace)].any():
        later = waits if (slices.start[waits] > last).any() else found.launches
        later = later[slices.start[later] > last]
        neighbours[later[np.argsort(slices.start[later], kind="stable")][:1]] = True
