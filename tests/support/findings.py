"""The findings of small traces, by the name of their rule."""

from __future__ import annotations

from tracetui.findings import Finding, finding_list
from tracetui.model.trace import Trace

MS = 1_000_000
"""Nanoseconds of a millisecond."""


def ids(trace: Trace, step: int | None = None) -> list[str]:
    """Names of the rules that found something; `not-judged` only names rules that could not look."""
    return [finding.id for finding in finding_list(trace, step) if finding.id != "not-judged"]


def one(trace: Trace, name: str, step: int | None = None) -> Finding:
    """The finding of a rule."""
    return next(finding for finding in finding_list(trace, step) if finding.id == name)
