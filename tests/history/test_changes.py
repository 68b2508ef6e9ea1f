"""Where a series changes: simulated runs with and without a change, and counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.histories import simulated
from tracetui.comparing.noise import Change
from tracetui.history.digest import Summed, beyond, level, levels, values_of

SERIES = 100
"""Simulated series of each kind."""


def changes(values):
    return [each.first for each in levels(values)[1:]]


@pytest.mark.parametrize(
    ("runs", "noise", "steps"),
    [
        (4, 0.02, 10),
        (6, 0.05, 3),
        *(pytest.param(*more, marks=pytest.mark.full) for more in ((12, 0.02, 10), (40, 0.1, 5))),
    ],
)
def test_noise_alone_is_no_change_in_95_of_100_series(runs, noise, steps):
    random = np.random.default_rng(runs)
    assert sum(bool(changes(simulated(random, runs, noise, steps=steps))) for _ in range(SERIES)) <= 5


@pytest.mark.parametrize(
    ("runs", "at"), [(20, 16), *(pytest.param(*more, marks=pytest.mark.full) for more in ((20, 10), (40, 5), (40, 38)))]
)
def test_ten_percent_more_at_two_percent_noise_are_found_at_their_run(runs, at):
    random = np.random.default_rng(runs + at)
    found = [changes(simulated(random, runs, 0.02, {at: 1.1})) for _ in range(SERIES)]
    assert sum(each == [at] for each in found) >= 85
    assert sum(any(abs(one - at) <= 1 for one in each) for each in found) >= 93


def test_a_single_last_run_is_found_where_it_is_far_out():
    random = np.random.default_rng(1)
    found = [changes(simulated(random, 12, 0.01, {11: 1.15})) for _ in range(SERIES)]
    assert sum(each == [11] for each in found) >= 95


def test_slow_runs_that_were_mended_have_a_beginning_and_an_end():
    random = np.random.default_rng(2)
    found = [changes(simulated(random, 40, 0.01, {18: 1.1, 25: 1.0})) for _ in range(20)]
    assert sum(each == [18, 25] for each in found) >= 18


def counts(*numbers):
    return values_of([Summed(float(number), 0.0, 0.0) for number in numbers], "")


@pytest.mark.parametrize(
    ("numbers", "at"),
    [
        ([100] * 9, []),
        ([100, 104], [1]),
        ([100, 100, 100, 104], [3]),
        ([100] * 5 + [104] * 5, [5]),
        ([100, 100, 101, 100, 101, 100, 101, 101], []),
        ([0] * 6, []),
        ([7], []),
        ([], []),
    ],
)
def test_of_counts_every_difference_matters(numbers, at):
    assert changes(counts(*numbers)) == at


def test_one_odd_run_between_others_is_no_change():
    times = [100.0, 101, 99, 100, 180, 101, 100, 99, 100, 101, 99.5, 100]
    assert changes(values_of([Summed(each, 1.0, 1.0) for each in times], "us")) == []


@given(st.lists(st.floats(0, 1e12), max_size=30), st.sampled_from(["", "us", "%"]))
def test_levels_hold_every_run_once_and_are_the_same_each_time(medians, unit):
    values = values_of([Summed(each, 0.0, 0.0) for each in medians], unit)
    found = levels(values)
    assert [row for each in found for row in range(each.first, each.end)] == list(range(len(medians)))
    assert repr(levels(values)) == repr(found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=20), st.sampled_from([2.0**-8, 2.0**7]))
def test_the_unit_of_a_time_decides_nothing(medians, factor):
    one, other = (levels(values_of([Summed(each * by, 0, 0) for each in medians], "us")) for by in (1.0, factor))
    assert [each.first for each in one] == [each.first for each in other]


def test_a_new_run_is_told_or_not():
    runs = values_of([Summed(each, 1.0, 1.0) for each in (100.0, 101, 99, 100, 101.5, 98.5, 100, 101)], "us")
    before = level(runs, 0, 8)
    known = {value: beyond(before, value, 1.0, 1.0) for value in (90.0, 100.5, 103, 120, float("nan"))}
    assert list(known.values()) == [Change.LESS, Change.SAME, Change.WITHIN_NOISE, Change.MORE, Change.UNKNOWN]
    # Its own steps scatter more than those of the others.
    assert beyond(before, 120.0, 30.0, 1.0) is Change.WITHIN_NOISE
    assert beyond(level(runs, 0, 2), 500.0, 1.0) is Change.WITHIN_NOISE
