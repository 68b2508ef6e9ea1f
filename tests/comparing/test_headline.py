"""The first line of a comparison: the ratio with its sense, what the times consist of, and when no ratio is given."""

from __future__ import annotations

import math

import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op, step
from tests.support.comparing.played import compiled, eager, trace_of
from tests.support.traces import loaded
from tracetui.comparing.noise import BEYOND_NOISE, Change
from tracetui.comparing.side import side
from tracetui.comparing.statement import (
    BUSY,
    ON_CPU,
    PERIOD,
    WALL,
    Comparison,
    Headline,
    Spent,
    headline,
    ratio_words,
    side_names,
)
from tracetui.drawing.stacked_bars import text_of
from tracetui.drawing.text.headline_text import headline_lines
from tracetui.model.trace import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("before", "after", "change", "words"),
    [
        (1613, 191, Change.LESS, "8.45x faster"),
        (100, 120, Change.MORE, "1.20x slower"),
        (100, 100.5, Change.SAME, "the same"),
        (100, 104, Change.WITHIN_NOISE, "within noise"),
        (100, 50, Change.UNKNOWN, ""),
        (100, 0, Change.LESS, ""),
        (181_099, 1, Change.LESS, "181,099x faster"),
    ],
)
def test_a_ratio_says_its_sense_in_a_word(before: float, after: float, change: Change, words: str) -> None:
    assert ratio_words(before, after, change) == words


def of_runs(**lasting: int) -> Headline:
    """Runs of annotations with one kernel each, all within it; `lasting` are the µs of the kernels."""
    events, now = [], 0
    for number, (name, us) in enumerate(lasting.items(), 1):
        events += [
            annotation(name, now, 1_000_000),
            op("aten::mm", now + 100, 5_000),
            launch(now + 200, 1_000, number),
            kernel("gemm", now + 10_000, us * 1_000, correlation=number),
        ]
        now += 2_000_000
    trace = make_trace(events)
    return headline([side(trace, name) for name in lasting])


def test_runs_that_hardly_use_the_gpu_are_compared_by_their_duration() -> None:
    assert of_runs(much=800, more=900).what == BUSY
    assert of_runs(much=800, none=1).what == WALL


def of_steps(*kernels_and_waits: tuple[int, int]) -> Trace:
    """Steps of one kernel each: its µs, and the µs for which the GPU has nothing to do before it."""
    events, now = [], 0
    for number, (us, wait) in enumerate(kernels_and_waits, 1):
        at = now + 1_000 * wait
        events += [step(number, now, at - now + 20_000), op("aten::mm", at, 10_000), launch(at + 1_000, 5_000, number)]
        events.append(kernel("gemm", at + 8_000, us * 1_000, correlation=number))
        now = at + 8_000 + us * 1_000
    return make_trace(events)


def test_a_step_that_waits_longer_is_compared_by_its_period() -> None:
    """Equal GPU time explains nothing: the idle time comes first, in the bars and in the sentences."""
    trace = of_steps((500, 50), (500, 50), (500, 900), (500, 50), (500, 50))
    made = Comparison(side(trace, "2"), side(trace, "3"))
    assert made.headline.what == PERIOD and made.headline.ratios[0].change is Change.MORE
    assert dict(made.headline.sides[1].spent) == {Spent.COMPUTE: 500.0, Spent.IDLE: 908.0}
    assert "most of the change is GPU idle time, 58" in made.statement[0]
    assert made.statement[1].startswith("Bottleneck")


def test_periods_of_several_steps_are_explained() -> None:
    trace = of_steps((500, 50), (500, 50), (500, 900), (500, 50), (500, 50))
    seen = headline([side(trace, number) for number in "234"])
    assert text_of(headline_lines(seen, 100)[0]).startswith("period, from the end of the step before")


def test_a_step_that_works_longer_is_compared_by_its_work() -> None:
    trace = of_steps((500, 50), (500, 50), (900, 50), (500, 50), (500, 50))
    assert headline((side(trace, "2"), side(trace, "3"))).what == BUSY


def test_what_a_time_is_spent_on_adds_up_to_it() -> None:
    events = [
        op("aten::mm", 0, 5_000),
        launch(100, 1_000, 1),
        kernel("gemm", 10_000, 30_000, correlation=1),
        launch(1_200, 1_000, 2),
        # 20 of its 40 µs are behind the GEMM.
        kernel(NCCL, 30_000, 30_000, stream="stream 20", correlation=2),
        launch(2_400, 1_000, 3),
        kernel("gemm", 100_000, 10_000, correlation=3),
    ]
    trace = make_trace([annotation(name, at, 9_000) for name, at in (("first", 0), ("second", 200_000))] + events)
    found = headline([side(trace, "first"), side(trace, "first")])
    (first, _) = found.sides
    assert dict(first.spent) == {Spent.COMPUTE: 40.0, Spent.COMMUNICATION: 20.0, Spent.IDLE: 40.0}
    assert sum(us for _, us in first.spent) == first.time == 100.0
    assert first.busy == 60.0


def test_the_kinds_of_runs_of_a_side_stand_apart() -> None:
    trace = trace_of(eager(), compiled(), steps=False)
    other = trace_of(eager(8), steps=False)
    found = headline([side(trace, "f"), side(other, "f")])
    assert found.is_apart and found.facts == ()
    assert [each.count for each in found.sides] == [8, 16, 4]


def test_no_ratio_where_the_statement_gives_none() -> None:
    trace = trace_of(eager(), eager(), eager())
    found = headline([side(trace, "1"), side(trace, "all")])
    assert found.ratios[0].words == "a step and a capture: no ratio" and found.ratios[0].change not in BEYOND_NOISE


def test_without_a_gpu_it_is_the_time_of_the_cpu() -> None:
    trace = make_trace(
        [annotation(name, at, 90_000) for name, at in (("a", 0), ("b", 100_000))] + [op("aten::mm", 10, 50)]
    )
    found = headline([side(trace, "a"), side(trace, "b")])
    assert found.what == ON_CPU and math.isnan(found.sides[0].busy)


def test_single_parts_say_that_noise_is_unknown() -> None:
    trace = trace_of(eager(), compiled(), steps=False)
    assert Comparison(side(trace, "f[1]"), side(trace, "f[2]")).headline.facts[-1] == "noise unknown"


def test_names_are_what_tells_sides_apart() -> None:
    trace = trace_of(eager(), compiled(), compiled(), steps=False)
    runs = [side(trace, f"f[{number}]") for number in (1, 2, 3)]
    assert side_names(runs[:2]) == ["f", "f, compiled"]
    assert side_names(runs) == ["f", "f[2]", "f[3]"]


def test_the_three_ratios_of_the_puzzler(shared_trace) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    found = headline([side(trace, scope) for scope in ("unfused[1]", "fused[1]", "unfused[2]", "fused[2]")])
    assert [each.time for each in found.sides] == [1613, 191, 634, 157]
    assert [each.count for each in found.sides] == [36, 5, 19, 4]
    assert [each.words for each in found.ratios] == ["8.45x faster", "2.54x faster", "10.27x faster"]
    assert "unfused, compiled → fused, compiled 4.04x faster" in found.pairs
