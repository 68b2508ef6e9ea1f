"""The script for a day with a GPU, as far as it can be tried without one."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from tracetui_workloads import registry

from tests.benchmarks import gpu_day, gpu_packing, gpu_report, gpu_results
from tests.benchmarks.gpu_packing import pack
from tests.support.bare_machine import bare_environment
from tests.support.paths import ROOT
from tests.support.waiting import POLL_SECONDS
from tests.support.workloads.children import needs_torch
from tests.support.workloads.traced import LINEAR, trace_file
from tracetui.cli.main import build_parser
from tracetui.cli.recording import requests_of

ABOUT = {
    "device": "cuda:0",
    "gpu": {"name": "NVIDIA H100 80GB HBM3 | x"},
    "driver": "570.1",
    "torch": "2.13.0",
    "cuda": "13.0",
    "unprofiled": {"median_us": 12.5, "low_us": 12.0, "high_us": 13.0},
}
CARD = {"name": "NVIDIA H100 80GB HBM3", "is_gpu": True, "torch": "2.11.0", "day": "2026-11-23"}
LINES = [
    {"expectation": "GPU kernels per forward", "wanted": "1", "found": "2", "holds": False},
    {"expectation": "additions", "wanted": "0", "found": None, "holds": True},
]


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Commands that would be run; each ends as it is told by a word in it, else well and without a word."""
    asked: list = []
    endings: dict = {"tests.benchmarks.gpu_card": (0, json.dumps(CARD))}

    def run_until(deadline, words):
        asked.append(list(words))
        return next((ending for word, ending in endings.items() if word in words), (0, ""))

    monkeypatch.setattr(gpu_day, "run_until", run_until)
    argv = ["gpu_day", "--work", str(tmp_path / "work"), "--minutes", "9", "--pack", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", argv)
    return asked, endings


def document(folder: Path, holds: bool = False) -> str:
    """What `tracetui run --verify --json` prints."""
    path = trace_file(folder / "x.json", "fwd", LINEAR, {})
    verification = {"holds": holds, "lines": LINES}
    return json.dumps({"path": str(path), "seconds": 1.0, "recording": ABOUT, "verification": verification})


def test_every_variant_of_every_workload_is_understood():
    found = list(gpu_day.commands())
    assert {words.split()[0] for words in found} == set(registry.BUILT_IN)
    assert len(found) == len(set(found)) == len({gpu_day.name_of(words) for words in found})
    parser = build_parser()
    for words in found:
        parsed, rest = parser.parse_known_args(["run", *words.split()])
        parsed.parameters = rest
        assert requests_of(parsed)[0].workload == words.split()[0]


def test_every_sample_is_among_what_is_recorded():
    known = {gpu_day.name_of(words) for words in gpu_day.commands()}
    samples = runpy.run_path(str(ROOT / "sample_traces" / "record.py"))["SAMPLES"]
    own = {sample.name for sample in samples if gpu_day.name_of(sample.words) not in known}
    assert own == {"mlp_train"}, "a function of one's own is no workload"


def test_what_teaches_most_is_recorded_first():
    found = [words.split()[0] for words in gpu_day.commands()]
    assert found[0] == "split_stack" and found.index("mlp") < found.index("attention")


def test_only_some_workloads():
    assert list(gpu_day.commands(["linear"])) == ["linear", "linear --compile"]


def test_a_command_that_takes_too_long_is_ended_and_its_words_are_kept():
    started = time.monotonic()
    script = "print('a row', flush=True); import time; time.sleep(600)"
    assert gpu_day.run_until(started + 1, [sys.executable, "-c", script]) == (None, "a row\n")
    assert time.monotonic() - started < POLL_SECONDS


def test_a_command_that_ends_in_time():
    assert gpu_day.run_until(float("inf"), [sys.executable, "-c", "print(1); exit(3)"]) == (3, "1\n")


def test_what_one_part_lacks_does_not_keep_the_others_from_running(ran, tmp_path):
    asked, endings = ran
    endings["tracetui"] = (1, "no JSON")
    endings["tests.benchmarks.gpu_mlp"] = (3, "")
    assert gpu_day.main() == 1
    recordings = [words for words in asked if "--verify" in words]
    assert len(recordings) == len(list(gpu_day.commands()))
    assert any("tests.support.workloads.kernel_results" in words for words in asked)
    outcome = json.loads((tmp_path / "work" / "linear.outcome.json").read_text())
    assert outcome["trouble"] == "exit code 1"


def test_the_traces_of_ranks_lie_beside_the_others(ran, monkeypatch, tmp_path):
    _, endings = ran
    folder = tmp_path / "work" / "ddp"

    def run_until(deadline, words):
        if "--verify" not in words:
            return endings["tests.benchmarks.gpu_card"]
        assert words[-1] == str(folder), "no file is asked for"
        folder.mkdir(parents=True)
        for rank in (0, 1):
            (folder / f"rank{rank}.txt").write_text(f"{rank}")
            (folder / f"rank{rank}.json.gz").write_text(f"{rank}")
        ranks = [str(folder / f"rank{rank}.json.gz") for rank in (0, 1)]
        return 0, json.dumps({"path": str(folder), "ranks": ranks, "recording": ABOUT})

    monkeypatch.setattr(gpu_day, "run_until", run_until)
    monkeypatch.setattr(gpu_day, "commands", lambda only=(): ["ddp"])
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--parts", "record"])
    assert gpu_day.main() == 0
    found = {path.name: path.read_text() for path in (tmp_path / "work").glob("ddp*[!n]")}
    assert found == {"ddp.json.gz": "0", "ddp.txt": "0", "ddp_rank1.json.gz": "1", "ddp_rank1.txt": "1"}


def test_a_second_call_goes_on_where_the_first_one_stopped(ran, monkeypatch, tmp_path, capsys):
    asked, endings = ran
    endings["tracetui"] = (1, document(tmp_path))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "linear", "--parts", "record"])
    assert gpu_day.main() == 1
    assert [words[words.index("run") + 1] for words in asked if "--verify" in words] == ["linear", "linear"]
    asked.clear()
    assert gpu_day.main() == 1
    assert asked == []
    monkeypatch.setattr(sys, "argv", [*sys.argv[:-1], "stock"])
    assert gpu_day.main() == 1
    assert any("tests.benchmarks.gpu_stock" in words for words in asked)


def test_what_had_no_time_is_left_for_the_next_call(ran, monkeypatch, tmp_path, capsys):
    asked, endings = ran
    endings["tracetui"] = (None, "")
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--minutes", "0.5", "--only", "linear", "--parts", "record"])
    assert gpu_day.main() == 1
    assert "2 recordings are left for the next call: linear, linear --compile" in capsys.readouterr().err
    assert not (tmp_path / "work" / "linear.outcome.json").exists()
    asked.clear()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--minutes", "1e-9"])
    assert gpu_day.main() == 1
    assert asked == []


def test_without_a_gpu_it_says_so_once(ran, capsys):
    asked, endings = ran
    endings["tests.benchmarks.gpu_card"] = (1, "")
    assert gpu_day.main() == 3
    assert capsys.readouterr().err.startswith("gpu: there is no GPU")
    assert len(asked) == 1


def test_what_was_found_is_in_the_page(ran, monkeypatch, tmp_path):
    _, endings = ran
    endings["tracetui"] = (1, document(tmp_path))
    endings["tests.benchmarks.gpu_mlp"] = (0, "Some GPU\n\n| tokens |\n")
    endings["tests.support.workloads.kernel_results"] = (0, json.dumps({"geglu": "", "gateup": "off by 1"}))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "linear"])
    assert gpu_day.main() == 1
    for name in ("linear", "linear_compile"):
        trace_file(tmp_path / "work" / f"{name}.json.gz", "fwd", LINEAR, {})
    page = tmp_path / "gpu.md"
    monkeypatch.setattr(sys, "argv", ["gpu_results", str(tmp_path / "work"), "--page", str(page)])
    assert gpu_results.main() == 0
    said = page.read_text()
    assert said.startswith("# On a GPU\n\nMeasured on 23 November 2026 by `make gpu`")
    assert "on NVIDIA H100 80GB HBM3 \\| x, driver 570.1, torch 2.13.0, CUDA 13.0.\n" in said
    assert "| `linear` | GPU kernels per forward | 1 | 2 | no |\n" in said
    assert "| `linear --compile` | additions | 0 | – |  |\n" in said
    assert "| `linear` | 12.5 | 12.0 | 13.0 |\n" in said
    assert "## The fused MLP\n\nSome GPU\n\n| tokens |\n" in said
    assert "Of 2 numeric cases of the Triton kernels 1 do not agree with torch: gateup: off by 1." in said


def test_a_time_of_two_runs_has_no_interval():
    time = {"median_us": 12.5, "low_us": None, "high_us": None}
    recording = gpu_report.Recording("linear", "one", (), (), time)
    assert gpu_report.unprofiled([recording])[-1] == "| `linear` | 12.5 | – | – |"


def test_results_of_no_gpu_become_no_page_of_one(ran, monkeypatch, tmp_path, capsys):
    _, endings = ran
    endings["tests.benchmarks.gpu_card"] = (0, json.dumps({**CARD, "is_gpu": False, "name": "cpu"}))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--device", "cpu", "--parts", "stock"])
    gpu_day.main()
    monkeypatch.setattr(sys, "argv", ["gpu_results", str(tmp_path / "work"), "--page", str(tmp_path / "gpu.md")])
    assert gpu_results.main() == 1
    assert "these results are of no GPU" in capsys.readouterr().err
    assert not (tmp_path / "gpu.md").exists()
    monkeypatch.setattr(sys, "argv", ["gpu_results", str(tmp_path), "--page", str(tmp_path / "gpu.md")])
    assert gpu_results.main() == 1
    assert "there are no results" in capsys.readouterr().err


def names_in(folder: Path) -> list[list[str]]:
    """The members of each archive."""
    found = []
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            found.append(sorted(archive.getnames()))
    return found


def test_archives_are_few_and_small_and_nothing_is_packed_twice(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_packing, "MAX_BYTES", 10_000)
    monkeypatch.setattr(gpu_packing, "MAX_FILES", 3)
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.outcome.json").write_text("{}")
    (work / "large.json.gz").write_bytes(bytes(10_001))
    for number in range(8):
        (work / f"{number}.json.gz").write_bytes(bytes(3_500))
    said = pack(work, tmp_path / "one")
    assert names_in(tmp_path / "one")[0][0] in ("0.json.gz", "a.outcome.json")
    assert len(names_in(tmp_path / "one")) == 3
    assert any("no room for 3 files" in line for line in said) and any(
        "large.json.gz is larger" in line for line in said
    )
    pack(work, tmp_path / "two")
    traces = [name for names in [*names_in(tmp_path / "one"), *names_in(tmp_path / "two")] for name in names]
    assert sorted(name for name in traces if name.endswith(".gz")) == [f"{number}.json.gz" for number in range(8)]
    assert traces.count("a.outcome.json") == 2


def test_kernels_of_a_step_by_their_short_names(shared_trace):
    cells = dict(zip(gpu_report.FACTS, gpu_report.facts(str(shared_trace("d08_b200_cuda13_ep_moe.json"))), strict=True))
    assert cells["kernels of one step"] != gpu_report.ABSENT


def test_a_file_that_is_no_trace_has_no_facts(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("nothing")
    assert set(gpu_report.facts(str(path))) == {gpu_report.ABSENT}


@pytest.mark.full
@needs_torch
def test_a_dry_run_on_a_machine_with_little_but_torch(tmp_path):
    words = ["--device", "cpu", "--minutes", "9", "--only", "linear", "--work", str(tmp_path / "work")]
    said = subprocess.run(
        ["python3", "-m", "tests.benchmarks.gpu_day", *words, "--pack", str(tmp_path / "out")],
        cwd=ROOT,
        env=bare_environment(tmp_path / "bare"),
        capture_output=True,
        text=True,
    )
    assert (said.returncode, said.stdout.count("holds")) == (0, 4), said.stdout + said.stderr
    (members,) = names_in(tmp_path / "out")
    assert {"linear.json.gz", "linear.txt", "linear_compile.json.gz", "stock_train.json.gz"} <= set(members)
    page = tmp_path / "trial.md"
    made = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.gpu_results", str(tmp_path / "out"), "--page", str(page), "--trial"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert page.read_text().startswith("# A trial without a GPU: none of these numbers is one of a GPU")
    assert "| `linear` | CPU operators per step | 10 | 10 |  |\n" in page.read_text()
