"""Expressions against Python's own arithmetic, lists against loops, and logic with answers that are not known."""

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
def test_functions_of_a_list_are_those_of_python(durations, name):
    value = Evaluator(side(work(*durations), "1:9")).value(parsed(f"{name}(steps.dur_us)"))
    folds = {"min": min(durations), "max": max(durations), "sum": sum(durations)}
    folds |= {"mean": statistics.fmean(durations), "median": statistics.median(durations)}
    assert value.is_number
    assert value.one == pytest.approx(folds[name])


@pytest.mark.parametrize(
    "text",
    [
        "count(kernels) == 12",
        "count(kernels, name ~ 'triton') == 8",
        "count(kernels, name ~ 'triton_*' and dur_us > 20us) == 4",
        "count(kernels, name !~ 'triton') == 4",
        "count(kernels, name == 'triton_add') == 4",
        "count(kernels.dur_us > 20us) == 8",
        "count(kernels.dur_us) == 12",
        "sum(kernels.dur_us, family == 'gemm') == 400us",
        "sum(kernels.dur_us, name ~ 'nothing') == 0",
        "sum(kernels.dur_us) / count(steps) == gpu_work_us",
        "max(steps.dur_us / steps.kernels) > 600us",
        "max(steps.dur_us, steps.dur_us < 2ms) == 900",
        "max(steps.dur_us, dur_us < 2 * median(steps.dur_us)) == 900",
        "count(steps, kernels == 3) == 4",
        "all(steps.kernels == 3)",
        "all(steps.dur_us < 1ms, step != 4)",
        "any(steps.dur_us > 1ms)",
        "not all(steps.dur_us < 1ms)",
        "any(steps.dur_us > 1ms and steps.kernels == 3)",
        "count(steps, not dur_us > 1ms) == 3",
        "all(steps.fingerprint == step[2].fingerprint)",
        "count(kernels, step == 2) == 3",
        "count(copies) == 0 and copies == 0",
        "count(launches, api ~ 'cuda') == 12",
        "count(ops, name ~ 'aten') == 2",
        "max(ops.self_cpu_us, name == 'aten::t') == 5",
        "min(kernels, launches, 2) == 2",
        "has(kernels) and has(steps) and not has(memory) and has(verdict)",
        "within(dur_us, 850, 0)",
        "within(dur_us, 0.8ms, 10%) and not within(dur_us, 0.8ms, 5%)",
        "within(0 - dur_us, 0 - 800, 10%)",
        "step[4].dur_us == 2ms",
        "step[4].dur_us == max(steps.dur_us)",
        "kernel('sgemm').calls == 1 and kernel('triton_*').calls == 2",
        "kernel('TRITON').calls_per_step == 2 and kernel('triton').total_us == 40",
        "kernel('triton').mean_us == 20 and kernel('triton').max_us == 30 and kernel('triton').min_us == 10",
        "kernel('riton_*').calls == 0 and kernel('*riton_*').calls == 2",
        "op('aten::t').calls == 1 and op('aten::').calls == 0 and op('aten::*').calls == 2",
        "op('aten::mm').kernels == 3 and op('aten::mm').device_total_us == 140",
        "kernels_per_step == kernels and summary.kernels == 12",
        "findings == findings() and findings >= findings('major')",
        "count(findings) == findings",
        "count(health, severity == 'wrong') == 0",
    ],
)
def test_lists_and_names(text):
    found = outcome(TRACE, text)
    assert found.status.value == "holds", found


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("kernals == 5", 0, "kernels"),
        ("summary.kernls == 5", 8, "kernels"),
        ("steps.kernls == 5", 6, "kernels"),
        ("step[1].kernls == 5", 8, "kernels"),
        ("count(kernels, nam ~ 'x') == 1", 15, "name"),
        ("count(kernels, cpu_ops == 1) == 1", 15, "no column"),
        ("kernel('x').cals == 1", 12, "calls"),
        ("op('x').total_us == 1", 8, "cpu_total_us"),
        ("maxi(steps.dur_us) == 1", 0, "max"),
        ("dur_us.real == 1", 7, "one value"),
        ("foo.bar == 1", 0, "summary"),
        ("gaps == 1", 0, "list"),
        ("max == 1", 0, "function"),
        ("kernel == 1", 0, "calls"),
        ("kernel(x).calls == 1", 0, "quotes"),
        ("kernel('x') == 1", 0, "calls"),
        ("step.dur_us == 1", 0, "number"),
        ("step[1] == 1", 0, "step"),
        ("true", 0, "condition"),
        ("kernels", 0, "value"),
        ("steps.dur_us < 1", 0, "each row of steps"),
        ("sum(kernels) == 1", 4, "list"),
        ("mean(steps.verdict) == 1", 0, "text"),
        ("all(steps.dur_us)", 0, "neither true nor false"),
        ("max(steps.dur_us, kernels.dur_us > 1) == 1", 18, "rows of steps"),
        ("count(kernels, 1 == 1) == 1", 15, "rows of kernels"),
        ("steps.dur_us == kernels.dur_us", 16, "rows of steps and those of kernels"),
        ("max() == 1", 0, "written"),
        ("abs(1, 2) == 1", 0, "written"),
        ("max(steps.dur_us, step == 1, step == 2) == 1", 29, "One condition"),
        ("max(steps.dur_us, 5) == 1", 18, "takes a condition"),
        ("min(kernels, steps.dur_us) == 1", 13, "is a list"),
        ("step == 3", 0, "number"),
        ("findings('high') == 0", 0, "major"),
        ("baseline.dur_us == 1", 0, "--baseline"),
        ("not_slower(dur_us)", 11, "--baseline"),
        ("max(steps.dur_us).x == 1", 17, "behind"),
        ("verdict == compute-bound", 11, '"compute-bound"'),
        ("compute-bound == verdict", 0, '"compute-bound"'),
        ("verdict == memory-bound", 11, '"memory-bound"'),
        ("file ~ mlp", 7, '"mlp"'),
        ("verdict != host-stall-bound and kernels == 3", 11, '"host-stall-bound"'),
        ("count(kernels, family == gem) == 1", 25, '"gem"'),
        ("kernels_per_stp == 3", 0, "kernels_per_step"),
        ("kernel_per_step == 3", 0, "kernels_per_step"),
        ("all(steps.kernels == 3,874)", 23, "3_874"),
        ("count(kernels, 3) == 1", 15, "condition"),
    ],
)
def test_a_name_that_does_not_exist_is_a_mistake_with_a_hint(text, at, says):
    with pytest.raises(ExpressionError, match=says) as caught:
        status(TRACE, text)
    assert caught.value.text == text
    if text not in ("max(steps.dur_us).x == 1",):
        assert caught.value.at == at


@pytest.mark.parametrize("text", ["kernels == kernals", "verdict == kernals + 1", "dur_us < compute-bound"])
def test_what_cannot_be_a_text_is_not_taken_for_one(text):
    with pytest.raises(ExpressionError) as caught:
        status(TRACE, text)
    assert "quotes" not in str(caught.value)


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
    assert [each.value for each in chain.found if isinstance(each, Amount)] == [850]
    rows = leaf(TRACE, "all(steps.dur_us < 1ms)")
    assert [each.value if isinstance(each, Amount) else each for each in rows.found] == [3, "of", 4]
    assert leaf(TRACE, "not any(steps.dur_us < 1us)").wanted == ("none",)


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
