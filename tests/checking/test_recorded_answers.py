"""Answers to expressions as they were recorded, however the language is read and evaluated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checks import cpu_only, kernel_table, outcome, work
from tracetui.checking.row_filter import kept_rows
from tracetui.checking.values import ExpressionError
from tracetui.drawing.text.check_text import told
from tracetui.model.table import Table
from tracetui.model.trace import Trace

RECORDED: list[list[str]] = json.loads((Path(__file__).parent / "recorded_answers.json").read_text())
"""Trace, expression and answer: the line of the result, or the position and the sentence of an error."""
TRACES = ("gpu", "cpu", "baseline")
WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[\w.%µ/]+|[<>=!]=|!~|\S")
"""What may have spaces around it: a text, a number with its unit, a path, an operator."""


@cache
def trace(name: str) -> Trace:
    return cpu_only() if name == "cpu" else work(800, 900, 700, 2000)


@cache
def slower() -> Trace:
    return work(700, 750, 720, 900, gemm=80)


@cache
def table() -> Table:
    whole = kernel_table(["gemm<float, 4>", "relu", "softmax", "copy host", None])
    # The answers were recorded without it, and a plain word is looked for in every column.
    return replace(whole, columns=tuple(column for column in whole.columns if column.name != "family"))


def answer(asked: str, text: str) -> str:
    """The answer to an expression about one of `TRACES`, or the rows that it keeps as a `filter`."""
    try:
        if asked == "filter":
            return f"rows {np.flatnonzero(kept_rows(table(), text)).tolist()}"
        found = outcome(trace(asked), text, "", slower() if asked == "baseline" else None)
    except ExpressionError as error:
        return f"{error.at}: {error}"
    return f"{found.status.value} {told(found)}"


def test_there_are_enough_of_each_kind():
    answers = [result for _, _, result in RECORDED]
    for kind in ("holds", "fails", "missing", "rows", r"\d+:"):
        assert sum(re.match(kind, result) is not None for result in answers) >= 30, kind
    assert len(answers) >= 500


@pytest.mark.parametrize("asked", [*TRACES, "filter"])
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
