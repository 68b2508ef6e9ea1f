"""Begins and ends against a slow walk."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.slow import slow_pairs
from tracetui.reading.spans import pair

NAMES = ["", "a", "b"]
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.booleans(), st.sampled_from(NAMES)), max_size=40)


@given(EVENTS)
@example([(0, 0, True, "a"), (1, 1, True, "a"), (1, 2, False, "a"), (0, 3, False, "")])
@example([(0, 0, False, ""), (1, 0, True, "a"), (1, 1, False, "")])
def test_pairs_equal_a_slow_walk(events):
    group = np.array([event[0] for event in events], np.int64)
    time = np.array([event[1] for event in events], np.int64)
    begins = np.array([event[2] for event in events], bool)
    name = np.array([NAMES.index(event[3]) for event in events], np.int64)
    found = pair(group, time, begins, name, unnamed=0)
    pairs, opened, stray = slow_pairs(events)
    assert set(zip(found.begin.tolist(), found.end.tolist(), strict=True)) == pairs
    assert set(found.open.tolist()) == opened
    assert set(found.stray.tolist()) == stray
