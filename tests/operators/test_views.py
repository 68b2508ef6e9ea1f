"""Ops that put nothing on the GPU."""

from __future__ import annotations

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.model.trace import Kind, Trace
from tracetui.operators.views import idle_view_rows, view_rows
from tracetui.panes import PANES


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
