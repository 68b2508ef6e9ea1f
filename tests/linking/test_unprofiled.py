"""Times without the profiler in the metadata of a trace: read, refused where they make no sense, and compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import make_trace, op, step
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.health.summary import facts
from tracetui.linking.step_kinds import time_ratio, unprofiled_time

TIMES = {"median_us": 20.0, "low_us": 19.8, "high_us": 20.3, "profiled_us": 37.0, "session": "one"}


def recorded(scale=1.0, **changes):
    """A trace of three steps with such times."""
    times = {name: value * scale if isinstance(value, float) else value for name, value in TIMES.items()} | changes
    events = []
    for number in range(3):
        events += [
            step(number, number * 1_000_000, int(37_000 * scale)),
            op("aten::mm", number * 1_000_000 + 10, 20_000),
        ]
    return replace(make_trace(events), metadata={"tracetui": {"unprofiled": times}})


def test_what_the_profiler_adds():
    time = unprofiled_time(recorded())
    assert time is not None
    assert time.median_us == 20.0
    assert time.profiler_adds_pct == pytest.approx(85)
    lines = {fact.key: fact.value for fact in facts(recorded())}
    assert lines["unprofiled_us"] == 20.0
    assert lines["profiler_adds_pct"] == pytest.approx(85)
    assert "unprofiled_us" not in {fact.key for fact in facts(make_trace([op("aten::mm", 0, 1)]))}


@pytest.mark.parametrize("value", [None, "x", -1.0, 0, float("nan"), float("inf"), True, [1]])
def test_what_is_no_time_counts_as_not_there(value):
    assert unprofiled_time(recorded(median_us=value)) is None
    time = unprofiled_time(recorded(low_us=value))
    assert time is not None and time.low_us is None


@pytest.mark.parametrize("metadata", [{}, {"tracetui": "x"}, {"tracetui": {"unprofiled": [1]}}])
def test_a_trace_without_times(metadata):
    assert unprofiled_time(replace(recorded(), metadata=metadata)) is None


def test_an_interval_that_does_not_hold_its_median_is_none():
    time = unprofiled_time(recorded(low_us=21.0))
    assert time is not None and time.low_us is None and time.high_us is None
    other = unprofiled_time(recorded())
    assert other is not None and time_ratio(time, other) is None


def said(a, b):
    """The sentence about times without the profiler."""
    return [line for line in Comparison(side(a), side(b)).statement if line.startswith("Without the profiler")]


def test_two_recordings_in_a_sentence():
    assert said(recorded(), recorded(0.5)) == [
        "Without the profiler 20.0 → 10.0 µs per step: 2.00 times as fast (1.95 to 2.05)."
    ]
    assert said(recorded(), recorded(3.0))[0].endswith("3.00 times as long (2.93 to 3.08).")


def test_overlapping_intervals_cannot_tell():
    assert said(recorded(), recorded(1.01))[0].endswith("cannot tell, the intervals of the medians overlap.")
    assert said(recorded(), recorded(0.5, low_us=None))[0].endswith("cannot tell, too few samples for an interval.")


def test_recordings_that_were_not_timed_in_turns_are_compared_with_a_reservation():
    [line] = said(recorded(), recorded(0.5, session="two"))
    assert line.endswith("; timed one after the other, not in turns.")


def test_without_times_on_both_sides_nothing_is_said():
    assert said(recorded(), replace(recorded(0.5), metadata={})) == []
    trace = recorded()
    assert said(trace, trace) == []
