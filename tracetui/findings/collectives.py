"""Rules about single collectives: too many small ones, and one device of several that comes late to them.

Their time is part of the communication that nothing hides and of the idle time, which other findings price: these are
weighed by it and have no cost of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.findings.collective_kinds import MAX_READ_COLLECTIVES, form_of, kinds_of
from tracetui.findings.finding import Finding
from tracetui.findings.program import BACKWARD, OPTIMIZER_STEP
from tracetui.findings.scope import Scope, longest
from tracetui.idle.exposure import communicates
from tracetui.linking.groups import distinct
from tracetui.linking.lanes import is_named, lane_numbers
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration, rounded_percent, size
from tracetui.model.trace import Kind, Trace
from tracetui.model.whole_numbers import whole_number

MIN_SMALL_CALLS = 50
"""Number of collectives of one kind in a step beyond which they are many ..."""
MAX_SMALL_NS = 50_000
"""... and median duration in ns below which they are small."""
MAX_FORWARD_CALLS = 2
"""Maximum of them before the backward pass of a step; more belong to layers and cannot be put together."""
_BYTES = {"Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1}
_PLURALS = {"send/recv": "transfers", "all-to-all": "all-to-all exchanges"}


def small_collectives(scope: Scope) -> Iterator[Finding]:
    """Many collectives in a step that cost their latency: gradients that are reduced one parameter at a time."""
    trace, rounds = scope.trace, _rounds(scope)
    rows = scope.activities[communicates(trace, scope.activities)]
    if len(rows) == 0 or rounds == 0:
        return
    # Of several devices one speaks for all.
    device = lane_numbers(trace).process[trace.slices.lane[rows]]
    rows = rows[device == np.bincount(device).argmax()]
    kinds = kinds_of(trace, rows)
    dur = trace.slices.dur[rows]
    for index, name in enumerate(kinds.names):
        mine = kinds.member == index
        usual = float(np.median(dur[mine]))
        count = int(mine.sum())
        if count <= MIN_SMALL_CALLS * rounds or usual >= MAX_SMALL_NS or _within_layers(scope, rows[mine]):
            continue
        yield from _small(scope, rows[mine], _PLURALS.get(name, f"{name}s"), count / rounds, usual)


def _small(scope: Scope, rows: Int64, things: str, each: float, usual: float) -> Iterator[Finding]:
    trace, slices = scope.trace, scope.trace.slices
    short = rows[slices.dur[rows] < MAX_SMALL_NS]
    process = lane_numbers(trace).process
    beside = scope.computing[process[slices.lane[scope.computing]] == process[slices.lane[rows[0]]]]
    both = np.concatenate([short, beside])
    exposed = covered(slices.start[both], slices.end[both]) - covered(slices.start[beside], slices.end[beside])
    late = scope.cpu_cost(distinct(_outermost(trace, rows)))
    cost = min(exposed + late, scope.time)
    severity = scope.weigh(cost)
    if severity is None:
        return
    yield Finding(
        "small-collectives",
        severity,
        f"{round(each):,} small {things} a step, median {duration(usual)}, that buckets would put together: "
        f"{scope.amount(cost)}",
        f"{len(rows):,} in all{_bytes(trace, rows)}; those under {duration(MAX_SMALL_NS)} run for {duration(exposed)} "
        f"with no computation beside them, and the GPU waits {duration(late)} for their launches: "
        "both are part of the exposed communication and of the idle time",
        "Put them together: DistributedDataParallel reduces gradients in buckets (bucket_cap_mb); by hand, flatten or "
        "coalesce the tensors of a step into a few collectives.",
        longest(trace, rows),
        action="put the collectives together in buckets",
    )


def _rounds(scope: Scope) -> int:
    """The number of steps, or of optimizer steps in a trace without; 0 where nothing tells steps."""
    if len(steps(scope.trace)):
        return scope.rounds
    rows = scope.trace.slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    return int(is_named(scope.trace, rows, OPTIMIZER_STEP.search).sum())


def _outermost(trace: Trace, rows: Int64) -> Int64:
    """The operator or annotation around the launch of each collective, or else the launch."""
    trace_links = links(trace)
    owner, launch = trace_links.owner[rows].astype(np.int64), trace_links.launch[rows].astype(np.int64)
    return np.where(owner >= 0, owner, launch)


def _within_layers(scope: Scope, rows: Int64) -> bool:
    """Whether the collectives belong to layers, as those of tensor parallelism do: some come before any backward.

    Without a backward pass nothing is reduced but what layers need.
    """
    trace, slices, every = scope.trace, scope.trace.slices, steps(scope.trace)
    if form_of(trace, rows) == "tensor-parallel":
        return True
    backward = scope.ops[is_named(trace, scope.ops, BACKWARD.search)]
    if len(backward) == 0:
        return True
    rows = rows[links(trace).launch[rows] >= 0]
    called = slices.start[links(trace).launch[rows]]
    if len(every) == 0:
        return int((called < slices.start[backward].min()).sum()) > MAX_FORWARD_CALLS
    first = np.full(len(every), np.iinfo(np.int64).max)
    index = step_index(trace, backward)
    np.minimum.at(first, index[index >= 0], slices.start[backward[index >= 0]])
    step = step_index(trace, rows)
    early = np.bincount(step[(step >= 0) & (called < first[step])], minlength=len(every))
    picked = chosen(trace, scope.step)
    return bool(np.median(early[picked]) > MAX_FORWARD_CALLS)


def _bytes(trace: Trace, rows: Int64) -> str:
    """The median size of what the collectives send, where it is recorded."""
    numbers, types = trace.args_of(rows[:MAX_READ_COLLECTIVES], ["In msg nelems", "dtype"])
    given = [
        number * _BYTES[kind]
        for number, kind in zip(map(whole_number, numbers), types, strict=True)
        if number is not None and isinstance(kind, str) and kind in _BYTES
    ]
    return f", {size(float(np.median(given)))} in the median" if given else ""


MIN_SHARED_CALLS = 5
"""Minimum collectives that several devices of the trace took part in."""
MIN_TOGETHER_SHARE = 0.8
"""Minimum share of them that run on all devices at once; clocks of merged traces are a little apart."""
MIN_BLAMED_SHARE = 0.6
"""Minimum share of the waiting in them that is for one device, the one that came last."""
_SYMMETRIC = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
"""Kinds of collectives that end for all ranks at once."""


def straggler(scope: Scope) -> Iterator[Finding]:
    """One of the devices in the trace comes late to collectives, and the others wait for it."""
    trace = scope.trace
    calls = _shared_calls(scope)
    if calls is None:
        return
    dur = trace.slices.dur[calls]
    last = np.argmin(dur, axis=0)
    caused = np.bincount(last, dur.max(axis=0) - dur.min(axis=0), len(calls))
    late = int(np.argmax(caused))
    mine = last == late
    if caused[late] < MIN_BLAMED_SHARE * caused.sum():
        return
    waits = (dur - dur[late])[:, mine].sum(axis=1)
    cost = int(waits.max())
    severity = scope.weigh(min(cost, scope.time))
    if severity is None:
        return
    waiting = int(np.argmax(waits))
    names = [trace.lanes[int(trace.slices.lane[row])].process for row in calls[:, 0].tolist()]
    work = [_computing_ns(scope, int(row)) for row in calls[:, 0].tolist()]
    yield Finding(
        "straggler",
        severity,
        f"{names[late]} comes late to collectives: {names[waiting]} waits {scope.amount(min(cost, scope.time))}",
        f"of the waiting in {counted(dur.shape[1], 'collective')} {rounded_percent(100 * caused[late] / caused.sum())} "
        f"is for it; it computes for {duration(work[late])}, {names[waiting]} for {duration(work[waiting])}; "
        "the wait is part of the exposed communication",
        "See what that device does before its collectives: more computation than the others have, or gaps in which its "
        "CPU is late.",
        int(calls[waiting, mine.nonzero()[0][np.argmax((dur[waiting] - dur[late])[mine])]]),
        action="look at what holds that device up",
    )


def _shared_calls(scope: Scope) -> Int64 | None:
    """Collectives of several devices, one row per device and one column per collective; None where they do not match.

    They match where every device runs the same kernels in the same order, and those of one column at the same time.
    """
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.activities[communicates(trace, scope.activities)]
    if len(rows) == 0:
        return None
    kinds = kinds_of(trace, rows)
    rows = rows[np.array([name in _SYMMETRIC for name in kinds.names], bool)[kinds.member]]
    process = lane_numbers(trace).process[slices.lane[rows]]
    each = [rows[process == number] for number in distinct(process).tolist()]
    if len(each) < 2 or len({len(mine) for mine in each}) > 1 or len(each[0]) < MIN_SHARED_CALLS:
        return None
    calls = np.stack(each)
    same = (slices.name[calls] == slices.name[calls[0]]).all()
    together = slices.start[calls].max(axis=0) < slices.end[calls].min(axis=0)
    return calls if same and together.mean() >= MIN_TOGETHER_SHARE else None


def _computing_ns(scope: Scope, row: int) -> int:
    """Time in ns in which the device of a kernel computed."""
    slices, process = scope.trace.slices, lane_numbers(scope.trace).process
    mine = scope.computing[process[slices.lane[scope.computing]] == process[slices.lane[row]]]
    return covered(slices.start[mine], slices.end[mine])
