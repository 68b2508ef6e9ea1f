"""Values of expressions: numbers, texts and truths, single or one per row of a list.

What the trace does not hold is NaN in a number and -1 in a text or a truth; a single value says why. A value remembers
the rows of the list on which it rests: the longest kernel, the steps that are too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracetui.checking.units import BARE, Unit, unit_of
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Int64
from tracetui.model.table import Cell, Column, Table
from tracetui.model.trace import Float64

MAX_NAMED_ROWS = 3
"""Maximum rows named; the others are counted."""


@dataclass(frozen=True)
class Offender:
    """One row of a list, named so that it can be found again."""

    list_name: str
    """Name of the list."""
    name: str = ""
    """Short name of a kernel, an operator and so on; empty for a step."""
    step: int | None = None

    @property
    def text(self) -> str:
        """`step 3`, `sgemm 128x64 in step 3`, `host-sync`."""
        if self.step is None:
            return self.name or f"a row of {self.list_name}"
        return f"{self.name} in step {self.step}" if self.name else f"step {self.step}"


@dataclass(frozen=True)
class Offenders:
    """Rows in the order of their list, of which the first few are named."""

    first: tuple[Offender, ...] = ()
    total: int = 0
    holds: bool = True
    """Whether the rows satisfy what was asked; False for rows that do not."""
    only_above: bool = False
    """Whether the rows explain only a number that is too large: rows that were counted."""

    @property
    def text(self) -> str:
        """`step 3, step 5`, `not step 3`; empty for no rows."""
        if not self.first:
            return ""
        more = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
        return ("" if self.holds else "not ") + ", ".join(each.text for each in self.first) + more

    def counted(self) -> Offenders:
        """The same rows, marked as counted."""
        return replace(self, only_above=True)


NOBODY = Offenders()


def of_rows(name: str, table: Table | None, indices: Int64, holds: bool = True) -> Offenders:
    """Rows of the table of a list."""
    if table is None:
        return NOBODY
    return Offenders(
        tuple(_row(name, table, index) for index in indices[:MAX_NAMED_ROWS].tolist()), len(indices), holds
    )


def of_names(name: str, texts: Sequence[str]) -> Offenders:
    """Rows of which only the names are known."""
    return Offenders(tuple(Offender(name, text) for text in texts[:MAX_NAMED_ROWS]), len(texts))


def first_of(values: Sequence[Offenders]) -> Offenders:
    """The rows of the first value that has any."""
    return next((each for each in values if each.first), NOBODY)


def _row(name: str, table: Table, index: int) -> Offender:
    def cell(column: str) -> Cell:
        return table[column].cell(index) if column in table else None

    step = None if name in _WITHOUT_STEP else cell("step")
    label = _NAMES.get(name, _plain("name"))(cell)
    return Offender(name, label, int(step) if isinstance(step, int | float | np.integer) else None)


Cells = Callable[[str], Cell]


def _plain(column: str, before: str = "") -> Callable[[Cells], str]:
    return lambda cell: "" if cell(column) is None else f"{before}{cell(column)}"


def _short(column: str, before: str = "") -> Callable[[Cells], str]:
    return lambda cell: "" if cell(column) is None else f"{before}{short_kernel(str(cell(column)))}"


def _with_op(column: str) -> Callable[[Cells], str]:
    return lambda cell: f"{cell(column) or 'a row'}{_plain('op', ' of ')(cell)}"


_NAMES: dict[str, Callable[[Cells], str]] = {
    "steps": lambda _: "",
    "runs": _plain("run", "run "),
    "kernels": _plain("short_name"),
    "copies": _plain("short_name"),
    "launches": _with_op("api"),
    "gaps": _short("after", "before "),
    "occupancy": _short("kernel", "for "),
    "memory": _with_op("event"),
    "roofline": _plain("op"),
    "serving": _plain("kind"),
    "layers": _plain("part"),
    "counters": _plain("counter"),
    "findings": _plain("id"),
    "health": _plain("check"),
}
"""How a row of each list is named; rows of other lists by their name."""
_WITHOUT_STEP = ("counters", "findings", "health", "layers", "roofline", "ops", "runs", "serving")
"""Lists whose rows belong to no single step; a finding names one as an example."""


NO, YES, UNKNOWN = 0, 1, -1
"""Values of a truth."""


@dataclass(frozen=True)
class Amount:
    """One number with its unit, for output."""

    value: float
    unit: Unit = BARE


Piece = str | Amount
"""Words or a number of an outcome."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The list whose rows values belong to; two lists are equal only as the same object."""

    name: str
    """Name in expressions."""
    count: int
    why: str = ""
    """Why the rows are unknown, as a sentence; there are none then."""
    table: Table | None = None
    """The table of the rows."""

    def named(self, indices: Int64, holds: bool = True) -> Offenders:
        """The rows at some indices, by name."""
        return of_rows(self.name, self.table, indices, holds)


@dataclass(frozen=True, eq=False)
class Parts:
    """The steps or runs in each of which a count must be as expected."""

    noun: str
    """`step` or `run`."""
    numbers: Int64

    def named(self, indices: Int64) -> Offenders:
        """Some of the parts by number."""
        first = (int(self.numbers[index]) for index in indices[:MAX_NAMED_ROWS].tolist())
        if self.noun == "step":
            return Offenders(tuple(Offender("steps", "", number) for number in first), len(indices))
        return Offenders(tuple(Offender("runs", f"{self.noun} {number}") for number in first), len(indices))


@dataclass(frozen=True, eq=False)
class Number:
    """One number, or one per row."""

    values: Float64
    """Zero-dimensional for a single number; NaN where the trace does not hold it."""
    unit: Unit
    rows: Rows | None = None
    """None for a single number."""
    why: str = ""
    """Why it is unknown, as a sentence."""
    sample: Float64 | None = None
    """The values of the parts of which it is the median; None where it is something else."""
    fixed: bool = False
    """Whether it is a literal, independent of the trace."""
    offenders: Offenders = NOBODY
    """The rows of a list on which it rests."""
    each: Float64 | None = None
    """Of a count its value in each of `parts`, NaN where unknown; the single number is the largest of them."""
    parts: Parts | None = None
    presence: Number | None = None
    """Of a time its values in each part, like a count: what is asked where it is compared with 0."""

    @property
    def one(self) -> float:
        """The single number."""
        return float(self.values)

    @property
    def amount(self) -> Amount:
        """The single number, for output."""
        return Amount(self.one, self.unit)


@dataclass(frozen=True, eq=False)
class Words:
    """One text, or one per row: ids in `strings`, -1 for null."""

    ids: Int64
    strings: Sequence[str]
    rows: Rows | None = None
    why: str = ""
    fixed: bool = False
    """Whether it is a literal."""

    @property
    def one(self) -> str:
        """The single text, not null."""
        return self.strings[int(self.ids)]


@dataclass(frozen=True, eq=False)
class Truth:
    """Whether something holds, once or per row: YES, NO or UNKNOWN."""

    values: NDArray[np.int8]
    rows: Rows | None = None
    why: str = ""
    """Why it is unknown, as a sentence."""
    found: tuple[Piece, ...] = ()
    """What was found, where that is more than yes or no."""
    wanted: tuple[Piece, ...] = ()
    undecided: bool = False
    """Whether it is unknown because of noise, and not because a value is missing."""
    offenders: Offenders = NOBODY
    """The rows of a list that decide it."""
    each: NDArray[np.int8] | None = None
    """Whether it holds in each of `parts`; the single answer is whether it holds in every one."""
    parts: Parts | None = None

    @property
    def one(self) -> int:
        """The single answer."""
        return int(self.values)


Value = Number | Words | Truth


def number(value: float | None, unit: Unit, why: str = "", sample: Float64 | None = None) -> Number:
    """One number; None and values that are not finite are unknown."""
    known = value is not None and np.isfinite(value)
    return Number(np.array(value if known else np.nan, np.float64), unit, None, "" if known else why, sample)


def of_parts(each: Float64, unit: Unit, parts: Parts, why: str = "") -> Number:
    """A count with its value in each of some parts; `why` it is unknown in those where it is."""
    known = each[~np.isnan(each)]
    found = number(float(known.max()) if len(known) else None, unit, why, known)
    return replace(found, each=each, parts=parts, why=why if len(known) < len(each) or len(each) == 0 else "")


def in_every(each: NDArray[np.int8], parts: Parts | None, why: str = "") -> Truth:
    """An answer for each of some parts; a certain no in one decides, then an unknown one."""
    one = NO if (each == NO).any() else UNKNOWN if (each == UNKNOWN).any() or len(each) == 0 else YES
    return Truth(np.array(one, np.int8), None, why if one == UNKNOWN else "", each=each, parts=parts)


def words(text: str | None, why: str = "") -> Words:
    """One text; None is unknown."""
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
