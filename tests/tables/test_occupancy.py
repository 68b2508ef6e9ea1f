"""The panes of occupancy and of launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.traces import loaded
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.tables.launches import PANE

QUERY = "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"


def query(start: int, name: str = QUERY, lane: tuple[str, str] = ("1", "1")) -> Event:
    return Event(name, start, 2, Kind.RUNTIME, lane)


def trace_of_queries() -> Trace:
    return make_trace(
        [
            op("aten::mm", 0, 100),
            query(10),
            query(20, "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"),
            launch(30, 5, 1, "cudaMemsetAsync"),
            launch(40, 5, 2),
            query(50),
            op("aten::add", 200, 100),
            launch(210, 5, 3),
            query(400),
            Event("cudaFuncSetAttribute", 500, 2, Kind.RUNTIME),
            query(220, lane=("1", "2")),
            Event("Memset (Device)", 900, 5, Kind.MEMSET, ("0", "7"), correlation=1),
            kernel("gemm", 1_000, 50, correlation=2, args={"registers per thread": 64, "block": [256, 1, 1]}),
            kernel("add", 1_100, 50, correlation=3),
        ]
    )


def test_a_query_belongs_to_the_next_kernel_launch_of_its_op() -> None:
    table = PANES["occupancy"].build(trace_of_queries())
    assert [(row["start_us"], row["op"], row["kernel"]) for row in table.rows()] == [
        (0.01, "aten::mm", "gemm"),
        (0.02, "aten::mm", "gemm"),
        (0.05, "aten::mm", None),
        (0.22, None, None),
        (0.4, None, None),
    ]
    assert (table.row(0)["registers"], table.row(0)["block"], table.row(0)["index"]) == (64, "256x1x1", 1)
    assert table.row(2)["registers"] is None
    # 5 queries of 2 ns; two ops of 100 ns, of which launches and queries are parts, and 6 ns of calls outside of them.
    assert "5 queries, 10 ns in all, 4.9 % of the CPU time" in table.note


def test_by_op_counts_queries_for_each_launch() -> None:
    table = PANES["occupancy"].build(trace_of_queries(), by="op")
    row = next(row for row in table.rows() if row["kernel"] == "gemm")
    assert (row["op"], row["queries"], row["launches"], row["queries_per_launch"]) == ("aten::mm", 2, 1, 2.0)
    without = next(row for row in table.rows() if row["op"] == "aten::mm" and row["kernel"] is None)
    assert (without["queries"], without["launches"]) == (1, None)


def test_none_is_a_normal_answer() -> None:
    trace = make_trace([launch(0, 5, 1), kernel("nvjet", 10, 5, correlation=1)])
    for by in (None, "op"):
        table = PANES["occupancy"].build(trace, by=by)
        assert len(table) == 0
        assert "normal" in table.note


def small(*events: Event) -> Trace:
    """Queries beside a launch of `gemm` at 400 by `aten::mm`."""
    return make_trace([*events, launch(400, 5, 1), kernel("gemm", 1_000, 50, correlation=1)])


def kernels_of(trace: Trace) -> list[object]:
    """The kernel of every query, in the order of time."""
    return [row["kernel"] for row in PANES["occupancy"].build(trace).rows()]


def test_what_no_op_asked_belongs_to_no_launch_that_no_op_made() -> None:
    assert kernels_of(small(query(390))) == [None]


def test_another_op_s_launch_is_not_what_was_asked_for() -> None:
    assert kernels_of(small(op("aten::mm", 300, 50), query(310), op("aten::add", 390, 50), query(395))) == [
        None,
        "gemm",
    ]


def test_behind_the_last_launch_of_a_thread_there_is_none() -> None:
    """The query is the last call of the last thread; its op did launch before."""
    assert kernels_of(small(op("aten::mm", 300, 500), query(310), query(500))) == ["gemm", None]


def test_a_kernel_that_was_asked_about_for_each_of_two_launches() -> None:
    """3 queries of 2 ns before 2 launches of one kernel by one op: 6 ns in all, 3 ns and one and a half a launch."""
    trace = make_trace(
        [
            *(op("aten::mm", start, 100) for start in (0, 200)),
            *(query(start) for start in (10, 20, 210)),
            launch(30, 5, 1),
            launch(230, 5, 2),
            op("aten::big", 400, 100),
            Event(QUERY, 410, 50, Kind.RUNTIME),
            *(kernel("gemm", 1_000 * number, 50, correlation=number) for number in (1, 2)),
        ]
    )
    table = PANES["occupancy"].build(trace, by="op")
    columns = ("op", "kernel", "queries", "launches", "queries_per_launch", "total_us", "us_per_launch")
    assert [tuple(row[name] for name in columns) for row in table.rows()] == [
        ("aten::big", None, 1, None, None, 0.05, None),
        ("aten::mm", "gemm", 3, 2, 1.5, 0.006, 0.003),
    ]
    assert [trace.slices.start[row] for row in table.slices.tolist()] == [410, 10]  # type: ignore[union-attr]


def test_an_op_with_a_kernel_is_told_apart_from_the_same_op_without_one() -> None:
    """The kernel stands first in the trace, so that its name has the number 0."""
    trace = make_trace(
        [
            kernel("first", 1_000, 50, correlation=1),
            op("aten::a", 0, 100),
            op("aten::b", 5, 20),
            query(12),
            query(40),
            launch(50, 5, 1),
            query(60),
        ]
    )
    rows = PANES["occupancy"].build(trace, by="op").rows()
    told = {(row["op"], row["kernel"], row["launches"]) for row in rows}
    assert told == {("aten::a", "first", 1), ("aten::a", None, None), ("aten::b", None, None)}


def test_where_no_kernel_has_a_launch_none_was_asked_for() -> None:
    assert kernels_of(make_trace([op("aten::mm", 0, 100), query(10), kernel("k", 200, 10)])) == [None]


def test_the_note_sums_up_the_time_of_the_queries() -> None:
    """2 queries of 2 ms in an op of 40 ms are 4 ms and 10 %."""
    asked = [Event(QUERY, start, 2_000_000, Kind.RUNTIME) for start in (1_000_000, 5_000_000)]
    trace = make_trace([op("aten::mm", 0, 40_000_000), *asked, kernel("k", 100_000, 10)])
    assert "2 queries, 4.00 ms in all, 10.0 % of the CPU time" in PANES["occupancy"].build(trace).note


def test_without_a_gpu_the_note_says_so() -> None:
    assert "queries" not in PANES["occupancy"].build(make_trace([query(0)])).note


def test_queries_are_grouped_by_the_function_that_made_them(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("d10_cudagraph_stack.json"))
    pane, by = PANES["occupancy"], "function"
    rows, groups = pane.build(trace), pane.build(trace, by=by)
    assert len(rows) > 0 and by in pane.offered(trace)
    assert {row[by] for row in groups.rows()} == {row[by] for row in rows.rows()}
    assert groups["queries"].values.sum() == len(rows)
    assert groups["total_us"].values.sum() == pytest.approx(rows["dur_us"].values.sum())


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
