"""From the tree of an expression to its value, by walking the tree; what the names stand for is left to a subclass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tracetui.checking.parser import (
    COMPARISON,
    OR,
    PRODUCT,
    SUM,
    Chain,
    Figure,
    Node,
    Path,
    Prefixed,
    Quoted,
    bare_words,
    written,
)
from tracetui.checking.values import (
    BARE,
    LITERALS,
    NO,
    NOBODY,
    UNKNOWN,
    YES,
    Listing,
    Misfit,
    Mistake,
    Number,
    Offenders,
    Rows,
    Truth,
    Unit,
    Value,
    Words,
    factor,
    first_of,
    in_every,
    joint,
    of_parts,
    product,
    quotient,
)
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Strings
from tracetui.model.trace import Float64

# Operators of the language: arithmetic, comparisons, patterns of names, and `and`, `or` and `not`.
#
# A count of the steps has a value in each of them: what is computed from it is computed step by step, and what is said
# of it must hold in every step. An unknown value stays unknown and keeps its reason. Numbers that agree in twelve
# digits are equal, since 0.3 ms and 300 us differ in the last bit. An unknown answer stays unknown unless the others
# decide: `and` needs a certain no, `or` a certain yes. In a pattern `*` stands for any text and `?` for one character,
# case is ignored, and matching takes time proportional to the name.


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
    """The negated answer; unknown stays unknown. Of a count it is negated in each step, and must hold in every one."""
    if answer.each is not None:
        negated = in_every(_negated(answer.each), answer.parts, answer.why)
        return replace(negated, undecided=answer.undecided)
    return Truth(_negated(answer.values), answer.rows, answer.why, undecided=answer.undecided)


def _negated(values: NDArray[np.int8]) -> NDArray[np.int8]:
    return np.where(values == UNKNOWN, UNKNOWN, 1 - values).astype(np.int8)


def _joined(answers: Sequence[Truth], deciding: int) -> Truth:
    """`deciding` where one of the answers is that; else unknown where one is; else the other answer."""
    rows = rows_of(answers)
    parts = next((answer.parts for answer in answers if answer.parts is not None), None) if rows is None else None
    values = np.broadcast_arrays(*(answer.values if parts is None else _each_of(answer) for answer in answers))
    decided = np.any([each == deciding for each in values], axis=0)
    unknown = np.any([each == UNKNOWN for each in values], axis=0)
    result = np.select([decided, unknown], [deciding, UNKNOWN], 1 - deciding).astype(np.int8)
    joined = Truth(result, rows) if parts is None else in_every(result, parts)
    if rows is not None or joined.one != UNKNOWN:
        return joined
    open_ones = [answer for answer in answers if (_each_of(answer) == UNKNOWN).any()]
    lacking = [answer for answer in open_ones if not answer.undecided]
    first = (lacking or open_ones)[0]
    return replace(joined, why=first.why, undecided=not lacking)


def _each_of(answer: Truth) -> NDArray[np.int8]:
    return answer.values if answer.each is None else answer.each


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
        scale = b.unit.scale
        return _made(lambda x, y: _product(x, 1 + direction * y * scale), a.unit, (a, b))
    unit = shared_unit(a, b)
    left, right = factor(a.unit, unit), direction * factor(b.unit, unit)
    return _made(lambda x, y: x * left + y * right, unit, (a, b))


def multiplied(a: Number, b: Number) -> Number:
    """Product; a percentage multiplies as a share.

    Raises: Misfit for rows of two lists.
    """
    unit, scale = product(a.unit, b.unit)
    return _made(lambda x, y: _product(_product(x, y), scale), unit, (a, b))


def divided(a: Number, b: Number) -> Number:
    """Quotient; unknown where the divisor is 0.

    Raises: Misfit for rows of two lists.
    """
    unit, scale = quotient(a.unit, b.unit)
    divisor = b.values if b.each is None else b.each
    by_zero = b.rows is None and bool((divisor == 0).any())

    def ratio(x: Float64, y: Float64) -> Float64:
        return np.where(y == 0, np.nan, x / np.where(y == 0, 1, y) * scale)

    return _made(ratio, unit, (a, b), BY_ZERO if by_zero else TOO_LARGE)


def negative(a: Number) -> Number:
    """The number with the opposite sign."""
    return _made(np.negative, a.unit, (a,))


def compared(sign: str, a: Value, b: Value) -> Truth:
    """Whether a comparison of two values holds; `~` matches a pattern against a text.

    Raises: Misfit for values that cannot be compared.
    """
    rows = rows_of((a, b))
    if isinstance(a, Number) and isinstance(b, Number):
        a, b = _as_present(sign, a, b), _as_present(_MIRRORED.get(sign, sign), b, a)
    if isinstance(a, Number) and isinstance(b, Number) and sign not in ("~", "!~"):
        if a.parts is not None or b.parts is not None:
            return _counts_compared(sign, a, b, rows)
        holds, known = _numbers_compared(sign, a, b, a.values, b.values)
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


def _made(
    compute: Callable[..., Float64], unit: Unit, operands: Sequence[Number], otherwise: str = TOO_LARGE
) -> Number:
    """A number computed from others, unknown where it is not finite; from counts in each part."""
    rows = rows_of(operands)
    parts = next((each.parts for each in operands if each.parts is not None), None) if rows is None else None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        given = (each.each if parts is not None and each.each is not None else each.values for each in operands)
        values = np.asarray(compute(*given), np.float64)
    finite = np.isfinite(values)
    values = np.where(finite, values, np.nan)
    why = next((each.why for each in operands if each.why), otherwise if rows is None and not finite.all() else "")
    if parts is not None:
        return of_parts(values, unit, parts, why)
    fixed, offenders = all(each.fixed for each in operands), first_of([each.offenders for each in operands])
    return Number(values, unit, rows, why, None, fixed, offenders)


def _counts_compared(sign: str, a: Number, b: Number, rows: Rows | None) -> Truth:
    """A comparison with a count, which must hold in every part; of a list it has an answer for each row."""
    left, right = (value.values if value.each is None else value.each for value in (a, b))
    if rows is not None:
        left, right = (value.values[:, None] if value.rows else each for value, each in ((a, left), (b, right)))
    holds, known = _numbers_compared(sign, a, b, left, right)
    answer = np.where(known, holds, UNKNOWN).astype(np.int8)
    why = "" if known.all() else a.why or b.why
    if rows is None:
        return in_every(answer, a.parts or b.parts, why)
    by_row = np.where((answer == NO).any(axis=1), NO, np.where((answer == UNKNOWN).any(axis=1), UNKNOWN, YES))
    return Truth(by_row.astype(np.int8), rows, why)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OF_PRESENCE = ("==", "!=", "<=", ">")
"""Comparisons with 0 that ask whether there is something at all."""


def _as_present(sign: str, value: Number, other: Number) -> Number:
    """The values of every step of a time where it is asked whether there is any."""
    is_zero = other.fixed and other.rows is None and other.one == 0
    return value.presence if value.presence is not None and is_zero and sign in _OF_PRESENCE else value


def telling(value: Value, sign: str, answer: Truth, wanted: Value) -> tuple[Value, Offenders]:
    """The value of a count that tells most about a comparison with it, as a single number, and the parts that have it.

    It is the one farthest from what is wanted in the parts in which the comparison fails, or in all where none does.
    Parts are named where it fails and not all of them have the value.
    """
    if isinstance(value, Number) and isinstance(wanted, Number) and value.presence is not None:
        value = _as_present(sign, value, wanted)
    if not isinstance(value, Number) or value.each is None or value.parts is None or answer.each is None:
        return value, NOBODY
    failing = answer.each == NO
    among = np.flatnonzero((failing if failing.any() else True) & ~np.isnan(value.each))
    if len(among) == 0:
        return value, NOBODY
    values = value.each[among]
    if sign in (">", ">="):
        one = float(values.min())
    elif sign in ("==", "!=") and isinstance(wanted, Number) and wanted.each is None:
        one = float(values[np.argmax(np.abs(values - wanted.values * factor(wanted.unit, value.unit)))])
    else:
        one = float(values.max())
    shown = replace(value, values=np.array(one), each=None, parts=None)
    guilty = among[values == one]
    is_named = failing.any() and len(guilty) < len(value.each)
    return shown, value.parts.named(guilty) if is_named else NOBODY


def _numbers_compared(sign: str, a: Number, b: Number, left: Float64, right: Float64) -> tuple[Bool, Bool]:
    unit = shared_unit(a, b)
    left, right = _product(left, factor(a.unit, unit)), _product(right, factor(b.unit, unit))
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


Given = TypeVar("Given", Number, Words, Truth)
_NAMES = {Number: "a number", Words: "a text", Truth: "a condition, such as a comparison"}
_OPERATORS: dict[str, Callable[[Number, Number], Number]] = {"*": multiplied, "/": divided}


class TreeEvaluator:
    """Evaluates what is the same in every expression: literals, operators and comparisons."""

    def path_value(self, path: Path, row: Listing | None) -> Value:
        """The value of a name or a call.

        Raises: Mistake for a name that does not exist.
        """
        raise NotImplementedError

    def value(self, node: Node, row: Listing | None = None) -> Value:
        """The value of an expression; `row` is the list whose columns the names stand for.

        Raises: Mistake for names that do not exist and for values that do not fit together.
        """
        match node:
            case Figure():
                unit = LITERALS[node.unit] if node.unit else BARE
                return Number(np.array(node.value), unit, fixed=True)
            case Quoted():
                return Words(np.array(0, np.int64), (node.text,), fixed=True)
            case Path():
                return self.path_value(node, row)
            case Prefixed(sign="not"):
                return opposite(self.given(Truth, node.operand, row, "not"))
            case Prefixed():
                value = self.given(Number, node.operand, row, node.sign)
                return negative(value) if node.sign == "-" else value
            case Chain():
                return self._row(node, row)

    def compared(self, node: Chain, row: Listing | None = None) -> tuple[Truth, list[Value]]:
        """Whether a chain of comparisons holds, and the values in it.

        Raises: Mistake for values that cannot be compared.
        """
        values = self.compared_values(node, row)
        links = []
        for (left, right), (sign, operand) in zip(pairwise(values), node.rest, strict=True):
            with placed(operand.at, "cannot be compared"):
                links.append(compared(sign, left, right))
        with placed(node.at, "cannot be compared"):
            return both(links), values

    def compared_values(self, node: Chain, row: Listing | None) -> list[Value]:
        """The compared values; a word that is no name beside a text is reported as a text without quotes."""
        values: list[Value | Mistake] = []
        for each in node.operands:
            try:
                values.append(self.value(each, row))
            except Mistake as mistake:
                values.append(mistake)
        for index, (each, value) in enumerate(zip(node.operands, list(values), strict=True)):
            word = bare_words(each)
            if isinstance(value, Mistake) and word and any(isinstance(other, Words) for other in values):
                values[index] = self.unquoted(word, each.at)
        for value in values:
            if isinstance(value, Mistake):
                raise value
        return [value for value in values if not isinstance(value, Mistake)]

    def unquoted(self, word: str, at: int) -> Value:
        """The value of a word that is no name and is compared with a text.

        Raises: Mistake where texts stand in quotes.
        """
        raise Mistake(f'{word} is no name; a text stands in quotes: "{word}".', at)

    def _row(self, node: Chain, row: Listing | None) -> Value:
        if node.level == COMPARISON:
            return self.compared(node, row)[0]
        if node.level < COMPARISON:
            answers = [self.given(Truth, each, row, node.rest[0][0]) for each in node.operands]
            with placed(node.at, "cannot be joined"):
                return either(answers) if node.level == OR else both(answers)
        value = self.given(Number, node.first, row, node.rest[0][0])
        for sign, operand in node.rest:
            other = self.given(Number, operand, row, sign)
            with placed(operand.at, "cannot be added" if node.level == SUM else "cannot be multiplied"):
                value = _OPERATORS[sign](value, other) if node.level == PRODUCT else added(value, other, sign)
        return value

    def given(self, kind: type[Given], node: Node, row: Listing | None, taker: str) -> Given:
        """The value of an argument that must be of a kind, for an operator or function that takes no other."""
        value = self.value(node, row)
        if not isinstance(value, kind):
            raise Mistake(f"{taker} takes {_NAMES[kind]}, and {written(node)} is {kind_of(value)}.", node.at)
        return value


@contextmanager
def placed(at: int, verdict: str, before: str = "") -> Iterator[None]:
    """Turns a `Misfit` into a `Mistake` at a position of the expression."""
    try:
        yield
    except Misfit as misfit:
        said = f"{misfit} {verdict}."
        raise Mistake(f"{before}{said if before else said[:1].upper() + said[1:]}", at) from None
