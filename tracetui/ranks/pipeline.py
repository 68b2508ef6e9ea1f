"""Stages of a pipeline: how long each is idle, and how long it would be at best (R5.11)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracetui.ranks.rank_times import rank_times

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet


@dataclass(frozen=True)
class Pipeline:
    """Ranks that pass activations along a chain."""

    ranks: tuple[int, ...]
    """Numbers of the ranks in order of the stages, those that are not here among them."""
    microbatches: int | None
    """Transfers in one direction per step, None where they are not the same in every step."""

    @property
    def least_idle(self) -> float | None:
        """Share of a step in which a stage is idle at best, one forward and one backward pass in turn."""
        if self.microbatches is None:
            return None
        return (len(self.ranks) - 1) / (self.microbatches + len(self.ranks) - 1)


def pipelines(ranks: RankSet) -> list[Pipeline]:
    """The chains of ranks that transfers between two ranks make; other shapes are no pipeline."""
    entries = ranks.matches.entries
    transfers = entries.source >= 0
    neighbours: dict[int, set[int]] = defaultdict(set)
    pairs = np.unique(np.stack([entries.source[transfers], entries.target[transfers]]), axis=1).T.tolist()
    for source, target in pairs:
        neighbours[source].add(target)
        neighbours[target].add(source)
    chains = []
    for first in sorted(each for each, near in neighbours.items() if len(near) == 1):
        chain = _chain(first, neighbours)
        if chain is not None and chain[0] < chain[-1]:
            chains.append(Pipeline(tuple(chain), _microbatches(ranks, chain[0], chain[1])))
    return chains


def _chain(first: int, neighbours: dict[int, set[int]]) -> list[int] | None:
    chain = [first]
    while ahead := neighbours[chain[-1]] - set(chain[-2:]):
        if len(ahead) > 1 or len(chain) > len(neighbours):
            return None
        chain.append(ahead.pop())
    return chain


def _microbatches(ranks: RankSet, source: int, target: int) -> int | None:
    """Transfers per step from the first stage to the second; the first and last step may have been cut."""
    entries, number = ranks.matches.entries, ranks.step_of_instances
    mine = np.unique(entries.instance[(entries.source == source) & (entries.target == target)])
    counts = np.unique(number[mine], return_counts=True)[1]
    inner = counts[1:-1] if len(counts) > 2 else counts
    return int(inner[0]) if len(inner) and (inner == inner[0]).all() else None


def bubbles(ranks: RankSet) -> NDArray[np.float64]:
    """Share of the run in which each rank was idle or waited for a transfer, NaN for ranks of no pipeline."""
    stages = {rank for chain in pipelines(ranks) for rank in chain.ranks}
    share = np.full(len(ranks), np.nan)
    if not stages or ranks.run_ns == 0:
        return share
    entries, waiting = ranks.matches.entries, ranks.waiting
    transfers = entries.source >= 0
    times = rank_times(ranks)
    for index, rank in enumerate(ranks.ranks):
        if rank in stages:
            rows = np.flatnonzero(transfers & (entries.rank == index))
            own = ranks.summaries[index].collectives
            exposed = np.minimum(waiting.wait[rows], own.exposed[entries.row[rows]])
            share[index] = (int(times.idle[index]) + int(exposed.sum())) / ranks.run_ns
    return share
