"""Comparison of several sides with the first: one table with columns per side, and first sentences of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from string import ascii_uppercase

import numpy as np

from tracetui.comparing.fairness import unrelated_programs
from tracetui.comparing.measures import measures
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import Side
from tracetui.comparing.statement import opening
from tracetui.comparing.totals_table import Total, merged, paired
from tracetui.model import columns as col
from tracetui.model.guarding import Failures
from tracetui.model.table import Column, ColumnSpec, Table, numbers, texts

SIDE_NAMES = ascii_uppercase
"""Names of the sides; there can be no more sides than these."""


@dataclass(frozen=True, eq=False)
class Several:
    """Several sides, each compared with the first."""

    sides: tuple[Side, ...]
    failures: Failures = field(default_factory=Failures, init=False)
    """What was asked for and could not be made."""

    @cached_property
    def openings(self) -> tuple[tuple[str, ...], ...]:
        """For each side after the first: warnings about comparing it, and the first sentence about times."""
        first = self.sides[0]
        return tuple(
            self.failures.made_or(
                f"The statement about {SIDE_NAMES[index]}",
                partial(opening, first, each, (SIDE_NAMES[0], SIDE_NAMES[index])),
                lambda sentence: (sentence,),
            )
            for index, each in enumerate(self.sides[1:], 1)
        )

    @cached_property
    def others(self) -> tuple[bool, ...]:
        """For each side whether it is another program than the first, or may be one, so that ratios mean nothing."""
        first = self.sides[0]

        def is_other(each: Side) -> bool:
            return bool(unrelated_programs(first, each, list(op_changes(first, each).rows())))

        what = "The comparison of programs"
        return (
            False,
            *(self.failures.made_or(what, partial(is_other, each), lambda _: True) for each in self.sides[1:]),
        )

    @cached_property
    def totals(self) -> Table:
        """One row per measure: the median of each side, and how those after the first differ from it.

        Raises: AnalysisFailed for a defect.
        """
        return self.failures.made("The table of totals", self._totals)

    def _totals(self) -> Table:
        first, every = self.sides[0], reduce(merged, map(measures, self.sides))
        marks = [(SIDE_NAMES[0], SIDE_NAMES[index]) for index in range(1, len(self.sides))]
        pairs = [paired(first, other, mark, every) for other, mark in zip(self.sides[1:], marks, strict=True)]
        names = [name for name in every if any(name in pair for pair in pairs)]
        known = [next(pair[name] for pair in pairs if name in pair) for name in names]
        return Table(
            (
                texts(col.MEASURE, names),
                texts(col.UNIT.but(help="Unit of the numbers; empty for counts."), [each.unit for each in known]),
                numbers(col.A, [each.difference.a.median for each in known]),
                *(column for index, pair in enumerate(pairs, 1) for column in _columns(index, pair, names)),
                texts(col.ABOUT, [each.help for each in known]),
            ),
            None,
            " ".join(dict.fromkeys(side.remark for side in self.sides if side.remark)),
        )


def _columns(index: int, pair: dict[str, Total], names: list[str]) -> Iterator[Column]:
    """The columns of a side after the first; null where neither it nor the first has a value."""
    totals, mark = [pair.get(name) for name in names], SIDE_NAMES[index]
    name, nothing = mark.lower(), np.nan
    medians = [each.difference.b.median if each else nothing for each in totals]
    ratios = [each.difference.ratio if each else nothing for each in totals]
    yield numbers(ColumnSpec(name, mark, f"Median over the parts of {mark}."), medians)
    yield numbers(ColumnSpec(f"{name}_ratio", f"{mark} / A", f"{mark} by A."), ratios)
    changes = [each.change.value if each else None for each in totals]
    help = f"What noise lets one say of {mark} beside A."
    yield texts(ColumnSpec(f"{name}_change", f"{mark} change", help), changes)
    remarks = [each.remark or None if each else None for each in totals]
    yield texts(ColumnSpec(f"{name}_remark", f"{mark} remark", "What stands in the way of saying more."), remarks)
