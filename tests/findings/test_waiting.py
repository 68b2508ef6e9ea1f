"""Rules about reads that stop the CPU, copies of memory that is not pinned, and streams that wait."""

from __future__ import annotations

import pytest

from tests.support.build import Event, kernel, launch, make_trace, memcpy, op, step
from tests.support.findings import MS, ids, one
from tracetui.findings import findings
from tracetui.findings.scope import Severity
from tracetui.model.trace import Kind, Trace


def read_in_a_loop(count: int, *, busy: bool = False, between: str = "") -> Trace:
    """Kernels of 20 us, each followed by a read of its result, which takes the GPU 100 us; nothing is a first use.

    `busy`: other kernels are queued meanwhile; `between`: a name of what the CPU does for 10 ms after each read.
    """
    pause = 10 * MS if between else 100_000
    events: list[Event] = []
    for number in range(count):
        at = number * (pause + 50_000)
        copied = at + 30_000
        events += [
            launch(at, 5_000, 4 * number + 1),
            kernel("k", at + 10_000, 20_000, correlation=4 * number + 1),
            op("aten::item", at + 6_000, 40_000),
            launch(at + 7_000, 37_000, 4 * number + 2, "cudaMemcpyAsync"),
            memcpy("Memcpy DtoH (Device -> Pageable)", copied, 2_000, correlation=4 * number + 2, args={"bytes": 4}),
        ]
        if between:
            events.append(Event(between, at + 60_000, pause - 40_000, Kind.ANNOTATION))
        if busy:
            events.append(launch(at + 6_500, 100, 4 * number + 3))
            events.append(kernel("long", at + 30_000, pause + 10_000, "stream 9", correlation=4 * number + 3))
    return make_trace(events)


def test_a_value_that_is_read_stops_the_cpu_and_then_the_gpu_has_nothing_to_do():
    trace = read_in_a_loop(20)
    finding = one(trace, "host-sync")
    # From the end of each copy, 32 us after the launch of its kernel, to the next kernel, 160 us after it.
    assert finding.cost == 19 * (160_000 - 32_000)
    assert finding.severity == Severity.MAJOR
    assert finding.evidence.startswith("20 waits (20 in aten::item), 740.0 µs in all, 20 of them to read values")
    assert finding.evidence.endswith("afterwards the GPU was idle for 2.43 ms")
    assert "launch-overhead" not in ids(trace), "these microseconds are the wait's"


def test_a_cpu_that_waits_for_a_busy_gpu_loses_nothing():
    assert "host-sync" not in ids(read_in_a_loop(20, busy=True))


def test_what_follows_a_wait_for_long_has_the_gap():
    assert [each for each in ids(read_in_a_loop(5, between="load_batch")) if each in ("data-loading", "host-sync")] == [
        "data-loading"
    ]


def copies(name: str, size: int, count: int = 5) -> Trace:
    """Copies of 300 us that the CPU waits for, each followed by a kernel of 1 ms."""
    events: list[Event] = []
    for number in range(count):
        at = number * 2 * MS
        events += [
            launch(at, 500_000, 2 * number + 1, "cudaMemcpyAsync"),
            memcpy(name, at + 100_000, 300_000, correlation=2 * number + 1, args={"bytes": size}),
            launch(at + 501_000, 5_000, 2 * number + 2),
            kernel("k", at + 510_000, MS, correlation=2 * number + 2),
        ]
    return make_trace(events)


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [
        ("Memcpy HtoD (Pageable -> Device)", 4096, True),
        ("Memcpy HtoD (Pageable -> Device)", 4095, False),  # a page: reading it is the matter, not moving it
        ("Memcpy HtoD (Pinned -> Device)", 1 << 20, False),
    ],
)
def test_copies_of_memory_that_is_not_pinned_cost_their_time_and_that_in_their_calls(name, size, said):
    trace = copies(name, size)
    assert ("pageable-copy" in ids(trace)) == said
    if said:
        # The copies alone on the GPU, and the gaps of 110 us behind them, which mostly lie in their calls.
        finding = one(trace, "pageable-copy")
        assert finding.cost == 5 * 300_000 + 5 * 110_000
        assert (
            "1.50 ms of it with nothing else on the GPU, and 550.0 µs of idle time in their calls" in finding.evidence
        )


def test_copies_beside_kernels_are_no_finding():
    beside = [launch(0, 10, 99), kernel("long", 20, 20 * MS, "stream 9", correlation=99)]
    calls = [launch(1_000 + number * MS, 500_000, number + 1, "cudaMemcpyAsync") for number in range(5)]
    name = "Memcpy HtoD (Pageable -> Device)"
    moved = [memcpy(name, 101_000 + n * MS, 300_000, correlation=n + 1, args={"bytes": 1 << 20}) for n in range(5)]
    assert "pageable-copy" not in ids(make_trace([*beside, *calls, *moved]))


@pytest.mark.parametrize(("told", "said"), [(True, True), (False, False)])
def test_a_stream_that_was_told_to_wait_is_a_dependency_and_one_that_just_waits_is_not(told, said):
    wait = Event("cudaStreamWaitEvent", 2 * MS + 500, 100, Kind.RUNTIME)
    trace = make_trace(
        [
            step(0, 0, 20 * MS),
            launch(10, 1_000, 1),
            launch(20_000, 1_000, 2),
            kernel("a", 5_000, 3 * MS, correlation=1),
            kernel("beside", 25_000, 10_000, "stream 9", correlation=2),
            launch(2 * MS + 1_000, 1_000, 3),
            kernel("b", 9 * MS, 3 * MS, "stream 9", correlation=3),
            *([wait] if told else []),
        ]
    )
    assert ("dependency" in ids(trace)) == said
    if said:
        assert "stream 9" in one(trace, "dependency").evidence


def waits_in_a_loop(*calls: str) -> Trace:
    """A kernel and some calls in which the CPU waits for it, in a loop, with a pause behind each."""
    events = [step(0, 0, 10 * MS)]
    for number in range(20):
        at = 100_000 + number * 400_000
        events += [launch(at, 5_000, number + 1), kernel("k", at + 10_000, 50_000, correlation=number + 1)]
        events += [Event(name, at + 8_000 + 60_000 * index, 55_000, Kind.RUNTIME) for index, name in enumerate(calls)]
    return make_trace(events)


@pytest.mark.parametrize("call", ["cudaDeviceSynchronize", "cudaEventSynchronize"])
def test_a_wait_that_reads_nothing_is_not_said_to_read_a_value(call):
    finding = one(waits_in_a_loop(call), "host-sync")
    assert finding.title.startswith(f"The CPU waits for the GPU in {call}, and then")
    assert "none of them to read a value" in finding.evidence
    assert ".item()" not in finding.advice


def waits_behind_copies(name: str) -> Trace:
    """A kernel, a copy and a wait for both, in a loop."""
    events = [step(0, 0, 10 * MS)]
    for number in range(20):
        at = 100_000 + number * 400_000
        events += [launch(at, 5_000, 2 * number + 1), kernel("k", at + 10_000, 50_000, correlation=2 * number + 1)]
        events += [launch(at + 6_000, 2_000, 2 * number + 2, "cudaMemcpyAsync")]
        copied = memcpy(name, at + 61_000, 1_000, correlation=2 * number + 2)
        events += [copied, Event("cudaStreamSynchronize", at + 9_000, 55_000, Kind.RUNTIME)]
    return make_trace(events)


def test_a_wait_behind_a_copy_to_pinned_memory_reads_a_value():
    finding = one(waits_behind_copies("Memcpy DtoH (Device -> Pinned)"), "host-sync")
    assert finding.title.startswith("The CPU waits for the GPU to read a value")
    assert "20 of them to read values" in finding.evidence


def test_where_copies_have_no_direction_nothing_is_said_of_what_waits_read():
    finding = one(waits_behind_copies("Memcpy"), "host-sync")
    assert "which others read one is not known" not in finding.evidence
    assert "whether they read values is not known, as copies have no direction here" in finding.evidence
    assert "none of them" not in finding.evidence and "Where a value is read" in finding.advice
    directed = one(waits_behind_copies("Memcpy HtoD (Pinned -> Device)"), "host-sync")
    assert "none of them to read a value" in directed.evidence


@pytest.mark.parametrize(("elsewhere", "words"), [(True, "other devices of the trace were busy"), (False, "is of no")])
def test_what_an_event_may_belong_to_is_said_and_is_not_work_of_the_idle_device(elsewhere, words):
    wait = Event("cudaStreamWaitEvent", 2 * MS + 500, 100, Kind.RUNTIME)
    beside = Event("far", MS, 8 * MS, Kind.KERNEL, ("1", "stream 7"), correlation=4)
    trace = make_trace(
        [
            step(0, 0, 20 * MS),
            launch(10, 1_000, 1),
            launch(15_000, 1_000, 4),
            launch(20_000, 1_000, 2),
            kernel("a", 5_000, 3 * MS, correlation=1),
            kernel("first", 25_000, 10_000, "stream 9", correlation=2),
            launch(2 * MS + 1_000, 1_000, 3),
            kernel("b", 9 * MS, 3 * MS, "stream 9", correlation=3),
            wait,
            *([beside] if elsewhere else []),
        ]
    )
    assert words in one(trace, "dependency").evidence


@pytest.mark.parametrize("told", [True, False])
def test_a_wait_for_an_event_from_before_the_recording_is_a_note(told):
    wait = Event("cudaStreamWaitEvent", 30_000, 1_000, Kind.RUNTIME)
    trace = make_trace(
        [
            launch(10_000, 1_000, 1),
            kernel("a", 15_000, 10_000, correlation=1),
            *([wait] if told else []),
            launch(32_000, 1_000, 2),
            kernel("b", 9 * MS, MS, "stream 9", correlation=2),
        ]
    )
    assert ("dependency" in ids(trace)) == told
    table = findings(trace)
    assert table.headline is not None
    assert table.headline.startswith("What the GPU waited for is not in the trace: GPU idle 90 %")
    if told:
        assert one(trace, "dependency").severity == Severity.NOTE
        assert "work launched before the recording" in one(trace, "dependency").evidence
