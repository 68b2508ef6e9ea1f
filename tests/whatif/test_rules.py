"""Each rule of the launch queue against a simulated machine with one thing changed, and what goes wrong without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.launch_machine import PROGRAMS, Altered, run
from tracetui.model.trace import Trace
from tracetui.whatif.launch_queue import LaunchQueue, Pairs, launch_queue
from tracetui.whatif.prediction import Interval, change, predict, read_change
from tracetui.whatif.replay import anchored, free, recorded, replay, span

CLOSE = 0.015
"""The machine has no noise: what a free replay takes for a gap is all that may be off."""
NOTHING = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))


def time_of(trace: Trace) -> float:
    queue = launch_queue(trace)
    return span(queue, recorded(queue)).time


def predicted(trace: Trace, text: str, without: Callable[[LaunchQueue], LaunchQueue] = lambda queue: queue) -> Interval:
    """The interval of a change, of a queue that lacks a rule."""
    queue = launch_queue(trace)
    changed = change(trace, queue, read_change(text))
    queue = without(queue)
    times = [
        span(queue, replay(queue, changed.apply(start(queue), low))).time
        for start in (anchored, free)
        for low in (True, False)
    ]
    return Interval(min(times), max(times))


CHANGES = [
    ("busy", "scale", "gemm", 0.5),
    ("busy", "cpu", "aten::mm", 8.0),
    ("launch_bound", "scale", "gemm", 3.0),
    ("launch_bound", "cpu", "load", 0.0),
    ("two_threads", "scale", "gemm_backward", 4.0),
    ("two_threads", "cpu", "load", 0.1),
    ("two_streams", "scale", "reduce", 0.3),
    ("reads_values", "scale", "gemm", 0.5),
    ("reads_values", "cpu", "log", 0.0),
    ("full_queue", "scale", "mul", 0.5),
    ("full_queue", "cpu", "load", 0.1),
    ("tiny", "scale", "tiny", 0.5),
    ("alternating", "scale", "gemm", 0.3),
    ("alternating", "cpu", "aten::mm", 5.0),
    ("prefetching", "scale", "prefetch", 2.5),
    ("prefetching", "cpu", "load", 0.0),
    ("uneven_kernels", "scale", "gemm", 0.4),
    ("uneven_kernels", "cpu", "aten::add", 0.3),
]
"""A program, and one thing that is changed in it by a factor."""


@pytest.mark.parametrize(("name", "kind", "what", "factor"), CHANGES)
@pytest.mark.full
def test_the_changed_program_takes_what_was_predicted(name, kind, what, factor):
    altered = Altered(gpu={what: factor}) if kind == "scale" else Altered(cpu={what: factor})
    before, after = run(PROGRAMS[name]), run(PROGRAMS[name], altered)
    interval = predict(before, [f"{kind}(^{what}$, {factor})"]).interval
    assert interval.covers(time_of(after), CLOSE), (interval, time_of(after))


def without_hand_over(queue: LaunchQueue) -> LaunchQueue:
    own = np.full(len(queue.follows), -1)
    last: dict[int, int] = {}
    for index, lane in enumerate(queue.lane.tolist()):
        own[index] = last.get(lane, -1)
        last[lane] = index
    return replace(queue, follows=own)


def without_waits(queue: LaunchQueue) -> LaunchQueue:
    dur = (queue.call_end - queue.call_start).astype(np.float64)
    return replace(queue, return_time=np.full(len(dur), np.nan), waits=NOTHING, call_base=dur)


def without_limit(queue: LaunchQueue) -> LaunchQueue:
    dur = (queue.call_end - queue.call_start).astype(np.float64)
    base = np.where(np.isnan(queue.return_time), dur, queue.call_base)
    return replace(queue, queued=np.full(len(dur), -1), call_base=base)


def without_latency(queue: LaunchQueue) -> LaunchQueue:
    return replace(queue, usual_latency=np.zeros(3))


def without_gap(queue: LaunchQueue) -> LaunchQueue:
    return replace(queue, usual_gap=np.zeros(3))


RULES = [
    ("two_threads", "cpu", "load", 0.1, without_hand_over),
    ("two_streams", "scale", "reduce", 3.0, lambda queue: replace(queue, dependencies=NOTHING)),
    ("alternating", "scale", "gemm", 0.3, without_waits),
    ("reads_values", "scale", "gemm", 0.5, without_waits),
    ("full_queue", "scale", "mul", 0.5, without_limit),
    ("tiny", "scale", "tiny", 0.5, without_gap),
    ("alternating", "scale", "gemm", 0.3, without_latency),
]
"""A change that is predicted with a rule, and further off than the noise of the machine without it."""


@pytest.mark.parametrize(("name", "kind", "what", "factor", "without"), RULES)
@pytest.mark.full
def test_a_prediction_needs_the_rule(name, kind, what, factor, without):
    altered = Altered(gpu={what: factor}) if kind == "scale" else Altered(cpu={what: factor})
    before, truth = run(PROGRAMS[name]), time_of(run(PROGRAMS[name], altered))
    text = f"{kind}(^{what}$, {factor})"
    good, bad = predicted(before, text), predicted(before, text, without)
    assert good.covers(truth, CLOSE)
    # Both ends count: a free replay that is off makes the interval wide.
    error = max(abs(bad.low / truth - 1), abs(bad.high / truth - 1))
    assert error > 4 * CLOSE, (bad, truth)


def test_a_call_that_always_waits_need_not_last_as_long_without():
    trace = run(PROGRAMS["busy"])
    queue = launch_queue(trace)
    waits = ~np.isnan(queue.return_time)
    assert waits.sum() == 6 and (queue.call_base[waits] <= 10_000).all()


def test_launches_of_hip_find_no_full_queue():
    events = run(PROGRAMS["full_queue"], limit=1022)
    assert (launch_queue(events).queued >= 0).any()
    events.cache.clear()
    index = events.names.find("cudaLaunchKernel")
    events.slices.name[events.slices.name == index] = events.names.intern("hipLaunchKernel")
    assert (launch_queue(events).queued < 0).all()


def test_a_queue_that_was_longer_than_the_limit_has_none():
    queue = launch_queue(run(PROGRAMS["full_queue"], limit=None))
    assert (queue.queued < 0).all()


def test_only_what_met_an_end_waited_for_it():
    """An allocation in the middle of the GPU's work waits for nothing; a free whose return meets its end does."""
    from tests.support.build import kernel, launch, make_trace

    events = [launch(0, 5_000, 1), kernel("gemm", 10_000, 900_000, correlation=1)]
    middle = make_trace([*events, launch(20_000, 30_000, 2, name="cudaMalloc"), launch(60_000, 2_000, 3, name="other")])
    assert np.isnan(launch_queue(middle).return_time).all()
    freed = make_trace([*events, launch(20_000, 895_000, 2, name="cudaFree")])
    assert (~np.isnan(launch_queue(freed).return_time)).sum() == 1
