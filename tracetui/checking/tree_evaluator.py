"""From the tree of an expression to its value, by walking the tree; what the names stand for is left to a subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

import numpy as np

from tracetui.checking.listing import Listing
from tracetui.checking.mistake import Mistake
from tracetui.checking.operations import added, both, compared, divided, either, kind_of, multiplied, negative, opposite
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
from tracetui.checking.units import BARE, LITERALS, Misfit
from tracetui.checking.values import Number, Truth, Value, Words

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
