"""Compilations of ranks by their logs of torch.compile: which rank compiled while others did not, and waited (R5.15).

A log has times of the clock of its host, as the trace of the same process has. A wait is put down to a compilation
where the late rank compiled during it, for longer before the collective than the rank that waited: what all compile
together makes none of them late.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64, covered_within, union
from tracetui.model.table import NULL
from tracetui.model.trace import Trace
from tracetui.ranks.clocks import Clocks
from tracetui.ranks.matching import Matches
from tracetui.ranks.waiting import Waiting
from tracetui.tables.compiles import compilations, lane_spans, log_of, recompile_cause

LOG_VERSION = 1
"""Number of the layout of a summary."""
MIN_TIMES_LONGER = 2
"""Minimum time that a late rank compiled before a collective, as a multiple of that of the rank that waited."""
SAME_TIME_NS = 10_000_000_000
"""Maximum ns between the starts of one compilation on two ranks that make it together, beside its own length."""
_ADDRESS = re.compile(r"0x\w+|\d{6,}")
_NO_TIMES = np.empty(0, np.int64)

Span = tuple[Int64, Int64]
"""Starts and ends of disjoint stretches, ascending."""


@frozen(eq=True)
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


@frozen(eq=True)
class LogSummary:
    """Everything that is kept of a log."""

    rank: int | None
    """Number of the rank by its entries, None where no entry says it."""
    compilations: tuple[RankCompilation, ...]
    notes: tuple[str, ...]
    """Sentences about entries that could not be read."""

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
    origin = log_of(log).origin_ns
    listed = []
    for each in compilations(log):
        low, high = lane_spans(log_of(log), each.lane)
        spans = tuple(zip((low + origin).tolist(), (high + origin).tolist(), strict=True))
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


@frozen
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


@frozen
class Compiled:
    """The compilations of all ranks on one clock: parallel columns, one entry per compilation, by rank and time."""

    log: Int64
    """Index in the logs, which are in order of rank."""
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


@frozen
class RankTraces:
    """The waits of ranks by their traces."""

    ranks: tuple[int, ...]
    """Numbers of the ranks; none where there are logs alone."""
    clocks: Clocks
    matches: Matches
    waiting: Waiting
    compiled: Int64
    """Time in ns of the stretch before each entry in which its rank compiled."""


def find_compiled(logs: Sequence[RankLog], traces: RankTraces) -> Compiled:
    """The compilations of some logs, with the waits meanwhile where there are traces too."""
    each = tuple(compilation for log in logs for compilation in log.compilations)
    log = np.repeat(np.arange(len(logs)), [len(one.compilations) for one in logs])
    count = np.array([len(one.spans) for one in each], np.int64)
    of_span = np.repeat(np.arange(len(each)), count)
    log_of_span = log[of_span]
    low, high = _columns(each)
    for number, one in enumerate(logs):
        if one.rank in traces.ranks:
            mine = np.flatnonzero(log_of_span == number)
            index = np.full(len(mine), traces.ranks.index(one.rank))
            low[mine], high[mine] = traces.clocks.common(index, low[mine]), traces.clocks.common(index, high[mine])
    spans = [union(low[log_of_span == number], high[log_of_span == number]) for number in range(len(logs))]

    def summed(values: Int64) -> Int64:
        return np.bincount(of_span, values, len(each)).astype(np.int64)

    time, during = summed(high - low), np.zeros(len(each), np.int64)
    for number, span in enumerate(spans):
        during += (2 * summed(covered_within(*span, low, high)) > time) & (log != number)
    start = low[np.cumsum(count) - count]
    made_by, near, apart = _made_elsewhere(each, start, time)
    waits = _waits(logs, traces, spans, low, high, of_span, log_of_span)
    known = set(traces.ranks) & {one.rank for one in logs}
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


def _waits(
    logs: Sequence[RankLog],
    traces: RankTraces,
    spans: Sequence[Span],
    low: Int64,
    high: Int64,
    of_span: Int64,
    log_of_span: Int64,
) -> Int64:
    """A row per compilation: ns that others waited for its rank meanwhile, how many ranks, in how many operations.

    A wait counts where both have a log, and the rank compiled for longer before the operation than the one that waited:
    what of it lies in the wait, at most by how much it was longer.
    """
    waits = np.zeros((int(of_span.max(initial=-1)) + 1, 3), np.int64)
    if not traces.ranks:
        return waits
    charges, entries, size = traces.waiting.attributed, traces.matches.entries, len(traces.ranks)
    has_log = np.isin(traces.ranks, [one.rank for one in logs])
    key, compiled = entries.instance * size + entries.rank, traces.compiled
    late, other = (np.searchsorted(key, charges.instance * size + who) for who in (charges.late, charges.waiting))
    is_longer = compiled[late] > MIN_TIMES_LONGER * compiled[other]
    rows = np.flatnonzero(is_longer & has_log[charges.waiting])
    begin = traces.waiting.start[other]
    end = begin + traces.waiting.wait[other]
    for number, log in enumerate(logs):
        mine = rows[np.array(traces.ranks)[charges.late[rows]] == log.rank]
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
