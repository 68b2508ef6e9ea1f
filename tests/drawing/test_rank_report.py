"""The report on a set of ranks: what stands on the page, and the command that writes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.rank_files import write_ranks
from tests.support.ranks import MS, RankPlan, run_together, set_of
from tracetui.cli.main import main
from tracetui.drawing.report.page import page
from tracetui.drawing.report.reports import MAX_BARS, rank_report
from tracetui.ranks.sentences import headline


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return write_ranks(tmp_path / "run", world=5)


def drawn(count: int, late: int = 0) -> str:
    """The page of so many ranks, of which one comes 30 ms late to every collective."""
    plans = [RankPlan(rank) for rank in range(count)]
    arrivals = [[100 * MS * turn + (30 * MS if rank == late else 0) for rank in range(count)] for turn in range(1, 5)]
    run_together(plans, arrivals)
    return page(rank_report(set_of(plans)))


def bars(html: str) -> list[str]:
    """The ranks that have a bar, from top to bottom."""
    return re.findall(r'<text x="0" y="\d+">rank (\d+)</text>', html)


def test_the_page_says_what_the_command_says(folder, capsys):
    assert main(["report", str(folder)]) == 0
    written = Path("run.report.html")
    assert "wrote run.report.html" in capsys.readouterr().err
    html = written.read_text()
    assert main(["ranks", str(folder), "--format", "json"]) == 0
    assert "Rank 2" in html and "of 5 ranks are here" in html
    assert "Files that are missing or left out" in html
    for name in ("Ranks", "Who waited for whom", "Process groups", "Remarks"):
        assert f">{name}</h2>" in html
    assert bars(html)[0] == "2" and sorted(bars(html)) == ["0", "1", "2", "3"]


@pytest.mark.full
def test_bars_of_many_ranks_end_and_say_so():
    html = drawn(MAX_BARS + 3, late=66)
    assert len(bars(html)) == MAX_BARS and bars(html)[0] == "66"
    assert f"The {MAX_BARS} ranks that others waited for most; the table has all." in html


def test_collectives_stand_in_the_order_of_their_skew():
    plans = [RankPlan(rank) for rank in range(2)]
    run_together(plans, [[100 * MS, 100 * MS + MS], [200 * MS, 209 * MS], [300 * MS, 304 * MS]])
    report = rank_report(set_of(plans))
    (section,) = (each for each in report.sections if each.pane == "ranks by collectives")
    assert section.table is not None
    assert section.table["skew_us"].values.tolist() == [9000, 4000, 1000]


def test_a_rank_alone_has_no_bars():
    plan = RankPlan(0)
    run_together([plan], [[0], [100 * MS]])
    ranks = set_of([plan])
    report = rank_report(ranks)
    assert report.verdict == headline(ranks)
    assert bars(page(report)) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "3"], "about one trace"),
        (["--device", "H100"], "about one trace"),
        (["another"], "about one folder"),
    ],
)
def test_what_does_not_fit_a_folder_is_said(folder, capsys, words, said):
    assert main(["report", str(folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_bars_of_ranks_stand_above_the_table_of_the_command(folder, capsys):
    assert main(["ranks", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"Of [\d.]+ ms a rank computes for \d+ %, sends for ", lines[2])
    assert lines[4].startswith("rank") and lines[4].endswith("made others wait")
    assert lines[5].startswith("2 node1 ") and lines[5].endswith("▲ kernels")
    whole = [re.sub(r"[^█▒░·]", "", line[: lines[4].index("made")]) for line in lines[5:9]]
    assert len(set(map(len, whole))) == 1, "the parts of every rank add up to the time in common"
    assert main(["ranks", str(folder), "--show", "steps"]) == 0
    assert not re.search("[█▒░]", capsys.readouterr().out)
