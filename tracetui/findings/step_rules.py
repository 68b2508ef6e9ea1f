"""Rules about steps: a cold first step and outliers, and the steps of inference servers.

The time that such steps lose is counted by the findings about its causes. These rules have a severity by that time and
no cost of their own, but for the one step that is held up most: what it loses may have several causes, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tracetui.findings.scope import Finding, Scope, Severity, severity_of_share
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import StepTimes, step_times
from tracetui.idle.idle_parts import idle_by_step
from tracetui.idle.thread_causes import indicating_slices
from tracetui.idle.waits import WORDS, Cause, idleness
from tracetui.linking.groups import group
from tracetui.linking.links import calls_named
from tracetui.linking.placement import chosen, step_index
from tracetui.linking.replays import GRAPH_LAUNCH
from tracetui.linking.step_kinds import StepKinds, averaged_steps, partial_steps, step_kinds
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.serving.cost_tables import is_padded, line_of
from tracetui.serving.server_steps import ACTIVITY_NAMES, Activity, between_steps
from tracetui.tables.step_table import COMPUTE, CPU, odd_steps, step_parts

MIN_STEPS = 3
"""Minimum steps, not cut short, of which one can differ from the others."""
MIN_EXCESS_RATIO = 1.5
"""Minimum duration of a step unlike the others, relative to their median."""
MAX_UNLIKE_SHARE = 1 / 3
"""Maximum share of the steps that are unlike the others: where more are, the steps are of several kinds."""
MAX_SIZE_RATIO = 1.5
"""Maximum ratio of the requests (of prefills: the tokens) of a server's steps that should take equally long."""
MAX_EQUAL_RATIO = 0.9
"""Maximum excess for the GPU relative to that on the CPU, to be reported instead."""
MAX_NUMBERED_STEPS = 5
"""Maximum steps whose numbers are listed."""
MAX_NAMED_STEPS = 12
"""Maximum steps whose durations are listed."""
_WARM_UP = (
    "Leave it out of every average, and give the profiler's schedule a warm-up step or two: the first time modules are "
    "loaded, libraries initialised and memory allocated."
)
_KINDS = (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.OVERHEAD)
_COUNTED = "; the findings about idle time count it"


def cold_step(scope: Scope) -> Iterator[Finding]:
    """The first recorded step takes longer than the others."""
    for whole in _comparable(scope.trace):
        # The first of its kind need not be the first of the recording, and then is as warm as the others.
        cold = _outliers(scope, whole, whole[:1]) if len(whole) >= MIN_STEPS and whole[0] == 0 else None
        if cold is not None:
            yield _unlike_others(scope, whole, cold, is_first=True)


def outlier_step(scope: Scope) -> Iterator[Finding]:
    """A later step takes longer than the others."""
    for whole, outliers in _later_outliers(scope):
        yield _unlike_others(scope, whole, outliers, is_first=False)


def _later_outliers(scope: Scope) -> Iterator[tuple[Int64, _Outliers]]:
    """Steps that should take equally long, and those of them behind the first step that are far longer."""
    for whole in _comparable(scope.trace):
        outliers = _outliers(scope, whole, whole[whole > 0]) if len(whole) >= MIN_STEPS else None
        if outliers is not None:
            yield whole, outliers


def _comparable(trace: Trace) -> list[Int64]:
    """Indices of the steps that should take equally long; steps of a server where they are of one kind and size."""
    all_steps = steps(trace)
    if len(all_steps) == 0:
        return []
    whole = np.flatnonzero(~partial_steps(trace) | (np.arange(len(all_steps)) == 0))
    if not all_steps.is_served:
        return [whole]
    kinds, groups = step_kinds(trace), []
    for kind, sizes in (("decode", kinds.requests), ("verify", kinds.requests), ("prefill", kinds.tokens)):
        mine = whole[kinds.of_kind(kind)[whole]]
        if len(mine) and sizes[mine].min() > 0 and sizes[mine].max() <= MAX_SIZE_RATIO * sizes[mine].min():
            groups.append(mine)
    return groups


def _unlike_others(scope: Scope, whole: Int64, outliers: _Outliers, is_first: bool) -> Finding:
    """The finding about steps that are longer than the others of `whole`, which should be alike."""
    trace, all_steps = scope.trace, steps(scope.trace)
    count, took = len(outliers.steps), outliers.took
    worst = int(outliers.steps[np.argmax(took[outliers.steps])])
    row, reason = _reason(trace, worst, np.setdiff1d(whole, outliers.steps), int(took[worst] - outliers.usual))
    number = int(all_steps.number[worst])
    longer, times = f"{duration(outliers.excess)} longer", ""
    if took is scope.step_views[0][0] and len(took) <= MAX_NAMED_STEPS:
        times = f" ({', '.join(duration(int(each)) for each in took.tolist())})"
    if is_first:
        title = f"The first step, {number}, is cold: {longer} than the others"
        advice = _WARM_UP
    else:
        title = f"{_numbers(all_steps.number[outliers.steps])} not like the others: {longer}"
        title += " in all" if count > 1 else ""
        them = "them" if count > 1 else "it"
        advice = (
            f"Leave {them} out of averages, and look for what only {'they' if count > 1 else 'it'} did: a checkpoint, "
            "an evaluation, memory that had run out, another process."
        )
    return Finding(
        "cold-step" if is_first else "outlier-step",
        outliers.severity,
        title,
        f"step {number} took {duration(int(took[worst]))}, the others {duration(outliers.usual)} in the median{times}"
        + (f"; most of the excess in {reason}" if reason else ""),
        advice,
        row if row >= 0 else int(all_steps.row[worst]),
        action=f"leave {'these steps' if count > 1 else 'this step'} out of averages",
    )


MIN_LOST_CHANGE = 0.5
"""Minimum length of a step beyond the median of its kind, as a share of it, for what it loses to be a finding ..."""
MIN_LOST_SHARE = 0.05
"""... and minimum share of all steps that it loses."""
MAX_NAMED_CAUSES = 2
"""Maximum causes of the idle time of such a step that are named."""


def held_up_step(scope: Scope) -> Iterator[Finding]:
    """The step that loses most against the others of its kind, however much each of these had to do.

    What it loses is idle time and exposed communication beyond their medians; without a GPU, and outside of servers,
    its time on the CPU. Compute is none: a step may have had more to do. The first step is cold, which is no news.
    """
    trace, all_steps = scope.trace, steps(scope.trace)
    if scope.step is not None or len(all_steps) < MIN_STEPS or any(_later_outliers(scope)):
        return
    parts = step_parts(trace)
    if CPU in parts and all_steps.is_served:
        return
    worst, lost = None, MIN_LOST_SHARE * scope.time / 1000
    for off in odd_steps(trace)[1:]:
        if off is not None and off.change >= MIN_LOST_CHANGE and off.lost > lost:
            worst, lost = off, off.lost
    if worst is None:
        return
    index, number = worst.index, int(all_steps.number[worst.index])
    took = 1000 * sum(float(times[index]) for times in parts.values())
    longer = ", ".join(f"{name} +{duration(1000 * us)}" for name, us in worst.parts if us > 0 and name != COMPUTE)
    idle = idle_by_step(trace)[index]
    causes = [each for each in np.argsort(-idle, kind="stable").tolist() if idle[each]][:MAX_NAMED_CAUSES]
    named = ", ".join(f"{WORDS[each]} {duration(float(idle[each]) / scope.devices)}" for each in causes)
    yield from scope.with_cost(
        "held-up-step",
        int(1000 * lost),
        f"Step {number}, one of {len(all_steps):,}, takes {duration(took)}, {1 + worst.change:.1f} times the median of "
        "its kind",
        f"{longer} against the median" + (f"; GPU idle: {named}" if named else "") + _COUNTED,
        f"Look at its longest gaps: in Gaps of step {number}, sorted by length, each has what the CPU did meanwhile.",
        int(all_steps.row[index]),
        action=f"see what held up step {number}",
    )


@frozen
class _Outliers:
    """Steps that took longer than the others."""

    steps: Int64
    """Their indices, ascending."""
    took: Int64
    """Time of each step of the trace, in ns."""
    usual: float
    """Median of the others, in ns."""
    excess: int
    """Time in ns by which the steps together are longer."""

    severity: Severity = Severity.NOTE


def _outliers(scope: Scope, whole: Int64, among: Int64) -> _Outliers | None:
    """The steps of `among` that are longer than the others of `whole`; None where that is no news.

    That is for none, for too many, for too little time, and where another step is asked for.
    """
    longest = _longest_steps(scope, whole, among)
    severity = severity_of_share(longest.excess / max(int(longest.took[whole].sum()), 1))
    numbers, count = steps(scope.trace).number[longest.steps].tolist(), len(longest.steps)
    is_asked_for = scope.step is None or scope.step in numbers
    if count == 0 or count > MAX_UNLIKE_SHARE * len(whole) or severity is None or not is_asked_for:
        return None
    return replace(longest, severity=severity)


def _longest_steps(scope: Scope, whole: Int64, among: Int64) -> _Outliers:
    """The steps of `among` that are long in all views, by their times on the CPU or, if that differs less, the GPU."""
    for took, usual in scope.step_views:
        among = among[took[among] > MIN_EXCESS_RATIO * np.median(usual[whole])]
    others, by_view = np.setdiff1d(whole, among), []
    for took, usual in scope.step_views:
        median = float(np.median(usual[others])) if len(others) else 0.0
        by_view.append(_Outliers(among, took, median, int((took[among] - median).sum())))
    least = min(by_view, key=lambda each: each.excess)
    return least if least.excess < MAX_EQUAL_RATIO * by_view[0].excess else by_view[0]


def _numbers(numbers: Int64) -> str:
    """Numbers of steps with their verb: `Step 4 is`, `Steps 4, 9 and 14 are`, `12 steps are`."""
    listed = [str(number) for number in numbers.tolist()]
    if len(listed) == 1:
        return f"Step {listed[0]} is"
    if len(listed) > MAX_NUMBERED_STEPS:
        return f"{len(listed)} steps are"
    return f"Steps {', '.join(listed[:-1])} and {listed[-1]} are"


def _reason(trace: Trace, worst: int, others: Int64, excess: int) -> tuple[int, str]:
    """A slice of the step, and a clause on its excess over the mean of the others, if that is half of `excess`.

    The cause of idle time with the largest excess, or the name of the slices where these have more.
    """
    idle = idle_by_step(trace)
    more = idle[worst] - idle[others].mean(axis=0)
    cause = int(np.argmax(more))
    row, name, extra = _longest_excess(trace, worst, others)
    if max(more[cause], extra) < excess / 2:
        return row, ""
    if more[cause] >= extra:
        return row, f"{WORDS[cause]}, {duration(float(more[cause]))} of GPU idle time"
    return row, f"{name}, {duration(extra)}"


def _longest_excess(trace: Trace, worst: int, others: Int64) -> tuple[int, str, float]:
    """The longest slice of the name that took most self time beyond the mean of the other steps; and how much."""
    slices = trace.slices
    rows = slices.of_kind(*_KINDS)
    index = step_index(trace, rows)
    # Calls that wait for the GPU take as long as the GPU does.
    kept = ~np.isin(rows, steps(trace).slices) & ~np.isin(rows, indicating_slices(trace)[Cause.HOST_SYNC])
    kept &= (index == worst) | np.isin(index, others)
    rows, mine = rows[kept], (index == worst)[kept]
    if not mine.any():
        return -1, "", 0.0
    names, spent = group(slices.name[rows]), slices.self_time[rows]
    more = names.sum(spent * mine) - names.sum(spent * ~mine) / len(others)
    longest = int(np.argmax(more))
    here = rows[mine & (names.member == longest)]
    if len(here) == 0 or more[longest] <= 0:
        return -1, "", 0.0
    row = int(here[np.argmax(slices.self_time[here])])
    return row, trace.name_of(row), float(more[longest])


# Inference servers: idle time between decodes and at graph launches, and prefills that hold up decodes.
#
# Steps that are guessed, and steps of unknown kind, are no evidence.

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


def idle_between_decodes(scope: Scope) -> Iterator[Finding]:
    """The GPU runs nothing between decodes, a good part of the time per token, while the server prepares the next."""
    trace, times = scope.trace, step_times(scope.trace)
    index = _decodes_in_a_row(scope)
    index = index[(times.gap[index] != NULL) & (times.between[index] != NULL)]
    if len(index) < MIN_PAIRS:
        return
    gap, period = float(np.median(times.gap[index])), float(np.median(times.period[index]))
    severity = severity_of_share(float(times.gap[index].sum()) / scope.time)
    if gap < MIN_BETWEEN_SHARE * period or severity is None:
        return
    yield Finding(
        "idle-between-decodes",
        severity,
        f"The GPU waits {duration(gap)} between two decodes, {rounded_percent(100 * gap / period)} of the time per "
        "token",
        f"medians of {counted(len(index), 'decode')} that directly follow another one; on the CPU "
        f"{duration(float(np.median(times.between[index])))} lie between two, "
        f"{duration(float(np.median(times.exposed[index])))} of it with an idle GPU"
        f"{_cpu_activities(scope.trace, index)}{_COUNTED}",
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
    decodes = np.flatnonzero(kinds.of_kind("decode") & averaged_steps(trace))
    decodes = decodes[np.isin(decodes, chosen(trace, scope.step)) & (times.gpu_start[decodes] != NULL)]
    calls = calls_named(trace, GRAPH_LAUNCH)
    calls = calls[np.isin(step_index(trace, calls), decodes)]
    if len(decodes) < MIN_PAIRS or len(calls) < 2 * len(decodes):
        return
    slices, gaps = trace.slices, idleness(trace)
    mine = np.flatnonzero(np.isin(gaps.launch, calls))
    mine = mine[gaps.start[mine] >= times.gpu_start[step_index(trace, gaps.after[mine])]]
    idle = int(gaps.in_launch[mine].sum())
    span = int((times.gpu_end[decodes] - times.gpu_start[decodes]).sum())
    severity = severity_of_share(idle / scope.time)
    if idle < MIN_GRAPH_SHARE * span or severity is None:
        return
    each = len(calls) / len(decodes)
    yield Finding(
        "graph-launches",
        severity,
        f"Graph launches cannot keep up with the GPU: in decodes it is idle for {duration(idle)} during them, "
        f"{rounded_percent(100 * idle / span)} of their time",
        f"{counted(len(calls), 'graph launch')} in {counted(len(decodes), 'decode')}, {each:,.0f} each, "
        f"of {duration(float(np.median(slices.dur[calls])))} at the median{_COUNTED}",
        "Capture more in one graph: full graphs for decodes instead of pieces (`cudagraph_mode` FULL_DECODE_ONLY or "
        "FULL_AND_PIECEWISE in vLLM) with an attention kernel that can be captured.",
        int(calls[np.argmax(slices.dur[calls])]),
    )


def prefills_interrupt(scope: Scope) -> Iterator[Finding]:
    """Requests in generation wait for a whole prefill before their next token."""
    trace, times, kinds = scope.trace, step_times(scope.trace), step_kinds(scope.trace)
    in_a_row = _decodes_in_a_row(scope)
    if len(in_a_row) < MIN_PAIRS:
        return
    usual = float(np.median(times.period[in_a_row]))
    waits = [wait for wait in _interruptions(times, kinds) if wait[0] in chosen(trace, scope.step)]
    stalls = [wait for wait in waits if wait[2] >= MIN_STALL_RATIO * usual]
    severity = severity_of_share(sum(wait[2] - usual for wait in stalls) / scope.time)
    if not stalls or severity is None:
        return
    index, requests, longest = max(stalls, key=lambda wait: wait[2])
    yield Finding(
        "prefill-interrupts",
        min(severity, Severity.MINOR),
        f"Prefills hold up requests in generation: {duration(longest)} until their next token instead of "
        f"{duration(usual)}",
        f"{counted(len(stalls), 'time')} a prefill ran between two decodes and at least one request of the first was "
        f"in the second; the longest held up {counted(requests, 'request')} or more",
        "Let prefills share a step with decodes: chunked prefill (`--enable-chunked-prefill` with a smaller "
        "`--max-num-batched-tokens` in vLLM, `--chunked-prefill-size` and `--enable-mixed-chunk` in SGLang), or run "
        "prefills on other GPUs.",
        int(steps(trace).row[index]),
    )


MIN_FIXED_SHARE = 0.8
"""Minimum share of a decode that does not grow with its batch, for a larger batch to cost little."""


def fixed_decode_cost(scope: Scope) -> Iterator[Finding]:
    """A decode takes about as long whatever its batch: more requests in it cost little."""
    trace, times, kinds = scope.trace, step_times(scope.trace), step_kinds(scope.trace)
    if steps(trace).is_guess:
        return
    rows = np.flatnonzero(kinds.of_kind("decode") & averaged_steps(trace) & (times.gpu_start != NULL))
    rows = rows[np.isin(rows, chosen(trace, scope.step))]
    took = np.where(times.gpu_start != NULL, times.gpu_end - times.gpu_start, 0).astype(np.float64)
    line = line_of(kinds, "decode", took, rows)
    # Padded steps run the kernels of one batch: they say nothing about a larger one.
    if line is None or line.unit != "requests" or is_padded(trace, line, rows):
        return
    largest, share = line.sizes[-1], min(line.fixed / line.at(line.sizes[-1]), 1.0)
    if share < MIN_FIXED_SHARE:
        return
    yield Finding(
        "decode-batch",
        Severity.NOTE,
        f"A larger batch costs decodes little: {rounded_percent(100 * share)} of a decode of {largest:,} requests does "
        "not depend on the batch",
        f"{duration(line.fixed)} and {duration(max(line.each, 0.0))} for each request, by "
        f"{counted(line.steps, 'decode')} of {len(line.sizes)} batches from {line.sizes[0]:,} to {largest:,} "
        "(`show serving --by cost`)",
        "Serve more requests at once as far as the KV cache and the time per token allow (`--max-num-seqs` in vLLM, "
        "`--max-running-requests` in SGLang); where graphs pad small batches, capture more sizes.",
        int(steps(trace).row[rows[np.argmax(kinds.requests[rows])]]),
    )


def _decodes_in_a_row(scope: Scope) -> Int64:
    """Indices of the decodes in scope whose period is known; none where steps are guessed."""
    trace, times = scope.trace, step_times(scope.trace)
    if steps(trace).is_guess:
        return np.empty(0, np.int64)
    index = np.flatnonzero(step_kinds(trace).of_kind("decode") & (times.period != NULL) & (times.gpu_end != NULL))
    return index[np.isin(index, chosen(trace, scope.step))]


def _interruptions(times: StepTimes, kinds: StepKinds) -> list[tuple[int, int, int]]:
    """Decodes behind prefills behind a decode, all in a row: the index of the last step, how many requests at least
    were in both decodes, and the time in ns from the GPU end of the first to that of the last.
    """
    interruptions = []
    for index in np.flatnonzero(kinds.of_kind("decode") & times.follows).tolist():
        new, first = 0, int(times.before[index])
        while first >= 0 and kinds.kind[first] == "prefill" and kinds.requests[first] != NULL:
            new, first = new + int(kinds.requests[first]), int(times.before[first])
        if first < 0 or first == times.before[index] or kinds.kind[first] != "decode":
            continue
        # Requests that were prefilled cannot be more than these: the others were there before.
        kept = int(kinds.requests[index]) - new if kinds.requests[index] != NULL else 0
        ends = times.gpu_end[[first, index]]
        if kept > 0 and (ends != NULL).all():
            interruptions.append((index, kept, int(ends[1] - ends[0])))
    return interruptions


def _cpu_activities(trace: Trace, index: Int64) -> str:
    """A clause on what the CPU did between these steps while the GPU was idle; empty where that was not recorded."""
    between = between_steps(trace)
    exposed = between.exposed[np.isin(between.step, index)].sum(axis=0)
    order = [each for each in np.argsort(-exposed, kind="stable").tolist() if each < Activity.OTHER and exposed[each]]
    whole = int(exposed.sum())
    parts = [f"{ACTIVITY_NAMES[each]} {rounded_percent(100 * exposed[each] / whole)}" for each in order]
    return f" ({', '.join(parts[:MAX_NAMED_ACTIVITIES])})" if parts else ""
