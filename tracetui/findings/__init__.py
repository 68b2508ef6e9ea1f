"""The findings pane: rules over a trace, each with its evidence, advice and a slice to look at.

A rule is a function from a `Scope` to findings; to add one, write it in the file of its topic and list it in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.errors import AnalysisFailed
from tracetui.findings.scope import MIN_SHARES, Finding, Scope, Severity
from tracetui.frozen import frozen
from tracetui.idle.gaps import gap_before
from tracetui.idle.verdict import BUSY, Verdict, verdict_on
from tracetui.idle.waits import idleness
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import left_out_steps
from tracetui.linking.step_sources import steps_sentence
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.pane import Pane
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.results import attempted, checked, failures_in_words, guarded, kept, result_or_failure
from tracetui.model.table import NULL, Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint, view_string

__all__ = ["PANE", "Finding", "Severity", "complete_finding_list", "finding_list", "findings"]

Rule = Callable[[Scope], Iterator[Finding]]
MIN_STEPS = 3
"""Minimum steps of which one can be said to be the only one with a finding."""
MIN_OUTLIER_SHARE = 0.8
"""Minimum share of a finding's cost in one step from which on the first sentence names that step."""
NO_FINDINGS = "No rule found anything to report."
OF_THE_FILE = frozenset(("not-judged", "not-pytorch", "other-accelerator", "stack-recording"))
"""Findings about the whole recording: the step of the slice beside them says nothing."""


def headline(scope: Scope, findings: Sequence[Finding], failed: int = 0, beside: Finding | None = None) -> str:
    """The first sentence: the largest saving with its cause, and what to do first; what a busy GPU does where that is
    little; and after a start-up that takes most of the time, what matters beside it.

    Where rules failed, it does not say that nothing was found.
    """
    large = [finding for finding in findings if finding.severity > Severity.NOTE]
    doubt = f"{large.pop(0).title}; as recorded: " if len(large) > 1 and large[0].id == "untrusted" else ""
    if failed:
        rules = f"{counted(failed, 'rule')} failed: what {'they look' if failed > 1 else 'it looks'} for is not known"
        return f"{rules}. Of the others: {doubt}{large[0].title}." if large else f"{rules}."
    verdict = verdict_on(scope.trace, scope.step)
    costs = [scope.time if each.cost is None else each.cost for each in large]
    idle = scope.idle / scope.devices
    unexplained = verdict is not None and 100 * idle >= BUSY * scope.time and verdict.is_unexplained
    # Half of the idle time at least is without a cause then.
    if verdict is not None and unexplained and all(2 * cost < idle for cost in costs):
        return f"{doubt}What the GPU waited for is not in the trace: {verdict.idle_text}{verdict.unseen_text}."
    if large:
        sentence = f"{doubt}{large[0].title}{large[0].where}."
        sentence += f" First: {large[0].action}." if large[0].action else ""
        is_little = large[0].cost is not None and large[0].severity == Severity.MINOR
        if verdict is not None and verdict.level < 2 and is_little:
            return f"{_busy(scope, verdict, f' of {scope.title}')}. Largest saving: {sentence[0].lower()}{sentence[1:]}"
        if beside is not None and large[0].id == "start-up" and scope.rest < scope.time:
            return f"{sentence} Beside it: {beside.title}."
        return sentence
    if verdict is None:
        return f"{findings[0].title}." if findings else NO_FINDINGS
    if verdict.level:
        return f"No rule explains the idle time: {verdict.text}."
    return f"Nothing large to save in {scope.title}: {_busy(scope, verdict, '')}."


def _busy(scope: Scope, verdict: Verdict, of: str) -> str:
    """A clause on what a busy GPU does: `GPU-bound, busy 97 % of step 4, of that GEMM 61 %, attention 20 %`."""
    # The app waits at its start for the declaration of the pane, and not for the rules.
    from tracetui.findings.kernel_times import gpu_time_by_family

    share = rounded_percent(100 - verdict.judged.share)
    return f"{verdict.words}, busy {share}{of}, of that {gpu_time_by_family(scope)}"


def finding_list(trace: Trace, step: int | None = None) -> list[Finding]:
    """The findings of a trace or a step, the most important first; without those of rules that failed."""
    return checked(finding_results(trace, step)).listed


def complete_finding_list(trace: Trace, step: int | None = None) -> list[Finding]:
    """The findings, for callers that rely on the absence of one.

    Raises: AnalysisFailed where a rule failed.
    """
    results = checked(finding_results(trace, step))
    if results.failures:
        raise results.failures[0].with_traceback(None)
    return results.listed


@frozen
class _Results:
    """The findings of all rules, the most important first."""

    listed: list[Finding]
    beside: Finding | None
    """The largest saving beside a start-up that takes most of the time, be it ever so small a share of all."""
    failures: list[AnalysisFailed]


@kept(on_disk=True)
def finding_results(trace: Trace, step: int | None = None) -> _Results | AnalysisFailed:
    """The findings of all rules, and the failures of the rules that failed."""

    def make() -> _Results:
        # The app waits at its start for the declaration of the pane, and not for the rules.
        from tracetui.findings.rules import FOREIGN_RULES, RULES

        scope = Scope(trace, step)

        def run(rule: Callable[[Scope], Iterator[Finding]]) -> list[tuple[Finding, Rule]]:
            with guarded(f"The rule {rule.__name__.replace('_', '-')}"):
                return [(finding, rule) for finding in rule(scope)]

        rules = RULES if trace.is_torch else FOREIGN_RULES
        results, failures = attempted(partial(run, rule) for rule in rules)
        every = [pair for result in results for pair in result]
        every.sort(key=lambda pair: (-pair[0].severity, pair[0].id != "untrusted", -(pair[0].cost or 0)))
        beside = [finding for finding, _ in every if finding.cost is not None and finding.id != "start-up"]
        floor = MIN_SHARES[-1][0] * scope.time
        pairs = [(finding, rule) for finding, rule in every if finding.cost is None or finding.cost >= floor]
        first = next((index for index, (each, _) in enumerate(pairs) if each.cost is not None), None)
        if first is not None and pairs[first][0].severity > Severity.NOTE:
            with guarded("The step of the largest finding"):
                pairs[first] = (_with_step(scope, *pairs[first]), pairs[first][1])
        return _Results([finding for finding, _ in pairs], beside[0] if beside else None, failures)

    return result_or_failure("The list of findings", make)


def _with_step(scope: Scope, finding: Finding, rule: Rule) -> Finding:
    """The finding, with the step that has nearly all of its cost where the scope has several steps."""
    all_steps = steps(scope.trace)
    if scope.step is not None or scope.rounds < MIN_STEPS or finding.row < 0 or not finding.cost:
        return finding
    index = int(step_index(scope.trace, np.array([finding.row]))[0])
    if index < 0 or np.count_nonzero(all_steps.number == all_steps.number[index]) > 1:
        return finding
    number = int(all_steps.number[index])
    alone = sum(each.cost or 0 for each in rule(Scope(scope.trace, number)) if each.id == finding.id)
    if alone < MIN_OUTLIER_SHARE * finding.cost:
        return finding
    return replace(finding, where=f" (only step {number}, one of {scope.rounds:,})")


def findings(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per finding, the most important first; the row jumps to the evidence.

    A range of time has the findings of the trace whose evidence lies in it (R3.58).
    """
    if isinstance(step, TimeRange):
        kept = [index for index, finding in enumerate(finding_list(trace)) if _runs_in(trace, finding, step)]
        return replace(findings(trace).take(np.array(kept, np.int64)), note=IN_RANGE, headline="")
    scope, results = Scope(trace, step), checked(finding_results(trace, step))
    all_findings, failures = results.listed, results.failures
    rows = np.array([finding.row for finding in all_findings], np.int64)
    number = np.full(len(rows), NULL)
    number[rows >= 0] = np.append(steps(trace).number, NULL)[step_index(trace, rows[rows >= 0])]
    shown = np.where([each.id in OF_THE_FILE for each in all_findings], NULL, number)
    cost = np.array([finding.cost or 0 for finding in all_findings], np.int64)
    unknown = np.array([finding.cost is None for finding in all_findings], bool)
    return Table(
        (
            texts(col.ID, [finding.id for finding in all_findings]),
            texts(col.SEVERITY, [finding.severity.name.lower() for finding in all_findings]),
            numbers(col.STEP, shown),
            texts(col.TITLE, [finding.title for finding in all_findings]),
            texts(col.EVIDENCE, [finding.evidence for finding in all_findings]),
            micros(col.COST_US, cost, null=unknown),
            texts(col.ADVICE, [finding.advice for finding in all_findings]),
            texts(col.JUMP, [_jump(trace, *each) for each in zip(all_findings, number.tolist(), strict=True)]),
        ),
        rows,
        _shares_note(scope, all_findings),
        headline=headline(scope, all_findings, len(failures), results.beside),
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
    left_out = left_out_steps(scope.trace) if scope.step is None else ""
    guessed += f" {left_out}" if left_out else ""
    if all(finding.cost is None for finding in all_findings):
        return guessed.lstrip()
    if scope.is_whole:
        whole = f"100 % is {duration(scope.time)}, from the first call or operator to the end of the last activity."
        return whole + guessed
    whose = "the periods of the steps, each" if scope.step is None else f"the period of step {scope.step},"
    return f"100 % is {duration(scope.time)}: {whose} from the end of the step before on the GPU to its own.{guessed}"


def _jump(trace: Trace, finding: Finding, number: int) -> str | None:
    """The viewpoint on the evidence, as a string; None without a slice."""
    if finding.row < 0:
        return None
    step, steps_by = (None, "") if number == NULL else (number, trace.steps_by)
    event = int(trace.slices.event[finding.row])
    return view_string(Viewpoint(step, event=event, steps_by=steps_by, is_gap=finding.at_gap))
