"""Changes of the level of a measure in a series of runs, and the verdict on a new run beside its noise (R6.2).

Two tests, each of which a change may pass:

* *Within the series*: binary segmentation over the medians of the runs. In intervals of many lengths and places every
  split is scored by the distance of the means of its sides; the best score counts where at most 1.5 % of random orders
  of the same runs have one as large. Nothing is assumed of how runs scatter but that without a change any order of
  them is as likely as any other.
* *At its end*: the last runs, down to a single one, where each lies further from the median of those before than
  these reach, by a factor that a further run exceeds in 1 % of cases (`REACH_FACTORS`); 0.6 of it for several runs.

Then the levels before and after must differ by more than the noise of `comparing` (R3.53): the quartiles of the runs of
each side, and 1 % of a time or one point of a percentage. A count that is the same in every
step of a run has no noise of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.comparing.measures import COUNT
from tracetui.comparing.noise import MAX_STEADY_SCATTER, MIN_TIME_CHANGE, Change, Sample
from tracetui.frozen import frozen
from tracetui.history.digest import Summed
from tracetui.model.intervals import Int64
from tracetui.model.trace import Float64

MIN_POINTS = 1.0
"""Minimum difference of two percentages, in points."""
MAX_SHARE_BY_CHANCE = 0.015
"""Maximum share of random orders with as large a score."""
ORDERS = 499
"""Random orders that are looked at; fewer where more than that share has come already."""
ORDERS_AT_ONCE = 50
SEED = 29
"""So that one series has the same changes every time."""
MIN_SIDE = 2
"""Minimum runs on each side of a split."""
MIN_RUNS = 6
"""Minimum runs of a series that is split by random orders: fewer have too few of these."""
MAX_SCORE = 6.0
"""Distances from the median count up to so many times the scatter, so that one odd run does not outweigh many."""
REACH_FACTORS = {3: 6.0, 4: 3.0, 5: 2.1, 6: 1.7, 7: 1.5, 8: 1.3, 9: 1.2, 10: 1.1, 12: 1.0, 15: 0.9, 20: 0.8, 30: 0.7}
"""The factor by the number of runs before, that of the largest number not above it: with normal scatter a further run
is further from the median than so many times their range in 1 % of cases. Fewer than three tell nothing."""
OF_SEVERAL = 0.6
"""Share of that factor where several runs are all beyond it."""
MAX_USUAL_ERROR = 2.0
"""So many times the median error of the runs before is usual for a run; beyond that its own counts as noise."""
MAX_LAST_RUNS = 8
"""Maximum runs at the end that are compared with those before."""


@frozen
class Values:
    """A measure in the runs of a series; parallel arrays, one entry per run, without those that lack it."""

    run: Int64
    """Index of the run in the series."""
    median: Float64
    """Median over its steps."""
    error: Float64
    """As `Summed.error`."""
    unit: str

    def least(self, value: float) -> float:
        """The least difference from a value that counts, whatever the noise."""
        return 0.0 if self.unit == COUNT else MIN_POINTS if self.unit == "%" else MIN_TIME_CHANGE * abs(value)

    def __len__(self) -> int:
        return len(self.run)


@frozen(eq=True)
class Level:
    """A stretch of runs between two changes."""

    first: int
    end: int
    """Indices in the `Values`: `first` to `end - 1`."""
    median: float
    noise: float
    """What a single further run must differ by, to count; NaN where there are too few runs to tell."""
    error: float = 0.0
    """Median of the errors of the runs, which their noise holds already."""


def values_of(measures: Sequence[Summed | None], unit: str) -> Values:
    """The measure from what it is in each run, None where a run lacks it."""
    known = [index for index, each in enumerate(measures) if each is not None]
    medians, errors = ([each[field] for each in measures if each is not None] for field in (0, 2))
    return Values(np.array(known, np.int64), np.array(medians, np.float64), np.array(errors, np.float64), unit)


def levels(values: Values) -> list[Level]:
    """The stretches of runs in order; one where nothing changes, none without runs."""
    if len(values) == 0:
        return []
    starts = [0, *_settled(values, _splits(values.median, 0, len(values)))]
    while (last := _last_split(values, starts[-1])) is not None:
        starts.append(last)
    return [level(values, first, end) for first, end in zip(starts, [*starts[1:], len(values)], strict=True)]


def level(values: Values, first: int, end: int, share: float = 1.0) -> Level:
    """The level of some runs, with what one more must differ by; `share` is of the factor."""
    medians = values.median[first:end]
    middle, count = float(np.median(medians)), end - first
    factor = next((each for runs, each in reversed(REACH_FACTORS.items()) if runs <= count), np.nan)
    reach = float(np.ptp(medians))
    if values.unit == COUNT and reach == 0 and not values.error[first:end].any():
        factor = 0.0
    noise = max(values.least(middle), share * factor * reach) if factor == factor else np.nan
    return Level(first, end, middle, noise, float(np.median(values.error[first:end])))


def beyond(before: Level, value: float, error: float, least: float = 0.0) -> Change:
    """The change from a level to one more run; `error` and `least` as in `Values`."""
    if np.isnan(value):
        return Change.UNKNOWN
    if np.isnan(before.noise):
        return Change.WITHIN_NOISE
    # A run whose steps scatter as those of the others has its error in the noise between them.
    if abs(value - before.median) > max(before.noise, error if error > MAX_USUAL_ERROR * before.error else 0.0):
        return Change.LESS if value < before.median else Change.MORE
    restless = before.noise > MAX_STEADY_SCATTER * abs(before.median)
    return Change.WITHIN_NOISE if restless or abs(value - before.median) > least else Change.SAME


def _splits(medians: Float64, low: int, high: int) -> list[int]:
    """Splits between runs at which the level changes, in order, by random orders."""
    found = _best_split(medians[low:high]) if high - low >= MIN_RUNS else None
    if found is None:
        return []
    return [*_splits(medians, low, low + found), low + found, *_splits(medians, low + found, high)]


def _settled(values: Values, splits: Sequence[int]) -> list[int]:
    """The splits where runs are nearest to the medians of their sides, without those whose sides do not differ."""
    kept = list(splits)
    for index in range(len(kept)):
        low, high = ([0, *kept][index], [*kept, len(values)][index + 1])
        kept[index] = low + _nearest(values.median[low:high], kept[index] - low)
    for index, split in enumerate(kept):
        low, high = ([0, *kept][index], [*kept, len(values)][index + 1])
        # True where the levels on both sides differ by more than the noise of R3.53.
        one, other = Sample(values.median[low:split]), Sample(values.median[split:high])
        least = values.least(min(abs(one.median), abs(other.median)))
        if not bool(abs(other.median - one.median) > max(*np.nan_to_num([one.scatter, other.scatter]), least)):
            return _settled(values, [each for each in kept if each != split])
    return kept


def _nearest(medians: Float64, split: int) -> int:
    """The split for which each run lies as near as possible to the median of its side, from one that is about right."""
    for _ in range(3):
        further = np.abs(medians - np.median(medians[split:])) - np.abs(medians - np.median(medians[:split]))
        # The sum over the runs before a split is largest where these are near their own side, and no other is.
        split, before = int(np.argmax(np.cumsum(further)[:-1])) + 1, split
        if split == before:
            break
    return split


def _best_split(medians: Float64) -> int | None:
    """The split with the largest score; None where random orders have scores as large."""
    centred = medians - np.median(medians)
    if not centred.any():
        return None
    # The scatter from run to run, which a change of level hardly touches.
    scatter = float(np.median(np.abs(np.diff(medians)))) / 0.954
    scaled = np.clip(centred / (scatter or np.abs(centred).max()), -MAX_SCORE, MAX_SCORE)
    (score,), (split,) = _scores(scaled[None])
    random, larger, done = np.random.default_rng(SEED), 0, 0
    while done < ORDERS and larger <= MAX_SHARE_BY_CHANCE * ORDERS:
        orders = random.permuted(np.tile(scaled, (ORDERS_AT_ONCE, 1)), axis=1)
        larger += int((_scores(orders)[0] >= score * (1 - 1e-9)).sum())
        done += ORDERS_AT_ONCE
    return int(split) if larger <= MAX_SHARE_BY_CHANCE * ORDERS else None


def _scores(orders: Float64) -> tuple[Float64, Int64]:
    """For each order (first axis) of the runs the largest score of a split, and the run behind that split.

    Intervals have lengths that halve, from all runs on, and each length places that overlap by half.
    """
    runs = orders.shape[1]
    sums = np.concatenate([np.zeros((len(orders), 1)), np.cumsum(orders, axis=1)], axis=1)
    best, place, length = np.zeros(len(orders)), np.zeros(len(orders), np.int64), runs
    while length >= 2 * MIN_SIDE:
        low = np.append(np.arange(0, runs - length, max(length // 2, 1)), runs - length)[:, None]
        left = np.arange(MIN_SIDE, length - MIN_SIDE + 1)
        split, right = low + left, length - left
        means = (sums[:, split] - sums[:, low]) / left - (sums[:, low + length] - sums[:, split]) / right
        score = (np.abs(means) * np.sqrt(left * right / length)).reshape(len(orders), -1)
        index = score.argmax(axis=1)
        most = score[np.arange(len(orders)), index]
        place = np.where(most > best, split.ravel()[index], place)
        best, length = np.maximum(best, most), length // 2
    return best, place


def _last_split(values: Values, start: int) -> int | None:
    """The split at which the last runs leave the level that begins with `start`; None where they do not."""
    end = len(values)
    for count in range(min(MAX_LAST_RUNS, (end - start) // 2), 0, -1):
        before = level(values, start, end - count, 1.0 if count == 1 else OF_SEVERAL)
        last = range(end - count, end)
        found = {beyond(before, values.median[index], values.error[index]) for index in last}
        if found in ({Change.LESS}, {Change.MORE}):
            return end - count
    return None
