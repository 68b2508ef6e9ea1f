"""The costs of one step are those of all slices, whether these are known or only the slices near it are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.traces import WITHOUT_GPU, given_traces, loaded
from tracetui.linking.steps import steps
from tracetui.model.results import is_kept
from tracetui.model.trace import Kind, Trace
from tracetui.operators import costs as counting
from tracetui.operators.costs import Costs, costs, costs_of_step, counted_near
from tracetui.operators.ops import backward_union_times, gpu_union_times
from tracetui.panes import PANES

STEP = 1_000
OPEN = {"finished": False}
FIELDS = ("row", "name", "cpu", "self_cpu", "device", "self_device", "kernels")
slices = st.tuples(
    st.sampled_from(["a", "a", "b", "aten::_version", "nccl:all_reduce"]),
    st.integers(0, 4 * STEP),
    st.sampled_from([0, 1, 30, 100, 400, 1_100]),
    st.sampled_from(["1", "1", "2"]),
    st.sampled_from([Kind.CPU_OP, Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD]),
    st.booleans(),
)


@st.composite
def programs(draw: st.DrawFn) -> list[Event]:
    """Four steps of a thread beside another one: slices that nest, overlap, repeat a name, never end, or launch."""
    made = [step(number + 1, number * STEP, STEP - 20) for number in range(4)]
    made.append(Event("PyTorch Profiler (0)", 0, 5 * STEP, Kind.BOOKKEEPING, ("Spans", "PyTorch Profiler")))
    for number, (name, start, dur, thread, kind, more) in enumerate(draw(st.lists(slices, max_size=25)), 1):
        lane = ("-1", "0") if kind == Kind.OVERHEAD else ("1", thread)
        if kind == Kind.RUNTIME:
            made.append(launch(start, max(dur, 1), number, lane=lane))
            made.append(kernel("k", start + dur + 50 * more, 60, correlation=number))
        elif kind == Kind.CPU_OP:
            made.append(op(name, start, dur, lane=lane, external=number))
        elif kind == Kind.ANNOTATION and more:
            made.append(annotation(name, start, 6 * STEP, lane=lane, args=OPEN))
        else:
            made.append(Event(name, start, dur, kind, lane))
    return made


def assert_equal(trace: Trace) -> None:
    """Compare the first, middle and last step with the costs of all."""
    fresh, numbers = replace(trace, cache={}), list(dict.fromkeys(steps(trace).number.tolist()))
    for frames in (False, True):
        costs(trace, frames)
    gpu_union_times(trace)
    backward_union_times(trace)
    for number in {*numbers[:1], *numbers[len(numbers) // 2 :][:1], *numbers[-1:]}:
        for frames in (False, True):
            with mock.patch.object(counting, "MAX_NEAR_SHARE", 1.0):
                near: Costs = costs_of_step(fresh, number, frames)
                assert not is_kept(fresh, costs, frames)
                unions = [each(fresh, number) for each in (gpu_union_times, backward_union_times)]
            every = costs_of_step(trace, number, frames)
            for field in FIELDS:
                np.testing.assert_array_equal(getattr(near, field), getattr(every, field), field)
            for union, whole in zip(unions, (gpu_union_times(trace), backward_union_times(trace)), strict=True):
                assert (union is None) == (whole is None)
                if union is not None and whole is not None:
                    np.testing.assert_array_equal(union[every.row], whole[every.row])
            fresh = replace(trace, cache={})


@given(programs())
def test_a_step_alone_costs_what_it_does_among_all(events: list[Event]) -> None:
    assert_equal(make_trace(events))


@pytest.mark.parametrize("name", given_traces("d*.json*", without=WITHOUT_GPU, rest=pytest.mark.full))
def test_steps_of_real_traces_cost_the_same_alone(name: str, shared_trace: Callable[[str], Path]) -> None:
    assert_equal(loaded(shared_trace(name)))


def test_only_slices_near_a_step_are_counted_and_all_where_one_is_around_them() -> None:
    events = [step(number, number * STEP, STEP) for number in range(30)]
    for number in range(30):
        at = number * STEP
        events += [op("a", at + 10, 500), launch(at + 20, 5, number + 1)]
        events.append(kernel("k", at + 600, 50 + number, correlation=number + 1))
    trace = make_trace(events)
    near = counted_near(trace, 7)
    assert near is not None and len(near) == 3
    rows = {row["name"]: row for row in PANES["ops"].build(trace, step=7).rows()}
    assert rows["a"]["gpu_wall_us"] == rows["a"]["device_total_us"] == 0.057
    assert not is_kept(trace, costs)
    assert counted_near(trace, 8) is None, "the second step is no step alone"
    assert counted_near(make_trace([*events, annotation("train", -10, 31 * STEP)]), 7) is None
