"""Sentences about a set of ranks: its size, the ranks that are late with their causes, work of which some have more,
and what is missing.

Some ranks may have more work though none of them stands out by what others wait for it (R5.16): where ranks meet after
every few kernels, one that computes longer makes the others wait a little each time. Names of kernels are summed over
the run and compared between ranks that do the same: all, or those of one stage of a pipeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Int64
from tracetui.model.quantities import count, counted, duration, rounded_percent
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import Float64
from tracetui.ranks.causes import main_causes
from tracetui.ranks.compile_tables import compile_remarks, compile_sentences, log_headline
from tracetui.ranks.rank_set import MIN_COST_SHARE, MIN_IMBALANCE, in_turn
from tracetui.ranks.rank_summary import layout_words, member_words
from tracetui.ranks.waiting import estimated_waiting

if TYPE_CHECKING:
    from tracetui.ranks.causes import LateRank
    from tracetui.ranks.rank_set import ExpertLoad, LateHost, RankSet, SlowLink

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


# The time that all ranks recorded, split by what each rank did (R5.10).


@frozen
class RankTimes:
    """Parallel arrays in ns, one entry per rank; busy, exposed and idle time sum to the run."""

    step: Int64
    """Median period of a step, NULL without steps."""
    step_idle: Int64
    """Idle time in the periods of all steps, NULL without steps or GPU activities."""
    busy: Int64
    exposed: Int64
    exposed_wait: Int64
    """The part of the exposed communication that is waiting: that of each collective in proportion to its wait."""
    idle: Int64


def rank_times(ranks: RankSet) -> RankTimes:
    """The times of every rank in the window that all recorded, on the one clock."""
    low, high = ranks.window
    clocks = ranks.clocks
    length = high - low
    busy, exposed = [], []
    for index, summary in enumerate(ranks.summaries):
        host = int(clocks.host[index])
        moved = int(clocks.shift[host])
        one, other = summary.curve.within(low + moved, high + moved)
        busy.append(one)
        exposed.append(other)
    busy_ns, exposed_ns = np.array(busy, np.int64), np.array(exposed, np.int64)
    return RankTimes(
        step=np.array([each.steps.median for each in ranks.summaries], np.int64),
        step_idle=np.array([each.steps.whole_idle for each in ranks.summaries], np.int64),
        busy=busy_ns,
        exposed=exposed_ns,
        exposed_wait=np.minimum(_exposed_wait(ranks), exposed_ns),
        idle=np.maximum(length - busy_ns - exposed_ns, 0),
    )


def _exposed_wait(ranks: RankSet) -> Int64:
    entries, waiting = ranks.matches.entries, ranks.waiting
    parts = []
    for index, summary in enumerate(ranks.summaries):
        rows = np.flatnonzero((entries.rank == index) & (waiting.wait > 0))
        own = entries.row[rows]
        dur = np.maximum(summary.collectives.dur[own], 1)
        parts.append(int((summary.collectives.exposed[own] * (waiting.wait[rows] / dur)).sum()))
    return np.array(parts, np.int64)


# Stages of a pipeline: how long each is idle, and how long it would be at best (R5.11).


@frozen(eq=True)
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
            # Transfers per step from the first stage to the second; the first and last step may have been cut.
            passed, number = ranks.matches.entries, ranks.step_of_instances
            mine = np.unique(passed.instance[(passed.source == chain[0]) & (passed.target == chain[1])])
            counts = np.unique(number[mine], return_counts=True)[1]
            inner = counts[1:-1] if len(counts) > 2 else counts
            chains.append(Pipeline(tuple(chain), int(inner[0]) if len(inner) and (inner == inner[0]).all() else None))
    return chains


def _chain(first: int, neighbours: dict[int, set[int]]) -> list[int] | None:
    chain = [first]
    while ahead := neighbours[chain[-1]] - set(chain[-2:]):
        if len(ahead) > 1 or len(chain) > len(neighbours):
            return None
        chain.append(ahead.pop())
    return chain


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


MAX_NAMED_RANKS = 3
"""Maximum late ranks named in the headline."""
MAX_NAMED_PIPELINES = 2
"""Maximum pipelines that are named."""
MAX_NAMED_LINKS = 2
"""Maximum slow links that are named."""
MAX_NAMED_REASONS = 5
"""Maximum reasons for leaving files out that are named."""
MIN_MATCHED_SHARE = 0.5
"""Minimum share of the collectives that ranks have in common, for it to tell that no rank stands out."""
NOBODY = "No rank stands out"
_REASONS = {
    "input": "its input comes late",
    "host": "its device waits for its host",
    "kernels": "its kernels take longer",
    "extra": "it runs more than the others do",
    "compile": "it compiles",
}
_REASONS_OF_SEVERAL = {
    "input": "their input comes late",
    "host": "their devices wait for their host",
    "kernels": "their kernels take longer",
    "extra": "they run more than the others do",
    "compile": "they compile",
}


Result = TypeVar("Result")


def _or_why(
    what: str, instead: Callable[[str], Result]
) -> Callable[[Callable[[RankSet], Result]], Callable[[RankSet], Result]]:
    """Return, where a function fails, what `instead` makes of the sentence that says why."""

    def decorated(function: Callable[[RankSet], Result]) -> Callable[[RankSet], Result]:
        return wraps(function)(lambda ranks: ranks.failures.make_or(what, lambda: function(ranks), instead))

    return decorated


@_or_why("The title", str)
def title(ranks: RankSet) -> str:
    """The size of the set: `run: 64 ranks of 64 · 8 hosts · TP 8 × DP 8 · 6 steps · clocks ±0.3 ms`.

    Where this or one of the following fails, the sentence that says so stands in its place.
    """
    logs = counted(len(ranks.logs), "log") + " of torch.compile" if ranks.logs else ""
    if not len(ranks):
        return logs or "no rank"
    clocks, run = ranks.clocks, ranks.run
    steps = max((len(each.steps) for each in ranks.summaries), default=0)
    hosts = len({name for name in ranks.hosts if name})
    errors = clocks.error[clocks.is_known]
    worst = float(errors.max(initial=0))
    parts = [
        f"{counted(len(ranks), 'rank')} of {count(run.world_size)}",
        counted(hosts, "host") if hosts else "",
        layout_words(ranks.matches.groups),
        counted(steps, "step") if steps else "",
        f"clocks ±{duration(worst)}" if worst else "one clock" if len(clocks.names) == 1 and len(ranks) > 1 else "",
        counted(len(ranks.matches.instances), "collective"),
        f"{duration(ranks.run_ns)} in common" if ranks.run_ns and len(ranks) > 1 else "",
        logs,
    ]
    return " · ".join(filter(None, parts))


@_or_why("The headline", str)
def headline(ranks: RankSet) -> str:
    """The late ranks with place and cause; or that no rank stands out; or why nothing is known."""
    if ranks.logs and not len(ranks):
        return log_headline(ranks)
    return " ".join([_late_sentences(ranks), *(compile_sentences(ranks) if ranks.logs else ())])


@_or_why("The sentence about times", str)
def spending(ranks: RankSet) -> str:
    """Sentence on the parts of the time that all ranks recorded; empty without GPU activity or for one rank."""
    if len(ranks) < 2:
        return ""
    times = rank_times(ranks)
    whole = float((times.busy + times.exposed + times.idle).mean())
    if not whole or not times.busy.any():
        return ""
    parts = (
        ("computes for", times.busy),
        ("sends for", times.exposed - times.exposed_wait),
        ("waits for others for", times.exposed_wait),
        ("is idle for", times.idle),
    )
    words = [f"{verb} {rounded_percent(100 * float(time.mean()) / whole)}" for verb, time in parts]
    return f"Of {duration(whole)} a rank {', '.join(words)}."


@_or_why("The list of remarks", lambda sentence: [sentence])
def remarks(ranks: RankSet) -> list[str]:
    """Sentences about what is missing, left out, doubtful or odd."""
    run = ranks.run
    sentences = []
    if not len(ranks):
        return compile_remarks(ranks)
    if run.missing:
        numbers = _numbers(run.missing)
        sentences.append(f"{'Rank' if len(run.missing) == 1 else 'Ranks'} {numbers} of {run.world_size} not here.")
    if (waits := ranks.transfer[1]) > 0:
        sentences.append(f"Up to {duration(waits)} of the collectives is waiting for ranks that are not here.")
    if ranks.left_out:
        by_why: dict[str, list[str]] = {}
        for each in ranks.left_out:
            by_why.setdefault(each.why, []).append(ranks.shown_path(each.path))
        listed = []
        for why, paths in list(by_why.items())[:MAX_NAMED_REASONS]:
            others = f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
            listed.append(f"{paths[0]}{others} ({why})")
        more = len(by_why) - len(listed)
        sentences.append(
            f"Left out or cut: {'; '.join(listed)}{f'; and more for {more} other reasons' if more else ''}."
        )
    sentences += [*run.notes, *ranks.clocks.notes, *compile_remarks(ranks)]
    sentences += _uncertain(ranks)
    sentences += [_pipeline_words(ranks, each) for each in pipelines(ranks)[:MAX_NAMED_PIPELINES]]
    if ranks.expert_load is not None:
        sentences += _experts(ranks, ranks.expert_load)
    sentences += imbalanced_work(ranks, [chain.ranks for chain in pipelines(ranks)])
    sentences += _links(ranks.slow_links)
    if turns := in_turn(ranks):
        sentences.append(f"Ranks {', '.join(map(str, turns))} are late in turn, one in each step.")
    instances = ranks.matches.instances
    if instances.is_partial.any():
        sentences.append(f"A rank that is here is missing in {counted(int(instances.is_partial.sum()), 'collective')}.")
    mismatched = sum(bool(text) for text in instances.mismatch)
    if mismatched:
        sentences.append(
            f"In {counted(mismatched, 'collective')} ranks disagree about operation, size or type: so hangs begin."
        )
    alone, total = alone_collectives(ranks)
    if ranks.late and total - alone < MIN_MATCHED_SHARE * total:
        sentences.append(f"What ranks wait in most collectives is not known: {_alone_words(alone, total)}.")
    if ranks.matches.unmatched:
        sentences.append(
            f"No other side is recorded of {counted(ranks.matches.unmatched, 'transfer')} between two ranks."
        )
    return sentences


def _late_sentences(ranks: RankSet) -> str:
    if len(ranks) < 2:
        return _alone(ranks)
    if not waits_are_known(ranks).any():
        return f"Cannot tell who waits for whom: {_unknown_words(ranks)}."
    if ranks.late_host is not None:
        return _late_host_words(ranks, ranks.late_host)
    alone, total = alone_collectives(ranks)
    if not ranks.late and total - alone < MIN_MATCHED_SHARE * total:
        return f"Cannot tell who waits for whom: {_alone_words(alone, total)}."
    if not ranks.late:
        attributed = ranks.waiting.attributed
        waited = float(attributed.time.sum())
        share = rounded_percent(100 * waited / max(ranks.run_ns * len(ranks), 1))
        known = counted(int(np.count_nonzero(ranks.waiting.transfer != NULL)), "collective")
        return f"{NOBODY}: in {known} ranks wait {duration(waited)} for each other, {share} of their time in the run."
    return " ".join(late_words(ranks, each) for each in ranks.late[:MAX_NAMED_RANKS])


def waits_are_known(ranks: RankSet) -> NDArray[np.bool_]:
    """Mask of the ranks that share an operation in which it is known who waits: its clocks and its kind tell."""
    entries = ranks.matches.entries
    told = ranks.waiting.transfer[entries.instance] != NULL
    mask: NDArray[np.bool_] = np.bincount(entries.rank[told], minlength=len(ranks)) > 0
    return mask


def _unknown_words(ranks: RankSet) -> str:
    """The reason for which no wait is known, as the end of a sentence."""
    alone, total = alone_collectives(ranks)
    if not total:
        return "no rank recorded a collective"
    if alone == total:
        return _alone_words(alone, total)
    common = counted(int((ranks.matches.instances.ranks > 1).sum()), "collective")
    if (ranks.waiting.skew == NULL).all():
        return f"none of {common} in common ties the clocks of ranks to each other"
    return f"of none of {common} in common the kind or a root is known"


def alone_collectives(ranks: RankSet) -> tuple[int, int]:
    """Collectives of ranks without a partner on another rank that is here, and all that the ranks recorded."""
    total = sum(len(each.collectives) for each in ranks.summaries)
    instances = ranks.matches.instances
    shared = ((instances.ranks > 1) | (instances.of == 1))[ranks.matches.entries.instance]
    return total - int(shared.sum()), total


def _alone_words(alone: int, total: int) -> str:
    return f"{alone:,} of {counted(total, 'collective')} have no partner among the ranks that are here"


def _alone(ranks: RankSet) -> str:
    """The waiting of a single rank: the time that collectives take beyond the shortest equal one."""
    (summary,) = ranks.summaries
    waiting, known = estimated_waiting(summary)
    if len(summary.collectives) == 0:
        return "One rank alone does not tell who waits for whom, and it recorded no collective."
    if not known:
        return "One rank alone does not tell who waits for whom, and no two of its collectives are equal."
    return (
        f"One rank alone does not tell who waits for whom: ~{duration(waiting)} of {duration(known)} in collectives "
        "may be waiting or contention, by the shortest of those that are equal."
    )


def _late_host_words(ranks: RankSet, late: LateHost) -> str:
    why = (
        " and ".join(_REASONS_OF_SEVERAL[cause] for cause in main_causes(late.causes))
        or "nothing in their traces tells why"
    )
    note = f" ({late.note})" if late.note and late.causes else ""
    name = ranks.clocks.names[late.host] or "a host"
    wait = _wait_words(ranks, late.caused, late.longest, "them", late.collectives)
    waits = f"Ranks of other hosts wait {wait}."
    return f"All ranks of {name} are late: {why}{note}. {waits}"


def late_words(ranks: RankSet, late: LateRank) -> str:
    """A late rank with its host, steps and cause, and the time that others wait for it."""
    host = ranks.hosts[late.index]
    where = f" ({host})" if host and len({*ranks.hosts}) > 1 else ""
    when = ""
    if late.steps and late.of_steps > 1:
        if len(late.steps) == late.of_steps:
            when = " in every step"
        elif len(late.steps) == 1:
            when = f" in step {late.steps[0]} alone"
        else:
            when = f" in {len(late.steps)} of {late.of_steps} steps"
    phase = f", in {late.phase}" if late.phase and late.phase != "input" else ""
    why = " and ".join(_REASONS[cause] for cause in main_causes(late.causes)) or "nothing in its trace tells why"
    note = f" ({late.note})" if late.note and late.causes else ""
    rank = ranks.ranks[late.index]
    wait = _wait_words(ranks, late.caused_ns, late.longest_ns, "it", late.last)
    waits = f"Others wait {wait}."
    if late.behind:
        others = _rank_words([ranks.ranks[each] for each in late.behind])
        waits = f"Without {others}, late in the same collectives, others would wait {wait}."
    return f"Rank {rank}{where} is late{when}{phase}: {why}{note}. {waits}"


def _wait_words(ranks: RankSet, whole: float, longest: float, whom: str, collectives: int) -> str:
    """The sum of the waits of others, and the longest of one of them, which tells beside the run what it costs."""
    where = f"for {whom} in {counted(collectives, 'collective')}"
    together = " together" if longest < whole else ""
    return (
        f"{duration(whole)}{together} {where} (one at most {duration(longest)}, of a run of {duration(ranks.run_ns)})"
    )


def _pipeline_words(ranks: RankSet, pipeline: Pipeline) -> str:
    shares = [share for rank, share in zip(ranks.ranks, bubbles(ranks).tolist(), strict=True) if rank in pipeline.ranks]
    idle = f"{rounded_percent(100 * min(shares))} to {rounded_percent(100 * max(shares))}"
    best = pipeline.least_idle
    least = "" if best is None else f", {rounded_percent(100 * best)} at best with {pipeline.microbatches} microbatches"
    return f"The stages {member_words(pipeline.ranks)} of a pipeline are idle for {idle} of the run{least}."


def _links(links: list[SlowLink]) -> list[str]:
    sentences = []
    for link in links[:MAX_NAMED_LINKS]:
        hosts = f" ({', '.join(link.hosts)})" if len(link.hosts) > 1 else ""
        sentences.append(
            f"Transfers among ranks {member_words(link.ranks)}{hosts} run at {link.gbps:.3g} GB/s, others of their "
            f"kind at {link.usual_gbps:.3g}: that rate would save {duration(link.cost_ns)} of them."
        )
    more = len(links) - len(sentences)
    return [*sentences, f"So it is with {counted(more, 'other link')}."] if more else sentences


def _experts(ranks: RankSet, load: ExpertLoad) -> list[str]:
    """A sentence about the load of the experts where an even one would save time, or where no times are known."""
    tokens, time = load.received, load.time
    if time is not None and (time < MIN_IMBALANCE or load.cost_ns < MIN_COST_SHARE * ranks.run_ns):
        return []
    if time is None and (tokens is None or tokens < MIN_IMBALANCE):
        return []
    parts = []
    if tokens is not None:
        parts.append(f"the fullest rank receives {tokens:.3g} times the mean")
    if time is not None:
        busiest = f"on the busiest rank kernels before the combine take {time:.3g} times the mean"
        parts.append(f"{busiest}, {duration(load.cost_ns)} more in all")
    where = counted(load.dispatches, "dispatch")
    return [f"In {where} to experts {', and '.join(parts)}; most often it is rank {load.fullest}."]


def _uncertain(ranks: RankSet) -> list[str]:
    clocks = ranks.clocks
    sentences = []
    unknown = [rank for rank, host in zip(ranks.ranks, clocks.host.tolist(), strict=True) if not clocks.is_known[host]]
    if unknown:
        sentences.append(f"No collective ties the clock of {_rank_words(unknown)} to that of rank {ranks.ranks[0]}.")
    attributed = ranks.waiting.attributed
    error = float(np.minimum(attributed.error, attributed.time).sum())
    total = float(attributed.time.sum())
    if error > 0.1 * total > 0:
        sentences.append(f"Of {duration(total)} of waiting in the run the clocks may have made up {duration(error)}.")
    return sentences


def _rank_words(ranks: list[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {_numbers(ranks)}"


def _numbers(ranks: list[int] | tuple[int, ...]) -> str:
    """Numbers in words: `5`, `2-7`, `1, 3, 5`; of many the first."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks[:10])) + (f" and {len(ranks) - 10} more" if len(ranks) > 10 else "")
