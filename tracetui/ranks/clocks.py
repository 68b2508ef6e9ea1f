"""The differences of the clocks of hosts, with bounds that hold (R5.4).

A symmetric collective ends on no rank before it has begun on every rank. So each one bounds the difference of two
hosts' clocks from both sides, and the difference lies in the intersection of all bounds. A broadcast, a reduce
and a transfer between two ranks bound it from one side. Ranks of one host share a clock and are not shifted: that
their collectives end apart has another cause.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.linking.groups import combinations
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration
from tracetui.ranks.matching import Matches
from tracetui.ranks.rank_summary import FROM_ROOT, OPERATIONS, TO_ROOT, is_one_of

# The lines that two clocks' difference may follow between bounds on both sides (R5.4).

Float64 = NDArray[np.float64]

MAX_DRIFT = 200e-6
"""Share by which one clock may run faster than another."""
DRIFT_STEP = 1e-6
"""Share between two drifts that are tried."""
MAX_BUCKETS = 128
"""Maximum stretches of time of each of which the tightest bounds are kept; the others only follow from these."""


@frozen(eq=True)
class ClockBounds:
    """The range of the difference of two clocks in the middle of the run, in ns."""

    low: float
    high: float
    drift: float
    """Share by which the second clock gains, 0 where it may be that it gains nothing."""
    end_difference: float | None
    """Median difference of the ends of their collectives; None where none bounds the clocks from both sides."""
    contradiction: float = 0.0
    """Ns by which the bounds exclude every line."""


def clock_bounds(moment: Float64, low: Float64, high: Float64, ends: Float64, longest: float) -> ClockBounds:
    """The range between lower and upper bounds at some moments, in ns from the middle of the run.

    A side that something does not bound is infinite. `ends` are the differences of the ends of the collectives on both
    sides, of which the longest lasts `longest` ns.
    """
    moment, low, high = _tightest(moment, low, high)
    drifts = np.arange(-round(MAX_DRIFT / DRIFT_STEP), round(MAX_DRIFT / DRIFT_STEP) + 1) * DRIFT_STEP
    least = (low - drifts[:, None] * moment).max(axis=1)
    most = (high - drifts[:, None] * moment).min(axis=1)
    possible = least <= most
    middle = float(np.median(ends)) if len(ends) else None
    if not possible.any():
        nearest = int((least - most).argmin())
        apart = float(least[nearest] - most[nearest])
        point = float(least[nearest] + most[nearest]) / 2 if middle is None else middle
        error = apart / 2 + (float(np.median(np.abs(ends - point))) if len(ends) else 0.0)
        return ClockBounds(point - error, point + error, 0.0, middle, apart)
    steady = len(drifts) // 2
    drift = 0.0 if possible[steady] else float(drifts[np.argmax(np.where(possible, most - least, -np.inf))])
    # Drifts between two that were tried, and what a clock gains during one collective.
    slack = DRIFT_STEP / 2 * float(np.abs(moment).max()) + MAX_DRIFT * longest
    return ClockBounds(float(least[possible].min()) - slack, float(most[possible].max()) + slack, drift, middle)


def _tightest(moment: Float64, low: Float64, high: Float64) -> tuple[Float64, Float64, Float64]:
    """The tightest bound of each side in each of a few stretches of time, as moments with both bounds."""
    if len(moment) <= 2 * MAX_BUCKETS:
        return moment, low, high
    first, last = float(moment.min()), float(moment.max())
    bucket = np.minimum((moment - first) / max(last - first, 1.0) * MAX_BUCKETS, MAX_BUCKETS - 1).astype(np.int64)
    kept = np.unique(
        np.concatenate([_first_of(bucket, np.lexsort((-low, bucket))), _first_of(bucket, np.lexsort((high, bucket)))])
    )
    return moment[kept], low[kept], high[kept]


def _first_of(bucket: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    kept: NDArray[np.int64] = order[np.diff(bucket[order], prepend=-1) != 0]
    return kept


MAX_END_SPREAD_NS = 100_000
"""Median ns between the ends of one collective on ranks of a host up to which they end together."""
MAX_CLOCK_NOISE_NS = 20_000
"""Maximum ns by which times of one clock contradict each other; ends that lie further apart have another cause."""
NOISE_PERCENT = 95
"""Percentile of what times of a collective on a host contradict each other by that is taken for the clock's noise."""
MAX_CONTRADICTED_SHARE = 0.05
"""Share of the collectives of a host that may contradict a common clock: some may be matched wrongly."""
MAX_PAIRED_HOSTS = 64
"""Hosts up to which all pairs are compared; of more each is compared with the reference and its neighbour."""


@frozen
class Clocks:
    """One clock for all ranks: that of the reference, the host of the lowest rank."""

    host: Int64
    """Index of the host of each rank."""
    names: tuple[str | None, ...]
    """Name of each host, None for a rank whose host nobody names."""
    origin: Int64
    """A moment in the middle of the run on each host's own clock, in ns."""
    shift: Int64
    """Ns by which each host's clock is ahead of the reference at that moment."""
    error: Float64
    """Ns by which the shift may be wrong at most; NaN where nothing bounds it."""
    drift: Float64
    """Share by which each host's clock gains; 0 where no drift is proven."""
    is_guess: Bool
    """Hosts whose collectives contradict each other, so that the shift is an estimate."""
    pair_error: Float64
    """The same of every pair of hosts, infinite where nothing bounds it."""
    noise: Float64
    """Ns by which times of one host's clock may be wrong against each other."""
    notes: tuple[str, ...]

    @property
    def is_known(self) -> Bool:
        """Mask of the hosts whose shift is known."""
        return ~np.isnan(self.error)

    def common(self, rank: Int64, moment: Int64) -> Int64:
        """Times of ranks on the one clock; of a host without a known shift as they are."""
        host = self.host[rank]
        gained = self.drift[host] * (moment - self.origin[host]).astype(np.float64)
        return moment - self.shift[host] - np.round(gained).astype(np.int64)

    def own(self, rank: Int64, moment: Int64) -> Int64:
        """Moments of the one clock as the clocks of ranks show them."""
        host = self.host[rank]
        shifted = moment + self.shift[host]
        gained = self.drift[host] * (shifted - self.origin[host]).astype(np.float64)
        return shifted + np.round(gained).astype(np.int64)

    def between(self, rank: Int64, other: Int64) -> Float64:
        """Ns by which the times of two ranks may be wrong against each other."""
        return self.pair_error[self.host[rank], self.host[other]]

    def noise_of(self, rank: Int64, other: Int64) -> Float64:
        """Ns below which the clock of neither of two ranks tells which of two moments is the later one."""
        return np.maximum(self.noise[self.host[rank]], self.noise[self.host[other]])

    def tolerance(self, rank: Int64, other: Int64) -> Float64:
        """Ns within which two ranks may have come at one time: what their clocks may be wrong, and their noise."""
        return np.maximum(self.between(rank, other), self.noise_of(rank, other))


@frozen
class _HostTimes:
    """Last start and first end of every collective on every host, in ns from the hosts' origins; NaN for none."""

    start: Float64
    end: Float64
    moment: Float64
    """Moment of each collective, in ns from the origin, one entry per collective."""
    origin: Int64
    longest: float


def find_clocks(matches: Matches, hosts: Sequence[str | None], has_base: Sequence[bool]) -> Clocks:
    """The clocks of ranks, given the names of their hosts and whether their files have a base."""
    host, names, notes = _hosts(matches, hosts, has_base)
    ends = _end_spreads(matches, host)
    noise = _noise(*ends, len(names))
    if len(names) < 2:
        return _one_clock(host, names, matches, noise, notes)
    times = _host_times(matches, host, len(names))
    pairs = _pairs(times, len(names))
    end_together = len(ends[1]) > 0 and float(np.median(ends[1])) <= MAX_END_SPREAD_NS
    return _solved(times, pairs, host, names, noise, end_together, notes)


def _hosts(
    matches: Matches, hosts: Sequence[str | None], has_base: Sequence[bool]
) -> tuple[Int64, tuple[str | None, ...], list[str]]:
    """The clock of each rank: that of its host, where nothing contradicts this, or its own."""
    notes: list[str] = []
    keys: list[object] = [
        (name, base) if name else index for index, (name, base) in enumerate(zip(hosts, has_base, strict=True))
    ]
    if len(hosts) > 1 and not any(hosts) and len(set(has_base)) == 1:
        agreeing, total = _agreeing(matches, np.arange(len(hosts)))
        if total and agreeing == total:
            notes.append(f"No file names its host; clocks agree on {agreeing:,} of {counted(total, 'collective')}.")
            return np.zeros(len(hosts), np.int64), (None,), notes
    for key in {key for key in keys if isinstance(key, tuple)}:
        members = np.array([index for index, each in enumerate(keys) if each == key], np.int64)
        agreeing, total = _agreeing(matches, members)
        if total - agreeing > MAX_CONTRADICTED_SHARE * total:
            notes.append(
                f"Ranks of {key[0]} have clocks of their own: {total - agreeing:,} of {counted(total, 'collective')} "
                "would have ended before they began."
            )
            for index in members.tolist():
                keys[index] = index
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    names = tuple(key[0] if isinstance(key, tuple) else hosts[int(str(key))] for key in numbers)
    return np.array([numbers[key] for key in keys], np.int64), names, notes


def _agreeing(matches: Matches, members: Int64) -> tuple[int, int]:
    """Collectives of some ranks that overlap on all of them at shift 0, and how many they have in common."""
    entries, instances = matches.entries, matches.instances
    rows = np.flatnonzero(np.isin(entries.rank, members) & instances.is_symmetric[entries.instance])
    heads = np.flatnonzero(np.diff(entries.instance[rows], prepend=-1))
    if len(heads) == 0:
        return 0, 0
    several = np.diff(np.append(heads, len(rows))) > 1
    last = np.maximum.reduceat(entries.start[rows], heads)
    first = np.minimum.reduceat(entries.end[rows], heads)
    good = last <= first + MAX_CLOCK_NOISE_NS
    return int((good & several).sum()), int(several.sum())


def _end_spreads(matches: Matches, host: Int64) -> tuple[Int64, Int64, Int64]:
    """Of each collective on a host with several of its ranks: the host, and ns between its first and its last end.

    The third is by how many ns it ended before it had begun on all of these, 0 as it should be.
    """
    entries, instances = matches.entries, matches.instances
    plain = np.array([not text for text in instances.mismatch], bool)
    rows = np.flatnonzero((plain & instances.is_symmetric)[entries.instance])
    home, end = host[entries.rank[rows]], entries.end[rows]
    parts = combinations(home, entries.instance[rows])
    low, high, begin = (np.full(len(parts), sign * np.iinfo(np.int64).max, np.int64) for sign in (1, -1, -1))
    np.minimum.at(low, parts.member, end)
    np.maximum.at(high, parts.member, end)
    np.maximum.at(begin, parts.member, entries.start[rows])
    several = np.bincount(parts.member, minlength=len(parts)) > 1
    return home[parts.first][several], (high - low)[several], np.maximum(begin - low, 0)[several]


def _noise(home: Int64, spread: Int64, contradiction: Int64, count: int) -> Float64:
    """The noise of each host's clock: collectives end on its ranks at one time, as far as the clock tells.

    Where they do not, it is what they contradict each other by; of a host with one rank the most of the others.
    """
    noise = np.full(count, np.nan)
    for each in np.unique(home).tolist():
        mine = home == each
        measured = [float(np.percentile(part[mine], NOISE_PERCENT)) for part in (spread, contradiction)]
        noise[each] = measured[0] if measured[0] <= MAX_CLOCK_NOISE_NS else min(measured[1], MAX_CLOCK_NOISE_NS)
    return np.where(np.isnan(noise), np.nanmax(noise) if len(home) else 0.0, noise)


def _one_clock(
    host: Int64, names: tuple[str | None, ...], matches: Matches, noise: Float64, notes: list[str]
) -> Clocks:
    start = matches.entries.start
    return Clocks(
        host=host,
        names=names,
        origin=np.array([int(start[len(start) // 2]) if len(start) else 0]),
        shift=np.zeros(1, np.int64),
        error=np.zeros(1),
        drift=np.zeros(1),
        is_guess=np.zeros(1, bool),
        pair_error=np.zeros((1, 1)),
        noise=noise,
        notes=tuple(notes),
    )


def _host_times(matches: Matches, host: Int64, count: int) -> _HostTimes:
    entries, instances = matches.entries, matches.instances
    plain = np.array([not text for text in matches.instances.mismatch], bool)
    transfer = entries.source >= 0
    symmetric, rooted = instances.is_symmetric[entries.instance], instances.root[entries.instance] >= 0
    rows = np.flatnonzero(plain[entries.instance] & (symmetric | transfer | rooted))
    starts, ends = (mask[rows] for mask in _bounding_entries(matches))
    home = host[entries.rank[rows]]
    moments = [entries.start[rows[home == each]] for each in range(count)]
    origin = np.array([(int(each.min()) + int(each.max())) // 2 if len(each) else 0 for each in moments], np.int64)
    used, number = np.unique(entries.instance[rows], return_inverse=True)
    start = (entries.start[rows] - origin[home]).astype(np.float64)
    end = (entries.end[rows] - origin[home]).astype(np.float64)
    last = np.full((count, len(used)), -np.inf)
    first = np.full((count, len(used)), np.inf)
    np.maximum.at(last, (home[starts], number[starts]), start[starts])
    np.minimum.at(first, (home[ends], number[ends]), end[ends])
    last[np.isinf(last)], first[np.isinf(first)] = np.nan, np.nan
    moment = np.zeros(len(used))
    moment[number] = start
    return _HostTimes(last, first, moment, origin, float((end - start).max(initial=0)))


def _bounding_entries(matches: Matches) -> tuple[Bool, Bool]:
    """Masks of the entries before whose start no other ends, and of those that end after the others have begun.

    The first are all but those that only receive, the second all but those that only give.
    """
    entries, instances = matches.entries, matches.instances
    is_root = entries.rank == instances.root[entries.instance]
    from_root, to_root = is_one_of(entries.operation, FROM_ROOT), is_one_of(entries.operation, TO_ROOT)
    receives = (entries.operation == OPERATIONS.index("recv")) | (from_root & ~is_root)
    gives = (entries.operation == OPERATIONS.index("send")) | np.where(is_root, from_root, to_root)
    return ~receives, ~gives


def _pairs(times: _HostTimes, count: int) -> dict[tuple[int, int], ClockBounds]:
    """The bounds of each pair of hosts that have a collective in common."""
    wanted = [(one, other) for one in range(count) for other in range(one + 1, count)]
    if count > MAX_PAIRED_HOSTS:
        wanted = [pair for pair in wanted if pair[0] == 0 or pair[1] == pair[0] + 1]
    bounds = {}
    for one, other in wanted:
        low = np.nan_to_num(times.start[other] - times.end[one], nan=-np.inf)
        high = np.nan_to_num(times.end[other] - times.start[one], nan=np.inf)
        bounded = np.isfinite(low) | np.isfinite(high)
        if bounded.any():
            ends = (times.end[other] - times.end[one])[np.isfinite(low) & np.isfinite(high)]
            moments = times.moment[bounded]
            bounds[one, other] = clock_bounds(moments, low[bounded], high[bounded], ends, times.longest)
    return bounds


def _solved(
    times: _HostTimes,
    pairs: dict[tuple[int, int], ClockBounds],
    host: Int64,
    names: tuple[str | None, ...],
    noise: Float64,
    end_together: bool,
    notes: list[str],
) -> Clocks:
    count = len(names)
    most = np.full((count, count), np.inf)
    np.fill_diagonal(most, 0.0)
    guess, drift = np.zeros(count, bool), np.zeros(count)
    for (one, other), bounds in pairs.items():
        most[one, other], most[other, one] = bounds.high, -bounds.low
        if one == 0:
            guess[other], drift[other] = bounds.contradiction > 0, bounds.drift
            if bounds.contradiction > 0:
                notes.append(
                    f"The collectives of {names[other] or 'a rank'} contradict each other by "
                    f"{duration(bounds.contradiction)}: its clock was set, or some are matched wrongly."
                )
    most = _shortest(most)
    low, high = -most[:, 0], most[0]
    known = np.isfinite(low) & np.isfinite(high)
    point = np.where(known, (np.where(known, low, 0) + np.where(known, high, 0)) / 2, 0.0)
    if end_together:
        for other in range(1, count):
            ends = pairs[0, other].end_difference if known[other] and (0, other) in pairs else None
            if ends is not None:
                point[other] = np.clip(ends, low[other], high[other])
    error = np.where(known, np.maximum(point - low, high - point), np.nan)
    pair_error = (most + most.T) / 2
    shift = times.origin - times.origin[0] + np.round(point).astype(np.int64)
    shift[~known] = 0
    return Clocks(host, names, times.origin, shift, error, drift, guess, pair_error, noise, tuple(notes))


def _shortest(most: Float64) -> Float64:
    """The bounds with differences added up through third hosts, which can only narrow them."""
    through = range(len(most)) if len(most) <= MAX_PAIRED_HOSTS else [0]
    for _ in range(1 if len(most) <= MAX_PAIRED_HOSTS else 3):
        for middle in through:
            shorter = most[:, middle, None] + most[None, middle, :]
            # A circle below zero is a contradiction, which must not make other bounds narrower than they are.
            most = np.where((shorter < most) & (shorter + most.T >= 0), shorter, most)
    return most
