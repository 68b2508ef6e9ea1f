"""A finding, and the part of a trace that the rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.linking.links import links, op_rows
from tracetui.analysis.linking.placement import chosen, step_index, within
from tracetui.analysis.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, percent
from tracetui.model.trace import Trace


class Severity(IntEnum):
    """How much a finding matters for the time of a step."""

    NOTE = 0
    """Good to know when reading the numbers."""
    MINOR = 1
    MAJOR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a trace: evidence with numbers, and what to do about it."""

    id: str
    """Stable name of the rule."""
    severity: Severity
    title: str
    evidence: str
    """The numbers behind it, in words."""
    advice: str
    row: int = -1
    """The slice to look at, -1 for none."""
    cost: int | None = None
    """Time in ns that the evidence is about, over everything in scope; None where it is no time."""


class Scope:
    """A trace, or one step of it, for the rules."""

    def __init__(self, trace: Trace, step: int | None) -> None:
        self.trace = trace
        self.step = step

    @cached_property
    def ops(self) -> Int64:
        """Rows of the operators, ascending."""
        return self._within(op_rows(self.trace))

    @cached_property
    def activities(self) -> Int64:
        """GPU activities that the steps launched, in order of start; all of them in a trace without steps."""
        return self.inside(links(self.trace).gpu)

    @cached_property
    def wall(self) -> int:
        """Duration of the steps on the CPU in ns; without steps the length of the trace."""
        every, picked = steps(self.trace), chosen(self.trace, self.step)
        if len(picked) == 0:
            return max(self.trace.window[1] - self.trace.window[0], 1)
        return max(int((every.end - every.start)[picked].sum()), 1)

    @cached_property
    def rounds(self) -> int:
        """Number of steps in scope; 1 without steps."""
        return max(len(chosen(self.trace, self.step)), 1)

    def inside(self, rows: Int64) -> Int64:
        """Those of the slices that lie in a step in scope; all of them in a trace without steps."""
        if len(steps(self.trace)) == 0:
            return rows
        index = step_index(self.trace, rows)
        return rows[np.isin(index, chosen(self.trace, self.step))]

    def weigh(self, cost: int) -> Severity:
        """Severity of a time in ns: a tenth of the steps' time is major, a fiftieth minor."""
        share = cost / self.wall
        return Severity.MAJOR if share >= 0.1 else Severity.MINOR if share >= 0.02 else Severity.NOTE

    def share(self, cost: int) -> str:
        """A time in ns as a share of the steps' time, in words."""
        return f"{percent(100 * cost / self.wall)} of the time of {self.title}"

    @property
    def title(self) -> str:
        """The scope in words."""
        if self.step is not None:
            return f"step {self.step}"
        return "the steps" if len(steps(self.trace)) else "the trace"

    def per_step(self, number: int, thing: str) -> str:
        """A number of things, and how many per step where there are several steps."""
        if self.rounds == 1:
            return counted(number, thing)
        each = number / self.rounds
        return f"{counted(number, thing)} ({each:,.{0 if each >= 10 else 1}f} a step)"

    def _within(self, rows: Int64) -> Int64:
        return within(self.trace, rows, self.step)


def longest(trace: Trace, rows: Int64) -> int:
    """The longest slice, -1 for none."""
    return int(rows[np.argmax(trace.slices.dur[rows])]) if len(rows) else -1


def most_common(trace: Trace, rows: Int64) -> str:
    """The most frequent name among the slices."""
    names = group(trace.slices.name[rows])
    return str(trace.names[int(names.key[np.argmax(names.calls)])])
