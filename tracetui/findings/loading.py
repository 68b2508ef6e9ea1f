"""Rule about the input pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.findings.finding import Finding
from tracetui.findings.idle_time import idle_cost, lead_in, longest_part, parts_of
from tracetui.findings.program import Program
from tracetui.findings.scope import Scope, longest
from tracetui.idle.cause_words import Cause
from tracetui.idle.thread_causes import indicating
from tracetui.model.intervals import covered, union
from tracetui.model.quantities import duration


def data_loading(scope: Scope) -> Iterator[Finding]:
    """The GPU is idle while the input pipeline runs on the thread that launches, or on the main thread."""
    trace, slices = scope.trace, scope.trace.slices
    parts, before = parts_of(scope, Cause.DATA_LOADING), lead_in(scope).of(Cause.DATA_LOADING)
    between = idle_cost(scope, parts)
    if between + before == 0:
        return
    every = indicating(trace)[Cause.DATA_LOADING]
    # A loop may load between its steps.
    rows = inside if len(inside := scope.inside(every)) else every
    calls = len(union(slices.start[rows], slices.end[rows])[0])
    spent = covered(slices.start[rows], slices.end[rows])
    idle = [f"{duration(between)} between kernels"] if between else []
    idle += [f"{duration(before)} before the first kernel, which is in no gap"] if before else []
    row = longest_part(scope, parts)
    yield from scope.priced(
        "data-loading",
        between + before,
        f"The GPU waits for the data loader{_where(scope.program)}",
        f"{scope.per_step(calls, 'call')}, {duration(spent)} of CPU time; the GPU idle meanwhile for "
        + ", and ".join(idle),
        _advice(scope.program),
        row if row >= 0 else longest(trace, rows),
        at_gap=row >= 0,
        action=_action(scope.program),
    )


def _where(does: Program) -> str:
    if does.has_workers:
        return ", whose worker processes do not keep up"
    return ", which runs in the main process" if does.loads_in_process else ""


def _advice(does: Program) -> str:
    if does.has_workers:
        return (
            "The workers are too few or too slow: more of them (num_workers), a larger prefetch_factor, cheaper "
            "transforms, or data that is decoded beforehand."
        )
    return (
        "Load the next batch while this one computes: DataLoader(num_workers=...), then persistent_workers=True and "
        "pin_memory=True."
    )


def _action(does: Program) -> str:
    return "give the DataLoader more workers" if does.has_workers else "give the DataLoader workers"
