"""The moment in which a rank came late to a collective, beside a rank that came in time (R5.12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64, TimeRange
from tracetui.model.quantities import duration, size
from tracetui.model.table import NULL
from tracetui.model.trace import Float64
from tracetui.ranks.causes import name_excess
from tracetui.ranks.rank_summary import PHASES, group_words

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet

SPLIT_WORDS = ("kernels", "extra", "input", "host", "communication")
"""The names of the parts of a stretch, in the order of `StretchSplit.parts`."""


_COLUMNS = {"kernels": "busy", "extra": "busy", "input": "input", "host": "host", "communication": "comm"}
"""What is known of the time before a collective that tells of each cause."""
MIN_SHOWN_WAIT_SHARE = 0.5
"""Minimum wait of the rank that a late one is shown beside, as a share of that of the first one to come."""


@frozen(eq=True)
class StretchSplit:
    """The time of a rank before a collective, since the end of the symmetric one before; in ns."""

    length: float
    parts: tuple[float, float, float, float, float]
    """Kernels, extra calls beyond those of the other rank, input, host, communication; they sum to the length."""

    @property
    def words(self) -> str:
        """For example `12.10 ms: kernels 12.00 ms, host 0.10 ms`."""
        parts = [f"{name} {duration(part)}" for name, part in zip(SPLIT_WORDS, self.parts, strict=True) if part >= 500]
        return duration(self.length) + (f": {', '.join(parts)}" if parts else "")


@frozen(eq=True)
class LateMoment:
    """A collective that one rank came late to, and another one in time."""

    instance: int
    late: int
    """Index of the rank that came late."""
    beside: int
    """Index of the rank that it is compared with: the median one of those that waited, where one is."""
    arrivals: tuple[int, int]
    """Arrivals of the two, that of the late rank last, in ns on the one clock."""
    error: float
    """Ns by which their clocks may be wrong against each other."""
    splits: tuple[StretchSplit, StretchSplit]
    """The stretches before; the late rank's last."""
    window: tuple[int, int]
    """From the start of the longer stretch to the last end, in ns on the one clock."""
    what: str
    """The collective in words."""

    @property
    def delay(self) -> int:
        """Ns by which the late rank arrived later, below 0 where it arrived first."""
        return self.arrivals[1] - self.arrivals[0]


def entry_of(ranks: RankSet, instance: int, index: int) -> int:
    """The entry of a rank in an operation, -1 where it has no part in it."""
    entries, first = ranks.matches.entries, ranks.matches.first
    low, high = int(first[instance]), int(first[instance + 1])
    rows = np.flatnonzero(entries.rank[low:high] == index)
    return low + int(rows[0]) if len(rows) else -1


def late_instances(ranks: RankSet, index: int) -> Int64:
    """The operations in which others waited for a rank, in order of time."""
    attributed = ranks.attributed_to(index)
    instance = np.unique(attributed.instance[attributed.late == index])
    start = ranks.waiting.start[ranks.matches.first[:-1][instance]]
    in_order: Int64 = instance[np.argsort(start, kind="stable")]
    return in_order


def worst_instance(ranks: RankSet, index: int, waiting: int | None = None) -> int:
    """The operation in which others, or one of them, waited longest for what a rank did before it; -1 for none.

    What the clocks may have made up does not count, nor what it was late already because of operations before: a wait
    counts as far as the rank took longer than the waiting one since the symmetric operation before, first in the cause
    for which it is late. Where nothing is left, the longest wait in sum.
    """
    attributed = ranks.attributed_to(index) if waiting is None else ranks.waiting.attributed
    mine = attributed.late == index
    if waiting is not None:
        mine &= attributed.waiting == waiting
    if not mine.any():
        return -1
    instance, waited = attributed.instance[mine], attributed.time[mine].astype(np.float64)
    certain = np.maximum(waited - attributed.error[mine], 0.0)
    causes = next((each.causes for each in ranks.late if each.index == index), ())
    columns = [_COLUMNS[cause] for cause, _ in causes[:1] if cause in _COLUMNS]
    for column in (*columns, "stretch"):
        own = np.minimum(certain, _longer(ranks, column, instance, attributed.waiting[mine], index))
        if own.any():
            return int(np.bincount(instance, own).argmax())
    return int(np.bincount(instance, certain if certain.any() else waited).argmax())


def _longer(ranks: RankSet, column: str, instance: Int64, waiting: Int64, late: int) -> Float64:
    """By how much longer a rank took before each operation, in all or for a cause, than the one that waited for it.

    In ns, at least 0.
    """
    entries = ranks.matches.entries
    key = entries.instance * len(ranks) + entries.rank
    order = np.argsort(key, kind="stable")

    def took(of: Int64 | int) -> Float64:
        rows = order[np.minimum(np.searchsorted(key[order], instance * len(ranks) + of), len(order) - 1)]
        return np.asarray(ranks.of_entries(column)[rows].astype(np.float64))

    return np.maximum(took(late) - took(waiting), 0.0)


def caused_in(ranks: RankSet, index: int, instance: int) -> tuple[float, float]:
    """Time in ns that others waited for a rank in an operation, and in all."""
    attributed = ranks.attributed_to(index)
    mine = attributed.late == index
    there = mine & (attributed.instance == instance)
    return float(attributed.time[there].sum()), float(attributed.time[mine].sum())


def late_moment(ranks: RankSet, instance: int, late: int, beside: int | None = None) -> LateMoment | None:
    """The moment of a rank in an operation beside another rank; without one beside one that waited there for long.

    That is the usual one or the median one, if it waited at least half as long as the first. None where no other rank
    took part.
    """
    entries, first = ranks.matches.entries, ranks.matches.first
    row = entry_of(ranks, instance, late)
    other = -1 if beside is None else entry_of(ranks, instance, beside)
    if beside is None:
        other = _waited_longest(ranks, instance, late, row)
    if other < 0 or other == row:
        others = np.arange(int(first[instance]), int(first[instance + 1]))
        others = others[others != row]
        other = int(others[np.argmin(ranks.waiting.start[others])]) if len(others) else -1
    if row < 0 or other < 0:
        return None
    pair = np.array([other, row], np.int64)
    clocks, start, end = ranks.clocks, ranks.waiting.start[pair], ranks.waiting.end[pair]
    stretch = ranks.of_entries("stretch")[pair]
    known = [ranks.summaries[each].window for each in entries.rank[pair].tolist()]
    lows = clocks.common(entries.rank[pair], np.array([window[0] for window in known], np.int64))
    low = max(int((start - stretch).min()), int(lows.max()))
    return LateMoment(
        instance=instance,
        late=late,
        beside=int(entries.rank[other]),
        arrivals=(int(start[0]), int(start[1])),
        error=float(clocks.between(entries.rank[pair[:1]], entries.rank[pair[1:]])[0]),
        splits=_splits(ranks, pair),
        window=(min(low, int(start.min())), int(end.max())),
        what=operation_words(ranks, instance),
    )


def _waited_longest(ranks: RankSet, instance: int, late: int, row: int) -> int:
    """The entry beside which a rank was late: the usual, the median or the middle one of those that waited for long.

    -1 where none came before it.
    """
    first, start = ranks.matches.first, ranks.waiting.start
    rows = np.arange(int(first[instance]), int(first[instance + 1]))
    before = start[row] - start[rows] if row >= 0 else np.zeros(len(rows), np.int64)
    long = rows[(before > 0) & (before >= MIN_SHOWN_WAIT_SHARE * before.max(initial=0))]
    # The rank that is most often the median one where a rank came last, -1 for none.
    entries = ranks.matches.entries
    rows = np.flatnonzero((entries.rank == late) & ranks.waiting.is_last)
    median = ranks.usual.median[rows]
    others = entries.rank[median[median >= 0]]
    usual = int(np.bincount(others).argmax()) if len(others) else -1
    for each in (entry_of(ranks, instance, usual) if usual >= 0 else -1, int(ranks.usual.median[row])):
        if each in long:
            return each
    return int(long[np.argsort(start[long], kind="stable")[len(long) // 2]]) if len(long) else -1


def _splits(ranks: RankSet, pair: Int64) -> tuple[StretchSplit, StretchSplit]:
    """The stretches of the rank in time and of the late one; what the late one ran more often is extra."""
    columns = {
        name: ranks.of_entries(name)[pair].astype(float) for name in ("stretch", "input", "host", "busy", "comm")
    }
    names = name_excess(ranks.summaries, ranks.matches, pair[1:], pair[:1])
    beyond = max(float(columns["busy"][1] - columns["busy"][0]), 0.0) * names.extra_share
    first, second = (
        StretchSplit(
            float(columns["stretch"][side]),
            (
                float(columns["busy"][side]) - extra,
                extra,
                float(columns["input"][side]),
                float(columns["host"][side]),
                float(columns["comm"][side]),
            ),
        )
        for side, extra in ((0, 0.0), (1, beyond))
    )
    return first, second


def operation_words(ranks: RankSet, instance: int) -> str:
    """An operation in words: `all_reduce of 64.0 MiB in TP 0-7, step 4, backward`."""
    matches = ranks.matches
    entry = int(matches.first[instance])
    rank, row = int(matches.entries.rank[entry]), int(matches.entries.row[entry])
    own = ranks.summaries[rank]
    words = [own.names[int(own.collectives.name[row])]]
    bytes_ = int(ranks.bytes_of_instances[instance])
    if bytes_ != NULL:
        words[0] += f" of {size(bytes_)}"
    words[0] += f" in {group_words(matches.groups[int(matches.instances.group[instance])])}"
    step = int(ranks.step_of_instances[instance])
    if step != NULL:
        words.append(f"step {step}")
    if phase := PHASES[int(own.collectives.phase[row])]:
        words.append(phase)
    return ", ".join(words)


def moment_sentences(ranks: RankSet, moment: LateMoment) -> tuple[str, str]:
    """A sentence about the delay of a late rank, and one about the stretches of both ranks before it."""
    late, beside = ranks.ranks[moment.late], ranks.ranks[moment.beside]
    error = f" (± {duration(moment.error)} by their clocks)" if moment.error else ""
    if moment.delay >= 0:
        delay = f"Rank {late} arrives {duration(moment.delay)} later{error} than rank {beside} at {moment.what}."
        caused, _ = caused_in(ranks, moment.late, moment.instance)
        delay += f" Others wait {duration(caused)} for it there." if caused else ""
    else:
        delay = f"Rank {late} arrives {duration(-moment.delay)} before{error} rank {beside} at {moment.what}."
    first, second = moment.splits
    return delay, f"Before it rank {beside} took {first.words}; rank {late} took {second.words}."


def range_of(ranks: RankSet, index: int, window: tuple[int, int]) -> TimeRange:
    """A stretch of the one clock in the trace of a rank, from the start of its recording."""
    begin = ranks.summaries[index].header.begin_ns or 0
    low, high = (int(each) for each in ranks.clocks.own(np.array([index, index]), np.array(window, np.int64)))
    return TimeRange(low - begin, max(high - begin, low - begin + 1))


def top_waits(ranks: RankSet, index: int, caused: bool, limit: int) -> Sequence[tuple[int, float, int]]:
    """The ranks that waited for a rank, or that it waited for, with the time in ns and the number of operations."""
    attributed = ranks.waiting.attributed
    mine, others = (attributed.late, attributed.waiting) if caused else (attributed.waiting, attributed.late)
    of_rank = mine == index
    time = np.bincount(others[of_rank], attributed.time[of_rank], len(ranks))
    count = np.bincount(others[of_rank], minlength=len(ranks))
    order = np.argsort(-time, kind="stable")[:limit].tolist()
    return [(each, float(time[each]), int(count[each])) for each in order if time[each] > 0]
