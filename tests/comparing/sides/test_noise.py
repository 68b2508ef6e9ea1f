"""Whether two sets of numbers differ: what may be claimed, and what must be found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tracetui.comparing.noise import (
    ASSUMED_NOISE,
    CHANGES,
    MAX_STEADY_SCATTER,
    MIN_QUARTILE_PARTS,
    MIN_TIME_CHANGE,
    Change,
    changes,
    difference,
    noises,
    spread,
)

TIMES = some.lists(some.integers(1, 10**9), min_size=1, max_size=12)
"""Times in ns."""
MIRRORED = {Change.LESS: Change.MORE, Change.MORE: Change.LESS}


def told(a: list[float], b: list[float], exact: bool = False):
    return difference(np.array(a, float), np.array(b, float), exact)


def slow_scatter(values: list[float], is_whole: bool = False) -> float:
    """By hand: the distance of the quartiles, each between two neighbours; of few, or of all, the whole range."""
    ranked = sorted(values)

    def quantile(share: float) -> float:
        place = share * (len(ranked) - 1)
        low = int(place)
        high = min(low + 1, len(ranked) - 1)
        return ranked[low] + (place - low) * (ranked[high] - ranked[low])

    if len(ranked) < 2:
        return float("nan")
    if is_whole:
        return ranked[-1] - ranked[0]
    return quantile(0.75) - quantile(0.25) if len(ranked) >= MIN_QUARTILE_PARTS else ranked[-1] - ranked[0]


def slow_change(a: float, b: float, noise: float, exact: bool) -> Change:
    """The table of words in docs/compare.md, one pair at a time."""
    if math.isnan(a) or math.isnan(b):
        return Change.UNKNOWN
    smaller = min(abs(a), abs(b))
    if math.isnan(noise):
        noise = 0 if exact else ASSUMED_NOISE * smaller
    least = 0 if exact else MIN_TIME_CHANGE * smaller
    if a == b or (abs(b - a) <= least and not noise > MAX_STEADY_SCATTER * smaller):
        return Change.SAME
    if abs(b - a) <= least or abs(b - a) <= noise:
        return Change.WITHIN_NOISE
    return Change.LESS if b < a else Change.MORE


NUMBERS = some.integers(0, 400) | some.integers(90, 110) | some.just(float("nan"))


@given(some.lists(some.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=30), some.booleans())
def test_the_rule_for_many_is_that_for_one(rows, exact):
    a, b, noise = np.array(rows, float).T
    told = [CHANGES[code] for code in changes(a, b, noise, exact).tolist()]
    assert told == [slow_change(x, y, scatter, exact) for x, y, scatter in rows]


@given(TIMES, TIMES)
def test_turned_round_it_says_the_opposite(a, b):
    there, back = told(a, b), told(b, a)
    assert back.change is MIRRORED.get(there.change, there.change)
    assert back.delta == -there.delta
    assert back.noise == pytest.approx(there.noise, nan_ok=True)


@given(TIMES, TIMES, some.sampled_from([2, 8, 1024]))
def test_in_another_unit_it_says_the_same(a, b, factor):
    assert told(a, b).change is told([factor * x for x in a], [factor * x for x in b]).change


@given(TIMES)
def test_of_the_same_numbers_no_difference_is_claimed(a):
    assert told(a, a).change in (Change.SAME, Change.WITHIN_NOISE)


@given(some.integers(1, 10**9), some.integers(1, 12), some.integers(1, 12))
def test_steady_numbers_that_are_equal_are_the_same(value, left, right):
    assert told([value] * left, [value] * right).change is Change.SAME


@given(TIMES, some.integers(1, 10**9))
def test_a_shift_beyond_the_scatter_is_found(a, more):
    scatter = ASSUMED_NOISE * a[0] if len(a) == 1 else slow_scatter(a)
    shift = scatter + MIN_TIME_CHANGE * np.median(a) + more
    assert told(a, [x + shift for x in a]).change is Change.MORE
    assert told([x + shift for x in a], a).change is Change.LESS


@given(TIMES, TIMES)
def test_nothing_is_claimed_within_the_scatter(a, b):
    found = told(a, b)
    known = [slow_scatter(each, len(a) == 1 or len(b) == 1) for each in (a, b) if len(each) > 1]
    assert found.noise == pytest.approx(max(known, default=float("nan")), nan_ok=True)
    if found.change in (Change.LESS, Change.MORE):
        assert abs(np.median(b) - np.median(a)) > max(known, default=0)


@given(TIMES, some.data(), some.booleans())
def test_one_of_the_parts_is_no_change_beside_all_of_them(a, data, exact):
    inner = data.draw(some.integers(min(a), max(a)))
    for there, back in ((a, [inner]), ([inner], a)):
        assert told(there, back, exact).change in (Change.SAME, Change.WITHIN_NOISE) or len(a) == 1
        assert told(there, back, exact).a.scatter == pytest.approx(slow_scatter(there, True), nan_ok=True)


@given(TIMES, some.integers(1, 10**9))
def test_one_part_far_beyond_all_others_is_a_change(a, more):
    reach = max(a) - min(a) if len(a) > 1 else ASSUMED_NOISE * a[0]
    assert told(a, [max(a) + reach + MIN_TIME_CHANGE * max(a) + more]).change is Change.MORE


def test_six_steps_beside_one_of_them():
    steps = [10.0, 11.0, 12.0, 13.0, 14.0, 30.0]
    assert told(steps, [30.0]).change is Change.WITHIN_NOISE
    assert (told(steps, [30.0]).noise, told(steps, steps).noise) == (20.0, 2.5)
    assert told(steps, [40.0]).change is Change.MORE
    assert told(steps, [20.0, 20.0]).change is Change.MORE
    assert told([*steps, float("nan")], [30.0, float("nan")]).noise == 20.0


def test_counts_differ_by_one():
    assert told([5, 5, 5], [4, 4, 4], exact=True).change is Change.LESS
    assert told([1000], [1001], exact=True).change is Change.MORE
    assert told([1000], [1001]).change is Change.SAME
    assert told([3, 5, 7], [4, 4, 4], exact=True).change is Change.WITHIN_NOISE


def test_what_one_side_does_not_hold_is_unknown():
    found = told([float("nan")] * 2, [1, 2])
    assert found.change is Change.UNKNOWN
    assert np.isnan(found.a.median)
    assert np.isnan(told([0, 0], [1, 1]).ratio)


ROWS = some.lists(some.lists(some.integers(0, 1000), min_size=5, max_size=5), min_size=1, max_size=8)


@given(ROWS, some.integers(1, 5), some.integers(1, 5), some.booleans())
def test_many_names_at_once_are_told_as_one_by_one(rows, left, right, exact):
    halves = []
    for parts, turned in ((left, 1), (right, -1)):
        cells = [(name, part, row[::turned][part]) for name, row in enumerate(rows) for part in range(parts)]
        key, part, value = np.array(cells, np.int64).T
        halves.append((spread(key, part, value, len(rows), parts), [row[::turned][:parts] for row in rows]))
    (a, of_a), (b, of_b) = halves
    codes, noise = changes(a.median, b.median, noises(a, b), exact), noises(a, b)
    for name in range(len(rows)):
        one = told(of_a[name], of_b[name], exact)
        assert CHANGES[codes[name]] is one.change
        assert (a.median[name], b.median[name]) == (one.a.median, one.b.median)
        assert noise[name] == pytest.approx(one.noise, nan_ok=True)


def test_a_part_without_the_name_counts_as_nothing(monkeypatch):
    # One row at a time, as with more names than memory has room for.
    monkeypatch.setattr("tracetui.comparing.noise._MAX_CELLS", 3)
    key, part = np.array([0, 2, 2, 0, 0]), np.array([0, 0, 1, 0, 2])
    found = spread(key, part, np.array([1, 10, 20, 2, 9]), 4, 3)
    assert found.median.tolist() == [3, 0, 10, 0]
    assert found.scatter.tolist() == [9, 0, 20, 0]
    assert spread(key, part, None, 4, 3).median.tolist() == [1, 0, 1, 0]
