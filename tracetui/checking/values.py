"""Values of expressions: numbers, texts and answers with their units, single or one per row of a list.

What the trace does not hold is NaN in a number and -1 in a text or an answer; a single value says why. A value keeps
the rows of the list on which it rests: the longest kernel, the steps that are too slow.

Numbers without a dimension are of four kinds. A bare number of an expression takes the unit of the other operand;
counts and ratios are plain; a percentage multiplies as a share (10% of it), and is never compared with a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui import errors
from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Cell, Table
from tracetui.model.trace import Float64

Powers = tuple[int, int, int]
"""Exponents of microseconds, bytes and operations."""
PLAIN: Powers = (0, 0, 0)
_BASES = ("us", "bytes", "flop")


@frozen(eq=True)
class Unit:
    """The unit of a number, or that a value is a text or an answer."""

    label: str
    """Spelling in tables and expressions; empty for plain numbers."""
    powers: Powers = PLAIN
    scale: float = 1.0
    """Base units in one of it."""
    kind: str = ""
    """Kind of a plain number: `bare`, `count`, `ratio` or `share`; `text` or `answer` of what is no number."""

    @property
    def words(self) -> str:
        """The unit in a sentence: `a time`, `a percentage`."""
        return _WORDS.get(self.kind) or _DIMENSIONS.get(self.powers) or f"a number of {self.label}"


class UnitError(Exception):
    """Two values do not fit together; the message names them."""


BARE = Unit("", kind="bare")
THINGS = Unit("", kind="count")
RATIO = Unit("", kind="ratio")
SHARE = Unit("%", scale=0.01, kind="share")
MICROS = Unit("us", (1, 0, 0))
BYTES = Unit("bytes", (0, 1, 0))
FLOP = Unit("flop", (0, 0, 1))
TEXT = Unit("", kind="text")
ANSWER = Unit("", kind="answer")

_WORDS = {
    "bare": "a number",
    "count": "a count",
    "ratio": "a ratio",
    "share": "a percentage",
    "text": "a text",
    "answer": "a condition",
}
_DIMENSIONS = {
    (1, 0, 0): "a time",
    (0, 1, 0): "a size in bytes",
    (0, 0, 1): "a number of operations",
    (-1, 1, 0): "a rate in bytes",
    (-1, 0, 1): "a rate of operations",
}


def _scaled(base: Unit, scales: dict[str, float], per_second: bool = False) -> dict[str, Unit]:
    if not per_second:
        return {label: Unit(label, base.powers, scale) for label, scale in scales.items()}
    powers = (base.powers[0] - 1, *base.powers[1:])
    return {f"{label}/s": Unit(f"{label}/s", powers, 1e-6 * scale) for label, scale in scales.items()}


_TIMES = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
_SIZES = {"B": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    f"{letter}iB": float(1024**power) for power, letter in enumerate("KMGT", 1)
}
_WORK = {
    f"{prefix}{word}": 1000.0**power
    for power, prefix in enumerate(("", "k", "M", "G", "T", "P"))
    for word in ("FLOP", "flop")
}

LITERALS: dict[str, Unit] = {
    **_scaled(MICROS, _TIMES),
    **_scaled(BYTES, _SIZES),
    **_scaled(FLOP, _WORK),
    **_scaled(BYTES, _SIZES, per_second=True),
    **_scaled(FLOP, _WORK, per_second=True),
    "FLOP/byte": Unit("FLOP/byte", (0, -1, 1)),
    "%": SHARE,
}
"""Units that may follow a number literal."""


def unit_of(label: str) -> Unit:
    """The unit of a column or a measure; an unknown label counts things."""
    return THINGS if not label else LITERALS.get(label, Unit(label, kind="count"))


def factor(unit: Unit, into: Unit) -> float:
    """The factor from one unit into another.

    Raises: UnitError where they are not of the same dimension.
    """
    if unit.kind == "bare" or into.kind == "bare":
        return 1.0
    if unit.powers != into.powers or {unit.kind, into.kind} == {"count", "share"}:
        raise UnitError(f"{unit.words} and {into.words}")
    return unit.scale / into.scale


def joint(a: Unit, b: Unit) -> Unit:
    """The unit in which numbers of two units are compared: that of the first, unless it is bare.

    Raises: UnitError where they are not of the same dimension.
    """
    factor(a, b)
    return b if a.kind == "bare" or (a.kind == "ratio" and b.kind == "share") else a


def product(a: Unit, b: Unit) -> tuple[Unit, float]:
    """The unit of a product, and the factor for the product of the two numbers."""
    for one, other in ((a, b), (b, a)):
        if one.kind == "bare":
            return other, 1.0
    for one, other in ((a, b), (b, a)):
        if one.kind == "share":
            return other, one.scale
    for one, other in ((a, b), (b, a)):
        if one.powers == PLAIN:
            # A ratio of a count is a count, whichever stands first.
            return (one if other.kind == "ratio" else other), 1.0
    return _of_powers(a.powers, b.powers, 1), a.scale * b.scale


def quotient(a: Unit, b: Unit) -> tuple[Unit, float]:
    """The unit of a quotient, and the factor for the quotient of the two numbers."""
    if b.kind == "bare":
        return a, 1.0
    if b.kind == "share":
        return (RATIO, 1.0) if a.kind == "share" else (RATIO if a.kind == "bare" else a, 1 / b.scale)
    if b.powers == PLAIN:
        return (RATIO, 1.0) if a.kind == "bare" or a.kind == b.kind == "count" else (a, 1.0)
    return _of_powers(a.powers, b.powers, -1), a.scale / b.scale


def _of_powers(a: Powers, b: Powers, sign: int) -> Unit:
    """The unit of a product or a quotient: `bytes/us`."""
    powers = (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])
    if powers == PLAIN:
        return RATIO
    bases = [
        (name if abs(power) == 1 else f"{name}^{abs(power)}", power) for name, power in zip(_BASES, powers, strict=True)
    ]
    over = " ".join(name for name, power in bases if power > 0)
    return Unit("/".join([over or "1", *(name for name, power in bases if power < 0)]), powers)


MAX_NAMED_ROWS = 3
"""Maximum rows named; the others are counted."""
_KERNEL_COLUMNS = ("after", "kernel")
"""Columns with recorded names of kernels, which a sentence shortens."""


@frozen(eq=True)
class Offender:
    """One row of a list, by names with which a user can look it up."""

    list_name: str
    """Name of the list."""
    name: str = ""
    """Short name of a kernel, an operator and so on; empty for a step."""
    step: int | None = None
    view: str = ""
    """The view string that shows it in the app; empty where none does."""
    path: str = ""
    """The file in which that view is, the trace or the baseline."""

    @property
    def text(self) -> str:
        """`step 3`, `sgemm 128x64 in step 3`, `host-sync`."""
        if self.step is None:
            return self.name or f"a row of {self.list_name}"
        return f"{self.name} in step {self.step}" if self.name else f"step {self.step}"


@frozen(eq=True)
class Offenders:
    """Rows in the order of their list, of which the first few are named."""

    first: tuple[Offender, ...] = ()
    total: int = 0
    holds: bool = True
    """True where the rows satisfy the condition, False where they do not."""
    only_above: bool = False
    """True where the rows explain only a number that is too large: rows that were counted."""

    @property
    def text(self) -> str:
        """`step 3, step 5`, `not step 3`; empty for no rows."""
        if not self.first:
            return ""
        more = f" and {self.total - len(self.first):,} more" if self.total > len(self.first) else ""
        return ("" if self.holds else "not ") + ", ".join(each.text for each in self.first) + more


NO_OFFENDERS = Offenders()
View = Callable[[int], tuple[str, str]]
"""View string and path of the row or the part with an index."""


def no_view(_: int) -> tuple[str, str]:
    """No view, of rows that no single trace holds."""
    return "", ""


def counted_names(list_name: str, names: Sequence[str], view: View) -> Offenders:
    """Rows that were counted, of which only the names are known, and where each is seen."""
    first = tuple(Offender(list_name, text, None, *view(at)) for at, text in enumerate(names[:MAX_NAMED_ROWS]))
    return Offenders(first, len(names), only_above=True)


@frozen
class Rows:
    """A list with named columns; two lists are equal only as the same object."""

    name: str
    """Name in expressions."""
    table: Table
    why: str = ""
    """The reason why the rows are unknown, as a sentence; there are none then."""
    named_by: tuple[tuple[str, str], ...] = (("", "name"),)
    """Columns that name a row in a sentence, each with the words before it."""
    has_step: bool = True
    """True where a row belongs to the step that its column `step` names."""
    view: View = no_view
    _values: dict[str, Value] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> Value:
        """A column as values, the same object each time.

        Raises: KeyError for a column that does not exist.
        """
        if name not in self._values:
            column = self.table[name]
            if column.strings is not None:
                value = Value(column.values.astype(np.int64), TEXT, self, strings=column.strings)
            elif column.values.dtype.kind == "b":
                value = Value(column.values.astype(np.int8), ANSWER, self)
            else:
                values = column.values.astype(np.float64)
                values[column.nulls()] = np.nan
                value = Value(values, unit_of(column.unit), self)
            self._values[name] = value
        return self._values[name]

    def offenders(self, indices: Int64, holds: bool = True, only_above: bool = False) -> Offenders:
        """The rows at some indices, the first of them by name."""
        first = tuple(map(self._offender, indices[:MAX_NAMED_ROWS].tolist()))
        return Offenders(first, len(indices), holds, only_above)

    def _offender(self, index: int) -> Offender:
        def cell(column: str) -> Cell:
            return self.table[column].cell(index) if column in self.table else None

        pieces = [(before, column, cell(column)) for before, column in self.named_by]
        name = "".join(
            f"{before}{short_kernel(str(value)) if column in _KERNEL_COLUMNS else value}"
            for before, column, value in pieces
            if value is not None
        )
        step = cell("step") if self.has_step else None
        number = int(step) if isinstance(step, int | float | np.integer) else None
        return Offender(self.name, name, number, *self.view(index))


@frozen
class Parts:
    """The steps or runs in each of which a count must be as expected."""

    noun: str
    """`step` or `run`."""
    numbers: Int64
    view: View = no_view

    def offenders(self, indices: Int64) -> Offenders:
        """Some of the parts by number."""
        first = []
        for index in indices[:MAX_NAMED_ROWS].tolist():
            number, view = int(self.numbers[index]), self.view(index)
            is_step = self.noun == "step"
            first.append(
                Offender("steps", "", number, *view)
                if is_step
                else Offender("runs", f"{self.noun} {number}", None, *view)
            )
        return Offenders(tuple(first), len(indices))


NO, YES, UNKNOWN = 0, 1, -1
"""Values of an answer."""


@frozen(eq=True)
class Amount:
    """One number with its unit, for output."""

    value: float
    unit: Unit = BARE


Piece = str | Amount
"""Words or a number of an outcome."""


@frozen
class Value:
    """A number, a text or an answer: one, or one per row of a list. Its unit says which."""

    values: NDArray[Any]
    """Of numbers float64, NaN where the trace does not hold it; of texts ids in `strings`, -1 for null; of answers YES,
    NO or UNKNOWN. Zero-dimensional for a single value.
    """
    unit: Unit
    rows: Rows | None = None
    """None for a single value."""
    why: str = ""
    """The reason why it is unknown, as a sentence."""
    fixed: bool = False
    """True for a literal, which is independent of the trace."""
    strings: Sequence[str] = ()
    offenders: Offenders = NO_OFFENDERS
    """The rows of a list on which it rests, or that decide it."""
    each: NDArray[Any] | None = None
    """Of a count its value in each of `parts`, of which the single number is the largest; of an answer about it the
    answer in each, and the single one is whether it holds in every part.
    """
    parts: Parts | None = None
    sample: Float64 | None = None
    """The values of the parts of which it is the median; None where it is something else."""
    presence: Value | None = None
    """Of a time its values in each part, like a count: what is asked where it is compared with 0."""
    actual: tuple[Piece, ...] = ()
    """Of an answer the value in the trace, where that is more than yes or no."""
    wanted: tuple[Piece, ...] = ()
    undecided: bool = False
    """True where an answer is unknown because of noise, and not because a value is missing."""

    @property
    def is_number(self) -> bool:
        """True for what is neither a text nor an answer."""
        return self.unit not in (TEXT, ANSWER)

    @property
    def known(self) -> Bool:
        """Mask of what the trace holds."""
        return np.asarray(~np.isnan(self.values) if self.is_number else self.values >= 0)

    @property
    def by_part(self) -> NDArray[Any]:
        """The value in each part where it has parts, else the values themselves."""
        return self.values if self.each is None else self.each

    @property
    def one(self) -> float:
        """The single number, or YES, NO or UNKNOWN."""
        return float(self.values)

    @property
    def text(self) -> str:
        """The single text, not null."""
        return self.strings[int(self.values)]


def number(value: float | None, unit: Unit, why: str = "", sample: Float64 | None = None) -> Value:
    """One number; None and values that are not finite are unknown."""
    known = value is not None and np.isfinite(value)
    return Value(np.array(value if known else np.nan, np.float64), unit, None, "" if known else why, sample=sample)


def of_parts(each: Float64, unit: Unit, parts: Parts, why: str = "") -> Value:
    """A count with its value in each of some parts; `why` it is unknown in those where it is."""
    known = each[~np.isnan(each)]
    largest = number(float(known.max()) if len(known) else None, unit, why, known)
    return replace(largest, each=each, parts=parts, why=why if len(known) < len(each) or len(each) == 0 else "")


def in_every(each: NDArray[np.int8], parts: Parts | None, why: str = "") -> Value:
    """An answer for each of some parts; a certain no in one decides, then an unknown one."""
    one = NO if (each == NO).any() else UNKNOWN if (each == UNKNOWN).any() or len(each) == 0 else YES
    return Value(np.array(one, np.int8), ANSWER, None, why if one == UNKNOWN else "", each=each, parts=parts)


def text_value(text: str | None, why: str = "", fixed: bool = False) -> Value:
    """One text; None is unknown."""
    known = text is not None
    return Value(np.array(known - 1, np.int64), TEXT, None, why, fixed, () if text is None else (text,))


def answer(value: int, why: str = "", actual: Sequence[Piece] = (), wanted: Sequence[Piece] = ()) -> Value:
    """One answer: YES, NO or UNKNOWN."""
    return Value(np.array(value, np.int8), ANSWER, None, why, actual=tuple(actual), wanted=tuple(wanted))


ALL_NAMES_HINT = "`tracetui check --names TRACE` lists all names."
NO_COMMAS_HINT = "A number has no comma in it: 3,874 is written 3874 or 3_874."
"""Hint for a number with a thousands separator."""
MAX_SHOWN_CHARACTERS = 76
"""Maximum characters of a long expression shown around the error."""


class ExpressionError(UsageError):
    """An expression that is not understood: a sentence, and the position in the text that it is about."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence)
        self.at = at
        """Characters before the error."""
        self.text = ""
        """The whole expression, once it is known."""
        self.source = ""
        """The file and line of the expression, as `limits.txt, line 3`; empty for the command line."""
        self.others: tuple[ExpressionError, ...] = ()
        """Further errors, where several expressions were parsed."""

    @property
    def lines_below(self) -> tuple[str, ...]:
        """The expression, where it is known, and a caret under the position."""
        return tuple(f"  {line}" for line in pointed(self.text, self.at)) if self.text else ()


def pointed(text: str, at: int) -> tuple[str, str]:
    """The expression, cut to one line where it is long, and a caret under the position."""
    first = max(0, min(at - MAX_SHOWN_CHARACTERS // 2, len(text) - MAX_SHOWN_CHARACTERS))
    visible = text[first : first + MAX_SHOWN_CHARACTERS]
    head, tail = "… " if first else "", " …" if first + MAX_SHOWN_CHARACTERS < len(text) else ""
    return f"{head}{visible}{tail}", " " * (len(head) + min(at, len(text)) - first) + "^"


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence that suggests the names most similar to one that does not exist, or where all names are listed."""
    return errors.nearest(name, known, otherwise) or ALL_NAMES_HINT
