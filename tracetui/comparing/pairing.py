"""Pairing of two sequences of GPU activities by key, by operator call, and by position between anchors.

Activities are in order of launch, which is the program's own order. Equal keys are paired one to one in order; where
one side has more of a key, those farthest from the others' positions stay unpaired. Pairs that are in the same order on
both sides are anchors; what lies between two anchors on one side belongs between the same two on the other, and a pair
that crosses others is no anchor. Of two calls of operators the activities are paired in order where both have equally
many with the same roles; else all of one match all of the other, since a library may run several kernels in place of
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.linking.groups import count_within
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64, Trace


@dataclass(frozen=True, eq=False)
class PartnerIndices:
    """Partners of activities of A and of B, as indices in order of launch."""

    a: Int64
    of_a: Int64
    """An index in B for each of `a`, the first of several; several may share one."""
    b: Int64
    of_b: Int64
    """An index in A for each of `b`, the first of several; several may share one."""


@dataclass(frozen=True, eq=False)
class LaunchingCalls:
    """Calls of operators with the activities of one part that they launched."""

    activity: Int64
    """Indices of the activities, by call and in order of launch."""
    call: Int64
    """Index of the call of each."""
    first: Int64
    """For each call, in order of launch, the index of its first activity in `activity`."""
    count: Int64
    """Number of activities of each call."""
    key: Int64
    """Key of each call, the same numbers on both sides."""
    role: Int64
    """Role of each activity (family, helper, generated), the same numbers on both sides."""


def calls(caller: Int64, key: Int64, sort: Int64) -> LaunchingCalls:
    """The calls of operators, from activities with a key; the key of a call is that of its first activity."""
    work = np.flatnonzero((key >= 0) & (caller >= 0))
    used, begin, member = np.unique(caller[work], return_index=True, return_inverse=True)
    number = np.empty(len(used), np.int64)
    number[np.argsort(begin, kind="stable")] = np.arange(len(used))
    call = number[member]
    order = np.argsort(call, kind="stable")
    count = np.bincount(call, minlength=len(used))
    first = np.cumsum(count) - count
    return LaunchingCalls(work[order], call[order], first, count, key[work[order]][first], sort[work[order]])


def call_partners(a: LaunchingCalls, b: LaunchingCalls, where: Alignment) -> PartnerIndices:
    """Partners of the activities of calls with equal keys, wherever they are."""
    even = even_pairs(a.key, b.key)
    left_a, left_b = a.key.copy(), b.key.copy()
    left_a[even[0]], left_b[even[1]] = -1, -1
    heads = Alignment(where.a[a.activity[a.first]], where.b[b.activity[b.first]])
    uneven = uneven_pairs(left_a, left_b, heads)
    return _partners(a, b, (np.concatenate([even[0], uneven[0]]), np.concatenate([even[1], uneven[1]])))


def call_partners_in_segment(a: LaunchingCalls, b: LaunchingCalls, where: Alignment) -> PartnerIndices:
    """Partners of activities of calls with equal keys in the same segment, where both sides have equally many."""
    span = int(max(where.segment_a.max(initial=0), where.segment_b.max(initial=0))) + 1
    key_a = a.key * span + where.segment_a[a.activity[a.first]]
    key_b = b.key * span + where.segment_b[b.activity[b.first]]
    return _partners(a, b, even_pairs(key_a, key_b))


def _partners(a: LaunchingCalls, b: LaunchingCalls, pairs: Pairs) -> PartnerIndices:
    work_a, of_a = _one_way(a, b, *pairs)
    work_b, of_b = _one_way(b, a, *pairs[::-1])
    return PartnerIndices(work_a, of_a, work_b, of_b)


def _one_way(mine: LaunchingCalls, others: LaunchingCalls, calls: Int64, partners: Int64) -> tuple[Int64, Int64]:
    """For activities of calls the partner in the partner call: the one at the same index, else the first."""
    partner = np.full(len(mine.count), -1, np.int64)
    partner[calls] = partners
    held = np.flatnonzero(partner[mine.call] >= 0)
    call, other = mine.call[held], partner[mine.call[held]]
    rank = count_within(call) - 1
    alike = mine.count[call] == others.count[other]
    beside = others.first[other] + np.where(alike, rank, 0)
    strange = np.bincount(call, mine.role[held] != others.role[beside], len(mine.count)) > 0
    found = np.where(strange[call], others.first[other], beside)
    return mine.activity[held], others.activity[found]


def in_launch_order(trace: Trace, rows: Int64) -> Int64:
    """GPU activities by launch, those of one launch by start.

    A stream runs its activities in order: one without a launch record comes after what its stream ran before it.
    """
    slices = trace.slices
    launch = links(trace).launch[rows].astype(np.int64)
    by_stream = np.lexsort((slices.start[rows], slices.lane[rows]))
    lane = slices.lane[rows[by_stream]]
    fresh = np.flatnonzero(np.diff(lane, prepend=-1))
    moment = np.where(launch >= 0, slices.start[launch], np.iinfo(np.int64).min)[by_stream]
    if (launch < 0).any():
        for low, high in zip(fresh, np.append(fresh[1:], len(lane)), strict=True):
            moment[low:high] = np.maximum.accumulate(moment[low:high])
    launched = np.empty_like(moment)
    launched[by_stream] = moment
    return rows[np.lexsort((slices.start[rows], launched))]


_MAX_STRAY_RATIO = 2
"""Pairs whose rank differs by more than this many times the median difference are no anchors: they moved alone."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Positions of the activities of both parts on one scale: anchors at 1, 2, 3 ..., all others between them."""

    a: Float64
    b: Float64

    @property
    def segment_a(self) -> Int64:
        """The number of the anchor before each activity, 0 before the first."""
        return np.floor(self.a).astype(np.int64)

    @property
    def segment_b(self) -> Int64:
        """The same for B."""
        return np.floor(self.b).astype(np.int64)


def alignment(pairs_a: Int64, pairs_b: Int64, size_a: int, size_b: int) -> Alignment:
    """The alignment from pairs, given as indices in A and in B in order of launch."""
    posts_a, posts_b = _anchors(pairs_a, pairs_b)
    numbers = np.arange(len(posts_a) + 2, dtype=np.float64)
    scales = (
        np.interp(np.arange(size), np.concatenate([[-1], posts, [size]]), numbers)
        for posts, size in ((posts_a, size_a), (posts_b, size_b))
    )
    return Alignment(*scales)


def _anchors(a: Int64, b: Int64) -> tuple[Int64, Int64]:
    """The pairs that cross no others, after those that moved far are removed."""
    order = np.argsort(a, kind="stable")
    a, b = a[order], b[order]
    if len(b) and (np.diff(b) < 0).any():
        away = np.abs(_ranks(b) - np.arange(len(b)))
        kept = away <= _MAX_STRAY_RATIO * np.median(away) + 1
        a, b = a[kept], b[kept]
        highest = np.maximum.accumulate(b)
        lowest = np.minimum.accumulate(b[::-1])[::-1]
        straight = (b == highest) & (b == lowest)
        a, b = a[straight], b[straight]
    return a, b


def _ranks(values: Int64) -> Int64:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


Pairs = tuple[Int64, Int64]
"""Indices in A and in B of what is paired."""


def even_pairs(a: Int64, b: Int64) -> Pairs:
    """Pairs of the keys that both sides have equally often; a negative key is none."""
    order_a, order_b, keys, counts_a, counts_b = _sorted(a, b)
    even = keys[counts_a == counts_b]
    return order_a[np.isin(a[order_a], even)], order_b[np.isin(b[order_b], even)]


def uneven_pairs(a: Int64, b: Int64, where: Alignment) -> Pairs:
    """Pairs of the keys that one side has more often than the other."""
    order_a, order_b, _, counts_a, counts_b = _sorted(a, b)
    found_a, found_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    uneven = (counts_a != counts_b) & (counts_a > 0) & (counts_b > 0)
    ends_a, ends_b = np.cumsum(counts_a), np.cumsum(counts_b)
    for index in np.flatnonzero(uneven).tolist():
        mine = order_a[ends_a[index] - counts_a[index] : ends_a[index]]
        other = order_b[ends_b[index] - counts_b[index] : ends_b[index]]
        if len(mine) > len(other):
            mine = mine[_nearest(where.a[mine], where.b[other])]
        else:
            other = other[_nearest(where.b[other], where.a[mine])]
        found_a.append(mine)
        found_b.append(other)
    return np.concatenate(found_a), np.concatenate(found_b)


def _sorted(a: Int64, b: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Indices with a key by key and then in order, the keys, and how often each side has them."""
    orders = []
    for keys in (a, b):
        order = np.argsort(keys, kind="stable")
        orders.append(order[np.searchsorted(keys[order], 0) :])
    used = np.union1d(a[orders[0]], b[orders[1]])
    counts_a = np.bincount(np.searchsorted(used, a[orders[0]]), minlength=len(used))
    counts_b = np.bincount(np.searchsorted(used, b[orders[1]]), minlength=len(used))
    return orders[0], orders[1], used, counts_a, counts_b


def _nearest(many: Float64, few: Float64) -> Int64:
    """For each of the few, in order, a near one of the many, each used once; both ascend."""
    found = np.searchsorted((many[1:] + many[:-1]) / 2, few)
    steps = np.arange(len(few))
    rising = np.maximum.accumulate(found - steps) + steps
    return np.minimum(rising, len(many) - len(few) + steps)
