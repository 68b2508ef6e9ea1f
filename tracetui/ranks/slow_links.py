"""Pairs and groups of ranks that transfer slower than others of their kind (R5.13).

Bus bandwidth is compared between operations of one name, size and type among as many ranks, on as many hosts: what
differs is the way between them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.linking.groups import combinations
from tracetui.model.intervals import Bool
from tracetui.model.table import NULL
from tracetui.ranks.bandwidth import bus_bandwidth
from tracetui.ranks.rank_summary import Flag

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

Kind = tuple[bool, int, int, int, int]
"""Whether it is a transfer between two ranks, operation, token, ranks and hosts."""

MIN_OPERATIONS = 5
"""Minimum operations of one kind whose median is taken."""
MAX_USUAL_SHARE = 0.8
"""Share of the others' bandwidth below which a link is slow."""
MIN_COST_SHARE = 0.01
"""Minimum time that the rate of the others would save, as a share of the run."""
MAX_CLOCK_SHARE = 0.1
"""Share of a transfer by which the clocks may make it wrong, beyond which it is not compared."""


@dataclass(frozen=True)
class SlowLink:
    """Ranks that transfer slower than others."""

    ranks: tuple[int, ...]
    """Their numbers."""
    hosts: tuple[str, ...]
    """The hosts that they are on, where these are named."""
    gbps: float
    """Median bus bandwidth in GB/s of the operations that cost most, ..."""
    usual_gbps: float
    """... and that of the others in theirs."""
    cost_ns: float
    """What the rate of the others would save, in ns."""


@dataclass(frozen=True)
class _Rate:
    """The operations of one kind among some ranks."""

    gbps: float
    total_ns: float


def slow_links(ranks: RankSet) -> list[SlowLink]:
    """Links that are slower than the others in every kind of operation that both have, the most costly first."""
    rates = _rates(ranks)
    of_kind: dict[Kind, dict[tuple[int, ...], _Rate]] = defaultdict(dict)
    for members, kinds in rates.items():
        for kind, rate in kinds.items():
            of_kind[kind][members] = rate
    found = [_slow(ranks, members, kinds, of_kind) for members, kinds in rates.items()]
    least = max(MIN_COST_SHARE * ranks.run_ns, 1)
    return sorted((each for each in found if each and each.cost_ns >= least), key=lambda each: -each.cost_ns)


def _rates(ranks: RankSet) -> dict[tuple[int, ...], dict[Kind, _Rate]]:
    """How fast each pair and each group of ranks transfers, by the kind of operation."""
    matches, transfer = ranks.matches, ranks.transfer[0]
    instances, entries, first = matches.instances, matches.entries, matches.first
    bandwidth = bus_bandwidth(matches, ranks.bytes_of_instances, transfer)
    held = np.flatnonzero(np.isfinite(bandwidth) & _is_whole(ranks))
    is_pair = entries.source[first[held]] >= 0
    ends = entries.source[first[held]], entries.target[first[held]]
    way = np.where(is_pair, -1, instances.group[held]), np.minimum(*ends), np.maximum(*ends)
    of_way = combinations(*way).member
    of_kind = combinations(of_way, instances.operation[held], instances.token[held])
    rates: dict[tuple[int, ...], dict[Kind, _Rate]] = defaultdict(dict)
    for number in range(len(of_kind)):
        rows = held[of_kind.member == number]
        index = entries.rank[first[rows[0]] : first[rows[0] + 1]]
        hosts = np.unique(ranks.clocks.host[index])
        error = float(ranks.clocks.pair_error[np.ix_(hosts, hosts)].max())
        rows = rows[error <= MAX_CLOCK_SHARE * transfer[rows]]
        if len(rows) >= MIN_OPERATIONS:
            name = int(instances.operation[rows[0]]), int(instances.token[rows[0]])
            kind = (bool(entries.source[first[rows[0]]] >= 0), *name, len(index), len(hosts))
            rate = _Rate(float(np.median(bandwidth[rows])), float(transfer[rows].sum()))
            rates[tuple(ranks.ranks[each] for each in index.tolist())][kind] = rate
    return rates


def _is_whole(ranks: RankSet) -> Bool:
    """Operations whose ranks are all here, and during which no other communication ran."""
    instances, flags = ranks.matches.instances, ranks.matches.entries.flags
    first = ranks.matches.first[:-1]
    contended = np.maximum.reduceat(flags & int(Flag.CONTENDED), first) > 0 if len(first) else np.zeros(0, bool)
    whole: Bool = ~contended & (instances.of != NULL) & (instances.ranks == instances.of)
    return whole


def _slow(
    ranks: RankSet,
    members: tuple[int, ...],
    kinds: dict[Kind, _Rate],
    of_kind: dict[Kind, dict[tuple[int, ...], _Rate]],
) -> SlowLink | None:
    """A link that is slower than the median of the others in all its kinds, None for another one."""
    usual = {
        kind: float(np.median([rate.gbps for other, rate in of_kind[kind].items() if other != members]))
        for kind in kinds
        if len(of_kind[kind]) > 1
    }
    if not usual or any(kinds[kind].gbps >= MAX_USUAL_SHARE * gbps for kind, gbps in usual.items()):
        return None
    saved = {kind: kinds[kind].total_ns * (1 - kinds[kind].gbps / gbps) for kind, gbps in usual.items()}
    worst = max(saved, key=lambda kind: saved[kind])
    names = {ranks.hosts[ranks.ranks.index(rank)] for rank in members}
    hosts = tuple(sorted(name for name in names if name))
    return SlowLink(members, hosts, kinds[worst].gbps, usual[worst], sum(saved.values()))
