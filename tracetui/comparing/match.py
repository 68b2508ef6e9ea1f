"""Matches between the GPU activities of one part and those of another (R3.50).

The passes go from the most to the least certain; each considers only unmatched activities. Activities with the same
name, operator and sizes match in order of launch; then those that share less. The rest may have been fused into a
kernel of the other side, or split into several.

A library that renames a kernel does so everywhere: where the same operator launched one kernel on either side, the
names match, and the same pair of names then matches everywhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tracetui.comparing.fusing import (
    ActivityClass,
    Unmatched,
    activity_classes,
    callers,
    fused_into,
    in_place_of,
    unmatched,
)
from tracetui.comparing.side import Side
from tracetui.frozen import frozen
from tracetui.linking.groups import count_within, distinct
from tracetui.linking.links import links
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64, Trace

# Pairing of two sequences of GPU activities by key, by operator call, and by position between anchors.
#
# Activities are in order of launch, which is the program's own order. Equal keys are paired one to one in order; where
# one side has more of a key, those farthest from the others' positions stay unpaired. Pairs that are in the same order
# on both sides are anchors; what lies between two anchors on one side belongs between the same two on the other, and a
# pair that crosses others is no anchor. Of two calls of operators the activities are paired in order where both have
# equally many with the same roles; else all of one match all of the other, since a library may run several kernels in
# place of one.


@frozen
class PartnerIndices:
    """Partners of activities of A and of B, as indices in order of launch."""

    a: Int64
    of_a: Int64
    """An index in B for each of `a`, the first of several; several may share one."""
    b: Int64
    of_b: Int64
    """An index in A for each of `b`, the first of several; several may share one."""


@frozen
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
    unequal = unequal_pairs(left_a, left_b, heads)
    return _pair_partners(a, b, (np.concatenate([even[0], unequal[0]]), np.concatenate([even[1], unequal[1]])))


def call_partners_in_segment(a: LaunchingCalls, b: LaunchingCalls, where: Alignment) -> PartnerIndices:
    """Partners of activities of calls with equal keys in the same segment, where both sides have equally many."""
    span = int(max(where.segment_a.max(initial=0), where.segment_b.max(initial=0))) + 1
    key_a = a.key * span + where.segment_a[a.activity[a.first]]
    key_b = b.key * span + where.segment_b[b.activity[b.first]]
    return _pair_partners(a, b, even_pairs(key_a, key_b))


def _pair_partners(a: LaunchingCalls, b: LaunchingCalls, pairs: Pairs) -> PartnerIndices:
    work_a, of_a = _one_way(a, b, *pairs)
    work_b, of_b = _one_way(b, a, *pairs[::-1])
    return PartnerIndices(work_a, of_a, work_b, of_b)


def _one_way(mine: LaunchingCalls, others: LaunchingCalls, calls: Int64, partners: Int64) -> tuple[Int64, Int64]:
    """For activities of calls the partner in the partner call: the one at the same index, else the first."""
    partner = np.full(len(mine.count), -1, np.int64)
    partner[calls] = partners
    matched = np.flatnonzero(partner[mine.call] >= 0)
    call, other = mine.call[matched], partner[mine.call[matched]]
    rank = count_within(call) - 1
    alike = mine.count[call] == others.count[other]
    beside = others.first[other] + np.where(alike, rank, 0)
    strange = np.bincount(call, mine.role[matched] != others.role[beside], len(mine.count)) > 0
    index = np.where(strange[call], others.first[other], beside)
    return mine.activity[matched], others.activity[index]


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


@frozen
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
        ranks = np.empty(len(b), np.int64)
        ranks[np.argsort(b, kind="stable")] = np.arange(len(b))
        away = np.abs(ranks - np.arange(len(b)))
        kept = away <= _MAX_STRAY_RATIO * np.median(away) + 1
        a, b = a[kept], b[kept]
        highest = np.maximum.accumulate(b)
        lowest = np.minimum.accumulate(b[::-1])[::-1]
        straight = (b == highest) & (b == lowest)
        a, b = a[straight], b[straight]
    return a, b


Pairs = tuple[Int64, Int64]
"""Indices in A and in B of pairs."""


def even_pairs(a: Int64, b: Int64) -> Pairs:
    """Pairs of the keys that both sides have equally often; a negative key is none."""
    order_a, order_b, keys, counts_a, counts_b = _sorted(a, b)
    even = keys[counts_a == counts_b]
    return order_a[np.isin(a[order_a], even)], order_b[np.isin(b[order_b], even)]


def unequal_pairs(a: Int64, b: Int64, where: Alignment) -> Pairs:
    """Pairs of the keys that one side has more often than the other."""
    order_a, order_b, _, counts_a, counts_b = _sorted(a, b)
    pairs_a, pairs_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    unequal = (counts_a != counts_b) & (counts_a > 0) & (counts_b > 0)
    ends_a, ends_b = np.cumsum(counts_a), np.cumsum(counts_b)
    for index in np.flatnonzero(unequal).tolist():
        mine = order_a[ends_a[index] - counts_a[index] : ends_a[index]]
        other = order_b[ends_b[index] - counts_b[index] : ends_b[index]]
        if len(mine) > len(other):
            mine = mine[_nearest(where.a[mine], where.b[other])]
        else:
            other = other[_nearest(where.b[other], where.a[mine])]
        pairs_a.append(mine)
        pairs_b.append(other)
    return np.concatenate(pairs_a), np.concatenate(pairs_b)


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
    nearest = np.searchsorted((many[1:] + many[:-1]) / 2, few)
    steps = np.arange(len(few))
    rising = np.maximum.accumulate(nearest - steps) + steps
    return np.minimum(rising, len(many) - len(few) + steps)


KernelAndOp = tuple[str, str]
"""A normalised kernel name and its operator."""


@frozen(eq=True)
class Renamed:
    """Kernel names of A with their names in B."""

    of_a: dict[KernelAndOp, KernelAndOp]
    """The name in B for each name in A."""

    @cached_property
    def of_b(self) -> dict[KernelAndOp, KernelAndOp]:
        """The name in A for each name in B."""
        return {there: here for here, there in self.of_a.items()}

    def key_a(self, work: ActivityClass) -> KernelAndOp | None:
        """The common key of a class of A, its name there; None where the name has no match."""
        return (work.plain, work.op) if (work.plain, work.op) in self.of_a else None

    def key_b(self, work: ActivityClass) -> KernelAndOp | None:
        """The common key of a class of B, likewise its name in A."""
        return self.of_b.get((work.plain, work.op))


def renamed(
    pairs_of_classes: Iterable[tuple[ActivityClass, ActivityClass, int]],
    often_a: Iterable[tuple[ActivityClass, int]],
    often_b: Iterable[tuple[ActivityClass, int]],
) -> Renamed:
    """The names that mostly match each other, from pairs of classes with their counts.

    `often_a` and `often_b` count all activities by class: a pair of names counts only where it is not a rare exception.
    """
    pairs, here, there = Counter[tuple[KernelAndOp, KernelAndOp]](), Counter[KernelAndOp](), Counter[KernelAndOp]()
    for before, after, count in pairs_of_classes:
        one, two = (before.plain, before.op), (after.plain, after.op)
        pairs[one, two] += count
        here[one] += count
        there[two] += count
    totals = _counted(often_a), _counted(often_b)
    return Renamed(
        {
            one: two
            for (one, two), count in pairs.items()
            if 2 * count > max(here[one], there[two]) and 2 * count >= min(totals[0][one], totals[1][two])
        }
    )


def _counted(often: Iterable[tuple[ActivityClass, int]]) -> Counter[KernelAndOp]:
    counts = Counter[KernelAndOp]()
    for work, count in often:
        counts[work.plain, work.op] += count
    return counts


Int8 = NDArray[np.int8]

SAME_NAME, OTHER_SHAPES = "same name", "same name, other shapes"
SAME_OP, SAME_SIZE, SAME_OP_PLACE = "same op and shapes", "same family and size", "same op and place"
FUSED, SPLIT, SAME_PLACE = "fused", "split", "same place"
MATCH_KINDS = (SAME_NAME, OTHER_SHAPES, SAME_OP, SAME_SIZE, SAME_OP_PLACE, FUSED, SPLIT, SAME_PLACE)
"""Kinds of matches, by the properties that partners share."""
_BY_OP = (MATCH_KINDS.index(SAME_OP), MATCH_KINDS.index(SAME_OP_PLACE))
TAKEN_IN = (FUSED, SPLIT, SAME_PLACE)
"""Kinds of match in which one kernel replaces several activities."""
MIN_PAIRED_SHARE = 0.25
"""Minimum share of each part that is paired, for positions to mean anything: else the programs differ."""
MAX_LEFT_UNPAIRED = 32
"""Number of unpaired activities up to which the share of pairs does not matter."""

MatchKey = tuple[Hashable, ...] | None
KeyOf = Callable[[ActivityClass], MatchKey]
Find = Callable[[Unmatched, Unmatched], Int64]
_BY_SIZE: tuple[KeyOf, ...] = (
    lambda work: (work.plain, work.op, work.dims, work.size),
    lambda work: (work.plain, work.op, work.sizes) if work.sizes else None,
)
"""Keys of names with the sizes that operators were called with."""
_BY_NAME: tuple[KeyOf, ...] = (
    lambda work: (work.plain, work.op, work.size) if work.size else None,
    lambda work: (work.plain, work.op) if work.op else None,
    lambda work: (work.plain, work.size) if work.size else None,
    lambda work: (work.plain,),
)
"""Keys of names alone, from the most to the least certain."""


@frozen
class Matching:
    """Matched GPU activities of one part of A and one part of B."""

    rows_a: Int64
    """Slices of A, in order of launch."""
    rows_b: Int64
    partner: Int64
    """For each of `rows_a` an index in `rows_b`, the first of several, -1 for none; several may share one (fused)."""
    partner_b: Int64
    """For each of `rows_b` an index in `rows_a`, the first of several; several may share one (split)."""
    how: Int8
    """For each of `rows_a` an index in `MATCH_KINDS`, -1 for none."""
    how_b: Int8

    def of_a(self, row: int) -> Int64:
        """The slices of B that match a slice of A, in order of launch; none without a partner."""
        return _partners(row, self.rows_a, self.partner, self.rows_b, self.partner_b)

    def of_b(self, row: int) -> Int64:
        """The slices of A that match a slice of B."""
        return _partners(row, self.rows_b, self.partner_b, self.rows_a, self.partner)


def match(a: Side, part_a: int, b: Side, part_b: int) -> Matching:
    """The activities of a part of A matched with those of a part of B; computed once."""
    key = ("matching", a.scope, part_a, b.trace, b.scope, part_b)
    return a.trace.keep(key, lambda: _match(a, part_a, b, part_b))


def _match(a: Side, part_a: int, b: Side, part_b: int) -> Matching:
    table = _Table(_Part.of(a, part_a), _Part.of(b, part_b))
    for key in _BY_SIZE:
        table.pair(key, SAME_NAME)
    # An operator called alike may run other kernels: surer than a kernel of one name that works on something else.
    calls = table.calls(
        lambda work: (work.op, work.sizes) if work.op and work.sizes and not work.is_generated else None
    )
    table.join(call_partners(*calls, table.alignment()), SAME_OP)
    for key in _BY_NAME:
        table.pair(key, SAME_NAME)
    table.pair(lambda work: (*_role(work), work.problem) if work.problem else None, SAME_SIZE)
    calls = table.calls(lambda work: (work.op,) if work.op and not work.is_generated else None)
    table.join(call_partners_in_segment(*calls, table.alignment()), SAME_OP_PLACE)
    names = table.renamed()
    table.pair(names.key_a, SAME_OP_PLACE, names.key_b)
    _fuse(table)
    return table.finished()


def _role(work: ActivityClass) -> tuple[Hashable, ...]:
    return work.decoded.family, work.is_helper, work.is_generated


class _Part:
    """The activities of one part with their partners so far."""

    def __init__(self, trace: Trace, rows: Int64) -> None:
        self.trace, self.rows = trace, rows
        self.known = activity_classes(trace).known
        self.caller = callers(trace, rows)
        self.number = activity_classes(trace).of(rows)
        self.partner = np.full(len(rows), -1, np.int64)
        self.how = np.full(len(rows), -1, np.int8)

    @classmethod
    def of(cls, side: Side, part: int) -> _Part:
        """The activities of a part of a side in order of launch."""
        rows, parts = side.activities()
        return cls(side.trace, in_launch_order(side.trace, rows[parts == part]))

    @property
    def free(self) -> Bool:
        """Mask of activities without partner."""
        mask: Bool = self.partner < 0
        return mask

    def often(self) -> Iterator[tuple[ActivityClass, int]]:
        """Every class and its number of activities."""
        used, count = np.unique(self.number, return_counts=True)
        return zip((self.known[number] for number in used.tolist()), count.tolist(), strict=True)


class _Table:
    """Both parts during matching."""

    def __init__(self, a: _Part, b: _Part) -> None:
        self.a, self.b = a, b

    def keys(self, key: KeyOf, key_b: KeyOf | None = None) -> tuple[Int64, Int64]:
        """A key of all unmatched activities, as numbers that mean the same on both sides; -1 for none."""
        ids: dict[MatchKey, int] = {None: -1}
        by_side = []
        for part, key_of in ((self.a, key), (self.b, key_b or key)):
            free = np.flatnonzero(part.free)
            used = distinct(part.number[free])
            codes = [ids.setdefault(key_of(part.known[number]), len(ids)) for number in used.tolist()]
            keys = np.full(len(part.rows), -1, np.int64)
            if len(free):
                keys[free] = np.array(codes, np.int64)[np.searchsorted(used, part.number[free])]
            by_side.append(keys)
        return by_side[0], by_side[1]

    def alignment(self) -> Alignment:
        """Positions of all activities between the pairs found so far."""
        mine = self._leading()
        return alignment(mine, self.a.partner[mine], len(self.a.rows), len(self.b.rows))

    def renamed(self) -> Renamed:
        """Names of kernels that operators pair with each other."""
        mine = self._leading()
        mine = mine[np.isin(self.a.how[mine], _BY_OP)]
        pairs, count = np.unique(self._classes(mine), return_counts=True)
        size = len(self.b.known)
        pairs_of_classes = (
            (self.a.known[pair // size], self.b.known[pair % size], often)
            for pair, often in zip(pairs.tolist(), count.tolist(), strict=True)
        )
        return renamed(pairs_of_classes, self.a.often(), self.b.often())

    def is_related(self) -> bool:
        """True where both parts have enough in common for positions to mean anything."""
        paired = range(len(MATCH_KINDS) - len(TAKEN_IN))
        return all(
            part.free.sum() <= MAX_LEFT_UNPAIRED or np.isin(part.how, paired).mean() >= MIN_PAIRED_SHARE
            for part in (self.a, self.b)
        )

    def _leading(self) -> Int64:
        """Indices in A of pairs, and of the first activity of each group."""
        mine = np.flatnonzero(self.a.partner >= 0)
        leading: Int64 = mine[self.b.partner[self.a.partner[mine]] == mine]
        return leading

    def _classes(self, mine: Int64) -> Int64:
        """The classes of activities of A and of their partners, as one number each."""
        numbers: Int64 = self.a.number[mine] * len(self.b.known) + self.b.number[self.a.partner[mine]]
        return numbers

    def calls(self, key: KeyOf) -> tuple[LaunchingCalls, LaunchingCalls]:
        """Calls of operators with unmatched activities, distinguished by a key of these activities."""
        keys, sorts = self.keys(key), self.keys(_role)
        return calls(self.a.caller, keys[0], sorts[0]), calls(self.b.caller, keys[1], sorts[1])

    def pair(self, key: KeyOf, how: str, key_b: KeyOf | None = None) -> None:
        """Match unmatched activities with equal keys, first those that both sides have equally often."""
        keys = self.keys(key, key_b)
        mine, other = even_pairs(*keys)
        self.join(PartnerIndices(mine, other, other, mine), how)
        left = np.where(self.a.free, keys[0], -1), np.where(self.b.free, keys[1], -1)
        mine, other = unequal_pairs(*left, self.alignment())
        self.join(PartnerIndices(mine, other, other, mine), how)

    def join(self, partners: PartnerIndices, how: str) -> None:
        """Record partners."""
        self.a.partner[partners.a], self.b.partner[partners.b] = partners.of_a, partners.of_b
        self.a.how[partners.a] = self.b.how[partners.b] = MATCH_KINDS.index(how)

    def finished(self) -> Matching:
        """The matching; pairs by name are marked where their sizes differ."""
        a, b = self.a, self.b
        mine = np.flatnonzero(a.how == MATCH_KINDS.index(SAME_NAME))
        other = a.partner[mine]
        pairs, member = np.unique(self._classes(mine), return_inverse=True)
        differ = [_differ(a.known[pair // len(b.known)], b.known[pair % len(b.known)]) for pair in pairs.tolist()]
        resized = np.array(differ, bool)[member] if differ else np.empty(0, bool)
        a.how[mine[resized]] = b.how[other[resized]] = MATCH_KINDS.index(OTHER_SHAPES)
        return Matching(a.rows, b.rows, a.partner, b.partner, a.how, b.how)


def _differ(a: ActivityClass, b: ActivityClass) -> bool:
    """True where two activities of one name are known to work on different sizes."""
    if a.sizes and b.sizes and a.op == b.op:
        return a.sizes != b.sizes
    return bool(a.size and b.size) and a.size != b.size


def _fuse(table: _Table) -> None:
    """Matches of many with one: fused into kernels of B, split from kernels of A, and matched by position only.

    Generated kernels come after all others, so that the result does not depend on which side is A.
    """
    finds: tuple[tuple[Find, str, str], ...] = (
        (partial(fused_into, generated=False), FUSED, SPLIT),
        (partial(fused_into, generated=True), FUSED, SPLIT),
        (in_place_of, SAME_PLACE, SAME_PLACE),
    )
    for find, forth, back in finds:
        if find is in_place_of and not table.is_related():
            return
        where = table.alignment()
        _take_in((table.a, where.segment_a), (table.b, where.segment_b), find, forth)
        _take_in((table.b, where.segment_b), (table.a, where.segment_a), find, back)


def _take_in(given: tuple[_Part, Int64], hosts: tuple[_Part, Int64], find: Find, how: str) -> None:
    """Match activities of one part with the kernels of the other that replaced them; both with their segments."""
    mine, others = (
        unmatched(part.trace, part.rows, part.known, part.number, part.free, stretch)
        for part, stretch in (given, hosts)
    )
    into = find(mine, others)
    taken = np.flatnonzero(into >= 0)
    index, host = mine.index[taken], others.index[into[taken]]
    given[0].partner[index] = host
    # Written from the last to the first, so that the first stays.
    hosts[0].partner[host[::-1]] = index[::-1]
    given[0].how[index] = hosts[0].how[host] = MATCH_KINDS.index(how)


def _partners(row: int, rows: Int64, partner: Int64, others: Int64, back: Int64) -> Int64:
    index = np.flatnonzero(rows == row)
    if len(index) == 0 or partner[index[0]] < 0:
        return np.empty(0, np.int64)
    # All of a group lead to its first activity on the other side, and that one leads back to the first on this.
    partners: Int64 = others[back == back[partner[index[0]]]]
    return partners
