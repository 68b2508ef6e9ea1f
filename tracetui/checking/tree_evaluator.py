"""From the tree of an expression to its value, by walking the tree; what the names stand for is left to a subclass.

Operators of the language: arithmetic, comparisons, patterns of names, and `and`, `or` and `not`.

What is computed from a count of the steps is computed in each of them, and what is asserted of it must hold in every
step. An unknown value stays unknown and keeps its reason. Numbers that agree in twelve digits are equal, since 0.3 ms
and 300 us differ in the last bit. An unknown answer stays unknown unless the others decide: `and` needs a certain no,
`or` a certain yes. In a pattern `*` stands for any text and `?` for one character, case is ignored, and matching takes
time proportional to the name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracetui.checking.parser import Path, bare_words, chain, path_of, sign_of, written
from tracetui.checking.values import (
    ANSWER,
    BARE,
    LITERALS,
    NO,
    NO_OFFENDERS,
    TEXT,
    UNKNOWN,
    YES,
    ExpressionError,
    Offender,
    Offenders,
    Rows,
    Unit,
    UnitError,
    Value,
    factor,
    in_every,
    joint,
    of_parts,
    product,
    quotient,
    text_value,
)
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Strings
from tracetui.model.trace import Float64

EQUAL_TOLERANCE = 1e-12
"""Relative difference up to which two numbers are equal."""
TOO_LARGE = "The result is too large a number."
BY_ZERO = "What it is divided by is 0."
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The same comparison with its sides exchanged."""
_OF_PRESENCE = ("==", "!=", "<=", ">")
"""Comparisons with 0 that ask whether there is something at all."""


def matcher(pattern: str, whole: bool = False) -> Callable[[str], bool]:
    """A function that is true of names that match a pattern.

    A pattern without `*` and `?` matches anywhere in a name, unless `whole` is set.
    """
    wanted = pattern.casefold()
    if "*" not in wanted and "?" not in wanted:
        return (lambda name: name.casefold() == wanted) if whole else (lambda name: wanted in name.casefold())
    first, *others = ("".join("." if letter == "?" else re.escape(letter) for letter in p) for p in wanted.split("*"))
    # An atomic group is never entered again: the first place at which a part fits is as good as any later one.
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    tail = f".*{others[-1]}" if others else ""
    compiled = re.compile(f"{first}{middle}{tail}", re.DOTALL)
    return lambda name: compiled.fullmatch(name.casefold()) is not None


def rows_of(values: Sequence[Value]) -> Rows | None:
    """The list whose rows the values have; None where all are single.

    Raises: UnitError where they have rows of two lists.
    """
    lists = list(dict.fromkeys(value.rows for value in values if value.rows is not None))
    if len(lists) > 1:
        raise UnitError(f"the rows of {lists[0].name} and those of {lists[1].name}")
    return lists[0] if lists else None


def both(answers: Sequence[Value]) -> Value:
    """Yes where all answers are yes, row by row where they have rows.

    Raises: UnitError for rows of two lists.
    """
    return _joined(answers, NO)


def either(answers: Sequence[Value]) -> Value:
    """Yes where one of the answers is yes, row by row where they have rows.

    Raises: UnitError for rows of two lists.
    """
    return _joined(answers, YES)


def _joined(answers: Sequence[Value], deciding: int) -> Value:
    """`deciding` where one of the answers is that; else unknown where one is; else the other answer."""
    rows = rows_of(answers)
    parts = next((answer.parts for answer in answers if answer.parts is not None), None) if rows is None else None
    values = np.broadcast_arrays(*(answer.values if parts is None else answer.by_part for answer in answers))
    decided = np.any([each == deciding for each in values], axis=0)
    unknown = np.any([each == UNKNOWN for each in values], axis=0)
    result = np.select([decided, unknown], [deciding, UNKNOWN], 1 - deciding).astype(np.int8)
    joined = Value(result, ANSWER, rows) if parts is None else in_every(result, parts)
    if rows is not None or joined.one != UNKNOWN:
        return joined
    unknown_ones = [answer for answer in answers if (answer.by_part == UNKNOWN).any()]
    missing = [answer for answer in unknown_ones if not answer.undecided]
    return replace(joined, why=(missing or unknown_ones)[0].why, undecided=not missing)


def opposite(answer: Value) -> Value:
    """The negated answer; unknown stays unknown. Of a count it is negated in each step, and must hold in every one."""
    negated = np.where(answer.by_part == UNKNOWN, UNKNOWN, 1 - answer.by_part).astype(np.int8)
    if answer.each is not None:
        return replace(in_every(negated, answer.parts, answer.why), undecided=answer.undecided)
    return Value(negated, ANSWER, answer.rows, answer.why, undecided=answer.undecided)


def shared_unit(a: Value, b: Value) -> Unit:
    """The unit in which two numbers are compared or added: that of a name rather than of a literal.

    A bare number then takes the unit of the name. Raises: UnitError where no unit fits.
    """
    return joint(b.unit, a.unit) if a.fixed and not b.fixed else joint(a.unit, b.unit)


def added(a: Value, b: Value, sign: str) -> Value:
    """Sum or difference; `x + 10%` is a tenth more than x, unless x is itself a percentage.

    Raises: UnitError for numbers that cannot be added.
    """
    direction = 1 if sign == "+" else -1
    if b.unit.kind == "share" and a.unit.kind != "share":
        if a.unit.kind == "bare":
            raise UnitError("a number without a unit and a percentage of it")
        scale = b.unit.scale
        return _computed(lambda x, y: _product(x, 1 + direction * y * scale), a.unit, (a, b))
    unit = shared_unit(a, b)
    left, right = factor(a.unit, unit), direction * factor(b.unit, unit)
    return _computed(lambda x, y: x * left + y * right, unit, (a, b))


def multiplied(a: Value, b: Value) -> Value:
    """Product; a percentage multiplies as a share.

    Raises: UnitError for rows of two lists.
    """
    unit, scale = product(a.unit, b.unit)
    return _computed(lambda x, y: _product(_product(x, y), scale), unit, (a, b))


def divided(a: Value, b: Value) -> Value:
    """Quotient; unknown where the divisor is 0.

    Raises: UnitError for rows of two lists.
    """
    unit, scale = quotient(a.unit, b.unit)
    by_zero = b.rows is None and bool((b.by_part == 0).any())

    def ratio(x: Float64, y: Float64) -> Float64:
        return np.where(y == 0, np.nan, x / np.where(y == 0, 1, y) * scale)

    return _computed(ratio, unit, (a, b), BY_ZERO if by_zero else TOO_LARGE)


def _product(a: Float64, b: Float64 | float) -> Float64:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(a * b, np.float64)


def _computed(
    compute: Callable[..., Float64], unit: Unit, operands: Sequence[Value], otherwise: str = TOO_LARGE
) -> Value:
    """A number computed from others, unknown where it is not finite; from counts in each part."""
    rows = rows_of(operands)
    parts = next((each.parts for each in operands if each.parts is not None), None) if rows is None else None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        arrays = (each.values if parts is None else each.by_part for each in operands)
        values = np.asarray(compute(*arrays), np.float64)
    finite = np.isfinite(values)
    values = np.where(finite, values, np.nan)
    why = next((each.why for each in operands if each.why), otherwise if rows is None and not finite.all() else "")
    if parts is not None:
        return of_parts(values, unit, parts, why)
    offenders = first_offenders([each.offenders for each in operands])
    return Value(values, unit, rows, why, all(each.fixed for each in operands), offenders=offenders)


def first_offenders(values: Sequence[Offenders]) -> Offenders:
    """The rows of the first value that has any."""
    return next((each for each in values if each.first), NO_OFFENDERS)


def nearest_part(value: Value) -> Offender | None:
    """The step or run whose number is nearest to the single one; None for what is not known of each."""
    of_each = value if value.each is not None else value.presence
    if of_each is None or of_each.each is None or of_each.parts is None or not (value.is_number and value.known.all()):
        return None
    apart = np.abs(of_each.each - value.one)
    return None if np.isnan(apart).all() else of_each.parts.offenders(np.array([np.nanargmin(apart)])).first[0]


def compared(sign: str, a: Value, b: Value) -> Value:
    """The answer of a comparison of two values; `~` matches a pattern against a text.

    Raises: UnitError for values that cannot be compared.
    """
    rows = rows_of((a, b))
    if a.is_number and b.is_number and sign not in ("~", "!~"):
        a, b = _as_present(sign, a, b), _as_present(MIRRORED[sign], b, a)
        if a.parts is not None or b.parts is not None:
            return _counts_compared(sign, a, b, rows)
        holds, known = _numbers_compared(sign, a, b, a.values, b.values)
    elif a.unit == b.unit == TEXT and sign in ("==", "!=", "~", "!~"):
        holds, known = _texts_compared(sign, a, b)
    else:
        both_kinds = f"{a.unit.words} and {b.unit.words}"
        if sign in ("~", "!~"):
            both_kinds += f" with {sign}, which looks for a pattern in a text,"
        elif a.unit == b.unit == TEXT:
            both_kinds += f" with {sign}, but with ==, !=, ~ and !~,"
        elif ANSWER in (a.unit, b.unit):
            both_kinds += ", which is true or false by itself,"
        raise UnitError(both_kinds)
    why = "" if known.all() else a.why or b.why
    return Value(np.where(known, holds, UNKNOWN).astype(np.int8), ANSWER, rows, why)


def _numbers_compared(sign: str, a: Value, b: Value, left: Float64, right: Float64) -> tuple[Bool, Bool]:
    """Masks of where the comparison holds, and of where both numbers are known."""
    unit = shared_unit(a, b)
    left, right = _product(left, factor(a.unit, unit)), _product(right, factor(b.unit, unit))
    with np.errstate(invalid="ignore"):
        same = np.abs(left - right) <= EQUAL_TOLERANCE * np.maximum(np.abs(left), np.abs(right))
        less = (left < right) & ~same
    more = ~same & ~less
    holds = {"==": same, "!=": ~same, "<": less, "<=": less | same, ">": more, ">=": more | same}[sign]
    return np.asarray(holds), np.asarray(~np.isnan(left) & ~np.isnan(right))


def _counts_compared(sign: str, a: Value, b: Value, rows: Rows | None) -> Value:
    """A comparison with a count, which must hold in every part; of a list it has an answer for each row."""
    left, right = (value.by_part if rows is None or value.rows is None else value.values[:, None] for value in (a, b))
    holds, known = _numbers_compared(sign, a, b, left, right)
    answer = np.where(known, holds, UNKNOWN).astype(np.int8)
    why = "" if known.all() else a.why or b.why
    if rows is None:
        return in_every(answer, a.parts or b.parts, why)
    by_row = np.where((answer == NO).any(axis=1), NO, np.where((answer == UNKNOWN).any(axis=1), UNKNOWN, YES))
    return Value(by_row.astype(np.int8), ANSWER, rows, why)


def _as_present(sign: str, value: Value, other: Value) -> Value:
    """The values of every step of a time where it is asked whether there is any."""
    is_zero = other.is_number and other.fixed and other.rows is None and other.one == 0
    return value.presence if value.presence is not None and is_zero and sign in _OF_PRESENCE else value


def deciding_value(value: Value, sign: str, answer: Value, wanted: Value) -> tuple[Value, Offenders]:
    """The value of a count that decides a comparison with it, as a single number, and the parts that have it.

    It is the one farthest from what is wanted in the parts in which the comparison fails, or in all where none does.
    Parts are named where it fails and not all of them have the value.
    """
    value = _as_present(sign, value, wanted)
    if value.each is None or value.parts is None or answer.each is None or not value.is_number:
        return value, NO_OFFENDERS
    failing = answer.each == NO
    among = np.flatnonzero((failing if failing.any() else True) & ~np.isnan(value.each))
    if len(among) == 0:
        return value, NO_OFFENDERS
    values = value.each[among]
    if sign in (">", ">="):
        one = float(values.min())
    elif sign in ("==", "!=") and wanted.is_number and wanted.each is None:
        one = float(values[np.argmax(np.abs(values - wanted.values * factor(wanted.unit, value.unit)))])
    else:
        one = float(values.max())
    guilty = among[values == one]
    is_named = failing.any() and len(guilty) < len(value.each)
    single = replace(value, values=np.array(one), each=None, parts=None)
    return single, value.parts.offenders(guilty) if is_named else NO_OFFENDERS


def _texts_compared(sign: str, a: Value, b: Value) -> tuple[Bool, Bool]:
    """Masks of where the comparison holds, and of where both texts are known."""
    known = a.known & b.known
    if sign in ("==", "!="):
        common = Strings()
        holds = _recoded(a, common) == _recoded(b, common)
    elif b.rows is not None:
        raise UnitError("a text and the texts of a list with ~, which takes one pattern,")
    else:
        holds = np.zeros(a.values.shape, bool)
        if b.known:
            matches = matcher(b.text)
            ids, index = np.unique(a.values, return_inverse=True)
            matching = np.array([number >= 0 and matches(a.strings[number]) for number in ids.tolist()], bool)
            holds = matching[index.reshape(a.values.shape)]
    return np.asarray(~holds if sign in ("!=", "!~") else holds), known


def _recoded(value: Value, common: Strings) -> NDArray[np.int64]:
    """Ids in a common list of texts; each distinct text is looked up once."""
    used, index = np.unique(value.values, return_inverse=True)
    ids: Int64 = np.array([common.intern(value.strings[each]) if each >= 0 else -1 for each in used.tolist()], np.int64)
    return ids[index.reshape(value.values.shape)]


class TreeEvaluator:
    """Evaluates what is the same in every expression: literals, operators and comparisons."""

    def path_value(self, path: Path, row: Rows | None) -> Value:
        """The value of a name or a call.

        Raises: ExpressionError for a name that does not exist.
        """
        raise NotImplementedError

    def value(self, node: ast.expr, row: Rows | None = None) -> Value:
        """The value of an expression; `row` is the list whose columns the names stand for.

        Raises: ExpressionError for names that do not exist and for values that do not fit together.
        """
        match node:
            case ast.Constant(value=float(literal)):
                return Value(np.array(literal), LITERALS[node.kind] if node.kind else BARE, fixed=True)
            case ast.Constant():
                return text_value(str(node.value), fixed=True)
            case ast.UnaryOp(op=ast.Not()):
                return opposite(self.condition(node.operand, row, "not"))
            case ast.UnaryOp():
                value = self.number(node.operand, row, sign_of(node.op))
                return _computed(np.negative, value.unit, (value,)) if isinstance(node.op, ast.USub) else value
            case ast.Compare():
                return self.compared(node, row)[0]
            case ast.BoolOp():
                answers = [self.condition(each, row, sign_of(node.op)) for each in node.values]
                with placed(node.col_offset, "cannot be joined"):
                    return either(answers) if isinstance(node.op, ast.Or) else both(answers)
            case ast.BinOp():
                return self._computed(node, row)
        return self.path_value(path_of(node), row)

    def _computed(self, node: ast.BinOp, row: Rows | None) -> Value:
        """A sum or a product, from the left."""
        operands, signs = chain(node)
        value = self.number(operands[0], row, signs[0])
        for sign, operand in zip(signs, operands[1:], strict=True):
            other = self.number(operand, row, sign)
            with placed(operand.col_offset, "cannot be added" if sign in "+-" else "cannot be multiplied"):
                if sign in "+-":
                    value = added(value, other, sign)
                else:
                    value = (multiplied if sign == "*" else divided)(value, other)
        return value

    def compared(self, node: ast.Compare, row: Rows | None = None) -> tuple[Value, list[Value]]:
        """The answer of a chain of comparisons, and the values in it.

        Raises: ExpressionError for values that cannot be compared.
        """
        values = self.compared_values(node, row)
        answers = []
        for (left, right), operator, operand in zip(pairwise(values), node.ops, node.comparators, strict=True):
            with placed(operand.col_offset, "cannot be compared"):
                answers.append(compared(sign_of(operator), left, right))
        with placed(node.col_offset, "cannot be compared"):
            return both(answers), values

    def compared_values(self, node: ast.Compare, row: Rows | None) -> list[Value]:
        """The compared values; a word that is no name beside a text is reported as a text without quotes."""
        operands = chain(node)[0]
        values: list[Value] = []
        errors: dict[int, ExpressionError] = {}
        for index, each in enumerate(operands):
            try:
                values.append(self.value(each, row))
            except ExpressionError as error:
                errors[index] = error
        if any(value.unit == TEXT for value in values):
            for index in errors:
                if word := bare_words(operands[index]):
                    at = operands[index].col_offset
                    raise ExpressionError(f'{word} is no name; a text stands in quotes: "{word}".', at) from None
        for first in errors.values():
            raise first
        return values

    def number(self, node: ast.expr, row: Rows | None, taker: str) -> Value:
        """The value of a number for an operator or function that takes nothing else.

        Raises: ExpressionError for another value.
        """
        value = self.value(node, row)
        if value.is_number:
            return value
        raise ExpressionError(f"{taker} takes a number, and {written(node)} is {value.unit.words}.", node.col_offset)

    def condition(self, node: ast.expr, row: Rows | None, taker: str) -> Value:
        """The answer of a condition for an operator or function that takes nothing else.

        Raises: ExpressionError for another value.
        """
        value = self.value(node, row)
        if value.unit == ANSWER:
            return value
        sentence = f"{taker} takes a condition, such as a comparison, and {written(node)} is {value.unit.words}."
        raise ExpressionError(sentence, node.col_offset)


@contextmanager
def placed(at: int, verdict: str, before: str = "") -> Iterator[None]:
    """Turns a `UnitError` into an `ExpressionError` at a position of the expression."""
    try:
        yield
    except UnitError as error:
        sentence = f"{error} {verdict}."
        raise ExpressionError(f"{before}{sentence if before else sentence[:1].upper() + sentence[1:]}", at) from None
