"""What is kept with a trace: all that is of the whole of it, and of views and comparisons the latest."""

from __future__ import annotations

import gc
import weakref

from tests.support.build import make_trace, op
from tracetui.model.trace import VIEWS_KEPT


def trace():
    return make_trace([op("aten::add", 0, 10)])


def test_what_is_of_the_whole_trace_is_made_once():
    one, made = trace(), []

    def make():
        made.append(1)
        return made

    for _ in range(2):
        for number in range(VIEWS_KEPT + 50):
            one.remember(f"analysis {number}", make)
    assert len(made) == VIEWS_KEPT + 50


def test_views_that_were_not_asked_for_the_longest_are_made_again():
    one, made = trace(), []

    def ask(step):
        def make():
            made.append(step)
            return step

        return one.remember(("pane", step), make)

    for step in range(VIEWS_KEPT):
        assert ask(step) == step
    ask(0)
    ask(VIEWS_KEPT)
    made.clear()
    assert ask(0) == 0 and ask(VIEWS_KEPT) == VIEWS_KEPT and not made
    assert ask(1) == 1 and made == [1]
    assert len(one.cache) == VIEWS_KEPT


def test_a_trace_that_is_used_no_more_is_let_go_by_those_it_was_compared_with():
    one, other, third = trace(), trace(), trace()
    for each in (other, third):
        one.remember(("matching", "all", 0, each, "all", 0), lambda each=each: each)
    one.remember("of itself", lambda: 1)
    gone = weakref.ref(other)
    one.forget(other)
    del other, each
    gc.collect()
    assert gone() is None
    assert len(one.cache) == 2
