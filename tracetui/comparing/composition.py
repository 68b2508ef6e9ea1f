"""Which parts of a side run the same: the median over an eager and a compiled run of one function means nothing.

Parts are alike where their numbers of GPU activities differ by a few percent and most names are the same; on a side
without GPU activity operators count instead. A few different parts, such as a first step that warms up, do not spoil
the median; as many as the noise is taken from do. The representative part stands for a side where single slices are
compared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tracetui.comparing.noise import MIN_QUARTILE_PARTS
from tracetui.comparing.side import Side
from tracetui.linking.groups import combinations
from tracetui.linking.links import op_rows
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Kind


def representative(side: Side) -> int:
    """Among the parts with the most common sequence of kernels, the one with the median GPU time.

    Without GPU activity the part of median duration; -1 for a side without parts.
    """
    return side.trace.remember(("representative", side.scope), lambda: _find_representative(side))


def _find_representative(side: Side) -> int:
    rows, part = side.activities()
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
    time = np.bincount(part, side.times(rows), len(side)).astype(np.int64)
    return _middle(common, time[common])


def _middle(parts: Int64, values: Int64) -> int:
    """The part with the median value; of two the lower."""
    return int(parts[np.argsort(values, kind="stable")[(len(parts) - 1) // 2]])


MAX_COUNT_DIFFERENCE = 0.1
"""Maximum difference in the number of activities of parts that are alike, as a share of the larger."""
MIN_SHARED_NAMES = 0.5
"""Minimum share of activities with common names of parts that are alike, of the larger part."""
MIN_ALIKE_PARTS = 0.75
"""Minimum share of parts that are alike, for the median of a side to mean anything."""
MAX_GROUPS = 8
"""Maximum groups of parts that are distinguished; the rest is one more."""


@dataclass(frozen=True, eq=False)
class PartGroup:
    """Parts of a side that run the same."""

    parts: Int64
    """Indices of the parts, in order."""
    count: int
    """Kernels of the first part; operators on a side without GPU activity."""


def groups_of_parts(side: Side) -> tuple[PartGroup, ...]:
    """The parts of a side by what they run, in the order of the first part of each group; found once."""
    return side.trace.remember(("groups of parts", side.scope), lambda: _find(side))


def is_mixed(side: Side) -> bool:
    """Whether the parts differ so much in what they run that their median describes none of them."""
    part_groups = groups_of_parts(side)
    most = max((len(group.parts) for group in part_groups), default=0)
    return len(part_groups) > 1 and (len(side) < MIN_QUARTILE_PARTS or most < MIN_ALIKE_PARTS * len(side))


def _find(side: Side) -> tuple[PartGroup, ...]:
    rows, part = side.activities()
    counted = side.trace.slices.kind[rows] == Kind.KERNEL
    if len(rows) == 0:
        rows = op_rows(side.trace)
        part = side.part_of(rows)
        rows, part = rows[part >= 0], part[part >= 0]
        counted = np.ones(len(rows), bool)
    shown = np.bincount(part[counted], minlength=len(side))
    left, found = np.ones(len(side), bool), list[Int64]()
    content = _Content(side.trace.slices.name[rows].astype(np.int64), part, len(side))
    sample = representative(side)
    while left.any():
        mine = left & content.like(sample) if len(found) < MAX_GROUPS else left.copy()
        found.append(np.flatnonzero(mine))
        left &= ~mine
        sample = int(np.argmax(left))
    return tuple(PartGroup(parts, int(shown[parts[0]])) for parts in sorted(found, key=lambda parts: int(parts[0])))


class _Content:
    """How often each name occurs in each part."""

    def __init__(self, name: Int64, part: Int64, parts: int) -> None:
        pairs = combinations(part, name)
        self._part, self._name = part[pairs.first], name[pairs.first]
        self._often = np.bincount(pairs.member, minlength=len(pairs))
        self._size = np.bincount(part, minlength=parts)

    def like(self, sample: int) -> Bool:
        """Which parts are like one of them, itself included."""
        mine = self._part == sample
        often = np.zeros(int(self._name.max(initial=-1)) + 1, np.int64)
        often[self._name[mine]] = self._often[mine]
        shared = np.bincount(self._part, np.minimum(self._often, often[self._name]), len(self._size))
        size = self._size[sample]
        larger, smaller = np.maximum(self._size, size), np.minimum(self._size, size)
        alike: Bool = (larger - smaller <= MAX_COUNT_DIFFERENCE * larger) & (shared >= MIN_SHARED_NAMES * larger)
        return alike
