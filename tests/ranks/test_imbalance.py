"""Work that is uneven though nobody stands out: kernels, stages, sizes of inputs; and where a late rank was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import annotation, kernel, launch, op, python
from tests.support.ranks import ALL_REDUCE, MS, RankPlan, args_of, run_of, set_of
from tracetui.model.table import NULL
from tracetui.ranks.rank_set import RankSet, rank_set
from tracetui.ranks.sentences import NOBODY, headline, imbalanced_kernels, imbalanced_work, remarks

EXPERTS = "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 256, 1>(int4 const*)"


def decoding(experts: list[list[int]], late: dict[int, int] | None = None, calls: int = 1) -> RankSet:
    """Layers of a GEMM, experts of a length in ns by layer and rank, and an all-reduce for which all wait a little."""
    plans = [RankPlan(rank) for rank in range(len(experts[0]))]
    now = 0
    for number, row in enumerate(experts):
        arrivals = []
        for plan, length in zip(plans, row, strict=True):
            begin = now + (late or {}).get(plan.rank, 0)
            plan.compute(begin, MS, "gemm")
            for call in range(calls):
                plan.compute(begin + MS + call * length // calls, length // calls, EXPERTS)
            arrivals.append(begin + MS + length)
        now = max(arrivals) + MS // 10
        for plan, start in zip(plans, arrivals, strict=True):
            plan.collective(start, now, **args_of(number, range(len(plans))))
    return set_of(plans)


def test_experts_that_take_longer_on_one_rank_are_told_with_their_cost_though_nobody_stands_out() -> None:
    # 7.81 and 8.91 ms in 80 layers: 13.7 µs a layer, beside which 1 ms of other work is even.
    found = decoding([[97_625, 111_375]] * 80)
    assert found.late == [] and headline(found).startswith(NOBODY)
    (experts,) = imbalanced_kernels(found, [])
    assert (experts.most, experts.least, experts.calls) == (1, 0, (80, 80))
    assert experts.time == (80 * 111_375, 80 * 97_625) and experts.cost == 80 * 13_750 / 2
    (sentence,) = imbalanced_work(found, [])
    assert "8.91 ms on rank 1 and 7.81 ms on rank 0" in sentence and "550.0 µs less" in sentence
    assert sentence in remarks(found)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_what_varies_at_random_is_not_uneven_and_nobody_is_late(seed: int, ranks: int) -> None:
    lengths = np.random.default_rng(seed).normal(200_000, 10_000, (60, ranks)).astype(int).tolist()
    found = decoding(lengths)
    assert found.late == [] and imbalanced_work(found, []) == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(0, 3))
def test_of_two_faults_at_a_time_both_are_told(seed: int, heavy: int, still: int) -> None:
    lengths = np.random.default_rng(seed).normal(200_000, 4_000, (60, 4))
    lengths[:, heavy] *= 1.4
    found = decoding(lengths.astype(int).tolist(), late={still: 2 * MS})
    assert next((each.index, each.cause) for each in found.late) == (still, "host")
    assert [each.most for each in imbalanced_kernels(found, [])] == [heavy]


def test_one_long_call_is_no_imbalanced_work() -> None:
    assert imbalanced_work(decoding([[100_000, 100_000]] * 39 + [[100_000, 5 * MS]]), []) == []


def test_kernels_that_make_a_rank_late_are_not_told_twice() -> None:
    found = decoding([[MS, 3 * MS, MS]] * 20)
    assert [(each.index, each.cause) for each in found.late] == [(1, "kernels")]
    assert imbalanced_work(found, []) == []


def test_ranks_without_kernels_are_not_compared() -> None:
    found = decoding([[97_625, 111_375]] * 80)
    first, second = found.summaries
    on_cpu = rank_set(run_of([each.header for each in found.summaries]), (replace(first, is_gpu=False), second))
    assert imbalanced_kernels(on_cpu, []) == []


def test_stages_of_a_pipeline_are_compared_with_each_other_and_ranks_within_them() -> None:
    found = decoding([[100_000, 900_000, 100_000, 900_000]] * 30)
    chains = [(0, 1), (2, 3)]
    assert imbalanced_kernels(found, chains) == []
    sentence = imbalanced_work(found, chains)[0]
    assert sentence.startswith("Stage 1 of the pipeline (rank 1) computes for 1.27 times the mean")
    # With a stage missing nothing is known of the mean.
    assert imbalanced_work(found, [(0, 1, 7)]) == []


def with_shapes(tokens: list[int], shaped: bool = True) -> RankSet:
    plans = [RankPlan(rank) for rank in range(len(tokens))]
    for number in range(10):
        for plan, count in zip(plans, tokens, strict=True):
            begin = 40 * MS * number
            args = {"Input Dims": [[count, 64], [64, 64]]} if shaped else {}
            plan.events.append(op("aten::mm", begin, MS // 100, args=args))
            plan.compute(begin, 10_000 * count, "gemm")
            plan.collective(begin + 10_000 * count, begin + 30 * MS, **args_of(number, range(len(plans))))
    return set_of(plans)


def test_sizes_of_inputs_that_differ_between_ranks_are_told_with_their_cost() -> None:
    found = with_shapes([1000, 1000, 1400])
    assert [each.elements for each in found.summaries] == [640_000, 640_000, 896_000]
    (sentence,) = [each for each in remarks(found) if each.startswith("The inputs of products")]
    assert "on rank 2 have 1.24 times the elements of the mean rank" in sentence and "26.67 ms longer" in sentence
    assert not any("inputs of products" in each for each in remarks(with_shapes([1000, 1000, 1000])))
    unknown = with_shapes([1000, 1000, 1400], shaped=False)
    assert [each.elements for each in unknown.summaries] == [NULL] * 3
    assert not any("inputs of products" in each for each in remarks(unknown))


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("save_checkpoint", "in save_checkpoint"),
        # A step is no place, and what is around counts; a part of a step is told once.
        ("ProfilerStep#3", "in epoch"),
        ("backward", ""),
    ],
)
def test_the_annotation_in_which_the_host_of_a_late_rank_stood_still_is_named(name: str, note: str) -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for number in range(6):
        begin = 20 * MS * number
        for plan in plans:
            late = 12 * MS * (plan.rank == 1)
            plan.events.append(annotation("epoch", begin, 20 * MS))
            if late:
                plan.events.append(annotation(name, begin + 2 * MS, late))
            plan.compute(begin, 2 * MS)
            correlation = 1 + number
            plan.events.append(launch(begin + 2 * MS + late - 1000, 500, correlation))
            start, args = begin + 2 * MS + late, args_of(number, range(3))
            plan.events.append(
                kernel(
                    ALL_REDUCE, start, begin + 20 * MS - start, stream="stream 20", correlation=correlation, args=args
                )
            )
    (late_rank,) = set_of(plans).late
    assert (late_rank.index, late_rank.cause, late_rank.note) == (1, "host", note)
    assert (late_rank.phase == "backward") == (name == "backward")


def test_the_function_in_which_a_late_rank_stood_still_is_named_without_its_folders() -> None:
    plans = [RankPlan(rank) for rank in range(3)]
    for number in range(6):
        begin = 20 * MS * number
        for plan in plans:
            late = 12 * MS * (plan.rank == 1)
            plan.events.append(op("aten::mm", begin, MS // 10))
            if late:
                plan.events.append(python("/home/me/train.py(12): load_weights", begin + 2 * MS, late))
                plan.events.append(python("<built-in function sleep>", begin + 2 * MS + 10, late - 20))
            plan.compute(begin, 2 * MS)
            plan.collective(begin + 2 * MS + late, begin + 20 * MS, **args_of(number, range(3)))
    (late_rank,) = set_of(plans).late
    assert late_rank.note == "in train.py(12): load_weights"
