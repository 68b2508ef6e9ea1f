"""Rules about idle time: each speaks in one trace and is silent in one that differs in what speaks against it."""

from __future__ import annotations

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tests.support.findings import MS, ids, one
from tracetui.findings.scope import Severity
from tracetui.health.health_table import doubts
from tracetui.idle.thread_causes import stalled_calls
from tracetui.model.trace import Kind, Trace

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def loop(count: int, pause: int, *extra: Event, dur: int = 2 * MS, frames: bool = False) -> Trace:
    """Kernels that are launched as late as the pause after the one before has ended; launches take 5 us.

    Kernel n runs from `n * (dur + pause) + 10 us`, and is launched 10 us before that.
    """
    events: list[Event] = [op("aten::relu", 0, 1), *extra]
    for number in range(count):
        at = number * (dur + pause)
        events += [launch(at, 5_000, number + 1), kernel("k", at + 10_000, dur, correlation=number + 1)]
    if frames:
        events += [python("train.py(7): loop", -1_000 + n, count * (dur + pause)) for n in range(20)]
    return make_trace(events)


def between(name: str, number: int, pause: int, kind: Kind, dur: int = 2 * MS) -> Event:
    """A slice within the pause after kernel `number`, all but 10 us at its ends."""
    return Event(name, number * (dur + pause) + dur + 20_000, pause - 40_000, kind)


def queued(count: int, dur: int = 60 * MS) -> list[Event]:
    """Long kernels on a stream of their own, all launched at the start: the GPU is never idle."""
    made: list[Event] = []
    for number in range(count):
        made.append(launch(-5_000 + number, 1, 1_000 + number))
        made.append(kernel("unrelated", number * dur, dur, "stream 99", correlation=1_000 + number))
    return made


def test_data_loading_has_the_gaps_in_which_it_runs():
    trace = loop(5, 10 * MS, *(between(LOADER, number, 10 * MS, Kind.ANNOTATION) for number in range(5)))
    finding = one(trace, "data-loading")
    assert finding.title.startswith("The GPU waits for the data loader, which runs in the main process: 39.84 ms, ")
    assert finding.evidence == "5 calls, 49.80 ms of CPU time; the GPU idle meanwhile for 39.84 ms between kernels"
    assert "num_workers" in finding.advice and finding.severity == Severity.MAJOR
    assert "host-sync" not in ids(trace) and "long-gap-without-op" not in ids(trace)


def test_data_loading_under_a_busy_gpu_costs_nothing():
    loads = [between(LOADER, number, 10 * MS, Kind.ANNOTATION) for number in range(5)]
    assert ids(loop(5, 10 * MS, *loads, *queued(2))) == []


def test_workers_that_do_not_keep_up_are_advised_to_be_more():
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    finding = one(loop(5, 10 * MS, between(name, 1, 10 * MS, Kind.ANNOTATION)), "data-loading")
    assert "worker processes do not keep up" in finding.title and "prefetch_factor" in finding.advice


def test_the_data_of_the_first_step_is_loaded_before_the_first_kernel():
    loads = [annotation(LOADER, -30 * MS, 28 * MS)]
    finding = one(loop(3, 10_000, step(0, -30 * MS, 40 * MS), *loads), "data-loading")
    assert finding.cost == 28 * MS
    assert finding.evidence.endswith("idle meanwhile for 28.00 ms before the first kernel, which is in no gap")


def test_a_thread_that_waits_for_the_data_of_another_one_waits_for_data():
    """The launching thread has no slice; the main thread loads."""
    main = ("1", "9")
    loads = [Event(LOADER, 2 * MS + 20_000, 9 * MS, Kind.ANNOTATION, main), step(0, 0, 60 * MS, lane=main)]
    assert one(loop(2, 10 * MS, *loads), "data-loading").cost == 9 * MS


def first_product(again: int = 0) -> Trace:
    """A cudaFree of 20 ms in the first product, with `again` short ones long before."""
    early = [launch(-200_000 + 10 * n, 5, 500 + n, "cudaFree") for n in range(again)]
    early += [op("aten::mm", -200_000, 10_000)] if again else []
    call = launch(2 * MS + 30_000, 20 * MS, 999, "cudaFree")
    return loop(3, 30 * MS, op("aten::mm", 2 * MS + 20_000, 25 * MS), call, *early)


def test_a_cudafree_in_the_first_product_is_start_up_and_no_matter_of_the_allocator():
    finding = one(first_product(), "start-up")
    assert finding.cost == 20 * MS
    assert "cudaFree 20.00 ms in the first aten::mm" in finding.evidence
    assert "allocator" not in ids(first_product())


def test_the_same_call_later_is_a_matter_of_the_allocator():
    trace = first_product(again=3)
    assert "start-up" not in ids(trace)
    finding = one(trace, "allocator")
    assert finding.cost == 20 * MS
    assert finding.evidence.startswith("1 free, 20.00 ms; the GPU idle meanwhile for 20.00 ms")


def test_a_start_up_before_the_first_kernel_is_said_apart():
    context = launch(-100 * MS, 90 * MS, 900, "cudaStreamIsCapturing")
    finding = one(loop(3, 10_000, op("aten::empty", -101 * MS, 95 * MS), context), "start-up")
    assert finding.cost == 101 * MS + 10_000
    assert finding.evidence.startswith("101.01 ms before the first kernel, which is in no gap; 1 slow first use: ")


def test_the_first_launch_of_a_kernel_loads_its_module_and_a_slow_later_one_is_no_start_up():
    slow = [launch(2 * MS + 20_000, 5 * MS, 700), kernel("other", 7 * MS + 30_000, 1_000, correlation=700)]
    trace = loop(3, 10 * MS, *slow)
    assert one(trace, "start-up").cost == 5 * MS
    warm = [launch(-100_000, 10, 701), kernel("other", -90_000, 1_000, correlation=701)]
    assert "start-up" not in ids(loop(3, 10 * MS, *slow, *warm))


def pinned(count: int) -> Trace:
    """Allocations of pinned memory of 3 ms under a busy GPU."""
    calls = [launch(3 * MS + number * 4 * MS, 3 * MS, 800 + number, "cudaHostAlloc") for number in range(count)]
    return make_trace([launch(0, 10, 1), kernel("k", 20, 60 * MS, correlation=1), *calls])


def test_pinned_memory_that_is_allocated_again_and_again_stops_the_thread():
    finding = one(pinned(5), "allocator")
    assert (finding.cost, finding.severity) == (None, Severity.MINOR)
    assert finding.evidence.startswith("5 calls of cudaHostAlloc, 15.00 ms")
    assert "allocator" not in ids(pinned(2))


def test_launches_that_come_late_are_launch_overhead():
    trace = loop(40, 100_000)
    finding = one(trace, "launch-overhead")
    assert finding.cost == 39 * 100_000
    assert finding.evidence.startswith("39 gaps below 1 ms, 3.90 ms; 40 launches of 5.0 µs in the median")
    assert finding.evidence.endswith("the GPU is idle for 3.91 ms, 5 % of the trace")
    assert ids(loop(40, 100_000, *queued(2))) == []


def test_gaps_between_queued_kernels_are_no_launch_overhead():
    """All launches were made before: what is left is the GPU changing from one kernel to the next."""
    calls = [launch(number * 10, 5, number + 1) for number in range(100)]
    work = [kernel("k", 20_000 + number * 22_000, 20_000, correlation=number + 1) for number in range(100)]
    assert "launch-overhead" not in ids(make_trace([*calls, *work]))


@pytest.mark.parametrize(
    ("extra", "frames", "advice"),
    [
        ((), False, "torch.compile"),
        ((op("Torch-Compiled Region: 0/0", 0, 10),), False, "mode='reduce-overhead'"),
        ((), True, "measure again without them first"),
    ],
)
def test_the_advice_is_the_next_step_of_the_program(extra, frames, advice):
    assert advice in one(loop(40, 100_000, *extra, frames=frames), "launch-overhead").advice


def test_graphs_are_not_advised_to_graphs():
    graphs = [launch(90 * MS, 10, 600, "cudaGraphLaunch")]
    graphs += [kernel("n", 90 * MS + 10_000 + n * 3_000, 3_000, correlation=600) for n in range(3)]
    advice = one(loop(40, 100_000, *graphs), "launch-overhead").advice
    assert "between replays" in advice and "compile" not in advice


def test_a_single_gap_has_no_median():
    assert one(loop(2, 10 * MS), "long-gap-without-op").evidence.startswith("1 gap of 9.99 ms; ")


def test_a_part_of_a_gap_is_not_called_a_gap():
    """What the list of gaps has is its whole length."""
    evidence = one(loop(2, 10 * MS, op("aten::sort", 3 * MS, 5 * MS)), "long-gap-without-op").evidence
    assert evidence.startswith("4.00 ms of 1 gap of 10.00 ms; ")


def test_a_millisecond_without_an_operator_is_named_by_its_frame():
    frames = [python("train.py(3): step", 0, 60 * MS), python("train.py(9): log", 2 * MS + 100_000, 9 * MS)]
    trace = loop(4, 10 * MS, *frames)
    finding = one(trace, "long-gap-without-op")
    assert finding.cost == 3 * 10 * MS - 3 * 10_000  # all but the launches
    assert "train.py(3): step 20.97 ms, train.py(9): log 9.00 ms" in finding.evidence
    assert finding.evidence.startswith("3 gaps of 9.99 ms in the median")
    assert "with_stack" not in finding.advice
    busy = [between("aten::sort", number, 10 * MS, Kind.CPU_OP) for number in range(3)]
    assert "long-gap-without-op" not in ids(loop(4, 10 * MS, *busy))


def test_a_trace_without_operators_does_not_say_that_the_cpu_was_in_none():
    calls = [launch(0, 5_000, 1), launch(12 * MS, 5_000, 2)]
    work = [kernel("k", 10_000, 2 * MS, correlation=1), kernel("k", 12 * MS + 10_000, 2 * MS, correlation=2)]
    assert "long-gap-without-op" not in ids(make_trace([*calls, *work]))
    assert "long-gap-without-op" in ids(make_trace([*calls, *work, op("aten::relu", 0, 6_000)]))


def stalls(names: tuple[str, ...], each: int = 2) -> Trace:
    """Launching ops that take microseconds, 100 of each name, of which some take 6 ms while the GPU waits."""
    slow = [name for name in names for _ in range(each)]
    events: list[Event] = []
    at = 0
    for number in range(100 * len(names)):
        long = slow[number // 20] if number % 20 == 10 and number // 20 < len(slow) else ""
        name = long or names[number % len(names)]
        took = 6 * MS if long else 10_000
        call = at + took - 6_000
        events += [op(name, at, took), launch(call, 5_000, number + 1)]
        events.append(kernel("k", call + 10_000, 20_000, correlation=number + 1))
        at = call + 32_000
    return make_trace(events)


def test_calls_of_microseconds_that_last_milliseconds_in_several_functions_are_a_thread_that_stands_still():
    trace = stalls(("aten::add", "aten::mul", "aten::sub"))
    finding = one(trace, "stalled-thread")
    assert finding.severity == Severity.MAJOR
    assert finding.evidence.startswith("6 calls in 3 functions that cost microseconds took 6.00 ms to 6.00 ms")
    assert "stalled-thread" not in ids(stalls(("aten::add", "aten::mul"), each=3)), "two functions are just slow"


def test_a_call_that_is_slow_in_every_step_is_the_program():
    names = ("aten::add", "aten::mul", "aten::sub")
    one_of_each = stalls(names)
    assert "stalled-thread" in ids(one_of_each)
    rare = stalls(names, each=30)
    assert "stalled-thread" not in ids(rare), "a third of the calls is no chance"


def test_a_call_that_is_long_in_every_step_is_no_stall_where_it_is_just_long_enough():
    """It is above the limit in two of five steps and below it in the others: the same gap has one cause in all."""
    slow, events, at = dict.fromkeys(("aten::empty", "aten::view", "aten::as_strided"), 2), [], 0
    for number, extra in enumerate((1_100_000, 900_000, 800_000, 1_100_000, 900_000)):
        begin = at
        for index in range(200):
            name = ("aten::empty_strided", *slow)[index % 4]
            stands = number % 2 == 0 and index > 100 and slow.get(name, 0) > number // 2
            took = extra if index == 4 else 6 * MS if stands and index < 105 else 10_000
            events.append(op(name, at, took))
            at += took + 1_000
        events.append(step(number, begin, at - begin))
        at += 10_000
    trace = make_trace(events)
    assert {trace.name_of(row) for row in stalled_calls(trace).tolist()} == set(slow)


def test_a_stalled_thread_under_a_busy_gpu_is_no_finding():
    slices = stalls(("aten::add", "aten::mul", "aten::sub"))
    events = [
        Event(
            slices.name_of(row),
            int(slices.slices.start[row]),
            int(slices.slices.dur[row]),
            Kind(slices.slices.kind[row]),
            ("0", "stream 7") if slices.slices.kind[row] == Kind.KERNEL else ("1", "1"),
            correlation=int(slices.slices.correlation[row]),
        )
        for row in range(len(slices.slices))
    ]
    long = [launch(-5_000 + number, 1, 5_000 + number) for number in range(2)]
    long += [
        kernel("unrelated", number * 40 * MS, 40 * MS, "stream 99", correlation=5_000 + number) for number in (0, 1)
    ]
    assert ids(make_trace([*events, *long])) == []


def test_a_communication_call_of_milliseconds_waits_for_other_processes():
    waits = [between("gloo:barrier", number, 10 * MS, Kind.ANNOTATION) for number in range(3)]
    assert one(loop(4, 10 * MS, *waits), "peer-wait").cost == 3 * (10 * MS - 40_000)
    short = [Event("gloo:barrier", 2 * MS + 100_000, 500_000, Kind.ANNOTATION)]
    assert "peer-wait" not in ids(loop(4, 10 * MS, *short))


def test_the_first_collective_makes_its_communicator():
    first = [between("nccl:all_reduce", 0, 10 * MS, Kind.ANNOTATION)]
    short = [Event("nccl:all_reduce", 13 * MS + n * 12 * MS, 20_000, Kind.ANNOTATION) for n in range(3)]
    trace = loop(5, 10 * MS, *first, *short)
    assert one(trace, "start-up").cost == 10 * MS - 40_000
    assert "peer-wait" not in ids(trace)


def replays_with_holes(holes: tuple[int, ...], count: int = 0) -> Trace:
    """Replays of a graph of three kernels of 1 ms with a hole before the last; every launch finds an idle GPU."""
    events: list[Event] = []
    at = 0
    for number, hole in enumerate(holes, 1):
        events.append(launch(at, 20_000, number, "cudaGraphLaunch"))
        for index, start in enumerate((30_000, 30_000 + MS + 1_000, 30_000 + 2 * MS + hole)):
            events.append(kernel(f"node{index}", at + start, MS, correlation=number))
        at += 3 * MS + hole + 60_000
    return make_trace(events)


def test_the_same_hole_in_every_replay_is_work_that_was_not_recorded():
    trace = replays_with_holes((800_000, 801_000, 799_000, 800_500))
    finding = one(trace, "unrecorded-graph-work")
    assert (finding.cost, finding.severity) == (None, Severity.MAJOR)
    assert finding.evidence.startswith("4 graph launches with 12 recorded nodes; 4 holes of 799.")
    doubt = doubts(trace)["missing activities of graphs"]
    assert doubt is not None and doubt.count == 4
    assert "dependency" not in ids(trace)


def test_holes_that_differ_say_nothing():
    trace = replays_with_holes((800_000, 700_000, 100_000, 1_500_000))
    assert "unrecorded-graph-work" not in ids(trace)
    doubt = doubts(trace)["missing activities of graphs"]
    assert doubt is not None and doubt.count == 0


def test_a_replay_with_fewer_nodes_than_another_of_its_graph_has_holes():
    events: list[Event] = []
    for number, nodes in enumerate((3, 2, 3), 1):
        at = number * 5 * MS
        events.append(launch(at, 20_000, number, "cudaGraphLaunch"))
        for index in (0, 1, 2):
            if nodes == 3 or index != 1:
                start = at + 30_000 + index * (MS + 1_000)
                events.append(kernel(f"n{index}", start, MS, correlation=number, args={"graph id": 5}))
    doubt = doubts(make_trace(events))["missing activities of graphs"]
    assert doubt is not None and (doubt.count, doubt.size) == (1, MS + 2_000)


def steps_of(*lengths: int) -> Trace:
    """Steps with a kernel each, of which the CPU takes so many ms."""
    events: list[Event] = []
    at = 0
    for number, length in enumerate(lengths):
        events += [step(number + 5, at, length * MS), op("aten::empty", at + 1_000, length * MS - 2_000)]
        events += [launch(at + 5_000, 5_000, number + 1), kernel("k", at + 20_000, 100_000, correlation=number + 1)]
        at += length * MS
    return make_trace(events)


def test_a_step_that_is_not_like_the_others_is_named_with_all_their_times():
    finding = one(steps_of(10, 10, 30, 11), "outlier-step")
    assert finding.title == "Step 7 is not like the others: 20.00 ms longer"
    assert "(10.00 ms, 10.00 ms, 30.00 ms, 11.00 ms)" in finding.evidence
    assert finding.cost is None
    assert not {"outlier-step", "cold-step"} & set(ids(steps_of(10, 10, 14, 11)))


def test_a_cold_first_step_names_what_it_alone_paid_for():
    trace = steps_of(40, 10, 11, 10)
    finding = one(trace, "cold-step")
    assert finding.title == "The first step, 5, is cold: 30.00 ms longer than the others"
    assert finding.evidence.endswith("; most of the excess in aten::empty, 29.67 ms") or "GPU idle" in finding.evidence
    assert "outlier-step" not in ids(trace)
    assert "cold-step" in ids(trace, 5)
    assert "cold-step" not in ids(trace, 6)


def test_a_queue_that_is_emptied_in_the_last_step_is_no_outlier():
    """The CPU launches four steps of 30 ms on the GPU in 1 ms each, and waits for all of them in the last."""
    events: list[Event] = []
    for number in range(4):
        at = number * MS
        last = 125 * MS if number == 3 else MS
        events += [step(number, at, last), launch(at + 5_000, 5_000, number + 1)]
        events.append(kernel("k", 20_000 + number * 30 * MS, 30 * MS, correlation=number + 1))
    waits = launch(3 * MS + 20_000, 117 * MS, 900, "cudaStreamSynchronize")
    trace = make_trace([*events, waits])
    assert not {"outlier-step", "cold-step"} & set(ids(trace))


def test_a_loop_may_load_its_data_between_its_steps():
    steps_of_loop = [step(number, number * 12 * MS - 5_000, 3 * MS) for number in range(5)]
    loads = [between(LOADER, number, 10 * MS, Kind.ANNOTATION) for number in range(4)]
    loads = [Event(each.name, each.start + MS, each.dur - MS, each.kind) for each in loads]
    assert "4 calls" in one(loop(5, 10 * MS, *steps_of_loop, *loads), "data-loading").evidence


def skewed(skew: int, pause: int) -> Trace:
    """Launches for an idle stream; the clock of the GPU is ahead by so many ns."""
    events: list[Event] = []
    for number in range(150):
        at = number * (100_000 + pause)
        events += [launch(at, 4_000, number + 1)]
        events.append(kernel("k", at + 5_000 + skew, 100_000, correlation=number + 1))
    return make_trace(events)


@pytest.mark.parametrize(
    ("skew", "pause", "severity"),
    [
        (-30_000, 40_000, Severity.MAJOR),
        (-30_000, 40 * MS, Severity.NOTE),  # beside gaps of 40 ms
        (0, 40_000, None),
        (30_000, 40_000, None),  # launches only look slow
    ],
)
def test_clocks_are_wrong_by_their_size_beside_the_typical_gap(skew, pause, severity):
    trace = skewed(skew, pause)
    assert ("untrusted" in ids(trace)) == (severity is not None)
    if severity is not None:
        assert one(trace, "untrusted").severity == severity
        assert "the clocks are off by 30.0 µs beside a typical gap of" in one(trace, "untrusted").evidence


def test_what_several_gpus_wait_for_is_waited_for_once():
    """Two GPUs with the same gaps: their launch overhead costs what that of one costs."""
    alone = one(loop(40, 100_000), "launch-overhead")
    twins: list[Event] = []
    for number in range(40):
        at = number * (2 * MS + 100_000)
        twins.append(launch(at + 1, 4_999, 500 + number))
        twins.append(Event("k", at + 10_000, 2 * MS, Kind.KERNEL, ("1", "stream 7"), correlation=500 + number))
    finding = one(loop(40, 100_000, *twins), "launch-overhead")
    assert finding.cost == alone.cost == 39 * 100_000
    assert finding.evidence.startswith("78 gaps below 1 ms, 3.90 ms in the mean of 2 GPUs; 80 launches")
    assert "the GPU is idle for 3.91 ms, 5 % of the trace" in finding.evidence
