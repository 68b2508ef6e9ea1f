"""A finding: something to know about a trace, weighed by what fixing it could save at most."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """Weight of a finding."""

    NOTE = 0
    """Half a percent of the time, or good to know when reading the numbers."""
    MINOR = 1
    MAJOR = 2


MIN_SHARES = ((0.1, Severity.MAJOR), (0.02, Severity.MINOR), (0.005, Severity.NOTE))
"""Minimum share of the time of the steps for each severity, largest first; what saves less is no finding."""


def severity_of(share: float) -> Severity | None:
    """Severity of a saving as a share (0 to 1) of the time of the steps; None where it is not worth a sentence."""
    return next((severity for least, severity in MIN_SHARES if share >= least), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a trace: a sentence, the numbers behind it, and what to do about it."""

    id: str
    """Stable name of the rule."""
    severity: Severity
    title: str
    """One sentence; with the cost and its share where there is a cost."""
    evidence: str
    """The numbers behind it, in words."""
    advice: str
    row: int = -1
    """The slice to look at, -1 for none."""
    cost: int | None = None
    """Time in ns that fixing it could save at most, over everything in scope; None where it has no price."""
    action: str = ""
    """What to do first, in a few words that follow "so": `give the DataLoader workers`."""
    at_gap: bool = False
    """Whether to look at the gap before that slice, in which its device ran nothing."""
