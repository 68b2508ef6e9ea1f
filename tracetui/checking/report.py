"""The result of a check: its assertions with their outcomes, and what limits the numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tracetui.checking.evaluate import Evaluator
from tracetui.checking.functions import names_selected_from, selects_any
from tracetui.checking.lists import measured
from tracetui.checking.namespace import touching
from tracetui.checking.parser import (
    COMPARISON,
    OR,
    Chain,
    Figure,
    Node,
    Path,
    PathPart,
    Prefixed,
    parsed,
    tokens,
    written,
)
from tracetui.checking.tree_evaluator import both, either, opposite, shared_unit, telling
from tracetui.checking.values import (
    LITERALS,
    NO,
    NOBODY,
    UNKNOWN,
    YES,
    Amount,
    Mistake,
    Number,
    Offenders,
    Piece,
    Truth,
    Value,
    Words,
    factor,
    first_of,
    in_every,
    together,
)
from tracetui.comparing.fairness import is_same, unfair
from tracetui.comparing.measures import Measure
from tracetui.comparing.side import Side
from tracetui.errors import AnalysisFailed, UsageError
from tracetui.model.guarding import Failures, guarded
from tracetui.model.trace import Trace

# Assertions about a trace and their outcomes: it holds, fails, misses a value, or is within noise.

MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The same comparison with its sides exchanged."""

_OPPOSITES: dict[tuple[Piece, ...], tuple[Piece, ...]] = {
    ("yes",): ("no",),
    ("at least one",): ("none",),
    ("all",): ("not all",),
}
"""What was wanted, negated."""


@dataclass(frozen=True)
class Leaf:
    """A comparison or an answer of an assertion, with what was found and what was wanted."""

    text: str
    answer: int
    """YES, NO or UNKNOWN."""
    found: tuple[Piece, ...] = ()
    """Empty where nothing was found."""
    wanted: tuple[Piece, ...] = ()
    offenders: Offenders = NOBODY
    """The rows of a list, or the steps, that decide it."""
    each: NDArray[np.int8] | None = field(default=None, compare=False)
    """Of a count the answer in every step."""

    @property
    def blamed(self) -> Offenders:
        """The rows for which it does not hold; none where it holds."""
        return self.offenders if self.answer == NO else NOBODY


def of_answer(text: str, answer: Truth) -> Leaf:
    """The answer of a function, or of a condition that is a value by itself."""
    found = answer.found or ("yes" if answer.one == YES else "no",)
    shown = found if answer.one >= 0 or answer.found else ()
    return Leaf(text, answer.one, shown, answer.wanted or ("yes",), answer.offenders, answer.each)


def of_chain(text: str, answer: Truth, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    """A comparison, with the value that the trace decides; a chain with all its values."""
    shown, steps = list(values), NOBODY
    for index, value in enumerate(values):
        beside = values[index + 1] if index + 1 < len(values) else values[index - 1]
        sign = signs[min(index, len(signs) - 1)]
        shown[index], named = telling(value, sign if index < len(signs) else MIRRORED.get(sign, sign), answer, beside)
        steps = steps if steps.first else named
    return replace(
        _of_values(text, answer, shown, signs), offenders=first_of([steps, _offenders(shown)]), each=answer.each
    )


def _of_values(text: str, answer: Truth, values: Sequence[Value], signs: Sequence[str]) -> Leaf:
    open_ones = [index for index, value in enumerate(values) if isinstance(value, Truth) or not value.fixed]
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
    """The leaf behind a `not`."""
    if leaf.each is not None:
        answer = in_every(np.where(leaf.each < 0, leaf.each, 1 - leaf.each).astype(np.int8), None).one
    else:
        answer = leaf.answer if leaf.answer < 0 else 1 - leaf.answer
    opposite = _OPPOSITES.get(leaf.wanted, ("not", *leaf.wanted))
    return replace(leaf, text=f"not {leaf.text}", answer=answer, wanted=opposite)


def _offenders(values: Sequence[Value]) -> Offenders:
    """The rows on which a comparison rests; counted rows only where another value is smaller."""
    numbers = [value for value in values if isinstance(value, Number) and value.one == value.one]
    least = min((_based(value) for value in numbers), default=0.0)
    return first_of([value.offenders for value in numbers if not value.offenders.only_above or _based(value) > least])


def _based(value: Number) -> float:
    return value.one * value.unit.scale


def _beside(a: Value, b: Value) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two values for output, numbers in one unit: that of the literal, where one is."""
    if not (isinstance(a, Number) and isinstance(b, Number)):
        return _shown(a), _shown(b)
    unit = b.unit if b.fixed and b.unit.kind != "bare" else shared_unit(a, b)
    left = Amount(a.one * factor(a.unit, unit), unit)
    right = Amount(b.one * factor(b.unit, unit), unit)
    return tuple(x for x in (left,) if x.value == x.value), tuple(x for x in (right,) if x.value == x.value)


def _shown(value: Value) -> tuple[Piece, ...]:
    """One value for output; nothing for an unknown one."""
    if isinstance(value, Number):
        return (value.amount,) if value.one == value.one else ()
    if isinstance(value, Words):
        return (f'"{value.one}"',) if value.ids >= 0 else ()
    return ("yes" if value.one == YES else "no",) if value.one >= 0 else ()


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


@dataclass(frozen=True)
class CheckOutcome:
    """One assertion and its outcome."""

    expression: str
    status: Status
    leaves: tuple[Leaf, ...] = ()
    """The comparisons that decide it."""
    why: str = ""
    """Why it has no answer, as a sentence."""
    is_compound: bool = False
    """Whether it joins several comparisons, of which the leaves are some."""


@dataclass(frozen=True)
class Assertion:
    """A parsed expression."""

    text: str
    tree: Node
    source: str = field(default="", compare=False)
    """Where it is written, as `limits.txt, line 3`; empty for the command line."""


def assertion(text: str, source: str = "") -> Assertion:
    """Parses an assertion, without the spaces and the comment around it.

    Raises: Mistake for what is no expression.
    """
    text = text.strip()
    with _telling(text, source):
        return Assertion(text[: tokens(text)[-1].at].rstrip(), parsed(text), source)


def checked(assertions: Sequence[Assertion], evaluator: Evaluator) -> list[CheckOutcome]:
    """The outcomes of assertions, in their order.

    Raises: Mistake for names that do not exist and for what is no assertion, with all further mistakes.
    """
    outcomes, mistakes = [], []
    for each in assertions:
        try:
            with _telling(each.text, each.source), guarded("The answer"):
                outcomes.append(_outcome(each, evaluator))
        except Mistake as mistake:
            mistakes.append(mistake)
        except AnalysisFailed as failure:
            outcomes.append(CheckOutcome(each.text, Status.ERROR, (), str(failure)))
    if mistakes:
        raise together(mistakes)
    return outcomes


def whole_file(trace: Trace) -> CheckOutcome | None:
    """The assertion that no part of the file is lost, where some is; None where none is."""
    if not (loss := trace.quality.loss):
        return None
    why = f"{trace.label} {loss}; all numbers cover only a part."
    return CheckOutcome("the file is whole", Status.MISSING, (), why)


@contextmanager
def _telling(text: str, source: str) -> Iterator[None]:
    """Adds the expression and its source to a mistake."""
    try:
        yield
    except Mistake as mistake:
        mistake.text, mistake.source = text, source
        raise


def _outcome(each: Assertion, evaluator: Evaluator) -> CheckOutcome:
    answer, leaves = _judged(each.tree, evaluator)
    joined = isinstance(each.tree, Chain) and each.tree.level < COMPARISON
    if answer.one == UNKNOWN:
        return CheckOutcome(
            each.text, Status.UNDECIDED if answer.undecided else Status.MISSING, tuple(leaves), answer.why, joined
        )
    return CheckOutcome(each.text, Status.HOLDS if answer.one == YES else Status.FAILS, tuple(leaves), "", joined)


def _judged(node: Node, evaluator: Evaluator) -> tuple[Truth, list[Leaf]]:
    """Whether a condition holds, and the comparisons that decide it."""
    if isinstance(node, Chain) and node.level < COMPARISON:
        judged = [_judged(each, evaluator) for each in node.operands]
        answer = (either if node.level == OR else both)([truth for truth, _ in judged])
        decided = YES if node.level == OR else NO
        decisive = {decided: {decided}, UNKNOWN: {UNKNOWN}}.get(answer.one, {YES, NO})
        kept = [leaf for truth, leaves in judged if truth.one in decisive for leaf in leaves]
        # Of counts each step may have another reason.
        return answer, kept or [leaf for _, leaves in judged for leaf in leaves]
    if isinstance(node, Prefixed) and node.sign == "not":
        answer, leaves = _judged(node.operand, evaluator)
        return opposite(answer), [negated(leaf) for leaf in leaves]
    return _leaf(node, evaluator)


def _leaf(node: Node, evaluator: Evaluator) -> tuple[Truth, list[Leaf]]:
    text = written(node)
    if isinstance(node, Chain) and node.level == COMPARISON:
        answer, values = evaluator.compared(node)
        _require_one(answer, text, node.at)
        return answer, [of_chain(text, answer, values, [sign for sign, _ in node.rest])]
    value = evaluator.value(node)
    if not isinstance(value, Truth):
        raise Mistake(
            f"{text} is a value, and an assertion compares it with something: {text} == 5. "
            "In a shell it stands in quotes.",
            node.at,
        )
    _require_one(value, text, node.at)
    return value, [of_answer(text, value)]


def _require_one(answer: Truth, text: str, at: int) -> None:
    if answer.rows is not None:
        raise Mistake(f"{text} has an answer for each row of {answer.rows.name}: write all({text}) or any({text}).", at)


COMPARED = ("dur_us", "cpu_us", "gpu_busy_us", "kernels", "launches")
"""Measures compared with a baseline where no assertions are given."""

SELECTED_NOUNS = {"kernel": "kernel", "copy": "copy or fill", "op": "operator"}
"""What each selection by name selects."""
MIN_SIMILARITY = 0.8
"""Minimum similarity of a suggested name, as difflib measures it."""
MAX_NAMED_WARNINGS = 3
"""Maximum warnings named, and maximum names listed per warning."""


@dataclass(frozen=True)
class CheckReport:
    """The outcomes of a check, in the order of the assertions."""

    side: Side | None
    """What was checked, None for a set of ranks."""
    baseline: Side | None
    outcomes: tuple[CheckOutcome, ...]
    unfair: tuple[str, ...] = ()
    """Differences between the trace and the baseline other than the program, as sentences."""
    remarks: tuple[str, ...] = ()
    strict: bool = False
    """Whether a difference within noise counts as a failure."""
    name: str = ""
    """What was checked, where that is no side."""
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
        """Whether no assertion fails or ends in an error, and no value is missing; where `strict`, also whether every
        answer is certain.
        """
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

    Raises: Mistake for names that do not exist, UsageError for an invalid tolerance.
    """
    margin = tolerance_of(tolerance) if tolerance is not None else None
    evaluator = Evaluator(side, baseline, margin)
    outcomes = checked(assertions, evaluator)
    cut = [whole_file(each.trace) for each in (side, baseline) if each is not None]
    sides = zip((side, baseline), evaluator.used, strict=True)
    failures = Failures()

    def said(make: Callable[[], Iterable[str]]) -> list[str]:
        return failures.make_or("A remark", lambda: list(make()), lambda sentence: [sentence])

    remarks = [remark for each, used in sides if each for remark in said(partial(_remarks, each, used))]
    remarks += said(partial(_unmatched, evaluator.selections, [each for each in (side, baseline) if each is not None]))
    return CheckReport(
        side,
        baseline,
        (*outcomes, *dict.fromkeys(outcome for outcome in cut if outcome)),
        tuple(said(partial(_unfair, baseline, side))) if baseline else (),
        tuple(dict.fromkeys(remarks)),
        strict,
        failures=failures.sentences,
    )


def beside(name: str) -> Assertion:
    """The assertion that a measure is not above the baseline.

    Raises: Mistake for what is no name.
    """
    tree: Node = Path((PathPart("not_slower", None, (parsed(name),)),))
    return Assertion(written(tree), tree)


def usual(side: Side, baseline: Side) -> list[Assertion]:
    """The default assertions against a baseline, for measures that at least one side has."""
    both = (measured(side), measured(baseline))

    def is_absent(known: Mapping[str, Measure], name: str) -> bool:
        # One that failed is asked for: the answer is an error.
        return name in known and bool(np.isnan(known[name].values).all())

    return [beside(name) for name in COMPARED if not all(is_absent(each, name) for each in both)]


def tolerance_of(text: str) -> Number:
    """A tolerance as written on the command line: `5%`, or a value with a unit.

    Raises: UsageError for anything else.
    """
    tree = parsed(text)
    if not isinstance(tree, Figure) or not tree.unit:
        raise UsageError(f"A tolerance is a percentage such as 5%, or a value with its unit, and not {text!r}.")
    return Number(np.array(tree.value), LITERALS[tree.unit], fixed=True)


def _unfair(baseline: Side, side: Side) -> list[str]:
    """Why a comparison with the baseline says less than it seems to, the most serious first."""
    doubts = unfair(baseline, side, ("the baseline", "this trace"))
    # Two short recordings of other devices may agree in every time.
    if not doubts and is_same(baseline, side):
        return ["The baseline is the same recording: nothing can differ."]
    return doubts


def _remarks(side: Side, used: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Warnings about the numbers of a side; `used` holds the columns behind every name in use."""
    said = [side.remark] if side.remark else []
    if guessed := side.inferred():
        said.append(f"{guessed:,} GPU activities of {side.name} have no launch record and are placed by their start.")
    if bad := touching(side.trace, used):
        checks = "; ".join(f"{check.name} ({_some(names)})" for check, names in bad[:MAX_NAMED_WARNINGS])
        more = f"; {len(bad) - MAX_NAMED_WARNINGS} more" if len(bad) > MAX_NAMED_WARNINGS else ""
        title = side.trace.label
        said.append(f"Numbers of {title} have warnings, see `tracetui show health`: {checks}{more}.")
    return said


def _unmatched(selections: Sequence[tuple[str, str]], sides: Sequence[Side]) -> Iterator[str]:
    """A sentence about each pattern that matches nothing in any of the traces, perhaps because it is misspelt."""
    for kind, pattern in selections:
        names = set().union(*(names_selected_from(each, kind) for each in sides))
        if not names or selects_any(kind, pattern, names):
            continue
        noun, where = SELECTED_NOUNS[kind], " or ".join(dict.fromkeys(each.trace.label for each in sides))
        similar = difflib.get_close_matches(pattern, sorted(names), 1, MIN_SIMILARITY)
        meant = f" Did you mean {similar[0]}?" if similar else ""
        yield f"No {noun} of {where} matches {pattern!r}, so that its counts are 0.{meant}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED_WARNINGS]) + (", ..." if len(names) > MAX_NAMED_WARNINGS else "")
