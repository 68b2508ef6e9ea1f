"""Numbers in sentences: one unit, digits that mean something, and nothing that reads as more than it is."""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.comparing.fairness import bares, in_brackets, joined, listed, time_sentence
from tracetui.comparing.noise import difference


def between(a: list[float], b: list[float]) -> str:
    """The sentence on two sets of times in µs."""
    return time_sentence("CPU time", difference(np.array(a, float), np.array(b, float)), "the steps")


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
        ([100.2], [100], "CPU time the same: 100 µs"),
        ([300], [200], "CPU time 300 → 200 µs: 1.50 times as fast (one step each, noise unknown, 5 % assumed)"),
        ([9_000, 9_001], [19_000, 19_001], "CPU time 9.00 → 19.0 ms: 2.11 times as much (noise <0.01 ms)"),
    ],
)
def test_a_time_is_told_in_one_unit_with_its_noise(a, b, sentence):
    assert between(a, b) == sentence


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
