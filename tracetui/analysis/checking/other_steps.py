"""How much the other steps of a file scatter, for one step that is compared with one step.

One number on each side says nothing about noise. Where the files hold more complete steps, which did the same work,
these do, from the least to the largest: single steps lie further apart than medians, and a difference as large as
the distance between the quartiles is ordinary between two of them.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.comparing.sides.side import STEP, Side
from tracetui.analysis.comparing.sides.side import side as side_of
from tracetui.model.trace import Float64

LEAST = 3
"""Fewer other steps say too little."""
_SCOPE = "\0steps without "
"""Begins a scope that no user can write: what is remembered of these steps has a place of its own."""


def other_steps(of: Side, beside: Side) -> Side | None:
    """The complete steps of the file of one step, without it and without the step beside it.

    None where they are too few, and where either side is anything but one step.
    """
    if not (_is_one_step(of) and _is_one_step(beside)):
        return None
    left_out = sorted({int(each.row[0]) for each in (of, beside) if each.trace is of.trace})
    every = side_of(of.trace)
    kept = ~np.isin(every.row, left_out)
    if kept.sum() < LEAST:
        return None
    row, start, end, number = (array[kept] for array in (every.row, every.start, every.end, every.number))
    return Side(of.trace, f"{_SCOPE}{left_out}", STEP, row, start, end, number)


def _is_one_step(of: Side) -> bool:
    """Whether a side is a single step."""
    return of.sort == STEP and len(of) == 1


def reach(sample: Float64 | None) -> float:
    """How far other steps lie apart; NaN where too few have a number."""
    return float(np.ptp(sample)) if sample is not None and len(sample) >= LEAST else float("nan")
