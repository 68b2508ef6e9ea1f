"""The table of a step is that part of the table of the whole trace, and takes no work that is not about it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.app import training
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.health import health_table
from tracetui.health.link_checks import CheckSeverity
from tracetui.linking import replays
from tracetui.linking.links import links
from tracetui.linking.placement import step_index, within
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.panes import PANES

TRACES = {"made": training, "recorded": lambda: loaded(SAMPLES / "mlp_train_cpu.json.gz")}
SINGLE_ROWS = ("kernels", "launches", "occupancy", "memory", "gaps")
"""Panes with a row for each thing that happened, and the step that it belongs to."""


@pytest.mark.parametrize("pane", SINGLE_ROWS)
@pytest.mark.parametrize("name", TRACES)
def test_rows_of_a_step_are_those_of_the_whole_trace(name, pane):
    trace = TRACES[name]()
    whole = PANES[pane].build(trace)
    for number in steps(trace).number.tolist():
        # In a trace that was asked for nothing else, so that nothing can come from the whole table.
        table = PANES[pane].build(TRACES[name](), number)
        if whole.slices is None or table.slices is None:
            assert len(table) == len(whole) == 0
            continue
        place = {row: index for index, row in enumerate(whole.slices.tolist())}
        rows = [place[row] for row in table.slices.tolist()]
        if "step" in whole:
            belonging = np.flatnonzero(whole["step"].equal(number))
            assert sorted(rows) == belonging.tolist()
        for column in set(table.column_names) & set(whole.column_names) - {"pct", "index"}:
            assert [table[column].cell(index) for index in range(len(table))] == [
                whole[column].cell(row) for row in rows
            ], column


@pytest.mark.parametrize("name", TRACES)
def test_rows_are_placed_as_when_all_are_looked_at(name):
    trace = TRACES[name]()
    rows = np.arange(len(trace.slices))
    index = step_index(trace, rows)
    for number in steps(trace).number.tolist():
        wanted = steps(trace).labelled(number)
        assert within(trace, rows, number).tolist() == rows[np.isin(index, wanted)].tolist()


@pytest.mark.parametrize("pane", PANES)
def test_only_checks_about_a_pane_are_made_for_it(pane, monkeypatch):
    trace = training()
    known = health_table.marked(trace, pane, PANES["kernels"].table(trace, None, None))
    made = []
    find = health_table.doubt_of

    def noted(trace, check):
        made.append(check)
        return find(trace, check)

    monkeypatch.setattr(health_table, "doubt_of", noted)
    again = health_table.marked(trace, pane, PANES["kernels"].table(trace, None, None))
    assert again.doubts == known.doubts
    assert all(any(name.split(".")[0] == pane for name in check.touches) for check in made)
    assert all(check.severity >= CheckSeverity.DOUBT for check in made)


def test_warnings_of_a_pane_are_those_among_all_checks():
    trace = make_trace(
        [
            step(1, 0, 900_000),
            op("aten::mm", 10_000, 300_000),
            op("aten::add", 200_000, 300_000),
            launch(20_000, 5_000, 1),
            kernel("gemm", 15_000, 200_000, correlation=1),
            kernel("relu", 440_000, 50_000, correlation=9),
        ]
    )
    worst = health_table.doubtful_checks(trace)
    assert len(worst) > 2
    for name, pane in PANES.items():
        table = pane.build(trace)
        named = [check.name for check in worst if name in check.touches]
        assert [words.split(" (")[0] for words in table.doubts if not table.doubts[words]] == named


def test_marks_are_looked_for_at_few_places(monkeypatch):
    trace = training()
    monkeypatch.setattr(replays, "SAMPLED_STRETCHES", 2)
    monkeypatch.setattr(replays, "SAMPLED_NEIGHBOURS", 2)
    gpu = links(trace).gpu
    assert replays._spread(gpu).tolist() == gpu[[0, 1, 4, 5]].tolist()
    assert replays._spread(gpu[:3]).tolist() == gpu[:3].tolist()


def test_steps_do_not_write_the_causes_of_gaps_as_text() -> None:
    trace = training()
    PANES["steps"].build(trace)
    assert "gap_shares" not in trace.cache
    PANES["gaps"].build(trace)
    assert "gap_shares" in trace.cache


def test_the_delay_of_a_step_is_that_of_its_own_launches() -> None:
    events = [
        op("part", 0, 900),
        launch(10, 5, 1),
        kernel("late", 310, 20, correlation=1),
        op("part", 1_000, 900),
        launch(1_010, 5, 2),
        kernel("soon", 1_020, 20, correlation=2),
        kernel("without launch", 1_100, 20, correlation=9),
    ]
    rows = list(PANES["steps"].build(with_steps(make_trace(events), "part")).rows())
    assert [(row["kernels"], row["launch_delay_us"]) for row in rows] == [(1, 0.3), (2, 0.01)]
