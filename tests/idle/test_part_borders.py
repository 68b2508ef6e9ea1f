"""Where the parts of gaps are cut, and how far the clocks must disagree to show: at the borders, to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tracetui.idle.idle_parts import (
    after_sync,
    clock_skew,
    idle_by_cause,
    idle_by_step,
    idle_contents,
    idle_parts,
    late_gaps,
    main_causes,
    usual_latency,
)
from tracetui.idle.waits import Cause
from tracetui.model.trace import Kind, Trace

US, MS = 1_000, 1_000_000
MAIN, SECOND = ("1", "1"), ("1", "9")


def gap_to(end: int, *between: Event, call: Event | None = None, before: tuple[str, str] = MAIN) -> Trace:
    """A gap from 1 ms on, which a kernel ends that is launched 10 µs before it."""
    last = call or launch(end - 10 * US, 5 * US, 2)
    first = [launch(0, 5 * US, 1, lane=before), kernel("k", 10 * US, MS - 10 * US, correlation=1)]
    return make_trace([*first, *between, last, kernel("k", end, 100 * US, correlation=2)])


def contents(trace: Trace, start: int = MS) -> list[tuple[int, int, str]]:
    """Start and end in ns behind the start of the gap, and the cause of each of its contents."""
    found = idle_contents(trace)
    columns = (found.start - start, found.end - start, found.cause)
    return [
        (low, high, Cause(cause).name) for low, high, cause in zip(*(each.tolist() for each in columns), strict=True)
    ]


def steady(delays: Sequence[int], streams: int = 1, dur: int = 20 * US, every: int = 100 * US, calls: int = 1) -> Trace:
    """Kernels that start so much later than their launches, which are made one after the other."""
    names = ["cudaLaunchKernel", "cuLaunchKernelEx"]
    events: list[Event] = []
    for number, delay in enumerate(delays):
        at = MS + number * every
        events.append(launch(at, 4 * US, number + 1, names[number % calls]))
        events.append(kernel("k", at + delay, dur, f"stream {7 + number % streams}", correlation=number + 1))
    return make_trace(events)


@pytest.mark.parametrize(
    ("delay", "skew"),
    [(10 * US, 0), (10 * US + 1, 5 * US + 1), (30 * US, 25 * US), (0, 0), (-1, -5 * US - 1), (-20 * US, -25 * US)],
)
def test_a_floor_below_nothing_or_above_ten_microseconds_is_skew(delay: int, skew: int) -> None:
    assert clock_skew(steady([delay] * 100)) == skew


def test_a_hundred_launches_of_one_call_for_one_stream_show_a_floor() -> None:
    assert clock_skew(steady([30 * US] * 99)) == 0
    assert clock_skew(steady([30 * US] * 199, streams=2)) == 25 * US
    assert clock_skew(steady([30 * US] * 198, streams=2)) == 0
    assert clock_skew(steady([30 * US] * 198, calls=2)) == 0
    assert clock_skew(steady([30 * US, 18 * US] * 100, streams=2)) == 13 * US


def test_one_launch_in_a_hundred_may_lie_below_a_negative_floor() -> None:
    """The floor is a hundredth of the way from the least delay to the next."""
    assert clock_skew(steady([-30 * US, *[-20 * US] * 99])) == -25_100
    assert clock_skew(steady([-30 * US, -30 * US, *[-20 * US] * 98])) == -35 * US


def test_what_one_launch_did_not_wait_for_is_no_clock() -> None:
    assert clock_skew(steady([12 * US, *[20 * US] * 99])) == 7 * US
    assert clock_skew(steady([10 * US, *[20 * US] * 99])) == 0


@pytest.mark.parametrize(
    ("delay", "pause", "count", "skew"),
    [
        (30 * US, 5 * US, 101, 25 * US),
        (30 * US, 5 * US - 1, 101, 0),
        (30 * US, 5 * US, 100, 0),
        (20 * US, 5 * US, 101, 0),
        (20 * US + 1, 5 * US, 101, 15 * US + 1),
    ],
)
def test_where_no_stream_was_idle_gaps_show_the_skew(delay: int, pause: int, count: int, skew: int) -> None:
    """Each kernel looks queued behind the one before it, which in truth had ended before the launch."""
    assert clock_skew(steady([delay] * count, dur=100 * US - pause)) == skew


@pytest.mark.parametrize(("nothing", "seen"), [(10 * US, "DATA_LOADING"), (10 * US - 1, "UNSEEN")])
def test_another_thread_is_looked_up_from_ten_microseconds_on(nothing: int, seen: str) -> None:
    work = op("aten::mm", MS + nothing, 500 * US - nothing)
    loads = Event("load_batch", 900 * US, 300 * US, Kind.ANNOTATION, SECOND)
    trace = gap_to(MS + 510 * US, work, loads, before=SECOND)
    assert contents(trace)[:2] == [(0, nothing, seen), (nothing, 500 * US, "OPERATORS")]
    found = idle_contents(trace)
    assert (found.lane[0] == found.lane[1]) == (seen == "UNSEEN")


def test_only_what_counts_elsewhere_is_taken_from_another_thread() -> None:
    """A wait of the other thread may be for this one; what neither has stays with the launching thread."""
    waits = Event("cudaStreamSynchronize", MS + 20 * US, 100 * US, Kind.RUNTIME, SECOND)
    loads = Event("load_batch", MS + 200 * US, 100 * US, Kind.ANNOTATION, SECOND)
    trace = gap_to(MS + 410 * US, waits, loads, before=SECOND)
    assert contents(trace) == [
        (0, 200 * US, "UNSEEN"),
        (200 * US, 300 * US, "DATA_LOADING"),
        (300 * US, 400 * US, "UNSEEN"),
        (400 * US, 405 * US, "LAUNCH"),
        (405 * US, 410 * US, "LATENCY"),
    ]
    lane = idle_contents(trace).lane.tolist()
    assert lane[0] == lane[2] == lane[3] != lane[1]


def test_the_main_thread_is_looked_up_where_the_launching_one_launched_before() -> None:
    """That is the thread with the steps, or without steps the one with most launches."""
    loads = Event("load_batch", MS, 300 * US, Kind.ANNOTATION, SECOND)
    marked = gap_to(MS + 410 * US, loads, step(1, 0, 3 * MS, lane=SECOND))

    def busy(lane: tuple[str, str], count: int) -> list[Event]:
        calls = [launch(10 * US * n, US, 50 + n, lane=lane) for n in range(1, count + 1)]
        return [
            *calls,
            *(kernel("j", 10 * US * n + 5 * US, US, "stream 8", correlation=50 + n) for n in range(1, count + 1)),
        ]

    for trace in (marked, gap_to(MS + 410 * US, loads, *busy(SECOND, 3))):
        assert contents(trace)[0] == (0, 300 * US, "DATA_LOADING")
    elsewhere = Event("load_batch", MS, 300 * US, Kind.ANNOTATION, ("2", "9"))
    for trace in (
        gap_to(MS + 410 * US, loads, *busy(SECOND, 1)),
        gap_to(MS + 410 * US, elsewhere, *busy(("2", "9"), 3)),
    ):
        assert contents(trace)[0] == (0, 400 * US, "UNSEEN")


def flush(start: int, dur: int) -> Event:
    return Event("Buffer Flush", MS + start * US, dur * US, Kind.OVERHEAD, ("-1", "0"))


def test_the_profiler_is_cut_out_of_the_launch_call() -> None:
    call = launch(MS, 90 * US, 2)
    trace = gap_to(MS + 100 * US, flush(-20, 25), flush(20, 10), flush(50, 10), flush(85, 50), call=call)
    assert contents(trace) == [
        (low * US, high * US, cause)
        for low, high, cause in (
            (0, 5, "PROFILER"),
            (5, 20, "LAUNCH"),
            (20, 30, "PROFILER"),
            (30, 50, "LAUNCH"),
            (50, 60, "PROFILER"),
            (60, 85, "LAUNCH"),
            (85, 90, "PROFILER"),
            (90, 100, "LATENCY"),
        )
    ]
    beside = gap_to(MS + 100 * US, flush(-20, 20), flush(90, 5), call=call)
    assert contents(beside) == [(0, 90 * US, "LAUNCH"), (90 * US, 100 * US, "LATENCY")]
    whole = gap_to(MS + 100 * US, flush(0, 90), call=call)
    assert contents(whole)[0] == (0, 90 * US, "PROFILER")


def test_two_gaps_are_each_cut_at_the_profiler() -> None:
    events = [
        *(launch(at * US, 5 * US, number) for number, at in ((1, 0), (4, 10))),
        kernel("k", 10 * US, 990 * US, correlation=1),
        launch(MS, 40 * US, 2),
        kernel("k", MS + 50 * US, 50 * US, correlation=2),
        launch(MS + 100 * US, 40 * US, 3),
        kernel("k", MS + 150 * US, 50 * US, correlation=3),
        flush(10, 10),
        flush(110, 10),
    ]
    assert [each for each in contents(make_trace(events)) if each[2] in ("PROFILER", "LAUNCH")] == [
        (0, 10 * US, "LAUNCH"),
        (10 * US, 20 * US, "PROFILER"),
        (20 * US, 40 * US, "LAUNCH"),
        (100 * US, 110 * US, "LAUNCH"),
        (110 * US, 120 * US, "PROFILER"),
        (120 * US, 140 * US, "LAUNCH"),
    ]


@pytest.mark.parametrize(("length", "cause"), [(MS, "PEERS"), (MS - 1, "COMMUNICATION")])
def test_a_millisecond_in_a_communication_call_is_a_wait_for_peers(length: int, cause: str) -> None:
    trace = gap_to(3 * MS, op("c10d::allreduce_", MS, length))
    assert contents(trace)[0] == (0, length, cause)


@pytest.mark.parametrize(("quiet", "named"), [(400 * US, True), (400 * US - 1, False)])
def test_python_and_nothing_together_are_a_long_stretch(quiet: int, named: bool) -> None:
    """600 µs of nothing, and Python until the operator: what is named long is one part."""
    rest = op("aten::mm", MS + 600 * US + quiet, 2 * MS - 610 * US - quiet)
    trace = gap_to(3 * MS, python("f.py(1): f", MS + 600 * US, quiet), rest)
    expected = (
        [(0, MS, "LONG_GAP")]
        if named
        else [(0, 600 * US, "UNSEEN"), (600 * US, MS - 1, "PYTHON")]
    )  # fmt: skip
    assert contents(trace)[: len(expected)] == expected


def test_long_stretches_of_two_gaps_are_apart_and_short_gaps_have_none() -> None:
    events = [
        *(launch(0, 5 * US, 1), kernel("k", 10 * US, 990 * US, correlation=1)),
        *(launch(1_600 * US, 5 * US, 2), kernel("k", 1_610 * US, 10 * US, correlation=2)),
        *(launch(2_200 * US, 5 * US, 3), kernel("k", 2_210 * US, 10 * US, correlation=3)),
        *(launch(4_200 * US, 5 * US, 4), kernel("k", 4_210 * US, 10 * US, correlation=4)),
        *(launch(6_200 * US, 5 * US, 5), kernel("k", 6_210 * US, 10 * US, correlation=5)),
    ]
    first = [
        (low // US, high // US, cause)
        for low, high, cause in contents(make_trace(events), 0)
        if cause not in ("LAUNCH", "LATENCY")
    ]
    assert first == [
        (1_000, 1_600, "UNSEEN"),
        (1_620, 2_200, "UNSEEN"),
        (2_220, 4_200, "LONG_GAP"),
        (4_220, 6_200, "LONG_GAP"),
    ]


@pytest.mark.parametrize(("length", "parts"), [(MS, 3), (MS - 1, 1)])
def test_a_gap_of_a_millisecond_is_split(length: int, parts: int) -> None:
    work = op("aten::mm", MS, length - 10 * US, lane=SECOND)
    trace = gap_to(MS + length, work, call=launch(MS + length - 10 * US, 5 * US, 2, lane=SECOND))
    found = idle_parts(trace)
    assert (len(found), int(found.dur.sum())) == (parts, length)
    assert [trace.lanes[lane].tid for lane in found.lane.tolist()] == ["9"] * parts
    assert [Cause(cause).name for cause in main_causes(trace).tolist()] == ["OPERATORS"]


def test_the_part_of_a_short_gap_without_a_launch_has_no_thread() -> None:
    trace = make_trace([launch(0, 5, 1), kernel("k", 10, 100, correlation=1), kernel("lost", 300, 10)])
    assert (idle_parts(trace).lane.tolist(), idle_parts(trace).cause.tolist()) == ([-1], [Cause.UNKNOWN])
    assert late_gaps(trace).tolist() == [False]


def test_a_gap_is_late_where_its_launch_call_returned_within_it() -> None:
    assert late_gaps(gap_to(MS + 100 * US)).tolist() == [True]
    assert late_gaps(gap_to(MS + 100 * US, call=launch(MS - 5 * US, 5 * US, 2))).tolist() == [False]
    assert late_gaps(gap_to(MS + 100 * US, call=launch(MS - 5 * US, 5 * US + 1, 2))).tolist() == [True]


@pytest.mark.parametrize(
    ("loading", "late", "cause"),
    [
        # Behind the operators come 5 µs of launch call and 5 µs of latency, which count with them.
        (50, 40, "DATA_LOADING"),
        (49, 41, "OPERATORS"),
        (46, 44, "OPERATORS"),
    ],
)
def test_the_latency_of_a_late_launch_is_part_of_launch_overhead(loading: int, late: int, cause: str) -> None:
    work = annotation("load_batch", MS, loading * US), op("aten::mm", MS + loading * US, late * US)
    trace = gap_to(MS + (loading + late + 10) * US, *work)
    assert Cause(int(main_causes(trace)[0])).name == cause


def test_launch_overhead_after_a_wait_belongs_to_the_wait() -> None:
    """The wait ended 5 µs after the GPU; then came 85 µs of operators."""
    wait = Event("cudaStreamSynchronize", 900 * US, 105 * US, Kind.RUNTIME)
    trace = gap_to(MS + 100 * US, wait, op("aten::mm", MS + 5 * US, 85 * US))
    assert (after_sync(trace).tolist(), main_causes(trace).tolist()) == ([True], [Cause.HOST_SYNC])
    # In a gap of a millisecond each has its own part.
    longer = gap_to(2 * MS, wait, op("aten::mm", MS + 5 * US, 985 * US))
    assert (after_sync(longer).tolist(), main_causes(longer).tolist()) == ([True], [Cause.OPERATORS])
    assert contents(longer)[0] == (0, 5 * US, "HOST_SYNC")


def test_a_launch_before_the_gap_follows_no_wait() -> None:
    wait = Event("cudaStreamSynchronize", 900 * US, 105 * US, Kind.RUNTIME)
    trace = gap_to(MS + 100 * US, wait, call=launch(800 * US, 5 * US, 2))
    assert after_sync(trace).tolist() == [False]


def test_a_copy_from_the_device_holds_up_and_one_to_it_does_not() -> None:
    def held(name: str) -> list[bool]:
        call = launch(5 * US, 1_020 * US, 1, "cudaMemcpyAsync")
        copy = Event(name, 10 * US, 990 * US, Kind.MEMCPY, ("0", "stream 7"), 1)
        later = [launch(MS + 90 * US, 5 * US, 2), kernel("k", MS + 100 * US, 10, correlation=2)]
        return after_sync(make_trace([call, copy, *later])).tolist()

    assert [held(name) for name in ("Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)")] == [
        [True],
        [False],
    ]


@pytest.mark.parametrize(("called", "cause"), [(1_000 * US - 1, "BEFORE_CAPTURE"), (1_000 * US, "SCHEDULING")])
def test_launches_as_the_capture_began_are_those_of_its_first_millisecond(called: int, cause: str) -> None:
    usual = [launch(10 * US * n, 5 * US, 10 + n) for n in range(1, 4)]
    usual += [kernel("k", 10 * US * n + 10 * US, 2 * US, "stream 8", correlation=10 + n) for n in range(1, 4)]
    events = [launch(0, 5 * US, 1), kernel("k", 10 * US, 1_200 * US, correlation=1), *usual]
    trace = make_trace([*events, launch(called, 5 * US, 2), kernel("k", 9 * MS, 10, "stream 9", correlation=2)])
    assert contents(trace, 0)[-1] == (1_210 * US, 9 * MS, cause)
    # A stream that ran something before waits for nothing older.
    known = make_trace([*events, launch(called, 5 * US, 2), kernel("k", 9 * MS, 10, correlation=2)])
    assert contents(known, 0)[-1][2] == "SCHEDULING"


def test_usual_is_the_median_latency_of_single_kernels_for_an_idle_stream() -> None:
    assert usual_latency(steady([6 * US, 7 * US, 9 * US, 30 * US])) == 8 * US
    # Where most waited for something else, those count that did not.
    assert usual_latency(steady([100 * US, 200 * US, 300 * US], every=MS)) == 100 * US
    assert usual_latency(steady([101 * US, 200 * US, 300 * US], every=MS)) == 8 * US
    assert usual_latency(steady([99 * US, 100 * US, 200 * US], every=MS)) == 100 * US
    graph = [launch(0, 5, 1, "cudaGraphLaunch"), *(kernel("k", 3_000 + 20 * n, 10, correlation=1) for n in range(2))]
    assert usual_latency(make_trace([*graph, launch(9_000, 5, 2), kernel("k", 9_500, 10, correlation=2)])) == 500


def test_a_kernel_without_launch_was_late_by_the_usual_latency() -> None:
    """The next launch came after the gap had begun; five launches say that 6 µs are usual."""
    usual = [launch(20 * US * n, US, 10 + n) for n in range(5)]
    usual += [kernel("k", 20 * US * n + 6 * US, US, correlation=10 + n) for n in range(5)]
    lost = kernel("lost", 300 * US, 10 * US)
    later = [launch(350 * US, 5 * US, 2), kernel("k", 360 * US, US, correlation=2)]
    trace = make_trace([*usual, lost, *later])
    found = [each for each in contents(trace, 0) if each[0] < 300 * US <= each[1] or 87 * US <= each[0] < 300 * US]
    assert found == [(87 * US, 294 * US, "UNSEEN"), (294 * US, 300 * US, "LATENCY")]


def test_times_by_cause_and_by_step_are_those_of_the_parts() -> None:
    loads = annotation("load_batch", MS, 500 * US)
    trace = gap_to(2 * MS, loads, op("aten::mm", MS + 500 * US, 490 * US), step(1, 0, 3 * MS))
    by_cause = {cause.name: spent.tolist() for cause, spent in idle_by_cause(trace).items()}
    assert by_cause == {"DATA_LOADING": [500 * US], "OPERATORS": [490 * US], "LAUNCH": [5 * US], "LATENCY": [5 * US]}
    by_step = idle_by_step(trace)
    assert (by_step.shape, by_step.sum(axis=1).tolist()) == ((2, len(Cause)), [MS, 0])
    outside = gap_to(2 * MS, loads, step(1, 0, 500 * US))
    assert idle_by_step(outside).sum(axis=1).tolist() == [0, MS]
    assert np.flatnonzero(idle_by_step(outside)[1]).tolist() == [*np.unique(idle_parts(outside).cause).tolist()]
