"""Links that are slower than others of their kind."""

from __future__ import annotations

import pytest

from tests.support.ranks import MS, RankPlan, args_of, set_of
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.sentences import remarks


def pairs(transfers: list[float], count: int = 8, elements: int = 1 << 20, waiting: int = 0) -> RankSet:
    """Groups of two ranks with an all-reduce each, which take some ms; all but the first of a pair arrive late."""
    plans = [RankPlan(rank, f"node{rank % 2}") for rank in range(2 * len(transfers))]
    for number in range(count):
        start = 100 * MS * number
        for index, transfer in enumerate(transfers):
            members = (2 * index, 2 * index + 1)
            for rank in members:
                arrival = start + (waiting if rank % 2 else 0)
                args = args_of(number, members, f"{index}", elements=elements)
                plans[rank].collective(arrival, start + waiting + round(transfer * MS), **args)
        for plan in plans:
            plan.collective(
                start + 80 * MS, start + 80 * MS + MS // 100, **args_of(number, range(len(plans)), "world", 8)
            )
    return set_of(plans)


def test_a_pair_that_is_slower_than_the_others_is_named_with_its_hosts_and_cost() -> None:
    (link,) = pairs([10, 10, 20, 10]).slow_links
    assert link.ranks == (4, 5) and link.hosts == ("node0", "node1")
    assert link.gbps == pytest.approx(link.usual_gbps / 2, rel=0.01)
    assert link.cost_ns == pytest.approx(8 * 10 * MS, rel=0.01)
    said = remarks(pairs([10, 10, 20, 10]))
    assert any(
        "among ranks 4,5 (node0, node1) run at 0.21 GB/s, others of their kind at 0.419" in each for each in said
    )


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param(pairs([10, 10, 12, 10]), id="within a fifth"),
        pytest.param(pairs([10, 20], count=4), id="too few"),
        pytest.param(pairs([10, 20], elements=1000), id="latency alone"),
        pytest.param(pairs([0.1, 0.2]), id="nothing to save"),
        pytest.param(pairs([20]), id="no other of its kind"),
        pytest.param(pairs([10, 10], waiting=15 * MS), id="waiting is no transfer"),
    ],
)
def test_nothing_is_said_of_links_that_are_alike_or_do_not_tell(ranks: RankSet) -> None:
    assert ranks.slow_links == []


def test_a_link_that_is_as_fast_in_another_size_is_not_slow() -> None:
    plans = [RankPlan(rank) for rank in range(4)]
    for number in range(16):
        for index, members in enumerate([(0, 1), (2, 3)]):
            slow = index == 1 and number % 2
            for rank in members:
                args = args_of(number, members, f"{index}", elements=1 << (21 if number % 2 else 20))
                start = 100 * MS * number
                plans[rank].collective(start, start + (20 if slow else 10) * MS, **args)
    assert set_of(plans).slow_links == []


def test_transfers_between_two_ranks_are_links_in_both_directions() -> None:
    plans = [RankPlan(rank) for rank in range(4)]
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for number in range(12):
        for one, other, took in ((0, 1, 10), (2, 3, 30)):
            source, target = (one, other) if number % 2 else (other, one)
            for rank, word in ((source, "send"), (target, "recv")):
                args = args_of(number, (0, 1, 2, 3), elements=1 << 20)
                args |= {"Collective name": word, "Src Rank": source, "Dst Rank": target}
                plans[rank].collective(100 * MS * number, (100 * number + took) * MS, name, **args)
    (link,) = set_of(plans).slow_links
    assert link.ranks == (2, 3) and link.cost_ns == pytest.approx(12 * 20 * MS, rel=0.01)
