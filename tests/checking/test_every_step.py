"""What is said of a count must hold in every step, and not only in the median one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.checks import counted
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.report import CheckOutcome, Status, assertion, checked
from tracetui.checking.values import ExpressionError
from tracetui.comparing.side import side
from tracetui.model.trace import Trace


def outcome(trace: Trace, text: str, scope: str = "", baseline: Trace | None = None) -> CheckOutcome:
    evaluator = Evaluator(side(trace, scope), side(baseline) if baseline else None)
    return checked([assertion(text)], evaluator)[0]


def said(trace: Trace, text: str, **more: Trace) -> tuple[Status, str, str]:
    """The outcome, the number that was found, and the rows that are blamed."""
    found = outcome(trace, text, **more)  # type: ignore[arg-type]
    leaf = found.leaves[0]
    number = " ".join(each if isinstance(each, str) else f"{each.value:g}" for each in leaf.actual)
    return found.status, number, leaf.blamed.text


ONE_BAD = (0, 0, 0, 3, 0, 0, 0)
"""Calls of an operator by step: the median step has none."""


def test_of_a_lower_bound_the_smallest_step_decides():
    trace = counted(3, 3, 1, 3, 3)
    assert said(trace, 'op("aten::item").calls >= 3') == (Status.FAILS, "1", "step 3")
    assert said(trace, 'op("aten::item").calls > 0') == (Status.HOLDS, "1", "")
    assert said(trace, '2 < op("aten::item").calls') == (Status.FAILS, "1", "step 3")
    assert said(trace, 'median(op("aten::item").calls) >= 3') == (Status.HOLDS, "3", "")


def test_a_negation_must_hold_in_every_step_too():
    trace = counted(2, 2, 0, 2)
    assert outcome(trace, "not kernels == 3").status is Status.FAILS
    assert outcome(trace, "not kernels == 2").status is Status.HOLDS
    assert outcome(trace, "not not kernels == 3").status is Status.FAILS


def test_conditions_are_joined_step_by_step():
    trace = counted(0, 2, 0)
    assert outcome(trace, "kernels == 1 or kernels == 3").status is Status.HOLDS
    assert outcome(trace, "kernels == 1 or launches == 3").status is Status.HOLDS
    assert outcome(trace, "kernels == 1 or kernels == 2").status is Status.FAILS
    assert outcome(trace, "kernels == 1 and dur_us > 0").status is Status.FAILS


def test_times_stay_those_of_the_median_step():
    trace = counted(0, 0, 0, wait=50_000)
    assert said(trace, "dur_us == 950") == (Status.HOLDS, "950", "")
    assert said(trace, "max(dur_us) == 1000") == (Status.HOLDS, "1000", "")


def test_the_runs_of_a_name_are_each_looked_at():
    found = outcome(counted(*ONE_BAD), 'op("aten::item").calls == 0', scope="part")
    assert (found.status, found.leaves[0].blamed.text) == (Status.FAILS, "run 4")


def test_one_step_and_the_capture_have_one_number():
    assert outcome(counted(*ONE_BAD), "step[4].kernels == 4").status is Status.HOLDS
    assert outcome(counted(*ONE_BAD), "kernels == 10", scope="all").status is Status.HOLDS
    assert outcome(counted(*ONE_BAD), "kernels == 1", scope="3").status is Status.HOLDS


def test_every_step_is_compared_with_the_median_of_the_baseline():
    assert (
        outcome(counted(1, 1, 1), "kernels <= baseline.kernels", baseline=counted(1, 0, 1, 5, 1)).status is Status.HOLDS
    )
    assert said(counted(1, 1, 2), "kernels == baseline.kernels", baseline=counted(1, 1, 5, 1, 1)) == (
        Status.FAILS,
        "3",
        "step 3",
    )


def test_a_count_that_is_unknown_in_a_step_is_missing_and_not_passed():
    lost = make_trace(
        [
            event
            for event in (*_events(1), *_events(2), *_events(3))
            if not (event.name == "cudaLaunchKernel" and event.correlation == 2)
        ]
    )
    assert outcome(lost, "kernels / copies < 5").status is Status.MISSING


def _events(number: int) -> list[Event]:
    begin = 1_000_000 * number
    return [
        step(number, begin, 900_000),
        op("aten::mm", begin + 1_000, 10_000),
        launch(begin + 2_000, 1_000, number),
        kernel("gemm", begin + 5_000, 1_000, correlation=number),
    ]


def test_a_division_by_zero_in_one_step_says_so():
    found = outcome(counted(1, 0, 1), 'kernels / op("aten::item").calls < 10')
    assert (found.status, found.why) == (Status.MISSING, "What it is divided by is 0.")


def test_a_sum_over_steps_is_asked_of_a_list():
    with pytest.raises(ExpressionError, match="looks at a list"):
        outcome(counted(1, 1), "sum(launches) == 4")


SIGNS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.sampled_from(sorted(SIGNS)), st.integers(0, 4))
def test_it_holds_where_it_holds_in_every_step(calls, sign, wanted):
    found = outcome(counted(*calls), f'op("aten::item").calls {sign} {wanted}', scope="1:9")
    holds = [SIGNS[sign](each, wanted) for each in calls]
    assert (found.status is Status.HOLDS) == all(holds)
    leaf = found.leaves[0]
    number = leaf.actual[0].value  # type: ignore[union-attr]
    assert number in calls
    assert all(holds) == SIGNS[sign](number, wanted)
    assert bool(leaf.blamed.first) == (not all(holds) and len(set(calls)) > 1)
    if leaf.blamed.first:
        assert leaf.blamed.first[0].step in [index + 1 for index, each in enumerate(calls) if each == number]
