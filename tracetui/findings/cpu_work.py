"""Rules about work of the CPU for which the GPU waits: start-up, memory from the driver, compilation, graph captures.

Memory that the first operators take is start-up, and no matter of the rule about the allocator. Guards and eager
operators between compiled regions are part of the launch overhead: findings about them have no cost of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tracetui.findings.idle_time import idle_cost, longest_part, parts_of
from tracetui.findings.scope import (
    Finding,
    Scope,
    Severity,
    longest,
    most_common,
    percent_text,
    severity_of_share,
)
from tracetui.frozen import frozen
from tracetui.idle.thread_causes import (
    first_runs,
    indicating_slices,
    start_up_calls,
    start_up_ops,
    workspace_calls,
)
from tracetui.idle.waits import Cause
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import calls_named, links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import graph_captures, in_capture
from tracetui.linking.steps import steps
from tracetui.linking.trees import ancestors, count_inside, forest, is_named
from tracetui.memory.allocator import CPU
from tracetui.memory.allocator import allocator as allocations
from tracetui.model.intervals import Int64, covered, without
from tracetui.model.quantities import counted, duration, size
from tracetui.model.recorded import whole_number
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.tables.compiles import Recompiled, compilations, has_compilations, recompiled
from tracetui.tables.launches import LAUNCH_NAME

MAX_NAMED_CALLS = 4
"""Maximum calls named in a sentence, the longest first."""
MIN_PINNED_CALLS = 3
"""Minimum allocations of pinned memory, after the first GPU activity, that are made again and again."""

MIN_FREED = 2
"""Minimum calls that give memory back, for a note although the GPU was hardly idle for them."""

MIN_UNCACHED_SHARE = 0.8
"""Minimum share of the tensors that take memory from the driver, where the caching allocator is off ..."""
MIN_UNCACHED_CALLS = 20
"""... and the least number of them."""
MAX_UNFILLED_SHARE = 0.8
"""Maximum share of the device's memory that is reserved while it is not full."""

_EMPTY = re.compile(r"^aten::empty(_strided)?$")
"""Operators that make the tensors; others make them through these."""
_FREE = re.compile(r"^(cuda|hip)Free(Async)?$|^(cu|hip)MemFree")
_MALLOC = re.compile(r"^(cuda|hip)Malloc(Async)?$|^(cu|hip)Mem(Alloc|Create)")
_PINNED = re.compile(r"^(cuda|hip)(HostAlloc|MallocHost|HostMalloc|HostRegister)|^cuMemHostAlloc|^cuMemAllocHost")


def start_up(scope: Scope) -> Iterator[Finding]:
    """CUDA and its libraries start up, or modules are loaded, before the first kernel and between kernels (R3.61)."""
    trace = scope.trace
    calls = scope.inside(np.union1d(start_up_calls(trace), start_up_ops(trace)))
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
    """The longest calls with their times and the operators that made them, of operators the outermost ones."""
    slices, words = trace.slices, []
    for row in rows[np.argsort(-slices.dur[rows], kind="stable")][:MAX_NAMED_CALLS].tolist():
        owner = int(links(trace).owner[row])
        if slices.kind[row] == Kind.CPU_OP:
            above = [each for each in ancestors(slices, row) if slices.kind[each] == Kind.CPU_OP]
            owner = above[-1] if above else -1
        first = "the first " if first_runs(trace)[owner] else ""
        around = f" in {first}{trace.name_of(owner)}" if owner >= 0 else ""
        words.append(f"{trace.name_of(row)} {duration(int(trace.slices.dur[row]))}{around}")
    return ", ".join(words)


_FULL = (
    "GPU memory is full, or empty_cache() gave it back, and the allocator starts anew: a smaller batch, stable shapes, "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no empty_cache() in the loop."
)
_NOT_FULL = (
    "GPU memory was not full: something gives it back. Leave out empty_cache() in the loop; the capture of a CUDA "
    "graph calls it too."
)
_UNCACHED = (
    "Unset PYTORCH_NO_CUDA_MEMORY_CACHING (PYTORCH_NO_HIP_MEMORY_CACHING): without the caching allocator each tensor "
    "calls the driver, and each free waits for the GPU."
)
_GROWING = (
    "The reserved memory still grows: warm up with the largest shapes, or keep shapes stable; "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes growing cheaper."
)
_GIVEN_BACK = (
    "Memory is given back to the driver: leave out empty_cache() where the program calls it; the capture of a CUDA "
    "graph calls it too."
)


def _pin_once(scope: Scope) -> str:
    once = (
        "Pinning memory takes milliseconds and stops the thread: allocate the pinned buffers once and fill them again"
    )
    return once + ("." if scope.program.serves else ", or let DataLoader(pin_memory=True) do it in its own thread.")


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
    uncached = _calls_for_each_tensor(scope, taken, freed) if taken_again else ""
    off = "The caching allocator is off: " if uncached else ""
    why, again = (uncached, _UNCACHED) if uncached else _why_given_back(trace) if taken_again else ("", "")
    evidence = "; ".join([*calls, *([why] if why else [])])
    if cost and calls:
        advice = _GROWING if len(taken) else _GIVEN_BACK
        action = "keep the memory" if taken_again or not len(pinned) else "allocate pinned memory once"
        if taken_again:
            advice = again
        elif len(pinned) > max(len(taken), len(freed)):
            advice = _pin_once(scope)
        yield from scope.with_cost(
            "allocator",
            cost,
            f"{off}{'the' if off else 'The'} GPU waits while memory is taken from the driver or given back",
            f"{evidence}; the GPU idle meanwhile for {duration(cost)}",
            advice,
            longest_part(scope, parts),
            at_gap=True,
            action="turn the caching allocator on" if uncached else action,
        )
    if scope.severity_of(cost) is None:
        yield from _pinned_again(scope, pinned)
        if taken_again and len(freed) >= MIN_FREED and len(steps(trace)):
            yield Finding(
                "allocator",
                Severity.NOTE,
                f"{off}{'memory' if off else 'Memory'} is given back to the driver and taken again after the first "
                "step",
                evidence,
                again,
                longest(trace, freed),
            )


def _calls_for_each_tensor(scope: Scope, taken: Int64, freed: Int64) -> str:
    """A clause on the tensors of which nearly each took its memory from the driver; empty where most did not.

    Where memory was recorded, the allocations on the GPU are the tensors; else the calls of `aten::empty` are.
    """
    trace, events = scope.trace, allocations(scope.trace)
    on_gpu = np.array([not label.startswith(CPU) for label in (*events.devices, CPU)], bool)[events.device]
    tensors = int((events.allocations & on_gpu).sum())
    if tensors:
        called = min(len(calls_named(trace, _MALLOC)), tensors)
        words = f"{called:,} of {counted(tensors, 'allocation')} on the GPU"
    else:
        empty = scope.ops[is_named(trace, scope.ops, _EMPTY.search)]
        tensors = len(empty)
        called = int((count_inside(trace, empty, calls_named(trace, _MALLOC)) > 0).sum())
        words = f"{called:,} of {counted(tensors, 'call')} of aten::empty and aten::empty_strided"
    # What is cached is freed seldom.
    many = called >= max(MIN_UNCACHED_CALLS, MIN_UNCACHED_SHARE * tensors) and 2 * len(freed) >= len(taken)
    return f"{words} took memory from the driver" if many else ""


def _why_given_back(trace: Trace) -> tuple[str, str]:
    """A clause on how full the GPU was, empty where that is not known; and the advice."""
    reserved = int(allocations(trace).reserved.max(initial=NULL))
    sizes = [whole_number(device.properties.get("totalGlobalMem")) or 0 for device in trace.devices]
    if reserved <= 0 or min(sizes, default=0) == 0:
        return "", _FULL
    room = f"{size(reserved)} reserved at most, of {size(min(sizes))}"
    return room, _FULL if reserved > MAX_UNFILLED_SHARE * min(sizes) else _NOT_FULL


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
        _pin_once(scope),
        longest(scope.trace, rows),
    )


def _later(scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Calls by name that are no start-up, made after the first GPU activity; with steps after the first step."""
    trace = scope.trace
    rows = scope.inside(calls_named(trace, pattern))
    rows = without(rows, np.union1d(start_up_calls(trace), workspace_calls(trace)))
    gpu = links(trace).gpu
    begun = trace.slices.start[rows] > trace.slices.start[gpu[0]] if len(gpu) else np.zeros(len(rows), bool)
    return np.asarray(rows[begun & (step_index(trace, rows) != 0)])


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
    again_frames = recompiled(trace) if has_compilations(trace) else []
    if len(rows) == 0 or captures_of(scope).are_longer:
        yield from _recompiled_before(trace, again_frames)
        return
    waited = _waited_for_compilation(scope)
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
    if again_frames:
        known = again_frames[0]
        yield from scope.with_cost(
            "recompilation",
            waited if has_gpu else took,
            f"{known.words}{_of_others(again_frames)}",
            f"{duration(known.time)} in all by the log; here code is compiled{where}, {duration(took)}",
            known.advice,
            longest(trace, rows),
            action=known.action,
        )
        return
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


def recompiled_in_log(scope: Scope) -> Iterator[Finding]:
    """A frame was compiled again and again in a log of torch.compile that is opened alone."""
    if has_compilations(scope.trace):
        yield from _recompiled_before(scope.trace, recompiled(scope.trace))


def _recompiled_before(trace: Trace, frames: Sequence[Recompiled]) -> Iterator[Finding]:
    """A finding on compilations of the log of which none took time in the recording."""
    if not frames:
        return
    worst, of_all = frames[0], sum(each.time for each in compilations(trace))
    yield Finding(
        "recompilation",
        Severity.NOTE if trace.compile_log is not None else Severity.MAJOR,
        f"{worst.sentence}{_of_others(frames)}",
        f"{percent_text(100 * worst.time / max(of_all, 1))} of the {duration(of_all)} of all compilations in the log",
        worst.advice,
        max(worst.compilations, key=lambda each: each.time).example,
        action=worst.action,
    )


def _of_others(frames: Sequence[Recompiled]) -> str:
    others = len(frames) - 1
    return f"; {counted(others, 'other frame')} too" if others else ""


def _waited_for_compilation(scope: Scope) -> int:
    """Idle time in ns while code was compiled or graphs were captured, that before the first kernel included."""
    before = scope.lead_causes[Cause.COMPILATION]
    return idle_cost(scope, parts_of(scope, Cause.COMPILATION)) + before


@frozen
class CaptureShare:
    """The captures of CUDA graphs in scope."""

    calls: Int64
    """Calls that begin, end and instantiate them."""
    count: int
    launches: int
    """Launches within them, which run only when the graph is replayed."""
    time: int
    """Time in ns of the captures, with making the graphs ready."""
    are_longer: bool
    """They take longer than the compilation of code."""
    are_most: bool
    """They have most of the launches, and more of them than activities ran on the GPU."""


def captures_of(scope: Scope) -> CaptureShare:
    """The captures of CUDA graphs, and their share of the recording."""

    def find() -> CaptureShare:
        trace, slices = scope.trace, scope.trace.slices
        rows = scope.inside(indicating_slices(trace)[Cause.COMPILATION])
        is_call = slices.kind[rows] == Kind.RUNTIME
        captures = graph_captures(trace)
        mine = np.isin(captures.row, scope.inside(captures.row))
        time = covered(
            np.append(slices.start[rows[is_call]], captures.start[mine]),
            np.append(slices.end[rows[is_call]], captures.end[mine]),
        )
        launched = scope.of_kind(Kind.RUNTIME)
        launched = launched[is_named(trace, launched, LAUNCH_NAME.search)]
        inside = int(in_capture(trace, launched).sum())
        longer = time > covered(slices.start[rows[~is_call]], slices.end[rows[~is_call]])
        most = 2 * inside > len(launched) and inside > len(scope.activities)
        return CaptureShare(rows[is_call], int(mine.sum()), inside, time, longer, most)

    return scope.trace.keep(("captures of graphs", scope.step), find)


def graph_capture(scope: Scope) -> Iterator[Finding]:
    """CUDA graphs were captured: the recording is of that, or the GPU waited for it."""
    trace, captures = scope.trace, captures_of(scope)
    if len(captures.calls) == 0 or not (captures.are_longer or captures.are_most):
        return
    many, waited = captures.count != 1, _waited_for_compilation(scope)
    graphs = f"{captures.count:,} CUDA graphs" if many else "a CUDA graph"
    worst = longest(trace, captures.calls)
    notes = [each for each in ancestors(trace.slices, worst) if trace.slices.kind[each] == Kind.ANNOTATION]
    notes = [each for each in notes if each not in steps(trace).slices]
    within = f" in {trace.name_of(notes[0])}" if notes else ""
    names = group(trace.slices.name[captures.calls])
    most = names.key[np.argsort(-names.sum(trace.slices.dur[captures.calls]), kind="stable")][:MAX_NAMED_CALLS]
    evidence = (
        f"{counted(captures.count, 'capture')} of {counted(captures.launches, 'launch')}{within}, which run only when "
        f"the graph is replayed; {duration(captures.time)} with making the {'graphs' if many else 'graph'} ready "
        f"({', '.join(trace.names[key] for key in most.tolist())})"
    )
    action = "record the replays"
    if captures.are_most:
        waits = f"; the GPU waited for it {scope.cost_text(waited)}" if waited else ""
        yield Finding(
            "graph-capture",
            Severity.MAJOR,
            f"The recording is of the capture of {graphs}{within}: nothing about the load of the GPU follows from it",
            evidence + waits,
            "The launches of a capture run nothing: record replays of the graph to see the GPU at work.",
            worst,
            action=action,
        )
        return
    yield from scope.with_cost(
        "graph-capture",
        waited,
        f"{'CUDA graphs are' if many else 'A CUDA graph is'} captured while the GPU waits",
        evidence,
        "A graph is captured once for each shape, and its replays are what counts: warm up before recording, or record "
        "the replays.",
        worst,
        action=action,
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
    frames = scope.of_kind(Kind.PYTHON)
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
    rows = np.sort(np.concatenate([scope.ops, scope.of_kind(Kind.ANNOTATION)]))
    return rows[is_named(scope.trace, rows, pattern.search)]
