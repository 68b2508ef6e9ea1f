"""Where one cause of a gap ends and the next begins: thresholds, ties and edges, to the nanosecond.

The gap begins at 1,000,000 ns, where `a` ends, which started 10,000 ns after its launch: the usual latency here.
"""

from __future__ import annotations

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.idle.gaps import gap_shares
from tracetui.idle.idle_parts import after_sync, idle_by_step, main_causes, usual_latency
from tracetui.idle.waits import WORDS, device_order, idleness
from tracetui.model.trace import Kind, Trace

BEGIN = 1_000_000


def gap_of(call: Event, end: int, *more: Event) -> Trace:
    """A gap that `b` ends, which the call launched."""
    first = [launch(0, 5_000, 1), kernel("a", 10_000, BEGIN - 10_000, correlation=1)]
    return make_trace([*first, *more, call, kernel("b", end, 1_000, correlation=2)])


def cause_of(call: Event, end: int, *more: Event) -> str:
    """What the first gap is put down to."""
    return WORDS[int(main_causes(gap_of(call, end, *more))[0])]


def shares_of(call: Event, end: int, *more: Event) -> str:
    """The causes of the first gap with their shares."""
    shares, texts = gap_shares(gap_of(call, end, *more))
    return texts[int(shares[0])]


@pytest.mark.parametrize(("length", "cause"), [(100_000, "launch call"), (100_001, "slow launch")])
def test_a_launch_of_more_than_a_tenth_of_a_millisecond_is_slow(length, cause):
    assert cause_of(launch(BEGIN, length, 2), BEGIN + length) == cause


@pytest.mark.parametrize(("others", "cause"), [(999, "full queue"), (998, "slow launch")])
def test_the_queue_is_full_at_a_thousand_launches(others, cause):
    """The slow launch itself is one of them, and the first no more, for its work has begun."""
    queued = [launch(20_000 + 10 * i, 1, 10 + i) for i in range(others)]
    queued += [launch(15_000, 10, 9), kernel("b", 16_000, 10, "stream 9", correlation=9)]
    later = [kernel("later", 20_000_000 + 10 * i, 10, correlation=10 + i) for i in range(others)]
    assert cause_of(launch(BEGIN, 150_000, 2), BEGIN + 150_000, *queued, *later) == cause


@pytest.mark.parametrize(("wait", "cause"), [(30_000, "launch latency"), (30_001, "scheduling")])
def test_three_times_the_usual_latency_is_ordinary(wait, cause):
    assert cause_of(launch(20_000, 5_000, 2), BEGIN + wait) == cause


def test_without_a_launch_for_an_idle_stream_eight_microseconds_are_usual():
    assert usual_latency(make_trace([kernel("a", 0, 10)])) == 8_000
    # A latency of nothing says that clocks disagree.
    assert usual_latency(make_trace([launch(100, 5, 1), kernel("a", 100, 10, correlation=1)])) == 8_000
    assert usual_latency(make_trace([launch(99, 0, 1), kernel("a", 100, 10, correlation=1)])) == 1


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (launch(BEGIN + 50_000, 50_000, 2), "Python or unknown"),  # late for 50 us, in the call for 50
        (launch(BEGIN + 49_999, 50_001, 2), "launch call"),
        (launch(BEGIN + 50_000, 0, 2), "Python or unknown"),  # late for 50 us, waiting for 50
        (launch(BEGIN + 49_999, 0, 2), "launch latency"),
        (launch(BEGIN, 50_000, 2), "launch call"),  # in the call for 50 us, waiting for 50
        (launch(BEGIN, 49_999, 2), "launch latency"),
    ],
)
def test_of_equal_parts_the_earlier_one_has_the_gap(call, cause):
    """What waits is ordinary here, for half of the launches that found their stream idle waited as long."""
    assert cause_of(call, BEGIN + 100_000) == cause


BUSY = (
    Event("cudaMalloc", BEGIN, 300_000, Kind.RUNTIME),
    op("aten::mm", BEGIN + 300_000, 250_000),
    Event("cudaFuncGetAttributes", BEGIN + 550_000, 200_000, Kind.RUNTIME),
    Event("f.py(1): f", BEGIN + 750_000, 150_000, Kind.PYTHON),
)


def test_four_causes_are_told_the_largest_first():
    """The launch call has 10 % and is the fifth."""
    told = "memory management 30 %, operators 25 %, runtime calls 20 %, Python 15 %"
    assert shares_of(launch(BEGIN + 900_000, 100_000, 2), 2 * BEGIN, *BUSY) == told
    assert idle_by_step(gap_of(launch(BEGIN + 900_000, 100_000, 2), 2 * BEGIN, *BUSY)).sum() == BEGIN


@pytest.mark.parametrize(
    ("length", "told"), [(5_000, "operators 100 %"), (5_001, "operators 99 %, memory management 1 %")]
)
def test_half_a_percent_is_not_told(length, told):
    allocated = Event("cudaMalloc", BEGIN, length, Kind.RUNTIME)
    rest = op("aten::mm", BEGIN + length, BEGIN - length)
    assert shares_of(launch(2 * BEGIN, 10, 2), 2 * BEGIN, allocated, rest) == told


def test_of_equal_shares_the_first_cause_has_the_gap():
    halves = Event("cudaMalloc", BEGIN, 500_000, Kind.RUNTIME), op("aten::mm", BEGIN + 500_000, 500_000)
    assert cause_of(launch(2 * BEGIN, 10, 2), 2 * BEGIN, *halves) == "memory management"
    told = "memory management 50 %, operators 50 %"
    assert shares_of(launch(2 * BEGIN, 10, 2), 2 * BEGIN, *halves) == told


@pytest.mark.parametrize(("end", "waited"), [(BEGIN, False), (BEGIN + 1, True)])
def test_a_wait_that_ends_with_the_work_began_no_gap(end, waited):
    wait = Event("cudaStreamSynchronize", 500_000, end - 500_000, Kind.RUNTIME)
    assert after_sync(gap_of(launch(BEGIN + 500_000, 10, 2), 2 * BEGIN, wait)).tolist() == [waited]


@pytest.mark.parametrize(
    ("kind", "end", "thread", "waited"),
    [
        (Kind.MEMCPY, 1_001, "1", True),
        (Kind.MEMCPY, 1_000, "1", False),  # the call returns as the copy ends
        (Kind.KERNEL, 1_001, "1", False),  # not a copy
        (Kind.MEMCPY, 1_001, "2", False),  # another thread asked for it
    ],
)
def test_a_copy_holds_up_the_thread_that_is_still_in_its_call(kind, end, thread, waited):
    trace = make_trace(
        [
            launch(5_000, 10, 2, lane=("1", "1")),
            launch(0, end, 1, "cudaMemcpyAsync", lane=("1", thread)),
            Event("copy", 100, 900, kind, ("0", "stream 7"), correlation=1),
            kernel("b", 5_100, 10, correlation=2),
        ]
    )
    assert after_sync(trace).tolist() == [waited]


@pytest.mark.parametrize(
    ("wait", "cause"),
    [
        (5_000, "scheduling"),  # before the launch before it on this stream
        (20_000, "stream dependency"),  # as that launch begins
        (25_000, "stream dependency"),
        (40_000, "scheduling"),  # as this launch begins
    ],
)
def test_the_thread_told_the_stream_to_wait_between_two_launches_for_it(wait, cause):
    trace = make_trace(
        [
            launch(20_000, 1_000, 1),
            launch(30_000, 1_000, 3),
            launch(40_000, 1_000, 2),
            Event("cudaStreamWaitEvent", wait, 500, Kind.RUNTIME),
            kernel("a", 50_000, BEGIN - 50_000, correlation=1),
            kernel("beside", 60_000, 10, "stream 9", correlation=3),
            kernel("b", 5 * BEGIN, 1_000, correlation=2),
        ]
    )
    assert WORDS[int(main_causes(trace)[0])] == cause


def test_thirty_nanoseconds_are_a_gap_and_29_are_not():
    order = device_order(make_trace([kernel("a", 0, 10), kernel("b", 40, 10), kernel("c", 79, 10)]))
    assert order.gap.tolist() == [0, 30, 0]
    assert order.before.tolist() == [-1, 0, 1]


def test_what_runs_beside_adds_only_what_nothing_else_covers():
    """`c` is within `b`; `d` follows at once; `e` begins with `d` and ends later."""
    spans = {"a": (0, 100, 7), "b": (50, 100, 8), "c": (60, 20, 9), "d": (150, 10, 7), "e": (150, 30, 8)}
    trace = make_trace([kernel(name, start, dur, f"stream {lane}") for name, (start, dur, lane) in spans.items()])
    order = device_order(trace)
    fresh = {trace.name_of(row): time for row, time in zip(order.row.tolist(), order.fresh.tolist(), strict=True)}
    assert fresh["a"] + fresh["b"] + fresh["c"] == 150
    assert (fresh["a"], fresh["b"], fresh["c"], fresh["d"] + fresh["e"]) == (100, 50, 0, 30)
    assert order.gap.tolist() == [0] * 5


def test_of_two_that_end_together_the_one_that_began_first_was_before_the_gap():
    trace = make_trace([kernel("a", 0, 100), kernel("b", 50, 50, "stream 8"), kernel("c", 200, 10)])
    assert [trace.name_of(row) for row in idleness(trace).before.tolist()] == ["a"]


def test_each_device_has_a_first_activity_without_a_gap():
    other = [Event("x", 500, 100, Kind.KERNEL, ("1", "stream 7")), Event("y", 700, 1, Kind.KERNEL, ("1", "stream 7"))]
    trace = make_trace([kernel("a", 0, 100), kernel("b", 150, 10), *other])
    order = device_order(trace)
    assert [trace.name_of(row) for row in order.row.tolist()] == ["a", "b", "x", "y"]
    assert order.gap.tolist() == [0, 50, 0, 100]
    assert order.fresh.tolist() == [100, 10, 100, 1]
    assert [trace.name_of(row) if row >= 0 else "" for row in order.before.tolist()] == ["", "a", "", "x"]
    assert idleness(trace).device.tolist() == order.device[[1, 3]].tolist()


def test_gaps_come_in_the_order_of_their_start():
    """That of the other device begins later and ends earlier."""
    other = [Event("x", 0, 200, Kind.KERNEL, ("1", "stream 7")), Event("y", 500, 1, Kind.KERNEL, ("1", "stream 7"))]
    idle = idleness(make_trace([*other, kernel("a", 0, 100), kernel("b", 900, 10)]))
    assert (idle.start.tolist(), idle.end.tolist()) == ([100, 200], [900, 500])


def test_of_two_that_start_together_the_one_with_a_launch_ended_the_gap():
    trace = make_trace(
        [
            launch(150, 10, 1),
            kernel("a", 0, 100),
            kernel("lost", 200, 10),
            kernel("b", 200, 10, "stream 9", correlation=1),
        ]
    )
    idle = idleness(trace)
    assert [trace.name_of(row) for row in idle.after.tolist()] == ["b"]
    assert (idle.cpu_late.tolist(), idle.in_launch.tolist(), idle.waiting.tolist()) == ([50], [10], [40])


def test_parts_of_what_has_no_launch_are_nothing():
    idle = idleness(make_trace([launch(0, 100, 1), kernel("a", 0, 10), kernel("b", 500, 10)]))
    assert (idle.known.tolist(), idle.dur.tolist()) == ([False], [490])
    assert (idle.cpu_late.tolist(), idle.in_launch.tolist(), idle.waiting.tolist()) == ([0], [0], [0])
