"""Values of expressions: numbers, texts and truths, single or one per row of a list.

What the trace does not hold is NaN in a number and -1 in a text or a truth; a single value says why. A value remembers
the rows of the list on which it rests: the longest kernel, the steps that are too slow.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tracetui.comparing.measures import COUNT
from tracetui.errors import UsageError
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Int64
from tracetui.model.table import Cell, Column, Table
from tracetui.model.trace import Float64

# Units of numbers: which can be compared and added, and the unit of a product or a quotient.
#
# Numbers without a dimension are of four kinds. A bare number of an expression takes the unit of the other operand;
# counts and ratios are plain; a percentage multiplies as a share (10% of it), and is never compared with a count.

Powers = tuple[int, int, int]
"""Exponents of microseconds, bytes and operations."""
PLAIN: Powers = (0, 0, 0)
_BASES = ("us", "bytes", "flop")


@dataclass(frozen=True)
class Unit:
    """What a number counts in."""

    label: str
    """Spelling in tables and expressions; empty for plain numbers."""
    powers: Powers = PLAIN
    scale: float = 1.0
    """Base units in one of it."""
    kind: str = ""
    """Kind of a plain number: `bare`, `count`, `ratio` or `share`."""

    @property
    def words(self) -> str:
        """The unit in a sentence: `a time`, `a share`."""
        return _WORDS.get(self.kind) or _DIMENSIONS.get(self.powers) or f"a number of {self.label}"


class Misfit(Exception):
    """Two values do not fit together; the message names them."""


BARE = Unit("", kind="bare")
THINGS = Unit("", kind="count")
RATIO = Unit("", kind="ratio")
SHARE = Unit("%", scale=0.01, kind="share")
MICROS = Unit("us", (1, 0, 0))
BYTES = Unit("bytes", (0, 1, 0))
FLOP = Unit("flop", (0, 0, 1))

_WORDS = {"bare": "a number", "count": "a count", "ratio": "a ratio", "share": "a percentage"}
_DIMENSIONS = {
    (1, 0, 0): "a time",
    (0, 1, 0): "a size in bytes",
    (0, 0, 1): "a number of operations",
    (-1, 1, 0): "a rate in bytes",
    (-1, 0, 1): "a rate of operations",
}


def _scaled(base: Unit, scales: dict[str, float], behind: str = "") -> dict[str, Unit]:
    powers = base.powers if not behind else (base.powers[0] - 1, *base.powers[1:])
    per = 1e-6 if behind else 1.0
    return {f"{label}{behind}": Unit(f"{label}{behind}", powers, per * scale) for label, scale in scales.items()}


_TIMES = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
_SIZES = {"B": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    f"{letter}iB": float(1024**power) for power, letter in enumerate("KMGT", 1)
}
_WORK = {f"{letter}{word}": 1000.0**i for i, letter in enumerate(" kMGTP") for word in ("FLOP", "flop")}
_WORK = {label.strip(): scale for label, scale in _WORK.items()}

LITERALS: dict[str, Unit] = {
    **_scaled(MICROS, _TIMES),
    **_scaled(BYTES, _SIZES),
    **_scaled(FLOP, _WORK),
    **_scaled(BYTES, _SIZES, "/s"),
    **_scaled(FLOP, _WORK, "/s"),
    "FLOP/byte": Unit("FLOP/byte", (0, -1, 1)),
    "%": SHARE,
}
"""Units that may follow a number literal."""
_OF_TABLES = {COUNT: THINGS} | LITERALS


def unit_of(label: str) -> Unit:
    """The unit of a column or a measure; an unknown label counts things."""
    return _OF_TABLES.get(label, Unit(label, kind="count"))


def factor(unit: Unit, into: Unit) -> float:
    """The factor from one unit into another.

    Raises: Misfit where they are not of the same dimension.
    """
    if unit.kind == "bare" or into.kind == "bare":
        return 1.0
    if unit.powers != into.powers or {unit.kind, into.kind} == {"count", "share"}:
        raise Misfit(f"{unit.words} and {into.words}")
    return unit.scale / into.scale


def joint(a: Unit, b: Unit) -> Unit:
    """The unit in which numbers of two units are compared: that of the first, unless it is bare.

    Raises: Misfit where they are not of the same dimension.
    """
    factor(a, b)
    if a.kind == "bare" or (a.kind == "ratio" and b.kind == "share"):
        return b
    return a


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
    return _base(_sum(a.powers, b.powers), 1), a.scale * b.scale


def quotient(a: Unit, b: Unit) -> tuple[Unit, float]:
    """The unit of a quotient, and the factor for the quotient of the two numbers."""
    if b.kind == "bare":
        return a, 1.0
    if b.kind == "share":
        return (RATIO, 1.0) if a.kind == "share" else (RATIO if a.kind == "bare" else a, 1 / b.scale)
    if b.powers == PLAIN:
        return (RATIO, 1.0) if a.kind == "bare" or a.kind == b.kind == "count" else (a, 1.0)
    powers = _sum(a.powers, b.powers, -1)
    return _base(powers, 1), a.scale / b.scale


def _sum(a: Powers, b: Powers, sign: int = 1) -> Powers:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def _base(powers: Powers, scale: float) -> Unit:
    """The unit of given exponents: `bytes/us`."""
    if powers == PLAIN:
        return RATIO
    over = [_power(name, power) for name, power in zip(_BASES, powers, strict=True) if power > 0]
    under = [_power(name, -power) for name, power in zip(_BASES, powers, strict=True) if power < 0]
    return Unit("/".join([" ".join(over) or "1", *under]), powers, scale)


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


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


# An expression that is not understood, and the position of the error.

MAX_SUGGESTED_NAMES = 4
"""Maximum names suggested for one that does not exist."""
MAX_LISTED_NAMES = 24
"""Maximum names listed where none is similar."""
ALL_NAMES_HINT = "`tracetui check --names TRACE` lists all names."
NO_COMMAS_HINT = "A number has no comma in it: 3,874 is written 3874 or 3_874."
"""Hint for a number with a thousands separator."""
MAX_SHOWN_CHARACTERS = 76
"""Maximum characters of a long expression shown around the error."""


class Mistake(UsageError):
    """An expression that is not understood: a sentence, and the position in the text that it is about."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence)
        self.at = at
        """Characters before the error."""
        self.text = ""
        """The whole expression, once it is known."""
        self.source = ""
        """Where the expression is written, as `limits.txt, line 3`; empty for the command line."""
        self.others: tuple[Mistake, ...] = ()
        """Further mistakes, where several expressions were parsed."""

    @property
    def lines_below(self) -> tuple[str, ...]:
        """The expression, where it is known, and a caret under the position."""
        return tuple(f"  {line}" for line in pointed(self.text, self.at)) if self.text else ()


def together(mistakes: Sequence[Mistake]) -> Mistake:
    """The first of several mistakes, which holds the others."""
    first = mistakes[0]
    first.others = tuple(mistakes[1:])
    return first


def pointed(text: str, at: int) -> tuple[str, str]:
    """The expression, cut to one line where it is long, and a caret under the position."""
    first = max(0, min(at - MAX_SHOWN_CHARACTERS // 2, len(text) - MAX_SHOWN_CHARACTERS))
    shown = text[first : first + MAX_SHOWN_CHARACTERS]
    head, tail = "… " if first else "", " …" if first + MAX_SHOWN_CHARACTERS < len(text) else ""
    return f"{head}{shown}{tail}", " " * (len(head) + min(at, len(text)) - first) + "^"


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence that suggests the names most similar to one that does not exist, or what to do where none is."""
    names = list(dict.fromkeys(known))
    wanted = name.casefold()
    held = [each for each in names if wanted and wanted in each.casefold()]
    like = difflib.get_close_matches(name, names, MAX_SUGGESTED_NAMES, 0.6)
    suggestions = list(dict.fromkeys([*like, *sorted(held, key=len)]))[:MAX_SUGGESTED_NAMES]
    if suggestions:
        return f"Did you mean {' or '.join(suggestions)}?"
    if otherwise or len(names) > MAX_LISTED_NAMES:
        return otherwise or ALL_NAMES_HINT
    return f"There are {', '.join(names)}."


# The rows of a list as values: what conditions read columns from.


@dataclass(frozen=True, eq=False)
class Listing:
    """The rows of a list with named columns."""

    rows: Rows
    columns: Mapping[str, Column]
    _made: dict[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        """A column as values, the same object each time.

        Raises: KeyError for a column that does not exist.
        """
        if name not in self._made:
            self._made[name] = of_column(self.columns[name], self.rows)
        return self._made[name]
