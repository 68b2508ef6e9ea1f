"""Rows of operators that were captured into graphs: what the replays cost, and nothing of torch's table changed."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import annotation, make_trace, op, step
from tests.support.captures import CapturedLaunch, recording
from tests.support.graphs import replay
from tracetui.model.intervals import Part, TimeRange
from tracetui.model.trace import Trace
from tracetui.operators.ops import CAPTURED_OP, ops

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
