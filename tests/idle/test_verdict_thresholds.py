"""A verdict at its thresholds: percentages by hand, and gaps to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.idle.verdict import FRAMES, NOTHING_SEEN, Verdict, verdict
from tracetui.idle.waits import Cause
from tracetui.model.trace import Device, Kind, Trace

H100 = Device(0, "NVIDIA H100 80GB HBM3", {"computeMajor": 9, "computeMinor": 0, "numSms": 132})
IDLE = Verdict(
    covered=900,
    idle=100,
    activities=4,
    late=1,
    cpu_late=0,
    in_launch=0,
    waiting=100,
    small=0,
    dependency=0,
    seen_waits=0,
    after_sync=0,
    exposed_comm=0,
    exposed_copy=0,
    host_cause=Cause.DATA_LOADING,
    has_frames=False,
)
"""Idle for a tenth of the time, which work that was launched spent waiting."""


@pytest.mark.parametrize(
    ("waiting", "split"),
    [
        (690, "10 % CPU late, 20 % in the launch call, 69 % waiting, 1 % unknown"),
        (691, "10 % CPU late, 20 % in the launch call, 69 % waiting"),
    ],
)
def test_what_is_unknown_is_told_from_one_percent_on(waiting, split):
    found = replace(IDLE, covered=1_000, idle=1_000, cpu_late=100, in_launch=200, waiting=waiting)
    idle = f"idle 50 % from the first GPU activity to the last ({split})"
    assert found.text == f"mixed-bound: {idle}, 25 % of the kernels launched late"


def test_without_idle_time_there_is_nothing_to_split():
    found = replace(IDLE, idle=0, waiting=0)
    assert (
        found.text == "GPU-bound: idle 0 % from the first GPU activity to the last, 25 % of the kernels launched late"
    )
    assert (found.share_of_idle("waiting"), found.small_pct, found.idle_pct) == (None, None, 0)
    nothing = replace(found, covered=0, activities=0, late=0)
    assert (nothing.idle_pct, nothing.late_pct, nothing.exposed_comm_pct) == (0, 0, 0)


def test_shares_are_of_the_idle_time_or_of_all():
    found = replace(IDLE, cpu_late=30, in_launch=10, waiting=40, small=10, after_sync=5, dependency=25, exposed_comm=50)
    parts = ("cpu_late", "in_launch", "waiting", "unknown", "dependency", "after_sync")
    assert [found.share_of_idle(part) for part in parts] == [30, 10, 40, 20, 25, 5]
    assert (found.small_pct, found.exposed_comm_pct, found.total) == (25, 5, 1_000)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"cpu_late": 50, "small": 25}, "overhead"),
        ({"cpu_late": 50, "small": 24}, "host-stall"),
        ({"in_launch": 50, "small": 25}, "overhead"),
        ({"cpu_late": 49, "small": 49}, "mixed"),
        ({"dependency": 50}, "dependency"),
        ({"dependency": 49}, "mixed"),
        ({"waiting": 50}, "unknown"),
        ({"waiting": 51}, "mixed"),
        ({"cpu_late": 50, "waiting": 0, "small": 50}, "overhead"),
    ],
)
def test_half_of_the_idle_time_names_it(changes, cause):
    assert replace(IDLE, **changes).cause == cause


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "GPU-bound with mixed gaps"),
        ({"covered": 901}, "GPU-bound"),
        ({"covered": 300}, "mixed-bound"),
        ({"covered": 301}, "GPU-bound with mixed gaps"),
        ({"covered": 300, "waiting": 50}, "idle, cause unknown"),
        ({"covered": 300, "cpu_late": 60}, "host-stall-bound (data loading)"),
        ({"covered": 300, "cpu_late": 60, "small": 60}, "overhead-bound"),
        ({"covered": 1_000, "exposed_comm": 220}, "communication-bound"),
        ({"covered": 1_000, "exposed_comm": 219}, "GPU-bound"),
        ({"covered": 1_000, "limit": "memory"}, "memory-bound"),
    ],
)
def test_a_tenth_and_a_quarter_of_idle_time_and_a_fifth_of_communication(changes, words):
    assert replace(IDLE, **changes).words == words


OVERHEAD = replace(IDLE, cpu_late=60, small=60, has_frames=True)
DEPENDENT = replace(IDLE, dependency=60, seen_waits=29)


@pytest.mark.parametrize(
    ("found", "remarks"),
    [
        (OVERHEAD, (FRAMES,)),
        (replace(OVERHEAD, has_frames=False), ()),
        (replace(OVERHEAD, small=0), ()),  # a stall is longer than frames can make it
        (replace(OVERHEAD, covered=901), ()),
        (DEPENDENT, (NOTHING_SEEN,)),
        (replace(DEPENDENT, seen_waits=30), ()),  # half of it is put down to something
        (replace(DEPENDENT, dependency=49, seen_waits=0), ()),
        (replace(DEPENDENT, covered=901), ()),
    ],
)
def test_a_reader_is_told_to_doubt_where_there_is_reason(found, remarks):
    assert found.remarks == remarks


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
    assert (silent.seen_waits, silent.waiting, silent.remarks) == (0, 5_000_000, (NOTHING_SEEN,))
    assert (seen.seen_waits, seen.waiting, seen.remarks) == (5_000_000, 5_000_000, ())


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
