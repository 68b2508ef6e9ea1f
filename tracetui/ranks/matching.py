"""Matching of the collectives of ranks (R5.3).

They are matched by the id that all ranks of an operation write, else by group and sequence number, else by order,
where one rank may have a hole. A group is its name and its members, since names are numbers that repeat between
disjoint groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import combinations, count_within
from tracetui.model.intervals import Bool, Int64, run_starts
from tracetui.model.table import NULL, Strings
from tracetui.ranks.rank_summary import (
    OPERATIONS,
    POINT_TO_POINT,
    SYMMETRIC,
    UNEVEN,
    CommGroup,
    Flag,
    RankSummary,
    is_one_of,
)

# Two ranks' collectives of one group laid beside each other where order is all that is recorded (R5.3).
#
# One may have begun to record later, or have lost some. Collectives end on all ranks at nearly one time, so the right
# shift is the one at which names agree and the ends keep their distance, whatever the clocks say.

MIN_AGREEMENT = 0.9
"""Minimum share of names that agree at a shift."""
MAX_EXTRA_SHIFT = 64
"""Shifts tried beyond the difference of the two lengths."""
MAX_BAD_SHARE = 0.02
"""Share of pairs that may disagree before a hole is looked for."""
STEADY = 0.05
"""Share of the usual distance between two ends by which ends may vary where no other shift is tried."""


@frozen
class Track(Parallel):
    """The collectives of a rank in a group, in order: parallel arrays."""

    token: Int64
    """Number of its operation, elements and type; equal on all ranks."""
    end: Int64
    """In ns on the rank's own clock."""


def aligned(first: Track, other: Track, same_clock: bool = False) -> Int64:
    """The index in `first` of each collective of `other`, -1 for none."""
    shift = _best_shift(first, other, same_clock)
    if shift is None:
        return np.full(len(other), -1, np.int64)
    index = np.arange(len(other)) + shift
    index[(index < 0) | (index >= len(first))] = -1
    return _around_holes(first, other, index)


def _best_shift(first: Track, other: Track, same_clock: bool) -> int | None:
    """The number to add to an index of `other`; None where no shift makes the names agree.

    Of two tracks of one length whose names agree as they are, another shift has to bring the ends nearer not only for
    most pairs: a few short steps end at odd times on a busy machine, and one long step tells them apart.
    """
    if len(other) == 0:
        return None
    gap = _usual_gap(first)
    agreement, unshifted, unshifted_mean = _compared(first, other, 0, same_clock)
    is_whole = len(first) == len(other) and agreement == 1
    if is_whole and unshifted <= STEADY * gap:
        return 0
    reach = len(first) - len(other)
    low, high = -min(MAX_EXTRA_SHIFT, len(other) - 1), min(reach + MAX_EXTRA_SHIFT, len(first) - 1)
    best: tuple[float, int, int] | None = None
    for shift in range(low, high + 1):
        agreement, spread, mean = _compared(first, other, shift, same_clock)
        if agreement < MIN_AGREEMENT or (is_whole and mean > unshifted_mean):
            continue
        # What is spread no wider than the clock's resolution is equally good; then the longer overlap counts.
        rank = (round(spread / max(STEADY * gap, 1.0)), abs(shift - (reach if shift > reach else min(shift, 0))), shift)
        if best is None or rank < best:
            best = rank
    if best is not None:
        return best[2]
    return 0 if len(first) == len(other) == 1 and first.token[0] == other.token[0] else None


def _compared(first: Track, other: Track, shift: int, same_clock: bool) -> tuple[float, float, float]:
    """Share of names that agree at a shift, and how far the ends are from keeping their distance: median, mean, ns."""
    low, high = max(0, -shift), min(len(other), len(first) - shift)
    # A few pairs at the ends agree by chance.
    if high - low < max(1, min(len(first), len(other)) // 2):
        return 0.0, np.inf, np.inf
    mine = slice(low + shift, high + shift)
    agreement = float(np.mean(first.token[mine] == other.token[low:high]))
    apart = other.end[low:high] - first.end[mine]
    middle = 0 if same_clock else int(np.median(apart - apart[0])) + int(apart[0])
    distance = np.abs(apart - middle)
    return agreement, float(np.median(distance)), float(np.mean(distance))


def _usual_gap(track: Track) -> float:
    return float(np.median(np.diff(track.end))) if len(track) > 1 else 0.0


def _around_holes(first: Track, other: Track, index: Int64) -> Int64:
    """The index corrected where one of the two has a hole: behind it the pairs are those that end together."""
    paired = np.flatnonzero(index >= 0)
    apart = other.end[paired] - first.end[index[paired]]
    middle = int(np.median(apart - apart[0])) + int(apart[0])
    reach = _usual_gap(first) / 2
    good = (np.abs(apart - middle) <= reach) & (first.token[index[paired]] == other.token[paired])
    if np.count_nonzero(~good) <= MAX_BAD_SHARE * len(paired):
        return index
    nearest = _nearest(first.end, other.end - middle)
    distance = np.abs(other.end - middle - first.end[nearest])
    close = np.flatnonzero((distance <= reach) & (first.token[nearest] == other.token))
    # Of several that are nearest to one the closest is its partner.
    order = close[np.lexsort((distance[close], nearest[close]))]
    order = order[np.diff(nearest[order], prepend=-1) != 0]
    if len(order) <= max(int(np.count_nonzero(good)), MIN_AGREEMENT * len(paired)):
        return index
    result = np.full(len(other), -1, np.int64)
    result[order] = nearest[order]
    return result


def _nearest(ends: Int64, moments: Int64) -> Int64:
    """The index of the end nearest to each moment; `ends` need not ascend."""
    order = np.argsort(ends, kind="stable")
    ranked = ends[order]
    above = np.clip(np.searchsorted(ranked, moments), 1, max(len(ranked) - 1, 1))
    above = np.minimum(above, len(ranked) - 1)
    below = np.maximum(above - 1, 0)
    nearer = np.where(np.abs(ranked[below] - moments) <= np.abs(ranked[above] - moments), below, above)
    return order[nearer]


@frozen
class Entries(Parallel):
    """The collectives of all ranks in one place: parallel columns, one entry per rank and collective."""

    rank: Int64
    """Index of the rank among those that are there."""
    row: Int64
    """Index in the collectives of the rank."""
    start: Int64
    """On the rank's own clock, as are all times here."""
    end: Int64
    operation: Int64
    token: Int64
    group: Int64
    """Index in `Matches.groups`."""
    seq: Int64
    comms_id: Int64
    flags: Int64
    source: Int64
    """Global rank that sends, -1 for what is no transfer between two ranks."""
    target: Int64
    root: Int64
    """Rank within the group that is recorded as the root, -1 for none."""
    instance: Int64
    """Number of the operation that ranks have in common, -1 for what has no partner and can have none."""


@frozen
class Instances(Parallel):
    """The operations that ranks have in common: parallel columns, one entry per operation."""

    operation: Int64
    token: Int64
    group: Int64
    seq: Int64
    ranks: Int64
    """Ranks that are there and took part."""
    of: Int64
    """Members of the group, NULL where they are not known."""
    is_partial: Bool
    """True where a member that is there has no part in it."""
    mismatch: tuple[str, ...]
    """Operations, sizes or types that ranks disagree about, in words; empty where they agree."""
    is_guess: Bool
    """True where it was matched by order alone, or without a group."""
    root: Int64
    """Index of the rank that is the root among those that are there, -1 where that is not known."""

    @property
    def is_symmetric(self) -> Bool:
        """Mask of the operations in which all wait for all."""
        return is_one_of(self.operation, SYMMETRIC)


@frozen
class Matches:
    """The collectives of a set of ranks, matched."""

    entries: Entries
    """Sorted by instance, then by rank."""
    instances: Instances
    groups: tuple[CommGroup, ...]
    words: Sequence[str]
    """The tokens."""
    unmatched: int
    """Transfers whose peer is not known, or not there."""

    def without(self, ranks: Sequence[int]) -> tuple[Matches, Int64]:
        """The same without some ranks, given by index, and the numbers here of what others took part in."""
        keep = np.flatnonzero(~np.isin(self.entries.rank, np.array(ranks, np.int64)))
        used, number = np.unique(self.entries.instance[keep], return_inverse=True)
        columns = {name: getattr(self.entries, name)[keep] for name in Entries.__dataclass_fields__}
        entries = Entries(**columns | {"instance": number.astype(np.int64)})
        columns = {name: getattr(self.instances, name) for name in Instances.__dataclass_fields__}
        columns |= {name: column[used] for name, column in columns.items() if name != "mismatch"}
        columns["ranks"] = np.bincount(number, minlength=len(used)).astype(np.int64)
        mismatch = tuple(self.instances.mismatch[each] for each in used.tolist())
        return replace(self, entries=entries, instances=Instances(**columns | {"mismatch": mismatch})), used

    @property
    def first(self) -> Int64:
        """Index of the first entry of each instance; one more for the end."""
        return np.searchsorted(self.entries.instance, np.arange(len(self.instances) + 1))


def match(summaries: Sequence[RankSummary], ranks: Sequence[int], hosts: Sequence[str | None]) -> Matches:
    """Match the collectives of ranks; `ranks` are their numbers, and `hosts` tell whose clocks are one."""
    groups: dict[CommGroup, int] = {}
    words = Strings()
    entries = _entries(summaries, ranks, groups, words)
    instance, by_order = _instances(entries, hosts)
    order = np.lexsort((entries.rank, instance))
    order = order[np.searchsorted(instance[order], 0) :]
    unmatched = len(entries) - len(order)
    _, number = np.unique(instance[order], return_inverse=True)
    columns = {name: getattr(entries, name)[order] for name in Entries.__dataclass_fields__ if name != "instance"}
    kept = Entries(**columns, instance=number.astype(np.int64))
    known = tuple(groups)
    return Matches(kept, _with_columns(kept, known, by_order[order], ranks, words), known, words, unmatched)


def _entries(
    summaries: Sequence[RankSummary], ranks: Sequence[int], groups: dict[CommGroup, int], words: Strings
) -> Entries:
    parts: dict[str, list[Int64]] = {name: [] for name in Entries.__dataclass_fields__}
    for index, (summary, rank) in enumerate(zip(summaries, ranks, strict=True)):
        own = summary.collectives
        # Ranks may list the members of a group in different orders.
        common = [replace(each, members=tuple(sorted(each.members))) for each in summary.groups]
        group_ids = np.array([groups.setdefault(each, len(groups)) for each in common], np.int64)
        word_ids = np.fromiter(map(words.intern, summary.names), np.int64, len(summary.names))
        sends = own.operation == OPERATIONS.index("send")
        is_transfer = (sends | (own.operation == OPERATIONS.index("recv"))) & (own.peer >= 0)
        columns = {
            "rank": np.full(len(own), index),
            "row": np.arange(len(own)),
            "start": own.start,
            "end": own.start + own.dur,
            "operation": own.operation,
            "token": word_ids[own.token],
            "group": group_ids[own.group],
            "seq": own.seq,
            "comms_id": own.comms_id,
            "flags": own.flags,
            "source": np.where(is_transfer, np.where(sends, rank, own.peer), -1),
            "target": np.where(is_transfer, np.where(sends, own.peer, rank), -1),
            "root": own.root,
            "instance": np.full(len(own), -1),
        }
        for name, column in columns.items():
            parts[name].append(column.astype(np.int64))
    none = np.empty(0, np.int64)
    return Entries(**{name: np.concatenate([none, *each]) for name, each in parts.items()})


def _instances(entries: Entries, hosts: Sequence[str | None]) -> tuple[Int64, Bool]:
    """The number of each entry's operation, -1 for none, and which were matched by order."""
    instance = np.full(len(entries), -1, np.int64)
    by_order = np.zeros(len(entries), bool)
    used = 0
    for rows in _comparable(entries):
        key = _recorded_key(entries, rows)
        if key is None:
            number = _by_order(entries, rows, hosts)
            by_order[rows] = True
        else:
            # The collectives of one coalesced operation share its key.
            number = combinations(key, count_within(combinations(entries.rank[rows], key).member)).member
        instance[rows] = np.where(number >= 0, number + used, -1)
        used += int(number.max(initial=-1)) + 1
    return instance, by_order


def _comparable(entries: Entries) -> Iterator[Int64]:
    """Entries that may belong together: of one group, or of one sender and receiver, in a graph or not."""
    is_transfer = is_one_of(entries.operation, POINT_TO_POINT)
    alone = (is_transfer & (entries.source < 0)) | (entries.operation == OPERATIONS.index("send_recv"))
    rows = np.flatnonzero(~alone)
    in_graph = entries.flags[rows] & int(Flag.IN_GRAPH)
    group = np.where(is_transfer[rows], -1, entries.group[rows])
    part = combinations(group, entries.source[rows], entries.target[rows], in_graph).member
    order = np.lexsort((entries.start[rows], entries.rank[rows], part))
    rows, part = rows[order], part[order]
    yield from np.split(rows, np.flatnonzero(np.diff(part)) + 1) if len(rows) else ()


def _recorded_key(entries: Entries, rows: Int64) -> Int64 | None:
    """The recorded number that identifies an operation in its group on all ranks; None where order is all there is."""
    for key in (entries.comms_id[rows], entries.seq[rows]):
        pairs = combinations(entries.rank[rows], key)
        # A key that comes back on a rank after others was used again.
        if (key != NULL).all() and np.count_nonzero(run_starts(pairs.member)) == len(pairs):
            return key
    return None


def _by_order(entries: Entries, rows: Int64, hosts: Sequence[str | None]) -> Int64:
    """Match by order: every rank against that with most entries; what has no partner is an operation of its own."""
    rank = entries.rank[rows]
    tracks = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rank)) + 1)
    # Sequence numbers that start again still tell neighbours apart.
    token = combinations(entries.token[rows], np.maximum(entries.seq[rows], -1)).member
    if len({OPERATIONS[each] for each in np.unique(entries.operation[rows]).tolist()} & POINT_TO_POINT):
        # A sender and a receiver call one transfer by two names.
        token = np.zeros(len(rows), np.int64)
    longest = max(tracks, key=len)
    first = Track(token[longest], entries.end[rows[longest]])
    home = hosts[int(rank[longest[0]])]
    number = np.full(len(rows), -1, np.int64)
    number[longest] = np.arange(len(longest))
    used = len(longest)
    for track in tracks:
        if track is longest:
            continue
        same_clock = home is not None and hosts[int(rank[track[0]])] == home
        index = aligned(first, Track(token[track], entries.end[rows[track]]), same_clock)
        alone = index < 0
        index[alone] = used + np.arange(int(alone.sum()))
        used += int(alone.sum())
        number[track] = index
    return number


def _with_columns(
    entries: Entries, groups: Sequence[CommGroup], by_order: Bool, ranks: Sequence[int], words: Sequence[str]
) -> Instances:
    first = np.flatnonzero(np.diff(entries.instance, prepend=-1))
    count = np.diff(np.append(first, len(entries)))
    group = entries.group[first]
    transfer = entries.source[first] >= 0
    here, size = _members_here(entries, groups, ranks)
    of = np.where(transfer, 2, size[group])
    present = np.array(ranks, np.int64)
    ends_here = np.isin(entries.source[first], present).astype(np.int64) + np.isin(entries.target[first], present)
    partial = np.where(transfer, count < ends_here, count < here[group])
    guess = np.bitwise_or.reduceat(entries.flags & int(Flag.GUESS), first) > 0 if len(first) else np.zeros(0, bool)
    guess |= by_order[first] if len(first) else guess
    guess &= ~transfer | by_order[first] if len(first) else guess
    return Instances(
        operation=entries.operation[first],
        token=entries.token[first],
        group=group,
        seq=entries.seq[first],
        ranks=count.astype(np.int64),
        of=of.astype(np.int64),
        is_partial=partial,
        mismatch=_mismatches(entries, first, words),
        is_guess=guess,
        root=_roots(entries, first, groups, ranks),
    )


def _roots(entries: Entries, first: Int64, groups: Sequence[CommGroup], ranks: Sequence[int]) -> Int64:
    """The root of each operation that has one and of which two ranks or more are there, else -1.

    Ranks that record the same rank do not record their own.
    """
    root = np.full(len(first), -1, np.int64)
    if len(first) == 0:
        return root
    least, most = np.minimum.reduceat(entries.root, first), np.maximum.reduceat(entries.root, first)
    several = np.diff(np.append(first, len(entries))) > 1
    index_of = {rank: index for index, rank in enumerate(ranks)}
    for each in np.flatnonzero(several & (least >= 0) & (least == most)).tolist():
        members = groups[int(entries.group[first[each]])].members
        if least[each] < len(members):
            root[each] = index_of.get(members[least[each]], -1)
    return root


def _members_here(entries: Entries, groups: Sequence[CommGroup], ranks: Sequence[int]) -> tuple[Int64, Int64]:
    """Number of members of each group that are there, and of all its members (NULL where that is not known)."""
    present = set(ranks)
    used = combinations(entries.group, entries.rank)
    seen = np.bincount(entries.group[used.first], minlength=len(groups))
    here = [
        len(present & set(group.members)) if group.members else int(seen[index]) for index, group in enumerate(groups)
    ]
    return np.array(here, np.int64), np.array([group.size or NULL for group in groups], np.int64)


def _mismatches(entries: Entries, first: Int64, words: Sequence[str]) -> tuple[str, ...]:
    """The tokens that the ranks of each operation disagree about; some operations take sizes that differ."""
    texts = [""] * len(first)
    if len(first) == 0:
        return ()
    differs = np.minimum.reduceat(entries.token, first) != np.maximum.reduceat(entries.token, first)
    bounds = np.append(first, len(entries))
    for index in np.flatnonzero(differs).tolist():
        span = slice(bounds[index], bounds[index + 1])
        operations = {OPERATIONS[each] for each in entries.operation[span].tolist()}
        tokens = sorted({words[each] for each in entries.token[span].tolist()})
        if len(operations) == 1:
            # An operation of which nothing is recorded disagrees about nothing.
            tokens = [token for token in tokens if " " in token]
        if operations == {"send", "recv"}:
            tokens = sorted({token.partition(" ")[2] for token in tokens})
        types = {token.rpartition(" ")[2] for token in tokens}
        if len(tokens) > 1 and not (len(operations) == 1 and operations <= UNEVEN and len(types) == 1):
            texts[index] = " / ".join(tokens)
    return tuple(texts)
