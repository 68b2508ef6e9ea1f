"""Calls that put work on the GPU."""

from __future__ import annotations

from tests.support.build import kernel, launch, make_trace, op
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.tables.launches import PANE


def queue_of_three() -> Trace:
    return make_trace(
        [
            op("aten::mm", 0, 100),
            launch(10, 5, 1),
            launch(20, 5, 2),
            launch(300, 5, 3, "cudaGraphLaunch"),
            launch(400, 5, 4),
            kernel("a", 100, 50, correlation=1),
            kernel("b", 150, 200, correlation=2),
            kernel("c", 350, 10, correlation=3),
            kernel("d", 360, 10, correlation=3),
        ]
    )


def test_a_launch_is_whatever_has_gpu_work() -> None:
    table = PANES["launches"].build(queue_of_three())
    assert [(row["api"], row["op"], row["kernels"], row["kernel"], row["delay_us"]) for row in table.rows()] == [
        ("cudaLaunchKernel", "aten::mm", 1, "a", 0.09),
        ("cudaLaunchKernel", "aten::mm", 1, "b", 0.13),
        ("cudaGraphLaunch", None, 2, "c", 0.05),
    ]
    assert "1 launch calls have no GPU activity" in table.note


def test_the_queue_holds_what_was_launched_and_has_not_started() -> None:
    table = PANES["launches"].build(queue_of_three())
    assert [row["queue_depth"] for row in table.rows()] == [1, 2, 1]


def test_groups_by_call() -> None:
    table = PANES["launches"].build(queue_of_three(), by="name")
    assert [(row["api"], row["calls"], row["kernels"], row["median_delay_us"]) for row in table.rows()] == [
        ("cudaLaunchKernel", 2, 2, 0.11),
        ("cudaGraphLaunch", 1, 2, 0.05),
    ]


def test_a_delay_is_the_stream_at_work_and_the_dispatch() -> None:
    table = PANES["launches"].build(queue_of_three())
    found = [(row["queue_delay_us"], row["stream_wait_us"], row["dispatch_us"], row["stream"]) for row in table.rows()]
    assert found == [(0.085, 0.0, 0.085, 7), (0.125, 0.125, 0.0, 7), (0.045, 0.045, 0.0, 7)]


def test_work_that_begins_inside_its_call_has_not_waited() -> None:
    trace = make_trace([launch(0, 100, 1), kernel("a", 40, 50, correlation=1)])
    (row,) = PANES["launches"].build(trace).rows()
    assert (row["delay_us"], row["queue_delay_us"], row["stream_wait_us"], row["dispatch_us"]) == (0.04, 0, 0, 0)


def test_work_that_overlaps_in_its_stream_did_not_wait_for_its_end() -> None:
    trace = make_trace(
        [launch(0, 5, 1), launch(10, 5, 2), kernel("a", 20, 100, correlation=1), kernel("b", 60, 5, correlation=2)]
    )
    second = PANES["launches"].build(trace).row(1)
    assert (second["queue_delay_us"], second["stream_wait_us"], second["dispatch_us"]) == (0.045, 0.045, 0.0)


def test_a_graph_launch_is_spread_over_its_nodes() -> None:
    table = PANES["launches"].build(queue_of_three())
    assert [row["overhead_us"] for row in table.rows()] == [0.005, 0.005, 0.0025]


def test_groups_by_op_and_by_stream() -> None:
    ops = PANES["launches"].build(queue_of_three(), by="op")
    assert [(row["op"], row["calls"], row["median_queue_delay_us"]) for row in ops.rows()] == [
        ("aten::mm", 2, 0.105),
        (None, 1, 0.045),
    ]
    trace = make_trace(
        [
            launch(0, 5, 1),
            launch(10, 50, 2),
            kernel("a", 20, 10, correlation=1),
            kernel("b", 80, 5, "stream 9", correlation=2),
        ]
    )
    streams = PANES["launches"].build(trace, by="stream")
    assert [(row["stream"], row["calls"], row["total_us"]) for row in streams.rows()] == [(9, 1, 0.05), (7, 1, 0.005)]


def test_groups_by_call_site_have_the_columns_of_the_other_groupings() -> None:
    for grouping in PANE.groupings:
        names = grouping.columns.split()
        assert names[0] in (grouping.name, "op")
        assert {"calls", "kernels", "total_us", "mean_us", "max_us"} <= set(names)
