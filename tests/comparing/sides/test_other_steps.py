"""The noise of two single steps: that of the other steps, which `check --baseline` takes too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.checking.report import assertion, report
from tracetui.comparing.kernel_changes import change_order
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.model.trace import Trace


def stepped(*durations: int) -> Trace:
    """Steps with one kernel and one operator of as many ns."""
    events: list[Event] = []
    for number, dur in enumerate(durations, 1):
        at = number * 10_000_000
        events += [step(number, at, dur + 60_000), op("aten::mm", at + 10_000, dur), launch(at + 15_000, 2_000, number)]
        events.append(kernel("gemm", at + 40_000, dur, correlation=number))
    return make_trace(events)


RESTLESS = stepped(700_003, 952_007, 700_001, 1_190_000, 801_009, 1_302_000)


def test_compare_knows_the_noise_that_check_knows():
    made = Comparison(side(RESTLESS, "1"), side(RESTLESS, "2"))
    total = next(row for row in made.totals.rows() if row["measure"] == "gpu_busy_us")
    outcome = report(side(RESTLESS, "2"), [assertion("not_slower(gpu_busy_us)")], side(RESTLESS, "1")).outcomes[0]
    assert (total["change"], outcome.status.value) == ("cannot tell", "cannot tell")
    assert {made.kernels["mark"].cell(0), next(made.ops.rows())["mark"]} == {"cannot tell"}
    assert made.kernels["noise_us"].cell(0) == pytest.approx(601.999)
    assert "the other steps of their files differ by 602 µs" in " ".join(made.statement)


def test_check_calls_no_tick_of_the_clock_slower():
    before, after = (stepped(*[dur] * 4) for dur in (3_000, 4_000))
    outcome = report(side(after), [assertion("not_slower(gpu_busy_us)")], side(before)).outcomes[0]
    assert outcome.status.value == "holds"


def test_a_step_far_beyond_the_others_is_slower():
    trace = stepped(700_003, 2_952_007, 700_001, 790_000, 801_009, 702_000)
    made = Comparison(side(trace, "1"), side(trace, "2"))
    assert made.kernels["mark"].cell(0) == "slower"
    text = " ".join(made.statement)
    assert "(noise 0.10 ms of other steps)" in text or "(noise 101 µs of other steps)" in text


def test_of_single_captures_five_percent_are_assumed():
    for after, mark in ((1_040_003, "cannot tell"), (1_060_003, "slower"), (1_005_003, "same")):
        made = Comparison(side(stepped(1_000_001)), side(stepped(after)))
        assert made.kernels["mark"].cell(0) == mark


def test_the_largest_change_is_first_in_what_changed_and_in_the_rest():
    marks = ["same", "slower", "cannot tell", "faster", "same"]
    change = np.array([-103.0, 4.0, -1.0, -9.0, 0.0])
    assert change_order(marks, change, np.array([9e3, 50.0, 20.0, 20.0, 10.0])).tolist() == [3, 1, 0, 2, 4]
