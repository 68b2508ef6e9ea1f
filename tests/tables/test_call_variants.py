"""Variants of operators: what is grouped, what a name or a view string chooses, and inputs that are anything."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op
from tracetui.errors import Unanswerable, UsageError
from tracetui.linking.links import op_rows
from tracetui.tables.call_variants import MAX_INPUT_TEXT, call_variants, chosen_variants, read_alternatives, task_fields


def inputs(dims, values, types=("float", "Scalar"), strides=((4, 1), ())):
    return {
        "Input Dims": dims,
        "Input type": list(types),
        "Input Strides": [list(each) for each in strides],
        "Concrete Inputs": values,
    }


DIMS = [[4, 4], []]
CALLS = [
    op("aten::add", 0, 100, args=inputs(DIMS, ["", "1"])),
    op("aten::empty", 10, 20),
    op("aten::add", 200, 300, args=inputs(DIMS, ["", "2"])),
    op("aten::add", 600, 140, args=inputs(DIMS, ["", "1"])),
    op("aten::add", 800, 120, args=inputs(DIMS, ["", "1"])),
]


def test_calls_that_differ_in_a_value_alone_are_two_variants():
    trace = make_trace(CALLS)
    found = chosen_variants(trace, "add")
    assert [(len(each.rows), each.inputs[3]) for each in found] == [(3, ["", "1"]), (1, ["", "2"])]
    assert found[0].self_cpu_us == pytest.approx((100 - 20 + 140 + 120) / 1000)
    recorded = found[0].recorded(trace)
    assert recorded["children"] == [] and sorted(recorded["times_us"]) == pytest.approx([0.1, 0.12, 0.14])


def test_children_are_those_of_the_typical_call_and_no_grandchildren():
    trace = make_trace(
        [op("aten::linear", 0, 100), op("aten::t", 1, 10), op("aten::transpose", 2, 3), op("aten::addmm", 20, 50)]
    )
    assert chosen_variants(trace, "aten::linear")[0].recorded(trace)["children"] == ["aten::t", "aten::addmm"]


GPU = [
    op("aten::mm", 0, 50, args=inputs(DIMS, ["", ""])),
    launch(10, 5, 1),
    op("aten::relu", 60, 30),
    launch(70, 5, 2),
    kernel("gemm", 100, 400, correlation=1),
    kernel("relu", 500, 100, correlation=2),
    kernel("lost", 700, 100),
]


def test_a_kernel_by_its_number_is_its_operator_whose_time_is_that_on_the_gpu():
    trace = make_trace(GPU)
    found = chosen_variants(trace, "k1")
    assert [each.name for each in found] == ["aten::mm"] and found[0].gpu_us == pytest.approx(0.4)
    recorded = found[0].recorded(trace)
    assert recorded["kernels"] == ["gemm"] and recorded["times_us"] == pytest.approx([0.4])
    assert [each.name for each in chosen_variants(trace, "e2")] == ["aten::relu"]
    assert [each.name for each in call_variants(trace, op_rows(trace))] == ["aten::mm", "aten::relu"]


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        ("k9", UsageError, "There is no k9: 3 ran"),
        ("e99", UsageError, "no slice"),
        ("k3", Unanswerable, "lost has no operator"),
        ("mn", UsageError, "aten::mm"),
        ("", UsageError, "no operator"),
    ],
)
def test_what_is_not_there_ends_in_a_sentence(wanted, error, words):
    with pytest.raises(error, match=words):
        chosen_variants(make_trace(GPU), wanted)


def test_a_step_that_has_no_such_call_is_named():
    with pytest.raises(UsageError):
        chosen_variants(make_trace(CALLS), "add", 7)


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [nested(50), {"a": 1}, [{"a": 1}], ["x" * MAX_INPUT_TEXT]])
def test_inputs_that_are_deep_long_or_no_lists_are_left_out(odd):
    trace = make_trace([op("aten::add", 0, 10, args=inputs(odd, ["", "1"]))])
    assert [each.inputs for each in call_variants(trace, op_rows(trace))] == [(None, None, None, None)]


def test_only_operators_of_aten_are_built_again_and_nothing_of_a_simulation_is_timed():
    trace = make_trace([op("cpp_fused_0", 0, 10)])
    with pytest.raises(Unanswerable, match="cpp_fused_0 is none"):
        task_fields(trace, call_variants(trace, op_rows(trace)), False)
    trace = make_trace(CALLS, metadata={"tracetui": {"simulated": True, "threads": 3}})
    variants = call_variants(trace, op_rows(trace))
    assert task_fields(trace, variants, False)["threads"] == 3
    with pytest.raises(Unanswerable, match="simulated"):
        task_fields(trace, variants, True)


def test_threads_and_types_of_a_trace_may_be_anything():
    trace = make_trace(
        [op("aten::cat", 0, 10, args={"Input Dims": [1], "Input type": {"no": "list"}})],
        metadata={"tracetui": {"threads": "many"}},
    )
    fields = task_fields(trace, call_variants(trace, op_rows(trace)), True)
    assert fields["threads"] == 0 and fields["list_types"] == []
    assert np.isfinite(fields["operators"][0]["times_us"]).all()


def test_alternatives_are_read_with_commas():
    assert read_alternatives(" bf16, compile,") == ["bf16", "compile"]
    with pytest.raises(UsageError, match="compile"):
        read_alternatives("compil")
