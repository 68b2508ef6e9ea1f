"""The functions of the language: sums over lists, tolerances, and fields of kernels, copies and operators by name.

`kernel("gemm").total_us` and `op("aten::t").calls` select by name. Calls and sums are per part: of times the median
over the parts counts, of calls every part, as for every measure. The other fields are taken over all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetui.checking.lists import OP_HELP, lacks_gpu, lacks_ops, op_sums
from tracetui.checking.tree_evaluator import added, both, compared, kind_of, matcher, telling
from tracetui.checking.values import (
    MAX_NAMED_ROWS,
    MICROS,
    NO,
    THINGS,
    UNKNOWN,
    YES,
    Amount,
    Misfit,
    Number,
    Offender,
    Offenders,
    Parts,
    Piece,
    Rows,
    Truth,
    Unit,
    Value,
    Words,
    factor,
    joint,
    kept,
    number,
    of_parts,
    truth,
)
from tracetui.comparing.side import CAPTURE, STEP, Side
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links, no_gpu
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64, Kind
from tracetui.operators.costs import costs

ACTIVITY_FIELDS = ("calls", "total_us", "mean_us", "min_us", "median_us", "max_us")
"""Fields of kernels and copies, as in `show kernels --by name`."""
_ACTIVITY_KINDS = {"kernel": (Kind.KERNEL,), "copy": (Kind.MEMCPY, Kind.MEMSET)}
_OVER_CALLS: dict[str, Callable[[Int64], float]] = {
    "mean_us": lambda dur: float(dur.mean()) / 1000,
    "min_us": lambda dur: float(dur.min()) / 1000,
    "median_us": lambda dur: float(np.median(dur)) / 1000,
    "max_us": lambda dur: float(dur.max()) / 1000,
}


def kernel(side: Side, pattern: str, field: str) -> Number:
    """A field of `WORK_FIELDS` of the kernels whose recorded or short name a pattern matches."""
    return _work(side, pattern, field, _ACTIVITY_KINDS["kernel"], "kernel")


def copy(side: Side, pattern: str, field: str) -> Number:
    """A field of `WORK_FIELDS` of the copies and fills whose name a pattern matches."""
    return _work(side, pattern, field, _ACTIVITY_KINDS["copy"], "copy or fill")


def op(side: Side, pattern: str, field: str) -> Number:
    """A field of `OP_HELP` of the operators whose whole name a pattern matches."""
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_ops(side):
        return number(None, unit, why)
    sums, fits = op_sums(side), matcher(pattern, whole=True)
    mine = [index for index, name in enumerate(sums.name.tolist()) if fits(sums.texts[name])]
    if unit is MICROS and not mine:
        return number(None, unit, f"No operator is named {pattern!r}.")
    sample = sums.sums[field][mine].sum(axis=0)
    why = OVERLAP if field == "self_cpu_us" else ""
    if "device" in field or field == "kernels":
        sample, why = sample if len(links(side.trace).gpu) else sample * np.nan, no_gpu(side.trace)
    return time_of_parts(side, sample, why) if unit is MICROS else count_of_parts(side, sample, why)


def _work(side: Side, pattern: str, field: str, kinds: tuple[Kind, ...], noun: str) -> Number:
    unit = MICROS if field.endswith("_us") else THINGS
    if why := lacks_gpu(side):
        return number(None, unit, why)
    fits = matcher(pattern)
    rows, part = side.activities()
    held = np.isin(side.trace.slices.kind[rows], kinds)
    held &= is_named(side.trace, rows, lambda name: fits(name) or fits(short_kernel(name)))
    part, dur = part[held], side.times(rows[held])
    if field == "calls":
        return count_of_parts(side, np.bincount(part, minlength=len(side)).astype(np.float64))
    if len(dur) == 0:
        return number(None, unit, f"No {noun} has a name with {pattern!r}.")
    if field == "total_us":
        return time_of_parts(side, np.bincount(part, dur, len(side)) / 1000)
    over, total = _OVER_CALLS[field], _OVER_CALLS[field](dur)
    order = np.argsort(part, kind="stable")
    pieces = np.split(dur[order], np.flatnonzero(np.diff(part[order])) + 1)
    found = number(total, unit, sample=np.array([over(piece) for piece in pieces]))
    if field not in ("min_us", "max_us"):
        return found
    return replace(found, offenders=_named(side, rows[held], part, dur == round(1000 * total)))


def _named(side: Side, rows: Int64, part: Int64, chosen: Bool) -> Offenders:
    """The first of the chosen kernels or copies by name, and how many there are."""
    indices = np.flatnonzero(chosen)

    def named_row(index: int) -> Offender:
        step = int(side.number[part[index]]) if side.part_kind == STEP else None
        return Offender("kernels", short_kernel(side.trace.name_of(int(rows[index]))), step)

    return Offenders(tuple(map(named_row, indices[:MAX_NAMED_ROWS].tolist())), len(indices))


def names_selected_from(side: Side, kind: str) -> set[str]:
    """Every name in the whole trace that `kind`, a key of `SELECTIONS`, can select by."""
    if kind == "op":
        every = costs(side.trace)
        return {every.texts[number] for number in np.unique(every.name).tolist()}
    slices = side.trace.slices
    used = np.unique(slices.name[slices.of_kind(*_ACTIVITY_KINDS[kind])]).tolist()
    return {text for each in used for text in (side.trace.names[each], short_kernel(side.trace.names[each]))}


def selects_any(kind: str, pattern: str, names: Iterable[str]) -> bool:
    """Whether a pattern matches one of the names that `kind`, a key of `SELECTIONS`, selects by."""
    return any(map(matcher(pattern, whole=kind == "op"), names))


def _median(sample: Float64, unit: Unit, why: str = "") -> Number:
    return number(float(np.median(sample)) if len(sample) else None, unit, why, sample)


def count_of_parts(side: Side, each: Float64, why: str = "") -> Number:
    """A count of every part of a side: what is said of it must hold in each of them.

    `why` it is unknown in the parts where it is NaN. The capture has one value.
    """
    if side.part_kind == CAPTURE or len(each) == 0:
        return _median(each[~np.isnan(each)], THINGS, why)
    return of_parts(each, THINGS, Parts(side.part_kind, side.number), why)


def time_of_parts(side: Side, each: Float64, why: str = "") -> Number:
    """A time in us of every part: the median over the parts, and all of them for comparisons with 0."""
    return with_presence(_median(each, MICROS, why), side, each, why)


def with_presence(median: Number, side: Side, each: Float64, why: str) -> Number:
    """A median over the parts of a side with its value in each, for comparisons with 0."""
    if side.part_kind == CAPTURE or len(each) == 0:
        return median
    return replace(median, presence=of_parts(each, median.unit, Parts(side.part_kind, side.number), why))


OVERLAP = "What it calls overlaps in a step, so that its self time is below 0 there and measures nothing."


FIELDS = {"kernel": ACTIVITY_FIELDS, "copy": ACTIVITY_FIELDS, "op": tuple(OP_HELP)}
"""Fields that may follow `kernel("...").`, `copy("...").` and `op("...").`."""
SELECTIONS: dict[str, Callable[[Side, str, str], Number]] = {"kernel": kernel, "copy": copy, "op": op}
"""The function behind each of these selections."""


@dataclass(frozen=True)
class Function:
    """A function that expressions can call."""

    use: str
    """Its syntax."""
    help: str


FUNCTIONS = {
    "count": Function("count(LIST, CONDITION)", "How many rows a list has, or how many are as a condition says."),
    "sum": Function("sum(LIST.COLUMN, CONDITION)", "Sum over the rows; 0 where there are none."),
    "min": Function(
        "min(LIST.COLUMN, CONDITION)", "The least; min(A, B) of several values; min(kernels) of all steps."
    ),
    "max": Function(
        "max(LIST.COLUMN, CONDITION)", "The largest; max(A, B) of several values; max(kernels) of all steps."
    ),
    "mean": Function("mean(LIST.COLUMN, CONDITION)", "The mean over the rows; mean(kernels) over the steps."),
    "median": Function(
        "median(LIST.COLUMN, CONDITION)", "The middle value of the rows; median(kernels) over the steps."
    ),
    "p95": Function("p95(LIST.COLUMN, CONDITION)", "What 95 % of the rows do not exceed, linear between ranks."),
    "p99": Function("p99(LIST.COLUMN, CONDITION)", "What 99 % of the rows do not exceed, linear between ranks."),
    "all": Function("all(TEST, CONDITION)", "Whether a comparison holds in every row: all(steps.dur_us < 2ms)."),
    "any": Function("any(TEST, CONDITION)", "Whether it holds in some row."),
    "abs": Function("abs(VALUE)", "The value without its sign."),
    "within": Function("within(VALUE, WANTED, TOLERANCE)", "Whether a value is as near as a time or a percentage."),
    "has": Function("has(VALUE)", "Whether the trace holds a value: has(kernels); also has(memory)."),
    "not_slower": Function(
        "not_slower(VALUE, TOLERANCE)", "Whether what is measured of every step is not above the baseline."
    ),
}
"""All functions by name; a condition or a tolerance may be left out."""

_OVER: dict[str, Callable[[Float64], float]] = {
    "sum": lambda values: float(values.sum()),
    "min": lambda values: float(values.min()),
    "max": lambda values: float(values.max()),
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.median(values)),
    "p95": lambda values: float(np.percentile(values, 95)),
    "p99": lambda values: float(np.percentile(values, 99)),
}
OVER_PARTS = ("min", "max", "mean", "median", "p95", "p99")
"""Functions that are also taken over the steps, of what is measured of every step."""
OVER_ROWS = (*_OVER, "count", "all", "any")
"""Functions over the rows of a list, with an optional condition."""


def over_rows(name: str, value: Value, condition: Truth | None) -> Value:
    """A function of `OVER_ROWS` over the rows for which the condition holds; rows without a value are left out.

    Raises: Misfit for values that the function does not take.
    """
    rows = value.rows
    if rows is None:
        raise Misfit(f"{kind_of(value)} that is no list")
    held = np.ones(rows.count, bool) if condition is None else condition.values == YES
    value, indices = kept(value, held), np.flatnonzero(held)
    if name in ("all", "any"):
        return _every_or_some(name, value, rows, indices)
    if name == "count":
        return _counted(value, rows, indices)
    if not isinstance(value, Number):
        raise Misfit(kind_of(value))
    found = _folded(name, value, rows, condition is not None)
    if name not in ("min", "max"):
        return found
    return replace(found, offenders=rows.named(indices[value.values == found.values]))


def counted_rows(rows: Rows, condition: Truth | None) -> Number:
    """Number of rows, or of rows for which a condition holds."""
    if condition is None or rows.why:
        return number(None if rows.why else rows.count, THINGS, rows.why)
    return _number_of(np.flatnonzero(condition.values == YES), rows)


def is_of_parts(name: str, value: Number) -> bool:
    """Whether a function of `OVER_ROWS` is asked of what is measured of every step."""
    return value.rows is None and value.sample is not None and name in OVER_PARTS


def over_parts(name: str, value: Number) -> Number:
    """The mean, median or extreme over the steps of what is measured of every step."""
    sample = np.empty(0) if value.sample is None else value.sample
    found = number(_OVER[name](sample) if len(sample) else None, value.unit, value.why)
    if value.parts is None or value.each is None or name not in ("min", "max"):
        return found
    return replace(found, offenders=value.parts.named(np.flatnonzero(value.each == found.values)))


def chosen(name: str, values: Sequence[Number]) -> Number:
    """The smallest or the largest of several numbers, in the unit of the first that has one; of counts step by step.

    Raises: Misfit for numbers that cannot be compared.
    """
    # Those that are written come last: the unit is that of a name where there is one.
    unit, *others = [value.unit for value in sorted(values, key=lambda value: value.fixed)]
    for other in others:
        unit = joint(unit, other)
    why = next((value.why for value in values if value.why), "")
    parts = next((value.parts for value in values if value.parts is not None), None)
    scaled = [(value.values if value.each is None else value.each) * factor(value.unit, unit) for value in values]
    every = np.array(np.broadcast_arrays(*scaled))
    if parts is not None:
        return of_parts(every.min(axis=0) if name == "min" else every.max(axis=0), unit, parts, why)
    return Number(np.array(_OVER[name](every)), unit, None, why, None, all(value.fixed for value in values))


def absolute(value: Number) -> Number:
    """The number without its sign."""
    if value.each is not None and value.parts is not None:
        return of_parts(np.abs(value.each), value.unit, value.parts, value.why)
    return Number(np.abs(value.values), value.unit, value.rows, value.why, None, value.fixed)


def within(value: Number, wanted: Number, tolerance: Number) -> Truth:
    """Whether a value is within a tolerance of a wanted value; the tolerance is in its unit or a percentage of it.

    Raises: Misfit for numbers that cannot be compared.
    """
    if wanted.unit.kind == "bare":
        wanted = Number(wanted.values, value.unit, None, wanted.why, None, wanted.fixed)
    ends = [added(wanted, tolerance, sign) for sign in "-+"]
    low, high = (chosen(name, ends) for name in ("min", "max"))
    answer = both([compared(">=", value, low), compared("<=", value, high)])
    unit = wanted.unit if wanted.fixed else joint(value.unit, wanted.unit)
    shown, offenders = telling(value, "==", answer, wanted)
    one = shown.one if isinstance(shown, Number) else value.one
    found = (Amount(one * factor(value.unit, unit), unit),) if answer.one != UNKNOWN else ()
    center = Amount(wanted.one * factor(wanted.unit, unit), unit)
    return replace(answer, found=found, wanted=(center, "±", tolerance.amount), offenders=offenders)


def known(value: Value) -> Truth:
    """Whether a value is known; of a list, whether the list is."""
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


def _number_of(indices: Int64, rows: Rows) -> Number:
    """The number of rows at some indices, which are named where the number is too large."""
    return replace(number(len(indices), THINGS), offenders=rows.named(indices).counted())


def _counted(value: Value, rows: Rows, indices: Int64) -> Number:
    """Number of rows that hold, or that have a value."""
    if rows.why:
        return number(None, THINGS, rows.why)
    if isinstance(value, Truth):
        return _number_of(indices[value.values == YES], rows)
    there = ~np.isnan(value.values) if isinstance(value, Number) else value.ids >= 0
    return number(int(there.sum()), THINGS)


def _every_or_some(name: str, value: Value, rows: Rows, indices: Int64) -> Truth:
    if not isinstance(value, Truth):
        raise Misfit(f"{kind_of(value)}, which is neither true nor false,")
    known_answers = value.values[value.values != UNKNOWN]
    left_out = len(value.values) - len(known_answers)
    if rows.why or (left_out and not len(known_answers)):
        return truth(UNKNOWN, rows.why or f"None of {left_out:,} rows of {rows.name} has a value to compare.")
    holds = (known_answers == YES).all() if name == "all" else (known_answers == YES).any()
    found: list[Piece] = [
        Amount(float((known_answers == YES).sum()), THINGS),
        "of",
        Amount(float(len(known_answers)), THINGS),
    ]
    if left_out:
        found.append(f"({left_out:,} more without a value)")
    answer = truth(YES if holds else NO, "", found, ("all",) if name == "all" else ("at least one",))
    deciding = NO if name == "all" else YES
    return replace(answer, offenders=rows.named(indices[value.values == deciding], name == "any"))


def _folded(name: str, value: Number, rows: Rows, narrowed: bool) -> Number:
    there = value.values[~np.isnan(value.values)]
    if rows.why:
        return number(None, value.unit, rows.why)
    if len(there) == 0 and (name != "sum" or len(value.values)):
        empty = f"No row of {rows.name} fits the condition." if narrowed else f"{rows.name} has no rows."
        lacking = f"None of {len(value.values):,} rows of {rows.name} has a value." if len(value.values) else empty
        return number(None, value.unit, lacking)
    return number(_OVER[name](there), value.unit, "The result is too large a number.")
