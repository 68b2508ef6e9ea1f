"""Each metric on a trace made by hand: what is counted, where, and what a trace that cannot say gives."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.analysis.expectation_metrics import METRICS, Expectation, Observed
from tracetui.analysis.expectations import expectations, holds, look
from tracetui.errors import Unanswerable
from tracetui.model.trace import Kind, Trace
from workloads.api import Metric


def annotation(name, start, dur):
    return Event(name, start, dur, Kind.ANNOTATION)


def training(gpu: bool = True, steps: int = 2) -> Trace:
    """Steps of 1000 ns; in each a forward with two ops of which the second launches late work, and a copy after it."""
    events = [op("aten::outside", -500, 10), *([kernel("outside", -450, 10)] if gpu else [])]
    for number in range(steps):
        at = number * 2000
        events += [
            step(number + 2, at, 1000 * (number + 1)),
            annotation("fwd", at + 10, 500),
            op("aten::mm", at + 20, 100),
            op("aten::add", at + 130, 100),
            op("aten::mm", at + 700, 100),
        ]
        if gpu:
            events += [
                launch(at + 30, 5, number * 10 + 1),
                launch(at + 140, 5, number * 10 + 2),
                launch(at + 710, 5, number * 10 + 3),
                # Runs after the annotation is over, and belongs to it all the same.
                kernel("gemm", at + 600, 100, correlation=number * 10 + 1),
                kernel("triton_poi_fused_gelu_mul_0", at + 700, 100, correlation=number * 10 + 2),
                kernel("late", at + 900, 100, correlation=number * 10 + 3),
            ]
    return make_trace(events)


def found(metric, want=0, of="", trace=None):
    trace = trace or training()
    expected = Expectation("x", metric, want, of)
    finding = look(trace, expected, "fwd")
    return finding, holds(expected, finding), trace.name_of(finding.row) if finding.row >= 0 else None


def test_the_metrics_are_those_that_a_workload_can_name():
    assert set(METRICS) == set(get_args(Metric))


def test_kernels_of_a_forward_are_those_launched_in_it():
    finding, fits, at = found("kernels_per_forward", 2)
    assert (finding.least, finding.most, fits, at) == (2, 2, True, "fwd")


def test_ops_and_calls_are_counted_inside_the_steps():
    assert found("ops_per_step", 3)[0].text == "3"
    assert found("calls_per_step", 2, "aten::mm")[1:] == (True, "aten::mm")
    assert found("calls_per_step", 0, "aten::outside")[1]
    assert found("calls_per_step", 0, "aten::absent")[1]


def test_names_are_searched_and_shown():
    finding, fits, at = found("kernel_named", "fused_.*gelu")
    assert (finding.text, fits, at) == (finding.name, True, "triton_poi_fused_gelu_mul_0")
    finding, fits, at = found("op_named", "^aten::bmm$")
    assert (finding.text, fits, at) == ("none", False, None)


def test_a_name_that_must_not_be_there():
    assert found("op_named", "^$", "^Torch")[1]
    assert not found("op_named", "^$", "^aten::mm")[1]


def test_a_device_is_busy_until_the_work_of_the_steps_ends():
    # Busy 400 ns of each step's work; from 0 to 4000 ns, the second step being twice as long.
    finding, fits, _ = found("gpu_busy_pct", (0, 20))
    assert finding.text == "15"
    assert fits


def test_the_longest_step_by_the_shortest():
    assert found("slowest_to_fastest_step", (1, 2))[1:] == (True, "ProfilerStep#3")
    assert not found("slowest_to_fastest_step", (1, 1.9))[1]


@pytest.mark.parametrize("metric", ["kernels_per_forward", "kernel_named", "gpu_busy_pct"])
def test_without_a_gpu_nothing_is_known_of_kernels(metric):
    finding, fits, _ = found(metric, "^$" if metric == "kernel_named" else 0, trace=training(gpu=False))
    assert (finding.text, fits) == (None, False)


@pytest.mark.parametrize("metric", ["kernels_per_forward", "ops_per_step", "calls_per_step", "slowest_to_fastest_step"])
def test_without_steps_nothing_is_known_of_them(metric):
    finding, fits, _ = found(metric, 0, "aten::outside", training(steps=0))
    assert (finding.text, fits) == (None, False)


def test_a_range_holds_where_all_of_it_does():
    expected = Expectation("x", "ops_per_step", (2, 5))
    assert holds(expected, Observed(2, 5))
    assert not holds(expected, Observed(2, 6))
    assert Observed(2, 6).text == "2 to 6"


def test_the_table_says_what_why_and_where():
    trace = training()
    table = expectations(
        trace,
        [Expectation("kernels", "kernels_per_forward", (1, 3), why="two"), Expectation("bmm", "op_named", "bmm")],
        "fwd",
    )
    first, second = table.rows()
    assert (first["wanted"], first["found"], first["holds"], first["why"]) == ("1 to 3", "2", True, "two")
    assert (second["found"], second["least"], second["holds"]) == ("none", None, False)
    assert table.slices is not None
    assert trace.name_of(int(table.slices[0])) == "fwd"
    assert table.slices[1] == -1


def test_no_expectations_are_an_empty_table():
    assert len(expectations(training(), [])) == 0


def test_an_unknown_metric_is_said_to_be_one():
    with pytest.raises(Unanswerable, match="kernels_per_forward"):
        look(training(), Expectation("x", "odd", 1), "fwd")
