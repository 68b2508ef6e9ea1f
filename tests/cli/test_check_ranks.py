"""`tracetui check FOLDER` of a set of ranks: the same language, names of the set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.rank_files import write_ranks
from tracetui.cli.main import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return str(write_ranks(tmp_path / "run", world=5))


def test_what_holds_and_what_does_not(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", run, "ranks.missing == 1", "world_size == 5", "count(ranks) == 4", "ranks.late <= 1"]) == 0
    assert main(["check", run, "ranks.wait_caused_us.max < 2ms", "collectives.skew_us.max < 10ms"]) == 1
    said = capsys.readouterr().out
    assert "ranks.wait_caused_us.max < 2ms" in said and "Rank 2" in said


def test_conditions_over_rows(run: str) -> None:
    assert (
        main(["check", run, "ranks(cause='kernels').wait_caused_us.count == 1", "max(ranks.clock_error_us) < 1ms"]) == 0
    )


@pytest.mark.full
def test_a_name_of_one_trace_is_explained(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", run, "gpu_idle_pct < 5"]) == 2
    assert "There is no 'gpu_idle_pct'" in capsys.readouterr().err
    assert main(["check", run, "ranks.wait_cause_us.max < 5"]) == 2
    assert "wait_caused_us" in capsys.readouterr().err
    assert main(["check", run, "kernel('gemm').calls == 5"]) == 2
    assert main(["check", run, "not_slower(missing)"]) == 2


def test_json_and_names(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", run, "missing == 0", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["passes"], document["checks"][0]["found"]) == (False, 1)
    assert main(["check", run, "--names"]) == 0
    assert "ranks.wait_caused_us" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["junit", "md"])
def test_other_forms(run: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", run, "missing == 0", "--format", form]) == 1
    assert "run" in capsys.readouterr().out


def test_a_folder_without_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert main(["check", str(tmp_path), "missing == 0"]) == 1
    assert "No trace of a rank" in capsys.readouterr().err
