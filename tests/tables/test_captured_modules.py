"""The tree of modules with those that captured graphs: sums, paths, and what the trace called itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.build import kernel, launch, make_trace, op, python
from tests.support.captures import CapturedLaunch, captured, recording
from tests.support.graphs import replay
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.tables.modules import OUTSIDE, holders

GRAPH = [
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", "model.py(9): project"),
    CapturedLaunch("aten::add", "add_kernel", line="model.py(1): forward"),
]
NAMES = ["gemm_kernel", "add_kernel"]
OWN = [
    python("nn.Module: Linear_0", 1_000, 1_000),
    op("aten::mm", 1_100, 500),
    launch(1_200, 100, 5),
    kernel("gemm_kernel", 2_000, 100, correlation=5),
    python("nn.Module: Model_0", 9_900, 500),
    *replay(10_000, 91, NAMES),
    *replay(20_000, 92, NAMES),
]


def rows(trace: Trace, by: str | None = None, step: int | None = None) -> dict[str, dict[str, Any]]:
    return {str(row["path"] or OUTSIDE): row for row in PANES["modules"].build(trace, step, by).rows()}


def served() -> Trace:
    return replace(make_trace(OWN), graph_recordings=(recording([GRAPH]),))


def test_replayed_activities_belong_to_the_module_that_captured_them():
    found = rows(served())
    assert {path: row["activities"] for path, row in found.items()} == {"Linear_0": 3, "Model_0": 1, OUTSIDE: 1}
    assert [row["gpu_us"] for row in found.values()] == [0.12, 0.01, 0.01]
    plain = rows(make_trace(OWN))
    assert {path: row["activities"] for path, row in plain.items()} == {"Linear_0": 1, "Model_0": 2, OUTSIDE: 2}
    for table in (found, plain):
        assert round(sum(row["own_gpu_us"] for row in table.values()), 6) == 0.14
    assert found["Linear_0"]["calls"] == plain["Linear_0"]["calls"] == 1


def test_a_module_that_was_called_at_capture_alone_has_no_calls_and_is_marked():
    events = [each for each in OWN if each.name not in ("nn.Module: Linear_0",)]
    table = PANES["modules"].build(replace(make_trace(events), graph_recordings=(recording([GRAPH]),)))
    paths = [row["path"] for row in table.rows()]
    assert paths == ["Model_0", "Linear_0", None]
    row = table.row(1)
    assert (row["calls"], row["cpu_us"], row["gpu_us"]) == (None, None, 0.02)
    assert [table["gpu_us"].is_doubtful(index) for index in range(3)] == [False, True, False]
    assert "2 GPU activities were replayed from graphs: they belong to the modules" in table.note
    assert [path for _, path in holders(served(), 0)][-1] == ""


def test_paths_of_the_capture_go_on_where_the_trace_has_the_same_modules():
    nested = [replace(GRAPH[0], module="Model_0"), replace(GRAPH[1], module="Model_0")]
    found = rows(replace(make_trace(OWN), graph_recordings=(recording([nested]),)))
    assert {path: row["activities"] for path, row in found.items()} == {"Linear_0": 1, "Model_0": 4}


def test_functions_of_the_capture_stand_beside_those_of_the_trace():
    found = rows(served(), "function")
    assert found["Linear_0 / project"]["activities"] == 2
    assert found["forward"]["activities"] == 2
    by_call = rows(served(), "call")
    assert "forward" not in by_call
    trace = make_trace([*captured([GRAPH]), *replay(10_000, 91, NAMES)])
    assert {path: row["activities"] for path, row in rows(trace).items()} == {"Linear_0": 1, OUTSIDE: 1}


def test_the_holder_of_a_replayed_activity_is_what_captured_it():
    trace = served()
    row = next(
        row
        for row in range(len(trace.slices))
        if trace.name_of(row) == "gemm_kernel" and trace.slices.start[row] > 9_000
    )
    assert [path for _, path in holders(trace, row)] == ["Linear_0", ""]
    assert [path for _, path in holders(make_trace(OWN), row)] == ["Model_0", ""]
    assert [path for _, path in holders(trace, row, "function")] == ["Linear_0 / project", "Linear_0", ""]
