"""Rule about numbers that are wrong, weighed by how much they spoil."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.findings.finding import Finding, Severity, severity_of
from tracetui.findings.scope import Scope
from tracetui.health.checks import Check, CheckSeverity, Doubt
from tracetui.health.health_table import doubt_of, doubtful
from tracetui.health.link_checks import NO_ACTIVITY_CHECK, unfinished
from tracetui.health.recording_checks import CLIPPED_CHECK
from tracetui.health.time_checks import CLOCK_CHECK, LENGTH_CHECK
from tracetui.idle.clock import clock_skew
from tracetui.idle.idleness import idleness
from tracetui.linking.links import links
from tracetui.model.quantities import counted, duration

MAX_NAMED_CHECKS = 4
"""Maximum checks named in a sentence, the heaviest first."""

LENGTH_CHECKS = (CLIPPED_CHECK, LENGTH_CHECK)
"""Checks of durations, which are weighed by the share of the GPU time that is wrong, and as minor at least."""


@dataclass(frozen=True)
class _Problem:
    severity: Severity
    words: str
    check: Check
    row: int


def untrusted(scope: Scope) -> Iterator[Finding]:
    """Some numbers of the trace are wrong, whatever else is found (see the Health pane)."""
    wrong = [check for check in doubtful(scope.trace) if check.severity == CheckSeverity.WRONG]
    problems = [each for check in wrong if (each := _problem(scope, check)) is not None]
    problems.sort(key=lambda each: -each.severity)
    if not problems:
        return
    yield Finding(
        "untrusted",
        problems[0].severity,
        "Some numbers of this trace are wrong" + (": the clocks disagree" if _is_clock(problems[0].check) else ""),
        "; ".join(each.words for each in problems[:MAX_NAMED_CHECKS]),
        f"{problems[0].check.effect} The Health pane lists the affected columns; they are marked with ~.",
        next((each.row for each in problems if each.row >= 0), -1),
    )


def _is_clock(check: Check) -> bool:
    return check.name == CLOCK_CHECK


def _problem(scope: Scope, check: Check) -> _Problem | None:
    """The result of a check with its weight; None where it spoils nothing."""
    doubt = doubt_of(scope.trace, check)
    if doubt is None:
        return None
    if _is_clock(check):
        return _clock(scope, check, doubt)
    severity = Severity.MAJOR if doubt.of == 0 else severity_of(doubt.count / doubt.of)
    if check.name == NO_ACTIVITY_CHECK and severity is not None and unfinished(scope.trace) == doubt.count:
        words = f"the recording ended before the kernels of {counted(doubt.count, 'launch')} ran"
        return _Problem(Severity.NOTE, words, check, doubt.row)
    if check.name in LENGTH_CHECKS:
        # One wrong duration spoils every sum that it is in.
        spoilt = severity_of(doubt.size / max(int(scope.trace.slices.dur[links(scope.trace).gpu].sum()), 1))
        severity = max(severity or Severity.MINOR, spoilt or Severity.MINOR, Severity.MINOR)
    return None if severity is None else _Problem(severity, f"{check.name} {doubt.count:,}", check, doubt.row)


def _clock(scope: Scope, check: Check, doubt: Doubt) -> _Problem | None:
    """The skew of the clocks beside the typical gap: the one in which the middle of the idle time lies."""
    skew = abs(clock_skew(scope.trace)) or doubt.size
    dur = np.sort(idleness(scope.trace).dur[scope.gaps])
    sums = np.cumsum(dur)
    typical = int(dur[np.searchsorted(sums, sums[-1] / 2)]) if len(dur) else 0
    severity = Severity.NOTE if typical == 0 else severity_of(skew / typical)
    # Only what is idle is misplaced: where there is little of it, little is wrong.
    idle = scope.weigh(scope.idle)
    if severity is None or idle is None:
        severity = Severity.NOTE
    else:
        severity = min(severity, idle)
    beside = f" beside a typical gap of {duration(typical)}" if typical else ""
    started = f"{counted(doubt.count, 'GPU activity')} before the launch"
    return _Problem(severity, f"the clocks are off by {duration(skew)}{beside}: {started}", check, doubt.row)
