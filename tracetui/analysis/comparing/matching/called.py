"""Calls of operators beside each other: the same call may put other kernels on the GPU, and more or fewer of them.

A library that chooses another algorithm runs several kernels in place of one. Of two calls that belong together the
work is paired in order where both have as much of the same sorts; else all of one goes with all of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.common.groups import count_within
from tracetui.analysis.comparing.matching.pairing import Pairs, even_pairs, uneven_pairs
from tracetui.analysis.comparing.matching.places import Places
from tracetui.model.intervals import Int64


@dataclass(frozen=True, eq=False)
class Partners:
    """What was found for some work of A and of B, by places in order of launch."""

    a: Int64
    of_a: Int64
    """A place in B for each of `a`, the first of several; several may share one."""
    b: Int64
    of_b: Int64
    """A place in A for each of `b`, the first of several; several may share one."""


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls of operators by the work of one part that they launched."""

    work: Int64
    """Places of that work, by call and in order of launch."""
    call: Int64
    """Index of the call of each."""
    first: Int64
    """For each call, in order of launch, where its work begins in `work`."""
    count: Int64
    """How much of it there is."""
    key: Int64
    """What tells calls apart, the same numbers on both sides."""
    sort: Int64
    """What sort of work each of `work` is, likewise."""


def calls(caller: Int64, key: Int64, sort: Int64) -> Calls:
    """The calls by their operators, of work with a key; the key of a call is that of its first work."""
    work = np.flatnonzero((key >= 0) & (caller >= 0))
    used, begin, member = np.unique(caller[work], return_index=True, return_inverse=True)
    number = np.empty(len(used), np.int64)
    number[np.argsort(begin, kind="stable")] = np.arange(len(used))
    call = number[member]
    order = np.argsort(call, kind="stable")
    count = np.bincount(call, minlength=len(used))
    first = np.cumsum(count) - count
    return Calls(work[order], call[order], first, count, key[work[order]][first], sort[work[order]])


def call_partners(a: Calls, b: Calls, where: Places) -> Partners:
    """The work of calls of one key, wherever they stand."""
    even = even_pairs(a.key, b.key)
    left_a, left_b = a.key.copy(), b.key.copy()
    left_a[even[0]], left_b[even[1]] = -1, -1
    heads = Places(where.a[a.work[a.first]], where.b[b.work[b.first]])
    uneven = uneven_pairs(left_a, left_b, heads)
    return _partners(a, b, (np.concatenate([even[0], uneven[0]]), np.concatenate([even[1], uneven[1]])))


def call_partners_in_place(a: Calls, b: Calls, where: Places) -> Partners:
    """The work of calls of one key between the same posts, where there are as many on either side."""
    span = int(max(where.stretch_a.max(initial=0), where.stretch_b.max(initial=0))) + 1
    key_a = a.key * span + where.stretch_a[a.work[a.first]]
    key_b = b.key * span + where.stretch_b[b.work[b.first]]
    return _partners(a, b, even_pairs(key_a, key_b))


def _partners(a: Calls, b: Calls, pairs: Pairs) -> Partners:
    work_a, of_a = _one_way(a, b, *pairs)
    work_b, of_b = _one_way(b, a, *pairs[::-1])
    return Partners(work_a, of_a, work_b, of_b)


def _one_way(mine: Calls, others: Calls, calls: Int64, partners: Int64) -> tuple[Int64, Int64]:
    """For the work of calls its partner in their partners: what has its place in the call, else the first."""
    partner = np.full(len(mine.count), -1, np.int64)
    partner[calls] = partners
    held = np.flatnonzero(partner[mine.call] >= 0)
    call, other = mine.call[held], partner[mine.call[held]]
    rank = count_within(call) - 1
    alike = mine.count[call] == others.count[other]
    beside = others.first[other] + np.where(alike, rank, 0)
    strange = np.bincount(call, mine.sort[held] != others.sort[beside], len(mine.count)) > 0
    found = np.where(strange[call], others.first[other], beside)
    return mine.work[held], others.work[found]
