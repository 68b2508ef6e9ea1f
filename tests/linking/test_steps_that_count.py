"""What is said of all steps is said of those that were recorded in full, by every pane, and of the others once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.findings import finding_list
from tracetui.findings.scope import Scope
from tracetui.idle.scope_times import median_step, scope_windows, step_periods
from tracetui.idle.verdict import verdict
from tracetui.linking.links import op_rows
from tracetui.linking.step_kinds import counted_steps, left_out_steps
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Trace
from tracetui.overview.facts import overview_of
from tracetui.panes import PANES


def loop(first: int, count: int = 5) -> Trace:
    """Steps of 10 ms with four kernels, of which the first has fewer, and waits for them for long."""
    events: list[Event] = []
    for number in range(count):
        at = 10_000_000 * number + (0 if number else -40_000_000)
        kernels = first if number == 0 else 4
        events.append(annotation(f"ProfilerStep#{number}", at, 10_000_000 if number else 49_000_000))
        for index in range(kernels):
            start, link = at + (40_000_000 if number == 0 else 0) + 2_000_000 * index + 1_000, 10 * number + index + 1
            events += [op("aten::mm", start, 500_000), launch(start + 1_000, 5_000, link)]
            events.append(kernel("gemm", start + 20_000, 300_000, correlation=link))
    return make_trace(events)


def test_a_first_step_recorded_in_part_is_in_no_scope_of_all_steps() -> None:
    trace = loop(2)
    assert counted_steps(trace).tolist() == [False, True, True, True, True]
    low, high = step_periods(trace)
    windows = scope_windows(trace, None)
    assert int((windows[1] - windows[0]).sum()) == int((high - low)[1:].sum())
    scope, judged = Scope(trace, None), verdict(trace)
    assert (scope.rounds, len(scope.kernels), len(scope.ops)) == (4, 16, 16)
    assert judged is not None and judged.judged.time == scope.time and judged.judged.idle == scope.idle
    assert side(trace).number.tolist() == [1, 2, 3, 4]
    assert "the median of 4" in overview_of(trace, median_step(trace)).title
    # The step alone is what it is.
    assert Scope(trace, 0).time == int((high - low)[0]) and len(Scope(trace, 0).kernels) == 2
    sentence = "Step 0 is left out of what is said of all steps: recorded in part."
    assert left_out_steps(trace) == sentence
    for pane in ("steps", "findings"):
        assert PANES[pane].build(trace).note.count(sentence) == 1
        assert sentence not in PANES["findings"].build(trace, step=1).note


def test_where_all_steps_are_whole_none_is_left_out() -> None:
    trace = loop(4)
    assert counted_steps(trace).all() and left_out_steps(trace) == ""
    assert Scope(trace, None).rounds == 5 and len(Scope(trace, None).ops) == 20


def test_idle_time_beside_a_start_up_is_no_more_than_the_time_beside_it(shared_trace) -> None:
    trace = with_steps(loaded(shared_trace("d22_rtx2080ti_linear.json.gz")), "none")
    by_id = {each.id: each for each in finding_list(trace)}
    assert "start-up" in by_id
    scope = Scope(trace, None)
    idle = scope.idle - sum(scope.start_up)
    assert 0 < idle < scope.rest
    assert f"the GPU is idle for {scope.cost_text(idle)}" in by_id["launch-overhead"].evidence
    assert "100 %" not in by_id["launch-overhead"].evidence


def test_header_and_first_sentence_of_guessed_steps_agree(shared_trace) -> None:
    trace = loaded(shared_trace("d22_rtx2080ti_linear.json.gz"))
    assert len(steps(trace)) == 40 and np.flatnonzero(~counted_steps(trace)).tolist() == [0]
    judged = verdict(trace)
    assert judged is not None and judged.words == "overhead-bound"
    listed = PANES["findings"].build(trace)
    assert listed.headline.startswith("Launch overhead") and not any(row["id"] == "start-up" for row in listed.rows())
    # The step that is left out has its finding, with what made it long.
    cold = next(each for each in finding_list(trace) if each.id == "cold-step")
    assert "cudaFree, 981.08 ms" in cold.evidence


@pytest.mark.parametrize("name", ["operators", "optimizer"])
def test_the_slice_with_which_a_guessed_step_begins_runs_in_it_like_any_other(name: str) -> None:
    events: list[Event] = []
    for at in range(0, 5_000, 1_000):
        events += [op("aten::embedding", at, 100), op("aten::mm", at + 200, 100), op("aten::relu", at + 400, 100)]
        events += [annotation("Optimizer.step#SGD.step", at + 600, 100)] if name == "optimizer" else []
    trace = make_trace(events)
    taken = steps(trace)
    assert (len(taken), taken.found_by, taken.slices.tolist()) == (5, f"repeating {name}", [])
    for each in (trace, with_steps(trace, name), with_steps(trace, "none")):
        assert len(op_rows(each)) == 15
        ran = {row["what"]: row for row in PANES["range"].build(each).rows()}
        assert ran["thread"]["count"] == 15 and ran["thread"]["total_us"] == pytest.approx(1.5)
    chosen = with_steps(trace, "aten::mm")
    assert chosen.chosen_steps is not None and steps(chosen).slices.tolist() == steps(chosen).row.tolist()
