"""Two ranks of one job beside each other: who waits in a collective is not who is slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import make_trace
from tests.support.comparing.played import played, said
from tests.support.comparing.recording import Call, Work
from tests.support.traces import loaded
from tracetui.comparing.fairness import Rank, is_one_job, rank
from tracetui.comparing.side import side
from tracetui.model.trace import Trace

COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
HOUR = 3600 * 10**9


def recorded(number: Any = 0, of: Any = 8, waits: int = 50_000, origin_ns: int = 0, gemm: int = 400_000) -> Trace:
    """A step of a product and a collective, as one rank recorded it."""
    program = [
        Call("aten::mm", work=(Work("ampere_sgemm_128x64_nn", gemm),)),
        Call("nccl:all_reduce", work=(Work(COLLECTIVE, waits),)),
    ]
    about = {"distributedInfo": {"backend": "nccl", "rank": number, "world_size": of}}
    return make_trace(played(program, program), metadata=about, origin_ns=origin_ns)


def test_two_ranks_of_one_job_are_said_first():
    lines = said(recorded(0), recorded(1, waits=900_000))
    assert lines[0] == (
        "A and B are ranks 0 and 1 of one job of 8: a collective waits for the slowest rank, so its time shows "
        "who waited, not what is slow."
    )
    assert not any("AllReduce" in line for line in lines)


def test_within_one_rank_a_collective_may_be_slower():
    lines = said(recorded(0), recorded(0, waits=900_000))
    assert not any("rank" in line for line in lines)
    assert any("GPU activity slower: " in line and "AllReduce" in line for line in lines)


def test_what_is_no_collective_is_told_of_ranks_too():
    lines = said(recorded(0), recorded(1, gemm=900_000))
    assert any("slower: GEMM" in line for line in lines)


def test_recorded_an_hour_later_it_may_be_another_job():
    lines = said(recorded(0), recorded(1, origin_ns=HOUR))
    assert lines[0].startswith("A and B are different ranks, 0 and 1 of 8: a collective waits for the slowest rank")
    assert not is_one_job(side(recorded(0)), side(recorded(1, origin_ns=HOUR)))


def test_jobs_of_different_size():
    assert said(recorded(0, 8), recorded(0, 4))[0] == "Different numbers of ranks: 8 and 4."


@pytest.mark.parametrize(
    "about", [{}, {"rank": 0}, {"rank": "0", "world_size": 8}, {"rank": 9, "world_size": 8}, [1], None, "x"]
)
@pytest.mark.full
def test_what_a_file_says_in_another_way_is_no_rank(about):
    odd = replace(recorded(), metadata={"distributedInfo": about}, cache={})
    assert rank(odd) is None
    assert not any("rank" in line for line in said(odd, recorded(1, waits=900_000)))


def test_a_rank_is_read():
    assert rank(recorded(3, 8)) == Rank(3, 8)


def test_real_ranks(shared_trace):
    names = "d05a_a100_megatron_tp8_rank0.json", "d05b_a100_megatron_tp8_rank1.json"
    a, b = (loaded(shared_trace(name)) for name in names)
    lines = said(a, b)
    assert lines[0].startswith("A and B are ranks 0 and 1 of one job of 8: ")
    assert not any("NCCL" in line for line in lines)
