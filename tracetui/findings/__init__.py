"""The findings pane: rules over a trace, each with its evidence, advice and a slice to look at.

A rule is a function from a `Scope` to findings; to add one, write it in the file of its topic and list it in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.errors import AnalysisFailed
from tracetui.findings.scope import Finding, Scope, Severity
from tracetui.idle.gaps import gap_before
from tracetui.idle.idleness import idleness
from tracetui.idle.verdict import BUSY, verdict_on
from tracetui.linking.placement import step_index
from tracetui.linking.step_sources import steps_sentence
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.pane import Pane
from tracetui.model.quantities import counted, duration
from tracetui.model.results import attempted, failures_in_words, guarded, keep_guarded
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint, view_string

__all__ = ["PANE", "Finding", "Severity", "complete_finding_list", "finding_list", "findings"]

NO_FINDINGS = "No rule found anything to report."


def headline(scope: Scope, findings: Sequence[Finding], failed: int = 0) -> str:
    """One sentence for the top of the list: the largest saving with its cause, and what to do first.

    Where rules failed, it does not say that nothing was found.
    """
    large = [finding for finding in findings if finding.severity > Severity.NOTE]
    doubt = f"{large.pop(0).title}; as recorded: " if len(large) > 1 and large[0].id == "untrusted" else ""
    if failed:
        rules = f"{counted(failed, 'rule')} failed: what {'they look' if failed > 1 else 'it looks'} for is not known"
        return f"{rules}. Of the others: {doubt}{large[0].title}." if large else f"{rules}."
    verdict = verdict_on(scope.trace, scope.step)
    # A finding without a cost is reported in any case.
    shares = [100.0 if each.cost is None else 100 * each.cost / scope.time for each in large]
    unexplained = verdict is not None and verdict.idle_pct >= BUSY and verdict.is_unexplained
    # Half of the idle time at least is without a cause then.
    if verdict is not None and unexplained and all(2 * share < verdict.idle_pct for share in shares):
        return f"{doubt}What the GPU waited for is not in the trace: {verdict.idle_text}."
    if large:
        return f"{doubt}{large[0].title}" + (f", so {large[0].action} first." if large[0].action else ".")
    if verdict is None:
        return f"{findings[0].title}." if findings else NO_FINDINGS
    if verdict.level:
        return f"No rule explains the idle time: {verdict.text}."
    return f"Nothing large to save: {verdict.text}."


def finding_list(trace: Trace, step: int | None = None) -> list[Finding]:
    """The findings of a trace or a step, the most important first; without those of rules that failed."""
    return _results(trace, step)[0]


def complete_finding_list(trace: Trace, step: int | None = None) -> list[Finding]:
    """The findings, for callers that rely on the absence of one.

    Raises: AnalysisFailed where a rule failed.
    """
    all_findings, failures = _results(trace, step)
    if failures:
        raise failures[0].with_traceback(None)
    return all_findings


def _results(trace: Trace, step: int | None) -> tuple[list[Finding], list[AnalysisFailed]]:
    """The findings of all rules, and the failures of the rules that failed."""

    def make() -> tuple[list[Finding], list[AnalysisFailed]]:
        # The app waits at its start for the declaration of the pane, and not for the rules.
        from tracetui.findings.rules import FOREIGN_RULES, RULES

        scope = Scope(trace, step)

        def run(rule: Callable[[Scope], Iterator[Finding]]) -> list[Finding]:
            with guarded(f"The rule {rule.__name__.replace('_', '-')}"):
                return list(rule(scope))

        rules = RULES if trace.is_torch else FOREIGN_RULES
        results, failures = attempted(partial(run, rule) for rule in rules)
        all_findings = [finding for result in results for finding in result]
        all_findings.sort(key=lambda finding: (-finding.severity, finding.id != "untrusted", -(finding.cost or 0)))
        return all_findings, failures

    return keep_guarded(trace, ("findings", step), "The list of findings", make)


def findings(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per finding, the most important first; the row jumps to the evidence.

    A range of time has the findings of the trace whose evidence lies in it (R3.58).
    """
    if isinstance(step, TimeRange):
        kept = [index for index, finding in enumerate(finding_list(trace)) if _runs_in(trace, finding, step)]
        return replace(findings(trace).take(np.array(kept, np.int64)), note=IN_RANGE, headline="")
    scope, (all_findings, failures) = Scope(trace, step), _results(trace, step)
    rows = np.array([finding.row for finding in all_findings], np.int64)
    number = _step_numbers(trace, rows)
    cost = np.array([finding.cost or 0 for finding in all_findings], np.int64)
    unknown = np.array([finding.cost is None for finding in all_findings], bool)
    return Table(
        (
            texts(col.ID, [finding.id for finding in all_findings]),
            texts(col.SEVERITY, [finding.severity.name.lower() for finding in all_findings]),
            numbers(col.STEP, number),
            texts(col.TITLE, [finding.title for finding in all_findings]),
            texts(col.EVIDENCE, [finding.evidence for finding in all_findings]),
            micros(col.COST_US, cost, null=unknown),
            texts(col.ADVICE, [finding.advice for finding in all_findings]),
            texts(col.JUMP, [_jump(trace, *each) for each in zip(all_findings, number, strict=True)]),
        ),
        rows,
        _shares_note(scope, all_findings),
        headline=headline(scope, all_findings, len(failures)),
    ).lacking(failures_in_words(failures, "rules"))


PANE = Pane(
    "findings",
    "Findings",
    key="7",
    help="One row is a finding, with evidence and advice.",
    table=findings,
    columns="severity title evidence cost_us step",
    is_in_time_order=False,
)


IN_RANGE = "Findings are about the whole trace; listed are those whose evidence is in the range of time."


def _runs_in(trace: Trace, finding: Finding, time_range: TimeRange) -> bool:
    if finding.row < 0:
        return False
    start, end = int(trace.slices.start[finding.row]), int(trace.slices.end[finding.row])
    gap = gap_before(trace, finding.row) if finding.at_gap else -1
    if gap >= 0:
        start, end = int(idleness(trace).start[gap]), start
    return bool(time_range.touched(np.array([start]), np.array([end]))[0])


def _shares_note(scope: Scope, all_findings: list[Finding]) -> str:
    """A note on the time that shares in the findings are of, where any has one; and that the steps are guessed."""
    guessed = f" {steps_sentence(scope.trace)}" if steps(scope.trace).is_guess else ""
    if all(finding.cost is None for finding in all_findings):
        return guessed.lstrip()
    if scope.is_whole:
        whole = f"100 % is {duration(scope.time)}, from the first call or operator to the end of the last activity."
        return whole + guessed
    each = "each step" if scope.step is None else "the step"
    return (
        f"100 % is {duration(scope.time)}: for {each} the longer of its time on the CPU and the time from the end of "
        f"the step before on the GPU to its own.{guessed}"
    )


def _step_numbers(trace: Trace, rows: Int64) -> list[int]:
    """The number of the step of each row; NULL outside of steps, and for no row (-1)."""
    all_steps = steps(trace)
    if len(all_steps) == 0 or len(rows) == 0:
        return [NULL] * len(rows)
    index = np.where(rows >= 0, step_index(trace, np.maximum(rows, 0)), -1)
    return [int(all_steps.number[position]) if position >= 0 else NULL for position in index.tolist()]


def _jump(trace: Trace, finding: Finding, number: int) -> str | None:
    """The viewpoint on the evidence, as a string; None without a slice."""
    if finding.row < 0:
        return None
    step, steps_by = (None, "") if number == NULL else (number, trace.steps_by)
    event = int(trace.slices.event[finding.row])
    return view_string(Viewpoint(step, event=event, steps_by=steps_by, is_gap=finding.at_gap))
