"""Links of launches with GPU activities, and regions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.traces import loaded
from tracetui.linking.chains import chain, dispatch_cost, first_activity, follow, follow_back
from tracetui.linking.links import activities_between, innermost_around, links, op_rows, region
from tracetui.model.trace import Kind, Trace


def row_of(trace: Trace, name: str) -> int:
    """The first row of a name."""
    return int((trace.slices.name == trace.names.find(name)).argmax())


def name_or_none(trace: Trace, row: int) -> str | None:
    return trace.name_of(row) if row >= 0 else None


def linear() -> Trace:
    """An annotation with two ops, each in its parent, and their kernels."""
    return make_trace(
        [
            Event("forward", 0, 1_000, Kind.ANNOTATION),
            Event("model.py(3): call", 5, 900, Kind.PYTHON),
            op("aten::linear", 10, 800, external=1),
            op("aten::t", 20, 50, external=2),
            op("aten::addmm", 100, 600, external=3),
            Event("cudaOccupancyMaxActiveBlocks", 150, 5, Kind.RUNTIME, correlation=10),
            launch(200, 50, 11, external=3),
            kernel("gemm", 400, 100, correlation=11, external=3),
            kernel("lost", 600, 10, correlation=77),
        ]
    )


def test_launch_and_kernel_are_joined_by_correlation() -> None:
    trace = linear()
    found = links(trace)
    call, gemm = row_of(trace, "cudaLaunchKernel"), row_of(trace, "gemm")
    assert found.launch[gemm] == call
    assert found.kernels_of(call).tolist() == [gemm]
    assert found.kernels_of(row_of(trace, "cudaOccupancyMaxActiveBlocks")).tolist() == []
    assert found.launch[row_of(trace, "lost")] == -1
    assert found.launches.tolist() == [call]


def test_the_chain_goes_from_the_outermost_slice_to_the_kernel() -> None:
    trace = linear()
    names = ["forward", "model.py(3): call", "aten::linear", "aten::addmm", "cudaLaunchKernel", "gemm"]
    assert [trace.name_of(row) for row in chain(trace, row_of(trace, "gemm"))] == names
    assert [trace.name_of(row) for row in chain(trace, row_of(trace, "cudaLaunchKernel"))] == names
    assert [trace.name_of(row) for row in chain(trace, row_of(trace, "aten::t"))] == [*names[:3], "aten::t"]
    assert [trace.name_of(row) for row in chain(trace, row_of(trace, "lost"))] == ["lost"]


def test_follow_goes_round() -> None:
    trace = linear()
    row = row_of(trace, "gemm")
    seen = []
    for _ in range(3):
        row = follow(trace, row)
        seen.append(trace.name_of(row))
    assert seen == ["cudaLaunchKernel", "aten::addmm", "gemm"]
    assert follow(trace, row_of(trace, "lost")) == -1
    assert follow(trace, row_of(trace, "aten::t")) == -1
    assert trace.name_of(follow(trace, row_of(trace, "forward"))) == "gemm"


def test_follow_back_goes_down_to_the_kernel() -> None:
    trace = linear()
    gemm = row_of(trace, "gemm")
    assert follow_back(trace, row_of(trace, "cudaLaunchKernel")) == gemm
    assert follow_back(trace, row_of(trace, "aten::addmm")) == gemm
    assert follow_back(trace, gemm) == -1


def test_a_launch_costs_the_way_to_the_call_and_the_call() -> None:
    trace = linear()
    cost = dispatch_cost(trace, row_of(trace, "gemm"))
    assert cost is not None
    assert (trace.name_of(cost.op), cost.before, cost.call) == ("aten::linear", 190, 50)
    assert dispatch_cost(trace, row_of(trace, "cudaLaunchKernel")) == cost
    assert dispatch_cost(trace, row_of(trace, "aten::addmm")) is None
    assert dispatch_cost(trace, row_of(trace, "lost")) is None


def test_the_step_of_an_old_trace_is_not_where_a_launch_begins() -> None:
    events = [op("ProfilerStep#1", 0, 900), op("aten::mm", 100, 500), launch(150, 10, 1)]
    trace = make_trace([*events, kernel("gemm", 400, 10, correlation=1)])
    cost = dispatch_cost(trace, row_of(trace, "gemm"))
    assert cost is not None
    assert (trace.name_of(cost.op), cost.before) == ("aten::mm", 50)


def test_the_first_work_of_a_slice_is_the_earliest_to_run() -> None:
    trace = make_trace(
        [
            op("outer", 0, 100),
            launch(10, 5, 1),
            launch(20, 5, 2),
            kernel("slow", 500, 10, correlation=1),
            kernel("fast", 50, 10, "stream 8", correlation=2),
        ]
    )
    assert trace.name_of(first_activity(trace, row_of(trace, "outer"))) == "fast"


def test_external_ids_that_repeat_the_correlation_are_ignored() -> None:
    trace = make_trace(
        [
            op("aten::mm", 0, 100, external=11),
            op("aten::add", 200, 100, external=99),
            launch(210, 10, 11, external=11),
            kernel("add", 400, 10, correlation=11, external=11),
        ]
    )
    found = links(trace)
    assert not found.trusted
    assert name_or_none(trace, int(found.owner[row_of(trace, "add")])) == "aten::add"


def test_a_trusted_external_id_names_the_owner_even_on_another_thread() -> None:
    trace = make_trace(
        [
            op("aten::mm", 0, 100, external=5),
            launch(20, 10, 11, lane=("1", "2")),
            kernel("gemm", 400, 10, correlation=11, external=5),
        ]
    )
    found = links(trace)
    assert found.trusted
    assert name_or_none(trace, int(found.owner[row_of(trace, "gemm")])) == "aten::mm"
    assert found.owner[row_of(trace, "cudaLaunchKernel")] == -1


def test_an_external_id_of_an_op_that_begins_later_is_not_believed() -> None:
    trace = make_trace(
        [
            op("aten::mm", 0, 100, external=4),
            op("later", 500, 10, external=5),
            launch(20, 10, 11),
            kernel("gemm", 400, 10, correlation=11, external=5),
        ]
    )
    assert name_or_none(trace, int(links(trace).owner[row_of(trace, "gemm")])) == "aten::mm"


def test_work_of_a_graph_is_owned_by_the_op_around_the_replay() -> None:
    trace = make_trace(
        [
            op("captured", 0, 10, external=3),
            op("replay", 100, 100, external=4),
            launch(120, 20, 9, "cudaGraphLaunch"),
            kernel("one", 200, 10, correlation=9, external=3),
            kernel("two", 220, 10, correlation=9, external=3),
        ]
    )
    found = links(trace)
    assert found.counts.tolist() == [2]
    assert {name_or_none(trace, int(found.owner[row])) for row in found.gpu.tolist()} == {"replay"}


def test_the_owner_survives_an_annotation_that_overlaps_it() -> None:
    trace = make_trace(
        [
            op("aten::mm", 0, 20_000),
            Event("async", 10_000, 40_000, Kind.ANNOTATION),
            launch(15_000, 1_000, 1),
            kernel("gemm", 60_000, 10, correlation=1),
        ]
    )
    found, gemm = links(trace), row_of(trace, "gemm")
    assert name_or_none(trace, int(found.owner[gemm])) == "aten::mm"
    assert name_or_none(trace, int(found.annotation[gemm])) == "async"


def test_a_step_is_neither_owner_nor_annotation() -> None:
    trace = make_trace(
        [
            Event("ProfilerStep#1", 0, 1_000, Kind.CPU_OP),
            launch(20, 10, 1),
            kernel("gemm", 400, 10, correlation=1),
        ]
    )
    assert links(trace).owner[row_of(trace, "gemm")] == -1


def test_processes_merged_into_one_file_may_use_the_same_ids() -> None:
    trace = make_trace(
        [
            launch(100, 10, 1, lane=("10", "10")),
            launch(300, 10, 2, lane=("10", "10")),
            launch(1_100, 10, 1, lane=("20", "20")),
            launch(1_300, 10, 2, lane=("20", "20")),
            Event("first a", 150, 10, Kind.KERNEL, ("0", "7"), correlation=1),
            Event("first b", 350, 10, Kind.KERNEL, ("0", "7"), correlation=2),
            Event("second a", 1_150, 10, Kind.KERNEL, ("1", "7"), correlation=1),
            Event("second b", 1_350, 10, Kind.KERNEL, ("1", "7"), correlation=2),
        ]
    )
    found = links(trace)
    starts = [int(trace.slices.start[found.launch[row]]) for row in found.gpu.tolist()]
    assert starts == [100, 300, 1_100, 1_300]


def test_a_trace_without_slices_has_no_links() -> None:
    assert len(links(make_trace([])).gpu) == 0


SOUND = [
    ("d06_h100_stack_mem.json.gz", 5_165),
    ("d07_mi300x_8rank_3steps_stack.json.gz", 2_685),
    ("d08_b200_cuda13_ep_moe.json", 900),
    ("d16_b300_tiny.json.gz", 42),
]


@pytest.mark.parametrize(("name", "launched"), SOUND)
def test_the_op_around_a_launch_is_the_one_that_the_external_id_names(
    shared_trace: Callable[[str], Path], name: str, launched: int
) -> None:
    trace = loaded(shared_trace(name))
    slices, found = trace.slices, links(trace)
    ops = {int(slices.external[row]): row for row in op_rows(trace).tolist()}
    rows = [row for row in found.gpu.tolist() if found.launch[row] >= 0 and int(slices.external[row]) in ops]
    contained = innermost_around(trace, slices.of_kind(Kind.RUNTIME), op_rows(trace))
    assert len(rows) == launched
    assert [int(contained[found.launch[row]]) for row in rows] == [ops[int(slices.external[row])] for row in rows]
    assert [int(found.owner[row]) for row in rows] == [ops[int(slices.external[row])] for row in rows]


def test_activities_of_a_stretch_of_time_are_those_that_ran_in_it() -> None:
    # The first outlasts the second, so that ends do not ascend.
    times = ((0, 100), (10, 5), (50, 1), (100, 10), (200, 10))
    trace = make_trace([kernel(f"k{start}", start, dur, f"stream {start}") for start, dur in times])
    for low, high in ((0, 1), (20, 30), (100, 101), (60, 205), (110, 200), (300, 400)):
        ran = [f"k{start}" for start, dur in times if start < high and start + dur > low]
        assert [trace.name_of(row) for row in activities_between(trace, low, high).tolist()] == ran


def test_activities_of_a_call_count_for_each_of_them() -> None:
    trace = make_trace(
        [launch(0, 5, 1), kernel("a", 10, 5, correlation=1), kernel("b", 20, 5, correlation=1), op("c", 30, 1)]
    )
    joined = links(trace)
    assert joined.launched_together(joined.gpu).tolist() == [2, 2]
    assert joined.launched_together(op_rows(trace)).tolist() == [0]


def test_work_counts_where_it_was_launched_and_without_launch_where_it_ran() -> None:
    trace = make_trace(
        [
            Event("forward", 100, 100, Kind.ANNOTATION),
            launch(90, 20, 1),
            launch(150, 10, 2, lane=("1", "2")),
            launch(160, 10, 3, lane=("9", "9")),
            launch(200, 10, 4),
            kernel("before", 120, 10, correlation=1),
            kernel("mine", 300, 10, correlation=2),
            kernel("of another process", 320, 10, correlation=3),
            kernel("after", 340, 10, correlation=4),
            kernel("alone", 180, 10, "stream 9"),
            kernel("alone, later", 400, 10, "stream 9"),
        ]
    )
    found = region(trace, int((trace.slices.kind == Kind.ANNOTATION).argmax()))
    assert [trace.name_of(row) for row in found.rows.tolist()] == ["alone", "mine"]
    assert found.inferred.tolist() == [True, False]
    assert (found.start, found.end, found.span, found.busy) == (180, 310, 130, 20)


def test_a_region_without_work() -> None:
    found = region(make_trace([Event("forward", 100, 100, Kind.ANNOTATION)]), 0)
    assert (len(found.rows), found.span, found.busy) == (0, 0, 0)


def test_four_variants_of_the_fusion_puzzle(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    tops = [trace.names.find(name) for name in ("fusion.py(201): unfused", "fusion.py(225): fused")]
    rows = np.flatnonzero(np.isin(trace.slices.name, tops))
    rows = rows[np.argsort(trace.slices.start[rows])]
    found = [region(trace, row) for row in rows.tolist()]
    assert [len(part.rows) for part in found] == [36, 5, 19, 4]
    assert [part.span // 1000 for part in found] == [1613, 191, 634, 157]
    assert [part.busy // 1000 for part in found] == [188, 66, 95, 26]
    assert [int(part.inferred.sum()) for part in found] == [0, 0, 17, 2]
