"""Assertions about a trace, and what becomes of each: it holds, fails, lacks a value, or cannot be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from tracetui.analysis.checking.evaluate import Evaluator
from tracetui.analysis.checking.leaf import Leaf, negated, of_answer, of_chain
from tracetui.analysis.checking.logic import both, either, opposite
from tracetui.analysis.checking.mistake import Mistake, together
from tracetui.analysis.checking.parser import parsed
from tracetui.analysis.checking.tokens import tokens
from tracetui.analysis.checking.tree import COMPARISON, OR, Node, Prefixed, Row, written
from tracetui.analysis.checking.values import NO, UNKNOWN, YES, Truth
from tracetui.model.trace import Trace


class Status(Enum):
    """What became of an assertion."""

    HOLDS = "holds"
    FAILS = "fails"
    MISSING = "missing"
    """The trace does not hold a value that it needs."""
    UNTOLD = "cannot tell"
    """A difference from the baseline that is hidden by noise."""


@dataclass(frozen=True)
class Outcome:
    """One assertion, and what became of it."""

    expression: str
    status: Status
    leaves: tuple[Leaf, ...] = ()
    """The comparisons that decided."""
    why: str = ""
    """Why nothing can be said, as a sentence."""
    is_compound: bool = False
    """Whether it joins several comparisons, of which the leaves are some."""


@dataclass(frozen=True)
class Assertion:
    """An expression that has been understood."""

    text: str
    tree: Node
    place: str = field(default="", compare=False)
    """Where it stands, as `limits.txt, line 3`; empty for the command line."""


def assertion(text: str, place: str = "") -> Assertion:
    """An expression as an assertion, without the spaces and the remark around it.

    Raises: Mistake for what is no expression.
    """
    text = text.strip()
    with _telling(text, place):
        return Assertion(text[: tokens(text)[-1].at].rstrip(), parsed(text), place)


def checked(assertions: Sequence[Assertion], evaluator: Evaluator) -> list[Outcome]:
    """What becomes of assertions, in their order.

    Raises: Mistake for names that do not exist, and for what is no assertion, with all the others that there are.
    """
    outcomes, mistakes = [], []
    for each in assertions:
        try:
            with _telling(each.text, each.place):
                outcomes.append(_outcome(each, evaluator))
        except Mistake as mistake:
            mistakes.append(mistake)
    if mistakes:
        raise together(mistakes)
    return outcomes


def whole_file(trace: Trace) -> Outcome | None:
    """That a file is there to its end, as an assertion of its own, where it is not; None where it is."""
    if trace.quality.truncated_at is None:
        return None
    why = f"{trace.label} is cut off at byte {trace.quality.truncated_at:,}: all numbers are those of a part."
    return Outcome("the file is whole", Status.MISSING, (), why)


@contextmanager
def _telling(text: str, place: str) -> Iterator[None]:
    """Adds to a mistake the expression in which it is, and where that stands."""
    try:
        yield
    except Mistake as mistake:
        mistake.text, mistake.place = text, place
        raise


def _outcome(each: Assertion, evaluator: Evaluator) -> Outcome:
    answer, leaves = _judged(each.tree, evaluator)
    joined = isinstance(each.tree, Row) and each.tree.level < COMPARISON
    if answer.one == UNKNOWN:
        return Outcome(each.text, Status.UNTOLD if answer.untold else Status.MISSING, tuple(leaves), answer.why, joined)
    return Outcome(each.text, Status.HOLDS if answer.one == YES else Status.FAILS, tuple(leaves), "", joined)


def _judged(node: Node, evaluator: Evaluator) -> tuple[Truth, list[Leaf]]:
    """Whether a condition holds, and the comparisons that decide it."""
    if isinstance(node, Row) and node.level < COMPARISON:
        judged = [_judged(each, evaluator) for each in node.operands]
        answer = (either if node.level == OR else both)([truth for truth, _ in judged])
        decided = YES if node.level == OR else NO
        telling = {decided: {decided}, UNKNOWN: {UNKNOWN}}.get(answer.one, {YES, NO})
        return answer, [leaf for truth, leaves in judged if truth.one in telling for leaf in leaves]
    if isinstance(node, Prefixed) and node.sign == "not":
        answer, leaves = _judged(node.operand, evaluator)
        return opposite(answer), [negated(leaf) for leaf in leaves]
    return _leaf(node, evaluator)


def _leaf(node: Node, evaluator: Evaluator) -> tuple[Truth, list[Leaf]]:
    text = written(node)
    if isinstance(node, Row) and node.level == COMPARISON:
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
