"""The compiles pane: what torch.compile compiled, why again, what it took, and what runs of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracetui.linking.links import links
from tracetui.model import columns as col
from tracetui.model.intervals import Part
from tracetui.model.pane import Grouping, Pane
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.tables.compilations import Compilation, CompilePhase, compilations, has_compilations, log_of, recompiled

NO_LOG = (
    "There is no log of torch.compile: `tracetui run WORKLOAD --compile` records one, TORCH_TRACE=FOLDER has torch "
    "write one, and --compile-log reads it."
)
_PHASE_COLUMNS = (col.DYNAMO_US, col.AOT_US, col.INDUCTOR_US, col.AUTOTUNE_US, col.CUDAGRAPHS_US)
"""In the order of `CompilePhase`."""


def compiles(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per compilation in order of time; by `break` one per graph break. Always of the whole log."""
    listed = compilations(trace) if has_compilations(trace) else ()
    if by == "break":
        return _breaks(listed)
    has_gpu = len(links(trace).gpu) > 0
    times = np.array([each.time for each in listed], np.int64)
    calls = np.array([each.calls for each in listed], np.int64)
    spent = np.array([each.gpu if has_gpu else each.cpu for each in listed], np.int64)
    ran = (calls > 0) & (spent > 0)
    each_call = spent / np.maximum(calls, 1)
    phases = np.array([each.phases for each in listed], np.int64).reshape(-1, len(CompilePhase)).T
    return Table(
        (
            texts(col.COMPILE_ID, [each.run for each in listed]),
            texts(col.FUNCTION.but(help="The function that was compiled."), [each.function or None for each in listed]),
            texts(col.LINE.but(help="File and line where it begins."), [each.place or None for each in listed]),
            micros(col.START_US, np.array([each.start for each in listed], np.int64)),
            micros(col.COMPILE_US, times),
            *(micros(column, took, null=took < 0) for column, took in zip(_PHASE_COLUMNS, phases, strict=True)),
            texts(col.RECOMPILED_FOR, [_one_line(each.reason) for each in listed]),
            numbers(col.GRAPH_BREAKS, np.array([len(each.breaks) for each in listed], np.int64)),
            texts(
                col.CACHE,
                [", ".join(f"{n:,} {state}" for state, n in sorted(each.caches.items())) or None for each in listed],
            ),
            texts(col.CUDAGRAPH_SKIP, [_one_line(each.skipped_graphs) for each in listed]),
            texts(col.FAILURE, [_one_line(each.failure) for each in listed]),
            numbers(
                col.CALLS.but(help="How often the trace has the compiled code run."), np.where(calls < 0, NULL, calls)
            ),
            micros(
                col.GPU_US.but(
                    help="GPU time of what the compiled code launched, its graphs in the backward pass too."
                ),
                np.array([each.gpu for each in listed], np.int64),
                null=(calls < 0) | (not has_gpu),
            ),
            micros(col.CALL_TIME_US, each_call, null=~ran),
            numbers(col.PAYS_AFTER, np.where(ran, np.ceil(times / np.maximum(each_call, 1)), np.nan)),
            texts(col.USER_STACK, [each.stack or None for each in listed]),
        ),
        np.array([each.example for each in listed], np.int64),
        _remark(trace, listed),
    )


PANE = Pane(
    "compiles",
    "Compiles",
    help="One row is a compilation by torch.compile; by break, a graph break.",
    table=compiles,
    columns=(
        "compile_id function line compile_us recompiled_for calls gpu_us call_time_us pays_after graph_breaks cache "
        "cudagraph_skip failure dynamo_us aot_us inductor_us autotune_us cudagraphs_us start_us user_stack"
    ),
    groupings=(Grouping("break", "compile_id function line why user_stack"),),
    bars="compile_us",
    is_offered=has_compilations,
    of_step=False,
    of_range=False,
)


def _breaks(listed: Sequence[Compilation]) -> Table:
    pairs = [(each, cut) for each in listed for cut in each.breaks]

    def column(value: Callable[..., str]) -> list[str | None]:
        return [value(each, cut) or None for each, cut in pairs]

    return Table(
        (
            texts(col.COMPILE_ID, column(lambda each, _: each.run)),
            texts(col.FUNCTION.but(help="The function that was compiled."), column(lambda each, _: each.function)),
            texts(
                col.LINE.but(help="File and line of the user's code at which the graph ends."),
                column(lambda _, cut: cut.place),
            ),
            texts(col.WHY.but(help="What torch could not trace."), column(lambda _, cut: cut.reason)),
            texts(col.USER_STACK, column(lambda _, cut: cut.text)),
        ),
        np.array([each.example for each, _ in pairs], np.int64),
        "" if pairs else "No graph break is in the log." if listed else NO_LOG,
    )


def _one_line(text: str) -> str | None:
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip()) or None


def _remark(trace: Trace, listed: Sequence[Compilation]) -> str:
    if not listed:
        return NO_LOG
    parts = [f"{each.sentence}." for each in recompiled(trace)[:1]]
    if any(each.calls < 0 for each in listed) and any(each.calls >= 0 for each in listed):
        parts.append("Several compilations have the same id: which of them ran is not known.")
    if trace.compile_log is not None:
        parts.append(f"From {log_of(trace).label}.")
    return " ".join(parts)
