"""Properties of the findings about idle time: no microsecond twice, no share above the whole, no clock that matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, memcpy, op, python, step
from tests.support.traces import WITHOUT_GPU, given_traces, loaded
from tracetui.findings import Finding, finding_list
from tracetui.findings.scope import Scope
from tracetui.idle.scope_times import median_step
from tracetui.model.trace import Kind, Trace

IDLE = frozenset(
    [
        "data-loading",
        "start-up",
        "allocator",
        "launch-overhead",
        "host-sync",
        "long-gap-without-op",
        "stalled-thread",
        "peer-wait",
        "dependency",
        "recompilation",
        "own-profiler",
    ]
)
"""Rules whose whole cost is idle time, or time before the first GPU activity."""
NAMES = {
    Kind.CPU_OP: ("aten::item", "aten::mm", "CompiledFunction"),
    Kind.ANNOTATION: ("Optimizer.step#a", "gloo:barrier", "dynamo_timed", "load_batch", "else"),
    Kind.RUNTIME: ("cudaStreamSynchronize", "cudaMalloc", "cudaFree", "cudaStreamWaitEvent", "cudaGetDevice"),
    Kind.PYTHON: ("f.py(1): f", "torch/cuda/memory.py(1): empty_cache"),
}
LENGTHS = st.sampled_from([1_000, 8_000, 50_000, 400_000, 1_500_000, 6_000_000])


@st.composite
def programs(draw: st.DrawFn) -> list[Event]:
    """A thread that does one thing after another and launches kernels and copies, queued or late."""
    made: list[Event] = []
    at, free = 0, 0
    for number in range(1, draw(st.integers(2, 25))):
        kind = draw(st.sampled_from([None, *NAMES]))
        length = draw(LENGTHS)
        if kind is not None:
            made.append(Event(draw(st.sampled_from(NAMES[kind])), at, length, kind))
        at += length
        begin, dur = max(at + 6_000, free), draw(LENGTHS)
        copy = draw(st.booleans())
        call = draw(st.sampled_from([4_000, 4_000, begin + dur - at])) if copy else 4_000
        made.append(launch(at, call, number, "cudaMemcpyAsync" if copy else "cudaLaunchKernel"))
        name = draw(st.sampled_from(["Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pinned -> Device)"]))
        size = draw(st.sampled_from([4, 1 << 20]))
        made.append(
            memcpy(name, begin, dur, correlation=number, args={"bytes": size})
            if copy
            else kernel("k", begin, dur, correlation=number)
        )
        at, free = at + call, begin + dur
    if draw(st.booleans()):
        half = at // 2
        made += [step(1, 0, half), step(2, half, at - half + 1)]
    return made


def idle_findings(trace: Trace) -> list[Finding]:
    """The findings about idle time."""
    return [finding for finding in finding_list(trace) if finding.id in IDLE]


def check_sums(trace: Trace) -> None:
    """Findings about idle time take each microsecond once, and no cost is more than all time."""
    scope = Scope(trace, None)
    total = sum(finding.cost or 0 for finding in idle_findings(trace))
    assert total <= scope.idle + scope.time_to_first_kernel
    assert all((finding.cost or 0) <= scope.time for finding in finding_list(trace))


@given(programs())
def test_no_idle_microsecond_is_in_two_findings(events: list[Event]) -> None:
    check_sums(make_trace(events))


def check_bounds(trace: Trace) -> None:
    """What a start-up takes is at most what is known of it before the causes of idle time are."""
    for scope in (Scope(trace, None), Scope(trace, median_step(trace))):
        assert sum(scope.start_up) <= min(scope.most_start_up, scope.idle // scope.devices)


@given(programs())
def test_a_start_up_is_bounded_before_causes_are_known(events: list[Event]) -> None:
    first = [Event("cuModuleLoadData", events[0].start, 2_000_000, Kind.RUNTIME)]
    check_bounds(make_trace([*events, *first]))


@given(programs())
def test_an_unrelated_stream_of_long_kernels_removes_idle_findings(events: list[Event]) -> None:
    last = max(event.start + event.dur for event in events)
    calls = [launch(-2_000_000 + number, 1, 900 + number) for number in range(3)]
    third = last // 3 + 1
    work = [
        kernel("unrelated", -1_000_000 + number * third, third, "stream 99", correlation=900 + number)
        for number in range(3)
    ]
    work.append(kernel("unrelated", -1_000_000 + 3 * third, 2_000_000, "stream 99", correlation=903))
    calls.append(launch(-1_999_990, 1, 903))
    found = [finding for finding in idle_findings(make_trace([*events, *calls, *work])) if finding.cost is not None]
    assert found == []


def weights(skew: int, pause: int, wait: bool) -> dict[str, str]:
    """Weights of the findings about idle time of a loop whose GPU clock is ahead by so many ns."""
    events: list[Event] = []
    for number in range(200):
        at = number * (100_000 + pause)
        events += [op("aten::add", at - 1_000, 10_000), launch(at, 4_000, number + 1)]
        events.append(kernel("k", at + 5_000 + skew, 90_000, correlation=number + 1))
        if wait and number % 2:
            events.append(Event("cudaStreamSynchronize", at + 11_000, 87_000, Kind.RUNTIME))
        if number % 10 == 0:
            events.append(python("f.py(1): f", at + 99_000, pause - 2_000))
    return {finding.id: finding.severity.name for finding in idle_findings(make_trace(events))}


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("pause", [15_000, 60_000, 3_000_000])
@pytest.mark.parametrize("skew", [-20_000, 20_000])
def test_a_gpu_clock_shifted_by_20_us_changes_no_weight(skew: int, pause: int, wait: bool) -> None:
    straight = weights(0, pause, wait)
    assert straight and weights(skew, pause, wait) == straight


@pytest.mark.parametrize("name", given_traces("d*.json*", without=WITHOUT_GPU))
def test_real_traces_tell_no_idle_microsecond_twice(name: str, shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace(name))
    check_sums(trace)
    check_bounds(trace)
