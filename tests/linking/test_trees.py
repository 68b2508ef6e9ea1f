"""Trees of slices, and groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, make_trace, op
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.idle.thread_causes import _is_first
from tracetui.linking import trees
from tracetui.linking.groups import PartSums, combinations, group
from tracetui.linking.placement import kind_within, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import count_inside, forest, nearest, subtree_sums
from tracetui.model.trace import Kind
from tracetui.operators.costs import _without_repeats


def test_the_nearest_wanted_ancestor_may_be_far_up() -> None:
    parent = np.array([-1, 0, 1, 2, 3, -1])
    wanted = np.array([True, False, False, True, False, False])
    assert nearest(parent, wanted).tolist() == [-1, 0, 0, 0, 3, -1]


def test_sums_include_everything_below() -> None:
    parent = np.array([-1, 0, 1, 0, -1])
    assert [sums.tolist() for sums in subtree_sums(parent, np.array([1, 2, 4, 8, 16]))] == [[15, 6, 4, 8, 16]]
    assert [sums.tolist() for sums in subtree_sums(np.empty(0, np.int64), np.empty(0))] == [[]]


def test_a_lane_with_overlaps_is_nested_without_those_that_do_not_take_part() -> None:
    trace = make_trace(
        [
            op("outer", 0, 20_000),
            Event("async", 5_000, 50_000, Kind.ANNOTATION),
            op("inner", 10_000, 5_000),
        ]
    )
    assert forest(trace, trace.slices.of_kind(Kind.CPU_OP)).tolist() == [-1, 0]
    assert forest(trace, np.arange(3)).tolist() == [-1, -1, 1]


def test_inside_counts_starts_in_the_half_open_window_of_the_same_lane() -> None:
    trace = make_trace([op("a", 0, 10), op("x", 0, 1), op("x", 9, 1), op("x", 10, 1), op("x", 5, 1, lane=("1", "2"))])
    marked = np.flatnonzero(trace.slices.name == trace.names.find("x"))
    assert count_inside(trace, np.array([0]), marked).tolist() == [2]


def test_few_rows_have_the_parents_that_many_have(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    samples = [np.sort(np.random.default_rng(seed).choice(len(trace.slices), 300, replace=False)) for seed in range(5)]
    usual = [forest(trace, rows).tolist() for rows in samples]
    assert any(parent >= 0 for parents in usual for parent in parents)
    monkeypatch.setattr(trees, "FEW_SHARE", 1)
    assert [forest(trace, rows).tolist() for rows in samples] == usual


def test_slices_of_a_step_are_those_of_all_that_lie_in_it() -> None:
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    for number in steps(trace).number.tolist():
        for kind in (Kind.CPU_OP, Kind.ANNOTATION):
            rows = kind_within(trace, kind, number)
            assert len(rows) and rows.tolist() == within(trace, trace.slices.of_kind(kind), number).tolist()


NUMBERS = st.one_of(st.integers(-3, 9), st.sampled_from([-(1 << 40), 1 << 40]))
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40)


@given(st.lists(NUMBERS, max_size=40))
def test_groups(ids):
    made = group(np.array(ids, np.int64))
    known = sorted(set(ids))
    assert made.key.tolist() == known
    assert made.member.tolist() == [known.index(number) for number in ids]


@given(PAIRS)
def test_combinations(pairs):
    made = combinations(*np.array(pairs, np.int64).reshape(-1, 2).T)
    known = sorted(set(pairs))
    assert made.member.tolist() == [known.index(pair) for pair in pairs]
    assert made.first.tolist() == [pairs.index(pair) for pair in known]


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(-9, 99)), max_size=40), st.booleans())
def test_sums_in_parts(rows, ascending):
    rows = sorted(rows) if ascending else rows
    part, values = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [sum(value for number, value in rows if number == index) for index in range(5)]
    sums = PartSums(part, 5)
    assert sums.of(values).tolist() == expected
    assert sums.of(values > 0).tolist() == [
        sum(value > 0 for number, value in rows if number == index) for index in range(5)
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40))
def test_the_earliest_of_each_key_and_of_equal_ones_the_first(rows):
    start, key = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [
        not any(other_key == key and (other, j) < (begin, i) for j, (other, other_key) in enumerate(rows))
        for i, (begin, key) in enumerate(rows)
    ]
    assert _is_first(start, key).tolist() == expected


class FakeSlices:
    """Slices that start one after the other and last equally long."""

    def __init__(self, count: int) -> None:
        self.start, self.dur = np.arange(count), np.ones(count, np.int64)


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1)), max_size=40))
def test_only_children_of_the_same_name_are_left_out(nodes):
    parent = [number % (row + 1) - 1 for row, (number, _) in enumerate(nodes)]
    name = [text for _, text in nodes]
    repeats = [above >= 0 and name[row] == name[above] and parent.count(above) == 1 for row, above in enumerate(parent)]

    def top(row: int) -> int:
        return top(parent[row]) if repeats[row] else row

    kept = [row for row in range(len(nodes)) if not repeats[row]]
    source = {row: max(other for other in range(len(nodes)) if top(other) == row) for row in kept}
    slices: Any = FakeSlices(len(nodes))
    keep, above, taken = _without_repeats(
        slices, np.arange(len(nodes)), np.array(parent, np.int64), np.array(name, np.int64)
    )
    assert keep.tolist() == kept
    assert above.tolist() == [kept.index(top(parent[row])) if parent[row] >= 0 else -1 for row in kept]
    assert taken.tolist() == [source[row] for row in kept]
