"""`tracetui run --bench`: times without the profiler as lines and as JSON, and what becomes of failures."""

from __future__ import annotations

import json

import pytest
from tracetui_workloads.recording import launcher
from tracetui_workloads.recording.launcher import Outcome
from tracetui_workloads.recording.protocol import Failure

from tracetui.cli.main import main

BUSY = Failure("unavailable", "linear needs a GPU, and this would run on cpu.")


@pytest.fixture
def times(monkeypatch):
    """Times by variant in microseconds, or failures; and what was asked for."""
    asked: list = []
    medians: dict = {}

    def time_now(requests, on_event, **_):
        asked.append(requests)
        return [outcome_of(medians.get(each.variant, 20.0)) for each in requests]

    monkeypatch.setattr(launcher, "time_now", time_now)
    return asked, medians


def outcome_of(median):
    """An outcome with an interval of 2 %, or a failure."""
    if isinstance(median, Failure):
        return Outcome(None, median, device="cpu")
    found = {"median_us": median, "low_us": 0.99 * median, "high_us": 1.01 * median, "samples": 30, "session": "x"}
    return Outcome(None, None, 0, {"unprofiled": found, "load": None}, "cpu", (), 1.0)


def test_one_workload(times, capsys):
    assert main(["run", "linear", "--bench", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "linear  20.0 µs per step  19.8 µs to 20.2 µs\n"
    [[request]] = times[0]
    assert request.options.time_seconds == 10


def test_variants_beside_the_first(times, capsys):
    times[1].update({"compile": 10.0, "batch=2": 20.1, "batch=3": 40.0})
    assert main(["run", "linear", "--bench", "--compare", "eager,compile,batch=2,batch=3", "--time-seconds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("2.00 times as fast as eager (1.96 to 2.04)")
    assert lines[2].endswith("cannot tell from eager"), "the intervals overlap"
    assert lines[3].endswith("2.00 times as long as eager (1.96 to 2.04)")
    assert [request.options.time_seconds for request in times[0][0]] == [2, 2, 2, 2]


def test_for_a_script(times, capsys):
    times[1]["compile"] = BUSY
    assert main(["run", "linear", "--bench", "--compare", "eager,compile", "--json"]) == 3
    output = capsys.readouterr()
    first, second = json.loads(output.out)["variants"]
    assert (first["variant"], first["unprofiled"]["median_us"], first["failure"]) == ("eager", 20.0, None)
    assert (second["unprofiled"], second["failure"]["kind"]) == (None, "unavailable")
    assert "compile: linear needs a GPU" in output.err


def test_a_variant_that_fails_keeps_the_others_times(times, capsys):
    times[1]["compile"] = BUSY
    assert main(["run", "linear", "--bench", "--compare", "eager,compile"]) == 3
    output = capsys.readouterr()
    assert output.out.startswith("eager  20.0 µs per step")
    assert "compile: linear needs a GPU" in output.err


def test_where_nothing_was_timed_the_reason_is_said_once(times, capsys):
    times[1][""] = BUSY
    assert main(["run", "linear", "--bench"]) == 3
    assert capsys.readouterr().err.count("needs a GPU") == 1
    times[1][""] = Failure("cancelled", "Cancelled.")
    assert main(["run", "linear", "--bench"]) == 130


@pytest.mark.parametrize("words", [["--verify"], ["--time-seconds", "0"]])
def test_what_makes_no_sense_with_it(times, words):
    assert main(["run", "linear", "--bench", *words]) == 2
    assert times[0] == []
