"""The part of a side that stands for the others where single slices are shown beside each other."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.intervals import Int64


def representative(side: Side) -> int:
    """Of the parts that ran the kernels which most of them ran, the one whose GPU time is in the middle.

    Without GPU work the one of middle duration; -1 of a side without parts.
    """
    return side.trace.remember(("representative", side.scope), lambda: _find(side))


def _find(side: Side) -> int:
    rows, part = side.work()
    if len(side) == 0:
        return -1
    if len(rows) == 0:
        return _middle(np.arange(len(side)), side.end - side.start)
    slices = side.trace.slices
    order = np.lexsort((slices.name[rows], part))
    names, ends = slices.name[rows[order]], np.cumsum(np.bincount(part, minlength=len(side)))
    alike: dict[bytes, list[int]] = defaultdict(list)
    for number, (low, high) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        if high > low:
            alike[names[low:high].tobytes()].append(number)
    most = max(map(len, alike.values()))
    common = np.array(sorted(number for same in alike.values() if len(same) == most for number in same))
    time = np.bincount(part, slices.dur[rows], len(side)).astype(np.int64)
    return _middle(common, time[common])


def _middle(parts: Int64, values: Int64) -> int:
    """The part of the middle value; of two the lower."""
    return int(parts[np.argsort(values, kind="stable")[(len(parts) - 1) // 2]])
