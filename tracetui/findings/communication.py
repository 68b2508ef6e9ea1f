"""Rules about communication that nothing hides.

A collective lasts until the slowest rank has come, so its time says little about the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.findings.collective_kinds import MAX_READ_COLLECTIVES, Kinds, form_of, kinds_of
from tracetui.findings.finding import Finding, Severity
from tracetui.findings.scope import Scope, longest
from tracetui.idle.exposure import communicates
from tracetui.linking.groups import Groups, distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Kind, Trace
from tracetui.model.whole_numbers import whole_number
from tracetui.ranks.bandwidth import beyond_shortest

MIN_EXPOSED_SHARE = 0.02
"""Minimum share of the time with communication that nothing hides."""
MIN_HIDDEN_SHARE = 0.1
"""Minimum share of the time with communication that computation hides, to be worth a note."""
MAX_NAMED_KINDS = 3
"""Maximum kinds of collectives named in a sentence."""
MIN_ESTIMATED_SHARE = 0.1
"""Share of the time of equal collectives that must lie beyond the shortest of each for a word about it."""
MIN_WAITING_CALLS = 4
"""Minimum collectives of one size whose times are compared."""
MIN_WAITING_RATIO = 3
"""Minimum ratio of the longest to the median of collectives of one size that tells of waiting."""

_ADVICE = {
    "all-reduce": "Overlap it with computation: gradients in buckets while the backward pass runs "
    "(DistributedDataParallel does), and accumulate over several batches.",
    "all-to-all": "Overlap it with computation that needs nothing of it, such as another micro-batch, or send less: "
    "lower precision, fewer ranks in the group.",
    "all-gather": "Fetch the next layer's parameters while this one computes (FSDP: forward_prefetch, "
    "backward_prefetch), or shard over fewer ranks.",
    "send/recv": "Where they pass activations between stages of a pipeline, use more micro-batches or an interleaved "
    "schedule.",
    "tensor-parallel": "Where layers are split over GPUs, each waits for the exchange: use a smaller tensor-parallel "
    "group, overlap the exchange with the products (asynchronous tensor parallelism), or larger batches.",
}
"""Advice by the kind of collective, or by the form of parallelism."""
_ADVICE["reduce-scatter"] = _ADVICE["all-gather"]
_ADVICE["expert dispatch"] = _ADVICE["expert combine"] = _ADVICE["all-to-all"]
_OTHERWISE = "Overlap it with computation, or send less."


@dataclass(frozen=True, eq=False)
class Exposed:
    """The communication of the device on which most of it is exposed."""

    rows: Int64
    """Kernels that communicate, in order of start."""
    device: str
    """The device in words where there are several with activities, else empty."""
    total: int
    """Time in ns in which at least one of them ran."""
    exposed: int
    """Part of it in which no kernel of the device computed."""


def exposed_communication(scope: Scope) -> Iterator[Finding]:
    """Communication during which nothing computes (R3.30); a note where most of it is hidden."""
    found = _exposed(scope)
    if found is None:
        return
    kinds = kinds_of(scope.trace, found.rows)
    if found.exposed < MIN_EXPOSED_SHARE * scope.time:
        hidden = found.total - found.exposed
        if hidden >= MIN_HIDDEN_SHARE * scope.time:
            yield Finding(
                "exposed-communication",
                Severity.NOTE,
                f"Communication is hidden behind computation: {duration(hidden)} of {duration(found.total)}",
                _parts(scope, found, kinds),
                "It costs little as it is; it competes with the kernels beside it for memory and multiprocessors.",
                longest(scope.trace, found.rows),
            )
        return
    form = form_of(scope.trace, found.rows)
    largest = kinds.names[0]
    mostly = f"{form} {largest}" if form else largest
    only = "" if len(kinds.names) == 1 else "mostly "
    advice = _ADVICE.get(form) or _ADVICE.get(largest, _OTHERWISE)
    if largest == "all-reduce" and not form and not scope.program.has_backward:
        advice = _ADVICE["tensor-parallel"]
    yield from scope.priced(
        "exposed-communication",
        found.exposed,
        f"Exposed communication{found.device}, {only}{mostly}",
        _parts(scope, found, kinds) + _waiting(scope.trace, found.rows),
        f"A collective lasts until the slowest rank has come: compare ranks before blaming the network. {advice}",
        longest(scope.trace, found.rows),
        action="compare this rank with the others",
    )


def _exposed(scope: Scope) -> Exposed | None:
    """The exposure of the device with the most of it; None without communication."""
    trace, slices = scope.trace, scope.trace.slices
    rows = _in_time(scope)
    if len(rows) == 0:
        return None
    comm = rows[communicates(trace, rows)]
    process = lane_numbers(trace).process
    compute = rows[(slices.kind[rows] == Kind.KERNEL) & ~communicates(trace, rows)]
    every = distinct(process[slices.lane[rows]]).tolist()
    measured = []
    for number in distinct(process[slices.lane[comm]]).tolist():
        mine = comm[process[slices.lane[comm]] == number]
        beside = compute[process[slices.lane[compute]] == number]
        both = np.concatenate([mine, beside])
        exposed = covered(slices.start[both], slices.end[both]) - covered(slices.start[beside], slices.end[beside])
        name = trace.lanes[int(slices.lane[mine[0]])].process
        words = f" of {name}" if len(every) > 1 else ""
        total = covered(slices.start[mine], slices.end[mine])
        measured.append(Exposed(mine, words, total, min(exposed, scope.time)))
    return max(measured, key=lambda each: each.exposed, default=None)


def _in_time(scope: Scope) -> Int64:
    """GPU activities of the scope, in order of start; of the whole trace also those launched before the capture."""
    trace, every = scope.trace, steps(scope.trace)
    if scope.step is not None or len(every) == 0 or len(scope.activities) == 0:
        return scope.activities
    rows, slices = links(trace).gpu, trace.slices
    unlaunched = (links(trace).launch[rows] < 0) & (slices.start[rows] >= every.start[0])
    unlaunched &= slices.end[rows] <= slices.end[scope.activities].max()
    inside: Int64 = rows[np.isin(rows, scope.activities) | unlaunched]
    return inside


def _parts(scope: Scope, found: Exposed, kinds: Kinds) -> str:
    """How much there is, how much of it is exposed, and the kinds with their counts and times."""
    dur = scope.trace.slices.dur[found.rows]
    parts = []
    for index, name in enumerate(kinds.names[:MAX_NAMED_KINDS]):
        mine = dur[kinds.member == index]
        parts.append(f"{name} {_times(scope, len(mine))}, {duration(int(mine.sum()))}")
    rest = len(kinds.names) - MAX_NAMED_KINDS
    also = f" and {counted(rest, 'more kind')}" if rest > 0 else ""
    part = "all" if found.exposed == found.total else duration(found.exposed)
    each = f", {duration(found.exposed / scope.rounds)} a step" if scope.rounds > 1 else ""
    exposed = f"{part} of it with no computation beside it{each}" if found.exposed else "all hidden"
    return (
        f"{duration(found.total)} of communication, {exposed}"
        f"; {'; '.join(parts)}{also}; median {duration(float(np.median(dur)))}, longest {duration(int(dur.max()))}"
    )


def _times(scope: Scope, count: int) -> str:
    """How often something ran, and how often in a step: `2,020 times (404 a step)`."""
    return scope.per_step(count, "time")


def _waiting(trace: Trace, rows: Int64) -> str:
    """What the times of equal collectives tell of waiting; empty where sizes are not recorded.

    A rank alone does not know who came when: what a collective takes beyond the shortest of the same group and size is
    waiting or contention.
    """
    rows = rows[:MAX_READ_COLLECTIVES]
    given, types, groups_of = trace.args_of(rows, ["In msg nelems", "dtype", "Process Group Name"])
    numbers = list(map(whole_number, given))
    known = np.array([number is not None for number in numbers], bool)
    if not known.any():
        return ""
    keys: dict[tuple[int, int | None, str, str], int] = {}
    names = trace.slices.name[rows].tolist()
    alike = zip(names, numbers, map(str, types), map(str, groups_of), strict=True)
    member = np.array([keys.setdefault(key, len(keys)) for key in alike], np.int64)
    groups = Groups(np.arange(len(keys)), member)
    dur = trace.slices.dur[rows]
    usual, most = groups.median(dur), np.zeros(len(keys), np.int64)
    np.maximum.at(most, member, dur)
    uneven = (groups.calls >= MIN_WAITING_CALLS) & (most >= MIN_WAITING_RATIO * np.maximum(usual, 1))
    uneven[member[~known]] = False
    estimate = _estimated_waiting(dur[known], member[known])
    if not uneven.any():
        return estimate
    worst = int(np.flatnonzero(uneven)[np.argmax(groups.sum(dur)[uneven])])
    return (
        f"; of one size {duration(usual[worst])} in the median and {duration(int(most[worst]))} at most, "
        f"so ranks wait for each other{estimate}"
    )


def _estimated_waiting(dur: Int64, member: Int64) -> str:
    """How much of the time of collectives of a kind that there are several of may be waiting, as a clause."""
    beyond, told = beyond_shortest(dur, member)
    if beyond < MIN_ESTIMATED_SHARE * told or not beyond:
        return ""
    return f"; ~{duration(beyond)} of {duration(told)} may be waiting or contention, by the shortest of equal ones"
