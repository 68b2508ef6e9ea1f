"""What is said of two recordings before their numbers, and what of that is no reproach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.comparing import tutorial
from tests.support.comparing.statements import first, said
from tracetui.model.trace import Device, Kind, Quality, Trace

WEIGHTS = {"linear": "20e8", "x": "800c"}
"""Digests of the weights and inputs of a recording."""
STACK, COMBINED = {"workload": "split_stack"}, {"workload": "combined"}
NAIVE = {"workload": "attention", "params": {"impl": "naive", "batch": 8}}
IN_PLACE = {"workload": "attention", "params": {"impl": "inplace", "batch": 8}}


def with_metadata(**about: Any) -> Trace:
    """A trace that `tracetui run` might have recorded so."""
    options = {key: about.pop(key) for key in ("dtype", "stack") if key in about}
    return replace(
        tutorial.mlp(seed=about.pop("run", 0)), metadata={"tracetui": {**about, "options": options}}, cache={}
    )


def busy_for(length: int) -> Trace:
    """Kernels without a pause, launched one by one; the trace lasts so many ns."""
    launches = [launch(at, 50, at // 100 + 1) for at in range(0, length, 100)]
    kernels = [kernel("k", at, 100, correlation=at // 100 + 1) for at in range(0, length, 100)]
    return make_trace([*launches, *kernels, op("aten::mm", 0, length)])


def test_ranges_of_different_length_are_called_that_and_neither_is_faster():
    text = said(busy_for(10_000), busy_for(10_000), "@0us+5us", "@5us+2us")
    assert first(text).startswith("Ranges of different length: A 5.0 µs, B 2.0 µs.")
    assert "GPU time per range" in text
    assert "times as" not in text and "% less" not in text


@pytest.mark.parametrize("other", ["@5us+5us", "@5us+4.96us"])
def test_ranges_of_about_one_length_are_compared(other):
    text = said(busy_for(10_000), busy_for(10_000), "@0us+5us", other)
    assert "different length" not in text
    assert "GPU time per range the same" in text


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        ({"torch": "2.12.0"}, {"torch": "2.13.0"}, "Different versions of PyTorch: 2.12.0 and 2.13.0."),
        (STACK, COMBINED, "Different workloads: split_stack and combined."),
        (
            {**STACK, "dtype": "bf16"},
            {**COMBINED, "dtype": "fp32"},
            "Different workloads: split_stack and combined, dtype bf16 → fp32.",
        ),
        (NAIVE, IN_PLACE, "Recorded with different parameters: impl naive → inplace."),
        ({"dtype": "bf16"}, {"dtype": "fp32"}, "Recorded with different parameters: dtype bf16 → fp32."),
        ({"threads": 1}, {"threads": 4}, "Recorded with different parameters: threads 1 → 4."),
        ({"operands": WEIGHTS}, {"operands": {**WEIGHTS, "x": "801c"}}, "Different weights or inputs: x."),
        (
            {**NAIVE, "operands": WEIGHTS},
            {**IN_PLACE, "operands": {"linear": "1", "x": "2"}},
            "Recorded with different parameters: impl naive → inplace; their weights or inputs differ too: linear, x.",
        ),
        (
            {**NAIVE, "operands": WEIGHTS, "threads": 1},
            {**IN_PLACE, "operands": WEIGHTS, "threads": 4},
            "Recorded with different parameters: threads 1 → 4.",
        ),
    ],
)
@pytest.mark.full
def test_what_is_unfair_is_said_first(a, b, sentence):
    assert first(said(with_metadata(**a), with_metadata(**b))) == sentence
    assert sentence not in said(with_metadata(**a), with_metadata(**a))


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        (STACK, COMBINED, "Different workloads, split_stack and combined, with the same weights and inputs."),
        (NAIVE, IN_PLACE, "Different parameters, impl naive → inplace, with the same weights and inputs."),
    ],
)
@pytest.mark.full
def test_programs_on_the_same_numbers_are_fair(a, b, sentence):
    text = said(with_metadata(**a, operands=WEIGHTS), with_metadata(**b, operands=WEIGHTS, run=1))
    assert first(text).startswith("GPU time per step")
    assert text.splitlines()[-1] == sentence
    one_more = with_metadata(**b, operands={**WEIGHTS, "mask": "77"}, run=1)
    assert "with the same linear and x." in said(with_metadata(**a, operands=WEIGHTS), one_more)
    others = with_metadata(**b, operands={"linear": "1", "x": "2"})
    assert "with the same" not in said(with_metadata(**a, operands=WEIGHTS), others)


def test_digests_that_are_no_texts_are_not_believed():
    text = said(with_metadata(**STACK, operands=["x"]), with_metadata(**COMBINED, operands={"x": {"y": 1}}))
    assert first(text) == "Different workloads: split_stack and combined."


def test_what_a_file_does_not_say_is_not_called_different():
    text = said(with_metadata(torch="2.13.0", operands=WEIGHTS), with_metadata())
    assert "ifferent" not in text


def test_different_devices():
    other = replace(tutorial.mlp(), devices=(Device(0, "NVIDIA H200", {}),), cache={})
    assert first(said(tutorial.mlp(), other)).startswith("Different devices: NVIDIA A100-SXM4-80GB, and NVIDIA H200;")
    assert "devices" not in said(tutorial.mlp(), tutorial.mlp(tutorial.COMPILED))


def test_a_cut_file_and_frames_on_one_side():
    cut = replace(tutorial.mlp(), quality=Quality(truncated_at=1000), cache={})
    assert first(said(cut, tutorial.mlp())).startswith("A was not read to its end")
    assert "not read" in said(cut, cut)
    framed = make_trace([*tutorial.mlp_events(), Event("train.py(3): loop", 0, 10**6, Kind.PYTHON)], (tutorial.A100,))
    assert "Python frames were recorded only in B" in said(tutorial.mlp(), framed)
    assert "Python frames" not in said(framed, framed)


def test_steps_beside_a_whole_capture():
    lines = said(tutorial.mlp(), tutorial.mlp(tutorial.COMPILED), "", "all").splitlines()
    assert lines[0] == "A part of A is a step, one of B the whole capture: their sums cannot be compared."
    assert lines[1] == "GPU time: 701 µs for a step of A, 1,925 µs for the capture of B."
    assert lines[2].startswith("CPU time: 106 µs for a step of A, ")
    assert lines[-1] == "B is one capture: noise is known only for A."
    # What differs by as many parts as there are is no change.
    assert not [word for word in ("fast", "less", "much", "Kernels", "became") if f" {word} " in " ".join(lines)]
    assert "do not compare" not in said(*two_steps())


def two_steps() -> tuple[Trace, Trace]:
    return tutorial.mlp(), tutorial.mlp(tutorial.COMPILED)


def test_one_side_without_a_gpu():
    ops = [op("aten::mm", 1000 * at + 10, 400) for at in range(2)]
    ops += [op("aten::linear", 1000 * at + 500, 400) for at in range(2)]
    a = make_trace([step(1, 0, 1000), step(2, 1000, 1000), *ops])
    assert first(said(a, tutorial.mlp())) == "Only B ran anything on a GPU: the CPU times measure different things."
    assert first(said(tutorial.mlp(), a)).startswith("Only A ran anything on a GPU")
    assert "Only" not in said(*two_steps())


def test_one_step_beside_several():
    text = said(*two_steps(), "2", "")
    assert text.splitlines()[-1] == "A is one step: noise is known only for B."
    assert "noise unknown" not in text
    one_each = said(*two_steps(), "2", "3")
    assert "(one step each, noise unknown, 5 % assumed)" in first(one_each)
    assert one_each.count("noise") == 1
