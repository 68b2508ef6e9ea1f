"""Two ranks' collectives of one group laid beside each other where order is all that is recorded (R5.3).

One may have begun to record later, or have lost some. Collectives end on all ranks at nearly one time, so the right
shift is the one at which names agree and the ends keep their distance, whatever the clocks say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.model.intervals import Int64

MIN_AGREEMENT = 0.9
"""Minimum share of names that agree at a shift."""
MAX_EXTRA_SHIFT = 64
"""Shifts tried beyond the difference of the two lengths."""
MAX_BAD_SHARE = 0.02
"""Share of pairs that may disagree before a hole is looked for."""
STEADY = 0.05
"""Share of the usual distance between two ends by which ends may vary where no other shift is tried."""


@dataclass(frozen=True, eq=False)
class Track:
    """The collectives of a rank in a group, in order: parallel arrays."""

    token: Int64
    """Number of what it is; equal on all ranks."""
    end: Int64
    """In ns on the rank's own clock."""

    def __len__(self) -> int:
        return len(self.token)


def aligned(first: Track, other: Track, same_clock: bool = False) -> Int64:
    """The index in `first` of each collective of `other`, -1 for none."""
    shift = _best_shift(first, other, same_clock)
    if shift is None:
        return np.full(len(other), -1, np.int64)
    index = np.arange(len(other)) + shift
    index[(index < 0) | (index >= len(first))] = -1
    return _around_holes(first, other, index)


def _best_shift(first: Track, other: Track, same_clock: bool) -> int | None:
    """The number to add to an index of `other`; None where no shift makes the names agree."""
    if len(other) == 0:
        return None
    gap = _usual_gap(first)
    agreement, spread = _compared(first, other, 0, same_clock)
    if len(first) == len(other) and agreement == 1 and spread <= STEADY * gap:
        return 0
    reach = len(first) - len(other)
    low, high = -min(MAX_EXTRA_SHIFT, len(other) - 1), min(reach + MAX_EXTRA_SHIFT, len(first) - 1)
    best: tuple[float, int, int] | None = None
    for shift in range(low, high + 1):
        agreement, spread = _compared(first, other, shift, same_clock)
        if agreement < MIN_AGREEMENT:
            continue
        # What is spread no wider than the clock's resolution is equally good; then the longer overlap counts.
        rank = (round(spread / max(STEADY * gap, 1.0)), abs(shift - (reach if shift > reach else min(shift, 0))), shift)
        if best is None or rank < best:
            best = rank
    if best is not None:
        return best[2]
    return 0 if len(first) == len(other) == 1 and first.token[0] == other.token[0] else None


def _compared(first: Track, other: Track, shift: int, same_clock: bool) -> tuple[float, float]:
    """Share of names that agree at a shift, and how far the ends are from keeping their distance, in ns."""
    low, high = max(0, -shift), min(len(other), len(first) - shift)
    # A few pairs at the ends agree by chance.
    if high - low < max(1, min(len(first), len(other)) // 2):
        return 0.0, np.inf
    mine = slice(low + shift, high + shift)
    agreement = float(np.mean(first.token[mine] == other.token[low:high]))
    apart = other.end[low:high] - first.end[mine]
    middle = 0 if same_clock else int(np.median(apart - apart[0])) + int(apart[0])
    return agreement, float(np.median(np.abs(apart - middle)))


def _usual_gap(track: Track) -> float:
    return float(np.median(np.diff(track.end))) if len(track) > 1 else 0.0


def _around_holes(first: Track, other: Track, index: Int64) -> Int64:
    """The same where one of the two has a hole: behind it the pairs are those that end together."""
    held = np.flatnonzero(index >= 0)
    apart = other.end[held] - first.end[index[held]]
    middle = int(np.median(apart - apart[0])) + int(apart[0])
    reach = _usual_gap(first) / 2
    good = (np.abs(apart - middle) <= reach) & (first.token[index[held]] == other.token[held])
    if np.count_nonzero(~good) <= MAX_BAD_SHARE * len(held):
        return index
    nearest = _nearest(first.end, other.end - middle)
    distance = np.abs(other.end - middle - first.end[nearest])
    close = np.flatnonzero((distance <= reach) & (first.token[nearest] == other.token))
    # Of several that are nearest to one the closest is its partner.
    order = close[np.lexsort((distance[close], nearest[close]))]
    order = order[np.diff(nearest[order], prepend=-1) != 0]
    if len(order) <= np.count_nonzero(good):
        return index
    found = np.full(len(other), -1, np.int64)
    found[order] = nearest[order]
    return found


def _nearest(ends: Int64, moments: Int64) -> Int64:
    """The index of the end nearest to each moment; `ends` need not ascend."""
    order = np.argsort(ends, kind="stable")
    ranked = ends[order]
    above = np.clip(np.searchsorted(ranked, moments), 1, max(len(ranked) - 1, 1))
    above = np.minimum(above, len(ranked) - 1)
    below = np.maximum(above - 1, 0)
    nearer = np.where(np.abs(ranked[below] - moments) <= np.abs(ranked[above] - moments), below, above)
    return order[nearer]
