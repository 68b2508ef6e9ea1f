"""Results that are kept, and what is interrupted."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from tests.support.app import training
from tests.support.build import make_trace, op
from tracetui.model import results as declarations
from tracetui.model.results import is_kept, kept, kept_of, of_file_results
from tracetui.model.trace import MAX_KEPT, Interrupted, interruptible
from tracetui.panes import PANES


def trace():
    return make_trace([op("aten::add", 0, 10)])


def test_what_is_of_the_whole_trace_is_made_once():
    one, made = trace(), []

    def make():
        made.append(1)
        return made

    for _ in range(2):
        for number in range(MAX_KEPT + 50):
            one.keep(f"analysis {number}", make)
    assert len(made) == MAX_KEPT + 50


def test_views_that_were_not_asked_for_the_longest_are_made_again():
    one, made = trace(), []

    def ask(step):
        def make():
            made.append(step)
            return step

        return one.keep(("pane", step), make)

    for step in range(MAX_KEPT):
        assert ask(step) == step
    ask(0)
    ask(MAX_KEPT)
    made.clear()
    assert ask(0) == 0 and ask(MAX_KEPT) == MAX_KEPT and not made
    assert ask(1) == 1 and made == [1]
    assert len(one.cache) == MAX_KEPT


@pytest.mark.full
def test_a_trace_that_is_used_no_more_is_let_go_by_those_it_was_compared_with():
    one, other, third = trace(), trace(), trace()
    for each in (other, third):
        one.keep(("matching", "all", 0, each, "all", 0), lambda each=each: each)
    one.keep("of itself", lambda: 1)
    gone = weakref.ref(other)
    one.drop(other)
    del other, each
    gc.collect()
    assert gone() is None
    assert len(one.cache) == 2


@pytest.fixture
def declared(monkeypatch):
    """Declarations of a test do not stay."""
    monkeypatch.setattr(declarations, "KEPT", {})


@pytest.mark.usefixtures("declared")
def test_an_argument_that_is_left_out_is_its_default():
    made = []

    @kept(on_disk=True)
    def counted(trace, step=None, frames=False):
        made.append((step, frames))
        return len(made)

    one = trace()
    assert not is_kept(one, counted)
    assert counted(one) == counted(one, None) == counted(one, frames=False) == counted(one, step=None) == 1
    assert counted(one, 3) == counted(one, step=3) == counted(one, 3, False) == 2
    assert made == [(None, False), (3, False)] and set(one.cache) == {("counted", None, False), ("counted", 3, False)}
    assert is_kept(one, counted) and is_kept(one, counted, 3) and not is_kept(one, counted, 4)
    assert counted(trace()) == 3


@pytest.mark.usefixtures("declared")
def test_two_functions_of_one_name_cannot_be_kept():
    def declare():
        @kept
        def links(trace):
            return 1

    declare()
    with pytest.raises(ValueError, match="links"):
        declare()


@pytest.mark.usefixtures("declared")
def test_what_is_of_the_file_is_told_from_what_the_user_can_change():
    @kept(of_file=True)
    def rows(trace):
        return 1

    @kept(on_disk=True)
    def spans(trace):
        return 2

    one = trace()
    rows(one), spans(one), one.keep("other", lambda: 3)
    assert of_file_results(one.cache) == {"rows": 1}
    entry = kept_of("rows")
    assert entry and entry.on_disk and kept_of("other") is None


@pytest.mark.usefixtures("declared")
def test_nothing_and_failures_are_results_too():
    made = []

    @kept
    def nothing(trace):
        made.append(1)

    one = trace()
    assert nothing(one) is None and nothing(one) is None and made == [1]


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
