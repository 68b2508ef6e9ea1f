"""Rules about steps that are not like the others: a cold first step, and outliers.

What such a step lost stands in the findings of its causes. These two say that it spoils averages: they are weighed by
the excess, and have no cost of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.residency import configuration, residency
from tracetui.findings.scope import Finding, Scope, severity_of
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.verdict import gap_causes
from tracetui.idle.waits import WORDS, Cause
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.complete_steps import partial_steps
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import step_kinds
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Kind, Trace

MIN_STEPS = 3
"""Minimum steps, not cut short, of which one can differ from the others."""
MIN_EXCESS_RATIO = 1.5
"""Minimum duration of a step unlike the others, relative to their median."""
MAX_UNLIKE_SHARE = 1 / 3
"""Maximum share of the steps that are unlike the others: where more are, the steps are of several kinds."""
MAX_SIZE_RATIO = 1.5
"""Maximum ratio of the requests (of prefills: the tokens) of a server's steps that should take equally long."""
MAX_EQUAL_RATIO = 0.9
"""Maximum excess for the GPU relative to that on the CPU, to be told instead."""
MAX_NUMBERED_STEPS = 5
"""Maximum steps whose numbers are listed."""
MAX_NAMED_STEPS = 12
"""Maximum steps whose durations are listed."""
_TELLING = (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.OVERHEAD)


def cold_step(scope: Scope) -> Iterator[Finding]:
    """The first recorded step takes longer than the others."""
    yield from _unlike(scope, first=True)


def outlier_step(scope: Scope) -> Iterator[Finding]:
    """A later step takes longer than the others."""
    yield from _unlike(scope, first=False)


def _unlike(scope: Scope, first: bool) -> Iterator[Finding]:
    for whole in _comparable(scope.trace):
        if len(whole) >= MIN_STEPS and (not first or whole[0] == 0):
            yield from _unlike_others(scope, whole, first)


def _comparable(trace: Trace) -> list[Int64]:
    """Indices of the steps that should take equally long; steps of a server where they are of one kind and size."""
    every = steps(trace)
    whole = np.flatnonzero(~partial_steps(trace) | (np.arange(len(every)) == 0)) if len(every) else np.empty(0, int)
    if not every.is_served:
        return [whole]
    kinds, groups = step_kinds(trace), []
    for kind, sizes in (("decode", kinds.requests), ("verify", kinds.requests), ("prefill", kinds.tokens)):
        mine = whole[kinds.of_kind(kind)[whole]]
        if len(mine) and sizes[mine].min() > 0 and sizes[mine].max() <= MAX_SIZE_RATIO * sizes[mine].min():
            groups.append(mine)
    return groups


def _unlike_others(scope: Scope, whole: Int64, first: bool) -> Iterator[Finding]:
    """The finding about some steps that should be alike."""
    trace, every = scope.trace, steps(scope.trace)
    # The first of its kind need not be the first of the recording, and then is as warm as the others.
    found = _longest(scope, whole, whole[:1] if first else whole[whole > 0])
    severity = severity_of(found.excess / max(int(found.took[whole].sum()), 1))
    of_step = scope.step is None or scope.step in every.number[found.steps].tolist()
    if len(found.steps) == 0 or len(found.steps) > MAX_UNLIKE_SHARE * len(whole) or severity is None or not of_step:
        return
    worst = int(found.steps[np.argmax(found.took[found.steps])])
    row, reason = _reason(trace, worst, np.setdiff1d(whole, found.steps), int(found.took[worst] - found.usual))
    number, many = int(every.number[worst]), len(found.steps) > 1
    yield Finding(
        "cold-step" if first else "outlier-step",
        severity,
        f"The first step, {number}, is cold: {duration(found.excess)} longer than the others"
        if first
        else f"{_numbers(every.number[found.steps])} not like the others: {duration(found.excess)} longer"
        + (" in all" if many else ""),
        f"step {number} took {duration(int(found.took[worst]))}, the others {duration(found.usual)} in the median"
        + (_listed(found.took) if found.took is scope.step_views[0][0] else "")
        + (f"; most of the excess in {reason}" if reason else ""),
        "Leave it out of every average, and give the profiler's schedule a warm-up step or two: the first time modules "
        "are loaded, libraries initialised and memory allocated."
        if first
        else f"Leave {'them' if many else 'it'} out of averages, and look for what only {'they' if many else 'it'} "
        "did: a checkpoint, an evaluation, memory that had run out, another process.",
        row if row >= 0 else int(every.row[worst]),
        action=f"leave {'these steps' if many else 'this step'} out of averages",
    )


@dataclass(frozen=True, eq=False)
class _Unlike:
    """Steps that took longer than the others."""

    steps: Int64
    """Their indices, ascending."""
    took: Int64
    """What each step of the trace took, in ns."""
    usual: float
    """Median of the others, in ns."""
    excess: int
    """Time in ns by which the steps together are longer."""


def _longest(scope: Scope, whole: Int64, among: Int64) -> _Unlike:
    """Those of some steps that are long in all views, by their times on the CPU unless they differ less for the GPU."""
    for took, usual in scope.step_views:
        among = among[took[among] > MIN_EXCESS_RATIO * np.median(usual[whole])]
    others, found = np.setdiff1d(whole, among), []
    for took, usual in scope.step_views:
        median = float(np.median(usual[others])) if len(others) else 0.0
        found.append(_Unlike(among, took, median, int((took[among] - median).sum())))
    least = min(found, key=lambda each: each.excess)
    return least if least.excess < MAX_EQUAL_RATIO * found[0].excess else found[0]


def _numbers(numbers: Int64) -> str:
    """Numbers of steps with their verb: `Step 4 is`, `Steps 4, 9 and 14 are`, `12 steps are`."""
    listed = [str(number) for number in numbers.tolist()]
    if len(listed) == 1:
        return f"Step {listed[0]} is"
    if len(listed) > MAX_NUMBERED_STEPS:
        return f"{len(listed)} steps are"
    return f"Steps {', '.join(listed[:-1])} and {listed[-1]} are"


def _listed(took: Int64) -> str:
    """The durations of all steps, where there are few."""
    if len(took) > MAX_NAMED_STEPS:
        return ""
    return " (" + ", ".join(duration(int(each)) for each in took.tolist()) + ")"


def _reason(trace: Trace, worst: int, others: Int64, excess: int) -> tuple[int, str]:
    """A slice of the step, and in words what it has more of than the mean of the others, if that is half of the excess.

    The cause of idle time with the largest excess, or the name of the slices where these have more.
    """
    idle = gap_causes(trace).by_step
    more = idle[worst] - idle[others].mean(axis=0)
    cause = int(np.argmax(more))
    row, name, extra = _longest_excess(trace, worst, others)
    if max(more[cause], extra) < excess / 2:
        return row, ""
    if more[cause] >= extra:
        return row, f"{WORDS[cause]}, {duration(float(more[cause]))} of GPU idle time"
    return row, f"{name}, {duration(extra)}"


def _longest_excess(trace: Trace, worst: int, others: Int64) -> tuple[int, str, float]:
    """The longest slice of the name that took most self time beyond the mean of the other steps; and how much."""
    slices = trace.slices
    rows = slices.of_kind(*_TELLING)
    index = step_index(trace, rows)
    # What waits for the GPU takes as long as the GPU does.
    held = ~np.isin(rows, steps(trace).row) & ~np.isin(rows, indicating_slices(trace)[Cause.HOST_SYNC])
    held &= (index == worst) | np.isin(index, others)
    rows, mine = rows[held], (index == worst)[held]
    if not mine.any():
        return -1, "", 0.0
    names, spent = group(slices.name[rows]), slices.self_time[rows]
    more = names.sum(spent * mine) - names.sum(spent * ~mine) / len(others)
    longest = int(np.argmax(more))
    here = rows[mine & (names.member == longest)]
    if len(here) == 0 or more[longest] <= 0:
        return -1, "", 0.0
    row = int(here[np.argmax(slices.self_time[here])])
    return row, trace.name_of(row), float(more[longest])


# Rule about kernels of several streams that run one after another although nothing orders them.
#
# It speaks on strong evidence only: the later kernel had been launched and its stream was free while the earlier one
# ran with few blocks, and no call made a stream wait for another.

MIN_PAIRS = 20
"""Minimum kernels that waited for one of another stream."""
MIN_PAIR_SHARE = 0.5
"""Minimum share of the changes from one stream to another at which a kernel waited so."""
MAX_ORDERED = 0.1
"""Maximum calls that order streams, relative to the changes from one to another."""
MAX_OVERLAP = 0.02
"""Maximum share of the time of the streams in which kernels of two of them ran at once."""
MAX_COVERAGE = 0.5
"""Maximum blocks per multiprocessor of a kernel that leaves room for one beside it."""
_ORDERING = re.compile(r"(StreamWaitEvent|EventSynchronize|StreamSynchronize|DeviceSynchronize|GraphLaunch)", re.I)


def serialised_streams(scope: Scope) -> Iterator[Finding]:
    """Kernels of several streams run one after another although nothing orders them and both would fit."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.computing
    streams = distinct(slices.lane[rows])
    if len(streams) < 2:
        return
    rows = rows[np.lexsort((slices.start[rows], lane_numbers(trace).process[slices.lane[rows]]))]
    if _overlap(trace, rows) > MAX_OVERLAP:
        return
    first, second, changes = _waiting_pairs(trace, rows)
    ordered = len(calls_named(trace, _ORDERING)) > MAX_ORDERED * changes
    if ordered or len(first) < max(MIN_PAIRS, MIN_PAIR_SHARE * changes):
        return
    # At best the others run beside the stream that takes longest.
    each = group(slices.lane[rows]).sum(slices.dur[rows])
    possible = min(int(np.minimum(slices.dur[first], slices.dur[second]).sum()), int(each.sum() - each.max()))
    example = int(second[np.argmax(np.minimum(slices.dur[first], slices.dur[second]))])
    yield from scope.priced(
        "serialised-streams",
        min(possible, scope.gpu_cost(second)),
        f"Kernels of {len(streams)} streams run one after another although nothing orders them",
        f"{counted(len(second), 'kernel')} started only when a kernel of another stream had ended, though launched "
        f"before and though that one left half of the device empty; {duration(possible)} could overlap; the "
        f"longest, {short_kernel(trace.name_of(example))}",
        "Look for what serialises them: work on the default stream between, CUDA_LAUNCH_BLOCKING, one connection for "
        "all streams (CUDA_DEVICE_MAX_CONNECTIONS=1), or streams of one priority that share a hardware queue.",
        example,
        action="let the streams overlap",
    )


def _overlap(trace: Trace, rows: Int64) -> float:
    """Share of the time of the kernels in which two of them ran at once."""
    start, end = trace.slices.start[rows], trace.slices.end[rows]
    reach = np.maximum.accumulate(end)
    shared = np.maximum(np.minimum(reach[:-1], end[1:]) - start[1:], 0).sum()
    return float(shared) / max(float((end - start).sum()), 1.0)


def _waiting_pairs(trace: Trace, rows: Int64) -> tuple[Int64, Int64, int]:
    """Kernels with the one of another stream that then started as soon as it could; and the number of changes."""
    slices, launch = trace.slices, links(trace).launch
    device = lane_numbers(trace).process[slices.lane[rows]]
    first, second = rows[:-1], rows[1:]
    changes = (slices.lane[first] != slices.lane[second]) & (device[1:] == device[:-1])
    first, second = first[changes], second[changes]
    called = launch[second].astype(np.int64)
    free = _end_of_stream(trace, rows)[1:][changes]
    ready = np.maximum(np.where(called >= 0, slices.end[called], np.iinfo(np.int64).max), free)
    waited = (ready <= slices.start[first]) & (slices.start[second] >= slices.end[first])
    setup = configuration(trace, first)
    with np.errstate(invalid="ignore"):
        waited &= residency(trace, first, setup).blocks_per_unit < MAX_COVERAGE
    return first[waited], second[waited], int(changes.sum())


def _end_of_stream(trace: Trace, rows: Int64) -> Int64:
    """When the stream of each kernel had finished the one before it."""
    slices = trace.slices
    lane = slices.lane[rows]
    order = np.argsort(lane, kind="stable")
    ends = slices.end[rows][order]
    before = np.full(len(rows), np.iinfo(np.int64).min)
    follows = np.flatnonzero(lane[order][1:] == lane[order][:-1]) + 1
    before[order[follows]] = ends[follows - 1]
    return before
