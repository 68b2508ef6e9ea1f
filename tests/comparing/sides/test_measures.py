"""What is measured of a side: the numbers of the steps pane, and of a plain script over the events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, memcpy, op, step
from tests.support.comparing import tutorial
from tests.support.paths import SAMPLES
from tests.support.slow import slow_events
from tests.support.traces import loaded
from tracetui.comparing.measures import measures
from tracetui.comparing.side import side
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.reading.load import load
from tracetui.tables.step_table import step_table

SHARED = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d06_h100_stack_mem.json.gz",
    "d07_mi300x_8rank_3steps_stack.json.gz",
    "d08_b200_cuda13_ep_moe.json",
)
IN_BOTH = (
    "dur_us",
    "kernels",
    "copies",
    "gpu_busy_us",
    "gpu_span_us",
    "gpu_idle_us",
    "launches",
    "cpu_ops",
    "view_ops",
    "occupancy_queries",
    "sync_us",
)
"""Measures that are columns of the steps pane."""


def values(trace: Trace, scope: str = "") -> dict[str, list[float]]:
    return {name: each.values.tolist() for name, each in measures(side(trace, scope)).items()}


def same_as_the_steps_pane(trace: Trace) -> int:
    table = step_table(trace)
    found = measures(side(trace, f"0:{10**9}"))
    assert set(IN_BOTH) <= set(found)
    for name in IN_BOTH:
        wanted = np.asarray(table[name].values, np.float64)
        assert found[name].values.tolist() == pytest.approx(wanted.tolist(), nan_ok=True), name
    return len(table)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.full
def test_steps_have_the_numbers_of_the_steps_pane(name, shared_trace):
    steps = {SHARED[0]: 6, SHARED[1]: 5}
    count = same_as_the_steps_pane(loaded(shared_trace(name)))
    assert count == steps.get(name, count)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name)
def test_samples_have_them_too(sample):
    assert same_as_the_steps_pane(load(str(sample))) > 0


@pytest.mark.parametrize("number", [2, 4])
def test_one_step_is_measured_as_among_all(number):
    whole = tutorial.mlp()
    place = steps(whole).number.tolist().index(number)
    every = values(whole)
    alone = values(tutorial.mlp(), str(number))
    assert list(alone) == list(every)
    for name, some in every.items():
        assert alone[name] == pytest.approx(some[place : place + 1], abs=0, rel=0, nan_ok=True)


def slow_counts(path: Path) -> list[Counter[str]]:
    """Ops, views and time of each step by one pass over the events, one dictionary at a time."""
    events = [event for event in slow_events(path) if event.get("ph") == "X"]
    marks = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#"))
    found: list[Counter[str]] = [Counter() for _ in marks]
    for event in events:
        for place, (begin, end) in enumerate(marks):
            if event.get("cat") == "cpu_op" and begin <= event["ts"] < end:
                found[place]["cpu_ops"] += 1
    for place, (begin, end) in enumerate(marks):
        found[place]["dur_us"] = end - begin
    return found


@pytest.mark.parametrize("name", ["mlp_eager", "split_stack_compile", "mlp_train"])
def test_a_slow_script_counts_the_same(name):
    path = SAMPLES / f"{name}_cpu.json.gz"
    found = values(load(str(path)))
    for place, counts in enumerate(slow_counts(path)):
        for measure, number in counts.items():
            assert found[measure][place] == pytest.approx(number, abs=1e-3)


def two_steps() -> Trace:
    """A product, then a copy and a wait; the product is launched in the first step and runs in the second."""
    return make_trace(
        [
            step(1, 0, 100_000),
            op("aten::mm", 10_000, 30_000),
            launch(20_000, 5_000, 1),
            kernel("ampere_sgemm_128x64_nn", 120_000, 40_000, correlation=1),
            step(2, 110_000, 200_000),
            op("aten::copy_", 120_000, 20_000),
            launch(125_000, 10_000, 2, "cudaMemcpyAsync"),
            memcpy("Memcpy DtoH (Device -> Pinned)", 170_000, 10_000, correlation=2, args={"bytes": 4096}),
            launch(150_000, 60_000, 3, "cudaStreamSynchronize"),
            op("aten::t", 220_000, 4_000),
            op("aten::view", 230_000, 2_000),
            launch(290_000, 1_000, 4),
            kernel("triton_poi_fused_add_0", 300_000, 5_000, correlation=4),
        ]
    )


def test_each_number_by_hand():
    found = values(two_steps())
    assert found["dur_us"] == [100, 200]
    assert found["sync_us"] == [0, 60]
    assert found["cpu_us"] == [100, 140]
    assert found["launch_us"] == [5, 11]
    assert found["kernels"] == [1, 1]
    assert found["copies"] == [0, 1]
    assert found["launches"] == [1, 2]
    assert found["view_ops"] == [0, 2]
    assert found["idle_ops"] == [0, 2]
    assert found["idle_op_us"] == [0, 6]
    assert found["gpu_busy_us"] == [40, 15]
    assert found["gpu_span_us"] == [40, 135]
    assert found["period_us"] == [160, 145]
    assert found["gpu_idle_us"] == [120, 130]
    assert found["gemm_us"] == [40, 0]
    assert found["copy_us"] == [0, 10]
    assert found["pointwise_us"] == [0, 5]


def test_without_a_gpu_its_measures_are_unknown():
    found = values(make_trace([step(1, 0, 100), op("aten::t", 10, 10), step(2, 200, 100)]))
    assert np.isnan(found["gpu_busy_us"] + found["idle_op_us"] + found["idle_ops"] + found["gpu_work_us"]).all()
    assert found["kernels"] == [0, 0]
    assert found["view_ops"] == [1, 0]


def two_runs() -> Trace:
    """A run whose first work comes long after what ran before it, on two devices; then another one."""
    other = ("1", "stream 7")
    return make_trace(
        [
            launch(0, 1_000, 1),
            kernel("before", 2_000, 1_000, correlation=1),
            annotation("part", 100_000, 50_000),
            launch(110_000, 1_000, 2),
            kernel("first", 120_000, 10_000, correlation=2),
            launch(136_000, 1_000, 3),
            kernel("second", 140_000, 5_000, correlation=3),
            launch(138_000, 1_000, 4),
            Event("else", 3_000, 1_000, Kind.KERNEL, other),
            Event("there", 141_000, 3_000, Kind.KERNEL, other, correlation=4),
            annotation("part", 200_000, 50_000),
            launch(210_000, 1_000, 5),
            kernel("third", 215_000, 1_000, correlation=5),
        ]
    )


def causes(found: dict[str, list[float]]) -> list[float]:
    gaps = [some for name, some in found.items() if name.startswith("idle_") and name not in ("idle_op_us", "idle_ops")]
    return np.sum(gaps, axis=0).tolist()


def test_the_gap_before_a_run_is_not_its_own():
    found = values(two_runs(), "part")
    assert causes(found) == [10, 0]
    assert found["gpu_idle_us"] == [10, 0]


def test_the_gap_before_a_step_is_that_of_the_gaps_pane():
    made = make_trace(
        [
            launch(0, 1_000, 1),
            kernel("before", 2_000, 1_000, correlation=1),
            step(1, 5_000, 50_000),
            launch(10_000, 1_000, 2),
            kernel("k", 13_000, 1_000, correlation=2),
        ]
    )
    found = values(made)
    # From the start of the step to its kernel, and behind it, as it is the only step.
    assert causes(found) == found["gpu_idle_us"] == [(13 - 5) + (55 - 14)]


PUZZLER = "puzzlers/fusion_mwe_trace.json.gz"


@pytest.mark.parametrize(("scope", "idle"), [("fused[1]", 125), ("unfused[1]", 1_425)])
def test_causes_of_a_run_are_what_it_stood_still(scope, idle, shared_trace):
    found = values(loaded(shared_trace(PUZZLER)), scope)
    assert causes(found) == found["gpu_idle_us"] == [idle]


@pytest.mark.parametrize(
    ("name", "scope", "least"),
    [(SHARED[3], "aten::linear", 20), (SHARED[4], "aten::mm", 5), (SHARED[0], "aten::conv2d", 20)],
)
def test_causes_are_never_more_than_that(name, scope, least, shared_trace):
    found = values(loaded(shared_trace(name)), scope)
    told, whole = np.array(causes(found)), np.array(found["gpu_idle_us"])
    assert len(whole) > least
    assert (told <= np.nan_to_num(whole) + 1e-6).all()


def test_a_graph_launch_counts_once():
    trace = make_trace(
        [
            step(1, 0, 1000),
            launch(100, 50, 1, "cudaGraphLaunch"),
            *(kernel("k", 200 + 20 * place, 10, correlation=1) for place in range(3)),
        ]
    )
    found = values(trace)
    assert (found["launches"], found["graph_launches"], found["kernels"]) == ([1], [1], [3])


def test_runs_of_an_annotation_add_up_to_less_than_the_steps():
    trace = tutorial.linear()
    whole, runs = values(trace), values(trace, "linear_fwd")
    assert runs["kernels"] == whole["kernels"] == [1, 1, 1]
    assert all(run < step for run, step in zip(runs["dur_us"], whole["dur_us"], strict=True))


def test_waits_in_another_thread_are_not_taken_from_a_step():
    other = ("1", "2")
    trace = make_trace(
        [
            step(1, 0, 100_000),
            launch(10_000, 1_000, 1),
            launch(20_000, 50_000, 2, "cudaStreamSynchronize", lane=other),
            annotation("late", 95_000, 1_000),
            launch(97_000, 1_000, 3),
            kernel("k", 50_000, 1_000, correlation=1),
            kernel("k", 99_000, 1_000, correlation=3),
        ]
    )
    assert values(trace)["cpu_us"] == [100]
    assert values(trace)["sync_us"] == [50]
