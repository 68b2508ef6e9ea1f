"""The time of each table row in every part of a side, from which its median and noise follow.

A row holds activities of the representative part. Each of them is paired with one of every other part: by class where
both parts have equally many, else by name and operator, else by name, always in order of launch. A copy whose size
changes from step to step is paired by its position. So the rows of a part with equally many activities of each name add
up to its total.

Where a part has another number of them, the mean time of a call of the class counts; for a class that it lacks, that of
the sizes that only it has. Otherwise the row's time in that part is unknown.
"""

from __future__ import annotations

import numpy as np

from tracetui.comparing.classes import ActivityClass, classes
from tracetui.comparing.pairing import even_pairs, in_launch_order
from tracetui.comparing.side import Side
from tracetui.linking.groups import combinations
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64


def part_times(side: Side, rows: Int64, row: Int64, count: int) -> Float64:
    """Times in ns by part and table row, of the slices `rows`, in order of launch, in the table rows `row`.

    NaN is unknown. A table row without activities takes 0.
    """
    trace, work_classes = side.trace, classes(side.trace)
    work = in_launch_order(trace, side.activities()[0])
    part = side.part_of(work)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(len(side) + 1))
    own = _Own(work_classes.of(rows), row, work_classes.known)
    times = np.zeros((len(side), count))
    for index in range(len(side)):
        mine = work[order[bounds[index] : bounds[index + 1]]]
        times[index] = np.bincount(row, own.beside(work_classes.of(mine), side.times(mine)), count)
    return times


class _Own:
    """The activities of the representative part, in order of launch."""

    def __init__(self, number: Int64, row: Int64, known: list[ActivityClass]) -> None:
        self._number, self._row = number, row
        self._coarse = _ids([(work.plain, work.op) for work in known])
        names = _ids([(work.plain,) for work in known])
        self._levels = np.arange(len(known)), self._coarse, names

    def beside(self, number: Int64, dur: Int64) -> Float64:
        """Times in another part of the activities of the representative, given that part's classes and durations in
        order of launch.
        """
        if np.array_equal(number, self._number):
            return dur.astype(np.float64)
        times = np.full(len(self._number), np.nan)
        mine, theirs = np.arange(len(times)), np.arange(len(number))
        for keys in self._levels:
            pairs = even_pairs(keys[self._number[mine]], keys[number[theirs]])
            times[mine[pairs[0]]] = dur[theirs[pairs[1]]]
            mine, theirs = np.delete(mine, pairs[0]), np.delete(theirs, pairs[1])
        if len(mine) and len(theirs):
            times[mine] = self._estimated(mine, number[theirs], dur[theirs])
        return times

    def _estimated(self, mine: Int64, number: Int64, dur: Int64) -> Float64:
        """Times of activities of which a part has another number, from its remaining classes and durations."""
        own, size = self._number[mine], len(self._coarse)
        times = _means(number, dur, size)[own]
        lacking, strange = np.flatnonzero(np.isnan(times)), ~np.isin(number, own)
        wanted, given, dur = self._coarse[own[lacking]], self._coarse[number[strange]], dur[strange]
        # A mean of several sizes is that of a row as a whole, and not of one of them.
        means = np.where(_in_one(wanted, self._row[mine[lacking]], size), _means(given, dur, size), np.nan)
        times[lacking] = means[wanted]
        pairs = even_pairs(wanted, given)
        times[lacking[pairs[0]]] = dur[pairs[1]]
        return times


def _means(key: Int64, dur: Int64, size: int) -> Float64:
    """Mean time by key, NaN where a key does not occur."""
    calls = np.bincount(key, minlength=size)
    with np.errstate(invalid="ignore"):
        means: Float64 = np.bincount(key, dur, size) / calls
    return means


def _in_one(key: Int64, row: Int64, size: int) -> Bool:
    """Which keys have all their entries in one row."""
    entries = combinations(key, row)
    alone: Bool = np.bincount(key[entries.first], minlength=size) == 1
    return alone


def _ids(keys: list[tuple[str, ...]]) -> Int64:
    """The same number for all classes with an equal key."""
    ids: dict[tuple[str, ...], int] = {}
    return np.array([ids.setdefault(key, len(ids)) for key in keys], np.int64)
