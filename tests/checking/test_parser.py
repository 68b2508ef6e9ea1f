"""From text to tree: every text is read or refused, nothing else, and a tree that is written is read again."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.checking.parser import (
    LEVELS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    Chain,
    Figure,
    Node,
    Path,
    PathPart,
    Prefixed,
    Quoted,
    parsed,
    written,
)
from tracetui.checking.values import LITERALS, Mistake, pointed

WORDS = ["kernels", "==", "5", "(", ")", "and", "or", "not", "max", ",", ".", "[", "]", "3", "'a'", '"', "-", "*", "/"]
WORDS += ["<=", "~", "!~", "10%", "1.5ms", "GB/s", "#", "baseline", "step", "op", "µs", "≤", "_", "1e9", "\n"]
NAMES = st.sampled_from(["kernels", "dur_us", "steps", "baseline", "_x9", "max", "gemm_us"])
figures = st.builds(
    Figure,
    st.floats(0, 1e300, allow_nan=False) | st.integers(0, 10**18).map(float),
    st.sampled_from(["", *LITERALS]),
)
quoted = st.builds(Quoted, st.text().filter(lambda text: '"' not in text or "'" not in text))


def parts(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[PathPart]:
    return st.builds(
        PathPart, NAMES, st.none() | st.integers(0, 999_999_999), st.none() | st.lists(inner, max_size=3).map(tuple)
    )


def rows(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def of_level(signs: tuple[str, ...]) -> st.SearchStrategy[Node]:
        rest = st.lists(st.tuples(st.sampled_from(signs), inner), min_size=1, max_size=3).map(tuple)
        return st.builds(Chain, inner, rest)

    return st.sampled_from(LEVELS).flatmap(of_level)


def deeper(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    paths = st.lists(parts(inner), min_size=1, max_size=3).map(lambda found: Path(tuple(found)))
    return paths | st.builds(Prefixed, st.sampled_from(["not", "-", "+"]), inner) | rows(inner)


trees = st.recursive(figures | quoted, deeper, max_leaves=12)


@given(trees)
def test_a_tree_that_is_written_is_read_again(tree):
    text = written(tree)
    if len(text) <= MAX_CHARACTERS:
        assert parsed(text) == tree


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
    | st.lists(st.sampled_from(WORDS), max_size=60).map("".join)
)
def test_any_text_is_read_or_refused_with_a_place_in_it(text):
    began = time.process_time()
    try:
        tree = parsed(text)
    except Mistake as mistake:
        assert 0 <= mistake.at <= len(text)
        assert str(mistake).endswith((".", "?"))
        line, caret = pointed(text, mistake.at)
        assert len(caret) <= len(line) + 1
    else:
        assert parsed(written(tree)) == tree
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    "text",
    ["(" * 1990, "-" * 1999, "not " * 499, "max(" * 490, "1" + "+1" * 999, "a" + ".b" * 999, "f(" + "1," * 900 + "1)"],
)
def test_hostile_depth_and_length_end_at_once(text):
    began = time.process_time()
    try:
        assert parsed(written(parsed(text))) == parsed(text)
    except Mistake as mistake:
        assert str(MAX_DEPTH) in str(mistake) or "at most" in str(mistake)
    assert time.process_time() - began < 20


def test_what_is_longer_is_refused():
    with pytest.raises(Mistake, match="at most 2,000"):
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


def test_a_chain_and_a_path_as_trees():
    assert parsed("1 < x <= 2") == Chain(Figure(1.0), (("<", Path((PathPart("x"),))), ("<=", Figure(2.0))))
    steps = Path((PathPart("baseline"), PathPart("step", 3), PathPart("dur_us")))
    assert parsed("baseline.step[3].dur_us") == steps


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "no expression"),
        ("# nothing", 0, "no expression"),
        ("kernels = 5", 8, "=="),
        ("kernels == ", 11, "ends where a value"),
        ("kernels 5", 8, "operator"),
        ("max(steps.dur_us", 3, "no ) to close"),
        ("max(a b)", 6, "comma"),
        ("(a", 0, "no ) to close"),
        ("'abc", 0, "closing quote"),
        ("x < 5mss", 5, "ms"),
        ("x < 5lightyears", 5, "no unit"),
        ("x < 1e999", 4, "too large"),
        ("step[x]", 5, "number of a step"),
        ("step[1.5]", 5, "number of a step"),
        ("step[9999999999]", 5, "number of a step"),
        ("a.5", 2, "stands where"),
        ("a.", 2, "ends where a name"),
        ("1 + not a", 4, "parentheses"),
        ("f(,)", 2, "a value"),
        ("x ** 2", 3, "a value"),
        ("kernels == 3,874", 12, "3874 or 3_874"),
        ("(kernels == 1,003,874)", 13, "3874 or 3_874"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, at, says):
    with pytest.raises(Mistake, match="(?i)" + says.replace("(", r"\(").replace(")", r"\)")) as caught:
        parsed(text)
    if text != "a.5":
        assert caught.value.at == at


@pytest.mark.parametrize("text", ["kernels == 3, 874", "kernels == 3,87", "kernels,874 == 3", "kernels == 3,"])
def test_a_comma_that_sets_no_thousands_apart_is_only_a_comma(text):
    with pytest.raises(Mistake) as caught:
        parsed(text)
    assert "3_874" not in str(caught.value)


def test_commas_between_arguments_are_no_thousands():
    assert written(parsed("min(kernels, 3,874) == within(1,200,300)")) == "min(kernels, 3, 874) == within(1, 200, 300)"


def test_a_long_expression_is_shown_around_the_place():
    text = "1 + " * 100 + "= 5"
    line, caret = pointed(text, 400)
    assert line[len(caret) - 1] == "="
    assert len(line) < 90
