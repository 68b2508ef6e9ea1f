"""What torch 2.14 and 2.15 added to the JSON: counters of GPUs, nodes of graphs, lanes of waits (R2.13 to R2.15)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import SHARED
from tracetui.health.summary import counts
from tracetui.health.summary import facts as summary_facts
from tracetui.linking.links import links
from tracetui.memory.memory_table import memory as memory_table
from tracetui.model.hardware_counters import gpu_of_process, unit_of
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.reading import columns
from tracetui.reading.load import load
from tracetui.tables.kernels import kernels

FOLDER = SHARED / "pftrace"


def shared(name: str) -> tuple[Trace, dict[str, Any]]:
    """A trace of the shared folder, and what is known of it."""
    if not FOLDER.exists():
        pytest.skip("no shared traces beside the checkout")
    expected = json.loads((FOLDER / "expected.json").read_text())
    key = name if name in expected else name.replace(".json", ".pftrace.gz")
    return load(str(FOLDER / name)), expected[key]["facts"]


def trace_of(tmp_path: Path, *events: dict[str, Any]) -> Trace:
    """A trace of some events."""
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return load(str(path))


def counter(pid: Any, name: str, ts: float, value: float, **more: Any) -> dict[str, Any]:
    """A sample of a counter with an empty key."""
    return {"ph": "C", "pid": pid, "name": name, "ts": ts, "args": {"": value}} | more


def slice_on(cat: str, name: str, ts: float, dur: float, tid: Any = 7, **args: Any) -> dict[str, Any]:
    """A slice on a stream of GPU 0."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


@pytest.mark.parametrize("name", ["graph_counters.json", "kineto_counters.json"])
def test_shared_counters_have_their_samples_and_means(name: str) -> None:
    trace, facts = shared(name)
    assert {each.name: len(each.time) for each in trace.counters} == facts["counters"]
    assert {each.gpu for each in trace.counters} == {0}
    means = {each.name: float(each.value.mean()) for each in trace.counters}
    for counter_name, mean in facts.get("counter_mean", {}).items():
        assert means[counter_name] == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", ["graph_counters.json", "kineto_counters.json"])
def test_shared_kernels_and_copies_are_those_of_the_window(name: str) -> None:
    trace, facts = shared(name)
    assert counts(trace)["kernels"] == facts["kernels"] == len(trace.slices.of_kind(Kind.KERNEL))
    assert counts(trace)["copies"] == facts["copies"]


def test_shared_kernel_time_and_lanes() -> None:
    trace, facts = shared("graph_counters.json")
    rows = trace.slices.of_kind(Kind.KERNEL)
    assert int(trace.slices.dur[rows].sum()) == facts["kernel_time_ns"]
    lanes, number = np.unique(trace.slices.lane[rows], return_counts=True)
    by_lane = {trace.lanes[lane].name: int(count) for lane, count in zip(lanes.tolist(), number.tolist(), strict=True)}
    # The twin's names have the number of the lane in front.
    assert by_lane == {name.split("] ")[1]: count for name, count in facts["kernels_by_lane"].items()}


def test_shared_operators_and_steps() -> None:
    trace, facts = shared("graph_counters.json")
    assert len(trace.slices.of_kind(Kind.CPU_OP)) == facts["ops"]
    found = trace.slices.of_kind(Kind.ANNOTATION)
    assert sorted(trace.name_of(row) for row in found.tolist() if "Step" in trace.name_of(row)) == facts["steps"]


def test_shared_samples_of_kineto_stand_where_kineto_writes_them() -> None:
    trace, facts = shared("kineto_counters.json")
    assert {each.process for each in trace.counters} == {facts["counter_process"]}
    event = trace.store.event(int(trace.counters[0].event[0]))
    assert event["cat"] == facts["counter_cat"]
    (ids,) = trace.args_of(trace.slices.of_kind(Kind.KERNEL), ["graph node id"])
    assert facts["graph_node_id_is_packed"] is any(number is not None and number >> 32 for number in ids)


def test_shared_streams_of_kernels_with_the_lanes_of_their_annotations() -> None:
    trace, facts = shared("kineto_counters.json")
    given = [row["stream"] for row in kernels(trace).rows() if row["kind"] == "kernel"]
    assert {str(each): given.count(each) for each in set(given)} == facts["streams_of_kernels"]


def test_nodes_of_graphs_are_on_their_lane_and_no_gpu_activity(tmp_path: Path) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    trace = trace_of(
        tmp_path,
        launch | {"args": {"correlation": 9}},
        slice_on("kernel", "gemm", 10, 5, correlation=9),
        slice_on("graph_event_node", "EventRecord", 15, 0, correlation=9),
        slice_on("graph_host_node", "HostNode: log", 20, 5, 20, correlation=9),
    )
    lanes = {trace.name_of(row): trace.lanes[int(trace.slices.lane[row])] for row in range(len(trace.slices))}
    assert lanes["EventRecord"] is lanes["gemm"]
    assert lanes["HostNode: log"].kind is LaneKind.GPU
    assert counts(trace)["kernels"] == 1
    assert [trace.name_of(row) for row in links(trace).gpu.tolist()] == ["gemm"]
    assert next(fact.value for fact in summary_facts(trace) if fact.key == "streams") == 1


def test_waits_on_a_stream_are_on_its_lane_of_waits(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        slice_on("kernel", "gemm", 10, 5),
        slice_on("cuda_sync", "Stream Sync", 10, 6, 1_000_007, stream=7),
        slice_on("cuda_sync", "Context Sync", 20, 6, 4_294_967_295),
    )
    assert [(lane.tid, lane.kind) for lane in trace.lanes] == [
        ("7", LaneKind.GPU),
        ("7", LaneKind.SYNC),
        ("4294967295", LaneKind.SYNC),
    ]


def test_a_kernel_on_a_lane_with_a_large_number_stays_there(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, slice_on("kernel", "gemm", 10, 5, 1_000_007))
    assert [lane.tid for lane in trace.lanes] == ["1000007"]


def test_counters_of_several_gpus_are_kept_apart(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        counter("GPU 0 Counters", "Power (W)", 1, 300),
        counter("GPU 12 Counters", "Power (W)", 1, 400, cat="hardware_counters", tid=3),
        counter("My Counters", "Power (W)", 1, 500),
    )
    assert [(each.gpu, each.unit, each.value.tolist()) for each in trace.counters] == [
        (0, "W", [300.0]),
        (12, "W", [400.0]),
        (-1, "", [500.0]),
    ]


def test_counters_of_mtia_are_those_of_the_device(tmp_path: Path) -> None:
    event = {"ph": "C", "pid": 3, "name": "counters", "ts": 1, "args": {"busy (%)": 40, "reads": 7}}
    trace = trace_of(tmp_path, event | {"cat": "mtia_counters"}, event)
    assert [(each.gpu, each.name, each.series) for each in trace.counters] == [
        (3, "busy (%)", ""),
        (3, "reads", ""),
        (-1, "counters", "busy (%)"),
        (-1, "counters", "reads"),
    ]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("SM Active (%)", "%"),
        ("SM Clock (MHz)", "MHz"),
        ("NVLink RX", ""),
        ("sm__inst_executed.sum", ""),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("Cycles (Current Kernel)", "cycles"),
        ("Time (of the whole run)", ""),
    ],
)
def test_units_come_from_names(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_only_the_whole_name_of_a_process_names_a_gpu() -> None:
    assert gpu_of_process("GPU 3 Counters") == 3
    assert gpu_of_process("GPU 3 Counters of mine") == -1


def test_cycles_are_marked_as_derived(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        counter("GPU 0 Counters", "Cycles (Current Kernel)", 1, 300),
        counter("GPU 0 Counters", "SM Clock (MHz)", 1, 300),
    )
    assert [each.is_derived for each in trace.counters] == [True, False]


def test_instants_that_are_written_as_slices_are_instants(tmp_path: Path) -> None:
    memory = {"ph": "X", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "dur": 900}
    memory["args"] = {"Bytes": 64, "Addr": 4096, "Total Allocated": 64, "Device Type": 0, "Device Id": -1}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 0, "dur": 10}
    trace = trace_of(tmp_path, op, memory)
    assert [trace.name_of(row) for row in range(len(trace.slices))] == ["aten::empty"]
    assert [row["bytes"] for row in memory_table(trace).rows()] == [64]
    assert trace.window == (0, 10_000)
    other = trace_of(tmp_path, op, memory | {"cat": "cpu_op"})
    assert len(other.slices) == 2


ODD: list[dict[str, Any]] = [
    {"args": {"": 1.0, "more": 2.0}},
    {"args": {"": "7.5"}},
    {"args": {"": True}},
    {"args": {"": None}},
    {"args": {"value": 4}},
    {"args": 5},
    {"id": "a"},
    {"name": None},
    {"ts": "12.5"},
    {"ts": None},
    {"pid": "My Counters"},
    {"tid": 9, "cat": "hardware_counters"},
]


@pytest.mark.parametrize("odd", [{}, *ODD], ids=str)
def test_samples_that_are_read_at_once_are_those_that_are_read_one_by_one(
    odd: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("SM Active (%)", "Power (W)")
    events = [counter(f"GPU {i % 3} Counters", names[i % 2], 7 * i % 300, i / 4) for i in range(200)]
    events.insert(77, events[77] | odd)

    def told() -> list[Any]:
        trace = trace_of(tmp_path, *events)
        series = [
            (each.pid, each.name, each.series, each.gpu, each.time.tolist(), each.value.tolist(), each.event.tolist())
            for each in trace.counters
        ]
        return [sorted(series), trace.quality]

    at_once = told()
    monkeypatch.setattr(columns, "MIN_SAMPLES", 1_000_000)
    assert at_once == told()
