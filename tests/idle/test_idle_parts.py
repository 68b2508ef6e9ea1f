"""The partition of idle time: where gaps are cut, whose thread counts, and what is inferred."""

from __future__ import annotations

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tracetui.idle.gaps import gap_shares, gaps
from tracetui.idle.idle_parts import after_sync, clock_skew, idle_contents, idle_parts
from tracetui.idle.waits import KEYS, WORDS, Cause
from tracetui.model.trace import Kind, Trace

US, MS = 1_000, 1_000_000
OTHER = ("1", "9")


def one_gap(length: int, *between: Event, before: tuple[str, str] = ("1", "1")) -> Trace:
    """A gap from 1 ms on between two kernels `k`; the second is launched 10 us before it starts, on thread 1."""
    return make_trace(
        [
            launch(0, 5 * US, 1, lane=before),
            kernel("k", 10 * US, MS - 10 * US, correlation=1),
            *between,
            launch(MS + length - 10 * US, 5 * US, 2),
            kernel("k", MS + length, 100 * US, correlation=2),
        ]
    )


def parts_of(trace: Trace) -> list[tuple[str, int]]:
    """The parts of all gaps: cause and length in us, in order of time."""
    parts = idle_parts(trace)
    return [(WORDS[cause], dur // US) for cause, dur in zip(parts.cause.tolist(), parts.dur.tolist(), strict=True)]


def test_a_gap_of_a_millisecond_is_cut_where_the_cause_changes_and_a_shorter_one_is_not():
    work = annotation("load_batch", MS + 100 * US, 500 * US), op("aten::mm", MS + 600 * US, 300 * US)
    assert parts_of(one_gap(MS, *work)) == [
        ("Python or unknown", 100),
        ("data loading", 500),
        ("operators", 300),
        ("Python or unknown", 90),
        ("launch call", 5),
        ("launch latency", 5),
    ]
    assert parts_of(one_gap(MS - US, *work)) == [("data loading", 999)]


def test_launch_overhead_is_weighed_as_one_cause_in_a_short_gap():
    """Data loading takes more than operators, Python or nothing alone, and less than these together."""
    work = annotation("load_batch", MS, 40 * US), op("aten::mm", MS + 40 * US, 30 * US)
    trace = one_gap(100 * US, *work)
    assert parts_of(trace) == [("operators", 100)]
    shares, texts = gap_shares(trace)
    assert texts[int(shares[0])] == "data loading 40 %, operators 30 %, Python or unknown 20 %, launch call 5 %"


def test_the_wrapper_of_compiled_code_is_python_and_an_operator_in_it_is_one():
    wrapper = op("Torch-Compiled Region: 0/0", MS, 2 * MS - 20 * US)
    assert parts_of(one_gap(2 * MS, wrapper))[0] == ("outside PyTorch", 1990)
    inner = [op("aten::mm", MS + 200 * US + n * 500 * US, 100 * US) for n in range(4)]
    assert [each for each, _ in parts_of(one_gap(2 * MS, wrapper, *inner))[:3]] == ["Python", "operators", "Python"]


def test_python_inside_an_operator_is_python():
    custom = op("MyFunction", MS, 900 * US), python("f.py(1): forward", MS + 100 * US, 700 * US)
    contents = idle_contents(one_gap(950 * US, *custom))
    named = [(WORDS[cause], dur) for cause, dur in zip(contents.cause.tolist(), contents.dur.tolist(), strict=True)]
    assert named[:3] == [("operators", 100 * US), ("Python", 700 * US), ("operators", 100 * US)]


def test_a_slice_that_outlasts_the_one_around_it_ends_with_it():
    """Within the tolerance of whole microseconds; behind it the thread is in nothing."""
    work = op("aten::a", MS, 500 * US), launch(MS + 400 * US, 101 * US, 7, "cudaGetDevice")
    parts = parts_of(one_gap(MS, *work, launch(500 * US, 10, 8, "cudaGetDevice")))
    assert parts[:3] == [("operators", 400), ("runtime calls", 100), ("Python or unknown", 490)]


def test_where_the_launching_thread_has_nothing_the_thread_before_it_counts():
    loads = Event("load_batch", MS + 100 * US, MS, Kind.ANNOTATION, OTHER)
    assert parts_of(one_gap(2 * MS, loads, before=OTHER))[1] == ("data loading", 1000)
    elsewhere = Event("load_batch", MS + 100 * US, MS, Kind.ANNOTATION, ("2", "1"))
    assert "data loading" not in dict(parts_of(one_gap(2 * MS, elsewhere))), "another process"


def test_a_wait_of_the_main_thread_for_the_launching_one_is_no_host_sync():
    waits = Event("cudaStreamSynchronize", MS + 100 * US, MS, Kind.RUNTIME, OTHER)
    assert "host sync" not in dict(parts_of(one_gap(2 * MS, waits, before=OTHER)))


def test_the_autograd_thread_takes_over_from_a_main_thread_that_waited_for_the_gpu():
    """`.item()` on the main thread ended as the GPU ran dry; the next kernel is launched by another thread."""
    read = Event("cudaStreamSynchronize", 500 * US, 505 * US, Kind.RUNTIME, OTHER)
    trace = one_gap(200 * US, read, step(0, 0, 3 * MS, lane=OTHER), before=OTHER)
    assert parts_of(trace) == [("host sync", 200)]
    assert after_sync(trace).tolist() == [True]


def unlaunched(correlation: int, later: int) -> Trace:
    """A kernel without a launch record from 2 ms on; the next one is launched at the given time."""
    return make_trace(
        [
            op("aten::mm", 1_200 * US, 500 * US),
            launch(0, 5 * US, 10),
            kernel("k", 10 * US, MS - 10 * US, correlation=10),
            kernel("triton", 2 * MS - 100 * US, 100 * US, correlation=correlation),
            launch(later, 5 * US, 11),
            kernel("k", 3 * MS, 100 * US, correlation=11),
        ]
    )


def test_a_kernel_without_launch_before_a_late_one_was_late_itself():
    first = parts_of(unlaunched(20, 2_500 * US))[0]
    assert first == ("operators", 900)


def test_a_kernel_without_launch_before_one_that_was_queued_is_unknown():
    assert parts_of(unlaunched(20, 500 * US))[0] == ("unknown", 900)


def test_an_id_below_all_recorded_calls_was_launched_before_the_capture():
    assert parts_of(unlaunched(9, 2_500 * US))[0] == ("before the capture", 900)


@pytest.mark.parametrize(("called", "cause"), [(900 * US, "before the capture"), (1_100 * US, "scheduling")])
def test_the_first_activity_of_a_stream_may_wait_for_what_was_launched_before_the_capture(called, cause):
    trace = make_trace(
        [
            launch(0, 5 * US, 1),
            kernel("k", 10 * US, 1_200 * US, correlation=1),
            *(launch(10 * US * n, 5 * US, 10 + n) for n in range(1, 4)),
            *(kernel("k", 10 * US * n + 10 * US, 2 * US, "stream 8", correlation=10 + n) for n in range(1, 4)),
            launch(called, 5 * US, 2),
            kernel("k", 9 * MS, 100 * US, "stream 9", correlation=2),
        ]
    )
    assert parts_of(trace) == [(cause, 7790)]


@pytest.mark.parametrize("skew", [-30 * US, 0, 30 * US])
def test_what_the_cpu_did_is_looked_up_by_its_own_clock(skew):
    """The operators of 20 us lie between the end of one kernel and the launch of the next, by the true clock."""
    events: list[Event] = []
    for number in range(150):
        at = number * 100 * US
        events += [op("aten::mm", at - 25 * US, 20 * US), launch(at, 4 * US, number + 1)]
        events.append(kernel("k", at + 5 * US + skew, 65 * US, correlation=number + 1))
    trace = make_trace(events)
    assert clock_skew(trace) == skew
    assert {cause for cause, _ in parts_of(trace)} == {"operators"}


def test_too_few_launches_show_no_skew():
    events = [launch(n * 100 * US, 4 * US, n + 1) for n in range(99)]
    work = [kernel("k", n * 100 * US - 20 * US, 10 * US, correlation=n + 1) for n in range(99)]
    assert clock_skew(make_trace([*events, *work])) == 0


def test_by_cause_times_are_those_of_the_parts_and_gaps_are_counted_once():
    work = annotation("load_batch", MS + 100 * US, 1_500 * US), op("aten::mm", MS + 1_600 * US, 300 * US)
    rows = {row["cause"]: row for row in gaps(one_gap(2 * MS, *work), by="cause").rows()}
    assert (rows["data loading"]["gaps"], rows["data loading"]["total_us"]) == (1, 1500.0)
    assert (rows["operators"]["gaps"], rows["operators"]["total_us"]) == (0, 300.0)
    assert rows["launch latency"]["waiting_us"] == 5.0
    assert sum(float(str(row["cpu_late_us"])) for row in rows.values()) == 1990.0


def test_every_cause_has_a_key_that_can_be_written_in_a_check():
    assert len(set(KEYS)) == len(WORDS) == len(Cause)
    assert all(key.isidentifier() for key in KEYS)
    assert KEYS[Cause.NOT_RECORDED] == "idle_not_recorded_us"
