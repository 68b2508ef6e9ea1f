"""Chooses time 0 and puts impossible times right (R0.1, R1.5)."""

from __future__ import annotations

import numpy as np

from tracetui.model.intervals import Bool, Int64, count_passed
from tracetui.model.trace import GPU_WORK, NO_ID, Kind, Quality
from tracetui.reading.spans import SPAN_COLUMNS, Columns

_ABSURD = 10
"""GPU activity that ends this many times later than nearly all other slices cannot be true."""
_NEARLY_ALL = 0.999
"""Share of all slices that is nearly all of them."""
_DAY = 86_400 * 10**9
"""Any other slice must last longer than this: a frame around a whole program may outlast all that was recorded."""
_FAR_FROM_ZERO = 10**15
"""Half of all slices start later than this many ns: what starts at 0 was not recorded there."""
_FAR_APART = 10
"""What lies this many times farther away than nearly all other slices reach, and a day, was not recorded there."""
MAX_ASTRAY = 100
"""Slices that may stand together far from all others and be taken for errors; more are a recording of their own."""


FEW_ASTRAY = 3
"""Slices that may be errors also where they are more than a tenth of all."""
_FEW_OVERLONG = 100
"""Of so many GPU activities one may run past others by an error."""


def settle_times(columns: Columns, moments: list[int], quality: Quality) -> tuple[int, tuple[int, int]]:
    """Give time 0 and the window of all work in ns from it; clip and drop what cannot be true.

    `moments` are the times of what is not a slice; they count when there is no slice.
    """
    _drop_unplaced(columns, quality)
    _cut_overlong(columns, quality)
    origin, last = _first_and_last(columns)
    if origin is None:
        origin = min(moments, default=0)
        return origin, (0, max(moments, default=0) - origin)
    if last is None:
        last = _clip_absurd(columns, origin, quality)
    return origin, (0, last)


def _first_and_last(columns: Columns) -> tuple[int | None, int | None]:
    """The first start of all work, None where there is none, and the last end from there.

    The end is None where it has to be asked whether it can be true: fewer than a thousandth of all end that late.
    """
    aside = np.flatnonzero(columns["kind"] == Kind.BOOKKEEPING)
    work = len(columns["kind"]) - len(aside)
    if work == 0:
        return None, None
    start = columns["start"]
    if len(aside):
        # Without a copy of all columns: the few rows that do not count stand where they change nothing.
        start = start.copy()
        start[aside] = start[int(np.argmax(columns["kind"] != Kind.BOOKKEEPING))]
    origin = int(start.min())
    end = start + columns["dur"]
    end -= origin
    end[aside] = 0
    last = int(end.max())
    # Then the end behind which a thousandth of all lie is late enough for the last one.
    late = int(np.count_nonzero(end >= -(-last // _ABSURD))) - (len(aside) if last <= 0 else 0)
    return origin, last if late >= work - int(work * _NEARLY_ALL) else None


def _clip_absurd(columns: Columns, origin: int, quality: Quality) -> int:
    """Cut what ends so late that it cannot be true; the last end of what is left, in ns from the origin."""
    work = np.flatnonzero(columns["kind"] != Kind.BOOKKEEPING)
    end = columns["start"][work] + columns["dur"][work] - origin
    nearly_all = int(len(end) * _NEARLY_ALL)
    absurd = end > _ABSURD * max(int(np.partition(end, nearly_all)[nearly_all]), 1)
    absurd &= np.isin(columns["kind"][work], GPU_WORK) | (columns["dur"][work] > _DAY)
    if absurd.any():
        quality.clipped += int(np.count_nonzero(absurd))
        limit = origin + int(end[~absurd].max())
        rows = work[absurd]
        columns["dur"][rows] = np.maximum(limit - columns["start"][rows], 0)
    return int(end[~absurd].max())


def _cut_overlong(columns: Columns, quality: Quality) -> None:
    """Cut the few GPU activities that run past later ones of their stream where the next one starts (R1.5).

    What shares a correlation is of a graph, whose branches may do that; where many do, several programs share the lane.
    """
    rows = np.flatnonzero(np.isin(columns["kind"], GPU_WORK))
    rows = rows[np.lexsort((columns["start"][rows], columns["lane"][rows]))]
    lane, start, dur = (columns[name][rows] for name in ("lane", "start", "dur"))
    inside = count_passed(lane, start, start + dur)
    bad = np.flatnonzero(inside)
    if len(bad) == 0 or len(bad) > max(FEW_ASTRAY, len(rows) // _FEW_OVERLONG):
        return
    correlation = columns["correlation"][rows]
    ids, counts = np.unique(correlation[correlation != NO_ID], return_counts=True)
    bad = bad[~np.isin(correlation[bad], ids[counts > 1])]
    if len(bad) == 0:
        return
    bad = bad[np.argsort(-dur[bad], kind="stable")]
    quality.overlong = tuple(columns["event"][rows[bad]].tolist())
    quality.longest_overlong = int(dur[bad[0]]), int(inside[bad[0]])
    columns["dur"][rows[bad]] = start[bad + 1] - start[bad]


def _drop_unplaced(columns: Columns, quality: Quality) -> None:
    """Drop slices whose time cannot be true: at 0 of a clock far from it (kineto#109), or far from all others."""
    everything = columns["start"]
    if len(everything) == 0 or int(everything.max()) - int(everything.min()) < _DAY:
        return
    own = np.flatnonzero(columns["kind"] != Kind.BOOKKEEPING)
    start = columns["start"][own]
    if len(start) == 0 or int(start.max()) - int(start.min()) < _DAY:
        return
    astray = _astray(start)
    if np.median(start) >= _FAR_FROM_ZERO:
        astray |= start <= 0
    if not astray.any():
        return
    count = int(np.count_nonzero(astray))
    quality.dropped += count
    slices, lie, were = ("slice", "lies", "was") if count == 1 else ("slices", "lie", "were")
    quality.notes.append(f"{count:,} {slices} {lie} days away from all the others and {were} left out.")
    kept = np.ones(len(columns["kind"]), bool)
    kept[own[astray]] = False
    for name in (*SPAN_COLUMNS, "kind"):
        columns[name] = columns[name][kept]


def _astray(start: Int64) -> Bool:
    """Mask of the few moments that lie far away from all the others.

    Moments stand in groups between which nothing happens for days. The largest group is the recording; the others
    are astray if they are small, and few altogether: a timeline of weeks has groups as well.
    """
    order = np.argsort(start, kind="stable")
    ascending = start[order]
    low, high = ascending[len(start) // 100], ascending[-1 - len(start) // 100]
    away = max(_DAY, _FAR_APART * min(int(high) - int(low), _DAY))
    first = np.flatnonzero(np.diff(ascending, prepend=ascending[0] - away - 1) > away)
    size = np.diff(np.append(first, len(start)))
    small = (size <= MAX_ASTRAY) & (2 * size < size.max())
    if int(size[small].sum()) > max(len(start) // 10, FEW_ASTRAY):
        small[:] = False
    astray = np.empty(len(start), bool)
    astray[order] = np.repeat(small, size)
    return astray
