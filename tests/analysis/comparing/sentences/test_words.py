"""Numbers in sentences: one unit, digits that mean something, and nothing that reads as more than it is."""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.analysis.comparing.sentences.words import (
    bares,
    digits,
    how_fast,
    how_much,
    in_brackets,
    joined,
    listed,
    percent,
    roughly,
    sizes,
    told,
    unit,
)
from tracetui.analysis.comparing.sides.noise import difference


def between(a: list[float], b: list[float]) -> str:
    """The sentence on two sets of times in µs."""
    return told("CPU time", difference(np.array(a, float), np.array(b, float)), "the steps", "one step each")


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        # 13 times as much noise as A is long is no share of A.
        ([31, 32, 30], [600, 662, 690], "CPU time 31.0 → 662 µs: 21 times as much (noise 90 µs)"),
        (
            [39_300] * 4,
            [37_000, 39_000, 41_000],
            "CPU time 39.3 → 39.0 ms: cannot tell, the steps of one side differ by 4.0 ms",
        ),
        ([100, 100], [100, 100], "CPU time the same: 100 µs"),
        ([100.2], [100], "CPU time the same: 100 µs (one step each)"),
        ([300], [200], "CPU time 300 → 200 µs: 1.50 times as fast (one step each)"),
        ([9_000, 9_001], [19_000, 19_001], "CPU time 9.00 → 19.0 ms: 2.11 times as much (noise <0.01 ms)"),
    ],
)
def test_a_time_is_told_in_one_unit_with_its_noise(a, b, sentence):
    assert between(a, b) == sentence


@pytest.mark.parametrize(
    ("us", "before", "after", "words"),
    [
        ((9_740, 11_300), 9_740, 11_300, "9.74 → 11.3 ms"),
        ((9_740, 8_360), 9_740, 8_360, "9,740 → 8,360 µs"),
        ((20e6, 3), 20e6, 3, "20.0 → <0.01 s"),
        ((0, 0), 0, 0, "0 µs"),
    ],
)
def test_all_times_of_a_sentence_have_the_unit_of_the_longest(us, before, after, words):
    assert unit(us).change(before, after) == words


def test_sizes_have_one_unit_too():
    assert sizes(2.42e9, 67.1e6) == "2.42 → 0.07 GB"
    assert sizes(512, 128) == "512 → 128 bytes"
    assert sizes(0, 0) == "0 bytes"


@pytest.mark.parametrize(
    ("before", "after", "much", "fast"),
    [
        (100, 92, "8 % less", "8 % less"),
        (300, 100, "67 % less", "3.00 times as fast"),
        (1e6, 1, "99.9 % less", "1,000,000 times as fast"),
        (100, 140, "40 % more", "40 % more"),
        (100, 300, "3.00 times as much", "3.00 times as much"),
        (0, 5, "none before", "none before"),
        (5, 0, "none left", "none left"),
    ],
)
def test_how_two_amounts_differ(before, after, much, fast):
    assert how_much(before, after) == much
    assert how_fast(before, after) == fast


def test_small_numbers_do_not_read_as_nothing():
    assert [digits(value) for value in (0, 0.001, 0.2, 12.34, 1234.5)] == ["0", "<0.01", "0.20", "12.3", "1,234"]
    assert [percent(value) for value in (0, 0.01, 0.4, 8.2, 99.6, 100)] == [
        "0 %",
        "under 0.1 %",
        "0.4 %",
        "8 %",
        "99.6 %",
        "100 %",
    ]
    assert [roughly(value, unit((5,))) for value in (0, 0.001, 0.2, 2.12, 61.8)] == [
        "0 µs",
        "<0.01 µs",
        "0.20 µs",
        "2.1 µs",
        "62 µs",
    ]


def test_lists():
    assert listed(["a", "b", "c", "d", "e", "f"]) == "a, b, c, d and 2 more"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c, d, e"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined(["a"]) == "a"
    assert in_brackets("", "a", "b") == " (a, b)"
    assert in_brackets("") == ""
    node = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert bares([node, "torch::autograd::AccumulateGrad", "aten::mm", "mine::op"]) == [
        "AccumulateGrad",
        "mm",
        "mine::op",
    ]
