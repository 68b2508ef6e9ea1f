"""Ranges of time: one notation, and what runs within them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetui.errors import UsageError
from tracetui.model.intervals import TimeRange, read_time_range
from tracetui.model.viewpoint import Viewpoint, read_view_string, view_string


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
