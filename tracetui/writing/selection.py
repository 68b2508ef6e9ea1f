"""The part of a trace that was asked for: some steps or a range of time, some lanes, with or without stacks.

A selection is made from the columns of the trace alone; `EventFilter` and `PacketFilter` find its bytes in the file.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.idle.gaps import slices_in_gaps
from tracetui.idle.waits import STREAM_WAIT, final_flush, idleness, sync_calls
from tracetui.linking.chains import node_launches
from tracetui.linking.groups import distinct
from tracetui.linking.links import calls_named, latest_with_id, links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.step_sources import no_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Bool, Int64, union
from tracetui.model.trace import GPU_WORK, Kind, LaneKind, Trace
from tracetui.operators.costs import named_ops, substitute_ops
from tracetui.reading.columns import MEMORY_INSTANTS

# The ends of arrows at the slices that are kept: both of an arrow, or none.

_START = 0


def wanted_flows(trace: Trace, kept: Bool) -> Bool:
    """Mask of the ends that stand at kept slices, `kept` having an entry for every slice.

    An end that has no start in the file, of which the profiler writes many, goes with its own slice.
    """
    flows = trace.flows
    if kept.all():
        return np.ones(len(flows), bool)
    row = _rows_at(trace, flows.lane.astype(np.int64), flows.time)
    wanted = np.where(row >= 0, kept[row], False) if len(kept) else np.zeros(len(flows), bool)
    starts, others = np.flatnonzero(flows.phase == _START), np.flatnonzero(flows.phase != _START)
    _, family = np.unique(np.stack([flows.key, flows.id]), axis=1, return_inverse=True) if len(flows) else (0, row)
    start = latest_with_id(family[starts], flows.time[starts], family[others], flows.time[others])
    arrow = np.full(len(flows), -1, np.int64)
    arrow[starts] = np.arange(len(starts))
    arrow[others] = start
    whole = np.ones(len(starts) + 1, bool)
    torn = arrow[~wanted]
    whole[torn[torn >= 0]] = False
    return np.asarray(wanted & whole[arrow])


def _rows_at(trace: Trace, lane: Int64, moment: Int64) -> Int64:
    """The innermost slice of each lane that is open at each moment or ends there, -1 for none."""
    slices = trace.slices
    row = np.full(len(moment), -1, np.int64)
    for number in distinct(lane).tolist():
        first, last = trace.lanes[number].first, trace.lanes[number].last
        mine = np.flatnonzero(lane == number)
        index = np.searchsorted(slices.start[first:last], moment[mine], side="right") - 1
        row[mine] = np.where(index >= 0, first + index, -1)
    over = np.flatnonzero(row >= 0)
    while len(over):
        over = over[slices.end[row[over]] < moment[over]]
        row[over] = slices.parent[row[over]]
        over = over[row[over] >= 0]
    return row


# The slices that some steps need, so that in a trace of nothing else their numbers stay what they are.
#
# A step has the CPU slices that are open within it and the GPU work that it launched, whenever that ran (R3.3). Its
# numbers also need slices around it: work of other steps that kept a stream busy or was still queued, with the calls
# that launched it, and the slices of the thread while the device was idle before the step's first work.

_ON_DEVICE = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC)


@frozen
class StepSlices:
    """The slices of a trace that some of its steps need; masks with an entry for every slice."""

    own: Bool
    """Slices within the steps and those around them."""
    neighbours: Bool
    """Slices of other steps, or of none, that the numbers at the borders need; never `own` as well."""
    spans: tuple[Int64, Int64]
    """Starts and ends in ns of the stretches in which the steps or their GPU work ran; disjoint, ascending."""


@frozen
class _Run:
    """Steps that follow one another."""

    start: int
    end: int
    work: Int64
    """The GPU work that they launched, in order of its start."""


def step_slices(trace: Trace, picked: Int64) -> StepSlices:
    """The slices that some of `steps(trace)` need; `picked` are their indices, ascending."""
    runs = _runs(trace, picked)
    own, neighbours = np.zeros((2, len(trace.slices)), bool)
    for run in runs:
        # Slices that are open on any thread within the steps, and the work that they launched.
        own |= overlapping(trace, run.start, run.end) & ~_on_lanes(trace, *_ON_DEVICE)
        own[run.work] = True
        own[_nodes_of_calls(trace, own)] = True
        _add_outlasting_ops(trace, run, own)
        _add_device_lanes(trace, run, own)
    for run in runs:
        if len(run.work):
            _add_neighbours(trace, run, neighbours)
            _add_idle_before(trace, run, neighbours)
            # Add the slices of the launching thread during gaps after the end of the steps on the CPU.
            parent = trace.slices.parent
            rows = distinct(slices_in_gaps(trace)[np.isin(idleness(trace).after, run.work)])
            while len(rows := rows[rows >= 0]):
                neighbours[rows[~own[rows]]] = True
                rows = distinct(parent[rows])
    _add_ops_by_id(trace, own, neighbours)
    gpu, launch = links(trace).gpu, links(trace).launch
    if len(gpu) and not (own | neighbours)[gpu].any():
        row = gpu[np.argmin(np.abs(trace.slices.start[gpu] - runs[0].start))]
        neighbours[row] = True
        neighbours[launch[row]] |= bool(launch[row] >= 0)
    _add_next_call(trace, own | neighbours, neighbours)
    # Add the work of every call that is kept, which would look lost otherwise.
    kept = own | neighbours
    linked = links(trace)
    launch = linked.launch[linked.launched]
    neighbours[linked.launched[kept[launch]]] = True
    neighbours[_nodes_of_calls(trace, kept)] = True
    others = np.setdiff1d(steps(trace).slices, steps(trace).row[picked])
    own[others] = neighbours[others] = False
    ends = [int(trace.slices.end[run.work].max(initial=run.end)) for run in runs]
    spans = union(np.array([run.start for run in runs], np.int64), np.array(ends, np.int64))
    return StepSlices(own, neighbours & ~own, spans)


def _runs(trace: Trace, picked: Int64) -> list[_Run]:
    all_steps, gpu = steps(trace), links(trace).gpu
    index = step_index(trace, gpu)
    return [
        _Run(int(all_steps.start[run[0]]), int(all_steps.end[run].max()), gpu[np.isin(index, run)])
        for run in np.split(picked, np.flatnonzero(np.diff(picked) > 1) + 1)
    ]


def _nodes_of_calls(trace: Trace, kept: Bool) -> Int64:
    """The event and host nodes of graphs whose launch is kept."""
    rows, launch = node_launches(trace)
    nodes: Int64 = rows[(launch >= 0) & kept[launch]]
    return nodes


def overlapping(trace: Trace, start: float, end: float) -> Bool:
    """Mask of the slices that are open within [start, end), in ns; one without a duration is open where it starts."""
    slices = trace.slices
    return np.asarray((slices.start < end) & (np.maximum(slices.end, slices.start + 1) > start))


def _on_lanes(trace: Trace, *kinds: LaneKind) -> Bool:
    """Mask of the slices on lanes of some kinds."""
    return np.array([lane.kind in kinds for lane in trace.lanes], bool)[trace.slices.lane]


def _add_outlasting_ops(trace: Trace, run: _Run, own: Bool) -> None:
    """Add the later calls and work of an op that begins in the steps and outlasts them: its times count all of that."""
    slices, linked = trace.slices, links(trace)
    rows = op_rows(trace)
    rows = rows[(slices.start[rows] >= run.start) & (slices.start[rows] < run.end) & (slices.end[rows] > run.end)]
    inside = np.zeros(len(slices), bool)
    for row in rows.tolist():
        last = trace.lanes[slices.lane[row]].last
        inside[row : row + int(np.searchsorted(slices.start[row:last], slices.end[row]))] = True
    own |= inside
    own[linked.gpu[(linked.launch[linked.gpu] >= 0) & inside[linked.launch[linked.gpu]]]] = True


def _add_device_lanes(trace: Trace, run: _Run, own: Bool) -> None:
    """Add the annotations of streams in which work of the steps ran, and the waits on the device in their time."""
    slices = trace.slices
    until = int(slices.end[run.work].max(initial=run.end))
    own |= overlapping(trace, run.start, until) & _on_lanes(trace, LaneKind.SYNC)
    streams = {(lane.pid, lane.tid): number for number, lane in enumerate(trace.lanes) if lane.kind == LaneKind.GPU}
    began, stream = slices.start[run.work], slices.lane[run.work]
    for lane in trace.lanes:
        if lane.kind == LaneKind.GPU_ANNOTATION:
            starts = began[stream == streams.get((lane.pid, lane.tid), -1)]
            rows = slice(lane.first, lane.last)
            own[rows] |= np.searchsorted(starts, slices.end[rows]) > np.searchsorted(starts, slices.start[rows])


def _add_neighbours(trace: Trace, run: _Run, neighbours: Bool) -> None:
    """Add work of others that ran, was queued or ended last before the steps' own, and the calls that launched it."""
    slices, linked = trace.slices, links(trace)
    device = lane_numbers(trace).process[slices.lane]
    gpu = linked.gpu[np.isin(device[linked.gpu], distinct(device[run.work]))]
    launch = linked.launch[gpu].astype(np.int64)
    called = slices.start[linked.launch[run.work]]
    running = (slices.start[gpu] <= slices.start[run.work].max()) & (slices.end[gpu] > run.start)
    queued = (launch >= 0) & (slices.start[launch] <= called.max()) & (slices.start[gpu] > called.min())
    near = gpu[running | queued]
    near = np.concatenate([near, *(_before(trace, run, gpu, lane) for lane in distinct(slices.lane[gpu]).tolist())])
    calls = distinct(linked.launch[near])
    calls = calls[calls >= 0]
    # A call that launched several counts by the first of them.
    near = np.concatenate([near, gpu[np.isin(launch, calls)]])
    neighbours[near] = neighbours[calls] = True


def _before(trace: Trace, run: _Run, gpu: Int64, lane: int) -> Int64:
    """The work of a stream that ended last, and that was launched last, before the steps' first work there.

    Of a stream without work of the steps, before their first work on the device.
    """
    slices, launch = trace.slices, links(trace).launch
    in_stream = gpu[slices.lane[gpu] == lane]
    work = run.work[slices.lane[run.work] == lane]
    first = slices.start[work if len(work) else run.work].min()
    earlier = in_stream[(slices.start[in_stream] < first) & (slices.end[in_stream] <= run.start)]
    last: Int64 = earlier[np.argsort(slices.end[earlier], kind="stable")][-1:]
    if len(work):
        called = slices.start[launch[work]].min()
        sooner = in_stream[launch[in_stream] >= 0]
        sooner = sooner[slices.start[launch[sooner]] < called]
        last = np.append(last, sooner[np.argsort(slices.start[launch[sooner]], kind="stable")][-1:])
    return last


def _add_idle_before(trace: Trace, run: _Run, neighbours: Bool) -> None:
    """Add the slices of the launching thread while the device was idle before the steps' first work.

    And its calls since the launch before that have a stream wait.
    """
    slices, idle, launch = trace.slices, idleness(trace), links(trace).launch
    overhead = _on_lanes(trace, LaneKind.OVERHEAD)
    for gap in np.flatnonzero((idle.start < run.start) & np.isin(idle.after, run.work)).tolist():
        thread = slices.lane == slices.lane[idle.launch[gap]]
        neighbours |= overlapping(trace, int(idle.start[gap]), run.start) & (thread | overhead)
    waits = calls_named(trace, STREAM_WAIT)
    for lane in distinct(slices.lane[run.work]).tolist() if len(waits) else ():
        work = run.work[slices.lane[run.work] == lane]
        called = launch[work[np.argmin(slices.start[launch[work]])]]
        here = neighbours & (slices.lane == lane) & (launch >= 0)
        since = slices.start[launch[np.flatnonzero(here)]]
        since = since[since < slices.start[called]]
        between = (slices.start[waits] >= since.max(initial=0)) & (slices.start[waits] < slices.start[called])
        neighbours[waits[between & (slices.lane[waits] == slices.lane[called])]] = True


def _add_ops_by_id(trace: Trace, own: Bool, neighbours: Bool) -> None:
    """Add the ops that calls and work of the steps name by id, and those of torch's table for calls that name none."""
    slices, linked, op_of = trace.slices, links(trace), named_ops(trace)
    ops = op_of[own]
    neighbours[ops[ops >= 0]] = True
    if not linked.trusted:
        return
    lone, twin = substitute_ops(trace, op_of)
    twin = twin[own[lone]]
    neighbours[twin] = True
    work = slices.of_kind(Kind.SYNC, *GPU_WORK)
    work = work[np.isin(op_of[work], twin)]
    launch = linked.launch[work]
    neighbours[work] = neighbours[launch[launch >= 0]] = True


def _add_next_call(trace: Trace, kept: Bool, neighbours: Bool) -> None:
    """Add the next call where a wait for the device would be the last of all, as only the profiler's own wait is."""
    slices, linked = trace.slices, links(trace)
    waits = np.union1d(sync_calls(trace), final_flush(trace))
    kept_waits, launches = waits[kept[waits]], linked.launches[kept[linked.launches]]
    if len(kept_waits) == 0 or len(launches) == 0:
        return
    last = slices.start[kept_waits].max()
    if slices.start[launches].max() < last and not kept[final_flush(trace)].any():
        later = waits if (slices.start[waits] > last).any() else linked.launches
        later = later[slices.start[later] > last]
        neighbours[later[np.argsort(slices.start[later], kind="stable")][:1]] = True


Range = tuple[float | None, float | None]
"""A first and a last value; an end that is None is open."""


@frozen(eq=True)
class Wanted:
    """A request for a part of a trace; without limits, for all of it."""

    steps: Range | None = None
    """First and last number of the steps, both included."""
    window: Range | None = None
    """Start and end in ns from the start of the trace."""
    lanes: tuple[str, ...] = ()
    """Texts of which one must be in the name of a lane or of its process."""
    without: tuple[str, ...] = ()
    """Texts of which none may be."""
    stacks: bool = True
    memory: bool = True

    @property
    def everything(self) -> bool:
        """True where no event is left out."""
        return self == Wanted()

    @property
    def timed(self) -> bool:
        """True where events are left out because of their time."""
        return self.steps is not None or self.window is not None


@frozen
class Selection:
    """Masks over the columns of a trace."""

    slices: Bool
    instants: Bool
    flows: Bool
    counters: tuple[Bool, ...]
    """One for each of `Trace.counters`."""
    spans: tuple[Int64, Int64]
    """Starts and ends in ns of the ranges of time that were asked for; disjoint, ascending."""
    neighbours: int
    """Number of slices of other steps, kept for the numbers at the borders."""

    def is_empty(self, trace: Trace) -> bool:
        """True where nothing is in it but the profiler's notes about itself."""
        own = np.array([lane.kind != LaneKind.BOOKKEEPING for lane in trace.lanes], bool)
        slices, instants = self.slices & own[trace.slices.lane], self.instants & own[trace.instants.lane]
        return not (slices.any() or instants.any() or any(mask.any() for mask in self.counters))


def select(trace: Trace, wanted: Wanted) -> Selection:
    """Choose from a trace.

    Raises: UsageError when the trace has no such step.
    """
    neighbours = 0
    if wanted.steps is not None:
        needed = step_slices(trace, numbered(trace, wanted.steps))
        slices, spans, neighbours = needed.own | needed.neighbours, needed.spans, int(needed.neighbours.sum())
    else:
        low, high = wanted.window or (None, None)
        start, end = -np.inf if low is None else low, np.inf if high is None else high
        slices = overlapping(trace, start, end)
        # The moments in ns that lie in [start, end), as one span of whole numbers.
        limits = np.iinfo(np.int64)
        low = limits.min if start < limits.min else -int(-start // 1)
        high = limits.max if end > limits.max else -int(-end // 1)
        spans = np.array([low], np.int64), np.array([high], np.int64)
    lanes = np.array([_is_wanted(f"{lane.process} {lane.name}", wanted) for lane in trace.lanes], bool)
    slices &= lanes[trace.slices.lane]
    if not wanted.stacks:
        slices &= trace.slices.kind != Kind.PYTHON
    return Selection(
        slices=slices,
        instants=_instants(trace, spans, lanes, wanted.memory),
        flows=wanted_flows(trace, slices),
        counters=tuple(_counter(trace, index, spans, wanted) for index in range(len(trace.counters))),
        spans=spans,
        neighbours=neighbours,
    )


def numbered(trace: Trace, wanted: Range) -> Int64:
    """Indices of the steps whose number lies in a range, both ends included.

    Raises: UsageError when there is none.
    """
    number = steps(trace).number
    low, high = wanted
    inside = np.ones(len(number), bool)
    if low is not None:
        inside &= number >= low
    if high is not None:
        inside &= number <= high
    if inside.any():
        return np.flatnonzero(inside)
    if len(number) == 0:
        raise UsageError(f"{no_steps(trace)} --window names a stretch of time.")
    known = ", ".join(map(str, np.unique(number)[:8].tolist())) + (" ..." if len(np.unique(number)) > 8 else "")
    raise UsageError(f"No step has such a number; the steps of this trace are numbered {known}.")


def within(spans: tuple[Int64, Int64], moment: Int64) -> Bool:
    """Mask of the moments that lie in one of the spans."""
    index = np.searchsorted(spans[0], moment, side="right") - 1
    return np.asarray((index >= 0) & (moment < spans[1][index]))


def _is_wanted(name: str, wanted: Wanted) -> bool:
    """True for the name of a lane or counter that was asked for."""
    is_included = not wanted.lanes or any(_contains(name, text) for text in wanted.lanes)
    return is_included and not any(_contains(name, text) for text in wanted.without)


def _contains(name: str, text: str) -> bool:
    """True where a name contains a text; a number counts whole, so that `stream 7` is not in `stream 70`."""
    first = r"(?<!\d)" if text[:1].isdigit() else ""
    last = r"(?!\d)" if text[-1:].isdigit() else ""
    return re.search(first + re.escape(text) + last, name, re.IGNORECASE) is not None


def _instants(trace: Trace, spans: tuple[Int64, Int64], lanes: Bool, memory: bool) -> Bool:
    """Mask of the instants within the spans, and of the profiler's notes about itself."""
    instants = trace.instants
    bookkeeping = np.array([lane.kind == LaneKind.BOOKKEEPING for lane in trace.lanes], bool)
    mask = (within(spans, instants.time) | bookkeeping[instants.lane]) & lanes[instants.lane]
    if not memory:
        mask &= ~np.isin(instants.name, [trace.names.find(name) for name in MEMORY_INSTANTS])
    return np.asarray(mask)


def _counter(trace: Trace, index: int, spans: tuple[Int64, Int64], wanted: Wanted) -> Bool:
    """Mask of the samples within the spans, and of the last one before each, which is valid until then."""
    counter = trace.counters[index]
    if not _is_wanted(f"{counter.process} {counter.name}", wanted):
        return np.zeros(len(counter.time), bool)
    mask = within(spans, counter.time)
    last = np.searchsorted(counter.time, spans[0], side="right") - 1
    mask[last[last >= 0]] = True
    return mask
