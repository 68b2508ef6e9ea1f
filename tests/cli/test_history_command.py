"""`tracetui history`, `check --history` and `bisect`: forms, exit codes, mistakes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.histories import write_trace
from tests.support.paths import ROOT
from tests.support.workloads.children import QUICK, needs_torch
from tracetui.cli.main import main


@pytest.fixture
def runs(tmp_path):
    """Ten runs, of which the last four have more operators and take longer."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(10):
        slow, ops = (1500, 4) if number > 5 else (1000, 2)
        write_trace(folder / f"run{number}.json", [slow + 5 * number, slow, slow - 4], number, ops)
    return folder


def code_of(*words):
    try:
        return main([str(word) for word in words])
    except SystemExit as end:
        return end.code


def test_json_has_the_changes_and_the_run_that_brought_them(runs, capsys):
    assert code_of("history", runs, "--format", "json", "--no-cache") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"].startswith("tracetui/history/")
    (series,) = document["series"]
    by_name = {each["measure"]: each for each in series["measures"]}
    (change,) = by_name["cpu_ops"]["changes"]
    assert (change["run"], change["before"], change["after"], change["view"]) == (6, 2, 4, "s2")
    assert change["file"].endswith("run6.json") and change["previous_file"].endswith("run5.json")
    (slower,) = by_name["step_us"]["changes"]
    assert slower["ratio"] == 1.5 and slower["run"] == 6 and len(by_name["step_us"]["medians"]) == 10


@pytest.mark.parametrize("form", ["table", "md"])
@pytest.mark.full
def test_text_has_a_cell_for_each_run_and_a_sentence_for_each_change(runs, form, capsys):
    assert code_of("history", runs, "--format", form, "--no-cache") == 0
    output = capsys.readouterr().out
    assert "▄▄▄▄▄▄████" in output and output.count("from run6.json on") == 2


def test_csv_has_a_row_for_each_measure_of_each_run(runs, capsys):
    assert code_of("history", runs, "--format", "csv", "--metric", "op:*", "--no-cache") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 10 and {row["measure"] for row in rows} == {"op:mm"}
    assert [row["file"] for row in rows if row["is_change"] == "1"] == ["run6.json"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["history", "absent"], 1),
        (["history", "{runs}/run1.json"], 2),
        (["history", "{runs}", "--metric", "nothing"], 2),
        (["history", "{empty}"], 1),
        (["check", "{good}", "--history", "{runs}"], 0),
        (["check", "{bad}", "--history", "{runs}"], 1),
        (["check", "{good}", "cpu_ops == 5", "--history", "{runs}"], 1),
        (["check", "{other}", "--history", "{runs}"], 0),
        (["check", "{other}", "--history", "{runs}", "--strict"], 1),
        (["check", "{good}#2", "--history", "{runs}"], 2),
        (["check", "{good}", "--history", "absent"], 2),
    ],
)
@pytest.mark.full
def test_exit_codes(runs, tmp_path, words, code, capsys):
    (tmp_path / "empty").mkdir()
    write_trace(tmp_path / "good.json", [1501, 1500, 1499], 30, 4)
    write_trace(tmp_path / "bad.json", [1801, 1800, 1799], 30, 4)
    write_trace(tmp_path / "other.json", [1000] * 3, 30, workload="other")
    named = {name: tmp_path / f"{name}.json" for name in ("good", "bad", "other")}
    found = code_of(*(word.format(runs=runs, empty=tmp_path / "empty", **named) for word in words))
    assert found == code, capsys.readouterr()


def test_a_trace_of_the_folder_is_not_compared_with_itself(runs, capsys):
    assert code_of("check", runs / "run6.json", "--history", runs, "--format", "json") == 1
    assert "6 runs before" in json.loads(capsys.readouterr().out)["checks"][0]["expression"]


def test_a_folder_with_copies_of_the_trace_alone_says_so(runs, tmp_path, capsys):
    folder = tmp_path / "copies"
    folder.mkdir()
    for name in ("a.json", "b.json"):
        shutil.copy(runs / "run6.json", folder / name)
    assert code_of("check", folder / "a.json", "--history", folder) == 0
    assert "are copies of it" in " ".join(capsys.readouterr().out.split())


COPY = [sys.executable, "-c", "import shutil, sys; shutil.copy(*sys.argv[1:])"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--", *COPY, "{runs}/run4.json", "{out}"], 0),
        (["--", *COPY, "{runs}/run9.json", "{out}"], 1),
        (["--metric", "cpu_ops", "--", *COPY, "{runs}/run9.json", "{out}"], 1),
        (["--threshold", "1600", "--", *COPY, "{runs}/run9.json", "{out}"], 128),
        (["--threshold", "1400", "--", *COPY, "{runs}/run9.json", "{out}"], 1),
        (["--", *COPY, "{half}", "{out}"], 125),
        (["--", *COPY, "{other}", "{out}"], 125),
        (["--", "echo", "{runs}/run4.json"], 0),
        (["--", "echo", '{{"path": "{runs}/run9.json"}}'], 1),
        (["--", "echo", "nothing"], 125),
        (["--", "false"], 125),
        (["--", "no-such-command"], 128),
        ([], 128),
        (["--nonsense", "--", "true"], 128),
        (["--metric", "nothing", "--", "true"], 128),
        (["--metric", "kernels", "--", "true"], 128),
    ],
)
def test_bisect_says_what_git_asks_for(runs, tmp_path, words, code, capfd):
    write_trace(tmp_path / "half.json", [1250] * 3, 30, 3)
    write_trace(tmp_path / "other.json", [1000] * 3, 30, threads=16)
    names = {"runs": runs, "half": tmp_path / "half.json", "other": tmp_path / "other.json", "out": "{out}"}
    both = ["--good", runs / "run1.json", "--bad", runs / "run8.json"]
    assert code_of("bisect", *both, *(word.format(**names) for word in words)) == code, capfd.readouterr()


def test_a_mistake_in_the_words_of_bisect_calls_no_commit_bad(runs, capsys):
    assert code_of("bisect", "--good", runs / "run1.json", "--", "true") == 128
    assert code_of("bisect", "--good", runs / "run1.json", "--bad", "absent.json", "--", "true") == 128


SLOW = "import torch\na = torch.ones(8, 8)\n\n\ndef f():\n    for _ in range({times}):\n        a.add(1)\n"


@pytest.mark.full
@needs_torch
def test_git_bisect_finds_the_commit_that_added_operators(tmp_path, monkeypatch):
    environment = {**os.environ, **QUICK, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    folder = tmp_path / "repository"
    folder.mkdir()

    def call(*words):
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def git(*words):
        return call("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words).strip()

    tracetui = [sys.executable, "-P", "-m", "tracetui"]
    record = [*tracetui, "run", "x.py:f", "--time-seconds", "0", "--no-open"]
    git("init", "-q")
    hashes = []
    for number, times in enumerate([2, 2, 2, 5, 5]):
        (folder / "x.py").write_text(f"# {number}\n" + SLOW.format(times=times))
        git("add", "x.py")
        git("commit", "-qm", str(number))
        hashes.append(git("rev-parse", "HEAD"))
    call(*record, "-o", str(tmp_path / "bad.json"))
    git("checkout", "-q", hashes[0])
    call(*record, "-o", str(tmp_path / "good.json"))
    git("bisect", "start", hashes[-1], hashes[0])
    both = ["--good", str(tmp_path / "good.json"), "--bad", str(tmp_path / "bad.json"), "--metric", "cpu_ops"]
    output = git("bisect", "run", *tracetui, "bisect", *both, "--", *record)
    assert f"{hashes[3]} is the first bad commit" in output
    # The recordings that it made are in the order of their commits.
    known = json.loads(call(*tracetui, "history", "traces", "--by", "git", "--format", "json"))
    places = [hashes.index(run["commit"]) for run in known["series"][0]["runs"]]
    assert places == sorted(places) and len(places) >= 1
