"""Logs of torch.compile of several ranks: who compiled while others waited, against waits worked out by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.compile_logs import compilation, distinct
from tests.support.paths import SHARED
from tests.support.rank_logs import Compiling, size_reason, slow_compile_waits, write_compiling_ranks
from tracetui.cli.main import main
from tracetui.errors import TraceError, UsageError
from tracetui.opening.rank_folder import RankOptions, open_rank_set
from tracetui.opening.rank_reading import SummaryWork
from tracetui.ranks.compile_tables import compile_sentences
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, remarks
from tracetui.ui.opening.trace_files import candidates, traces_among

FIRST = {0: [("0/0", 0, 3000, "")]}
AGAIN = {**FIRST, 2: [("0/1", 0, 20_000, size_reason(3, 4))]}
GIVEN = SHARED / "beside" / "compile" / "ranks"


def opened(*paths: Path, logs: str | None = None) -> RankSet:
    return open_rank_set(
        [str(path) for path in paths], RankOptions(compile_log=logs), work=SummaryWork(1, uses_cache=False)
    )


def compiles(ranks: RankSet) -> dict[tuple[object, object], dict[str, Any]]:
    return {(row["rank"], row["compile_id"]): row for row in TABLES["compiles"](ranks).rows()}


def waits(ranks: RankSet) -> dict[tuple[object, object], object]:
    return {key: row["compile_wait_us"] for key, row in compiles(ranks).items() if row["compile_wait_us"]}


def test_a_rank_that_alone_compiles_again_is_named_with_frame_reason_and_waits(tmp_path: Path) -> None:
    write_compiling_ranks(tmp_path, [FIRST, FIRST, FIRST, AGAIN])
    ranks = opened(tmp_path)
    assert [(late.index, late.cause) for late in ranks.late] == [(3, "compile")]
    assert dict(ranks.late[0].causes)["compile"] == 20_000_000
    assert compile_sentences(ranks) == [
        "Rank 3 compiled f (train.py:7) for 20.00 ms, because size 0 of x was 3, 4: others waited 30.00 ms for it "
        "meanwhile, in 1 collective."
    ]
    assert headline(ranks).endswith(compile_sentences(ranks)[0])
    row = compiles(ranks)[3, "0/1"]
    assert (row["compile_us"], row["alone_us"], row["compiling_ranks"], row["apart_us"]) == (20_000, 20_000, 0, None)
    assert waits(ranks) == slow_compile_waits(tmp_path, tmp_path) == {(3, "0/1"): 30_000}
    by_rank = {row["rank"]: row for row in TABLES["ranks"](ranks).rows()}
    assert [by_rank[rank]["compile_wait_us"] for rank in range(4)] == [0, 0, 0, 30_000]
    assert [by_rank[rank]["compilations"] for rank in range(4)] == [1, 1, 1, 2]


def test_ranks_that_compile_at_the_same_time_blame_nobody(tmp_path: Path) -> None:
    plans = [{**FIRST, 2: [("0/1", 0, 20_000 + 500 * rank, size_reason(3, 4))]} for rank in range(4)]
    write_compiling_ranks(tmp_path, plans)
    ranks = opened(tmp_path)
    assert compile_sentences(ranks) == [] and waits(ranks) == {} == slow_compile_waits(tmp_path, tmp_path)
    assert all("compile" not in dict(late.causes) for late in ranks.late)
    shutil.move(tmp_path / "rank0.json", tmp_path / "elsewhere")
    logs = opened(*tmp_path.glob("*.log"))
    assert compile_sentences(logs) == []
    assert headline(logs).startswith("No rank compiled for long while most others did not: 4 ranks compiled 8 times")


def test_what_others_compiled_much_faster_is_charged_beyond_their_time(tmp_path: Path) -> None:
    write_compiling_ranks(tmp_path, [{1: [("0/0", 0, 2000, "")]}, {1: [("0/0", 0, 30_000, "")]}])
    ranks = opened(tmp_path)
    assert waits(ranks) == slow_compile_waits(tmp_path, tmp_path) == {(1, "0/0"): 18_000}


def test_without_a_log_of_the_rank_that_waited_nothing_is_said_of_it(tmp_path: Path) -> None:
    write_compiling_ranks(tmp_path, [FIRST, AGAIN], logged=[1])
    ranks = opened(tmp_path)
    assert waits(ranks) == {} and compile_sentences(ranks) == []
    assert "There is no log of torch.compile of rank 0: what they compiled is not known." in remarks(ranks)
    # That the rank was late, and compiled then, rests on its own log.
    assert ranks.late[0].cause == "compile"


@pytest.mark.full
def test_logs_alone_say_who_compiled_while_others_did_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_compiling_ranks(tmp_path / "traces", [FIRST, FIRST, AGAIN], logs=tmp_path / "logs")
    assert main(["ranks", str(tmp_path / "logs"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["headline"] == (
        "Rank 2 compiled f (train.py:7) for 20.00 ms, because size 0 of x was 3, 4, 20.00 ms of it while no other rank "
        "did."
    )
    assert "one clock" in document["note"]
    assert [(row["rank"], row["compilations"], row["compile_us"]) for row in document["rows"]] == [
        (2, 2, 23_000),
        (0, 1, 3000),
        (1, 1, 3000),
    ]
    for name in TABLES:
        assert main(["ranks", str(tmp_path / "logs"), "--show", name]) == 0
    assert main(["ranks", *map(str, (tmp_path / "logs").iterdir())]) == 0


def test_what_others_make_much_later_is_named_and_what_they_make_soon_is_not(tmp_path: Path) -> None:
    for rank, start in enumerate((5_000_000, 45_000_000, 45_100_000)):
        log = compilation("0/0", 0, 1000, pid=rank) + compilation("0/1", start, 1000, size_reason(3, 4), pid=rank)
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_text(log)
    ranks = opened(tmp_path)
    [sentence] = compile_sentences(ranks)
    assert sentence.startswith("Rank 0 compiled f (train.py:7)")
    assert compiles(ranks)[0, "0/1"]["apart_us"] == 40_000_000


def test_logs_elsewhere_are_named_and_none_reads_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = write_compiling_ranks(tmp_path / "traces", [FIRST, AGAIN], logs=tmp_path / "logs")
    assert opened(traces).logs == ()
    assert [log.rank for log in opened(traces, logs=str(tmp_path / "logs")).logs] == [0, 1]
    assert [log.rank for log in opened(traces, tmp_path / "logs").logs] == [0, 1]
    assert main(["ranks", str(traces), "--compile-log", str(tmp_path / "logs"), "--show", "compiles"]) == 0
    assert "30.00 ms" not in (shown := capsys.readouterr().out) and "10.00 ms" in shown
    both = opened(traces, tmp_path / "logs", logs="none")
    assert both.logs == () and TABLES["ranks"](both)["compile_us"].nulls().all()
    with pytest.raises(UsageError, match="holds no log"):
        opened(traces, logs=str(traces))
    with pytest.raises((UsageError, TraceError), match="no log of torch"):
        opened(traces, logs=str(traces / "rank0.json"))


def test_of_two_logs_of_a_rank_the_one_of_the_run_is_read_and_one_without_a_rank_is_not(tmp_path: Path) -> None:
    write_compiling_ranks(tmp_path, [FIRST, AGAIN])
    later = compilation("9/0", 3_000_000, 500, pid=100)
    (tmp_path / "dedicated_log_torch_trace_rank_0_later.log").write_text(later)
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text(later)
    (tmp_path / "dedicated_log_torch_trace_y.log").write_bytes(b"nothing\n")
    ranks = opened(tmp_path)
    assert [each.id for each in ranks.logs[0].compilations] == ["0/0"]
    assert waits(ranks) == {(1, "0/1"): 10_000}
    text = " ".join(remarks(ranks))
    assert "Of 1 rank there are several logs" in text
    assert "dedicated_log_torch_trace_x.log is not used: neither its name nor its entries" in text
    assert "dedicated_log_torch_trace_y.log cannot be used" in text


def test_a_rank_in_the_entries_of_a_log_counts_where_its_name_has_none(tmp_path: Path) -> None:
    for rank in range(2):
        text = compilation("0/0", 0, 1000, pid=rank).replace('"frame_id"', f'"rank": {rank}, "frame_id"')
        (tmp_path / f"dedicated_log_torch_trace_{'ab'[rank]}.log").write_text(text)
    assert [log.rank for log in opened(tmp_path).logs] == [0, 1]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9000), st.integers(1, 9000)), max_size=2),
        min_size=2,
        max_size=4,
    )
)
@pytest.mark.full
def test_waits_are_those_of_the_slow_way(
    tmp_path_factory: pytest.TempPathFactory, plans: list[list[tuple[int, int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("ranks")
    built: list[dict[int, Sequence[Compiling]]] = []
    for plan in plans:
        steps = {step: (start, dur) for step, start, dur in plan}
        built.append({step: [(f"0/{number}", *steps[step], "")] for number, step in enumerate(sorted(steps))})
    write_compiling_ranks(folder, built)
    assert waits(opened(folder)) == slow_compile_waits(folder, folder)


@pytest.mark.skipif(not GIVEN.exists(), reason="the logs are not here")
def test_the_given_logs_of_two_ranks_blame_nobody() -> None:
    ranks = opened(GIVEN)
    expected = json.loads((SHARED / "beside" / "expected.json").read_text())
    for log in ranks.logs:
        of_file = expected[f"compile/ranks/dedicated_log_torch_trace_rank_{log.rank}.log"]
        assert len(log.compilations) == len(distinct(of_file["compilations"]))
    assert compile_sentences(ranks) == []


def test_logs_of_any_name_below_a_folder_are_looked_for_where_there_are_no_traces(tmp_path, capsys):
    (tmp_path / "below").mkdir()
    for rank in range(2):
        (tmp_path / "below" / f"rank_{rank}.log").write_text(compilation("0/0", 0, 1000 + rank))
    (tmp_path / "server.log").write_text("nothing of torch\n")
    assert main(["ranks", str(tmp_path), "--format", "csv"]) == 0
    output = capsys.readouterr()
    assert "below/rank_0.log" in output.out and "below/rank_1.log" in output.out and "server.log" not in output.err
    assert {file.path.name for file in traces_among(candidates(tmp_path).paths)} == {"rank_1.log", "rank_0.log"}
