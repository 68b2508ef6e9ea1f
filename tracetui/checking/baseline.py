"""Whether a number is above that of a baseline by more than noise.

One number on each side says nothing about noise. Where both sides are single steps, the other complete steps of their
files give it: the range from the smallest to the largest, since single steps differ more than medians do, and two of
them easily differ by the distance between the quartiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.checking.units import factor
from tracetui.checking.values import NO, UNKNOWN, YES, Amount, Number, Piece, Truth, truth
from tracetui.comparing.noise import MAX_STEADY_SCATTER, Change, Difference, difference
from tracetui.comparing.side import STEP, Side
from tracetui.comparing.side import side as side_of
from tracetui.model.quantities import percent
from tracetui.model.trace import Float64

MIN_OTHER_STEPS = 3
"""Minimum other steps from which noise is taken."""
_SCOPE = "\0steps without "
"""Start of a scope that no user can write, so that what is kept of these steps has a key of its own."""


def other_steps(of: Side, beside: Side) -> Side | None:
    """The complete steps of the file of one step, without this step and the step it is compared with.

    None where they are too few, and where either side is anything but one step.
    """
    if not (_is_one_step(of) and _is_one_step(beside)):
        return None
    left_out = sorted({int(each.row[0]) for each in (of, beside) if each.trace is of.trace})
    every = side_of(of.trace)
    kept = ~np.isin(every.row, left_out)
    if kept.sum() < MIN_OTHER_STEPS:
        return None
    row, start, end, number = (array[kept] for array in (every.row, every.start, every.end, every.number))
    return Side(of.trace, f"{_SCOPE}{left_out}", STEP, row, start, end, number)


def _is_one_step(of: Side) -> bool:
    """Whether a side is a single step."""
    return of.part_kind == STEP and len(of) == 1


def reach(sample: Float64 | None) -> float:
    """Range of the values of other steps; NaN where too few of them have a value."""
    return float(np.ptp(sample)) if sample is not None and len(sample) >= MIN_OTHER_STEPS else float("nan")


ONE_EACH = (
    "With one part on each side the noise is unknown, and {share} % is assumed. "
    "Record several steps, or set the allowed difference with --tolerance."
)
SCATTERS = (
    "The difference of {amount} is within the noise of {noise}: record more steps, or allow more with --tolerance."
)


@dataclass(frozen=True)
class _Borrowed(Difference):
    """The difference of two single steps, with noise from the other steps of their files."""

    reach: float = 0.0

    @property
    def noise(self) -> float:
        """Range of the other steps."""
        return self.reach


def not_slower(new: Number, old: Number, tolerance: Number | None, reach: float = float("nan")) -> Truth:
    """Whether the median of a sample is not above that of the baseline; unknown where the difference is within noise.

    A difference no larger than the tolerance (in the unit of the numbers, or as a percentage of the baseline) is
    accepted. `reach` is the range of other steps where both sides are single steps; NaN where it is unknown. Raises:
    Misfit for a tolerance of another unit.
    """
    if new.sample is None or old.sample is None or not (len(new.sample) and len(old.sample)):
        return truth(UNKNOWN, old.why or new.why)
    counts = new.unit.kind == "count"
    seen = difference(old.sample, new.sample, exact=counts)
    borrowed = bool(np.isnan(seen.noise)) and not counts and reach == reach
    if borrowed:
        seen = _Borrowed(seen.a, seen.b, counts, reach)
    alone = bool(np.isnan(seen.noise)) and not counts
    allowed = None if tolerance is None else _allowed(seen, new, tolerance)
    guess = MAX_STEADY_SCATTER * abs(seen.a.median) if alone and allowed is None else 0.0
    noise = guess if alone else float(np.nan_to_num(seen.noise))
    answer = _answer(seen, noise, allowed)
    found = (Amount(seen.b.median, new.unit), *_change(seen))
    wanted: tuple[Piece, ...] = ("<=", Amount(seen.a.median, new.unit))
    wanted += ("+", tolerance.amount) if tolerance else ()
    origin = "of other steps )" if borrowed else f", assumed {100 * MAX_STEADY_SCATTER:g} % )" if alone else ")"
    wanted += ("(noise", Amount(noise, new.unit), origin) if noise else ()
    why = ""
    if answer == UNKNOWN:
        amount, scatter = _share(abs(seen.amount), seen), _share(noise, seen)
        why = (
            ONE_EACH.format(share=f"{100 * MAX_STEADY_SCATTER:g}")
            if alone
            else SCATTERS.format(amount=amount, noise=scatter)
        )
    return Truth(np.array(answer, np.int8), None, why, found, wanted, undecided=answer == UNKNOWN)


def _answer(seen: Difference, noise: float, allowed: float | None) -> int:
    if seen.change in (Change.SAME, Change.LESS):
        return YES
    if allowed is not None and seen.amount <= allowed and (noise <= allowed or seen.amount > noise):
        return YES
    return NO if seen.amount > noise else UNKNOWN


def _allowed(seen: Difference, of: Number, tolerance: Number) -> float:
    """The tolerance in the unit of the numbers."""
    if tolerance.unit.kind == "share" and of.unit.kind != "share":
        return abs(seen.a.median) * tolerance.one * tolerance.unit.scale
    return tolerance.one * factor(tolerance.unit, of.unit)


def _change(seen: Difference) -> tuple[Piece, ...]:
    return (f"({100 * (seen.ratio - 1):+.1f} %)",) if np.isfinite(seen.ratio) else ()


def _share(amount: float, seen: Difference) -> str:
    base = abs(seen.a.median)
    return percent(100 * amount / base) if base else f"{amount:g}"
