"""Everything that is said of two sides, each part made when it is asked for and then kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tracetui.analysis.comparing.changes.kernel_changes import KernelChanges, kernel_changes
from tracetui.analysis.comparing.changes.op_changes import op_changes
from tracetui.analysis.comparing.changes.totals_table import totals
from tracetui.analysis.comparing.sentences.statement import statement
from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.table import Table


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two sides, told from A to B: A is before, B is after."""

    a: Side
    b: Side

    @cached_property
    def statement(self) -> tuple[str, ...]:
        """What differs and why, in sentences."""
        return statement(self.a, self.b, self.ops)

    @cached_property
    def totals(self) -> Table:
        """One row per measure."""
        return totals(self.a, self.b)

    @cached_property
    def kernel_changes(self) -> KernelChanges:
        """What became of the kernels, with the instances behind every row."""
        return kernel_changes(self.a, self.b)

    @property
    def kernels(self) -> Table:
        """One row per kernel, or per group of them that became one."""
        return self.kernel_changes.table

    @cached_property
    def ops(self) -> Table:
        """One row per operator, annotation and runtime call, view ops and occupancy queries folded."""
        return op_changes(self.a, self.b)

    @cached_property
    def all_ops(self) -> Table:
        """The same with view ops and occupancy queries as rows of their own."""
        return op_changes(self.a, self.b, unfold=True)


def comparison(a: Side, b: Side) -> Comparison:
    """Two sides beside each other."""
    return Comparison(a, b)
