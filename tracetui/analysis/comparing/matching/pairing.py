"""Equal keys of two sequences paired one to one, in order.

Where one side has more of a key, those stay alone that are farthest from where the other side's stand.
"""

from __future__ import annotations

import numpy as np

from tracetui.analysis.comparing.matching.places import Places
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64

Pairs = tuple[Int64, Int64]
"""Places in A and in B of what belongs together."""


def even_pairs(a: Int64, b: Int64) -> Pairs:
    """Pairs of the keys that both sides have equally often; a key below 0 is none."""
    order_a, order_b, keys, counts_a, counts_b = _sorted(a, b)
    even = keys[counts_a == counts_b]
    return order_a[np.isin(a[order_a], even)], order_b[np.isin(b[order_b], even)]


def uneven_pairs(a: Int64, b: Int64, where: Places) -> Pairs:
    """Pairs of the keys that both sides have, one more often than the other."""
    order_a, order_b, _, counts_a, counts_b = _sorted(a, b)
    found_a, found_b = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    uneven = (counts_a != counts_b) & (counts_a > 0) & (counts_b > 0)
    ends_a, ends_b = np.cumsum(counts_a), np.cumsum(counts_b)
    for place in np.flatnonzero(uneven).tolist():
        mine = order_a[ends_a[place] - counts_a[place] : ends_a[place]]
        other = order_b[ends_b[place] - counts_b[place] : ends_b[place]]
        if len(mine) > len(other):
            mine = mine[_nearest(where.a[mine], where.b[other])]
        else:
            other = other[_nearest(where.b[other], where.a[mine])]
        found_a.append(mine)
        found_b.append(other)
    return np.concatenate(found_a), np.concatenate(found_b)


def _sorted(a: Int64, b: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Places with a key by key and then in order, the keys, and how often each side has them."""
    orders = []
    for keys in (a, b):
        order = np.argsort(keys, kind="stable")
        orders.append(order[np.searchsorted(keys[order], 0) :])
    used = np.union1d(a[orders[0]], b[orders[1]])
    counts_a = np.bincount(np.searchsorted(used, a[orders[0]]), minlength=len(used))
    counts_b = np.bincount(np.searchsorted(used, b[orders[1]]), minlength=len(used))
    return orders[0], orders[1], used, counts_a, counts_b


def _nearest(many: Float64, few: Float64) -> Int64:
    """For each of the few, in order, one of the many that is near and was not taken; both ascend."""
    found = np.searchsorted((many[1:] + many[:-1]) / 2, few)
    steps = np.arange(len(few))
    rising = np.maximum.accumulate(found - steps) + steps
    return np.minimum(rising, len(many) - len(few) + steps)
