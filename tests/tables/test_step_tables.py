"""The steps pane, and steps that differ from the others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.app import training
from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.health import health_table
from tracetui.health.link_checks import CheckSeverity
from tracetui.linking import replays
from tracetui.linking.links import links
from tracetui.linking.placement import step_index, within
from tracetui.linking.step_sources import with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind
from tracetui.panes import PANES
from tracetui.tables.step_table import OddStep, odd_among, odd_steps, parts_of_periods, step_parts

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


def _odd(
    busy: list[float], comm: list[float], idle: list[float], kind: list[str] | None = None
) -> list[OddStep | None]:
    parts = parts_of_periods(np.array(busy) + np.array(idle), np.array(idle), np.array(comm))
    return odd_among(parts, np.array(kind or [""] * len(busy)), np.ones(len(busy), bool))


def test_the_parts_of_a_step_that_overlaps_the_one_before_are_its_period() -> None:
    """Its own work is more than its period, of two devices: the bar, its length and its change are of the period."""
    period, idle = np.array([100.0, 100.0, 140.0]), np.array([10.0, 10.0, 20.0])
    parts = parts_of_periods(period, idle, np.full(3, 100.0))
    assert np.sum(list(parts.values()), axis=0).tolist() == [100.0, 100.0, 140.0]
    assert parts["idle"].tolist() == [10.0, 10.0, 20.0]
    odd = odd_among(parts, np.zeros(3), np.ones(3, bool))[2]
    assert odd is not None and round(odd.change, 6) == 0.4


def test_a_shorter_step_that_communicates_longer_is_odd() -> None:
    """Its length alone says nothing: what grew comes first."""
    usual, _, _, odd = _odd([200, 200, 200, 260], [60, 60, 60, 120], [150, 150, 151, 80])
    assert usual is not None and usual.parts == ()
    assert odd is not None and odd.change < 0
    assert odd.parts == (("comm", 60.0), ("idle", -70.0))


def test_parts_below_a_twentieth_of_the_step_are_usual() -> None:
    """A part that doubles and is small makes no step odd."""
    odd = _odd([100, 100, 109], [4, 4, 13], [100, 100, 100])[2]
    assert odd is not None and odd.parts == ()


def test_a_step_that_is_longer_by_several_small_parts_is_odd() -> None:
    """A sixteenth longer, with no part off by a twentieth: unmarked it would stand below shorter steps that are."""
    odd = _odd([100, 100, 108], [0, 0, 0], [100, 100, 105])[2]
    assert odd is not None and round(odd.change, 3) == 0.065 and odd.parts == (("compute", 8.0),)


def test_each_kind_has_a_median_of_its_own() -> None:
    """A prefill among decodes is another kind of step, and one alone cannot be compared."""
    found = _odd([10, 10, 10, 500], [0] * 4, [1] * 4, ["decode", "decode", "decode", "prefill"])
    assert found[3] is None
    assert found[0] is not None and found[0].parts == ()


def test_without_a_gpu_the_cpu_time_is_the_only_part() -> None:
    """Steps of a trace without GPU differ in their time on the CPU."""
    lengths = (10_000, 10_000, 20_000)
    trace = make_trace([step(number, 100_000 * number, dur) for number, dur in enumerate(lengths)])
    assert list(step_parts(trace)) == ["CPU"]
    odd = odd_steps(trace)[2]
    assert odd is not None and odd.parts == (("CPU", 10.0),)


def test_the_table_of_steps_has_what_the_screen_draws() -> None:
    """A step chosen alone is compared with all others, too."""
    events: list[Event] = []
    for number, dur in enumerate((100, 100, 100, 150)):
        at = 1_000_000 * number
        events += [step(number, at, 900_000), op("aten::mm", at, 1_000), launch(at + 10, 100, number + 1)]
        events.append(kernel("gemm", at + 1_000, 1_000 * dur, correlation=number + 1))
    trace = make_trace(events)
    whole, alone = PANES["steps"].build(trace), PANES["steps"].build(trace, 3)
    assert whole["off_median"].cell(3) == alone["off_median"].cell(0) == "compute +50.0 µs"
    assert alone["to_median"].cell(0) == pytest.approx(1.05)


def test_the_parts_of_steps_are_means_over_the_devices_of_what_the_table_has_of_all() -> None:
    events: list[Event] = []
    for number in range(3):
        at = 1_000_000 * number
        events += [
            step(number, at, 900_000),
            launch(at + 10, 100, 2 * number + 1),
            launch(at + 20, 100, 2 * number + 2),
        ]
        for device in (0, 1):
            correlation, dur = 2 * number + 1 + device, 100_000 * (1 + device)
            lane = str(device), "stream 7"
            events.append(Event("gemm", at + 1_000, dur, Kind.KERNEL, lane, correlation=correlation))
    trace = make_trace(events)
    table, parts = PANES["steps"].build(trace), step_parts(trace)
    assert (2 * parts["idle"]).tolist() == pytest.approx([table["gpu_idle_us"].cell(row) for row in range(3)])
    assert np.sum(list(parts.values()), axis=0).tolist() == pytest.approx(
        [table["period_us"].cell(row) for row in range(3)]
    )
