"""What expressions are made of when they are evaluated: numbers, texts and truths, one or one for each row of a list.

What the trace does not hold is NaN in a number, -1 in a text or a truth, with the reason in words where it is single.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.checking.offenders import NOBODY, Offenders, of_rows
from tracetui.analysis.checking.units import BARE, Unit, unit_of
from tracetui.model.intervals import Int64
from tracetui.model.table import Column, Table
from tracetui.model.trace import Float64

NO, YES, UNKNOWN = 0, 1, -1
"""What a truth can be."""


@dataclass(frozen=True)
class Amount:
    """One number with its unit, to be shown."""

    value: float
    unit: Unit = BARE


Piece = str | Amount
"""What a finding is told in: words and numbers."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The list whose rows values belong to; two lists are the same when they are one object."""

    name: str
    """As the expression calls it."""
    count: int
    why: str = ""
    """Why it is not known what rows there are, as a sentence; then there are none."""
    table: Table | None = None
    """What is known of the rows."""

    def named(self, places: Int64, holds: bool = True) -> Offenders:
        """Some of the rows by their places, to be told."""
        return of_rows(self.name, self.table, places, holds)


@dataclass(frozen=True, eq=False)
class Number:
    """One number, or one for each row."""

    values: Float64
    """Of no dimension where it is one; NaN is what the trace does not hold."""
    unit: Unit
    rows: Rows | None = None
    """None where it is one."""
    why: str = ""
    """Why it is not known, as a sentence."""
    sample: Float64 | None = None
    """The numbers of the parts of which it is the median; None where it is something else."""
    fixed: bool = False
    """Whether it is written in the expression, and nothing of the trace is in it."""
    offenders: Offenders = NOBODY
    """The rows of a list that make it what it is."""

    @property
    def one(self) -> float:
        """The number, where it is one."""
        return float(self.values)

    @property
    def amount(self) -> Amount:
        """The number, where it is one, to be shown."""
        return Amount(self.one, self.unit)


@dataclass(frozen=True, eq=False)
class Words:
    """One text, or one for each row: ids into `strings`, -1 for null."""

    ids: Int64
    strings: Sequence[str]
    rows: Rows | None = None
    why: str = ""
    fixed: bool = False
    """Whether it is written in the expression."""

    @property
    def one(self) -> str:
        """The text, where it is one and not null."""
        return self.strings[int(self.ids)]


@dataclass(frozen=True, eq=False)
class Truth:
    """Whether something holds, once or for each row: YES, NO, or UNKNOWN."""

    values: NDArray[np.int8]
    rows: Rows | None = None
    why: str = ""
    """Why it is not known, as a sentence."""
    found: tuple[Piece, ...] = ()
    """What was found, where more is to be told than yes or no."""
    wanted: tuple[Piece, ...] = ()
    untold: bool = False
    """Whether it is not known for want of certainty, and not for want of a value."""
    offenders: Offenders = NOBODY
    """The rows of a list that decided."""

    @property
    def one(self) -> int:
        """The answer, where it is one."""
        return int(self.values)


Value = Number | Words | Truth


def number(value: float | None, unit: Unit, why: str = "", sample: Float64 | None = None) -> Number:
    """One number; None and what is not finite is not known."""
    known = value is not None and np.isfinite(value)
    return Number(np.array(value if known else np.nan, np.float64), unit, None, "" if known else why, sample)


def words(text: str | None, why: str = "") -> Words:
    """One text; None is not known."""
    return Words(np.array(-1 if text is None else 0, np.int64), () if text is None else (text,), None, why)


def truth(value: int, why: str = "", found: Sequence[Piece] = (), wanted: Sequence[Piece] = ()) -> Truth:
    """One answer."""
    return Truth(np.array(value, np.int8), None, why, tuple(found), tuple(wanted))


def of_column(column: Column, rows: Rows) -> Value:
    """A column of a table as the values of the rows of a list."""
    if column.strings is not None:
        return Words(column.values.astype(np.int64), column.strings, rows)
    if column.values.dtype.kind == "b":
        return Truth(column.values.astype(np.int8), rows)
    values = column.values.astype(np.float64)
    values[column.nulls()] = np.nan
    return Number(values, unit_of(column.unit), rows)


def kept(value: Value, mask: NDArray[np.bool_]) -> Value:
    """The values of some rows."""
    match value:
        case Number():
            return Number(value.values[mask], value.unit, value.rows)
        case Words():
            return Words(value.ids[mask], value.strings, value.rows)
        case Truth():
            return Truth(value.values[mask], value.rows)
