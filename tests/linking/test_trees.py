"""Trees over some of the slices."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.build import Event, make_trace, op
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.linking import trees
from tracetui.linking.placement import kind_within, within
from tracetui.linking.steps import steps
from tracetui.linking.trees import count_inside, forest, nearest, subtree_sums
from tracetui.model.trace import Kind


def test_the_nearest_wanted_ancestor_may_be_far_up() -> None:
    parent = np.array([-1, 0, 1, 2, 3, -1])
    wanted = np.array([True, False, False, True, False, False])
    assert nearest(parent, wanted).tolist() == [-1, 0, 0, 0, 3, -1]


def test_sums_include_everything_below() -> None:
    parent = np.array([-1, 0, 1, 0, -1])
    assert [sums.tolist() for sums in subtree_sums(parent, np.array([1, 2, 4, 8, 16]))] == [[15, 6, 4, 8, 16]]
    assert [sums.tolist() for sums in subtree_sums(np.empty(0, np.int64), np.empty(0))] == [[]]


def test_a_lane_with_overlaps_is_nested_without_those_that_do_not_take_part() -> None:
    trace = make_trace(
        [
            op("outer", 0, 20_000),
            Event("async", 5_000, 50_000, Kind.ANNOTATION),
            op("inner", 10_000, 5_000),
        ]
    )
    assert forest(trace, trace.slices.of_kind(Kind.CPU_OP)).tolist() == [-1, 0]
    assert forest(trace, np.arange(3)).tolist() == [-1, -1, 1]


def test_inside_counts_starts_in_the_half_open_window_of_the_same_lane() -> None:
    trace = make_trace([op("a", 0, 10), op("x", 0, 1), op("x", 9, 1), op("x", 10, 1), op("x", 5, 1, lane=("1", "2"))])
    marked = np.flatnonzero(trace.slices.name == trace.names.find("x"))
    assert count_inside(trace, np.array([0]), marked).tolist() == [2]


def test_few_rows_have_the_parents_that_many_have(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    samples = [np.sort(np.random.default_rng(seed).choice(len(trace.slices), 300, replace=False)) for seed in range(5)]
    usual = [forest(trace, rows).tolist() for rows in samples]
    assert any(parent >= 0 for parents in usual for parent in parents)
    monkeypatch.setattr(trees, "FEW_SHARE", 1)
    assert [forest(trace, rows).tolist() for rows in samples] == usual


def test_slices_of_a_step_are_those_of_all_that_lie_in_it() -> None:
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    for number in steps(trace).number.tolist():
        for kind in (Kind.CPU_OP, Kind.ANNOTATION):
            rows = kind_within(trace, kind, number)
            assert len(rows) and rows.tolist() == within(trace, trace.slices.of_kind(kind), number).tolist()
