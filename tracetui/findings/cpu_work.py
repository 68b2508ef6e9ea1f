"""Rules about work of the CPU for which the GPU waits: start-up, memory from the driver, loading of data, compilation.

Memory that the first operators take is start-up, and no matter of the rule about the allocator. Guards and eager
operators between compiled regions are part of the launch overhead: findings about them have no cost of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.findings.idle_time import causes_before_first_kernel, idle_cost, longest_part, parts_of
from tracetui.findings.scope import (
    Finding,
    Scope,
    Severity,
    longest,
    most_common,
    percent_text,
    severity_of_share,
)
from tracetui.idle.thread_causes import first_runs, indicating_slices, start_up_calls
from tracetui.idle.waits import Cause
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import graph_captures, in_capture
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest, is_named
from tracetui.model.intervals import Int64, covered, union
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Kind, Trace
from tracetui.tables.launches import LAUNCH_NAME

MAX_NAMED_CALLS = 4
"""Maximum calls named in a sentence, the longest first."""
MIN_PINNED_CALLS = 3
"""Minimum allocations of pinned memory, after the first GPU activity, that are made again and again."""

MIN_FREED = 2
"""Minimum calls that give memory back, for a note although the GPU was hardly idle for them."""

_FREE = re.compile(r"^(cuda|hip)Free(Async)?$|^(cu|hip)MemFree")
_MALLOC = re.compile(r"^(cuda|hip)Malloc(Async)?$|^(cu|hip)Mem(Alloc|Create)")
_PINNED = re.compile(r"^(cuda|hip)(HostAlloc|MallocHost|HostMalloc|HostRegister)|^cuMemHostAlloc|^cuMemAllocHost")


def start_up(scope: Scope) -> Iterator[Finding]:
    """CUDA and its libraries start up, or modules are loaded, before the first kernel and between kernels (R3.61)."""
    trace = scope.trace
    calls = scope.inside(start_up_calls(trace))
    parts, (before, between) = parts_of(scope, Cause.START_UP), scope.start_up
    severity = severity_of_share((before + between) / scope.time)
    if severity is None:
        return
    waits = [f"{duration(between)} of GPU idle time"] if between else []
    waits += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    slow = f"; {counted(len(calls), 'slow first use')}: {_calls_and_ops(trace, calls)}" if len(calls) else ""
    share = f"{duration(before + between)}, {percent_text(100 * (before + between) / scope.time)} of {scope.title}"
    yield Finding(
        "start-up",
        severity,
        f"The recording holds a start-up: first uses load libraries and modules: {share}",
        " and ".join(waits) + slow,
        "Run the program until everything has been used once, then record: schedule(wait=..., warmup=...). "
        "CUDA_MODULE_LOADING=EAGER tells whether lazy loading of modules is part of it.",
        longest(trace, calls) if len(calls) else longest_part(scope, parts),
        before + between,
        "warm up before recording",
        at_gap=not len(calls),
    )


def _calls_and_ops(trace: Trace, rows: Int64) -> str:
    """The longest calls with their times and the operators that made them."""
    owner, words = links(trace).owner, []
    for row in rows[np.argsort(-trace.slices.dur[rows], kind="stable")][:MAX_NAMED_CALLS].tolist():
        first = "the first " if first_runs(trace)[owner[row]] else ""
        around = f" in {first}{trace.name_of(int(owner[row]))}" if owner[row] >= 0 else ""
        words.append(f"{trace.name_of(row)} {duration(int(trace.slices.dur[row]))}{around}")
    return ", ".join(words)


_FULL = (
    "GPU memory is full, or empty_cache() gave it back, and the allocator starts anew: a smaller batch, stable shapes, "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache() in the loop."
)
_GROWING = (
    "The reserved memory still grows: warm up with the largest shapes, or keep shapes stable; "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes growing cheaper."
)
_GIVEN_BACK = (
    "Memory is given back to the driver: leave out empty_cache() where the program calls it; the capture of a CUDA "
    "graph calls it too."
)
_PIN_ONCE = (
    "Pinning memory takes milliseconds and stops the thread: allocate the pinned buffers once and fill them again, or "
    "let DataLoader(pin_memory=True) do it in its own thread."
)


def allocator(scope: Scope) -> Iterator[Finding]:
    """Memory is taken from the driver, or given back to it, in the middle of the run."""
    trace, slices = scope.trace, scope.trace.slices
    parts = parts_of(scope, Cause.MEMORY)
    cost = idle_cost(scope, parts)
    taken, freed = _later(scope, _MALLOC), _later(scope, _FREE)
    pinned = _later(scope, _PINNED)
    calls = [
        f"{scope.per_step(len(rows), name)}, {duration(int(slices.dur[rows].sum()))}"
        for rows, name in ((freed, "free"), (taken, "allocation"), (pinned, "pinned allocation"))
        if len(rows)
    ]
    taken_again = len(freed) > 0 and len(taken) > 0 and slices.start[taken].max() > slices.start[freed].min()
    if cost and calls:
        advice = _GROWING if len(taken) else _GIVEN_BACK
        if taken_again:
            advice = _FULL
        elif len(pinned) > max(len(taken), len(freed)):
            advice = _PIN_ONCE
        yield from scope.with_cost(
            "allocator",
            cost,
            "The GPU waits while memory is taken from the driver or given back",
            "; ".join(calls) + f"; the GPU idle meanwhile for {duration(cost)}",
            advice,
            longest_part(scope, parts),
            at_gap=True,
            action="keep the memory" if taken_again or not len(pinned) else "allocate pinned memory once",
        )
    if scope.severity_of(cost) is None:
        yield from _pinned_again(scope, pinned)
        if taken_again and len(freed) >= MIN_FREED and len(steps(trace)):
            yield Finding(
                "allocator",
                Severity.NOTE,
                "Memory is given back to the driver and taken again after the first step",
                "; ".join(calls),
                _FULL,
                longest(trace, freed),
            )


def _pinned_again(scope: Scope, rows: Int64) -> Iterator[Finding]:
    """Pinned memory is allocated again and again: the thread stands still, although the GPU had something to do."""
    spent = int(scope.trace.slices.dur[rows].sum())
    severity = scope.severity_of(spent)
    if len(rows) < MIN_PINNED_CALLS or severity is None:
        return
    yield Finding(
        "allocator",
        min(severity, Severity.MINOR),
        f"Pinned memory is allocated inside the run, {duration(spent)} of CPU time",
        f"{scope.per_step(len(rows), 'call')} of {scope.trace.name_of(int(rows[0]))}, {duration(spent)}; the GPU had "
        "other activity meanwhile, but nothing new was launched",
        _PIN_ONCE,
        longest(scope.trace, rows),
    )


def _later(scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Calls by name that are no start-up, made after the first GPU activity; with steps after the first step."""
    trace = scope.trace
    rows = scope.inside(calls_named(trace, pattern))
    rows = np.setdiff1d(rows, start_up_calls(trace), assume_unique=True)
    gpu = links(trace).gpu
    begun = trace.slices.start[rows] > trace.slices.start[gpu[0]] if len(gpu) else np.zeros(len(rows), bool)
    return np.asarray(rows[begun & (step_index(trace, rows) != 0)])


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
    parts, before = parts_of(scope, Cause.DATA_LOADING), causes_before_first_kernel(scope)[Cause.DATA_LOADING]
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


# torch.compile: code compiled while the program ran, regions that are broken up, and guards.

MIN_REGIONS = 10
"""Minimum compiled regions in a step, most of them with eager launches behind, that are many."""
MAX_GUARD_RATIO = 50
"""Maximum time of guards, relative to the median; what takes longer is a thread that was not running."""

MAX_NAMED_COMPILES = 4
"""Maximum recompilations named per sentence."""

_COMPILE_ID = re.compile(r"compile_id=(\d{1,9})/(\d{1,9})")
_REGION = re.compile(r"^Torch-Compiled Region")
_GRAPH = re.compile(r"^## Call CompiledFxGraph|^CompiledFunction$")
_RESUMED = re.compile(r"torch_dynamo_resume_in|__resume_at_\d+")
_BEFORE_GRAPH = re.compile(r"^(TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue)$")


def recompilation(scope: Scope) -> Iterator[Finding]:
    """Code was compiled while the GPU waited for it, or at all in a trace without a GPU."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.inside(indicating_slices(trace)[Cause.COMPILATION])
    if len(rows) == 0:
        return
    waited = idle_cost(scope, parts_of(scope, Cause.COMPILATION)) + causes_before_first_kernel(scope)[Cause.COMPILATION]
    is_call = slices.kind[rows] == Kind.RUNTIME
    captures = graph_captures(trace)
    mine = np.isin(captures.row, scope.inside(captures.row))
    captured = covered(
        np.append(slices.start[rows[is_call]], captures.start[mine]),
        np.append(slices.end[rows[is_call]], captures.end[mine]),
    )
    if captured > covered(slices.start[rows[~is_call]], slices.end[rows[~is_call]]):
        yield from _graph_capture(scope, rows[is_call], captured, waited)
        return
    took = covered(slices.start[rows], slices.end[rows])
    has_gpu = len(links(trace).gpu) > 0
    all_steps = steps(trace)
    count = len(distinct(all_steps.number[step_index(trace, rows)])) if len(all_steps) else 1
    # Code that had been compiled before has a version above 0.
    ids = {
        (int(match[1]), int(match[2]))
        for number in distinct(slices.name[rows]).tolist()
        for match in _COMPILE_ID.finditer(trace.names[number])
    }
    repeated = [f"frame {frame}, version {version}" for frame, version in sorted(ids) if version > 0]
    again = len(repeated) > 0 or (scope.rounds > 1 and count > 1)
    versions = f"; compiled again: {', '.join(repeated[:MAX_NAMED_COMPILES])}" if repeated else ""
    where = f" in {count:,} of {scope.rounds:,} steps" if scope.rounds > 1 else ""
    yield from scope.with_cost(
        "recompilation",
        waited if has_gpu else took,
        f"Code is compiled{where}{' while the GPU waits' if has_gpu else ''}",
        f"{duration(took)} in {counted(len(rows), 'slice')}, most often {most_common(trace, rows)}{versions}",
        "TORCH_LOGS=recompiles names the guard that fails: keep shapes and Python values alike, or mark sizes dynamic."
        if again
        else "Run the program until nothing is compiled any more, then record. Where it happens again later, "
        "TORCH_LOGS=recompiles names the guard that fails.",
        longest(trace, rows),
        action="find the guard that fails" if again else "warm up before recording",
    )


def _graph_capture(scope: Scope, rows: Int64, took: int, waited: int) -> Iterator[Finding]:
    """Graphs were captured while the GPU waited: `rows` are calls that make them ready, times are in ns."""
    trace = scope.trace
    calls = scope.inside(graph_captures(trace).row)
    launched = scope.inside(trace.slices.of_kind(Kind.RUNTIME))
    launched = launched[is_named(trace, launched, LAUNCH_NAME.search) & in_capture(trace, launched)]
    many = len(calls) != 1
    yield from scope.with_cost(
        "recompilation",
        waited,
        f"{'CUDA graphs are' if many else 'A CUDA graph is'} captured while the GPU waits",
        f"{counted(len(calls), 'capture')} of {counted(len(launched), 'launch')}, which run only when the graph is "
        f"replayed; {duration(took)} with making the {'graphs' if many else 'graph'} ready",
        "A graph is captured once for each shape, and its replays are what counts: warm up before recording, or record "
        "the replays.",
        longest(trace, rows),
        action="record the replays",
    )


def graph_breaks(scope: Scope) -> Iterator[Finding]:
    """Compiled code is broken up into regions, or calls check their guards, and the GPU waits (R3.47)."""
    guards, regions = _guards(scope), _rows_named(scope, _REGION)
    # Nothing runs in a capture of a graph that the GPU could wait for.
    guards, regions = (rows[~in_capture(scope.trace, rows)] for rows in (guards, regions))
    broken, statement = _broken(scope, regions)
    if len(broken) == 0:
        yield from _guards_alone(scope, guards)
        return
    graphs, between = _rows_named(scope, _GRAPH), 0
    if 2 * len(graphs) >= len(regions):
        # The GPU waits inside regions and outside of their graphs and guards.
        known = np.union1d(graphs, guards)
        between = scope.cpu_cost(np.union1d(regions, known)) - scope.cpu_cost(known)
    cost = min(scope.cpu_cost(guards) + between, scope.time)
    severity = scope.severity_of(cost)
    if severity is None:
        return
    yield Finding(
        "graph-breaks",
        severity,
        f"{statement}: the GPU waits {scope.cost_text(cost)}",
        f"{scope.per_step(len(regions), 'compiled region')}, {scope.per_step(len(guards), 'guard check')}; most often "
        f"{most_common(scope.trace, broken)}; the time is part of the launch overhead",
        "TORCH_LOGS=graph_breaks names each break and its reason, and fullgraph=True makes the first one an error; "
        "compile a larger region.",
        longest(scope.trace, broken),
        action="find the graph breaks",
    )


def _broken(scope: Scope, regions: Int64) -> tuple[Int64, str]:
    """The slices that show that compiled code is broken up, and a statement about them; no slices where it is not.

    A region within a region, and a frame that resumes one, come from a graph break. Many regions with eager launches
    between them may be what was asked for, layer by layer.
    """
    trace = scope.trace
    frames = scope.inside(trace.slices.of_kind(Kind.PYTHON))
    resumed = frames[is_named(trace, frames, _RESUMED.search)]
    inner = regions[forest(trace, regions) >= 0]
    if len(inner) or len(resumed):
        broken = resumed if len(resumed) else inner
        return broken, f"Graph breaks interrupt compiled code {_each(scope, len(broken))}"
    if _alternates(scope, regions):
        return regions, f"Compiled regions run {_each(scope, len(regions))} with eager operators between them"
    return regions[:0], ""


def _guards_alone(scope: Scope, guards: Int64) -> Iterator[Finding]:
    """The GPU waits while compiled functions look up their graphs and check guards."""
    cost = scope.cpu_cost(guards)
    severity = scope.severity_of(cost)
    if severity is None:
        return
    yield Finding(
        "compile-preamble",
        min(severity, Severity.MINOR),
        f"The GPU waits while compiled functions check their guards: {scope.cost_text(cost)}",
        f"{scope.per_step(len(guards), 'slice')}, most often {most_common(scope.trace, guards)}; "
        "the time is part of the launch overhead",
        "Compile a larger region, so that there are fewer calls"
        + ("." if scope.program.has_graphs else ", or use mode='reduce-overhead', which replays graphs."),
        longest(scope.trace, guards),
    )


def _each(scope: Scope, count: int) -> str:
    """A number of times in words: `12 times a step`; without steps `12 times`."""
    each = count / scope.rounds
    times = counted(int(each), "time") if each == int(each) else f"{each:,.{0 if each >= 10 else 1}f} times"
    return f"{times} a step" if len(steps(scope.trace)) else times


def _alternates(scope: Scope, regions: Int64) -> bool:
    """True where there are many regions, and launches outside of all regions behind most of them."""
    trace, slices = scope.trace, scope.trace.slices
    if len(regions) < MIN_REGIONS * scope.rounds:
        return False
    home = int(np.bincount(slices.lane[regions]).argmax())
    mine = np.sort(regions[slices.lane[regions] == home])
    calls = links(trace).launches
    called = np.sort(slices.start[calls[slices.lane[calls] == home]])
    behind, ahead = slices.end[mine[:-1]], slices.start[mine[1:]]
    eager = np.searchsorted(called, ahead) > np.searchsorted(called, behind)
    return bool(2 * eager.sum() > len(regions))


def _guards(scope: Scope) -> Int64:
    """Slices of compiled calls before their graphs, without those during which the thread was not running."""
    rows, slices = _rows_named(scope, _BEFORE_GRAPH), scope.trace.slices
    if len(rows) == 0:
        return rows
    names = group(slices.name[rows])
    usual = names.median(slices.dur[rows])[names.member]
    kept: Int64 = rows[slices.dur[rows] <= MAX_GUARD_RATIO * np.maximum(usual, 1)]
    return kept


def _rows_named(scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Ops and annotations in scope whose names match the pattern, ascending."""
    annotations = scope.inside(scope.trace.slices.of_kind(Kind.ANNOTATION))
    rows = np.sort(np.concatenate([scope.ops, annotations]))
    return rows[is_named(scope.trace, rows, pattern.search)]
