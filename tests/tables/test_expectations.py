"""Each metric on a trace made by hand: what is counted, where, and what a trace that cannot say gives."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from tracetui_workloads.api import Metric
from tracetui_workloads.registry import BUILT_IN, with_name

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.errors import Unanswerable
from tracetui.model.trace import Kind, Trace
from tracetui.ranks.rank_tables import RANK_METRICS
from tracetui.tables.expectations import METRICS, Expectation, Observed, contrasts, expectations, holds, look


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
    assert {*METRICS, *RANK_METRICS} == set(get_args(Metric))


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


def test_the_order_of_operators_is_that_of_every_step():
    finding, fits, at = found("ops_in_order", "mm add mm", "^aten::(mm|add)$")
    assert (finding.text, fits, at) == ("mm add mm", True, "aten::mm")
    assert not found("ops_in_order", "mm mm add", "^aten::(mm|add)$")[1], "another order"
    assert not found("ops_in_order", "mm add", "^aten::(mm|add)$")[1], "the beginning is not the whole"
    assert found("ops_in_order", r"mm \S+ mm", "^aten::(mm|add)$")[1], "a pattern for a name"


def test_an_order_that_steps_do_not_share_holds_for_none():
    trace = make_trace([step(2, 0, 100), op("aten::mm", 10, 5), step(3, 200, 100), op("aten::add", 210, 5)])
    finding, fits, _ = found("ops_in_order", "mm", "^aten::", trace)
    assert (finding.text, fits) == ("not the same in all steps", False)


def test_kernels_are_named_by_the_operator_that_launched_them_else_by_themselves():
    assert found("kernels_in_order", "mm add")[0].text == "mm add"
    trace = make_trace(
        [step(2, 0, 100), annotation("fwd", 5, 90), launch(10, 5, 1), kernel("triton_poi_x_0", 50, 5, correlation=1)]
    )
    assert found("kernels_in_order", r"triton_\S*x\S*", trace=trace)[1]


def test_a_view_launches_nothing_and_a_matmul_one_kernel():
    assert found("kernels_per_call", 1, "aten::mm")[1]
    trace = training()
    assert found("kernels_per_call", 1, "aten::add", trace)[1]
    assert found("kernels_per_call", 0, "aten::absent", trace)[0].text is None, "what is never called shows nothing"


def test_queries_belong_to_the_operator_around_them():
    query = launch(25, 2, 9, "cudaOccupancyMaxActiveBlocksPerMultiprocessor")
    trace = make_trace(
        [
            step(2, 0, 100),
            op("aten::mm", 20, 20),
            query,
            launch(30, 5, 1),
            kernel("k", 60, 5, correlation=1),
            op("aten::gelu", 45, 10),
        ]
    )
    assert found("occupancy_queries_per_call", 1, "aten::mm", trace)[1]
    assert found("occupancy_queries_per_call", 0, "aten::gelu", trace)[1]
    assert found("matching_calls_per_step", 1, "Occupancy", trace)[1]


def test_the_span_of_a_forward_goes_from_its_first_kernel_to_the_end_of_its_last():
    # 600 to 800 ns after each step began.
    assert found("span_us", (0.2, 0.2))[1]


def test_the_dead_window_of_the_first_forward():
    events = []
    for number, wait in enumerate((40, 10, 20)):
        at = number * 1000
        events += [step(number, at, 500), annotation("fwd", at + 10, 400), op("aten::mm", at + 10 + wait, 20)]
    assert found("first_to_shortest_dead_window", (4, 4), trace=make_trace(events))[1]
    assert found("first_to_shortest_dead_window", (4, 4), trace=make_trace(events[:3]))[0].text is None


def test_the_share_of_the_steps_counts_what_overlaps_once():
    trace = make_trace([step(2, 0, 100), op("wait outer", 10, 50), op("wait inner", 20, 20), op("aten::mm", 70, 10)])
    assert found("share_of_steps_pct", (50, 50), "^wait", trace)[1]
    assert found("matching_ops_per_step", 2, "^wait", trace)[1]
    assert found("share_of_steps_pct", (0, 0), "absent", trace)[1]


def test_two_traces_are_told_apart_by_the_ratio_of_their_medians():
    wanted = [Expectation("x", "ops_per_step", (2.9, 3.1)), Expectation("y", "span_us", (0, 9))]
    few = make_trace([step(2, 0, 100), op("aten::mm", 10, 5)])
    wanted.append(Expectation("z", "calls_per_step", 2, "aten::mm"))
    first, second, third = contrasts(training(), few, wanted, "fwd", "fwd").rows()
    assert (third["found"], third["holds"]) == ("2", True)
    assert (first["found"], first["holds"]) == ("3", True)
    assert (second["found"], second["holds"]) == (None, False), "one of them has no GPU"


def test_shares_of_two_traces_are_told_apart():
    half = make_trace([step(2, 0, 100), op("wait", 10, 50)])
    fifth = make_trace([step(2, 0, 100), op("wait", 10, 20)])
    [row] = contrasts(half, fifth, [Expectation("x", "share_of_steps_pct", (2.4, 2.6), "^wait")]).rows()
    assert (row["found"], row["holds"]) == ("2.5", True)


def test_a_range_without_an_end():
    expected = Expectation("x", "ops_per_step", (2, float("inf")))
    assert expected.wanted == "2 or more"
    assert holds(expected, Observed(2, 600))


@pytest.mark.parametrize(
    ("metric", "want", "wanted"),
    [
        ("kernel_named", r"^gateup_(forward|persistent)", "gateup_forward or gateup_persistent"),
        ("kernel_named", "fused_.*softmax", "fused_…softmax"),
        ("op_named", "^aten::bmm$", "aten::bmm"),
        ("op_named", "^$", "none"),
        ("op_named", "_(?:flash|cudnn)_attention", "_flash_attention or _cudnn_attention"),
        (
            "kernels_in_order",
            r"mm (copy_|clone) triton_\S*fused\S* Region:_0/0",
            "mm copy_/clone triton_…fused… Region:_0/0",
        ),
    ],
)
def test_a_pattern_is_wanted_in_words(metric, want, wanted):
    assert Expectation("x", metric, want).wanted == wanted


def test_no_workload_shows_a_regular_expression():
    shown = [
        Expectation("", each.metric, each.want).wanted
        for workload in filter(None, map(with_name, BUILT_IN))
        for each in workload.expects
    ]
    assert len(shown) > 100
    assert not [words for words in shown if re.search(r"[\\^$*?()|\[\]]", words)]
