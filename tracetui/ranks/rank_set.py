"""The ranks of one run with everything that is computed of them, each part when it is first asked for."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.files import is_url
from tracetui.frozen import frozen
from tracetui.linking.groups import combinations
from tracetui.model.intervals import Int64
from tracetui.model.results import Failures
from tracetui.model.table import NULL
from tracetui.ranks.causes import (
    MIN_RUN_SHARE,
    MIN_TIMES_MEDIAN,
    LateRank,
    PassedOn,
    StretchExcess,
    cause_note,
    column_of,
    explained,
    late_ranks,
    main_causes,
    passed_on,
)
from tracetui.ranks.clocks import Clocks, find_clocks
from tracetui.ranks.compiling import Compiled, RankLog, RankTraces, find_compiled
from tracetui.ranks.matching import Matches, match
from tracetui.ranks.rank_runs import LeftOut, RankRun
from tracetui.ranks.rank_summary import OPERATIONS, Flag, RankSummary
from tracetui.ranks.waiting import Charges, Waiting, bus_bandwidth, find_waiting, known_transfer

# The load of the ranks of experts: the tokens that the fullest receives, and the time that it takes (R5.14).
#
# An all-to-all dispatches tokens to their experts where the next one of its group brings as much back: in proportion,
# for the two may differ in type. Kernels of serving engines say by their names which they are.

MIN_COST_SHARE = 0.01
"""Minimum time that an even load would save, as a share of the run."""
MIN_IMBALANCE = 1.1
"""Minimum of the largest load as a multiple of the mean."""
_WHOLE_NUMBERS = re.compile(r"\b(?:long|int|int32|int64|short|byte)\b", re.IGNORECASE)
"""Types of which numbers of tokens are exchanged, not tokens."""
_DISPATCH = re.compile(r"dispatch", re.IGNORECASE)
_COMBINE = re.compile(r"combine", re.IGNORECASE)


@frozen(eq=True)
class ExpertLoad:
    """The load of the experts over a run."""

    dispatches: int
    """All-to-alls that brought tokens to experts, and of which a second one brought the results back."""
    received: float | None
    """Median of the most elements that a rank received as a multiple of the mean; None where they are not recorded."""
    time: float | None
    """The same of the time that kernels took from the dispatch to its combine; None where other collectives ran."""
    fullest: int
    """Number of the rank that most often had the largest load."""
    cost_ns: float
    """Time that the busiest rank took beyond the mean one, summed, in ns."""


@frozen
class _Loads:
    """Columns of the entries of the operations."""

    first: Int64
    """Index of the first entry of each operation, and the end."""
    rank: Int64
    start: Int64
    end: Int64
    received: Int64
    bytes: Int64
    stretch: Int64
    busy: Int64

    def of_instance(self, column: Int64, instance: int) -> Int64:
        """A column of the ranks of one operation."""
        return column[self.first[instance] : self.first[instance + 1]]


def expert_load(ranks: RankSet) -> ExpertLoad | None:
    """The load of the experts, None where no all-to-all is known to be a dispatch of tokens."""
    entries = ranks.matches.entries
    columns = {name: ranks.of_entries(name) for name in ("received", "bytes", "stretch", "busy")}
    loads = _Loads(ranks.matches.first, entries.rank, entries.start, entries.end, **columns)
    received, times, fullest = [], [], []
    cost = 0.0
    for dispatch, combine in _pairs(ranks, loads):
        tokens, busy = loads.of_instance(loads.received, dispatch), _busy_between(loads, dispatch, combine)
        is_recorded = bool((tokens != NULL).all() and tokens.sum() > 0)
        if is_recorded:
            received.append(float(tokens.max() / tokens.mean()))
        if busy is not None:
            times.append(float(busy.max() / busy.mean()))
            cost += float(busy.max() - busy.mean())
        load = tokens if is_recorded else busy
        if load is not None:
            fullest.append(int(loads.of_instance(loads.rank, dispatch)[load.argmax()]))
    if not fullest:
        return None
    return ExpertLoad(
        dispatches=len(fullest),
        received=float(np.median(received)) if received else None,
        time=float(np.median(times)) if times else None,
        fullest=ranks.ranks[int(np.bincount(fullest).argmax())],
        cost_ns=cost,
    )


def _pairs(ranks: RankSet, loads: _Loads) -> Iterator[tuple[int, int]]:
    """Each dispatch of tokens with its combine, as numbers of operations."""
    instances = ranks.matches.instances
    is_tokens = np.array([not _WHOLE_NUMBERS.search(each) for each in ranks.matches.words], bool)
    rows = np.flatnonzero((instances.operation == OPERATIONS.index("all_to_all")) & (instances.ranks > 1))
    rows = rows[is_tokens[instances.token[rows]] & ~instances.is_partial[rows]]
    order = np.lexsort((loads.start[loads.first[rows]], instances.group[rows]))
    pending: int | None = None
    for row in rows[order].tolist():
        if pending is None or instances.group[pending] != instances.group[row]:
            pending = row
        elif _are_pair(ranks, loads, pending, row):
            yield pending, row
            pending = None
        else:
            pending = row


def _are_pair(ranks: RankSet, loads: _Loads, dispatch: int, combine: int) -> bool:
    """True where every rank gives in the second what it received in the first, or where their names say so."""
    if not np.array_equal(loads.of_instance(loads.rank, dispatch), loads.of_instance(loads.rank, combine)):
        return False
    names = [_kernel_name(ranks, loads, each) for each in (dispatch, combine)]
    if _DISPATCH.search(names[0]) and _COMBINE.search(names[1]):
        return True
    received, given = loads.of_instance(loads.received, dispatch), loads.of_instance(loads.bytes, combine)
    if (received == NULL).any() or (given == NULL).any() or received.sum() == 0 or given.sum() == 0:
        return False
    return bool(np.allclose(received / received.sum(), given / given.sum(), rtol=1e-6, atol=1e-9))


def _kernel_name(ranks: RankSet, loads: _Loads, instance: int) -> str:
    row = int(loads.first[instance])
    own = ranks.summaries[int(loads.rank[row])]
    return own.names[int(own.collectives.name[ranks.matches.entries.row[row]])]


def _busy_between(loads: _Loads, dispatch: int, combine: int) -> Int64 | None:
    """Time in ns that kernels took on each rank between two collectives.

    None where another collective ended between them, and where nothing ran.
    """
    begun = loads.of_instance(loads.start, combine) - loads.of_instance(loads.stretch, combine)
    busy = loads.of_instance(loads.busy, combine)
    return busy if (begun == loads.of_instance(loads.end, dispatch)).all() and busy.sum() > 0 else None


# Pairs and groups of ranks that transfer slower than others of their kind (R5.13).
#
# Bus bandwidth is compared between operations of one name, size and type among as many ranks, on as many hosts: what
# differs is the way between them.

Kind = tuple[bool, int, int, int, int]
"""True for a transfer between two ranks, operation, token, ranks and hosts."""

MIN_OPERATIONS = 5
"""Minimum operations of one kind whose median is taken."""
MAX_USUAL_SHARE = 0.8
"""Share of the others' bandwidth below which a link is slow."""
MIN_LINK_COST_SHARE = 0.01
"""Minimum time that the rate of the others would save, as a share of the run."""
MAX_CLOCK_SHARE = 0.1
"""Share of a transfer by which the clocks may make it wrong, beyond which it is not compared."""


@frozen(eq=True)
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
    """Time in ns that the rate of the others would save."""


@frozen(eq=True)
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
    links = [_slow_link(ranks, members, kinds, of_kind) for members, kinds in rates.items()]
    least = max(MIN_LINK_COST_SHARE * ranks.run_ns, 1)
    return sorted((each for each in links if each and each.cost_ns >= least), key=lambda each: -each.cost_ns)


def _rates(ranks: RankSet) -> dict[tuple[int, ...], dict[Kind, _Rate]]:
    """The rate of each pair and each group of ranks by the kind of operation."""
    matches, transfer = ranks.matches, ranks.transfer[0]
    instances, entries, first = matches.instances, matches.entries, matches.first
    bandwidth = bus_bandwidth(matches, ranks.bytes_of_instances, transfer)
    # Operations whose ranks are all here, and during which no other communication ran.
    contended = (entries.flags & int(Flag.CONTENDED)) != 0
    alone = ~np.maximum.reduceat(contended, first[:-1]) if len(first) > 1 else np.zeros(0, bool)
    whole = (instances.of != NULL) & (instances.ranks == instances.of)
    measured = np.flatnonzero(np.isfinite(bandwidth) & alone & whole)
    is_pair = entries.source[first[measured]] >= 0
    ends = entries.source[first[measured]], entries.target[first[measured]]
    way = np.where(is_pair, -1, instances.group[measured]), np.minimum(*ends), np.maximum(*ends)
    of_way = combinations(*way).member
    of_kind = combinations(of_way, instances.operation[measured], instances.token[measured])
    rates: dict[tuple[int, ...], dict[Kind, _Rate]] = defaultdict(dict)
    for number in range(len(of_kind)):
        rows = measured[of_kind.member == number]
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


def _slow_link(
    ranks: RankSet,
    members: tuple[int, ...],
    kinds: dict[Kind, _Rate],
    of_kind: dict[Kind, dict[tuple[int, ...], _Rate]],
) -> SlowLink | None:
    """A link that is slower than the median of the others in all its kinds; None for any other."""
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


# A host of which all ranks are late: its clock, its input, its neighbours (R5.9).
#
# None of its ranks need stand out alone, since they share the blame.

MIN_RANK_SHARE = 0.25
"""Share of an equal part of the blame that every rank of the host must have; with less it is not all of them."""


@frozen(eq=True)
class LateHost:
    """A host of which all ranks are late, with the causes."""

    host: int
    """Index of the host."""
    ranks: tuple[int, ...]
    """Indices of its ranks."""
    caused: float
    """Time in ns that ranks of other hosts waited for them."""
    longest: float
    """The largest part of that which is of one rank."""
    collectives: int
    """Collectives in which they did."""
    causes: tuple[tuple[str, float], ...]
    """Causes with their excess in ns, the largest first."""
    note: str


def find_late_host(
    summaries: Sequence[RankSummary], matches: Matches, waiting: Waiting, host: Int64, run_ns: int
) -> LateHost | None:
    """The host whose ranks all make those of other hosts wait, for one cause, where one stands out; else None."""
    hosts, ranks = int(host.max(initial=-1)) + 1, len(summaries)
    if hosts < 2:
        return None
    attributed = waiting.root
    between = host[attributed.waiting] != host[attributed.late]
    caused = np.bincount(host[attributed.late[between]], attributed.time[between], hosts)
    error = np.bincount(host[attributed.late[between]], np.minimum(attributed.error, attributed.time)[between], hosts)
    worst = int(caused.argmax())
    members = np.flatnonzero(host == worst)
    others = np.delete(caused, worst)
    least = MIN_RUN_SHARE * run_ns * (ranks - len(members))
    if len(members) < 2 or caused[worst] < max(least, 1, error[worst]):
        return None
    if caused[worst] < MIN_TIMES_MEDIAN * float(np.median(others)):
        return None
    # Each of its ranks is late beyond what the clocks may have made up.
    certain = np.maximum(attributed.time - attributed.error, 0)
    each = np.bincount(attributed.late[between], certain[between], ranks)[members]
    if each.min() <= 0 or each.min() < MIN_RANK_SHARE * each.sum() / len(members):
        return None
    by_host = between & (host[attributed.late] == worst)
    blamed = np.bincount(attributed.instance[by_host], minlength=len(matches.instances)) > 0
    entries = matches.entries
    rows = np.flatnonzero((host[entries.rank] == worst) & blamed[entries.instance])
    excess = StretchExcess.of(summaries, matches, waiting, host[entries.rank] == worst)
    causes, names = explained(summaries, matches, excess, rows)
    of_ranks = (rows[entries.rank[rows] == member] for member in members.tolist())
    of_members = [explained(summaries, matches, excess, each)[0] for each in of_ranks]
    if causes and not set.intersection(*(set(main_causes(each)) for each in of_members)):
        return None
    return LateHost(
        host=worst,
        ranks=tuple(members.tolist()),
        caused=float(caused[worst]),
        longest=float(np.bincount(attributed.waiting[by_host], attributed.time[by_host]).max(initial=0.0)),
        collectives=int(blamed.sum()),
        causes=causes,
        note=cause_note(causes, names),
    )


@frozen
class RankSet:
    """Summaries of the ranks of a run, in order of rank."""

    run: RankRun
    summaries: tuple[RankSummary, ...]
    folder: str = ""
    """Folder that was asked for, which paths are shown from."""
    logs: tuple[RankLog, ...] = ()
    """Logs of torch.compile, in order of rank; without summaries these alone are the set."""
    log_notes: tuple[str, ...] = ()
    """Sentences about logs that are not used."""
    failures: Failures = field(default_factory=Failures, init=False)
    """The analyses that failed."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of the ranks."""
        return self.run.ranks

    def __len__(self) -> int:
        return len(self.summaries)

    @property
    def hosts(self) -> list[str | None]:
        """The host of each rank as its file or its name says it."""
        return [file.host for file in self.run.files]

    @cached_property
    def matches(self) -> Matches:
        """The collectives of the ranks, matched."""
        return match(self.summaries, self.ranks, self.hosts)

    @cached_property
    def clocks(self) -> Clocks:
        """The one clock of all ranks."""
        return find_clocks(self.matches, self.hosts, [each.header.base_ns is not None for each in self.summaries])

    @cached_property
    def waiting(self) -> Waiting:
        """The waits of all ranks."""
        return find_waiting(self.matches, self.clocks)

    @cached_property
    def late(self) -> list[LateRank]:
        """The ranks that stand out, the latest first."""
        return late_ranks(self.summaries, self.matches, self.waiting, self.clocks, self.run_ns)

    @cached_property
    def passed_on(self) -> dict[int, PassedOn]:
        """Ranks that passed the delay of another one on, by index."""
        return passed_on(self.waiting, self.late, len(self), self.run_ns)

    def attributed_to(self, index: int) -> Charges:
        """The waits that tell where a rank was late: of one behind later ranks those that would be without these."""
        is_hidden = any(each.index == index and each.behind for each in self.late)
        return self._attributed_without_latest if is_hidden else self.waiting.attributed

    @cached_property
    def _attributed_without_latest(self) -> Charges:
        fewer, instances = self.matches.without([each.index for each in self.late if not each.behind])
        attributed = find_waiting(fewer, self.clocks).attributed
        return replace(attributed, instance=instances[attributed.instance])

    @cached_property
    def usual(self) -> StretchExcess:
        """The excess of each stretch over that of the median rank of its operation."""
        return StretchExcess.of(self.summaries, self.matches, self.waiting)

    @cached_property
    def late_host(self) -> LateHost | None:
        """A host of which all ranks are late, where one stands out."""
        return find_late_host(self.summaries, self.matches, self.waiting, self.clocks.host, self.run_ns)

    @cached_property
    def window(self) -> tuple[int, int]:
        """The time that all ranks recorded, on the one clock in ns; empty where they have none in common."""
        rank = np.arange(len(self))
        low = self.clocks.common(rank, np.array([each.window[0] for each in self.summaries], np.int64))
        high = self.clocks.common(rank, np.array([each.window[1] for each in self.summaries], np.int64))
        return int(low.max(initial=0)), max(int(high.min()), int(low.max())) if len(high) else 0

    @cached_property
    def origin_ns(self) -> int:
        """The start of the earliest rank on the one clock, in ns, 0 without ranks."""
        low = np.array([each.window[0] for each in self.summaries], np.int64)
        return int(self.clocks.common(np.arange(len(self)), low).min()) if len(low) else 0

    @cached_property
    def step_of_instances(self) -> Int64:
        """Number of the step of each operation, NULL outside of all: that of the first rank which has one."""
        first = self.matches.first[:-1]
        step = self.of_entries("step")
        number = np.full(len(step), NULL, np.int64)
        for index, summary in enumerate(self.summaries):
            mine = (self.matches.entries.rank == index) & (step >= 0)
            number[mine] = summary.steps.number[step[mine]]
        return np.maximum.reduceat(number, first) if len(first) else first

    @cached_property
    def bytes_of_instances(self) -> Int64:
        """Size of each operation in bytes, the largest of its ranks; NULL where none is recorded."""
        first = self.matches.first[:-1]
        return np.maximum.reduceat(self.of_entries("bytes"), first) if len(first) else first

    @cached_property
    def transfer(self) -> tuple[Int64, int]:
        """The transfer of each operation in ns, NULL where it is not known, and the waits for absent ranks at most."""
        return known_transfer(self.matches, self.waiting)

    @cached_property
    def slow_links(self) -> list[SlowLink]:
        """Pairs and groups of ranks that transfer slower than others of their kind, the most costly first."""
        return slow_links(self)

    @cached_property
    def expert_load(self) -> ExpertLoad | None:
        """The load of the ranks of experts, None without a dispatch of tokens."""
        return expert_load(self)

    @cached_property
    def compiled(self) -> Compiled:
        """The compilations of all logs, with the waits of others meanwhile."""
        own = self.of_entries("compile")
        return find_compiled(self.logs, RankTraces(self.ranks, self.clocks, self.matches, self.waiting, own))

    def of_entries(self, name: str) -> Int64:
        """A column of the ranks' collectives in the order of the entries."""
        return column_of(self.summaries, self.matches, name)

    def shown_path(self, path: str) -> str:
        """A path as it is shown: from the folder that was asked for, where it lies below it."""
        if not self.folder:
            return path
        if is_url(self.folder):
            return path.removeprefix(self.folder.rstrip("/") + "/")
        below = os.path.relpath(path, self.folder)
        return path if below.startswith(os.pardir) else below

    @property
    def run_ns(self) -> int:
        """Length in ns of the time that all ranks recorded."""
        return self.window[1] - self.window[0]

    @property
    def left_out(self) -> list[LeftOut]:
        """Files that are no row, and those of which only a part could be read, each with the reason."""
        cut = [LeftOut(each.header.path, f"used up to its end: it {each.loss}") for each in self.summaries if each.loss]
        return [*cut, *self.run.left_out]


def rank_set(
    run: RankRun,
    summaries: Sequence[RankSummary],
    folder: str = "",
    logs: Sequence[RankLog] = (),
    log_notes: Sequence[str] = (),
) -> RankSet:
    """The set of a run, the summaries of its files, and logs of torch.compile."""
    of_rank = {each.rank: each for each in logs}
    named = [each.of_rank(file.path, file.offset) for file, each in zip(run.files, summaries, strict=True)]
    compiling = [
        each.compiling(of_rank[file.rank].span) if file.rank in of_rank else each
        for file, each in zip(run.files, named, strict=True)
    ]
    return RankSet(run, tuple(compiling), folder, tuple(sorted(logs, key=lambda each: each.rank)), tuple(log_notes))


# Ranks that are late in turn, one in each step, so that none stands out over the run (R5.9).

MIN_STEP_SHARE = 0.6
"""Minimum share of the waiting in a step that is for one rank."""
MAX_TURNS = 16
"""Maximum steps after which the same rank is late again."""


def caused_by_step(ranks: RankSet) -> tuple[list[int], NDArray[np.float64]]:
    """Numbers of the steps, and the time in ns that others waited for each rank (column) in each step (row)."""
    attributed, count = ranks.waiting.attributed, len(ranks)
    steps = sorted({number for each in ranks.summaries for number in each.steps.number.tolist()})
    number = ranks.step_of_instances[attributed.instance]
    row = np.searchsorted(steps, number) if steps else np.zeros(0, np.int64)
    in_step = number != NULL if steps else np.zeros(len(number), bool)
    cell = row[in_step] * count + attributed.late[in_step] if steps else row
    sums = np.bincount(cell, attributed.time[in_step], len(steps) * count)
    return steps, sums.astype(np.float64).reshape(len(steps), count)


def in_turn(ranks: RankSet) -> list[int]:
    """Ranks of which one after another is late in a step, in their order, at least twice; none where this is not so."""
    _, caused = caused_by_step(ranks)
    if len(caused) < 4 or len(ranks) < 2:
        return []
    worst, total = caused.argmax(axis=1), caused.sum(axis=1)
    least = MIN_RUN_SHARE * ranks.run_ns / len(caused) * (len(ranks) - 1)
    most = caused[np.arange(len(caused)), worst]
    if not ((most >= MIN_STEP_SHARE * total) & (most >= least)).all():
        return []
    for period in range(2, min(MAX_TURNS, len(worst) // 2) + 1):
        if (worst[period:] == worst[:-period]).all() and len(set(worst[:period].tolist())) == period:
            return [ranks.ranks[index] for index in worst[:period].tolist()]
    return []
