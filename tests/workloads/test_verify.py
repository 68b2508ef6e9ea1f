"""`tracetui run NAME --verify`: each promise with found and wanted, and an exit code for scripts."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tracetui_workloads import registry

from tests.support.workloads.traced import LINEAR, pretend
from tracetui.cli.main import main


def plain(text):
    """The text with single spaces."""
    return re.sub(" +", " ", text)


def test_a_trace_that_keeps_its_promises(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, tmp_path, LINEAR)
    assert main(["run", "linear", "--verify"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        str(tmp_path / "x.json"),
        "holds  separate additions per step            wanted 0               found 0",
        "holds  operators around the matmul, in order  wanted linear t addmm  found linear t addmm",
        "holds  transpositions per step                wanted 1               found 1",
        "holds  CPU operators per step                 wanted 10              found 10",
        "skipped  GPU kernels per forward: needs a GPU",
        "skipped  kernels launched by a transposition: needs a GPU",
    ]
    assert "One kernel per forward" in output.err, "the lesson"


def test_a_promise_that_does_not_hold(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, tmp_path, [*LINEAR, "aten::add"])
    assert main(["run", "linear", "--verify"]) == 1
    told = plain(capsys.readouterr().out)
    assert "FAILS separate additions per step wanted 0 found 1\n" in told
    assert "FAILS CPU operators per step wanted 10 found 11\n" in told


def test_a_gpu_without_kernels_in_its_trace_keeps_no_promise_of_kernels(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, tmp_path, LINEAR, device="cuda:0")
    assert main(["run", "linear", "--verify"]) == 1
    told = plain(capsys.readouterr().out)
    assert "FAILS GPU kernels per forward wanted 1 found –\n" in told
    assert "skipped" not in told


def test_only_what_is_promised_of_such_a_recording_is_looked_up(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, tmp_path, LINEAR)
    assert main(["run", "linear", "--compile", "--verify"]) == 1
    told = plain(capsys.readouterr().out)
    assert "transpositions per step wanted 0 found 1" in told
    assert "CPU operators per step" not in told


def test_for_a_script(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, tmp_path, [*LINEAR, "aten::add"])
    assert main(["run", "linear", "--verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["verification"]
    assert found["holds"] is False
    assert [(line["wanted"], line["found"], line["holds"]) for line in found["lines"]] == [
        ("0", "1", False),
        ("linear t addmm", "linear t addmm", True),
        ("1", "1", True),
        ("10", "11", False),
    ]
    assert all(isinstance(line["event"], int) for line in found["lines"])
    assert found["skipped"][0] == {"expectation": "GPU kernels per forward", "reason": "needs a GPU"}


@pytest.mark.parametrize("name", ["train.py:step", "nothing"])
def test_what_promises_nothing_is_not_recorded_to_be_verified(monkeypatch, tmp_path, capsys, name):
    asked = pretend(monkeypatch, tmp_path, LINEAR)
    assert main(["run", name, "--verify"]) == 2
    assert asked == []
    assert "tracetui: " in capsys.readouterr().err


def test_nothing_promised_of_this_recording_is_said(monkeypatch, tmp_path, capsys):
    workload = registry.built_in("linear")
    only = replace(workload, expects=(replace(workload.expects[0], when="cold"),))
    monkeypatch.setattr(registry, "built_in", lambda _: only)
    pretend(monkeypatch, tmp_path, LINEAR)
    assert main(["run", "linear", "--verify"]) == 0
    assert "has no expectations" in capsys.readouterr().err
