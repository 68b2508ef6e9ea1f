"""Rules about the inputs of a program: data that is loaded, and random numbers that are made, while the GPU waits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracetui.findings.idle_time import (
    idle_cost,
    launching_idle,
    longest_part,
    parts_of,
)
from tracetui.findings.scope import Finding, Scope, longest, most_common
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.waits import Cause
from tracetui.linking.links import links
from tracetui.linking.trees import count_inside, forest, is_named
from tracetui.model.intervals import Int64, covered, union
from tracetui.model.quantities import duration
from tracetui.model.trace import Kind

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
