"""What Kineto is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracetui.errors import UsageError
from tracetui.opening.attached_capture import TraceRequest


def lines(request):
    return dict(line.partition("=")[::2] for line in request.configuration(Path("/t/trace.json")).splitlines())


def test_seconds():
    asked = lines(TraceRequest(1.5, shapes=True))
    assert asked["ACTIVITIES_DURATION_MSECS"] == "1500"
    assert asked["ACTIVITIES_LOG_FILE"] == "/t/trace.json"
    assert asked["PROFILE_REPORT_INPUT_SHAPES"] == "true"
    assert asked["PROFILE_WITH_STACK"] == asked["PROFILE_PROFILE_MEMORY"] == "false"
    # Kineto alone would let five seconds pass.
    assert asked["ACTIVITIES_WARMUP_PERIOD_SECS"] == "1"
    assert "ACTIVITIES_ITERATIONS" not in asked


def test_iterations():
    asked = lines(TraceRequest(iterations=3))
    assert asked["ACTIVITIES_ITERATIONS"] == "3"
    # A process that counts no iterations would otherwise take a trace of half a second.
    assert asked["ACTIVITIES_DURATION_MSECS"] == "0" and "PROFILE_START_TIME" not in asked


@pytest.mark.parametrize("seconds", (0.0, -1.0, 601.0, float("nan"), float("inf")))
def test_a_length_that_makes_no_trace(seconds):
    with pytest.raises(UsageError):
        TraceRequest(seconds)


def test_a_negative_number_of_iterations():
    with pytest.raises(UsageError):
        TraceRequest(iterations=-1)
