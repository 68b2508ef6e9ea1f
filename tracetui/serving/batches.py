"""Steps of a server by the size of their batch: requests, of a prefill tokens (R3.86)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.step_kinds import StepKinds
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.model.trace import Float64

MAX_EXACT_SIZES = 20
"""Maximum different sizes of one kind that have a row each; more are put together by powers of two."""
_BY_TOKENS = ("prefill",)
"""Kinds whose time follows the tokens rather than the requests."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Steps of one kind and size."""

    kind: str
    label: str | None
    """`32`, or `17–32`; None where the size is not known."""
    unit: str | None
    """`requests` or `tokens`."""
    size: float
    """Median size, NaN where it is not known."""
    rows: Int64
    """Indices of the steps."""


def batches(kinds: StepKinds, kind: str, rows: Int64, kernels: Float64) -> list[Batch]:
    """The batches of some steps of one kind by size; behind them those of unknown size, by how many kernels they ran.

    `kernels` has one entry per step of the trace, NaN where no GPU was recorded.
    """
    unit, sizes = _sizes(kinds, kind, rows)
    known = sizes != NULL
    found = []
    bounds = _bounds(distinct(sizes[known]))
    for low, high in bounds:
        mine = rows[known & (sizes >= low) & (sizes <= high)]
        label = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        found.append(Batch(kind, label, unit, float(np.median(sizes[np.isin(rows, mine)])), mine))
    if not known.all():
        found += [Batch(kind, None, None, float("nan"), mine) for mine in _alike(rows[~known], kernels)]
    return found


def _alike(rows: Int64, kernels: Float64) -> list[Int64]:
    """Steps that ran as many kernels, the fewest first; all together where there are too many different numbers."""
    numbers = np.unique(kernels[rows])
    if np.isnan(numbers).any() or len(numbers) > MAX_EXACT_SIZES:
        return [rows]
    return [rows[kernels[rows] == number] for number in numbers.tolist()]


def _sizes(kinds: StepKinds, kind: str, rows: Int64) -> tuple[str, Int64]:
    """What counts as the size of a batch, and that of each step."""
    choices = [("tokens", kinds.tokens[rows]), ("requests", kinds.requests[rows])]
    if kind not in _BY_TOKENS:
        choices.reverse()
    return max(choices, key=lambda choice: int((choice[1] != NULL).sum()))


def _bounds(sizes: Int64) -> list[tuple[int, int]]:
    """Least and largest size of each row."""
    if len(sizes) <= MAX_EXACT_SIZES:
        return [(size, size) for size in sizes.tolist()]
    # 0 and 1 stand alone; then 2, 3 to 4, 5 to 8.
    powers = distinct(np.array([(size - 1).bit_length() if size else -1 for size in sizes.tolist()], np.int64)).tolist()
    return [(2 ** (power - 1) + 1, 2**power) if power > 0 else (power + 1, power + 1) for power in powers]
