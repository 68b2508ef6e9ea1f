"""A verdict at its thresholds: percentages by hand, and gaps to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.idle.scope_times import LONG_OVERHEAD
from tracetui.idle.verdict import FRAMES, NOTHING_SEEN, Judged, Verdict, verdict
from tracetui.idle.waits import Cause
from tracetui.model.trace import Device, Kind, Trace

H100 = Device(0, "NVIDIA H100 80GB HBM3", {"computeMajor": 9, "computeMinor": 0, "numSms": 132})
IDLE = Verdict(
    judged=Judged("the trace", 1_000, 100, (0,) * (LONG_OVERHEAD + 1), (0,) * len(Cause), 0),
    covered=900,
    idle=100,
    activities=4,
    late=1,
    cpu_late=0,
    in_launch=0,
    waiting=100,
    small=0,
    dependency=0,
    after_sync=0,
    exposed_comm=0,
    exposed_copy=0,
    has_frames=False,
)
"""Idle for a tenth of the time, for no cause that is known."""


def idle_for(time=1_000, idle=100, exposed=0, limit=None, has_frames=False, short=0, long=0, **causes) -> Verdict:
    """A verdict on idle time with its causes; `short` and `long` are launch overhead in gaps of the two lengths."""
    by_cause = [causes.get(each.name.lower(), 0) for each in Cause]
    groups = (*by_cause, short, long)
    by_cause[Cause.OPERATORS] += short + long
    rests_on = Judged("the trace", time, idle, groups, tuple(by_cause), exposed)
    return replace(IDLE, judged=rests_on, limit=limit, has_frames=has_frames)


def test_the_causes_that_take_most_are_named_as_shares_of_the_scope():
    found = idle_for(idle=500, host_sync=200, latency=150, short=100, unknown=50)
    shares = "20 % host sync, 15 % launch latency, 10 % launch overhead"
    assert found.text == f"mixed-bound: GPU idle 50 % of the trace ({shares})"


def test_a_busy_gpu_has_no_causes_to_name():
    assert idle_for(idle=99, host_sync=99).text == "GPU-bound: GPU idle 10 % of the trace"


def test_shares_are_of_the_idle_time_or_of_all():
    found = replace(IDLE, cpu_late=30, in_launch=10, waiting=40, small=10, after_sync=5, dependency=25, exposed_comm=50)
    parts = ("cpu_late", "in_launch", "waiting", "unknown", "dependency", "after_sync")
    assert [found.share_of_idle(part) for part in parts] == [30, 10, 40, 20, 25, 5]
    assert (found.small_pct, found.total) == (25, 1_000)
    nothing = replace(found, idle=0, covered=0, activities=0, late=0, cpu_late=0, in_launch=0)
    assert (nothing.idle_pct, nothing.late_pct) == (0, 0)
    assert (nothing.share_of_idle("waiting"), nothing.small_pct) == (None, None)


@pytest.mark.parametrize(
    ("causes", "cause"),
    [
        ({"short": 50, "host_sync": 49}, "overhead"),
        ({"long": 50, "short": 40}, "host-stall"),
        ({"start_up": 50}, "host-stall"),
        ({"short": 49, "host_sync": 49}, "mixed"),
        ({"stream": 20, "scheduling": 20, "graph": 10, "short": 45}, "dependency"),
        ({"scheduling": 49}, "mixed"),
        ({"unknown": 50}, "unknown"),
        ({"latency": 50}, "mixed"),
        ({"before_capture": 60, "short": 20}, "overhead"),
    ],
)
def test_half_of_the_idle_time_names_it(causes, cause):
    assert idle_for(**causes).cause == cause


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "GPU-bound with mixed gaps"),
        ({"idle": 99}, "GPU-bound"),
        ({"idle": 250}, "mixed-bound"),
        ({"idle": 249}, "GPU-bound with mixed gaps"),
        ({"idle": 300, "unknown": 300}, "idle, cause unknown"),
        ({"idle": 300, "data_loading": 160}, "host-stall-bound (data loading)"),
        ({"idle": 300, "short": 160}, "overhead-bound"),
        ({"idle": 20, "exposed": 200}, "communication-bound"),
        ({"idle": 20, "exposed": 199}, "GPU-bound"),
        ({"idle": 300, "exposed": 300, "short": 290}, "communication-bound"),
        ({"idle": 300, "exposed": 280, "short": 290}, "overhead-bound"),
        ({"idle": 20, "limit": "memory"}, "memory-bound"),
        ({"idle": 820, "not_recorded": 800, "short": 20}, "GPU-bound with overhead gaps"),
    ],
)
def test_a_tenth_and_a_quarter_of_idle_time_and_a_fifth_of_communication(changes, words):
    assert idle_for(**changes).words == words


OVERHEAD = {"short": 60, "has_frames": True}
DEPENDENT = {"scheduling": 31, "stream": 29}


@pytest.mark.parametrize(
    ("changes", "remarks"),
    [
        (OVERHEAD, (FRAMES,)),
        (OVERHEAD | {"has_frames": False}, ()),
        (OVERHEAD | {"idle": 99}, ()),
        (DEPENDENT, (NOTHING_SEEN,)),
        (DEPENDENT | {"stream": 31}, ()),  # half of it is put down to something
        (DEPENDENT | {"stream": 0}, ()),
        (DEPENDENT | {"idle": 99}, ()),
    ],
)
def test_a_reader_is_told_to_doubt_where_there_is_reason(changes, remarks):
    assert idle_for(**changes).remarks == remarks


def judged(*events: Event) -> Verdict:
    found = verdict(make_trace(list(events)))
    assert found is not None
    return found


def gap(length: int, late: int, called: int) -> Verdict:
    """A gap of so many ns after 10 ns of work, of which the CPU is late for some and in the launch call for some."""
    return judged(kernel("a", 0, 10), launch(10 + late, called, 1), kernel("b", 10 + length, 10, correlation=1))


@pytest.mark.parametrize(("length", "small"), [(999_999, 700), (1_000_000, 0)])
def test_a_gap_of_a_millisecond_is_not_small(length, small):
    found = gap(length, 500, 200)
    assert (found.small, found.cpu_late, found.in_launch, found.waiting) == (small, 500, 200, length - 700)


@pytest.mark.parametrize(("waiting", "dependency"), [(10_000, 0), (10_001, 1), (30_000, 20_000)])
def test_ten_microseconds_behind_the_launch_are_ordinary(waiting, dependency):
    assert gap(700 + waiting, 500, 200).dependency == dependency


@pytest.mark.parametrize(("late", "count"), [(0, 0), (1, 1)])
def test_a_launch_is_late_from_a_nanosecond_on(late, count):
    found = gap(1_000, late, 200)
    assert (found.late, found.activities, found.covered, found.idle) == (count, 2, 20, 1_000)


def test_a_long_stall_in_the_launch_call_has_its_name():
    assert gap(9_000_000, 0, 9_000_000).words == "host-stall-bound (start-up)"


def test_what_a_stream_was_told_to_wait_for_is_seen():
    told = Event("cudaStreamWaitEvent", 2, 1, Kind.RUNTIME)
    events = [launch(0, 1, 2), kernel("a", 4, 6, correlation=2), launch(5, 1, 1)]
    last = kernel("b", 5_000_010, 10, correlation=1)
    silent, seen = judged(*events, last), judged(told, *events, last)
    waits = [each.judged.causes[Cause.STREAM] for each in (silent, seen)]
    assert (waits[0], silent.waiting, silent.remarks) == (0, 5_000_000, (NOTHING_SEEN,))
    assert (waits[1], seen.waiting, seen.remarks) == (5_000_000, 5_000_000, ())


def test_the_time_after_a_wait_is_that_of_the_gaps_that_began_in_one():
    wait = Event("cudaStreamSynchronize", 2, 400, Kind.RUNTIME)
    found = judged(
        wait,
        kernel("a", 0, 10),
        launch(500, 10, 1),
        kernel("b", 600, 10, correlation=1),
        launch(800, 10, 2),
        kernel("c", 900, 10, correlation=2),
    )
    assert (found.idle, found.after_sync) == (590 + 290, 590)


def kept_busy(**durations: int) -> str:
    """The words on kernels of products (`mm`), sums (`add`) and an op of unknown work (`op`), in us."""
    names = {"mm": "aten::mm", "add": "aten::add", "op": "my::op"}
    args = {"Input Dims": [[8192, 8192], [8192, 8192]], "Input type": ["c10::BFloat16"] * 2}
    events, start = [], 1_000
    for number, (name, dur) in enumerate(durations.items(), 1):
        events += [op(names[name], 20 * number, 10, args=args), launch(20 * number + 1, 2, number)]
        events.append(kernel("k", start, dur * 1_000, correlation=number))
        start += dur * 1_000
    trace: Trace = make_trace(events, [H100])
    found = verdict(trace)
    assert found is not None
    return found.words


@pytest.mark.parametrize(
    ("durations", "words"),
    [
        ({"mm": 2_000, "op": 2_000}, "GPU-bound"),  # as much is unknown
        ({"mm": 2_001, "op": 2_000}, "compute-bound"),
        ({"add": 2_001, "op": 2_000}, "memory-bound"),
        ({"mm": 2_000, "add": 2_000}, "compute-bound"),
        ({"mm": 2_000, "add": 2_001}, "memory-bound"),
        ({"mm": 2_000, "add": 2_000, "op": 3_999}, "compute-bound"),
        ({"mm": 2_000, "add": 2_000, "op": 4_000}, "GPU-bound"),
    ],
)
def test_what_keeps_the_gpu_busy_is_told_where_more_is_known_than_not(durations, words):
    assert kept_busy(**durations) == words
