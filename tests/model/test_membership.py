"""Membership and indices by tables against sets and dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.model.intervals import index_of, is_among, without

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
