"""Rules that could not be run for lack of shapes or of a device."""

from __future__ import annotations

from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.devices import H100
from tests.support.findings import one
from tracetui.findings import finding_list
from tracetui.findings.recording import NO_DEVICE, NO_OPERATORS, NO_PEAKS, NO_SHAPES, rules_without_data
from tracetui.findings.scope import Scope
from tracetui.model.trace import Device

SHAPES = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}


def product(*, shapes: bool, name: str = "gemm") -> list[Event]:
    """A product and its kernel."""
    return [
        op("aten::mm", 0, 100, args=SHAPES if shapes else {}),
        launch(10, 10, 1),
        kernel(name, 200, 1_000, correlation=1),
    ]


def test_everything_is_judged_with_shapes_and_a_device():
    assert rules_without_data(Scope(make_trace(product(shapes=True), [H100]), None)) == []


def test_without_shapes_the_rules_that_need_them_are_named():
    missing = rules_without_data(Scope(make_trace(product(shapes=False), [H100]), None))
    assert ("uneven-kernels", NO_SHAPES) in missing and {reason for _, reason in missing} == {NO_SHAPES}


def test_without_operators_it_is_not_known_what_the_cpu_did_between_its_calls():
    alone = [launch(10, 10, 1), kernel("gemm", 200, 1_000, correlation=1)]
    missing = rules_without_data(Scope(make_trace(alone, [H100]), None))
    assert missing[0] == ("long-gap-without-op", NO_OPERATORS)
    assert "what the CPU did between its calls" in one(make_trace(alone, [H100]), "not-judged").evidence


def test_without_a_device_the_rules_that_need_one_are_named():
    missing = rules_without_data(Scope(make_trace(product(shapes=True)), None))
    assert missing == [(rule, NO_DEVICE) for rule in ("low-waves", "far-from-roofline", "small-batch-products")]


def test_a_device_without_known_peaks_is_said_to_be_that():
    quadro = Device(0, "Quadro GP100", {"computeMajor": 6, "computeMinor": 0, "numSms": 56})
    missing = rules_without_data(Scope(make_trace(product(shapes=True), [quadro]), None))
    assert missing == [("far-from-roofline", NO_PEAKS), ("small-batch-products", NO_PEAKS)]


def test_fp32_products_of_an_unknown_generation_are_not_judged():
    unknown = rules_without_data(Scope(make_trace(product(shapes=True, name="sgemm_128x128x8_NT_vec")), None))
    assert ("fp32-math", NO_DEVICE) in unknown
    ampere = rules_without_data(Scope(make_trace(product(shapes=True, name="ampere_sgemm_64x64_nn")), None))
    assert "fp32-math" not in dict(ampere) and "low-waves" in dict(ampere)


def test_nothing_is_missing_where_no_kernel_ran():
    assert rules_without_data(Scope(make_trace([op("aten::mm", 0, 100)]), None)) == []


def test_one_note_names_all_rules_that_could_not_be_run():
    finding = one(make_trace(product(shapes=False, name="sgemm_128x128x8_NT_vec")), "not-judged")
    assert finding.title.startswith(
        "7 rules could not be run: no shapes of inputs were recorded (record_shapes=True), "
    )
    assert finding.title.endswith("and the file does not describe the GPU (--device names it)")
    assert finding.evidence.endswith("; precision of GEMMs, grids smaller than the GPU: " + NO_DEVICE)
    assert finding.advice == "Record with record_shapes=True. Name the GPU with --device."
    every = finding_list(make_trace(product(shapes=True), [H100]))
    assert "not-judged" not in {finding.id for finding in every}
