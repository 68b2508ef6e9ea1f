"""What the launching thread was doing in a gap, where its slices overlap without one holding the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.idle.gaps import gaps, longest, slices_in_gaps
from tracetui.model.trace import Kind

OVERLAPPING = [(0, 2), (1, 17)]
"""Start and length of two ops, of which the second begins in the first and outlasts it."""


def longest_of(ops: list[tuple[int, int]], low: int, high: int) -> tuple[int, int]:
    """Start and end of what one of some ops on one thread takes of a window."""
    trace = make_trace([op("aten::mm", start, dur) for start, dur in ops])
    begin, end, _ = longest(trace, np.arange(len(ops)), np.zeros(1, np.int64), np.array([low]), np.array([high]))
    return int(begin[0]), int(end[0])


@pytest.mark.parametrize(
    ("ops", "window", "expected"),
    [
        (OVERLAPPING, (2, 17), (2, 17)),  # only the second reaches it
        (OVERLAPPING, (0, 18), (2, 18)),  # 2 ns of the first, 16 of what the second adds
        ([(0, 10), (5, 8)], (6, 13), (6, 10)),  # 4 ns of the first, 3 of what the second adds
        ([(0, 30), (5, 10), (10, 10)], (12, 20), (12, 20)),  # all within the first
        ([(0, 5), (5, 0), (5, 4)], (5, 9), (5, 9)),  # a slice of no length takes nothing
    ],
)
def test_an_overlapping_slice_counts_from_where_the_earlier_one_ended(ops, window, expected):
    assert longest_of(ops, *window) == expected


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=10), st.integers(0, 90), st.integers(1, 40))
@example(OVERLAPPING, 2, 15)
def test_every_window_that_touches_a_slice_gets_a_part_of_one(ops, low, length):
    ops = [*ops, (low, 1)]
    begin, end = longest_of(ops, low, low + length)
    assert low <= begin < end <= low + length
    assert any(start <= begin and end <= start + dur for start, dur in ops)


def test_a_gap_in_what_only_the_second_of_two_overlapping_ops_covers():
    """The device is idle from 120 us on, and until 190 the thread is in `aten::b`, which begins in `aten::a`."""
    trace = make_trace(
        [
            op("aten::a", 0, 100_000),
            op("aten::b", 50_000, 150_000),
            launch(10_000, 5_000, 1),
            launch(190_000, 5_000, 2),
            kernel("k", 20_000, 100_000, correlation=1),
            kernel("k", 200_000, 10_000, correlation=2),
        ]
    )
    assert [trace.names[trace.slices.name[row]] for row in slices_in_gaps(trace).tolist()] == ["aten::b"]
    assert [row["cpu_doing"] for row in gaps(trace).rows()] == ["aten::b"]


def test_the_thread_is_in_a_call_that_begins_in_another_and_outlasts_it():
    """A call that begins in a launch of 2 ns goes on until the next launch; the gap from 2 to 32 ns is its own."""
    trace = make_trace(
        [
            launch(0, 2, 1),
            Event("cudaStreamWaitEvent", 1, 17, Kind.RUNTIME),
            launch(17, 0, 2),
            kernel("k", 0, 2, correlation=2),
            kernel("k", 32, 0, correlation=2),
        ]
    )
    assert [trace.names[trace.slices.name[row]] for row in slices_in_gaps(trace).tolist()] == ["cudaStreamWaitEvent"]


def between(*inside: Event) -> list[str]:
    """What the thread was in from 0.1 to 10 ms, a gap before a kernel that is launched as it ends."""
    calls = [launch(0, 5_000, 1), launch(9_990_000, 5_000, 2)]
    work = [kernel("k", 10_000, 90_000, correlation=1), kernel("k", 10_000_000, 10_000, correlation=2)]
    return [str(row["cpu_doing"]) for row in gaps(make_trace([*calls, *work, *inside])).rows()]


def test_the_outermost_operator_that_covers_most_is_named_and_not_what_is_open_in_the_middle():
    outer = op("aten::unflatten_dense_tensors", 1_000_000, 8_000_000)
    assert between(outer, op("aten::slice", 4_900_000, 300_000)) == ["aten::unflatten_dense_tensors"]


def test_of_frames_the_deepest_that_covers_half_of_the_gap_is_named():
    frames = [
        Event("train.py(1): main", 0, 10_500_000, Kind.PYTHON),
        Event("train.py(9): collate", 1_000_000, 8_000_000, Kind.PYTHON),
        Event("copy.py(3): deepcopy", 4_500_000, 1_000_000, Kind.PYTHON),
    ]
    assert between(*frames) == ["train.py(1): main > train.py(9): collate"]
    assert between(frames[2]) == ["None"], "a tenth of the gap is not most of it"
