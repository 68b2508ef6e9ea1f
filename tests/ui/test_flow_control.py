"""When a frame may be written: by the answers of a terminal, at times that the test says."""

from __future__ import annotations

import threading

import pytest

from tracetui.ui.base.terminal_driver import (
    MAX_FRAMES,
    MAX_UNANSWERED,
    MAX_WAIT_SECONDS,
    MIN_WAIT_SECONDS,
    QUESTION,
    FlowControl,
)


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def flow(clock):
    return FlowControl(clock)


def answered(flow, clock, seconds, is_more_wanted=True):
    """As many frames as may be under way, whose answers take some time, and one more that is held back."""
    assert flow.question() == QUESTION
    while is_more_wanted and flow.under_way < MAX_FRAMES and flow.is_ready():
        flow.question()
    clock.now += seconds
    while flow.under_way:
        flow.take_answer()


def test_a_terminal_that_never_answers_is_written_to_as_frames_come(flow, clock):
    questions = [flow.question() for _ in range(MAX_UNANSWERED + 5)]
    assert questions == [QUESTION] * MAX_UNANSWERED + [""] * 5
    assert flow.is_ready()
    clock.now += 2 * MAX_WAIT_SECONDS
    assert flow.is_ready()


def test_one_frame_is_under_way_on_a_slow_line(flow, clock):
    answered(flow, clock, 0.3)
    for _ in range(5):
        answered(flow, clock, 0.6)
        assert flow.is_ready()
    flow.question()
    assert not flow.is_ready()
    flow.take_answer()
    assert flow.is_ready()


def test_more_are_under_way_where_answers_come_at_once_but_from_far_away(flow, clock):
    for _ in range(20):
        answered(flow, clock, 0.3)
    for number in range(MAX_FRAMES):
        assert flow.is_ready(), number
        flow.question()
    assert not flow.is_ready()
    # There are fewer once they have to wait.
    clock.now += 0.6
    for _ in range(MAX_FRAMES):
        flow.take_answer()
    flow.question()
    assert not flow.is_ready()


def test_no_more_are_allowed_under_way_while_none_has_to_wait(flow, clock):
    """Small frames now and then say nothing of many large ones."""
    for _ in range(20):
        answered(flow, clock, 0.3, is_more_wanted=False)
    flow.question()
    assert not flow.is_ready()


def test_a_terminal_that_stops_answering_is_written_to_again(flow, clock):
    answered(flow, clock, 0.1)
    answered(flow, clock, 0.2)
    flow.question()
    clock.now += MIN_WAIT_SECONDS + 0.7
    assert not flow.is_ready()
    clock.now += 0.2
    assert flow.is_ready()
    # Until it answers again, also if that is late.
    flow.take_answer()
    flow.question()
    assert not flow.is_ready()


def test_a_slow_terminal_is_given_more_time_for_an_answer(flow, clock):
    answered(flow, clock, 0.1)
    answered(flow, clock, 10.0)
    flow.question()
    clock.now += MAX_WAIT_SECONDS - 0.1
    assert not flow.is_ready()
    clock.now += 0.2
    assert flow.is_ready()


def test_what_another_program_left_unanswered_holds_nothing_back(flow, clock):
    answered(flow, clock, 0.1)
    flow.question()
    flow.expect_none()
    assert flow.is_ready() and flow.under_way == 0


def test_leaving_waits_for_the_answers_that_are_due():
    flow = FlowControl()
    flow.question()
    flow.take_answer()
    flow.question()
    threading.Timer(0.05, flow.take_answer).start()
    flow.wait_for_answers()
    assert flow.under_way == 0


def test_leaving_does_not_wait_for_a_terminal_that_never_answered(monkeypatch):
    monkeypatch.setattr("tracetui.ui.base.terminal_driver.MAX_LEAVING_SECONDS", 600)
    flow = FlowControl()
    flow.question()
    flow.wait_for_answers()
    assert flow.under_way == 1
