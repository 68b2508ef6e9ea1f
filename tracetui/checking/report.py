"""The result of a check: its assertions with their outcomes, and what limits the numbers.

An assertion about a trace holds, fails, misses a value, or is within noise.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tracetui.checking.evaluate import Evaluator
from tracetui.checking.functions import names_selected_from
from tracetui.checking.lists import measured
from tracetui.checking.namespace import touching
from tracetui.checking.parser import parsed, sign_of, words_of, written
from tracetui.checking.tree_evaluator import (
    MIRRORED,
    both,
    deciding_value,
    either,
    first_offenders,
    matcher,
    nearest_part,
    opposite,
    shared_unit,
)
from tracetui.checking.values import (
    ANSWER,
    LITERALS,
    NO,
    NO_OFFENDERS,
    TEXT,
    UNKNOWN,
    YES,
    Amount,
    ExpressionError,
    Offender,
    Offenders,
    Piece,
    Value,
    factor,
    in_every,
)
from tracetui.comparing.fairness import is_same, unfair
from tracetui.comparing.measures import Measure
from tracetui.comparing.side import Side
from tracetui.errors import AnalysisFailed, UsageError
from tracetui.frozen import frozen
from tracetui.model.results import Failures, guarded
from tracetui.model.trace import Trace

_OPPOSITES: dict[tuple[Piece, ...], tuple[Piece, ...]] = {
    ("yes",): ("no",),
    ("at least one",): ("none",),
    ("all",): ("not all",),
}
"""Wanted answers with their negations."""


@frozen(eq=True)
class Leaf:
    """A comparison or an answer of an assertion, with the actual and the wanted value."""

    text: str
    answer: int
    """YES, NO or UNKNOWN."""
    actual: tuple[Piece, ...] = ()
    """The value in the trace, empty where it is unknown."""
    wanted: tuple[Piece, ...] = ()
    offenders: Offenders = NO_OFFENDERS
    """The rows of a list, or the steps, that decide it."""
    each: NDArray[np.int8] | None = field(default=None, compare=False)
    """Of a count the answer in every step."""

    example: Offender | None = field(default=None, compare=False)
    """Of a number of every step, the step whose number is nearest to that of the trace."""

    @property
    def blamed(self) -> Offenders:
        """The rows for which it does not hold; none where it holds."""
        return self.offenders if self.answer == NO else NO_OFFENDERS


def _of_chain(text: str, answer: Value, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    """A comparison, with the value that the trace decides; a chain with all its values."""
    deciding, steps = list(values), NO_OFFENDERS
    for index, value in enumerate(values):
        if index < len(signs):
            sign, other = signs[index], values[index + 1]
        else:
            sign, other = MIRRORED.get(signs[-1], signs[-1]), values[index - 1]
        deciding[index], parts = deciding_value(value, sign, answer, other)
        steps = steps if steps.first else parts
    known = [value for value in deciding if value.is_number and value.known.all()]
    # Counted rows explain a number only where another value is smaller.
    based = [value.one * value.unit.scale for value in known]
    rows = [
        value.offenders
        for value, amount in zip(known, based, strict=True)
        if not value.offenders.only_above or amount > min(based)
    ]
    leaf = _of_values(text, int(answer.one), deciding, signs)
    example = next(filter(None, map(nearest_part, values)), None)
    return replace(leaf, offenders=first_offenders([steps, *rows]), each=answer.each, example=example)


def _of_values(text: str, answer: int, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    """A comparison of single values."""
    open_ones = [index for index, value in enumerate(values) if not value.fixed]
    if len(values) == 2:
        a, b, sign = *values, signs[0]
        if a.fixed and not b.fixed and sign in MIRRORED:
            a, b, sign = b, a, MIRRORED[sign]
        actual, wanted = _side_by_side(a, b)
        return Leaf(text, answer, actual, (sign, *wanted) if wanted else ())
    if len(values) == 3 and open_ones == [1] and signs[0] in MIRRORED:
        actual, low = _side_by_side(values[1], values[0])
        _, high = _side_by_side(values[1], values[2])
        return Leaf(text, answer, actual, (MIRRORED[signs[0]], *low, "and", signs[1], *high))
    pieces = [piece for value in values for piece in (*(_pieces(value)[:1] or ("–",)), ",")][:-1]
    return Leaf(text, answer, tuple(pieces), (" ".join(signs),))


def _negated(leaf: Leaf) -> Leaf:
    """The leaf behind a `not`."""
    if leaf.each is not None:
        answer = int(in_every(np.where(leaf.each < 0, leaf.each, 1 - leaf.each).astype(np.int8), None).one)
    else:
        answer = leaf.answer if leaf.answer < 0 else 1 - leaf.answer
    opposites = _OPPOSITES.get(leaf.wanted, ("not", *leaf.wanted))
    return replace(leaf, text=f"not {leaf.text}", answer=answer, wanted=opposites)


def _side_by_side(a: Value, b: Value) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two values for output, numbers in one unit: that of the literal, where one is."""
    if not (a.is_number and b.is_number):
        return _pieces(a), _pieces(b)
    unit = b.unit if b.fixed and b.unit.kind != "bare" else shared_unit(a, b)
    left, right = (
        (Amount(value.one * factor(value.unit, unit), unit),) if value.known.all() else () for value in (a, b)
    )
    return left, right


def _pieces(value: Value) -> tuple[Piece, ...]:
    """One value for output; nothing for an unknown one."""
    if not value.known.all():
        return ()
    if value.unit == TEXT:
        return (f'"{value.text}"',)
    if value.unit == ANSWER:
        return ("yes" if value.one == YES else "no",)
    return (Amount(value.one, value.unit),)


class Status(Enum):
    """Outcome of an assertion."""

    HOLDS = "holds"
    FAILS = "fails"
    MISSING = "missing"
    """The trace does not hold a value that the assertion needs."""
    UNDECIDED = "cannot tell"
    """A difference from the baseline within noise."""
    ERROR = "error"
    """An analysis that it rests on failed because of a defect."""


@frozen(eq=True)
class CheckOutcome:
    """One assertion and its outcome."""

    expression: str
    status: Status
    leaves: tuple[Leaf, ...] = ()
    """The comparisons that decide it."""
    why: str = ""
    """The reason why it has no answer, as a sentence."""
    is_compound: bool = False
    """True where it joins several comparisons, of which the leaves are some."""


@frozen(eq=True)
class Assertion:
    """A parsed expression."""

    text: str
    tree: ast.expr = field(compare=False)
    source: str = field(default="", compare=False)
    """Its file and line, as `limits.txt, line 3`; empty for the command line."""


def assertion(text: str, source: str = "") -> Assertion:
    """Parses an assertion, without the spaces and the comment around it.

    Raises: ExpressionError for what is no expression.
    """
    text = text.strip()
    with _completed(text, source):
        return Assertion(text[: words_of(text)[-1].at].rstrip(), parsed(text), source)


def checked(assertions: Sequence[Assertion], evaluator: Evaluator) -> list[CheckOutcome]:
    """The outcomes of assertions, in their order.

    Raises: ExpressionError for names that do not exist and for what is no assertion, with all further errors.
    """
    outcomes, errors = [], []
    for each in assertions:
        try:
            with _completed(each.text, each.source), guarded("The answer"):
                outcomes.append(_outcome(each, evaluator))
        except ExpressionError as error:
            errors.append(error)
        except AnalysisFailed as failure:
            outcomes.append(CheckOutcome(each.text, Status.ERROR, (), str(failure)))
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    return outcomes


def whole_file(trace: Trace) -> CheckOutcome | None:
    """The assertion that no part of the file is lost, where some is; None where none is."""
    if not (loss := trace.quality.loss):
        return None
    why = f"{trace.label} {loss}; all numbers cover only a part."
    return CheckOutcome("the file is whole", Status.MISSING, (), why)


@contextmanager
def _completed(text: str, source: str) -> Iterator[None]:
    """Adds the expression and its source to an error."""
    try:
        yield
    except ExpressionError as error:
        error.text, error.source = text, source
        raise


def _outcome(each: Assertion, evaluator: Evaluator) -> CheckOutcome:
    answer, leaves = _judged(each.tree, evaluator)
    joined = isinstance(each.tree, ast.BoolOp)
    if answer.one == UNKNOWN:
        status = Status.UNDECIDED if answer.undecided else Status.MISSING
        return CheckOutcome(each.text, status, tuple(leaves), answer.why, joined)
    return CheckOutcome(each.text, Status.HOLDS if answer.one == YES else Status.FAILS, tuple(leaves), "", joined)


def _judged(node: ast.expr, evaluator: Evaluator) -> tuple[Value, list[Leaf]]:
    """The answer of a condition, and the comparisons that decide it."""
    if isinstance(node, ast.BoolOp):
        is_or = isinstance(node.op, ast.Or)
        judged = [_judged(each, evaluator) for each in node.values]
        answer = (either if is_or else both)([each for each, _ in judged])
        decided = YES if is_or else NO
        decisive = {decided: {decided}, UNKNOWN: {UNKNOWN}}.get(int(answer.one), {YES, NO})
        deciding = [leaf for each, leaves in judged if each.one in decisive for leaf in leaves]
        # Of counts each step may have another reason.
        return answer, deciding or [leaf for _, leaves in judged for leaf in leaves]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        answer, leaves = _judged(node.operand, evaluator)
        return opposite(answer), [_negated(leaf) for leaf in leaves]
    text = written(node)
    if isinstance(node, ast.Compare):
        answer, values = evaluator.compared(node)
    else:
        answer = evaluator.value(node)
        if answer.unit != ANSWER:
            sentence = f"{text} is a value, and an assertion compares it with something: {text} == 5. "
            raise ExpressionError(f"{sentence}In a shell it stands in quotes.", node.col_offset)
    if answer.rows is not None:
        sentence = f"{text} has an answer for each row of {answer.rows.name}: write all({text}) or any({text})."
        raise ExpressionError(sentence, node.col_offset)
    if isinstance(node, ast.Compare):
        return answer, [_of_chain(text, answer, values, [*map(sign_of, node.ops)])]
    actual = answer.actual or (("yes" if answer.one == YES else "no",) if answer.known else ())
    leaf = Leaf(text, int(answer.one), actual, answer.wanted or ("yes",), answer.offenders, answer.each)
    return answer, [leaf]


COMPARED = ("dur_us", "cpu_us", "gpu_busy_us", "kernels", "launches")
"""Measures compared with a baseline where no assertions are given."""

SELECTED_NOUNS = {"kernel": "kernel", "copy": "copy or fill", "op": "operator"}
"""Nouns for what each selection by name selects."""
MIN_SIMILARITY = 0.8
"""Minimum similarity of a suggested name, as difflib measures it."""
MAX_NAMED_WARNINGS = 3
"""Maximum warnings named, and maximum names listed per warning."""


@frozen(eq=True)
class CheckReport:
    """The outcomes of a check, in the order of the assertions."""

    side: Side | None
    """The side that was checked, None for a set of ranks."""
    baseline: Side | None
    outcomes: tuple[CheckOutcome, ...]
    unfair: tuple[str, ...] = ()
    """Differences between the trace and the baseline other than the program, as sentences."""
    remarks: tuple[str, ...] = ()
    strict: bool = False
    """True where a difference within noise counts as a failure."""
    name: str = ""
    """The name of what was checked, where that is no side."""
    failures: tuple[str, ...] = ()
    """Sentences about what failed beside the assertions."""

    @property
    def title(self) -> str:
        """The file and the scope, or the folder."""
        return self.name if self.side is None else self.side.name

    def count(self, *statuses: Status) -> int:
        """Number of assertions with one of these outcomes."""
        return sum(outcome.status in statuses for outcome in self.outcomes)

    @property
    def passes(self) -> bool:
        """True where no assertion fails or ends in an error and no value is missing; if `strict`, all are certain."""
        bad = (Status.FAILS, Status.MISSING, Status.ERROR, *((Status.UNDECIDED,) if self.strict else ()))
        return self.count(*bad) == 0


def report(
    side: Side,
    assertions: Sequence[Assertion],
    baseline: Side | None = None,
    tolerance: str | None = None,
    strict: bool = False,
) -> CheckReport:
    """Check assertions about a side; `tolerance` is the allowed difference, a percentage or a value with a unit.

    Raises: ExpressionError for names that do not exist, UsageError for an invalid tolerance.
    """
    margin = tolerance_of(tolerance) if tolerance is not None else None
    evaluator = Evaluator(side, baseline, margin)
    outcomes = checked(assertions, evaluator)
    cut = [whole_file(each.trace) for each in (side, baseline) if each is not None]
    sides = zip((side, baseline), evaluator.used, strict=True)
    failures = Failures()

    def sentences(make: Callable[[], Iterable[str]]) -> list[str]:
        return failures.make_or("A remark", lambda: list(make()), lambda sentence: [sentence])

    remarks = [remark for each, used in sides if each for remark in sentences(partial(_remarks, each, used))]
    remarks += sentences(
        partial(_unmatched, evaluator.selections, [each for each in (side, baseline) if each is not None])
    )
    return CheckReport(
        side,
        baseline,
        (*outcomes, *dict.fromkeys(outcome for outcome in cut if outcome)),
        tuple(sentences(partial(_doubts_of_comparison, baseline, side))) if baseline else (),
        tuple(dict.fromkeys(remarks)),
        strict,
        failures=failures.sentences,
    )


def beside(name: str) -> Assertion:
    """The assertion that a measure is not above the baseline.

    Raises: ExpressionError for what is no name.
    """
    return assertion(f"not_slower({written(parsed(name))})")


def usual(side: Side, baseline: Side) -> list[Assertion]:
    """The default assertions against a baseline, for measures that at least one side has."""
    both = (measured(side), measured(baseline))

    def is_absent(known: Mapping[str, Measure], name: str) -> bool:
        # One that failed is asked for: the answer is an error.
        return name in known and bool(np.isnan(known[name].values).all())

    return [beside(name) for name in COMPARED if not all(is_absent(each, name) for each in both)]


def tolerance_of(text: str) -> Value:
    """A tolerance as written on the command line: `5%`, or a value with a unit.

    Raises: UsageError for anything else.
    """
    tree = parsed(text)
    if not (isinstance(tree, ast.Constant) and isinstance(tree.value, float) and tree.kind):
        raise UsageError(f"A tolerance is a percentage such as 5%, or a value with its unit, and not {text!r}.")
    return Value(np.array(tree.value), LITERALS[tree.kind], fixed=True)


def _doubts_of_comparison(baseline: Side, side: Side) -> list[str]:
    """Reasons why a comparison with the baseline says less than it seems to, the most serious first."""
    doubts = unfair(baseline, side, ("the baseline", "this trace"))
    # Short recordings of two devices may agree in all their times.
    if not doubts and is_same(baseline, side):
        return ["The baseline is the same recording: nothing can differ."]
    return doubts


def _remarks(side: Side, used: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Warnings about the numbers of a side; `used` holds the columns behind every name in use."""
    remarks = [side.remark] if side.remark else []
    if guessed := side.inferred():
        remarks.append(
            f"{guessed:,} GPU activities of {side.name} have no launch record and are placed by their start."
        )
    if bad := touching(side.trace, used):
        named = []
        for check, names in bad[:MAX_NAMED_WARNINGS]:
            others = ", ..." if len(names) > MAX_NAMED_WARNINGS else ""
            named.append(f"{check.name} ({', '.join(names[:MAX_NAMED_WARNINGS])}{others})")
        more = f"; {len(bad) - MAX_NAMED_WARNINGS} more" if len(bad) > MAX_NAMED_WARNINGS else ""
        title = side.trace.label
        remarks.append(f"Numbers of {title} have warnings, see `tracetui show health`: {'; '.join(named)}{more}.")
    return remarks


def _unmatched(selections: Sequence[tuple[str, str]], sides: Sequence[Side]) -> Iterator[str]:
    """A sentence about each pattern that matches nothing in any of the traces, perhaps because it is misspelt."""
    for kind, pattern in selections:
        names = set().union(*(names_selected_from(each, kind) for each in sides))
        if not names or any(map(matcher(pattern, whole=kind == "op"), names)):
            continue
        noun, where = SELECTED_NOUNS[kind], " or ".join(dict.fromkeys(each.trace.label for each in sides))
        similar = difflib.get_close_matches(pattern, sorted(names), 1, MIN_SIMILARITY)
        meant = f" Did you mean {similar[0]}?" if similar else ""
        yield f"No {noun} of {where} matches {pattern!r}, so that its counts are 0.{meant}"
