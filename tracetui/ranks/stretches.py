"""The stretch of a rank before each of its collectives: the time by kind, and the names that ran (R5.5).

A stretch lasts from the end of the symmetric collective before to the arrival at this one. Time is split by what the
device did; names are counted from arrival to arrival, so that ranks which compute beside their communication have the
same names in the same stretch.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from tracetui.frozen import frozen
from tracetui.idle.scope_times import idle_within, recorded_extent, step_periods
from tracetui.linking.autograd import DATA_NAMES, PHASE_NAMES, Phase
from tracetui.linking.frames import is_own
from tracetui.linking.groups import combinations, count_within
from tracetui.linking.links import links, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named, open_at
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.recorded import RankHeader, header_fields
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.operators.key_averages import signatures
from tracetui.ranks.communication import Communication, communication
from tracetui.ranks.rank_summary import (
    OPERATIONS,
    PHASES,
    SYMMETRIC,
    BusyCurve,
    Flag,
    RankCollectives,
    RankSteps,
    RankSummary,
    StretchNames,
)

MAX_NAMES = 16
"""Names kept per stretch, the heaviest; the others are summed."""
MAX_ENTRIES = 24_000
"""Entries kept of all stretches together; beyond it fewer names are kept of each."""
MAX_KNOTS = 1_000
"""Moments at which the busy time so far is kept."""
CONTENDED_SHARE = 0.2
"""Share of a collective beyond which other communication beside it is marked."""
MOMENTS = 16
"""Moments of a stretch at which the host is looked at."""
MIN_HOST_SHARE = 0.2
"""Minimum share of a stretch in which the device is idle for the place of the host to be looked up."""
_SHAPED = re.compile(r"^aten::(?:mm|addmm|bmm|baddbmm|_scaled_mm|linear|embedding|\w*conv\w*|\w*attention\w*)$")
"""Operators whose first input has the size of the data."""
_NO_PLACE = re.compile(r"^(?:ProfilerStep#|(?:nccl|rccl|gloo|mpi|ucc|xccl|c10d):)")
"""Annotations that tell no place in a program."""
_C10D = re.compile(r"^(?:_?c10d\w*|dist|gloo|mpi|ucc|nccl|rccl|symm_mem)::?|^record_param_comms$")
"""Operators that communicate or wait for it."""
_PHASES = (
    (PHASE_NAMES[Phase.FORWARD], "forward"),
    (PHASE_NAMES[Phase.BACKWARD], "backward"),
    (DATA_NAMES, "input"),
    (PHASE_NAMES[Phase.OPTIMIZER], "optimizer"),
)
"""Annotations of the parts of a step; where several hold, the last counts."""

Span = tuple[Int64, Int64]
"""Starts and ends of disjoint intervals, ascending."""


@frozen
class StretchParts:
    """Time in ns before each collective; the four parts sum to `stretch`."""

    stretch: Int64
    input: Int64
    host: Int64
    busy: Int64
    comm: Int64


@frozen
class RankActivity:
    """The work of the device of a rank, or where it has none of its CPU."""

    rows: Int64
    """Slices that are no communication."""
    time: Int64
    """Time in ns of each that no slice within it has."""
    busy: Span
    input: Span
    comm: Span


def rank_activity(trace: Trace, comm: Communication) -> RankActivity:
    """GPU activities that do not communicate, or operators that are not those of c10d."""
    slices = trace.slices
    if comm.is_gpu or len(links(trace).gpu):
        rows = slices.of_kind(*GPU_WORK)
        rows = rows[~np.isin(rows, comm.rows)]
        time = slices.dur[rows]
    else:
        rows, time = _cpu_activity(trace, comm)
    return RankActivity(
        rows,
        time,
        union(slices.start[rows], slices.end[rows]),
        _span_of_names(trace, DATA_NAMES),
        union(slices.start[comm.rows], slices.end[comm.rows]),
    )


def _cpu_activity(trace: Trace, comm: Communication) -> tuple[Int64, Int64]:
    slices, rows = trace.slices, op_rows(trace)
    above = _enclosing_op(trace)
    communicates = np.zeros(len(slices), bool)
    communicates[rows] = is_named(trace, rows, _C10D.search)
    # What runs on the thread of a collective while it lasts belongs to it.
    communicates[comm.rows] = True
    parent = slices.parent.astype(np.int64)
    for depth in range(1, int(slices.depth.max(initial=0)) + 1):
        level = np.flatnonzero(slices.depth == depth)
        communicates[level] |= communicates[parent[level]]
    rows = rows[~communicates[rows]]
    inner = rows[above[rows] >= 0]
    inside = np.bincount(above[inner], slices.dur[inner], len(slices)).astype(np.int64)
    return rows, np.maximum(slices.dur[rows] - inside[rows], 0)


def _enclosing_op(trace: Trace) -> Int64:
    """The innermost operator around each slice, -1 for none."""
    slices = trace.slices
    parent = slices.parent.astype(np.int64)
    is_op = slices.kind == Kind.CPU_OP
    above = np.full(len(slices), -1, np.int64)
    for depth in range(1, int(slices.depth.max(initial=0)) + 1):
        level = np.flatnonzero(slices.depth == depth)
        outer = parent[level]
        above[level] = np.where(is_op[outer], outer, above[outer])
    return above


def _span_of_names(trace: Trace, pattern: re.Pattern[str]) -> Span:
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.PYTHON)
    rows = rows[is_named(trace, rows, pattern.search)]
    return union(slices.start[rows], slices.end[rows])


def symmetric(comm: Communication) -> Bool:
    """Mask of the collectives that all members wait for."""
    return np.array([each in SYMMETRIC for each in OPERATIONS], bool)[comm.operation]


def stretch_parts(trace: Trace, comm: Communication, activity: RankActivity) -> StretchParts:
    """The time before each collective, since the end of the symmetric one before or the start of the recording."""
    slices = trace.slices
    arrival = slices.start[comm.rows]
    ends = np.where(symmetric(comm), slices.end[comm.rows], trace.window[0])
    before = np.concatenate([[trace.window[0]], np.maximum.accumulate(ends)[:-1]]) if len(ends) else ends
    low = np.minimum(before, arrival)
    busy = covered_within(*activity.busy, low, arrival)
    with_input = _joined(activity.busy, activity.input)
    fed = covered_within(*with_input, low, arrival) - busy
    covered = covered_within(*_joined(with_input, activity.comm), low, arrival)
    return StretchParts(
        stretch=arrival - low, input=fed, host=arrival - low - covered, busy=busy, comm=covered - busy - fed
    )


def _joined(one: Span, other: Span) -> Span:
    return union(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))


@frozen
class NameEntries:
    """Parallel arrays, one entry per collective and name, by collective and time."""

    collective: Int64
    name: Int64
    """Id in `Trace.names`, -1 for all names beyond the heaviest."""
    calls: Int64
    time: Int64


def name_entries(trace: Trace, comm: Communication, activity: RankActivity) -> NameEntries:
    """The work that began between the arrivals at two symmetric collectives, by name; it belongs to the later one."""
    slices = trace.slices
    targets = np.flatnonzero(symmetric(comm))
    arrival = slices.start[comm.rows[targets]]
    position = np.searchsorted(arrival, slices.start[activity.rows], side="right")
    is_before = position < len(targets)
    where, name = targets[position[is_before]], slices.name[activity.rows[is_before]]
    count = len(trace.names)
    key, member = np.unique(where * count + name, return_inverse=True)
    calls = np.bincount(member, minlength=len(key)).astype(np.int64)
    total = np.bincount(member, activity.time[is_before], len(key)).astype(np.int64)
    return _heaviest(NameEntries(key // max(count, 1), key % max(count, 1), calls, total))


def _heaviest(entries: NameEntries) -> NameEntries:
    """The heaviest names of each collective, as many as there is room for, and the others as one."""
    order = np.lexsort((-entries.time, entries.collective))
    where = entries.collective[order]
    rank = count_within(where) - 1
    kept = MAX_NAMES
    while kept > 1 and int((rank <= kept).sum()) > MAX_ENTRIES:
        kept //= 2
    name = np.where(rank < kept, entries.name[order], -1)
    # Those beyond share one entry per collective.
    key = np.minimum(rank, kept) + where * (kept + 1)
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    return NameEntries(
        where[first],
        name[first],
        np.bincount(member, entries.calls[order], len(first)).astype(np.int64),
        np.bincount(member, entries.time[order], len(first)).astype(np.int64),
    )


def phases(trace: Trace, comm: Communication) -> Int64:
    """The part of the step in which each collective was launched, as an index in PHASES."""
    slices = trace.slices
    moment = slices.start[comm.rows]
    if comm.is_gpu:
        launch = links(trace).launch[comm.rows].astype(np.int64)
        moment = np.where(launch >= 0, slices.start[launch], np.iinfo(np.int64).min + 1)
    phase_of = np.zeros(len(comm.rows), np.int64)
    for pattern, phase in _PHASES:
        span = _span_of_names(trace, pattern)
        phase_of[covered_within(*span, moment, moment + 1) > 0] = PHASES.index(phase)
    return phase_of


def places(trace: Trace, comm: Communication, activity: RankActivity, parts: StretchParts) -> Int64:
    """The annotation or the user's function that the host was in before each collective while the device was idle.

    As ids in `Trace.names`, -1 for none: that in which most of some moments of the stretch lie.
    """
    slices, place = trace.slices, np.full(len(comm.rows), -1, np.int64)
    waits = parts.host + parts.input
    idle = np.flatnonzero(symmetric(comm) & (waits > 0) & (waits >= MIN_HOST_SHARE * parts.stretch))
    launch = links(trace).launch[comm.rows].astype(np.int64)
    callers = slices.lane[launch[launch >= 0]] if (launch >= 0).any() else slices.lane[op_rows(trace)]
    if len(idle) == 0 or len(callers) == 0:
        return place
    main = int(np.bincount(callers).argmax())
    share = (2 * np.arange(MOMENTS) + 1) / (2 * MOMENTS)
    before = (parts.stretch[idle, None] * (1 - share)).astype(np.int64)
    moment = (slices.start[comm.rows[idle], None] - before).ravel()
    works = covered_within(*_joined(activity.busy, activity.comm), moment, moment + 1) > 0
    which, moment = np.repeat(idle, MOMENTS)[~works], moment[~works]
    lane = np.where(launch[which] >= 0, slices.lane[launch[which]], main)
    row, known = open_at(trace, lane, moment), np.zeros(len(slices), bool)
    marks, python = slices.of_kind(Kind.ANNOTATION), slices.of_kind(Kind.PYTHON)
    known[marks] = ~is_named(trace, marks, lambda name: _NO_PLACE.search(name) or DATA_NAMES.search(name))
    known[python] = is_named(trace, python, is_own)
    while (outside := (row >= 0) & ~known[row]).any():
        row[outside] = slices.parent[row[outside]]
    votes = combinations(which[row >= 0], slices.name[row[row >= 0]].astype(np.int64))
    order = np.argsort(np.bincount(votes.member, minlength=len(votes)), kind="stable")
    first = np.flatnonzero(row >= 0)[votes.first[order]]
    place[which[first]] = slices.name[row[first]]
    return place


def input_elements(trace: Trace) -> int:
    """Elements of the first inputs of products and attention, NULL where no shapes are recorded."""
    rows = op_rows(trace)
    inputs = signatures(trace, rows[is_named(trace, rows, _SHAPED.search)])
    sizes = [
        math.prod(each.dims[0]) if each.dims and all(isinstance(size, int) for size in each.dims[0]) else 0
        for each in inputs.known
    ]
    calls = np.bincount(inputs.id[inputs.id >= 0], minlength=len(sizes)).tolist()
    return sum(count * size for count, size in zip(calls, sizes, strict=True)) if sizes else NULL


def contended(trace: Trace, comm: Communication) -> Bool:
    """Mask of the collectives beside which other communication of the rank ran for more than a fifth of them."""
    slices, rows = trace.slices, comm.rows
    lanes = slices.lane[rows]
    beside = np.zeros(len(rows), np.int64)
    for lane in np.unique(lanes).tolist():
        mine, others = lanes == lane, rows[lanes != lane]
        span = union(slices.start[others], slices.end[others])
        beside[mine] = covered_within(*span, slices.start[rows[mine]], slices.end[rows[mine]])
    return beside > CONTENDED_SHARE * slices.dur[rows]


def exposed_within(activity: RankActivity, low: Int64, high: Int64) -> Int64:
    """Time in ns of each window in which the rank only communicated."""
    both = _joined(activity.busy, activity.comm)
    return covered_within(*both, low, high) - covered_within(*activity.busy, low, high)


def busy_curve(activity: RankActivity, edges: Int64, inner: Int64, origin: int) -> BusyCurve:
    """Busy time and exposed communication up to each of some moments; `origin` is their time 0.

    All `edges` are kept, and of the moments between them at most MAX_KNOTS.
    """
    inner = np.unique(inner)
    if len(inner) > MAX_KNOTS:
        inner = inner[np.unique(np.linspace(0, len(inner) - 1, MAX_KNOTS).astype(np.int64))]
    knots = np.unique(np.concatenate([edges, inner]))
    low = np.full(len(knots), knots[0])
    return BusyCurve(knots + origin, covered_within(*activity.busy, low, knots), exposed_within(activity, low, knots))


# A trace as the summary of its rank, in one pass over its columns (R5.2).


def summarise_trace(trace: Trace) -> RankSummary:
    """The summary of the rank that recorded a trace."""
    header = RankHeader(trace.path or trace.label, trace.size_bytes, **header_fields(trace.metadata))
    header = replace(header, begin_ns=trace.origin_ns, is_whole=not trace.quality.is_part)
    comm = communication(trace, header)
    activity = rank_activity(trace, comm)
    names = Strings()
    collectives = _collectives(trace, comm, activity, names)
    low, high = recorded_extent(trace)
    edges = np.concatenate([np.array([low, high], np.int64), *step_periods(trace)])
    inner = np.concatenate([trace.slices.start[comm.rows], trace.slices.end[comm.rows]])
    entries = name_entries(trace, comm, activity)
    used = np.unique(entries.name[entries.name >= 0])
    ids = np.full(len(trace.names) + 1, -1, np.int64)
    ids[used] = [names.intern(trace.names[each]) for each in used.tolist()]
    number = steps(trace).number.astype(np.int64)
    begin, end = step_periods(trace)
    idle = idle_within(trace, begin, end) if len(links(trace).gpu) else np.full(len(number), NULL)
    return RankSummary(
        header=header,
        is_gpu=comm.is_gpu,
        window=(low + trace.origin_ns, high + trace.origin_ns),
        groups=comm.groups,
        steps=RankSteps(number, begin + trace.origin_ns, end + trace.origin_ns, idle),
        collectives=collectives,
        stretch_names=StretchNames(entries.collective, ids[entries.name], entries.calls, entries.time),
        curve=busy_curve(activity, edges, inner, trace.origin_ns),
        names=tuple(names),
        elements=input_elements(trace),
        loss=trace.quality.loss,
        truncated_at=trace.quality.truncated_at,
        notes=tuple(trace.quality.notes),
    )


def _collectives(trace: Trace, comm: Communication, activity: RankActivity, names: Strings) -> RankCollectives:
    slices, rows = trace.slices, comm.rows
    parts = stretch_parts(trace, comm, activity)
    place = places(trace, comm, activity, parts)
    flags = np.where(comm.in_graph, Flag.IN_GRAPH, 0) | np.where(comm.is_guess, Flag.GUESS, 0)
    flags |= np.where(contended(trace, comm), Flag.CONTENDED, 0)
    return RankCollectives(
        start=slices.start[rows] + trace.origin_ns,
        dur=slices.dur[rows],
        operation=comm.operation,
        name=np.fromiter(map(names.intern, comm.names), np.int64, len(comm.names)),
        token=np.fromiter(map(names.intern, comm.tokens), np.int64, len(comm.tokens)),
        group=comm.group,
        seq=comm.seq,
        comms_id=comm.comms_id,
        lane=slices.lane[rows].astype(np.int64),
        peer=comm.peer,
        root=comm.root,
        bytes=comm.bytes,
        received=comm.received,
        step=_step_of_collectives(trace, comm),
        phase=phases(trace, comm),
        flags=flags.astype(np.int64),
        exposed=exposed_within(activity, slices.start[rows], slices.end[rows]),
        stretch=parts.stretch,
        input=parts.input,
        host=parts.host,
        busy=parts.busy,
        comm=parts.comm,
        compile=np.zeros(len(rows), np.int64),
        place=np.array([names.intern(trace.names[each]) if each >= 0 else -1 for each in place.tolist()], np.int64),
    )


def _step_of_collectives(trace: Trace, comm: Communication) -> Int64:
    """The step of each collective by its launch; by its own time where no launch is recorded at all."""
    rows = comm.rows
    if comm.is_gpu and (links(trace).launch[rows] < 0).all():
        return steps(trace).of_moment(trace.slices.start[rows])
    return step_index(trace, rows)
