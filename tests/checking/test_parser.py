"""From text to tree: every text is read or refused, nothing else, and a tree that is written is read again."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.checking.parser import MAX_CHARACTERS, MAX_DEPTH, parsed, path_of, written
from tracetui.checking.values import LITERALS, ExpressionError, pointed

WORDS = ["kernels", "==", "5", "(", ")", "and", "or", "not", "max", ",", ".", "[", "]", "3", "'a'", '"', "-", "*", "/"]
WORDS += ["<=", "~", "!~", "10%", "1.5ms", "GB/s", "#", "baseline", "step", "op", "µs", "≤", "_", "1e9", "\n"]
NAMES = st.sampled_from(["kernels", "dur_us", "steps", "baseline", "_x9", "max", "in", "lambda", "step[2]", 'op("a")'])
NUMBERS = st.builds("{}{}".format, st.integers(0, 10**6) | st.floats(0, 1e9), st.sampled_from(["", *LITERALS]))


def deeper(inner):
    operators = st.sampled_from(["+", "-", "*", "/", "==", "<", "~", "!~", "and", "or"])
    return (
        st.builds("({}) {} ({})".format, inner, operators, inner)
        | st.builds("{}({})".format, st.sampled_from(["not ", "-", "+", "f"]), inner)
        | st.builds("f({}, kind={}).x".format, inner, NAMES)
    )


@given(st.recursive(NUMBERS | NAMES, deeper, max_leaves=12))
def test_a_tree_that_is_written_is_read_again(text):
    try:
        plain = written(parsed(text))
    except ExpressionError as error:
        assert "not stands before" in str(error)
    else:
        assert written(parsed(plain)) == plain


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
    | st.lists(st.sampled_from(WORDS), max_size=60).map("".join)
)
def test_any_text_is_read_or_refused_with_a_place_in_it(text):
    began = time.process_time()
    try:
        tree = parsed(text)
    except ExpressionError as mistake:
        assert 0 <= mistake.at <= len(text)
        assert str(mistake).endswith((".", "?"))
        line, caret = pointed(text, mistake.at)
        assert len(caret) <= len(line) + 1
    else:
        assert written(parsed(written(tree))) == written(tree)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "text",
    ["(" * 1990, "-" * 1999, "not " * 499, "max(" * 490, "1" + "+1" * 999, "a" + ".b" * 999, "f(" + "1," * 900 + "1)"],
)
def test_hostile_depth_and_length_end_at_once(text):
    began = time.process_time()
    try:
        assert written(parsed(written(parsed(text)))) == written(parsed(text))
    except ExpressionError as mistake:
        assert str(MAX_DEPTH) in str(mistake) or "at most" in str(mistake)
    assert time.process_time() - began < 20


def test_what_is_longer_is_refused():
    with pytest.raises(ExpressionError, match="at most 2,000"):
        parsed("1 == " + "1" * MAX_CHARACTERS)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1+2*3", "1 + 2 * 3"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("1-(2-3)", "1 - (2 - 3)"),
        ("((a))", "a"),
        ("not a==b and c", "not a == b and c"),
        ("!a==b & c | !(d && e) || f", "not a == b and c or not (d and e) or f"),
        ("a != b", "a != b"),
        ("not (a and b)", "not (a and b)"),
        ("a or b and c", "a or b and c"),
        ("(a or b) and c", "(a or b) and c"),
        ("-a*b", "-a * b"),
        ("-(a*b)", "-(a * b)"),
        ("a ≤ 1_000 µs # a remark", "a <= 1000µs"),
        ('kernel("gemm").total_us<.5 ms', 'kernel("gemm").total_us < 0.5ms'),
        ("'say \"hi\"' ~ x", "'say \"hi\"' ~ x"),
        ("90<=x<=100", "90 <= x <= 100"),
        ("r > 300 GB/s", "r > 300GB/s"),
        ("r > 300 GB / s", "r > 300GB / s"),
    ],
)
def test_how_tightly_operators_bind(text, plain):
    assert written(parsed(text)) == plain


def test_positions_are_those_in_the_text_of_the_user():
    tree = parsed("a ≤ 1_000 µs & baseline.step[3].dur_us")
    assert isinstance(tree, ast.BoolOp)
    first, second = tree.values
    assert isinstance(first, ast.Compare) and isinstance(first.comparators[0], ast.Constant)
    assert [first.col_offset, first.comparators[0].col_offset, first.comparators[0].kind] == [0, 4, "µs"]
    assert [(part.name, part.at, part.index) for part in path_of(second)] == [
        ("baseline", 15, None),
        ("step", 24, 3),
        ("dur_us", 32, None),
    ]


def test_commas_between_arguments_are_no_thousands():
    assert written(parsed("min(kernels, 3,874) == within(1,200,300)")) == "min(kernels, 3, 874) == within(1, 200, 300)"


def test_a_long_expression_is_shown_around_the_place():
    text = "1 + " * 100 + "= 5"
    line, caret = pointed(text, 400)
    assert line[len(caret) - 1] == "="
    assert len(line) < 90
