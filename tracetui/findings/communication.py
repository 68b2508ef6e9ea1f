"""Rules about communication that nothing hides, of GPUs and of CPUs.

A collective lasts until the slowest rank has come, so its time says little about the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracetui.findings.idle_time import exposed_ns, launching_idle
from tracetui.findings.scope import Finding, Scope, Severity, longest, optimizer_steps
from tracetui.frozen import frozen
from tracetui.health.health_table import impossible_activities
from tracetui.idle.gpu_spans import communicates
from tracetui.kernel_names.decode import decode
from tracetui.kernel_names.slice_names import Purpose, purposes, short_kernel
from tracetui.linking.autograd import BACKWARD
from tracetui.linking.groups import Groups, combinations, distinct, group
from tracetui.linking.links import activities_between, links, names_of, slices_named
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, is_named, lane_axis, lane_numbers, nearest
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration, rounded_percent, size
from tracetui.model.recorded import whole_number
from tracetui.model.trace import Kind, Trace
from tracetui.ranks.waiting import beyond_shortest

# Kinds of collectives in words: by the annotation or operator around their launch, or else by their kernels.

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
"""Patterns of annotations, or else of kernels, and their names in a sentence."""
_COMMUNICATES = re.compile(r"^(nccl|rccl|gloo|c10d|_?c10d\w*|ucc|mpi|xccl)::?|all_?reduce|all_?gather|all_?to_?all")
_GENERIC = re.compile(r"DevKernel_Generic")
UNNAMED = "unnamed collective"
"""Name of a collective whose kind is not in the trace."""
_TENSOR_PARALLEL = re.compile(r"(?i)tensor|(^|[^a-z])tp([^a-z]|$)")
_EXPERT_PARALLEL = re.compile(r"(?i)expert|(^|[^a-z])ep([^a-z]|$)")
_PIPELINE_PARALLEL = re.compile(r"(?i)pipe|(^|[^a-z])pp([^a-z]|$)")
MAX_READ_COLLECTIVES = 10_000
"""Maximum collectives whose arguments are read from the file, the first ones."""
_UNNAMED_GROUPS = ("", "default_pg", "undefined", "None")


@frozen
class Kinds:
    """Kernels by the kind of their collective, that with most time first."""

    names: list[str]
    member: Int64
    """Index in `names` of each kernel."""


def kinds_of(trace: Trace, rows: Int64) -> Kinds:
    """Kinds of the collectives of kernels, by the annotation or operator around the launch, or by the kernel's name."""
    around = [names_of(trace, ids[rows]) for ids in (links(trace).annotation, links(trace).owner)]
    different = combinations(*around, trace.slices.name[rows])
    words = []
    for index in different.first.tolist():
        names_around = [trace.names[int(ids[index])] for ids in around if ids[index] >= 0]
        words.append(_kind(names_around, trace.name_of(int(rows[index]))))
    names = list(dict.fromkeys(words))
    member = np.array([names.index(word) for word in words], np.int64)[different.member]
    spent = np.bincount(member, trace.slices.dur[rows], len(names))
    order = np.argsort(-spent, kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return Kinds([names[index] for index in order.tolist()], rank[member])


def _kind(around: Sequence[str], kernel: str) -> str:
    """The kind of a collective in words, by names around its launch, else its kernel; else the kernel's short name."""
    decoded = decode(kernel, Kind.KERNEL).op or ""
    for text in (*filter(_COMMUNICATES.search, around), decoded, kernel):
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
        name = next((name for pattern, name in _KINDS if pattern.search(snake)), None)
        if name is not None:
            return name
    return UNNAMED if _GENERIC.search(kernel) else short_kernel(kernel)


def _recorded_of(trace: Trace, rows: Int64) -> list[list[Any]]:
    """Number of elements, their type, name and description of the process group of the first of some collectives."""
    rows = rows[:MAX_READ_COLLECTIVES]
    # Several rules ask for them, and each time blocks of the file are read.
    keys = ["In msg nelems", "dtype", "Process Group Name", "Process Group Description"]
    return trace.keep(("arguments of collectives", rows.tobytes()), lambda: trace.args_of(rows, keys))


def form_of(trace: Trace, rows: Int64) -> str:
    """The form of parallelism that all recorded process groups name; empty where they differ or name none."""
    given = _recorded_of(trace, rows)[3]
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
"""Minimum ratio of the longest to the median of collectives of one size, to count as waiting."""

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
    "group, overlap the exchange with the GEMMs (asynchronous tensor parallelism), or larger batches.",
}
"""Advice by the kind of collective, or by the form of parallelism."""
_ADVICE["reduce-scatter"] = _ADVICE["all-gather"]
_ADVICE["expert dispatch"] = _ADVICE["expert combine"] = _ADVICE["all-to-all"]
_OF_TRAINING = ("all-reduce", "all-gather", "reduce-scatter")
"""Kinds whose advice is about gradients or sharded parameters: without a backward pass layers exchange by them."""
_MOE = (
    "With experts, sequence-parallel MoE (expert parallelism with all-gather and reduce-scatter around the experts in "
    "place of an all-reduce) sends less in large prefills, and may slow small decodes: measure it with this batch."
)
_OTHERWISE = "Overlap it with computation, or send less."


@frozen
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
    comm = _most_exposed(scope, scope.activities)
    if comm is None:
        return
    kinds = kinds_of(scope.trace, comm.rows)
    hidden = comm.total - comm.exposed
    if comm.exposed < MIN_EXPOSED_SHARE * scope.time:
        if hidden >= MIN_HIDDEN_SHARE * scope.time:
            yield Finding(
                "exposed-communication",
                Severity.NOTE,
                f"Communication is hidden behind computation: {duration(hidden)} of {duration(comm.total)}",
                _parts(scope, comm, kinds),
                "It costs little as it is; it competes with the kernels beside it for memory and multiprocessors.",
                longest(scope.trace, comm.rows),
            )
        return
    form, largest = form_of(scope.trace, comm.rows), kinds.names[0]
    mostly = f"{form} {largest}" if form else largest
    only = "" if len(kinds.names) == 1 else "mostly "
    advice = _ADVICE.get(form) or _ADVICE.get(largest, _OTHERWISE)
    if largest in _OF_TRAINING and form not in _ADVICE and not scope.program.has_backward:
        advice = _ADVICE["tensor-parallel"]
    if scope.program.serves:
        ids, names = purposes(scope.trace, scope.computing)
        if any(names[number] == Purpose.ROUTING for number in distinct(ids[ids >= 0]).tolist()):
            advice = f"{advice} {_MOE}"
    yield from scope.with_cost(
        "exposed-communication",
        comm.exposed,
        f"Exposed communication{comm.device}, {only}{mostly}",
        _parts(scope, comm, kinds) + _waiting(scope.trace, comm.rows) + _with_earlier(scope, comm),
        f"A collective lasts until the slowest rank has come: compare ranks before blaming the network. {advice}",
        longest(scope.trace, comm.rows),
        action="compare this rank with the others",
    )


def _most_exposed(scope: Scope, rows: Int64) -> Exposed | None:
    """The communication among some activities, of the device with most of it exposed; None without communication."""
    trace, slices = scope.trace, scope.trace.slices
    is_comm, process = communicates(trace)[rows], lane_numbers(trace).process[slices.lane[rows]]
    several = len(distinct(process)) > 1
    by_device = []
    for number in distinct(process[is_comm]).tolist():
        mine = rows[is_comm & (process == number)]
        words = f" of {trace.lanes[int(slices.lane[mine[0]])].process}" if several else ""
        total = covered(slices.start[mine], slices.end[mine])
        by_device.append(Exposed(mine, words, total, exposed_ns(slices, mine, _computing_beside(trace, mine))))
    return max(by_device, key=lambda each: each.exposed, default=None)


def _computing_beside(trace: Trace, rows: Int64) -> Int64:
    """The computing kernels of any step during some kernels of one device, on that device."""
    slices, process = trace.slices, lane_numbers(trace).process
    beside = activities_between(trace, int(slices.start[rows].min()), int(slices.end[rows].max()))
    beside = beside[(slices.kind[beside] == Kind.KERNEL) & ~communicates(trace)[beside]]
    beside = beside[process[slices.lane[beside]] == process[slices.lane[rows[0]]]]
    possible: Int64 = beside[~np.isin(beside, impossible_activities(trace))]
    return possible


def _with_earlier(scope: Scope, comm: Exposed) -> str:
    """A clause on what is exposed with the communication that was launched before the steps; empty without any."""
    trace, all_steps, slices = scope.trace, steps(scope.trace), scope.trace.slices
    if scope.step is not None or len(all_steps) == 0:
        return ""
    rows = links(trace).gpu
    unlaunched = (links(trace).launch[rows] < 0) & (slices.start[rows] >= all_steps.start[0])
    unlaunched &= slices.end[rows] <= slices.end[scope.activities].max()
    every = _most_exposed(scope, rows[np.isin(rows, scope.activities) | unlaunched])
    if every is None or every.exposed <= comm.exposed:
        return ""
    return f"; {duration(every.exposed)} with what was launched before the steps"


def _parts(scope: Scope, comm: Exposed, kinds: Kinds) -> str:
    """A clause on all communication, how much of it is exposed, and the kinds with their counts and times."""
    dur = scope.trace.slices.dur[comm.rows]
    parts = []
    for index, name in enumerate(kinds.names[:MAX_NAMED_KINDS]):
        mine = dur[kinds.member == index]
        parts.append(f"{name} {scope.per_step(len(mine), 'time')}, {duration(int(mine.sum()))}")
    rest = len(kinds.names) - MAX_NAMED_KINDS
    also = f" and {counted(rest, 'more kind')}" if rest > 0 else ""
    part = "all" if comm.exposed == comm.total else duration(comm.exposed)
    each = f", {duration(comm.exposed / scope.rounds)} a step" if scope.rounds > 1 else ""
    exposed = f"{part} of it with no computation beside it{each}" if comm.exposed else "all hidden"
    return (
        f"{duration(comm.total)} of communication, {exposed}"
        f"; {'; '.join(parts)}{also}; median {duration(float(np.median(dur)))}, longest {duration(int(dur.max()))}"
    )


def _waiting(trace: Trace, rows: Int64) -> str:
    """A clause on the waiting in collectives; empty where sizes are not recorded, and where they took equal times.

    A rank alone does not know who came when: the time of a collective beyond the shortest of the same group and size
    is waiting or contention.
    """
    rows = rows[:MAX_READ_COLLECTIVES]
    given, types, groups_of, _ = _recorded_of(trace, rows)
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
    waits = (groups.calls >= MIN_WAITING_CALLS) & (most >= MIN_WAITING_RATIO * np.maximum(usual, 1))
    waits[member[~known]] = False
    beyond, total = beyond_shortest(dur[known], member[known])
    estimate = (
        f"; ~{duration(beyond)} of {duration(total)} may be waiting or contention, by the shortest of equal ones"
        if beyond and beyond >= MIN_ESTIMATED_SHARE * total
        else ""
    )
    if not waits.any():
        return estimate
    worst = int(np.flatnonzero(waits)[np.argmax(groups.sum(dur)[waits])])
    return (
        f"; of one size {duration(usual[worst])} in the median and {duration(int(most[worst]))} at most, "
        f"so ranks wait for each other{estimate}"
    )


# Single collectives: too many small ones, and one device of several that comes late to them.
#
# Their time is part of the exposed communication and of the idle time, whose findings have it as their cost: these
# rules take their severity from it and have no cost of their own.

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
    trace, slices = scope.trace, scope.trace.slices
    # In a trace without steps the steps of the optimizer count; without these nothing tells steps.
    rounds = scope.rounds if len(steps(trace)) else len(optimizer_steps(trace))
    rows = scope.activities[communicates(trace)[scope.activities]]
    if len(rows) == 0 or rounds == 0:
        return
    # The device with most collectives stands for all.
    device = lane_numbers(trace).process[slices.lane[rows]]
    rows = rows[device == np.bincount(device).argmax()]
    kinds, dur = kinds_of(trace, rows), slices.dur[rows]
    for index, name in enumerate(kinds.names):
        mine = kinds.member == index
        usual = float(np.median(dur[mine]))
        count = int(mine.sum())
        if count <= MIN_SMALL_CALLS * rounds or usual >= MAX_SMALL_NS or _within_layers(scope, rows[mine]):
            continue
        yield from _small(scope, rows[mine], _PLURALS.get(name, f"{name}s"), count / rounds, usual)


def _small(scope: Scope, rows: Int64, things: str, each: float, usual: float) -> Iterator[Finding]:
    trace, trace_links = scope.trace, links(scope.trace)
    short = rows[trace.slices.dur[rows] < MAX_SMALL_NS]
    exposed = exposed_ns(trace.slices, short, _computing_beside(trace, rows))
    # The GPU waits for the operator or annotation around each launch, or else for the launch.
    owner, launch = trace_links.owner[rows].astype(np.int64), trace_links.launch[rows].astype(np.int64)
    late = scope.cpu_cost(distinct(np.where(owner >= 0, owner, launch)))
    cost = min(exposed + late, scope.time)
    severity = scope.severity_of(cost)
    if severity is None:
        return
    yield Finding(
        "small-collectives",
        severity,
        f"{round(each):,} small {things} a step, median {duration(usual)}, that buckets would put together: "
        f"{scope.cost_text(cost)}",
        f"{len(rows):,} in all{_bytes(trace, rows)}; those under {duration(MAX_SMALL_NS)} run for {duration(exposed)} "
        f"with no computation beside them, and the GPU waits {duration(late)} for their launches: "
        "both are part of the exposed communication and of the idle time",
        "Put them together: DistributedDataParallel reduces gradients in buckets (bucket_cap_mb); by hand, flatten or "
        "coalesce the tensors of a step into a few collectives.",
        longest(trace, rows),
        action="put the collectives together in buckets",
    )


def _within_layers(scope: Scope, rows: Int64) -> bool:
    """True for collectives of layers, as those of tensor parallelism are: some come before any backward pass.

    Without a backward pass only layers need any.
    """
    trace, slices, all_steps = scope.trace, scope.trace.slices, steps(scope.trace)
    if form_of(trace, rows) == "tensor-parallel":
        return True
    backward = scope.ops[is_named(trace, scope.ops, BACKWARD.search)]
    if len(backward) == 0:
        return True
    rows = rows[links(trace).launch[rows] >= 0]
    called = slices.start[links(trace).launch[rows]]
    if len(all_steps) == 0:
        return int((called < slices.start[backward].min()).sum()) > MAX_FORWARD_CALLS
    first = np.full(len(all_steps), np.iinfo(np.int64).max)
    index = step_index(trace, backward)
    np.minimum.at(first, index[index >= 0], slices.start[backward[index >= 0]])
    step = step_index(trace, rows)
    early = np.bincount(step[(step >= 0) & (called < first[step])], minlength=len(all_steps))
    picked = chosen(trace, scope.step)
    return bool(np.median(early[picked]) > MAX_FORWARD_CALLS)


def _bytes(trace: Trace, rows: Int64) -> str:
    """A clause on the median size that the collectives send; empty where it is not recorded."""
    numbers, types, *_ = _recorded_of(trace, rows)
    sizes = [
        number * _BYTES[kind]
        for number, kind in zip(map(whole_number, numbers), types, strict=True)
        if number is not None and isinstance(kind, str) and kind in _BYTES
    ]
    return f", {size(float(np.median(sizes)))} in the median" if sizes else ""


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
    severity = scope.severity_of(min(cost, scope.time))
    if severity is None:
        return
    waiting = int(np.argmax(waits))
    names = [trace.lanes[int(trace.slices.lane[row])].process for row in calls[:, 0].tolist()]
    process = lane_numbers(trace).process[trace.slices.lane]
    computing = [scope.computing[process[scope.computing] == process[row]] for row in calls[:, 0].tolist()]
    work = [covered(trace.slices.start[rows], trace.slices.end[rows]) for rows in computing]
    yield Finding(
        "straggler",
        severity,
        f"{names[late]} comes late to collectives: {names[waiting]} waits {scope.cost_text(min(cost, scope.time))}",
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
    rows = scope.activities[communicates(trace)[scope.activities]]
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


# Buffers that DistributedDataParallel sends from the first rank to all others in each forward pass.

_FORWARD = re.compile(r"^DistributedDataParallel\.forward$")
_BUFFER_WORK = re.compile(r"^aten::(un)?flatten_dense_tensors$|^c10d::broadcast_|_broadcast_coalesced|_sync_buffers")
"""Operators that copy the buffers into one tensor, send it and copy it back, by their names in torch."""


def buffer_broadcast(scope: Scope) -> Iterator[Finding]:
    """DistributedDataParallel sends the model's buffers in each forward pass, and the GPU waits for the CPU."""
    trace, rows = scope.trace, _buffer_work(scope)
    if len(rows) == 0:
        return
    idle = launching_idle(scope, rows)
    names = group(trace.slices.name[rows])
    spent = names.sum(trace.slices.dur[rows])
    parts = []
    for index in np.argsort(-spent, kind="stable")[:MAX_NAMED_KINDS].tolist():
        times = scope.per_step(int(names.calls[index]), "time")
        parts.append(f"{trace.names[int(names.key[index])]} {times}, {duration(spent[index])}")
    yield from scope.with_cost(
        "buffer-broadcast",
        idle,
        "DistributedDataParallel broadcasts the buffers in each forward pass while the GPU is idle",
        f"inside DistributedDataParallel.forward: {'; '.join(parts)}; the GPU is idle meanwhile for {duration(idle)}",
        "The running statistics of BatchNorm are copied one by one into a tensor and back. broadcast_buffers=False "
        "leaves it out where ranks may keep their own; SyncBatchNorm makes them equal without it.",
        longest(trace, rows),
        action="pass broadcast_buffers=False",
    )


def buffer_broadcast_idle(scope: Scope) -> int:
    """Idle time in ns that belongs to the finding `buffer-broadcast` and to no other; 0 without that finding."""
    return next((finding.cost or 0 for finding in buffer_broadcast(scope)), 0)


def _buffer_work(scope: Scope) -> Int64:
    """The outermost slices of the broadcast inside the forward pass of DistributedDataParallel, in order of start."""
    trace, slices = scope.trace, scope.trace.slices
    kinds = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON)
    passes, rows = (slices_named(trace, pattern, *kinds) for pattern in (_FORWARD, _BUFFER_WORK))
    rows = scope.inside(rows)
    if len(passes) == 0 or len(rows) == 0:
        return rows[:0]
    axis = lane_axis(trace)
    inside = Stretches.of(axis, slices.lane[passes], slices.start[passes], slices.end[passes])
    rows = rows[inside.covered(slices.lane[rows], slices.start[rows], slices.start[rows] + 1) > 0]
    within = np.zeros(len(slices), bool)
    within[rows] = True
    outermost: Int64 = rows[nearest(slices.parent, within)[rows] < 0]
    return outermost


# Communication of a program on CPUs, whose threads send (gloo, MPI) while the main thread waits.

_ON_CPU = re.compile(r"^(gloo|mpi|ucc|xccl):|ProcessGroup(Gloo|MPI)")
"""Slices of the threads that communicate; torch writes one for each collective."""
_CALL = re.compile(r"^_?c10d\w*::|^(gloo|mpi|ucc|xccl):|ProcessGroup(Gloo|MPI)|^record_param_comms$")


def cpu_communication(scope: Scope) -> Iterator[Finding]:
    """In a program without GPU the main thread waits in collectives of CPUs (gloo, MPI)."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.inside(slices_named(trace, _ON_CPU, Kind.CPU_OP, Kind.ANNOTATION))
    ops = scope.ops
    if len(links(trace).gpu) or len(rows) == 0 or len(ops) == 0:
        return
    lane = int(steps(trace).lane[0]) if len(steps(trace)) else int(np.bincount(slices.lane[ops]).argmax())
    mine = ops[slices.lane[ops] == lane]
    sends = mine[is_named(trace, mine, _CALL.search)]
    # What calls a collective computes nothing meanwhile.
    around = np.zeros(len(slices), bool)
    climbing = sends
    while len(climbing):
        around[climbing] = True
        climbing = distinct(slices.parent[climbing])
        climbing = climbing[climbing >= 0]
    busy = mine[~around[mine]]
    waits = np.concatenate([rows, sends])
    waited = exposed_ns(slices, waits, busy)
    names = group(slices.name[rows])
    most = int(np.argmax(names.sum(slices.dur[rows])))
    of_it = slices.dur[rows[names.member == most]]
    advice = _OTHERWISE
    if scope.program.has_backward:
        advice = (
            "Send less often (larger bucket_cap_mb, accumulate over several batches), and overlap it with the backward "
            "pass."
        )
    yield from scope.with_cost(
        "cpu-communication",
        waited,
        "The main thread waits for communication between processes",
        f"{scope.per_step(len(rows), 'collective')}; they and the calls that start them last "
        f"{duration(covered(slices.start[waits], slices.end[waits]))}, {duration(waited)} of it with no operator of "
        f"the main thread beside them; mostly {trace.names[int(names.key[most])]}, median "
        f"{duration(float(np.median(of_it)))}, longest {duration(int(of_it.max()))}",
        f"A collective lasts until the slowest process has come: compare the ranks. {advice}",
        longest(trace, rows),
        action="compare the ranks",
    )
