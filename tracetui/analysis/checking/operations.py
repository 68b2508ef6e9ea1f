"""Operators of the language: arithmetic, comparisons, patterns of names, and `and`, `or` and `not`.

An unknown value stays unknown and keeps its reason. Numbers that agree in twelve digits are equal, since 0.3 ms and 300
us differ in the last bit. An unknown answer stays unknown unless the others decide: `and` needs a certain no, `or` a
certain yes. In a pattern `*` stands for any text and `?` for one character, case is ignored, and matching takes time
proportional to the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.checking.units import Misfit, Unit, factor, joint, product, quotient
from tracetui.analysis.checking.values import NO, UNKNOWN, YES, Number, Rows, Truth, Value, Words, first_of
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Float64


def matcher(pattern: str, whole: bool = False) -> Callable[[str], bool]:
    """Whether a name matches a pattern; one without `*` and `?` matches anywhere in it, unless `whole` is set."""
    wanted = pattern.casefold()
    if "*" not in wanted and "?" not in wanted:
        return (lambda name: name.casefold() == wanted) if whole else (lambda name: wanted in name.casefold())
    first, *others = ("".join("." if letter == "?" else re.escape(letter) for letter in p) for p in wanted.split("*"))
    # An atomic group is never entered again: the first place at which a part fits is as good as any later one.
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    tail = f".*{others[-1]}" if others else ""
    compiled = re.compile(f"{first}{middle}{tail}", re.DOTALL)
    return lambda name: compiled.fullmatch(name.casefold()) is not None


def both(answers: Sequence[Truth]) -> Truth:
    """Whether all answers are yes, row by row where they have rows.

    Raises: Misfit for rows of two lists.
    """
    return _joined(answers, NO)


def either(answers: Sequence[Truth]) -> Truth:
    """Whether one of the answers is yes, row by row where they have rows.

    Raises: Misfit for rows of two lists.
    """
    return _joined(answers, YES)


def opposite(answer: Truth) -> Truth:
    """The negated answer; unknown stays unknown."""
    values = np.where(answer.values == UNKNOWN, UNKNOWN, 1 - answer.values).astype(np.int8)
    return Truth(values, answer.rows, answer.why, undecided=answer.undecided)


def _joined(answers: Sequence[Truth], deciding: int) -> Truth:
    """`deciding` where one of the answers is that; else unknown where one is; else the other answer."""
    rows = rows_of(answers)
    values = np.broadcast_arrays(*(answer.values for answer in answers))
    decided = np.any([each == deciding for each in values], axis=0)
    unknown = np.any([each == UNKNOWN for each in values], axis=0)
    result = np.select([decided, unknown], [deciding, UNKNOWN], 1 - deciding).astype(np.int8)
    if rows is not None or int(result) != UNKNOWN:
        return Truth(result, rows)
    open_ones = [answer for answer in answers if answer.one == UNKNOWN]
    lacking = [answer for answer in open_ones if not answer.undecided]
    first = (lacking or open_ones)[0]
    return Truth(result, rows, first.why, undecided=not lacking)


EQUAL_TOLERANCE = 1e-12
"""Relative difference up to which two numbers are equal."""
TOO_LARGE = "The result is too large a number."
BY_ZERO = "What it is divided by is 0."


def rows_of(values: Sequence[Value]) -> Rows | None:
    """The list whose rows the values have; None where all are single.

    Raises: Misfit where they have rows of two lists.
    """
    lists = list(dict.fromkeys(value.rows for value in values if value.rows is not None))
    if len(lists) > 1:
        raise Misfit(f"the rows of {lists[0].name} and those of {lists[1].name}")
    return lists[0] if lists else None


def shared_unit(a: Number, b: Number) -> Unit:
    """The unit in which two numbers are compared or added: that of a name rather than of a literal.

    A bare number then takes the unit of the name. Raises: Misfit where no unit fits.
    """
    return joint(b.unit, a.unit) if a.fixed and not b.fixed else joint(a.unit, b.unit)


def added(a: Number, b: Number, sign: str) -> Number:
    """Sum or difference; `x + 10%` is a tenth more than x, unless x is itself a percentage.

    Raises: Misfit for numbers that cannot be added.
    """
    direction = 1 if sign == "+" else -1
    if b.unit.kind == "share" and a.unit.kind != "share":
        if a.unit.kind == "bare":
            raise Misfit("a number without a unit and a percentage of it")
        return _made(_product(a.values, 1 + direction * b.values * b.unit.scale), a.unit, (a, b))
    unit = shared_unit(a, b)
    with np.errstate(over="ignore"):
        total = a.values * factor(a.unit, unit) + direction * b.values * factor(b.unit, unit)
    return _made(total, unit, (a, b))


def multiplied(a: Number, b: Number) -> Number:
    """Product; a percentage multiplies as a share.

    Raises: Misfit for rows of two lists.
    """
    unit, scale = product(a.unit, b.unit)
    return _made(_product(_product(a.values, b.values), scale), unit, (a, b))


def divided(a: Number, b: Number) -> Number:
    """Quotient; unknown where the divisor is 0.

    Raises: Misfit for rows of two lists.
    """
    unit, scale = quotient(a.unit, b.unit)
    zero = b.values == 0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = np.where(zero, np.nan, a.values / np.where(zero, 1, b.values) * scale)
    return _made(result, unit, (a, b), BY_ZERO if b.rows is None and zero else TOO_LARGE)


def negative(a: Number) -> Number:
    """The number with the opposite sign."""
    return _made(-a.values, a.unit, (a,))


def compared(sign: str, a: Value, b: Value) -> Truth:
    """Whether a comparison of two values holds; `~` matches a pattern against a text.

    Raises: Misfit for values that cannot be compared.
    """
    rows = rows_of((a, b))
    if isinstance(a, Number) and isinstance(b, Number) and sign not in ("~", "!~"):
        holds, known = _numbers_compared(sign, a, b)
    elif isinstance(a, Words) and isinstance(b, Words) and sign in ("==", "!=", "~", "!~"):
        holds, known = _texts_compared(sign, a, b)
    else:
        raise Misfit(_why_not(sign, a, b))
    why = "" if known.all() else a.why or b.why
    return Truth(np.where(known, holds, UNKNOWN).astype(np.int8), rows, why)


def kind_of(value: Value) -> str:
    """The kind of a value, in words."""
    if isinstance(value, Number):
        return value.unit.words
    return "a text" if isinstance(value, Words) else "a condition"


def _why_not(sign: str, a: Value, b: Value) -> str:
    both = f"{kind_of(a)} and {kind_of(b)}"
    if sign in ("~", "!~"):
        return f"{both} with {sign}, which looks for a pattern in a text,"
    if isinstance(a, Words) and isinstance(b, Words):
        return f"{both} with {sign}, but with ==, !=, ~ and !~,"
    if isinstance(a, Truth) or isinstance(b, Truth):
        return f"{both}, which is true or false by itself,"
    return both


def _product(a: Float64, b: Float64 | float) -> Float64:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(a * b, np.float64)


def _made(values: Float64, unit: Unit, parts: Sequence[Number], otherwise: str = TOO_LARGE) -> Number:
    """A number computed from others, unknown where it is not finite."""
    rows = rows_of(parts)
    finite = np.isfinite(values)
    why = next((part.why for part in parts if part.why), otherwise if rows is None and not finite else "")
    fixed, offenders = all(part.fixed for part in parts), first_of([part.offenders for part in parts])
    return Number(np.where(finite, values, np.nan), unit, rows, why, None, fixed, offenders)


def _numbers_compared(sign: str, a: Number, b: Number) -> tuple[Bool, Bool]:
    unit = shared_unit(a, b)
    left, right = _product(a.values, factor(a.unit, unit)), _product(b.values, factor(b.unit, unit))
    with np.errstate(invalid="ignore"):
        same = np.abs(left - right) <= EQUAL_TOLERANCE * np.maximum(np.abs(left), np.abs(right))
        less = (left < right) & ~same
    more = ~same & ~less
    holds = {"==": same, "!=": ~same, "<": less, "<=": less | same, ">": more, ">=": more | same}[sign]
    return np.asarray(holds), np.asarray(~np.isnan(left) & ~np.isnan(right))


def _texts_compared(sign: str, a: Words, b: Words) -> tuple[Bool, Bool]:
    known = np.asarray((a.ids >= 0) & (b.ids >= 0))
    if sign in ("==", "!="):
        common = Strings()
        same = _recoded(a, common) == _recoded(b, common)
        return np.asarray(same if sign == "==" else ~same), known
    if b.rows is not None:
        raise Misfit("a text and the texts of a list with ~, which takes one pattern,")
    fits = np.zeros(a.ids.shape, bool)
    if b.ids >= 0:
        like = matcher(b.one)
        used, index = np.unique(a.ids, return_inverse=True)
        hits = np.array([number >= 0 and like(a.strings[number]) for number in used.tolist()], bool)
        fits = hits[index.reshape(a.ids.shape)]
    return np.asarray(fits if sign == "~" else ~fits), known


def _recoded(value: Words, common: Strings) -> Int64:
    """Ids in a common list of texts; each distinct text is looked up once."""
    used, index = np.unique(value.ids, return_inverse=True)
    ids = [common.intern(value.strings[number]) if number >= 0 else -1 for number in used.tolist()]
    recoded: NDArray[np.int64] = np.array(ids, np.int64)[index.reshape(value.ids.shape)]
    return recoded
