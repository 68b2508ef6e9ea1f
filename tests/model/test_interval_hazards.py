"""Intervals where a step of the arithmetic shows: tolerance, cuts, groups that touch, times far apart."""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.model import intervals
from tracetui.model.intervals import Nesting, nest

FAR = 1 << 62
"""So far apart in ns that groups do not fit beside each other on one axis of 64 bits."""


def columns(spans: list[tuple[int, int]], group: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group, start and end of intervals of one group."""
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return np.full(len(spans), group, np.int64), start, end


def nested(*spans: tuple[int, int], tolerance: int = 0) -> Nesting:
    """The nesting of intervals of one group, given in order of their start."""
    return nest(*columns(list(spans)), tolerance)


def alone(*spans: tuple[int, int], tolerance: int = 0) -> list[int]:
    """Their self time."""
    _, start, end = columns(list(spans))
    return intervals.self_time(nested(*spans, tolerance=tolerance), start, end).tolist()


@pytest.mark.parametrize(("end", "parent", "overlaps"), [(12_000, 0, 0), (12_001, -1, 1)])
def test_a_child_may_outlast_its_parent_by_two_microseconds_and_no_more(end, parent, overlaps):
    found = nest(*columns([(0, 10_000), (5_000, end)]))
    assert (int(found.parent[1]), found.overlaps) == (parent, overlaps)


def test_a_clipped_child_costs_its_parent_no_more_than_the_parent_has():
    assert alone((0, 10), (5, 11), tolerance=2) == [5, 6]  # 10 less the 5 from 5 to its end


def test_parent_and_child_cut_by_one_newcomer_are_as_if_they_were_not():
    """At 5 the newcomer cuts both: the parent has 10 less the 6 of its child, not less the 3 until the cut."""
    found = nested((0, 10), (2, 8), (5, 20))
    assert (found.parent.tolist(), found.close.tolist()) == ([-1, 0, -1], [5, 5, 20])
    assert (found.cut_by.tolist(), found.row.tolist(), found.overlaps) == ([2, 2, -1], [0, 1, 2], 1)
    assert alone((0, 10), (2, 8), (5, 20)) == [4, 6, 15]
    assert alone((0, 10), (2, 11), (5, 30), tolerance=2) == [2, 9, 25]  # the child counts up to the parent's end


def test_what_a_newcomer_cuts_within_a_parent_counts_up_to_the_cut():
    """20 less 3 until the newcomer begins and 7 of the newcomer."""
    assert alone((0, 20), (2, 8), (5, 12)) == [10, 6, 7]


def test_no_length_is_not_within_what_ends_there_even_where_another_is_outlasted():
    assert nested((0, 10), (2, 5), (5, 5), (6, 12)).parent.tolist() == [-1, 0, 0, -1]


UNRULY = [(0, 10), (1, 9), (2, 8), (5, 20), (6, 7), (21, 25), (22, 23), (30, 40), (31, 33), (32, 36)]
"""Three deep and outlasted by a fourth, an orderly stretch, and one that is outlasted within a parent."""


@pytest.mark.parametrize("apart", [0, FAR])
@pytest.mark.parametrize("group", [0, 2])
def test_two_unruly_stretches_around_an_orderly_one(apart, group):
    spans = [(start + apart * (start >= 21), end + apart * (start >= 21)) for start, end in UNRULY]
    groups, start, end = columns(spans, group)
    found = nest(groups, start, end, 0)
    assert found.parent.tolist() == [-1, 0, 1, -1, 3, -1, 5, -1, 7, 7]
    assert found.depth.tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 1, 1]
    assert found.row.tolist() == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2]
    assert found.cut_by.tolist() == [3, 3, 3, -1, -1, -1, -1, -1, 9, -1]
    assert (found.close - apart * (start >= 21)).tolist() == [5, 5, 5, 20, 7, 25, 23, 40, 32, 36]
    assert found.overlaps == 2
    assert intervals.self_time(found, start, end).tolist() == [2, 2, 6, 14, 1, 3, 1, 5, 2, 4]


@pytest.mark.parametrize("apart", [0, FAR])
def test_the_end_of_one_group_does_not_reach_into_the_next(apart):
    group = np.array([0, 0, 1, 1, 2])
    start = np.array([0, 10 + apart, 0, 3, 0], np.int64)
    end = np.array([10 + apart, 10 + apart, 10 + apart, 4, 10 + apart], np.int64)
    assert nest(group, start, end, 0).parent.tolist() == [-1, -1, -1, 2, -1]
    assert intervals.pack(group, start, end).tolist() == [0, 0, 0, 1, 0]


def test_the_last_start_of_one_group_comes_before_the_first_of_the_next():
    order = intervals.sorted_order(np.array([1, 0]), np.array([0, 100], np.int64), np.array([9, 1], np.int64))
    assert order.tolist() == [1, 0]


def test_of_equal_starts_the_longest_comes_first_and_then_the_first():
    starts, lengths = np.array([-3, 5, 5, 5, -5], np.int64), np.array([1, 1, 9, 9, 2], np.int64)
    assert intervals.sorted_order(np.zeros(5, np.int64), starts, lengths).tolist() == [4, 0, 2, 3, 1]


def test_no_length_holds_what_starts_with_it_and_nothing_later():
    found = nested((5, 5), (5, 5), (6, 8), (8, 8))
    assert (found.parent.tolist(), found.depth.tolist()) == ([-1, 0, -1, -1], [0, 1, 0, 0])
    assert intervals.pack(*columns([(5, 5), (5, 5), (6, 8), (8, 8)])).tolist() == [0, 1, 0, 0]


def test_the_first_row_that_is_free_again_is_used_again():
    """At 4 rows 0 and 1 are free, of which the first is taken; what begins at 9 finds all free."""
    assert intervals.pack(*columns([(0, 4), (0, 4), (1, 9), (4, 6), (9, 10), (9, 10)])).tolist() == [0, 1, 2, 0, 0, 1]


def test_touching_stretches_are_one_and_a_nanosecond_keeps_them_apart():
    starts, ends = intervals.union(np.array([6, 0, 5, 3]), np.array([6, 5, 8, 4]))
    assert (starts.tolist(), ends.tolist()) == ([0], [8])
    starts, ends = intervals.union(np.array([0, 6]), np.array([5, 8]))
    assert (starts.tolist(), ends.tolist()) == ([0, 6], [5, 8])
    assert intervals.covered(np.array([0, 6, 9]), np.array([5, 8, 9])) == 7
    assert intervals.covered(np.array([3]), np.array([3])) == 0


def test_how_much_of_windows_beside_across_and_between_stretches_is_covered():
    """Of [10, 20) and [30, 40)."""
    windows = {(0, 5): 0, (0, 10): 0, (0, 15): 5, (12, 18): 6, (15, 35): 10, (20, 30): 0, (40, 50): 0, (0, 50): 20}
    low, high = np.array(list(windows), np.int64).T
    starts, ends = np.array([10, 30], np.int64), np.array([20, 40], np.int64)
    assert intervals.covered_within(starts, ends, low, high).tolist() == list(windows.values())
    assert intervals.covered_within(starts[:0], ends[:0], low, high).tolist() == [0] * len(windows)
