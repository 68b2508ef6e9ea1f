"""Variants recorded for real on the CPU, and whether comparing them says what the tutorials lead one to see.

What ran is the same on any machine. How long it took is not: of times it is asserted that nothing is said of them that
their noise forbids.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.workloads.children import COMMAND, ENVIRONMENT, needs_torch
from tests.support.workloads.sizes import ATTENTION
from tracetui.comparing.measures import COUNT, measures
from tracetui.comparing.noise import Change, difference
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.reading.load import load

MLP = {"batch": 2, "seq": 32, "dim": 64, "hidden": 128}
PUZZLE = {"batch-size": 64, "input-dim": 32}

pytestmark = [pytest.mark.full, needs_torch]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function from a workload and its variants to what `tracetui run` says of them, each recorded once."""
    made: dict = {}
    folder = tmp_path_factory.mktemp("variants")

    def record(workload, words, sizes):
        key = (workload, words)
        if key not in made:
            more = [text for name, value in sizes.items() for text in (f"--{name.replace('_', '-')}", str(value))]
            command = [*COMMAND, "run", workload, "--compare", words, *more, "--device", "cpu", "--json"]
            done = subprocess.run(
                [*command, "-o", str(folder / workload)], capture_output=True, text=True, timeout=600, env=ENVIRONMENT
            )
            made[key] = json.loads(done.stdout)
        found = made[key]
        kinds = [row["failure"]["kind"] for row in found["variants"] if row["failure"]]
        if "missing:compiler" in kinds:
            pytest.skip("needs a C++ compiler")
        assert kinds == [], found
        return found

    return record


def beside(found, a, b) -> Comparison:
    """Two of the variants."""
    paths = {row["variant"]: row["path"] for row in found["variants"]}
    return Comparison(side(load(paths[a])), side(load(paths[b])))


def marks(told: Comparison) -> dict:
    """What became of each operator."""
    return {str(row["name"]): row["mark"] for row in told.all_ops.rows()}


def calls(told: Comparison, name) -> tuple:
    """Calls of an operator in a step, before and after."""
    return next(((row["calls_a"], row["calls_b"]) for row in told.all_ops.rows() if row["name"] == name), (0, 0))


def cpu(told: Comparison) -> Change:
    """What can be said of the CPU time of a step."""
    a, b = (measures(each)["cpu_us"].values for each in (told.a, told.b))
    return difference(a, b).change


WORDS = {
    Change.LESS: (" less", " times as fast"),
    Change.MORE: (" more", " times as much"),
    Change.SAME: (" the same: ",),
    Change.WITHIN_NOISE: ("cannot tell",),
}


def claims_what_noise_allows(told: Comparison) -> bool:
    """Whether the sentence about the CPU time of a step says what the numbers of the steps do, and no more."""
    [line] = [line for line in told.statement if line.startswith("CPU time per step ")]
    said = {change for change, words in WORDS.items() if any(word in line for word in words)}
    return said == {cpu(told)}


def fused(told: Comparison) -> dict:
    """Into which kernel the work of each operator went."""
    return {str(row["name"]): row["fused_into"] for row in told.all_ops.rows() if row["fused_into"]}


def operators(told: Comparison) -> list:
    """Operators of a step, before and after."""
    return [float(measures(each)["cpu_ops"].values[0]) for each in (told.a, told.b)]


@pytest.mark.nightly
def test_linear_compiled_loses_its_transposition(recorded):
    found = recorded("linear", "eager,compile", {"batch": 32})
    told = beside(found, "eager", "compile")
    assert marks(told)["aten::t"] == "gone"
    assert calls(told, "aten::addmm") == (1, 1)
    new = [row["name"] for row in told.ops.rows() if row["kind"] == "compile" and row["mark"] == "new"]
    assert {"TorchDynamo Cache Lookup", "Torch-Compiled Region"} <= set(new)
    said = " ".join(found["comparisons"][0]["statement"])
    assert f"torch.compile adds {len(new)} entries" in said
    assert "the view ops t, transpose" in said
    assert claims_what_noise_allows(told)


@pytest.mark.nightly
def test_matmul_add_compiled_is_one_operator_in_the_place_of_two(recorded):
    told = beside(recorded("matmul_add", "eager,compile", {"size": 16}), "eager", "compile")
    found = marks(told)
    assert (found["aten::mm"], found["aten::add"], found["aten::addmm"]) == ("gone", "gone", "new")
    assert claims_what_noise_allows(told)


def test_mlp_compiled_fuses_what_lies_between_the_products(recorded):
    found = recorded("mlp", "eager,compile", MLP)
    told = beside(found, "eager", "compile")
    assert calls(told, "aten::mm") == (3, 3), "the products stay what they are"
    assert marks(told)["aten::linear"] == "gone"
    [kernel] = [name for name in marks(told) if "_fused_" in name]
    assert (fused(told)["aten::gelu"], fused(told)["aten::mul"]) == (kernel, kernel)
    assert claims_what_noise_allows(told)
    assert found["operands"] == {"same": ["down", "gate", "up", "x"], "different": []}


@pytest.mark.nightly
def test_attention_in_place_copies_nothing_and_flash_is_one_operator(recorded):
    found = recorded("attention", "naive,inplace,flash", {**ATTENTION, "dtype": "fp32"})
    naive = beside(found, "naive", "inplace")
    assert marks(naive)["aten::clone"] == marks(naive)["aten::masked_fill"] == "gone"
    assert calls(naive, "aten::copy_") == (2, 1)
    assert claims_what_noise_allows(naive)
    flash = beside(found, "inplace", "flash")
    assert marks(flash)["aten::bmm"] == "gone"
    assert marks(flash)["aten::_scaled_dot_product_flash_attention_for_cpu"] == "new"
    assert found["operands"]["different"] == []


@pytest.mark.nightly
def test_sixteen_pieces_in_one(recorded):
    found = recorded("split_stack", "eager,combined", PUZZLE)
    told = beside(found, "eager", "combined")
    assert calls(told, "aten::native_layer_norm") == calls(told, "aten::tanh") == (16, 1)
    assert marks(told)["aten::cat"] == "gone"
    before, after = operators(told)
    assert after < before / 5
    assert claims_what_noise_allows(told)
    assert found["operands"] == {"same": ["linear", "x"], "different": []}


def test_of_the_same_program_twice_no_count_differs(recorded):
    """How long it took may differ between two processes; what it did may not."""
    told = beside(recorded("linear", "active=10,active=11", {"batch": 32}), "active=10", "active=11")
    found = marks(told)
    assert not {"gone", "new"} & set(found.values())
    for name, measure in measures(told.a).items():
        if measure.unit == COUNT:
            other = measures(told.b)[name].values
            assert difference(measure.values, other, exact=True).change in (Change.SAME, Change.UNKNOWN), name
    assert told.statement
