"""The sample traces: small, real, without a trace of the machine they were made on, and made anew by one script."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest
from tracetui_workloads import registry

from tests.support.paths import ROOT, SAMPLES
from tests.support.traces import loaded
from tests.support.waiting import PROCESS_SECONDS
from tracetui.model.trace import Kind
from tracetui.operators.ops import ops
from tracetui.tables.expectations import Expectation, expectations

SCRIPT = runpy.run_path(str(SAMPLES / "record.py"))
COMMANDS = {sample.name: sample for sample in SCRIPT["SAMPLES"]}
NAMES = sorted(path.name.removesuffix(".json.gz") for path in SAMPLES.glob("*.json.gz"))
OF_WORKLOADS = [name for name in NAMES if not name.startswith("mlp_train_")]
COMPILED = [name for name in NAMES if "_compile_" in name]

OPS_PER_STEP = {
    "matmul_add_64_cold_eager": 6,
    "matmul_add_4096_warm_eager": 6,
    "linear_eager": 10,
    "mlp_eager": 35,
    "split_stack_eager": 210,
    "combined_eager": 23,
    "attention_naive": 45,
    "attention_flash": 19,
}
"""Of torch 2.13 on the CPU, on one thread."""
REGION = "Torch-Compiled Region: 0/0"
UNFUSED = {"linear_compile", "matmul_add_64_cold_compile", "matmul_add_4096_warm_compile"}
"""Where compiling changes the operators and makes no kernel of its own."""


def trace_of(name):
    """The sample, read."""
    return loaded(SAMPLES / f"{name}.json.gz")


def about(name):
    """What the sample says of itself."""
    return trace_of(name).metadata["tracetui"]


def calls(path):
    """How often each operator occurs."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    return Counter(event["name"] for event in document["traceEvents"] if event.get("cat") == "cpu_op")


def told_by_torch(name):
    """Calls and self CPU time in microseconds by name, from torch's own table."""
    lines = (SAMPLES / f"{name}.txt").read_text().splitlines()
    head = next(line for line in lines if "# of Calls" in line)
    columns = re.split(r" {2,}", head.strip())
    rows = [re.split(r" {2,}", line.strip()) for line in lines if re.search(r"  \d+\s*$", line)]
    time, count = columns.index("Self CPU"), columns.index("# of Calls")
    return {row[0]: (int(row[count]), microseconds(row[time])) for row in rows}


def microseconds(text):
    """A time of torch's table: a number and `us`, `ms` or `s`."""
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def test_all_of_them_fit_in_four_megabytes():
    assert sum(path.stat().st_size for path in SAMPLES.iterdir() if path.is_file()) < 4_000_000


@pytest.mark.parametrize("sample", COMMANDS)
def test_there_is_one_of_each(sample):
    if COMMANDS[sample].needs_gpu and not any(name.startswith(sample) for name in NAMES):
        pytest.skip("needs a recording on a GPU")
    assert any(name.rpartition("_")[0] == sample for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_and_says_nothing_about_its_machine(name):
    path = SAMPLES / f"{name}.json.gz"
    assert path.stat().st_size < 300_000
    text = gzip.decompress(path.read_bytes()).decode()
    document = json.loads(text)
    assert not set(SCRIPT["PRIVATE"]) & set(document)
    for each in (text, (SAMPLES / f"{name}.txt").read_text()):
        assert not re.search(r"""[\s"'(=:]~?/\w+/""", each), "a path from the root"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_its_name_says(name):
    sample, _, device = name.rpartition("_")
    told = about(name)
    asked = ["cpu"] if device == "cpu" else ["auto", "cuda"]
    assert told["argv"][1:] in [SCRIPT["words_of"](COMMANDS[sample], each) for each in asked]
    assert told["workload"] == COMMANDS[sample].words.split()[0]
    assert SCRIPT["device_name"](told) == device
    assert not trace_of(name).quality.notes


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_there_on_a_gpu_and_nowhere_else(name):
    assert bool(len(trace_of(name).slices.of_kind(Kind.KERNEL))) == (not name.endswith("_cpu"))


@pytest.mark.parametrize("name", OF_WORKLOADS)
def test_it_shows_what_its_workload_promises(name):
    trace, told = trace_of(name), about(name)
    wanted = [each for each in registry.find(told["workload"]).expects if each.applies(told)]
    table = expectations(
        trace, [Expectation(each.text, each.metric, each.want, each.of) for each in wanted], told["label"]
    )
    assert table.rows()
    assert [row for row in table.rows() if not row["holds"]] == []


@pytest.mark.parametrize("sample", OPS_PER_STEP)
def test_the_number_of_operators_per_step(sample):
    path = SAMPLES / f"{sample}_cpu.json.gz"
    if not path.exists():
        pytest.skip("there is only a recording on a GPU")
    told = about(f"{sample}_cpu")
    assert (told["torch"].split("+")[0], told["threads"]) == ("2.13.0", 1)
    assert calls(path).total() == 3 * OPS_PER_STEP[sample]


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_one_shows_what_compiling_did(name):
    found = calls(SAMPLES / f"{name}.json.gz")
    assert found[REGION] == found["TorchDynamo Cache Lookup"] == 3
    if name.endswith("_cpu"):
        fused = {each for each in found if re.match(r"graph_0_cpp_fused_", each)}
        assert bool(fused) != (name.removesuffix("_cpu") in UNFUSED)
    assert not found["aten::t"]


def test_compiling_a_linear_layer_adds_five_rows_and_takes_aten_t_away():
    eager, compiled = (calls(SAMPLES / f"linear_{how}_cpu.json.gz") for how in ("eager", "compile"))
    added = {name.partition(" f")[0] for name in compiled if name not in eager and not name.startswith("aten::")}
    assert added == {
        REGION,
        "TorchDynamo Cache Lookup",
        "Pregraph bytecode",
        "AOTDispatcher Runtime Wrapper Prologue",
        "## Call CompiledFxGraph",
    }
    assert "aten::t" in eager.keys() - compiled.keys()


@pytest.mark.parametrize("name", NAMES)
def test_ops_has_the_numbers_of_torchs_own_table(name):
    theirs = told_by_torch(name)
    ours = {row["name"]: row for row in ops(trace_of(name)).rows()}
    # On a GPU torch lists kernels in the same table, and other panes have those.
    shared = theirs.keys() & ours.keys()
    assert {each for each in theirs if each.startswith("aten::")} <= shared
    for each in shared:
        calls_of_it, self_cpu = theirs[each]
        assert ours[each]["calls"] == calls_of_it, each
        # Torch prints three decimals of its unit.
        assert ours[each]["self_cpu_us"] == pytest.approx(self_cpu, rel=1e-3, abs=0.1), each


def test_a_training_step_has_its_phases():
    found = calls(SAMPLES / "mlp_train_cpu.json.gz")
    assert found["aten::addmm"] == 3 * 3, "forward"
    assert found["aten::mm"] == 3 * 4, "backward; the input needs no gradient"
    names = trace_of("mlp_train_cpu").names
    assert names.find("mlp_fwd") >= 0
    assert names.find("Optimizer.step#AdamW.step") >= 0


@pytest.mark.parametrize(
    ("gpu", "word"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_the_device_in_a_name(gpu, word):
    assert SCRIPT["device_name"]({"device": "cuda:0", "gpu": {"name": gpu}}) == word


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/me/project/train.py(12): step", "train.py(12): step"),
        ("~/x/y.py", "y.py"),
        ('"/var/torchinductor_me/ab/cab.py"', '"cab.py"'),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 0/0"),
        ("sample_traces/programs.py:mlp_train", "sample_traces/programs.py:mlp_train"),
        ("a / b", "a / b"),
    ],
)
def test_folders_are_taken_out(text, kept):
    trace = {"traceEvents": [{"args": {"kernel_file": text}}], "host_name": "me"}
    assert SCRIPT["without_private"](trace) == {"traceEvents": [{"args": {"kernel_file": kept}}]}


def test_an_unknown_sample_is_refused(tmp_path):
    result = subprocess.run(
        [sys.executable, str(SAMPLES / "record.py"), "nothing", "-o", str(tmp_path / "new")],
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert result.returncode == 2
    assert "there is no nothing; there are matmul_add_64_cold_eager" in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.full
@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_the_script_records_the_same_program_and_says_what_it_leaves_out(tmp_path):
    words = ["linear_eager", "mlp_train", "fused_mlp_geglu", "--device", "cpu", "-o", str(tmp_path)]
    command = [sys.executable, str(SAMPLES / "record.py"), *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=5 * PROCESS_SECONDS, cwd=ROOT)
    assert result.returncode == 1
    told = result.stdout.splitlines()
    assert told[1].startswith("fused_mlp_geglu: left out, tracetui: fused_mlp needs a GPU")
    made = {"linear_eager_cpu", "mlp_train_cpu"}
    kinds = ("json.gz", "txt")
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.{kind}" for name in made for kind in kinds}
    for name in made:
        recorded, kept = calls(tmp_path / f"{name}.json.gz"), calls(SAMPLES / f"{name}.json.gz")
        # Which operators lie below these depends on the processor.
        for op in ("aten::linear", "aten::gelu", "aten::mul"):
            assert recorded[op] == kept[op]
