"""Expressions against Python's own arithmetic, lists against loops, units, and logic with unknown answers."""

from __future__ import annotations

import fnmatch
import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.checks import cpu_only, leaf, outcome, status, work
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.parser import parsed
from tracetui.checking.tree_evaluator import both, either, matcher, opposite
from tracetui.checking.values import NO, UNKNOWN, YES, Amount, ExpressionError, answer
from tracetui.comparing.side import side

TRACE = work(800, 900, 700, 2000)
EVALUATOR = Evaluator(side(TRACE))

sums = st.recursive(
    st.integers(0, 1000).map(str),
    lambda inner: (
        st.builds("{}({})".format, st.sampled_from("+-"), inner)
        | st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner)
        | st.builds("{} {} {} {} {}".format, inner, st.sampled_from("+-"), inner, st.sampled_from("*/"), inner)
    ),
    max_leaves=10,
)


def by_python(text: str) -> float:
    """The same by Python; raises ZeroDivisionError."""
    return float(eval(text, {"__builtins__": {}}))


@given(sums)
def test_arithmetic_is_that_of_python(text):
    value = EVALUATOR.value(parsed(text))
    assert value.is_number
    try:
        expected = by_python(text)
    except ZeroDivisionError:
        assert math.isnan(value.one) and value.why
    else:
        assert value.one == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(sums, sums, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
def test_comparisons_are_those_of_python(a, b, sign):
    try:
        left, right = by_python(a), by_python(b)
    except ZeroDivisionError:
        assume(False)
    near = abs(left - right) <= 1e-9 * max(abs(left), abs(right))
    assume(left == right or not near)
    wanted = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
    wanted |= {">": left > right, ">=": left >= right}
    found = status(TRACE, f"({a}) {sign} ({b})")
    assert found == ("holds" if wanted[sign] else "fails")


@given(st.lists(st.integers(1, 900), min_size=1, max_size=6), st.sampled_from(["min", "max", "mean", "median", "sum"]))
@pytest.mark.full
def test_functions_of_a_list_are_those_of_python(durations, name):
    value = Evaluator(side(work(*durations), "1:9")).value(parsed(f"{name}(steps.dur_us)"))
    folds = {"min": min(durations), "max": max(durations), "sum": sum(durations)}
    folds |= {"mean": statistics.fmean(durations), "median": statistics.median(durations)}
    assert value.is_number
    assert value.one == pytest.approx(folds[name])


@given(st.lists(st.sampled_from([YES, NO, UNKNOWN]), min_size=1, max_size=4))
def test_logic_agrees_with_every_way_in_which_it_could_turn_out(answers):
    given_ones = [answer(each, "" if each >= 0 else "lost") for each in answers]
    worlds = list(itertools.product(*([answer] if answer >= 0 else [NO, YES] for answer in answers)))
    for join, fold in ((both, all), (either, any)):
        outcomes = {fold(world) for world in worlds}
        found = join(given_ones)
        assert found.one == (UNKNOWN if len(outcomes) == 2 else int(outcomes.pop()))
        assert (found.why == "lost") == (found.one == UNKNOWN)
        assert opposite(opposite(found)).one == found.one


@given(st.text("ab?*[]\n.", max_size=8), st.text("abAB[]\n.", max_size=12))
def test_patterns_are_those_of_a_shell_without_brackets(pattern, name):
    escaped = "".join(f"[{letter}]" if letter == "[" else letter for letter in pattern)
    wild = "*" in pattern or "?" in pattern
    expected = fnmatch.fnmatchcase(name.casefold(), escaped.casefold() if wild else f"*{escaped.casefold()}*")
    assert matcher(pattern)(name) == expected
    assert matcher(pattern, whole=True)(name) == fnmatch.fnmatchcase(name.casefold(), escaped.casefold())


@pytest.mark.parametrize("pattern", ["*a" * 900 + "b", "a*" * 900 + "b", "?*" * 900, "*" * 1900 + "b"])
def test_no_pattern_takes_long(pattern):
    import time

    began = time.process_time()
    matcher(pattern)("a" * 20_000)
    assert time.process_time() - began < 20


def test_which_part_of_an_assertion_is_told():
    failing = outcome(TRACE, "kernels == 3 and dur_us < 1us and launches == 7")
    assert [each.text for each in failing.leaves] == ["dur_us < 1us", "launches == 7"]
    assert [each.text for each in outcome(TRACE, "kernels == 9 or launches == 3").leaves] == ["launches == 3"]
    chain = leaf(TRACE, "90 <= dur_us <= 100")
    assert [each for each in chain.wanted if isinstance(each, str)] == [">=", "and", "<="]
    assert [each.value for each in chain.actual if isinstance(each, Amount)] == [850]
    rows = leaf(TRACE, "all(steps.dur_us < 1ms)")
    assert [each.value if isinstance(each, Amount) else each for each in rows.actual] == [3, "of", 4]
    assert leaf(TRACE, "not any(steps.dur_us < 1us)").wanted == ("none",)


def test_what_is_found_is_told_in_the_unit_that_is_written():
    trace = work(800, 900, 800)
    found = leaf(trace, "dur_us < 0.5ms")
    assert [(each.value, each.unit.label) for each in found.actual if isinstance(each, Amount)] == [(0.8, "ms")]
    assert found.wanted[0] == "<"
    mirrored = leaf(trace, "0.5ms > dur_us")
    assert (mirrored.actual, mirrored.wanted) == (found.actual, found.wanted)
    plain = leaf(trace, "dur_us < 500").actual[0]
    assert isinstance(plain, Amount) and (plain.value, plain.unit.label) == (800, "us")


def test_an_evaluator_knows_nothing_but_the_trace():
    for text in ("__import__('os') == 1", "dur_us.__class__ == 1", "open('/etc/passwd') == 1", "__builtins__ == 1"):
        with pytest.raises(ExpressionError):
            status(TRACE, text)


@given(
    st.lists(
        st.sampled_from(
            [
                "kernels",
                "steps",
                ".",
                "dur_us",
                "(",
                ")",
                "max",
                "count",
                ",",
                "==",
                "5",
                "1ms",
                "'a'",
                "~",
                "and",
                "not",
                "-",
                "/",
                "name",
                "kernel",
                "op",
                "has",
                "all",
                "summary",
                "verdict",
                "step[2]",
                "baseline",
                "within",
                "10%",
                "findings",
                "gaps",
                "not_slower",
            ]
        ),
        max_size=25,
    ).map(" ".join)
)
def test_any_expression_gets_an_answer_or_a_mistake(text):
    for trace in (TRACE, cpu_only()):
        try:
            assert status(trace, text) in ("holds", "fails", "missing", "cannot tell")
        except ExpressionError as mistake:
            assert 0 <= mistake.at <= len(text)


def test_a_condition_on_a_long_list_looks_at_each_name_once():
    trace = work(*[500] * 40)
    names = np.unique(trace.slices.name)
    assert len(names) < len(trace.slices)
    assert status(trace, "count(kernels, name ~ 'triton') == 80") == "holds"
