"""The headline of the findings: the largest saving with its cause, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.findings.finding import Finding, Severity
from tracetui.findings.scope import Scope
from tracetui.idle.verdict import BUSY, verdict_on
from tracetui.model.quantities import counted

NO_FINDINGS = "No rule found anything to report."


def headline(scope: Scope, findings: Sequence[Finding], failed: int = 0) -> str:
    """One sentence for the top of the list; where rules failed, nothing is said of what no rule found."""
    large = [finding for finding in findings if finding.severity > Severity.NOTE]
    doubt = f"{large.pop(0).title}; as recorded: " if len(large) > 1 and large[0].id == "untrusted" else ""
    if failed:
        rules = f"{counted(failed, 'rule')} failed: what {'they look' if failed > 1 else 'it looks'} for is not known"
        return f"{rules}. Of the others: {doubt}{large[0].title}." if large else f"{rules}."
    judged = verdict_on(scope.trace, scope.step)
    unexplained = judged is not None and judged.idle_pct >= BUSY and judged.is_unexplained
    # Half of the idle time at least is without a cause then.
    if judged is not None and unexplained and all(2 * _share(scope, each) < judged.idle_pct for each in large):
        return f"{doubt}What the GPU waited for is not in the trace: {judged.idle_text}."
    if large:
        return f"{doubt}{large[0].title}" + (f", so {large[0].action} first." if large[0].action else ".")
    if judged is None:
        return f"{findings[0].title}." if findings else NO_FINDINGS
    if judged.level:
        return f"No rule explains the idle time: {judged.text}."
    return f"Nothing large to save: {judged.text}."


def _share(scope: Scope, finding: Finding) -> float:
    """What fixing it could save, in percent of the time; 100 for what has no price and is said in any case."""
    return 100.0 if finding.cost is None else 100 * finding.cost / scope.time
