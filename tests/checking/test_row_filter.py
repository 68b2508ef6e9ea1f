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


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("mm", [0, 4]),
        ("RELU", [1]),
        ("gemm<float", [0]),
        ("softmax", [2]),
        ("内核", [2]),
        ("copy host", [3]),
        ('"copy host"', [3]),
        ("dur > 100us", [0, 2, 4]),
        ("dur>100", [0, 2, 4]),
        ("dur > 100us & op ~ mm & occ < 25", [0, 4]),
        ("dur > 100us and op ~ mm and not occ < 20", [4]),
        ("duration >= 1.5 ms | family == copy", [3, 4]),
        ("family == copy or family == reduction", [2, 3]),
        ("!(family == gemm) && dur < 0.1ms", [1, 3]),
        ("!gemm", [1, 2, 3]),
        ("gemm & dur < 1ms", [0]),
        ("op ~ aten::*mm", [0, 4]),
        ("op == aten::mm", [0]),
        ("op !~ mm & kernel ~ 内核", [2]),
        ("kind == kernel & occ % > 50", [1]),
        ("occupancy_pct > 50%", [1]),
        ("gap < dur", [2, 3, 4]),
        ("100us < dur < 1ms", [0, 2]),
        ("dur != 5us & dur ≤ 90us", [3]),
        ("aten::relu | dur > 1ms", [1, 4]),
    ],
)
def test_what_a_filter_keeps(text, rows):
    assert kept(text) == rows


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("dur >", 5, "ends where a value should follow"),
        ("dur > 5us &", 11, "ends where a value should follow"),
        ("dur > 5kg", 7, "'kg' is no unit"),
        ("dur > mm", 6, "no column 'mm'"),
        ("colour == red", 0, "no column 'colour'"),
        ("durr > 5us", 0, "Did you mean dur_us"),
        ("launch > 5us", 0, "may be launch_start_us or launch_delay_us"),
        ("dur > 5GB", 6, "cannot be compared"),
        ("op > 5", 5, "cannot be compared"),
        ("op ~ (mm", 5, "no ) to close it"),
        ("(dur > 5us", 0, "no ) to close it"),
        ("dur = 5", 4, "compared with =="),
        ("dur & occ < 5", 0, "takes a condition"),
        ("max(dur) > 5us", 0, "no functions"),
        ("dur > 5us & " + "x" * 2000, 2000, "at most 2,000 characters"),
    ],
)
def test_what_is_refused_and_where(text, at, said):
    with pytest.raises(ExpressionError, match=said.replace("(", r"\(").replace(")", r"\)")) as told:
        kept(text)
    assert (told.value.at, told.value.text) == (at, text)


def test_a_name_with_signs_in_it_is_no_condition():
    assert not is_condition(table(), "void at::kernel<4, at::native::Op<float> >(int)")
    assert not is_condition(table(), "gemm<float")
    assert is_condition(table(), "op~mm")


def test_a_long_text_without_a_condition_is_looked_for():
    assert kept("x" * 3000) == []


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


def test_a_long_filter_over_a_long_list_is_fast():
    rows = 300_000
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
