"""The result of a check: its assertions with their outcomes, and what limits the numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tracetui.checking.doubtful_columns import touching
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.functions import names_selected_from, selects_any
from tracetui.checking.lists import measured
from tracetui.checking.parser import Figure, Node, Path, PathPart, parsed, written
from tracetui.checking.units import LITERALS
from tracetui.checking.values import Number
from tracetui.checking.verdict import Assertion, CheckOutcome, Status, checked, whole_file
from tracetui.comparing.fairness import is_same, unfair
from tracetui.comparing.measures import Measure
from tracetui.comparing.side import Side
from tracetui.errors import UsageError
from tracetui.model.guarding import Failures

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
        return failures.made_or("A remark", lambda: list(make()), lambda sentence: [sentence])

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
