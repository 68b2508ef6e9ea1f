"""Every fact about the real traces that a plain one-dict-per-event script computed, against our analyses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.support.paths import SHARED
from tests.support.traces import given_traces, loaded
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.operators.views import INNER_VIEWS, idle_view_rows, view_rows
from tracetui.panes import PANES
from tracetui.tables.occupancy import queries

EXPECTED = SHARED / "expected.json"
LISTED_NAMES = 12
"""The script kept the most frequent view ops only."""

Facts = dict[str, Any]


@pytest.fixture(scope="module", params=given_traces("d*.json*", rest=pytest.mark.full))
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Trace, Facts]]:
    """A loaded trace and what must be true of it."""
    facts = json.loads(EXPECTED.read_text())[request.param]["facts"]
    yield loaded(SHARED / request.param), facts


def micros(trace: Trace, rows: Int64) -> float:
    return float(trace.slices.dur[rows].sum()) / 1000


def names(trace: Trace, rows: Int64) -> dict[str, int]:
    ids, counts = np.unique(trace.slices.name[rows], return_counts=True)
    return {trace.names[name]: count for name, count in zip(ids.tolist(), counts.tolist(), strict=True)}


def kernels_of(trace: Trace) -> Int64:
    return trace.slices.of_kind(Kind.KERNEL)


@pytest.mark.full
def test_events(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    assert trace.events == facts["n_events"]


def test_kernels(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    kernels = kernels_of(trace)
    assert len(kernels) == facts["kernels"]
    assert micros(trace, kernels) == pytest.approx(facts["kernel_time_us"], abs=0.01)
    assert len(trace.slices.of_kind(*GPU_WORK)) == facts["gpu_activities"]
    assert int((links(trace).launch[kernels] < 0).sum()) == facts["kernels_without_launch"]


def test_the_heaviest_kernels(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    table = PANES["kernels"].build(trace, by="name")
    rows = {row["name"]: row for row in table.rows()}
    for expected in facts["top3_kernels"]:
        row = next(row for name, row in rows.items() if str(name).startswith(expected["name"]))
        assert row["calls"] == expected["count"]
        assert row["total_us"] == pytest.approx(expected["us"], abs=0.01)


def test_occupancy_queries(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    assert names(trace, queries(trace)) == facts["occupancy_by_name"]
    assert len(PANES["occupancy"].build(trace)) == facts["occupancy_total"]


ITERATIONS = {"d09": 3, "d12": 10, "d16": 3, "d19": 5, "d22": 40, "d23": 3}
"""Iterations of the traces without ProfilerStep, by calls of an optimizer, a module, or the first operator."""


def test_steps(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    every = steps(trace)
    if every.is_guess:
        assert facts["steps"] == [] and len(every) == ITERATIONS[trace.label.split("_")[0]]
        return
    assert [trace.name_of(row) for row in every.row.tolist()] == [step["name"] for step in facts["steps"]]
    kernels = kernels_of(trace)
    by_launch = step_index(trace, kernels)
    by_own_start = every.of_moment(trace.slices.start[kernels])
    asked = step_index(trace, queries(trace))
    for index, expected in enumerate(facts["steps"]):
        mine = kernels[by_launch == index]
        assert (every.end - every.start)[index] / 1000 == pytest.approx(expected["dur_us"], abs=0.001)
        assert len(mine) == expected["kernels_by_launch"]
        assert micros(trace, mine) == pytest.approx(expected["kernel_us_by_launch"], abs=0.01)
        assert len(names(trace, mine)) == expected["distinct_kernel_names_by_launch"]
        assert int((by_own_start == index).sum()) == expected["kernels_by_gpu_start"]
        assert int((asked == index).sum()) == expected["occupancy_calls"]


@pytest.mark.full
def test_the_steps_pane(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    table = PANES["steps"].build(trace)
    if steps(trace).is_guess:
        return
    assert len(table) == len(facts["steps"])
    for row, expected in zip(table.rows(), facts["steps"], strict=True):
        assert row["kernels"] == expected["kernels_by_launch"]
        assert row["occupancy_queries"] == expected["occupancy_calls"]
        assert len(PANES["kernels"].build(trace, step=int(str(row["step"])))) == row["kernels"] + row["copies"]  # type: ignore[operator]


def test_view_ops(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    assert len(view_rows(trace)) == facts["view_ops"]
    assert len(idle_view_rows(trace)) == facts["view_ops_zero_gpu"]
    counts = names(trace, view_rows(trace))
    most = sorted(counts.values(), reverse=True)[:LISTED_NAMES]
    assert sorted(facts["view_ops_by_name"].values(), reverse=True) == most
    assert {name: counts.get(name) for name in facts["view_ops_by_name"]} == facts["view_ops_by_name"]


def test_the_views_pane(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    rows = [
        row for row in PANES["views"].build(trace).rows() if row["metadata_only"] and row["name"] not in INNER_VIEWS
    ]
    assert sum(int(str(row["calls"])) for row in rows) == facts["view_ops_zero_gpu"]


def test_aten_ops(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    counts = names(trace, np.arange(len(trace.slices)))
    assert sum(count for name, count in counts.items() if name.startswith("aten::")) == facts["aten_ops"]


def test_streams(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    used = [trace.lanes[lane] for lane in np.unique(trace.slices.lane[kernels_of(trace)])]
    assert sorted(f"{lane.pid}/{lane.tid}" for lane in used) == [
        text.replace("stream ", "") for text in facts["streams"]
    ]


def test_kernels_that_overlap_in_a_stream(case: tuple[Trace, Facts]) -> None:
    trace, facts = case
    kernels = kernels_of(trace)
    start, end, lane = (
        column[kernels].tolist() for column in (trace.slices.start, trace.slices.end, trace.slices.lane)
    )
    pairs = pairwise(range(len(kernels)))
    assert sum(lane[a] == lane[b] and start[b] < end[a] for a, b in pairs) == facts["kernel_overlaps_in_stream"]


@pytest.mark.full
def test_every_pane_has_rows_of_one_shape(case: tuple[Trace, Facts]) -> None:
    trace, _ = case
    for pane in PANES.values():
        for by in (None, *pane.groups):
            table = pane.build(trace, by=by)
            assert all(column.help for column in table.columns)
            assert table.slices is None or ((table.slices >= -1) & (table.slices < len(trace.slices))).all()
