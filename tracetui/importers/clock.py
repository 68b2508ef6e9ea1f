"""Chooses time 0 and puts impossible times right (R0.1, R1.5)."""

from __future__ import annotations

import numpy as np

from tracetui.importers.spans import SPAN_COLUMNS, Columns
from tracetui.model.trace import GPU_WORK, Kind, Quality

_ABSURD = 10
"""Work on a GPU that ends this many times later than nearly all other slices cannot be true."""
_DAY = 86_400 * 10**9
"""Any other slice must last longer than this: a frame around a whole program may outlast all that was recorded."""
_FAR_FROM_ZERO = 10**15
"""Half of all slices start later than this many ns: what starts at 0 was not recorded there."""


def settle_times(columns: Columns, moments: list[int], quality: Quality) -> tuple[int, tuple[int, int]]:
    """Give time 0 and the window of all work in ns from it; clip and drop what cannot be true.

    `moments` are the times of what is not a slice; they count when there is no slice.
    """
    _drop_unplaced(columns, quality)
    work = np.flatnonzero(columns["kind"] != Kind.BOOKKEEPING)
    start = columns["start"][work]
    if len(start) == 0:
        origin = min(moments, default=0)
        return origin, (0, max(moments, default=0) - origin)
    origin = int(start.min())
    end = start + columns["dur"][work] - origin
    place = int(len(end) * 0.999)
    absurd = end > _ABSURD * max(int(np.partition(end, place)[place]), 1)
    absurd &= np.isin(columns["kind"][work], GPU_WORK) | (columns["dur"][work] > _DAY)
    if absurd.any():
        quality.clipped += int(np.count_nonzero(absurd))
        limit = origin + int(end[~absurd].max())
        rows = work[absurd]
        columns["dur"][rows] = np.maximum(limit - columns["start"][rows], 0)
    return origin, (0, int(end[~absurd].max()))


def _drop_unplaced(columns: Columns, quality: Quality) -> None:
    """Drop slices at time 0 of a trace whose clock is far from it (kineto#109)."""
    start = columns["start"]
    unplaced = (start <= 0) & (columns["kind"] != Kind.BOOKKEEPING)
    if not unplaced.any() or np.median(start) < _FAR_FROM_ZERO:
        return
    quality.dropped += int(np.count_nonzero(unplaced))
    quality.notes.append("Slices at time 0 lie outside the recording and were left out.")
    for name in (*SPAN_COLUMNS, "kind"):
        columns[name] = columns[name][~unplaced]
