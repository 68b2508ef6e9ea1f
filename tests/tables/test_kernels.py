"""The kernels pane: its rows and groupings, Tensor Cores, and the work behind rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.checking.row_filter import kept_rows
from tracetui.devices.residency import configuration
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.links import links
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.tables.kernels import row_families, step_times

GEMM_ARGS = {
    "grid": [64, 2, 1],
    "block": [128, 1, 1],
    "registers per thread": 90,
    "shared memory": 49_152,
    "est. achieved occupancy %": 0,
}


def trace_of_two_steps() -> Trace:
    return make_trace(
        [
            step(1, 0, 10_000),
            step(2, 10_000, 10_000),
            Event("forward", 50, 5_000, Kind.ANNOTATION),
            op("aten::mm", 100, 1_000),
            launch(200, 100, 1),
            launch(400, 100, 2, "cudaMemcpyAsync"),
            launch(11_000, 100, 3, "cudaGraphLaunch"),
            kernel("void gemm<float>(int)", 1_000, 300, correlation=1, args=GEMM_ARGS),
            Event("Memcpy HtoD", 1_200, 50, Kind.MEMCPY, ("0", "stream 13"), correlation=2),
            kernel("void gemm<float>(int)", 12_000, 100, correlation=3, args={"grid": "?", "block": [1, 2]}),
            kernel("b", 12_100, 500, correlation=3),
            kernel("lost", 13_000, 200, correlation=4),
        ]
    )


def test_a_row_holds_what_the_trace_says() -> None:
    row = PANES["kernels"].build(trace_of_two_steps()).row(0)
    assert (
        row
        | {
            "index": 1,
            "step": 1,
            "kind": "kernel",
            "name": "void gemm<float>(int)",
            "family": "gemm",
            "start_us": 1.0,
            "dur_us": 0.3,
            "device": 0,
            "stream": 7,
            "grid": "64x2x1",
            "block": "128x1x1",
            "registers": 90,
            "shared_bytes": 49_152,
            "occupancy_pct": None,
            "kineto_occupancy_pct": 0,
            "correlation": 1,
            "op": "aten::mm",
            "annotation": "forward",
            "launch_start_us": 0.2,
            "launch_delay_us": 0.8,
            "gap_before_us": None,
            "waves": None,
            "bound": None,
        }
        == row
    )


def test_rows_are_numbered_within_their_step_and_carry_their_kind() -> None:
    table = PANES["kernels"].build(trace_of_two_steps())
    assert [(row["step"], row["index"], row["kind"]) for row in table.rows()] == [
        (1, 1, "kernel"),
        (1, 2, "memcpy"),
        (2, 1, "kernel"),
        (2, 2, "kernel"),
        (None, 1, "kernel"),
    ]
    assert "1 GPU activities have no launch record" in table.note


def test_a_gap_is_time_in_which_the_whole_device_ran_nothing() -> None:
    table = PANES["kernels"].build(trace_of_two_steps())
    assert [row["gap_before_us"] for row in table.rows()] == [None, 0.0, 10.7, 0.0, 0.4]


def test_only_the_first_node_of_a_graph_has_a_launch_delay() -> None:
    table = PANES["kernels"].build(trace_of_two_steps(), step=2)
    assert [row["launch_delay_us"] for row in table.rows()] == [1.0, None]
    assert [row["grid"] for row in table.rows()] == [None, None]


def test_groups_by_name_sum_and_jump_to_the_longest() -> None:
    trace = trace_of_two_steps()
    table = PANES["kernels"].build(trace, by="name")
    row = {row["name"]: row for row in table.rows()}["void gemm<float>(int)"]
    assert (row["calls"], row["total_us"], row["mean_us"], row["min_us"], row["median_us"], row["max_us"]) == (
        2,
        0.4,
        0.2,
        0.1,
        0.2,
        0.3,
    )
    assert table["pct"].values.sum() == pytest.approx(100)
    assert table.slices is not None
    place = [row["name"] for row in table.rows()].index("void gemm<float>(int)")
    assert trace.slices.start[table.slices[place]] == 1_000
    assert table.row(0)["name"] == "b"


def test_without_gpu_work_the_table_is_empty_and_says_how_to_record_it() -> None:
    table = PANES["kernels"].build(make_trace([op("aten::mm", 0, 10)]))
    assert len(table) == 0
    assert "ProfilerActivity.CUDA" in table.note
    assert len(PANES["kernels"].build(make_trace([]), by="name")) == 0


def test_rocm_writes_the_grid_on_the_launch_and_some_calls_count_threads() -> None:
    sizes = {"grid": [1000, 4, 1], "block": [256, 1, 1]}
    trace = make_trace(
        [
            launch(0, 10, 1, "hipExtModuleLaunchKernel", args=sizes),
            launch(20, 10, 2, "hipLaunchKernel", args=sizes),
            kernel("a", 100, 10, correlation=1),
            kernel("b", 200, 10, correlation=2),
        ]
    )
    table = PANES["kernels"].build(trace)
    assert [(row["grid"], row["block"]) for row in table.rows()] == [("4x4x1", "256x1x1"), ("1000x4x1", "256x1x1")]


def test_a_kernel_may_say_itself_how_many_threads_it_has() -> None:
    sizes = {"grid": [65536, 1, 1], "block": [256, 1, 1]}
    calls = [launch(0, 10, 1, "hipExtModuleLaunchKernel"), launch(20, 10, 2, "hipLaunchKernel")]
    work = [kernel(name, 100 * i, 10, correlation=i, args=sizes) for i, name in ((1, "a"), (2, "b"))]
    assert [row["grid"] for row in PANES["kernels"].build(make_trace([*calls, *work])).rows()] == [
        "256x1x1",
        "65536x1x1",
    ]


def test_grids_that_are_no_list_of_numbers_are_absent() -> None:
    shapes = [[1, 2, 3], [], [1, 2, 3, 4], [[1]], ["1"], "x", {"a": 1}, [1, 2, 3]]
    trace = make_trace([kernel("k", 10 * i, 5, args={"grid": shape}) for i, shape in enumerate(shapes)])
    column = configuration(trace, links(trace).gpu).columns()[0]
    assert [column.cell(row) for row in range(len(shapes))] == ["1x2x3", *[None] * 3, "1", None, None, "1x2x3"]


TENSOR = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
SIMT = "volta_sgemm_128x64_nn"


def made():
    copy = Event("Memcpy HtoD", 300, 50, Kind.MEMCPY, ("0", "7"))
    return make_trace([kernel(TENSOR, 0, 100), kernel(SIMT, 100, 40), kernel("my_kernel", 200, 10), copy])


def test_what_a_name_tells():
    table = PANES["kernels"].build(made())
    assert [row["tensor_cores"] for row in table.rows()] == ["yes", "no", None, None]
    assert kept_rows(table, "tensor_cores == yes").tolist() == [True, False, False, False]


def test_their_time():
    table = PANES["kernels"].build(made(), by="tensor_cores")
    assert {row["tensor_cores"]: row["total_us"] for row in table.rows()} == {"yes": 0.1, "unknown": 0.06, "no": 0.04}


def _trace() -> Trace:
    """Four steps; in the third the copy takes three times as long."""
    events = []
    for number in range(4):
        at = number * 10_000
        events.append(step(number + 1, at, 9_000))
        for index, (name, called, dur) in enumerate(
            (("ampere_sgemm_128x64_nn", "aten::mm", 400), ("my_kernel", "aten::copy_", 900 if number == 2 else 300))
        ):
            start, correlation = at + 1_000 + index * 2_000, number * 10 + index + 1
            events += [op(called, start, 500), launch(start + 100, 50, correlation)]
            events.append(kernel(name, start + 300, dur, correlation=correlation))
    return make_trace(events)


@pytest.mark.parametrize(("pane", "by", "value"), [("ops", None, "self_device_us"), ("kernels", "name", "total_us")])
@pytest.mark.parametrize("part", [None, 3])
def test_the_times_by_step_are_those_of_the_panes(pane: str, by: str | None, value: str, part: int | None) -> None:
    """Of the step that is listed the value of the cell, of all steps together their sum."""
    trace = _trace()
    table = PANES[pane].build(trace, part, by)
    times = step_times(trace, pane, by, table)
    assert times is not None
    listed = times.sum(axis=1) if part is None else times[:, part - 1]
    assert np.allclose(listed, np.nan_to_num(table[value].values))
    assert times.max() == pytest.approx(0.9)


def test_a_row_has_the_family_that_most_of_its_time_is() -> None:
    trace = _trace()
    table = PANES["ops"].build(trace)
    found = row_families(trace, "ops", None, table)
    assert found is not None
    by_name = {str(table["name"].cell(row)): int(found[row]) for row in range(len(table))}
    assert by_name["aten::mm"] == Family.GEMM
    assert by_name["ProfilerStep*"] == -1
