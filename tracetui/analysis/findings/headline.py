"""The headline of the findings: the largest saving with its cause, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.analysis.findings.finding import Finding, Severity
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.idle.verdict import BUSY, verdict_on

NO_FINDINGS = "No rule found anything to report."


def headline(scope: Scope, findings: Sequence[Finding]) -> str:
    """One sentence for the top of the list."""
    large = next((finding for finding in findings if finding.severity > Severity.NOTE), None)
    if large is not None:
        return f"{large.title}, so {large.action} first." if large.action else f"{large.title}."
    judged = verdict_on(scope.trace, scope.step)
    if judged is None:
        return f"{findings[0].title}." if findings else NO_FINDINGS
    if judged.idle_pct >= BUSY:
        return f"No rule explains the idle time: {judged.text}."
    return f"Nothing large to save: {judged.text}."
