"""Clocks of hosts, with bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ranks import MS, RankPlan, args_of, run_together, set_of
from tracetui.ranks.rank_set import RankSet

DAY = 86_400 * 1000 * MS


def arrivals(ranks: int, count: int, jitter: int = MS, seed: int = 0) -> list[list[int]]:
    """Arrivals of ranks at collectives 10 ms apart, each up to `jitter` late."""
    random = np.random.default_rng(seed)
    return [
        [10 * MS * (number + 1) + int(late) for late in random.integers(0, jitter, ranks)] for number in range(count)
    ]


def two_hosts(ahead: int, drift: float = 0.0, count: int = 30) -> list[RankPlan]:
    plans = [RankPlan(0), RankPlan(1), RankPlan(2, "node1", ahead, drift), RankPlan(3, "node1", ahead, drift)]
    run_together(plans, arrivals(4, count))
    return plans


@settings(max_examples=25, deadline=None)
@given(st.integers(-300 * MS, 300 * MS), st.integers(0, 1000))
@pytest.mark.full
def test_the_shift_lies_within_its_error(ahead: int, seed: int) -> None:
    plans = [RankPlan(0), RankPlan(1, "node1", ahead)]
    run_together(plans, arrivals(2, 20, seed=seed))
    clocks = set_of(plans).clocks
    assert abs(int(clocks.shift[1]) - ahead) <= clocks.error[1] < 3 * MS


def test_ranks_of_one_host_are_not_shifted_whatever_their_ends_say() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number in range(10):
        plans[0].collective(number * 10 * MS, number * 10 * MS + 5 * MS, **args_of(number, (0, 1)))
        plans[1].collective(number * 10 * MS, number * 10 * MS + 6 * MS, **args_of(number, (0, 1)))
    clocks = set_of(plans).clocks
    assert clocks.names == ("node0",) and clocks.shift.tolist() == [0] and clocks.error.tolist() == [0]


@pytest.mark.parametrize(
    ("apart", "count", "noise"),
    # Ends that are a millisecond apart have another cause than the clock, which contradicts itself nowhere.
    [(1_300, 40, 1_300), (1_300, 2, 1_300), (MS, 40, 0)],
)
def test_the_noise_of_a_clock_is_how_far_apart_collectives_end_on_its_host(apart: int, count: int, noise: int) -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number in range(count):
        for plan in plans:
            end = number * 10 * MS + 5 * MS + plan.rank * apart
            plan.collective(number * 10 * MS, end, **args_of(number, (0, 1)))
    assert set_of(plans).clocks.noise.tolist() == [noise]


def test_where_ends_lie_apart_the_noise_is_what_collectives_contradict_a_clock_by() -> None:
    plans = [RankPlan(0), RankPlan(1), RankPlan(2, "node1")]
    for number in range(40):
        begin = 10 * MS * number
        # They end on the first 3 µs before they begin on the second.
        for plan, start, end in zip(plans, (0, MS + 3_000, 0), (MS, 2 * MS, 2 * MS), strict=True):
            plan.collective(begin + start, begin + end, **args_of(number, range(3)))
    # A host with one rank has what the others have.
    assert set_of(plans).clocks.noise.tolist() == [3_000, 3_000]


def test_hosts_that_nobody_names_have_one_clock_where_every_collective_overlaps() -> None:
    plans = [RankPlan(0, None), RankPlan(1, None)]
    run_together(plans, arrivals(2, 12))
    clocks = set_of(plans).clocks
    assert len(clocks.names) == 1
    assert clocks.notes == ("No file names its host; clocks agree on 12 of 12 collectives.",)


def test_without_names_a_rank_is_a_host_of_its_own_where_they_do_not() -> None:
    plans = [RankPlan(0, None), RankPlan(1, None, 300 * MS)]
    run_together(plans, arrivals(2, 12))
    clocks = set_of(plans).clocks
    assert len(clocks.names) == 2
    assert abs(int(clocks.shift[1]) - 300 * MS) <= clocks.error[1]


def test_one_name_with_two_boot_clocks_is_told_and_shifted() -> None:
    plans = [RankPlan(0), RankPlan(1, ahead=500 * MS)]
    run_together(plans, arrivals(2, 12))
    clocks = set_of(plans).clocks
    assert len(clocks.names) == 2 and "Ranks of node0 have clocks of their own" in clocks.notes[0]
    assert abs(int(clocks.shift[1]) - 500 * MS) <= clocks.error[1]


@pytest.mark.parametrize(("drift", "said"), [(0.0, False), (150e-6, True), (20e-6, False)])
def test_drift_is_claimed_only_where_it_is_proven(drift: float, said: bool) -> None:
    plans = [RankPlan(0), RankPlan(1), RankPlan(2, "node1", 0, drift), RankPlan(3, "node1", 0, drift)]
    random = np.random.default_rng(1)
    # A minute of collectives of half a millisecond: 150 ppm are 9 ms, 20 ppm are 1.2 ms in a corridor of 2 ms.
    rows = [[200 * MS * number + int(late) for late in random.integers(0, MS, 4)] for number in range(1, 300)]
    run_together(plans, rows, transfer=MS // 2 if said else 2 * MS)
    clocks = set_of(plans).clocks
    assert bool(clocks.drift[1]) == said
    assert clocks.drift[1] == pytest.approx(drift if said else 0, abs=30e-6)
    middle = int(clocks.origin[0]) - plans[0].base if plans[0].base else 0
    assert abs(int(clocks.shift[1]) - drift * middle) <= clocks.error[1] + 1000


def test_a_step_of_a_clock_contradicts_and_is_marked() -> None:
    plans = [RankPlan(0), RankPlan(1, "node1")]
    run_together(plans, arrivals(2, 10))
    plans[1].ahead = 50 * MS
    later = [[each + 200 * MS for each in row] for row in arrivals(2, 10)]
    for number, row in enumerate(later, 10):
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, max(row) + MS, **args_of(number, (0, 1)))
    clocks = set_of(plans).clocks
    assert clocks.is_guess.tolist() == [False, True]
    assert "contradict each other" in clocks.notes[0]


def test_a_host_without_a_collective_in_common_has_no_shift_and_no_waits() -> None:
    plans = [RankPlan(0), RankPlan(1), RankPlan(2, "node1", 7 * MS), RankPlan(3, "node1", 7 * MS)]
    for members in ((0, 1), (2, 3)):
        for number, row in enumerate(arrivals(2, 8, seed=members[0])):
            for rank, start in zip(members, row, strict=True):
                plans[rank].collective(start, max(row) + MS, **args_of(number, members, str(members[0])))
    ranks = set_of(plans)
    assert np.isnan(ranks.clocks.error).tolist() == [False, True]
    assert ranks.waiting.attributed.time.sum() > 0 and set(ranks.waiting.attributed.late.tolist()) <= {0, 1}


def test_bounds_add_up_through_a_third_host() -> None:
    plans = [RankPlan(0), RankPlan(1, "node1", 40 * MS), RankPlan(2, "node2", -30 * MS)]
    for members in ((0, 1), (1, 2)):
        for number, row in enumerate(arrivals(2, 8, seed=members[0])):
            for rank, start in zip(members, row, strict=True):
                plans[rank].collective(start, max(row) + MS, **args_of(number, members, str(members[0])))
    clocks = set_of(plans).clocks
    assert abs(int(clocks.shift[2]) + 30 * MS) <= clocks.error[2] < 6 * MS
    assert clocks.error[2] > clocks.error[1]


def test_a_transfer_bounds_one_side_and_two_ways_bound_both() -> None:
    plans = [RankPlan(0), RankPlan(1, "node1", 25 * MS)]
    for number in range(6):
        source, target = (0, 1) if number % 2 else (1, 0)
        start = number * 10 * MS
        for rank, word in ((source, "send"), (target, "recv")):
            args = {"Collective name": word, "Src Rank": source, "Dst Rank": target, "dtype": "Float"}
            plans[rank].collective(
                start,
                start + MS,
                "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                **args,
                **{"In msg nelems": 64, "Seq": number},
            )
    ranks = set_of(plans)
    assert abs(int(ranks.clocks.shift[1]) - 25 * MS) <= ranks.clocks.error[1] < 2 * MS
    one_way = set_of([_only(plan, 0) for plan in plans])
    assert np.isnan(one_way.clocks.error[1])


@pytest.mark.parametrize("operation", ["broadcast", "reduce"])
def test_operations_with_a_root_bound_one_side_and_two_roots_bound_both(operation: str) -> None:
    def hosts(roots: list[int]) -> RankSet:
        plans = [RankPlan(0), RankPlan(1, "node1", 25 * MS)]
        for number, root in enumerate(roots):
            for plan in plans:
                start = number * 10 * MS
                plan.rooted(operation, start, start + MS, root, **args_of(number, (0, 1)))
        return set_of(plans)

    both = hosts([0, 1, 0, 1]).clocks
    assert abs(int(both.shift[1]) - 25 * MS) <= both.error[1] < 2 * MS
    assert np.isnan(hosts([0, 0, 0, 0]).clocks.error[1])


def test_a_receiver_that_ends_before_others_begin_contradicts_no_clock() -> None:
    plans = [RankPlan(0), RankPlan(1), RankPlan(2, "node1", 5 * MS)]
    run_together(plans, arrivals(3, 12))
    for plan, late in zip(plans, (0, 0, 4 * MS), strict=True):
        plan.rooted("broadcast", 200 * MS + late, 201 * MS + late, 0, **args_of(12, (0, 1, 2)))
    clocks = set_of(plans).clocks
    assert not clocks.is_guess.any() and abs(int(clocks.shift[1]) - 5 * MS) <= clocks.error[1]


def _only(plan: RankPlan, parity: int) -> RankPlan:
    kept = [event for event in plan.events if (event.args or {})["Seq"] % 2 == parity]
    return RankPlan(plan.rank, plan.host, plan.ahead, events=kept)
