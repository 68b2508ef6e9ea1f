"""Answers to expressions as they were recorded: names, lists, units, what is missing, and what is refused, and where.

An answer that changes on purpose is changed in `recorded_answers.json`, a new expression is added there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checks import counted, cpu_only, kernel_table, outcome, uneven, work
from tracetui.checking.row_filter import kept_rows
from tracetui.checking.values import ExpressionError
from tracetui.drawing.text.check_text import outcome_text
from tracetui.model.table import Table
from tracetui.model.trace import Trace

RECORDED: list[list[str]] = json.loads((Path(__file__).parent / "recorded_answers.json").read_text())
"""Trace, expression and answer: the line of the result, or the position and the sentence of an error."""
TRACES: dict[str, Callable[[], Trace]] = {
    "gpu": lambda: work(800, 900, 700, 2000),
    "cpu": cpu_only,
    "baseline": lambda: work(800, 900, 700, 2000),
    "short": lambda: work(800, 900, 800),
    "steady": lambda: work(800, 805, 803, 799, 801),
    "uneven": uneven,
    "one bad": lambda: counted(0, 0, 0, 3, 0, 0, 0),
}
BASELINES: dict[str, Callable[[], Trace]] = {
    "baseline": lambda: work(700, 750, 720, 900, gemm=80),
    "steady": lambda: work(700, 705, 702, 698, 701),
}
LISTS: dict[str, tuple[list[str | None], str]] = {
    # The answers were recorded without a family, and a plain word is looked for in every column.
    "filter": (["gemm<float, 4>", "relu", "softmax", "copy host", None], "family"),
    "list": (["gemm<float, 4>", "relu", "内核 softmax", "copy host", None], ""),
}
"""Names of kernels, and a column to leave out."""
WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[\w.%µ/]+|[<>=!]=|!~|\S")
"""What may have spaces around it: a text, a number with its unit, a path, an operator."""


@cache
def trace(name: str) -> Trace:
    return TRACES[name]()


@cache
def baseline(name: str) -> Trace | None:
    return BASELINES[name]() if name in BASELINES else None


@cache
def table(name: str) -> Table:
    names, without = LISTS[name]
    whole = kernel_table(names)
    return replace(whole, columns=tuple(column for column in whole.columns if column.name != without))


def answer(asked: str, text: str) -> str:
    """The answer to an expression about one of `TRACES`, or the rows that it keeps of one of `LISTS`."""
    try:
        if asked in LISTS:
            return f"rows {np.flatnonzero(kept_rows(table(asked), text)).tolist()}"
        found = outcome(trace(asked), text, "", baseline(asked))
    except ExpressionError as error:
        return f"{error.at}: {error}"
    return f"{found.status.value} {outcome_text(found)}"


def test_there_are_enough_of_each_kind():
    answers = [result for _, _, result in RECORDED]
    for kind in ("holds", "fails", "missing", "rows", r"\d+:"):
        assert sum(re.match(kind, result) is not None for result in answers) >= 30, kind
    assert len(answers) >= 500


@pytest.mark.parametrize("asked", [*TRACES, *LISTS])
@pytest.mark.full
def test_every_recorded_expression_has_the_same_answer(asked):
    wrong = [
        (text, found, now) for kind, text, found in RECORDED if kind == asked and (now := answer(kind, text)) != found
    ]
    assert not wrong, wrong[:5]


@given(st.sampled_from([each for each in RECORDED if each[0] in TRACES and not each[2][0].isdigit()]), st.data())
def test_spaces_and_parentheses_change_no_answer(recorded, data):
    asked, text, found = recorded
    words = WORD.findall(text)
    spaces = data.draw(st.lists(st.sampled_from([" ", "  ", "\t", "\n"]), min_size=len(words), max_size=len(words)))
    spread = "".join(word + space for word, space in zip(words, spaces, strict=True))
    whole = data.draw(st.sampled_from(["{}", "({})", "( ({}) )"]))
    assert answer(asked, whole.format(spread)) == found
