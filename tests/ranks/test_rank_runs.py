"""Which files are the ranks of one run, and why the others are not."""

from __future__ import annotations

import re

import pytest

from tests.support.ranks import NO_COPIES
from tracetui.model.recorded import RankHeader, header_fields
from tracetui.ranks.rank_runs import NO_RANK, Copies, RankRuns, rank_name, rank_runs

SECOND = 10**9
DAY = 86_400 * SECOND
BEGIN = 1_790_857_026 * SECOND


def header(
    path: str,
    rank: int | None = None,
    world: int | None = None,
    begin: int | None = BEGIN,
    size: int = 1000,
    base: int | None = 1,
) -> RankHeader:
    return RankHeader(path, size, rank, world, begin_ns=begin, base_ns=base)


def runs(*headers: RankHeader, copies: Copies = NO_COPIES, pattern: str | None = None) -> RankRuns:
    return rank_runs(headers, copies, re.compile(pattern) if pattern else None)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("profile_traces/iteration_100/rank3_trace.json", 3),
        ("primus-megatron-exp[x]-rank[3].1760000000123.pt.trace.json.gz", 3),
        ("dp0_pp0_tp1_dcp0_ep1_rank1.1760000000.pt.trace.json.gz", 1),
        ("1760000000.12-TP-3-DP-1-EP-3-EXTEND.trace.json.gz", 3),
        ("trace-rank-3.json", 3),
        ("rank-3.Feb_10_12_00.pt.trace.json.gz", 3),
        ("trace_rank_3.json", 3),
        ("rank_3/trace.json", 3),
        ("node7_4103.1760000000123456789.pt.trace.json.gz", None),
        ("franklin7.json", None),
    ],
)
def test_conventions_of_names(path: str, rank: int | None) -> None:
    assert rank_name(path).rank == rank


def test_the_name_of_tensorboard_has_the_host_and_no_rank() -> None:
    assert rank_name("node7_4103.1760000000123456789.pt.trace.json.gz").host == "node7"


def test_the_file_itself_decides_and_a_name_that_disagrees_is_told() -> None:
    (run,) = runs(header("rank0_trace.json", 1, 2), header("rank1_trace.json", 0, 2)).runs
    assert [(file.path, file.rank) for file in run.files] == [("rank1_trace.json", 0), ("rank0_trace.json", 1)]
    assert run.notes[0] == "rank1_trace.json: the name says rank 1, distributedInfo says 0, which counts."


def test_last_numbers_are_ranks_only_from_zero_without_a_gap() -> None:
    assert runs(*(header(f"run/trace_{number}.json") for number in range(3))).runs[0].ranks == (0, 1, 2)
    with_gap = runs(*(header(f"run/trace_{number}.json") for number in (0, 2)))
    assert with_gap.runs == () and {left.why for left in with_gap.left_out} == {NO_RANK}


def test_a_pattern_of_ones_own_comes_before_the_conventions() -> None:
    found = runs(header("gpu7-rank0.json"), header("gpu8-rank1.json"), pattern=r"gpu(\d+)").runs[0]
    assert found.ranks == (7, 8)


def test_missing_ranks_are_those_of_the_world_that_are_not_there() -> None:
    run = runs(*(header(f"rank{rank}_trace.json", rank, 8) for rank in (0, 1, 2, 4, 7))).runs[0]
    assert run.missing == (3, 5, 6) and run.world_size == 8


def test_of_two_files_of_a_rank_the_larger_whole_one_counts() -> None:
    files = [header("rank0_trace.json", 0, 1, size=1000), header("rank0_trace_old.json", 0, 1, size=3000)]
    (run,) = runs(*files).runs
    assert run.files[0].path == "rank0_trace_old.json"
    assert run.left_out[0].why == "rank 0 is there twice: rank0_trace_old.json is used"
    cut = Copies(lambda one, other: False, lambda path: "old" not in path)
    (run,) = runs(*files, copies=cut).runs
    assert run.files[0].path == "rank0_trace.json"
    assert run.left_out[0].why == "rank 0 is there twice: cut off, rank0_trace.json is used"


def test_a_copy_of_nearly_one_size_does_not_replace_the_file() -> None:
    files = [header("rank0_trace.json.gz", 0, 1, size=20172), header("rank0_trace_copy.json.gz", 0, 1, size=20175)]
    assert runs(*files).runs[0].files[0].path == "rank0_trace.json.gz"
    same = Copies(lambda one, other: True, lambda path: True)
    assert "the same content as" in runs(*files, copies=same).runs[0].left_out[0].why


def test_a_shift_of_a_day_is_another_run_and_one_of_300_ms_is_a_clock() -> None:
    near = runs(header("a/rank0.json", 0, 2), header("a/rank1.json", 1, 2, BEGIN + SECOND * 3 // 10))
    assert len(near.runs) == 1
    far = runs(header("a/rank0.json", 0, 2), header("a/rank1.json", 1, 2, BEGIN - DAY))
    assert [run.ranks for run in far.runs] == [(0,), (1,)]
    assert far.picked(1).left_out[0].why == "another run (--run 2): 1 rank of 2, begun 86,400.0 s earlier"


def test_iterations_are_runs_the_newest_first_and_folders_of_hosts_are_one() -> None:
    iterations = runs(
        *(header(f"t/iteration_{n}/rank{r}_trace.json", r, 2, BEGIN + n * SECOND) for n in (1, 2) for r in (0, 1))
    )
    assert [run.files[0].name.iteration for run in iterations.runs] == [2, 1]
    hosts = runs(header("t/node0/rank0_trace.json", 0, 2), header("t/node1/rank1_trace.json", 1, 2))
    assert [run.ranks for run in hosts.runs] == [(0, 1)]


def test_recordings_into_one_folder_one_after_another_are_runs() -> None:
    files = [
        header(f"t/h_{pid}.{time}.pt.trace.json", pid, 2, BEGIN + time * SECOND) for time in (1, 9) for pid in (0, 1)
    ]
    assert [(run.ranks, run.files[0].path) for run in runs(*files).runs] == [
        ((0, 1), "t/h_0.9.pt.trace.json"),
        ((0, 1), "t/h_0.1.pt.trace.json"),
    ]


def test_another_world_size_is_another_run() -> None:
    found = runs(header("rank0.json", 0, 4), header("rank1.json", 1, 4), header("x_rank1.json", 1, 2))
    assert [run.world_size for run in found.runs] == [4, 2]


def test_a_file_without_a_world_size_belongs_to_the_only_other_run() -> None:
    assert runs(header("t/rank0.json", 0, 2), header("t/rank1.json", None, None)).runs[0].ranks == (0, 1)


def test_ranks_of_replicas_are_counted_one_after_another() -> None:
    both = [(dp, rank) for dp in (0, 1) for rank in (0, 1)]
    (run,) = runs(*(header(f"dp{dp}_pp0_tp{rank}_rank{rank}.1.pt.trace.json", rank, 2) for dp, rank in both)).runs
    assert run.ranks == (0, 1, 2, 3) and [file.offset for file in run.files] == [0, 0, 2, 2] and run.world_size == 4


def test_stages_of_sglang_are_runs_and_stages_of_a_pipeline_count_their_ranks() -> None:
    names = [
        f"1.5-TP-{tp}-PP-{pp}-{stage}.trace.json.gz" for stage in ("EXTEND", "DECODE") for pp in (0, 1) for tp in (0, 1)
    ]
    found = runs(*map(header, names)).runs
    assert [run.ranks for run in found] == [(0, 1, 2, 3)] * 2
    assert {run.files[0].name.run for run in found} == {"1.5 EXTEND", "1.5 DECODE"}


def test_clocks_of_different_kinds_cannot_be_compared_and_join() -> None:
    (run,) = runs(header("rank0.json", 0, 2), header("rank1.json", 1, 2, 5 * SECOND, base=None)).runs
    assert run.ranks == (0, 1)


@pytest.mark.parametrize("odd", [10**12, "9" * 5000, True, -1, [], {}, 0.5])
def test_a_size_that_no_run_has_counts_as_absent(odd):
    """Every rank that is missing is listed, so that a size of a million million ranks would fill the memory."""
    about = {"rank": odd, "world_size": odd, "pg_config": [{"pg_name": "0", "pg_size": odd, "ranks": [odd, 3]}]}
    fields = header_fields({"distributedInfo": about, "baseTimeNanoseconds": "9" * 5000})
    assert (fields["rank"], fields["world_size"], fields["base_ns"]) == (None, None, None)
    assert fields["groups"][0].ranks == (3,)
