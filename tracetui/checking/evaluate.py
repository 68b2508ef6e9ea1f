"""From the tree of an expression to its value in a trace, by walking the tree; no code is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tracetui.checking import functions
from tracetui.checking.functions import FIELDS, FOLDS, FUNCTIONS, OVER_ROWS
from tracetui.checking.namespace import Namespace, TraceNames, UnknownName
from tracetui.checking.parser import Path, PathPart, path_of, written, written_path
from tracetui.checking.tree_evaluator import TreeEvaluator, both, placed
from tracetui.checking.values import (
    MICROS,
    NO,
    NO_COMMAS_HINT,
    UNKNOWN,
    YES,
    Amount,
    ExpressionError,
    Piece,
    Rows,
    Value,
    answer,
    factor,
    nearest,
)
from tracetui.comparing.noise import (
    ASSUMED_NOISE,
    MIN_OTHER_STEPS,
    Change,
    difference,
    other_steps,
    shared_tick,
)
from tracetui.comparing.side import Side
from tracetui.model.quantities import percent

STEP_USE = "A step is written step[3].dur_us, with its number and a name of it."
FOLD_USE = "Rows of a list are written {name}(COLUMN=VALUE).COLUMN.median, or mean, min, max, sum, p95, p99, count."
BASELINE = "baseline"
"""Prefix of names that are looked up in the baseline trace."""
_COUNTS = {"abs": (1, 1), "has": (1, 1), "within": (3, 3), "not_slower": (1, 2)}
"""Minimum and maximum number of arguments; other functions take a list and a condition, or several values."""


class Evaluator(TreeEvaluator):
    """Evaluates expressions in a trace or a set of ranks, and in a baseline where there is one."""

    def __init__(self, of: Side | Namespace, baseline: Side | None = None, tolerance: Value | None = None) -> None:
        self._here = TraceNames(of) if isinstance(of, Side) else of
        self._there = TraceNames(baseline, "the baseline", each=False) if baseline else None
        self._tolerance = tolerance
        self._owners: dict[Rows, Namespace] = {}

    @property
    def used(self) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]:
        """The names that were looked up in the trace and in the baseline, with the columns behind each."""
        return self._here.used, self._there.used if self._there else {}

    @property
    def selections(self) -> list[tuple[str, str]]:
        """The kinds and patterns by which something was selected in the trace or the baseline."""
        return list(self._here.selections | (self._there.selections if self._there else {}))

    def path_value(self, path: Path, row: Rows | None) -> Value:
        """The value of a name of the trace, of a column of a list, or of a call.

        Raises: ExpressionError for a name that does not exist.
        """
        names, parts = self._names(path)
        head, *rest = parts
        with _unknown_names_at(rest[0] if rest else head, written_path(path)):
            if head.arguments is not None:
                return self._called(names, parts, row, path)
            if head.index is not None or (head.name == "step" and rest):
                if head.index is None or head.name != "step" or not _is_name(rest):
                    raise ExpressionError(STEP_USE, head.at)
                return names.of_step(head.index, rest[0].name)
            if not rest:
                return self._single(names, head, row if parts is path else None)
            if head.name in names.lists and _is_fold(rest):
                return self._folded(names, head, rest)
            if not _is_name(rest):
                raise ExpressionError(f"{written_path(tuple(rest))} cannot stand behind {head.name}.", rest[0].at)
            if head.name == "summary":
                return names.summary(rest[0].name)
            if head.name in names.lists:
                count = names.count_of(head.name, rest[0].name)
                return self._column(self._list(names, head.name), rest[0]) if count is None else count
            if head.name in names.names:
                raise ExpressionError(f"{head.name} is one value: nothing can stand behind it.", rest[0].at)
            known = [*names.lists, "summary", BASELINE, "step[3]", *(f"{each}('...')" for each in FIELDS)]
            raise ExpressionError(f"There is no {head.name!r} with parts. {nearest(head.name, known)}", head.at)

    def _names(self, path: Path) -> tuple[Namespace, Path]:
        """The namespace that a path belongs to, and the path without the prefix `baseline`."""
        head = path[0]
        if head.name != BASELINE:
            return self._here, path
        if not head.is_plain or len(path) == 1:
            raise ExpressionError("baseline stands before a name: baseline.dur_us.", head.at)
        if self._there is None:
            raise ExpressionError(f"{written_path(path)} needs a baseline: --baseline TRACE.", head.at)
        return self._there, path[1:]

    def _single(self, names: Namespace, part: PathPart, row: Rows | None) -> Value:
        """The value of a name that stands alone: a column where rows are looked at, else a value of the trace."""
        if row is not None:
            return self._column(row, part)
        try:
            return names.bare(part.name)
        except UnknownName:
            if part.name in names.lists:
                hint = f"{part.name} is a list: write count({part.name}), or a function of a column of it."
            elif part.name in FUNCTIONS:
                hint = f"{part.name} is a function: {FUNCTIONS[part.name][0]}."
            elif part.name in FIELDS:
                hint = f"Write {part.name}('NAME').calls."
            elif part.name == "step":
                hint = STEP_USE
            elif part.name in ("true", "false"):
                hint = "A condition is true by itself, and false with the word not before it."
            else:
                raise
            raise ExpressionError(hint, part.at) from None

    def _list(self, names: Namespace, name: str) -> Rows:
        rows = names.rows(name)
        self._owners[rows] = names
        return rows

    def _column(self, rows: Rows, part: PathPart) -> Value:
        if part.name not in rows.table:
            offer = nearest(part.name, rows.table.column_names)
            raise ExpressionError(f"{rows.name} has no column {part.name!r}. {offer}", part.at)
        return self._owners[rows].column(rows, part.name)

    def _called(self, names: Namespace, parts: Path, row: Rows | None, path: Path) -> Value:
        """The value of a path that begins with a call."""
        head, *rest = parts
        arguments = head.arguments or ()
        if head.name in names.lists and head.name != "findings":
            if not _is_fold(rest):
                raise ExpressionError(FOLD_USE.format(name=head.name), head.at)
            return self._folded(names, head, rest)
        texts = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if head.name in FIELDS:
            if len(arguments) != 1 or not texts or not _is_name(rest):
                raise ExpressionError(f"It is written {head.name}('NAME').calls, with the name in quotes.", head.at)
            return names.selected(head.name, texts[0], rest[0].name)
        if rest:
            raise ExpressionError(f"Nothing can stand behind {head.name}(...).", rest[0].at)
        if head.name == "findings":
            if len(arguments) > 1 or len(texts) < len(arguments):
                raise ExpressionError("It is written findings('major'), or findings() for all of them.", head.at)
            return names.findings(*texts)
        if head.name not in FUNCTIONS:
            offer = nearest(head.name, [*FUNCTIONS, *FIELDS, "findings"])
            raise ExpressionError(f"There is no function {head.name!r}. {offer}", head.at)
        if names is not self._here:
            sentence = f"baseline stands before a name within {head.name}(...), and not before a function."
            raise ExpressionError(sentence, path[0].at)
        with placed(head.at, "cannot be used here", f"{FUNCTIONS[head.name][0]}: "):
            return self._function(head, arguments, row)

    def _folded(self, names: Namespace, head: PathPart, rest: Sequence[PathPart]) -> Value:
        """A function over a column of the rows of a list that fit its conditions: `steps(kind="x").dur_us.max`."""
        rows = self._list(names, head.name)
        value = self._column(rows, rest[0])
        conditions = [self._condition(rest[1].name, each, rows) for each in head.arguments or ()]
        with placed(rest[1].at, "cannot be used here", f"{FUNCTIONS[rest[1].name][0]}: "):
            return functions.over_rows(rest[1].name, value, both(conditions) if conditions else None)

    def _function(self, head: PathPart, arguments: Sequence[ast.expr], row: Rows | None) -> Value:
        name = head.name
        least, most = _COUNTS.get(name, (1, len(arguments)))
        if not least <= len(arguments) <= most:
            raise ExpressionError(f"{name} is written {FUNCTIONS[name][0]}.", head.at)
        if name in OVER_ROWS:
            return self._over_rows(name, arguments, row)
        if name == "abs":
            return functions.absolute(self.number(arguments[0], row, name))
        if name == "within":
            return functions.within(*(self._single_number(each, row, name) for each in arguments))
        if name == "not_slower":
            return self._not_slower(arguments, row)
        rows = self._whole_list(arguments[0])
        # Where no value has the name, `has` asks for the list.
        if rows is not None and rows.name not in self._here.names:
            return functions.yes_or_no(not rows.why)
        value = self.value(arguments[0], row)
        return functions.yes_or_no(bool(value.known) if value.rows is None else not value.rows.why)

    def _over_rows(self, name: str, arguments: Sequence[ast.expr], row: Rows | None) -> Value:
        """A function of a list or of one of its columns, over the rows for which a condition holds."""
        first, *others = arguments
        rows = self._whole_list(first)
        if name == "count" and rows is not None:
            self._owners[rows].mark_rows_used(rows.name)
            return functions.counted_rows(rows, self._one_condition(name, others, rows))
        value = self.value(first, row)
        if value.rows is None:
            if value.is_number and not others and name in functions.OVER_PARTS and value.sample is not None:
                return functions.over_parts(name, value)
            if value.is_number and name in ("min", "max"):
                return functions.extreme(name, [self._single_number(each, row, name) for each in arguments])
            sentence = f"{name} looks at a list, and {written(first)} is one value; a list is steps.dur_us."
            raise ExpressionError(sentence, first.col_offset)
        return functions.over_rows(name, value, self._one_condition(name, others, value.rows))

    def _one_condition(self, name: str, nodes: Sequence[ast.expr], rows: Rows) -> Value | None:
        if len(nodes) > 1:
            raise ExpressionError("One condition is enough: join several with and.", nodes[1].col_offset)
        return self._condition(name, nodes[0], rows) if nodes else None

    def _condition(self, name: str, node: ast.expr, rows: Rows) -> Value:
        """The answer of a condition for each row of a list."""
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and not node.kind:
            raise ExpressionError(
                f"{name} over a list takes a condition behind the comma. {NO_COMMAS_HINT}", node.col_offset
            )
        value = self.condition(node, rows, f"{name} over a list")
        if value.rows is not rows:
            raise ExpressionError(f"The condition says nothing about the rows of {rows.name}.", node.col_offset)
        return value

    def _whole_list(self, node: ast.expr) -> Rows | None:
        """The list that is the first argument of a function; None for anything else."""
        if not (path := path_of(node)):
            return None
        names, parts = self._names(path)
        return self._list(names, parts[0].name) if _is_name(parts) and parts[0].name in names.lists else None

    def _single_number(self, node: ast.expr, row: Rows | None, taker: str) -> Value:
        value = self.number(node, row, taker)
        if value.rows is not None:
            raise ExpressionError(f"{taker} takes single values, and {written(node)} is a list.", node.col_offset)
        return value

    def _not_slower(self, arguments: Sequence[ast.expr], row: Rows | None) -> Value:
        """The answer to whether a name of the trace is not above that of the baseline by more than noise."""
        node, *tolerances = arguments
        if not (isinstance(self._there, TraceNames) and isinstance(self._here, TraceNames)):
            raise ExpressionError("not_slower needs something to compare with: --baseline TRACE.", node.col_offset)
        path = path_of(node)
        if row is not None or not path or path[0].name == BASELINE:
            raise ExpressionError(
                "not_slower takes a name of the trace, such as dur_us, and looks it up in both.", node.col_offset
            )
        here, there = self._here.side, self._there.side
        new, old = (each.number(node, None, "not_slower") for each in (self, Evaluator(self._there)))
        if here.part_kind != there.part_kind:
            kinds = f"{here.name} has {here.part_kind}s and the baseline {there.part_kind}s"
            return answer(UNKNOWN, f"The two cannot be compared: {kinds}.")
        if new.rows is not None or any(value.sample is None for value in (new, old) if value.known.any()):
            text = written(node)
            raise ExpressionError(
                f"not_slower compares what is measured of every step, which {text} is not; "
                f"write {text} <= baseline.{text} + 5%.",
                node.col_offset,
            )
        tolerance = self._single_number(tolerances[0], None, "not_slower") if tolerances else self._tolerance
        ranges = []
        for each in other_steps(there, here):
            sample = Evaluator(TraceNames(each.side)).number(node, None, "not_slower").sample
            ranges += [] if sample is None or len(sample) < MIN_OTHER_STEPS else [float(np.ptp(sample))]
        ticks = [shared_tick(here.trace, there.trace, on_gpu) for on_gpu in (True, False)]
        return not_slower(new, old, tolerance, max(ranges, default=float("nan")), max(ticks) / 1000)


def _is_fold(parts: Sequence[PathPart]) -> bool:
    """True where the parts are a column and a function over rows: `dur_us.median`."""
    return len(parts) == 2 and all(each.is_plain for each in parts) and parts[1].name in FOLDS


def _is_name(parts: Sequence[PathPart]) -> bool:
    return len(parts) == 1 and parts[0].is_plain


@contextmanager
def _unknown_names_at(part: PathPart, whole: str) -> Iterator[None]:
    """Turns an unknown name into an `ExpressionError` at its position."""
    try:
        yield
    except UnknownName as unknown:
        raise ExpressionError(f"There is no {whole!r}. {unknown}", part.at) from None


# A number beside that of a baseline: above it by more than noise, or not.
#
# The noise is that of `compare`: of the parts, else of the other steps of the files, else assumed.

ONE_EACH = (
    f"With one part on each side the noise is unknown, and {100 * ASSUMED_NOISE:g} % is assumed. "
    "Record several steps, or set the allowed difference with --tolerance."
)
SCATTERS = (
    "The difference of {amount} is within the noise of {noise}: record more steps, or allow more with --tolerance."
)


def not_slower(
    new: Value, old: Value, tolerance: Value | None, range: float = float("nan"), tick_us: float = 0.0
) -> Value:
    """The answer to whether the median of a sample is not above that of the baseline; unknown within noise.

    A difference no larger than the tolerance (in the unit of the numbers, or as a percentage of the baseline) is
    accepted. `range` is that of other steps where both sides are single steps; NaN where it is unknown. `tick_us` is
    what the clocks of both can tell apart. Raises: UnitError for a tolerance of another unit.
    """
    if new.sample is None or old.sample is None or not (len(new.sample) and len(old.sample)):
        return answer(UNKNOWN, old.why or new.why)
    counts = new.unit.kind == "count"
    tick = tick_us * factor(MICROS, new.unit) if new.unit.powers == MICROS.powers else 0.0
    change = difference(old.sample, new.sample, exact=counts, tick=tick, others=float("nan") if counts else range)
    is_assumed, of_others = change.is_assumed, not counts and change.noise == range
    base = abs(change.a.median)
    allowed = None
    if tolerance is not None:
        is_share = tolerance.unit.kind == "share" and new.unit.kind != "share"
        allowed = tolerance.one * (base * tolerance.unit.scale if is_share else factor(tolerance.unit, new.unit))
    noise = 0.0 if is_assumed and allowed is not None else change.limit
    is_allowed = allowed is not None and change.delta <= allowed and (noise <= allowed or change.delta > noise)
    if change.change in (Change.SAME, Change.LESS) or is_allowed or (is_assumed and change.delta <= 0):
        result = YES
    else:
        result = NO if change.delta > noise else UNKNOWN
    ratio = (f"({100 * (change.ratio - 1):+.1f} %)",) if np.isfinite(change.ratio) else ()
    wanted: list[Piece] = ["<=", Amount(change.a.median, new.unit)]
    if tolerance:
        wanted += ["+", Amount(tolerance.one, tolerance.unit)]
    if noise:
        origin = "of other steps )" if of_others else f", assumed {100 * ASSUMED_NOISE:g} % )" if is_assumed else ")"
        wanted += ["(noise", Amount(noise, new.unit), origin]
    why = ""
    if result == UNKNOWN:
        shares = (percent(100 * each / base) if base else f"{each:g}" for each in (abs(change.delta), noise))
        why = ONE_EACH if is_assumed else SCATTERS.format(**dict(zip(("amount", "noise"), shares, strict=True)))
    actual = (Amount(change.b.median, new.unit), *ratio)
    return replace(answer(result, why, actual, wanted), undecided=result == UNKNOWN)
