"""Rules about torch.compile: code compiled while the program ran, regions that are broken up, and guards.

Guards and eager operators between compiled regions are launch overhead, which the rules about idle time price:
findings about them are weighed by it and have no cost of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.findings.idle_time import idle_cost, parts_of, time_to_first_kernel
from tracetui.findings.scope import Finding, Scope, Severity, longest, most_common
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.waits import Cause
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import graph_captures, in_capture
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Kind, Trace
from tracetui.tables.launches import LAUNCH_NAME

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
    trace = scope.trace
    rows = scope.inside(indicating_slices(trace)[Cause.COMPILATION])
    if len(rows) == 0:
        return
    captured, compiled = _capture_time(scope, rows), rows[trace.slices.kind[rows] != Kind.RUNTIME]
    took = covered(trace.slices.start[compiled], trace.slices.end[compiled])
    if captured > took:
        yield from _graph_capture(scope, rows, captured)
        return
    took = covered(trace.slices.start[rows], trace.slices.end[rows])
    has_gpu = len(links(trace).gpu) > 0
    waited = idle_cost(scope, parts_of(scope, Cause.COMPILATION)) + time_to_first_kernel(scope).of(Cause.COMPILATION)
    cost = waited if has_gpu else took
    held = len(distinct(steps(trace).number[step_index(trace, rows)])) if len(steps(trace)) else 1
    repeated = _recompiled(trace, rows)
    again = len(repeated) > 0 or (scope.rounds > 1 and held > 1)
    ids = f"; compiled again: {', '.join(repeated[:MAX_NAMED_COMPILES])}" if repeated else ""
    where = f" in {held:,} of {scope.rounds:,} steps" if scope.rounds > 1 else ""
    what = f"Code is compiled{where}"
    yield from scope.priced(
        "recompilation",
        cost,
        f"{what} while the GPU waits" if has_gpu else what,
        f"{duration(took)} in {counted(len(rows), 'slice')}, most often {most_common(trace, rows)}{ids}",
        "TORCH_LOGS=recompiles names the guard that fails: keep shapes and Python values alike, or mark sizes dynamic."
        if again
        else "Run the program until nothing is compiled any more, then record. Where it happens again later, "
        "TORCH_LOGS=recompiles names the guard that fails.",
        longest(trace, rows),
        action="find the guard that fails" if again else "warm up before recording",
    )


def _recompiled(trace: Trace, rows: Int64) -> list[str]:
    """Ids of compilations of code that had been compiled before, as `frame 3, version 1`."""
    names = {trace.names[number] for number in distinct(trace.slices.name[rows]).tolist()}
    found = {(int(match[1]), int(match[2])) for name in names for match in _COMPILE_ID.finditer(name)}
    return [f"frame {frame}, version {version}" for frame, version in sorted(found) if version > 0]


def _graph_capture(scope: Scope, rows: Int64, took: int) -> Iterator[Finding]:
    """Graphs were captured while the GPU waited, which costs once what replays save."""
    trace, slices = scope.trace, scope.trace.slices
    calls = scope.inside(graph_captures(trace).row)
    launched = scope.inside(trace.slices.of_kind(Kind.RUNTIME))
    launched = launched[is_named(trace, launched, LAUNCH_NAME.search) & in_capture(trace, launched)]
    many = len(calls) != 1
    yield from scope.priced(
        "recompilation",
        idle_cost(scope, parts_of(scope, Cause.COMPILATION)) + time_to_first_kernel(scope).of(Cause.COMPILATION),
        f"{'CUDA graphs are' if many else 'A CUDA graph is'} captured while the GPU waits",
        f"{counted(len(calls), 'capture')} of {counted(len(launched), 'launch')}, which run only when the graph is "
        f"replayed; {duration(took)} with making the {'graphs' if many else 'graph'} ready",
        "A graph is captured once for each shape, and its replays are what counts: warm up before recording, or record "
        "the replays.",
        longest(trace, rows[slices.kind[rows] == Kind.RUNTIME]),
        action="record the replays",
    )


def _capture_time(scope: Scope, rows: Int64) -> int:
    """Time in ns in which graphs are captured and made ready, of slices that indicate compilation."""
    trace, slices = scope.trace, scope.trace.slices
    every = graph_captures(trace)
    mine = np.isin(every.row, scope.inside(every.row))
    calls = rows[slices.kind[rows] == Kind.RUNTIME]
    return covered(np.append(slices.start[calls], every.start[mine]), np.append(slices.end[calls], every.end[mine]))


def graph_breaks(scope: Scope) -> Iterator[Finding]:
    """Compiled code is broken up into regions, or calls check their guards, and the GPU waits (R3.47)."""
    guards = _running(scope, _guards(scope))
    regions = _running(scope, _named(scope, _REGION))
    broken, said = _broken(scope, regions)
    if len(broken) == 0:
        yield from _guards_alone(scope, guards)
        return
    cost = min(scope.cpu_cost(guards) + _between_graphs(scope, regions, guards), scope.time)
    severity = scope.weigh(cost)
    if severity is None:
        return
    yield Finding(
        "graph-breaks",
        severity,
        f"{said}: the GPU waits {scope.amount(cost)}",
        f"{scope.per_step(len(regions), 'compiled region')}, {scope.per_step(len(guards), 'guard check')}; most often "
        f"{most_common(scope.trace, broken)}; the time is part of the launch overhead",
        "TORCH_LOGS=graph_breaks names each break and its reason, and fullgraph=True makes the first one an error; "
        "compile a larger region.",
        longest(scope.trace, broken),
        action="find the graph breaks",
    )


def _broken(scope: Scope, regions: Int64) -> tuple[Int64, str]:
    """The slices that show that compiled code is broken up, and what they show; none where nothing does.

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
    severity = scope.weigh(cost)
    if severity is None:
        return
    yield Finding(
        "compile-preamble",
        min(severity, Severity.MINOR),
        f"The GPU waits while compiled functions check their guards: {scope.amount(cost)}",
        f"{scope.per_step(len(guards), 'slice')}, most often {most_common(scope.trace, guards)}; "
        "the time is part of the launch overhead",
        "Compile a larger region, so that there are fewer calls"
        + ("." if scope.program.has_graphs else ", or use mode='reduce-overhead', which replays graphs."),
        longest(scope.trace, guards),
    )


def _between_graphs(scope: Scope, regions: Int64, guards: Int64) -> int:
    """Time in ns for which the GPU waited inside regions and outside of their graphs and guards.

    0 where the graphs of most regions were not recorded.
    """
    graphs = _named(scope, _GRAPH)
    if 2 * len(graphs) < len(regions):
        return 0
    known = np.union1d(graphs, guards)
    return scope.cpu_cost(np.union1d(regions, known)) - scope.cpu_cost(known)


def _each(scope: Scope, count: int) -> str:
    """How often something happens: `12 times a step`; without steps `12 times`."""
    each = count / scope.rounds
    times = counted(int(each), "time") if each == int(each) else f"{each:,.{0 if each >= 10 else 1}f} times"
    return f"{times} a step" if len(steps(scope.trace)) else times


def _alternates(scope: Scope, regions: Int64) -> bool:
    """Whether there are many regions, and launches outside of all regions behind most of them."""
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


def _running(scope: Scope, rows: Int64) -> Int64:
    """The slices outside of captures of graphs, in which nothing runs that the GPU could wait for."""
    return rows[~in_capture(scope.trace, rows)]


def _guards(scope: Scope) -> Int64:
    """What compiled calls do before their graphs; without those during which the thread was not running."""
    rows, slices = _named(scope, _BEFORE_GRAPH), scope.trace.slices
    if len(rows) == 0:
        return rows
    names = group(slices.name[rows])
    usual = names.median(slices.dur[rows])[names.member]
    kept: Int64 = rows[slices.dur[rows] <= MAX_GUARD_RATIO * np.maximum(usual, 1)]
    return kept


def _named(scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Ops and annotations in scope whose names match the pattern, ascending."""
    notes = scope.inside(scope.trace.slices.of_kind(Kind.ANNOTATION))
    rows = np.sort(np.concatenate([scope.ops, notes]))
    return rows[is_named(scope.trace, rows, pattern.search)]
