"""Variants of operators: what is grouped, what a name or a view string chooses, and inputs that are anything."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op
from tracetui.agents.window_text import row_of
from tracetui.drawing.text.verify_text import coverage_lines, verify_document
from tracetui.errors import Unanswerable, UsageError
from tracetui.linking.links import op_rows
from tracetui.model.viewpoint import read_view_string
from tracetui.tables import call_variants as variants_of
from tracetui.tables.call_variants import (
    MAX_INPUT_TEXT,
    all_variants,
    call_variants,
    task_fields,
    variant_at,
    variants_named,
)


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
    found = variants_named(trace, "add")
    assert [(len(each.rows), each.inputs[3]) for each in found] == [(3, ["", "1"]), (1, ["", "2"])]
    assert found[0].self_cpu_us == pytest.approx((100 - 20 + 140 + 120) / 1000)
    recorded = found[0].recorded(trace)
    assert recorded["children"] == [] and sorted(recorded["times_us"]) == pytest.approx([0.1, 0.12, 0.14])


def test_children_are_those_of_the_typical_call_and_no_grandchildren():
    trace = make_trace(
        [op("aten::linear", 0, 100), op("aten::t", 1, 10), op("aten::transpose", 2, 3), op("aten::addmm", 20, 50)]
    )
    assert variants_named(trace, "aten::linear")[0].recorded(trace)["children"] == ["aten::t", "aten::addmm"]


def at(trace, text):
    return variant_at(trace, row_of(trace, read_view_string(text)))


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
    found = at(trace, "k1")
    assert found.name == "aten::mm" and found.gpu_us == pytest.approx(0.4)
    recorded = found.recorded(trace)
    assert recorded["kernels"] == ["gemm"] and recorded["times_us"] == pytest.approx([0.4])
    assert at(trace, "e2").name == "aten::relu"
    assert [each.name for each in call_variants(trace, op_rows(trace))] == ["aten::mm", "aten::relu"]


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [("k9", UsageError, "no kernel 9"), ("e99", UsageError, "event 99"), ("k3", Unanswerable, "none is known")],
)
def test_a_view_string_of_nothing_ends_in_a_sentence(wanted, error, words):
    with pytest.raises(error, match=words):
        at(make_trace(GPU), wanted)


@pytest.mark.parametrize(("wanted", "words"), [("mn", "aten::mm"), ("", "no operator")])
def test_a_name_that_is_not_there_ends_in_a_sentence(wanted, words):
    with pytest.raises(UsageError, match=words):
        variants_named(make_trace(GPU), wanted)


TRITON = [
    *GPU,
    op("triton_poi_fused_add_0", 900, 50),
    launch(910, 5, 3),
    kernel("triton_poi_fused_add_0", 960, 300, correlation=3),
    kernel("triton_red_fused_sum_1", 1300, 100),
    op("graph_0_cpp_fused_tanh_0", 2000, 500),
]


def test_what_torch_compile_generated_is_named_with_the_reason_and_its_share_of_the_time():
    trace = make_trace(TRITON)
    variants = all_variants(trace)
    why = {each.name: each.why for each in variants}
    names = ("triton_poi_fused_add_0", "triton_red_fused_sum_1", "graph_0_cpp_fused_tanh_0")
    assert {why[name] for name in names} == {variants_of.GENERATED}
    assert why["lost"] == "no operator is known that launched it" and why["aten::mm"] == ""
    for view in ("k4", "k5"):
        with pytest.raises(Unanswerable, match=r"torch\.compile generated it"):
            at(trace, view)
    assert at(trace, "e8").why == variants_of.GENERATED
    machine = {"name": "a CPU", "torch": "2", "threads": 1}
    answers = {"operators": [{"why": None, "notes": []}] * 2, "machine": machine}
    document = verify_document(trace, variants, answers, False)
    # mm 400 and relu 100 of 400 + 100 + 100 + 300 + 100 on the GPU; their own 80 of 80 + 50 + 500 on the CPU.
    assert document["rebuilt_gpu_pct"] == pytest.approx(50)
    assert document["rebuilt_cpu_pct"] == pytest.approx(100 * 80 / 630, abs=2)
    for row, variant in zip(document["operators"], variants, strict=True):
        if not variant.why:
            assert at(trace, row["view"]).inputs == variant.inputs
            assert any(line.startswith(f"{row['view']} ") for line in coverage_lines(document, 9))
    (line,) = [line for line in coverage_lines(document, 9) if variants_of.GENERATED in line]
    assert all(name in line for name in names) and "40.0 % of the GPU time" in line


def test_calls_and_variants_beyond_the_limits_are_named_and_counted(monkeypatch):
    monkeypatch.setattr(variants_of, "MAX_CALLS", 2)
    monkeypatch.setattr(variants_of, "MAX_VARIANTS", 1)
    first, *rest = all_variants(make_trace(CALLS))
    assert first.why == "" and "longest" in rest[-1].why
    assert sum(len(each.rows) for each in (first, *rest)) == len(CALLS)


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [nested(50), {"a": 1}, [{"a": 1}], ["x" * MAX_INPUT_TEXT]])
def test_inputs_that_are_deep_long_or_no_lists_are_left_out(odd):
    trace = make_trace([op("aten::add", 0, 10, args=inputs(odd, ["", "1"]))])
    assert [each.inputs for each in call_variants(trace, op_rows(trace))] == [(None, None, None, None)]


def test_threads_of_a_trace_are_passed_on():
    trace = make_trace(CALLS, metadata={"tracetui": {"threads": 3}})
    assert task_fields(trace, call_variants(trace, op_rows(trace)))["threads"] == 3


def test_threads_and_types_of_a_trace_may_be_anything():
    trace = make_trace(
        [op("aten::cat", 0, 10, args={"Input Dims": [1], "Input type": {"no": "list"}})],
        metadata={"tracetui": {"threads": "many"}},
    )
    fields = task_fields(trace, call_variants(trace, op_rows(trace)))
    assert fields["threads"] == 0 and set(fields["list_types"]) <= {"no", "list"}
    assert np.isfinite(fields["operators"][0]["times_us"]).all()
