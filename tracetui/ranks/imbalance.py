"""Work of which some ranks have more, though none of them stands out by what others wait for it (R5.16).

Where ranks meet after every few kernels, one that computes longer makes the others wait a little each time. Names of
kernels are summed over the run and compared between ranks that do the same: all, or those of one stage of a pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import Float64
from tracetui.ranks.causes import main_causes

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

MIN_IMBALANCED_WORK = 1.05
"""Minimum time of a kernel on the busiest rank as a multiple of the mean."""
MIN_WORK_SHARE = 0.005
"""Minimum time that this is more than the mean, as a share of the busy time of the mean rank."""
MIN_HALF_SHARE = 0.25
"""Minimum of it in each half of the run, so that it is no single event."""
MAX_NAMED_KERNELS = 3
"""Maximum kernels that are named."""


@frozen(eq=True)
class ImbalancedKernel:
    """A kernel that takes longer on one rank than on the mean one."""

    name: str
    most: int
    """Index of the rank on which it takes longest, ..."""
    least: int
    """... and of that on which it is shortest."""
    time: tuple[float, float]
    """Time in ns on these two."""
    calls: tuple[int, int]
    cost: float
    """Time in ns on the first beyond that of the mean rank."""


def imbalanced_work(ranks: RankSet, stages: Sequence[tuple[int, ...]]) -> list[str]:
    """Sentences about kernels, stages of pipelines and sizes of inputs that are imbalanced; often there is none."""
    explained = {each.index for each in ranks.late if set(main_causes(each.causes)) & {"kernels", "extra"}}
    explained |= set(ranks.late_host.ranks) if ranks.late_host is not None else set()
    imbalanced = [each for each in imbalanced_kernels(ranks, stages) if each.most not in explained]
    sentences = []
    if imbalanced:
        listed = "; ".join(_words(ranks, each) for each in imbalanced[:MAX_NAMED_KERNELS])
        total = sum(each.cost for each in imbalanced)
        share = rounded_percent(100 * total / max(ranks.run_ns, 1))
        sentences.append(
            f"Work is uneven: {listed}. Evenly spread it would be {duration(total)} less, {share} of the run."
        )
    sentences += [text for chain in stages if (text := _stage_words(ranks, chain))]
    return [*sentences, *_size_words(ranks, stages)]


def imbalanced_kernels(ranks: RankSet, stages: Sequence[tuple[int, ...]]) -> list[ImbalancedKernel]:
    """The kernels whose time differs between ranks that do the same, the most costly first."""
    if not all(each.is_gpu for each in ranks.summaries):
        return []
    words = Strings()
    sums = [_by_name(ranks, index, words) for index in range(len(ranks))]
    calls, first, second = (
        np.stack([np.pad(each[part], (0, len(words) - len(each[part]))) for each in sums]) for part in range(3)
    )
    time = first + second
    imbalanced = []
    for members in _alike(ranks, stages):
        own = time[members]
        mean, busiest = own.mean(axis=0), members[own.argmax(axis=0)]
        names = np.arange(len(words))
        excess = time[busiest, names] - mean
        halves = [half[busiest, names] - half[members].mean(axis=0) for half in (first, second)]
        steady = np.minimum(*halves) >= MIN_HALF_SHARE * excess
        costly = (excess >= MIN_WORK_SHARE * mean.sum()) & (time[busiest, names] >= MIN_IMBALANCED_WORK * mean)
        for number in np.flatnonzero(steady & costly).tolist():
            one, other = int(busiest[number]), int(members[own[:, number].argmin()])
            times = float(time[one, number]), float(time[other, number])
            counts = int(calls[one, number]), int(calls[other, number])
            imbalanced.append(ImbalancedKernel(words[number], one, other, times, counts, float(excess[number])))
    return sorted(imbalanced, key=lambda each: -each.cost)


def _alike(ranks: RankSet, stages: Sequence[tuple[int, ...]]) -> list[Int64]:
    """Indices of ranks that do the same work: those at one place of all pipelines, and those of none."""
    place = {rank: index for chain in stages for index, rank in enumerate(chain)}
    number = np.array([place.get(rank, -1) for rank in ranks.ranks], np.int64)
    groups = [np.flatnonzero(number == each) for each in np.unique(number).tolist()]
    return [each for each in groups if len(each) > 1]


def _by_name(ranks: RankSet, index: int, words: Strings) -> tuple[Float64, Float64, Float64]:
    """Calls of a rank by name, and their time in ns in the first and in the second half of its collectives."""
    summary = ranks.summaries[index]
    entries = summary.stretch_names
    kept = entries.name >= 0
    used, member = np.unique(entries.name[kept], return_inverse=True)
    name = np.array([words.intern(short_kernel(summary.names[each])) for each in used.tolist()], np.int64)[member]
    late = entries.collective[kept] >= len(summary.collectives) // 2
    time = entries.time[kept]
    calls, first, second = (
        np.bincount(name, weight, len(words)).astype(np.float64)
        for weight in (entries.calls[kept], np.where(late, 0, time), np.where(late, time, 0))
    )
    return calls, first, second


def _words(ranks: RankSet, each: ImbalancedKernel) -> str:
    most, least = (f"rank {ranks.ranks[index]}" for index in (each.most, each.least))
    more, fewer = each.calls
    how = f", in {counted(more, 'call')} and {fewer:,}" if abs(more - fewer) > 0.02 * max(more, fewer) else ""
    return f"{each.name} takes {duration(each.time[0])} on {most} and {duration(each.time[1])} on {least}{how}"


def _stage_words(ranks: RankSet, chain: tuple[int, ...]) -> str:
    """The stage of a pipeline that computes longest, where all are here and it is far from the mean."""
    index = [ranks.ranks.index(rank) for rank in chain if rank in ranks.ranks]
    busy = np.array([ranks.summaries[each].curve.busy[-1] for each in index if len(ranks.summaries[each].curve.busy)])
    if len(busy) < len(chain) or busy.max() < MIN_IMBALANCED_WORK * busy.mean():
        return ""
    slowest = int(busy.argmax())
    cost = float(busy.max() - busy.mean())
    share = rounded_percent(100 * cost / max(ranks.run_ns, 1))
    return (
        f"Stage {slowest} of the pipeline (rank {chain[slowest]}) computes for {busy.max() / busy.mean():.3g} times "
        f"the mean of the stages: with even ones it would be {duration(cost)} less, {share} of the run."
    )


def _size_words(ranks: RankSet, stages: Sequence[tuple[int, ...]]) -> list[str]:
    """Sentences about ranks whose operators get larger inputs than those of the mean rank, with what this costs."""
    sentences = []
    for members in _alike(ranks, stages):
        sizes = np.array([ranks.summaries[each].elements for each in members.tolist()], np.float64)
        busy = np.array([each.curve.busy[-1] if len(each.curve.busy) else 0 for each in ranks.summaries])[members]
        largest = int(sizes.argmax())
        cost = float(busy[largest] - busy.mean())
        is_even = sizes[largest] < MIN_IMBALANCED_WORK * sizes.mean() or cost < MIN_WORK_SHARE * busy.mean()
        if (sizes == NULL).any() or is_even:
            continue
        sentences.append(
            f"The inputs of products on rank {ranks.ranks[int(members[largest])]} have "
            f"{sizes[largest] / sizes.mean():.3g} times the elements of the mean rank, and it computes for "
            f"{duration(cost)} longer."
        )
    return sentences
