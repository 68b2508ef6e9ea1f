"""Summaries of ranks: experts, links, expectations."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op
from tests.support.paths import SHARED
from tests.support.ranks import BASE, MS, RankPlan, args_of, metadata, run_together, set_of
from tracetui.model.table import NULL
from tracetui.opening.rank_folder import open_rank_set
from tracetui.panes import PANES
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_summary import OPERATIONS, PHASES, Flag, RankSummary
from tracetui.ranks.rank_tables import RANK_METRICS, TABLES
from tracetui.ranks.sentences import remarks
from tracetui.ranks.stretches import summarise_trace
from tracetui.tables.expectations import NOTHING, Expectation, holds


def plan() -> RankPlan:
    made = RankPlan(0)
    for number in range(5):
        begin = 20 * MS * number
        made.compute(begin + MS, 3 * MS, "gemm")
        made.compute(begin + 5 * MS, MS, "norm")
        made.collective(begin + 8 * MS, begin + 12 * MS, **args_of(number, (0, 1)))
        made.step(number, begin, 20 * MS)
    return made


def test_the_parts_of_a_stretch_sum_to_it() -> None:
    own = plan().summary(2).collectives
    assert (own.input + own.host + own.busy + own.comm == own.stretch).all()
    assert own.stretch.tolist() == [8 * MS] + [16 * MS] * 4 and own.busy.tolist() == [4 * MS] * 5


def test_names_belong_to_the_stretch_in_which_they_begin() -> None:
    summary = plan().summary(2)
    entries = summary.stretch_names
    held = {
        (int(collective), summary.names[name]): (int(calls), int(time))
        for collective, name, calls, time in zip(
            entries.collective, entries.name, entries.calls, entries.time, strict=True
        )
    }
    assert held == {(row, name): (1, dur) for row in range(5) for name, dur in (("gemm", 3 * MS), ("norm", MS))}


def test_times_are_exact_integers_of_nanoseconds() -> None:
    summary = plan().summary(2)
    assert summary.collectives.start.tolist() == [BASE + 20 * MS * number + 8 * MS for number in range(5)]


def test_a_summary_comes_back_from_its_bytes() -> None:
    summary = plan().summary(2)
    back = RankSummary.from_bytes(summary.to_bytes())
    for part in ("steps", "collectives", "stretch_names", "curve"):
        for column in fields(getattr(summary, part)):
            assert np.array_equal(
                getattr(getattr(back, part), column.name), getattr(getattr(summary, part), column.name)
            )
    assert (back.header, back.names, back.groups, back.window) == (
        summary.header,
        summary.names,
        summary.groups,
        summary.window,
    )


def test_steps_have_the_periods_and_the_idle_time_of_the_steps_pane() -> None:
    made = RankPlan(0)
    for number in range(4):
        begin = 20 * MS * number
        made.step(number, begin, 20 * MS)
        launched = [
            launch(begin + MS, 500_000, 2 * number + 1),
            kernel("gemm", begin + 2 * MS, 12 * MS, correlation=2 * number + 1),
            launch(begin + 3 * MS, 500_000, 2 * number + 2),
            kernel("norm", begin + 15 * MS, 7 * MS, correlation=2 * number + 2),
        ]
        made.events += launched
    trace = make_trace(made.events, metadata=metadata(0, 1, "node0"))
    own, steps = summarise_trace(trace).steps, PANES["steps"].build(trace)
    assert (own.end - own.start).tolist() == (1000 * steps["period_us"].values).tolist()
    assert own.idle.tolist() == (1000 * steps["gpu_idle_us"].values).tolist()
    row = TABLES["ranks"](set_of([made])).row(0)
    assert (row["step_us"], row["step_idle_us"]) == (own.median / 1000, own.idle.sum() / 1000)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no summary"])
def test_other_bytes_are_no_summary(data: bytes) -> None:
    with pytest.raises(ValueError):
        RankSummary.from_bytes(data)


def test_a_summary_of_three_thousand_collectives_is_small() -> None:
    made = RankPlan(0)
    run_together([made], [[2 * MS * number + number % 7] for number in range(3000)])
    assert len(made.summary(1).to_bytes()) < 100_000


def test_gloo_is_read_from_annotations_and_its_own_operators_are_no_work() -> None:
    events = [
        op("aten::mm", 0, 2 * MS),
        op("c10d::allreduce_", 2 * MS, MS),
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5 * MS, 4 * MS),
        annotation("forward", 9 * MS, 8 * MS),
        op("aten::mm", 10 * MS, 2 * MS),
    ]
    for start in (3 * MS, 14 * MS):
        args = {"Input Dims": [[64]], "Input type": ["float"]}
        events.append(annotation("gloo:all_reduce", start, MS, lane=("1", "7"), args=args))
    own = summarise_trace(make_trace(events, metadata=metadata(0, 2, "a"), origin_ns=BASE)).collectives
    assert [OPERATIONS[each] for each in own.operation.tolist()] == ["all_reduce"] * 2
    assert own.bytes.tolist() == [256] * 2 and own.seq.tolist() == [NULL] * 2
    assert (own.stretch[1], own.input[1], own.busy[1], own.host[1]) == (10 * MS, 4 * MS, 2 * MS, 4 * MS)
    assert [PHASES[each] for each in own.phase.tolist()] == ["", "forward"]


def test_a_collective_beside_another_is_told() -> None:
    made = RankPlan(0)
    made.collective(0, 4 * MS, **args_of(0, (0, 1)))
    made.collective(8 * MS, 9 * MS, **args_of(1, (0, 1)))
    beside = make_trace(
        [
            *made.events,
            type(made.events[0])(
                "ncclDevKernel_AllGather_RING_LL(x)", 3 * MS, 2 * MS, made.events[0].kind, ("0", "stream 30")
            ),
        ]
    )
    flags = np.asarray((summarise_trace(beside).collectives.flags & int(Flag.CONTENDED)) != 0).tolist()
    assert flags == [True, True, False]


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


class Ranks:
    """Ranks 2 and 5, of which one is late or none."""

    ranks = (2, 5)

    def __init__(self, *causes: str, is_late: bool = True) -> None:
        self.late = [SimpleNamespace(index=1, causes=[(cause, 1.0) for cause in causes])] if is_late else []

    def __len__(self) -> int:
        return len(self.ranks)


def found(ranks: Any, metric: str, want: Any, of: str = "") -> tuple[str | None, bool]:
    """What is found, and whether it is as wanted."""
    expected = Expectation("x", metric, want, of)
    observed = RANK_METRICS[metric](ranks, expected)
    return observed.text, holds(expected, observed)


def test_the_number_of_ranks():
    assert found(Ranks("input"), "ranks", 2) == ("2", True)
    assert found(Ranks("input"), "ranks", 3) == ("2", False)


@pytest.mark.parametrize(
    ("ranks", "want", "text", "is_so"),
    [
        (Ranks("input"), "^rank 5: input$", "rank 5: input", True),
        (Ranks("host", "input"), "^rank 5: .*input", "rank 5: host, input", True),
        (Ranks("kernels"), "^rank 5: .*input", "none", False),
        (Ranks("input"), "^rank 2: .*input", "none", False),
        (Ranks(), "^rank 5: unknown", "rank 5: unknown", True),
        (Ranks(is_late=False), "input", "none", False),
    ],
)
def test_who_is_late_and_why(ranks, want, text, is_so):
    assert found(ranks, "late_rank_named", want) == (text, is_so)


def test_that_nobody_is_late_can_be_wanted():
    assert found(Ranks(is_late=False), "late_rank_named", NOTHING, "rank") == ("none", True)
    assert found(Ranks("input"), "late_rank_named", NOTHING, "rank") == ("rank 5: input", False)


@pytest.mark.skipif(not (SHARED / "ranks").exists(), reason="the sets of ranks are not here")
def test_a_recorded_set():
    ranks = open_rank_set([str(SHARED / "ranks" / "g1_input_4ranks")])
    assert found(ranks, "ranks", 4) == ("4", True)
    assert found(ranks, "late_rank_named", "^rank 1: .*input")[1]
