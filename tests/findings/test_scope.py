"""The time of the steps and the price of GPU and CPU time, which weigh every finding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, memcpy, op, step
from tracetui.findings.scope import Scope, Severity, severity_of_share
from tracetui.model.intervals import covered
from tracetui.model.trace import Kind


def test_a_step_lasts_from_the_end_of_the_step_before_on_the_gpu_to_its_own():
    calls = [launch(10, 5, 1), launch(110, 5, 2), launch(210, 5, 3)]
    work = [
        kernel("a", 20, 400, correlation=1),
        kernel("b", 500, 100, correlation=2),
        kernel("c", 900, 70, correlation=3),
    ]
    trace = make_trace([step(0, 0, 100), step(1, 100, 100), step(2, 200, 500), *calls, *work])
    # From the start of the first step to the end of a, from there to the end of b, and of c.
    assert [Scope(trace, number).time for number in (0, 1, 2)] == [420, 180, 370]
    assert Scope(trace, None).time == 420 + 180 + 370
    assert [Scope(trace, number).idle for number in (0, 1, 2, None)] == [20, 80, 300, 400]


def test_the_only_step_ends_with_the_cpu_where_that_goes_on_after_the_gpu():
    trace = make_trace([step(0, 0, 1_000), launch(10, 5, 1), kernel("a", 20, 200, correlation=1)])
    assert (Scope(trace, None).time, Scope(trace, 0).idle) == (1_000, 800)


def test_a_share_of_one_step_says_that_it_is_of_the_period_where_the_cpu_took_another_time():
    calls = [launch(10_000, 5_000, 1), launch(110_000, 5_000, 2)]
    work = [kernel("a", 20_000, 400_000, correlation=1), kernel("b", 420_000, 310_000, correlation=2)]
    trace = make_trace([step(0, 0, 100_000), step(1, 100_000, 320_000), *calls, *work])
    assert Scope(trace, 0).cost_text(210_000) == "210.0 µs, 50 % of the 420.0 µs period of step 0"
    assert Scope(trace, 1).cost_text(155_000) == "155.0 µs, 50 % of step 1"
    assert Scope(trace, None).cost_text(365_000) == "365.0 µs, 50 % of the steps"


def test_the_wait_before_its_first_kernel_is_part_of_each_step():
    calls = [launch(60, 5, 1), launch(160, 5, 2), launch(260, 5, 3)]
    work = [kernel("k", at + 70, 30, correlation=number) for number, at in ((1, 0), (2, 100), (3, 200))]
    trace = make_trace([*(step(number, 100 * number, 100) for number in range(3)), *calls, *work])
    assert [Scope(trace, number).time for number in (0, 1, 2)] == [100, 100, 100]


def test_the_wait_that_ends_the_capture_is_no_time_of_the_step():
    calls = [launch(10, 5, 1), launch(50, 900, 9, "cudaDeviceSynchronize")]
    trace = make_trace([step(0, 0, 1_000), *calls, kernel("a", 20, 200, correlation=1)])
    assert Scope(trace, None).time == 220


def test_without_steps_the_start_up_before_the_first_kernel_counts():
    trace = make_trace([op("aten::mm", 100, 800), launch(700, 5, 1), kernel("a", 1_000, 200, correlation=1)])
    scope = Scope(trace, None)
    assert (scope.time, scope.time_to_first_kernel) == (1_100, 900)


def test_what_was_launched_before_the_capture_is_no_time_without_a_gpu():
    early = kernel("z", 150, 600, correlation=9)
    work = [op("aten::mm", 100, 800), launch(700, 5, 1), kernel("a", 1_000, 200, correlation=1)]
    trace = make_trace([step(0, 100, 900), *work, early])
    # The period begins when the GPU has finished what was launched earlier.
    assert (Scope(trace, None).time, Scope(trace, None).time_to_first_kernel) == (1_200 - 750, 0)
    assert Scope(trace, None).idle == 1_000 - 750


def test_a_kernel_costs_the_time_in_which_the_next_one_was_launched_already():
    calls = [launch(0, 5, 1), launch(60, 5, 2), launch(300, 5, 3)]
    work = [
        kernel("a", 10, 90, correlation=1),
        kernel("b", 100, 100, correlation=2),
        kernel("c", 310, 50, correlation=3),
    ]
    scope = Scope(make_trace([*calls, *work]), None)
    # After b the GPU waited for the launch of c: a faster b would save nothing.
    assert [scope.gpu_cost(scope.activities[[index]]) for index in range(3)] == [40, 0, 50]
    assert scope.gpu_cost(scope.activities) == 90


def test_a_kernel_that_the_cpu_waits_for_costs_all_of_its_time():
    calls = [launch(0, 5, 1), launch(20, 200, 9, "cudaStreamSynchronize"), launch(300, 5, 2)]
    scope = Scope(make_trace([*calls, kernel("a", 10, 90, correlation=1), kernel("b", 310, 5, correlation=2)]), None)
    assert scope.gpu_cost(scope.activities[:1]) == 80


def test_a_blocking_copy_makes_the_cpu_wait():
    copy = launch(0, 500, 1, "cudaMemcpyAsync")
    moved = memcpy("Memcpy HtoD (Pageable -> Device)", 100, 300, correlation=1)
    later = [launch(600, 5, 2), kernel("b", 610, 5, correlation=2)]
    scope = Scope(make_trace([copy, moved, *later]), None)
    assert scope.gpu_cost(scope.activities[:1]) == 300


def test_what_runs_beside_another_stream_costs_only_the_rest():
    calls = [launch(0, 1, 1), launch(1, 1, 2)]
    work = [kernel("a", 10, 100, correlation=1), kernel("b", 60, 100, "stream 8", correlation=2)]
    scope = Scope(make_trace([*calls, *work]), None)
    assert scope.gpu_cost(scope.activities[:1]) == 50


def test_an_op_costs_the_time_for_which_the_gpu_waited_for_it():
    calls = [launch(10, 5, 1), launch(190, 5, 2)]
    work = [kernel("a", 20, 80, correlation=1), kernel("b", 200, 80, correlation=2)]
    trace = make_trace([op("slow", 50, 145), *calls, *work])
    scope = Scope(trace, None)
    # The GPU ran until 100; the launch inside the op returned at 195.
    assert scope.cpu_cost(scope.ops) == 95
    busy = [kernel("a", 20, 180, correlation=1), kernel("b", 200, 80, correlation=2)]
    assert Scope(make_trace([op("slow", 50, 145), *calls, *busy]), None).cpu_cost(scope.ops) == 0


def test_no_finding_costs_more_than_the_steps_took():
    scope = Scope(make_trace([step(0, 0, 1_000)]), None)
    (finding,) = scope.with_cost("id", 5_000, "Something", "", "")
    assert (finding.cost, finding.title) == (1_000, "Something: 1.0 µs, 100 % of the steps")


@pytest.mark.parametrize(
    ("cost", "words"),
    [(18_000, "1.8 %"), (20_000, "2 %"), (19_990, "1.999 %"), (97_000, "9.7 %"), (104_000, "10 %"), (54_000, "5 %")],
)
def test_a_share_is_written_so_that_its_weight_is_that_of_the_finding(cost, words):
    scope = Scope(make_trace([step(0, 0, 1_000_000)]), None)
    assert scope.cost_text(cost).partition(", ")[2] == f"{words} of the steps"


@given(st.integers(0, 1_000_000))
def test_every_share_has_the_weight_of_its_words(cost):
    scope = Scope(make_trace([step(0, 0, 1_000_000)]), None)
    number = scope.cost_text(cost).partition(", ")[2].removeprefix("under ").split()[0]
    assert severity_of_share(float(number) / 100) == scope.severity_of(cost)


def test_steps_that_run_side_by_side_count_once():
    loops = [step(number, 1_000 * number, 1_000, lane=(str(rank), "1")) for rank in (1, 2) for number in (0, 1)]
    scope = Scope(make_trace(loops), None)
    assert (scope.time, scope.rounds) == (2_000, 2)
    after = [step(2 + number, 2_000 + 1_000 * number, 1_000, lane=("2", "1")) for number in (0, 1)]
    assert Scope(make_trace([*loops[:2], *after]), None).time == 4_000


def test_what_two_devices_wait_for_is_waited_for_once():
    calls = [launch(10, 2, 1), launch(12, 2, 2), launch(190, 2, 3), launch(193, 2, 4)]
    work = [
        Event("k", start, 80, Kind.KERNEL, (str(device), "stream 7"), correlation=1 + device + 2 * round)
        for round, start in enumerate((20, 200))
        for device in (0, 1)
    ]
    scope = Scope(make_trace([op("slow", 50, 145), *calls, *work]), None)
    assert scope.cpu_cost(scope.ops) == ((192 - 100) + (195 - 100)) // 2


@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.1, Severity.MAJOR), (0.099, Severity.MINOR), (0.02, Severity.MINOR), (0.0199, Severity.NOTE), (0.0049, None)],
)
def test_a_tenth_is_major_a_fiftieth_minor_and_half_a_percent_the_least(share, severity):
    assert severity_of_share(share) == severity


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60), st.integers(0, 1)), min_size=1, max_size=12))
def test_no_activities_cost_more_than_the_time_in_which_they_ran(items):
    events, at = [], 0
    for number, (pause, dur, stream) in enumerate(items, 1):
        at += pause
        events += [
            launch(max(at - pause // 2 - 1, 0), 1, number),
            kernel("k", at, dur, f"stream {stream}", correlation=number),
        ]
    scope = Scope(make_trace(events), None)
    half = scope.activities[::2]
    rest = scope.activities[1::2]
    assert scope.gpu_cost(half) >= 0
    busy = covered(scope.trace.slices.start[scope.activities], scope.trace.slices.end[scope.activities])
    assert scope.gpu_cost(half) + scope.gpu_cost(rest) <= scope.gpu_cost(scope.activities) <= busy <= scope.time
