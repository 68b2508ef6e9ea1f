"""Who waits for whom, what is left for the transfer, and who stands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import annotation, op
from tests.support.ranks import MS, RankPlan, args_of, run_together, set_of
from tracetui.model.columns import RANK_CAUSE
from tracetui.model.table import NULL
from tracetui.ranks.causes import main_causes, standing_out
from tracetui.ranks.moments import caused_in, late_instances, late_moment, moment_sentences, worst_instance
from tracetui.ranks.rank_set import RankSet, in_turn
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import NOBODY, headline, pipelines
from tracetui.ranks.waiting import bus_factor

GEMM = 4 * MS


def training(
    ranks: int,
    slow: dict[int, float] | None = None,
    late: dict[int, int] | None = None,
    extra: dict[int, int] | None = None,
    steps: int = 6,
    hosts: int = 1,
    late_steps: set[int] | None = None,
) -> RankSet:
    """Steps of one kernel and an all-reduce; a rank may be slow by a factor, late by ns, or run more kernels."""
    plans = [RankPlan(rank, f"node{rank * hosts // ranks}") for rank in range(ranks)]
    now = 0
    for number in range(steps):
        arrivals = []
        for plan in plans:
            begin = now + MS // 10
            if plan.rank in (late or {}) and (late_steps is None or number in late_steps):
                begin += (late or {})[plan.rank]
            for index in range(1 + (extra or {}).get(plan.rank, 0)):
                length = round(GEMM * (slow or {}).get(plan.rank, 1.0))
                plan.compute(begin, length, "gemm" if index == 0 else "recompute")
                begin += length
            arrivals.append(begin + MS // 10)
        end = max(arrivals) + MS
        for plan, start in zip(plans, arrivals, strict=True):
            plan.collective(start, end, **args_of(2 * number, range(ranks)))
            # A short one behind it, to which all come at once, says what the clocks of hosts are.
            plan.collective(end, end + MS // 5, **args_of(2 * number + 1, range(ranks), elements=8))
            plan.step(number, now, end + MS // 5 - now)
        now = end + MS // 5
    return set_of(plans)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5 * MS), min_size=3, max_size=3), min_size=1, max_size=8))
@pytest.mark.full
def test_waits_sum_to_what_ranks_caused_and_never_exceed_the_collective(rows: list[list[int]]) -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    run_together(plans, [[20 * MS * number + late for late in row] for number, row in enumerate(rows, 1)])
    ranks = set_of(plans)
    waiting = ranks.waiting
    assert waiting.attributed.caused(3).sum() == pytest.approx(waiting.attributed.suffered(3).sum())
    assert waiting.attributed.matrix(3).sum() == pytest.approx(waiting.wait.sum())
    assert (waiting.wait <= waiting.end - waiting.start).all() and (waiting.transfer == MS).all()
    assert waiting.skew.tolist() == [max(row) - min(row) for row in rows]


def test_a_rank_in_step_is_blamed_by_nobody() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for number in range(1, 5):
        for plan, late in zip(plans, (0, 15_000, 0), strict=True):
            start = 20 * MS * number
            plan.collective(start + late, start + MS + 16_000 * plan.rank // 2, **args_of(number, range(3)))
    assert len(set_of(plans).waiting.attributed.time) == 0


@pytest.mark.parametrize(("apart", "waited"), [(1_300, 12 * 8_000), (9_000, 0)])
def test_short_waits_count_where_collectives_of_the_host_end_together(apart: int, waited: int) -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number in range(12):
        for plan in plans:
            start, end = MS * number + 8_000 * plan.rank, MS * number + 100_000 + apart * plan.rank
            plan.collective(start, end, **args_of(number, (0, 1)))
    assert set_of(plans).waiting.attributed.caused(2).tolist() == [0, waited]


def layers(count: int, jitter: int = 0) -> RankSet:
    """Two hosts with two ranks each: collectives of the pair in each layer, then one of all; rank 1 comes 5 ms late."""
    plans = [RankPlan(rank, f"node{rank // 2}") for rank in range(4)]
    random = np.random.default_rng(1)
    now = 0
    for number in range(3):
        free = [now] * 4
        for layer in range(count):
            for first, second in ((0, 1), (2, 3)):
                arrivals = [free[first] + MS // 2 + int(late) for late in random.integers(0, jitter + 1, 2)]
                arrivals[1] += 5 * MS if layer == first == 0 else 0
                free[first] = free[second] = end = max(arrivals) + MS // 10
                for rank, start in zip((first, second), arrivals, strict=True):
                    plans[rank].collective(start, end, **args_of(number * count + layer, (first, second), str(first)))
        now = max(free) + MS
        for plan in plans:
            plan.collective(free[plan.rank] + MS // 2, now, **args_of(2 * number, range(4), "all"))
            plan.collective(now, now + MS // 5, **args_of(2 * number + 1, range(4), "all", elements=8))
        now += MS // 5
    return set_of(plans)


@pytest.mark.parametrize(("count", "jitter"), [(80, 0), (1100, 0), (100, 50_000)])
@pytest.mark.full
def test_a_wait_is_charged_on_however_many_collectives_lie_between(count: int, jitter: int) -> None:
    found = layers(count, jitter)
    caused = found.waiting.root.caused(4)
    assert found.late_host is None and caused[1] >= 3 * 15 * MS > 10 * caused[0]
    assert caused.sum() == pytest.approx(found.waiting.attributed.time.sum())


def test_only_the_rank_that_stood_still_is_named_not_the_one_that_waited_for_it() -> None:
    assert [late.index for late in layers(80).late] == [1]


def test_a_rank_that_waited_itself_says_from_which_rank_it_passed_the_delay_on() -> None:
    ranks = layers(80)
    # Rank 0 waits 5 ms for rank 1 in the first layer of each of 3 steps, and ranks 2 and 3 for both in the last one.
    began = ranks.waiting.began_at(0, 4)
    assert began[1] == pytest.approx(ranks.waiting.attributed.caused(4)[0]) and began.sum() == began[1] > 5 * MS
    assert [(index, each.source) for index, each in ranks.passed_on.items()] == [(0, 1)]
    causes = {row["rank"]: row["cause"] for row in TABLES["ranks"](ranks).rows()}
    assert causes == {0: "from rank 1", 1: "host", 2: None, 3: None}
    # In the list on the screen it is not cut, up to rank 99.
    assert RANK_CAUSE.width >= len("from rank 99")
    assert training(4, late={1: 3 * MS}).passed_on == {}


def test_the_sum_of_waits_stands_beside_the_longest_of_one_rank_and_the_run() -> None:
    ranks = training(4, late={1: 3 * MS})
    each = ranks.waiting.attributed.suffered(4)
    assert each.sum() == pytest.approx(54 * MS) and each.max() == pytest.approx(18 * MS)
    assert "54.00 ms together for it in 6 collectives (one at most 18.00 ms, of a run of" in headline(ranks)
    alone = headline(training(2, late={1: 3 * MS}))
    assert "Others wait 18.00 ms for it in 6 collectives (one at most 18.00 ms, of a run of" in alone


def test_a_late_rank_is_shown_beside_one_that_waited_for_it() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    run_together(plans[:2], [[MS * number, MS * number + MS // 10] for number in range(1, 13)], MS // 10)
    # Rank 0, beside which rank 1 is late as a rule, comes with it; rank 2 waits for both.
    run_together(plans, [[30 * MS - 30_000, 30 * MS, 20 * MS]], name="all")
    found = set_of(plans)
    worst = worst_instance(found, 1)
    moment = late_moment(found, worst, 1)
    assert found.matches.instances.ranks[worst] == 3
    assert moment is not None and (moment.beside, moment.delay) == (2, 10 * MS)
    assert "Others wait 10.03 ms for it there." in moment_sentences(found, moment)[0]


def with_root(operation: str, arrivals: list[int], recorded: list[int]) -> RankSet:
    plans = [RankPlan(rank) for rank in range(len(arrivals))]
    for plan, start, root in zip(plans, arrivals, recorded, strict=True):
        plan.rooted(operation, 10 * MS + start, 30 * MS + start // 2, root, **args_of(0, range(len(plans))))
    return set_of(plans)


def test_in_a_broadcast_all_wait_for_the_root_and_for_nobody_else() -> None:
    ranks = with_root("broadcast", [0, 5 * MS, 9 * MS], [1, 1, 1])
    assert ranks.waiting.wait.tolist() == [5 * MS, 0, 0]
    assert ranks.waiting.attributed.caused(3).tolist() == [0, 5 * MS, 0]

    assert ranks.waiting.transfer.tolist() == [15 * MS] and ranks.waiting.last.tolist() == [1]


def test_in_a_reduce_the_root_waits_for_the_last_of_the_others() -> None:
    ranks = with_root("reduce", [0, 5 * MS, 9 * MS], [0, 0, 0])
    assert ranks.waiting.wait.tolist() == [9 * MS, 0, 0]
    assert ranks.waiting.attributed.matrix(3)[0].tolist() == [0, 0, 9 * MS]
    assert ranks.waiting.transfer.tolist() == [11 * MS]
    assert with_root("reduce", [9 * MS, 5 * MS, 0], [0, 0, 0]).waiting.wait.tolist() == [0, 0, 0]


def test_ranks_that_record_themselves_tell_no_root() -> None:
    ranks = with_root("broadcast", [0, 5 * MS, 9 * MS], [0, 1, 2])
    assert ranks.waiting.wait.tolist() == [0, 0, 0] and ranks.waiting.transfer.tolist() == [NULL]


def test_two_that_come_last_together_share_the_wait() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for plan, start in zip(plans, (MS, 3 * MS, 3 * MS + 10_000), strict=True):
        plan.collective(start, 4 * MS + 5_000 * plan.rank, **args_of(0, range(3)))
    attributed = set_of(plans).waiting.attributed
    assert sorted(attributed.late.tolist()) == [1, 2] and attributed.time.tolist() == [(2 * MS + 10_000) / 2] * 2


def test_a_wait_is_charged_on_along_the_chain() -> None:
    plans = [RankPlan(rank) for rank in range(4)]
    # 1 comes late to its pair, and 0, which waited for it, then late to all.
    for members, row in (((0, 1), (MS, 6 * MS)), ((2, 3), (MS, MS))):
        for rank, start in zip(members, row, strict=True):
            plans[rank].collective(start, max(row) + MS, **args_of(0, members, str(members[0] + 1)))
    run_together(plans, [[9 * MS, 8 * MS, 3 * MS, 3 * MS]])
    waiting = set_of(plans).waiting
    assert waiting.attributed.caused(4).tolist() == [13 * MS, 5 * MS, 0, 0]
    assert waiting.root.caused(4).tolist() == [3 * MS, 15 * MS, 0, 0]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_nobody_is_blamed_where_all_are_equal(ranks: int) -> None:
    found = training(ranks)
    assert found.late == [] and headline(found).startswith(NOBODY)


@pytest.mark.parametrize("ranks", [2, 5])
def test_a_slow_rank_is_late_by_its_kernels(ranks: int) -> None:
    (late,) = training(ranks, slow={1: 1.25}).late
    assert (late.index, late.cause, late.steps) == (1, "kernels", tuple(range(6)))
    assert late.causes[0][1] == pytest.approx(6 * GEMM / 4, rel=0.01)


def test_a_factor_of_all_kernels_is_said_with_a_question() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for number in range(4):
        begin = 40 * MS * number
        for plan in plans:
            factor = 1.2 if plan.rank == 2 else 1.0
            first, second = round(8 * MS * factor), round(4 * MS * factor)
            plan.compute(begin, first, "gemm")
            plan.compute(begin + first, second, "norm")
            plan.collective(begin + first + second, begin + 16 * MS, **args_of(number, range(3)))
    (late,) = set_of(plans).late
    assert late.note == "all by 1.20: a lower clock?"


def test_a_rank_that_stands_still_is_late_by_its_host() -> None:
    (late,) = training(4, late={2: 3 * MS}).late
    assert (late.index, late.cause) == (2, "host")


def test_a_rank_that_runs_more_is_late_by_extra() -> None:
    (late,) = training(4, extra={3: 1}).late
    assert (late.index, late.cause) == (3, "extra") and "recompute" in late.note


def test_two_causes_of_nearly_one_size_are_both_named() -> None:
    (late,) = training(4, late={1: 3 * MS}, slow={1: 1.6}).late
    assert main_causes(late.causes) == ("host", "kernels") and "also kernels" in late.note


def test_two_that_are_late_in_the_same_collectives_are_both_named() -> None:
    ranks = training(4, late={1: 10 * MS, 2: 11 * MS})
    first, second = ranks.late
    assert (first.index, first.cause, first.behind) == (2, "host", ())
    assert (second.index, second.cause, second.behind) == (1, "host", (2,))
    assert second.caused_ns == pytest.approx(6 * 2 * 10 * MS, rel=0.01)
    assert (
        "Without rank 2, late in the same collectives, others would wait 120.00 ms together for it in 6 collectives "
        "(one at most 60.00 ms, of a run of 98.40 ms)." in headline(ranks)
    )
    # It is shown where it is late, though it came last to none of them.
    assert late_instances(ranks, 1).tolist() == late_instances(ranks, 2).tolist() == list(range(0, 12, 2))


def test_a_rank_that_is_a_little_late_behind_a_late_one_is_not_named() -> None:
    assert [each.index for each in training(4, late={1: 2 * MS, 2: 11 * MS}).late] == [2]


def test_one_slow_step_is_said_as_such() -> None:
    found = training(4, late={2: 20 * MS}, late_steps={3})
    (late,) = found.late
    assert late.steps == (3,) and "in step 3 alone" in headline(found)


def test_below_two_percent_of_the_run_nobody_is_named() -> None:
    assert training(4, late={2: MS // 11}).late == []
    assert [late.index for late in training(4, late={2: MS // 4}).late] == [2]


def test_a_rank_is_not_named_within_the_error_of_the_clocks() -> None:
    assert [late.index for late in training(2, late={1: 3 * MS}).late] == [1]
    # Where hosts have only one long collective to tell by, the same wait may be the clock's.
    plans = [RankPlan(0), RankPlan(1, "node1")]
    run_together(plans, [[20 * MS * number, 20 * MS * number + 3 * MS] for number in range(1, 7)], transfer=4 * MS)
    assert set_of(plans).late == []


def test_a_rank_is_named_for_three_times_the_median_of_the_others() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    rows = [[20 * MS * number + (5 * MS if number % 3 == rank else 0) for rank in range(3)] for number in range(1, 10)]
    run_together(plans, rows)
    found = set_of(plans)
    assert standing_out(found.waiting.root, np.arange(3), found.run_ns) == []


def unmatched() -> RankSet:
    """Two ranks whose collectives have nothing in common: each is of a group of its own."""
    plans = [RankPlan(0), RankPlan(1)]
    for plan in plans:
        for number in range(1, 6):
            plan.collective(10 * MS * number, 11 * MS * number, **args_of(number, (0, 1), str(plan.rank)))
    return set_of(plans)


def without_a_common_clock() -> RankSet:
    plans = [RankPlan(rank, f"node{rank}") for rank in range(2)]
    for plan in plans:
        plan.rooted("broadcast", 10 * MS, 11 * MS, 0, **args_of(0, range(2)))
    return set_of(plans)


def of_gloo(operation: str, hosts: tuple[str, str] = ("node0", "node0")) -> RankSet:
    """Two ranks of which the second is 3 ms late to each of 5 collectives of a CPU, which records no group and root."""
    plans = [RankPlan(rank, host) for rank, host in enumerate(hosts)]
    for plan in plans:
        for number in range(1, 6):
            at, end = 10 * MS * number + 3 * MS * plan.rank, 10 * MS * number + 4 * MS
            args = {"Input Dims": [[64]], "Input type": ["float"]}
            plan.events.append(op("aten::mm", at - 4 * MS, 2 * MS))
            plan.events.append(annotation(operation, at, end - at, lane=("1", "7"), args=args))
    return set_of(plans)


def test_collectives_of_gloo_tell_who_was_late() -> None:
    assert headline(of_gloo("gloo:all_reduce")).startswith("Rank 1 is late")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: of_gloo("gloo:broadcast"), "of none of 5 collectives in common the kind or a root is known"),
        (
            lambda: of_gloo("gloo:broadcast", ("node0", "node1")),
            "none of 5 collectives in common ties the clocks of ranks to each other",
        ),
        (unmatched, "10 of 10 collectives have no partner among the ranks that are here"),
        (without_a_common_clock, "none of 1 collective in common ties the clocks of ranks to each other"),
        (lambda: with_root("broadcast", [0, 5 * MS], [0, 1]), "of none of 1 collective in common the kind or a root"),
    ],
)
def test_where_no_wait_is_known_none_is_told(make: Callable[[], RankSet], why: str) -> None:
    found = make()
    assert headline(found).startswith(f"Cannot tell who waits for whom: {why}") and NOBODY not in headline(found)
    for row in TABLES["ranks"](found).rows():
        assert (row["wait_caused_us"], row["wait_suffered_us"], row["exposed_wait_us"]) == (None, None, None)


def test_where_most_collectives_are_unmatched_nobody_is_said_to_be_in_time() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    run_together(plans, [[MS * number, MS * number] for number in range(1, 3)], MS // 10)
    for plan in plans:
        for number in range(1, 6):
            plan.collective(10 * MS * number, 11 * MS * number, **args_of(number, (0, 1), f"own {plan.rank}"))
    assert headline(set_of(plans)).startswith("Cannot tell who waits for whom: 10 of 14 collectives have no partner")


def test_a_group_of_one_rank_has_no_partner_to_miss() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    run_together(plans, [[10 * MS * number, 10 * MS * number] for number in range(1, 3)])
    for plan in plans:
        for number in range(1, 6):
            start = 10 * MS * number + 5 * MS
            plan.collective(start, start + MS, **args_of(number, [plan.rank], f"own {plan.rank}"))
    assert headline(set_of(plans)).startswith(NOBODY)


def two_hosts(late: list[int], error: int) -> RankSet:
    """Two ranks on each of two hosts that meet every 20 ms, with clocks of which `error` ns are not known."""
    plans = [RankPlan(rank, f"node{rank // 2}") for rank in range(4)]
    rows = [[20 * MS * number + each for each in late] for number in range(1, 9)]
    run_together(plans, rows, transfer=error)
    return set_of(plans)


def test_who_came_before_another_of_its_host_was_not_last_whatever_other_clocks_say() -> None:
    found = two_hosts([0, 5 * MS, 4 * MS, 4 * MS], 8 * MS)
    assert found.clocks.pair_error[0, 1] > 5 * MS
    caused = found.waiting.attributed.caused(4)
    assert caused[0] == 0 and caused[1] > 0


def test_a_host_is_late_only_where_each_of_its_ranks_is_beyond_the_error() -> None:
    assert two_hosts([0, 0, 9 * MS, 9 * MS], MS).late_host is not None
    # The one of its ranks stands still, and the other comes a little later than those of the other host.
    found = two_hosts([0, 0, MS, 9 * MS], MS)
    assert found.late_host is None and [late.index for late in found.late] == [3]


def test_one_rank_alone_says_that_it_cannot_tell() -> None:
    found = training(1)
    assert "One rank alone" in headline(found)
    row = TABLES["ranks"](found).row(0)
    assert row["wait_caused_us"] is None and row["cause"] is None and row["busy_us"] == 6 * GEMM / 1000


def test_times_of_a_rank_sum_to_the_run() -> None:
    found = training(3, slow={1: 1.3})
    for row in TABLES["ranks"](found).rows():
        spent = [row[name] for name in ("busy_us", "exposed_comm_us", "idle_us")]
        assert sum(each for each in spent if isinstance(each, float)) == pytest.approx(found.run_ns / 1000)


def test_waits_for_absent_ranks_are_no_transfer() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    for number in range(9):
        begin = 30 * MS * number
        end = begin + (11 * MS if number == 4 else MS)
        for plan in plans:
            plan.collective(begin, end, **args_of(number, range(4)))
    found = set_of(plans, world=4)
    transfer, waits = found.transfer
    assert waits == 10 * MS and transfer.tolist().count(NULL) == 1
    assert "Up to 10.00 ms of the collectives is waiting for ranks that are not here." in TABLES["ranks"](found).note


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("broadcast", 1.0),
        ("barrier", None),
    ],
)
def test_factors_of_the_bus_are_those_of_nccl_tests(operation: str, factor: float | None) -> None:
    assert bus_factor(operation, 8) == factor


def test_bandwidth_is_over_the_transfer_and_null_for_small_ones() -> None:
    plans = [RankPlan(0), RankPlan(1)]
    run_together(plans, [[MS, 5 * MS]], elements=1 << 20)
    assert TABLES["collectives"](set_of(plans)).row(0)["busbw_gbps"] == pytest.approx(4 * (1 << 20) / MS)
    small = [RankPlan(0), RankPlan(1)]
    run_together(small, [[MS, 5 * MS]], elements=100)
    assert TABLES["collectives"](set_of(small)).row(0)["busbw_gbps"] is None


def test_every_table_is_made_of_every_set() -> None:
    for found in (training(3), training(1), training(4, late={1: 5 * MS}, hosts=2)):
        for make in TABLES.values():
            table = make(found)
            assert np.ndim(len(table)) == 0 and all(column.help for column in table.columns)


def test_all_ranks_of_a_host_are_late_together() -> None:
    found = training(8, slow=dict.fromkeys((4, 5, 6, 7), 1.3), hosts=2)
    late = found.late_host
    assert late is not None and late.ranks == (4, 5, 6, 7) and main_causes(late.causes) == ("kernels",)
    assert headline(found).startswith("All ranks of node1 are late: their kernels take longer")


def test_one_late_rank_is_not_its_whole_host() -> None:
    found = training(8, slow={5: 1.6}, hosts=2)
    assert found.late_host is None and [late.index for late in found.late] == [5]


def test_ranks_of_a_host_that_are_late_for_different_causes_are_named_each() -> None:
    found = training(4, slow={2: 1.9}, late={3: 4 * MS}, hosts=2)
    assert found.late_host is None
    assert {late.index: late.cause for late in found.late} == {2: "kernels", 3: "host"}


def test_hosts_that_are_equal_are_not_late() -> None:
    assert training(8, hosts=2).late_host is None


def test_a_rank_alone_estimates_its_waiting_by_the_shortest_equal_collective() -> None:
    plan = RankPlan(0)
    for number, length in enumerate((MS, 3 * MS, 2 * MS)):
        plan.collective(10 * MS * number, 10 * MS * number + length, **args_of(number, (0, 1)))
    assert "~3.00 ms of 6.00 ms in collectives may be waiting" in headline(set_of([plan], world=2))


def test_ranks_that_are_late_in_turn_are_listed_and_nobody_is_named() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for number in range(6):
        begin = 20 * MS * number
        for plan in plans:
            start = begin + (6 * MS if number % 3 == plan.rank else MS)
            plan.collective(start, begin + 8 * MS, **args_of(number, range(3)))
            plan.step(number, begin, 20 * MS)
    found = set_of(plans)
    assert found.late == [] and in_turn(found) == [0, 1, 2]
    assert "Ranks 0, 1, 2 are late in turn, one in each step." in TABLES["ranks"](found).note
    assert in_turn(training(3)) == [] and in_turn(training(3, late={1: 3 * MS})) == []


def stages(count: int, microbatches: int) -> RankSet:
    """A pipeline in which each stage computes 2 ms and passes its result on in 0.1 ms, forward only."""
    plans = [RankPlan(rank) for rank in range(count)]
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    for number in range(3):
        begin = 100 * MS * number
        for plan in plans:
            plan.step(number, begin, 100 * MS)
        for batch in range(microbatches):
            for stage in range(count):
                start = begin + (batch + stage) * 3 * MS
                plans[stage].compute(start, 2 * MS)
                if stage + 1 < count:
                    args = {"Collective name": "send", "Src Rank": stage, "Dst Rank": stage + 1, "dtype": "Float"}
                    args |= {"In msg nelems": 64, "Seq": number * microbatches + batch}
                    plans[stage].collective(start + 2 * MS, start + 2 * MS + MS // 10, name, **args)
                    args["Collective name"] = "recv"
                    plans[stage + 1].collective(start + MS, start + 2 * MS + MS // 10, name, **args)
    return set_of(plans)


def test_a_chain_of_transfers_is_a_pipeline_with_its_bubble() -> None:
    found = stages(4, 5)
    (pipeline,) = pipelines(found)
    assert pipeline.ranks == (0, 1, 2, 3) and pipeline.microbatches == 5
    assert pipeline.least_idle == pytest.approx(3 / 8)
    assert "38 % at best with 5 microbatches" in TABLES["ranks"](found).note
    assert pipelines(training(3)) == []


def test_imbalance_is_that_of_the_busy_time_before_the_collectives() -> None:
    groups = TABLES["groups"](training(2, slow={1: 2.0})).row(0)
    assert groups["imbalance_pct"] == pytest.approx(25, abs=0.1)


def test_of_many_that_come_last_together_each_has_its_part() -> None:
    plans = [RankPlan(rank) for rank in range(16)]
    late = [MS if rank < 8 else 3 * MS for rank in range(16)]
    run_together(plans, [[20 * MS * number + each for each in late] for number in range(1, 5)])
    attributed = set_of(plans).waiting.attributed
    assert attributed.caused(16).tolist() == [0] * 8 + [8 * MS] * 8
    assert attributed.suffered(16).tolist() == [8 * MS] * 8 + [0] * 8


@pytest.mark.parametrize("cause", ["input", "host", "kernels", "extra"])
def test_a_late_host_is_said_in_english_words(cause: str) -> None:
    found = training(8, slow=dict.fromkeys((4, 5, 6, 7), 1.3), hosts=2)
    assert found.late_host is not None
    vars(found)["late_host"] = replace(found.late_host, causes=((cause, 1.0),), note="")
    why = headline(found).partition(": ")[2].partition(". ")[0]
    known = "their they input comes late devices wait for host kernels take longer run more than the others do"
    assert set(why.split()) <= set(known.split()) and ("their" in why.split()) != (cause == "extra")


def test_what_shows_why_a_rank_is_late_is_its_own_doing_and_not_the_longest_wait() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    # In pairs rank 1 takes 5 ms longer each time; another then waits 19 ms for what both bring along.
    run_together(plans[:2], [[MS * 10 * turn, MS * 10 * turn + 5 * MS] for turn in range(1, 6)], MS // 10)
    for turn in range(1, 6):
        plans[1].compute(MS * 10 * turn - 4 * MS, 8 * MS)
    run_together(plans, [[65 * MS, 65 * MS + 1_000, 46 * MS]], name="all")
    found = set_of(plans)
    worst = worst_instance(found, 1)
    assert found.matches.instances.ranks[worst] == 2
    there, every = caused_in(found, 1, worst)
    assert there == 5 * MS and every > 5 * there
