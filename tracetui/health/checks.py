"""What a health check is, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tracetui.model.trace import Trace


class CheckSeverity(IntEnum):
    """Severity of a check; larger is worse."""

    NOTE = 1
    """Good to know; the numbers are right."""
    DOUBT = 2
    """A warning: some numbers rest on a guess or are slightly off."""
    WRONG = 3
    """Some numbers are wrong or incomplete."""


@dataclass(frozen=True)
class Doubt:
    """Result of a check."""

    count: int
    """Number of cases; 0 where the check found nothing."""
    of: int = 0
    """Number of candidates; 0 where a share means nothing."""
    example: str = ""
    """One case in words: its name, or its byte position in the file."""
    row: int = -1
    """The slice to jump to, -1 for none."""
    size: int = 0
    """How far the numbers are off, in ns; 0 where that means nothing."""
    effect: str = ""
    """What is to be said instead of the check's effect; empty where that holds."""


@dataclass(frozen=True)
class Check:
    """A question asked of every trace."""

    name: str
    severity: CheckSeverity
    find: Callable[[Trace], Doubt | None]
    """The answer; None where the question does not apply, such as for kernels in a trace without a GPU."""
    effect: str
    """Effect on the numbers, in a sentence."""
    touches: tuple[str, ...] = ()
    """Affected columns as `pane.column`; `pane` alone stands for all of its columns."""
