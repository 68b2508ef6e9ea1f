"""Rules about communication that nothing hides.

A collective lasts until the slowest rank has come, so its time says little about the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.findings.scope import BACKWARD, OPTIMIZER_STEP, Finding, Scope, Severity, longest
from tracetui.idle.gpu_spans import communicates
from tracetui.kernel_names.decode import decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import Groups, combinations, distinct
from tracetui.linking.lanes import is_named, lane_numbers
from tracetui.linking.links import links, names_of
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration, rounded_percent, size
from tracetui.model.recorded import whole_number
from tracetui.model.trace import Kind, Trace
from tracetui.ranks.waiting import beyond_shortest

# What collectives are, in words: by what is around their launch, and by their kernels.

_KINDS = (
    (re.compile(r"all_?reduce|cross_?device_?reduce|(one|two)_shot"), "all-reduce"),
    (re.compile(r"reduce_?scatter"), "reduce-scatter"),
    (re.compile(r"all_?gather"), "all-gather"),
    (re.compile(r"all_?to_?all"), "all-to-all"),
    (re.compile(r"broadcast"), "broadcast"),
    (re.compile(r"dispatch"), "expert dispatch"),
    (re.compile(r"combine"), "expert combine"),
    (re.compile(r"send_?recv|^nccl:(send|recv)"), "send/recv"),
    (re.compile(r"^(nccl:)?_?reduce"), "reduce"),
)
"""Patterns of annotations, or else of kernels, and what they are called in a sentence."""
_COMMUNICATES = re.compile(r"^(nccl|rccl|gloo|c10d|_?c10d\w*|ucc|mpi|xccl)::?|all_?reduce|all_?gather|all_?to_?all")
_GENERIC = re.compile(r"DevKernel_Generic")
UNNAMED = "unnamed collective"
"""Collective of which the trace tells no kind."""
_TENSOR_PARALLEL = re.compile(r"(?i)tensor|(^|[^a-z])tp([^a-z]|$)")
_EXPERT_PARALLEL = re.compile(r"(?i)expert|(^|[^a-z])ep([^a-z]|$)")
_PIPELINE_PARALLEL = re.compile(r"(?i)pipe|(^|[^a-z])pp([^a-z]|$)")
MAX_READ_COLLECTIVES = 10_000
"""Maximum collectives whose arguments are read from the file, the first ones."""
_UNNAMED_GROUPS = ("", "default_pg", "undefined", "None")


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kernels by the kind of their collective, that with most time first."""

    names: list[str]
    member: Int64
    """Index in `names` of each kernel."""


def kinds_of(trace: Trace, rows: Int64) -> Kinds:
    """What each of the kernels is, by the annotation or operator around its launch, or by its own name."""
    around = [names_of(trace, ids[rows]) for ids in (links(trace).annotation, links(trace).owner)]
    different = combinations(*around, trace.slices.name[rows])
    words = []
    for index in different.first.tolist():
        told = [trace.names[int(ids[index])] for ids in around if ids[index] >= 0]
        words.append(_kind(told, trace.name_of(int(rows[index]))))
    names = list(dict.fromkeys(words))
    member = np.array([names.index(word) for word in words], np.int64)[different.member]
    spent = np.bincount(member, trace.slices.dur[rows], len(names))
    order = np.argsort(-spent, kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return Kinds([names[index] for index in order.tolist()], rank[member])


def _kind(around: Sequence[str], kernel: str) -> str:
    """The kind of a collective in words: of what is around its launch, of its kernel, or the kernel's short name."""
    decoded = decode(kernel, Kind.KERNEL).op or ""
    for text in (*filter(_COMMUNICATES.search, around), decoded, kernel):
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
        name = next((name for pattern, name in _KINDS if pattern.search(snake)), None)
        if name is not None:
            return name
    return UNNAMED if _GENERIC.search(kernel) else short_kernel(kernel)


def form_of(trace: Trace, rows: Int64) -> str:
    """The form of parallelism that the recorded process groups name, where they name the same for all."""
    (given,) = trace.args_of(rows[:MAX_READ_COLLECTIVES], ["Process Group Description"])
    texts = {str(text) for text in given} - set(_UNNAMED_GROUPS)
    if len(texts) == 0 or any(str(text) in _UNNAMED_GROUPS for text in given):
        return ""
    forms = (
        ("tensor-parallel", _TENSOR_PARALLEL),
        ("expert-parallel", _EXPERT_PARALLEL),
        ("pipeline-parallel", _PIPELINE_PARALLEL),
    )
    return next((name for name, pattern in forms if all(pattern.search(text) for text in texts)), "")


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


# Rules about single collectives: too many small ones, and one device of several that comes late to them.
#
# Their time is part of the communication that nothing hides and of the idle time, which other findings price: these
# are weighed by it and have no cost of their own.

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
