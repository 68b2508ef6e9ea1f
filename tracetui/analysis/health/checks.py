"""What a check of the trace itself is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tracetui.model.trace import Trace


class CheckSeverity(IntEnum):
    """How much a doubt matters; larger is worse."""

    NOTE = 1
    """Good to know; the numbers are as good as they look."""
    DOUBT = 2
    """Some numbers rest on a guess or are off by a little."""
    WRONG = 3
    """Some numbers are wrong or lack something."""


@dataclass(frozen=True)
class Doubt:
    """What a check found."""

    count: int
    """How many it touches; 0 is what one hopes for."""
    of: int = 0
    """Out of so many; 0 where a share says nothing."""
    example: str = ""
    """One of them in words: its name, or the byte at which it stands in the file."""
    row: int = -1
    """The slice to jump to, -1 for none."""


@dataclass(frozen=True)
class Check:
    """A question that is asked of every trace."""

    name: str
    severity: CheckSeverity
    find: Callable[[Trace], Doubt | None]
    """The answer; None where the question makes no sense, as of kernels in a trace without a GPU."""
    effect: str
    """What the doubt does to the numbers, in a sentence."""
    touches: tuple[str, ...] = ()
    """The columns that carry it, as `pane.column`; `pane` alone is all of its columns."""
