"""Rules about steps that are not like the others: a cold first step, and outliers.

What such a step lost stands in the findings of its causes. These two say that it spoils averages: they are weighed by
the excess, and have no cost of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.findings.finding import Finding, severity_of
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.idle.cause_words import WORDS
from tracetui.analysis.idle.gap_causes import gap_causes
from tracetui.analysis.linking.placement import partial_steps, step_index
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration
from tracetui.model.trace import Kind, Trace

MIN_STEPS = 3
"""Minimum steps, not cut short, of which one can differ from the others."""
MIN_EXCESS_RATIO = 1.5
"""Minimum duration of a step unlike the others, relative to their median."""
MAX_NAMED_STEPS = 12
"""Maximum steps whose durations are listed."""
_TELLING = (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.OVERHEAD)


def cold_step(scope: Scope) -> Iterator[Finding]:
    """The first recorded step takes longer than the others."""
    yield from _unlike(scope, first=True)


def outlier_step(scope: Scope) -> Iterator[Finding]:
    """A later step takes longer than the others."""
    yield from _unlike(scope, first=False)


def _unlike(scope: Scope, first: bool) -> Iterator[Finding]:
    trace, every = scope.trace, steps(scope.trace)
    whole = np.flatnonzero(~partial_steps(trace) | (np.arange(len(every)) == 0)) if len(every) else np.empty(0, int)
    if len(whole) < MIN_STEPS:
        return
    took = scope.step_lengths
    worst = int(whole[0]) if first else int(whole[np.argmax(took[whole] * (whole != whole[0]))])
    usual = float(np.median(took[whole[whole != worst]]))
    excess = int(took[worst] - usual)
    severity = severity_of(excess / max(int(took[whole].sum()), 1))
    of_step = scope.step in (None, int(every.number[worst]))
    if took[worst] <= MIN_EXCESS_RATIO * usual or severity is None or not of_step:
        return
    row, reason = _reason(trace, worst, whole, excess)
    number = int(every.number[worst])
    yield Finding(
        "cold-step" if first else "outlier-step",
        severity,
        f"The first step, {number}, is cold: {duration(excess)} longer than the others"
        if first
        else f"Step {number} is not like the others: {duration(excess)} longer",
        f"step {number} took {duration(int(took[worst]))}, the others {duration(usual)} in the median{_listed(took)}"
        + (f"; most of the excess in {reason}" if reason else ""),
        "Leave it out of every average, and give the profiler's schedule a warm-up step or two: the first time modules "
        "are loaded, libraries initialised and memory allocated."
        if first
        else "Leave it out of averages, and look for what only it did: a checkpoint, an evaluation, memory that had "
        "run out, another process.",
        row if row >= 0 else int(every.row[worst]),
        action="leave this step out of averages",
    )


def _listed(took: Int64) -> str:
    """The durations of all steps, where there are few."""
    if len(took) > MAX_NAMED_STEPS:
        return ""
    return " (" + ", ".join(duration(int(each)) for each in took.tolist()) + ")"


def _reason(trace: Trace, worst: int, whole: Int64, excess: int) -> tuple[int, str]:
    """A slice of the step, and in words what it has more of than the mean of the others, if that is half of the excess.

    The cause of idle time with the largest excess, or the name of the slices where these have more.
    """
    others = whole[whole != worst]
    idle = gap_causes(trace).by_step
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
    rows = slices.of_kind(*_TELLING)
    index = step_index(trace, rows)
    held = ~np.isin(rows, steps(trace).row) & ((index == worst) | np.isin(index, others))
    rows, mine = rows[held], (index == worst)[held]
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
