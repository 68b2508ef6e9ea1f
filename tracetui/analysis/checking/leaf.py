"""One comparison or answer of an assertion, with what was found and what was wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracetui.analysis.checking.arithmetic import shared_unit
from tracetui.analysis.checking.offenders import NOBODY, Offenders, first_of
from tracetui.analysis.checking.units import factor
from tracetui.analysis.checking.values import NO, YES, Amount, Number, Piece, Truth, Value, Words

MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The same comparison read from right to left."""

_OPPOSITES: dict[tuple[Piece, ...], tuple[Piece, ...]] = {
    ("yes",): ("no",),
    ("at least one",): ("none",),
    ("all",): ("not all",),
}
"""What a `not` makes of what was wanted."""


@dataclass(frozen=True)
class Leaf:
    """A part of an assertion that is true or false by itself."""

    text: str
    answer: int
    """YES, NO or UNKNOWN."""
    found: tuple[Piece, ...] = ()
    """Empty where nothing was found."""
    wanted: tuple[Piece, ...] = ()
    offenders: Offenders = NOBODY
    """The rows of a list that decided."""

    @property
    def blamed(self) -> Offenders:
        """The rows for which it does not hold; none where it does."""
        return self.offenders if self.answer == NO else NOBODY


def of_answer(text: str, answer: Truth) -> Leaf:
    """An answer of a function, or of a condition that is a value by itself."""
    found = answer.found or ("yes" if answer.one == YES else "no",)
    shown = found if answer.one >= 0 or answer.found else ()
    return Leaf(text, answer.one, shown, answer.wanted or ("yes",), answer.offenders)


def of_chain(text: str, answer: Truth, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    """A comparison, told of the value that the trace decides; of several each is told."""
    return replace(_of_values(text, answer, values, signs), offenders=_offenders(values))


def _of_values(text: str, answer: Truth, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    open_ones = [place for place, value in enumerate(values) if isinstance(value, Truth) or not value.fixed]
    if len(values) == 2:
        flip = open_ones == [1] and signs[0] in MIRRORED
        a, b, sign = (values[1], values[0], MIRRORED[signs[0]]) if flip else (values[0], values[1], signs[0])
        found, wanted = _beside(a, b)
        return Leaf(text, answer.one, found, (sign, *wanted) if wanted else ())
    if len(values) == 3 and open_ones == [1] and signs[0] in MIRRORED:
        found, low = _beside(values[1], values[0])
        _, high = _beside(values[1], values[2])
        return Leaf(text, answer.one, found, (MIRRORED[signs[0]], *low, "and", signs[1], *high))
    every = [piece for value in values for piece in (_shown(value)[0] if _shown(value) else "–", ",")][:-1]
    return Leaf(text, answer.one, tuple(every), (" ".join(signs),))


def negated(leaf: Leaf) -> Leaf:
    """The same behind a `not`."""
    answer = leaf.answer if leaf.answer < 0 else 1 - leaf.answer
    opposite = _OPPOSITES.get(leaf.wanted, ("not", *leaf.wanted))
    return replace(leaf, text=f"not {leaf.text}", answer=answer, wanted=opposite)


def _offenders(values: Sequence[Value]) -> Offenders:
    """The rows that a comparison rests on; those that are counted only where one value is less."""
    numbers = [value for value in values if isinstance(value, Number) and value.one == value.one]
    least = min((_based(value) for value in numbers), default=0.0)
    return first_of([value.offenders for value in numbers if not value.offenders.only_above or _based(value) > least])


def _based(value: Number) -> float:
    return value.one * value.unit.scale


def _beside(a: Value, b: Value) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two values as they are told, numbers in one unit: that which is written in the expression, where one is."""
    if not (isinstance(a, Number) and isinstance(b, Number)):
        return _shown(a), _shown(b)
    unit = b.unit if b.fixed and b.unit.sort != "bare" else shared_unit(a, b)
    left = Amount(a.one * factor(a.unit, unit), unit)
    right = Amount(b.one * factor(b.unit, unit), unit)
    return tuple(x for x in (left,) if x.value == x.value), tuple(x for x in (right,) if x.value == x.value)


def _shown(value: Value) -> tuple[Piece, ...]:
    """One value as it is told; nothing for what is not known."""
    if isinstance(value, Number):
        return (value.amount,) if value.one == value.one else ()
    if isinstance(value, Words):
        return (f'"{value.one}"',) if value.ids >= 0 else ()
    return ("yes" if value.one == YES else "no",) if value.one >= 0 else ()
