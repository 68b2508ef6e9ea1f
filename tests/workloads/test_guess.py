"""Guess first, then look: what is asked, what is told, and when nobody is asked.

The quiz comes with `--guess` alone.
"""

from __future__ import annotations

import sys

import pytest

from tests.support.workloads.traced import LINEAR, pretend
from tracetui import verification
from tracetui.cli import recording
from tracetui.cli.main import main

FUSED = "graph_0_cpp_fused_native_layer_norm_tanh_0"


@pytest.fixture
def opened(monkeypatch):
    """A terminal, and where in the trace the app would be opened."""
    from tracetui.ui import app

    places = []

    def run(paths, step=None, at=None):
        places.append(at)
        return 0

    monkeypatch.setattr(app, "run", run)
    monkeypatch.setattr(recording, "require_terminal", lambda: None)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    return places


def answers(monkeypatch, *given):
    """Let a person answer so, then press ctrl+d; returns what they are asked."""
    asked, left = [], list(given)

    def ask(prompt):
        asked.append(prompt.strip())
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("builtins.input", ask)
    return asked


def test_guess_expected_and_found(monkeypatch, tmp_path, capsys, opened):
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "", "no", "")
    assert main(["run", "linear", "--guess"]) == 0
    assert asked[:2] == ["Which operator adds the bias?", "Does aten::t move any data?"]
    assert len(asked) == 3
    told = capsys.readouterr().out.splitlines()
    assert told[1].split() == ["guess", "expected", "found"]
    assert " ".join(told[4].split()) == "3 transpositions per step no 1 1 the weight is stored transposed"
    assert told[2].split()[:6] == ["1", "separate", "additions", "per", "step", "–"]
    assert opened == [None]


def test_what_fuses(monkeypatch, tmp_path, capsys, opened):
    pretend(monkeypatch, tmp_path, [FUSED])
    asked = answers(monkeypatch, "norm and\x1b[31m tanh", "", "1")
    assert main(["run", "combined", "--compile", "--guess"]) == 0
    assert asked[:2] == ["Compiled, what fuses?", "Which operators are gone?"]
    told = capsys.readouterr().out
    assert "norm and\N{REPLACEMENT CHARACTER}[31m tanh" in told
    assert FUSED in told
    assert opened == ["e8"], "the last of the fused operators is event 8 of the file"


def test_what_is_not_as_expected_is_said(monkeypatch, tmp_path, capsys, opened):
    pretend(monkeypatch, tmp_path, [*LINEAR, "aten::add"])
    answers(monkeypatch, "10", "", "")
    main(["run", "linear", "--guess"])
    assert capsys.readouterr().out.count("not as expected") == 2


@pytest.mark.parametrize("given", [(), ("",), (" ",)])
def test_who_guesses_nothing_is_told_nothing(monkeypatch, tmp_path, capsys, opened, given):
    pretend(monkeypatch, tmp_path, LINEAR)
    answers(monkeypatch, *given)
    assert main(["run", "linear", "--guess"]) == 0
    assert "expected" not in capsys.readouterr().out
    assert opened == [None]


@pytest.mark.parametrize("words", [["linear"], ["mlp", "--compile"], ["linear", "--json"], ["linear", "--verify"]])
def test_nobody_is_asked_without_the_option(monkeypatch, tmp_path, opened, words):
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "1")
    assert main(["run", *words]) == 0
    assert asked == []
    assert opened == ([] if {"--json", "--verify"} & set(words) else [None])


@pytest.mark.parametrize("option", ["--json", "--verify", "--bench", "--compare=eager,compile --json"])
def test_what_opens_no_trace_is_refused_beside_a_guess(monkeypatch, tmp_path, capsys, opened, option):
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "1")
    assert main(["run", "linear", "--guess", *option.split()]) == 2
    assert "--guess" in capsys.readouterr().err
    assert asked == opened == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["--compare", "eager,compile"]])
def test_without_a_terminal_a_guess_is_refused_before_anything_is_recorded(monkeypatch, tmp_path, capsys, words):
    monkeypatch.chdir(tmp_path)
    asked = answers(monkeypatch, "1")
    assert main(["run", "linear", "--guess", *words]) == 2
    assert "terminal" in capsys.readouterr().err
    assert asked == [] and list(tmp_path.iterdir()) == []


def test_where_no_question_applies_that_is_said(monkeypatch, tmp_path, capsys, opened):
    monkeypatch.setattr(verification.Verification, "questions", {})
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "1")
    assert main(["run", "linear", "--guess"]) == 0
    assert asked == [] and opened == [None]
    assert "no question applies" in capsys.readouterr().err


def test_a_trace_that_is_not_opened_is_guessed_at_all_the_same(monkeypatch, tmp_path, capsys, opened):
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "10", "")
    assert main(["run", "linear", "--no-open", "--guess"]) == 0
    assert asked == ["Which operator adds the bias?", "Does aten::t move any data?"]
    assert "expected" in capsys.readouterr().out
    assert opened == []


@pytest.mark.parametrize("words", [[], ["--compare", "eager,compile"]])
def test_of_a_function_nothing_is_known(monkeypatch, tmp_path, capsys, opened, words):
    pretend(monkeypatch, tmp_path, LINEAR)
    asked = answers(monkeypatch, "1")
    assert main(["run", "train.py:step", "--guess", *words]) == 2
    assert "train.py:step has none" in capsys.readouterr().err
    assert asked == []
