"""Rows of the serving pane number by number, where steps take different times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tests.support.serving import GEMM, REDUCE, US, Served, served
from tracetui.model.table import NULL, Cell
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.serving.server_steps import token_rate

NUMBERED = "execute_context_0(0)_generation_{0}({0})"
STARTS = (0, 100, 210, 330, 460)


def growing() -> Trace:
    """Five decodes of 1 to 5 requests, of a product of 10 to 50 µs, a pause of 10 and a reduction of 10."""
    return served(
        [
            Served(NUMBERED.format(number), at, 40, [(GEMM, at + 20, 10 * number), (REDUCE, at + 30 + 10 * number, 10)])
            for number, at in enumerate(STARTS, 1)
        ]
    )


def rows(trace: Trace, by: str | None = None) -> list[dict[str, Cell]]:
    return list(PANES["serving"].build(trace, by=by).rows())


def cells(trace: Trace, by: str | None, names: str) -> list[list[Cell]]:
    """Some columns of all rows."""
    return [[row[name] for name in names.split()] for row in rows(trace, by)]


def examples(trace: Trace, by: str | None) -> list[int]:
    """Start in µs of the slice behind each row."""
    rows = PANES["serving"].build(trace, by=by).slices
    return [] if rows is None else (trace.slices.start[rows] // US).tolist()


def approx(*numbers: float) -> object:
    return pytest.approx(list(numbers))


def test_steps_of_a_kind_have_the_percentiles_of_their_times() -> None:
    trace = growing()
    times = "steps requests tokens median_us p95_us p99_us gpu_busy_us idle_within_us cpu_step_us"
    assert cells(trace, None, times) == [approx(5, 3, 3, 50, 68, 69.6, 40, 10, 40)]
    # From the end of a step on the GPU to that of the next one, and what neither the GPU nor the CPU did between.
    between = "gpu_period_us gpu_period_p99_us token_us idle_between_us between_us exposed_us output_tokens_per_s"
    assert cells(trace, None, between) == [approx(125, 139.7, 125, 70, 75, 60, 15 / 550e-6)]
    shares = "products_pct comm_pct attention_pct routing_pct quantise_pct sampling_pct comm_us min_comm_us pct"
    assert cells(trace, None, shares) == [approx(75, 25, 0, 0, 0, 0, 10, 10, 100)]
    assert examples(trace, None) == [460]


def test_batches_have_their_own_times_and_rates() -> None:
    trace = growing()
    names = "batch_size steps median_us p95_us gpu_busy_us idle_within_us kernels graph_replays"
    expected = [[number, 1, 20 + 10 * number, 20 + 10 * number, 10 + 10 * number, 10, 2, 0] for number in range(1, 6)]
    assert cells(trace, "batch", names) == expected
    # The first counts from its start.
    rates = [row["tokens_per_s"] for row in rows(trace, "batch")]
    assert rates == approx(1 / 50e-6, 2 / 110e-6, 3 / 120e-6, 4 / 130e-6, 5 / 140e-6)
    assert [row["gpu_period_us"] for row in rows(trace, "batch")] == [None, 110, 120, 130, 140]
    assert examples(trace, "batch") == list(STARTS)


def test_the_rate_of_a_batch_is_over_all_its_steps() -> None:
    at = (0, 100, 220)
    trace = served([Served(NUMBERED.format(4), each, 40, [(GEMM, each + 20, 50)]) for each in at])
    assert cells(trace, "batch", "tokens_per_s steps") == [approx(12 / 290e-6, 3)]


def test_purposes_are_listed_by_their_time_with_their_percentiles() -> None:
    names = "purpose activities median_us min_us p95_us alone_us pct"
    gemm, comm = cells(growing(), "purpose", names)
    assert gemm == ["gemm", *[1, 30, 10, pytest.approx(48), 30, 75]]
    assert comm == ["communication", 1, 10, 10, 10, 10, 25]
    assert examples(growing(), "purpose") == [460, 460]


def test_kernels_of_a_purpose_are_counted_by_step() -> None:
    kernels = [
        [(GEMM, 20, 5), (GEMM, 30, 5)],
        [(REDUCE, 120, 10)],
        [(GEMM, 220, 5), (GEMM, 230, 5), (GEMM, 240, 5)],
        [(GEMM, 320, 10), (REDUCE, 340, 10)],
    ]
    trace = served([Served(NUMBERED.format(2), 100 * index, 40, each) for index, each in enumerate(kernels)])
    assert cells(trace, "purpose", "purpose activities median_us min_us p95_us pct") == [
        ["gemm", 1.5, 10, 0, pytest.approx(14.25), pytest.approx(100 * 35 / 55)],
        ["communication", 0.5, 5, 0, 10, pytest.approx(100 * 20 / 55)],
    ]
    assert cells(trace, None, "comm_us min_comm_us") == [[5, 0]]


def test_a_step_that_ran_nothing_has_no_time_of_any_purpose() -> None:
    kernels = [[(REDUCE, 20, 10)], [], [(REDUCE, 220, 10)]]
    trace = served([Served(NUMBERED.format(2), 100 * index, 40, each) for index, each in enumerate(kernels)])
    assert cells(trace, None, "steps median_us gpu_busy_us comm_us min_comm_us") == [[3, 10, 10, 10, 10]]
    # Its own period is empty: the others follow one another.
    assert cells(trace, "batch", "steps tokens_per_s") == [approx(3, 6 / 230e-6)]


def test_graphs_that_a_step_replayed_are_counted() -> None:
    graph = [
        event
        for at, number in ((10, 900), (15, 901), (110, 902))
        for event in (
            launch(at * US, 500, number, "cudaGraphLaunch"),
            kernel(GEMM, (at + 40) * US, US, correlation=number),
        )
    ]
    steps = [Served(NUMBERED.format(2), 100 * index, 40, [(GEMM, 100 * index + 20, 10)]) for index in range(2)]
    assert cells(served(steps, graph), "batch", "kernels graph_replays") == [[2, 1]]


DRAFTED = ("step[DRAFT bs=4]", "step[TARGET_VERIFY bs=4 g_sq=16]", "step[DRAFT_EXTEND_V2 bs=4]")


def drafted(with_kernels: bool = True) -> Trace:
    """Five iterations that each take longer: drafts of 10 µs more, a start of 10 µs later."""
    steps, at = [], 0
    for number in range(5):
        for index, name in enumerate(DRAFTED):
            kernels = [(GEMM, at + 20, 10 + 10 * number + index), (REDUCE, at + 60 + 10 * number, 30)]
            steps.append(Served(name, at, 40, kernels if with_kernels else []))
            at += 150 + 10 * number
    return served(steps)


def test_iterations_have_the_percentiles_of_their_times() -> None:
    trace = drafted()
    names = "runs steps requests tokens median_us p95_us p99_us gpu_period_us draft_us check_us"
    assert cells(trace, "iteration", names) == [approx(5, 3, 4, 16, 420, 474, 478.8, 515, 170, 90)]
    assert cells(trace, "iteration", "idle_within_us min_token_us") == [approx(247, 515 * 4 / 16)]
    # The check of the longest one.
    assert examples(trace, "iteration") == [2_170]
    assert "5 iterations of drafts and a check of them, 420.0 µs at the median" in PANES["serving"].build(trace).note


def test_iterations_without_a_gpu_have_no_idle_time() -> None:
    trace = drafted(with_kernels=False)
    assert cells(trace, "iteration", "runs idle_within_us") == [[5, None]]


def test_some_decodes_with_several_tokens_are_counted() -> None:
    names = ["step[DECODE bs=4]", "step[DECODE bs=4 g_sq=8 g_sk=9]", "step[DECODE bs=4 g_sq=4 g_sk=9]"]
    steps = [Served(name, 100 * index, 40, [(GEMM, 100 * index + 20, 30)]) for index, name in enumerate(names)]
    note = PANES["serving"].build(served(steps)).note
    assert "1 decode took in several tokens for a request (speculative decoding)" in note
    assert "several tokens" not in PANES["serving"].build(served(steps), by="batch").note
    prefill = Served("execute_context_1(512)_generation_0(0)", 300, 40, [(GEMM, 320, 300)])
    for others in ([steps[0], steps[2]], [prefill]):
        assert "several tokens" not in PANES["serving"].build(served(others)).note


def between_of(*lengths: tuple[str, int]) -> Trace:
    """Three steps with 100 µs between them, in the first of which the CPU was in some annotations."""
    steps = [Served(NUMBERED.format(1), 140 * index, 40, [(GEMM, 140 * index + 20, 10)]) for index in range(3)]
    events, at = [], 40
    for name, length in lengths:
        events.append(annotation(name, at * US, length * US))
        at += length
    return served(steps, events)


SCHEDULING, OUTPUT, SAMPLING = "scheduler.get_next_batch_to_run", "scheduler.process_batch_result", "x: sample"


@pytest.mark.parametrize(
    ("lengths", "between"),
    [
        (((SCHEDULING, 60), (OUTPUT, 10)), "not recorded 65 %, scheduling 30 %, output 5 %"),
        (((SCHEDULING, 60), (OUTPUT, 9)), "not recorded 66 %, scheduling 30 %"),
        (((SCHEDULING, 60), (OUTPUT, 20), (SAMPLING, 14)), "not recorded 53 %, scheduling 30 %, output 10 %"),
    ],
)
def test_three_activities_of_five_percent_and_more_are_named(lengths: Sequence[tuple[str, int]], between: str) -> None:
    assert cells(between_of(*lengths), None, "between") == [[between]]


def test_activities_between_steps_are_listed_by_their_time() -> None:
    trace = between_of((SCHEDULING, 60), (OUTPUT, 20))
    assert cells(trace, "between", "cpu_activity steps median_us exposed_us pct") == [
        ["not recorded", 2, 60, 60, 60],
        ["scheduling", 2, 30, 30, 30],
        ["output", 2, 10, 10, 10],
    ]
    assert examples(trace, "between") == [140] * 3


def on_cpu() -> Trace:
    events: list[Event] = []
    for index, dur in enumerate((80, 60, 100)):
        start = 200 * index * US
        events += [annotation("step[DECODE bs=2]", start, dur * US), op("aten::mm", start + 10, 1_000)]
    return make_trace(events)


def test_without_a_gpu_times_are_those_of_the_cpu() -> None:
    trace = on_cpu()
    assert cells(trace, None, "steps median_us p95_us cpu_step_us between_us gpu_busy_us pct") == [
        [3, 80, pytest.approx(98), 80, 120, None, None]
    ]
    # Six tokens from the start of the first step to the end of the last.
    assert cells(trace, None, "output_tokens_per_s") == [approx(6 / 500e-6)]
    assert cells(trace, "between", "cpu_activity median_us exposed_us pct") == [["not recorded", 130, None, 100]]
    assert cells(trace, "batch", "kernels graph_replays idle_within_us tokens_per_s") == [
        [None, None, None, pytest.approx(6 / 500e-6)]
    ]
    assert examples(trace, None) == [400]


def test_a_rate_needs_the_tokens_of_every_step() -> None:
    trace = on_cpu()
    steps = np.arange(3)
    assert token_rate(trace, steps, np.array([3, 0, 1])) == pytest.approx(4 / 500e-6)
    assert np.isnan(token_rate(trace, steps[:0], np.array([3, 0, 1])))
    for tokens in ([0, 0, 0], [3, NULL, 1]):
        assert np.isnan(token_rate(trace, steps, np.array(tokens, np.int64)))


def test_kinds_have_shares_of_the_time_of_all_of_them() -> None:
    prefill = Served("execute_context_1(512)_generation_0(0)", 300, 40, [(GEMM, 320, 300)])
    decodes = [Served(NUMBERED.format(4), 100 * index, 40, [(REDUCE, 100 * index + 20, 50)]) for index in range(2)]
    trace = served([*decodes, prefill])
    assert cells(trace, None, "kind steps pct comm_pct products_pct comm_us token_us") == [
        ["prefill", 1, 75, 0, 100, 0, None],
        ["decode", 2, 25, 100, 0, 50, 100],
    ]
    assert cells(trace, "purpose", "kind purpose pct") == [
        ["prefill", "gemm", 100],
        ["decode", "communication", 100],
    ]
