"""The script for a day with a GPU, as far as it can be tried without one."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import pytest

from tests.benchmarks import gpu_day, gpu_report
from tests.support.waiting import PATIENCE
from tests.support.workloads.children import needs_torch
from tests.support.workloads.machines import GPU
from tests.support.workloads.traced import LINEAR, trace_file
from tracetui.cli.main import build_parser
from tracetui.cli.run import request_of
from workloads import machine, registry

ABOUT = {
    "device": "cuda:0",
    "gpu": {"name": "Some | GPU"},
    "driver": "570.1",
    "torch": "2.13.0",
    "cuda": "13.0",
}
LINES = [
    {"expectation": "GPU kernels per forward", "wanted": "1", "found": "2", "holds": False},
    {"expectation": "additions", "wanted": "0", "found": None, "holds": True},
]


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Commands that would be run; each ends as it is told by a word in it, else well and without a word."""
    asked: list = []
    endings: dict = {}

    def run_until(deadline, words):
        asked.append(list(words))
        return next((ending for word, ending in endings.items() if word in words), (0, ""))

    monkeypatch.setattr(gpu_day, "run_until", run_until)
    monkeypatch.setattr(sys, "argv", ["gpu_day", "--device", "cpu", "-o", str(tmp_path), "--minutes", "9"])
    return asked, endings


def document(folder, **more):
    """What `tracetui run --verify --json` prints."""
    path = trace_file(folder / "x.json", "fwd", LINEAR, {})
    return {"path": str(path), "recording": ABOUT, "verification": {"holds": False, "lines": LINES}, **more}


def test_every_variant_of_every_workload_is_understood():
    found = list(gpu_day.commands())
    assert {words.split()[0] for words in found} == set(registry.BUILT_IN)
    assert len(found) == len(set(found))
    parser = build_parser()
    for words in found:
        parsed, rest = parser.parse_known_args(["run", *words.split()])
        parsed.parameters = rest
        assert request_of(parsed).workload == words.split()[0]


def test_only_some_workloads():
    assert list(gpu_day.commands(["linear"])) == ["linear", "linear --compile"]
    assert gpu_day.samples(["linear"]) == ["linear_eager", "linear_compile"]


def test_a_command_that_takes_too_long_is_ended_and_its_words_are_kept():
    started = time.monotonic()
    script = "print('a row', flush=True); import time; time.sleep(600)"
    assert gpu_day.run_until(started + 1, [sys.executable, "-c", script]) == (None, "a row\n")
    assert time.monotonic() - started < PATIENCE


def test_a_command_that_ends_in_time():
    assert gpu_day.run_until(float("inf"), [sys.executable, "-c", "print(1); exit(3)"]) == (3, "1\n")


def test_what_one_part_lacks_does_not_keep_the_others_from_running(ran, tmp_path, capsys):
    asked, endings = ran
    endings["tracetui"] = (1, "no JSON")
    endings[str(gpu_day.ROOT / "sample_traces" / "record.py")] = (1, "a.json.gz: 1 kB\nb: left out, no GPU\n")
    endings["tests.benchmarks.gpu_mlp"] = (3, "")
    assert gpu_day.main() == 1
    page = (tmp_path / "docs" / "gpu.md").read_text()
    assert "* `a.json.gz`: 1 kB\n" in page
    assert "* tracetui run linear: exit code 1\n" in page
    assert "* sample b: left out, no GPU\n" in page
    assert "* bench-gpu: exit code 3\n" in page
    assert "gpu: tracetui run linear: exit code 1\n" in capsys.readouterr().err
    assert len(asked) == len(list(gpu_day.commands())) + 2


def test_what_was_found_is_in_the_page(ran, monkeypatch, tmp_path):
    _, endings = ran
    endings["tracetui"] = (1, json.dumps(document(tmp_path)))
    endings["tests.benchmarks.gpu_mlp"] = (None, "Some GPU\n\n| tokens |\n")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "linear"])
    assert gpu_day.main() == 1
    page = (tmp_path / "docs" / "gpu.md").read_text()
    assert "on Some \\| GPU, driver 570.1, torch 2.13.0, CUDA 13.0.\n" in page
    assert "| `linear` | GPU kernels per forward | 1 | 2 | no |\n" in page
    assert "| `linear --compile` | additions | 0 | – |  |\n" in page
    assert "| `linear` | 900 | 0 | 0 | – | – | 0 | – |\n" in page
    assert "## The fused MLP\n\nSome GPU\n\n| tokens |\n" in page
    assert "* bench-gpu: no time left\n" in page


def test_without_time_nothing_is_started_and_it_is_said(ran, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--minutes", "1e-9", "--parts", "verify"])
    assert gpu_day.main() == 1
    assert ran[0] == []
    assert not (tmp_path / "docs").exists(), "an empty page would replace a good one"


def test_without_a_gpu_it_says_so_once(ran, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, "inspect_machine", lambda: replace(GPU, driver=None))
    monkeypatch.setattr(sys, "argv", ["gpu_day", "-o", str(tmp_path)])
    assert gpu_day.main() == 3
    assert capsys.readouterr().err.startswith("gpu: there is no GPU")
    assert ran[0] == []


def test_kernels_of_a_step_by_their_short_names(shared_trace):
    cells = dict(zip(gpu_report.FACTS, gpu_report.facts(str(shared_trace("d08_b200_cuda13_ep_moe.json"))), strict=True))
    assert cells["kernels of one step"] != gpu_report.ABSENT


def test_a_file_that_is_no_trace_has_no_facts(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("nothing")
    assert set(gpu_report.facts(str(path))) == {gpu_report.ABSENT}


@pytest.mark.nightly
@needs_torch
def test_the_parts_on_the_cpu(tmp_path):
    words = ["--device", "cpu", "--only", "linear", "--parts", "verify", "bench", "-o", str(tmp_path)]
    code, told = gpu_day.run_until(time.monotonic() + 600, [sys.executable, "-m", "tests.benchmarks.gpu_day", *words])
    assert "linear: holds\n" in told
    page = (tmp_path / "docs" / "gpu.md").read_text()
    assert "| `linear` | CPU operators per step | 10 | 10 |  |\n" in page
    if "bench-gpu" in page:
        assert code == 1, "without a GPU there is nothing to measure on"
