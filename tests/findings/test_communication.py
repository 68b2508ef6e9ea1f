"""Rules about communication: what nothing hides, small collectives, and a device that comes late."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.findings import MS, ids, one
from tracetui.findings import complete_finding_list, finding_list
from tracetui.findings.communication import MIN_EXPOSED_SHARE, buffer_broadcast_idle
from tracetui.findings.scope import Scope, Severity
from tracetui.idle.gpu_spans import step_exposure
from tracetui.model.trace import Kind, Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMM = "stream 20"


def _two(comm_at: int, compute: int = 60_000, comm: int = 20_000) -> list[Event]:
    """A product from 1,000 ns on and an all-reduce, in a step of twice the time of both."""
    calls = [step(0, 0, 2 * (compute + comm)), launch(10, 5, 1), launch(20, 5, 2)]
    work = [kernel("gemm", 1_000, compute, correlation=1), kernel(NCCL, comm_at, comm, COMM, correlation=2)]
    return [*calls, *work]


def test_communication_that_nothing_hides_is_told_apart_from_what_runs_beside_a_product():
    finding = one(make_trace(_two(61_000)), "exposed-communication")
    assert finding.title == "Exposed communication, all-reduce: 20.0 µs, 12 % of the steps"
    assert finding.evidence == (
        "20.0 µs of communication, all of it with no computation beside it; all-reduce 1 time, 20.0 µs; "
        "median 20.0 µs, longest 20.0 µs"
    )
    assert (finding.cost, finding.severity) == (20_000, Severity.MAJOR)
    partly = one(make_trace(_two(51_000)), "exposed-communication")
    assert (partly.cost, partly.severity) == (10_000, Severity.MINOR)
    hidden = one(make_trace(_two(1_000)), "exposed-communication")
    assert (hidden.cost, hidden.severity) == (None, Severity.NOTE)
    assert hidden.title == "Communication is hidden behind computation: 20.0 µs of 20.0 µs"


def test_what_the_next_step_computes_hides_communication_of_a_step():
    """The finding has the time that the pane of steps has."""
    calls = [step(0, 0, 100), launch(10, 5, 1), launch(20, 5, 2), step(1, 100, 100), launch(110, 5, 3)]
    work = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(NCCL, 61_000, 20_000, COMM, correlation=2)]
    trace = make_trace([*calls, *work, kernel("gemm", 71_000, 30_000, correlation=3)])
    cost = next(each.cost for each in finding_list(trace, 0) if each.id == "exposed-communication")
    assert cost == 10_000 == int(step_exposure(trace).exposed_comm[0])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40), st.booleans()), min_size=2, max_size=12))
@pytest.mark.full
def test_what_is_exposed_is_counted_moment_by_moment(items):
    events: list[Event] = []
    moments: dict[bool, set[int]] = {True: set(), False: set()}
    for number, (start, dur, communicates) in enumerate(items, 1):
        name, stream = NCCL if communicates else "gemm", f"stream {number}"
        events += [launch(0, 1, number), kernel(name, 10 + start, dur, stream, correlation=number)]
        moments[communicates] |= set(range(10 + start, 10 + start + dur))
    exposed = len(moments[True] - moments[False])
    trace = make_trace(events)
    said = [finding.cost for finding in finding_list(trace) if finding.id == "exposed-communication"]
    enough = exposed >= MIN_EXPOSED_SHARE * Scope(trace, None).time
    assert [cost for cost in said if cost is not None] == ([exposed] if enough else [])


@pytest.mark.parametrize(("comm", "noted"), [(17_000, True), (13_000, False)])
def test_hidden_communication_is_worth_a_note_from_a_tenth_of_the_time(comm, noted):
    events = [step(0, 0, 160_000), *_two(1_000, comm=comm)[1:]]
    assert ("exposed-communication" in ids(make_trace(events))) == noted


@pytest.mark.parametrize(("time", "said"), [(1_000_000, True), (1_010_000, False)])
def test_a_fiftieth_of_the_time_is_the_least_that_is_exposed(time, said):
    events = [step(0, 0, time), *_two(61_000)[1:]]
    assert ("exposed-communication" in ids(make_trace(events))) == said


def test_what_the_launch_says_names_a_kernel_that_runs_anything():
    generic = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
    calls = [step(0, 0, 100_000), annotation("nccl:all_to_all", 5, 50), launch(10, 5, 1), launch(200, 5, 2)]
    work = [kernel(generic, 1_000, 20_000, COMM, correlation=1), kernel(generic, 30_000, 9_000, COMM, correlation=2)]
    finding = one(make_trace([*calls, *work]), "exposed-communication")
    assert finding.title.startswith("Exposed communication, mostly all-to-all: 29.0 µs")
    assert "all-to-all 1 time, 20.0 µs; unnamed collective 1 time, 9.0 µs" in finding.evidence


@pytest.mark.parametrize(
    ("group", "form"),
    [("mesh_tp", "tensor-parallel "), ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline-parallel "), ("default_pg", "")],
)
def test_a_process_group_names_the_form_of_parallelism(group, form):
    args = {"Process Group Description": group}
    calls = [step(0, 0, 100_000), launch(10, 5, 1)]
    trace = make_trace([*calls, kernel(NCCL, 1_000, 20_000, COMM, correlation=1, args=args)])
    assert one(trace, "exposed-communication").title.startswith(f"Exposed communication, {form}all-reduce: ")


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        # Beyond 5 µs each: 0, 2 and 55 µs.
        (("a", "a", "a"), "; ~57.0 µs of 72.0 µs may be waiting or contention, by the shortest of equal ones"),
        (("a", "a", "b"), "; ~2.0 µs of 12.0 µs may be waiting or contention"),
        (("a", "b", "c"), ""),
    ],
)
def test_a_rank_alone_says_how_much_of_equal_collectives_may_be_waiting(groups, said):
    calls = [step(0, 0, 200_000), *(launch(10 * number, 5, number) for number in (1, 2, 3))]
    times = (5_000, 7_000, 60_000)
    work = [
        kernel(NCCL, 1_000 + 10_000 * number, dur, COMM, correlation=number + 1, args=args)
        for number, dur in enumerate(times)
        for args in [{"In msg nelems": 64, "dtype": "Float", "Process Group Name": groups[number]}]
    ]
    evidence = one(make_trace([*calls, *work]), "exposed-communication").evidence
    assert said in evidence if said else "may be waiting" not in evidence


@pytest.mark.parametrize(("elements", "waits"), [((64, 64, 64, 64), True), ((64, 64, 64, 4096), False)])
def test_collectives_of_one_size_that_take_different_times_wait_for_ranks(elements, waits):
    calls = [step(0, 0, 200_000), *(launch(10 * number, 5, number) for number in (1, 2, 3, 4))]
    times = (5_000, 5_000, 6_000, 60_000)
    work = [
        kernel(NCCL, 1_000 + 70_000 * (number == 3) + 10_000 * number, dur, COMM, correlation=number + 1, args=args)
        for number, dur in enumerate(times)
        for args in [{"In msg nelems": elements[number], "dtype": "Float"}]
    ]
    evidence = one(make_trace([*calls, *work]), "exposed-communication").evidence
    assert ("5.5 µs in the median and 60.0 µs at most, so ranks wait for each other" in evidence) == waits


def _reduced(
    count: int, dur: int, before: int = 0, backward: bool = True, args: dict[str, Any] | None = None
) -> list[Event]:
    """A step with a backward pass and all-reduces one after another, some of them launched before it."""
    events: list[Event] = [step(0, 0, 8 * MS), launch(4_000, 10, 900), kernel("gemm", 5_000, 1_000, correlation=900)]
    if backward:
        events.append(op("autograd::engine::evaluate_function: MmBackward0", 20_000 + 100_000 * before - 5_000, 1_000))
    for number in range(count):
        at = 20_000 + 100_000 * number
        events += [op("record_param_comms", at, 1_000), launch(at + 100, 100, number + 1)]
        events.append(kernel(NCCL, at + 2_000, dur, COMM, correlation=number + 1, args=args))
    return events


def test_gradients_that_are_reduced_one_by_one_are_small_collectives():
    trace = make_trace(_reduced(60, 4_000, args={"In msg nelems": 256, "dtype": "Half"}))
    finding = one(trace, "small-collectives")
    assert finding.title.startswith("60 small all-reduces a step, median 4.0 µs, that buckets would put together: ")
    assert finding.evidence.startswith("60 in all, 512 B in the median; those under 50.0 µs run for 240.0 µs")
    assert finding.cost is None, "exposed communication has their time"
    assert one(trace, "exposed-communication").cost == 240_000


@pytest.mark.parametrize(
    "events",
    [
        _reduced(50, 4_000),
        _reduced(60, 50_000),
        _reduced(60, 4_000, backward=False),
        _reduced(60, 4_000, before=3),
        _reduced(60, 4_000, args={"Process Group Description": "tensor_model_parallel"}),
    ],
    ids=["few", "long", "no backward", "in the forward pass", "tensor-parallel"],
)
def test_collectives_that_cannot_be_put_together_are_no_finding(events):
    assert "small-collectives" not in ids(make_trace(events))


def _devices(late: tuple[int, ...], shift: int = 0) -> list[Event]:
    """Collectives of two GPUs, to each of which the GPU with the given number comes 200 us after the other."""
    events: list[Event] = [step(0, 0, 10 * MS)]
    for number, last in enumerate(late):
        for device in (0, 1):
            correlation = 2 * number + device + 1
            ready = number * MS + 500_000 + 200_000 * (device == last) + shift * device
            end = number * MS + 800_000 + shift * device
            events.append(launch(number * MS + 1_000 + 100 * device, 50, correlation))
            events.append(
                Event(NCCL, ready, end - ready, Kind.KERNEL, (str(device), "stream 20"), correlation=correlation)
            )
    return events


def test_a_device_for_which_the_others_wait_is_a_straggler():
    finding = one(make_trace(_devices((1, 1, 1, 1, 0, 1))), "straggler")
    assert finding.title.startswith("GPU 1 comes late to collectives: GPU 0 waits 1.00 ms, ")
    assert finding.evidence.startswith("of the waiting in 6 collectives 83 % is for it; it computes for 0 ns")
    assert finding.cost is None, "exposed communication has the time of the wait"


@pytest.mark.parametrize(
    "events",
    [_devices((1, 0, 1, 0, 1, 0)), _devices((1, 1, 1, 1)), _devices((1,) * 6, shift=MS // 2)],
    ids=["by turns", "few", "not at the same time"],
)
def test_devices_that_come_late_by_turns_or_to_other_collectives_are_no_straggler(events):
    assert "straggler" not in ids(make_trace(events))


@pytest.mark.parametrize("odd", [[1], {}, True, 10**30, float("nan"), "x", None, [[]]])
def test_args_of_collectives_may_be_of_any_type(odd):
    keys = ("In msg nelems", "dtype", "Process Group Name", "Process Group Description")
    given = [dict.fromkeys(keys, odd if number % 2 else 1024) for number in range(40)]
    small = [
        kernel(NCCL, 1_000 + 30_000 * i, 20_000, COMM, correlation=i + 1, args=args) for i, args in enumerate(given)
    ]
    calls = [launch(10 * i, 5, i + 1) for i in range(40)]
    every = complete_finding_list(make_trace([step(0, 0, 2_000_000), *calls, *small]))
    assert {finding.id: finding.cost for finding in every}["exposed-communication"] == 40 * 20_000


@pytest.mark.parametrize(
    ("trains", "advice"), [(True, "FSDP: forward_prefetch"), (False, "layers are split over GPUs")]
)
def test_parameters_are_fetched_ahead_only_where_gradients_are_computed(trains, advice):
    gather = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    calls = [step(0, 0, 100_000), launch(10, 5, 1)]
    backward = [op("autograd::engine::evaluate_function: MmBackward0", 100, 50)] if trains else []
    trace = make_trace([*calls, *backward, kernel(gather, 1_000, 20_000, COMM, correlation=1)])
    finding = one(trace, "exposed-communication")
    assert advice in finding.advice and ("FSDP" in finding.advice) == trains


# Buffers that DistributedDataParallel broadcasts.


def _ddp(broadcast: str = "aten::unflatten_dense_tensors", around: str = "DistributedDataParallel.forward") -> Trace:
    """Three steps of 1 ms, in each of which an operator of 600 us delays the launch of a kernel of 100 us."""
    events = []
    for number in range(3):
        at = number * MS
        events += [step(number, at, MS), op(around, at + 10, 900_000), op(broadcast, at + 100_000, 600_000)]
        events += [launch(at + 50_000, 5_000, 2 * number + 1), launch(at + 750_000, 5_000, 2 * number + 2)]
        events.append(kernel("gemm", at + 60_000, 100_000, correlation=2 * number + 1))
        events.append(kernel("gemm", at + 760_000, 100_000, correlation=2 * number + 2))
    return make_trace(events)


def test_idle_time_in_the_broadcast_of_buffers_is_counted_once():
    finding = one(_ddp(), "buffer-broadcast")
    assert finding.cost == 3 * 540_000 == buffer_broadcast_idle(Scope(_ddp(), None))
    assert "aten::unflatten_dense_tensors 3 times (1.0 a step), 1.80 ms" in finding.evidence
    overhead = one(_ddp(), "launch-overhead").cost
    without = one(_ddp(broadcast="aten::slice"), "launch-overhead").cost
    assert overhead is not None and without is not None and without - overhead == finding.cost


@pytest.mark.parametrize(
    "trace", [_ddp(around="Model.forward"), _ddp(broadcast="aten::slice"), _ddp(broadcast="c10d::allreduce_")]
)
def test_no_other_work_of_a_forward_pass_is_a_broadcast_of_buffers(trace):
    assert "buffer-broadcast" not in ids(trace) and buffer_broadcast_idle(Scope(trace, None)) == 0


# Communication of CPUs.


def _gloo(*more: Event) -> Trace:
    """A product of 1 ms, then a call of 0.2 ms; a thread of gloo sends from the call on, for 2 ms."""
    main = [step(0, 0, 4 * MS), op("aten::mm", 0, MS), op("autograd::engine", MS, 300_000)]
    sent = annotation("gloo:all_reduce", 1_100_000, 2 * MS, lane=("1", "9"))
    return make_trace([*main, op("c10d::allreduce_", 1_050_000, 200_000), sent, *more])


def test_the_main_thread_waits_for_collectives_of_cpus():
    finding = one(_gloo(), "cpu-communication")
    assert (finding.cost, finding.severity) == (2_050_000, Severity.MAJOR)
    assert "1 collective; they and the calls that start them last 2.05 ms, 2.05 ms of it" in finding.evidence
    assert "mostly gloo:all_reduce" in finding.evidence


def test_collectives_of_cpus_get_advice_for_training_only_with_a_backward_pass():
    backward = op("autograd::engine::evaluate_function: MmBackward0", 1_000_000, 40_000)
    assert "bucket" not in one(_gloo(), "cpu-communication").advice
    assert "bucket" in one(_gloo(backward), "cpu-communication").advice


def test_operators_of_the_main_thread_hide_collectives_of_cpus():
    assert one(_gloo(op("aten::mm", 1_300_000, MS)), "cpu-communication").cost == 1_050_000


def test_with_a_gpu_its_idle_time_is_what_collectives_of_cpus_cost():
    work = [launch(3_500_000, 5_000, 1), kernel("gemm", 3_600_000, 1_000, correlation=1)]
    assert "cpu-communication" not in ids(_gloo(*work))


def test_collectives_of_cpus_alone_tell_of_no_waiting():
    assert "cpu-communication" not in ids(make_trace([annotation("gloo:all_reduce", 0, MS)]))
