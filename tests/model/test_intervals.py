"""Intervals: membership, ranges of time, unions, sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.slow import SlowNesting, slow_nesting
from tracetui.errors import UsageError
from tracetui.model import intervals
from tracetui.model.intervals import TimeRange, index_of, is_among, read_time_range, without
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string

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


EXTREMES = [-(1 << 63), (1 << 63) - 1]
NUMBERS = st.lists(st.one_of(st.integers(-5, 40), st.sampled_from([*EXTREMES, 1 << 40])), max_size=30)
SMALL = st.lists(st.integers(-5, 40), max_size=30)
ROWS = st.sets(st.integers(0, 40)).map(sorted)


@given(st.one_of(NUMBERS, SMALL), st.one_of(NUMBERS, SMALL))
def test_membership(values, members):
    made = is_among(np.array(values, np.int64), np.array(members, np.int64))
    assert made.dtype == bool and made.tolist() == [value in members for value in values]


@given(st.lists(st.integers(0, 255), max_size=30), st.lists(st.integers(0, 255), max_size=9))
def test_membership_of_small_types(values, members):
    made = is_among(np.array(values, np.uint8), members)
    assert made.tolist() == [value in members for value in values]
    assert is_among(np.array(values, np.int16), np.array(members, np.int64)).tolist() == made.tolist()


@given(st.one_of(NUMBERS, SMALL), st.one_of(NUMBERS, SMALL))
def test_index(ids, wanted):
    made = index_of(np.array(ids, np.int64), np.array(wanted, np.int64))
    if len(set(ids)) == len(ids) and set(ids) <= set(range(-5, 41)):
        assert made is not None
    if made is not None:
        assert len(set(ids)) == len(ids)
        assert made.tolist() == [ids.index(each) if each in ids else -1 for each in wanted]


@given(ROWS, SMALL)
def test_without(rows, left_out):
    made = without(np.array(rows, np.int64), np.array(left_out, np.int64))
    assert made.tolist() == [row for row in rows if row not in left_out]


@given(st.integers(-(10**12), 10**15), st.integers(1, 10**15))
def test_a_range_is_read_back_to_the_nanosecond(start, length):
    time_range = TimeRange(start, start + length)
    assert read_time_range(time_range.text) == read_time_range(f"@{time_range.text}") == time_range
    viewpoint = Viewpoint(pane="range", time_range=time_range, start_ns=1000.0, length_ns=2000.0)
    assert read_view_string(view_string(viewpoint)) == viewpoint


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("12us+250us", 12_000, 262_000), ("@1.5ms+2s", 1_500_000, 2_001_500_000), ("-3ns+5ns", -3, 2)],
)
def test_units(text, start, end):
    assert read_time_range(text) == TimeRange(start, end)


@pytest.mark.parametrize("text", ["", "12us", "12+250", "12us+", "12us+0us", "12us+-3us", "12us..20us", "9e9s+1us"])
def test_what_is_no_range(text):
    with pytest.raises(UsageError, match=r"write its start and length, as in 12.5us\+250us"):
        read_time_range(text)


def test_a_view_string_with_a_range_beside_a_step():
    viewpoint = read_view_string("s3/range=12us+250us/kernels/e5@10us+300us")
    assert (viewpoint.step, viewpoint.time_range) == (3, TimeRange(12_000, 262_000))
    assert (viewpoint.start_ns, viewpoint.length_ns) == (10_000.0, 300_000.0)


@pytest.mark.parametrize(
    ("start", "end", "runs", "covered"),
    [(90, 100, False, 0), (90, 101, True, 1), (199, 300, True, 1), (200, 300, False, 0), (0, 900, True, 100),
     (100, 100, True, 0), (200, 200, False, 0), (150, 150, True, 0), (99, 99, False, 0)],
)  # fmt: skip
def test_what_runs_within_a_range(start, end, runs, covered):
    time_range = TimeRange(100, 200)
    assert time_range.touched(np.array([start]), np.array([end])).tolist() == [runs]
    assert time_range.covered(np.array([start]), np.array([end])).tolist() == [covered]
