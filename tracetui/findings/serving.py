"""Rules about inference servers: what the GPU waits for between decodes and at graph launches, what prefills hold up.

They weigh time that findings about idle time price, and say so. Steps that are guessed, and kinds that nothing tells,
are no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.findings.scope import Finding, Scope, Severity, severity_of
from tracetui.idle.gpu_spans import StepTimes, step_times
from tracetui.idle.idleness import idleness
from tracetui.linking.complete_steps import averaged_steps
from tracetui.linking.links import calls_named
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.linking.step_kinds import StepKinds, step_kinds
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.table import NULL
from tracetui.serving.server_steps import ACTIVITY_NAMES, Activity, between_steps

MIN_PAIRS = 3
"""Minimum decodes that directly follow another one."""
MIN_BETWEEN_SHARE = 0.05
"""Minimum median idle time between decodes, relative to their median period."""
MIN_GRAPH_SHARE = 0.1
"""Minimum idle time during graph launches, relative to the GPU spans of the decodes."""
MIN_STALL_RATIO = 2.0
"""Minimum time from one token to the next across prefills, relative to the median period of decodes."""
MAX_NAMED_ACTIVITIES = 2
"""Maximum activities of the CPU named in the evidence."""
_COUNTED = "; the findings about idle time count it"


def idle_between_decodes(scope: Scope) -> Iterator[Finding]:
    """The GPU runs nothing between decodes, a good part of the time per token, while the server prepares the next."""
    trace, times = scope.trace, step_times(scope.trace)
    index = _decodes_in_a_row(scope)
    index = index[(times.gap[index] != NULL) & (times.between[index] != NULL)]
    if len(index) < MIN_PAIRS:
        return
    gap, period = float(np.median(times.gap[index])), float(np.median(times.period[index]))
    severity = severity_of(float(times.gap[index].sum()) / scope.time)
    if gap < MIN_BETWEEN_SHARE * period or severity is None:
        return
    yield Finding(
        "idle-between-decodes",
        severity,
        f"The GPU waits {duration(gap)} between two decodes, {rounded_percent(100 * gap / period)} of the time per "
        "token",
        f"medians of {counted(len(index), 'decode')} that directly follow another one; on the CPU "
        f"{duration(float(np.median(times.between[index])))} lie between two, "
        f"{duration(float(np.median(times.exposed[index])))} of it with an idle GPU{_said(scope, index)}{_COUNTED}",
        "Prepare the next step while the GPU runs this one: asynchronous scheduling in vLLM (`--async-scheduling`), "
        "the overlap scheduler in SGLang (without `--disable-overlap-schedule`); `show serving --by between` lists "
        "what the CPU does there.",
        int(steps(trace).row[index[np.argmax(times.gap[index])]]),
    )


def graph_launches_hold_up(scope: Scope) -> Iterator[Finding]:
    """Within decodes the GPU is idle while the CPU is in graph launches: there are too many for what each holds."""
    trace, times, kinds = scope.trace, step_times(scope.trace), step_kinds(scope.trace)
    if steps(trace).is_guess:
        return
    every = np.flatnonzero(_decodes(kinds) & averaged_steps(trace))
    every = every[np.isin(every, chosen(trace, scope.step))]
    every = every[times.gpu_start[every] != NULL]
    calls = calls_named(trace, GRAPH_LAUNCH)
    calls = calls[np.isin(step_index(trace, calls), every)]
    if len(every) < MIN_PAIRS or len(calls) < 2 * len(every):
        return
    slices, gaps = trace.slices, idleness(trace)
    mine = np.flatnonzero(np.isin(gaps.launch, calls))
    mine = mine[gaps.start[mine] >= times.gpu_start[step_index(trace, gaps.after[mine])]]
    idle = int(gaps.in_launch[mine].sum())
    span = int((times.gpu_end[every] - times.gpu_start[every]).sum())
    severity = severity_of(idle / scope.time)
    if idle < MIN_GRAPH_SHARE * span or severity is None:
        return
    each = len(calls) / len(every)
    yield Finding(
        "graph-launches",
        severity,
        f"Graph launches cannot keep up with the GPU: in decodes it is idle for {duration(idle)} during them, "
        f"{rounded_percent(100 * idle / span)} of their time",
        f"{counted(len(calls), 'graph launch')} in {counted(len(every), 'decode')}, {each:,.0f} each, "
        f"of {duration(float(np.median(slices.dur[calls])))} at the median{_COUNTED}",
        "Capture more in one graph: full graphs for decodes instead of pieces (`cudagraph_mode` FULL_DECODE_ONLY or "
        "FULL_AND_PIECEWISE in vLLM) with an attention kernel that can be captured.",
        int(calls[np.argmax(slices.dur[calls])]),
    )


def prefills_interrupt(scope: Scope) -> Iterator[Finding]:
    """Requests in generation wait for a whole prefill before their next token."""
    trace, times, kinds = scope.trace, step_times(scope.trace), step_kinds(scope.trace)
    usual_periods = _decodes_in_a_row(scope)
    if len(usual_periods) < MIN_PAIRS:
        return
    usual = float(np.median(times.period[usual_periods]))
    waits = [wait for wait in _interruptions(times, kinds) if wait[0] in chosen(trace, scope.step)]
    held = [wait for wait in waits if wait[2] >= MIN_STALL_RATIO * usual]
    severity = severity_of(sum(wait[2] - usual for wait in held) / scope.time)
    if not held or severity is None:
        return
    index, requests, longest = max(held, key=lambda wait: wait[2])
    yield Finding(
        "prefill-interrupts",
        min(severity, Severity.MINOR),
        f"Prefills hold up requests in generation: {duration(longest)} until their next token instead of "
        f"{duration(usual)}",
        f"{counted(len(held), 'time')} a prefill ran between two decodes and at least one request of the first was "
        f"in the second; the longest held up {counted(requests, 'request')} or more",
        "Let prefills share a step with decodes: chunked prefill (`--enable-chunked-prefill` with a smaller "
        "`--max-num-batched-tokens` in vLLM, `--chunked-prefill-size` and `--enable-mixed-chunk` in SGLang), or run "
        "prefills on other GPUs.",
        int(steps(trace).row[index]),
    )


def _decodes(kinds: StepKinds) -> np.ndarray:
    return np.array([each == "decode" for each in kinds.kind], bool)


def _decodes_in_a_row(scope: Scope) -> Int64:
    """Indices of the decodes in scope whose period is known; none where steps are guessed."""
    trace, times = scope.trace, step_times(scope.trace)
    if steps(trace).is_guess:
        return np.empty(0, np.int64)
    index = np.flatnonzero(_decodes(step_kinds(trace)) & (times.period != NULL) & (times.gpu_end != NULL))
    return index[np.isin(index, chosen(trace, scope.step))]


def _interruptions(times: StepTimes, kinds: StepKinds) -> list[tuple[int, int, int]]:
    """Decodes behind prefills behind a decode, all in a row: the index of the last step, how many requests at least
    were in both decodes, and the time in ns from the GPU end of the first to that of the last.
    """
    found = []
    for index in np.flatnonzero(_decodes(kinds) & times.follows).tolist():
        new, first = 0, int(times.before[index])
        while first >= 0 and kinds.kind[first] == "prefill" and kinds.requests[first] != NULL:
            new, first = new + int(kinds.requests[first]), int(times.before[first])
        if first < 0 or first == times.before[index] or kinds.kind[first] != "decode":
            continue
        # Requests that were prefilled cannot be more than these: the others were there before.
        kept = int(kinds.requests[index]) - new if kinds.requests[index] != NULL else 0
        ends = times.gpu_end[[first, index]]
        if kept > 0 and (ends != NULL).all():
            found.append((index, kept, int(ends[1] - ends[0])))
    return found


def _said(scope: Scope, index: Int64) -> str:
    """What the CPU did between these steps while the GPU was idle, where that was recorded."""
    found = between_steps(scope.trace)
    exposed = found.exposed[np.isin(found.step, index)].sum(axis=0)
    named = [each for each in np.argsort(-exposed, kind="stable").tolist() if each < Activity.OTHER and exposed[each]]
    whole = int(exposed.sum())
    parts = [f"{ACTIVITY_NAMES[each]} {rounded_percent(100 * exposed[each] / whole)}" for each in named]
    return f" ({', '.join(parts[:MAX_NAMED_ACTIVITIES])})" if parts else ""
