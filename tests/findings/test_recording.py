"""Rules about the recording: what kind of trace it is, what is missing in it, and what recording it cost."""

from __future__ import annotations

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tests.support.findings import MS, ids, one
from tests.support.memory_events import Moment, with_memory
from tracetui.findings import findings
from tracetui.findings.scope import Severity
from tracetui.model.trace import Kind

OVERHEAD = "Activity Buffer Request"


def _other(name: str, start: int, dur: int, lane: tuple[str, str]) -> Event:
    return Event(name, start, dur, Kind.OTHER, lane)


def test_a_trace_of_another_program_has_only_the_sentence_that_it_is_one():
    slices = [_other("Task", 0, 5 * MS, ("1", "main")), _other("Task", 6 * MS, MS, ("1", "main"))]
    trace = make_trace(slices, is_torch=False)
    assert ids(trace) == ["not-pytorch"]
    assert one(trace, "not-pytorch").evidence.startswith("2 slices on 1 lane")
    assert findings(trace).headline.startswith("This trace was not written by the PyTorch profiler")
    assert "not-pytorch" not in ids(make_trace(slices))


def test_without_a_gpu_the_largest_operators_are_named_by_their_own_time():
    ops = [
        op("aten::conv2d", 0, 10 * MS),
        op("aten::convolution", MS, 8 * MS),
        op("aten::relu", 10 * MS, 2 * MS),
        op("aten::convolution", 13 * MS, 4 * MS),
    ]
    finding = one(make_trace(ops), "no-gpu")
    assert finding.severity == Severity.NOTE and finding.cost is None
    assert finding.title.endswith("most time in aten::convolution: 12.00 ms, 75 % of the time in operators")
    assert finding.evidence.startswith("4 operators on 1 thread took 16.00 ms: ")
    assert finding.evidence.endswith("aten::conv2d 2.00 ms (12 %), aten::relu 2.00 ms (12 %)")
    with_gpu = [launch(MS, 10, 1), kernel("k", 2 * MS, 1000, correlation=1)]
    assert "no-gpu" not in ids(make_trace([*ops, *with_gpu]))


def test_calls_of_the_runtime_or_memory_of_a_gpu_tell_that_one_was_used():
    ops = [op("aten::mm", 0, 10 * MS)]
    called = one(make_trace([*ops, launch(MS, 10, 1)]), "no-gpu")
    assert called.title.startswith("The program used a GPU, but no GPU activity was recorded")
    assert called.evidence.startswith("1 call of the GPU runtime (cudaLaunchKernel) in the trace; 1 operator")
    held = one(with_memory(ops, [Moment(MS, 1000, 7, 1000)]), "no-gpu")
    assert held.evidence.startswith("memory of GPU 0 in the trace")
    host = one(with_memory(ops, [Moment(MS, 1000, 7, 1000, device=(0, -1))]), "no-gpu")
    assert host.title.startswith("There is no GPU activity in this trace; the CPU")


def test_queries_of_the_profiler_are_no_use_of_a_gpu():
    queries = ("cudaGetDeviceCount", "cudaGetDeviceProperties_v2", "cudaDeviceSynchronize")
    calls = [launch(20 * MS + 10 * n, 5, 1 + n, name) for n, name in enumerate(queries)]
    finding = one(make_trace([op("aten::addmm", 0, 10 * MS), *calls]), "no-gpu")
    assert finding.title.startswith("The model ran on the CPU of a machine with a GPU, on which nothing was launched: ")
    assert finding.title.endswith("most time in aten::addmm: 10.00 ms, 100 % of the time in operators")
    taken = one(make_trace([op("aten::addmm", 0, 10 * MS), *calls, launch(MS, 5, 9, "cudaMalloc")]), "no-gpu")
    assert taken.title.startswith("The program used a GPU")


def test_device_lanes_of_another_accelerator_are_counted_and_those_of_the_program_are_not():
    ops = [op("aten::mm", 0, 10 * MS), _other("note", MS, 10, ("1", "1"))]
    trace = make_trace([*ops, _other("dma", 0, MS, ("9", "core 0")), _other("dma", 0, MS, ("9", "core 1"))])
    finding = one(trace, "other-accelerator")
    assert finding.evidence.startswith("2 slices of category 'other' on 2 device lanes are not understood; 1 operator")
    assert "no-gpu" not in ids(trace)
    assert ids(make_trace(ops)) == ["no-gpu"]


def test_memory_of_another_accelerator_names_it():
    trace = with_memory([op("aten::mm", 0, 10 * MS)], [Moment(MS, 1000, 7, 1000, device=(13, 0))])
    finding = one(trace, "other-accelerator")
    assert finding.title.startswith("Recorded on MPS, another accelerator")
    assert finding.evidence.startswith("nothing of what the device did was recorded; 1 operator")
    assert "no-gpu" not in ids(trace)


def test_generated_kernels_without_launch_are_those_of_a_driver_api_that_was_not_recorded():
    calls = [op("aten::mm", 0, MS), launch(10, 10, 1)]
    first = kernel("gemm", 100, 1000, correlation=1)
    fused = kernel("triton_poi_fused_add_0_0d1d", 2000, 1000, correlation=2)
    finding = one(make_trace([*calls, first, fused]), "launches-missing")
    assert finding.title.startswith("The launches of 1 of 2 GPU activities were not recorded: calls of the driver API")
    assert finding.severity == Severity.NOTE
    driver = launch(500, 10, 2, "cuLaunchKernel")
    assert "launches-missing" not in ids(make_trace([*calls, first, fused, driver]))
    plain = one(make_trace([*calls, first, kernel("add", 2000, 1000, correlation=2)]), "launches-missing")
    assert "driver API" not in plain.title


def test_an_export_without_calls_of_the_runtime_has_no_launches_to_miss_one_by_one():
    finding = one(make_trace([op("aten::mm", 0, MS), kernel("gemm", 100, 1000)]), "launches-missing")
    assert finding.title.endswith("1 of 1 GPU activity were not recorded: the trace holds no calls of the CUDA runtime")
    assert finding.advice.startswith("Record with torch.profiler")
    alone = one(make_trace([kernel("gemm", 100, 1000)]), "launches-missing")
    assert alone.advice == "Record ProfilerActivity.CPU beside ProfilerActivity.CUDA."


def test_kernels_that_were_launched_before_the_capture_miss_no_launch():
    calls = [op("aten::mm", 0, MS), launch(10, 10, 1)]
    early = [kernel("add", 5, 1000, correlation=9), kernel("gemm", 2000, 1000, correlation=1)]
    assert "launches-missing" not in ids(make_trace([*calls, *early]))


def _framed(gap: int) -> list[Event]:
    """Two kernels, a gap between them before the second is launched, and Python frames."""
    calls = [launch(10, 10, 1), launch(MS + gap, 10, 2)]
    work = [kernel("a", 100, MS, correlation=1), kernel("b", MS + gap + 100, MS, correlation=2)]
    return [*calls, *work, *(python("train.py(3): step", number, 2 * MS - 2 * number) for number in range(3))]


@pytest.mark.parametrize(("gap", "slows"), [(MS, True), (20_000, False)])
def test_python_frames_matter_where_the_gpu_waits_for_the_cpu(gap, slows):
    assert ("stack-recording" in ids(make_trace(_framed(gap)))) == slows


@pytest.mark.parametrize(("called", "slows"), [(8 * MS, True), (10_000, False)])
def test_the_cpu_is_late_for_the_first_kernel_up_to_its_launch_only(called, slows):
    """After the launch call, what the kernel waits for is something else."""
    events = [python("train.py(3): step", 0, 20 * MS), op("aten::mm", 1_000, 9 * MS), launch(called, 10_000, 1)]
    trace = make_trace([*events, kernel("gemm", 9 * MS, 10 * MS, correlation=1)])
    assert ("stack-recording" in ids(trace)) == slows
    if slows:
        assert "8.00 ms of it before the launch of its first activity" in one(trace, "stack-recording").evidence


def test_python_frames_matter_without_a_gpu():
    trace = make_trace([op("aten::mm", 10, MS), python("train.py(3): step", 0, 2 * MS)])
    assert one(trace, "stack-recording").cost is None
    assert "stack-recording" not in ids(make_trace([op("aten::mm", 10, MS), annotation("step", 0, 2 * MS)]))


def test_the_profiler_costs_what_the_gpu_was_idle_for():
    calls = [step(0, 0, 10 * MS), launch(10, 10, 1), launch(5 * MS, 10, 2)]
    work = [kernel("a", 100, 2 * MS, correlation=1), kernel("b", 6 * MS, 4 * MS, correlation=2)]
    lane = ("profiler", "overhead")
    idle = Event(OVERHEAD, 3 * MS, MS, Kind.OVERHEAD, lane)
    busy = Event(OVERHEAD, 7 * MS, 2 * MS, Kind.OVERHEAD, lane)
    finding = one(make_trace([*calls, *work, idle, busy]), "own-profiler")
    assert finding.cost == MS
    assert finding.evidence == f"1 slice of overhead, 1.00 ms; most often {OVERHEAD}"
    assert "own-profiler" not in ids(make_trace([*calls, *work, busy]))


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cudaMalloc"])
def test_a_call_in_which_the_profiler_asks_for_a_buffer_is_not_slow_itself(call):
    """The call of 3 ms holds a request of 2 ms: a launch inside its call, and another call before the launch."""
    slow = launch(3 * MS, 3 * MS, 2 if call == "cudaLaunchKernel" else 9, call)
    calls = [step(0, 0, 10 * MS), op("aten::mm", 0, 10), launch(10, 10, 1), slow]
    calls += [] if call == "cudaLaunchKernel" else [launch(6 * MS + 1_000, 10, 2)]
    work = [kernel("a", 100, 2 * MS, correlation=1), kernel("b", 6 * MS + 5_000, 3 * MS, correlation=2)]
    asked = Event(OVERHEAD, 3 * MS + 500_000, 2 * MS, Kind.OVERHEAD, ("profiler", "overhead"))
    assert one(make_trace([*calls, *work, asked]), "own-profiler").cost == 2 * MS
    assert "own-profiler" not in ids(make_trace([*calls, *work]))


def test_the_wait_that_ends_the_capture_while_the_gpu_works_costs_nothing():
    calls = [step(0, 0, 10 * MS), launch(10, 10, 1), launch(MS, 9 * MS, 2, "cudaDeviceSynchronize")]
    assert "own-profiler" not in ids(make_trace([*calls, kernel("a", 100, 9 * MS, correlation=1)]))
