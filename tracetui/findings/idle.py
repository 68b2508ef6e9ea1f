"""Rules about idle time between launches: launch overhead, long stretches without an operator, stalled threads, graphs
with nodes that were not recorded, and waits: for inputs that are loaded or made, of the CPU for the GPU or other
processes, of streams for events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.findings.communication import buffer_broadcast_idle
from tracetui.findings.idle_time import (
    alone,
    idle_cost,
    launching_idle,
    launching_parts,
    longest_part,
    parts_of,
    places,
)
from tracetui.findings.scope import Finding, Program, Scope, Severity, blocking_copies, longest, most_common
from tracetui.findings.training import optimizer_loop_idle
from tracetui.frozen import frozen
from tracetui.idle.idle_parts import MIN_SPLIT_GAP_NS, IdleParts, told_to_wait
from tracetui.idle.thread_causes import MIN_COPY_BYTES, indicating_slices, stalled_calls
from tracetui.idle.waits import Cause, device_order, idleness, sync_calls, unrecorded_holes
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links, names_of, op_rows
from tracetui.linking.placement import step_index
from tracetui.linking.replays import GRAPH_LAUNCH, replays
from tracetui.linking.step_kinds import averaged_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import count_inside, first_from, forest, is_named
from tracetui.memory.allocator import DIRECTED, PAGEABLE, TO_HOST, bytes_of
from tracetui.model.intervals import Int64, covered, covered_within, union
from tracetui.model.quantities import counted, duration, rate, rounded_percent, size
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace

_LOAD_AHEAD = (
    "Load the next batch while this one computes: DataLoader(num_workers=...), then persistent_workers=True and "
    "pin_memory=True."
)
_MORE_WORKERS = (
    "The workers are too few or too slow: more of them (num_workers), a larger prefetch_factor, cheaper transforms, or "
    "data that is decoded beforehand."
)


def data_loading(scope: Scope) -> Iterator[Finding]:
    """The GPU is idle while the input pipeline runs on the thread that launches, or on the main thread."""
    trace, slices = scope.trace, scope.trace.slices
    parts, before = parts_of(scope, Cause.DATA_LOADING), scope.lead_causes[Cause.DATA_LOADING]
    between = idle_cost(scope, parts)
    if between + before == 0:
        return
    rows = indicating_slices(trace)[Cause.DATA_LOADING]
    # A loop may load between its steps.
    rows = inside if len(inside := scope.inside(rows)) else rows
    calls = len(union(slices.start[rows], slices.end[rows])[0])
    spent = covered(slices.start[rows], slices.end[rows])
    idle = [f"{duration(between)} between kernels"] if between else []
    idle += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    row, program = longest_part(scope, parts), scope.program
    loader = ", which runs in the main process" if program.loads_in_process else ""
    action, advice = "give the DataLoader workers", _LOAD_AHEAD
    if program.has_workers:
        loader = ", whose worker processes do not keep up"
        action, advice = "give the DataLoader more workers", _MORE_WORKERS
    yield from scope.with_cost(
        "data-loading",
        between + before,
        f"The GPU waits for the data loader{loader}",
        f"{scope.per_step(calls, 'call')}, {duration(spent)} of CPU time; the GPU idle meanwhile for "
        + ", and ".join(idle),
        advice,
        row if row >= 0 else longest(trace, rows),
        at_gap=row >= 0,
        action=action,
    )


_RANDOM = re.compile(
    r"^aten::(rand|randn|randint|randperm|normal|uniform|random|bernoulli|exponential|poisson|multinomial)(_like)?_?$"
)


def cpu_inputs(scope: Scope) -> Iterator[Finding]:
    """Tensors of random numbers are made on the CPU, as synthetic inputs are, while the GPU waits."""
    rows, (between, before) = _random_on_cpu(scope), _random_idle(scope)
    trace, slices = scope.trace, scope.trace.slices
    idle = [f"{duration(between)} between kernels"] if between else []
    idle += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    yield from scope.with_cost(
        "cpu-inputs",
        between + before,
        "The GPU waits while random tensors are made on the CPU",
        f"{scope.per_step(len(rows), 'operator')} that launch nothing, {duration(int(slices.dur[rows].sum()))}, most "
        f"often {most_common(trace, rows) if len(rows) else ''}; the GPU idle meanwhile for {', and '.join(idle)}",
        f"Make them where they are used (device='cuda'), once before the loop, or ahead in {scope.program.ahead}.",
        longest(trace, rows),
        action="make the inputs on the GPU",
    )


def cpu_inputs_idle(scope: Scope) -> tuple[int, int]:
    """Idle time in ns between kernels and before the first one that belongs to the finding `cpu-inputs`.

    (0, 0) without that finding.
    """
    idle = _random_idle(scope)
    return idle if scope.severity_of(sum(idle)) is not None else (0, 0)


def _random_on_cpu(scope: Scope) -> Int64:
    """Outermost operators that make random numbers and call nothing of the GPU: their tensors are on the CPU."""

    def find() -> Int64:
        trace = scope.trace
        rows = scope.ops[is_named(trace, scope.ops, _RANDOM.search)]
        rows = rows[forest(trace, rows) < 0]
        calls = count_inside(trace, rows, trace.slices.of_kind(Kind.RUNTIME))
        on_cpu: Int64 = rows[calls == 0]
        return on_cpu

    return scope.trace.keep(("random tensors of the CPU", scope.step), find)


def _random_idle(scope: Scope) -> tuple[int, int]:
    """Idle time in ns while such operators ran on the launching thread: between kernels, and before the first one."""

    def measure() -> tuple[int, int]:
        slices, rows = scope.trace.slices, _random_on_cpu(scope)
        if len(rows) == 0 or len(links(scope.trace).gpu) == 0:
            return 0, 0
        low, high = scope.lead_window
        spent = covered(slices.start[rows].clip(low, high), slices.end[rows].clip(low, high))
        taken = scope.start_up[0] > scope.lead_causes[Cause.START_UP]
        return launching_idle(scope, rows), 0 if taken else min(spent, scope.lead_causes[Cause.OPERATORS])

    return scope.trace.keep(("random numbers of the CPU", scope.step), measure)


MIN_UNRECORDED_SHARE = 0.02
"""Minimum share of the time in holes of graphs, for a finding."""


def launch_overhead(scope: Scope) -> Iterator[Finding]:
    """The CPU does not launch as fast as the GPU runs what it launches (R3.27)."""
    trace, parts = scope.trace, launching_parts(scope)
    elsewhere = (
        (optimizer_loop_idle(scope), "inside the optimizer"),
        (cpu_inputs_idle(scope)[0], "with making random tensors"),
        (buffer_broadcast_idle(scope), "in the broadcast of buffers"),
    )
    cost = idle_cost(scope, parts) - sum(time for time, _ in elsewhere)
    if cost <= 0:
        return
    short = parts.take(idleness(trace).dur[parts.gap] < MIN_SPLIT_GAP_NS)
    in_short = idle_cost(scope, short)
    longer = idle_cost(scope, parts) - in_short
    of_devices = f" in the mean of {scope.devices:,} GPUs" if scope.devices > 1 else ""
    evidence = [f"{counted(len(short), 'gap')} below 1 ms, {duration(in_short)}{of_devices}"] if len(short) else []
    if longer:
        evidence.append(f"{duration(longer)} in {'longer ones' if evidence else 'gaps of a millisecond and more'}")
    evidence += [f"{duration(time)} of that {where}, priced by another finding" for time, where in elsewhere if time]
    evidence.append(_launch_calls(scope))
    evidence += [f"longest in {named}"] if (named := places(trace, parts)) else []
    # Shares are of what a start-up leaves, and so is the idle time.
    idle = scope.idle // scope.devices - (sum(scope.start_up) if scope.rest < scope.time else 0)
    evidence.append(f"the GPU is idle for {scope.cost_text(idle)}")
    mostly_long = 2 * longer > idle_cost(scope, parts)
    action, advice = _launch_advice(scope.program)
    yield from scope.with_cost(
        "launch-overhead",
        cost,
        "The CPU launches late, busy with other work in gaps of a millisecond and more"
        if mostly_long
        else "Launch overhead: the CPU launches later than the GPU could run",
        "; ".join(evidence),
        _shorten(scope.program) if mostly_long else advice,
        longest_part(scope, parts),
        at_gap=True,
        action="shorten what the CPU does before it launches" if mostly_long else action,
    )


def _shorten(program: Program) -> str:
    workers = "" if program.serves else " (DataLoader workers)"
    return (
        "Fewer or cheaper launches help little: look at what the CPU does there, and move it out of the loop, to the "
        f"GPU, or to another thread or process that works ahead{workers}."
    )


def _launch_calls(scope: Scope) -> str:
    """Launches a step, and the median time of a call."""
    launch = links(scope.trace).launch[scope.activities]
    calls = distinct(launch[launch >= 0])
    usual = float(np.median(scope.trace.slices.dur[calls])) if len(calls) else 0.0
    return f"{scope.per_step(len(calls), 'launch')} of {_median_text(usual, len(calls))}"


def _median_text(time: float, count: int) -> str:
    """A time in ns, and that it is a median where it is one of several things."""
    return f"{duration(time)}{' in the median' if count > 1 else ''}"


def _launch_advice(program: Program) -> tuple[str, str]:
    """The action, and the advice, for a program that is eager, compiled, or replays graphs."""
    if program.has_graphs:
        action = "enlarge the batch"
        advice = "CUDA graphs are in use: enlarge the batch, and take what runs between replays into the graph."
    elif program.is_wholly_compiled:
        action = "replay graphs"
        advice = "The code is compiled, not graphed: mode='reduce-overhead' or CUDA graphs, then a larger batch."
    elif program.is_compiled:
        action = "compile the rest of the program"
        advice = (
            f"Compiled code launches {rounded_percent(100 * program.compiled_share)} of the kernels: compile the rest "
            "(TORCH_LOGS=graph_breaks tells what leaves it out), then replay graphs (mode='reduce-overhead')."
        )
    else:
        action = "launch fewer and larger kernels"
        advice = "Launch fewer and larger kernels: torch.compile, a larger batch, fused or batched operators."
    if program.has_frames:
        again = "Python frames were recorded, which slows the CPU: measure again without them first. "
        return "measure again without Python frames", again + advice
    return action, advice


MIN_SHARE_OF_GAPS = 0.9
"""Minimum share of some gaps that is put down to one cause, for it to be called all of them."""


def long_gap_without_op(scope: Scope) -> Iterator[Finding]:
    """The thread is in no operator and no call for a millisecond and more, and the GPU is idle (R3.27)."""
    trace, parts = scope.trace, parts_of(scope, Cause.LONG_GAP)
    gaps = np.unique(parts.gap)
    # Without any operator it is not known that the CPU was in none.
    if len(gaps) == 0 or len(op_rows(trace)) == 0:
        return
    sums, whole = np.bincount(np.searchsorted(gaps, parts.gap), parts.dur), idleness(trace).dur[gaps]
    # Where gaps have other causes, too, their lengths are those that the pane of gaps lists.
    part = ""
    if sums.sum() < MIN_SHARE_OF_GAPS * whole.sum():
        part, sums = f"{duration(int(sums.sum()))} of ", whole
    where, program = places(trace, parts), scope.program
    # Steps that launch several graphs each.
    in_steps = np.count_nonzero(step_index(trace, calls_named(trace, GRAPH_LAUNCH)) >= 0) if program.serves else 0
    in_pieces = in_steps >= MIN_PIECES * len(steps(trace)) > 0
    yield from scope.with_cost(
        "long-gap-without-op",
        idle_cost(scope, parts),
        "The GPU is idle while the CPU is in no operator and no call",
        f"{part}{counted(len(gaps), 'gap')} of {_median_text(float(np.median(sums)), len(gaps))}"
        f"{_recurs(scope, parts)}{_after(trace, parts)}" + (f"; in {where}" if where else "; no frame tells where"),
        "Python or other CPU work between operators: move it out of the loop, vectorise it, or give it to another "
        "thread or process"
        + ("." if program.has_frames else "; with_stack=True names the lines.")
        + (" In a compiled call it is the handling of inputs before the first kernel." if program.is_compiled else "")
        + (_PIECES if in_pieces else ""),
        longest_part(scope, parts),
        at_gap=True,
        action="find what the CPU does there",
    )


MIN_PIECES = 2
"""Minimum graph launches of a step for its graphs to be pieces of it."""
_PIECES = (
    " A step launches its graphs in pieces, with Python between them: capture it whole where the attention kernel can "
    "be captured (`cudagraph_mode` FULL_DECODE_ONLY or FULL_AND_PIECEWISE in vLLM)."
)


_OF_OTHER_RULES = (Cause.DATA_LOADING, Cause.START_UP, Cause.COMPILATION, Cause.PROFILER)
"""Causes before the first kernel that other rules weigh."""


MIN_EDGE_SHARE = 0.2
"""Minimum share of the time before the first kernel, or behind the last, in both for the title to name it."""


def before_first_kernel(scope: Scope) -> Iterator[Finding]:
    """The CPU works before it launches the first activity of the scope, or after the last: in no gap (R3.91)."""
    trace, edges = scope.trace, scope.edges
    works = (edges.cause < Cause.LATENCY) & ~np.isin(edges.cause, _OF_OTHER_RULES)
    if scope.start_up[0] > scope.lead_causes[Cause.START_UP]:
        works &= edges.after < 0
    edges = edges.take(np.flatnonzero(works))
    is_before = edges.after >= 0
    before, after = (int(edges.dur[each].sum(dtype=np.float64)) // scope.devices for each in (is_before, ~is_before))
    before -= cpu_inputs_idle(scope)[1]
    parts = IdleParts(edges.gap, edges.start, edges.end, edges.cause, edges.lane)
    where = places(trace, parts)
    both = ((before, "before the first kernel"), (after, "behind the last kernel"))
    large = [each for each in both if each[0] >= MIN_EDGE_SHARE * (before + after)]
    yield from scope.with_cost(
        "cpu-before-kernels",
        before + after,
        f"The GPU does nothing while the CPU works {' and '.join(place for _, place in large)} of {scope.title}",
        ", ".join(f"{duration(time)} {place}" for time, place in both if time) + (f"; in {where}" if where else ""),
        f"Do this work ahead: in {scope.program.ahead} while the step before runs, or on the GPU."
        + ("" if scope.program.has_frames else scope.trace.to_record(" with_stack=True names the lines.", "")),
        int(edges.after.max(initial=-1)),
        action="find what the CPU does there",
    )


def _recurs(scope: Scope, parts: IdleParts) -> str:
    """The number of steps that have some of the parts, where there are several steps."""
    serving = averaged_steps(scope.trace)
    total = int(serving.sum())
    if total < 2 or scope.rounds < 2:
        return ""
    index = np.unique(step_index(scope.trace, idleness(scope.trace).after[parts.gap]))
    count = int(serving[index[index >= 0]].sum())
    return f", in {'every step' if count == total else f'{count:,} of {total:,} steps'}"


def _after(trace: Trace, parts: IdleParts) -> str:
    """The operator that launched the activity after most of the time, in words; empty where none did."""
    owner = links(trace).owner[idleness(trace).after[parts.gap]]
    names = group(trace.slices.name[owner[owner >= 0]])
    if len(names) == 0:
        return ""
    most = int(np.argmax(names.sum(parts.dur[owner >= 0])))
    return f", mostly before {trace.names[int(names.key[most])]}"


def stalled_thread(scope: Scope) -> Iterator[Finding]:
    """Calls that cost microseconds last milliseconds, in several functions, and the GPU waits (R3.62)."""
    trace, parts = scope.trace, parts_of(scope, Cause.STALLED)
    rows = scope.inside(stalled_calls(trace))
    if len(parts) == 0 or len(rows) == 0:
        return
    own = trace.slices.self_time[rows]
    functions = len(np.unique(trace.slices.name[rows]))
    worst = int(rows[np.argmax(own)])
    yield from scope.with_cost(
        "stalled-thread",
        idle_cost(scope, parts),
        "The launching thread was not running",
        f"{counted(len(rows), 'call')} in {counted(functions, 'function')} that cost microseconds took "
        f"{duration(int(own.min()))} to {duration(int(own.max()))}, {duration(int(own.sum()))} in all; the longest "
        f"{trace.name_of(worst)}",
        "Look for what takes its core: more threads than cores, other ranks on the same cores, missing affinity, a "
        "holder of the GIL. The calls that it hits are chance.",
        worst,
        action="find what takes the core of the launching thread",
    )


def peer_wait(scope: Scope) -> Iterator[Finding]:
    """The CPU waits in a communication call for other processes, and the GPU has nothing to do."""
    trace, parts = scope.trace, parts_of(scope, Cause.PEERS)
    if len(parts) == 0:
        return
    yield from scope.with_cost(
        "peer-wait",
        idle_cost(scope, parts),
        "The CPU waits in communication calls for other processes, and the GPU is idle",
        f"{counted(len(parts), 'wait')} of up to {duration(int(parts.dur.max()))}: {places(trace, parts)}",
        "Compare the ranks: the one that comes last waits least. Use collectives of the GPU instead of those of the "
        "CPU, and take barriers out of the step.",
        longest_part(scope, parts),
        at_gap=True,
        action="compare the ranks",
    )


def unrecorded_graph_work(scope: Scope) -> Iterator[Finding]:
    """Replays of a graph have holes in which nodes ran that the profiler did not record (R3.64)."""
    trace, parts = scope.trace, parts_of(scope, Cause.NOT_RECORDED)
    time = idle_cost(scope, parts)
    severity = scope.severity_of(time)
    if severity is None or time < MIN_UNRECORDED_SHARE * scope.time:
        return
    graphs = replays(trace)
    yield Finding(
        "unrecorded-graph-work",
        severity,
        f"Graph replays hold work that was not recorded: {scope.cost_text(time)} only look idle",
        f"{counted(len(graphs), 'graph launch')} with {int(graphs.nodes.sum()):,} recorded nodes; "
        f"{counted(len(parts), 'hole')} of {_median_text(float(np.median(parts.dur)), len(parts))}, in "
        f"{counted(unrecorded_holes(trace).replays, 'replay')}",
        "Use a newer CUPTI (CUDA 12.8 and later record more kinds of nodes), or record one step without graphs to see "
        "what runs there. Idle time and verdict of these graphs mean little.",
        longest_part(scope, parts),
        at_gap=True,
    )


MAX_NAMED_OPS = 3
"""Maximum operators named in a sentence, the most frequent first."""
MIN_EXPOSED_COPIES = 0.02
"""Minimum share of the time in which copies run and nothing computes."""
_WITH_HOST = re.compile(r"HtoD|DtoH|HostToDevice|DeviceToHost", re.IGNORECASE)
MIN_DEPENDENCY_NS = 100_000
"""Minimum ns of a wait that is more than the handling of an event that has happened."""
_READS = re.compile(r"^aten::")
"""Operators that wait for the GPU to read a value from it: `item`, `nonzero`, a boolean index."""


_READ_LESS = (
    "Nothing can be queued while the CPU waits. Read values less often (.item(), .cpu(), nonzero, an if on a "
    "tensor), keep them on the GPU, or read them a step later; torch.cuda.set_sync_debug_mode('warn') finds them."
)
_WAIT_LESS = (
    "Nothing can be queued while the CPU waits. Leave out torch.cuda.synchronize() and the waits for streams and "
    "events that are there to measure time; let streams wait for each other instead (Event.record, Stream.wait_event)."
)
_READ_OR_WAIT_LESS = (
    "Nothing can be queued while the CPU waits. Where a value is read (.item(), .cpu(), an if on a tensor), read it "
    "less often or a step later; leave out torch.cuda.synchronize() and the waits that are there to measure time."
)


def host_sync(scope: Scope) -> Iterator[Finding]:
    """The CPU stops until the GPU has finished, and then the GPU has nothing queued (R3.60)."""
    trace = scope.trace
    parts = parts_of(scope, Cause.HOST_SYNC)
    cost = idle_cost(scope, parts)
    waits = _waits(scope)
    if cost == 0 or len(waits.calls) == 0:
        return
    read = f", {waits.reads:,} of them to read values" if waits.reads else ", none of them to read a value"
    why, action = f"in {most_common(trace, waits.calls)}", "leave out the waits that nothing needs"
    advice = _WAIT_LESS
    if 2 * waits.reads >= len(waits.calls):
        why, action, advice = "to read a value", "read values from the GPU less often", _READ_LESS
    elif not is_named(trace, scope.copies, DIRECTED.search).all():
        # Where copies have no direction, a wait may be for one that reads a value.
        others = f"{read}; whether the others do" if waits.reads else "; whether they read values"
        read = f"{others} is not known, as copies have no direction here"
        action, advice = "see what the waits are for", _READ_OR_WAIT_LESS
    yield from scope.with_cost(
        "host-sync",
        cost,
        f"The CPU waits for the GPU {why}, and then the GPU for the CPU",
        f"{scope.per_step(len(waits.calls), 'wait')}{_by_op(trace, waits.calls)}, {duration(waits.time)} in all"
        f"{read}; afterwards the GPU was idle for {duration(cost)}",
        advice,
        longest_part(scope, parts),
        at_gap=True,
        action=action,
    )


@frozen
class _Waits:
    """The calls in which the CPU waits for the GPU, each read counted once."""

    calls: Int64
    reads: int
    """Number of those that read something from the GPU."""
    time: int
    """Time in ns in which the CPU waited."""


def _waits(scope: Scope) -> _Waits:
    """Waits, and copies to the CPU that wait; a wait right behind the copy that it is for is no second one."""
    trace, slices = scope.trace, scope.trace.slices
    syncs, copies = scope.inside(sync_calls(trace)), scope.copies_to_host
    launch, blocking = links(trace).launch[copies], blocking_copies(trace, copies)
    calls = slices.of_kind(Kind.RUNTIME)
    # Of an equal start neither is before the other.
    previous = np.searchsorted(calls, first_from(trace, slices.lane[syncs], slices.start[syncs])) - 1
    previous = np.where(previous >= 0, calls[previous], -1)
    rows = np.sort(np.concatenate([blocking, syncs[~np.isin(previous, blocking)]]))
    owner = links(trace).owner[rows]
    reads = np.isin(rows, blocking) | np.isin(rows, syncs[np.isin(previous, launch[launch >= 0])])
    reads |= (owner >= 0) & is_named(trace, owner, _READS.search)
    both = np.union1d(syncs, blocking)
    return _Waits(rows, int(reads.sum()), covered(slices.start[both], slices.end[both]))


def _by_op(trace: Trace, rows: Int64) -> str:
    """The operators around most of the waits: ` (20 in aten::item)`; empty without any."""
    owner = names_of(trace, links(trace).owner[rows])
    used = group(owner[owner >= 0])
    order = np.argsort(-used.calls, kind="stable")[:MAX_NAMED_OPS].tolist()
    named = [f"{used.calls[index]:,} in {trace.names[int(used.key[index])]}" for index in order]
    return f" ({', '.join(named)})" if named else ""


def pageable_copy(scope: Scope) -> Iterator[Finding]:
    """Copies from or to memory that is not pinned are staged, and the thread waits in their calls."""
    trace = scope.trace
    rows = _large(trace, scope.copies[is_named(trace, scope.copies, PAGEABLE.search)])
    parts = parts_of(scope, Cause.PAGEABLE)
    if len(rows) == 0:
        return
    exposed, idle = alone(scope, rows), idle_cost(scope, parts)
    back = is_named(trace, rows, TO_HOST.search)
    direction = "from" if back.all() else "from and to" if back.any() else "to"
    yield from scope.with_cost(
        "pageable-copy",
        exposed + idle,
        f"Copies {direction} the GPU use memory that is not pinned",
        _copies_in_words(scope, rows, exposed)
        + (f", and {duration(idle)} of idle time in their calls" if idle else ""),
        "Such a copy goes through a staging buffer while the CPU waits. Allocate the buffers pinned ("
        + ("" if scope.program.serves else "pin_memory=True in the DataLoader, or ")
        + "torch.empty(..., pin_memory=True)) and copy with non_blocking=True; to pin a tensor only for its copy may "
        "be slower.",
        longest(trace, rows),
        action="pin the memory",
    )


def _large(trace: Trace, copies: Int64) -> Int64:
    """The copies of more than a value, and those that do not say how much they move."""
    moved = bytes_of(trace, copies)
    return np.compress((moved == NULL) | (moved >= MIN_COPY_BYTES), copies)


def _copies_in_words(scope: Scope, rows: Int64, exposed: int) -> str:
    """Number, time, bytes and rate of some copies, and how long of it nothing else ran, in ns."""
    moved = bytes_of(scope.trace, rows)
    spent, total = int(scope.trace.slices.dur[rows].sum()), int(moved[moved > 0].sum())
    return (
        f"{scope.per_step(len(rows), 'copy')}, {duration(spent)}"
        + (f", {size(total)} at {rate(total, spent)}" if total else "")
        + f"; {duration(exposed)} of it with nothing else on the GPU"
    )


def exposed_copy(scope: Scope) -> Iterator[Finding]:
    """Copies between CPU and GPU from pinned memory during which nothing computes (R3.30)."""
    trace, rows = scope.trace, scope.copies
    rows = _large(trace, rows[is_named(trace, rows, _WITH_HOST.search) & ~is_named(trace, rows, PAGEABLE.search)])
    exposed = alone(scope, rows)
    if exposed < MIN_EXPOSED_COPIES * scope.time:
        return
    to_host = is_named(trace, rows, TO_HOST.search)
    direction = "to the CPU" if to_host.all() else "between CPU and GPU" if to_host.any() else "to the GPU"
    yield from scope.with_cost(
        "exposed-copy",
        exposed,
        f"Nothing computes during copies {direction}",
        _copies_in_words(scope, rows, exposed),
        "Keep on the GPU what is copied again and again, such as weights that are offloaded. Copy the rest earlier, on "
        "a second stream with non_blocking=True, while the GPU computes.",
        longest(trace, rows),
        action="copy less, or beside computation",
    )


def dependency(scope: Scope) -> Iterator[Finding]:
    """Launched activities wait because their stream was told to wait for an event (R3.29)."""
    trace = scope.trace
    # The first activities of streams may have been launched as the capture began, behind such a wait.
    first = parts_of(scope, Cause.BEFORE_CAPTURE)
    first = first.take(told_to_wait(trace)[first.gap] & idleness(trace).known[first.gap])
    # Where more is missing in graphs than waits for events, the event may be of what is missing.
    lost = idle_cost(scope, parts_of(scope, Cause.NOT_RECORDED))
    for parts, early in ((parts_of(scope, Cause.STREAM), False), (first, True)):
        parts = parts.take(parts.dur >= MIN_DEPENDENCY_NS)
        if len(parts) == 0:
            continue
        after = idleness(trace).after[parts.gap]
        waiting = group(trace.slices.lane[after])
        lane = trace.lanes[int(waiting.key[np.argmax(waiting.sum(parts.dur))])]
        row = longest_part(scope, parts)
        yield from scope.with_cost(
            "dependency",
            idle_cost(scope, parts),
            "Activities launched as the recording began wait for an event while the GPU runs nothing that was recorded"
            if early
            else "Launched activities wait for an event while the GPU is idle",
            f"{scope.per_step(len(parts), 'wait')} of at most {duration(int(parts.dur.max()))}, most of it on "
            f"{lane.name}, the longest before {trace.name_of(row)}{_waited_for(scope, parts, early)}",
            "See which event the stream waits for"
            + (", and record from an earlier moment on." if early else ", and start what records it earlier."),
            row,
            at_gap=True,
            action="" if early else "start what the stream waits for earlier",
            at_most=Severity.NOTE if early or lost > idle_cost(scope, parts) else Severity.MAJOR,
        )


def _waited_for(scope: Scope, parts: IdleParts, early: bool) -> str:
    """A clause on what the event may belong to: nothing of the device itself, which ran nothing meanwhile."""
    slices, order = scope.trace.slices, device_order(scope.trace)
    device = idleness(scope.trace).device[parts.gap]
    beside = 0
    for number in distinct(device).tolist():
        others = order.row[order.device != number]
        mine = device == number
        starts, ends = union(slices.start[others], slices.end[others])
        beside += int(covered_within(starts, ends, parts.start[mine], parts.end[mine]).sum())
    if 2 * beside > int(parts.dur.sum()):
        return "; other devices of the trace were busy meanwhile"
    before = "work launched before the recording, " if early else ""
    return f"; the event is of no recorded work of this device: it may be of {before}another device, or of the CPU"
