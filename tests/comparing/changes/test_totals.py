"""The table of totals: medians, scatters and differences of every measure, and what stands for nothing."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest

from tests.support.build import launch, make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.comparing.played import trace_of
from tests.support.comparing.recording import Call, Work
from tests.support.traces import loaded
from tracetui.comparing.change_rows import paired, totals
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import Change
from tracetui.comparing.side import side
from tracetui.model.trace import Trace


def rows(a: Trace, b: Trace, scope_a: str = "", scope_b: str = ""):
    return {str(row["measure"]): row for row in totals(side(a, scope_a), side(b, scope_b)).rows()}


def without_gpu() -> Trace:
    return make_trace([step(1, 0, 1000), op("aten::mm", 10, 500), step(2, 2000, 1000), op("aten::mm", 2010, 500)])


def test_every_measure_by_a_plain_script():
    a, b = tutorial.mlp(jitter=0.1, steps=5), tutorial.mlp(tutorial.COMPILED, jitter=0.1, steps=3, seed=3)
    found = rows(a, b)
    left, right = measures(side(a)), measures(side(b))
    for name in left.keys() & right.keys():
        before, after = left[name].values.tolist(), right[name].values.tolist()
        if any(map(math.isnan, before)):
            continue
        row = found[name]
        assert (row["a"], row["b"]) == pytest.approx((median(before), median(after)))
        assert row["difference"] == pytest.approx(median(after) - median(before))
        assert row["b_scatter"] == pytest.approx(max(after) - min(after))
        assert row["ratio"] == pytest.approx(median(after) / median(before)) if median(before) else row["ratio"] is None


def test_gpu_and_cpu_stand_apart():
    found = rows(tutorial.linear(), tutorial.linear(tutorial.COMPILED))
    assert (found["gpu_busy_us"]["change"], found["cpu_us"]["change"]) == ("same", "more")
    assert (found["kernels"]["a"], found["kernels"]["b"], found["kernels"]["change"]) == (1, 1, "same")


def test_what_a_scatter_is_depends_on_how_many_parts_there_are():
    few, many = tutorial.mlp(jitter=0.1, steps=3), tutorial.mlp(jitter=0.1, steps=5, seed=3)
    busy = measures(side(many))["gpu_busy_us"].values
    quartiles, reach = np.subtract(*np.percentile(busy, [75, 25])), np.ptp(busy)
    assert rows(few, many)["gpu_busy_us"]["b_scatter"] == pytest.approx(quartiles)
    assert rows(few, many, "2")["gpu_busy_us"]["b_scatter"] == pytest.approx(reach)
    assert quartiles < reach
    help = totals(side(few), side(many))["b_scatter"].help
    assert "quartiles" in help and "the largest" in help


def test_a_family_that_does_not_occur_is_nothing():
    found = rows(tutorial.matmul_add(), tutorial.matmul_add(tutorial.COMPILED))
    assert (found["pointwise_us"]["b"], found["pointwise_us"]["change"]) == (0, "less")
    assert (found["copy_us"]["a"], found["copy_us"]["change"]) == (0, "more")
    assert found["copy_us"]["ratio"] is None


def test_a_side_without_a_gpu_does_not_have_its_measures():
    found = rows(without_gpu(), tutorial.mlp())
    assert found["gpu_busy_us"]["a"] is None
    assert found["gpu_busy_us"]["change"] == Change.UNKNOWN.value
    assert found["gemm_us"]["a"] is None
    assert found["moved_bytes"]["a"] is None


def test_what_neither_side_has_is_left_out():
    found = rows(without_gpu(), without_gpu())
    assert "gpu_busy_us" not in found
    assert "moved_bytes" not in found
    assert found["view_ops"]["a"] == 0


def test_bytes_of_little_of_the_work_are_not_compared(shared_trace):
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    found = rows(trace, trace, "unfused[1]", "unfused[2]")
    assert found["moved_bytes"]["b"] < found["moved_bytes"]["a"]
    assert found["moved_known_pct"]["b"] < 90
    assert found["moved_bytes"]["change"] == Change.WITHIN_NOISE.value
    assert found["moved_bytes"]["remark"] == "known of 93 % and 13 % of the GPU time"
    assert found["moved_known_pct"]["remark"] is None
    assert rows(tutorial.mlp(), tutorial.mlp(tutorial.COMPILED))["moved_bytes"]["change"] == "less"


def test_equal_bytes_of_little_of_the_work_are_not_called_the_same():
    def program(shapes: bool) -> Trace:
        known = Call("aten::mul", [[64, 64]] * 2, ["float"] * 2, work=(Work("mul_kernel", 5_000),))
        dims = [[64, 64], [64, 64]] if shapes else None
        return trace_of([known, Call("aten::add", dims, ["float"] * 2, work=(Work("add_kernel", 50_000),))] * 2)

    found = rows(program(False), program(False), "1", "1")
    assert found["moved_bytes"]["difference"] == 0
    assert found["moved_bytes"]["change"] == Change.WITHIN_NOISE.value
    assert rows(program(True), program(True), "1", "1")["moved_bytes"]["change"] == Change.SAME.value
    assert rows(program(False), without_gpu())["moved_bytes"]["remark"] == "known of 9 % of the GPU time of A"
    assert rows(without_gpu(), program(False))["moved_bytes"]["remark"] == "known of 9 % of the GPU time of B"


def test_the_order_is_that_of_the_measures():
    a, b = side(tutorial.mlp()), side(tutorial.attention())
    names = list(paired(a, b))
    for each in (a, b):
        mine = [name for name in measures(each) if name in names]
        assert [name for name in names if name in mine] == mine


def test_each_number_says_what_it_is():
    table = totals(side(tutorial.mlp()), side(tutorial.mlp()))
    assert all(row["about"] for row in table.rows())
    units = {row["measure"]: row["unit"] for row in table.rows()}
    assert (units["dur_us"], units["kernels"], units["gpu_idle_pct"]) == ("us", "", "%")
    assert all(unit == "us" for name, unit in units.items() if str(name).endswith("_us"))


def test_one_part_each_is_noted_and_so_is_a_step_left_out():
    trace = tutorial.mlp()
    assert "noise is unknown" in totals(side(trace, "2"), side(trace, "3")).note
    assert totals(side(trace), side(trace)).note == ""


def test_steps_of_a_real_trace(shared_trace):
    trace = loaded(shared_trace("d03_v100_2rank_5steps_mem_occ_nccl.json.gz"))
    found = rows(trace, trace, "3", "4")
    assert found["kernels"]["change"] == "same"
    assert found["gpu_span_us"]["difference"] < 0


def test_a_wait_is_no_cpu_time():
    def program(wait: int) -> Trace:
        return make_trace(
            [
                event
                for number in (1, 2)
                for event in (
                    step(number, 100_000 * number, 20_000 + wait),
                    launch(100_000 * number + 1000, wait, number, "cudaStreamSynchronize"),
                )
            ]
        )

    found = rows(program(50_000), program(10_000))
    assert (found["dur_us"]["a"], found["dur_us"]["b"]) == (70, 30)
    assert (found["cpu_us"]["a"], found["cpu_us"]["change"]) == (20, "same")
