"""Properties of replays: the recording comes back, less work never takes longer, chains add up to the time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import make_trace, op, step
from tests.support.launch_machine import BACKWARD, MAIN, PROGRAMS, Machine, run
from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.model.trace import Trace
from tracetui.whatif.launch_queue import LaunchQueue, launch_queue
from tracetui.whatif.replay import Replayed, anchored, free, limits, recorded, replay, span

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["op", "kernel", "kernel", "copy", "wait", "hand"]), st.integers(1, 300), st.integers(7, 9)
    ),
    min_size=1,
    max_size=60,
)


def program(actions: list[tuple[str, int, int]]) -> Trace:
    """A program of random actions; it launches at least once."""
    machine, ended = Machine(limit=8), 0.0

    def body() -> None:
        nonlocal ended
        ended = machine.kernel("first", 5.0)
        for name, us, stream in actions:
            if name == "op":
                machine.op("aten::mm", us)
            elif name == "kernel":
                ended = machine.kernel("gemm", us, stream, ended if us % 5 == 0 else 0.0)
            elif name == "copy":
                machine.copy("Memcpy", us, stream)
            elif name == "wait":
                machine.wait("cudaStreamSynchronize" if us % 2 else "cudaDeviceSynchronize", stream if us % 2 else None)
            else:
                machine.hand_over(BACKWARD if machine.thread == MAIN else MAIN)

    return machine.steps(1, body)


def length(queue: LaunchQueue, replayed: Replayed) -> float:
    """The end of everything, which is a sum of times and maxima of such sums."""
    return max(replayed.call_end.max(), replayed.end.max(initial=0.0))


@settings(max_examples=30, deadline=None)
@given(ACTIONS)
def test_without_a_change_the_recording_comes_back(actions):
    queue = launch_queue(program(actions))
    replayed = replay(queue, anchored(queue))
    assert np.abs(replayed.end - queue.end).max() == 0
    assert np.abs(replayed.call_end - queue.call_end).max() == 0


@settings(max_examples=30, deadline=None)
@given(ACTIONS, st.sampled_from([anchored, free]))
def test_half_of_each_time_never_lengthens_and_double_never_shortens(actions, start):
    queue = launch_queue(program(actions))
    times = start(queue)
    whole = length(queue, replay(queue, times))
    for factor in (0.5, 2.0):
        for name in ("cpu", "call", "gpu"):
            column = getattr(times, name)
            # The first call starts at its time, and nested calls start before the one that they follow has ended.
            scaled = np.where((column > 0) & ((queue.follows >= 0) if name == "cpu" else True), column * factor, column)
            changed = length(queue, replay(queue, replace(times, **{name: scaled})))
            assert (changed <= whole) if factor < 1 else (changed >= whole), (name, factor)


@settings(max_examples=30, deadline=None)
@given(ACTIONS)
def test_nothing_runs_twice_at_once_in_a_stream(actions):
    trace = program(actions)
    queue = launch_queue(trace)
    times = anchored(queue)
    replayed = replay(queue, replace(times, gpu=times.gpu * 3))
    known = queue.before >= 0
    assert (replayed.start[known] >= replayed.end[queue.before[known]]).all()
    assert (replayed.start >= replayed.call_start[queue.launch]).all()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.full
def test_the_longest_chain_adds_up_to_the_time_of_the_steps(name):
    queue = launch_queue(run(PROGRAMS[name]))
    times = anchored(queue)
    replayed = replay(queue, times)
    chain, whole = limits(queue, times, replayed), span(queue, replayed)
    # It ends somewhere before the first step did, within an activity or a call.
    longest = max(times.gpu.max(), times.call.max(), times.cpu[queue.follows >= 0].max())
    assert whole.end - whole.begin - 1 <= chain.total <= whole.end - whole.begin + longest


@pytest.mark.parametrize(("name", "most"), [("busy", "gpu"), ("launch_bound", "cpu"), ("alternating", "gpu")])
def test_what_limits_a_step_is_named(name, most):
    queue = launch_queue(run(PROGRAMS[name]))
    chain = limits(queue, anchored(queue), recorded(queue))
    assert max(("cpu", "gpu", "waits"), key=lambda each: getattr(chain, each)) == most


def test_steps_on_the_cpu_last_from_end_to_end():
    trace = make_trace(
        [each for index in range(3) for each in (step(index, 100 * index, 90), op("aten::mm", 100 * index + 10, 50))]
    )
    queue = launch_queue(trace)
    assert not queue.is_on_gpu
    whole = span(queue, replay(queue, anchored(queue)))
    assert (whole.time, whole.parts, whole.begin, whole.end) == (100.0, 3, 0.0, 290.0)


REAL = [
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d19_mi300x_ddp_resnet18_stack.json.gz",
    "d08_b200_cuda13_ep_moe.json",
]


@pytest.mark.skipif(not SHARED.exists(), reason="the given traces are not here")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.full
def test_real_recordings_come_back_to_the_nanosecond(name):
    queue = launch_queue(loaded(SHARED / name))
    replayed = replay(queue, anchored(queue))
    assert np.abs(replayed.end - queue.end).max() == 0
    assert np.abs(replayed.call_end - queue.call_end).max() == 0
    again = span(queue, replay(queue, free(queue))).time
    assert abs(again / span(queue, recorded(queue)).time - 1) < 0.02
