"""Rules about the whole: numbers that are wrong, and what holds the GPU back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.findings.finding import Finding, Severity
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.health.checks import CheckSeverity
from tracetui.analysis.health.health_table import doubtful, doubts
from tracetui.analysis.idle.cause_words import WORDS, Cause
from tracetui.analysis.idle.gap_causes import gap_causes
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.idle.verdict import BUSY, STARVED, Verdict, verdict_on
from tracetui.analysis.linking.placement import chosen
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration, rounded_percent

_ADVICE = {
    "overhead": "The CPU cannot launch kernels as fast as the GPU runs them. Launch fewer and larger ones: "
    "torch.compile, mode='reduce-overhead' or CUDA graphs, a larger batch, fused ops.",
    "host-stall": "The CPU does something else for long stretches. See in the Gaps pane what it does, and move that "
    "out of the step: load data ahead, synchronise less, compile before.",
    "dependency": "GPU activity was queued and did not run: it waited for another stream, a peer or a copy. See which "
    "event the stream waits for, and start what it waits for earlier.",
}
_STALLS = {
    Cause.DATA_LOADING: "The step waits for its data. Give the DataLoader workers (num_workers, prefetch_factor, "
    "persistent_workers), pin the memory, or load the next batch while this one computes.",
    Cause.HOST_SYNC: "The CPU waits for the GPU, and then the GPU for the CPU. Read values less often (.item(), "
    ".cpu(), printing), or a step later.",
    Cause.MEMORY: "Memory is taken from or given back to the driver; a cudaFree of a second in the first operator is "
    "CUDA starting up. Warm up before, keep shapes alike, leave out empty_cache().",
    Cause.COMPILATION: "Something is compiled inside the step. Warm up until nothing is compiled any more, and look "
    "with TORCH_LOGS=recompiles where it happens again.",
    Cause.SLOW_LAUNCH: "A launch call took long: modules are loaded lazily, or a graph is uploaded. A warm-up step "
    "takes that out of the measurement.",
}
"""Advice by what the CPU did meanwhile."""


def untrusted(scope: Scope) -> Iterator[Finding]:
    """Some numbers of the trace are wrong, whatever else is found (see the Health pane)."""
    wrong = [check for check in doubtful(scope.trace) if check.severity == CheckSeverity.WRONG]
    if not wrong:
        return
    results = [(check, doubts(scope.trace)[check.name]) for check in wrong]
    counts = ", ".join(f"{check.name} {doubt.count:,}" for check, doubt in results if doubt is not None)
    row = next((doubt.row for _, doubt in results if doubt is not None and doubt.row >= 0), -1)
    yield Finding(
        "untrusted",
        Severity.MAJOR,
        "Some numbers of this trace are wrong",
        counts,
        f"{wrong[0].effect} The Health pane lists the affected columns; they are marked with ~.",
        row,
    )


def idle_gpu(scope: Scope) -> Iterator[Finding]:
    """The GPU is idle for a considerable part of the time (3(g))."""
    said = verdict_on(scope.trace, scope.step)
    if said is None or said.idle_pct < BUSY:
        return
    largest = _longest_gap(scope)
    yield from scope.priced(
        f"{said.cause}-bound" if said.idle_pct >= STARVED else f"{said.cause}-gaps",
        said.idle,
        f"{said.words[0].upper()}{said.words[1:]}: GPU idle for {rounded_percent(said.idle_pct)}",
        _split(said) + (f"; the longest gap, {_described(scope, largest)}" if largest >= 0 else "") + _lead_in(scope),
        " ".join((_advice(said), *said.remarks)),
        int(idleness(scope.trace).after[largest]) if largest >= 0 else -1,
    )


def _advice(said: Verdict) -> str:
    """Advice for the verdict's cause, and for waits that most of the idle time follows."""
    stall = said.host_cause if said.cause == "host-stall" and said.host_cause in _STALLS else None
    if 2 * said.after_sync < said.idle:
        return _STALLS[stall] if stall else _ADVICE.get(said.cause, "See the Gaps pane for the causes, one by one.")
    own = [_STALLS[stall]] if stall and stall != Cause.HOST_SYNC else []
    return " ".join((*own, _STALLS[Cause.HOST_SYNC]))


def _lead_in(scope: Scope) -> str:
    """How long the first step had lasted when the GPU began, which is no gap; empty where that is little."""
    every, picked = steps(scope.trace), chosen(scope.trace, scope.step)
    if len(picked) == 0 or len(scope.activities) == 0 or picked[0] != 0:
        return ""
    begin, row = int(every.start[0]), int(every.row[0])
    waited = int(scope.trace.slices.start[scope.activities[0]]) - begin
    if waited * 10 < int(scope.trace.slices.dur[row]):
        return ""
    return f"; before the first kernel another {duration(waited)} of the step passed, which counts in no gap"


def _split(judged: Verdict) -> str:
    """The idle time with its parts before, inside and after the launch call, and the share launched late."""
    parts = [(judged.cpu_late, "before the launch call"), (judged.in_launch, "inside it"), (judged.waiting, "after it")]
    parts += [(judged.unknown, "unknown")] if judged.unknown else []
    shares = ", ".join(f"{rounded_percent(100 * part / max(judged.idle, 1))} {word}" for part, word in parts)
    idle = f"{duration(judged.idle)} idle between the first kernel and the last"
    return f"{idle}: {shares}; {rounded_percent(judged.late_pct)} of the kernels launched late"


def _longest_gap(scope: Scope) -> int:
    """Index of the longest gap before activities in scope, -1 for none."""
    idle = idleness(scope.trace)
    mine: Int64 = np.flatnonzero(np.isin(idle.after, scope.activities))
    return int(mine[np.argmax(idle.dur[mine])]) if len(mine) else -1


def _described(scope: Scope, gap: int) -> str:
    idle = idleness(scope.trace)
    return f"{duration(int(idle.dur[gap]))}: {WORDS[int(gap_causes(scope.trace).cause[gap])]}"
