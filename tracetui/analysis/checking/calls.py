"""The functions of the language over values: sums over lists, tolerances, and what is known at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetui.analysis.checking.operations import added, both, compared, kind_of
from tracetui.analysis.checking.units import THINGS, Misfit, factor, joint
from tracetui.analysis.checking.values import (
    NO,
    UNKNOWN,
    YES,
    Amount,
    Number,
    Piece,
    Rows,
    Truth,
    Value,
    Words,
    kept,
    number,
    truth,
)
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64


@dataclass(frozen=True)
class Function:
    """A function that expressions can call."""

    use: str
    """How it is written."""
    help: str


FUNCTIONS = {
    "count": Function("count(LIST, CONDITION)", "How many rows a list has, or how many are as a condition says."),
    "sum": Function("sum(LIST.COLUMN, CONDITION)", "Sum over the rows; 0 where there are none."),
    "min": Function("min(LIST.COLUMN, CONDITION)", "The least; min(A, B) of several values."),
    "max": Function("max(LIST.COLUMN, CONDITION)", "The largest; max(A, B) of several values."),
    "mean": Function("mean(LIST.COLUMN, CONDITION)", "The mean over the rows."),
    "median": Function("median(LIST.COLUMN, CONDITION)", "The middle value of the rows."),
    "all": Function("all(TEST, CONDITION)", "Whether a comparison holds in every row: all(steps.dur_us < 2ms)."),
    "any": Function("any(TEST, CONDITION)", "Whether it holds in some row."),
    "abs": Function("abs(VALUE)", "The value without its sign."),
    "within": Function("within(VALUE, WANTED, TOLERANCE)", "Whether a value is as near as a time or a percentage."),
    "has": Function("has(VALUE)", "Whether the trace holds a value: has(kernels); also has(memory)."),
    "not_slower": Function(
        "not_slower(VALUE, TOLERANCE)", "Whether what is measured of every step is not above the baseline."
    ),
}
"""All functions by name; a condition and a tolerance may be left out."""

_OVER: dict[str, Callable[[Float64], float]] = {
    "sum": lambda values: float(values.sum()),
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.median(values)),
}
OVER_ROWS = (*_OVER, "count", "all", "any")
"""Functions of a list, with a condition where one is given."""


def over_rows(name: str, value: Value, condition: Truth | None) -> Value:
    """A function of `OVER_ROWS` over those rows for which the condition holds; rows without a value are left out.

    Raises: Misfit for values over which it cannot be taken.
    """
    rows = value.rows
    if rows is None:
        raise Misfit(f"{kind_of(value)} that is no list")
    held = np.ones(rows.count, bool) if condition is None else condition.values == YES
    value, places = kept(value, held), np.flatnonzero(held)
    if name in ("all", "any"):
        return _every_or_some(name, value, rows, places)
    if name == "count":
        return _counted(value, rows, places)
    if not isinstance(value, Number):
        raise Misfit(kind_of(value))
    found = _folded(name, value, rows, condition is not None)
    if name not in ("min", "max"):
        return found
    return replace(found, offenders=rows.named(places[value.values == found.values]))


def counted_rows(rows: Rows, condition: Truth | None) -> Number:
    """How many rows there are, or for how many a condition holds."""
    if condition is None or rows.why:
        return number(None if rows.why else rows.count, THINGS, rows.why)
    return _number_of(np.flatnonzero(condition.values == YES), rows)


def chosen(name: str, values: Sequence[Number]) -> Number:
    """The least or the largest of several numbers, in the unit of the first that has one.

    Raises: Misfit for numbers that cannot be compared.
    """
    # Those that are written come last: the unit is that of a name where there is one.
    unit, *others = [value.unit for value in sorted(values, key=lambda value: value.fixed)]
    for other in others:
        unit = joint(unit, other)
    why = next((value.why for value in values if value.why), "")
    every = np.array([value.one * factor(value.unit, unit) for value in values])
    return Number(np.array(_OVER[name](every)), unit, None, why, None, all(value.fixed for value in values))


def absolute(value: Number) -> Number:
    """The number without its sign."""
    return Number(np.abs(value.values), value.unit, value.rows, value.why, None, value.fixed)


def within(value: Number, wanted: Number, tolerance: Number) -> Truth:
    """Whether a value lies as near to a wanted one as a tolerance in its unit, or a percentage of it, allows.

    Raises: Misfit for numbers that cannot be compared.
    """
    if wanted.unit.sort == "bare":
        wanted = Number(wanted.values, value.unit, None, wanted.why, None, wanted.fixed)
    ends = [added(wanted, tolerance, sign) for sign in "-+"]
    low, high = (chosen(name, ends) for name in ("min", "max"))
    answer = both([compared(">=", value, low), compared("<=", value, high)])
    unit = wanted.unit if wanted.fixed else joint(value.unit, wanted.unit)
    found = (Amount(value.one * factor(value.unit, unit), unit),) if answer.one != UNKNOWN else ()
    center = Amount(wanted.one * factor(wanted.unit, unit), unit)
    return truth(answer.one, answer.why, found, (center, "±", tolerance.amount))


def known(value: Value) -> Truth:
    """Whether a value is there; of a list, whether one is there at all."""
    if value.rows is not None:
        return _yes(not value.rows.why)
    match value:
        case Number():
            return _yes(not np.isnan(value.one))
        case Words():
            return _yes(int(value.ids) >= 0)
        case Truth():
            return _yes(value.one != UNKNOWN)


def _yes(answer: bool) -> Truth:
    return truth(YES if answer else NO, "", ("yes" if answer else "no",), ("yes",))


def _number_of(places: Int64, rows: Rows) -> Number:
    """How many rows there are at some places, which they are to blame for where it is too many."""
    return replace(number(len(places), THINGS), offenders=rows.named(places).counted())


def _counted(value: Value, rows: Rows, places: Int64) -> Number:
    """How many rows say yes, or have a value."""
    if rows.why:
        return number(None, THINGS, rows.why)
    if isinstance(value, Truth):
        return _number_of(places[value.values == YES], rows)
    there = ~np.isnan(value.values) if isinstance(value, Number) else value.ids >= 0
    return number(int(there.sum()), THINGS)


def _every_or_some(name: str, value: Value, rows: Rows, places: Int64) -> Truth:
    if not isinstance(value, Truth):
        raise Misfit(f"{kind_of(value)}, which is neither true nor false,")
    told = value.values[value.values != UNKNOWN]
    left_out = len(value.values) - len(told)
    if rows.why or (left_out and not len(told)):
        return truth(UNKNOWN, rows.why or f"None of {left_out:,} rows of {rows.name} has a value to compare.")
    holds = (told == YES).all() if name == "all" else (told == YES).any()
    found: list[Piece] = [Amount(float((told == YES).sum()), THINGS), "of", Amount(float(len(told)), THINGS)]
    if left_out:
        found.append(f"({left_out:,} more without a value)")
    answer = truth(YES if holds else NO, "", found, ("all",) if name == "all" else ("at least one",))
    deciding = NO if name == "all" else YES
    return replace(answer, offenders=rows.named(places[value.values == deciding], name == "any"))


def _folded(name: str, value: Number, rows: Rows, narrowed: bool) -> Number:
    there = value.values[~np.isnan(value.values)]
    if rows.why:
        return number(None, value.unit, rows.why)
    if len(there) == 0 and (name != "sum" or len(value.values)):
        empty = f"No row of {rows.name} fits the condition." if narrowed else f"{rows.name} has no rows."
        lacking = f"None of {len(value.values):,} rows of {rows.name} has a value." if len(value.values) else empty
        return number(None, value.unit, lacking)
    return number(_OVER[name](there), value.unit, "The result is too large a number.")
