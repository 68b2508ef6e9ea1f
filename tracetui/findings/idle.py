"""Rules about idle time between launches: launch overhead, long stretches without an operator, stalled threads, waits
for other processes, and graphs of which nodes are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.findings.finding import Finding
from tracetui.findings.idle_time import idle_cost, launching_parts, longest_part, parts_of, places
from tracetui.findings.optimizer import optimizer_loop_idle
from tracetui.findings.program import Program
from tracetui.findings.scope import Scope
from tracetui.idle.cause_words import Cause
from tracetui.idle.idle_parts import MIN_SPLIT_GAP_NS, IdleParts
from tracetui.idle.idleness import idleness
from tracetui.idle.slow_calls import stalled_calls
from tracetui.idle.unrecorded import unrecorded_holes
from tracetui.idle.verdict import verdict_on
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import unserving_steps
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.trace import Trace

MIN_UNRECORDED_SHARE = 0.02
"""Minimum share of the time in holes of graphs, for a finding."""


def launch_overhead(scope: Scope) -> Iterator[Finding]:
    """The CPU does not launch as fast as the GPU runs what it launches (R3.27)."""
    trace, parts = scope.trace, launching_parts(scope)
    loop = optimizer_loop_idle(scope)
    cost = idle_cost(scope, parts) - loop
    if cost <= 0:
        return
    short = parts.take(idleness(trace).dur[parts.gap] < MIN_SPLIT_GAP_NS)
    in_short = idle_cost(scope, short)
    longer = idle_cost(scope, parts) - in_short
    told = [f"{counted(len(short), 'gap')} below 1 ms, {duration(in_short)}{_each_device(scope)}"] if len(short) else []
    if longer:
        told.append(f"{duration(longer)} in {'longer ones' if told else 'gaps of a millisecond and more'}")
    told.append(_launch_calls(scope))
    told += [f"longest in {named}"] if (named := places(trace, parts)) else []
    told += [f"another {duration(loop)} inside the optimizer"] if loop else []
    told.append(_all_idle(scope))
    mostly_long = 2 * longer > idle_cost(scope, parts)
    yield from scope.priced(
        "launch-overhead",
        cost,
        "The CPU launches late, busy with other work in gaps of a millisecond and more"
        if mostly_long
        else "Launch overhead: the CPU launches later than the GPU could run",
        "; ".join(told),
        _SHORTEN if mostly_long else _launch_advice(scope.program),
        longest_part(scope, parts),
        at_gap=True,
        action="shorten what the CPU does before it launches" if mostly_long else _launch_action(scope.program),
    )


_SHORTEN = (
    "Fewer or cheaper launches help little: look at what the CPU does there, and move it out of the loop, to the GPU, "
    "or to another thread or process that works ahead (DataLoader workers)."
)


def _all_idle(scope: Scope) -> str:
    """All idle time, whatever the cause, with the shares that the verdict rests on."""
    judged = verdict_on(scope.trace, scope.step)
    share = judged.idle_text.removeprefix("idle ") if judged else "0 %"
    wait = " and before it" if judged and judged.wait else ""
    return f"the GPU is idle for {duration(scope.idle // scope.devices)} in {scope.title}{wait}, {share}"


def _each_device(scope: Scope) -> str:
    return f" in the mean of {scope.devices:,} GPUs" if scope.devices > 1 else ""


def _launch_calls(scope: Scope) -> str:
    """Launches a step, and the median time of a call."""
    launch = links(scope.trace).launch[scope.activities]
    calls = distinct(launch[launch >= 0])
    usual = float(np.median(scope.trace.slices.dur[calls])) if len(calls) else 0.0
    called = counted(len(calls), "launch")
    each = f" ({len(calls) / scope.rounds:,.0f} a step)" if scope.rounds > 1 else ""
    return f"{called}{each} of {duration(usual)}{_in_the_median(len(calls))}"


def _in_the_median(number: int) -> str:
    """Stands behind a time of several things; one has no median."""
    return " in the median" if number > 1 else ""


def _launch_advice(does: Program) -> str:
    """The next step for a program in its state: eager, compiled, or replaying graphs."""
    again = "Python frames were recorded, which slows the CPU: measure again without them first. "
    if does.has_graphs:
        advice = "CUDA graphs are in use: enlarge the batch, and take what runs between replays into the graph."
    elif does.is_wholly_compiled:
        advice = "The code is compiled, not graphed: mode='reduce-overhead' or CUDA graphs, then a larger batch."
    elif does.is_compiled:
        advice = (
            f"Compiled code launches {rounded_percent(100 * does.compiled_share)} of the kernels: compile the rest "
            "(TORCH_LOGS=graph_breaks tells what leaves it out), then replay graphs (mode='reduce-overhead')."
        )
    else:
        advice = "Launch fewer and larger kernels: torch.compile, a larger batch, fused or batched operators."
    return (again if does.has_frames else "") + advice


def _launch_action(does: Program) -> str:
    if does.has_frames:
        return "measure again without Python frames"
    if does.has_graphs:
        return "enlarge the batch"
    if does.is_wholly_compiled:
        return "replay graphs"
    return "compile the rest of the program" if does.is_compiled else "launch fewer and larger kernels"


def long_gap_without_op(scope: Scope) -> Iterator[Finding]:
    """The thread is in no operator and no call for a millisecond and more, and the GPU is idle (R3.27)."""
    trace, parts = scope.trace, parts_of(scope, Cause.LONG_GAP)
    gaps = np.unique(parts.gap)
    if len(gaps) == 0:
        return
    sums = np.bincount(np.searchsorted(gaps, parts.gap), parts.dur)
    where = places(trace, parts)
    yield from scope.priced(
        "long-gap-without-op",
        idle_cost(scope, parts),
        "The GPU is idle while the CPU is in no operator and no call",
        f"{counted(len(gaps), 'gap')} of {duration(float(np.median(sums)))}{_in_the_median(len(gaps))}"
        f"{_recurs(scope, parts)}{_after(trace, parts)}" + (f"; in {where}" if where else "; no frame tells where"),
        "Python or other CPU work between operators: move it out of the loop, vectorise it, or give it to another "
        f"thread or process{_how_to_see(scope.program)}",
        longest_part(scope, parts),
        at_gap=True,
        action="find what the CPU does there",
    )


def _how_to_see(does: Program) -> str:
    named = "." if does.has_frames else "; with_stack=True names the lines."
    inputs = " In a compiled call it is the handling of inputs before the first kernel." if does.is_compiled else ""
    return named + inputs


def _recurs(scope: Scope, parts: IdleParts) -> str:
    """In how many steps, where there are several."""
    serving = ~unserving_steps(scope.trace)
    total = int(serving.sum())
    if total < 2 or scope.rounds < 2:
        return ""
    held = np.unique(step_index(scope.trace, idleness(scope.trace).after[parts.gap]))
    count = int(serving[held[held >= 0]].sum())
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
    yield from scope.priced(
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
    yield from scope.priced(
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
    severity = scope.weigh(time)
    if severity is None or time < MIN_UNRECORDED_SHARE * scope.time:
        return
    graphs = replays(trace)
    yield Finding(
        "unrecorded-graph-work",
        severity,
        f"Graph replays hold work that was not recorded: {scope.amount(time)} only look idle",
        f"{counted(len(graphs), 'graph launch')} with {int(graphs.nodes.sum()):,} recorded nodes; "
        f"{counted(len(parts), 'hole')} of {duration(float(np.median(parts.dur)))}{_in_the_median(len(parts))}, in "
        f"{counted(unrecorded_holes(trace).replays, 'replay')}",
        "Use a newer CUPTI (CUDA 12.8 and later record more kinds of nodes), or record one step without graphs to see "
        "what runs there. Idle time and verdict of these graphs mean little.",
        longest_part(scope, parts),
        at_gap=True,
    )
