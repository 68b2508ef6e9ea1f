"""Compilations of ranks by their logs of torch.compile: which rank compiled while others did not, and waited (R5.15).

A log has times of the clock of its host, as the trace of the same process has. A wait is put down to a compilation
where the late rank compiled during it, for longer before the collective than the rank that waited: what all compile
together makes none of them late.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tracetui.model import columns as col
from tracetui.model.intervals import Int64, covered_within, union
from tracetui.model.quantities import counted, duration
from tracetui.model.table import NULL, Column, Table, micros, numbers, texts
from tracetui.model.trace import Trace
from tracetui.tables.compilations import compilations, log_of, recompile_cause

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

LOG_VERSION = 1
"""Number of the layout of a summary."""
MIN_TIMES_LONGER = 2
"""Minimum time that a late rank compiled before a collective, as a multiple of that of the rank that waited."""
MIN_WAIT_SHARE = 0.01
"""Minimum wait for a rank that compiled, as a share of the run, that a sentence is about."""
MIN_WAIT_NS = 1_000_000
"""The same in ns; the clock of a log is no more exact."""
SAME_TIME_NS = 10_000_000_000
"""Maximum ns between the starts of one compilation on two ranks that make it together, beside its own length."""
MAX_NAMED_RANKS = 2
"""Maximum ranks that sentences are about."""
NO_LOG = (
    "No log of torch.compile of these ranks: TORCH_TRACE=FOLDER has torch write them, and --compile-log names them."
)
_ADDRESS = re.compile(r"0x\w+|\d{6,}")
_NO_TIMES = np.empty(0, np.int64)

Span = tuple[Int64, Int64]
"""Starts and ends of disjoint stretches, ascending."""


@dataclass(frozen=True)
class RankCompilation:
    """One compilation; times in ns since the epoch on the clock of the rank."""

    id: str
    """The compile id, with the number of the run where it came up several times."""
    function: str
    place: str
    """File and line in few words."""
    reason: str
    """The guards that failed, with semicolons between; empty for the first one."""
    why: str
    """The same as a clause: `size 0 of x was 3, 4`."""
    caches: str
    spans: tuple[tuple[int, int], ...]
    """Disjoint stretches in which it was at work, ascending; one at least."""

    @property
    def words(self) -> str:
        """Its function and place, or its id: `f (train.py:7)`."""
        return (f"{self.function} ({self.place})" if self.place else self.function) or self.id


@dataclass(frozen=True)
class LogSummary:
    """Everything that is kept of a log."""

    rank: int | None
    """Number of the rank by its entries, None where no entry says it."""
    compilations: tuple[RankCompilation, ...]
    notes: tuple[str, ...]
    """What could not be read."""

    def to_bytes(self) -> bytes:
        """The summary as JSON."""
        return orjson.dumps({"version": LOG_VERSION, **asdict(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> LogSummary:
        """The summary that `to_bytes` wrote.

        Raises: ValueError for other bytes.
        """
        given: dict[str, Any] = orjson.loads(data)
        if given.pop("version") != LOG_VERSION:
            raise ValueError("a summary of another version")
        listed = [each | {"spans": tuple(map(tuple, each["spans"]))} for each in given["compilations"]]
        return cls(given["rank"], tuple(RankCompilation(**each) for each in listed), tuple(given["notes"]))


def summarise_compile_log(log: Trace, rank: int | None) -> LogSummary:
    """The summary of a log that is open, whose entries name a rank."""
    slices, origin = log_of(log).slices, log_of(log).origin_ns
    listed = []
    for each in compilations(log):
        lane = log_of(log).lanes[each.lane]
        rows = np.arange(lane.first, lane.last)
        rows = rows[slices.depth[rows] == 0]
        low, high = union(slices.start[rows] + origin, slices.end[rows] + origin)
        spans = tuple(zip(low.tolist(), high.tolist(), strict=True))
        start = each.start + origin
        listed.append(
            RankCompilation(
                id=each.run,
                function=each.function,
                place=each.place,
                reason="; ".join(filter(None, (" ".join(line.split()) for line in each.reason.splitlines()))),
                why=recompile_cause([each])[0] if each.reason else "",
                caches=", ".join(f"{count:,} {state}" for state, count in sorted(each.caches.items())),
                spans=spans or ((start, start + each.time),),
            )
        )
    return LogSummary(rank, tuple(listed), tuple(log.quality.notes))


@dataclass(frozen=True, eq=False)
class RankLog:
    """The log of one rank."""

    path: str
    rank: int
    compilations: tuple[RankCompilation, ...]

    @cached_property
    def span(self) -> Span:
        """The stretches in which the rank compiled, on its own clock."""
        return union(*_columns(self.compilations))


def _columns(compilations: Sequence[RankCompilation]) -> Span:
    """Starts and ends of all stretches of some compilations, in their order."""
    spans = [span for each in compilations for span in each.spans]
    low, high = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    return low, high


@dataclass(frozen=True, eq=False)
class Compiled:
    """The compilations of all ranks on one clock: parallel columns, one entry per compilation, by rank and time."""

    log: Int64
    """Index in `RankSet.logs`, which are in order of rank."""
    each: tuple[RankCompilation, ...]
    start: Int64
    time: Int64
    alone: Int64
    """Time in ns in which no other rank compiled."""
    time_of_log: Int64
    """Time in ns in which each rank compiled, a stretch in which two compilations ran counting once."""
    alone_of_log: Int64
    together: Int64
    """Other ranks that compiled during more than half of it, or made the same one at about the same time."""
    made_by: Int64
    """Ranks that made it."""
    apart: Int64
    """Ns from its start to the nearest start of the same one on another rank, NULL where no other made it."""
    wait: Int64
    """Time in ns that others waited for the rank meanwhile, NULL where traces or logs of two ranks are not there."""
    waiting: Int64
    """Ranks that waited."""
    collectives: Int64
    """Operations that they waited in."""


def find_compiled(ranks: RankSet) -> Compiled:
    """The compilations of the logs of a set, with the waits meanwhile where it has traces too."""
    logs = ranks.logs
    each = tuple(compilation for log in logs for compilation in log.compilations)
    log = np.repeat(np.arange(len(logs)), [len(one.compilations) for one in logs])
    count = np.array([len(one.spans) for one in each], np.int64)
    of_span = np.repeat(np.arange(len(each)), count)
    log_of_span = log[of_span]
    low, high = _columns(each)
    for number, one in enumerate(logs):
        if one.rank in ranks.ranks:
            mine = np.flatnonzero(log_of_span == number)
            index = np.full(len(mine), ranks.ranks.index(one.rank))
            low[mine], high[mine] = ranks.clocks.common(index, low[mine]), ranks.clocks.common(index, high[mine])
    spans = [union(low[log_of_span == number], high[log_of_span == number]) for number in range(len(logs))]

    def summed(values: Int64) -> Int64:
        return np.bincount(of_span, values, len(each)).astype(np.int64)

    time, during = summed(high - low), np.zeros(len(each), np.int64)
    for number, span in enumerate(spans):
        during += (2 * summed(covered_within(*span, low, high)) > time) & (log != number)
    start = low[np.cumsum(count) - count]
    made_by, near, apart = _made_elsewhere(each, start, time)
    waits = _waits(ranks, spans, low, high, of_span, log_of_span)
    known = set(ranks.ranks) & {one.rank for one in logs}
    alone = _of_one(spans)
    return Compiled(
        log=log,
        each=each,
        start=start,
        time=time,
        alone=summed(covered_within(*alone, low, high)),
        time_of_log=np.array([(end - begin).sum() for begin, end in spans], np.int64),
        alone_of_log=np.array([covered_within(*alone, *span).sum() for span in spans], np.int64),
        together=np.maximum(during, near),
        made_by=made_by,
        apart=apart,
        wait=np.where(np.array([len(known) > 1 and one.rank in known for one in logs], bool)[log], waits[:, 0], NULL),
        waiting=waits[:, 1],
        collectives=waits[:, 2],
    )


def _of_one(spans: Sequence[Span]) -> Span:
    """The stretches that lie in exactly one of several spans."""
    edges = np.concatenate([each for span in spans for each in span] or [_NO_TIMES])
    change = np.concatenate(
        [np.full(len(each), sign) for span in spans for each, sign in zip(span, (1, -1), strict=True)] or [_NO_TIMES]
    )
    order = np.argsort(edges, kind="stable")
    edges, level = edges[order], np.cumsum(change[order])
    rows = np.flatnonzero(level[:-1] == 1)
    return union(edges[rows], edges[rows + 1])


def _made_elsewhere(each: Sequence[RankCompilation], start: Int64, time: Int64) -> tuple[Int64, Int64, Int64]:
    """For each compilation: ranks that made it, others that made it at about the same time, ns to the nearest of these.

    It is the same where id, function, place and reason are, apart from addresses. One rank makes it once, for its id
    has the number of the run.
    """
    keys: dict[tuple[str, ...], int] = {}
    names = [(one.id, one.function, one.place, _ADDRESS.sub("", one.why)) for one in each]
    member = np.array([keys.setdefault(name, len(keys)) for name in names], np.int64)
    made_by = np.bincount(member, minlength=len(keys))[member]
    near, apart = np.zeros(len(each), np.int64), np.full(len(each), NULL)
    order = np.lexsort((start, member))
    for rows in np.split(order, np.cumsum(np.bincount(member, minlength=len(keys)))[:-1]):
        if len(rows) > 1:
            moments, reach = start[rows], time[rows] + SAME_TIME_NS
            near[rows] = np.searchsorted(moments, moments + reach, "right") - np.searchsorted(moments, moments - reach)
            near[rows] -= 1
            gaps = np.diff(moments)
            far = np.iinfo(np.int64).max
            apart[rows] = np.minimum(np.append(far, gaps), np.append(gaps, far))
    return made_by, near, apart


def _waits(ranks: RankSet, spans: Sequence[Span], low: Int64, high: Int64, of_span: Int64, log_of_span: Int64) -> Int64:
    """A row per compilation: ns that others waited for its rank meanwhile, how many ranks, in how many operations.

    A wait counts where both have a log, and the rank compiled for longer before the operation than the one that waited:
    what of it lies in the wait, at most by how much it was longer.
    """
    waits = np.zeros((int(of_span.max(initial=-1)) + 1, 3), np.int64)
    if not len(ranks):
        return waits
    charges, entries, size = ranks.waiting.attributed, ranks.matches.entries, len(ranks)
    has_log = np.isin(ranks.ranks, [one.rank for one in ranks.logs])
    key, compiled = entries.instance * size + entries.rank, ranks.of_entries("compile")
    late, other = (np.searchsorted(key, charges.instance * size + who) for who in (charges.late, charges.waiting))
    is_longer = compiled[late] > MIN_TIMES_LONGER * compiled[other]
    rows = np.flatnonzero(is_longer & has_log[charges.waiting])
    begin = ranks.waiting.start[other]
    end = begin + ranks.waiting.wait[other]
    for number, log in enumerate(ranks.logs):
        mine = rows[np.array(ranks.ranks)[charges.late[rows]] == log.rank]
        if not len(mine):
            continue
        within = covered_within(*spans[number], begin[mine], end[mine])
        time = np.minimum(np.minimum(charges.time[mine], within), (compiled[late] - compiled[other])[mine])
        own = np.flatnonzero((log_of_span == number) & (high > begin[mine].min()) & (low < end[mine].max()))
        for row in np.unique(of_span[own]).tolist():
            span = union(low[own[of_span[own] == row]], high[own[of_span[own] == row]])
            inside = covered_within(*span, begin[mine], end[mine])
            some = np.flatnonzero((inside > 0) & (time > 0))
            share = time[some] * inside[some] / within[some]
            who, where = (len(np.unique(column[mine[some]])) for column in (charges.waiting, charges.instance))
            waits[row] = round(float(share.sum())), who, where
    return waits


# Sentences.


def compile_sentences(ranks: RankSet) -> list[str]:
    """The ranks that compiled while others waited, or of logs alone while most others did not, the worst first."""
    compiled = ranks.compiled
    if len(ranks):
        least = max(MIN_WAIT_SHARE * ranks.run_ns, MIN_WAIT_NS)
        rows, cost = np.flatnonzero(compiled.wait > 0), compiled.wait
    else:
        least = MIN_WAIT_NS
        rows = np.flatnonzero((2 * compiled.together < len(ranks.logs) - 1) & (compiled.alone > 0))
        cost = compiled.alone
    total = np.bincount(compiled.log[rows], cost[rows], len(ranks.logs))
    worst = [number for number in np.argsort(-total, kind="stable").tolist() if total[number] >= least]
    sentences = []
    for number in worst[:MAX_NAMED_RANKS]:
        mine = rows[compiled.log[rows] == number]
        mine = mine[np.argsort(-cost[mine], kind="stable")]
        what = _words(compiled, mine)
        if len(ranks):
            where = f"in {counted(int(compiled.collectives[mine].max()), 'collective')}" if len(mine) == 1 else ""
            waits = f"others waited {duration(float(total[number]))} for it meanwhile"
            tail = f": {', '.join(filter(None, (waits, where)))}"
        else:
            most = "no other rank" if not compiled.together[mine].any() else "most others"
            tail = f", {duration(float(total[number]))} of it while {most} did{'' if most[0] == 'n' else ' not'}"
        sentences.append(f"Rank {ranks.logs[number].rank} compiled {what}{tail}.")
    more = len(worst) - len(sentences)
    return [*sentences, f"So it was with {counted(more, 'other rank')}."] if more else sentences


def _words(compiled: Compiled, rows: Int64) -> str:
    """Some compilations of a rank, of which the first is named with its reason."""
    first = compiled.each[int(rows[0])]
    why = f", because {first.why}" if first.why else f" (caches: {first.caches})" if first.caches else ""
    time = duration(float(compiled.time[rows].sum()))
    if len(rows) == 1:
        return f"{first.words} for {time}{why}"
    return f"{len(rows):,} times for {time}, worst {first.words}{why}"


def log_headline(ranks: RankSet) -> str:
    """The ranks that compiled while others did not, by logs alone."""
    compiled = ranks.compiled
    count = f"{counted(len(ranks.logs), 'rank')} compiled {counted(len(compiled.each), 'time')}"
    if len(ranks.logs) < 2:
        return f"One log alone does not tell who compiled while others did not: {count}, {_longest(ranks)}."
    return (
        " ".join(compile_sentences(ranks))
        or f"No rank compiled for long while most others did not: {count}, {_longest(ranks)}."
    )


def _longest(ranks: RankSet) -> str:
    time = ranks.compiled.time_of_log
    worst = int(time.argmax())
    return f"rank {ranks.logs[worst].rank} for {duration(float(time[worst]))}" + (" at most" if len(time) > 1 else "")


def compile_remarks(ranks: RankSet) -> list[str]:
    """Sentences about logs that are left out or missing, and what the clocks of logs alone are taken for."""
    if not ranks.logs:
        return [*ranks.log_notes]
    known = {each.rank for each in ranks.logs}
    missing = [rank for rank in ranks.ranks if rank not in known]
    sentences = [*ranks.log_notes]
    if missing:
        named = f"{', '.join(map(str, missing[:10]))}{f' and {len(missing) - 10:,} more' if len(missing) > 10 else ''}"
        who = f"rank {named}" if len(missing) == 1 else f"ranks {named}"
        sentences.append(f"There is no log of torch.compile of {who}: what they compiled is not known.")
    if not len(ranks) and len(ranks.logs) > 1:
        sentences.append(
            "The ranks are taken to have one clock, as on one host; who waited stands in their traces alone."
        )
    return sentences


# Tables.


def compiles_table(ranks: RankSet) -> Table:
    """One row per compilation, the one that others waited for longest first, then the longest that no other made."""
    compiled = ranks.compiled
    is_known = compiled.wait != NULL
    table = Table(
        (
            numbers(col.RANK, [ranks.logs[number].rank for number in compiled.log.tolist()] or _NO_TIMES),
            texts(col.COMPILE_ID, [each.id for each in compiled.each]),
            texts(
                col.FUNCTION.but(help="The function that was compiled."),
                [each.function or None for each in compiled.each],
            ),
            texts(col.LINE.but(help="File and line where it begins."), [each.place or None for each in compiled.each]),
            micros(
                col.START_US.but(help="Start on the one clock, from the earliest rank, or of logs alone compilation."),
                compiled.start
                - (ranks.origin_ns if len(ranks) else int(compiled.start.min(initial=np.iinfo(np.int64).max))),
            ),
            micros(col.COMPILE_US, compiled.time),
            micros(col.ALONE_US.but(help="The part of it in which no other rank compiled."), compiled.alone),
            numbers(col.COMPILING_RANKS, compiled.together),
            numbers(
                col.RANKS.but(heading="made by", help="Ranks that made it, by id, function, line and reason."),
                compiled.made_by,
            ),
            micros(col.APART_US, compiled.apart, null=compiled.apart == NULL),
            micros(col.COMPILE_WAIT_US, compiled.wait, null=~is_known),
            numbers(
                col.COLLECTIVES.but(help="Collectives in which others waited for it."),
                np.where(is_known, compiled.collectives, NULL),
            ),
            texts(col.RECOMPILED_FOR, [each.reason or None for each in compiled.each]),
            texts(col.CACHE, [each.caches or None for each in compiled.each]),
        ),
        note=" ".join(compile_remarks(ranks)) if ranks.logs else NO_LOG,
    )
    return table.take(np.lexsort((-compiled.alone, -compiled.wait)))


def rank_columns(ranks: RankSet, numbers_: Sequence[int]) -> tuple[Column, ...]:
    """Compilations, their time, alone, and waits meanwhile, for each of some ranks; null for one without a log."""
    compiled, known = ranks.compiled, [each.rank for each in ranks.logs]
    row = np.array([known.index(each) if each in known else -1 for each in numbers_], np.int64)
    count = np.bincount(compiled.log, minlength=len(known))
    wait = np.bincount(compiled.log, np.maximum(compiled.wait, 0), len(known))
    no_wait = np.bincount(compiled.log, compiled.wait == NULL, len(known)) > 0
    help = "The part of it in which no other rank compiled."
    return (
        numbers(col.COMPILATIONS, np.append(count, NULL)[row]),
        micros(
            col.COMPILE_US.but(help="Time in which the rank compiled."),
            np.append(compiled.time_of_log, 0)[row],
            null=row < 0,
        ),
        micros(
            col.ALONE_US.but(heading="compiled alone", help=help),
            np.append(compiled.alone_of_log, 0)[row],
            null=row < 0,
        ),
        micros(col.COMPILE_WAIT_US, np.append(wait, 0)[row], null=np.append(no_wait, True)[row]),
    )


def logs_table(ranks: RankSet) -> Table:
    """One row per rank of logs that have no traces beside them, the one that compiled alone longest first."""
    compiled, known = ranks.compiled, [each.rank for each in ranks.logs]
    longest = [
        compiled.each[int(rows[compiled.time[rows].argmax()])].words if len(rows) else None
        for number in range(len(known))
        for rows in [np.flatnonzero(compiled.log == number)]
    ]
    columns = (
        numbers(col.RANK, known),
        texts(col.FILE, [ranks.shown_path(each.path) for each in ranks.logs]),
        *rank_columns(ranks, known)[:3],
        texts(col.FUNCTION.but(heading="longest", help="The function that it compiled longest."), longest),
    )
    table = Table(columns, note=" ".join(compile_remarks(ranks)), headline=log_headline(ranks))
    return table.take(np.argsort(-compiled.alone_of_log, kind="stable"))
