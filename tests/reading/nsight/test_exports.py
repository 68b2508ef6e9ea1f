"""Tables of an export become the columns of a trace: what SQL says of a file is what its panes say."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.nsight import NEW, OLD, Export, pid_of, tid_of, training
from tracetui.cli.main import main
from tracetui.linking.links import links
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load

TABLES = {
    Kind.KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL",
    Kind.MEMCPY: "CUPTI_ACTIVITY_KIND_MEMCPY",
    Kind.MEMSET: "CUPTI_ACTIVITY_KIND_MEMSET",
    Kind.RUNTIME: "CUPTI_ACTIVITY_KIND_RUNTIME",
}


def opened(made: Export, folder: Path) -> Trace:
    return load(made.write(folder / "made.sqlite"))


def names(trace: Trace, kind: Kind) -> list[str]:
    return [trace.name_of(row) for row in trace.slices.of_kind(kind).tolist()]


def check_sums(trace: Trace, path: str) -> None:
    """Count and sum of every kind, as SQL finds them in the file."""
    connection = sqlite3.connect(path)
    for kind, table in TABLES.items():
        rows = trace.slices.of_kind(kind)
        count, total = connection.execute(f'SELECT count(*), sum("end" - start) FROM {table}').fetchone()
        assert (len(rows), int(trace.slices.dur[rows].sum())) == (count, total or 0), table
    connection.close()


def test_the_given_export_is_what_is_known_of_it_to_the_nanosecond(shared_trace: Callable[[str], Path]) -> None:
    folder = shared_trace("beside")
    path = folder / "nsys" / "h100_2gpu_1s.sqlite"
    known = json.loads((folder / "expected.json").read_text())["nsys/h100_2gpu_1s.sqlite"]
    trace = load(str(path))
    check_sums(trace, str(path))
    kernels = trace.slices.of_kind(Kind.KERNEL)
    assert len(kernels) == known["kernels"] and int(trace.slices.dur[kernels].sum()) == known["kernel_ns"]
    assert len(trace.slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)) == known["nvtx"]
    used = {trace.lanes[lane].pid for lane in np.unique(trace.slices.lane[kernels])}
    assert used == {str(device) for device in known["devices"]}
    # By correlation id alone 1,643 have a launch; 11 of these calls are of the other process.
    assert int((links(trace).launch[kernels] >= 0).sum()) == 1632
    assert names(trace, Kind.CPU_OP).count("aten::add") > 100


@pytest.mark.parametrize("version", [OLD, NEW])
def test_every_version_gives_the_same_slices(version: int, tmp_path: Path) -> None:
    trace = opened(training(4, version), tmp_path)
    check_sums(trace, str(tmp_path / "made.sqlite"))
    assert set(names(trace, Kind.MEMCPY)) == {"Memcpy HtoD (Pageable -> Device)"}
    assert set(names(trace, Kind.MEMSET)) == {"Memset (Device)"}
    assert set(names(trace, Kind.RUNTIME)) == {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"}
    joined = links(trace)
    assert (joined.launch[joined.gpu] >= 0).all()
    event = trace.slices.event[trace.slices.of_kind(Kind.KERNEL)]
    assert set(trace.work_args.number("shared memory", event).tolist()) == {1536}
    grids = trace.work_args.text("grid", event)
    assert {trace.work_args.strings[number] for number in grids.tolist()} == {"[8, 2, 1]"}
    assert trace.devices[0].properties["numSms"] == 132
    assert trace.devices[0].properties["maxThreadsPerMultiprocessor"] == 2048


def test_ranges_may_be_steps(tmp_path: Path) -> None:
    trace = opened(training(6), tmp_path)
    assert len(steps(trace)) == 0
    assert len(steps(with_steps(trace, "iter"))) == 6


def test_arguments_are_read_again_from_the_file(tmp_path: Path) -> None:
    made = training(40)
    made.kernel(500_000, 500_100, graphNodeId=(5 << 32) + 3, correlationId=9_999)
    trace = opened(made, tmp_path)
    kernels = trace.slices.of_kind(Kind.KERNEL)
    nodes, grids, nothing = trace.args_of(kernels, ["graph node id", "grid", "Concrete Inputs"])
    assert nodes[:-1] == [None] * (len(kernels) - 1) and nodes[-1] == (5 << 32) + 3
    assert grids == [[8, 2, 1]] * len(kernels) and nothing == [None] * len(kernels)
    first = trace.event_of(int(kernels[0]))["args"]
    assert (first["registers per thread"], first["shared memory"], first["stream"]) == (32, 1536, 7)
    copy = trace.event_of(int(trace.slices.of_kind(Kind.MEMCPY)[0]))["args"]
    assert (copy["bytes"], copy["memory bandwidth (GB/s)"]) == (4096, 4.096)


def test_ids_of_processes_do_not_mix(tmp_path: Path) -> None:
    made = Export()
    for process in (100, 200):
        made.call(process, process + 5, globalTid=tid_of(process), correlationId=1)
        made.kernel(process + 10, process + 20, f"of {process}", globalPid=pid_of(process), correlationId=1)
    trace = opened(made, tmp_path)
    joined = links(trace)
    for row in joined.gpu.tolist():
        caller = trace.lanes[trace.slices.lane[joined.launch[row]]].pid
        assert trace.name_of(row) == f"of {caller}"
    # One stream number of two processes on one device are two streams.
    assert len({int(trace.slices.lane[row]) for row in joined.gpu.tolist()}) == 2


def test_a_device_number_that_means_several_gpus_is_that_of_the_gpu(tmp_path: Path) -> None:
    made = Export()
    for process, gpu in ((100, 3), (200, 5)):
        made.kernel(process, process + 1, globalPid=pid_of(process))
        made.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=process)
        made.add("TARGET_INFO_GPU", id=gpu, name="NVIDIA A100")
    trace = opened(made, tmp_path)
    assert {lane.pid for lane in trace.lanes} == {"3", "5"}
    assert {device.id for device in trace.devices} == {3, 5}


def test_text_of_a_range_may_be_its_own_or_registered_and_domains_are_named(tmp_path: Path) -> None:
    made = Export()
    made.range(0, None, "NCCL", eventType=75, domainId=4)
    made.range(0, 100, "own").range(10, 20, textId=made.text("registered")).range(30, 40, "all_reduce", domainId=4)
    made.range(50, None, "open").range(60, None, "now", eventType=34)
    made.range(5, 300, "overlaps", eventType=60).range(200, 400, "too", eventType=60)
    trace = opened(made, tmp_path)
    given = names(trace, Kind.ANNOTATION)
    assert sorted(given) == ["NCCL:all_reduce", "open", "overlaps", "own", "registered", "too"]
    assert [trace.names[number] for number in trace.instants.name.tolist()] == ["now"]
    (lane,) = [lane for lane in trace.lanes if lane.kind == LaneKind.ASYNC]
    assert (lane.name, lane.rows, lane.last - lane.first) == ("NVTX ranges", 2, 2)
    assert trace.quality.unfinished == 1


def test_ranges_of_emit_nvtx_are_operators_with_shapes(tmp_path: Path) -> None:
    made = Export()
    made.range(0, 90, "aten::linear, seq = 7, op_id = 3, sizes = [[8, 16], [4, 16], []]")
    made.range(10, 20, "aten::t, op_id = 4, sizes = [[4, 16]], input_op_ids = [(3,0)]")
    made.range(100, 190, "AddmmBackward0, seq = 7, op_id = 9")
    made.range(200, 300, "my loss, op_id = 11").range(300, 400, "plain, with a comma")
    trace = opened(made, tmp_path)
    assert names(trace, Kind.CPU_OP) == ["aten::linear", "aten::t", "AddmmBackward0"]
    assert names(trace, Kind.ANNOTATION) == ["my loss", "plain, with a comma"]
    event = trace.slices.event[trace.slices.of_kind(Kind.CPU_OP)]
    assert trace.op_args.number("Sequence number", event).tolist() == [7, NULL, 7]
    shapes = [trace.op_args.strings[number] for number in trace.op_args.text("Input Dims", event[:2]).tolist()]
    assert shapes == ["[[8, 16], [4, 16], []]", "[[4, 16]]"]


def test_what_else_an_export_holds(tmp_path: Path) -> None:
    made = training(3)
    made.add("OSRT_API", start=1, end=5, globalTid=tid_of(100, 101), nameId=made.text("poll"), returnValue=0)
    made.add("PROFILER_OVERHEAD", start=1, end=3, globalTid=tid_of(100), nameId=made.text("Buffer flush"))
    made.add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        start=100,
        end=200,
        deviceId=0,
        streamId=7,
        correlationId=4,
        syncType=3,
    )
    made.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=50_000, end=50_700, deviceId=0, streamId=7, graphId=12)
    for at, value in ((0, 10), (10, 90.5)):
        made.add("GPU_METRICS", timestamp=at, typeId=0xAB00, metricId=1, value=value)
    made.add("TARGET_INFO_GPU_METRICS", typeId=0xAB00, metricId=1, metricName="SMs Active [Throughput %]")
    for at, operation in ((5, 0), (20, 0), (30, 1)):
        made.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=at,
            bytes=1000,
            memoryOperationType=operation,
            memKind=2,
            globalPid=pid_of(100),
            deviceId=0,
        )
    made.add("SCHED_EVENTS", start=1, cpu=0)
    trace = opened(made, tmp_path)
    assert names(trace, Kind.SYNC) == ["Stream Sync"] and names(trace, Kind.OVERHEAD) == ["Buffer flush"]
    assert "CUDA graph 12" in names(trace, Kind.KERNEL)
    assert names(trace, Kind.OTHER) == ["poll"]
    metric, memory = trace.counters
    assert (metric.gpu, metric.name, metric.unit, metric.value.tolist()) == (0, "SM Active (%)", "%", [10.0, 90.5])
    assert (memory.unit, memory.value.tolist()) == ("bytes", [1000.0, 2000.0, 1000.0])
    assert [note for note in trace.quality.notes if "SCHED_EVENTS" in note and "OSRT" not in note]
    assert [note for note in trace.quality.notes if "cuda-graph-trace=node" in note]


def test_the_clock_on_the_wall(tmp_path: Path) -> None:
    made = Export().kernel(5_000_000_123, 5_000_000_999)
    made.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_790_000_000 * 10**9, systemClockNs=5 * 10**9)
    assert opened(made, tmp_path).origin_ns == 1_790_000_000 * 10**9 + 123


def test_an_export_and_a_json_trace_are_compared_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = training(4).write(tmp_path / "made.sqlite")
    events = [
        {"ph": "X", "cat": "kernel", "name": "void gemm<float>(float*)", "pid": 0, "tid": 7, "ts": at, "dur": 3.0}
        for at in range(0, 50, 10)
    ]
    (tmp_path / "other.json").write_text(json.dumps(events))
    assert main(["compare", path, str(tmp_path / "other.json"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["check", path, "kernels == 8"]) == 0
    assert main(["check", path, "kernels == 9"]) == 1


KERNELS = st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**9), st.integers(0, 3), st.integers(0, 5))


@settings(max_examples=25, deadline=None)
@given(kernels=st.lists(KERNELS, max_size=30))
@pytest.mark.full
def test_no_kernel_is_lost_or_changed(
    kernels: list[tuple[int, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = Export().range(0, 1, "there is something")
    for start, dur, device, name in kernels:
        made.kernel(start, start + dur, f"kernel {name}", deviceId=device, streamId=name)
    trace = opened(made, tmp_path_factory.mktemp("made"))
    rows = trace.slices.of_kind(Kind.KERNEL)
    first = min([0, *(start for start, *_ in kernels)])
    assert sorted(trace.slices.start[rows].tolist()) == sorted(start - first for start, *_ in kernels)
    assert round(trace.origin_us * 1000) == first
    if not trace.quality.clipped and not trace.quality.overlong:
        assert sorted(trace.slices.dur[rows].tolist()) == sorted(dur for _, dur, *_ in kernels)


def test_what_an_export_lacks_is_not_put_down_to_options_of_the_profiler_of_pytorch(tmp_path):
    (tmp_path / "empty").mkdir()
    trace = opened(training(), tmp_path)
    empty = opened(Export(NEW).range(0, 1000, "alone").call(100, 200), tmp_path / "empty")
    for each in (trace, empty):
        for name in PANES:
            table = PANES[name].build(each)
            rows = " ".join(str(cell) for row in table.rows() for cell in row.values()) if name == "findings" else ""
            for word in ("with record_shapes=", "with_stack", "ProfilerActivity", "--lines"):
                assert word not in table.note + table.headline + rows, (name, word)
    assert "emit_nvtx(record_shapes=True)" in PANES["roofline"].build(trace).note
    assert "--trace=cuda" in PANES["kernels"].build(empty).note
