"""From the tree of an expression to its value in a trace, by walking the tree; no code is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tracetui.checking import functions, tree_evaluator
from tracetui.checking.functions import FUNCTIONS, OVER_ROWS, SELECTIONS
from tracetui.checking.namespace import Namespace, Unknown
from tracetui.checking.parser import Figure, Node, Path, PathPart, Quoted, written
from tracetui.checking.tree_evaluator import TreeEvaluator, placed
from tracetui.checking.values import (
    NO,
    NO_COMMAS_HINT,
    UNKNOWN,
    YES,
    Amount,
    Listing,
    Mistake,
    Number,
    Piece,
    Rows,
    Truth,
    Value,
    factor,
    nearest,
    truth,
)
from tracetui.comparing.noise import MAX_STEADY_SCATTER, Change, Difference, difference
from tracetui.comparing.side import STEP, Side
from tracetui.comparing.side import side as side_of
from tracetui.model.quantities import percent
from tracetui.model.trace import Float64

# Whether a number is above that of a baseline by more than noise.
#
# One number on each side says nothing about noise. Where both sides are single steps, the other complete steps of
# their files give it: the range from the smallest to the largest, since single steps differ more than medians do, and
# two of them easily differ by the distance between the quartiles.

MIN_OTHER_STEPS = 3
"""Minimum other steps from which noise is taken."""
_SCOPE = "\0steps without "
"""Start of a scope that no user can write, so that what is kept of these steps has a key of its own."""


def other_steps(of: Side, beside: Side) -> Side | None:
    """The complete steps of the file of one step, without this step and the step it is compared with.

    None where they are too few, and where either side is anything but one step.
    """
    if not (_is_one_step(of) and _is_one_step(beside)):
        return None
    left_out = sorted({int(each.row[0]) for each in (of, beside) if each.trace is of.trace})
    every = side_of(of.trace)
    kept = ~np.isin(every.row, left_out)
    if kept.sum() < MIN_OTHER_STEPS:
        return None
    row, start, end, number = (array[kept] for array in (every.row, every.start, every.end, every.number))
    return Side(of.trace, f"{_SCOPE}{left_out}", STEP, row, start, end, number)


def _is_one_step(of: Side) -> bool:
    """Whether a side is a single step."""
    return of.part_kind == STEP and len(of) == 1


def reach(sample: Float64 | None) -> float:
    """Range of the values of other steps; NaN where too few of them have a value."""
    return float(np.ptp(sample)) if sample is not None and len(sample) >= MIN_OTHER_STEPS else float("nan")


ONE_EACH = (
    "With one part on each side the noise is unknown, and {share} % is assumed. "
    "Record several steps, or set the allowed difference with --tolerance."
)
SCATTERS = (
    "The difference of {amount} is within the noise of {noise}: record more steps, or allow more with --tolerance."
)


@dataclass(frozen=True)
class _Borrowed(Difference):
    """The difference of two single steps, with noise from the other steps of their files."""

    reach: float = 0.0

    @property
    def noise(self) -> float:
        """Range of the other steps."""
        return self.reach


def not_slower(new: Number, old: Number, tolerance: Number | None, reach: float = float("nan")) -> Truth:
    """Whether the median of a sample is not above that of the baseline; unknown where the difference is within noise.

    A difference no larger than the tolerance (in the unit of the numbers, or as a percentage of the baseline) is
    accepted. `reach` is the range of other steps where both sides are single steps; NaN where it is unknown. Raises:
    Misfit for a tolerance of another unit.
    """
    if new.sample is None or old.sample is None or not (len(new.sample) and len(old.sample)):
        return truth(UNKNOWN, old.why or new.why)
    counts = new.unit.kind == "count"
    seen = difference(old.sample, new.sample, exact=counts)
    borrowed = bool(np.isnan(seen.noise)) and not counts and reach == reach
    if borrowed:
        seen = _Borrowed(seen.a, seen.b, counts, reach)
    alone = bool(np.isnan(seen.noise)) and not counts
    allowed = None if tolerance is None else _allowed(seen, new, tolerance)
    guess = MAX_STEADY_SCATTER * abs(seen.a.median) if alone and allowed is None else 0.0
    noise = guess if alone else float(np.nan_to_num(seen.noise))
    answer = _answer(seen, noise, allowed)
    found = (Amount(seen.b.median, new.unit), *_change(seen))
    wanted: tuple[Piece, ...] = ("<=", Amount(seen.a.median, new.unit))
    wanted += ("+", tolerance.amount) if tolerance else ()
    origin = "of other steps )" if borrowed else f", assumed {100 * MAX_STEADY_SCATTER:g} % )" if alone else ")"
    wanted += ("(noise", Amount(noise, new.unit), origin) if noise else ()
    why = ""
    if answer == UNKNOWN:
        amount, scatter = _share(abs(seen.delta), seen), _share(noise, seen)
        why = (
            ONE_EACH.format(share=f"{100 * MAX_STEADY_SCATTER:g}")
            if alone
            else SCATTERS.format(amount=amount, noise=scatter)
        )
    return Truth(np.array(answer, np.int8), None, why, found, wanted, undecided=answer == UNKNOWN)


def _answer(seen: Difference, noise: float, allowed: float | None) -> int:
    if seen.change in (Change.SAME, Change.LESS):
        return YES
    if allowed is not None and seen.delta <= allowed and (noise <= allowed or seen.delta > noise):
        return YES
    return NO if seen.delta > noise else UNKNOWN


def _allowed(seen: Difference, of: Number, tolerance: Number) -> float:
    """The tolerance in the unit of the numbers."""
    if tolerance.unit.kind == "share" and of.unit.kind != "share":
        return abs(seen.a.median) * tolerance.one * tolerance.unit.scale
    return tolerance.one * factor(tolerance.unit, of.unit)


def _change(seen: Difference) -> tuple[Piece, ...]:
    return (f"({100 * (seen.ratio - 1):+.1f} %)",) if np.isfinite(seen.ratio) else ()


def _share(amount: float, seen: Difference) -> str:
    base = abs(seen.a.median)
    return percent(100 * amount / base) if base else f"{amount:g}"


STEP_USE = "A step is written step[3].dur_us, with its number and a name of it."
FOLD_USE = "Rows of a list are written {name}(COLUMN=VALUE).COLUMN.median, or mean, min, max, sum, p95, p99, count."
FOLDS = ("sum", "min", "max", "mean", "median", "p95", "p99", "count")
"""Functions that may stand behind a column of a list."""
BASELINE = "baseline"
"""Prefix of names that are looked up in the baseline trace."""


class Evaluator(TreeEvaluator):
    """Evaluates expressions in a trace, and in a baseline where there is one."""

    def __init__(self, of: Side, baseline: Side | None = None, tolerance: Number | None = None) -> None:
        self._here = Namespace(of)
        self._there = Namespace(baseline, "the baseline", each=False) if baseline else None
        self._tolerance = tolerance
        self._lists: dict[Rows, tuple[Namespace, Listing]] = {}

    @property
    def used(self) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]:
        """The names that were looked up in the trace and in the baseline, with the columns behind each."""
        return self._here.used, self._there.used if self._there else {}

    @property
    def selections(self) -> list[tuple[str, str]]:
        """The kinds and patterns by which something was selected in the trace or the baseline."""
        return list(self._here.selections | (self._there.selections if self._there else {}))

    def path_value(self, path: Path, row: Listing | None) -> Value:
        """The value of a name of the trace, of a column of a list, or of a call.

        Raises: Mistake for a name that does not exist.
        """
        names, parts = self._names(path)
        head, rest = parts[0], parts[1:]
        with _named(head if len(parts) == 1 else rest[0], written(path)):
            if head.arguments is not None:
                return self._called(names, head, rest, row, path)
            if head.index is not None or (head.name == "step" and rest):
                if head.index is None or head.name != "step" or not _plain(rest):
                    raise Mistake(STEP_USE, head.at)
                return names.of_step(head.index, rest[0].name)
            if not rest:
                return self._single(names, head, row if parts is path.parts else None)
            if head.name in names.lists and _is_fold(rest):
                return self._folded(names, head, rest)
            if not _plain(rest):
                raise Mistake(f"{written(Path(rest))} cannot stand behind {head.name}.", rest[0].at)
            if head.name == "summary":
                return names.summary(rest[0].name)
            if head.name in names.lists:
                count = names.count_of(head.name, rest[0].name)
                return self._column(self._list(names, head.name), rest[0]) if count is None else count
            if head.name in names.names:
                raise Mistake(f"{head.name} is one value: nothing can stand behind it.", rest[0].at)
            known = [*names.lists, "summary", BASELINE, "step[3]", *(f"{each}('...')" for each in SELECTIONS)]
            raise Mistake(f"There is no {head.name!r} with parts. {nearest(head.name, known)}", head.at)

    def _names(self, path: Path) -> tuple[Namespace, tuple[PathPart, ...]]:
        """The namespace that a path belongs to, and the path without the prefix `baseline`."""
        head = path.parts[0]
        if head.name != BASELINE:
            return self._here, path.parts
        if not _plain((head,)) or len(path.parts) == 1:
            raise Mistake("baseline stands before a name: baseline.dur_us.", head.at)
        if self._there is None:
            raise Mistake(f"{written(path)} needs a baseline: --baseline TRACE.", head.at)
        return self._there, path.parts[1:]

    def _single(self, names: Namespace, part: PathPart, row: Listing | None) -> Value:
        """The value of a name that stands alone: a column where rows are looked at, else a value of the trace."""
        if row is not None:
            return self._column(row, part)
        try:
            return names.bare(part.name)
        except Unknown:
            if part.name in names.lists:
                hint = f"{part.name} is a list: write count({part.name}), or a function of a column of it."
            elif part.name in FUNCTIONS:
                hint = f"{part.name} is a function: {FUNCTIONS[part.name].use}."
            elif part.name in SELECTIONS:
                hint = f"Write {part.name}('NAME').calls."
            elif part.name == "step":
                hint = STEP_USE
            elif part.name in ("true", "false"):
                hint = "A condition is true by itself, and false with the word not before it."
            else:
                raise
            raise Mistake(hint, part.at) from None

    def _list(self, names: Namespace, name: str) -> Listing:
        found_list = names.listing(name)
        self._lists[found_list.rows] = names, found_list
        return found_list

    def _column(self, of: Listing, part: PathPart) -> Value:
        if part.name not in of.columns:
            offer = nearest(part.name, of.columns)
            raise Mistake(f"{of.rows.name} has no column {part.name!r}. {offer}", part.at)
        return self._lists[of.rows][0].column(of, part.name)

    def _called(
        self, names: Namespace, head: PathPart, rest: tuple[PathPart, ...], row: Listing | None, path: Path
    ) -> Value:
        given = head.arguments or ()
        if head.name in names.lists and head.name != "findings":
            if not _is_fold(rest):
                raise Mistake(FOLD_USE.format(name=head.name), head.at)
            return self._folded(names, head, rest)
        if head.name in SELECTIONS:
            if len(given) != 1 or not isinstance(given[0], Quoted) or not _plain(rest):
                raise Mistake(f"It is written {head.name}('NAME').calls, with the name in quotes.", head.at)
            return names.selected(head.name, given[0].text, rest[0].name)
        if rest:
            raise Mistake(f"Nothing can stand behind {head.name}(...).", rest[0].at)
        if head.name == "findings":
            if len(given) > 1 or (given and not isinstance(given[0], Quoted)):
                raise Mistake("It is written findings('major'), or findings() for all of them.", head.at)
            return names.findings(*(each.text for each in given if isinstance(each, Quoted)))
        if head.name not in FUNCTIONS:
            known = [*FUNCTIONS, *SELECTIONS, "findings"]
            raise Mistake(f"There is no function {head.name!r}. {nearest(head.name, known)}", head.at)
        if names is not self._here:
            raise Mistake(f"baseline stands before a name within {head.name}(...), and not before a function.", path.at)
        with placed(head.at, "cannot be used here", f"{FUNCTIONS[head.name].use}: "):
            return self._function(head, given, row)

    def _folded(self, names: Namespace, head: PathPart, rest: tuple[PathPart, ...]) -> Value:
        """A function over a column of the rows of a list that fit its conditions: `steps(kind="x").dur_us.max`."""
        rows = self._list(names, head.name)
        value = self._column(rows, rest[0])
        found = [self._condition(rest[1].name, [each], rows) for each in head.arguments or ()]
        conditions = [each for each in found if each is not None]
        condition = tree_evaluator.both(conditions) if conditions else None
        with placed(rest[1].at, "cannot be used here", f"{FUNCTIONS[rest[1].name].use}: "):
            return functions.over_rows(rest[1].name, value, condition)

    def _function(self, head: PathPart, given: tuple[Node, ...], row: Listing | None) -> Value:
        name, use = head.name, FUNCTIONS[head.name].use
        least, most = _COUNTS.get(name, (1, len(given)))
        if not least <= len(given) <= most:
            raise Mistake(f"{name} is written {use}.", head.at)
        if name in OVER_ROWS:
            return self._over_rows(name, given, row)
        if name == "abs":
            return functions.absolute(self.given(Number, given[0], row, name))
        if name == "within":
            return functions.within(*(self._single_number(each, row, name) for each in given))
        if name == "has":
            return self._has(given[0], row)
        return self._not_slower(given, row)

    def _has(self, node: Node, row: Listing | None) -> Truth:
        """Whether a value is known, or, where no value has the name, whether a list is."""
        whole = self._whole_list(node)
        if whole is not None and whole.rows.name not in self._here.names:
            return functions.known(Truth(np.zeros(whole.rows.count, np.int8), whole.rows))
        return functions.known(self.value(node, row))

    def _over_rows(self, name: str, given: tuple[Node, ...], row: Listing | None) -> Value:
        """A function of a list or of one of its columns, over the rows for which a condition holds."""
        whole = self._whole_list(given[0])
        if name == "count" and whole is not None:
            rows = self._lists[whole.rows][0].rows(whole.rows.name)
            return functions.counted_rows(rows, self._condition(name, given[1:], whole))
        value = self.value(given[0], row)
        if isinstance(value, Number) and len(given) == 1 and functions.is_of_parts(name, value):
            return functions.over_parts(name, value)
        if value.rows is None and name in ("min", "max") and isinstance(value, Number):
            return functions.chosen(name, [self._single_number(each, row, name) for each in given])
        if value.rows is None:
            raise Mistake(
                f"{name} looks at a list, and {written(given[0])} is one value; a list is steps.dur_us.", given[0].at
            )
        return functions.over_rows(name, value, self._condition(name, given[1:], self._lists[value.rows][1]))

    def _condition(self, name: str, given: Sequence[Node], of: Listing) -> Truth | None:
        """For which rows of a list a condition holds."""
        if not given:
            return None
        if len(given) > 1:
            raise Mistake("One condition is enough: join several with and.", given[1].at)
        if isinstance(given[0], Figure) and not given[0].unit:
            raise Mistake(f"{name} over a list takes a condition behind the comma. {NO_COMMAS_HINT}", given[0].at)
        answer = self.given(Truth, given[0], of, f"{name} over a list")
        if answer.rows is not of.rows:
            raise Mistake(f"The condition says nothing about the rows of {of.rows.name}.", given[0].at)
        return answer

    def _whole_list(self, node: Node) -> Listing | None:
        """The list that is the first argument of a function; None for anything else."""
        if not isinstance(node, Path):
            return None
        names, parts = self._names(node)
        if len(parts) == 1 and _plain(parts) and parts[0].name in names.lists:
            return self._list(names, parts[0].name)
        return None

    def _single_number(self, node: Node, row: Listing | None, taker: str) -> Number:
        value = self.given(Number, node, row, taker)
        if value.rows is not None:
            raise Mistake(f"{taker} takes single values, and {written(node)} is a list.", node.at)
        return value

    def _not_slower(self, given: tuple[Node, ...], row: Listing | None) -> Truth:
        if self._there is None:
            raise Mistake("not_slower needs something to compare with: --baseline TRACE.", given[0].at)
        if row is not None or not isinstance(given[0], Path) or given[0].parts[0].name == BASELINE:
            raise Mistake("not_slower takes a name of the trace, such as dur_us, and looks it up in both.", given[0].at)
        beyond = Evaluator(self._there.side)
        beyond._here = self._there
        new, old = (each.given(Number, given[0], None, "not_slower") for each in (self, beyond))
        if self._here.side.part_kind != self._there.side.part_kind:
            here, there = self._here.side, self._there.side
            kinds = f"{here.name} has {here.part_kind}s and the baseline {there.part_kind}s"
            return truth(UNKNOWN, f"The two cannot be compared: {kinds}.")
        known = [value for value in (new, old) if not np.isnan(value.values).all()]
        if new.rows is not None or any(value.sample is None for value in known):
            raise Mistake(
                f"not_slower compares what is measured of every step, which {written(given[0])} is not; "
                f"write {written(given[0])} <= baseline.{written(given[0])} + 5%.",
                given[0].at,
            )
        tolerance = self._single_number(given[1], None, "not_slower") if len(given) > 1 else self._tolerance
        return not_slower(new, old, tolerance, self._reach(given[0], self._there))

    def _reach(self, name: Path, there: Namespace) -> float:
        """Range of single steps by the other steps of the files, where each side is one step; else NaN."""
        here, ranges = self._here.side, []
        for of, beside in ((here, there.side), (there.side, here)):
            others = other_steps(of, beside)
            if others is not None:
                ranges.append(reach(Evaluator(others).given(Number, name, None, "not_slower").sample))
        known = [each for each in ranges if each == each]
        return max(known, default=float("nan"))


_COUNTS = {"abs": (1, 1), "has": (1, 1), "within": (3, 3), "not_slower": (1, 2)}
"""Minimum and maximum number of arguments; other functions take a list and a condition, or several values."""


def _is_fold(parts: Sequence[PathPart]) -> bool:
    """Whether the parts are a column and a function over rows: `dur_us.median`."""
    return len(parts) == 2 and all(_plain([each]) for each in parts) and parts[1].name in FOLDS


def _plain(parts: Sequence[PathPart]) -> bool:
    """Whether the parts are one name without index and arguments."""
    return len(parts) == 1 and parts[0].index is None and parts[0].arguments is None


@contextmanager
def _named(part: PathPart, whole: str) -> Iterator[None]:
    """Turns an unknown name into a `Mistake` at its position."""
    try:
        yield
    except Unknown as unknown:
        raise Mistake(f"There is no {whole!r}. {unknown}", part.at) from None
