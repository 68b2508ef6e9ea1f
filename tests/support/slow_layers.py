"""The layers of one step, found slowly: plain lists of names, the rules of R3.80 and R3.81 in loops of their own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median


@dataclass(frozen=True)
class SlowKernel:
    """A kernel of a step, times in ns."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class SlowLayers:
    """Where each layer begins and where the last one ends, as positions in the kernels."""

    starts: list[int]
    end: int

    def times(self, kernels: list[SlowKernel]) -> list[int]:
        """From the start of each layer to the start of what follows it, in ns."""
        bounds = [*self.starts, self.end]
        last = min((each.start for each in kernels[self.end :]), default=max(each.end for each in kernels))
        begins = [min(each.start for each in kernels[bound:]) for bound in self.starts]
        return [b - a for a, b in zip(begins, [*begins[1:], last], strict=True)] if bounds else []


def slow_layers(names: list[str]) -> SlowLayers | None:
    """The layers that most names mark: names that occur equally often, each once between two of the first."""
    often = Counter(names)
    where = {name: [index for index, each in enumerate(names) if each == name] for name in often}
    best: list[str] = []
    for leader in sorted(often, key=lambda name: where[name][0]):
        count = often[leader]
        marks = [
            name
            for name in often
            if often[name] == count >= 3
            and all(a <= b for a, b in zip(where[leader], where[name], strict=True))
            and all(b < a for a, b in zip(where[leader][1:], where[name], strict=False))
        ]
        if len(marks) > max(len(best), 1):
            best = [leader, *(name for name in marks if name != leader)]
    if not best:
        return None
    starts = where[best[0]]
    shortest = min(b - a for a, b in pairwise(starts))
    back = 0
    while back + 1 < shortest and starts[0] - back > 0 and len({names[start - back - 1] for start in starts}) == 1:
        back += 1
    starts = [start - back for start in starts]
    return SlowLayers(starts, _end(names, starts, max(where[name][-1] for name in best) + 1))


def slow_series(names: list[str], times: list[int]) -> list[SlowLayers]:
    """The series of layers that repeat element by element, those with most time first, none of them a detail."""
    runs: dict[tuple[int, int], int] = {}
    for period in range(2, len(names) // 3 + 1):
        low = 0
        while low + 3 * period <= len(names):
            high = low + period
            while high < len(names) and names[high] == names[high - period]:
                high += 1
            if high - low >= 3 * period and len(set(names[low:high])) > 1:
                runs.setdefault((low, high), period)
            low = max(low + 1, high - period + 1)
    chosen: list[tuple[int, int]] = []
    for low, high in sorted(runs, key=lambda run: sum(times[run[0] : run[1]]), reverse=True):
        is_detail = 10 * (high - low) < len(names) and 10 * sum(times[low:high]) < sum(times)
        if not is_detail and all(high <= begin or end <= low for begin, end in chosen):
            chosen.append((low, high))
    found = []
    for low, high in sorted(chosen):
        period = runs[low, high]
        count = (high - low) // period
        found.append(SlowLayers([low + period * number for number in range(count)], low + period * count))
    return found


def _end(names: list[str], starts: list[int], least: int) -> int:
    """Where the last layer stops being like the layer before it that it is most like."""
    last, alike = names[starts[-1] :], 0
    for low, high in pairwise(starts):
        length = 0
        for a, b in zip(names[low:high], last, strict=False):
            if a != b:
                break
            length += 1
        alike = max(alike, length)
    return max(starts[-1] + alike, least)


def slow_medians(steps: list[list[SlowKernel]]) -> list[tuple[int, float]]:
    """Number of layers, and the median time of a layer in ns, of each step."""
    found = []
    for kernels in steps:
        layers = slow_layers([each.name for each in kernels])
        if layers:
            found.append((len(layers.starts), median(layers.times(kernels))))
    return found
