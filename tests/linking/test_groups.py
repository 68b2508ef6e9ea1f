"""Groups and combinations against dictionaries, and sums in parts against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.idle.thread_causes import _is_first
from tracetui.linking.groups import PartSums, combinations, group
from tracetui.operators.costs import _without_repeats

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
