"""Bus bandwidth over the transfer, never over the duration, which holds the waiting (R5.8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.groups import combinations
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.ranks.matching import Matches
from tracetui.ranks.rank_summary import OPERATIONS, RankSummary
from tracetui.ranks.waiting import Waiting

Float64 = NDArray[np.float64]

MIN_BYTES = 1_000_000
"""Bytes below which latency decides, so that a bandwidth says nothing."""
MAX_TIMES_USUAL = 2
"""Ratio to the median transfer beyond which it holds waits for ranks that are not here."""


def bus_factor(operation: str, ranks: int) -> float | None:
    """What the bus carries for each byte of a collective among so many ranks; None where nobody counts it."""
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0 if operation in ("broadcast", "reduce", "send", "recv") else None


def known_transfer(matches: Matches, waiting: Waiting) -> tuple[Int64, int]:
    """The transfer of each operation in ns, NULL where it holds waits for absent ranks; and how long these are at most.

    Such waits look like a slow transfer: only the median of equal operations tells them, and only from above.
    """
    instances = matches.instances
    transfer = waiting.transfer.copy()
    usual = usual_transfer(matches, waiting)
    absent = (instances.of != NULL) & (instances.ranks < instances.of) & (transfer != NULL)
    beyond = absent & (transfer > MAX_TIMES_USUAL * usual)
    waits = int((transfer[beyond] - usual[beyond]).sum())
    transfer[beyond] = NULL
    return transfer, waits


def estimated_waiting(summary: RankSummary) -> tuple[int, int]:
    """Time in ns that a rank alone may have waited, and in the collectives that tell: those with equal ones.

    The shortest of one group, size and type is taken for the transfer; the rest is waiting or contention.
    """
    own = summary.collectives
    rows = np.flatnonzero(own.is_symmetric)
    if len(rows) == 0:
        return 0, 0
    return beyond_shortest(own.dur[rows], combinations(own.group[rows], own.token[rows]).member)


def beyond_shortest(dur: Int64, member: Int64) -> tuple[int, int]:
    """Time in ns that collectives took beyond the shortest of their kind, and the time of those that tell.

    `member` is the number of each one's kind; one that is alone of its kind tells nothing.
    """
    kinds = int(member.max(initial=-1)) + 1
    shortest = np.full(kinds, np.iinfo(np.int64).max)
    np.minimum.at(shortest, member, dur)
    several = np.bincount(member, minlength=kinds)[member] > 1
    return int((dur - shortest[member])[several].sum()), int(dur[several].sum())


def usual_transfer(matches: Matches, waiting: Waiting) -> Int64:
    """The median transfer of operations of one group and size, for each operation."""
    instances = matches.instances
    key = combinations(instances.group, instances.token).member
    usual = np.zeros(len(instances), np.int64)
    for each in np.unique(key).tolist():
        mine = key == each
        known = waiting.transfer[mine & (waiting.transfer != NULL)]
        usual[mine] = int(np.median(known)) if len(known) else 0
    return usual


def bus_bandwidth(matches: Matches, bytes_: Int64, transfer: Int64) -> Float64:
    """GB/s of each operation, NaN where it is small, mismatched, partial, or its size or transfer is not known."""
    instances = matches.instances
    size = np.where(instances.of == NULL, instances.ranks, instances.of)
    factors = {
        (operation, ranks): bus_factor(OPERATIONS[operation], ranks)
        for operation, ranks in {*zip(instances.operation.tolist(), size.tolist(), strict=True)}
    }
    factor = np.array(
        [factors[key] or np.nan for key in zip(instances.operation.tolist(), size.tolist(), strict=True)], np.float64
    )
    plain = np.array([not text for text in instances.mismatch], bool) & ~instances.is_partial
    good: Bool = plain & (bytes_ >= MIN_BYTES) & (transfer > 0)
    return np.where(good, bytes_ * factor / np.where(good, transfer, 1), np.nan)
