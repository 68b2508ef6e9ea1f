"""Nesting in C against nesting in Python: the same columns for every input."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slow import slow_nesting
from tracetui.linking import trees
from tracetui.model import intervals, native
from tracetui.operators import costs

pytestmark = pytest.mark.skipif(native.nesting_library() is None, reason="no library was compiled")

SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40)), max_size=60)
FAR = st.lists(st.tuples(st.integers(0, 1), st.integers(-(1 << 60), 1 << 60), st.integers(0, 1 << 59)), max_size=20)
EXTREMES = [-(1 << 63), (1 << 63) - 1]
PARENTS = st.lists(st.integers(0, 1 << 20), max_size=60).map(
    lambda numbers: np.array([number % (row + 1) - 1 for row, number in enumerate(numbers)], np.int64)
)


def columns(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, start and duration in nesting order."""
    table = np.array(spans, np.int64).reshape(-1, 3)
    group, start, dur = table[intervals.sorted_order(*table.T)].T
    return np.ascontiguousarray(group), np.ascontiguousarray(start), np.ascontiguousarray(dur)


def assert_equal(made: tuple, expected: tuple) -> None:
    for mine, other in zip(made, expected, strict=True):
        assert np.array_equal(mine, other) and np.asarray(mine).dtype == np.asarray(other).dtype


@given(st.one_of(SPANS, FAR), st.sampled_from([0, 3, 1 << 62]))
def test_nesting(spans, tolerance):
    group, start, dur = columns(spans)
    heads, tails = intervals._stretches(group)
    made = native.nest(heads, tails, start, dur, tolerance)
    assert made is not None
    assert_equal(made, astuple(intervals._counted(group, start, start + dur, tolerance)))
    expected = slow_nesting(group.tolist(), start.tolist(), (start + dur).tolist(), tolerance)
    assert (made[0].tolist(), made[3].tolist(), made[4].tolist()) == tuple(expected)


@given(SPANS, st.sampled_from([1, 500]), st.sets(st.integers(0, 2)))
def test_what_slices_keep(spans, scale, left_out):
    """Some groups are left out, as lanes of streams are; at the larger scale the tolerance decides little."""
    group, start, dur = columns([(lane, start * scale, dur * scale) for lane, start, dur in spans])
    heads, tails = intervals._stretches(group)
    kept = ~np.isin(group[heads], list(left_out))
    made = native.nest_slices(heads[kept], tails[kept], start, dur, intervals.TOLERANCE)
    assert made is not None
    assert_equal(made, astuple(intervals._nest_slices(heads[kept], tails[kept], start, dur)))


def test_what_nests_too_deep_is_drawn_on_the_last_row():
    count = 40_000
    start, dur = np.arange(count), 2 * (count - np.arange(count))
    bounds = np.array([0]), np.array([count])
    made = native.nest_slices(*bounds, start, dur, intervals.TOLERANCE)
    assert made is not None and made[1].max() == made[2].max() == intervals.MAX_DEPTH
    assert_equal(made, astuple(intervals._nest_slices(*bounds, start, dur)))


def test_stretches_outside_of_the_columns_are_refused():
    start, dur = np.zeros(3, np.int64), np.ones(3, np.int64)
    for head, tail in ((0, 4), (-1, 2), (2, 1)):
        assert native.nest(np.array([head]), np.array([tail]), start, dur, 0) is None
        assert native.nest_slices(np.array([head]), np.array([tail]), start, dur, 0) is None


@given(PARENTS, st.data())
def test_forests(parent, data):
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent))), bool)
    values = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(parent), max_size=len(parent))), np.int64)
    assert_equal((native.depths(parent),), (intervals._counted_depth(parent),))
    assert_equal((native.nearest(parent, wanted),), (trees._climbed(parent, wanted),))
    short = parent.astype(np.int32)
    assert_equal((native.nearest_row(short, wanted),), (trees._climbed(short, wanted).astype(np.int32),))
    assert_equal((native.forest(short, wanted, wanted.sum()),), (trees._among_themselves(short, wanted),))
    assert native.forest(short, wanted, wanted.sum() + 1) is None
    assert_equal((native.subtree_sums(parent, values),), tuple(trees._summed_up(parent, values)))


@given(PARENTS, st.randoms(use_true_random=False))
def test_self_times_and_repeats(parent, random):
    """Also of parents that stand behind their children."""
    order = list(range(len(parent)))
    random.shuffle(order)
    moved = np.full(len(parent), -1, np.int64)
    for node, above in enumerate(parent.tolist()):
        moved[order[node]] = order[above] if above >= 0 else -1
    values = np.array([random.randrange(-9, 9) for _ in order], np.int64)
    assert_equal((native.self_times(moved, values),), (costs._without_children(moved, values),))
    names = values % 3
    assert_equal((native.repeats(moved, names),), (costs._repeating(moved, names),))


@pytest.mark.parametrize("parent", [[1, -1], [0], [-1, 5]])
def test_parents_behind_their_children_are_left_to_python(parent):
    column = np.array(parent)
    assert native.depths(column) is None
    assert native.nearest(column, np.ones(len(column), bool)) is None
    assert native.nearest_row(column.astype(np.int32), np.ones(len(column), bool)) is None
    assert native.subtree_sums(column, column) is None
    assert native.forest(column.astype(np.int32), np.ones(len(column), bool), len(column)) is None


def test_parents_beyond_the_column_are_left_to_python():
    column = np.array([-1, 2])
    assert native.self_times(column, column) is None and native.repeats(column, column) is None


@given(
    st.lists(st.one_of(st.integers(-9, 30), st.sampled_from(EXTREMES)), max_size=40).map(sorted),
    st.lists(st.one_of(st.integers(-9, 30), st.sampled_from(EXTREMES)), max_size=40),
    st.sampled_from(["left", "right"]),
)
def test_insertion_index(ascending, values, side):
    column, wanted = np.array(ascending, np.int64), np.array(values, np.int64)
    assert_equal((native.insertion_index(column, wanted, side),), (np.searchsorted(column, wanted, side),))


def test_insertion_index_of_long_columns_and_of_other_types():
    random = np.random.default_rng(3)
    column = np.sort(random.integers(0, 1 << 40, 5_000))
    for values in (random.integers(0, 1 << 40, 9_000), np.sort(random.integers(0, 1 << 40, 9_000)), column[::-1]):
        for side in ("left", "right"):
            made = native.insertion_index(column, values, side)
            assert np.array_equal(made, np.searchsorted(column, values, side))
    small = np.array([1, 3], np.int32)
    assert native.insertion_index(small, np.array([0, 2, 9]), "left").tolist() == [0, 1, 2]
