"""Functions behind a column of a list, with conditions on its rows: `steps(kind="decode").gpu_period_us.median`."""

from __future__ import annotations

import pytest

from tests.support.serving import GEMM, Served, decode, served
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.parser import parsed, written
from tracetui.checking.values import ANSWER, UNKNOWN, YES, ExpressionError
from tracetui.comparing.side import side

PREFILL = Served("execute_context_1(512)_generation_0(0)", 500, 40, [(GEMM, 520, 400)])
LATE = [decode(index, requests=2 + index, at=1_000, period=100 + 20 * index) for index in range(4)]
EVALUATOR = Evaluator(side(served([*(decode(index) for index in range(5)), PREFILL, *LATE])))


def value(text: str) -> float:
    found = EVALUATOR.value(parsed(text))
    assert found.is_number
    return found.one


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('steps(kind="decode").gpu_period_us.median', 'median(steps.gpu_period_us, kind == "decode")'),
        ('steps(kind="decode", requests > 3).dur_us.mean', 'mean(steps.dur_us, kind == "decode" and requests > 3)'),
        ('steps(kind="decode").gpu_period_us.max', 'max(steps.gpu_period_us, kind == "decode")'),
        ('steps(kind == "decode").gpu_period_us.p99', 'p99(steps.gpu_period_us, kind == "decode")'),
        ("steps.gpu_span_us.min", "min(steps.gpu_span_us)"),
        ('kernels(family="gemm").dur_us.sum', 'sum(kernels.dur_us, family == "gemm")'),
        ('steps(kind="prefill").dur_us.count', 'count(steps, kind == "prefill")'),
        ('serving(kind="decode").steps.sum', 'sum(serving.steps, kind == "decode")'),
    ],
)
def test_a_function_behind_a_column_is_that_function_of_the_column(text: str, same: str) -> None:
    assert value(text) == value(same)
    assert written(parsed(written(parsed(text)))) == written(parsed(text))


def test_periods_of_decodes_by_hand() -> None:
    # Four of 100 µs; those behind the prefill end at 1090, 1210, 1370 and 1570 µs, and the first of them has none.
    assert value('steps(kind="decode").gpu_period_us.count') == 7
    assert value('steps(kind="decode").gpu_period_us.median') == 100
    assert value('steps(kind="decode").gpu_period_us.max') == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('steps(kind="decode").dur_us < 1', "COLUMN=VALUE"),
        ('steps(kind="decode")', "COLUMN=VALUE"),
        ('steps(knd="decode").dur_us.max', "is no name"),
        ("steps.dur_us.variance", "cannot stand behind"),
        ("steps = 3", "compared with =="),
        ("kernels = 3", "compared with =="),
        ("max(a=)", "value"),
    ],
)
def test_what_is_no_such_function_is_said(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        EVALUATOR.value(parsed(text))


def test_no_row_is_missing_and_no_zero() -> None:
    found = EVALUATOR.value(parsed('steps(kind="mixed").gpu_period_us.median < 1ms'))
    assert found.unit == ANSWER
    assert found.values == UNKNOWN
    held = EVALUATOR.value(parsed('steps(kind="decode").gpu_period_us.median < 1ms'))
    assert held.unit == ANSWER
    assert held.values == YES
