"""Occupancy queries: which calls they are and which kernel they were asked for."""

from __future__ import annotations

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.analysis.panes import PANES
from tracetui.model.trace import Kind, Trace

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
    assert "5 queries, 0.0 µs in all, 4.9 % of the CPU time" in table.note


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
