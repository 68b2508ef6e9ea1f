"""The waits of ranks for each other, and the time left for the transfer once all had arrived (R5.6, R5.7).

Only operations with two ranks or more that share a known clock count. In a symmetric collective all wait for the last;
in a broadcast they wait for its root, in a reduce the root waits for the last of the others, and each side of a
transfer between two ranks for its other one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.linking.groups import Groups, combinations
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.ranks.clocks import Clocks
from tracetui.ranks.matching import Matches
from tracetui.ranks.rank_summary import FROM_ROOT, OPERATIONS, SYMMETRIC, RankSummary, is_one_of

Float64 = NDArray[np.float64]

MAX_SHARED = 4
"""Maximum ranks that came last together among which each wait is shared."""
MAX_CHAIN = 1_000
"""Maximum operations in which ranks waited, or of other ranks, that are looked back from a wait for what delayed it."""


@frozen
class Waiting:
    """The waits of ranks in the operations they have in common."""

    start: Int64
    """Start of each entry on the one clock, in ns."""
    end: Int64
    wait: Int64
    """Time in ns that each entry waited for the last rank, 0 where that is not known."""
    tail: Int64
    """Time in ns of each entry after the first had ended."""
    last: Int64
    """Index of the rank that came last to each operation, -1 where none did or nobody can tell."""
    skew: Int64
    """Last arrival less the first of each operation in ns, NULL where clocks are not known."""
    transfer: Int64
    """Time in ns of each operation from the last arrival to the first end, NULL likewise and where nobody waits."""
    is_last: Bool
    """Entries of ranks that came last, or so near to it that they may have; none where ranks are in step."""
    attributed: Charges
    """The waits by the rank that waited and the rank that came last."""
    root: Charges
    """The waits by the rank that began the delay: those for a rank that had itself waited are passed on."""

    def began_at(self, index: int, ranks: int) -> Float64:
        """Time in ns that others waited for a rank, by the rank that began the delay: itself, or one before it."""
        came, root, size = self.attributed, self.root, len(self.last)
        mine = came.late == index
        waits, member = np.unique(came.waiting[mine] * size + came.instance[mine], return_inverse=True)
        key = root.waiting * size + root.instance
        rows = np.flatnonzero(np.isin(key, waits))
        at = np.searchsorted(waits, key[rows])
        # Of several that came last together each passes on its share.
        share = np.bincount(member, came.time[mine], len(waits)) / np.bincount(at, root.time[rows], len(waits))
        return np.bincount(root.late[rows], root.time[rows] * share[at], ranks).astype(np.float64)


@frozen
class Charges:
    """Parallel columns, one entry per wait and rank that it is attributed to."""

    waiting: Int64
    """Index of the rank that waited."""
    late: Int64
    """Index of the rank that it waited for."""
    instance: Int64
    """The operation that it waited in."""
    time: Float64
    """In ns; a wait for several that came last together is shared among them."""
    error: Float64
    """Ns by which the clocks of the two may make it wrong."""

    def caused(self, ranks: int) -> Float64:
        """Time in ns that others waited for each rank."""
        return np.bincount(self.late, self.time, ranks).astype(np.float64)

    def suffered(self, ranks: int) -> Float64:
        """Time in ns that each rank waited for others."""
        return np.bincount(self.waiting, self.time, ranks).astype(np.float64)

    def caused_error(self, ranks: int) -> Float64:
        """Time in ns of what each rank caused that the clocks may have made up."""
        return np.bincount(self.late, np.minimum(self.error, self.time), ranks).astype(np.float64)

    def matrix(self, ranks: int) -> Float64:
        """Time in ns that each rank (row) waited for each other (column)."""
        pairs = np.bincount(self.waiting * ranks + self.late, self.time, ranks * ranks)
        return pairs.reshape(ranks, ranks).astype(np.float64)


def find_waiting(matches: Matches, clocks: Clocks) -> Waiting:
    """The waits of all entries on the one clock."""
    entries, instances = matches.entries, matches.instances
    start, end = clocks.common(entries.rank, entries.start), clocks.common(entries.rank, entries.end)
    number = entries.instance
    groups = Groups(np.arange(len(instances)), number)
    known = clocks.is_known[clocks.host[entries.rank]]
    counted = ~_any_true(~known, number, len(instances)) & (instances.ranks > 1)
    symmetric = instances.is_symmetric & counted
    last_entry = groups.largest(start) if len(instances) else np.empty(0, np.int64)
    first_start, first_end = _least(start, number, len(instances)), _least(end, number, len(instances))
    arrival = start[last_entry]
    wait = np.clip(arrival[number] - start, 0, end - start)
    wait[~symmetric[number]] = 0
    tolerance = clocks.tolerance(entries.rank, entries.rank[last_entry][number])
    tied = symmetric[number] & (arrival[number] - start <= tolerance) & _is_last_of_host(matches, clocks, start)
    late = np.bincount(number[tied], minlength=len(instances))
    in_step = late == instances.ranks
    is_last = tied & ~in_step[number]
    last = np.where(symmetric & ~in_step, entries.rank[last_entry], -1)
    transfers = counted & (entries.source[matches.first[:-1]] >= 0)
    wait, is_last, last = _with_transfers(matches, transfers, clocks, start, end, (wait, is_last, last))
    rooted = counted & (instances.root >= 0)
    transfer = np.where(symmetric | transfers, np.maximum(first_end - arrival, 0), NULL)
    wait, is_last, last, transfer = _with_roots(matches, rooted, clocks, start, end, (wait, is_last, last, transfer))
    attributed = _charges(matches, clocks, wait, is_last)
    return Waiting(
        start=start,
        end=end,
        wait=np.where(is_last, 0, wait) * (last[number] >= 0),
        tail=np.where(symmetric[number], end - first_end[number], 0),
        last=last,
        skew=np.where(counted, arrival - first_start, NULL),
        transfer=transfer,
        is_last=is_last,
        attributed=attributed,
        root=_followed(matches, clocks, start, wait, attributed),
    )


def _is_last_of_host(matches: Matches, clocks: Clocks, start: Int64) -> Bool:
    """Entries that no other of their own host came after: of these its clock tells, whatever those of others may be."""
    host = clocks.host[matches.entries.rank]
    parts = combinations(matches.entries.instance, host)
    latest = np.full(len(parts), np.iinfo(np.int64).min)
    np.maximum.at(latest, parts.member, start)
    return np.asarray(latest[parts.member] - start <= clocks.noise[host])


def _least(values: Int64, number: Int64, count: int) -> Int64:
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, number, values)
    return least


def _with_transfers(
    matches: Matches, transfers: Bool, clocks: Clocks, start: Int64, end: Int64, waits: tuple[Int64, Bool, Int64]
) -> tuple[Int64, Bool, Int64]:
    """The waits with those of transfers between two ranks: each side waits for the other to begin."""
    wait, is_last, last = waits
    entries = matches.entries
    first = matches.first[:-1][transfers & (matches.instances.ranks == 2)]
    other = np.concatenate([first + 1, first])
    mine = np.concatenate([first, first + 1])
    late = start[other] - start[mine]
    behind = late > clocks.noise_of(entries.rank[mine], entries.rank[other])
    mine, other, late = mine[behind], other[behind], late[behind]
    wait, is_last, last = wait.copy(), is_last.copy(), last.copy()
    wait[mine] = np.minimum(late, end[mine] - start[mine])
    is_last[other] = True
    last[entries.instance[other]] = entries.rank[other]
    return wait, is_last, last


def _with_roots(
    matches: Matches,
    rooted: Bool,
    clocks: Clocks,
    start: Int64,
    end: Int64,
    unrooted: tuple[Int64, Bool, Int64, Int64],
) -> tuple[Int64, Bool, Int64, Int64]:
    """The waits and transfers with those for a root or of it.

    From a root each other entry waits for the root alone; to a root it waits for the last of the others.
    """
    wait, last, transfer = unrooted[0].copy(), unrooted[2].copy(), unrooted[3].copy()
    is_last = unrooted[1].copy()
    entries, instances = matches.entries, matches.instances
    number, count = entries.instance, len(instances)
    is_root = entries.rank == instances.root[number]
    awaited = rooted[number] & (is_root == is_one_of(entries.operation, FROM_ROOT))
    waits = rooted[number] & ~awaited
    both = _any_true(awaited, number, count) & _any_true(waits, number, count)
    awaited, waits = awaited & both[number], waits & both[number]
    latest = np.full(count, -1, np.int64)
    order = np.flatnonzero(awaited)[np.argsort(start[awaited], kind="stable")]
    latest[number[order]] = order
    behind = start[latest[number]] - start
    tolerance = clocks.tolerance(entries.rank, entries.rank[latest[number]])
    waited = waits & (behind > tolerance)
    wait[waited] = np.minimum(behind, end - start)[waited]
    someone = _any_true(waited, number, count)
    is_last |= awaited & someone[number] & (behind <= tolerance)
    last[someone] = entries.rank[latest[someone]]
    least = _least((end - np.maximum(start, start[latest[number]]))[waits], number[waits], count)
    transfer[both] = np.maximum(least[both], 0)
    return wait, is_last, last, transfer


def _any_true(mask: Bool, number: Int64, count: int) -> Bool:
    mask_of: Bool = np.bincount(number[mask], minlength=count) > 0
    return mask_of


def _charges(matches: Matches, clocks: Clocks, wait: Int64, is_last: Bool) -> Charges:
    """Each wait, shared equally among the ranks that came last to its operation.

    Where these are many, each rank that waited is given one of them in turn: the sums are the same, and a thousand
    ranks have one charge each instead of hundreds.
    """
    entries = matches.entries
    late = np.flatnonzero(is_last)
    count = np.bincount(entries.instance[late], minlength=len(matches.instances))
    first = np.cumsum(count) - count
    waiting = np.flatnonzero((wait > 0) & ~is_last & (count[entries.instance] > 0))
    sharing = count[entries.instance[waiting]]
    shares = np.where(sharing <= MAX_SHARED, sharing, 1)
    row = np.repeat(waiting, shares)
    index = np.arange(len(row)) - np.repeat(np.cumsum(shares) - shares, shares)
    in_turn = np.repeat(
        np.where(
            sharing <= MAX_SHARED, 0, (entries.rank[waiting] + entries.instance[waiting]) % np.maximum(sharing, 1)
        ),
        shares,
    )
    blamed = late[first[entries.instance[row]] + index + in_turn] if len(row) else row
    share = np.repeat(shares, shares).astype(np.float64)
    return Charges(
        waiting=entries.rank[row],
        late=entries.rank[blamed],
        instance=entries.instance[row],
        time=wait[row] / share,
        error=clocks.between(entries.rank[row], entries.rank[blamed]) / share,
    )


def _followed(matches: Matches, clocks: Clocks, start: Int64, wait: Int64, attributed: Charges) -> Charges:
    """Charges to a rank that had itself waited, passed on to the rank it waited for, along the chain.

    Looks back from each operation to the last one that both ranks were in: what delayed both makes neither late for
    the other, and what the late one waited for since then is not its own doing.
    """
    entries = matches.entries
    ranks = int(entries.rank.max(initial=-1)) + 1
    has_waited = wait > clocks.noise[clocks.host[entries.rank]]
    before, earlier = _entries_before(matches, start, has_waited)
    key = entries.instance * ranks + entries.rank
    # A rank that each operation waited for, -1 for none.
    blamed = np.full(len(matches.instances) + 1, -1, np.int64)
    blamed[attributed.instance] = attributed.late
    live, at = attributed, np.searchsorted(key, attributed.instance * ranks + attributed.late)
    done = [_selected(attributed, attributed.late, attributed.time, np.zeros(len(attributed.time), bool))]
    for _ in range(MAX_CHAIN):
        previous = before[at]
        instance = np.where(previous >= 0, entries.instance[previous], -1)
        target = np.where(previous >= 0, blamed[instance], -1)
        shared = instance * ranks + live.waiting
        stop = (previous < 0) | (key[np.minimum(np.searchsorted(key, shared), len(key) - 1)] == shared)
        done.append(_selected(live, live.late, live.time, stop))
        passes = ~stop & (target >= 0) & (target != live.waiting) & has_waited[previous]
        moved = np.where(passes, np.minimum(live.time, wait[previous]), 0.0)
        rest, onward = ~stop & (live.time > moved), moved > 0
        at = np.concatenate([previous[rest], np.searchsorted(key, (instance * ranks + target)[onward])])
        live = _joined(_selected(live, live.late, live.time - moved, rest), _selected(live, target, moved, onward))
        if len(at) == 0:
            break
        before = earlier
        if len(at) > 2 * len(attributed.time):
            live, at = _merged(live, at)
    return _joined(*done, live)


def _entries_before(matches: Matches, start: Int64, has_waited: Bool) -> tuple[Int64, Int64]:
    """The entry of the rank before each one, -1 for none; and the last before it that tells more than the next.

    One tells no more where its rank did not wait in it, and the next one is among the same ranks.
    """
    entries = matches.entries
    order = np.lexsort((start, entries.rank))
    rank, members = entries.rank[order], combinations(entries.group, entries.source, entries.target).member[order]
    follows = np.append(rank[1:] == rank[:-1], False)
    told = has_waited[order] | ~follows | (members != np.roll(members, -1))
    place = np.arange(len(order))
    found = []
    for nearest in (place, np.maximum.accumulate(np.where(told, place, -1))):
        index = np.append(-1, nearest[:-1])[: len(order)]
        before = np.full(len(order), -1, np.int64)
        before[order] = np.where((index >= 0) & (rank[index] == rank), order[index], -1)
        found.append(before)
    return found[0], found[1]


def _merged(live: Charges, at: Int64) -> tuple[Charges, Int64]:
    """Charges for one wait that have come to one entry, put together."""
    parts = combinations(live.waiting, live.instance, at)
    error = np.zeros(len(parts))
    np.maximum.at(error, parts.member, live.error)
    time = np.bincount(parts.member, live.time, len(parts)).astype(np.float64)
    first = parts.first
    return Charges(live.waiting[first], live.late[first], live.instance[first], time, error), at[first]


def _joined(*parts: Charges) -> Charges:
    return Charges(*(np.concatenate([getattr(each, name) for each in parts]) for name in Charges.__dataclass_fields__))


def _selected(charges: Charges, late: Int64, time: Float64, kept: Bool) -> Charges:
    return Charges(charges.waiting[kept], late[kept], charges.instance[kept], time[kept], charges.error[kept])


# Bus bandwidth over the transfer, never over the duration, which holds the waiting (R5.8).

MIN_BYTES = 1_000_000
"""Bytes below which latency decides, so that a bandwidth says nothing."""
MAX_TIMES_USUAL = 2
"""Ratio to the median transfer beyond which it holds waits for ranks that are not here."""


def bus_factor(operation: str, ranks: int) -> float | None:
    """Bytes on the bus for each byte of a collective among so many ranks; None for operations without bus bandwidth."""
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
    rows = np.flatnonzero(is_one_of(own.operation, SYMMETRIC))
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
