"""Filters of a list: plain text, conditions over its columns, what is refused, and what a name can become."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checks import kernel_table
from tracetui.checking.row_filter import completed, completions, is_condition, kept_rows, texts_meant
from tracetui.checking.values import ExpressionError
from tracetui.model import columns as col
from tracetui.model.table import Table, micros, texts

NAMES = ["gemm<float, 4>", "relu", "内核 softmax", "copy host", None]


def table() -> Table:
    return kernel_table(NAMES)


def kept(text: str) -> list[int]:
    return np.flatnonzero(kept_rows(table(), text)).tolist()


def test_a_name_with_signs_in_it_is_no_condition():
    assert not is_condition(table(), "void at::kernel<4, at::native::Op<float> >(int)")
    assert not is_condition(table(), "gemm<float")
    assert is_condition(table(), "op~mm")


def test_a_long_text_without_a_condition_is_looked_for():
    assert kept("x" * 3000) == []
    with pytest.raises(ExpressionError, match="at most 2,000 characters"):
        kept("dur > 5us & " + "x" * 2000)


def test_names_complete_where_a_name_is_expected():
    assert completions(table(), "du") == ["dur_us"]
    assert completions(table(), "dur > 100us & occ") == ["occupancy_pct"]
    assert completions(table(), "!(la") == ["launch_start_us", "launch_delay_us"]
    assert completions(table(), "dur > 100us") == []
    assert len(completions(table(), "")) == len(table().columns)
    assert completed(table(), "dur > 5us & !la") == "dur > 5us & !launch_"
    assert completed(table(), "dur > 5us & launch_") == "dur > 5us & launch_start_us"
    assert completed(table(), "dur > 5") == "dur > 5"


WORDS = ["dur", "occ", "op", "~", "mm", "aten::mm", ">", "<", "100us", "25", "&", "|", "!", "(", ")", "and", "not", "="]
WORDS += ['"a b"', "内核", "%", "*", "?", "\\", "'", "#", "::", "gap", "\x1b[31m", "not not", "~~"]


@given(
    st.text(max_size=100)
    | st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
    | st.lists(st.sampled_from(WORDS), max_size=40).map("".join)
)
def test_any_text_is_a_filter_or_refused_with_a_position(text):
    try:
        assert len(kept_rows(table(), text)) == 5
    except ExpressionError as mistake:
        assert 0 <= mistake.at <= len(text)
    assert isinstance(completed(table(), text), str)


@pytest.mark.full
def test_a_long_filter_over_a_long_list_is_fast():
    rows = 100_000
    long = Table((texts(col.OP, [f"aten::op{i % 977}" for i in range(rows)]), micros(col.DUR_US, np.arange(rows))))
    began = time.process_time()
    assert kept_rows(long, "op ~ op1 & (" + " | ".join(f"op == aten::op{i}" for i in range(60)) + ")").sum() > 0
    assert kept_rows(long, " | ".join(f"op{i}" for i in range(250))).any()
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("op ~ mm", ["aten::mm", "aten::addmm"]),
        ("op ~ *::mm", ["aten::mm"]),
        ("op == aten::mm", ["aten::mm"]),
        ("dur > 1us & family ~ 'gemm'", ["gemm"]),
        ("!(op ~ soft", ["aten::softmax"]),
        ("kernel ~ 内", ["内核 softmax"]),
        ("family ~ m", ["gemm"]),
        ("op ~ nothing", []),
        ("op ~ mm & dur > 1us", []),
        ("op ~", []),
        ("dur > 100", []),
        ("mm", []),
        ("colour ~ red", []),
    ],
)
def test_the_texts_that_a_pattern_matches_are_known_those_of_most_rows_first(text, matched):
    assert texts_meant(table(), text) == matched
