"""All results of a comparison, each computed when it is first asked for and then kept.

A result that fails because of a defect costs the others nothing: each raises AnalysisFailed then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import Side
from tracetui.comparing.statement import statement
from tracetui.comparing.totals_table import totals
from tracetui.errors import AnalysisFailed
from tracetui.model.guarding import Failures
from tracetui.model.table import Table


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two sides, A before and B after."""

    a: Side
    b: Side
    failures: Failures = field(default_factory=Failures, init=False)
    """What was asked for and could not be made."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The statement, or the sentence that says why there is none."""
        try:
            return self.statement
        except AnalysisFailed as failure:
            return (str(failure),)

    @cached_property
    def statement(self) -> tuple[str, ...]:
        """The differences and their causes, in sentences."""
        return self.failures.made("The statement", lambda: statement(self.a, self.b, self.ops))

    @cached_property
    def totals(self) -> Table:
        """One row per measure."""
        return self.failures.made("The table of totals", lambda: totals(self.a, self.b))

    @cached_property
    def kernel_changes(self) -> KernelChanges:
        """Changes of the kernels, with the activities behind every row."""
        return self.failures.made("The table of kernels", lambda: kernel_changes(self.a, self.b))

    @property
    def kernels(self) -> Table:
        """One row per kernel, or per group of kernels that became one."""
        return self.kernel_changes.table

    @cached_property
    def ops(self) -> Table:
        """One row per operator, annotation and runtime call, with view ops and occupancy queries folded."""
        return self.failures.made("The table of operators", lambda: op_changes(self.a, self.b))

    @cached_property
    def all_ops(self) -> Table:
        """The same with view ops and occupancy queries as rows of their own."""
        return self.failures.made("The table of operators", lambda: op_changes(self.a, self.b, unfold=True))


def comparison(a: Side, b: Side) -> Comparison:
    """The comparison of two sides."""
    return Comparison(a, b)
