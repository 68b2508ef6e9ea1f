"""How evenly the ranks of experts are loaded."""

from __future__ import annotations

import pytest

from tests.support.ranks import MS, RankPlan, args_of, set_of
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.sentences import remarks

ALL_TO_ALL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def moe(
    loads: list[list[int]], factor: int = 2, sizes: bool = True, between: bool = False, name: str = ALL_TO_ALL
) -> RankSet:
    """Layers of an exchange of counts, a dispatch, experts that take 1 ms per 1000 elements, and a combine."""
    world = range(len(loads[0]))
    plans = [RankPlan(rank) for rank in world]
    for layer, load in enumerate(loads):
        now = 100 * MS * layer
        for rank, plan in enumerate(plans):
            own = sum(load) // len(load)
            busy = load[rank] * MS // 1000

            def told(seq: int, sent: int, got: int, kind: str) -> dict[str, object]:
                args = args_of(seq, world, elements=sent)
                more = {"Collective name": "all_to_allv", "Out msg nelems": got, "dtype": kind}
                return args | more if sizes else {}

            plan.collective(now, now + MS, name, **told(4 * layer, 8, 8, "Long"))
            plan.collective(
                now + 2 * MS,
                now + 3 * MS,
                name.replace("combine", "dispatch"),
                **told(4 * layer + 1, own, load[rank], "BFloat16"),
            )
            if between:
                plan.collective(now + 3 * MS, now + 4 * MS, **args_of(4 * layer + 2, world))
            plan.compute(now + 5 * MS, busy)
            plan.collective(
                now + 5 * MS + busy,
                now + 60 * MS,
                name,
                **told(4 * layer + 3, factor * load[rank], factor * own, "Float"),
            )
    return set_of(plans)


def test_an_uneven_load_is_told_in_tokens_and_in_time() -> None:
    ranks = moe([[4000, 4000, 4000, 20_000]] * 3)
    load = ranks.expert_load
    assert load is not None
    assert (load.dispatches, load.fullest) == (3, 3)
    assert load.received == pytest.approx(2.5) and load.time == pytest.approx(2.5)
    assert load.cost_ns == pytest.approx(3 * 12 * MS)
    (said,) = [each for each in remarks(ranks) if "experts" in each]
    assert said == (
        "In 3 dispatches to experts the fullest rank receives 2.5 times the mean, and on the busiest rank kernels "
        "before the combine take 2.5 times the mean, 36.00 ms more in all; most often it is rank 3."
    )


def test_an_even_load_is_not_spoken_of() -> None:
    ranks = moe([[8000, 8000, 8100, 7900]] * 3)
    assert ranks.expert_load is not None and not any("experts" in each for each in remarks(ranks))


def test_an_all_to_all_that_brings_nothing_back_is_no_dispatch() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number, sizes in enumerate([(1000, 3000), (2000, 2000), (500, 100)]):
        for plan, size in zip(plans, sizes, strict=True):
            args = args_of(number, (0, 1), elements=size) | {"Collective name": "all_to_all", "Out msg nelems": size}
            plan.collective(number * 10 * MS, number * 10 * MS + MS, ALL_TO_ALL, **args)
    assert set_of(plans).expert_load is None


def test_another_collective_between_them_leaves_the_tokens_alone() -> None:
    load = moe([[4000, 4000, 4000, 20_000]] * 3, between=True).expert_load
    assert load is not None and load.time is None and load.received == pytest.approx(2.5)


def test_kernels_that_are_named_dispatch_and_combine_tell_the_time_alone() -> None:
    load = moe([[4000, 4000, 4000, 20_000]] * 3, sizes=False, name="deep_ep::intranode::combine<float>").expert_load
    assert load is not None and load.received is None and load.time == pytest.approx(2.5) and load.fullest == 3
