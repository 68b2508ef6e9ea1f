"""Rules about what the CPU does: queries, the profiler itself, and what `torch.compile` adds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.findings.finding import Finding, Scope, Severity, longest, most_common
from tracetui.analysis.findings.words import counted, time
from tracetui.analysis.health.time_checks import stack_cost
from tracetui.analysis.idle.waits import flush
from tracetui.analysis.occupancy import queries
from tracetui.model.intervals import Int64, covered
from tracetui.model.trace import Kind, Trace

_BEFORE_GRAPH = re.compile(r"^(TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue)$")
_COMPILING = re.compile(
    r"_compile\.compile_inner|compile_fx|entire_frame_compile|create_aot_dispatcher_function|GraphLowering|"
    r"inductor_codecache|PyCodeCache|CUDAGraphNode\.record"
)


def occupancy_queries(scope: Scope) -> Iterator[Finding]:
    """cuBLAS asks how many blocks of a kernel fit before it launches it (R3.26)."""
    trace = scope.trace
    rows = scope.inside(queries(trace))
    if len(rows) == 0:
        return
    cost = int(trace.slices.dur[rows].sum())
    yield Finding(
        "occupancy-queries",
        scope.weigh(cost),
        "Libraries ask for the occupancy of kernels before launching them",
        f"{scope.per_step(len(rows), 'query')}, {time(cost)}, {scope.share(cost)}",
        "Each marks a launch that was sized on the spot, mostly a matrix product: cuBLAS asks how many blocks of a "
        "candidate fit on a multiprocessor. They cost about a microsecond and no GPU time; nothing to do unless they "
        "are many.",
        longest(trace, rows),
        cost,
    )


def profiler_events(scope: Scope) -> Iterator[Finding]:
    """The profiler's own cost, which is in the trace as if it were the program's."""
    trace = scope.trace
    rows = trace.slices.of_kind(Kind.OVERHEAD)
    final = flush(trace)
    if len(rows) == 0 and len(final) == 0:
        return
    cost = covered(trace.slices.start[rows], trace.slices.end[rows])
    evidence = (
        [f"{counted(len(rows), 'slice')} of overhead, {time(cost)}; most often {most_common(trace, rows)}"]
        if len(rows)
        else []
    )
    if len(final):
        evidence.append(f"{trace.name_of(int(final[0]))} at the end, {time(trace.slices.dur[final[0]])}")
    yield Finding(
        "profiler",
        Severity.NOTE,
        "Part of this is the profiler itself",
        "; ".join(evidence),
        "It flushes its buffers and loads modules while it records, and waits for the device at the end. Leave these "
        "out when you add up; a warm-up step or two in the schedule keeps the first of them out of the trace.",
        longest(trace, rows) if len(rows) else int(final[0]),
        cost,
    )


def stack_inflation(scope: Scope) -> Iterator[Finding]:
    """Recording Python frames makes the CPU slower than it is (R3.34)."""
    doubt = stack_cost(scope.trace)
    if doubt is None or doubt.count == 0:
        return
    yield Finding(
        "stack-recording",
        Severity.NOTE,
        "CPU times are inflated: Python frames were recorded",
        counted(doubt.count, "frame"),
        "with_stack=True can double the time of Python code and more. Do not conclude from this trace that the CPU "
        "limits: record once more without stacks.",
        doubt.row,
    )


def compile_overhead(scope: Scope) -> Iterator[Finding]:
    """Every call of a compiled function looks up its graph and checks its guards first (R3.47)."""
    trace = scope.trace
    rows = _named(trace, scope, _BEFORE_GRAPH)
    if len(rows) == 0:
        return
    cost = covered(trace.slices.start[rows], trace.slices.end[rows])
    yield Finding(
        "compile-preamble",
        scope.weigh(cost),
        "Compiled functions check their guards before each call",
        f"{scope.per_step(len(rows), 'slice')}, {time(cost)}, {scope.share(cost)}; most often "
        f"{most_common(trace, rows)}",
        "This is what a compiled call costs before its first kernel. It pays for itself by the launches that it saves; "
        "compile a larger region, or use mode='reduce-overhead', where it does not.",
        longest(trace, rows),
        cost,
    )


def recompilation(scope: Scope) -> Iterator[Finding]:
    """Something was compiled while the profiler was recording."""
    trace = scope.trace
    rows = _named(trace, scope, _COMPILING)
    if len(rows) == 0:
        return
    cost = covered(trace.slices.start[rows], trace.slices.end[rows])
    yield Finding(
        "recompilation",
        scope.weigh(cost),
        "Code was compiled while the profiler recorded",
        f"{time(cost)}, {scope.share(cost)}; {most_common(trace, rows)}",
        "Warm up until nothing is compiled any more, then record. When it happens in every step, look with "
        "TORCH_LOGS=recompiles for the guard that fails.",
        longest(trace, rows),
        cost,
    )


def _named(trace: Trace, scope: Scope, pattern: re.Pattern[str]) -> Int64:
    """Ops and annotations of the scope in whose names the pattern is found, ascending."""
    notes = scope.inside(trace.slices.of_kind(Kind.ANNOTATION))
    rows = np.sort(np.concatenate([scope.ops, notes]))
    return rows[is_named(trace, rows, pattern.search)]
