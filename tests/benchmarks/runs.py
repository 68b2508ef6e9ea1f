"""Arithmetic over repeated measurements: the best of several, percentiles, how far values lie apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Runs = Mapping[str, Any]
"""What was measured of one side: a list with a value per round, under `cpu`, `wall` (seconds) and `peak` (bytes)."""


def best(runs: Runs, key: str) -> float:
    """The least of all rounds: other programs on the machine only ever add to a time."""
    return float(min(runs[key]))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that a share of all values do not exceed (nearest rank).

    Raises: ValueError without a value.
    """
    if not values:
        raise ValueError("a percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Sequence[float]) -> float:
    """How far the largest of some positive values exceeds the least, as a share of that."""
    return max(values) / min(values) - 1


def collected(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rounds as `Runs`: a list per key that differs from round to round, and one value of what a trace holds."""
    lists = {key: [figures[key] for figures in rounds] for key in rounds[0]}
    return {
        key: values if isinstance(values[0], float) or key == "peak" else values[0] for key, values in lists.items()
    }
