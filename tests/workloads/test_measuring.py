"""Noise and verdicts: nothing differs from itself, and what is twice as long does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracetui_workloads.recording.devices import choose
from tracetui_workloads.verifying.verifier import (
    FEWEST_BLOCKS,
    MAX_BLOCKS,
    Contender,
    interval,
    measure,
    noise_of,
    ratio,
    refusal,
    verdict,
)

BLOCKS = 41


def noisy(seed: int, spread: float, factor: float) -> list[list[float]]:
    """A function and itself, and another one that takes `factor` times as long; blocks share a drift and outliers."""
    source = random.Random(seed)
    rows: list[list[float]] = [[], [], []]
    for block in range(BLOCKS):
        drift = 1 + 0.3 * block / BLOCKS
        for row, scale in zip(rows, (1, 1, factor), strict=True):
            outlier = 5.0 if source.random() < 0.05 else 1.0
            row.append(100 * scale * drift * outlier * source.lognormvariate(0, spread))
    return rows


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.02, 0.1, 0.4])
def test_a_against_a_is_never_faster_or_slower(spread):
    for seed in range(100):
        first, again, other = noisy(seed, spread, 1.0)
        for times in (again, other):
            assert verdict(times, first, noise_of(first, again)) == "cannot tell", seed


@given(st.integers(), st.floats(0, 0.02), st.sampled_from([0.5, 2.0]))
def test_what_differs_by_more_than_the_noise_has_a_verdict(seed, spread, factor):
    first, again, other = noisy(seed, spread, factor)
    assert verdict(other, first, noise_of(first, again)) == ("faster" if factor < 1 else "slower")


@given(st.integers(), st.floats(0, 0.3), st.floats(0.3, 3))
def test_a_verdict_is_given_only_where_the_intervals_are_apart(seed, spread, factor):
    first, again, other = noisy(seed, spread, factor)
    (_, low, high), (_, base_low, base_high) = interval(other), interval(first)
    word = verdict(other, first, noise_of(first, again))
    assert word == "cannot tell" or (high < base_low if word == "faster" else low > base_high)


def test_intervals_that_overlap_are_no_verdict_though_the_ratios_of_all_blocks_agree():
    first = [100.0 + block for block in range(BLOCKS)]
    other = [0.9 * time for time in first]
    assert ratio(other, first)[2] < 0.98 and verdict(other, first, 0.02) == "cannot tell"


def test_a_small_difference_is_none_however_quiet_the_machine_is():
    assert noise_of([100.0] * BLOCKS, [100.0] * BLOCKS) == 0.02
    assert verdict([100.0] * BLOCKS, [100.5] * BLOCKS, 0.02) == "cannot tell"


def test_each_kind_of_noise_refuses_and_is_named():
    steady, shaky = [100.0] * BLOCKS, [100.0, 120.0, 150.0] * 10
    assert refusal(0.02, steady, 0.05) == ""
    assert "differs from itself by 8 %" in refusal(0.08, steady, 0.05)
    assert "the clock changed by 42 %" in refusal(0.02, shaky, 0.05) and refusal(0.02, shaky, 0.3) == ""


def test_after_the_longest_time_only_the_fewest_rounds_are_made():
    done = []
    contenders = [Contender(name, lambda: lambda: None) for name in ("here", "here again")]
    times, watched = measure(contenders, choose("cpu"), lambda *each: done.append(each), 0.0)
    assert len(watched) == FEWEST_BLOCKS and [len(each) for each in times] == [FEWEST_BLOCKS] * 2
    assert done == [(block, MAX_BLOCKS) for block in range(FEWEST_BLOCKS) for _ in contenders]
    assert refusal(0.02, watched, 1e6) == ""
