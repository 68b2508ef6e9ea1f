"""Columns that grow, against chunks that are joined in the end; and numbers of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.reading import columns as gathered
from tracetui.reading.chrome import numbered_pairs
from tracetui.reading.columns import Gathered

CHUNKS = st.lists(
    st.tuples(st.sampled_from(["i4", "i8", "u1", "?"]), st.lists(st.integers(0, 1), max_size=9)), max_size=20
)


@given(CHUNKS, st.sampled_from([1, 2, 1 << 16]))
def test_what_grew_is_what_was_added(chunks, spare):
    before, gathered.MAX_SPARE_ROWS = gathered.MAX_SPARE_ROWS, spare
    try:
        columns = Gathered("value", "other")
        arrays = [np.array(values, dtype) for dtype, values in chunks]
        for values in arrays:
            columns.add(value=values, other=values)
            values[:] = 0  # what is added is copied: blocks are read into the memory of earlier ones
        arrays = [np.array(values, dtype) for dtype, values in chunks]
        expected = np.concatenate(arrays).astype("i8") if arrays else np.empty(0, "i8")
        for name in columns.names:
            taken = columns.take(name, "i8")
            assert taken.dtype == np.int64 and taken.tolist() == expected.tolist()
    finally:
        gathered.MAX_SPARE_ROWS = before


def test_a_number_that_needs_more_bits_than_those_before_it_is_kept():
    columns = Gathered("value")
    for chunk in (np.array([1], "i4"), np.array([1 << 40], "i8"), np.array([2], "i4")):
        columns.add(value=chunk)
    assert columns.take("value", "i8").tolist() == [1, 1 << 40, 2]


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 5), st.integers(0, 1 << 20))), max_size=40))
def test_pairs_are_numbered_in_their_order(pairs):
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    rank = {pair: number for number, pair in enumerate(sorted(set(pairs)))}
    made = numbered_pairs(first.astype(np.int16), second.astype(np.int32))
    assert made.dtype == np.int32 and made.tolist() == [rank[pair] for pair in pairs]
