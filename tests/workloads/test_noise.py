"""Noise and verdicts: nothing differs from itself, and what is twice as long does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracetui_workloads.verifying.noise import Samples, noise_of, ratio_of, refusal, verdict

BLOCKS = 41


def noisy(seed: int, spread: float, factor: float) -> tuple[Samples, list[float]]:
    """A function and itself, and another one that takes `factor` times as long; blocks share a drift and outliers."""
    source = random.Random(seed)
    rows: list[list[float]] = [[], [], []]
    for block in range(BLOCKS):
        drift = 1 + 0.3 * block / BLOCKS
        for row, scale in zip(rows, (1, 1, factor), strict=True):
            outlier = 5.0 if source.random() < 0.05 else 1.0
            row.append(100 * scale * drift * outlier * source.lognormvariate(0, spread))
    return Samples(rows[:2], 0.0, 0.0, ""), rows[2]


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.02, 0.1, 0.4])
def test_a_against_a_is_never_faster_or_slower(spread):
    for seed in range(200):
        samples, other = noisy(seed, spread, 1.0)
        for times in (samples.times[1], other):
            _, low, high = ratio_of(times, samples.times[0])
            assert verdict(low, high, noise_of(samples)) == "cannot tell", seed


@given(st.integers(), st.floats(0, 0.02), st.sampled_from([0.5, 2.0]))
def test_what_differs_by_more_than_the_noise_has_a_verdict(seed, spread, factor):
    samples, other = noisy(seed, spread, factor)
    _, low, high = ratio_of(other, samples.times[0])
    assert verdict(low, high, noise_of(samples)) == ("faster" if factor < 1 else "slower")


def test_a_small_difference_is_none_however_quiet_the_machine_is():
    samples, other = noisy(1, 0.0, 1.01)
    _, low, high = ratio_of([100.0] * BLOCKS, [100.5] * BLOCKS)
    assert verdict(low, high, noise_of(samples)) == "cannot tell" and len(other) == BLOCKS


def test_each_kind_of_noise_refuses_and_is_named():
    quiet = [[100.0] * BLOCKS] * 2
    assert refusal(Samples(quiet, 0.0, 0.0, ""), 0.05) == ""
    shaky = noisy(3, 0.5, 1.0)[0]
    assert "differs from itself" in refusal(shaky, 0.05) and refusal(shaky, 100.0) == ""
    assert "off its core for 30 %" in refusal(Samples(quiet, 0.3, 0.0, ""), 0.05)
    sentence = refusal(Samples(quiet, 0.0, 0.2, "Others are busy."), 0.05)
    assert "clock changed by 20 %" in sentence and sentence.endswith("Others are busy.")
