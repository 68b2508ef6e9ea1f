"""The functions of the language: sums over lists, tolerances, and fields of kernels, copies and operators by name.

`kernel("gemm").total_us` and `op("aten::t").calls` select by name. Calls and sums are per part: of times the median
over the parts counts, of calls every part, as for every measure. The other fields are taken over all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tracetui.checking.lists import OP_HELP, lacks_gpu, lacks_ops, op_sums, parts_of, view_of
from tracetui.checking.tree_evaluator import added, both, compared, deciding_value, matcher
from tracetui.checking.values import (
    ANSWER,
    MAX_NAMED_ROWS,
    MICROS,
    NO,
    THINGS,
    UNKNOWN,
    YES,
    Amount,
    Offender,
    Offenders,
    Piece,
    Rows,
    Unit,
    UnitError,
    Value,
    answer,
    factor,
    joint,
    number,
    of_parts,
)
from tracetui.comparing.side import CAPTURE, STEP, Side
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.links import links, no_gpu
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64, Kind
from tracetui.operators.costs import costs

ACTIVITY_FIELDS = ("calls", "total_us", "mean_us", "min_us", "median_us", "max_us")
"""Fields of kernels and copies, as in `show kernels --by name`."""
FIELDS = {"kernel": ACTIVITY_FIELDS, "copy": ACTIVITY_FIELDS, "op": tuple(OP_HELP)}
"""Fields that may follow `kernel("...").`, `copy("...").` and `op("...").`."""
_ACTIVITIES = {"kernel": ("kernel", (Kind.KERNEL,)), "copy": ("copy or fill", (Kind.MEMCPY, Kind.MEMSET))}
"""The GPU activities that are selected, in words and as kinds of slices."""
OVERLAP = "What it calls overlaps in a step, so that its self time is below 0 there and measures nothing."

_OVER: dict[str, Callable[[Float64 | Int64], float]] = {
    "sum": lambda values: float(values.sum()),
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.median(values)),
    "p95": lambda values: float(np.percentile(values, 95)),
    "p99": lambda values: float(np.percentile(values, 99)),
}
FOLDS = (*_OVER, "count")
"""Functions that may stand behind a column of a list."""
OVER_PARTS = tuple(name for name in _OVER if name != "sum")
"""Functions that are also taken over the steps, of what is measured of every step."""
OVER_ROWS = (*FOLDS, "all", "any")
"""Functions over the rows of a list, with an optional condition."""


def selected(side: Side, kind: str, pattern: str, field: str) -> Value:
    """A field of `FIELDS` of the kernels or copies whose recorded or short name a pattern matches, or of operators."""
    if kind == "op":
        return _operators(side, pattern, field)
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_gpu(side):
        return number(None, unit, why)
    noun, kinds = _ACTIVITIES[kind]
    matches = matcher(pattern)
    rows, part = side.activities()
    mask = np.isin(side.trace.slices.kind[rows], kinds)
    mask &= is_named(side.trace, rows, lambda name: matches(name) or matches(short_kernel(name)))
    rows, part, dur = rows[mask], part[mask], side.times(rows[mask])
    if field == "calls":
        return count_of_parts(side, np.bincount(part, minlength=len(side)).astype(np.float64))
    if len(dur) == 0:
        return number(None, unit, f"No {noun} has a name with {pattern!r}.")
    if field == "total_us":
        return time_of_parts(side, np.bincount(part, dur, len(side)) / 1000)
    over = _OVER[field.removesuffix("_us")]
    order = np.argsort(part, kind="stable")
    pieces = np.split(dur[order], np.flatnonzero(np.diff(part[order])) + 1)
    value = number(over(dur) / 1000, unit, sample=np.array([over(piece) / 1000 for piece in pieces]))
    if field not in ("min_us", "max_us"):
        return value
    return replace(value, offenders=_slices(side, rows, part, np.flatnonzero(dur == over(dur))))


def _slices(side: Side, rows: Int64, part: Int64, indices: Int64) -> Offenders:
    """Kernels or copies at some indices, the first of them by name."""
    first = [
        Offender(
            "kernels",
            short_kernel(side.trace.name_of(int(rows[index]))),
            int(side.number[part[index]]) if side.part_kind == STEP else None,
            *view_of(side, "kernels", int(rows[index]), int(part[index])),
        )
        for index in indices[:MAX_NAMED_ROWS].tolist()
    ]
    return Offenders(tuple(first), len(indices))


def _operators(side: Side, pattern: str, field: str) -> Value:
    """A field of `OP_HELP` of the operators whose whole name a pattern matches."""
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_ops(side):
        return number(None, unit, why)
    sums, matches = op_sums(side), matcher(pattern, whole=True)
    indices = [index for index, name in enumerate(sums.name.tolist()) if matches(sums.texts[name])]
    if unit is MICROS and not indices:
        return number(None, unit, f"No operator is named {pattern!r}.")
    sample = sums.sums[field][indices].sum(axis=0)
    why = OVERLAP if field == "self_cpu_us" else ""
    if "device" in field or field == "kernels":
        sample, why = sample if len(links(side.trace).gpu) else sample * np.nan, no_gpu(side.trace)
    return time_of_parts(side, sample, why) if unit is MICROS else count_of_parts(side, sample, why)


def names_selected_from(side: Side, kind: str) -> set[str]:
    """All names in the whole trace that `kind`, a key of `FIELDS`, can select by: the whole name of an operator."""
    if kind == "op":
        op_costs = costs(side.trace)
        return {op_costs.texts[index] for index in np.unique(op_costs.name).tolist()}
    slices = side.trace.slices
    used = np.unique(slices.name[slices.of_kind(*_ACTIVITIES[kind][1])]).tolist()
    return {text for each in used for text in (side.trace.names[each], short_kernel(side.trace.names[each]))}


def median_of(sample: Float64, unit: Unit, why: str = "") -> Value:
    """The median of a sample; `why` it is unknown where the sample is empty."""
    return number(float(np.median(sample)) if len(sample) else None, unit, why, sample)


def count_of_parts(side: Side, each: Float64, why: str = "") -> Value:
    """A count of every part of a side: what is asserted of it must hold in each of them.

    `why` it is unknown in the parts where it is NaN. The capture has one value.
    """
    if side.part_kind == CAPTURE or len(each) == 0:
        return median_of(each[~np.isnan(each)], THINGS, why)
    return of_parts(each, THINGS, parts_of(side), why)


def time_of_parts(side: Side, each: Float64, why: str = "") -> Value:
    """A time in us of every part: the median over the parts, and all of them for comparisons with 0."""
    return with_presence(median_of(each, MICROS, why), side, each, why)


def with_presence(median: Value, side: Side, each: Float64, why: str) -> Value:
    """A median over the parts of a side with its value in each, for comparisons with 0."""
    if side.part_kind == CAPTURE or len(each) == 0:
        return median
    return replace(median, presence=of_parts(each, median.unit, parts_of(side), why))


FUNCTIONS = {
    "count": ("count(LIST, CONDITION)", "How many rows a list has, or how many are as a condition says."),
    "sum": ("sum(LIST.COLUMN, CONDITION)", "Sum over the rows; 0 where there are none."),
    "min": ("min(LIST.COLUMN, CONDITION)", "The least; min(A, B) of several values; min(kernels) of all steps."),
    "max": ("max(LIST.COLUMN, CONDITION)", "The largest; max(A, B) of several values; max(kernels) of all steps."),
    "mean": ("mean(LIST.COLUMN, CONDITION)", "The mean over the rows; mean(kernels) over the steps."),
    "median": ("median(LIST.COLUMN, CONDITION)", "The middle value of the rows; median(kernels) over the steps."),
    "p95": ("p95(LIST.COLUMN, CONDITION)", "What 95 % of the rows do not exceed, linear between ranks."),
    "p99": ("p99(LIST.COLUMN, CONDITION)", "What 99 % of the rows do not exceed, linear between ranks."),
    "all": ("all(TEST, CONDITION)", "Whether a comparison holds in every row: all(steps.dur_us < 2ms)."),
    "any": ("any(TEST, CONDITION)", "Whether it holds in some row."),
    "abs": ("abs(VALUE)", "The value without its sign."),
    "within": ("within(VALUE, WANTED, TOLERANCE)", "Whether a value is as near as a time or a percentage."),
    "has": ("has(VALUE)", "Whether the trace holds a value: has(kernels); also has(memory)."),
    "not_slower": (
        "not_slower(VALUE, TOLERANCE)",
        "Whether what is measured of every step is not above the baseline.",
    ),
}
"""Syntax and help of every function; a condition or a tolerance may be left out."""


def over_rows(name: str, value: Value, condition: Value | None) -> Value:
    """A function of `OVER_ROWS` over the rows for which the condition holds; rows without a value are left out.

    Raises: UnitError for values that the function does not take.
    """
    rows = value.rows
    if rows is None:
        raise UnitError(f"{value.unit.words} that is no list")
    mask = np.ones(len(rows), bool) if condition is None else condition.values == YES
    value, indices = replace(value, values=value.values[mask]), np.flatnonzero(mask)
    if name in ("all", "any"):
        return _all_or_any(name, value, rows, indices)
    if name == "count":
        if rows.why:
            return number(None, THINGS, rows.why)
        if value.unit == ANSWER:
            return _number_of(indices[value.values == YES], rows)
        return number(int(value.known.sum()), THINGS)
    if not value.is_number:
        raise UnitError(value.unit.words)
    if rows.why:
        return number(None, value.unit, rows.why)
    known = value.values[value.known]
    if len(known) == 0 and (name != "sum" or len(value.values)):
        if len(value.values):
            why = f"None of {len(value.values):,} rows of {rows.name} has a value."
        else:
            why = f"{rows.name} has no rows." if condition is None else f"No row of {rows.name} fits the condition."
        return number(None, value.unit, why)
    result = number(_OVER[name](known), value.unit, "The result is too large a number.")
    if name not in ("min", "max"):
        return result
    return replace(result, offenders=rows.offenders(indices[value.values == result.values]))


def _all_or_any(name: str, value: Value, rows: Rows, indices: Int64) -> Value:
    if value.unit != ANSWER:
        raise UnitError(f"{value.unit.words}, which is neither true nor false,")
    known = value.values[value.known]
    left_out = len(value.values) - len(known)
    if rows.why or (left_out and not len(known)):
        return answer(UNKNOWN, rows.why or f"None of {left_out:,} rows of {rows.name} has a value to compare.")
    holds = (known == YES).all() if name == "all" else (known == YES).any()
    actual: list[Piece] = [Amount(float((known == YES).sum()), THINGS), "of", Amount(float(len(known)), THINGS)]
    if left_out:
        actual.append(f"({left_out:,} more without a value)")
    result = answer(YES if holds else NO, "", actual, ("all",) if name == "all" else ("at least one",))
    deciding = NO if name == "all" else YES
    return replace(result, offenders=rows.offenders(indices[value.values == deciding], name == "any"))


def counted_rows(rows: Rows, condition: Value | None) -> Value:
    """Number of rows, or of rows for which a condition holds."""
    if condition is None or rows.why:
        return number(None if rows.why else len(rows), THINGS, rows.why)
    return _number_of(np.flatnonzero(condition.values == YES), rows)


def _number_of(indices: Int64, rows: Rows) -> Value:
    """The number of rows at some indices, which are named where the number is too large."""
    return replace(number(len(indices), THINGS), offenders=rows.offenders(indices, only_above=True))


def over_parts(name: str, value: Value) -> Value:
    """The mean, median or extreme over the steps of what is measured of every step."""
    sample = np.empty(0) if value.sample is None else value.sample
    result = number(_OVER[name](sample) if len(sample) else None, value.unit, value.why)
    if value.parts is None or value.each is None or name not in ("min", "max"):
        return result
    return replace(result, offenders=value.parts.offenders(np.flatnonzero(value.each == result.values)))


def extreme(name: str, values: Sequence[Value]) -> Value:
    """The smallest or the largest of several numbers, in the unit of the first that has one; of counts step by step.

    Raises: UnitError for numbers that cannot be compared.
    """
    # Those that are written come last: the unit is that of a name where there is one.
    unit, *others = [value.unit for value in sorted(values, key=lambda value: value.fixed)]
    for other in others:
        unit = joint(unit, other)
    why = next((value.why for value in values if value.why), "")
    parts = next((value.parts for value in values if value.parts is not None), None)
    all_values = np.array(np.broadcast_arrays(*(value.by_part * factor(value.unit, unit) for value in values)))
    if parts is not None:
        return of_parts(all_values.min(axis=0) if name == "min" else all_values.max(axis=0), unit, parts, why)
    return Value(np.array(_OVER[name](all_values)), unit, None, why, all(value.fixed for value in values))


def absolute(value: Value) -> Value:
    """The number without its sign."""
    if value.each is not None and value.parts is not None:
        return of_parts(np.abs(value.each), value.unit, value.parts, value.why)
    return Value(np.abs(value.values), value.unit, value.rows, value.why, value.fixed)


def within(value: Value, wanted: Value, tolerance: Value) -> Value:
    """The answer to whether a value is within a tolerance of a wanted value.

    The tolerance is in the unit of the wanted value or a percentage of it. Raises: UnitError for numbers that
    cannot be compared.
    """
    if wanted.unit.kind == "bare":
        wanted = Value(wanted.values, value.unit, None, wanted.why, wanted.fixed)
    ends = [added(wanted, tolerance, sign) for sign in "-+"]
    low, high = (extreme(name, ends) for name in ("min", "max"))
    result = both([compared(">=", value, low), compared("<=", value, high)])
    unit = wanted.unit if wanted.fixed else joint(value.unit, wanted.unit)
    deciding, offenders = deciding_value(value, "==", result, wanted)
    actual = (Amount(deciding.one * factor(value.unit, unit), unit),) if result.one != UNKNOWN else ()
    center = Amount(wanted.one * factor(wanted.unit, unit), unit)
    margin = Amount(tolerance.one, tolerance.unit)
    return replace(result, actual=actual, wanted=(center, "±", margin), offenders=offenders)


def yes_or_no(holds: bool) -> Value:
    """The answer to whether the trace holds something."""
    return answer(YES if holds else NO, "", ("yes" if holds else "no",), ("yes",))
