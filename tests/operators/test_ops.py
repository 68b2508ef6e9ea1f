"""The panes of operators: ops, views, captured operators."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.captures import CapturedLaunch, recording
from tests.support.graphs import replay
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.table import Cell, Strings
from tracetui.model.trace import Instants, Kind, Trace
from tracetui.operators.costs import asynchronous_slices, self_times
from tracetui.operators.ops import CAPTURED_OP, gpu_union_times, ops, torch_time
from tracetui.operators.views import idle_view_rows, view_rows
from tracetui.panes import PANES


@dataclass
class Node:
    """One event in torch's tree."""

    event: Event
    own: list[int]
    children: list[Node] = field(default_factory=list)

    def device(self) -> int:
        return sum(self.own) + sum(child.device() for child in self.children)


def literal(events: list[Event], kernels: dict[str, list[int]]) -> dict[str, tuple[int, int, int, int, int]]:
    """Calls, self CPU, CPU total, self device and device total by name (3(d).7 to 3(d).10)."""
    roots: list[Node] = []
    stack: list[Node] = []
    nodes = []
    for event in sorted(events, key=lambda event: (event.start, -event.dur)):
        end = event.start + event.dur
        while stack:
            top = stack[-1].event
            if event.start < top.start + top.dur and end <= top.start + top.dur:
                break
            stack.pop()
        node = Node(event, list(kernels.get(event.name, [])) if event.dur else [])
        (stack[-1].children if stack else roots).append(node)
        stack.append(node)
        nodes.append(node)
    removed = True
    gone: set[int] = set()
    while removed:
        removed = False
        for node in nodes:
            if id(node) in gone or len(node.children) != 1 or node.children[0].event.name != node.event.name:
                continue
            child = node.children[0]
            node.children, node.own = child.children, child.own
            gone.add(id(child))
            removed = True
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for node in nodes:
        if id(node) in gone:
            continue
        dur = node.event.dur
        parts = (1, dur - sum(child.event.dur for child in node.children), dur, sum(node.own), node.device())
        rows[node.event.name] = [a + b for a, b in zip(rows[node.event.name], parts, strict=True)]
    return {name: (row[0], row[1], row[2], row[3], row[4]) for name, row in rows.items()}


def ours(trace: Trace) -> dict[str, tuple[int, int, int]]:
    return {
        str(row["name"]): (int(str(row["calls"])), round(1000 * row["self_cpu_us"]), round(1000 * row["cpu_total_us"]))  # type: ignore[operator, arg-type]
        for row in PANES["ops"].build(trace).rows()
    }


intervals = st.tuples(st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"))


@given(st.lists(intervals, max_size=25, unique_by=lambda item: item[:2]))
@pytest.mark.full
def test_calls_and_times_are_torchs(items: list[tuple[int, int, str]]) -> None:
    events = [op(name, start, dur) for start, dur, name in items]
    expected = {name: row[:3] for name, row in literal(events, {}).items()}
    assert ours(make_trace(events)) == expected


def test_device_times_add_up_along_the_tree() -> None:
    trace = make_trace(
        [
            step(1, 0, 1_000),
            op("aten::linear", 10, 500),
            op("aten::addmm", 100, 300),
            launch(150, 20, 1),
            launch(200, 20, 2),
            kernel("gemm", 2_000, 100, correlation=1),
            kernel("add", 2_100, 50, correlation=2),
        ]
    )
    rows = {row["name"]: row for row in PANES["ops"].build(trace).rows()}
    assert set(rows) == {"ProfilerStep*", "aten::linear", "aten::addmm", "cudaLaunchKernel"}
    outer, inner = rows["aten::linear"], rows["aten::addmm"]
    assert (outer["self_device_us"], outer["device_total_us"], outer["kernels"]) == (0.0, 0.15, 2)
    assert (inner["self_device_us"], inner["device_total_us"], inner["kernels"]) == (0.15, 0.15, 2)
    assert (outer["self_cpu_us"], inner["self_cpu_us"]) == (0.2, 0.26)
    assert (rows["cudaLaunchKernel"]["calls"], rows["cudaLaunchKernel"]["kernels"]) == (2, 2)
    assert rows["ProfilerStep*"]["kind"] == "annotation"


def test_an_op_that_only_calls_itself_counts_once_with_the_inner_kernels() -> None:
    trace = make_trace(
        [op("a", 0, 100), op("a", 10, 80), launch(20, 10, 1, name="x"), kernel("k", 200, 7, correlation=1)]
    )
    (row,) = [row for row in PANES["ops"].build(trace).rows() if row["name"] == "a"]
    assert (row["calls"], row["cpu_total_us"], row["self_cpu_us"], row["device_total_us"]) == (1, 0.1, 0.09, 0.007)


def test_python_frames_and_dropped_names_leave_their_time_to_the_caller() -> None:
    trace = make_trace(
        [
            op("outer", 0, 100),
            Event("f.py(1): f", 10, 80, Kind.PYTHON),
            op("inner", 20, 30),
            op("aten::is_leaf", 60, 10),
        ]
    )
    rows = {row["name"]: row for row in PANES["ops"].build(trace).rows()}
    assert set(rows) == {"outer", "inner"}
    assert rows["outer"]["self_cpu_us"] == 0.07
    assert rows["outer"]["device_total_us"] is None


def test_a_step_takes_only_what_began_in_it() -> None:
    trace = make_trace([step(1, 0, 100), step(2, 100, 100), op("a", 10, 20), op("a", 110, 30)])
    rows = {row["name"]: row for row in PANES["ops"].build(trace, step=2).rows()}
    assert (rows["a"]["calls"], rows["a"]["cpu_total_us"]) == (1, 0.03)


MAIN, OTHER = ("1", "1"), ("1", "2")


def rows_of(trace: Trace, **asked: object) -> dict[tuple[object, object], dict[str, Cell]]:
    """The rows of the pane by name and kind."""
    return {(row["name"], row["kind"]): row for row in PANES["ops"].build(trace, **asked).rows()}  # type: ignore[arg-type]


def test_calls_that_belong_to_no_op_count_on_the_thread_with_the_steps() -> None:
    trace = make_trace(
        [
            step(1, 0, 1_000, lane=MAIN),
            op("outer", 100, 500, lane=MAIN, external=5),
            Event("cudaEventQuery", 150, 50, Kind.RUNTIME, OTHER, correlation=90),
            Event("Lazy Function Loading", 300, 100, Kind.OVERHEAD, ("-1", "0")),
            op("elsewhere", 120, 200, lane=OTHER, external=6),
            launch(700, 10, 1, external=6, lane=MAIN),
            kernel("k", 2_000, 10, correlation=1, external=6),
        ]
    )
    rows = rows_of(trace)
    assert rows["outer", "op"]["self_cpu_us"] == 0.35  # less the query and the loading
    assert rows["elsewhere", "op"]["self_cpu_us"] == 0.2
    assert rows["elsewhere", "op"]["device_total_us"] == 0.01
    own = self_times(trace)
    assert own[trace.slices.name == trace.names.find("outer")].tolist() == [500]


def test_a_call_outside_of_ops_is_taken_for_the_op_with_its_id() -> None:
    trace = make_trace(
        [
            op("aten::mm", 0, 100, external=7),
            launch(10, 10, 1, external=7),
            Event("cudaDeviceSynchronize", 200, 50, Kind.RUNTIME, correlation=7),
            kernel("gemm", 50, 30, correlation=1, external=7),
        ]
    )
    rows = rows_of(trace)
    assert rows["cudaDeviceSynchronize", "runtime"]["self_device_us"] == 0.03
    assert rows["aten::mm", "op"]["gpu_wall_us"] == 0.03
    assert rows["cudaDeviceSynchronize", "runtime"]["gpu_wall_us"] == 0.0


def test_waits_that_name_an_op_are_work_of_it_and_annotations_of_the_device_are_not() -> None:
    trace = make_trace(
        [
            op("aten::item", 0, 100, external=7),
            launch(10, 10, 1, external=7),
            kernel("copy", 50, 30, correlation=1, external=7),
            Event("Stream Sync", 60, 25, Kind.SYNC, ("0", "sync"), external=7),
            Event("forward", 49, 32, Kind.GPU_ANNOTATION, ("0", "note"), external=7),
        ]
    )
    table = PANES["ops"].build(trace, by="event")
    assert [(row["name"], row["kind"], row["self_device_us"]) for row in table.rows()] == [
        ("aten::item", "op", 0.055),
        ("cudaLaunchKernel", "runtime", 0.0),
        ("forward", "GPU annotation", 0.03),
        ("copy", "kernel", 0.03),
        ("Stream Sync", "wait", 0.025),
    ]
    assert "Self CUDA time total: 0.055us." in table.note


def test_an_annotation_and_an_op_and_a_kernel_of_one_name_are_three_rows() -> None:
    trace = make_trace(
        [
            Event("x", 0, 100, Kind.ANNOTATION),
            op("y", 10, 80),
            op("x", 20, 50),
            launch(30, 10, 1),
            kernel("x", 200, 7, correlation=1),
        ]
    )
    assert {("x", "annotation"), ("x", "op"), ("x", "kernel")} <= set(rows_of(trace, by="event"))
    assert ("x", "kernel") not in rows_of(trace)


def test_collectives_have_no_place_in_the_tree() -> None:
    trace = make_trace([op("c10d::allreduce_", 0, 100), Event("nccl:all_reduce", 10, 200, Kind.ANNOTATION)])
    rows = rows_of(trace)
    assert rows["c10d::allreduce_", "op"]["self_cpu_us"] == 0.1
    assert rows["nccl:all_reduce", "annotation"]["self_cpu_us"] == 0.0
    assert rows["nccl:all_reduce", "annotation"]["cpu_total_us"] == 0.2


def test_what_never_ended_ends_with_what_is_around_it() -> None:
    trace = make_trace(
        [
            step(1, 0, 1_000),
            Event("open", 500, 9_000, Kind.ANNOTATION, args={"finished": False}),
            op("a", 600, 100),
            Event("alone", 1_100, 8_000, Kind.ANNOTATION, args={"finished": False}),
            op("late", 1_200, 5_000),
            Event("PyTorch Profiler (0)", 0, 2_000, Kind.BOOKKEEPING, ("Spans", "PyTorch Profiler")),
        ]
    )
    assert [trace.name_of(row) for row in asynchronous_slices(trace)[0].tolist()] == ["open", "alone"]
    rows = rows_of(trace)
    assert rows["open", "annotation"]["cpu_total_us"] == 0.5
    assert rows["alone", "annotation"]["cpu_total_us"] == 0.9
    assert rows["ProfilerStep*", "annotation"]["self_cpu_us"] == 0.9
    assert rows["late", "op"]["cpu_total_us"] == 5.0


def test_memory_outside_of_all_slices_is_a_row_of_torchs_table_only() -> None:
    names = Strings(["op", "[memory]", "ProfilerStep*"])
    small = np.zeros(4, np.int32)
    instants = Instants(
        np.array([50, 100, 101, 300], np.int64),
        small + 1,
        small.astype(np.int16),
        small,
        small.astype(np.uint8),
        small,
    )
    trace = make_trace([op("op", 0, 100)], names=names, instants=instants)
    assert rows_of(trace, by="event")["[memory]", "allocation"]["calls"] == 2
    assert set(rows_of(trace)) == {("op", "op")}


def test_frames_are_rows_where_the_torch_that_recorded_lists_them() -> None:
    slices = [op("outer", 0, 100), Event("f.py(1): f", 10, 80, Kind.PYTHON)]
    old, new = ({"tracetui": {"torch": version}} for version in ("2.11.0", "2.12.1+cu130"))
    for metadata, listed in ((old, False), (new, True), ({}, False), ({"tracetui": {"torch": 2}}, False)):
        table = PANES["ops"].build(make_trace(slices, metadata=metadata), by="event")
        assert ("f.py(1): f" in [row["name"] for row in table.rows()]) is listed
        assert ("--by frame" in table.note) is not listed
    forced = rows_of(make_trace(slices), by="frame")
    assert forced["outer", "op"]["self_cpu_us"] == 0.02


def test_a_step_of_the_events_holds_what_was_launched_in_it() -> None:
    trace = make_trace(
        [
            step(1, 0, 100),
            step(2, 100, 100),
            launch(10, 5, 1),
            launch(110, 5, 2),
            kernel("first", 150, 10, correlation=1),
            kernel("second", 160, 20, correlation=2),
        ]
    )
    rows = rows_of(trace, by="event", step=1)
    assert ("first", "kernel") in rows
    assert ("second", "kernel") not in rows
    assert "Self CUDA time total: 0.010us." in PANES["ops"].build(trace, step=1).note


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0.000us"), (999_999, "999.999us"), (1_000_000, "1.000ms"), (1_234_567_890, "1.235s"), (-1_500, "-1.500us")],
)
def test_times_read_as_torch_prints_them(nanoseconds: int, text: str) -> None:
    assert torch_time(nanoseconds) == text


calls = st.tuples(st.integers(0, 60), st.integers(1, 40), st.booleans(), st.integers(0, 1), st.integers(0, 80))


@given(st.lists(calls, max_size=20, unique_by=lambda item: item[:2]))
def test_time_on_the_gpu_is_that_in_which_anything_launched_inside_ran(
    items: list[tuple[int, int, bool, int, int]],
) -> None:
    slices, works = [], []
    for number, (start, dur, launches, stream, delay) in enumerate(items, 1):
        if launches:
            slices.append(launch(2 * start + 1, 1, number))
            works.append((2 * start + 1, kernel("k", 2 * start + delay, dur, f"stream {stream}", correlation=number)))
        else:
            slices.append(op(f"op{number}", 2 * start, 2 * dur))
    trace = make_trace([*slices, *(work for _, work in works)] or [op("op", 0, 1)])
    union_times = gpu_union_times(trace)
    for row in trace.slices.of_kind(Kind.CPU_OP).tolist():
        children = {row}
        for other in range(row + 1, len(trace.slices)):
            if trace.slices.parent[other] in children:
                children.add(other)
        began = {int(trace.slices.start[child]) for child in children if trace.slices.kind[child] == Kind.RUNTIME}
        busy: set[int] = set()
        for moment, work in works:
            if moment in began:
                busy.update(range(work.start, work.start + work.dur))
        assert union_times[row] == len(busy)


def test_backward_work_counts_for_the_forward_op_and_what_called_it() -> None:
    forward = {"Sequence number": 3, "Fwd thread id": 0}
    backward = {"Sequence number": 3, "Fwd thread id": 1}
    trace = make_trace(
        [
            op("aten::linear", 0, 100),
            op("aten::addmm", 10, 80, args=forward),
            launch(20, 5, 1),
            op("autograd::engine::evaluate_function: AddmmBackward0", 200, 100, args=backward),
            op("AddmmBackward0", 210, 80, args=backward),
            launch(220, 5, 2),
            launch(230, 5, 3),
            kernel("gemm", 300, 10, correlation=1),
            kernel("dgrad", 400, 20, "stream 7", correlation=2),
            kernel("wgrad", 410, 20, "stream 8", correlation=3),
        ]
    )
    rows = rows_of(trace)
    for name in ("aten::linear", "aten::addmm"):
        assert (rows[name, "op"]["gpu_wall_us"], rows[name, "op"]["backward_gpu_us"]) == (0.01, 0.03)
    assert rows["AddmmBackward0", "op"]["gpu_wall_us"] == 0.03
    assert rows["AddmmBackward0", "op"]["device_total_us"] == 0.04
    assert rows["AddmmBackward0", "op"]["backward_gpu_us"] == 0.0


def linear() -> Trace:
    """One step: linear = t + addmm, and one reshape that copies beside one that does not."""
    return make_trace(
        [
            step(1, 0, 1_000),
            op("aten::linear", 100, 400),
            op("aten::t", 110, 50),
            op("aten::transpose", 120, 30),
            op("aten::addmm", 200, 200),
            launch(300, 50, 1),
            op("aten::reshape", 600, 100),
            launch(620, 10, 2),
            op("aten::reshape", 800, 100),
            Event("cudaStreamIsCapturing", 810, 10, Kind.RUNTIME, correlation=3),
            op("aten::t", 2_000, 10),
            kernel("gemm", 5_000, 10, correlation=1),
            kernel("copy", 6_000, 10, correlation=2),
        ]
    )


def test_only_calls_that_launched_nothing_inside_are_listed() -> None:
    trace = linear()
    rows = {row["name"]: row for row in PANES["views"].build(trace).rows()}
    assert set(rows) == {"aten::t", "aten::transpose", "aten::reshape"}
    assert (rows["aten::reshape"]["calls"], rows["aten::reshape"]["launched"]) == (1, 1)
    assert len(view_rows(trace)) == 5
    assert len(idle_view_rows(trace)) == 4


def test_times_and_shares() -> None:
    row = {row["name"]: row for row in PANES["views"].build(linear()).rows()}["aten::t"]
    assert (row["calls"], row["cpu_total_us"], row["self_cpu_us"]) == (2, 0.06, 0.03)
    assert (row["per_step"], row["pct_of_step_cpu"]) == (1.0, 2.0)
    assert row["metadata_only"] is True


def test_a_step_of_its_own() -> None:
    rows = {row["name"]: row["calls"] for row in PANES["views"].build(linear(), step=1).rows()}
    assert rows == {"aten::t": 1, "aten::transpose": 1, "aten::reshape": 1}


def test_a_launch_on_another_thread_at_the_same_time_does_not_count() -> None:
    trace = make_trace(
        [op("aten::view", 0, 100), launch(50, 10, 1, lane=("1", "2")), kernel("k", 200, 10, correlation=1)]
    )
    assert len(idle_view_rows(trace)) == 1


def test_without_a_gpu_only_known_views_are_listed() -> None:
    table = PANES["views"].build(make_trace([op("aten::view", 0, 10), op("aten::mm", 20, 10)]))
    assert [row["name"] for row in table.rows()] == ["aten::view"]
    assert "no GPU activity" in table.note


def test_other_ops_are_no_view_ops() -> None:
    trace = make_trace([op("aten::empty", 0, 10), launch(20, 1, 1), kernel("k", 30, 1, correlation=1)])
    assert [row["metadata_only"] for row in PANES["views"].build(trace).rows()] == [False]


@pytest.mark.parametrize("name", ["detach", "detach_"])
def test_what_a_view_op_calls_is_known_to_make_a_view_and_not_counted_with_it(name: str) -> None:
    calls = [op(f"aten::{name}", 0, 30), op(name, 10, 10), launch(50, 1, 1), kernel("k", 60, 1, correlation=1)]
    trace = make_trace(calls)
    known = {row["name"]: row["metadata_only"] for row in PANES["views"].build(trace).rows()}
    assert known == {f"aten::{name}": True, name: True}
    assert len(idle_view_rows(trace)) == 1


GRAPH = [
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", "model.py(9): project"),
    CapturedLaunch("aten::add", "add_kernel", line="model.py(1): forward"),
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_1", "model.py(9): project"),
]
NAMES = ["gemm_kernel", "add_kernel", "gemm_kernel"]
EVENTS = [
    step(1, 9_000, 9_000),
    op("aten::mm", 9_100, 50),
    annotation("decode", 9_500, 1_000),
    *replay(10_000, 91, NAMES),
    step(2, 19_000, 9_000),
    *replay(20_000, 92, NAMES),
]


def served() -> Trace:
    return replace(make_trace(EVENTS), graph_recordings=(recording([GRAPH]),))


def rows(trace: Trace, number: Part | None = None, by: str | None = None) -> list[dict[str, object]]:
    return [dict(row) for row in ops(trace, number, by).rows()]


def captured(trace: Trace, number: Part | None = None, by: str | None = None) -> list[dict[str, object]]:
    return [row for row in rows(trace, number, by) if row["kind"] == CAPTURED_OP]


def test_a_captured_operator_has_the_time_of_its_replays_and_no_calls():
    table = ops(served())
    found = {row["name"]: index for index, row in enumerate(table.rows()) if row["kind"] == CAPTURED_OP}
    assert set(found) == {"aten::mm", "aten::add"}
    row = table.row(found["aten::mm"])
    assert (row["device_total_us"], row["self_device_us"], row["kernels"]) == (0.04, 0.04, 4)
    assert (row["calls"], row["cpu_total_us"], row["gpu_wall_us"]) == (None, None, None)
    assert table["device_total_us"].is_doubtful(found["aten::mm"])
    assert "6 of 6 by capture.json" in table.note


def test_gpu_time_of_replays_that_counts_for_no_operator_is_told():
    apart = "of kernels of replayed graphs are in GPU wall alone"
    trace = make_trace(EVENTS)
    assert f"60 ns {apart}" in ops(trace).note and f"30 ns {apart}" in ops(trace, 1).note
    assert f"30 ns {apart}" in ops(trace, TimeRange(19_000, 28_000)).note
    # Each node is that of the capture, and has its time there.
    assert apart not in ops(served()).note and apart not in ops(make_trace(EVENTS[:3])).note


def test_the_rows_of_torch_stay_as_they_are():
    plain, with_captures = rows(make_trace(EVENTS)), rows(served())
    assert [row for row in with_captures if row["kind"] != CAPTURED_OP] == plain
    for by in ("event", "frame"):
        assert rows(served(), by=by) == rows(make_trace(EVENTS), by=by)


def test_a_step_has_what_was_replayed_in_it_and_call_sites_tell_rows_apart():
    assert {row["name"]: row["kernels"] for row in captured(served(), 2)} == {"aten::mm": 2, "aten::add": 1}
    half = captured(served(), TimeRange(10_505, 10_525))
    assert {row["name"]: (row["kernels"], row["device_total_us"]) for row in half} == {
        "aten::mm": (1, 0.005),
        "aten::add": (1, 0.005),
    }
    by_module = {(row["name"], row["module"]): row["kernels"] for row in captured(served(), by="module")}
    assert by_module == {("aten::mm", "Linear_0"): 2, ("aten::mm", "Linear_1"): 2, ("aten::add", None): 2}
    by_function = {(row["name"], row["function"]): row["kernels"] for row in captured(served(), by="function")}
    assert by_function == {("aten::mm", "model.py(9): project"): 4, ("aten::add", "model.py(1): forward"): 2}
