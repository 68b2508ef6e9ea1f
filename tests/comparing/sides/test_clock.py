"""The tick of a clock, and differences that it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tracetui.comparing.noise import cpu_tick, gpu_tick, within_tick
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.model.trace import Trace


def recorded(durations: list[int], op_dur: int = 30_000, steps: int = 1) -> Trace:
    """Steps with a GEMM of each duration (ns), launched by one operator each."""
    events = []
    for number in range(steps):
        at = number * 1_000_000
        events.append(step(number + 1, at, 900_000))
        for index, dur in enumerate(durations):
            start, correlation = at + 10_000 + 100_000 * index, number * 100 + index + 1
            events += [op("aten::mm", start, op_dur), launch(start + 5_000, 2_000, correlation)]
            events.append(kernel("gemm", start + 40_000, dur, correlation=correlation, args={"grid": [1, 1, 1]}))
    return make_trace(events)


def told(a: Trace, b: Trace) -> tuple[str, str]:
    """The marks of the kernel and of the operator."""
    made = Comparison(side(a), side(b))
    ops = {row["name"]: row["mark"] for row in made.ops.rows()}
    return str(made.kernels["mark"].cell(0)), str(ops["aten::mm"])


def test_the_tick_is_what_all_durations_are_multiples_of() -> None:
    assert gpu_tick(recorded([3_000, 5_000])) == 1000
    assert gpu_tick(recorded([3_008, 5_024])) == 32
    assert gpu_tick(recorded([3_001, 5_000])) == 1
    assert cpu_tick(recorded([3_001])) == 1000
    assert gpu_tick(make_trace([op("a", 0, 5)])) == 1


@pytest.mark.parametrize(
    ("before", "after", "mark"),
    [
        ([3_000], [2_000], "same"),
        ([3_000], [4_000], "same"),
        ([3_000], [1_000], "faster"),
        ([3_000], [5_000], "slower"),
        ([3_008, 9_600], [2_976, 9_600], "same"),
        ([3_000] * 4, [3_000, 3_000, 2_000, 2_000], "cannot tell"),
        ([3_000] * 4, [2_000] * 4, "faster"),
    ],
)
def test_without_noise_one_tick_is_neither_faster_nor_slower(before, after, mark) -> None:
    assert told(recorded(before), recorded(after))[0] == mark


def test_an_operator_of_one_tick_less_is_not_faster() -> None:
    assert told(recorded([50_000]), recorded([50_000], op_dur=29_000))[1] == "same"
    assert told(recorded([50_000]), recorded([50_000], op_dur=25_000))[1] == "faster"


def test_a_tick_is_the_same_whatever_the_noise() -> None:
    assert told(recorded([3_000], steps=4), recorded([2_000], steps=4))[0] == "same"
    assert told(recorded([3_000], steps=4), recorded([1_000], steps=4))[0] == "faster"


def test_a_total_of_one_tick_is_the_same() -> None:
    made = Comparison(side(recorded([3_000])), side(recorded([2_000]))).totals
    assert next(row["change"] for row in made.rows() if row["measure"] == "gpu_busy_us") == "same"


def test_a_converted_clock_has_a_tick_within_one_nanosecond() -> None:
    rounded = [32 * number + number % 3 - 1 for number in range(40, 80)]
    assert gpu_tick(recorded(rounded)) == 32
    assert gpu_tick(recorded([*rounded, 1_234, 1_299])) == 32
    assert gpu_tick(recorded([number * 37 + number % 17 for number in range(40, 80)])) == 1
    assert told(recorded([1_311, *rounded]), recorded([1_278, *rounded]))[0] == "same"


def test_errors_of_several_calls_add_up_as_their_root() -> None:
    amounts = np.array([1000.0, 1001.0, 2000.0, 2001.0])
    assert within_tick(amounts, np.array([1.0, 1.0, 4.0, 4.0]), 1000).tolist() == [True, False, True, False]
