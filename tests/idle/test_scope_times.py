"""Periods of steps, the stretches of idle time before, within and behind the work of a device, and their groups."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, memcpy, op, step
from tracetui.idle.scope_times import (
    LONG_OVERHEAD,
    SHORT_OVERHEAD,
    cpu_times,
    idle_by_group,
    idle_groups,
    idle_stretches,
    idle_within,
    median_step,
    recorded_extent,
    scope_title,
    scope_windows,
    step_periods,
)
from tracetui.idle.waits import Cause
from tracetui.model.trace import Kind, Trace

US, MS = 1_000, 1_000_000
MAIN, SECOND = ("1", "1"), ("1", "2")
Spans = list[tuple[int, int]]


def ran(
    number: int, called: int, start: int, dur: int, lane: tuple[str, str] = MAIN, stream: str = "stream 7"
) -> list[Event]:
    """A kernel and its launch of 5 µs; times in µs."""
    return [
        launch(called * US, 5 * US, number, lane=lane),
        kernel("k", start * US, dur * US, stream, correlation=number),
    ]


def stepped(number: int, start: int, dur: int, lane: tuple[str, str] = MAIN) -> Event:
    return step(number, start * US, dur * US, lane=lane)


def three_steps(*more: Event) -> Trace:
    """Steps of 900 µs every 1000 µs, whose kernels run until 300, 1600 and 3400 µs."""
    work = [*ran(1, 50, 100, 200), *ran(2, 1_050, 1_300, 300), *ran(3, 2_050, 2_500, 900)]
    return make_trace([*(stepped(number + 1, 1_000 * number, 900) for number in range(3)), *work, *more])


def periods(trace: Trace) -> Spans:
    low, high = step_periods(trace)
    return list(zip((low // US).tolist(), (high // US).tolist(), strict=True))


def windows(trace: Trace, number: int | None = None) -> Spans:
    low, high = scope_windows(trace, number)
    return list(zip((low // US).tolist(), (high // US).tolist(), strict=True))


def stretches(trace: Trace) -> list[tuple[int, int, str]]:
    """Start and end in µs and the cause of each stretch."""
    found = idle_stretches(trace)
    columns = (found.start // US, found.end // US, found.cause)
    return [
        (low, high, Cause(cause).name) for low, high, cause in zip(*(each.tolist() for each in columns), strict=True)
    ]


def test_a_period_lasts_from_the_end_of_the_step_before_on_the_gpu_to_its_own() -> None:
    trace = three_steps()
    assert periods(trace) == [(0, 300), (300, 1_600), (1_600, 3_400)]
    assert (cpu_times(trace) // US).tolist() == [900] * 3
    assert (windows(trace), windows(trace, 2)) == ([(0, 3_400)], [(300, 1_600)])
    # Of periods of 300, 1300 and 1800 µs.
    assert median_step(trace) == 2
    assert [scope_title(trace, None), scope_title(trace, 2)] == ["the steps", "step 2"]


def test_of_two_steps_the_shorter_one_is_the_median_and_of_equal_ones_the_first() -> None:
    work = [*ran(1, 50, 100, 700), *ran(2, 1_050, 1_100, 100)]
    trace = make_trace([stepped(4, 0, 900), stepped(5, 1_000, 900), *work])
    assert (periods(trace), median_step(trace)) == ([(0, 800), (800, 1_200)], 5)
    equal = make_trace([stepped(number, 1_000 * number, 900) for number in (4, 5, 6, 7)])
    assert (median_step(equal), median_step(make_trace([op("aten::mm", 0, 10)]))) == (5, None)


def test_a_step_without_gpu_work_has_an_empty_period_and_its_scope_is_its_cpu_time() -> None:
    work = [*ran(1, 50, 100, 200), *ran(3, 2_050, 2_500, 900)]
    trace = make_trace([*(stepped(number + 1, 1_000 * number, 900) for number in range(3)), *work])
    assert periods(trace) == [(0, 300), (300, 300), (300, 3_400)]
    assert windows(trace, 2) == [(1_000, 1_900)]


def test_without_a_gpu_periods_are_cpu_times() -> None:
    trace = make_trace([stepped(1, 0, 900), stepped(2, 1_000, 700)])
    assert (periods(trace), windows(trace)) == ([(0, 900), (1_000, 1_700)], [(0, 900), (1_000, 1_700)])


def test_an_only_step_ends_with_its_slice_where_the_cpu_goes_on() -> None:
    assert periods(make_trace([stepped(1, 0, 900), *ran(1, 50, 100, 200)])) == [(0, 900)]
    assert periods(make_trace([stepped(1, 0, 900), *ran(1, 50, 100, 900)])) == [(0, 1_000)]


def test_each_thread_has_periods_of_its_own() -> None:
    events = [
        *(stepped(number, 1_000 * number, 900) for number in (1, 2)),
        *(stepped(number, 1_000 * number + 500, 300, SECOND) for number in (1, 2)),
        *ran(1, 1_050, 1_100, 200),
        *ran(2, 2_050, 2_100, 300),
        *ran(3, 1_550, 1_600, 10, SECOND, "stream 8"),
        *ran(4, 2_550, 2_600, 20, SECOND, "stream 8"),
    ]
    assert sorted(periods(make_trace(events))) == [(1_000, 1_300), (1_300, 2_400), (1_500, 1_610), (1_610, 2_620)]
    assert windows(make_trace(events)) == [(1_000, 2_620)]


@pytest.mark.parametrize(
    ("start", "dur", "begin"),
    [
        (1_000, 600, 1_600),  # still ran as the step began
        (1_000, 500, 1_500),  # ended as it began
        (1_000, 300, 1_500),
        (1_000, 900, 1_800),  # until the first activity of the step
        (1_750, 900, 1_800),
        (1_800, 900, 1_800),  # began with it: what the first activity waited for was not recorded
    ],
)
def test_the_first_period_begins_where_the_gpu_has_finished_what_was_launched_earlier(
    start: int, dur: int, begin: int
) -> None:
    events = [
        *ran(9, 900, start, dur, stream="stream 8"),
        stepped(1, 1_500, 900),
        stepped(2, 2_500, 900),
        *ran(1, 1_550, 1_800, 200),
        *ran(2, 2_550, 2_600, 200),
    ]
    assert periods(make_trace(events)) == [(begin, 2_000), (2_000, 2_800)]


def test_what_an_earlier_step_launched_holds_up_no_first_period() -> None:
    events = [
        stepped(1, 0, 900),
        *ran(9, 50, 1_000, 600, stream="stream 8"),
        stepped(1, 1_500, 900, SECOND),
        *ran(1, 1_550, 1_800, 200, SECOND),
    ]
    # The first step waited behind its launch for what was not recorded.
    assert sorted(periods(make_trace(events))) == [(1_000, 1_600), (1_500, 2_400)]


def test_the_wait_that_ends_the_capture_is_in_no_time() -> None:
    flush = Event("cudaDeviceSynchronize", 2_700 * US, 2_000 * US, Kind.RUNTIME)
    trace = three_steps(flush)
    assert recorded_extent(trace) == (0, 3_400 * US)
    assert (cpu_times(trace) // US).tolist() == [900, 900, 700]
    # In the middle of the trace it is a wait like others.
    middle = Event("cudaDeviceSynchronize", 1_500 * US, 100 * US, Kind.RUNTIME)
    assert (cpu_times(three_steps(middle)) // US).tolist() == [900] * 3


def test_the_extent_is_that_of_calls_operators_annotations_and_gpu_work() -> None:
    frame = Event("f.py(1): f", -500 * US, 9_000 * US, Kind.PYTHON)
    assert recorded_extent(three_steps(frame)) == (0, 3_400 * US)
    assert recorded_extent(three_steps(op("aten::mm", -100 * US, 10), memcpy("copy", 4_000 * US, US))) == (
        -100 * US,
        4_001 * US,
    )
    alone = make_trace([Event("f.py(1): f", 0, 70, Kind.PYTHON)])
    assert (recorded_extent(alone), windows(alone), scope_title(alone, None)) == ((0, 70), [(0, 0)], "the trace")
    for trace in (make_trace([op("aten::mm", 30, 0)]), make_trace([step(1, 30, 0)])):
        assert [each.tolist() for each in scope_windows(trace, None)] == [[30], [31]]


def test_idle_time_before_within_and_behind_the_work_adds_up() -> None:
    trace = three_steps(op("aten::mm", 3_300 * US, 300 * US))
    assert stretches(trace) == [
        (0, 50, "UNSEEN"),
        (50, 55, "CALLS"),
        (55, 100, "LATENCY"),
        (300, 1_050, "UNSEEN"),
        (1_050, 1_055, "LAUNCH"),
        (1_055, 1_300, "SCHEDULING"),
        (1_600, 2_500, "UNSEEN"),
        (3_400, 3_600, "OPERATORS"),
    ]
    found = idle_stretches(trace)
    assert found.gap.tolist() == [-1] * 3 + [0] * 3 + [1, -1]
    first, second, third = trace.slices.of_kind(Kind.KERNEL).tolist()
    assert found.after.tolist() == [first] * 3 + [second] * 3 + [third, -1]
    assert found.lane.tolist() == [0, 0, -1, 0, 0, 0, 0, 0]
    assert (len(found), (found.dur // US).tolist()) == (8, [50, 5, 45, 750, 5, 245, 900, 200])


def test_stretches_are_clipped_to_windows_one_by_one() -> None:
    found = idle_stretches(three_steps()).clipped(np.array([20, 1_600]) * US, np.array([400, 2_000]) * US)
    spans = [(low // US, high // US) for low, high in zip(found.start.tolist(), found.end.tolist(), strict=True)]
    assert spans == [(20, 50), (50, 55), (55, 100), (300, 400), (1_600, 2_000)]
    assert found.gap.tolist() == [-1, -1, -1, 0, 1]
    touching = idle_stretches(three_steps()).clipped(np.array([100 * US]), np.array([300 * US]))
    assert len(touching) == 0


@pytest.mark.parametrize(("start", "cause"), [(79, "LATENCY"), (80, "BEFORE_CAPTURE")])
def test_a_first_activity_that_waits_longer_than_usual_may_wait_for_what_ran_before(start: int, cause: str) -> None:
    """Five later launches say that 8 µs are usual; three times as long is ordinary."""
    usual = [event for n in range(5) for event in ran(10 + n, 200 + 20 * n, 208 + 20 * n, 5)]
    trace = make_trace([*ran(1, 50, start, 10), *usual, op("aten::mm", 0, US)])
    assert stretches(trace)[3] == (55, start, cause)


def test_a_first_activity_that_nothing_launched_is_put_down_to_the_first_thread() -> None:
    events = [op("aten::mm", 0, 40 * US), kernel("lost", 100 * US, 10 * US)]
    assert stretches(make_trace(events)) == [(0, 40, "OPERATORS"), (40, 100, "UNSEEN")]
    # The thread of the first step comes before that of the first operator.
    trace = make_trace([*events, op("aten::mul", 60 * US, 40 * US, lane=SECOND), stepped(1, 10, 200, SECOND)])
    assert stretches(trace)[:2] == [(0, 60, "UNSEEN"), (60, 100, "OPERATORS")]


@pytest.mark.parametrize(("length", "cause"), [(1_000, "LONG_GAP"), (999, "UNSEEN")])
def test_a_millisecond_of_nothing_at_an_edge_is_long(length: int, cause: str) -> None:
    trace = make_trace([op("aten::mm", 0, US), *ran(1, 1 + length, 10 + length, 10)])
    assert stretches(trace)[1] == (1, 1 + length, cause)


def test_every_device_has_edges_of_its_own() -> None:
    other = Event("k", 150 * US, 20 * US, Kind.KERNEL, ("1", "stream 7"), 2)
    trace = make_trace([*ran(1, 0, 10, 100), launch(20 * US, 5 * US, 2), other])
    found = idle_stretches(trace)
    spans = list(zip((found.start // US).tolist(), (found.end // US).tolist(), strict=True))
    of_device = [
        [span for span, each in zip(spans, found.device.tolist(), strict=True) if each == device]
        for device in set(found.device.tolist())
    ]
    assert sorted(of_device) == [[(0, 5), (5, 10), (110, 170)], [(0, 5), (5, 20), (20, 25), (25, 150)]]


@pytest.mark.parametrize(("start", "group"), [(1_299, SHORT_OVERHEAD), (1_300, LONG_OVERHEAD)])
def test_launch_overhead_in_gaps_of_a_millisecond_is_long(start: int, group: int) -> None:
    """The second kernel starts 10 µs after its launch, with its latency."""
    trace = make_trace([*ran(1, 50, 100, 200), *ran(2, start - 10, start, 10)])
    causes = [Cause(cause).name for cause in idle_stretches(trace).cause.tolist()]
    groups = dict(zip(zip(causes, idle_stretches(trace).gap.tolist(), strict=True), idle_groups(trace), strict=True))
    within = {cause: number for (cause, gap), number in groups.items() if gap == 0}
    assert set(within.values()) == {group}
    # Before the first activity there is no gap, so that it is long; that it was launched late is not known.
    assert groups["CALLS", -1] == LONG_OVERHEAD
    assert groups["LATENCY", -1] == Cause.LATENCY


def test_idle_time_by_group_and_by_cause_is_that_within_the_windows() -> None:
    trace = three_steps()
    low, high = np.array([0, 300, 1_600]) * US, np.array([300, 1_600, 3_400]) * US
    groups, causes = idle_by_group(trace, low, high)
    assert (groups.sum(axis=1) // US).tolist() == (causes.sum(axis=1) // US).tolist() == [100, 1_000, 900]
    assert (groups[:, [SHORT_OVERHEAD, LONG_OVERHEAD]] // US).tolist() == [[0, 55], [0, 755], [900, 0]]
    assert (causes[:, [Cause.LATENCY, Cause.SCHEDULING, Cause.CALLS]] // US).tolist() == [
        [45, 0, 5],
        [0, 245, 0],
        [0, 0, 0],
    ]
    assert (groups[:, Cause.LATENCY] // US).tolist() == [45, 0, 0]
    assert (idle_within(trace, low, high) // US).tolist() == [100, 1_000, 900]
    assert (idle_within(trace, np.array([50 * US]), np.array([350 * US])) // US).tolist() == [100]


def test_idle_time_is_summed_over_the_devices() -> None:
    other = Event("k", 150 * US, 20 * US, Kind.KERNEL, ("1", "stream 7"), 2)
    trace = make_trace([*ran(1, 0, 10, 100), launch(20 * US, 5 * US, 2), other])
    low, high = np.array([0]), np.array([170 * US])
    assert (idle_within(trace, low, high) // US).tolist() == [70 + 150]
    assert (idle_by_group(trace, low, high)[0].sum(axis=1) // US).tolist() == [70 + 150]


def test_what_the_cpu_did_before_the_first_activity_is_looked_up_by_its_own_clock() -> None:
    """The clock of the GPU is 25 µs ahead: kernels start 30 µs behind their launches."""
    work = [event for n in range(100) for event in ran(n + 1, 1_000 + 100 * n, 1_030 + 100 * n, 20)]
    trace = make_trace([op("aten::mm", 0, 400 * US), op("aten::mul", 500 * US, 500 * US), *work])
    assert stretches(trace)[:4] == [
        (25, 425, "OPERATORS"),
        (425, 525, "UNSEEN"),
        (525, 1_025, "OPERATORS"),
        (1_025, 1_030, "CALLS"),
    ]
