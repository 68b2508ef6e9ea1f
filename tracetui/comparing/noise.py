"""Medians and noise of two samples, and whether these differ by more than noise (R3.53).

A side is represented by its median. Its noise is the distance between the quartiles of its parts; with fewer than four
parts the range. A difference counts when it exceeds the larger noise of the two. Times that differ by less than
`MIN_TIME_CHANGE` are the same, unless they scatter so much that this is chance.

A single part has no noise of its own; it is compared with the range of all parts of the other side, since half of these
lie outside the quartiles. With one step on each side the noise is the range of the other steps of their files; where
there are too few, `ASSUMED_NOISE` is assumed. `compare` and `check` ask here, so that they know the same noise.

Times that differ by no more than a tick of the clock are the same, whatever the noise.

`Spread` holds medians and noise of many rows at once, by the same rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from enum import Enum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tracetui.comparing.side import STEP, Side, kept_with_side
from tracetui.comparing.side import side as side_of
from tracetui.frozen import frozen
from tracetui.idle.scope_times import step_periods
from tracetui.linking.groups import combinations
from tracetui.linking.links import links, op_rows
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.trace import Float64, Kind, Trace

_MAX_CELLS = 1 << 21
"""Maximum values held at a time: names by parts may exceed the memory."""


@frozen
class Spread:
    """Medians and noise, one entry per name."""

    median: Float64
    """Median over the parts; a part without the name counts as 0."""
    scatter: Float64
    """As `Sample.scatter`; NaN for fewer than two parts."""
    reach: Float64
    """Range; NaN for fewer than two parts."""
    parts: int


def spread(key: Int64, part: Int64, values: NDArray[np.generic] | None, keys: int, parts: int) -> Spread:
    """Sums of values, or counts, by key and part, as medians and noise over the parts."""
    order = np.argsort(key, kind="stable")
    key, part = key[order], part[order]
    weights = None if values is None else np.asarray(values, np.float64)[order]
    median, scatter, reach = np.zeros(keys), np.full(keys, np.nan), np.full(keys, np.nan)
    step = max(_MAX_CELLS // max(parts, 1), 1)
    for low, high in pairwise([*range(0, keys, step), keys]):
        first, last = np.searchsorted(key, [low, high]).tolist()
        cell = (key[first:last] - low) * parts + part[first:last]
        some = None if weights is None else weights[first:last]
        sums = np.bincount(cell, some, (high - low) * parts).astype(np.float64).reshape(high - low, parts)
        median[low:high] = np.median(sums, axis=1)
        if parts > 1:
            ends = np.percentile(sums, (25, 75) if parts >= MIN_QUARTILE_PARTS else (0, 100), axis=1)
            scatter[low:high] = ends[1] - ends[0]
            reach[low:high] = np.ptp(sums, axis=1)
    return Spread(median, scatter, reach, parts)


def noises(a: Spread, b: Spread) -> Float64:
    """The larger noise of the two, as in `Difference.noise`; NaN where neither has two parts."""
    is_whole = 1 in (a.parts, b.parts)
    larger: Float64 = np.fmax(*((each.reach if is_whole else each.scatter) for each in (a, b)))
    return larger


MIN_QUARTILE_PARTS = 4
"""Minimum parts for quartiles."""
MIN_TIME_CHANGE = 0.01
"""Minimum relative change of a time: clocks of a machine vary by this much."""
MAX_STEADY_SCATTER = 0.05
"""Maximum noise relative to the median, for equal medians to count as the same."""
ASSUMED_NOISE = 0.05
"""Noise where nothing tells, as a share of the smaller value: what repeated runs on one machine easily differ by."""


class Change(Enum):
    """The value of B beside that of A."""

    SAME = "same"
    LESS = "less"
    MORE = "more"
    WITHIN_NOISE = "cannot tell"
    """The values differ by less than the noise."""
    UNKNOWN = "unknown"
    """One side does not have the value."""


BEYOND_NOISE = (Change.LESS, Change.MORE)
"""Changes that are more than noise."""
CHANGES = tuple(Change)
"""The changes by the codes of `changes`."""


def changes(a: ArrayLike, b: ArrayLike, noise: ArrayLike, exact: bool = False, tick: float = 0.0) -> Int64:
    """The changes of medians, as indices in `CHANGES`, in the shape of the arguments.

    A median of NaN is a missing value. Where the noise is NaN it is assumed, but for exact values, which have none.
    `tick` is what the clock can tell apart, in the unit of the values.
    """
    a, b, noise = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(noise, np.float64)
    delta, smaller = np.abs(b - a), np.minimum(np.abs(a), np.abs(b))
    least = np.zeros_like(smaller) if exact else MIN_TIME_CHANGE * smaller
    noise = np.where(np.isnan(noise), 0.0 if exact else ASSUMED_NOISE * smaller, noise)
    restless = noise > MAX_STEADY_SCATTER * smaller
    rules = {
        Change.UNKNOWN: np.isnan(delta),
        Change.SAME: ((delta <= least) & ~restless) | (delta <= tick * (1 + 1e-9)),
        Change.WITHIN_NOISE: delta <= np.maximum(noise, least),
        Change.LESS: b < a,
    }
    return np.select(list(rules.values()), list(map(CHANGES.index, rules)), CHANGES.index(Change.MORE))


@frozen(eq=True)
class Sample:
    """The values of the parts of a side, without missing ones."""

    values: Float64
    is_whole: bool = False
    """The range counts as noise, and not the quartiles: the other side is a single value."""

    @property
    def median(self) -> float:
        """Median; NaN without parts."""
        return float(np.median(self.values)) if len(self.values) else float("nan")

    @property
    def scatter(self) -> float:
        """Noise in the unit of the values; NaN for fewer than two."""
        if len(self.values) < 2:
            return float("nan")
        low, high = (25, 75) if len(self.values) >= MIN_QUARTILE_PARTS and not self.is_whole else (0, 100)
        return float(np.percentile(self.values, high) - np.percentile(self.values, low))


@frozen(eq=True)
class Difference:
    """Two samples side by side."""

    a: Sample
    b: Sample
    exact: bool = False
    """The values are counts, of which every difference matters."""
    tick: float = 0.0
    """The least difference that the clock can tell, in the unit of the values."""
    others: float = math.nan
    """Range of the values of other steps, where both sides are single steps; NaN where it is not known."""

    @property
    def delta(self) -> float:
        """Median of B minus median of A."""
        return self.b.median - self.a.median

    @property
    def ratio(self) -> float:
        """Median of B divided by median of A; NaN where A is 0."""
        return self.b.median / self.a.median if self.a.median else float("nan")

    @property
    def noise(self) -> float:
        """The larger noise of the two, else that of other steps; NaN where nothing tells."""
        known = [each.scatter for each in (self.a, self.b) if len(each.values) > 1]
        return max(known) if known else self.others

    @property
    def is_assumed(self) -> bool:
        """True where nothing tells how far such values lie apart by themselves."""
        return math.isnan(self.noise) and not self.exact

    @property
    def limit(self) -> float:
        """The least difference that counts: the noise, known or assumed; 0 for exact values without any."""
        if self.is_assumed:
            return ASSUMED_NOISE * min(abs(self.a.median), abs(self.b.median))
        return 0.0 if math.isnan(self.noise) else self.noise

    @cached_property
    def change(self) -> Change:
        """The change from A to B."""
        return CHANGES[int(changes(self.a.median, self.b.median, self.noise, self.exact, self.tick))]


def difference(a: Float64, b: Float64, exact: bool = False, tick: float = 0.0, others: float = math.nan) -> Difference:
    """The values of two sides side by side; NaN is a missing value."""
    known = a[~np.isnan(a)], b[~np.isnan(b)]
    is_whole = 1 in map(len, known)
    return Difference(Sample(known[0], is_whole), Sample(known[1], is_whole), exact, tick, others)


# The noise of two single steps: the range of the other complete steps of their files, from the smallest to the largest.
# Single steps differ more than medians do, and two of them easily differ by the distance between the quartiles.

MIN_OTHER_STEPS = 3
"""Minimum other steps from which noise is taken."""


@frozen
class OtherSteps:
    """The complete steps of a file beside one or two that are compared."""

    complete: Side
    """All complete steps, whose results are kept once for any steps that are compared."""
    kept: Bool
    """Mask of those that are neither compared step."""

    @property
    def side(self) -> Side:
        """The other steps as a side of their own."""
        kept, complete = self.kept, self.complete
        row, start, end, number = (getattr(complete, name)[kept] for name in ("row", "start", "end", "number"))
        # No user can write such a scope, so that what is kept of these steps has a key of its own.
        return Side(complete.trace, f"\0steps without {complete.row[~kept].tolist()}", STEP, row, start, end, number)

    def reach(self, values: Float64) -> Float64:
        """Range of values by part (first axis) over the other steps; NaN where too few have one."""
        own = values[self.kept]
        few = (~np.isnan(own)).sum(axis=0) < MIN_OTHER_STEPS
        if few.all():
            return np.full(few.shape, np.nan)
        spans: Float64 = np.where(few, np.nan, np.fmax.reduce(own) - np.fmin.reduce(own))
        return spans


def other_steps(a: Side, b: Side) -> list[OtherSteps]:
    """The other steps of the file of each of two single steps; none where these are too few, or for other parts."""
    if any(each.part_kind != STEP or len(each) != 1 for each in (a, b)):
        return []
    others = []
    for trace in dict.fromkeys((a.trace, b.trace)):
        complete = side_of(trace)
        kept = ~np.isin(complete.row, [int(each.row[0]) for each in (a, b) if each.trace is trace])
        if complete.part_kind == STEP and kept.sum() >= MIN_OTHER_STEPS:
            others.append(OtherSteps(complete, kept))
    return others


# The tick of a trace's clock: what two times differ by at least where they differ.
#
# Older profilers write whole microseconds. The timers of NVIDIA's GPUs count in 32 ns, those of some of AMD's in 40;
# their times are converted to nanoseconds, so that a duration is a multiple within one of them.

MAX_TICK_NS = 1000
"""Maximum tick in ns: a larger common divisor is the work of chance in a short trace."""
MIN_ROUNDED_TICK_NS = 16
"""Minimum tick looked for in converted times: below it a duration is near some multiple by chance."""
MIN_TICK_SHARE = 0.85
"""Minimum share of the durations that are near a multiple of a tick: copies and calls have other clocks."""
MAX_TICK_SAMPLES = 20_000
"""Maximum durations from which the tick of converted times is taken."""
MIN_TICK_DURATIONS = 20
"""Minimum different durations for a tick of converted times: fewer have one by chance."""


@kept
def gpu_tick(trace: Trace) -> int:
    """The tick in ns of the times of GPU activities."""
    durations = trace.slices.dur[links(trace).gpu]
    return _tick(durations) if _tick(durations) > 1 else _rounded_tick(durations)


@kept
def cpu_tick(trace: Trace) -> int:
    """The tick in ns of all other times."""
    others = np.ones(len(trace.slices), bool)
    others[links(trace).gpu] = False
    return _tick(trace.slices.dur[others])


def _tick(durations: Int64) -> int:
    """The largest tick up to the maximum of which all durations are multiples."""
    common = int(np.gcd.reduce(durations)) if len(durations) else 0
    return math.gcd(common, MAX_TICK_NS) if common > MAX_TICK_NS else max(common, 1)


def _rounded_tick(durations: Int64) -> int:
    """The largest tick of which nearly all durations are multiples within 1 ns; 1 where there is none."""
    used, often = np.unique(durations[:: len(durations) // MAX_TICK_SAMPLES + 1], return_counts=True)
    if len(used) < MIN_TICK_DURATIONS:
        return 1
    least = MIN_TICK_SHARE * often.sum()
    ticks = range(MAX_TICK_NS, MIN_ROUNDED_TICK_NS - 1, -1)
    return next((tick for tick in ticks if often[((used + 1) % tick <= 2) & (used >= tick - 1)].sum() >= least), 1)


def within_tick(difference: Float64, calls: Float64, tick: float) -> np.ndarray:
    """Mask of sums of durations over some calls that differ by no more than the clock's tick lets them, in one unit.

    A duration is off by up to a tick, and the errors of several calls cancel each other in part.
    """
    within: np.ndarray = np.abs(difference) <= tick * np.sqrt(np.maximum(calls, 1)) * (1 + 1e-9)
    return within


def shared_tick(a: Trace, b: Trace, on_gpu: bool) -> int:
    """The difference in ns below which two times of GPU activities, or of CPU calls, are the same on both clocks.

    Both times of a converted clock are rounded, which adds one.
    """
    tick = max((gpu_tick if on_gpu else cpu_tick)(each) for each in (a, b))
    return tick + 1 if 1 < tick < MAX_TICK_NS else tick


# Which parts of a side run the same: the median over an eager and a compiled run of one function means nothing.
#
# Parts are alike where their numbers of GPU activities differ by a few percent and most names are the same; on a side
# without GPU activity operators count instead. A few different parts, such as a first step that warms up, do not spoil
# the median; as many as the noise is taken from do. The representative part stands for a side where single slices are
# compared.


@kept_with_side
def representative(side: Side) -> int:
    """Among the parts with the most common sequence of kernels, the step with the median period (R3.90), or the run
    with the median GPU time.

    Without GPU activity the part of median duration; -1 for a side without parts.
    """
    rows, part = side.activities()
    if len(side) == 0:
        return -1
    if len(rows) == 0:
        return _middle(np.arange(len(side)), side.end - side.start)
    slices = side.trace.slices
    order = np.lexsort((slices.name[rows], part))
    names, ends = slices.name[rows[order]], np.cumsum(np.bincount(part, minlength=len(side)))
    alike: dict[bytes, list[int]] = defaultdict(list)
    for number, (low, high) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        if high > low:
            alike[names[low:high].tobytes()].append(number)
    most = max(map(len, alike.values()))
    common = np.array(sorted(number for same in alike.values() if len(same) == most for number in same))
    if side.part_kind == STEP:
        low, high = step_periods(side.trace)
        time = (high - low)[side.step_indices]
    else:
        time = np.bincount(part, side.times(rows), len(side)).astype(np.int64)
    return _middle(common, time[common])


def _middle(parts: Int64, values: Int64) -> int:
    """The part with the median value; of two the lower."""
    return int(parts[np.argsort(values, kind="stable")[(len(parts) - 1) // 2]])


MAX_COUNT_DIFFERENCE = 0.1
"""Maximum difference in the number of activities of parts that are alike, as a share of the larger."""
MIN_SHARED_NAMES = 0.5
"""Minimum share of activities with common names of parts that are alike, of the larger part."""
MIN_ALIKE_PARTS = 0.75
"""Minimum share of parts that are alike, for the median of a side to mean anything."""
MAX_GROUPS = 8
"""Maximum groups of parts that are distinguished; the rest is one more."""


@frozen
class PartGroup:
    """Parts of a side that run the same."""

    parts: Int64
    """Indices of the parts, in order."""
    count: int
    """Kernels of the first part; operators on a side without GPU activity."""


@kept_with_side
def groups_of_parts(side: Side) -> tuple[PartGroup, ...]:
    """The parts of a side by what they run, in the order of the first part of each group; found once."""
    rows, part = side.activities()
    counted = side.trace.slices.kind[rows] == Kind.KERNEL
    if len(rows) == 0:
        rows = op_rows(side.trace)
        part = side.part_of(rows)
        rows, part = rows[part >= 0], part[part >= 0]
        counted = np.ones(len(rows), bool)
    count = np.bincount(part[counted], minlength=len(side))
    left, members = np.ones(len(side), bool), list[Int64]()
    content = _Content(side.trace.slices.name[rows].astype(np.int64), part, len(side))
    sample = representative(side)
    while left.any():
        mine = left & content.like(sample) if len(members) < MAX_GROUPS else left.copy()
        members.append(np.flatnonzero(mine))
        left &= ~mine
        sample = int(np.argmax(left))
    return tuple(PartGroup(parts, int(count[parts[0]])) for parts in sorted(members, key=lambda parts: int(parts[0])))


def is_mixed(side: Side) -> bool:
    """True where the parts differ so much in what they run that their median describes none of them."""
    part_groups = groups_of_parts(side)
    most = max((len(group.parts) for group in part_groups), default=0)
    return len(part_groups) > 1 and (len(side) < MIN_QUARTILE_PARTS or most < MIN_ALIKE_PARTS * len(side))


class _Content:
    """Numbers of activities of each name in each part."""

    def __init__(self, name: Int64, part: Int64, parts: int) -> None:
        pairs = combinations(part, name)
        self._part, self._name = part[pairs.first], name[pairs.first]
        self._often = np.bincount(pairs.member, minlength=len(pairs))
        self._size = np.bincount(part, minlength=parts)

    def like(self, sample: int) -> Bool:
        """Mask of the parts that are like one of them, itself included."""
        mine = self._part == sample
        often = np.zeros(int(self._name.max(initial=-1)) + 1, np.int64)
        often[self._name[mine]] = self._often[mine]
        shared = np.bincount(self._part, np.minimum(self._often, often[self._name]), len(self._size))
        size = self._size[sample]
        larger, smaller = np.maximum(self._size, size), np.minimum(self._size, size)
        alike: Bool = (larger - smaller <= MAX_COUNT_DIFFERENCE * larger) & (shared >= MIN_SHARED_NAMES * larger)
        return alike
