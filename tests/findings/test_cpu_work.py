"""Rules about work of the CPU: where it was while the GPU was idle, first uses, memory from the driver, inputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, python, step
from tests.support.findings import MS, ids, one
from tests.support.memory_events import Moment, with_memory
from tests.support.paths import SAMPLES
from tracetui.findings.idle_time import place_times
from tracetui.idle.idle_parts import idle_parts
from tracetui.model.trace import Device, Kind, Trace
from tracetui.reading.load import load


def gap(*inside: Event, low: int = 0, length: int = 10 * MS) -> list[Event]:
    """A gap of `length` from `low` + 1 ms on, between two kernels of which the second is launched at its end."""
    number = 2 * low + 1
    calls = [launch(low, 1_000, number), launch(low + MS + length - 5_000, 1_000, number + 1)]
    work = [kernel("a", low + 2_000, MS - 2_000, correlation=number)]
    work.append(kernel("b", low + MS + length, MS, correlation=number + 1))
    return [*calls, *work, *inside]


def spent(events: list[Event]) -> dict[str, int]:
    trace = make_trace(events)
    return place_times(trace, idle_parts(trace))


# The places in which the CPU was.


def test_each_outermost_operator_has_the_time_that_it_really_overlaps():
    """The innermost slice in the middle of the gap is `aten::empty`, which lasts a microsecond."""
    outer = op("aten::unflatten_dense_tensors", 2 * MS, 8 * MS)
    inner = [op("aten::empty", 5_900_000, 200_000), op("aten::relu", 500_000, 700_000)]
    assert spent(gap(outer, *inner)) == {"aten::unflatten_dense_tensors": 8 * MS, "aten::relu": 200_000}


def test_frames_of_the_user_have_their_own_time_and_what_they_call_in_libraries():
    frames = [
        python("train.py(1): <module>", 0, 14 * MS),
        python("train.py(9): forward", 2 * MS, 4 * MS),
        python("torch/nn/functional.py(2): linear", 3 * MS, 2 * MS),
        python("nn.Module: Linear_3", 3 * MS, 2 * MS),
    ]
    there = spent(gap(*frames, op("aten::linear", 3_500_000, MS)))
    assert there == {"train.py(1): <module>": 6 * MS, "train.py(9): forward": 4 * MS}


def test_an_operator_of_a_thread_without_frames_is_named_beside_frames_of_another():
    backward = ("1", "2")
    events = gap(op("MulBackward0", 2 * MS, 3 * MS, lane=backward), python("train.py(1): <module>", 0, 500_000))
    events[1] = launch(11 * MS - 5_000, 1_000, 2, lane=backward)
    assert spent(events) == {"MulBackward0": 3 * MS}


MOMENTS = st.integers(0, 400)
OPS = st.tuples(st.sampled_from(["aten::a", "aten::b", "train.py(1): f", "note"]), MOMENTS, MOMENTS, st.booleans())


def _held_by_its_durations(trace: Trace) -> None:
    whole: Counter[str] = Counter()
    for name, dur in zip(trace.slices.name.tolist(), trace.slices.dur.tolist(), strict=True):
        whole[trace.names[name]] += dur
    parts = idle_parts(trace)
    assert all(time <= whole[name] for name, time in place_times(trace, parts).items())


@given(st.lists(OPS, max_size=12), st.lists(st.tuples(MOMENTS, MOMENTS, MOMENTS), min_size=1, max_size=6))
@pytest.mark.full
def test_no_place_has_more_time_than_its_name_has_in_the_trace(slices, work):
    kinds = {"train.py(1): f": Kind.PYTHON, "note": Kind.ANNOTATION}
    events = [
        Event(name, start, dur, kinds.get(name, Kind.CPU_OP), ("1", "2" if second else "1"))
        for name, start, dur, second in slices
    ]
    for number, (called, start, dur) in enumerate(work):
        events += [launch(called, 3, number + 1), kernel("k", start, dur, correlation=number + 1)]
    _held_by_its_durations(make_trace(events))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json*")), ids=lambda path: path.name)
def test_no_place_of_a_sample_has_more_time_than_its_name(path: Path):
    _held_by_its_durations(load(str(path)))


# First uses of operators.


def _calls(first: int, *, launches: bool = True, later: int = 3, slow: int = 1, shapes: int = 1) -> Trace:
    """Calls of one operator of 30 us behind `slow` first ones; each of them launches a kernel as it ends."""
    events: list[Event] = []
    at = 0
    for number in range(later + 1):
        took = first if number < slow else 30_000
        args = {"Input Dims": [[number % shapes, 128]]}
        events.append(op("aten::miopen_batch_norm_backward", at, took, args=args))
        inside = launches or number > 0
        events.append(launch(at + took - 5_000 if inside else at + took + 1_000, 1_000, number + 1))
        events.append(kernel("k", at + took + 5_000, 20_000, correlation=number + 1))
        at += took + 40_000
    early = [launch(-50_000, 1_000, 90), kernel("k", -40_000, 20_000, correlation=90)]
    return make_trace([op("aten::relu", -51_000, 3_000), *early, *events])


def test_a_first_call_that_takes_far_longer_itself_is_a_start_up():
    finding = one(_calls(138 * MS), "start-up")
    assert "aten::miopen_batch_norm_backward 138.00 ms" in finding.evidence
    assert finding.cost is not None and finding.cost > 137 * MS
    assert "launch-overhead" not in ids(_calls(138 * MS))


def test_the_first_call_of_each_shape_is_one():
    assert "2 slow first uses" in one(_calls(138 * MS, slow=2, shapes=2, later=4), "start-up").evidence
    assert "1 slow first use:" in one(_calls(138 * MS, slow=2, shapes=1, later=4), "start-up").evidence


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (9 * MS, {}),  # too short
        (138 * MS, {"later": 1}),  # nothing to compare it with
        (138 * MS, {"launches": False}),  # work of the CPU, which may be larger
    ],
)
def test_a_first_call_that_may_have_more_to_do_is_none(first, more):
    assert "start-up" not in ids(_calls(first, **more))


def test_an_operator_that_waits_first_is_no_start_up():
    trace = _calls(138 * MS)
    wait = launch(10_000, 137 * MS, 500, "cudaStreamSynchronize")
    events = [
        Event(
            trace.name_of(row),
            int(trace.slices.start[row]),
            int(trace.slices.dur[row]),
            Kind(trace.slices.kind[row]),
            ("0", "stream 7") if trace.slices.kind[row] == Kind.KERNEL else ("1", "1"),
            correlation=int(trace.slices.correlation[row]),
        )
        for row in range(len(trace.slices))
    ]
    assert "start-up" not in ids(make_trace([*events, wait]))


# Memory from the driver.

CARD = Device(0, "NVIDIA A100", {"id": 0, "totalGlobalMem": 80 << 30})


def _taken_and_freed(empties: int, *, each: bool, frees: bool = True) -> list[Event]:
    """Steps of one product, tensors that are made, and calls of 3 ms that take memory and free it."""
    events: list[Event] = []
    for number in range(empties):
        at = 20 * MS * number
        events += [step(number, at, 20 * MS), op("aten::mm", at, 20_000), launch(at + 5_000, 5_000, 3 * number + 1)]
        events.append(kernel("k", at + 20_000, 2 * MS, correlation=3 * number + 1))
        events.append(op("aten::empty", at + 3 * MS, 8 * MS))
        if each or number in (3, 5):
            events.append(launch(at + 4 * MS, 3 * MS, 900 + 3 * number, "cudaMalloc"))
        if frees and (each or number in (2, 4)):
            events.append(launch(at + 12 * MS, 3 * MS, 901 + 3 * number, "cudaFree"))
    return events


def test_where_each_tensor_calls_the_driver_the_caching_allocator_is_off():
    finding = one(make_trace(_taken_and_freed(30, each=True)), "allocator")
    assert finding.title.startswith("The caching allocator is off: the GPU waits while memory is taken")
    assert "30 of 30 calls of aten::empty and aten::empty_strided took memory from the driver" in finding.evidence
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING" in finding.advice and "full" not in finding.advice


def test_calls_now_and_then_are_those_of_a_cache_that_is_full_or_was_emptied():
    finding = one(make_trace(_taken_and_freed(30, each=False)), "allocator")
    assert finding.title.startswith("The GPU waits while memory is taken")
    assert finding.advice.startswith("GPU memory is full, or empty_cache() gave it back")


@pytest.mark.parametrize(("reserved", "is_full"), [(2 << 30, False), (70 << 30, True)])
def test_memory_that_is_reserved_tells_whether_the_gpu_was_full(reserved, is_full):
    events = _taken_and_freed(30, each=False)
    held = [Moment(5 * MS + n, 1_000, 7 + n, reserved // 2) for n in range(40)]
    trace = with_memory(events, held, devices=(CARD,))
    finding = one(trace, "allocator")
    assert ("GPU memory is full" in finding.advice, "GPU memory was not full" in finding.advice) == (
        is_full,
        not is_full,
    )
    assert "reserved at most, of 80.0 GiB" in finding.evidence


def test_the_workspace_of_a_library_is_a_start_up_for_each_thread():
    """A short cudaMalloc in the first product of the autograd thread; a later product takes none."""
    other = ("1", "2")
    events = gap(op("aten::mm", 2 * MS, 6 * MS, lane=other))
    events.append(launch(3 * MS, 800_000, 70, "cudaMalloc", lane=other))
    events[1] = launch(11 * MS - 5_000, 1_000, 2, lane=other)
    trace = make_trace([*events, op("aten::relu", 0, 10), op("aten::mm", -30_000, 20_000)])
    assert one(trace, "start-up").cost == 800_000
    assert "allocator" not in ids(trace)
    earlier = op("aten::mm", -30_000, 20_000, lane=other)
    assert "start-up" not in ids(make_trace([*events, op("aten::relu", 0, 10), earlier]))


# Random numbers of the CPU.


def _inputs(name: str, *calls: Event) -> Trace:
    """Three gaps of 10 ms, in each of which an operator runs for 8 ms."""
    events = [op("aten::relu", -5_000, 1_000)]
    for number in range(3):
        low = 12 * MS * number
        events += gap(op(name, low + 2 * MS, 8 * MS), low=low)
    return make_trace([*events, *calls])


def test_random_tensors_made_on_the_cpu_cost_the_idle_time_that_they_cover():
    trace = _inputs("aten::randn")
    finding = one(trace, "cpu-inputs")
    assert finding.cost == 24 * MS
    assert finding.evidence == (
        "3 operators that launch nothing, 24.00 ms, most often aten::randn; the GPU idle meanwhile for 24.00 ms "
        "between kernels"
    )
    assert (
        "24.00 ms of that with making random tensors, priced by another finding"
        in one(trace, "launch-overhead").evidence
    )
    cost, whole = (one(each, "launch-overhead").cost or 0 for each in (trace, _inputs("aten::sort")))
    assert cost == whole - 24 * MS
    assert "cpu-inputs" not in ids(_inputs("aten::sort"))


def test_random_tensors_made_on_the_gpu_are_launched():
    calls = [launch(12 * MS * number + 3 * MS, 1_000, 800 + number) for number in range(3)]
    work = [kernel("philox", 12 * MS * number + 9 * MS, 500, correlation=800 + number) for number in range(3)]
    assert "cpu-inputs" not in ids(_inputs("aten::randn", *calls, *work))


def test_random_tensors_before_the_first_kernel_count_and_under_a_busy_gpu_not():
    made = op("aten::normal_", -9 * MS, 8 * MS)
    assert one(make_trace([made, *gap(length=10_000)]), "cpu-inputs").cost == 8 * MS
    busy = [launch(-10 * MS, 5, 90), kernel("long", -10 * MS + 10, 9_900_000, correlation=90)]
    assert "cpu-inputs" not in ids(make_trace([made, *busy, *gap(length=10_000)]))


def test_a_data_loader_is_known_by_its_frame():
    frame = python("site-packages/torch/utils/data/dataloader.py(633): __next__", 2 * MS, 8 * MS)
    assert one(make_trace(gap(frame)), "data-loading").cost == 8 * MS
    other = python("my_data_loader.py(10): __next__", 2 * MS, 8 * MS)
    assert one(make_trace(gap(other)), "data-loading").cost == 8 * MS
    assert "data-loading" not in ids(make_trace(gap(python("loop.py(10): __next__", 2 * MS, 8 * MS))))
