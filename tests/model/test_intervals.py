"""Interval arithmetic against slow, obvious scripts on random intervals."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slow import SlowNesting, slow_nesting
from tracetui.model import intervals

SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40)), max_size=40)
PLAIN = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=30)


def sorted_columns(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, start and end of spans given as (group, start, duration), in nesting order."""
    table = np.array(spans, np.int64).reshape(-1, 3)
    order = intervals.sorted_order(table[:, 0], table[:, 1], table[:, 2])
    group, start, dur = table[order].T
    return group, start, start + dur


@given(SPANS)
def test_order_is_by_group_start_longest_first_then_place(spans):
    table = np.array(spans, np.int64).reshape(-1, 3)
    order = intervals.sorted_order(table[:, 0], table[:, 1], table[:, 2])
    expected = sorted(range(len(spans)), key=lambda i: (spans[i][0], spans[i][1], -spans[i][2], i))
    assert order.tolist() == expected


def test_order_survives_times_that_do_not_fit_one_key():
    start = np.array([1 << 61, 0, 1 << 61, 5], np.int64)
    order = intervals.sorted_order(np.array([3, 3, 0, 0]), start, np.ones(4, np.int64))
    assert order.tolist() == [3, 2, 1, 0]


@given(SPANS, st.sampled_from([0, 3]))
def test_nesting_equals_a_plain_stack(spans, tolerance):
    group, start, end = sorted_columns(spans)
    expected = slow_nesting(group.tolist(), start.tolist(), end.tolist(), tolerance)
    for nest in (intervals.nest, intervals._counted):
        nesting = nest(group, start, end, tolerance)
        assert SlowNesting(nesting.parent.tolist(), nesting.close.tolist(), nesting.cut_by.tolist()) == expected


@given(SPANS)
def test_rows_below_the_parent_and_never_drawn_over(spans):
    group, start, end = sorted_columns(spans)
    nesting = intervals.nest(group, start, end, 0)
    for i, parent in enumerate(nesting.parent.tolist()):
        assert parent < 0 or nesting.row[i] > nesting.row[parent]
        for j in range(i):
            if group[i] == group[j] and nesting.row[i] == nesting.row[j]:
                assert end[j] <= start[i] or end[j] == start[j] == start[i]


@given(SPANS)
def test_self_time_is_what_no_child_covers(spans):
    group, start, end = sorted_columns(spans)
    nesting = intervals.nest(group, start, end, 0)
    for i, mine in enumerate(intervals.self_time(nesting, start, end).tolist()):
        children = np.flatnonzero(nesting.parent == i)
        covered = set()
        for child in children:
            covered |= set(range(start[child], end[child]))
        assert mine == len(set(range(start[i], end[i])) - covered)


def test_a_child_within_the_tolerance_is_clipped_and_not_an_overlap():
    nesting = intervals.nest(np.zeros(2, int), np.array([0, 5]), np.array([10, 11]), tolerance=2)
    assert nesting.parent.tolist() == [-1, 0]
    assert nesting.close.tolist() == [10, 10]
    assert nesting.overlaps == 0


def test_what_outlasts_its_predecessor_becomes_a_parent_of_its_own():
    """A frame that ends just inside the annotation it opened must not swallow it (loading.md 5)."""
    start, end = np.array([0, 1, 3, 20]), np.array([100, 6, 90, 30])
    nesting = intervals.nest(np.zeros(4, int), start, end, tolerance=1)
    assert nesting.parent.tolist() == [-1, 0, 0, 2]
    assert nesting.row.tolist() == [0, 1, 2, 3]
    assert nesting.overlaps == 1


@given(SPANS)
def test_packing_uses_the_first_free_row_and_no_more_than_needed(spans):
    group, start, end = sorted_columns(spans)
    rows = intervals.pack(group, start, end)
    width = np.where(end > start, 2 * end, 2 * start + 1)
    for i in range(len(rows)):
        running = [j for j in range(i) if group[j] == group[i] and width[j] > 2 * start[i]]
        taken = {rows[j] for j in running}
        assert rows[i] == min(row for row in range(len(taken) + 1) if row not in taken)


@given(PLAIN)
def test_union_covers_what_any_interval_covers(spans):
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([d for _, d in spans], np.int64)
    starts, ends = intervals.union(start, end)
    points = set().union(*(range(s, e) for s, e in zip(start, end, strict=True))) if spans else set()
    assert (
        set().union(*(range(s, e) for s, e in zip(starts, ends, strict=True))) == points if len(starts) else not points
    )
    assert intervals.covered(start, end) == len(points)
    assert (starts[1:] > ends[:-1]).all()


@given(PLAIN, st.integers(0, 70), st.integers(0, 30))
def test_cover_within_a_window(spans, low, width):
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([d for _, d in spans], np.int64)
    starts, ends = intervals.union(start, end)
    inside = intervals.covered_within(starts, ends, np.array([low]), np.array([low + width]))
    points = set().union(*(range(s, e) for s, e in zip(start, end, strict=True))) if spans else set()
    assert inside.tolist() == [len(points & set(range(low, low + width)))]


def test_few_windows_are_covered_as_among_many():
    starts = np.arange(0, 1000, 10)
    low = np.arange(-5, 1010, 7)
    for width in (0, 3, 25, 2000):
        covered = intervals.covered_within(starts, starts + 4, low, low + width).tolist()
        each = [intervals.covered_within(starts, starts + 4, *np.array([[a], [a + width]])) for a in low.tolist()]
        assert [int(one[0]) for one in each] == covered


def test_depth_of_a_forest():
    assert intervals.tree_depth(np.array([-1, 0, 1, 1, -1, 4])).tolist() == [0, 1, 2, 2, 0, 1]
