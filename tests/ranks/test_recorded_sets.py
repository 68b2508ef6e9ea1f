"""Recorded and replicated sets of ranks: what was injected is found, and nobody else is blamed."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED
from tracetui.cli.main import main
from tracetui.errors import NotFound, UsageError
from tracetui.opening.rank_folder import RankOptions, open_rank_set
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES

FOLDERS = ("g1_input_4ranks", "g2_step_8ranks_2hosts_missing", "g3_host_stray_duplicate", "g4_gpu_tp2x2_2hosts")
pytestmark = pytest.mark.skipif(not (SHARED / "ranks").exists(), reason="the sets of ranks are not here")


@pytest.fixture(scope="module", params=FOLDERS)
def pair(request: pytest.FixtureRequest) -> tuple[RankSet, dict[str, Any]]:
    folder = SHARED / "ranks" / request.param
    return open_rank_set([str(folder)]), json.loads((folder / "truth.json").read_text())


def test_the_ranks_and_what_is_missing_or_left_out(pair: tuple[RankSet, dict[str, Any]]) -> None:
    ranks, truth = pair
    files = {file.rank: ranks.shown_path(file.path) for file in ranks.run.files}
    assert files == {int(rank): path for rank, path in truth["files"].items()}
    assert list(ranks.run.missing) == truth["missing"] and ranks.run.world_size == truth["world_size"]
    assert len(ranks.left_out) == len(truth["duplicate"]) + truth["stray"]


def test_the_culprit_and_its_cause_and_nobody_else(pair: tuple[RankSet, dict[str, Any]]) -> None:
    ranks, truth = pair
    assert [(ranks.ranks[late.index], late.cause) for late in ranks.late] == [(truth["culprit"], truth["cause"])]
    if "culprit_steps" in truth:
        first = min(ranks.summaries[0].steps.number.tolist())
        assert [step - first for step in ranks.late[0].steps] == truth["culprit_steps"]


def test_collectives_match(pair: tuple[RankSet, dict[str, Any]]) -> None:
    ranks, truth = pair
    instances = ranks.matches.instances
    assert len(instances) == truth["collectives"]
    assert not instances.is_partial.any() and set(instances.mismatch) == {""}


def test_clocks_lie_within_their_error(pair: tuple[RankSet, dict[str, Any]]) -> None:
    ranks, truth = pair
    for row in TABLES["ranks"](ranks).rows():
        clock = truth["clocks"][truth["hosts"][str(row["rank"])]]
        shift, error = row["clock_shift_us"], row["clock_error_us"]
        assert isinstance(shift, float) and isinstance(error, float)
        assert abs(shift - clock["shift_us"]) <= error + 0.001


def test_waits_are_those_of_the_true_clock_within_the_error(pair: tuple[RankSet, dict[str, Any]]) -> None:
    ranks, truth = pair
    if truth["missing"]:
        pytest.skip("the truth counts ranks that are not here")
    attributed = ranks.waiting.attributed
    for index, rank in enumerate(ranks.ranks):
        slack = float(attributed.error[(attributed.waiting == index)].sum()) / 1000 + 1500
        assert abs(attributed.suffered(len(ranks))[index] / 1000 - truth["wait_suffered_us"][rank]) <= slack


def test_the_megatron_pair() -> None:
    """Ranks 0 and 1 of 8: rank 0 makes rank 1 wait 242 ms of 603, and its device is idle for it."""
    ranks = open_rank_set(
        [str(SHARED / f"d05{rank}.json") for rank in ("a_a100_megatron_tp8_rank0", "b_a100_megatron_tp8_rank1")]
    )
    (late,) = ranks.late
    caused = ranks.waiting.attributed.caused(2) / 1e6
    assert (ranks.ranks[late.index], late.cause) == (0, "host")
    assert caused[0] == pytest.approx(242.3, abs=0.2) and caused[1] == pytest.approx(2.5, abs=0.3)
    assert ranks.run_ns / 1e6 == pytest.approx(603, abs=1) and ranks.run.missing == tuple(range(2, 8))
    assert ranks.clocks.notes == ("No file names its host; clocks agree on 84 of 84 collectives.",)


def test_the_command_prints_rows_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    folder = SHARED / "ranks" / FOLDERS[1]
    assert main(["ranks", str(folder), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["missing"] == [5] and printed["world_size"] == 8 and printed["left_out"] == []
    assert printed["rows"][0]["rank"] == 3 and len(printed["rows"]) == 7
    worst = printed["rows"][0]
    assert worst["cause"] == "host" and worst["late_steps"] == [5] and worst["causes"][0]["cause"] == "host"
    assert all(row["cause"] is None for row in printed["rows"][1:])


@pytest.mark.parametrize("form", ["table", "csv", "md"])
@pytest.mark.parametrize("show", ["ranks", "collectives", "matrix", "groups", "steps"])
def test_every_table_is_printed_in_every_form(show: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranks", str(SHARED / "ranks" / FOLDERS[0]), "--show", show, "--format", form, "--limit", "3"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) >= 2
    assert form == "csv" or "Rank 1 is late in every step: its input comes late." in printed


def test_a_file_that_is_cut_off_is_used_up_to_its_end_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (SHARED / "ranks" / FOLDERS[0]).glob("*/*.json.gz"):
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))
    cut = tmp_path / "rank2_trace.json"
    cut.write_bytes(cut.read_bytes()[:120_000])
    assert main(["ranks", str(tmp_path), "--format", "json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert [each["file"] for each in printed["left_out"]] == ["rank2_trace.json"]
    assert printed["left_out"][0]["why"].startswith("used up to its end: it is cut off at byte")
    assert printed["rows"][0]["rank"] == 1 and len(printed["rows"]) == 4


def test_a_file_that_cannot_be_read_costs_its_rank(tmp_path: Path) -> None:
    shutil.copytree(SHARED / "ranks" / FOLDERS[0], tmp_path / "run")
    broken = tmp_path / "run" / "iteration_10" / "rank3_trace.json.gz"
    broken.chmod(0o644)
    broken.write_bytes(b"")
    ranks = open_rank_set([str(tmp_path / "run")])
    assert ranks.run.missing == (3,) and "could not be read" in ranks.left_out[0].why


def test_what_is_no_set_of_ranks_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"learning_rate": 1}')
    with pytest.raises(NotFound, match="No trace of a rank was found"):
        open_rank_set([str(tmp_path)])
    with pytest.raises(UsageError, match="has no group"):
        open_rank_set([str(SHARED / "ranks" / FOLDERS[0])], RankOptions("rank"))
    with pytest.raises(UsageError, match=r"There is no run 3: there are 1 .*4 ranks of 4; 2 .*1 rank of 2"):
        open_rank_set([str(SHARED / "ranks" / FOLDERS[2])], RankOptions(run=3))
