"""Counters over time: how long a value holds, means of steps and kernels, and the pane (3(m))."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, step
from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.devices.counters import counter_samples, extents, kernel_samples, whole
from tracetui.model.hardware_counters import hardware_counter
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Counter, Device, Trace
from tracetui.panes import PANES
from tracetui.ui.trace.slice_description import kernel_facts


def sampled(*samples: tuple[int, float], gpu: int = 0, name: str = "SM Active (%)") -> Counter:
    """A counter of a GPU with (time in ns, value)."""
    time, value = np.array([each[0] for each in samples], np.int64), np.array([each[1] for each in samples], np.float64)
    return hardware_counter(gpu, name, f"GPU {gpu} Counters", time, value, np.zeros(len(time), np.int32))


def of_program(*samples: tuple[int, float]) -> Counter:
    """A counter of a program."""
    return Counter("app", "queue", "", np.array([s[0] for s in samples]), np.array([s[1] for s in samples], np.float64))


def traced(*counters: Counter, events: tuple[Event, ...] = (), **more: Any) -> Trace:
    """A trace with counters and some kernels."""
    return make_trace(events or (kernel("gemm", 0, 1000),), counters=counters, **more)


def rows(trace: Trace, **chosen: Any) -> list[dict[str, Any]]:
    """The rows of the pane."""
    return list(PANES["counters"].build(trace, **chosen).rows())


def evenly(value: float, count: int = 10, every: int = 100, first: int = 0) -> list[tuple[int, float]]:
    """Samples at even distances."""
    return [(first + every * index, value) for index in range(count)]


def test_samples_at_even_distances_count_alike() -> None:
    (row,) = rows(traced(sampled((0, 10), (100, 20), (200, 60))))
    assert (row["mean"], row["min"], row["max"], row["samples"]) == (30, 10, 60, 3)
    assert (row["gpu"], row["unit"], row["source"], row["every_us"]) == (0, "%", "sampled", 0.1)


def test_a_value_weighs_by_the_time_it_holds() -> None:
    (row,) = rows(traced(sampled((0, 10), (100, 10), (200, 40), (400, 10))))
    assert row["mean"] == (10 + 10 + 2 * 40 + 10) / 5


def test_behind_a_hole_nothing_is_known_of_the_hardware() -> None:
    each = counter_samples(traced(sampled(*evenly(10), *evenly(90, first=1_000_000))), 0)
    found = extents(each, np.array([500_000]), np.array([600_000]))
    assert np.isnan(found.mean[0])
    assert np.isnan(found.high[0])
    assert whole(each)[0] < 50 < 90, "the last value before the hole holds for ten distances, not until its end"


def test_a_value_of_a_program_holds_until_the_next() -> None:
    each = counter_samples(traced(of_program(*evenly(10), *evenly(90, first=1_000_000))), 0)
    found = extents(each, np.array([500_000]), np.array([600_000]))
    assert (found.mean[0], found.low[0], found.high[0]) == (10, 10, 10)


def test_values_that_were_derived_count_alike() -> None:
    (row,) = rows(traced(sampled((0, 10), (1, 10), (500, 40), name="Cycles (Current Kernel)")))
    assert (row["mean"], row["source"], row["unit"]) == (20, "derived", "cycles")


def test_a_trace_without_counters_says_how_to_record_them() -> None:
    table = PANES["counters"].build(make_trace([kernel("gemm", 0, 10)]))
    assert len(table) == 0
    assert "PerformanceMetricsConfig" in table.note


def two_steps() -> tuple[Event, ...]:
    """Two steps whose kernels run long after the launches."""
    return (
        step(1, 0, 100),
        launch(10, 5, 1),
        kernel("gemm", 1000, 500, correlation=1),
        step(2, 100, 100),
        launch(110, 5, 2),
        kernel("gemm", 2000, 500, correlation=2),
    )


def test_a_step_is_what_it_ran_on_the_gpu_however_late() -> None:
    trace = traced(
        sampled(*evenly(5, first=0), *evenly(20, 10, 100, 1000), *evenly(80, 10, 100, 2000)), events=two_steps()
    )
    assert [(row["step"], row["mean"], row["samples"]) for row in rows(trace, by="step")] == [(1, 20, 5), (2, 80, 5)]
    assert [(row["step"], row["mean"]) for row in rows(trace, step=2)] == [(2, 80)]


def test_a_range_of_time_has_what_holds_in_it() -> None:
    trace = traced(sampled(*evenly(20, 10, 100, 1000), *evenly(80, 10, 100, 2000)), events=two_steps())
    part = TimeRange(1950, 2100)
    assert [(row["mean"], row["samples"]) for row in rows(trace, step=part)] == [((50 * 20 + 100 * 80) / 150, 1)]
    assert [(row["step"], row["mean"]) for row in rows(trace, step=TimeRange(0, 1200), by="step")] == [
        (1, 20),
        (2, None),
    ]


def test_a_step_without_activity_on_a_gpu_has_no_values_of_it() -> None:
    trace = traced(sampled(*evenly(20, 30, 100), gpu=1), events=two_steps())
    assert [row["mean"] for row in rows(trace, by="step")] == [None, None]


def test_a_counter_of_a_program_is_taken_over_the_step_on_the_cpu() -> None:
    trace = traced(of_program((0, 1), (100, 7)), events=two_steps())
    assert [row["mean"] for row in rows(trace, by="step")] == [1, 7]


def test_without_steps_that_is_why_none_are_listed_by_step() -> None:
    counter = of_program((0, 1), (100, 7))
    for trace in (traced(counter), traced(counter, is_torch=False)):
        assert len(rows(trace)) == 1
        assert PANES["counters"].build(trace, by="step").note.startswith("This trace has no steps")
    empty = traced(is_torch=False)
    assert "nothing to list under counters" in PANES["counters"].build(empty, by="step").note


def test_a_kernel_has_a_value_where_three_samples_begin_in_it() -> None:
    trace = traced(
        sampled(*evenly(20, 3, 100, 0), *evenly(60, 20, 100, 300)),
        events=(kernel("short", 0, 200), kernel("long", 300, 300)),
    )
    found = kernel_samples(trace, 0)
    assert found.dense.tolist() == [False, True]
    (row,) = rows(trace, by="kernel")
    assert (row["kernel"], row["mean"], row["samples"], row["measured"]) == ("long", 60, 3, 1)
    assert "1 of 2 kernels" in PANES["counters"].build(trace, by="kernel").note


@pytest.mark.parametrize(("stream", "dense"), [(600, True), (590, False)])
def test_a_kernel_beside_another_has_none(stream: int, dense: bool) -> None:
    trace = traced(
        sampled(*evenly(60, 20, 100)), events=(kernel("long", 300, 300), kernel("other", stream, 50, "stream 8"))
    )
    found = kernel_samples(trace, 0)
    assert bool(found.dense[0]) is dense


def test_kernels_of_another_gpu_and_derived_counters_have_none() -> None:
    events = (kernel("gemm", 0, 1000),)
    assert len(kernel_samples(traced(sampled(*evenly(1), gpu=1), events=events), 0).rows) == 0
    derived = sampled(*evenly(1), name="Cycles (Current Kernel)")
    assert len(kernel_samples(traced(derived, events=events), 0).rows) == 0


def test_gpus_come_first_in_order_and_what_is_derived_last() -> None:
    trace = traced(
        of_program((0, 1)),
        sampled((0, 1), gpu=1),
        sampled((0, 1), name="Cycles (Current Kernel)"),
        sampled((0, 1)),
    )
    assert [(row["gpu"], row["counter"]) for row in rows(trace)] == [
        (0, "SM Active (%)"),
        (0, "Cycles (Current Kernel)"),
        (1, "SM Active (%)"),
        (None, "app: queue"),
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(-5, 5)), min_size=1, max_size=30, unique_by=lambda each: each[0]
    ),
    st.integers(-10, 220),
    st.integers(0, 80),
)
def test_extents_are_those_of_a_walk_over_every_nanosecond(
    pairs: list[tuple[int, int]], start: int, length: int
) -> None:
    each = counter_samples(traced(sampled(*sorted(pairs))), 0)
    found = extents(each, np.array([start]), np.array([start + length]))
    held = [
        float(value)
        for moment in range(start, start + length)
        for time, held, value in zip(each.time.tolist(), each.duration.tolist(), each.value.tolist(), strict=True)
        if time <= moment < time + held
    ]
    assert found.samples[0] == sum(start <= time < start + length for time, _ in pairs)
    if held:
        assert found.mean[0] == pytest.approx(sum(held) / len(held))
        assert (found.low[0], found.high[0]) == (min(held), max(held))
    else:
        assert np.isnan(found.mean[0])


@pytest.mark.skipif(not (SHARED / "pftrace").exists(), reason="no shared traces beside the checkout")
@pytest.mark.parametrize("name", ["graph_counters.json", "kineto_counters.json"])
def test_the_pane_has_the_means_that_are_known_of_shared_traces(name: str) -> None:
    expected = json.loads((SHARED / "pftrace" / "expected.json").read_text())
    facts = expected.get(name, expected["graph_counters.pftrace.gz"])["facts"]
    found = {row["counter"]: row for row in rows(loaded(SHARED / "pftrace" / name))}
    assert {counter: row["samples"] for counter, row in found.items()} == facts["counters"]
    assert {row["gpu"] for row in found.values()} == set(facts.get("environment_counters_of_gpu", [0]))
    for counter, mean in facts.get("counter_mean", {}).items():
        assert found[counter]["mean"] == pytest.approx(mean, rel=1e-5)


def on_h100(*counters: Counter, took: int = 1_000_000) -> dict[str, Any]:
    """The row of an addition of 100 MB + 100 MB of bf16, and whose kernel took some ns."""
    args = {"Input Dims": [[50_000_000], [50_000_000]], "Input type": ["c10::BFloat16"] * 2}
    events = (
        step(1, 0, 10_000_000),
        Event("aten::add", 0, 100, args=args),
        launch(10, 5, 1),
        kernel("void at::native::vectorized_elementwise_kernel<4, add>()", 1000, took, correlation=1),
    )
    trace = make_trace(events, [Device(0, "NVIDIA H100 SXM5 80GB")], counters=counters)
    return next(iter(PANES["roofline"].build(trace).rows()))


def test_roofline_has_the_measured_beside_the_modelled() -> None:
    row = on_h100(
        sampled(*evenly(90, 20, 100_000), name="SM Active (%)"),
        sampled(*evenly(40, 20, 100_000), name="dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    )
    assert (row["sm_active_pct"], row["dram_pct"]) == (90, 40)
    assert row["dram_model_pct"] == pytest.approx(100 * 300e6 / 1e-3 / 3.35e12)


def test_roofline_has_no_measured_value_of_a_kernel_that_is_too_short() -> None:
    row = on_h100(sampled(*evenly(40, 20, 100_000), name="HBM BW (%)"), took=200_000)
    assert (row["dram_pct"], row["dram_model_pct"]) == (None, None)


def test_roofline_has_no_such_columns_without_such_counters() -> None:
    assert "dram_pct" not in on_h100(sampled(*evenly(40, 20, 100_000), name="HBM BW (GB/s)"))
    assert "sm_active_pct" not in on_h100(sampled(*evenly(40, 20, 100_000), name="HBM BW (%)"))


@pytest.mark.parametrize("gpu", [0, -1])
def test_values_and_times_at_the_end_of_all_numbers(gpu: int) -> None:
    huge, far = 1.7e308, 3_000_000_000_000_000_000
    values = sampled((-far, huge), (0, -huge), (far - 10, huge), (far, huge))
    trace = traced(replace(values, gpu=gpu), events=(step(1, -far, far), *two_steps()), window=(-far, far))
    for by in (None, "step", "kernel"):
        for row in PANES["counters"].build(trace, by=by).rows():
            mean: Any = row["mean"]
            assert mean is None or -huge <= mean <= huge


def details(*kernels: Event) -> dict[str, str]:
    """What the details say of the first kernel, with a sample every 100 ns."""
    trace = traced(sampled(*evenly(60, 20, 100)), events=kernels)
    return {fact.label: fact.value for fact in kernel_facts(trace, 0)}


def test_the_details_of_a_kernel_have_its_values_or_say_why_not() -> None:
    long, short = kernel("gemm", 300, 300), kernel("gemm", 300, 200)
    assert details(long)["SM Active"] == "60 % on average, 60 % to 60 % (3 samples)"
    assert details(short)["counters"] == "nothing of this kernel: fewer than 3 samples began while it ran"
    beside = kernel("other", 350, 10, "stream 8")
    assert details(long, beside)["counters"] == "nothing of this kernel: other activities ran while it ran"
    trace = traced(sampled(*evenly(60), gpu=1), events=(long,))
    assert not {"counters", "SM Active"} & {fact.label for fact in kernel_facts(trace, 0)}


def test_samples_at_one_moment_are_no_distance_apart() -> None:
    trace = traced(sampled((100, 50.0), (100, 60.0), (100, 70.0)), events=(kernel("gemm", 0, 500),))
    note = PANES["counters"].build(trace, by="kernel").note
    assert "nan" not in note and "too few samples" in note
