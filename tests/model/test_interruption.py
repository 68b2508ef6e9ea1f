"""Analyses of a thread end before their next part once nobody wants them."""

from __future__ import annotations

import threading

import pytest

from tests.support.app import training
from tracetui.model.trace import Interrupted, interruptible
from tracetui.panes import PANES


def test_what_is_not_wanted_ends_and_keeps_nothing_half_made():
    trace, asked = training(), []

    def goes_on() -> bool:
        asked.append(1)
        return len(asked) < 5

    with pytest.raises(Interrupted), interruptible(goes_on):
        PANES["findings"].build(trace)
    assert len(asked) == 5
    assert ("pane", "findings", None, None) not in trace.cache
    assert PANES["findings"].build(trace).column_names == PANES["findings"].build(training()).column_names


def test_what_is_there_already_is_given_without_a_question():
    trace = training()
    table = PANES["kernels"].build(trace)
    with interruptible(lambda: False):
        assert PANES["kernels"].build(trace) is table


def test_another_thread_goes_on():
    trace, built = training(), []
    with interruptible(lambda: False):
        thread = threading.Thread(target=lambda: built.append(PANES["ops"].build(trace)))
        thread.start()
        thread.join()
    assert len(built[0])
    assert PANES["views"].build(trace) is not None
