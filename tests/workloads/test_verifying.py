"""Operators built again by a child process: those of the samples, hostile ones, the program that is written."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys

import jsonschema
import pytest
from tracetui_workloads.recording.launcher import record_now
from tracetui_workloads.verifying.task import CHECK, SCRIPT, TIME, requested

from tests.support.build import kernel, launch, make_trace, op
from tests.support.paths import ROOT, SAMPLES
from tests.support.waiting import POLL_SECONDS
from tests.support.workloads.children import QUICK, needs_torch
from tracetui.cli.main import main
from tracetui.linking.links import op_rows
from tracetui.model.trace import Device
from tracetui.reading.load import load
from tracetui.tables.call_variants import ATEN, all_variants, call_variants, task_fields, variants_named

pytestmark = [pytest.mark.full, needs_torch]

TRAIN = SAMPLES / "mlp_train_cpu.json.gz"
WITH_SHAPES = ("attention_flash", "attention_naive", "mlp_compile", "mlp_eager", "mlp_train")


def answers(kind, fields, **more):
    with requested(kind, **{**fields, **more}) as request:
        outcome = record_now(request, environment=QUICK)
    assert outcome.failure is None, outcome.failure
    return outcome.metadata["operators"]


def test_95_percent_of_the_time_of_the_samples_can_be_built_again_with_the_same_children():
    everything, operators, whole = [], [], 0.0
    for name in WITH_SHAPES:
        trace = load(str(SAMPLES / f"{name}_cpu.json.gz"))
        of_all = all_variants(trace)
        variants = [each for each in of_all if not each.why]
        whole += sum(each.self_cpu_us for each in of_all)
        everything += variants
        operators += task_fields(trace, variants)["operators"]
    found = answers(CHECK, {"operators": operators})
    assert len(found) == len(everything) > 150
    built = sum(each.self_cpu_us for each, answer in zip(everything, found, strict=True) if answer["why"] is None)
    assert built >= 0.95 * whole
    again = [answer["children"] for answer in found if "children" in answer]
    assert len(again) > 100 and set(again) == {"same"}


def test_95_percent_of_the_time_on_a_gpu_can_be_built_again(shared_trace):
    trace = load(str(shared_trace("d25_h100_hf_qwen15_24layers.json.gz")))
    variants = [each for each in call_variants(trace, op_rows(trace)) if each.name.startswith(ATEN)]
    found = answers(CHECK, task_fields(trace, variants))
    built = sum(each.gpu_us for each, answer in zip(variants, found, strict=True) if answer["why"] is None)
    assert built >= 0.95 * sum(each.gpu_us for each in variants) > 0


def recorded(name, dims=None, types=None, values=None, strides=None):
    dims = [[2, 2]] if dims is None else dims
    return {
        "name": name,
        "dims": dims,
        "types": ["float"] * len(dims) if types is None else types,
        "strides": strides,
        "values": [""] * len(dims) if values is None else values,
    }


BILLION = 10**9
HOSTILE = {
    "its inputs, or": recorded("aten::relu", [[BILLION, BILLION]]),
    "or results, of": recorded("aten::add", [[10**5, 1], [1, 10**5], []], ["float", "float", "Scalar"], ["", "", "1"]),
    "sizes or strides": recorded("aten::relu", [[-1]]),
    "no whole numbers": recorded("aten::relu", [["__import__('os')"]]),
    "the type 'c10::Odd\\x1b[31m' is not known": recorded("aten::relu", types=["c10::Odd\x1b[31m"]),
    "no such operator": recorded("aten::\x1b]0;owned\x07"),
    "operator in this": recorded("os::system"),
    "its shapes were not recorded": {**recorded("aten::relu"), "dims": None},
    "no such operator in": recorded("aten::__class__"),
    "not understood": recorded("aten::sum", [[2, 2], []], ["float", "ScalarList"], ["", "__import__('os').getcwd()"]),
    "is not understood": recorded("aten::sum", [[2, 2], []], ["float", "ScalarList"], ["", "[" * 4000]),
    "the value 'xxxx": recorded("aten::sum", [[2, 2], []], ["float", "ScalarList"], ["", "x" * 9000]),
    "are not understood": recorded("aten::relu", types=[{"a": 1}]),
    "no overload": recorded("aten::from_file", [[], [], []], [""] * 3, ["'stolen'", "True", "10"]),
    "no overload of": recorded("aten::save", [[2], []], ["float", ""], ["", "'stolen'"]),
    "above 4 GiB": recorded("aten::zeros", [[]], ["ScalarList"], [f"[{BILLION}, 9]"]),
    "as of indices": recorded("aten::index", [[4, 4], []], ["float", ""]),
    "of approximate is not": recorded("aten::gelu", [[4], []], ["float", ""], ["", "no'ne\n"]),
    "dtype of number": recorded(
        "aten::_to_copy", [[4], *[[]] * 6], ["float", "Scalar", *[""] * 5], ["", "-3", *[""] * 5]
    ),
}


def test_what_is_hostile_ends_in_a_sentence_and_the_next_operator_is_built(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = answers(CHECK, {"operators": [*HOSTILE.values(), recorded("aten::relu")]})
    *refused, good = found
    for words, answer in zip(HOSTILE, refused, strict=True):
        assert answer["why"] and words in answer["why"], (words, answer)
        assert answer["why"].isprintable()
    assert good["why"] is None and list(tmp_path.iterdir()) == []


def test_an_operator_is_timed_beside_alternatives_and_the_document_is_as_declared(capsys):
    words = ["verify", str(TRAIN), "addmm", "--vs", "bf16,channels_last,sdpa", "--noise", "900000"]
    assert main([*words, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert {"verify: warming up aten::addmm, bf16", "verify: timing aten::addmm"} <= set(printed.err.splitlines())
    document = json.loads(printed.out)
    jsonschema.validate(document, json.loads((ROOT / "docs" / "schema" / "verify.json").read_text()))
    (row,) = document["operators"]
    assert (row["children"], row["kernels"], row["calls"], row["why"]) == ("same", None, 6, None)
    ways = {each["name"]: each for each in row["times"]}
    assert {name for name, each in ways.items() if each["why"] is None} == {"here", "here again", "warm", "bf16"}
    assert ways["here again"]["verdict"] == "cannot tell"
    assert all(each["interval_us"][1] > 0 for each in ways.values() if each["why"] is None)
    assert document["rebuilt_cpu_pct"] is None and document["machine"]["threads"] == 1


def test_a_machine_that_is_too_noisy_gives_no_times_and_the_exit_code_1(capsys):
    assert main(["verify", str(TRAIN), "mul", "--noise", "0.001"]) == 1
    printed = capsys.readouterr().out
    assert "too noisy" in printed and "here again" not in printed and "recorded" in printed


def test_the_program_runs_and_says_what_was_recorded(tmp_path, capsys):
    trace = tmp_path / "it's \"quoted\"\n__import__('os').abort() #.json.gz"
    trace.write_bytes(TRAIN.read_bytes())
    script = tmp_path / "again.py"
    assert main(["verify", str(trace), "addmm", "--script", str(script)]) == 0
    tree = ast.parse(script.read_text())
    calls = {each.func.id for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}
    assert "__import__" not in calls
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=POLL_SECONDS, check=True)
    median, here = map(float, re.findall(r"(?:recorded|here) ([\d.]+) us", done.stdout))
    assert math.isclose(median, 173.3) and here > 0
    assert main(["verify", str(trace), "addmm", "--script", str(script)]) == 2
    assert "--force" in capsys.readouterr().err


def test_an_operator_of_another_gpu_is_not_timed_and_its_program_is_written_all_the_same():
    args = {"Input Dims": [[4, 4]], "Input type": ["float"], "Input Strides": [[4, 1]], "Concrete Inputs": [""]}
    events = [op("aten::relu", 0, 50, args=args), launch(10, 5, 1), kernel("relu", 100, 40, correlation=1)]
    trace = make_trace(events, [Device(0, "NVIDIA \x1b[31mX900", {})])
    fields = task_fields(trace, variants_named(trace, "relu"))
    with requested(TIME, **fields) as request:
        failure = record_now(request, environment=QUICK).failure
    assert failure is not None and failure.kind == "device" and failure.exit_code == 3
    assert "NVIDIA X900" in failure.message and "here is" in failure.message
    (answer,) = answers(SCRIPT, fields)
    assert "torch.device('cuda')" in answer["script"] and "recorded 0.0 us" in answer["script"]
    ast.parse(answer["script"])
