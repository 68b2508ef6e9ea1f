"""Which collective of one rank is which of another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ranks import ALL_REDUCE, BROADCAST, MS, RankPlan, args_of, run_together, set_of
from tracetui.ranks.matching import Track, aligned
from tracetui.ranks.rank_set import RankSet

STEPS = [[10 * MS * number + 100_000 * (number % 3), 10 * MS * number] for number in range(1, 31)]


def bare(plan: RankPlan) -> RankPlan:
    """The same without anything recorded but the kernels."""
    plan.events = [type(each)(each.name, each.start, each.dur, each.kind, each.lane) for each in plan.events]
    return plan


def pairs(ranks: RankSet) -> set[tuple[int, ...]]:
    """The rows of each operation, in order of rank."""
    entries, first = ranks.matches.entries, ranks.matches.first
    return {tuple(entries.row[low:high].tolist()) for low, high in pairwise(first.tolist())}


def two(count: int = 30) -> list[RankPlan]:
    plans = [RankPlan(0), RankPlan(1)]
    run_together(plans, STEPS[:count])
    return plans


def test_by_sequence_number_a_lost_head_shifts_nothing() -> None:
    plans = two()
    plans[1].events = plans[1].events[2:]
    ranks = set_of(plans)
    assert pairs(ranks) == {(0,), (1,)} | {(row, row - 2) for row in range(2, 30)}
    assert ranks.matches.instances.is_partial.sum() == 2


def test_by_order_a_rank_that_lost_the_first_collective_is_shifted() -> None:
    plans = [bare(plan) for plan in two()]
    plans[1].events = plans[1].events[1:]
    ranks = set_of(plans)
    assert pairs(ranks) == {(0,)} | {(row, row - 1) for row in range(1, 30)}
    assert ranks.matches.instances.is_guess.all()


def test_by_order_one_that_began_earlier_and_one_that_ended_later_are_told_apart() -> None:
    plans = [bare(plan) for plan in two()]
    plans[0].events, plans[1].events = plans[0].events[:-3], plans[1].events[3:]
    assert pairs(set_of(plans)) == {(row,) for row in range(3)} | {(row, row - 3) for row in range(3, 27)} | {
        (row,) for row in range(24, 27)
    }


def test_by_order_a_hole_in_the_middle_costs_only_what_is_in_it() -> None:
    plans = [bare(plan) for plan in two()]
    del plans[1].events[11:14]
    whole = {(row, row) for row in range(11)} | {(row, row - 3) for row in range(14, 30)}
    assert pairs(set_of(plans)) == whole | {(11,), (12,), (13,)}


late = st.integers(0, 400_000)


@given(st.lists(st.tuples(late, late, late), min_size=4, max_size=8), st.data())
def test_by_order_short_steps_of_a_busy_machine_are_not_shifted_where_one_long_step_tells(steps, data) -> None:
    # Two ranks of one host, which record the end of a collective late: by more than a step lasts.
    steps = np.array(steps, np.int64)
    length = steps[:, 0] + 150_000
    length[data.draw(st.integers(1, len(steps) - 2))] += 500_000_000
    first, other = (Track(np.zeros(len(steps), np.int64), np.sort(length.cumsum() + end)) for end in steps[:, 1:].T)
    assert aligned(first, other, same_clock=True).tolist() == list(range(len(steps)))


def test_sequence_numbers_that_start_again_match_by_order() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number, row in enumerate(STEPS):
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, max(row) + MS, **args_of(number % 10, (0, 1)))
    plans[1].events = plans[1].events[10:]
    assert pairs(set_of(plans)) == {(row,) for row in range(10)} | {(row, row - 10) for row in range(10, 30)}


def test_two_groups_of_one_name_on_different_ranks_are_two() -> None:
    plans = [RankPlan(rank) for rank in range(4)]
    for members in ((0, 1), (2, 3)):
        run_together([plans[rank] for rank in members], STEPS[:6], name="1")
    matches = set_of(plans).matches
    assert len(matches.instances) == 12 and {group.members for group in matches.groups} == {(0, 1), (2, 3)}


def test_ids_of_operations_match_where_numbers_of_groups_differ() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number, row in enumerate(STEPS[:5]):
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, max(row) + MS, **args_of(number + 9 * plan.rank, (0, 1)) | {"Comms Id": 77 + number})
    assert pairs(set_of(plans)) == {(row, row) for row in range(5)}


def test_a_replayed_graph_repeats_its_sequence_numbers_and_matches_by_order() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for row in STEPS[:12]:
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, max(row) + MS, **args_of(5, (0, 1)) | {"graph node id": 3})
    assert pairs(set_of(plans)) == {(row, row) for row in range(12)}


def test_unlike_sizes_are_a_mismatch_and_equal_ones_are_none() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for plan, elements in zip(plans, (64, 128), strict=True):
        plan.collective(10 * MS, 12 * MS, **args_of(0, (0, 1), elements=64))
        plan.collective(20 * MS, 22 * MS, **args_of(1, (0, 1), elements=elements))
    assert set_of(plans).matches.instances.mismatch == ("", "all_reduce 128 Float / all_reduce 64 Float")


def test_sizes_may_differ_in_an_all_to_all() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for plan, elements in zip(plans, (64, 128), strict=True):
        plan.collective(10 * MS, 12 * MS, **{**args_of(0, (0, 1), elements=elements), "Collective name": "all_to_allv"})
    assert set_of(plans).matches.instances.mismatch == ("",)


def test_a_transfer_matches_its_other_side_and_one_without_a_peer_nothing() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for plan, word in zip(plans, ("send", "recv"), strict=True):
        args = {"Collective name": word, "Src Rank": 0, "Dst Rank": 1, "dtype": "Float", "In msg nelems": 64}
        plan.collective(10 * MS, 12 * MS, name, **args)
        plan.collective(20 * MS, 22 * MS, name)
    matches = set_of(plans).matches
    assert len(matches.instances) == 1 and matches.instances.ranks.tolist() == [2]
    assert matches.instances.mismatch == ("",) and matches.unmatched == 2


def test_collectives_of_length_zero_match_and_nobody_waits() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number in range(5):
        for plan in plans:
            plan.collective(10 * MS * number, 10 * MS * number, **args_of(number, (0, 1)))
    ranks = set_of(plans)
    assert len(ranks.matches.instances) == 5 and ranks.waiting.attributed.time.sum() == 0 and ranks.late == []


def test_a_broadcast_is_matched_and_nobody_is_charged() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number, row in enumerate(STEPS[:6]):
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, start + MS, BROADCAST, **{**args_of(number, (0, 1)), "Collective name": "broadcast"})
    ranks = set_of(plans)
    assert len(ranks.matches.instances) == 6 and len(ranks.waiting.attributed.time) == 0


def test_kernels_without_a_record_are_matched_by_order() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for row in STEPS[:6]:
        for plan, start in zip(plans, row, strict=True):
            plan.collective(start, max(row) + MS, "void vllm::cross_device_reduce_1stage<half, 2>(vllm::RankData*)")
    ranks = set_of(plans)
    assert pairs(ranks) == {(row, row) for row in range(6)} and ranks.matches.instances.is_guess.all()
    assert ALL_REDUCE not in ranks.summaries[0].names


def test_long_groups_whose_ranks_are_cut_are_told_apart() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for plan in plans:
        listed = ", ".join(str(2 * number + plan.rank) for number in range(30))
        args = args_of(0, range(64), "4") | {"Process Group Ranks": f"[{listed}, ...]"}
        plan.collective(10 * MS, 12 * MS, **args)
    matches = set_of(plans, world=128).matches
    assert len(matches.instances) == 2 and [group.first_member for group in matches.groups] == [0, 1]
    for plan in plans:
        plan.events = []
        args |= {"Global rank start": 1, "Global rank stride": 2}
        plan.collective(10 * MS, 12 * MS, **args)
    (group,) = set_of(plans, world=128).matches.groups
    assert group.members == tuple(range(1, 129, 2))
