"""What a late rank ran longer or more often than the median rank, by name (R5.9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration
from tracetui.model.strings import Strings
from tracetui.ranks.matching import Matches
from tracetui.ranks.rank_summary import RankSummary

Float64 = NDArray[np.float64]

MAX_NAMED = 3
"""Names in a note, those with most excess."""
MIN_SLOWER_SHARE = 0.8
"""Minimum share of the kernel time that is slower by one factor where all kernels are said to be."""
FACTOR_SPREAD = 0.03
"""Share of the median factor by which the quartiles of the factors may differ from it."""
MIN_FACTOR = 1.03
"""Minimum factor that is worth a word."""
_COPIES = re.compile(r"^memcpy|^aten::copy_$|^aten::_?to_?copy", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class NameExcess:
    """Excess of a rank over the median rank by name: parallel columns, one entry per name."""

    names: Sequence[str]
    calls: Float64
    """Calls of the late rank in the stretches that were compared."""
    usual_calls: Float64
    """Calls of the median rank in the same."""
    time: Float64
    usual_time: Float64

    @property
    def extra(self) -> Float64:
        """Time in ns of the calls beyond those of the median rank."""
        beyond = np.maximum(self.calls - self.usual_calls, 0)
        return beyond * np.divide(self.time, self.calls, out=np.zeros(len(self.time)), where=self.calls > 0)

    @property
    def slower(self) -> Float64:
        """Time in ns by which the other calls took longer."""
        return self.time - self.usual_time - self.extra

    @property
    def extra_share(self) -> float:
        """Share of the excess that is of more calls or other names, rather than of longer ones."""
        extra, slower = max(float(self.extra.sum()), 0.0), max(float(self.slower.sum()), 0.0)
        return extra / (extra + slower) if extra + slower > 0 else 0.0

    @property
    def factor(self) -> float | None:
        """The factor by which nearly all kernels are slower, None where they have none in common."""
        both = (self.calls > 0) & (self.usual_calls > 0) & (self.usual_time > 0)
        if not both.any():
            return None
        mine, usual = self.time[both] / self.calls[both], self.usual_time[both] / self.usual_calls[both]
        weight = self.time[both]
        ratio = mine / usual
        low, middle, high = (_weighted(ratio, weight, share) for share in (0.25, 0.5, 0.75))
        near = np.abs(ratio - middle) <= 2 * FACTOR_SPREAD * middle
        steady = max(high - middle, middle - low) <= FACTOR_SPREAD * middle
        if middle < MIN_FACTOR or not steady or weight[near].sum() < MIN_SLOWER_SHARE * weight.sum():
            return None
        return middle

    @property
    def kernel_words(self) -> str:
        """What is slower, in words; a lower clock is a guess, for no trace says its clock."""
        factor = self.factor
        if factor is not None and int((self.calls > 0).sum()) > 1:
            return f"all by {factor:.2f}: a lower clock?"
        return self._longest(self.slower, "longer")

    @property
    def extra_words(self) -> str:
        """What there is more of, in words."""
        extra = self.extra
        if len(extra) == 0 or extra.max() <= 0:
            return ""
        copies = np.array([bool(_COPIES.search(name)) for name in self.names], bool)
        words = self._longest(extra, "more")
        return f"copies: {words}" if copies[int(extra.argmax())] else words

    def _longest(self, excess: Float64, how: str) -> str:
        order = [index for index in np.argsort(-excess, kind="stable").tolist() if excess[index] > 0][:MAX_NAMED]
        return ", ".join(f"{self.names[index]} {duration(float(excess[index]))} {how}" for index in order)


def name_excess(summaries: Sequence[RankSummary], matches: Matches, rows: Int64, usual: Int64) -> NameExcess:
    """What ran before some entries against what ran before others, pair by pair; pairs with a -1 are left out."""
    words = Strings()
    held = usual >= 0
    mine = _sums(summaries, matches, rows[held], words)
    other = _sums(summaries, matches, usual[held], words)
    size = len(words)
    padded = [np.pad(column, (0, size - len(column))) for column in (*mine, *other)]
    return NameExcess(words, padded[0], padded[2], padded[1], padded[3])


def _sums(summaries: Sequence[RankSummary], matches: Matches, rows: Int64, words: Strings) -> tuple[Float64, Float64]:
    """Calls and time in ns by name before some entries; an entry that stands twice counts twice."""
    calls, time = np.zeros(0), np.zeros(0)
    ranks = matches.entries.rank[rows]
    for rank in np.unique(ranks).tolist():
        summary = summaries[rank]
        entries = summary.stretch_names
        times = np.bincount(matches.entries.row[rows[ranks == rank]], minlength=len(summary.collectives))
        weight = times[entries.collective]
        texts = [summary.names[each] if each >= 0 else "others" for each in range(-1, len(summary.names))]
        used = np.unique(entries.name[weight > 0])
        ids = np.zeros(len(texts), np.int64)
        ids[used + 1] = [words.intern(texts[each + 1]) for each in used.tolist()]
        number = ids[entries.name + 1]
        calls = np.pad(calls, (0, len(words) - len(calls)))
        time = np.pad(time, (0, len(words) - len(time)))
        calls += np.bincount(number, entries.calls * weight, len(words))
        time += np.bincount(number, entries.time * weight, len(words))
    return calls, time


def _weighted(values: Float64, weight: Float64, share: float) -> float:
    """The value below which a share of the weight lies."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    index = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order[min(index, len(order) - 1)]])
